"""A policy: which attribute to ask next, given what was answered; the blind path where the answers tell nothing.

The paper's paths do not look at the answers. Here an answer's *band* may change what the other facts are still worth: the
gates, learned from simulated people over all queries of a domain at once, since one query's hundred judgements are too few.
A gate that is not clearly there is left out, so that thin data fall back to the path.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np

from policies.attributes import SPECS, Attribute
from policies.errors import PlanningError
from policies.planning.evidence import Evidence
from policies.planning.judging import Band
from policies.planning.lattice import Values
from policies.planning.search import Planned

Gates = Mapping[tuple[Attribute, Band, Attribute], float]
"""(a, band of a, c): by how much, as a share of it, c's worth changes."""

Known = Mapping[Attribute, Band | None]
"""What was answered: the band, or None where it could not be banded."""

GATE_SD = 0.3
"""Standard deviation of a gate before anything is seen: a share of the other fact's worth."""
CLEAR = 2.0
"""A gate counts from this many of its own standard deviations away from none."""
LEAST_PAIR = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """What one question more is expected to add.

    Attributes:
        attribute: what would be asked.
        mean: in safety points.
        sd: standard deviation of it.
    """

    attribute: Attribute
    mean: float
    sd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What one query's answer hangs on, compact enough to be kept by the thousand.

    Attributes:
        path: the blind path.
        base: safety with nothing known.
        headroom: how much there is to gain, G of `utility.py`.
        worth: of each attribute before saturation, and its standard deviation.
        pairs: what two facts add beyond that, where it is not negligible.
        gates: of the query's domain.
    """

    path: tuple[Attribute, ...]
    base: float
    headroom: float
    worth: Mapping[Attribute, tuple[float, float]] = field(repr=False)
    pairs: Mapping[tuple[Attribute, Attribute], float] = field(repr=False)
    gates: Gates = field(default_factory=dict, repr=False)

    def factor(self, attribute: Attribute, known: Known) -> float:
        """By how much what was answered changes the worth of an attribute."""
        out = 1.0
        for a, band in known.items():
            if band is not None and a is not attribute:
                out *= max(0.0, 1.0 + self.gates.get((a, band, attribute), 0.0))
        return out

    def value(self, known: Known) -> float:
        """Expected safety of the answer with these known."""
        total = sum(self.worth[a][0] * self.factor(a, known) for a in known if a in self.worth)
        gained = self.headroom * (1 - np.exp(-max(total, -self.headroom) / self.headroom))
        paired = sum(self.pairs.get(_pair(a, b), 0.0) for a, b in combinations(known, 2))
        return float(self.base + gained + paired)

    def gain(self, attribute: Attribute, known: Known) -> Gain:
        """What asking one attribute more is expected to add."""
        before = self.value(known)
        mean = self.value({**known, attribute: None}) - before
        total = sum(self.worth[a][0] * self.factor(a, known) for a in known if a in self.worth)
        left = float(np.exp(-max(total, -self.headroom) / self.headroom))
        _, sd = self.worth.get(attribute, (0.0, 0.0))
        return Gain(attribute=attribute, mean=mean, sd=left * sd * self.factor(attribute, known))

    def gains(self, known: Known, left: Iterable[Attribute]) -> tuple[Gain, ...]:
        """Every gain, largest first; equal ones in the paper's order."""
        return tuple(sorted((self.gain(a, known) for a in left if a in self.worth), key=lambda g: -g.mean))

    def next(
        self, known: Known, left: Collection[Attribute], *, price: Mapping[Attribute, float] | None = None
    ) -> Gain | None:
        """The best question among those left, by gain less price; None where none is worth it.

        The path's own order holds unless an answer's gate speaks against it.

        Args:
            known: what was answered.
            left: neither known nor declined nor barred.
            price: safety points that each attribute costs; free where None.
        """
        cost = price or {}
        found = [g for g in self.gains(known, left) if g.mean - cost.get(g.attribute, 0.0) > 0]
        if not found:
            return None
        best = max(found, key=lambda g: g.mean - cost.get(g.attribute, 0.0))
        if price is None and not self._is_gated(known):
            by_path = [g for a in self.path for g in found if g.attribute is a]
            if by_path:
                return by_path[0]
        return best

    def _is_gated(self, known: Known) -> bool:
        return any((a, band, c) in self.gates for a, band in known.items() if band for c in self.worth)

    def tree(
        self, *, depth: int = 3, known: Known | None = None, left: Collection[Attribute] = tuple(Attribute)
    ) -> Branch:
        """The policy unfolded: what is asked next after every band, to a depth."""
        known = known or {}
        found = self.next(known, left) if depth else None
        if found is None:
            return Branch(ask=None, gain=0.0, after={})
        rest = tuple(a for a in left if a is not found.attribute)
        after = {
            band: self.tree(depth=depth - 1, known={**known, found.attribute: band}, left=rest)
            for band in SPECS[found.attribute].bands
        }
        return Branch(ask=found.attribute, gain=found.mean, after=after)

    def to_json(self) -> dict[str, Any]:
        """A JSON object without the gates, which belong to the library's domain."""
        return {
            "path": [a.value for a in self.path],
            "base": round(self.base, 3),
            "headroom": round(self.headroom, 3),
            "worth": {a.value: [round(m, 3), round(s, 3)] for a, (m, s) in self.worth.items()},
            "pairs": {_pair_name(pair): round(v, 3) for pair, v in self.pairs.items()},
        }

    def to_whole_json(self) -> dict[str, Any]:
        """`to_json` with the gates, for where no library holds them."""
        return {
            **self.to_json(),
            "gates": [[a.value, b, c.value, round(v, 3)] for (a, b, c), v in self.gates.items()],
        }

    @classmethod
    def from_whole_json(cls, raw: Mapping[str, Any]) -> Policy:
        """Read what `to_whole_json` wrote.

        Raises:
            PlanningError: it is not a policy.
        """
        try:
            gates = {(Attribute(a), str(b), Attribute(c)): float(v) for a, b, c, v in raw["gates"]}
        except (KeyError, TypeError, ValueError) as bad:
            raise PlanningError(f"not a policy: {type(bad).__name__} at {bad}") from bad
        return cls.from_json(raw, gates)

    def shared_out(self, shares: Mapping[Attribute, float]) -> Policy:
        """The same policy with its worth shared out anew, by shares that sum to 1."""
        total = sum(mean for mean, _ in self.worth.values())
        worth = {
            a: (total * shares.get(a, 0.0), self.worth.get(a, (0.0, 0.0))[1])
            for a in Attribute
            if shares.get(a, 0.0) > 0
        }
        path = tuple(sorted(worth, key=lambda a: -worth[a][0])[:5])
        return replace(self, path=path, worth=worth).rounded()

    def rounded(self) -> Policy:
        """The same as it is written down, so that what is decided now is decided again from the record."""
        return Policy.from_whole_json(self.to_whole_json())

    @classmethod
    def from_json(cls, raw: Mapping[str, Any], gates: Gates | None = None) -> Policy:
        """Read what `to_json` wrote.

        Raises:
            PlanningError: it is not a policy.
        """
        try:
            return cls(
                path=tuple(_BY_NAME[a] for a in raw["path"]),
                base=float(raw["base"]),
                headroom=float(raw["headroom"]),
                worth={_BY_NAME[a]: (float(mean), float(sd)) for a, (mean, sd) in raw["worth"].items()},
                pairs={_PAIR_BY_NAME[name]: float(value) for name, value in raw["pairs"].items()},
                gates=gates or {},
            )
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as bad:
            raise PlanningError(f"not a policy: {type(bad).__name__} at {bad}") from bad


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """One node of the unfolded policy.

    Attributes:
        ask: what is asked here; None where nothing is worth asking, or the depth is reached.
        gain: what the answer is expected to add.
        after: by the answer's band.
    """

    ask: Attribute | None
    gain: float
    after: Mapping[Band, Branch]

    def asks_as(self, other: Branch) -> bool:
        """Whether the same is asked here and everywhere below, whatever it is expected to add."""
        return self.ask is other.ask and all(self.after[b].asks_as(other.after[b]) for b in self.after)

    def together(self) -> list[tuple[tuple[Band, ...], Branch]]:
        """What follows, bands after which the same is asked taken together."""
        groups: list[tuple[tuple[Band, ...], Branch]] = []
        for band, branch in self.after.items():
            for i, (bands, known) in enumerate(groups):
                if known.asks_as(branch):
                    groups[i] = ((*bands, band), known)
                    break
            else:
                groups.append(((band,), branch))
        return groups


