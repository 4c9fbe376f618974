"""The log of a run: one folder that explains itself, can be read while it grows, and goes on after a kill.

`run.json` says what was run, with what, and how it ended. `samples.jsonl` has one line a sample and arm, in order; while the
run is under way they stand in `samples.jsonl.part` in the order they were finished. `timings.jsonl` has the seconds, apart, so
that two runs of the same calls have the same samples. `calls.jsonl` is the caller's: every completion that was paid for.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Self, TextIO

from policies.errors import PenguinError

SCHEMA = 1
HEADER, SAMPLES, PART, TIMINGS, CALLS, LOCK = (
    "run.json", "samples.jsonl", "samples.jsonl.part", "timings.jsonl", "calls.jsonl", ".lock",
)  # fmt: skip


class Hold:
    """A run's folder, held by one writer at a time. Taken before anything in it is touched."""

    def __init__(self, folder: Path) -> None:
        """Take it.

        Raises:
            PenguinError: somebody else has it, it holds something that is no run, or it cannot be written.
        """
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            others = [p.name for p in folder.iterdir() if p.name not in (LOCK, CALLS, HEADER + ".new")]
            if others and not (folder / HEADER).exists():
                raise PenguinError(f"{folder}: is not empty and holds no run; give another --out")
            self._lock: TextIO = (folder / LOCK).open("a", encoding="utf-8")
        except OSError as bad:
            raise PenguinError(f"{folder}: cannot be used ({bad.strerror})") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise PenguinError(
                f"{folder}: another run writes it; wait for that, or give another --out"
            ) from None

    def close(self) -> None:
        """Let it go."""
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RunLog:
    """The folder of one run, open for writing. One writer at a time."""

    def __init__(
        self, hold: Hold, about: Mapping[str, Any], environment: Mapping[str, Any], *, at: datetime
    ) -> None:
        """Begin, or go on.

        Args:
            hold: of the folder.
            about: all that decides its results; a run with another one is refused.
            environment: revision and packages, for the record of this session.
            at: now.

        Raises:
            PenguinError: the folder is another run's, or damaged.
        """
        self.folder = hold.folder
        self.header = self._opened(about)
        self.done: dict[str, str] = {}
        """Keys of finished lines, and why each is unscored ("" where it is not)."""
        self._read_done()
        self.header["sessions"].append({"started_at": at.isoformat(), **environment})
        self.header["status"] = "running"
        self._write_header()
        self._part: TextIO = (self.folder / PART).open("a", encoding="utf-8")
        self._timings: TextIO = (self.folder / TIMINGS).open("a", encoding="utf-8")

    def _opened(self, about: Mapping[str, Any]) -> dict[str, Any]:
        if not (self.folder / HEADER).exists():
            return {"schema": SCHEMA, "about": dict(about), "status": "new", "sessions": []}
        header = read_header(self.folder)
        if header["about"] != json.loads(json.dumps(about)):
            names = {*about, *header["about"]}
            other = sorted(n for n in names if header["about"].get(n) != json.loads(json.dumps(about)).get(n))
            raise PenguinError(
                f"{self.folder}: was begun with another {', '.join(other)}; give another --out, or the old settings"
            )
        return header

    def _read_done(self) -> None:
        """Lines that a kill left, a torn last one cut off."""
        path = self.folder / PART
        if not path.exists():
            if (self.folder / SAMPLES).exists():
                for line in records(self.folder):
                    self.done[key_of(line)] = line["unscored"]
                (self.folder / SAMPLES).replace(path)
            return
        data = path.read_bytes()
        whole = data.rfind(b"\n") + 1
        for number, text in enumerate(data[:whole].splitlines(), 1):
            try:
                raw = json.loads(text)
                self.done[key_of(raw)] = raw["unscored"]
            except (ValueError, KeyError, TypeError):
                raise PenguinError(
                    f"{path}, line {number}: damaged; take the line out and run again, the calls it took are kept"
                ) from None
        with path.open("r+b") as file:
            file.truncate(whole)

    def _write_header(self) -> None:
        part = self.folder / (HEADER + ".new")
        try:
            part.write_text(json.dumps(self.header, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            part.replace(self.folder / HEADER)
        except OSError as full:
            raise PenguinError(f"{self.folder / HEADER}: cannot be written ({full.strerror})") from full

    def add(self, record: Mapping[str, Any], *, seconds: float) -> None:
        """A sample is finished in an arm.

        Raises:
            PenguinError: it cannot be written.
        """
        try:
            self._part.write(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n")
            self._part.flush()
            self._timings.write(json.dumps({"key": key_of(record), "seconds": round(seconds, 3)}) + "\n")
            self._timings.flush()
        except OSError as full:
            raise PenguinError(
                f"{self.folder}: cannot be written ({full.strerror}); nothing more is paid for"
            ) from full
        self.done[key_of(record)] = record["unscored"]

    def close(self, status: str, found: Mapping[str, Any], order: Mapping[str, int], *, at: datetime) -> None:
        """The run ends: done, stopped, waiting or interrupted. A run that is done gets its lines put in order."""
        self._part.close()
        self._timings.close()
        if status == "done":
            self._sorted(order)
        self.header |= {"status": status, **found}
        self.header["sessions"][-1] |= {"ended_at": at.isoformat(), "status": status}
        self._write_header()

    def _sorted(self, order: Mapping[str, int]) -> None:
        """Lines by sample and arm, one at a time in memory."""
        path, out = self.folder / PART, self.folder / (SAMPLES + ".new")
        places: list[tuple[int, int]] = []
        with path.open("rb") as file:
            at = 0
            for line in file:
                places.append((order[key_of(json.loads(line))], at))
                at += len(line)
            with out.open("wb") as written:
                for _, at in sorted(places):
                    file.seek(at)
                    written.write(file.readline())
        out.replace(self.folder / SAMPLES)
        path.unlink()


def key_of(record: Mapping[str, Any]) -> str:
    """What names a line: sample and arm."""
    return f"{record['sample']}/{record['arm']}"


def read_header(folder: Path) -> dict[str, Any]:
    """What a run says of itself.

    Raises:
        PenguinError: there is no run, or it is of another version.
    """
    path = folder / HEADER
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise PenguinError(f"{folder}: no run in it (no {HEADER})") from None
    except ValueError:
        raise PenguinError(f"{path}: not JSON") from None
    if not isinstance(header, dict) or header.get("schema") != SCHEMA:
        raise PenguinError(f"{path}: not a run of this version (schema {SCHEMA})")
    return header


def records(folder: Path) -> Iterator[dict[str, Any]]:
    """The lines of a run, finished or under way.

    Raises:
        PenguinError: a line within it is damaged.
    """
    path = folder / SAMPLES
    if not path.exists():
        path = folder / PART
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                raw = json.loads(line)
            except ValueError:
                raise PenguinError(f"{path}, line {number}: damaged") from None
            yield raw


def seconds(folder: Path) -> dict[str, float]:
    """How long each line took, by its key."""
    path = folder / TIMINGS
    if not path.exists():
        return {}
    found = {}
    for line in path.read_text(encoding="utf-8").split("\n"):
        with suppress(ValueError, KeyError, TypeError):  # a kill tears a line: one conversation is not timed
            row = json.loads(line)
            found[row["key"]] = float(row["seconds"])
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What the calls of one sample in one arm took, the judge's apart.

    Attributes:
        calls: of the chat.
        seconds: of them, added up, from request to the end of the answer.
        prompt_tokens: of all calls, the judge's too.
        completion_tokens: the same.
        is_estimated: the endpoint told no tokens, so that they are told by length.
    """

    calls: int = 0
    seconds: float = 0.0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    is_estimated: bool = False


def calls_made(folder: Path, judged: str) -> dict[str, Made]:
    """What the calls of each line took, by its key.

    Args:
        folder: of the run.
        judged: ends the key of the judge's calls.
    """
    path = folder / CALLS
    found: dict[str, Made] = {}
    if not path.exists():
        return found
    with path.open("rb") as file:
        for line in file:
            with suppress(ValueError, KeyError, TypeError):
                raw = json.loads(line)
                key = raw["key"].removesuffix(judged)
                one = found.get(key, Made())
                is_chat = key == raw["key"]
                found[key] = Made(
                    calls=one.calls + is_chat,
                    seconds=one.seconds + (raw.get("ms", 0) / 1000 if is_chat else 0.0),
                    prompt_tokens=one.prompt_tokens + raw.get("in", 0),
                    completion_tokens=one.completion_tokens + raw.get("out", 0),
                    is_estimated=one.is_estimated or bool(raw.get("estimated")),
                )
    return found
