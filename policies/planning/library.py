"""The planned library: one file, versioned and hashed, that says of itself how it was made.

JSON lines, gzipped where the name ends in .gz: a header, then one planned query a line. The header holds what was planned
with (model, prompts, judge, price, date, licence), the gates and the mean policy of each domain, and the hash of all lines
after it. A damaged or foreign file is refused by name.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from policies.attributes import SPECS, Attribute
from policies.domains import Domain, Stakes
from policies.errors import PlanningError
from policies.planning.policy import Gates, Policy, merged

VERSION = 1
KIND = "raise-chat path library"
LICENCE = "Apache-2.0"
EVERYWHERE = "everywhere"
"""The name of the policy and the gates that hold for all domains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One query-path pair.

    Attributes:
        id: unique in the library; the start of the query's SHA-256.
        query: as somebody might write it.
        domain: of it.
        group: scenario group within the domain.
        stakes: of a wrong answer.
        policy: what to ask, in which order, and what each fact is worth; the gates are the domain's.
        expected: safety along the path, with its standard deviation, nothing known first.
        calls: what finding it took.
        seed: of the search.
    """

    id: str
    query: str = field(repr=False)
    domain: Domain
    group: str
    stakes: Stakes
    policy: Policy
    expected: tuple[tuple[float, float], ...]
    calls: int
    seed: int

    def to_json(self) -> dict[str, Any]:
        """A JSON object that `from_json` reads back equal."""
        return {
            "id": self.id,
            "query": self.query,
            "domain": self.domain.value,
            "group": self.group,
            "stakes": self.stakes.value,
            **self.policy.to_json(),
            "expected": [list(e) for e in self.expected],
            "calls": self.calls,
            "seed": self.seed,
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any], gates: Gates | None = None) -> Entry:
        """Read what `to_json` wrote.

        Raises:
            PlanningError: it is no entry.
        """
        try:
            return cls(
                id=raw["id"],
                query=raw["query"],
                domain=Domain(raw["domain"]),
                group=raw["group"],
                stakes=Stakes(raw["stakes"]),
                policy=Policy.from_json(raw, gates),
                expected=tuple((float(m), float(s)) for m, s in raw["expected"]),
                calls=int(raw["calls"]),
                seed=int(raw["seed"]),
            )
        except (KeyError, TypeError, ValueError) as bad:
            raise PlanningError(f"not an entry of a library: {type(bad).__name__} at {bad}") from bad


def id_of(query: str) -> str:
    """The id of a query."""
    return hashlib.sha256(query.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """Planned queries, and what holds where none is near.

    Attributes:
        made: how: model, prompts by hash, judge, price, date, licence, settings, calls.
        entries: the planned queries.
        gates: by domain, and `EVERYWHERE`.
        policies: mean policies, by domain and `EVERYWHERE`.
        sha256: of the entries' lines.
    """

    made: Mapping[str, Any]
    entries: tuple[Entry, ...] = field(repr=False)
    gates: Mapping[str, Gates] = field(repr=False)
    policies: Mapping[str, Policy] = field(repr=False)
    sha256: str

    def named(self, wanted: str) -> Entry:
        """An entry by its id, the start of one, or its query.

        Raises:
            PlanningError: none or several.
        """
        found = [e for e in self.entries if wanted in (e.id, e.query)] or [
            e for e in self.entries if len(wanted) >= 4 and e.id.startswith(wanted)
        ]
        if len(found) != 1:
            raise PlanningError(
                f"{len(found)} planned queries are called {wanted!r}; give an id from 'plan show'"
            )
        return found[0]


def assembled(entries: Iterable[Entry], gates: Mapping[str, Gates], made: Mapping[str, Any]) -> Library:
    """A library from its entries: the domains' policies are the vote of their own entries.

    Raises:
        PlanningError: there is no entry, or two are the same query.
    """
    whole = tuple(entries)
    if not whole:
        raise PlanningError("no query was planned; there is no library to write")
    ids = [e.id for e in whole]
    if len(set(ids)) != len(ids):
        twice = next(i for i in ids if ids.count(i) > 1)
        raise PlanningError(f"the query {twice} was planned twice; merge libraries of different queries")
    policies = {}
    for domain in Domain:
        own = [e.policy for e in whole if e.domain is domain and e.policy.path]
        if own:
            policies[domain.value] = merged(own, [1.0] * len(own))
    every = [e.policy for e in whole if e.policy.path]
    if every:
        policies[EVERYWHERE] = merged(every, [1.0] * len(every))
    held = {
        name: replace(policy.rounded(), gates=gates.get(name, gates.get(EVERYWHERE, {})))
        for name, policy in policies.items()
    }
    return Library(made=made, entries=whole, gates=gates, policies=held, sha256=_hash(_lines(whole)))


def _lines(entries: Sequence[Entry]) -> list[str]:
    return [json.dumps(e.to_json(), ensure_ascii=False, sort_keys=True) for e in entries]


def _hash(lines: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def write(library: Library, path: Path) -> None:
    """Write a library in one step: a run that is cut leaves the old file."""
    lines = _lines(library.entries)
    header = {
        "kind": KIND,
        "version": VERSION,
        "sha256": _hash(lines),
        "entries": len(lines),
        "made": dict(library.made),
        "gates": {name: _gates_json(gates) for name, gates in library.gates.items()},
        "policies": {name: policy.to_json() for name, policy in library.policies.items()},
    }
    head = json.dumps(header, ensure_ascii=False, sort_keys=True)
    text = "\n".join([head, *lines]) + "\n"
    data = text.encode()
    part = path.with_name(path.name + ".part")
    part.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    part.replace(path)


def read(path: Path) -> Library:
    """Read a library and check it.

    Raises:
        PlanningError: it is missing, damaged, of another kind or of another version; the message names the file.
    """
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as bad:
        raise PlanningError(f"{path}: cannot be read as a library ({type(bad).__name__})") from bad
    lines = text.splitlines()
    try:
        header = json.loads(lines[0]) if lines else {}
    except ValueError:
        header = {}
    if not isinstance(header, dict) or header.get("kind") != KIND:
        raise PlanningError(f"{path}: is no path library; 'raise-chat plan build' makes one")
    if header.get("version") != VERSION:
        raise PlanningError(
            f"{path}: a library of version {header.get('version')!r}; this release reads {VERSION}: build it again"
        )
    if header.get("entries") != len(lines) - 1 or header.get("sha256") != _hash(lines[1:]):
        raise PlanningError(
            f"{path}: is damaged: its lines are not those it was written with; restore or build it again"
        )
    try:
        gates = {name: _gates(raw) for name, raw in header["gates"].items()}
        policies = {
            name: Policy.from_json(raw, gates.get(name, gates.get(EVERYWHERE)))
            for name, raw in header["policies"].items()
        }
    except (KeyError, TypeError, ValueError, AttributeError) as bad:
        raise PlanningError(f"{path}: its header is damaged ({type(bad).__name__} at {bad})") from bad
    entries = []
    for number, line in enumerate(lines[1:], 2):
        try:
            raw = json.loads(line)
            entries.append(Entry.from_json(raw, gates.get(raw["domain"], gates.get(EVERYWHERE))))
        except (ValueError, KeyError, TypeError, PlanningError) as bad:
            raise PlanningError(f"{path}, line {number}: {bad}") from bad
    return Library(
        made=header["made"], entries=tuple(entries), gates=gates, policies=policies, sha256=header["sha256"]
    )


def _gates_json(gates: Gates) -> list[list[Any]]:
    return [[a.value, band, c.value, round(v, 3)] for (a, band, c), v in gates.items()]


def _gates(raw: Sequence[Sequence[Any]]) -> Gates:
    made = {}
    for a, band, c, value in raw:
        if band not in SPECS[Attribute(a)].bands:
            raise ValueError(f"{a} has no band {band!r}")
        made[Attribute(a), band, Attribute(c)] = float(value)
    return made


def merged_libraries(libraries: Sequence[Library], *, is_partial: bool = False) -> Library:
    """One library from the shards of one build.

    Gates are the mean of the shards', weighed by their entries.

    Raises:
        PlanningError: they were made differently, share a query, or are not all the shards of the build (unless partial).
    """
    if not is_partial:
        parts = [str(one.made.get("part", "1/1")) for one in libraries]
        of = {part.split("/")[1] for part in parts}
        lacking = sorted({f"{i + 1}/{n}" for n in of for i in range(int(n))} - set(parts))
        if lacking:
            raise PlanningError(
                f"shard {lacking[0]} is missing; give all of them, or --partial for what there is"
            )
    first = libraries[0]
    alike = ("model", "judge", "prompts", "settings")
    for other in libraries[1:]:
        for name in alike:
            if other.made.get(name) != first.made.get(name):
                raise PlanningError(f"the libraries were made with another {name}; they cannot be merged")
    share = [len(one.entries) for one in libraries]
    gates: dict[str, dict[Any, float]] = {}
    for one, weight in zip(libraries, share, strict=True):
        for name, own in one.gates.items():
            for gate, value in own.items():
                into = gates.setdefault(name, {})
                into[gate] = round(into.get(gate, 0.0) + value * weight / sum(share), 3)
    spent = {
        key: sum(one.made.get("spent", {}).get(key, 0) for one in libraries)
        for key in ("calls", "unscored", "queries")
    }
    made = {**first.made, "spent": spent, "shards": len(libraries), "part": "1/1"}
    entries = sorted(
        (e for one in libraries for e in one.entries), key=lambda e: (list(Domain).index(e.domain), e.id)
    )
    return assembled(entries, gates, made)


def differences(old: Library, new: Library) -> dict[str, Any]:
    """What changed from one library to another: made with what, which queries, which paths."""
    before, after = {e.id: e for e in old.entries}, {e.id: e for e in new.entries}
    both = sorted(before.keys() & after.keys())
    return {
        "made": {
            key: [old.made.get(key), new.made.get(key)]
            for key in sorted({*old.made, *new.made})
            if old.made.get(key) != new.made.get(key)
        },
        "added": sorted(after.keys() - before.keys()),
        "removed": sorted(before.keys() - after.keys()),
        "other_path": [i for i in both if before[i].policy.path != after[i].policy.path],
        "other_first": [i for i in both if before[i].policy.path[:1] != after[i].policy.path[:1]],
        "same": sum(before[i].policy.path == after[i].policy.path for i in both),
    }


def shipped_path() -> Path:
    """Where the library that ships lies."""
    return Path(str(resources.files("policies") / "planning" / "library.jsonl.gz"))


@lru_cache(maxsize=1)
def shipped() -> Library:
    """The library that ships: planned with the prior model of `effects.yaml`; its numbers are assumptions."""
    return read(shipped_path())
