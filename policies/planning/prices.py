"""The privacy price of asking: how a study weighs it, and what safety costs in disclosure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from policies.attributes import SPECS, Attribute
from policies.errors import PlanningError
from policies.planning.lattice import Lattice, Values
from policies.planning.policy import Policy

Prices = Mapping[Attribute, float]


def prices(own: str = "", weight: float = 1.0) -> dict[Attribute, float]:
    """λ times the price of each attribute, in safety points.

    Args:
        own: a study's own prices, such as "health=0.9, age=0", each 0 to 1; the others keep ours.
        weight: λ, safety points that a price of 1 is worth.

    Raises:
        PlanningError: a name is no attribute or a price no number from 0 to 1.
    """
    found = {a: SPECS[a].price.total for a in Attribute}
    for part in filter(None, (p.strip() for p in own.split(","))):
        name, _, value = part.partition("=")
        try:
            attribute, price = Attribute(name.strip()), float(value)
        except ValueError:
            raise PlanningError(
                f"RAISE_PRICES: {part!r} is not an attribute and a number, such as health=0.9"
            ) from None
        if not 0.0 <= price <= 1.0:
            raise PlanningError(f"RAISE_PRICES: {part!r}: a price runs from 0 to 1")
        found[attribute] = price
    return {a: weight * price for a, price in found.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tradeoff:
    """One point of the frontier.

    Attributes:
        weight: λ, safety points that a price of 1 is worth.
        path: what is asked under it.
        safety: expected gain over asking nothing.
        disclosed: sum of the prices of what is asked, at λ = 1.
        questions: how many.
    """

    weight: float
    path: tuple[Attribute, ...]
    safety: float
    disclosed: float
    questions: int


def frontier(
    over: Lattice, expected: Values, price: Prices, *, budget: int = 5, weights: Sequence[float] | None = None
) -> tuple[Tradeoff, ...]:
    """Safety gained against disclosure, from asking freely to asking nothing.

    Args:
        over: the sets.
        expected: utility of each, shape (sets,).
        price: of each attribute at λ = 1.
        budget: most questions.
        weights: values of λ, rising; where None, from 0 by steps until nothing is asked.
    """
    cost = over.members @ np.array([price[a] for a in over.attributes])
    sizes = over.sizes
    allowed = sizes <= budget
    out: list[Tradeoff] = []
    steps = list(weights) if weights is not None else [0.0, *np.geomspace(0.02, 20.0, 40).tolist()]
    for weight in steps:
        value = np.where(allowed, expected - weight * cost, -np.inf)
        best = int(value.argmax())
        chosen = over.chosen(best)
        ordered = _ordered(over, expected, best)
        out.append(
            Tradeoff(
                weight=round(float(weight), 3),
                path=tuple(a for a in ordered if a in chosen),
                safety=float(expected[best] - expected[0]),
                disclosed=float(cost[best]),
                questions=int(sizes[best]),
            )
        )
        if weights is None and not chosen:
            break
    return tuple(out)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """What one λ means for a library.

    Attributes:
        weight: λ.
        gained: expected safety points over asking nothing, mean over the queries.
        disclosed: sum of the prices of what is asked, mean.
        questions: asked on average.
        asked: share of the queries for which each attribute is asked.
    """

    weight: float
    gained: float
    disclosed: float
    questions: float
    asked: Mapping[Attribute, float]


def weighed(
    policies: Sequence[Policy], price: Prices, weights: Sequence[float], *, budget: int = 4
) -> tuple[Weighed, ...]:
    """What each λ means for these policies: safety as they expect it, against what is disclosed for it.

    Args:
        policies: of planned queries.
        price: of each attribute at λ = 1.
        weights: values of λ.
        budget: most questions.
    """
    rows = []
    for weight in weights:
        cost = {a: weight * p for a, p in price.items()}
        gained = disclosed = 0.0
        asked: Counter[Attribute] = Counter()
        for policy in policies:
            known: dict[Attribute, str | None] = {}
            while len(known) < budget:
                found = policy.next(known, [a for a in Attribute if a not in known], price=cost)
                if found is None:
                    break
                known[found.attribute] = None
            gained += policy.value(known) - policy.value({})
            disclosed += sum(price[a] for a in known)
            asked.update(known.keys())
        n = len(policies)
        rows.append(
            Weighed(
                weight=weight,
                gained=gained / n,
                disclosed=disclosed / n,
                questions=sum(asked.values()) / n,
                asked={a: asked[a] / n for a in Attribute},
            )
        )
    return tuple(rows)


def _ordered(over: Lattice, expected: Values, row: int) -> list[Attribute]:
    """The attributes of a set, each next one adding most."""
    left, path, at = list(np.flatnonzero(over.members[row])), [], 0
    while left:
        best = max(left, key=lambda i: expected[over.larger[at, i]])
        path.append(over.attributes[best])
        at = int(over.larger[at, best])
        left.remove(best)
    return path
