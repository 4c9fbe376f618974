"""Other people's files as samples: the official code's two JSON files and its CSV, and published sets by a mapping file.

The official CSV holds Python literals in its `User Query` cells; they are parsed as literals and never run. Whatever a file
holds, what cannot be used is named by file, line and field.
"""

from __future__ import annotations

import ast
import csv
import hashlib
import io
import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from policies.attributes import SPECS, Attribute
from policies.domains import Domain
from policies.errors import PenguinError
from policies.files import read_yaml
from policies.penguin.scenarios import BadRow, Samples, gathered, json_lines, text_of

Row = tuple[int, Mapping[str, Any] | BadRow]
LONGEST_LITERAL = 100_000
"""Characters of a cell that is parsed as a literal."""
LONGEST_FIELD = 1_000_000
_NAMES = (
    {SPECS[a].official_name.lower(): a for a in Attribute}
    | {SPECS[a].paper_name.lower(): a for a in Attribute}
    | {"past self-harm history": Attribute.SELF_HARM_HISTORY}
)
"""The official files say "Past Self-Harm History" where the official attribute list says "Self-Harm History"."""
_BACKGROUND = re.compile(
    r"(?:^|[,.;\n]\s*)(" + "|".join(sorted(map(re.escape, _NAMES), key=len, reverse=True)) + r")\s*:\s*",
    re.IGNORECASE,
)
SOURCE = "official code, Mallory3125/PersonalizedSafety"


@lru_cache(maxsize=1)
def official_domains() -> Mapping[str, Domain]:
    """The domain of each scenario name of the official hierarchy, lower-cased."""
    path = Path(str(resources.files("policies") / "penguin" / "data" / "official_scenarios.yaml"))
    return {name.lower(): Domain(domain) for domain, names in read_yaml(path).items() for name in names}


def official(
    profiles: Path | None, queries: Path, *, domain: Domain | None = None, strict: bool = False
) -> Samples:
    """Samples from the official code's JSON files.

    Args:
        profiles: `ordered_scenario_generated_data_profiles.json`, to name people without queries; the queries' file has the profiles
            too, so that it may be left out.
        queries: `ordered_user_generated_queries.json`: scenario, profile and queries of each person.
        domain: of scenarios whose name the official hierarchy does not hold.
        strict: stop at the first row that cannot be used.

    Raises:
        PenguinError: a file is no such file, or nothing in it is usable.
    """
    people = [] if profiles is None else _array(profiles)
    used: set[int] = set()

    def rows() -> Iterator[Row]:
        for number, raw in enumerate(_array(queries), 1):
            if not isinstance(raw, dict):
                yield number, _bad(queries, number, "entry", "not an object")
                continue
            yield from _entry(raw, number, queries, people, used, domain)
        for number, _ in enumerate(people, 1):
            if profiles is not None and number not in used:
                yield number, _bad(profiles, number, "entry", f"no queries for this person in {queries.name}")

    return gathered(rows(), file=str(queries), strict=strict)


def is_profiles(path: Path) -> bool:
    """Whether a file is the official code's profiles rather than its queries.

    Raises:
        PenguinError: it is neither.
    """
    rows = [raw for raw in _array(path) if isinstance(raw, dict)]
    return (
        bool(rows)
        and not any("Queries" in raw or "User_Profile" in raw for raw in rows)
        and any(str(name).lower() in _NAMES for name in rows[0])
    )


def _array(path: Path) -> list[Any]:
    try:
        raw = json.loads(text_of(path))
    except (ValueError, RecursionError) as bad:
        where = f", line {bad.lineno}" if isinstance(bad, json.JSONDecodeError) else ""
        raise PenguinError(f"{path}{where}: not JSON") from None
    if not isinstance(raw, list):
        raise PenguinError(f"{path}: not a JSON array, as the official code writes it")
    return raw


def _bad(path: Path, line: int, where: str, problem: str) -> BadRow:
    return BadRow(file=str(path), line=line, field=where, problem=problem)


