"""Whom to call, by country: cross-checked facts of `resources.yaml`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from importlib import resources as files
from pathlib import Path
from typing import Any

from policies.errors import PolicyFileError
from policies.files import read_yaml


@dataclass(frozen=True, slots=True, kw_only=True)
class CrisisResource:
    """One line or service.

    Attributes:
        name: of the service (single source).
        phone: agreed by independent sources, or None.
        sms: agreed, or None.
        web: single source.
        hours: single source.
        audience: "general", "youth", "domestic-violence", ...
        country: ISO 3166 code, "" for international directories.
        verified_on: the day the sources were compared; nobody has dialled the number.
        languages: single source.
        sources: who lists it.
        unverified: which of these facts rest on a single source.
        also: further agreed numbers of the same service.
    """

    name: str
    phone: str | None
    sms: str | None
    web: str | None
    hours: str
    audience: frozenset[str]
    country: str
    verified_on: date
    languages: tuple[str, ...] = ()
    sources: tuple[str, ...] = field(default=(), repr=False)
    unverified: tuple[str, ...] = ("name", "hours", "languages", "web")
    also: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As `chat --json` writes it."""
        raw = {
            "name": self.name,
            "phone": self.phone,
            "also": list(self.also),
            "sms": self.sms,
            "web": self.web,
            "hours": self.hours,
            "languages": list(self.languages),
            "unverified": [name for name in self.unverified if getattr(self, name, None)],
            "country": self.country,
            "verified_on": self.verified_on.isoformat(),
        }
        return {key: value for key, value in raw.items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class Country:
    """One country's emergency number and lines."""

    iso: str
    name: str
    emergency: str | None
    emergency_medical: str | None
    lines: tuple[CrisisResource, ...] = field(repr=False)
    emergency_note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two services that are shown together, such as one to call and one to text."""

    country: str
    names: tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """All countries, and where to look for others."""

    countries: Mapping[str, Country]
    directories: tuple[CrisisResource, ...]
    fallback_emergency: str
    verified_on: date
    retired: frozenset[str]
    pairs: tuple[Pair, ...] = ()

    def partner(self, line: CrisisResource) -> CrisisResource | None:
        """The service that belongs with a line, or None."""
        for pair in self.pairs:
            if pair.country == line.country and line.name in pair.names:
                other = pair.names[1 - pair.names.index(line.name)]
                return next((x for x in self.countries[line.country].lines if x.name == other), None)
        return None

    def numbers(self) -> frozenset[str]:
        """Every number that may be shown, digits only."""
        found = set()
        for country in self.countries.values():
            for number in (
                country.emergency,
                country.emergency_medical,
                *(n for r in country.lines for n in (r.phone, r.sms, *r.also)),
            ):
                if number:
                    found.add(re.sub(r"\D", "", number))
        return frozenset(found | set(re.findall(r"\d{3}", self.fallback_emergency)))

    def webs(self) -> frozenset[str]:
        """Every host that may be shown."""
        all_lines = [*self.directories, *(r for c in self.countries.values() for r in c.lines)]
        return frozenset(re.sub(r"^https?://(?:www\.)?|/.*$", "", r.web) for r in all_lines if r.web)

    def find_country(self, text: str) -> str | None:
        """The ISO code of a country named in a text, or None; a bare code counts only in capitals ("GB", not "is")."""
        said = re.sub(r"[^a-z ]", "", text.lower().replace("’", "'").replace("'", "")).strip()
        best: tuple[int, str] | None = None
        for name, iso in self._names().items():
            found = re.search(rf"\b{re.escape(name)}\b", said)
            if found and (best is None or len(name) > best[0]):
                best = (len(name), iso)
        if best:
            return best[1]
        bare = text.strip().rstrip(".")
        return bare if bare in self.countries else None

    def is_country(self, text: str) -> str | None:
        """The ISO code where a whole message names a country and nothing else ("UK", "I'm in France"), or None."""
        said = re.sub(r"[^a-z ]", "", text.lower().replace("’", "'").replace("'", "")).strip()
        said = re.sub(
            r"^(?:no |not \w+ |actually |sorry )*(?:im |i am |we are |i live |live |its |it is )*(?:in |from |at )*(?:the )?",
            "",
            said,
        )
        said = re.sub(r" (?:now|here|actually|please|at the moment)$", "", said)
        found = self._names().get(said) or self._names().get("the " + said)
        return found or self.find_country(text if len(text.strip()) <= 3 else "")

    def _names(self) -> dict[str, str]:
        names = {c.name.lower(): iso for iso, c in self.countries.items()}
        return {**names, **{alias: iso for alias, iso in _ALIASES.items() if iso in self.countries}}


_ALIASES = {
    "uk": "GB", "u k": "GB", "us": "US", "england": "GB", "scotland": "GB", "wales": "GB", "northern ireland": "GB", "britain": "GB",
    "great britain": "GB", "london": "GB", "usa": "US", "america": "US", "the states": "US", "united states": "US",
    "us of a": "US", "holland": "NL", "the netherlands": "NL", "deutschland": "DE", "espana": "ES", "brasil": "BR",
    "italia": "IT", "polska": "PL", "sverige": "SE", "turkiye": "TR", "korea": "KR", "south korea": "KR",
    "czechia": "CZ", "emirates": "AE", "uae": "AE", "dubai": "AE", "russia": "RU", "republic of ireland": "IE",
    "new york": "US", "california": "US", "texas": "US", "florida": "US", "ontario": "CA", "quebec": "CA",
}  # fmt: skip


PATH = Path(str(files.files("policies") / "crisis" / "resources.yaml"))
NEVER = date.min
"""Stands for a missing date where a file is read to be checked."""


def load(path: Path, *, to_check: bool = False) -> Directory:
    """Read a resources file.

    Args:
        path: the file.
        to_check: read retired numbers and missing dates too, for `checks` to name them all.

    Raises:
        PolicyFileError: it is malformed, a country lacks its name, or a retired number is in it.
    """
    raw = read_yaml(path)
    try:
        checked = date.fromisoformat(str(raw["checked_on"]))
        retired = frozenset(re.sub(r"\D", "", str(r["number"])) for r in raw["retired"])
        countries = {}
        for iso, entry in raw["countries"].items():
            lines = []
            for line in entry["lines"]:
                numbers = [str(number) for number in line["phones"]]
                for number in numbers:
                    if not to_check and re.sub(r"\D", "", number) in retired:
                        raise PolicyFileError(f"{path}: {iso}: {line['name']}: {number} is retired")
                first = numbers[0] if numbers else None
                lines.append(
                    CrisisResource(
                        name=line["name"],
                        phone=first,
                        also=tuple(numbers[1:]),
                        sms=None if line["sms"] is None else str(line["sms"]),
                        web=line["web"],
                        hours=line["hours"] or "",
                        audience=frozenset(line["audience"]),
                        country=iso,
                        verified_on=NEVER
                        if to_check and not line.get("checked_on")
                        else date.fromisoformat(str(line["checked_on"])),
                        languages=tuple(line["languages"] or ()),
                        sources=tuple(line["sources"]),
                        unverified=tuple(line["unverified"]),
                    )
                )
            countries[str(iso)] = Country(
                iso=str(iso),
                name=entry["name"],
                emergency=entry["emergency"],
                emergency_medical=entry["emergency_medical"],
                lines=tuple(lines),
                emergency_note=entry.get("emergency_note", ""),
            )
        directories = tuple(
            CrisisResource(
                name=d["name"], phone=None, sms=None, web=d["url"], hours="", audience=frozenset({"general"}), country="",
                verified_on=checked,
            )
            for d in raw["directories"]
        )  # fmt: skip
        return Directory(
            countries=countries,
            directories=directories,
            fallback_emergency=raw["fallback_emergency"],
            verified_on=checked,
            retired=retired,
            pairs=tuple(
                Pair(country=p["country"], names=(p["names"][0], p["names"][1])) for p in raw["pairs"]
            ),
        )
    except (KeyError, TypeError, ValueError) as bad:
        raise PolicyFileError(f"{path}: {type(bad).__name__}: {bad}") from bad


@lru_cache(maxsize=1)
def shipped() -> Directory:
    """The resources that ship."""
    return load(PATH)
