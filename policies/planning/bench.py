"""Planners measured on our own simulated world: what `raise-chat plan bench` prints.

Every number carries its standard error over queries. The world ranks planners; it says nothing about people.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from policies.attributes import Attribute
from policies.planning.baselines import PLANNERS
from policies.planning.evidence import Evidence
from policies.planning.lattice import lattice
from policies.planning.policy import GateLearner, policy_of
from policies.planning.prices import frontier, prices
from policies.planning.search import BayesianSearch, Planned, Planner, planned
from policies.planning.simulation import ATTRIBUTES, BAND_NAMES, SimulatedQuery, Truth, world
from policies.planning.transfer import learned

BUDGET = 5
RHO = 0.6
JUDGE_SD = 0.25
SHOWN = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8)

Row = dict[str, Any]


async def measured(
    *,
    queries: int = 70,
    seeds: Sequence[int] = (0,),
    calls: Sequence[int] = (100, 200),
    only: Collection[str] = (),
    told: Callable[[str], None] = lambda _what: None,
) -> dict[str, Any]:
    """All tables.

    Args:
        queries: simulated in each world.
        seeds: of the worlds.
        calls: evaluations a query, for the planners' table.
        only: "planners", "tree", "frontier", "transfer"; all where empty.
        told: called with what is being measured.
    """
    out: dict[str, Any] = {
        "world": {"queries": queries, "seeds": list(seeds), "rho": RHO, "judge_sd": JUDGE_SD}
    }
    if not only or "planners" in only:
        told("planners")
        out["planners"] = await _planners(queries, seeds, calls)
        out["priors"] = await _priors(queries, seeds)
    if not only or "tree" in only:
        told("policy trees")
        out["tree"] = [await _tree(queries, seeds, gating) for gating in (0.0, 1.0, 3.0)]
    if not only or "frontier" in only:
        told("privacy frontier")
        out["frontier"] = await _frontier(queries, seeds)
    if not only or "transfer" in only:
        told("transfer")
        out["transfer"] = [
            await _transfer(queries, seeds, shared, n) for shared in (0.0, 0.5, 0.9) for n in (30, 100)
        ]
    return out


_TRUTHS: dict[int, Truth] = {}


def _truth(query: SimulatedQuery, key: tuple[int, int]) -> Truth:
    """A query's true values, tabulated once."""
    if id(query) not in _TRUTHS:
        _TRUTHS[id(query)] = Truth(query, lattice(ATTRIBUTES, BUDGET).masks, key[0])
    return _TRUTHS[id(query)]


@lru_cache(maxsize=32)
def _world(seed: int, queries: int, gating: float = 1.0, shared: float = 0.5) -> Sequence[SimulatedQuery]:
    """A world, drawn once and kept, so that its truths are."""
    return world(seed, queries, gating=gating, shared=shared)


def _summary(values: Sequence[float]) -> Row:
    found = np.asarray(values)
    return {
        "mean": float(found.mean()),
        "se": float(found.std(ddof=1) / np.sqrt(len(found))),
        "p90": float(np.percentile(found, 90)),
        "worst": float(found.max()),
    }


async def _one(
    query: SimulatedQuery,
    key: tuple[int, int],
    *,
    calls: int,
    planner: Planner | None = None,
    rho: float = RHO,
    is_personal: bool = False,
) -> Planned:
    """One search: of the mean over people with the judge's noise, as in the yardstick, or for one drawn person a call."""
    chance, truth = np.random.default_rng([*key, 1]), _truth(query, key)

    async def evaluate(chosen: frozenset[Attribute]) -> float:
        return float(np.clip(truth.value(chosen) + JUDGE_SD * chance.standard_normal(), 1.0, 5.0))

    return await planned(
        "simulated",
        evaluate=query.judge(chance, noise=JUDGE_SD) if is_personal else evaluate,
        prior=query.opinion(np.random.default_rng([*key, 2]), rho=rho),
        budget=BUDGET,
        max_calls=calls,
        rng=key[0] * 100_003 + key[1],
        planner=planner,
    )


async def _planners(queries: int, seeds: Sequence[int], calls: Sequence[int]) -> list[Row]:
    rows = []
    for most in calls:
        for name, make in PLANNERS.items():
            lost, used, began = [], [], time.perf_counter()
            for seed in seeds:
                for i, query in enumerate(_world(seed, queries)):
                    made = await _one(query, (seed, i), calls=most, planner=make())
                    lost.append(100 * _truth(query, (seed, i)).regret(made.plan.path, BUDGET))
                    used.append(made.plan.spent.calls)
            rows.append(
                {
                    "planner": name,
                    "calls": most,
                    "used": float(np.mean(used)),
                    **_summary(lost),
                    "seconds": (time.perf_counter() - began) / len(lost),
                }
            )
    return rows


