"""A plan: one nested path, what it is expected to be worth at every length, and how it was found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from policies.attributes import Attribute
from policies.errors import PlanningError

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStep:
    """One question of a path.

    Attributes:
        attribute: what is asked.
        expected: the safety of the answer once it is known too, 1 to 5.
        sd: standard deviation of that, in safety points.
        gain: what this step adds.
        gain_sd: standard deviation of the gain.
    """

    attribute: Attribute
    expected: float
    sd: float
    gain: float
    gain_sd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What a plan has cost.

    Attributes:
        calls: everything that was asked of a model: the prior's calls and the evaluations, failed ones included.
        scored: evaluations that gave a score.
        prior: calls for the language model's weights.
        sets: different sets that were scored.
        unscored: evaluations that gave none, by reason; they are counted as calls and are never a score.
        seconds: on the clock.
    """

    calls: int
    scored: int
    prior: int
    sets: int
    unscored: Mapping[str, int]
    seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to ask for one query, in which order.

    Attributes:
        query: the query.
        path: nested: its first k attributes are the set to know when k may be asked.
        steps: one a step of the path.
        base: expected safety with nothing (or only what was known) told, and its standard deviation.
        planner: the name of the planner that made it.
        alone: what each attribute is worth alone, expected; the order in which to go on where the path is blocked.
        noise: of one judgement, standard deviation as estimated.
        sure: probability-weighted regret that is left: mean over the posterior of what a better path would add to the
            mean safety over all lengths, in safety points; None where the planner has no posterior.
        spent: calls.
        seed: the search's own seed: the same seed, settings and judgements give the same plan.
        settings: budget, max_calls, known, price, and the name of the beliefs: all that is needed to repeat it.
        stopped: why it ended: "calls", "sure", "exhausted", or "worth" where nothing further was worth its price.
    """

    query: str = field(repr=False)
    path: tuple[Attribute, ...]
    steps: tuple[PlanStep, ...]
    base: tuple[float, float]
    planner: str
    alone: Mapping[Attribute, float] = field(repr=False)
    noise: float
    sure: float | None
    spent: Spent
    seed: int
    settings: Mapping[str, Any] = field(repr=False)
    stopped: str

    def to_json(self) -> dict[str, Any]:
        """A JSON object that `from_json` reads back equal."""
        return {
            "schema": SCHEMA,
            "query": self.query,
            "path": [a.value for a in self.path],
            "steps": [
                {
                    "attribute": s.attribute.value,
                    "expected": s.expected,
                    "sd": s.sd,
                    "gain": s.gain,
                    "gain_sd": s.gain_sd,
                }
                for s in self.steps
            ],
            "base": list(self.base),
            "planner": self.planner,
            "alone": {a.value: v for a, v in self.alone.items()},
            "noise": self.noise,
            "sure": self.sure,
            "spent": {
                "calls": self.spent.calls,
                "scored": self.spent.scored,
                "prior": self.spent.prior,
                "sets": self.spent.sets,
                "unscored": dict(self.spent.unscored),
                "seconds": self.spent.seconds,
            },
            "seed": self.seed,
            "settings": dict(self.settings),
            "stopped": self.stopped,
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Plan:
        """Read what `to_json` wrote.

        Raises:
            PlanningError: it is not a plan, or one of another schema.
        """
        if raw.get("schema") != SCHEMA:
            raise PlanningError(
                f"a plan of schema {raw.get('schema')!r} cannot be read; this release reads {SCHEMA}"
            )
        try:
            return cls(
                query=raw["query"],
                path=tuple(Attribute(a) for a in raw["path"]),
                steps=tuple(PlanStep(**{**s, "attribute": Attribute(s["attribute"])}) for s in raw["steps"]),
                base=(raw["base"][0], raw["base"][1]),
                planner=raw["planner"],
                alone={Attribute(a): v for a, v in raw["alone"].items()},
                noise=raw["noise"],
                sure=raw["sure"],
                spent=Spent(**raw["spent"]),
                seed=raw["seed"],
                settings=raw["settings"],
                stopped=raw["stopped"],
            )
        except (KeyError, TypeError, ValueError, IndexError) as bad:
            raise PlanningError(f"not a plan: {type(bad).__name__} at {bad}") from bad
