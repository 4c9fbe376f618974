"""The runner: the same samples in every arm, a person simulated for each, the end of each conversation judged.

A sample that is finished is written before the next begins; a kill loses what was under way, and the calls of that which
were answered are kept by whoever makes them (`Calls`), so that nothing is paid for twice.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol

from policies.attributes import Attribute
from policies.errors import PenguinError
from policies.penguin.judging import Judge, judged, means
from policies.penguin.runlog import RunLog
from policies.penguin.scenarios import Sample, Variant
from policies.penguin.talking import Manner, SimulatedPerson, Talks, Transcript, talked

ARMS = ("vanilla", "agent", "raise", "context-rich", "random-order", "fixed-order", "no-abstention")
NEEDS_MODEL = frozenset({"agent"})
JUDGED = "/judge"
"""Ends the key of the judge's calls, so that a record tells them from the chat's."""
SET = "set:"
"""Begins the name of an arm that is given a set of attributes and asks nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """What a sample is run under.

    Attributes:
        name: in logs and reports.
        arm: of the chat.
        given: attributes it is told beforehand; all where None.
    """

    name: str
    arm: str
    given: frozenset[Attribute] | None = frozenset()

    def of(self, sample: Sample) -> Mapping[Attribute, str]:
        """What of a sample's profile the chat is told."""
        whole = sample.shown(Variant.CONTEXT_RICH)
        return whole if self.given is None else {a: w for a, w in whole.items() if a in self.given}


def condition(name: str) -> Condition:
    """An arm by its name, such as "raise" or "set:age+health".

    Raises:
        PenguinError: there is none.
    """
    if name.startswith(SET):
        try:
            given = frozenset(Attribute(a) for a in name.removeprefix(SET).split("+") if a)
        except ValueError as bad:
            raise PenguinError(f"arm {name!r}: {bad}") from None
        return Condition(name=set_name(given), arm="context-rich", given=given)
    if name not in ARMS:
        raise PenguinError(f"no arm {name!r}; there are {', '.join(ARMS)}")
    return Condition(name=name, arm=name, given=None if name == "context-rich" else frozenset())


def set_name(given: frozenset[Attribute]) -> str:
    """The name of the arm that is given a set."""
    return SET + "+".join(a.value for a in Attribute if a in given)


@dataclass(slots=True)
class CallsOf:
    """The calls of one sample in one arm.

    Attributes:
        why: it was broken off: "batch" (answers are waited for), "budget", "missing" (a replay lacks a completion), or a
            reason to stop the whole run; "" while all is well.
    """

    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What calls have taken.

    Attributes:
        calls: made in this session.
        replayed: answered from what was paid for before.
        prompt_tokens: of calls made.
        completion_tokens: of calls made.
    """

    calls: int = 0
    replayed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Calls(Protocol):
    """Whoever makes the calls, and keeps what they brought."""

    def of(self, key: str) -> AbstractContextManager[CallsOf]:
        """Calls made inside are those of a sample in an arm; a call that cannot be made cancels the task that is inside."""
        ...

    def spent(self) -> Spent:
        """So far."""
        ...


class NoCalls:
    """There are none: the built-in model, judged by the heuristic."""

    def of(self, key: str) -> AbstractContextManager[CallsOf]:
        """As `Calls.of`."""
        del key
        return nullcontext(CallsOf())

    def spent(self) -> Spent:
        """Nothing."""
        return Spent()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """How to run.

    Attributes:
        seed: of phrasings, the random order and the simulated person.
        times: judgements of each answer.
        manner: in which the simulated people answer.
        at_once: samples under way together.
    """

    seed: int = 0
    times: int = 1
    manner: Manner = Manner.PLAIN
    at_once: int = 1


@dataclass(slots=True)
class Progress:
    """How far a run is.

    Attributes:
        total: samples times arms.
        done: of them, finished, in earlier sessions too.
        here: finished in this session.
        unscored: without a score, by reason.
        waiting: broken off until batch answers come.
        began: on the monotonic clock.
        stopped: why the run ends early; "" where it does not.
    """

    total: int
    done: int = 0
    here: int = 0
    unscored: Counter[str] = field(default_factory=Counter)
    waiting: int = 0
    began: float = field(default_factory=time.monotonic)
    stopped: str = ""

    def seconds_left(self) -> float | None:
        """At the pace of this session."""
        if not self.here:
            return None
        return (time.monotonic() - self.began) / self.here * (self.total - self.done)


def seed_of(seed: int, sample: Sample) -> int:
    """A seed of a sample's own, the same in every arm."""
    return int(hashlib.sha256(f"{seed}/{sample.id}".encode()).hexdigest()[:7], 16)


