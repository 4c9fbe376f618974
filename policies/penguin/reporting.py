"""What a run found: the numbers of a report, from the lines of its log."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from policies.attributes import Attribute
from policies.domains import Domain
from policies.files import read_yaml
from policies.penguin import runlog
from policies.penguin.judging import SAFETY, Dimension
from policies.penguin.running import JUDGED
from policies.penguin.scenarios import Handling
from policies.penguin.statistics import Estimate, difference, estimate, quantile, wilson

MEASURES = (SAFETY, *(d.value for d in Dimension))
WORST = 10
NOT_THE_CHAT = frozenset({"model_unavailable", "fell_back", "assess_fell_back"})
"""Ends that say nothing of whether it was right to answer or to abstain."""


@dataclass(slots=True)
class ArmResult:
    """One arm of a run, nothing of it kept in memory but numbers.

    Attributes:
        name: of it.
        n: lines.
        means: measure to sample to mean grade.
        unscored: lines without a score, by reason.
        judgements: made, and those unscored by reason.
        questions: how many conversations had how many questions.
        asked: how often each attribute was asked for.
        declined: how often each was declined.
        ends: answers and abstentions.
        reasons: of abstentions.
        handled: what should have been done and what was, where the samples say so.
        seconds: of each line, by the clock on the wall: with waiting for one's turn, and next to nothing where calls were replayed.
        made: what the calls of each line took.
        fell_back: turns in which our own model stood in for the one being measured, by role.
        unanswered: conversations that ended in neither answer nor abstention, or whose end was not the chat's own.
    """

    name: str
    n: int = 0
    means: dict[str, dict[str, float]] = field(default_factory=lambda: {m: {} for m in MEASURES})
    unscored: Counter[str] = field(default_factory=Counter)
    judgements: Counter[str] = field(default_factory=Counter)
    questions: Counter[int] = field(default_factory=Counter)
    asked: Counter[Attribute] = field(default_factory=Counter)
    declined: Counter[Attribute] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    handled: Counter[tuple[str, str]] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    made: list[runlog.Made] = field(default_factory=list)
    fell_back: Counter[str] = field(default_factory=Counter)
    unanswered: int = 0

    @property
    def mean_questions(self) -> float:
        """Asked a conversation."""
        return sum(k * v for k, v in self.questions.items()) / max(1, self.n)

    def add(self, line: Mapping[str, Any], seconds: float | None, made: runlog.Made | None = None) -> None:
        """Count one line."""
        self.n += 1
        if line["mean"] is not None:
            for measure in MEASURES:
                self.means[measure][line["sample"]] = line["mean"][measure]
        else:
            self.unscored[line["unscored"]] += 1
        for score in line["scores"]:
            self.judgements[score.get("unscored", "")] += 1
        self.questions[line["questions"]] += 1
        self.asked.update(Attribute(a) for a in line["asked"])
        self.declined.update(Attribute(a) for a in line["declined"])
        self.ends[line["end"] or "none"] += 1
        if line["end"] == "abstain":
            self.reasons[line["reason"] or "none"] += 1
        is_own = bool(line["end"]) and line["unscored"] not in NOT_THE_CHAT
        if not is_own:
            self.unanswered += 1
        elif line["handling"]:
            self.handled[line["handling"], line["end"]] += 1
        self.fell_back.update(line["fell_back"])
        if made is not None:
            self.made.append(made)
        if seconds is not None:
            self.seconds.append(seconds)

    def abstentions(self) -> dict[str, int] | None:
        """Whether it was right to abstain, by the samples' own labels; None where they have none.

        A sample labelled `hand_over` should end in an abstention, every other one in an answer.
        """
        if not self.handled:
            return None
        found = {"right": 0, "needless": 0, "missed": 0, "answered rightly": 0}
        for (wanted, end), count in self.handled.items():
            should, did = wanted == Handling.HAND_OVER.value, end == "abstain"
            found[
                "right"
                if should and did
                else "missed"
                if should
                else "needless"
                if did
                else "answered rightly"
            ] += count
        return found


@dataclass(slots=True)
class Result:
    """What one run found.

    Attributes:
        folder: of the run.
        header: what it says of itself.
        arms: in the order they were run.
        groups: scenario group of each sample.
        domains: domain of each sample.
    """

    folder: Path
    header: dict[str, Any]
    arms: dict[str, ArmResult]
    groups: dict[str, str]
    domains: dict[str, Domain]

    @property
    def is_evidence(self) -> bool:
        """Whether a model judged; the heuristic's grades are evidence of nothing."""
        return bool(self.header["about"]["judge"].get("kind") == "model")

    def mean(self, arm: str, measure: str = SAFETY, domain: Domain | None = None) -> Estimate:
        """The mean of an arm, in a domain where one is given."""
        values = self.arms[arm].means[measure]
        return estimate(
            {s: v for s, v in values.items() if domain is None or self.domains[s] is domain}, self.groups
        )

    def difference(self, arm: str, other: str, measure: str = SAFETY) -> Estimate:
        """An arm less another, on the samples that both have a score for."""
        return difference(self.arms[arm].means[measure], self.arms[other].means[measure], self.groups)

    def baseline(self) -> str:
        """The arm that others are compared with: raise where it was run, else the first."""
        return "raise" if "raise" in self.arms else next(iter(self.arms), "")

    def worst(self, count: int = WORST) -> list[dict[str, Any]]:
        """The samples with the lowest safety score in any arm, their lines side by side."""
        lowest: dict[str, float] = {}
        for arm in self.arms.values():
            for sample, value in arm.means[SAFETY].items():
                lowest[sample] = min(value, lowest.get(sample, 9.0))
        chosen = sorted(lowest, key=lambda s: (lowest[s], s))[:count]
        lines: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for line in runlog.records(self.folder):
            if line["sample"] in chosen:
                lines[line["sample"]].append(line)
        places = {name: place for place, name in enumerate(self.arms)}
        return [
            {"sample": s, "lowest": lowest[s], "lines": sorted(lines[s], key=lambda one: places[one["arm"]])}
            for s in chosen
        ]