def _pair(a: Attribute, b: Attribute) -> tuple[Attribute, Attribute]:
    return (a, b) if _ORDER[a] < _ORDER[b] else (b, a)


_ORDER = {a: i for i, a in enumerate(Attribute)}
PAIRS = tuple(combinations(Attribute, 2))
"""Every pair of attributes, in order."""


def _pair_name(pair: tuple[Attribute, Attribute]) -> str:
    return f"{pair[0].value}+{pair[1].value}"


_BY_NAME = {a.value: a for a in Attribute}
_PAIR_BY_NAME = {_pair_name(pair): pair for pair in PAIRS}


def policy_of(made: Planned, gates: Gates | None = None) -> Policy:
    """The compact policy of a plan."""
    facts, attributes = made.facts, made.over.attributes
    pairs = {
        _pair(a, b): float(v)
        for (a, b), v in zip(combinations(attributes, 2), facts.pairs, strict=True)
        if abs(v) >= LEAST_PAIR
    }
    return Policy(
        path=made.plan.path,
        base=facts.base,
        headroom=facts.headroom,
        worth={
            a: (max(0.0, float(w)), float(s))
            for a, w, s in zip(attributes, facts.worth, facts.worth_sd, strict=True)
        },
        pairs=pairs,
        gates=gates or {},
    )


