"""What a redaction is, for those who need it without Presidio and spaCy."""

from __future__ import annotations

from dataclasses import dataclass, field

from privacy.reading import Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Something personal in a text.

    Attributes:
        start: first character.
        end: after the last one.
        type: of the entity, such as PERSON.
        score: 0 to 1.
    """

    start: int
    end: int
    type: str
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Redaction:
    """What one pass over a text gave.

    Attributes:
        spans: in order, none overlapping.
        reading: the grammar of the message, for the risk screen.
    """

    spans: tuple[Span, ...]
    reading: Reading | None = field(default=None, repr=False)