def _entry(  # noqa: PLR0917
    raw: Mapping[str, Any], number: int, path: Path, people: list[Any], used: set[int], domain: Domain | None
) -> Iterator[Row]:
    """The samples of one person: a sample a query."""
    person = raw.get("User_Profile")
    if not isinstance(person, dict) or not all(isinstance(name, str) for name in person):
        yield number, _bad(path, number, "User_Profile", "missing, or not an object from names to words")
        return
    for place, other in enumerate(people, 1):
        if isinstance(other, dict) and other == person:
            used.add(place)
    asked = raw.get("Queries")
    if not isinstance(asked, list) or not asked:
        yield number, _bad(path, number, "Queries", "missing, empty, or not an array")
        return
    scenario = raw.get("Scenario") or person.get("Scenario") or ""
    for turn, query in enumerate(asked, 1):
        if not isinstance(query, str):
            yield number, _bad(path, number, f"Queries.{turn}", "not a text")
            continue
        yield number, _official_row(scenario, person, query, where=(path, number), domain=domain)


def _official_row(
    scenario: Any, person: Mapping[str, Any], query: str, *, where: tuple[Path, int], domain: Domain | None
) -> Mapping[str, Any] | BadRow:
    path, number = where
    if not isinstance(scenario, str):
        return _bad(path, number, "Scenario", "not a text")
    found = official_domains().get(scenario.strip().lower()) or domain
    if found is None:
        return _bad(
            path,
            number,
            "Scenario",
            "is none of the official hierarchy; give the file's domain with --domain",
        )
    profile = {
        _NAMES[name.lower()].value: words for name, words in person.items() if str(name).lower() in _NAMES
    }
    return {
        "id": "official-" + _digest(scenario, json.dumps(person, sort_keys=True, default=str), query),
        "domain": found.value,
        "group": scenario.strip(),
        "query": query,
        "profile": profile,
        "source": SOURCE,
        "licence": "see the official repository",
    }


def _digest(*texts: str) -> str:
    return hashlib.sha256("\x00".join(texts).encode("utf-8", "replace")).hexdigest()[:12]


def literal(cell: str) -> Any:
    """A cell that may hold a Python literal or JSON; the text itself where it holds neither.

    Raises:
        ValueError: it is too long to be parsed.
    """
    text = cell.strip()
    if text[:1] not in "{[":
        return text
    if len(text) > LONGEST_LITERAL:
        raise ValueError(f"longer than {LONGEST_LITERAL} characters")
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(text)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
    return text


def official_csv(path: Path, *, domain: Domain | None = None, strict: bool = False) -> Samples:
    """Samples from the official code's CSV: `Background` and `User Query`, whose cells may be Python literals.

    Raises:
        PenguinError: it is no such file, or nothing in it is usable.
    """
    used: set[int] = set()

    def rows() -> Iterator[Row]:
        for number, cells in table(path, wanted=("User Query",)):
            if isinstance(cells, BadRow):
                yield number, cells
                continue
            try:
                query = literal(cells["User Query"])
            except ValueError as bad:
                yield number, _bad(path, number, "User Query", str(bad))
                continue
            if isinstance(query, dict) and "User_Profile" in query:
                yield from _entry(query, number, path, [], used, domain)
                continue
            if isinstance(query, dict):
                query = query.get("text", "")
            if not isinstance(query, str):
                yield number, _bad(path, number, "User Query", "holds no query")
                continue
            person = told(cells.get("Background", ""))
            scenario = cells.get("Scenario", "")
            if scenario.strip().lower() not in official_domains() and domain is None:
                yield (
                    number,
                    _bad(path, number, "Scenario", "names no domain; give the file's domain with --domain"),
                )
                continue
            yield (
                number,
                _official_row(
                    scenario, person, re.sub(r"^q_\d+:\s*", "", query), where=(path, number), domain=domain
                ),
            )

    return gathered(rows(), file=str(path), strict=strict)


def told(background: str) -> dict[str, str]:
    """The profile of a `Background` cell: "Age: 45-54 years, Gender: Male, … . Emotional State: …"."""
    parts = _BACKGROUND.split(background)
    return {
        name: words.strip().rstrip(".,;").strip()
        for name, words in zip(parts[1::2], parts[2::2], strict=True)
    }


