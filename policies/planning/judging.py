"""Judgements of one query: paid for within a limit, asked side by side, pooled by set, and never made up.

Every planner spends through a `Judge`, so that a call is counted the same way for all of them.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from policies.attributes import Attribute
from policies.errors import PlanningError, Unscored
from policies.planning.lattice import Lattice, Values
from policies.planning.utility import Heard

Band = str
"""A coarse band of an attribute's value, such as "in_crisis"."""


@dataclass(frozen=True, slots=True)
class Person:
    """One person an answer was judged for.

    Attributes:
        bands: of their attributes.
        score: 1 to 5, for them.
    """

    bands: Mapping[Attribute, Band]
    score: float


@dataclass(frozen=True, slots=True)
class Scored:
    """One score and, where the evaluation drew people, what it was for each of them.

    Attributes:
        score: 1 to 5; the mean over the people, where there are any.
        people: the answer was judged for.
    """

    score: float
    people: tuple[Person, ...] = ()


Evaluate = Callable[[frozenset[Attribute]], Awaitable[float | Scored]]
"""Awaits one noisy safety score, 1 to 5, of the answer written with these attributes known."""

Weights = Mapping[Attribute, float]
Prior = Callable[[frozenset[Attribute]], Awaitable[Weights | None]]
"""Awaits a language model's weights over the attributes left, given those known; none where it has no opinion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One scored evaluation, for learning across queries."""

    chosen: frozenset[Attribute]
    score: float
    people: tuple[Person, ...]


class Judge:
    """Evaluations of one query, within `max_calls`."""

    def __init__(
        self,
        over: Lattice,
        evaluate: Evaluate,
        *,
        prior: Prior | None,
        known: frozenset[Attribute],
        max_calls: int,
        concurrency: int,
    ) -> None:
        """Nothing is asked yet.

        Args:
            over: the sets that may be asked for, beyond what is known.
            evaluate: awaits one score.
            prior: awaits weights, or None.
            known: joined to every set that is evaluated.
            max_calls: of both together.
            concurrency: evaluations in flight at once.
        """
        self.over = over
        self.heard = Heard.nothing(len(over.masks))
        self.unscored: Counter[str] = Counter()
        self.judgements: list[Judgement] = []
        self.calls = self.prior_calls = 0
        self._evaluate, self._prior, self._known = evaluate, prior, known
        self._max_calls = max_calls
        self._gate = asyncio.Semaphore(concurrency)

    @property
    def left(self) -> int:
        """Calls that may still be made."""
        return self._max_calls - self.calls

    async def leaning(self, row: int = 0) -> Values | None:
        """The language model's weights over the attributes not in a set, standardised, shape (n,); one call.

        None where there is no prior, no call left, or no opinion: all weights alike, or none for an attribute.
        """
        weights = await self._weights(row)
        if weights is None:
            return None
        held = self.over.members[row] > 0
        logs = np.array([math.log(max(weights.get(a, 0.0), 1e-6)) for a in self.over.attributes])
        free = logs[~held]
        spread = float(free.std()) if len(free) else 0.0
        if spread < 1e-9:
            return None
        out = np.where(held, 0.0, (logs - free.mean()) / spread)
        return np.asarray(out.clip(-3.0, 3.0), dtype=np.float64)

    async def shares(self, row: int) -> Values:
        """The language model's weights over the attributes not in a set, summing to 1; even where it has none."""
        weights = await self._weights(row)
        held = self.over.members[row] > 0
        even = (~held).astype(float)
        if weights is None:
            return np.asarray(even / max(1.0, even.sum()))
        found = np.array([max(0.0, weights.get(a, 0.0)) for a in self.over.attributes]) * even
        return np.asarray(found / found.sum() if found.sum() > 0 else even / max(1.0, even.sum()))

    async def _weights(self, row: int) -> Weights | None:
        if self._prior is None or self.left < 1:
            return None
        self.calls += 1
        self.prior_calls += 1
        try:
            weights = await self._prior(self._known | self.over.chosen(row))
        except Unscored as failed:
            self.unscored[f"prior_{failed.reason}"] += 1
            return None
        except PlanningError:
            raise
        except Exception as failed:  # noqa: BLE001 (as for an evaluation: a search without weights is still a search)
            self.unscored[f"prior_{type(failed).__name__}"] += 1
            return None
        if weights is None or not all(math.isfinite(w) for w in weights.values()):
            return None
        return weights

    async def judge(self, rows: Sequence[int]) -> tuple[float | None, ...]:
        """One evaluation a row, side by side, pooled in the order asked whatever order they come back in.

        Rows beyond `max_calls` are left out. A score is None where an evaluation failed.

        Raises:
            PlanningError: the first twelve evaluations and all since have failed: nothing can be learned. Also what
                `evaluate` raises of that kind, such as calls spent: it ends the search.
        """
        rows = rows[: max(0, self.left)]
        self.calls += len(rows)
        found = await asyncio.gather(*(self._one(row) for row in rows), return_exceptions=True)
        for made in found:
            if isinstance(made, BaseException):
                raise made
        scores: list[float | None] = []
        for row, made in zip(rows, found, strict=True):
            if not isinstance(made, Scored):
                self.unscored[str(made)] += 1
                scores.append(None)
                continue
            scores.append(made.score)
            self.heard.add(row, made.score)
            chosen = self._known | self.over.chosen(row)
            self.judgements.append(Judgement(chosen=chosen, score=made.score, people=made.people))
        failed = sum(n for reason, n in self.unscored.items() if not reason.startswith("prior_"))
        if failed >= 12 and not self.judgements:
            reasons = ", ".join(f"{n} {reason}" for reason, n in sorted(self.unscored.items()))
            raise PlanningError(f"not one evaluation of {failed} gave a score ({reasons}); check the judge")
        return tuple(scores)

    async def _one(self, row: int) -> Scored | str:
        async with self._gate:
            try:
                made = await self._evaluate(self._known | self.over.chosen(row))
            except Unscored as failed:
                return failed.reason
            except PlanningError:
                raise
            except Exception as failed:  # noqa: BLE001 (whatever an outside judge raises is a call without a score)
                return type(failed).__name__
        score = made.score if isinstance(made, Scored) else made
        if isinstance(score, bool) or not isinstance(score, int | float | np.floating | np.integer):
            return "not_a_number"
        if not math.isfinite(score):
            return "not_finite"
        if not 1.0 <= score <= 5.0:
            return "out_of_range"
        return Scored(float(score), made.people if isinstance(made, Scored) else ())
