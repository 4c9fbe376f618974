"""How well redaction does on labelled messages: covered, precision, messages fully protected, clean messages altered.

Covered counts a span when every letter and digit of it is gone, under any label; precision counts merged redactions that
touch something labelled.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from privacy.spans import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """One message with what is personal in it."""

    id: str
    text: str = field(repr=False)
    spans: tuple[tuple[int, int, str], ...]


@dataclass(slots=True, kw_only=True)
class RedactionScore:
    """Counts over a set.

    Attributes:
        spans: labelled spans.
        covered: of them, those that are gone.
        found: redactions, merged.
        right: of them, those that touch a labelled span.
        messages: with something personal.
        protected: of them, those with nothing left.
        clean: messages without.
        altered: of them, those in which something was redacted.
        by_type: spans and covered by type.
        found_by_type: redactions, and those that touch a labelled span, by the type they were given.
    """

    spans: int = 0
    covered: int = 0
    found: int = 0
    right: int = 0
    messages: int = 0
    protected: int = 0
    clean: int = 0
    altered: int = 0
    by_type: dict[str, tuple[int, int]] = field(default_factory=dict)
    found_by_type: dict[str, tuple[int, int]] = field(default_factory=dict)


def shipped(path: Path | None = None) -> tuple[Labelled, ...]:
    """The labelled messages that ship, or those of a file in the same form."""
    path = path or Path(str(resources.files("privacy") / "labelled" / "messages.jsonl"))
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    return tuple(
        Labelled(
            id=r["id"], text=r["text"], spans=tuple((s["start"], s["end"], s["type"]) for s in r["spans"])
        )
        for r in rows
    )


def score(cases: Iterable[Labelled], redact: Callable[[str], Sequence[Span]]) -> RedactionScore:
    """Redact every message and count."""
    total = RedactionScore()
    for case in cases:
        spans = redact(case.text)
        mask = bytearray(len(case.text))
        for span in spans:
            mask[span.start : span.end] = b"\1" * (span.end - span.start)
        every = True
        for start, end, kind in case.spans:
            gone = all(mask[i] for i in range(start, end) if case.text[i].isalnum())
            many, well = total.by_type.get(kind, (0, 0))
            total.by_type[kind] = (many + 1, well + gone)
            total.spans, total.covered = total.spans + 1, total.covered + gone
            every = every and gone
        for found in spans:
            many, well = total.found_by_type.get(found.type, (0, 0))
            is_right = any(found.start < b and a < found.end for a, b, _ in case.spans)
            total.found_by_type[found.type] = (many + 1, well + is_right)
        for start, end in _merged(spans):
            total.found += 1
            total.right += any(start < b and a < end for a, b, _ in case.spans)
        if case.spans:
            total.messages, total.protected = total.messages + 1, total.protected + every
        else:
            total.clean, total.altered = total.clean + 1, total.altered + bool(spans)
    return total


def wilson(hits: int, of: int) -> tuple[float, float]:
    """The 95 % Wilson interval of a share (Wilson 1927)."""
    if not of:
        return 0.0, 1.0
    share, z = hits / of, 1.96
    middle, half = share + z * z / (2 * of), z * ((share * (1 - share) + z * z / (4 * of)) / of) ** 0.5
    return (middle - half) / (1 + z * z / of), (middle + half) / (1 + z * z / of)


def _merged(spans: Sequence[Span]) -> list[tuple[int, int]]:
    out: list[tuple[int, int]] = []
    for start, end in sorted((s.start, s.end) for s in spans):
        if out and start < out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out
