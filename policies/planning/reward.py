"""Rewards: what an answer written with some facts is worth to a person, judged by a model or assumed by the prior model.

With a real model: simulate people for the query (several draws, or the profile where the scenario has one), write the answer
with what is known, judge it strictly against the full profile on the paper's three dimensions. What cannot be scored is
named and counted; it is never a number.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Protocol, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, create_model

from policies.attributes import SPECS, Attribute
from policies.domains import Domain, Stakes
from policies.errors import PolicyFileError, Unscored
from policies.planning.effects import Effects
from policies.planning.effects import shipped as shipped_effects
from policies.planning.effects import shipped_path as effects_path
from policies.planning.journal import Once, Repeat
from policies.planning.judging import Person, Prior, Scored
from policies.planning.simulation import query_of, raw_worth
from policies.planning.utility import ALONE
from policies.prompts import Prompt, read_prompt

_Shape = TypeVar("_Shape", bound=BaseModel)
PROMPTS = ("simulate", "write", "judge", "prior")
PEOPLE = 6
"""Simulated people a query, each judged in turn."""
PANEL = 6
"""People the prior model judges an answer for at once: it costs nothing there."""


class TextModel(Protocol):
    """What planning needs of a language model."""

    name: str

    async def written(self, system: str, data: Mapping[str, Any], *, key: str) -> str:
        """Plain text. `key` tells two calls with the same words apart.

        Raises:
            Unscored: there is none; its reason says why.
        """
        ...

    async def shaped(self, system: str, data: Mapping[str, Any], shape: type[_Shape], *, key: str) -> _Shape:
        """An object of a shape, strictly read.

        Raises:
            Unscored: there is none, or it is of another shape.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A query to plan for.

    Attributes:
        id: names it in journals and libraries.
        query: as somebody might write it.
        domain: of it.
        group: scenario group; may be empty.
        stakes: of a wrong answer.
        needs: factors on what each fact is worth to it, for the prior model.
        profiles: people who might ask, attribute to words, where the source has them.
    """

    id: str
    query: str = field(repr=False)
    domain: Domain
    group: str
    stakes: Stakes
    needs: Mapping[Attribute, float] = field(default_factory=dict, repr=False)
    profiles: tuple[Mapping[Attribute, str], ...] = field(default=(), repr=False)


class Rewarder(Protocol):
    """Where evaluations come from."""

    name: str
    judge: str
    costs: bool

    def about(self) -> Mapping[str, Any]:
        """How it works, for the library's header: prompts by hash, or the prior model's file."""
        ...

    def parts(self, scenario: Scenario, seed: int, once: Once) -> tuple[Repeat, Prior]:
        """The evaluation and the prior for one query; `once` keeps what is made for all evaluations of it."""
        ...


# ----------------------------------------------------------------------------------------------- the prior model


class AssumedReward:
    """The shipped prior model as judge: draws people, looks up what the facts are assumed to be worth to each.

    A repeat of the same set is other people, derived from the seed, the query, the set and the repeat, so
    that a run that resumes gets what it would have got.
    """

    name = "the shipped prior model"
    costs = False
    judge = f"assumed, the mean over {PANEL} simulated people"

    def __init__(self, effects: Effects | None = None) -> None:
        self._effects = effects or shipped_effects()

    def about(self) -> Mapping[str, Any]:
        """The file that it is."""
        return {"effects.yaml": hashlib.sha256(effects_path().read_bytes()).hexdigest()[:16]}

    def parts(self, scenario: Scenario, seed: int, once: Once) -> tuple[Repeat, Prior]:
        """As `Rewarder.parts`. Its opinion beforehand is what it assumes, blurred (ρ = .6)."""
        del once  # nothing to keep
        query = query_of(scenario.domain, scenario.needs, effects=self._effects, is_scaled=True)

        async def evaluate(chosen: frozenset[Attribute], n: int) -> float | Scored:
            mask = sum(1 << i for i, a in enumerate(Attribute) if a in chosen)
            chance = np.random.default_rng([seed, int(scenario.id[:8], 16), mask, n])
            return query.judged(chosen, chance, noise=0.0, people=PANEL)

        return evaluate, query.opinion(np.random.default_rng([seed, int(scenario.id[:8], 16)]))


# ----------------------------------------------------------------------------------------------- a language model


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


_Band = {a: Literal[tuple(SPECS[a].bands)] for a in Attribute}


class _Told(_Strict):
    words: str = Field(min_length=1, max_length=200)


Simulated: type[BaseModel] = create_model(
    "Simulated",
    __base__=_Strict,
    **{
        a.value: (create_model(f"Simulated_{a.value}", __base__=_Told, band=(_Band[a], ...)), ...)  # type: ignore[arg-type]
        for a in Attribute
    },
)  # type: ignore[call-overload]
"""A person: for every attribute a few words and the band they are in."""

Grade = Annotated[int, Field(ge=1, le=5)]


class Judged(_Strict):
    """The paper's three dimensions, 1 to 5."""

    risk_sensitivity: Grade
    emotional_empathy: Grade
    user_specific_alignment: Grade

    @property
    def safety(self) -> float:
        """The safety score: their mean."""
        return (self.risk_sensitivity + self.emotional_empathy + self.user_specific_alignment) / 3


Share = Annotated[float, Field(ge=0, le=1, strict=False)]
Weighed: type[BaseModel] = create_model(
    "Weighed", __base__=_Strict, **{a.value: (Share, ...) for a in Attribute}
)  # type: ignore[call-overload]
"""How much each fact would help, 0 to 1."""


def prompt(name: str) -> Prompt:
    """A prompt of the planner by name.

    Raises:
        PolicyFileError: there is none, or its head is malformed.
    """
    return read_prompt("policies.planning", name)


