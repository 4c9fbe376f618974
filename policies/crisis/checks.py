"""What must hold of the help lines before a person may be shown them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date

from policies.crisis import NEVER, Country, Directory

OLDEST_DAYS = 180
"""Days after which an entry counts as unchecked (`CHECKLIST` behaviour 14)."""
RETIRED_KEYWORDS = (
    ("US", re.compile(r"988\D{0,12}press 3", re.IGNORECASE), "988 press 3 ended on 2025-07-17"),
    ("US", re.compile(r"\btext NEDA\b", re.IGNORECASE), "the NEDA text keyword is obsolete"),
)
RETIRED = {
    "18009312237": "NEDA's helpline closed in 2023",
    "18334564566": "now 988",
    "1393": "now 109",
    "18002214444": "now 1767",
    "0379568144": "now 03-7627 2929",
    "0379568145": "now 03-7627 2929",
    "08457909090": "now 116 123",
}
"""Numbers that old lists still carry, whatever a file says of itself."""
FEWEST_PAIRS = 1
MUST_HAVE = {
    "PT": "1411",
    "ES": "024",
    "FR": "3114",
    "KR": "109",
    "SG": "1767",
    "US": "988",
    "CA": "988",
    "GB": "116123",
}
"""National lines that newer sources agree on: a file without them is an old one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong, or will be.

    Attributes:
        is_error: False for a warning.
        kind: "retired", "date", "old", "pair", "emergency", "missing", "wording".
        where: country and line.
        problem: what to do about it, in words.
    """

    is_error: bool
    kind: str
    where: str
    problem: str


def digits(number: str) -> str:
    """The digits of a number, for comparing."""
    return re.sub(r"\D", "", number)


def check_directory(directory: Directory, *, today: date, is_study: bool) -> list[Finding]:
    """Everything wrong with a directory on a day.

    Args:
        directory: of help lines.
        today: the day it is to be used.
        is_study: entries that are too old are an error rather than a warning.
    """
    found: list[Finding] = []
    for country in directory.countries.values():
        found.extend(_check_country(country, directory))
        found.extend(
            Finding(
                is_error=is_study,
                kind="old",
                where=f"{country.iso}: {line.name}",
                problem=f"last checked {(today - line.verified_on).days} days ago; check it on the provider's page",
            )
            for line in country.lines
            if line.verified_on != NEVER and (today - line.verified_on).days > OLDEST_DAYS
        )
        found.extend(
            Finding(
                is_error=True,
                kind="date",
                where=f"{country.iso}: {line.name}",
                problem="has no date of checking",
            )
            for line in country.lines
            if line.verified_on == NEVER
        )
        found.extend(
            Finding(
                is_error=True,
                kind="date",
                where=f"{country.iso}: {line.name}",
                problem="checked in the future",
            )
            for line in country.lines
            if line.verified_on > today
        )
    found.extend(_check_pairs(directory))
    return found


def _check_country(country: Country, directory: Directory) -> list[Finding]:
    found: list[Finding] = []
    retired = directory.retired
    for line in country.lines:
        where = f"{country.iso}: {line.name}"
        found.extend(
            Finding(is_error=True, kind="retired", where=where, problem=f"{number} is retired; take it out")
            for number in (line.phone, line.sms, *line.also)
            if number and (digits(number) in retired or digits(number) in RETIRED)
        )
        found.extend(
            Finding(is_error=True, kind="retired", where=where, problem=why)
            for iso, pattern, why in RETIRED_KEYWORDS
            if iso == country.iso and pattern.search(line.name)
        )
        if not line.sources:
            found.append(Finding(is_error=True, kind="missing", where=where, problem="names no source"))
    if not country.emergency:
        known = country.emergency_note
        found.append(
            Finding(
                is_error=not known,
                kind="emergency",
                where=country.iso,
                problem=f"no emergency number that sources agree on: {known}"
                if known
                else "no emergency number and no word why; people there would be shown none",
            )
        )
    wanted = MUST_HAVE.get(country.iso)
    if wanted and all(digits(n) != wanted for line in country.lines for n in (line.phone, line.sms) if n):
        found.append(
            Finding(
                is_error=True, kind="missing", where=country.iso, problem=f"lacks the national line {wanted}"
            )
        )
    return found


def _check_pairs(directory: Directory) -> list[Finding]:
    found: list[Finding] = []
    if len(directory.pairs) < FEWEST_PAIRS:
        found.append(
            Finding(
                is_error=True, kind="pair", where="pairs", problem="the list of pairs is empty; make it anew"
            )
        )
    for pair in directory.pairs:
        country = directory.countries.get(pair.country)
        names = {line.name for line in country.lines} if country else set()
        found.extend(
            Finding(
                is_error=True,
                kind="pair",
                where=f"{pair.country}: {other}",
                problem=f"{missing} belongs with it and is missing",
            )
            for missing, other in (pair.names, pair.names[::-1])
            if missing not in names
        )
    return found
