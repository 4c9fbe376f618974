"""Score the risk screen on labelled messages; write policies/crisis/measured.json for the protocol page.

usage: python scripts/measure_risk.py --set NAME "what it is" FILE.jsonl [--set ...]

A line: id, text, label (none, elevated, imminent), optionally history and also_ok. Prints the table too, with every
category that misses, so that what is published is looked at first.
"""

import argparse
import collections
import json
import math
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bot.cli.screen import every_stage  # noqa: E402

OUT = ROOT / "policies" / "crisis" / "measured.json"


def wilson(hits, of):
    z = 1.96
    p = hits / of if of else 0.0
    scale = 1 + z * z / of if of else 1.0
    middle = (p + z * z / (2 * of)) / scale if of else 0.0
    spread = z * math.sqrt(p * (1 - p) / of + z * z / (4 * of * of)) / scale if of else 0.0
    return p, max(0.0, middle - spread), min(1.0, middle + spread)


def rate(what, hits, of):
    p, low, high = wilson(hits, of)
    return {
        "what": what,
        "hits": hits,
        "of": of,
        "rate": f"{p:.3f}",
        "low": f"{low:.3f}",
        "high": f"{high:.3f}",
    }


def score(name, about, path, stages, parser):
    cases = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines() if line.strip()]
    for case in cases:
        verdict = stages.judge(case["text"], history=case.get("history") or [], parser=parser)
        case["found"] = verdict.level.value
        case["right"] = verdict.level.value in (case["label"], *(case.get("also_ok") or []))
    of = {label: [c for c in cases if c["label"] == label] for label in ("imminent", "elevated", "none")}

    def count(label, holds):
        return sum(bool(holds(c)) for c in of[label]), len(of[label])

    rows = [
        rate("danger now, noticed at any level", *count("imminent", lambda c: c["found"] != "none")),
        rate(
            "danger now, called danger now",
            *count("imminent", lambda c: c["found"] == "imminent" or c["right"]),
        ),
        rate("signs of danger, noticed", *count("elevated", lambda c: c["found"] != "none")),
        rate("harmless, taken for danger", *count("none", lambda c: c["found"] != "none" and not c["right"])),
        rate("harmless, taken for danger now", *count("none", lambda c: c["found"] == "imminent")),
    ]
    missed = collections.Counter(
        (c["label"], c.get("lang") or c.get("category", "?"))
        for c in cases
        if (c["found"] == "none") != (c["label"] == "none") and not c["right"]
    )
    print(f"{name}: {len(cases)} messages")
    for row in rows:
        print(
            f"  {row['what']:40} {row['hits']:4}/{row['of']:<4} {row['rate']} [{row['low']}, {row['high']}]"
        )
    for (label, category), n in sorted(missed.items()):
        total = sum(
            c["label"] == label and (c.get("lang") or c.get("category", "?")) == category for c in cases
        )
        print(f"    wrong {label:9} {category:24} {n}/{total}")
    return {"name": name, "about": about, "rows": rows}


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument(
        "--set", nargs=3, action="append", required=True, metavar=("NAME", "ABOUT", "FILE")
    )
    arguments.add_argument("--dry-run", action="store_true", help="print only")
    given = arguments.parse_args()
    stages, parser = every_stage()
    sets = [score(name, about, path, stages, parser) for name, about, path in given.set]
    if not given.dry_run:
        OUT.write_text(json.dumps({"sets": sets}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
