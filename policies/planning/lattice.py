"""The lattice of attribute sets a planner searches: sets as bit masks, and the best nested path through them.

Sets, not sequences: the answer is written with what is known, whatever order it was asked in, so that two orders of the
same three attributes are one node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from policies.attributes import Attribute

Values = NDArray[np.float64]
Masks = NDArray[np.int64]

NEVER = -1e9
"""The value of a step that may not be taken."""


@dataclass(frozen=True, slots=True)
class Lattice:
    """All sets of at most `deepest` of n attributes.

    Attributes:
        attributes: the n attributes; bit i of a mask stands for the i-th.
        deepest: the most attributes in a set.
        masks: every set, smallest first, shape (sets,); row 0 is the empty set.
        members: shape (sets, n), whether an attribute is in a set.
        pairs: shape (sets, n(n-1)/2), whether both of a pair are.
        larger: shape (sets, n), the row of the set with one attribute more, -1 where there is none.
    """

    attributes: tuple[Attribute, ...]
    deepest: int
    masks: Masks = field(repr=False)
    members: Values = field(repr=False)
    pairs: Values = field(repr=False)
    larger: Masks = field(repr=False)

    @property
    def sizes(self) -> Values:
        """How many attributes each set holds, shape (sets,)."""
        return np.asarray(self.members.sum(axis=1), dtype=np.float64)

    def row(self, chosen: Iterable[Attribute]) -> int:
        """The row of a set.

        Raises:
            KeyError: the set is larger than `deepest` or holds another attribute.
        """
        mask = sum(1 << self.attributes.index(a) for a in chosen)
        found = np.flatnonzero(self.masks == mask)
        if not len(found):
            raise KeyError(mask)
        return int(found[0])

    def chosen(self, row: int) -> frozenset[Attribute]:
        """The attributes of a row's set."""
        return frozenset(a for a, held in zip(self.attributes, self.members[row], strict=True) if held)

    def best_path(
        self, values: Values, *, weights: Sequence[float], must_fill: bool = True
    ) -> tuple[int, ...]:
        """The columns of the nested path S1 ⊂ S2 ⊂ … that maximises Σ_k weights[k-1] · values[S_k].

        Exact, by dynamic programming from the largest sets down. Ties go to the attribute that stands first.

        Args:
            values: of every set, shape (sets,).
            weights: of each length, from one attribute up.
            must_fill: take as many steps as there are weights; otherwise a path stops where no further step raises
                the sum, and its last value then stands for the lengths that are left.
        """
        return self.best_paths(values[None, :], weights=weights, must_fill=must_fill)[0]

    def best_paths(
        self, values: Values, *, weights: Sequence[float], must_fill: bool = True
    ) -> tuple[tuple[int, ...], ...]:
        """`best_path` for many utilities at once, `values` of shape (utilities, sets)."""
        depth = min(len(weights), self.deepest)
        rest = np.cumsum(np.asarray(weights[::-1], dtype=float))[::-1]
        ahead = np.zeros_like(values)
        step = np.full(values.shape, -1, dtype=np.int64)
        sizes = self.sizes
        for k in range(depth - 1, -1, -1):
            rows = np.flatnonzero(sizes == k)
            following = self.larger[rows]
            worth = weights[k] * values[:, following] + ahead[:, following]
            worth[:, following < 0] = NEVER
            best = worth.argmax(axis=2)
            gained = worth.max(axis=2)
            if not must_fill:
                stopped = rest[k] * values[:, rows]
                best = np.where(gained > stopped + 1e-12, best, -1)
                gained = np.maximum(gained, stopped)
            ahead[:, rows], step[:, rows] = gained, best
        paths = []
        for steps in step:
            path: list[int] = []
            row = 0
            while len(path) < depth and steps[row] >= 0:
                path.append(int(steps[row]))
                row = int(self.larger[row, path[-1]])
            paths.append(tuple(path))
        return tuple(paths)

    def along(self, path: Sequence[int]) -> tuple[int, ...]:
        """The rows of the sets a path of columns goes through, the empty set left out."""
        rows, row = [], 0
        for column in path:
            row = int(self.larger[row, column])
            rows.append(row)
        return tuple(rows)


@lru_cache(maxsize=256)
def lattice(attributes: tuple[Attribute, ...], deepest: int) -> Lattice:
    """The lattice over these attributes; built once and shared."""
    n = len(attributes)
    deepest = min(deepest, n)
    every = np.arange(1 << n)
    bits = ((every[:, None] >> np.arange(n)) & 1).astype(np.float64)
    sizes = bits.sum(axis=1)
    order = np.lexsort((every, sizes))
    masks = every[order][sizes[order] <= deepest].astype(np.int64)
    members = bits[masks]
    row_of = np.full(1 << n, -1, dtype=np.int64)
    row_of[masks] = np.arange(len(masks))
    larger = np.full((len(masks), n), -1, dtype=np.int64)
    for i in range(n):
        without = members[:, i] == 0
        larger[without, i] = row_of[masks[without] | (1 << i)]
    first, second = np.triu_indices(n, 1)
    return Lattice(
        attributes=attributes,
        deepest=deepest,
        masks=masks,
        members=members,
        pairs=members[:, first] * members[:, second],
        larger=larger,
    )
