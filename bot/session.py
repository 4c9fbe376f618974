"""All that is known of one conversation: serialisable, so that it survives a restart."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from bot.risk.verdict import Category, RiskLevel, RiskState
from bot.safety_plan import SafetyPlan
from bot.understanding import Assessment
from policies.attributes import Attribute, Profile


class Arm(StrEnum):
    """The condition a conversation runs under (paper, section 6: vanilla, context-rich, and orders of asking)."""

    RAISE = "raise"
    VANILLA = "vanilla"
    FIXED_ORDER = "fixed-order"
    RANDOM_ORDER = "random-order"
    CONTEXT_RICH = "context-rich"
    AGENT = "agent"
    NO_ABSTENTION = "no-abstention"


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """One question and how far its interview has come.

    Attributes:
        query: the question in the person's words.
        assessment: domain, stakes, scenario group and the weight of each attribute.
        asked: the attributes asked for it, in order, repeats included: its length is what the budget counts.
        settled: answered or abstained from.
        wants_answer: the person said "just answer".
        shown: ids of the guidance already shown, so that a follow-up brings something new.
        handed_over: only people should answer it; that sticks until the person changes the subject.
    """

    query: str = field(repr=False)
    assessment: Assessment
    asked: tuple[Attribute, ...] = ()
    settled: bool = False
    wants_answer: bool = False
    shown: tuple[str, ...] = ()
    handed_over: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """The question that is open.

    Attributes:
        attribute: what it asks.
        tries: how often it was put without an answer that could be read.
    """

    attribute: Attribute
    tries: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """All that is known of one conversation.

    Attributes:
        seed: chooses phrasings, and the order in the random arm.
        arm: the condition it runs under.
        turn: messages received so far.
        profile: what is known of the person.
        topic: the question in hand, or the last one answered.
        pending: the open question.
        risk: what the risk screen has seen; it sticks.
        country: ISO 3166 code, asked and never guessed.
        wants_country: the country was asked.
        is_minor: an age under the minimum was said.
        asked_before: attributes asked for earlier topics.
        last_noted: what the last message told, for "that's wrong".
        introduced: the AI notice was shown before the first message.
        noticed_at: when the AI notice was last shown.
        plan: the safety plan, once the person asked for one.
        card: the last card of danger shown, such as "suicide" or "other_person"; "" for none.
        quiet: how often silence after a crisis card was answered.
        language: of the last message that told of danger, "" until then; ISO 639-1.
        smaller: replies after the first card of danger; each next step asks less than the one before.
        filled_in: a profile form was sent, or skipped, before the chat.
        questions_left: what the person still lets themselves be asked, by their own limit; None where they set none.
        model_tokens: what an outside model has taken for this conversation, for the cap on it.
    """

    seed: int = 0
    arm: Arm = Arm.RAISE
    turn: int = 0
    profile: Profile = field(default_factory=Profile, repr=False)
    topic: Topic | None = None
    pending: Pending | None = None
    risk: RiskState = field(default_factory=RiskState)
    country: str | None = None
    wants_country: bool = False
    is_minor: bool = False
    asked_before: tuple[Attribute, ...] = ()
    last_noted: tuple[Attribute, ...] = ()
    introduced: bool = False
    noticed_at: datetime | None = None
    plan: SafetyPlan | None = field(default=None, repr=False)
    card: str = ""
    quiet: int = 0
    language: str = ""
    smaller: int = 0
    model_tokens: int = 0
    questions_left: int | None = None
    filled_in: bool = False

    @property
    def has_disclosed(self) -> bool:
        """The person has told of wanting to die, and it is not danger now."""
        return self.risk.level is RiskLevel.ELEVATED and Category.SUICIDE in self.risk.categories

    def to_json(self) -> dict[str, Any]:
        """A JSON object that `from_json` reads back equal."""
        topic = self.topic
        return {
            "version": 3,
            "seed": self.seed,
            "arm": self.arm.value,
            "turn": self.turn,
            "profile": self.profile.to_json(),
            "topic": topic
            and {
                "query": topic.query,
                "assessment": topic.assessment.to_json(),
                "asked": [a.value for a in topic.asked],
                "settled": topic.settled,
                "wants_answer": topic.wants_answer,
                "shown": list(topic.shown),
                "handed_over": topic.handed_over,
            },
            "pending": self.pending
            and {"attribute": self.pending.attribute.value, "tries": self.pending.tries},
            "risk": self.risk.to_json(),
            "country": self.country,
            "wants_country": self.wants_country,
            "is_minor": self.is_minor,
            "asked_before": [a.value for a in self.asked_before],
            "last_noted": [a.value for a in self.last_noted],
            "introduced": self.introduced,
            "noticed_at": self.noticed_at and self.noticed_at.isoformat(),
            "plan": self.plan and self.plan.to_json(),
            "card": self.card,
            "quiet": self.quiet,
            "language": self.language,
            "smaller": self.smaller,
            "model_tokens": self.model_tokens,
            "questions_left": self.questions_left,
            "filled_in": self.filled_in,
        }

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> Session:
        """Read what `to_json` wrote.

        Raises:
            ValueError: it was written by a version this one does not know.
        """
        if raw.get("version") != 3:
            raise ValueError(f"a session of version {raw.get('version')!r} cannot be resumed by this release")
        topic, pending = raw["topic"], raw["pending"]
        return cls(
            seed=raw["seed"],
            arm=Arm(raw["arm"]),
            turn=raw["turn"],
            profile=Profile.from_json(raw["profile"]),
            topic=topic
            and Topic(
                query=topic["query"],
                assessment=Assessment.from_json(topic["assessment"]),
                asked=tuple(Attribute(a) for a in topic["asked"]),
                settled=topic["settled"],
                wants_answer=topic["wants_answer"],
                shown=tuple(topic["shown"]),
                handed_over=topic["handed_over"],
            ),
            pending=pending and Pending(attribute=Attribute(pending["attribute"]), tries=pending["tries"]),
            risk=RiskState.from_json(raw["risk"]),
            country=raw["country"],
            wants_country=raw["wants_country"],
            is_minor=raw["is_minor"],
            asked_before=tuple(Attribute(a) for a in raw["asked_before"]),
            last_noted=tuple(Attribute(a) for a in raw["last_noted"]),
            introduced=raw["introduced"],
            noticed_at=raw["noticed_at"] and datetime.fromisoformat(raw["noticed_at"]),
            plan=raw["plan"] and SafetyPlan.from_json(raw["plan"]),
            card=raw["card"],
            quiet=raw["quiet"],
            language=raw["language"],
            smaller=raw["smaller"],
            model_tokens=raw["model_tokens"],
            questions_left=raw.get("questions_left"),
            filled_in=raw.get("filled_in", False),
        )