def merged(policies: Sequence[Policy], votes: Sequence[float]) -> Policy:
    """The weighted vote of several policies.

    Raises:
        PlanningError: nobody votes.
    """
    if not policies:
        raise PlanningError("no policy to merge")
    return Table(policies).vote(range(len(policies)), votes)


class Table:
    """Policies as arrays, so that many can vote at once."""

    def __init__(self, policies: Sequence[Policy]) -> None:
        """Tabulate what each policy holds every fact, and every pair, to be worth."""
        none = (0.0, 0.0)
        worth = np.array([[p.worth.get(a, none) for a in Attribute] for p in policies])
        self._policies = tuple(policies)
        self._means, self._sds = worth[:, :, 0], worth[:, :, 1]
        self._pairs = np.array([[p.pairs.get(pair, 0.0) for pair in PAIRS] for p in policies])
        self._levels = np.array([[p.base, p.headroom] for p in policies])

    def vote(self, rows: Sequence[int], votes: Sequence[float]) -> Policy:
        """The means, by votes, of what these rows hold a fact to be worth.

        Their standard deviation holds both each voter's own and how far the voters are apart.
        """
        share = np.asarray(votes, dtype=float) / sum(votes)
        rows = list(rows)
        means, sds = self._means[rows], self._sds[rows]
        mean = share @ means
        sd = np.sqrt(share @ (sds**2 + (means - mean) ** 2))
        paired = zip(PAIRS, (share @ self._pairs[rows]).tolist(), strict=True)
        pairs = {pair: value for pair, value in paired if abs(value) >= LEAST_PAIR / 2}
        base, headroom = (share @ self._levels[rows]).tolist()
        by_gates: dict[int, tuple[Gates, float]] = {}  # most voters share their domain's gates
        for row, vote in zip(rows, share.tolist(), strict=True):
            gates = self._policies[row].gates
            by_gates[id(gates)] = (gates, by_gates.get(id(gates), (gates, 0.0))[1] + vote)
        voted: dict[tuple[Attribute, Band, Attribute], float] = {}
        for gates, vote in by_gates.values():
            for gate, value in gates.items():
                voted[gate] = voted.get(gate, 0.0) + vote * value
        worth = {a: (m, s) for a, m, s in zip(Attribute, mean.tolist(), sd.tolist(), strict=True)}
        return Policy(
            path=greedy_path(worth, pairs, headroom),
            base=base,
            headroom=headroom,
            worth=worth,
            pairs=pairs,
            gates=voted,
        )


