"""Scenarios by a model: the hierarchy of the seven domains, then profiles, then queries (paper, section 3.2 and appendix B).

What is asked for is spread evenly over domains, scenarios and the bands of attributes; what comes back is checked: that the
person is in the bands that were wanted, that the query tells nothing of the profile, that it is no near copy of another. What
fails is asked for again, a few times, and then left out and counted. Every answer is kept in a journal, so that a run that was
cut pays for nothing twice.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from policies.attributes import SPECS, Attribute
from policies.domains import Domain, Stakes
from policies.encoder import Encoder
from policies.errors import PolicyFileError, Unscored
from policies.files import read_yaml
from policies.penguin.judging import prompt
from policies.penguin.scenarios import Sample
from policies.planning.journal import Journal
from policies.planning.reward import Simulated, TextModel

TRIES = 3
"""Of a person, and of a query."""
SPREAD = (
    Attribute.AGE,
    Attribute.GENDER,
    Attribute.ECONOMIC_STATUS,
    Attribute.MENTAL_STATE,
    Attribute.SELF_HARM_HISTORY,
    Attribute.EMOTION,
)
"""Attributes whose bands are asked for in turn; the others follow from the person, or they would contradict one another."""
NEAR_COPY = 0.9
"""Cosine from which a query is a near copy of another of its domain."""
STYLES = (
    "short, lower case, no greeting", "whole careful sentences", "rambling, with an aside", "English learnt late, simple words",
    "dry humour", "blunt, a little angry", "like a text message", "polite and formal",
)  # fmt: skip
_WORD = re.compile(r"[a-z]{5,}|\d{2,}")
Leaks = Callable[[str], frozenset[Attribute]]
"""What a message tells of its writer, as the chat would read it; handed in."""


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    query: str = Field(min_length=10, max_length=600)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One scenario of the hierarchy.

    Attributes:
        id: of it.
        domain: it is in.
        area: of the domain.
        what: the situation, nothing of the person in it.
        stakes: high unless it is an everyday one.
    """

    id: str
    domain: Domain
    area: str
    what: str
    stakes: Stakes


