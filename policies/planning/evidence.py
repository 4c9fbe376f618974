"""What one planned query tells of others: small enough to be written into a journal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from policies.attributes import SPECS, Attribute
from policies.errors import PlanningError
from policies.planning.judging import Band
from policies.planning.search import Planned

MOST_TOLD = 150
"""People of one query whose scores are kept for learning gates."""


def shorthand(bands: Mapping[Attribute, Band]) -> str:
    """Bands as ten letters, one an attribute in order: its place on the scale, "-" where there is none."""
    return "".join(str(tuple(SPECS[a].bands).index(bands[a])) if a in bands else "-" for a in Attribute)


def longhand(letters: str) -> dict[Attribute, Band]:
    """What `shorthand` shortened.

    Raises:
        ValueError: it is not ten letters of such places.
    """
    if len(letters) != len(Attribute):
        raise ValueError("bands are ten letters")
    return {
        a: tuple(SPECS[a].bands)[int(letter)]
        for a, letter in zip(Attribute, letters, strict=True)
        if letter != "-"
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One judgement: which facts, for whom, and how far it was from the query's own mean."""

    chosen: frozenset[Attribute]
    bands: Mapping[Attribute, Band]
    off: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One query's posterior in a few numbers.

    Attributes:
        base: safety with nothing known, mean and variance.
        trust: of the language model's weights, mean and standard deviation.
        own: by attribute, how far the query is from its prior: mean and variance.
        worth: of each attribute before saturation.
        headroom: how much there is to gain.
        noise: of one judgement.
        told: the judgements that came with a person's bands.
    """

    base: tuple[float, float]
    trust: tuple[float, float]
    own: Mapping[Attribute, tuple[float, float]] = field(repr=False)
    worth: Mapping[Attribute, float] = field(repr=False)
    headroom: float
    noise: float
    told: tuple[Told, ...] = field(repr=False)

    @classmethod
    def of(cls, made: Planned) -> Evidence:
        """What a plan tells of others."""
        facts, over = made.facts, made.over
        own = zip(over.attributes, facts.own.tolist(), facts.own_variance.tolist(), strict=True)
        return cls(
            base=(round(facts.base, 4), round(facts.base_variance, 6)),
            trust=(round(facts.trust[0], 4), round(facts.trust[1], 4)),
            own={a: (round(m, 4), round(v, 6)) for a, m, v in own},
            worth={
                a: round(max(0.0, w), 4) for a, w in zip(over.attributes, facts.worth.tolist(), strict=True)
            },
            headroom=round(facts.headroom, 4),
            noise=made.plan.noise,
            told=_told(made),
        )

    def to_json(self) -> dict[str, Any]:
        """A JSON object that `from_json` reads back equal."""
        return {
            "base": list(self.base),
            "trust": list(self.trust),
            "own": {a.value: list(v) for a, v in self.own.items()},
            "worth": {a.value: v for a, v in self.worth.items()},
            "headroom": self.headroom,
            "noise": self.noise,
            "told": [
                [sum(1 << i for i, a in enumerate(Attribute) if a in t.chosen), shorthand(t.bands), t.off]
                for t in self.told
            ],
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Evidence:
        """Read what `to_json` wrote.

        Raises:
            PlanningError: it is no evidence.
        """
        try:
            return cls(
                base=(raw["base"][0], raw["base"][1]),
                trust=(raw["trust"][0], raw["trust"][1]),
                own={Attribute(a): (v[0], v[1]) for a, v in raw["own"].items()},
                worth={Attribute(a): v for a, v in raw["worth"].items()},
                headroom=raw["headroom"],
                noise=raw["noise"],
                told=tuple(
                    Told(
                        chosen=frozenset(a for i, a in enumerate(Attribute) if chosen >> i & 1),
                        bands=longhand(bands),
                        off=off,
                    )
                    for chosen, bands, off in raw["told"]
                ),
            )
        except (KeyError, TypeError, ValueError, IndexError) as bad:
            raise PlanningError(f"not evidence: {type(bad).__name__} at {bad}") from bad


def _told(made: Planned) -> tuple[Told, ...]:
    """Every k-th of the people judged for, so that no query tells more than `MOST_TOLD`."""
    over = made.over
    rows = {int(mask): row for row, mask in enumerate(over.masks)}
    place = {a: 1 << i for i, a in enumerate(over.attributes)}
    every = [(j.chosen, person) for j in made.judgements for person in j.people]
    step = -(-len(every) // MOST_TOLD) or 1
    return tuple(
        Told(
            chosen=chosen,
            bands=person.bands,
            off=round(person.score - float(made.expected[rows[sum(place.get(a, 0) for a in chosen)]]), 3),
        )
        for chosen, person in every[::step]
    )
