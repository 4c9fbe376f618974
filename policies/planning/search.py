"""The planner: Monte Carlo tree search over sets of attributes, guided by a language model's weights.

Each simulation starts at the empty set, draws one utility from the posterior (Thompson's rule), descends along the best
nested path under that draw, found exactly, and judges one set on it; lengths take turns. What is judged changes the
posterior of every set, so that values are shared between transpositions and between sets that were never visited, and a
set that matters is judged again. At the end the path is taken from the posterior, not from noisy means.

It differs from the paper's search (`paper.py` keeps that) where the paper's own figures say it should: sets for sequences,
a model for means, and one nested path for every length instead of one path a budget.
"""

from __future__ import annotations

import random
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from policies.attributes import Attribute
from policies.errors import PlanningError
from policies.planning.judging import Evaluate, Judge, Judgement, Prior
from policies.planning.lattice import Lattice, Values, lattice
from policies.planning.plans import Plan, PlanStep, Spent
from policies.planning.utility import PAPER, Beliefs, Facts, Posterior

ALL: tuple[Attribute, ...] = tuple(Attribute)
BATCH = 12
"""Simulations between two looks at the posterior. Fixed, so that the plan does not depend on how many run at once."""
DRAWS_TO_TELL = 64
"""Utilities drawn to tell how sure a path is."""
LOOKS = 3
"""Batches between two looks at how sure it is."""
SURE = 0.004
"""Mean safety points over all lengths that a better path would be expected to add, under which search stops."""

Rng = int | random.Random | np.random.Generator


class Planner(Protocol):
    """What finds a path. All planners spend through the same `Judge`, so that they can be compared call by call."""

    name: str

    async def search(
        self, judge: Judge, rng: np.random.Generator, *, budget: int, price: Values | None
    ) -> Found:
        """Judge sets until the calls are spent, and give a path.

        Args:
            judge: counts and pools evaluations.
            rng: the only chance there is.
            budget: the longest path.
            price: safety points that asking each attribute costs, shape (n,); None where asking is free.
        """
        ...


class Found:
    """What a search ends with: a path in columns, and what is believed along it."""

    __slots__ = ("path", "posterior", "stopped", "sure")

    def __init__(
        self,
        path: Sequence[int],
        *,
        stopped: str,
        posterior: Posterior | None = None,
        sure: float | None = None,
    ) -> None:
        self.path, self.stopped, self.posterior, self.sure = tuple(path), stopped, posterior, sure


class BayesianSearch:
    """Thompson's rule over sets, under the statistical model of `utility.py`."""

    name = "raise"

    def __init__(self, beliefs: Beliefs = PAPER, *, sure: float = SURE) -> None:
        """Hold what is believed beforehand.

        Args:
            beliefs: before anything is judged.
            sure: stop early under this much expected regret, in safety points.
        """
        self.beliefs, self._sure = beliefs, sure

    async def search(
        self, judge: Judge, rng: np.random.Generator, *, budget: int, price: Values | None
    ) -> Found:
        """As `Planner.search`."""
        over = judge.over
        weights = [1.0] * min(budget, over.deepest)
        cost = np.zeros(len(over.masks)) if price is None else over.members @ price
        leaning = await judge.leaning()
        stopped, turn, is_checked = "calls", 0, False
        while judge.left > 0:
            posterior = Posterior(over, self.beliefs, judge.heard, leaning)
            is_exact = judge.heard.is_exact
            unheard = _unheard(judge) if is_exact else []
            if is_exact and not unheard:
                if is_checked:
                    stopped = "exhausted"
                    break
                rows = [0, *over.along(over.best_path(posterior.expected() - cost, weights=weights))]
                is_checked = True
            elif is_exact and len(unheard) <= judge.left:
                rows = unheard
            else:
                batch = min(BATCH, judge.left)
                rows = []
                for path in over.best_paths(posterior.draws(batch, rng) - cost, weights=weights):
                    along = over.along(path)
                    rows.append(along[turn % len(weights)] if along else 0)
                    turn += 1
                if is_exact:
                    rows = _fresh(rows, unheard, rng)
                elif turn == batch and batch > 4:
                    rows[-4:] = [0] * 4  # the base, and whether the judge repeats itself
                elif turn % (LOOKS * BATCH) == 0 and self._is_sure(
                    posterior, over, weights, cost, rng, free=price is None
                ):
                    stopped = "sure"
                    break
            await judge.judge(rows)
        posterior = Posterior(over, self.beliefs, judge.heard, leaning)
        path = over.best_path(posterior.expected() - cost, weights=weights, must_fill=price is None)
        if price is not None and len(path) < len(weights) and stopped == "calls":
            stopped = "worth"
        sure = _regret_left(posterior, over, weights, cost, path, rng, must_fill=price is None)
        return Found(path, stopped=stopped, posterior=posterior, sure=sure)

    def _is_sure(
        self,
        posterior: Posterior,
        over: Lattice,
        weights: Sequence[float],
        cost: Values,
        rng: np.random.Generator,
        *,
        free: bool,
    ) -> bool:
        path = over.best_path(posterior.expected() - cost, weights=weights, must_fill=free)
        return _regret_left(posterior, over, weights, cost, path, rng, must_fill=free) < self._sure