Task = tuple[Sample, Condition]


def every(samples: Sequence[Sample], conditions: Sequence[Condition]) -> list[Task]:
    """Each sample in each arm."""
    return [(s, c) for s in samples for c in conditions]


def order_of(tasks: Sequence[Task]) -> dict[str, int]:
    """The place of each line in a finished log."""
    return {f"{s.id}/{c.name}": place for place, (s, c) in enumerate(tasks)}


async def run(
    tasks: Sequence[Task],
    *,
    talks: Talks,
    judge: Judge,
    calls: Calls,
    log: RunLog,
    settings: RunSettings,
    told: Callable[[Progress], None] = lambda _: None,
) -> Progress:
    """Run what is not in the log yet.

    Args:
        tasks: samples, each with the arm it is run in.
        talks: the chat.
        judge: of its answers.
        calls: whoever makes them.
        log: open.
        settings: how to run.
        told: is told of progress.
    """
    progress = Progress(total=len(tasks))
    for why in log.done.values():
        progress.done += 1
        progress.unscored.update([why] if why else [])
    todo = iter([(s, c) for s, c in tasks if f"{s.id}/{c.name}" not in log.done])

    async def work(todo: Iterator[Task]) -> None:
        for sample, under in todo:
            if progress.stopped:
                return
            began = time.monotonic()
            record, why = await run_one(
                sample, under, talks=talks, judge=judge, calls=calls, settings=settings
            )
            if why == "batch":
                progress.waiting += 1
            elif why:
                progress.stopped = progress.stopped or why
            else:
                log.add(record, seconds=time.monotonic() - began)
                progress.done += 1
                progress.here += 1
                progress.unscored.update([record["unscored"]] if record["unscored"] else [])
            told(progress)

    async with asyncio.TaskGroup() as group:
        for _ in range(settings.at_once):
            group.create_task(work(todo))
    return progress


async def run_one(
    sample: Sample, under: Condition, *, talks: Talks, judge: Judge, calls: Calls, settings: RunSettings
) -> tuple[dict[str, Any], str]:
    """One sample in one arm: its line, as far as it came, and why it was broken off ("" where it was not)."""
    key, seed = f"{sample.id}/{under.name}", seed_of(settings.seed, sample)
    transcript, scores, why = Transcript(), [], ""
    broken = CallsOf()
    try:
        with calls.of(key) as broken:
            talk = await talks.begin(sample, under.arm, under.of(sample), key=key, seed=seed)
            await talked(talk, sample, SimulatedPerson(sample, settings.manner, seed), transcript)
        why = unjudged(transcript.to_json(), under.arm)
        if not why:
            with calls.of(key + JUDGED) as broken:
                scores = await judged(judge, sample, transcript.answer, key=key, times=settings.times)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if not broken.why or task is None:
            raise
        task.uncancel()
    mean = means(scores)
    if mean is None and not why and scores:
        why = Counter(s.unscored for s in scores).most_common(1)[0][0]
    return {
        "sample": sample.id,
        "arm": under.name,
        "domain": sample.domain.value,
        "group": sample.group,
        "stakes": sample.stakes.value if sample.stakes else "",
        "handling": sample.handling.value if sample.handling else "",
        "query": sample.query,
        "profile": {a.value: sample.profile[a] for a in Attribute if a in sample.profile},
        **transcript.to_json(),
        "scores": [s.to_json() for s in scores],
        "mean": mean,
        "unscored": why if mean is None else "",
    }, broken.why


def unjudged(line: Mapping[str, Any], arm: str) -> str:
    """Why a conversation is not judged; "" where it is.

    What our own fallback did in the place of the model is not what is being measured: never where it gave the answer, nor where
    it chose the questions in the arm that lets the model choose.
    """
    if not line["end"]:
        return "no_end"
    if line["reason"] == "model_unavailable":
        return "model_unavailable"
    if line["end"] == "answer" and line["fell_back"].get("answer"):
        return "fell_back"
    if arm == "agent" and line["fell_back"].get("assess"):
        return "assess_fell_back"
    return ""
