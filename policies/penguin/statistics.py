"""Means with intervals, clustered by scenario group, and differences between arms on the same samples.

A bootstrap draws whole scenario groups, so that many samples of one scenario count as what they are (Miller, "Adding error bars
to evals", 2024, section 2.2; Efron and Tibshirani, 1993, chapter 8). A difference is "not decisive" where its interval holds zero.
Where few samples differ at all, a percentile interval is too short; so it is not decisive either where the signs of the groups'
differences, flipped at random (Fisher's randomisation test), would give as much more often than one time in twenty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

DRAWS = 4_000
LEVEL = 0.95
MOST_EXACT = 12
"""Groups up to which every combination of signs is tried."""
FEWEST = 2
"""Clusters below which no interval can be given."""

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean, or a difference of means.

    Attributes:
        mean: of it; NaN where there is nothing.
        low: end of the 95 % interval; NaN where none can be given.
        high: the other end.
        n: samples it rests on.
        clusters: scenario groups among them.
        p: of the sign-flip test, for a difference; NaN for a mean.
    """

    mean: float
    low: float
    high: float
    n: int
    clusters: int
    p: float = float("nan")

    @property
    def is_decisive(self) -> bool:
        """Whether the interval of a difference leaves zero out, and flipped signs seldom give as much."""
        return bool((self.low > 0 or self.high < 0) and self.p <= 1 - LEVEL)

    def to_json(self) -> dict[str, float | int | None]:
        """NaN as null."""
        some = {"mean": self.mean, "low": self.low, "high": self.high, "p": self.p}
        return {k: None if np.isnan(v) else round(v, 4) for k, v in some.items()} | {
            "n": self.n,
            "clusters": self.clusters,
        }


def estimate(
    values: Mapping[str, float],
    groups: Mapping[str, str],
    *,
    seed: int = 0,
    draws: int = DRAWS,
    is_difference: bool = False,
) -> Estimate:
    """The mean over samples and its interval.

    Args:
        values: by sample.
        groups: scenario group of each sample.
        seed: of the draws.
        draws: of the bootstrap.
        is_difference: the values are differences, so that their signs can be flipped.
    """
    names = sorted(values)
    if not names:
        return Estimate(mean=float("nan"), low=float("nan"), high=float("nan"), n=0, clusters=0)
    numbers: dict[str, int] = {}
    of = np.array([numbers.setdefault(groups.get(n, n), len(numbers)) for n in names])
    x = np.array([values[n] for n in names], dtype=np.float64)
    sums, counts = np.asarray(np.bincount(of, weights=x), dtype=np.float64), np.bincount(of)
    mean = float(x.mean())
    if len(sums) < FEWEST:
        return Estimate(mean=mean, low=float("nan"), high=float("nan"), n=len(x), clusters=len(sums))
    p = _flipped(sums, seed) if is_difference else float("nan")
    drawn = np.random.default_rng(seed).integers(0, len(sums), (draws, len(sums)))
    means = sums[drawn].sum(1) / counts[drawn].sum(1)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(mean=mean, low=float(low), high=float(high), n=len(x), clusters=len(sums), p=p)


def _flipped(sums: Values, seed: int) -> float:
    """How often random signs of the groups' sums give a total as far from zero; all signs where they are few."""
    if len(sums) <= MOST_EXACT:
        signs = 1 - 2 * ((np.arange(2 ** len(sums))[:, None] >> np.arange(len(sums))) & 1)
        return float((np.abs(signs @ sums) >= abs(sums.sum()) - 1e-9).mean())
    signs = np.random.default_rng([seed, 1]).choice([-1.0, 1.0], (DRAWS, len(sums)))
    return float(((np.abs(signs @ sums) >= abs(sums.sum()) - 1e-9).sum() + 1) / (DRAWS + 1))


def difference(
    one: Mapping[str, float], other: Mapping[str, float], groups: Mapping[str, str], *, seed: int = 0
) -> Estimate:
    """The mean of `one` less `other` over the samples that both have."""
    return estimate({n: one[n] - other[n] for n in one if n in other}, groups, seed=seed, is_difference=True)


def quantile(values: Sequence[float], share: float) -> float:
    """The value that so large a share lies below; the nearest one that is there."""
    return float(np.quantile(values, share, method="nearest"))


def wilson(k: int, n: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson, 1927)."""
    if not n:
        return float("nan"), float("nan")
    z, p = 1.959964, k / n
    middle, scale = p + z * z / (2 * n), 1 + z * z / n
    spread = z * float(np.sqrt(p * (1 - p) / n + z * z / (4 * n * n)))
    return 0.0 if k == 0 else (middle - spread) / scale, 1.0 if k == n else (middle + spread) / scale


def kappa(one: Sequence[int], other: Sequence[int], *, weights: str = "none", levels: int = 5) -> float:
    """Cohen's kappa of two raters on the same items (Cohen, 1960; weighted: 1968).

    Args:
        one: grades from 1.
        other: of the same items.
        weights: "none", "linear" or "quadratic".
        levels: of the scale.

    Returns:
        1 for perfect agreement, 0 for chance, NaN where both only ever gave one and the same grade.
    """
    seen = np.zeros((levels, levels))
    np.add.at(seen, (np.asarray(one) - 1, np.asarray(other) - 1), 1)
    apart = np.abs(np.subtract.outer(np.arange(levels), np.arange(levels))).astype(float)
    cost = {"none": (apart > 0).astype(float), "linear": apart, "quadratic": apart**2}[weights]
    chance = np.outer(seen.sum(1), seen.sum(0)) / max(1.0, seen.sum())
    expected = float((cost * chance).sum())
    return float("nan") if expected == 0 else 1 - float((cost * seen).sum()) / expected