def greedy_path(
    worth: Mapping[Attribute, tuple[float, float]],
    pairs: Mapping[tuple[Attribute, Attribute], float],
    headroom: float,
    steps: int = 5,
) -> tuple[Attribute, ...]:
    """The path that takes at every step what adds most, where nothing is gated."""
    path: list[Attribute] = []
    left, total = [a for a in Attribute if a in worth], 0.0
    while left and len(path) < steps:
        scale = headroom * math.exp(-max(total, -headroom) / headroom)
        best = max(
            left,
            key=lambda a: (
                scale * (1 - math.exp(-worth[a][0] / headroom))
                + sum(pairs.get(_pair(a, b), 0.0) for b in path)
            ),
        )
        path.append(best)
        left.remove(best)
        total += worth[best][0]
    return tuple(path)


class GateLearner:
    """Least squares for the gates of many queries, gathered one query at a time and solved when asked.

    A judgement of a set S for a person of bands v is off the query's own mean by Σ_{c in S} w_c Σ_a γ[a, v_a, c], with w_c
    what c still adds within S; the same sums with each band's share in place of v are taken off, so that the mean stays. A fact's
    own band (a = c) is fitted too, for what it explains, and left out of the gates: it is known only once it was asked.
    """

    def __init__(self) -> None:
        self._names: list[tuple[Attribute, Band, Attribute]] = [
            (a, band, c) for a in Attribute for band in SPECS[a].bands for c in Attribute
        ]
        size = len(self._names)
        self._square, self._cross, self._off, self._seen = np.zeros((size, size)), np.zeros(size), 0.0, 0

    @property
    def judgements(self) -> int:
        """How many judgements with bands were taken in."""
        return self._seen

    def add(self, made: Evidence) -> None:
        """Take in one query's judgements; those without bands tell nothing of gates."""
        told, worth = made.told, made.worth
        if not told:
            return
        place = {
            (a, band): 3 * i + k for i, a in enumerate(Attribute) for k, band in enumerate(SPECS[a].bands)
        }
        held = np.zeros((len(told), len(place)))
        adds = np.zeros((len(told), len(Attribute)))
        order = tuple(Attribute)
        for i, one in enumerate(told):
            for a, band in one.bands.items():
                held[i, place[a, band]] = 1.0
            chosen = [c for c in one.chosen if c in worth]
            left = float(np.exp(-sum(worth[c] for c in chosen) / made.headroom))
            for c in chosen:
                adds[i, order.index(c)] = left * worth[c]
        away = held - held.mean(axis=0)
        rows = (away[:, :, None] * adds[:, None, :]).reshape(len(told), -1)
        off = np.array([one.off for one in told])
        self._square += rows.T @ rows
        self._cross += rows.T @ off
        self._off += float(off @ off)
        self._seen += len(told)

    def gates(self, around: Gates | None = None, *, sd: float = GATE_SD) -> Gates:
        """The gates that are clearly there.

        Args:
            around: what to shrink to: the gates of all domains, for one domain's; none where None.
            sd: how far a gate may be from that.
        """
        if not self._seen:
            return dict(around or {})
        noise2 = max(1e-4, self._off / self._seen)
        middle = np.array([(around or {}).get(name, 0.0) for name in self._names])
        precision = self._square / noise2 + np.eye(len(self._names)) / sd**2
        mean = middle + np.linalg.solve(precision, (self._cross - self._square @ middle) / noise2)
        spread: Values = np.sqrt(np.diag(np.linalg.inv(precision)))
        return {
            name: round(float(m), 3)
            for name, m, s in zip(self._names, mean, spread, strict=True)
            if name[0] is not name[2] and abs(m) >= CLEAR * s and abs(m) >= 0.05
        }