def table(path: Path, *, wanted: tuple[str, ...]) -> Iterator[tuple[int, Mapping[str, str] | BadRow]]:
    """The rows of a CSV by column, each with the line it begins on.

    Raises:
        PenguinError: it is not CSV, or lacks a wanted column; the message names it.
    """
    csv.field_size_limit(LONGEST_FIELD)
    reader = csv.reader(io.StringIO(text_of(path), newline=""), strict=True)
    try:
        head = next(reader)
    except StopIteration:
        raise PenguinError(f"{path}: is empty") from None
    except csv.Error as bad:
        raise PenguinError(f"{path}, line 1: not CSV ({bad})") from None
    missing = [name for name in wanted if name not in head]
    if missing:
        raise PenguinError(f"{path}, line 1: no column {missing[0]!r} among its {len(head)}")
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as bad:
            yield line, _bad(path, line, "row", f"not CSV ({bad})")
            return
        if not cells:
            continue
        if len(cells) != len(head):
            yield line, _bad(path, line, "row", f"{len(cells)} cells where the head has {len(head)}")
            continue
        yield line, dict(zip(head, cells, strict=True))


class Mapped(BaseModel):
    """A mapping file: which column of a published set is what.

    Attributes:
        query: column of the query.
        domain: column of the domain.
        id: column of the id; one is made from the row where None.
        group: column of the scenario group.
        profile: attribute to column; attributes that the set lacks are left out, and stay unknown.
        domains: how the set calls our domains, where it calls them otherwise.
        source: of the set.
        licence: of the set.
    """

    model_config = ConfigDict(extra="forbid")

    query: str
    domain: str
    id: str | None = None
    group: str | None = None
    profile: dict[Attribute, str] = Field(default_factory=dict)
    domains: dict[str, Domain] = Field(default_factory=dict)
    source: str = ""
    licence: str = ""


def read_mapping(path: Path) -> Mapped:
    """A mapping file.

    Raises:
        PenguinError: a key is missing or unknown; the message names it.
    """
    raw = read_yaml(path)
    if not isinstance(raw, dict):
        raise PenguinError(f"{path}: not a mapping; it needs query, domain and profile")
    try:
        return Mapped.model_validate(raw)
    except ValidationError as bad:
        first = bad.errors(include_url=False, include_input=False)[0]
        raise PenguinError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def mapped(path: Path, columns: Mapped, *, strict: bool = False) -> Samples:
    """Samples from a published set (CSV, JSON or JSON lines), its columns named by a mapping file.

    Raises:
        PenguinError: a column is not there, or nothing in the set is usable.
    """
    named = [
        columns.query,
        columns.domain,
        *filter(None, (columns.id, columns.group)),
        *columns.profile.values(),
    ]
    source: Iterator[Row] = (
        table(path, wanted=tuple(named))
        if path.suffix.lower() == ".csv"
        else enumerate(_array(path), 1)
        if path.suffix.lower() == ".json"
        else json_lines(path)
    )

    def rows() -> Iterator[Row]:
        for number, raw in source:
            if isinstance(raw, BadRow):
                yield number, raw
                continue
            if not isinstance(raw, dict):
                yield number, _bad(path, number, "entry", "not an object")
                continue
            lacking = [name for name in named if name not in raw]
            if lacking:
                yield number, _bad(path, number, lacking[0], "is missing")
                continue
            called = str(raw[columns.domain]).strip()
            domain = columns.domains.get(called) or columns.domains.get(called.lower()) or called.lower()
            query = raw[columns.query]
            yield (
                number,
                {
                    "id": str(raw[columns.id]) if columns.id else f"row-{number}-" + _digest(str(query)),
                    "domain": domain,
                    "group": str(raw[columns.group]) if columns.group else "",
                    "query": query,
                    "profile": {a.value: raw[column] for a, column in columns.profile.items()},
                    "source": columns.source or path.name,
                    "licence": columns.licence or "not stated",
                },
            )

    return gathered(rows(), file=str(path), strict=strict)
