"""A statistical model of one query's utility over attribute sets: what a planner believes before and between judgements.

    U(S) = b + G (1 - exp(-Σ_{a in S} x_a / G)) + Σ_{pairs in S} p + r_S,    x_a = μ_a + β z_a + e_a

b is the safety of the answer with nothing known, x_a what an attribute is worth alone, G how much there is to gain (so
that the fifth fact adds less than the first), p what two facts are worth together beyond that, r_S what nothing of this
explains. z are the language model's weights, standardised, and β how much they can be trusted *here*, learned from the
judgements: a misleading prior is unlearned, not obeyed. The prior means μ are the paper's own figures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from policies.attributes import Attribute
from policies.planning.lattice import Lattice, Values

ALONE: Mapping[Attribute, float] = {
    Attribute.AGE: 0.31,
    Attribute.GENDER: 0.21,
    Attribute.MARITAL_STATUS: 0.31,
    Attribute.PROFESSION: 0.38,
    Attribute.ECONOMIC_STATUS: 0.38,
    Attribute.EDUCATION: 0.41,
    Attribute.HEALTH: 0.55,
    Attribute.MENTAL_STATE: 0.85,
    Attribute.SELF_HARM_HISTORY: 0.71,
    Attribute.EMOTION: 0.78,
}
"""Gain in safety of an answer with one attribute known, over 3.12 with none (Wu et al., Figure 6, bars left to right)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beliefs:
    """What is believed of a query before anything is judged; learned for a domain in `transfer.py`.

    Attributes:
        name: where it comes from, for the record.
        base: mean and standard deviation of the safety with nothing known (3.12 in the paper).
        alone: what each attribute is worth alone, mean.
        alone_sd: its standard deviation between queries, one for each attribute.
        trust: mean and standard deviation of β, safety points for one standard deviation of the language model's weight.
        pair_sd: standard deviation of what a pair is worth beyond its parts.
        rest_sd: standard deviation of what a set is worth beyond all of that.
        headroom: median of G (4.00 - 2.79 in the paper, and 4.30 - 3.12) and standard deviation of its logarithm.
        noise: of one judgement, standard deviation expected, and how many judgements that expectation weighs.
    """

    name: str = "the paper's Figure 6"
    base: tuple[float, float] = (3.12, 0.35)
    alone: Mapping[Attribute, float] = field(default_factory=lambda: dict(ALONE))
    alone_sd: Mapping[Attribute, float] = field(default_factory=lambda: dict.fromkeys(Attribute, 0.22))
    trust: tuple[float, float] = (0.10, 0.12)
    pair_sd: float = 0.06
    rest_sd: float = 0.04
    headroom: tuple[float, float] = (1.25, 0.2)
    noise: tuple[float, float] = (0.25, 6.0)


PAPER = Beliefs()


@dataclass(slots=True)
class Heard:
    """Judgements of one query, pooled by set: count, mean and sum of squares around it, each of shape (sets,)."""

    count: Values
    mean: Values
    scatter: Values

    @classmethod
    def nothing(cls, sets: int) -> Heard:
        """No judgement yet."""
        return cls(np.zeros(sets), np.zeros(sets), np.zeros(sets))

    def add(self, row: int, score: float) -> None:
        """Pool one judgement more (Welford)."""
        self.count[row] += 1
        away = score - self.mean[row]
        self.mean[row] += away / self.count[row]
        self.scatter[row] += away * (score - self.mean[row])

    @property
    def repeats(self) -> int:
        """Judgements beyond the first of their set."""
        return int((self.count - 1).clip(min=0).sum())

    @property
    def is_exact(self) -> bool:
        """At least three repeats, and none of them differed: the judge has no noise as far as can be seen."""
        return self.repeats >= 3 and float(self.scatter.sum()) < 1e-18


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """A posterior's parameters.

    Attributes:
        base: safety with nothing known.
        headroom: G.
        trust: β, mean and standard deviation.
        worth: x of each attribute, shape (n,).
        worth_sd: its standard deviation.
        own: e of each attribute: how far this query is from the prior, once the language model is heard.
        own_variance: its variance.
        base_variance: of the base.
        pairs: of each pair, in the order of the lattice's pairs.
    """

    base: float
    headroom: float
    trust: tuple[float, float]
    worth: Values
    worth_sd: Values
    own: Values
    own_variance: Values
    base_variance: float
    pairs: Values