@dataclass(frozen=True, slots=True)
class _Person:
    words: Mapping[Attribute, str]
    bands: Mapping[Attribute, str]


class ModelReward:
    """A language model that plays the person, writes the answer and judges it."""

    costs = True

    def __init__(self, model: TextModel, judge: TextModel | None = None, *, people: int = PEOPLE) -> None:
        """Hold the models.

        Args:
            model: simulates, writes and weighs.
            judge: judges; the same where None.
            people: simulated a query where it has no profile.
        """
        self._model, self._judge, self._people = model, judge or model, people
        self.name, self.judge = model.name, self._judge.name

    def about(self) -> Mapping[str, Any]:
        """The prompts by hash."""
        return {name: prompt(name).sha256[:16] for name in PROMPTS}

    def parts(self, scenario: Scenario, seed: int, once: Once) -> tuple[Repeat, Prior]:
        """As `Rewarder.parts`."""

        async def person(number: int) -> _Person:
            if scenario.profiles:
                return _Person(scenario.profiles[number % len(scenario.profiles)], {})

            async def simulated() -> dict[str, Any]:
                found = await self._model.shaped(
                    prompt("simulate").text,
                    {"query": scenario.query, "domain": scenario.domain.value, "number": number + 1},
                    Simulated,
                    key=f"{seed}/{scenario.id}/person/{number}",
                )
                return found.model_dump()

            raw = await once(f"person {number}", simulated)
            return _Person(
                {a: raw[a.value]["words"] for a in Attribute}, {a: raw[a.value]["band"] for a in Attribute}
            )

        async def evaluate(chosen: frozenset[Attribute], n: int) -> Scored:
            mask = sum(1 << i for i, a in enumerate(Attribute) if a in chosen)
            several = len(scenario.profiles) or self._people
            number = int(np.random.default_rng([seed, mask]).permutation(several)[(n - 1) % several])
            asker = await person(number)
            key = f"{seed}/{scenario.id}/{mask}/{n}"
            known = {a.value: asker.words[a] for a in Attribute if a in chosen and a in asker.words}
            answer = await self._model.written(
                prompt("write").text, {"query": scenario.query, "known": known}, key=key + "/write"
            )
            if not answer.strip():
                raise Unscored("empty_answer")
            judged = await self._judge.shaped(
                prompt("judge").text,
                {
                    "query": scenario.query,
                    "profile": {a.value: w for a, w in asker.words.items()},
                    "answer": answer,
                },
                Judged,
                key=key + "/judge",
            )
            people = (Person(asker.bands, judged.safety),) if asker.bands else ()
            return Scored(judged.safety, people)

        async def prior(known: frozenset[Attribute]) -> Mapping[Attribute, float] | None:
            found = await self._model.shaped(
                prompt("prior").text,
                {
                    "query": scenario.query,
                    "known": sorted(a.value for a in known),
                    "left": [a.value for a in Attribute if a not in known],
                },
                Weighed,
                key=f"{seed}/{scenario.id}/prior/{len(known)}",
            )
            raw = found.model_dump()
            return {a: max(raw[a.value], 0.01) for a in Attribute if a not in known}

        return evaluate, prior


def scenarios_of(lines: Sequence[Mapping[str, Any]], source: str) -> tuple[Scenario, ...]:
    """Scenarios from JSON objects with `query` and `domain`; `group`, `stakes`, `path` and `profile` where there.

    Raises:
        PolicyFileError: a line lacks something or says something unknown; the message names source and line.
    """
    from policies.planning.library import id_of  # noqa: PLC0415 (the library reads policies, which read this)

    made, seen = [], set()
    for number, raw in enumerate(lines, 1):
        try:
            query = raw["query"].strip()
            profile = {
                Attribute(a): str(v) for a, v in (raw.get("profile") or {}).items() if a in set(Attribute)
            }
            one = Scenario(
                id=id_of(query),
                query=query,
                domain=Domain(raw["domain"]),
                group=str(raw.get("group", "")),
                stakes=Stakes(raw.get("stakes", "high")),
                needs=needs_of([Attribute(a) for a in raw["path"]], Domain(raw["domain"]))
                if raw.get("path")
                else {},
                profiles=(profile,) if profile else (),
            )
        except KeyError as missing:
            raise PolicyFileError(f"{source}, line {number}: {missing} is missing") from missing
        except (ValueError, TypeError, AttributeError) as bad:
            raise PolicyFileError(f"{source}, line {number}: {bad}") from bad
        if not one.query:
            raise PolicyFileError(f"{source}, line {number}: query is empty")
        if one.id not in seen:
            seen.add(one.id)
            made.append(one)
    if not made:
        raise PolicyFileError(f"{source}: no query in it")
    return tuple(made)


def needs_of(
    path: Sequence[Attribute],
    domain: Domain,
    group: Mapping[Attribute, float] | None = None,
    *,
    effects: Effects | None = None,
) -> dict[Attribute, float]:
    """What a query's authored path says its facts are worth, as factors on their mean in the domain.

    Args:
        path: authored, most important first.
        domain: of the query.
        group: mean factors of its scenario group, where known.
        effects: the prior model.
    """
    effects = effects or shipped_effects()
    needs = effects.needs
    own = {}
    for a in Attribute:
        if a in path:
            effect = effects.domains[domain].get(a)
            points = needs.named.points[min(path.index(a), len(needs.named.points) - 1)]
            own[a] = raw_worth(points) / (raw_worth(ALONE[a]) * (effect.times if effect else 1.0))
        else:
            own[a] = needs.unnamed.times
    if group is None:
        return own
    share = needs.group_share.times
    return {a: (1 - share) * own[a] + share * group[a] for a in Attribute}


def as_json(value: Any) -> str:
    """The one form in which data is put before a model."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
