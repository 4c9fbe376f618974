"""How long each kind of record lives, what the time is counted from, and what then happens: `policies/retention.yaml`.

Storage limitation, GDPR Art. 5(1)(e): every kind has a rule, and every rule a reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Any, Final

from dateutil.relativedelta import relativedelta

from policies.errors import PolicyFileError
from policies.files import key_lines, read_yaml

NEVER: Final = datetime(9999, 12, 31, tzinfo=UTC)
"""No date yet: what waits for a withdrawal that has no bound."""
_LONGEST = relativedelta(years=100)
_UNITS: Final = {"hour": "hours", "day": "days", "week": "weeks", "month": "months", "year": "years"}
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)

PERSONAL: Final = (
    "participant", "consent", "session", "stable_attribute", "volatile_attribute", "turn", "transcript", "decision",
    "ledger", "safety_plan", "feedback", "escalation", "enrolment", "staff", "login", "questionnaire", "deviation",
)  # fmt: skip
"""Categories of rows that belong to a person."""
NOBODYS: Final = ("counts", "audit_log", "legal_hold", "exports", "logs", "uploads")
"""Categories of what belongs to nobody: counts, the log, and files on disk."""
CATEGORIES: Final = (*PERSONAL, *NOBODYS)
COUNTED: Final = ("decision", "feedback", "escalation", "ledger")
"""Categories of which counts may be kept when the rows go."""


class Anchor(StrEnum):
    """What a time is counted from."""

    COLLECTION = "collection"
    LAST_ACTIVITY = "last activity"
    END_OF_STUDY = "end of study"
    WITHDRAWAL = "withdrawal"


class Ending(StrEnum):
    """What happens when the time is up."""

    DELETE = "delete"
    COUNTS = "keep the counts"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRule:
    """The rule of one category.

    Attributes:
        category: what it is for.
        keep: the duration as it was written.
        lasts: the duration, in calendar units.
        anchor: what it is counted from.
        at_most: a bound from collection, for what waits for a withdrawal.
        ending: what then happens.
        reason: why so long, legal or of the study.
    """

    category: str
    keep: str
    lasts: relativedelta
    anchor: Anchor
    at_most: relativedelta | None
    ending: Ending
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPolicy:
    """The rules of one deployment.

    Attributes:
        rules: by category.
        sweep: when the sweep runs, a cron expression in UTC.
        study_ends: the end of the study, where one is set.
        source: the file.
        digest: SHA-256 of the file, and of the study's end where a rule counts from it.
    """

    rules: Mapping[str, RetentionRule]
    sweep: str
    study_ends: datetime | None
    source: str
    digest: str

    def until(self, category: str, at: datetime, *, withdrawn: datetime | None = None) -> datetime:
        """When a record of this category goes.

        Args:
            category: of the record.
            at: when it was collected, or last active where the rule counts from that; aware UTC.
            withdrawn: when its person took every yes back, if they did.
        """
        rule = self.rules[category]
        if rule.anchor is Anchor.END_OF_STUDY and self.study_ends is not None:
            return _plus(self.study_ends, rule.lasts)
        if rule.anchor is Anchor.WITHDRAWAL:
            bound = _plus(at, rule.at_most) if rule.at_most is not None else NEVER
            return min(bound, _plus(withdrawn, rule.lasts)) if withdrawn else bound
        return _plus(at, rule.lasts)

    def counted_from(self, category: str) -> str:
        """What its time is counted from, in words."""
        return self.rules[category].anchor.value

    def keeps_counts(self, category: str) -> bool:
        """Whether its rows leave counts behind."""
        return self.rules[category].ending is Ending.COUNTS

    def describe(self, category: str) -> dict[str, str]:
        """The rule in words: keep, from, then, reason."""
        rule = self.rules[category]
        bound = f", {_in_words(rule.at_most)} at most" if rule.at_most is not None else ""
        return {
            "keep": rule.keep + bound, "from": rule.anchor.value, "then": rule.ending.value, "reason": rule.reason,
        }  # fmt: skip

    def days(self, category: str) -> int:
        """How long it lives in whole days, for texts that say so."""
        return (_plus(_EPOCH, self.rules[category].lasts) - _EPOCH).days


def duration(text: str) -> tuple[relativedelta, Anchor | None]:
    """A duration as people write it: "24 hours", "30 days", "6 months", "end of study + 1 year".

    Raises:
        ValueError: it is none, is nothing, or is longer than 100 years.
    """
    anchor = None
    rest = text.strip().lower()
    for name in Anchor:
        if rest.startswith(name.value):
            anchor, rest = name, rest.removeprefix(name.value).strip()
            if not rest.startswith("+"):
                raise ValueError(f'{text!r}: write "{name.value} + 1 year"')
            rest = rest.removeprefix("+").strip()
    found = re.fullmatch(r"(\d{1,6})\s+(hour|day|week|month|year)s?", rest)
    if found is None or not int(found[1]):
        raise ValueError(
            f'{text!r}: write a duration such as "24 hours", "30 days", "3 years" or "end of study + 1 year"'
        )
    lasts = relativedelta(**{_UNITS[found[2]]: int(found[1])})
    try:
        is_too_long = _EPOCH + lasts > _EPOCH + _LONGEST
    except (OverflowError, ValueError):
        is_too_long = True
    if is_too_long:
        raise ValueError(f"{text!r}: nothing is kept for longer than 100 years")
    return lasts, anchor


def load(path: Path, *, study_ends: datetime | None = None) -> RetentionPolicy:
    """The rules of a file.

    Args:
        path: of the file.
        study_ends: the end of the study, aware UTC; needed where a rule counts from it.

    Raises:
        PolicyFileError: a category is unknown, missing or twice there, a rule contradicts itself or another, or a
            duration is impossible; the message names file, line and value.
    """
    raw, lines = read_yaml(path), key_lines(path)
    if not isinstance(raw, dict) or not isinstance(raw.get("rules"), dict):
        raise PolicyFileError(f'{path}: needs "sweep" and "rules", a mapping from category to rule')
    unknown = sorted(set(raw) - {"sweep", "rules"})
    if unknown:
        raise PolicyFileError(f"{path}, line {lines.get((unknown[0],), 1)}: {unknown[0]}: not known here")
    sweep = raw.get("sweep")
    if not isinstance(sweep, str) or len(sweep.split()) != _CRON_FIELDS:
        raise PolicyFileError(
            f'{path}, line {lines.get(("sweep",), 1)}: sweep: write five cron fields, such as "17 * * * *"'
        )
    rules: dict[str, RetentionRule] = {}
    for category, rule in raw["rules"].items():
        line = lines.get(("rules", str(category)), 1)
        try:
            if category not in CATEGORIES:
                raise ValueError(f"no such category (known are {', '.join(CATEGORIES)})")  # noqa: TRY301
            rules[category] = _rule(category, rule, has_end=study_ends is not None)
        except ValueError as bad:
            raise PolicyFileError(f"{path}, line {line}: {category}: {bad}") from None
    missing = [c for c in CATEGORIES if c not in rules]
    if missing:
        raise PolicyFileError(f"{path}: no rule for {missing[0]}")
    _agree(path, rules, lines)
    counts_from_end = any(r.anchor is Anchor.END_OF_STUDY for r in rules.values())
    told = path.read_bytes() + (str(study_ends).encode() if counts_from_end else b"")
    return RetentionPolicy(
        rules=rules, sweep=sweep, study_ends=study_ends, source=str(path), digest=sha256(told).hexdigest()
    )


@lru_cache(maxsize=1)
def shipped() -> RetentionPolicy:
    """The rules that ship."""
    return load(PATH)


PATH = Path(str(resources.files("policies") / "retention.yaml"))
_CRON_FIELDS = 5
_KEYS = frozenset({"keep", "from", "then", "at_most", "reason"})
_SHORTEST_REASON = 20


def _plus(at: datetime, lasts: relativedelta) -> datetime:
    """Calendar arithmetic: a year after 29 February is 28 February."""
    try:
        then: datetime = at + lasts
    except (OverflowError, ValueError):
        return NEVER
    return then


def _rule(category: str, raw: Any, *, has_end: bool) -> RetentionRule:
    """One rule.

    Raises:
        ValueError: something of it is missing, unknown or impossible.
    """
    if not isinstance(raw, dict):
        raise ValueError("a rule needs keep and reason")  # noqa: TRY004 (told with file and line)
    unknown = sorted(set(raw) - _KEYS)
    if unknown:
        raise ValueError(f"{unknown[0]}: not known in a rule ({', '.join(sorted(_KEYS))})")
    reason = raw.get("reason")
    if not isinstance(reason, str) or len(reason.strip()) < _SHORTEST_REASON:
        raise ValueError("reason: say why it is kept so long, in a sentence")
    lasts, said = duration(str(raw.get("keep", "")))
    try:
        anchor = Anchor(raw["from"]) if "from" in raw else said or Anchor.COLLECTION
        ending = Ending(raw.get("then", Ending.DELETE.value))
    except ValueError:
        raise ValueError(f"from is one of {', '.join(Anchor)}; then is one of {', '.join(Ending)}") from None
    if said is not None and said is not anchor:
        raise ValueError(f'keep counts from "{said.value}" and from says "{anchor.value}"')
    if anchor is not Anchor.COLLECTION and category in NOBODYS:
        raise ValueError(f'it belongs to nobody, so it cannot be counted from "{anchor.value}"')
    if anchor is Anchor.END_OF_STUDY and not has_end:
        raise ValueError("it counts from the end of the study, and none is set: set RAISE_STUDY_ENDS")
    if ending is Ending.COUNTS and category not in COUNTED:
        raise ValueError(f"no counts are made of it (they are of {', '.join(COUNTED)})")
    at_most = duration(str(raw["at_most"])) if "at_most" in raw else None
    if (at_most is not None) != (anchor is Anchor.WITHDRAWAL):
        raise ValueError("at_most goes with, and only with, what waits for a withdrawal")
    if at_most is not None and at_most[1] is not None:
        raise ValueError("at_most is a plain duration from collection")
    return RetentionRule(
        category=category, keep=str(raw["keep"]).strip(), lasts=lasts, anchor=anchor,
        at_most=at_most[0] if at_most else None, ending=ending, reason=reason.strip(),
    )  # fmt: skip


_NO_LONGER: Final = (("volatile_attribute", "stable_attribute"), ("turn", "transcript"))
"""Pairs of which the first may not outlive the second."""


def _agree(path: Path, rules: Mapping[str, RetentionRule], lines: Mapping[tuple[str, ...], int]) -> None:
    for shorter, longer in _NO_LONGER:
        one, other = rules[shorter], rules[longer]
        if one.anchor is other.anchor and _EPOCH + one.lasts > _EPOCH + other.lasts:
            raise PolicyFileError(
                f"{path}, line {lines.get(('rules', shorter), 1)}: {shorter}: lives longer than {longer}"
            )


def _in_words(lasts: relativedelta) -> str:
    told = [(lasts.years, "year"), (lasts.months, "month"), (lasts.days, "day"), (lasts.hours, "hour")]
    return ", ".join(f"{n} {unit}{'s' * (n != 1)}" for n, unit in told if n)