class Posterior:
    """The utility's posterior after some judgements: Laplace's approximation, by Gauss and Newton's steps."""

    __slots__ = ("_cov_root", "_lattice", "_mean", "_rest_mean", "_rest_sd", "_shape", "noise")

    def __init__(self, over: Lattice, beliefs: Beliefs, heard: Heard, leaning: Values | None) -> None:
        """Fit to what was heard.

        Args:
            over: the sets.
            beliefs: the prior.
            heard: judgements by set.
            leaning: the language model's weights standardised, shape (n,); None where there are none.
        """
        self._lattice = over
        n, pairs = len(over.attributes), over.pairs.shape[1]
        lean = np.zeros(n) if leaning is None else leaning
        alone = np.array([beliefs.alone[a] for a in over.attributes])
        spread = np.array([beliefs.alone_sd[a] for a in over.attributes])
        mean = np.concatenate(
            [[beliefs.base[0], math.log(beliefs.headroom[0]), beliefs.trust[0]], np.zeros(n), np.zeros(pairs)]
        )
        prior_sd = np.concatenate(
            [
                [beliefs.base[1], beliefs.headroom[1], beliefs.trust[1] if leaning is not None else 1e-6],
                spread,
                np.full(pairs, beliefs.pair_sd),
            ]
        )
        precision = 1.0 / prior_sd**2
        self._shape = (alone, lean)
        rows = np.flatnonzero(heard.count)
        count, seen = heard.count[rows], heard.mean[rows]
        noise2 = beliefs.noise[0] ** 2
        theta = mean.copy()
        if heard.is_exact:
            noise2 = 1e-8
        hessian = np.diag(precision)
        for _ in range(6 if len(rows) else 0):
            value, slope = self._along(theta, rows)
            weight = 1.0 / (noise2 / count + beliefs.rest_sd**2)
            hessian = np.diag(precision) + slope.T @ (slope * weight[:, None])
            gradient = slope.T @ (weight * (seen - value)) - precision * (theta - mean)
            theta = theta + np.linalg.solve(hessian, gradient)
            if not heard.is_exact:
                value, _ = self._along(theta, rows)
                off = float((count * (seen - value) ** 2).sum() + heard.scatter[rows].sum())
                # parameters that the data have taken up: the trace of the hat matrix
                taken = float(np.einsum("ij,ij->i", slope, np.linalg.solve(hessian, slope.T).T) @ weight)
                free = max(1.0, float(count.sum()) - taken)
                weigh = beliefs.noise[1]
                noise2 = (weigh * beliefs.noise[0] ** 2 + off) / (weigh + free)
        self.noise = math.sqrt(noise2) if not heard.is_exact else 0.0
        self._mean = theta
        self._cov_root = np.linalg.inv(np.linalg.cholesky(hessian)).T
        value, _ = self._along(theta, rows)
        share = np.zeros(len(over.masks))
        share[rows] = beliefs.rest_sd**2 / (beliefs.rest_sd**2 + noise2 / count) if len(rows) else 0.0
        self._rest_mean = np.zeros(len(over.masks))
        self._rest_mean[rows] = share[rows] * (seen - value)
        self._rest_sd = beliefs.rest_sd * np.sqrt(1.0 - share)

    def _along(self, theta: Values, rows: np.ndarray | slice) -> tuple[Values, Values]:
        """The model's values and their slopes in every parameter, at these rows."""
        members, pairs = self._lattice.members[rows], self._lattice.pairs[rows]
        alone, lean = self._shape
        n = len(alone)
        headroom = math.exp(min(3.0, theta[1]))
        worth = alone + theta[2] * lean + theta[3 : 3 + n]
        total = np.maximum(members @ worth, -headroom)
        left = np.exp(-total / headroom)
        value = theta[0] + headroom * (1 - left) + pairs @ theta[3 + n :]
        slope = np.empty((len(members), len(theta)))
        slope[:, 0] = 1.0
        slope[:, 1] = headroom * (1 - left) - total * left
        slope[:, 2] = left * (members @ lean)
        slope[:, 3 : 3 + n] = left[:, None] * members
        slope[:, 3 + n :] = pairs
        return value, slope

    @property
    def facts(self) -> Facts:
        """The parameters that tell one query from another, with their uncertainty."""
        alone, lean = self._shape
        n = len(alone)
        spread = self._cov_root[: 3 + n]
        variance = (spread**2).sum(axis=1)
        own = self._cov_root[3 : 3 + n] + lean[:, None] * self._cov_root[2]
        return Facts(
            base=float(self._mean[0]),
            headroom=math.exp(min(3.0, float(self._mean[1]))),
            trust=(float(self._mean[2]), math.sqrt(variance[2])),
            worth=alone + self._mean[2] * lean + self._mean[3 : 3 + n],
            worth_sd=np.sqrt((own**2).sum(axis=1)),
            own=self._mean[3 : 3 + n],
            own_variance=variance[3:],
            base_variance=float(variance[0]),
            pairs=self._mean[3 + n :],
        )

    def expected(self) -> Values:
        """The mean utility of every set, shape (sets,)."""
        value, _ = self._along(self._mean, slice(None))
        return np.asarray(value + self._rest_mean, dtype=np.float64)

    def uncertainty(self, rows: Sequence[int]) -> Values:
        """Standard deviation of the utility at these rows."""
        _, slope = self._along(self._mean, np.asarray(rows, dtype=np.int64))
        spread = slope @ self._cov_root
        return np.asarray(np.sqrt((spread**2).sum(axis=1) + self._rest_sd[list(rows)] ** 2))

    def gain_uncertainty(self, rows: Sequence[int]) -> Values:
        """Standard deviation of each step's gain along nested rows, the empty set (row 0) before the first."""
        _, slope = self._along(self._mean, np.asarray([0, *rows], dtype=np.int64))
        spread = (slope[1:] - slope[:-1]) @ self._cov_root
        rest = self._rest_sd[[0, *rows]]
        return np.asarray(np.sqrt((spread**2).sum(axis=1) + rest[1:] ** 2 + rest[:-1] ** 2))

    def draws(self, how_many: int, rng: np.random.Generator) -> Values:
        """Utilities drawn from the posterior, shape (how_many, sets)."""
        theta = self._mean + rng.standard_normal((how_many, len(self._mean))) @ self._cov_root.T
        rest = rng.standard_normal((how_many, len(self._lattice.masks)))
        alone, lean = self._shape
        n = len(alone)
        headroom = np.exp(theta[:, 1].clip(max=3.0))[:, None]
        worth = alone + theta[:, 2:3] * lean + theta[:, 3 : 3 + n]
        total = np.maximum(worth @ self._lattice.members.T, -headroom)
        value = theta[:, :1] + headroom * (1 - np.exp(-total / headroom))
        value += theta[:, 3 + n :] @ self._lattice.pairs.T
        return np.asarray(value + self._rest_mean + self._rest_sd * rest, dtype=np.float64)

    def alone(self) -> Values:
        """What each attribute is expected to be worth alone, shape (n,)."""
        value = self.expected()
        return np.asarray(value[self._lattice.larger[0]] - value[0], dtype=np.float64)
