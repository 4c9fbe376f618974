"""Check an exported audit log of raise-chat. Standard library only; read it before you trust it.

usage: python verify_log.py LOG.jsonl [HEADS.txt]

LOG.jsonl: what `raise-chat privacy export-log` printed, one entry a line.
HEADS.txt: lines "number hash time" that you were given or wrote down earlier ('raise-chat privacy head' prints one).

Each entry's hash is the SHA-256 of its number, time, kind, subject, counts and the hash before it, one a line. Without
heads this shows that the log agrees with itself; a log that was rewritten from end to end, cut at its end or replaced by
an older copy agrees with itself too, and only a head that you kept tells. Exit code 0: whole, 1: broken, 2: wrong use.
"""

import hashlib
import json
import sys

PARTS = ("number", "at", "kind", "subject", "counts", "before")


def check(lines, heads):
    """The number of entries; raises ValueError with the place of the first thing that is wrong."""
    seen, pruned, first, last, before = {}, {}, None, 0, "0" * 64
    for line_number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            told = [str(entry[part]) for part in PARTS]
            number = int(entry["number"])
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"line {line_number}: not an entry of a log")
        if first is None:
            first, last, before = number, number - 1, before if number == 1 else entry["before"]
            start = entry["before"]
        if number != last + 1:
            raise ValueError(f"line {line_number}: entry {last + 1} should stand here, entry {number} does")
        if entry["before"] != before:
            raise ValueError(f"line {line_number}: entry {number} does not follow from the one before")
        if hashlib.sha256("\n".join(told).encode()).hexdigest() != entry["hash"]:
            raise ValueError(f"line {line_number}: entry {number} was changed")
        if entry["kind"] == "purge" and "log_pruned_to" in entry["counts"]:
            counts = json.loads(entry["counts"])
            pruned[counts["log_pruned_to"]] = counts["log_pruned_hash"]
        seen[number], last, before = entry["hash"], number, entry["hash"]
    if first is not None and first > 1 and pruned.get(first - 1) != start:
        raise ValueError(f"entries 1 to {first - 1} are missing, and no entry says that their time was up")
    good = (first or 1) - 1
    for number, hash_seen in sorted(heads.items()):
        if number > last:
            raise ValueError(f"entry {number} was seen before: the log was cut after {last}, or rolled back")
        if number >= (first or 1) and seen[number] != hash_seen:
            raise ValueError(f"entry {number} is another than was seen: rewritten after entry {good}")
        good = number
    return len(seen)


def main():
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    heads = {}
    try:
        for line in open(sys.argv[2], encoding="utf-8") if len(sys.argv) == 3 else ():
            if line.strip():
                heads[int(line.split()[0])] = line.split()[1]
        with open(sys.argv[1], encoding="utf-8") as log:
            count = check(log, heads)
    except (OSError, IndexError) as wrong:
        print(f"cannot be read: {wrong}", file=sys.stderr)
        return 2
    except ValueError as broken:
        print(f"broken: {broken}")
        return 1
    print(f"whole: {count} entries, {len(heads)} heads seen before")
    return 0


if __name__ == "__main__":
    sys.exit(main())