def _unheard(judge: Judge) -> list[int]:
    return [int(row) for row in np.flatnonzero(judge.heard.count == 0)]


def _fresh(rows: Sequence[int], unheard: Sequence[int], rng: np.random.Generator) -> list[int]:
    """The rows that were not heard yet, each once, filled up from the rest: a judge without noise needs no repeats."""
    new = [row for row in dict.fromkeys(rows) if row in set(unheard)]
    others = [row for row in unheard if row not in set(new)]
    more = rng.permutation(len(others))[: len(rows) - len(new)]
    return new + [others[int(i)] for i in more]


def _worth(over: Lattice, values: Values, path: Sequence[int], lengths: int) -> Values:
    """Mean over the lengths of what a path is worth under utilities of shape (utilities, sets)."""
    if not lengths:
        return np.zeros(len(values))
    rows = list(over.along(path))
    rows += [rows[-1] if rows else 0] * (lengths - len(rows))
    return np.asarray(values[:, rows].mean(axis=1), dtype=np.float64)


def _regret_left(  # noqa: PLR0917
    posterior: Posterior,
    over: Lattice,
    weights: Sequence[float],
    cost: Values,
    path: Sequence[int],
    rng: np.random.Generator,
    *,
    must_fill: bool,
) -> float:
    drawn = posterior.draws(DRAWS_TO_TELL, rng) - cost
    best = over.best_paths(drawn, weights=weights, must_fill=must_fill)
    own = _worth(over, drawn, path, len(weights))
    others = np.array([_worth(over, drawn[i : i + 1], p, len(weights))[0] for i, p in enumerate(best)])
    return float((others - own).mean())


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A plan with what it was made from, for learning across queries.

    Attributes:
        plan: the plan.
        facts: the posterior's parameters.
        expected: posterior mean utility by set.
        over: the sets.
        judgements: every scored evaluation.
    """

    plan: Plan
    facts: Facts
    expected: Values
    over: Lattice
    judgements: tuple[Judgement, ...]


async def plan(
    query: str,
    *,
    evaluate: Evaluate,
    prior: Prior | None = None,
    attributes: Collection[Attribute] = ALL,
    budget: int = 5,
    max_calls: int = 100,
    known: Collection[Attribute] = frozenset(),
    price: Mapping[Attribute, float] | None = None,
    rng: Rng,
    concurrency: int = BATCH,
    planner: Planner | None = None,
) -> Plan:
    """`planned`, without what it was made from."""
    made = await planned(
        query,
        evaluate=evaluate,
        prior=prior,
        attributes=attributes,
        budget=budget,
        max_calls=max_calls,
        known=known,
        price=price,
        rng=rng,
        concurrency=concurrency,
        planner=planner,
    )
    return made.plan


async def planned(
    query: str,
    *,
    evaluate: Evaluate,
    prior: Prior | None = None,
    attributes: Collection[Attribute] = ALL,
    budget: int = 5,
    max_calls: int = 100,
    known: Collection[Attribute] = frozenset(),
    price: Mapping[Attribute, float] | None = None,
    rng: Rng,
    concurrency: int = BATCH,
    planner: Planner | None = None,
) -> Planned:
    """One nested path of attributes, good at every length up to the budget.

    The same seed and the same judgements give the same plan at any concurrency. An evaluation that fails is counted by its
    reason and never taken for a score.

    Args:
        query: the query; kept in the plan, read by nobody here.
        evaluate: awaits one noisy safety score, 1 to 5 (or a `Scored` with the people it was judged for).
        prior: awaits a language model's weights over the attributes left; each call counts.
        attributes: those that may be asked.
        budget: the longest path.
        max_calls: of `evaluate` and `prior` together.
        known: told already: joined to every set that is evaluated, never asked.
        price: safety points that an attribute must be worth to be asked, λ times its price; the path is shorter where
            nothing further is. None where asking is free: then the path is as long as the budget.
        rng: a seed, or a generator to take one from.
        concurrency: evaluations in flight at once.
        planner: another search than ours.

    Raises:
        PlanningError: nothing to plan, or not one evaluation gave a score.
    """
    known = frozenset(known)
    free = tuple(a for a in Attribute if a in frozenset(attributes) and a not in known)
    for name, value, least in (
        ("budget", budget, 0),
        ("max_calls", max_calls, 1),
        ("concurrency", concurrency, 1),
    ):
        if value < least:
            raise PlanningError(f"{name} is {value}; it must be at least {least}")
    seed = seed_of(rng)
    chance = np.random.default_rng(seed)
    depth = min(budget, len(free))
    over = lattice(free, depth)
    judge = Judge(
        over,
        evaluate,
        prior=prior if depth else None,
        known=known,
        max_calls=max_calls,
        concurrency=concurrency,
    )
    costs = None if price is None else np.array([float(price.get(a, 0.0)) for a in free])
    search = planner or BayesianSearch()
    began = time.perf_counter()
    found = await search.search(judge, chance, budget=depth, price=costs)
    if judge.calls > judge.prior_calls and not judge.judgements:
        raise PlanningError("no evaluation gave a score; nothing can be planned")
    # Planners without a posterior of their own are told what ours makes of their judgements.
    posterior = found.posterior or Posterior(over, PAPER, judge.heard, None)
    made = _plan(
        query,
        judge,
        found,
        posterior,
        planner=search.name,
        seed=seed,
        seconds=time.perf_counter() - began,
        settings={
            "attributes": [a.value for a in free],
            "budget": budget,
            "max_calls": max_calls,
            "known": sorted(a.value for a in known),
            "price": None if price is None else {a.value: float(price.get(a, 0.0)) for a in free},
            "batch": BATCH,
            "beliefs": getattr(getattr(search, "beliefs", None), "name", None),
        },
    )
    return Planned(
        plan=made,
        facts=posterior.facts,
        expected=posterior.expected(),
        over=over,
        judgements=tuple(judge.judgements),
    )


def seed_of(rng: Rng) -> int:
    """A seed under 2^63: the one given, or one drawn from a generator."""
    if isinstance(rng, random.Random):
        return rng.getrandbits(63)
    if isinstance(rng, np.random.Generator):
        return int(rng.integers(1 << 63))
    return int(rng)


def _plan(
    query: str,
    judge: Judge,
    found: Found,
    posterior: Posterior,
    *,
    planner: str,
    seed: int,
    seconds: float,
    settings: dict[str, Any],
) -> Plan:
    over, rows = judge.over, judge.over.along(found.path)
    value = posterior.expected()
    sd = posterior.uncertainty([0, *rows])
    gain_sd = posterior.gain_uncertainty(rows) if rows else ()
    steps = tuple(
        PlanStep(
            attribute=over.attributes[column],
            expected=round(float(value[row]), 4),
            sd=round(float(sd[i + 1]), 4),
            gain=round(float(value[row] - value[before]), 4),
            gain_sd=round(float(gain_sd[i]), 4),
        )
        for i, (column, row, before) in enumerate(zip(found.path, rows, (0, *rows), strict=False))
    )
    alone = posterior.alone() if len(over.attributes) and over.deepest else np.zeros(0)
    return Plan(
        query=query,
        path=tuple(s.attribute for s in steps),
        steps=steps,
        base=(round(float(value[0]), 4), round(float(sd[0]), 4)),
        planner=planner,
        alone={a: round(float(v), 4) for a, v in zip(over.attributes, alone, strict=False)},
        noise=round(posterior.noise, 4),
        sure=None if found.sure is None else round(found.sure, 4),
        spent=Spent(
            calls=judge.calls,
            scored=len(judge.judgements),
            prior=judge.prior_calls,
            sets=int((judge.heard.count > 0).sum()),
            unscored=dict(sorted(judge.unscored.items())),
            seconds=round(seconds, 3),
        ),
        seed=seed,
        settings=settings,
        stopped=found.stopped,
    )
