"""What each attribute contributes to the safety of answers: alone, beside all others, and on average over all orders.

Leave-one-in compares the answer that is told one attribute with the one that is told none; leave-one-out the one told all but
one with the one told all. The Shapley value (Shapley, 1953) is the mean gain over every order in which attributes could become
known; it is sampled by orders drawn per sample, each with its reverse (Castro, Gómez and Tejada, 2009; Mitchell et al., 2022), and
adds up to the whole gain of telling everything. The paper has leave-one-in alone (section 4.4).
"""

from __future__ import annotations

import hashlib
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from policies.attributes import Attribute
from policies.domains import Domain
from policies.penguin.judging import SAFETY
from policies.penguin.picture import Row, forest
from policies.penguin.running import Condition, Task, set_name
from policies.penguin.scenarios import Sample
from policies.penguin.statistics import Estimate, estimate

Set = frozenset[Attribute]
METHODS = {
    "shapley": "Shapley value: mean gain over all orders",
    "alone": "leave-one-in: told alone, against nothing told",
    "beside": "leave-one-out: all told, against all but this",
}
"""The three ways, in words."""


def orders(sample: Sample, count: int, seed: int) -> list[tuple[Attribute, ...]]:
    """The orders drawn for a sample: pairs of an order and its reverse, over the attributes its profile has."""
    has = [a for a in Attribute if a in sample.profile]
    rng = random.Random(hashlib.sha256(f"{seed}/{sample.id}".encode()).hexdigest())
    drawn: list[tuple[Attribute, ...]] = []
    while len(drawn) < count:
        order = rng.sample(has, len(has))
        drawn += [tuple(order), tuple(reversed(order))]
    return drawn[:count]


def sets_of(sample: Sample, count: int, seed: int) -> list[Set]:
    """Every set that has to be tried for a sample, each once."""
    has = frozenset(a for a in Attribute if a in sample.profile)
    wanted: dict[Set, None] = {frozenset(): None, has: None}
    for a in Attribute:
        if a in has:
            wanted[frozenset({a})] = None
            wanted[has - {a}] = None
    for order in orders(sample, count, seed):
        for place in range(len(order) + 1):
            wanted[frozenset(order[:place])] = None
    return list(wanted)


def tasks_of(samples: Sequence[Sample], count: int, seed: int) -> list[Task]:
    """What a run has to do: its number is known before it starts."""
    return [
        (s, Condition(name=set_name(given), arm="context-rich", given=given))
        for s in samples
        for given in sets_of(s, count, seed)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """What each attribute contributes, in safety points.

    Attributes:
        values: method to domain ("all" for all) to attribute to estimate.
        whole: the gain of telling everything.
        unscored: sets without a score, by reason.
        n: samples.
    """

    values: Mapping[str, Mapping[str, Mapping[Attribute, Estimate]]]
    whole: Estimate
    unscored: Mapping[str, int]
    n: int

    def to_json(self) -> dict[str, Any]:
        """As numbers."""
        return {
            "samples": self.n,
            "whole": self.whole.to_json(),
            "unscored": dict(self.unscored),
            **{
                method: {
                    domain: {a.value: e.to_json() for a, e in rows.items()} for domain, rows in by.items()
                }
                for method, by in self.values.items()
            },
        }


def found(
    samples: Sequence[Sample], lines: Iterable[Mapping[str, Any]], count: int, seed: int
) -> Sensitivity:
    """Contributions from the lines of a run.

    A set without a score is left out of every difference that needs it, and counted.
    """
    utility: dict[str, dict[str, float]] = defaultdict(dict)
    unscored: dict[str, int] = defaultdict(int)
    for line in lines:
        if line["mean"] is None:
            unscored[line["unscored"]] += 1
        else:
            utility[line["sample"]][line["arm"]] = line["mean"][SAFETY]
    gains: dict[str, dict[Attribute, dict[str, float]]] = {m: {a: {} for a in Attribute} for m in METHODS}
    whole: dict[str, float] = {}
    for sample in samples:
        known = utility[sample.id]
        has = frozenset(a for a in Attribute if a in sample.profile)
        empty, full = known.get(set_name(frozenset())), known.get(set_name(has))
        if empty is not None and full is not None:
            whole[sample.id] = full - empty
        marginal: dict[Attribute, list[float]] = defaultdict(list)
        for order in orders(sample, count, seed):
            for place, a in enumerate(order):
                before = known.get(set_name(frozenset(order[:place])))
                after = known.get(set_name(frozenset(order[: place + 1])))
                if before is not None and after is not None:
                    marginal[a].append(after - before)
        for a in has:
            alone, without = known.get(set_name(frozenset({a}))), known.get(set_name(has - {a}))
            if alone is not None and empty is not None:
                gains["alone"][a][sample.id] = alone - empty
            if without is not None and full is not None:
                gains["beside"][a][sample.id] = full - without
            if marginal[a]:
                gains["shapley"][a][sample.id] = sum(marginal[a]) / len(marginal[a])
    groups = {s.id: s.group for s in samples}
    domains = {s.id: s.domain for s in samples}
    there = [d for d in Domain if d in set(domains.values())]
    values = {
        method: {
            name: {
                a: estimate(
                    {k: v for k, v in rows.items() if domain is None or domains[k] is domain},
                    groups,
                    is_difference=True,
                )
                for a, rows in by.items()
                if rows
            }
            for name, domain in [("all", None), *((d.value, d) for d in there)]
        }
        for method, by in gains.items()
    }
    return Sensitivity(
        values=values,
        whole=estimate(whole, groups, is_difference=True),
        unscored=dict(unscored),
        n=len(samples),
    )


def contributions(one: Sensitivity, method: str, domain: str = "all") -> str:
    """The contributions of one method as a forest plot, greatest first."""
    rows = sorted(one.values[method][domain].items(), key=lambda item: -item[1].mean)
    return forest(
        f"{METHODS[method]}, {domain}",
        [
            Row(label=a.value.replace("_", " "), value=e, note="" if e.is_decisive else "  not decisive")
            for a, e in rows
        ],
        zero=True,
    )