async def _priors(queries: int, seeds: Sequence[int]) -> list[Row]:
    rows = []
    for rho in (0.9, 0.6, 0.0, -0.4):
        lost = []
        for seed in seeds:
            for i, query in enumerate(_world(seed, queries)):
                made = await _one(query, (seed, i), calls=100, rho=rho)
                lost.append(100 * _truth(query, (seed, i)).regret(made.plan.path, BUDGET))
        rows.append({"rho": rho, "calls": 100, **_summary(lost)})
    return rows


async def _tree(queries: int, seeds: Sequence[int], gating: float) -> Row:
    """The policy tree against the blind path, for the same simulated people, mean over one to four questions."""
    gained, gates = [], 0
    for seed in seeds:
        asked = _world(seed, queries, gating)
        plans = [await _one(query, (seed, i), calls=100, is_personal=True) for i, query in enumerate(asked)]
        learner = GateLearner()
        for made in plans:
            learner.add(Evidence.of(made))
        found = learner.gates()
        gates += len(found)
        for i, (query, made) in enumerate(zip(asked, plans, strict=True)):
            policy = policy_of(made, found)
            people = query.people(40, np.random.default_rng([seed, i, 9]))
            gained.append(float(np.mean([_adapted(query, policy, made, person) for person in people])))
    kept = _summary(gained)
    return {
        "gating": gating,
        "gates": gates / len(seeds),
        "gain": kept["mean"],
        "se": kept["se"],
        "low": kept["mean"] - 1.96 * kept["se"],
        "high": kept["mean"] + 1.96 * kept["se"],
    }


def _adapted(query: SimulatedQuery, policy: Any, made: Planned, person: np.ndarray) -> float:
    known: dict[Attribute, str | None] = {}
    gained = 0.0
    for k in range(1, BUDGET):
        left = [a for a in ATTRIBUTES if a not in known]
        found = policy.next(known, left)
        if found is not None:
            a = found.attribute
            known[a] = BAND_NAMES[a][int(person[ATTRIBUTES.index(a)])]
        blind = query.utility(frozenset(made.plan.path[:k]), person[None])[0]
        gained += float(query.utility(frozenset(known), person[None])[0] - blind)
    return gained / (BUDGET - 1)


async def _frontier(queries: int, seeds: Sequence[int]) -> list[Row]:
    """What is asked is chosen by the plans' posteriors; what it is worth is read from the hidden truth."""
    price = prices()
    points: dict[float, list[tuple[float, float, float]]] = {w: [] for w in SHOWN}
    for seed in seeds:
        for i, query in enumerate(_world(seed, queries)):
            made = await _one(query, (seed, i), calls=100)
            truth = _truth(query, (seed, i))
            nothing = truth.value(frozenset())
            for point in frontier(made.over, made.expected, price, budget=BUDGET, weights=SHOWN):
                gained = truth.value(frozenset(point.path)) - nothing
                points[point.weight].append((gained, point.disclosed, point.questions))
    rows = []
    for weight, found in points.items():
        table = np.array(found)
        rows.append(
            {
                "lambda": weight,
                "safety": float(table[:, 0].mean()),
                "se": float(table[:, 0].std(ddof=1) / np.sqrt(len(table))),
                "disclosed": float(table[:, 1].mean()),
                "questions": float(table[:, 2].mean()),
            }
        )
    return rows


async def _transfer(queries: int, seeds: Sequence[int], shared: float, calls: int) -> Row:
    """The second half of each domain's queries, planned alone and after the first half."""
    alone, after = [], []
    for seed in seeds:
        asked = _world(seed, queries, 1.0, shared)
        half = len(asked) // 2
        first = [await _one(query, (seed, i), calls=calls) for i, query in enumerate(asked[:half])]
        for i, query in enumerate(asked[half:], half):
            before = [Evidence.of(m) for q, m in zip(asked, first, strict=False) if q.domain is query.domain]
            truth = _truth(query, (seed, i))
            one = await _one(query, (seed, i), calls=calls)
            beliefs = learned(before, name="first half")
            other = await _one(query, (seed, i), calls=calls, planner=BayesianSearch(beliefs))
            alone.append(100 * truth.regret(one.plan.path, BUDGET))
            after.append(100 * truth.regret(other.plan.path, BUDGET))
    saved = np.array(alone) - np.array(after)
    return {
        "shared": shared,
        "calls": calls,
        "alone": float(np.mean(alone)),
        "after": float(np.mean(after)),
        "saved": float(saved.mean()),
        "se": float(saved.std(ddof=1) / np.sqrt(len(saved))),
    }
