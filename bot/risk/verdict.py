"""The words the risk screen speaks: level, category, subject, verdict, and the state that sticks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class RiskLevel(StrEnum):
    """How much danger a person may be in now."""

    NONE = "none"
    ELEVATED = "elevated"
    IMMINENT = "imminent"

    @property
    def rank(self) -> int:
        """0 for none, 2 for imminent."""
        return _RANK[self]


_RANK = {RiskLevel.NONE: 0, RiskLevel.ELEVATED: 1, RiskLevel.IMMINENT: 2}


def highest(*levels: RiskLevel) -> RiskLevel:
    """The most serious of several levels; none of nothing."""
    return max(levels, key=lambda level: level.rank, default=RiskLevel.NONE)


class Category(StrEnum):
    """What kind of danger; each has its own words and its own kind of line."""

    SUICIDE = "suicide"
    SELF_INJURY = "self_injury"
    HARM_TO_OTHERS = "harm_others"
    DOMESTIC_VIOLENCE = "domestic_violence"
    CHILD_ABUSE = "child_abuse"
    SEXUAL_EXPLOITATION = "sexual_exploitation"
    MEDICAL_EMERGENCY = "medical_emergency"
    EATING_DISORDER = "eating_disorder"
    PSYCHOSIS = "psychosis"
    SUBSTANCE = "substance"


class Subject(StrEnum):
    """Who is in danger."""

    SELF = "self"
    CHILD = "child"
    OTHER_ADULT = "other_adult"
    NOT_REAL = "not_real"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the screen found in one message, given the conversation before it.

    Attributes:
        level: the level of this message in its conversation.
        categories: kinds of danger, most serious first.
        subject: who is in danger.
        rules: names of the rules that fired.
        flags: ideas found (loss, means, ...), for combinations over turns.
        why: why the level was kept, raised or lowered, in words; never the person's text.
        by_combination: the level comes from ideas put together, over turns perhaps, and from no single rule.
        held: rules that matched and were held back, each with what held it back.
        language: the message is in, ISO 639-1; "" where nobody looked or it is not clear.
    """

    level: RiskLevel = RiskLevel.NONE
    categories: tuple[Category, ...] = ()
    subject: Subject = Subject.SELF
    rules: tuple[str, ...] = ()
    flags: frozenset[str] = frozenset()
    why: str = "nothing found"
    by_combination: bool = False
    held: tuple[str, ...] = ()
    language: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskState:
    """What sticks from turn to turn.

    Attributes:
        level: never falls by itself; `bot.risk.state` holds the only rules that lower it.
        categories: every kind of danger seen, first seen first.
        subject: whom the most serious message was about.
        flags: every idea seen so far.
        safe_statements: statements of safety since the level last rose.
        turns_since: turns since the level last rose or was confirmed.
        cards: crisis cards shown.
    """

    level: RiskLevel = RiskLevel.NONE
    categories: tuple[Category, ...] = ()
    subject: Subject = Subject.SELF
    flags: frozenset[str] = field(default=frozenset())
    safe_statements: int = 0
    turns_since: int = 0
    cards: int = 0

    def to_json(self) -> dict[str, Any]:
        """A JSON object that `from_json` reads back equal."""
        return {
            "level": self.level.value,
            "categories": [c.value for c in self.categories],
            "subject": self.subject.value,
            "flags": sorted(self.flags),
            "safe_statements": self.safe_statements,
            "turns_since": self.turns_since,
            "cards": self.cards,
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> RiskState:
        """Read what `to_json` wrote."""
        return cls(
            level=RiskLevel(raw["level"]),
            categories=tuple(Category(c) for c in raw["categories"]),
            subject=Subject(raw["subject"]),
            flags=frozenset(raw["flags"]),
            safe_statements=raw["safe_statements"],
            turns_since=raw["turns_since"],
            cards=raw["cards"],
        )