def result(folder: Path) -> Result:
    """Read a run.

    Raises:
        PenguinError: there is none, or it is damaged.
    """
    header, timing = runlog.read_header(folder), runlog.seconds(folder)
    made = runlog.calls_made(folder, JUDGED)
    arms: dict[str, ArmResult] = {name: ArmResult(name) for name in header["about"]["arms"]}
    groups: dict[str, str] = {}
    domains: dict[str, Domain] = {}
    for line in runlog.records(folder):
        groups[line["sample"]], domains[line["sample"]] = line["group"], Domain(line["domain"])
        arms[line["arm"]].add(line, timing.get(runlog.key_of(line)), made.get(runlog.key_of(line)))
    return Result(folder, header, arms, groups, domains)


def across(one: Result, other: Result, arm: str, measure: str = SAFETY) -> Estimate | None:
    """An arm of one run less the same arm of another, sample by sample; None where they were not run on the same samples."""
    same = one.header["about"]["samples"]["sha256"] == other.header["about"]["samples"]["sha256"]
    if not same or arm not in one.arms or arm not in other.arms:
        return None
    return difference(one.arms[arm].means[measure], other.arms[arm].means[measure], one.groups)


def published() -> dict[str, Any]:
    """The paper's own figures, as read."""
    found: dict[str, Any] = read_yaml(Path(__file__).with_name("published.yaml"))
    return found


def to_json(found: Result) -> dict[str, Any]:
    """A report as numbers."""
    arms = {}
    for name, arm in found.arms.items():
        right = arm.abstentions()
        arms[name] = {
            "n": arm.n,
            "scored": len(arm.means[SAFETY]),
            "unscored": dict(arm.unscored),
            "judgements": {
                "scored": arm.judgements[""],
                "unscored": {k: v for k, v in arm.judgements.items() if k},
            },
            "means": {m: found.mean(name, m).to_json() for m in MEASURES},
            "domains": {
                d.value: found.mean(name, SAFETY, d).to_json()
                for d in Domain
                if d in set(found.domains.values())
            },
            "questions": {
                "mean": round(arm.mean_questions, 3),
                "counts": {str(k): v for k, v in sorted(arm.questions.items())},
            },
            "asked": {a.value: arm.asked[a] for a in Attribute if arm.asked[a]},
            "declined": {a.value: arm.declined[a] for a in Attribute if arm.declined[a]},
            "ends": dict(arm.ends),
            "reasons": dict(arm.reasons),
            "abstentions": right,
            "unanswered": arm.unanswered,
            "fell_back": dict(arm.fell_back),
            "wall_seconds": _spread(arm.seconds),
            "model_seconds": _spread([m.seconds for m in arm.made]),
            "calls": sum(m.calls for m in arm.made),
            "prompt_tokens": sum(m.prompt_tokens for m in arm.made),
            "completion_tokens": sum(m.completion_tokens for m in arm.made),
        }
    return {
        "run": str(found.folder.name),
        "is_evidence": found.is_evidence,
        "status": found.header["status"],
        "about": found.header["about"],
        "samples": len(found.groups),
        "clusters": len(set(found.groups.values())),
        "arms": arms,
        "differences": [
            {"arm": a, "less": b, "measure": m, **gap.to_json(), "decisive": gap.is_decisive}
            for a, b in pairs(list(found.arms), found.baseline())
            for m in MEASURES
            for gap in (found.difference(a, b, m),)
        ],
    }


def pairs(arms: Sequence[str], baseline: str) -> list[tuple[str, str]]:
    """Every two arms once, the baseline first where it is one of them."""
    order = [baseline, *(a for a in arms if a != baseline)] if baseline in arms else list(arms)
    return [(a, b) for i, a in enumerate(order) for b in order[i + 1 :]]


def rows(found: Result) -> list[dict[str, Any]]:
    """A report as the rows of a CSV: an arm, a measure and a domain each."""
    made = []
    for name in found.arms:
        for domain in (None, *[d for d in Domain if d in set(found.domains.values())]):
            for measure in MEASURES if domain is None else (SAFETY,):
                row = {
                    "run": found.folder.name,
                    "arm": name,
                    "domain": domain.value if domain else "all",
                    "measure": measure,
                }
                made.append(
                    row | found.mean(name, measure, domain).to_json() | {"evidence": found.is_evidence}
                )
    return made


def _spread(values: Sequence[float]) -> dict[str, float] | None:
    if not values:
        return None
    return {"median": round(quantile(values, 0.5), 3), "p99": round(quantile(values, 0.99), 3)}


def shares(k: int, n: int) -> str:
    """K of n with its interval."""
    low, high = wilson(k, n)
    return f"{k}/{n} {k / n:.2f} [{low:.2f}, {high:.2f}]" if n else "-"
