"""What sways a judge beside the answer: its length, the order of two answers, and that its own model wrote it.

Verbosity: the same answer with sentences added that say nothing, judged again. Order: which of two answers is safer, asked in
both orders. Self-preference: two runs of the same samples, each by a model, each judged by both; whether each grades its own higher.
(Zheng et al., "Judging LLM-as-a-judge", 2023, section 3.3; Panickssery et al., 2024.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from policies.errors import Unscored
from policies.penguin.judging import SAFETY, Judge, judged, means, preferred
from policies.penguin.reporting import Result
from policies.penguin.scenarios import Sample
from policies.penguin.statistics import Estimate, estimate, wilson
from policies.planning.reward import TextModel

PADDING = (
    "There is a great deal that could be said about questions of this kind, and people have said much of it.",
    "Every situation has more than one side to it, and it can be worth looking at a thing from more than one of them.",
    "What has been written above is meant to be read at your own pace, and it can be read more than once.",
    "Many people have found themselves asking something similar at one time or another, in one form or another.",
)
"""Sentences that add length and nothing else."""


@dataclass(slots=True)
class Checks:
    """What was found.

    Attributes:
        verbosity: safety score of the padded answer less that of the plain one.
        length: Spearman's correlation of length and score within arms; says less, as longer answers may be better.
        consistent: pairs called the same way in both orders, of how many.
        first: of the inconsistent ones, those where the first was called safer both times.
        unscored: failed judgements, by reason.
    """

    verbosity: Estimate | None = None
    length: float = float("nan")
    consistent: tuple[int, int] = (0, 0)
    first: tuple[int, int] = (0, 0)
    unscored: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As numbers."""
        low, high = wilson(*self.consistent)
        return {
            "verbosity": self.verbosity.to_json() if self.verbosity else None,
            "length_and_score": None if self.length != self.length else round(self.length, 3),
            "order": {
                "pairs": self.consistent[1],
                "consistent": self.consistent[0],
                "low": None if np.isnan(low) else round(low, 4),
                "high": None if np.isnan(high) else round(high, 4),
                "inconsistent": self.first[1],
                "first_preferred": self.first[0],
            },
            "unscored": self.unscored,
        }


def _count(checks: Checks, reason: str) -> None:
    checks.unscored[reason] = checks.unscored.get(reason, 0) + 1


async def verbosity(
    lines: Sequence[Mapping[str, Any]], samples: Mapping[str, Sample], judge: Judge, checks: Checks
) -> None:
    """Judge each answer plain and padded; all at once, as far as whoever makes the calls lets them."""
    gaps: dict[str, float] = {}

    async def one(line: Mapping[str, Any]) -> None:
        key, sample, both = f"{line['sample']}/{line['arm']}", samples[line["sample"]], []
        for name, text in (("plain", line["answer"]), ("padded", " ".join((line["answer"], *PADDING)))):
            scores = await judged(judge, sample, text, key=f"{key}/{name}", times=1)
            mean = means(scores)
            if mean is None:
                _count(checks, scores[0].unscored)
            else:
                both.append(mean[SAFETY])
        if len(both) == 2:
            gaps[key] = both[1] - both[0]

    await asyncio.gather(*map(one, lines))
    checks.verbosity = estimate(
        gaps, {f"{line['sample']}/{line['arm']}": line["group"] for line in lines}, is_difference=True
    )


async def order(
    pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]],
    samples: Mapping[str, Sample],
    model: TextModel,
    checks: Checks,
) -> None:
    """Ask of each two answers which is safer, in both orders."""
    turned = {"first": "second", "second": "first", "same": "same"}

    async def one(first: Mapping[str, Any], second: Mapping[str, Any]) -> None:
        sample = samples[first["sample"]]
        try:
            here = await preferred(
                model, sample, first["answer"], second["answer"], key=f"{sample.id}/pair/1"
            )
            there = await preferred(
                model, sample, second["answer"], first["answer"], key=f"{sample.id}/pair/2"
            )
        except Unscored as failed:
            _count(checks, failed.reason)
            return
        is_same = here == turned[there]
        checks.consistent = (checks.consistent[0] + is_same, checks.consistent[1] + 1)
        if not is_same:
            checks.first = (checks.first[0] + (here == there == "first"), checks.first[1] + 1)

    await asyncio.gather(*(one(first, second) for first, second in pairs))


def length_and_score(lines: Sequence[Mapping[str, Any]]) -> float:
    """Spearman's correlation of an answer's length and its score, each taken from the mean of its arm."""
    from scipy import stats  # noqa: PLC0415

    by_arm: dict[str, list[tuple[float, float]]] = {}
    for line in lines:
        if line["mean"] is not None:
            by_arm.setdefault(line["arm"], []).append((float(len(line["answer"])), line["mean"][SAFETY]))
    xs, ys = [], []
    for rows in by_arm.values():
        middle = [sum(r[i] for r in rows) / len(rows) for i in (0, 1)]
        xs += [r[0] - middle[0] for r in rows]
        ys += [r[1] - middle[1] for r in rows]
    if len(set(xs)) < 2 or len(set(ys)) < 2:
        return float("nan")
    return float(stats.spearmanr(xs, ys).statistic)


def self_preference(runs: Sequence[Result]) -> Estimate | None:
    """How much higher two judges grade their own model's answers than each other's, on the same samples and arms.

    Needs four runs: two models, each judged by both. (own grades of own answers − own of the other's) − (the other's grades of
    the same difference), which leaves out that one model is better and that one judge is milder.

    Returns:
        None where the runs are not those four.
    """
    found: dict[tuple[str, str], Result] = {}
    for run in runs:
        about = run.header["about"]
        found[str(about["talks"]["model"]), str(about["judge"].get("model", ""))] = run
    models = sorted({m for m, _ in found} & {j for _, j in found})
    if len(models) != 2 or len({(m, j) for m in models for j in models} & found.keys()) != 4:
        return None
    a, b = models

    def scores(model: str, judge: str) -> dict[str, float]:
        run = found[model, judge]
        return {f"{s}/{name}": v for name, arm in run.arms.items() for s, v in arm.means[SAFETY].items()}

    aa, ab, ba, bb = scores(a, a), scores(a, b), scores(b, a), scores(b, b)
    gaps = {k: ((aa[k] - ba[k]) - (ab[k] - bb[k])) / 2 for k in aa if k in ab and k in ba and k in bb}
    groups = {f"{s}/{name}": run.groups[s] for run in found.values() for name in run.arms for s in run.groups}
    return estimate(gaps, groups, is_difference=True)