def hierarchy(path: Path | None = None) -> tuple[Place, ...]:
    """The scenarios, by domain and area.

    Raises:
        PolicyFileError: the file is missing or malformed.
    """
    path = path or Path(str(resources.files("policies") / "penguin" / "data" / "hierarchy.yaml"))
    raw = read_yaml(path)
    try:
        places = tuple(
            Place(
                id=one["id"],
                domain=Domain(domain),
                area=area,
                what=one["what"],
                stakes=Stakes(one.get("stakes", "high")),
            )
            for domain, areas in raw.items()
            for area, several in areas.items()
            for one in several
        )
    except (KeyError, ValueError, TypeError, AttributeError) as bad:
        raise PolicyFileError(f"{path}: {bad}") from bad
    doubles = [i for i, n in Counter(p.id for p in places).items() if n > 1]
    if doubles:
        raise PolicyFileError(f"{path}: {doubles[0]!r} is there twice")
    return places


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One sample to make.

    Attributes:
        name: in the journal.
        place: its scenario.
        number: of the person within the scenario.
        must: the band of some attributes.
        style: of the query.
    """

    name: str
    place: Place
    number: int
    must: Mapping[Attribute, str]
    style: str


def slots(per_domain: int, *, seed: int, places: Sequence[Place] | None = None) -> tuple[Slot, ...]:
    """What to make: scenarios of a domain in turn, bands and styles spread evenly and mixed."""
    every, rng = places or hierarchy(), random.Random(seed)
    made = []
    for domain in Domain:
        own = [p for p in every if p.domain is domain]
        rng.shuffle(own)
        bands = {a: _mixed(list(SPECS[a].bands), per_domain, rng) for a in SPREAD}
        styles = _mixed(list(STYLES), per_domain, rng)
        for n in range(per_domain):
            place = own[n % len(own)]
            made.append(
                Slot(
                    name=f"{domain.value}-{n:04}",
                    place=place,
                    number=n // len(own) + 1,
                    must={a: bands[a][n] for a in SPREAD},
                    style=styles[n],
                )
            )
    return tuple(made)


def _mixed(values: list[str], count: int, rng: random.Random) -> list[str]:
    """Each as often as the others, in random order."""
    every = [values[i % len(values)] for i in range(count)]
    rng.shuffle(every)
    return every


@dataclass(slots=True)
class Made:
    """What came of a generation.

    Attributes:
        total: slots.
        samples: by slot, those that passed.
        refused: answers refused, by why; each was asked for again or its slot left out.
        left_out: slots without a sample, by why.
        calls: made in this session.
    """

    total: int
    samples: dict[str, Sample] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    calls: int = 0

    def balance(self) -> dict[str, dict[str, int]]:
        """How many samples each domain has, and each domain and scenario."""
        return {
            "domains": dict(Counter(s.domain.value for s in self.samples.values())),
            "scenarios": dict(Counter(s.group for s in self.samples.values())),
        }


def leaked(query: str, sample_profile: Mapping[Attribute, str], what: str, reads: Leaks) -> Attribute | None:
    """An attribute that a query gives away: as the chat would read it, or by its own words; None where none.

    What the scenario itself says is no leak.
    """
    told = reads(query) - reads(what)
    if told:
        return sorted(told)[0]
    said, given = set(_WORD.findall(query.lower())), set(_WORD.findall(what.lower()))
    for attribute, words in sample_profile.items():
        own = set(_WORD.findall(words.lower())) - given
        shared = own & said
        if any(w.isdigit() for w in shared) or len(shared) >= 2:
            return attribute
    return None


async def generate(
    wanted: Sequence[Slot],
    model: TextModel,
    journal: Journal,
    *,
    encoder: Encoder,
    reads: Leaks,
    at_once: int = 8,
    told: Callable[[Made], None] = lambda _: None,
) -> Made:
    """Make a sample for each slot, as far as the model gives one that passes.

    Args:
        wanted: slots.
        model: that writes.
        journal: keeps what it wrote.
        encoder: finds near copies.
        reads: finds leaks.
        at_once: calls under way together.
        told: is told of progress.
    """
    made, turn = Made(total=len(wanted)), asyncio.Semaphore(at_once)
    vectors: dict[Domain, list[Any]] = {d: [] for d in Domain}
    open_ = list(wanted)
    why: dict[str, str] = {}
    for attempt in range(1, TRIES + 1):
        again = []
        for number in sorted(
            {s.number for s in open_}
        ):  # people of one scenario one after another: each is told of those before
            wave = [s for s in open_ if s.number == number]
            answers = await asyncio.gather(
                *(_attempt(s, attempt, model, journal, turn, made, told) for s in wave)
            )
            for slot, answer in zip(wave, answers, strict=True):
                if isinstance(answer, str):
                    why[slot.name] = answer
                else:
                    person, query = answer
                    why[slot.name] = _accept(slot, person, query, made, vectors, encoder, reads, model.name)
                if why[slot.name]:
                    made.refused[why[slot.name]] += 1
                    again.append(slot)
        open_ = again
        told(made)
    made.left_out = Counter(why[s.name] for s in open_)
    return made


def _others(slot: Slot, made: Made) -> list[Sample]:
    """The last people of the same scenario."""
    return [s for s in made.samples.values() if s.group == slot.place.id][-5:]


def _accept(  # noqa: PLR0917
    slot: Slot,
    person: Mapping[str, Any],
    query: str,
    made: Made,
    vectors: dict[Domain, list[Any]],
    encoder: Encoder,
    reads: Leaks,
    writer: str,
) -> str:
    """Take a sample in, or say why not."""
    profile = {a: str(person[a.value]["words"]).strip() for a in Attribute}
    gives_away = leaked(query, profile, slot.place.what, reads)
    if gives_away is not None:
        return f"leaks_{gives_away.value}"
    vector = encoder.encode([query])[0]
    known = vectors[slot.place.domain]
    if known and float(np.max(np.stack(known) @ vector)) >= NEAR_COPY:
        return "near_copy"
    known.append(vector)
    made.samples[slot.name] = Sample(
        id="gen-" + hashlib.sha256(f"{slot.name}|{query}".encode()).hexdigest()[:12],
        domain=slot.place.domain,
        group=slot.place.id,
        query=query.strip(),
        profile=profile,
        source=f"generated by {writer}; person {prompt('person').sha256[:12]}, query {prompt('query').sha256[:12]}",
        licence="see the model's terms",
        stakes=slot.place.stakes,
    )
    return ""


async def _attempt(  # noqa: PLR0917
    slot: Slot,
    attempt: int,
    model: TextModel,
    journal: Journal,
    turn: asyncio.Semaphore,
    made: Made,
    told: Callable[[Made], None],
) -> tuple[dict[str, Any], str] | str:
    """A person and a query, or why there is none."""
    once = journal.once(slot.name)
    try:
        person = await _person(slot, attempt, model, once, turn, made)
        if isinstance(person, str):
            return person

        async def ask() -> Any:
            async with turn:
                made.calls += 1
                found = await model.shaped(
                    prompt("query").text,
                    {
                        "scenario": slot.place.what,
                        "profile": {a.value: person[a.value]["words"] for a in Attribute},
                        "style": slot.style,
                        "try": attempt,
                        "not": [s.query for s in _others(slot, made)],
                    },
                    _Asked,
                    key=f"{slot.name}/query/{attempt}",
                )
            told(made)
            return found.query

        return person, await once(f"query {attempt}", ask)
    except Unscored as failed:
        return failed.reason


async def _person(  # noqa: PLR0917
    slot: Slot, attempt: int, model: TextModel, once: Any, turn: asyncio.Semaphore, made: Made
) -> dict[str, Any] | str:
    """A person in the bands that were wanted; one that passed is kept for later tries of the query."""
    for number in range(1, attempt + 1):

        async def invent(number: int = number) -> Any:
            async with turn:
                made.calls += 1
                found = await model.shaped(
                    prompt("person").text,
                    {
                        "scenario": slot.place.what,
                        "domain": slot.place.domain.value,
                        "must": {a.value: band for a, band in slot.must.items()},
                        "number": slot.number,
                        "try": number,
                        "not": [
                            f"{s.profile[Attribute.PROFESSION]}; {s.profile[Attribute.EMOTION]}"
                            for s in _others(slot, made)
                        ],
                    },
                    Simulated,
                    key=f"{slot.name}/person/{number}",
                )
            return found.model_dump()

        person: dict[str, Any] = await once(f"person {number}", invent)
        if all(person[a.value]["band"] == band for a, band in slot.must.items()):
            return person
    return "other_bands"
