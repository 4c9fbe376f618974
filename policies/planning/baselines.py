"""The simple planners that a search must beat to be worth its calls; strong ones, so that they are always shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from policies.errors import PlanningError
from policies.planning.judging import Judge
from policies.planning.lattice import Values
from policies.planning.paper import PaperSearch
from policies.planning.search import BayesianSearch, Found, Planner
from policies.planning.utility import ALONE


class Greedy:
    """Level by level: judge every next set equally often, keep the best mean."""

    name = "greedy"

    async def search(
        self, judge: Judge, rng: np.random.Generator, *, budget: int, price: Values | None
    ) -> Found:
        """As `Planner.search`; candidates are the five that the prior ranks first, where there is one."""
        del rng, price
        ranked = await _ranking(judge)
        path: list[int] = []
        row = 0
        for level in range(budget):
            columns = [i for i in ranked if i not in path][: max(5, 1)]
            each = max(1, judge.left // (budget - level) // len(columns))
            await judge.judge([int(judge.over.larger[row, i]) for i in columns for _ in range(each)])
            mean, count = judge.heard.mean, judge.heard.count
            best = max(
                columns,
                key=lambda i: mean[judge.over.larger[row, i]] if count[judge.over.larger[row, i]] else 0.0,
            )
            path.append(best)
            row = int(judge.over.larger[row, best])
        return Found(path, stopped="calls")


class Fixed:
    """The same for everybody: the paper's strongest first (its Figure 6). Asks nothing of any model."""

    name = "fixed"

    async def search(
        self, judge: Judge, rng: np.random.Generator, *, budget: int, price: Values | None
    ) -> Found:
        """As `Planner.search`."""
        del rng, price
        order = sorted(range(len(judge.over.attributes)), key=lambda i: -ALONE[judge.over.attributes[i]])
        return Found(order[:budget], stopped="exhausted")


class Random:
    """An order drawn at random: what asking without a plan gives."""

    name = "random"

    async def search(
        self, judge: Judge, rng: np.random.Generator, *, budget: int, price: Values | None
    ) -> Found:
        """As `Planner.search`."""
        del price
        return Found(
            [int(i) for i in rng.permutation(len(judge.over.attributes))[:budget]], stopped="exhausted"
        )


class Ranking:
    """The language model's weights, asked once."""

    name = "ranking"

    async def search(
        self, judge: Judge, rng: np.random.Generator, *, budget: int, price: Values | None
    ) -> Found:
        """As `Planner.search`."""
        del rng, price
        return Found((await _ranking(judge))[:budget], stopped="exhausted")


async def _ranking(judge: Judge) -> list[int]:
    """Columns by the prior's weights; by the paper's figures where there is none."""
    leaning = await judge.leaning()
    if leaning is None:
        leaning = np.array([ALONE[a] for a in judge.over.attributes])
    return [int(i) for i in np.argsort(-leaning, kind="stable")]


PLANNERS: Mapping[str, Callable[[], Planner]] = {
    "raise": BayesianSearch,
    "paper": PaperSearch,
    "paper-set": lambda: PaperSearch(extraction="set"),
    "greedy": Greedy,
    "fixed": Fixed,
    "random": Random,
    "ranking": Ranking,
}
"""Every planner by the name that `--planner` takes."""


def named(name: str) -> Planner:
    """A planner by name.

    Raises:
        PlanningError: there is none of that name.
    """
    try:
        return PLANNERS[name]()
    except KeyError as missing:
        raise PlanningError(f"no planner {name!r}; there are {', '.join(PLANNERS)}") from missing


__all__ = ["PLANNERS", "Fixed", "Greedy", "Random", "Ranking", "named"]
