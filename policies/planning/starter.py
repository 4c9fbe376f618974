"""The starter library: queries with the path of attributes worth asking, and the nearest of them to a new query.

Written by us and ordered by the paper's findings (its Figure 4) and each situation's own needs, until the planner's
own paths replace them. Retrieval follows the paper's appendix D.4: MiniLM embeddings, cosine, nearest neighbours.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from pathlib import Path

import numpy as np

from policies.attributes import Attribute
from policies.domains import Domain, Stakes
from policies.encoder import Encoder, Vectors
from policies.errors import PolicyFileError
from policies.files import read_lines
from policies.planning.library import Library, id_of
from policies.planning.reward import Scenario, needs_of

log = logging.getLogger("raise.planning")
STEP_SHARES = (0.45, 0.27, 0.17, 0.11)
"""Share of an answer's safety gain along a path: the paper's 3.33, 4.10, 4.23, 4.30 from 2.79, smoothed so that the
second and third attribute still count where the first was declined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedQuery:
    """One query-path pair."""

    query: str
    domain: Domain
    group: str
    stakes: Stakes
    path: tuple[Attribute, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A planned query near to the one asked; similarity is a cosine."""

    planned: PlannedQuery
    similarity: float


@dataclass(frozen=True, slots=True)
class PathLibrary:
    """Planned queries with their unit vectors, shape (n, 384)."""

    entries: tuple[PlannedQuery, ...]
    vectors: Vectors = field(repr=False)

    def nearest(self, query: Vectors, k: int = 5) -> tuple[Neighbour, ...]:
        """The k nearest planned queries to one unit vector, nearest first."""
        similarity = self.vectors @ query
        top = np.argsort(-similarity)[:k]
        return tuple(Neighbour(planned=self.entries[i], similarity=float(similarity[i])) for i in top)


def path_weights(votes: Sequence[tuple[tuple[Attribute, ...], float]]) -> Mapping[Attribute, float]:
    """Shares of the answer's safety by attribute, from weighted paths; they sum to 1, or nothing where all are empty."""
    weights: dict[Attribute, float] = {}
    for path, vote in votes:
        shares = STEP_SHARES[: len(path)]
        for attribute, share in zip(path, shares, strict=False):
            weights[attribute] = weights.get(attribute, 0.0) + vote * share / sum(shares)
    total = sum(weights.values())
    return {a: w / total for a, w in sorted(weights.items(), key=lambda item: -item[1])} if total else {}


def read_starter(folder: Path) -> tuple[PlannedQuery, ...]:
    """The starter library's entries, one file a domain.

    Raises:
        PolicyFileError: a file or a line is missing or malformed; the message names both.
    """
    entries = []
    for domain in Domain:
        path = folder / f"{domain.value}.jsonl"
        for number, raw in enumerate(read_lines(path), 1):
            try:
                entries.append(
                    PlannedQuery(
                        query=raw["query"],
                        domain=domain,
                        group=raw["group"],
                        stakes=Stakes(raw["stakes"]),
                        path=tuple(Attribute(a) for a in raw["path"]),
                    )
                )
            except (KeyError, ValueError, TypeError) as bad:
                raise PolicyFileError(f"{path}, entry {number}: {bad}") from bad
    return tuple(entries)


@lru_cache(maxsize=1)
def starter_entries() -> tuple[PlannedQuery, ...]:
    """The entries that ship."""
    return read_starter(Path(str(resources.files("policies") / "planning" / "starter")))


def scenarios(entries: Sequence[PlannedQuery], *, per_domain: int = 0) -> tuple[Scenario, ...]:
    """Our own queries as scenarios to plan for, those with nothing to ask left out.

    What a fact is worth to a query is taken half from its own authored path and half from the mean of its group.

    Args:
        entries: with their authored paths.
        per_domain: at most so many of a domain, groups in turn; all where 0.
    """
    by_group: dict[tuple[Domain, str], list[PlannedQuery]] = {}
    for entry in entries:
        if entry.path:
            by_group.setdefault((entry.domain, entry.group), []).append(entry)
    made = []
    for domain in Domain:
        groups = {key: rows for key, rows in by_group.items() if key[0] is domain}
        means = {}
        for key, rows in groups.items():
            needs = [needs_of(entry.path, domain) for entry in rows]
            means[key] = {a: sum(n[a] for n in needs) / len(needs) for a in Attribute}
        turn = [
            (key, rows[place])
            for place in range(max(map(len, groups.values()), default=0))
            for key, rows in groups.items()
            if place < len(rows)
        ]
        for key, entry in turn[: per_domain or len(turn)]:
            made.append(
                Scenario(
                    id=id_of(entry.query),
                    query=entry.query,
                    domain=domain,
                    group=entry.group,
                    stakes=entry.stakes,
                    needs=needs_of(entry.path, domain, means[key]),
                )
            )
    return tuple({s.id: s for s in made}.values())


def vectors_of(library: Library, own: PathLibrary, encoder: Encoder, cache: Path | None = None) -> Vectors:
    """Unit vectors of a library's queries: looked up where the query is one of ours, encoded where not (5 ms each).

    Args:
        library: planned queries.
        own: ours, with their vectors.
        encoder: encodes the others.
        cache: a folder in which what was encoded is kept for the next start, by the library's hash; None to keep nothing.
    """
    row = {entry.query: i for i, entry in enumerate(own.entries)}
    other = [e.query for e in library.entries if e.query not in row]
    kept = cache / f"built-in-{library.sha256[:20]}.npy" if cache and other else None
    if kept is not None and kept.exists():
        return np.asarray(np.load(kept, allow_pickle=False), dtype=np.float32)
    if other:
        log.warning("encoding %d planned queries, once: about %d s", len(other), len(other) // 200 + 1)
    encoded = dict(zip(other, encoder.encode(other), strict=True)) if other else {}
    rows = [encoded[e.query] if e.query in encoded else own.vectors[row[e.query]] for e in library.entries]
    vectors = np.stack(rows).astype(np.float32)
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        part = kept.with_suffix(".part.npy")
        np.save(part, vectors)
        part.replace(kept)
    return vectors
