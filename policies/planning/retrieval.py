"""From a query to a policy: the nearest planned queries, and what to do where none is near.

Cosine on the encoder's vectors, nearest first, as the paper does (appendix D.4); their policies vote by nearness. Where the
nearest is far away, the policy of the domain stands in, and where the domain is unsure too, the one of all queries; the answer
says which it was.
"""

from __future__ import annotations

import math
import re
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

import numpy as np

from policies.attributes import Attribute
from policies.domains import Domain
from policies.encoder import Vectors
from policies.errors import PlanningError
from policies.planning.library import EVERYWHERE, Entry, Library
from policies.planning.policy import Policy, Table
from policies.planning.starter import path_weights

NEAREST = 25
"""Planned queries that vote, by nearness; the paper takes 5 and finds no difference between 3 and 10, in a smaller library."""
LOOKED_AT = 4
"""Steps of a path that vote: no more are asked."""
SHARPNESS = 12.0
"""How sharply nearness decides a vote: e to this times the cosine."""
FAR = 0.38
"""A nearest cosine under this is far: one in a hundred of our development questions lies under it, and two in three of the
sentences about nothing that people ask us (capitals, recipes, code)."""
SURE_OF_DOMAIN = 0.45
FIRST = 96
"""Directions looked at first; the candidates they leave are compared whole."""
CANDIDATES = 256


class Source(StrEnum):
    """Where a policy comes from."""

    NEIGHBOURS = "neighbours"
    DOMAIN = "domain"
    EVERYWHERE = "everywhere"


@dataclass(frozen=True, slots=True, kw_only=True)
class Near:
    """A planned query near to the one asked; similarity is a cosine."""

    entry: Entry
    similarity: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrieved:
    """A policy for a query.

    Attributes:
        policy: what to ask, given what is known.
        source: neighbours, domain or everywhere.
        near: the nearest planned queries, nearest first, whether or not they voted.
        votes: of each of them.
    """

    policy: Policy
    source: Source
    near: tuple[Near, ...] = field(repr=False)
    votes: tuple[float, ...] = field(repr=False)

    @property
    def shares(self) -> Mapping[Attribute, float]:
        """What the answer's safety hangs on, by the vote of the policies' paths; shares that sum to 1."""
        if self.source is not Source.NEIGHBOURS:
            return path_weights([(self.policy.path[:LOOKED_AT], 1.0)])
        total = sum(self.votes)
        return path_weights(
            [(n.entry.policy.path[:LOOKED_AT], v / total) for n, v in zip(self.near, self.votes, strict=True)]
        )


class Index:
    """Unit vectors of planned queries, searched in two looks: some rotated directions of all, then all of a few.

    The first look uses the directions in which the queries differ most. What it leaves out can be nearer than what it keeps
    only where the rest of the directions outweigh it; how often is measured in `tests/benchmarks/planning.py`.
    """

    def __init__(self, vectors: Vectors) -> None:
        """Index vectors of shape (n, width)."""
        self._vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        width = vectors.shape[1] if vectors.ndim == 2 else 0
        self._turn: Vectors | None = None
        if len(vectors) > 4 * CANDIDATES and width > 2 * FIRST:
            _, turn = np.linalg.eigh(self._vectors.T @ self._vectors)
            self._turn = np.ascontiguousarray(turn[:, ::-1][:, :FIRST], dtype=np.float32)
            self._short = np.ascontiguousarray(self._vectors @ self._turn)

    def __len__(self) -> int:
        return len(self._vectors)

    def nearest(self, query: Vectors, k: int) -> tuple[tuple[int, float], ...]:
        """Rows and cosines of the k nearest to one unit vector, nearest first."""
        k = min(k, len(self._vectors))
        if self._turn is None:
            rows = np.arange(len(self._vectors))
        else:
            rough = self._short @ (query @ self._turn)
            rows = np.argpartition(-rough, max(CANDIDATES, k))[: max(CANDIDATES, k)]
        cosine = self._vectors[rows] @ query
        top = np.lexsort((rows, -cosine))[:k]
        return tuple((int(rows[i]), float(cosine[i])) for i in top)


class Retrieval:
    """A library and the vectors of its queries."""

    def __init__(self, library: Library, vectors: Vectors, *, by: str) -> None:
        """Hold both.

        Args:
            library: planned queries.
            vectors: unit vectors of them, in order, shape (entries, width).
            by: what made the vectors, for the record.

        Raises:
            PlanningError: there is not one vector a query.
        """
        if len(vectors) != len(library.entries):
            raise PlanningError(
                f"the library holds {len(library.entries)} queries and there are vectors of {len(vectors)}; embed it again"
            )
        self.library, self.by = library, by
        self._index = Index(vectors)
        self._table = Table([e.policy for e in library.entries])

    def policy_for(
        self, query: Vectors, *, domain: Domain | None = None, sure: float = 1.0, nearest: int = NEAREST
    ) -> Retrieved:
        """The policy for one unit vector.

        Args:
            query: the vector, shape (width,).
            domain: the query's, where it was recognised: neighbours of other domains then vote at half weight.
            sure: of the domain, 0 to 1.
            nearest: how many vote.
        """
        found = self._index.nearest(query, nearest)
        near = tuple(Near(entry=self.library.entries[row], similarity=cosine) for row, cosine in found)
        policies = self.library.policies
        votes = tuple(
            math.exp(SHARPNESS * n.similarity) * (1.0 if domain in (None, n.entry.domain) else 0.5)
            for n in near
        )
        if not near or near[0].similarity < FAR:
            if domain is not None and sure >= SURE_OF_DOMAIN and domain.value in policies:
                return Retrieved(policy=policies[domain.value], source=Source.DOMAIN, near=near, votes=votes)
            return Retrieved(policy=policies[EVERYWHERE], source=Source.EVERYWHERE, near=near, votes=votes)
        rows = [row for row, _ in found]
        return Retrieved(
            policy=self._table.vote(rows, votes), source=Source.NEIGHBOURS, near=near, votes=votes
        )


class WordVectors:
    """TF-IDF of words and word pairs, hashed and projected: what is left where no encoder is installed.

    Much weaker than an encoder, and said so by whoever uses it. The chat itself does not run without one.
    """

    name = "TF-IDF (no encoder is installed)"
    width = 512

    def __init__(self, sentences: Sequence[str]) -> None:
        """Weigh words by how rare they are in these sentences."""
        seen: Counter[int] = Counter()
        for sentence in sentences:
            seen.update(set(_terms(sentence)))
        n = len(sentences)
        self._idf = {term: math.log((1 + n) / (1 + count)) + 1 for term, count in seen.items()}

    def encode(self, sentences: Sequence[str]) -> Vectors:
        """Unit vectors, shape (n, 512); a sentence of unknown words alone is a zero vector."""
        rows = np.zeros((len(sentences), self.width), dtype=np.float32)
        for i, sentence in enumerate(sentences):
            row = rows[i]
            for term, count in Counter(_terms(sentence)).items():
                weight = (1 + math.log(count)) * self._idf.get(term, 0.0)
                spread = np.random.default_rng(term).integers(0, self.width * 2, 4)
                for place in spread.tolist():
                    row[place % self.width] += weight if place < self.width else -weight
            rows[i] /= float(np.linalg.norm(row)) or 1.0
        return rows


def _terms(sentence: str) -> list[int]:
    words = re.findall(r"[a-z0-9']+", sentence.lower()[:4000])
    return [zlib.crc32(w.encode()) for w in (*words, *(f"{a} {b}" for a, b in pairwise(words)))]
