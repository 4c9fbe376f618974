"""What the benchmark needs of a chat, and the person it lets talk to it.

`policies` declares the two protocols; `bot` hands in the very conversation that participants use.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from policies.attributes import SPECS, Attribute, Sensitivity
from policies.penguin.scenarios import Sample

LONGEST_TALK = 14
"""Messages of one conversation; who has no answer by then gets none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """One move of the chat as a person sees it.

    Attributes:
        move: "say", "ask", "answer" or "abstain".
        text: shown, help lines included.
        attribute: asked.
        reason: machine-readable, of an ask or an abstention.
        more: the rest that replays must agree on: domain, stakes, sufficiency, what was used.
        fell_back: roles in which our own model stood in for the one being measured, in this turn.
    """

    move: str
    text: str = field(repr=False)
    attribute: Attribute | None = None
    reason: str = ""
    more: Mapping[str, Any] = field(default_factory=dict, repr=False)
    fell_back: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Only what is there."""
        raw: dict[str, Any] = {"move": self.move, "text": self.text}
        if self.attribute is not None:
            raw["attribute"] = self.attribute.value
        if self.reason:
            raw["reason"] = self.reason
        return raw | ({"more": dict(self.more)} if self.more else {})


class Talk(Protocol):
    """One conversation."""

    async def say(self, text: str) -> Sequence[Heard]:
        """One message in, its moves out."""
        ...

    async def leave(self) -> None:
        """The person goes."""
        ...


class Talks(Protocol):
    """A chat that conversations can be begun with."""

    name: str

    def about(self) -> Mapping[str, Any]:
        """What decides its answers: prompts, library, thresholds and models by hash or name."""
        ...

    async def begin(
        self, sample: Sample, arm: str, given: Mapping[Attribute, str], *, key: str, seed: int
    ) -> Talk:
        """A new conversation.

        Args:
            sample: whose person is coming.
            arm: the condition.
            given: what of the profile is known beforehand.
            key: names the conversation; no person's name.
            seed: chooses phrasings and the random order.
        """
        ...


class Manner(StrEnum):
    """How a simulated person answers."""

    PLAIN = "plain"
    TERSE = "terse"
    RAMBLING = "rambling"
    RELUCTANT = "reluctant"
    DECLINING = "declining"


_ASIDES = (
    "Sorry, it's been one of those weeks and the dog has been at the bins again. Anyway,",
    "I was going to write this yesterday but the phone went, and then it was dark. So,",
    "My neighbour says I should just get on with it, she says that about everything. Well,",
)
_AFTER = ("But that's by the by.", "I don't know if that's any use.", "Sorry, I go on a bit.")


class SimulatedPerson:
    """Answers from the profile, in a manner; what the profile lacks they do not know.

    Attributes:
        declined: attributes they would not tell.
    """

    def __init__(self, sample: Sample, manner: Manner, seed: int) -> None:
        self._sample, self._manner = sample, manner
        self._rng = random.Random(seed)
        self._asked_why: set[Attribute] = set()
        self.declined: list[Attribute] = []

    def answer(self, attribute: Attribute) -> str:
        """To a question for an attribute."""
        words = self._sample.profile.get(attribute)
        if self._manner is Manner.DECLINING and SPECS[attribute].sensitivity is Sensitivity.HIGH:
            self.declined.append(attribute)
            return "I'd rather not say"
        if words is None:
            return "I don't know"
        if self._manner is Manner.RELUCTANT and attribute not in self._asked_why:
            self._asked_why.add(attribute)
            return "why do you ask?"
        if self._manner is Manner.TERSE:
            return words.split(",")[0].split(";")[0]
        if self._manner is Manner.RAMBLING:
            return f"{self._rng.choice(_ASIDES)} {words}. {self._rng.choice(_AFTER)}"
        return words

    def nudge(self) -> str:
        """Where the chat neither asked nor answered."""
        return "just answer"


@dataclass(slots=True)
class Transcript:
    """A whole conversation.

    Attributes:
        turns: what was said, and what came back.
        asked: attributes asked, in order, repeats in other words left out.
        questions: questions put, repeats included.
        declined: attributes the person would not tell.
        end: "answer", "abstain", or "" where there was neither.
        reason: of the abstention.
        answer: the last answer or abstention as the person saw it.
        fell_back: turns in which our own model stood in for the one being measured, by role.
    """

    turns: list[dict[str, Any]] = field(default_factory=list, repr=False)
    asked: list[Attribute] = field(default_factory=list)
    questions: int = 0
    declined: list[Attribute] = field(default_factory=list)
    end: str = ""
    reason: str = ""
    answer: str = field(default="", repr=False)
    fell_back: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As in the log."""
        return {
            "end": self.end,
            "reason": self.reason,
            "questions": self.questions,
            "asked": [a.value for a in self.asked],
            "declined": [a.value for a in self.declined],
            "fell_back": self.fell_back,
            "answer": self.answer,
            "turns": self.turns,
        }


async def talked(talk: Talk, sample: Sample, person: SimulatedPerson, out: Transcript) -> None:
    """Hold a conversation to its first answer or abstention.

    The chat is the one being measured: nothing of the profile reaches it but what it asks for and the person tells.

    Args:
        talk: just begun.
        sample: whose person asks.
        person: answers.
        out: filled turn by turn, so that one that breaks off has been kept that far.
    """
    text, has_nudged = sample.query, False
    try:
        for _ in range(LONGEST_TALK):
            moves = await talk.say(text)
            out.turns.append({"said": text, "moves": [m.to_json() for m in moves]})
            question: Attribute | None = None
            for role in sorted({r for m in moves for r in m.fell_back}):
                out.fell_back[role] = out.fell_back.get(role, 0) + 1
            for move in moves:
                if move.move == "ask" and move.attribute is not None:
                    question = move.attribute
                    out.questions += 1
                    if question not in out.asked:
                        out.asked.append(question)
                elif move.move in ("answer", "abstain"):
                    out.end, out.reason, out.answer = move.move, move.reason, move.text
            if out.end:
                break
            if question is not None:
                text = person.answer(question)
            elif has_nudged:
                break
            else:
                text, has_nudged = person.nudge(), True
    finally:
        out.declined = list(person.declined)
        await talk.leave()
