"""The paper's own search, kept to compare with (Wu et al., section 5.2 and appendix C).

    Score(a) = Q(U ∪ a) + c · π0(a | q, U) · √(Σ_b N_b) / (1 + N_a)

π0 is asked once a node, expansion takes one unused attribute, the rollout is ε-greedy on π0 until the budget is reached,
ε falls with depth from .2, and backup is the mean. Rewards lie in 0 to 1, as in the official code. Where the paper says
two things (c is 1 in C.4 and .5 in C.5; the path is read from the best children in C.4, from the best set in Algorithm
1), both are here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from policies.planning.judging import Judge
from policies.planning.lattice import Values
from policies.planning.search import Found

EPSILON = 0.2


@dataclass(slots=True)
class _Node:
    """A sequence of attributes asked so far; transpositions are other nodes, as in the paper."""

    row: int
    share: Values
    visits: int = 0
    total: float = 0.0
    children: dict[int, _Node] = field(default_factory=dict)

    @property
    def mean(self) -> float:
        return self.total / self.visits if self.visits else 0.0


class PaperSearch:
    """Monte Carlo tree search over sequences, as the paper gives it."""

    def __init__(self, *, c: float = 1.0, extraction: Literal["children", "set"] = "children") -> None:
        """Choose between what the paper says in two places.

        Args:
            c: weight of exploration.
            extraction: "children" follows the child of the best mean; "set" takes the best set of full size.
        """
        self.name = "paper" if extraction == "children" else "paper-set"
        self._c, self._extraction = c, extraction

    async def search(
        self, judge: Judge, rng: np.random.Generator, *, budget: int, price: Values | None
    ) -> Found:
        """As `Planner.search`; the paper knows no price, so that it is not looked at."""
        del price
        over = judge.over
        root = _Node(0, await judge.shares(0))
        first = root.share
        while judge.left > 0 and budget:
            trail, steps = [root], 0
            node = root
            while steps < budget and len(node.children) == int((node.share > 0).sum()) and node.children:
                node = node.children[self._select(node)]
                trail.append(node)
                steps += 1
            if steps < budget:
                untried = [i for i in np.argsort(-node.share, kind="stable") if i not in node.children]
                column = int(next(i for i in untried if over.larger[node.row, i] >= 0))
                row = int(over.larger[node.row, column])
                share = await judge.shares(row) if judge.left > 1 else _without(first, over.members[row])
                node.children[column] = _Node(row, share)
                node = node.children[column]
                trail.append(node)
                steps += 1
            row = node.row
            while steps < budget:
                row = self._rollout(judge, node.share, row, rng, epsilon=EPSILON * (1 - steps / budget))
                steps += 1
            (score,) = await judge.judge([row]) or (None,)
            if score is None:
                continue
            for passed in trail:
                passed.visits += 1
                passed.total += (score - 1) / 4
        path = (
            self._from_children(root, budget)
            if self._extraction == "children"
            else self._from_sets(judge, budget)
        )
        return Found(_completed(judge, path, first, budget), stopped="calls")

    def _select(self, node: _Node) -> int:
        spread = math.sqrt(sum(child.visits for child in node.children.values()))
        return max(
            node.children,
            key=lambda a: (
                node.children[a].mean
                + self._c * float(node.share[a]) * spread / (1 + node.children[a].visits)
            ),
        )

    @staticmethod
    def _rollout(judge: Judge, share: Values, row: int, rng: np.random.Generator, *, epsilon: float) -> int:
        left = np.flatnonzero(judge.over.larger[row] >= 0)
        if rng.random() < epsilon:
            return int(judge.over.larger[row, rng.choice(left)])
        return int(judge.over.larger[row, left[share[left].argmax()]])

    @staticmethod
    def _from_children(root: _Node, budget: int) -> list[int]:
        path: list[int] = []
        node = root
        while node.children and len(path) < budget:
            column = max(node.children, key=lambda a: (node.children[a].mean, node.children[a].visits))
            path.append(column)
            node = node.children[column]
        return path

    @staticmethod
    def _from_sets(judge: Judge, budget: int) -> list[int]:
        over, heard = judge.over, judge.heard
        rows = np.flatnonzero((over.sizes == budget) & (heard.count > 0))
        if not len(rows):
            return []
        best = int(rows[heard.mean[rows].argmax()])
        return [int(i) for i in np.flatnonzero(over.members[best])]


def _without(share: Values, held: Values) -> Values:
    return np.asarray(np.where(held > 0, 0.0, share), dtype=np.float64)


def _completed(judge: Judge, path: list[int], share: Values, budget: int) -> list[int]:
    """A path that the tree has cut short is completed by the weights of the root, as its rollouts would be."""
    ranked = [int(i) for i in np.argsort(-share, kind="stable") if int(i) not in path]
    return [*path, *ranked][: min(budget, len(judge.over.attributes))]
