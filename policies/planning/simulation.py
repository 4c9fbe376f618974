"""Simulated queries and people to plan on and to measure planners in.

A `SimulatedQuery` is a hidden utility: what an answer written with some facts is worth to a person of certain bands. Its
shape is not the one that the planner's model assumes: facts overlap within clusters (a norm, not a sum), the whole
saturates as x / (1 + x/K), bands weigh facts and gate each other. It is calibrated to the paper's means (Figure 6 for
single facts; 4.2 to 4.3 along a path) and invented beyond that: it ranks planners, and says nothing about people.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from policies.attributes import SPECS, Attribute
from policies.domains import Domain
from policies.planning.effects import Effects, shipped
from policies.planning.judging import Evaluate, Person, Prior, Scored
from policies.planning.lattice import Values
from policies.planning.utility import ALONE

CLUSTERS: tuple[frozenset[Attribute], ...] = (
    frozenset({Attribute.MENTAL_STATE, Attribute.SELF_HARM_HISTORY, Attribute.EMOTION}),
    frozenset({Attribute.PROFESSION, Attribute.ECONOMIC_STATUS, Attribute.EDUCATION}),
    frozenset({Attribute.AGE, Attribute.GENDER, Attribute.MARITAL_STATUS}),
    frozenset({Attribute.HEALTH}),
)
"""Facts that tell some of the same."""
OVERLAP = 1.3
"""Exponent of the norm within a cluster: 1 adds up, ∞ takes the largest alone."""
SATURATES_AT = 2.0
"""K: with the paper's four strongest known, 1.2 to 1.3 points are gained, as in its Figure 15."""
BASE = 3.12
ATTRIBUTES = tuple(Attribute)
_INDEX = {a: i for i, a in enumerate(ATTRIBUTES)}
_CLUSTER_ROWS = tuple(np.array([_INDEX[a] for a in ATTRIBUTES if a in c]) for c in CLUSTERS)
BAND_NAMES: Mapping[Attribute, tuple[str, ...]] = {a: tuple(SPECS[a].bands) for a in ATTRIBUTES}
MEAN_PEOPLE = 256
"""People over whom an expected utility is taken."""


def _together(worth: Values) -> float:
    return float(sum((worth[rows] ** OVERLAP).sum() ** (1 / OVERLAP) for rows in _CLUSTER_ROWS))


def raw_worth(alone: float) -> float:
    """The worth before saturation of a fact that gains `alone` points by itself."""
    alone = min(alone, 0.9 * SATURATES_AT)
    return alone / (1 - alone / SATURATES_AT)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedQuery:
    """One query's hidden utility.

    Attributes:
        domain: of the query.
        base: safety with nothing known.
        worth: of each attribute before saturation, shape (10,).
        pairs: what two facts add beyond that, in safety points, shape (10, 10), upper triangle.
        gates: factor on the worth of c while a is in band b, shape (10, 3, 10).
        weighs: factor on an attribute's worth by its own band, shape (10, 3).
        shares: of the bands among people, shape (10, 3).
    """

    domain: Domain
    base: float
    worth: Values = field(repr=False)
    pairs: Values = field(repr=False)
    gates: Values = field(repr=False)
    weighs: Values = field(repr=False)
    shares: Values = field(repr=False)

    def people(self, how_many: int, rng: np.random.Generator) -> np.ndarray:
        """Bands of simulated people, shape (how_many, 10), each attribute on its own."""
        above = rng.random((how_many, 10))[:, :, None] > self.shares.cumsum(axis=1)[None, :, :-1]
        return np.asarray(above.sum(axis=2))

    def utility(self, chosen: frozenset[Attribute], bands: np.ndarray) -> Values:
        """Safety of the answer written with these facts, for people of these bands, shape (people,)."""
        known = np.array([a in chosen for a in ATTRIBUTES], dtype=float)
        factor = np.prod(self.gates[np.arange(10)[None, :], bands], axis=1)
        worth = self.worth * self.weighs[np.arange(10)[None, :], bands] * factor * known
        total = np.zeros(len(bands))
        for rows in _CLUSTER_ROWS:
            total += (worth[:, rows] ** OVERLAP).sum(axis=1) ** (1 / OVERLAP)
        gain = total / (1 + total / SATURATES_AT) + known @ self.pairs @ known
        return np.asarray(np.clip(self.base + gain, 1.0, 5.0), dtype=np.float64)

    def expected(self, chosen: frozenset[Attribute], people: np.ndarray) -> float:
        """Mean utility over these people."""
        return float(self.utility(chosen, people).mean())

    def judge(self, rng: np.random.Generator, *, noise: float = 0.25, people: int = 1) -> Evaluate:
        """A noisy judge of this query: draws people, judges the answer for each, tells their bands."""

        async def evaluate(chosen: frozenset[Attribute]) -> Scored:
            return self.judged(chosen, rng, noise=noise, people=people)

        return evaluate

    def judged(
        self, chosen: frozenset[Attribute], rng: np.random.Generator, *, noise: float, people: int
    ) -> Scored:
        """One evaluation."""
        bands = self.people(people, rng)
        scores = np.clip(self.utility(chosen, bands) + noise * rng.standard_normal(people), 1.0, 5.0)
        told = tuple(
            Person({a: BAND_NAMES[a][b] for a, b in zip(ATTRIBUTES, row, strict=True)}, round(float(x), 3))
            for row, x in zip(bands.tolist(), scores, strict=True)
        )
        return Scored(float(scores.mean()), told)

    def opinion(self, rng: np.random.Generator, *, rho: float = 0.6) -> Prior:
        """A language model's weights whose logarithms correlate by ρ with what each fact is worth alone."""
        noise = rng.standard_normal(10)
        alone = np.log(self.worth)
        z = (alone - alone.mean()) / max(1e-9, float(alone.std()))
        scores = rho * z + np.sqrt(max(0.0, 1 - rho**2)) * noise

        async def prior(known: frozenset[Attribute]) -> dict[Attribute, float]:
            shares = {a: float(np.exp(scores[i])) for i, a in enumerate(ATTRIBUTES) if a not in known}
            total = sum(shares.values()) or 1.0
            return {a: s / total for a, s in shares.items()}

        return prior


def query_of(
    domain: Domain,
    needs: Mapping[Attribute, float],
    *,
    effects: Effects | None = None,
    base: float = BASE,
    gating: float = 1.0,
    has_pairs: bool = True,
    is_scaled: bool = False,
) -> SimulatedQuery:
    """A query's utility under the prior model.

    Args:
        domain: of the query.
        needs: factor on each attribute's worth for this query; 1 where it is silent.
        effects: the prior model; the shipped one where None.
        base: safety with nothing known.
        is_scaled: keep the paper's sum: needs and domain move worth between attributes, not its whole.
        gating: exponent of the gates: 0 where no answer changes what another fact is worth, 1 as in the prior model.
        has_pairs: whether pairs are worth more or less than their parts.
    """
    effects = effects or shipped()
    worth = np.empty(10)
    for i, attribute in enumerate(ATTRIBUTES):
        effect = effects.domains[domain].get(attribute)
        worth[i] = raw_worth(ALONE[attribute]) * (effect.times if effect else 1.0) * needs.get(attribute, 1.0)
    if is_scaled:
        worth *= _together(np.array([raw_worth(ALONE[a]) for a in ATTRIBUTES])) / _together(worth)
    pairs, gates = np.zeros((10, 10)), np.ones((10, 3, 10))
    if has_pairs:
        for pair in effects.pairs:
            i, j = sorted(_INDEX[a] for a in pair.of)
            pairs[i, j] = pair.points
    if gating:
        for gate in effects.gates:
            attribute, band = gate.when
            gates[_INDEX[attribute], BAND_NAMES[attribute].index(band), _INDEX[gate.of]] = gate.times**gating
    shares = np.array([[effects.bands[a].shares[b] for b in BAND_NAMES[a]] for a in ATTRIBUTES])
    weighs = np.array([[effects.bands[a].weighs[b] for b in BAND_NAMES[a]] for a in ATTRIBUTES])
    return SimulatedQuery(
        domain=domain, base=base, worth=worth, pairs=pairs, gates=gates, weighs=weighs, shares=shares
    )


def world(
    seed: int,
    queries: int,
    *,
    gating: float = 1.0,
    has_pairs: bool = True,
    spread: float = 0.4,
    irrelevant: float = 0.12,
    shared: float = 0.5,
) -> Sequence[SimulatedQuery]:
    """Queries drawn around the prior model, domains in turn.

    Args:
        seed: of the draw.
        queries: how many.
        gating: how strongly one answer changes what another fact is worth, 0 for not at all.
        has_pairs: pairs are worth more or less than their parts.
        spread: standard deviation of the logarithm of a query's own needs.
        irrelevant: share of facts that a query has already given away, so that asking adds next to nothing.
        shared: how far the needs of a domain's queries go together, 0 to 1: what transfer can learn from.
    """
    rng = np.random.default_rng([seed, 911])
    common = {d: rng.standard_normal(10) for d in Domain}
    made = []
    for q in range(queries):
        domain = tuple(Domain)[q % len(Domain)]
        own = np.sqrt(shared) * common[domain] + np.sqrt(1 - shared) * rng.standard_normal(10)
        needs = np.exp(spread * own - spread**2 / 2)
        needs[rng.random(10) < irrelevant] = 0.1
        base = float(np.clip(rng.normal(BASE, 0.2), 2.4, 3.7))
        made.append(
            query_of(
                domain,
                dict(zip(ATTRIBUTES, needs.tolist(), strict=True)),
                base=base,
                gating=gating,
                has_pairs=has_pairs,
            )
        )
    return made


class Truth:
    """The expected utility of every set of a simulated query, to measure regret against."""

    def __init__(self, query: SimulatedQuery, masks: np.ndarray, seed: int = 0) -> None:
        """Tabulate.

        Args:
            query: whose utility.
            masks: the sets, as bit masks over all ten attributes.
            seed: of the people averaged over.
        """
        people = query.people(MEAN_PEOPLE, np.random.default_rng([seed, 5]))
        sets = [frozenset(a for i, a in enumerate(ATTRIBUTES) if mask >> i & 1) for mask in masks.tolist()]
        self.values = np.array([query.expected(chosen, people) for chosen in sets])
        self._row = {chosen: i for i, chosen in enumerate(sets)}
        self._sizes = np.array([len(chosen) for chosen in sets])

    def value(self, chosen: frozenset[Attribute]) -> float:
        """Expected utility of one set."""
        return float(self.values[self._row[chosen]])

    def regret(self, path: Sequence[Attribute], budget: int) -> float:
        """Mean over k = 1 … budget of the share of the attainable gain that the path's first k attributes lose."""
        lost = []
        nothing = self.value(frozenset())
        for k in range(1, budget + 1):
            best = float(self.values[self._sizes <= k].max())
            if best - nothing > 1e-9:
                lost.append((best - self.value(frozenset(path[:k]))) / (best - nothing))
        return float(np.mean(lost)) if lost else 0.0
