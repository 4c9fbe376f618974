"""What was understood of one message: intent, facts, and for a question its assessment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from policies.attributes import Answer, Attribute
from policies.domains import Domain, Stakes
from policies.planning.policy import Policy


class Intent(StrEnum):
    """What a message is for."""

    QUESTION = "question"
    ANSWER = "answer"
    DECLINE = "decline"
    DONT_KNOW = "dont_know"
    WHY = "why"
    JUST_ANSWER = "just_answer"
    CORRECTION = "correction"
    DISPUTE = "dispute"
    GREETING = "greeting"
    THANKS = "thanks"
    GOODBYE = "goodbye"
    HUMAN = "human"
    THERAPIST = "therapist"
    ABOUT = "about"
    HELP = "help"
    SMALL_TALK = "small_talk"
    MY_PROFILE = "my_profile"
    COUNTRY = "country"
    SAFE = "safe"
    NOT_SAFE = "not_safe"
    JOKE = "joke"
    NO_PICKUP = "no_pickup"
    CANNOT_TALK = "cannot_talk"
    WONT_CALL = "wont_call"
    CAN_YOU_CALL = "can_you_call"
    SAFETY_PLAN = "safety_plan"
    SHOW_PLAN = "show_plan"
    STOP_PLAN = "stop_plan"
    RUDE = "rude"
    NOT_ENGLISH = "not_english"
    NONSENSE = "nonsense"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """What a question is about and what an answer to it hangs on.

    Attributes:
        domain: one of PENGUIN's seven.
        group: scenario group, such as "breakup".
        stakes: how much a generic answer could hurt.
        weights: share of the answer's safety that hangs on each attribute, from the nearest planned paths; sums to 1
            where any path was found.
        confidence: probability of the domain, 0 to 1.
        policy: the planned policy of the nearest queries, which says what a further answer is expected to add; None where
            nothing was planned.
        planned_by: where the policy comes from: "neighbours", or where none was near "domain" or "everywhere"; "" for none.
        sufficiency: 0 to 5 as an outside model judged it, with what was told when it was asked; None where none was.
    """

    domain: Domain
    group: str
    stakes: Stakes
    weights: Mapping[Attribute, float]
    confidence: float = 1.0
    sufficiency: float | None = None
    policy: Policy | None = field(default=None, repr=False)
    planned_by: str = ""

    def to_json(self) -> dict[str, Any]:
        """A JSON object that `from_json` reads back equal."""
        return {
            "domain": self.domain.value,
            "group": self.group,
            "stakes": self.stakes.value,
            "weights": {a.value: w for a, w in self.weights.items()},
            "confidence": self.confidence,
            "sufficiency": self.sufficiency,
            "planned_by": self.planned_by,
            "policy": self.policy and self.policy.to_whole_json(),
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Assessment:
        """Read what `to_json` wrote."""
        return cls(
            domain=Domain(raw["domain"]),
            group=raw["group"],
            stakes=Stakes(raw["stakes"]),
            weights={Attribute(a): w for a, w in raw["weights"].items()},
            confidence=raw["confidence"],
            sufficiency=raw["sufficiency"],
            planned_by=raw.get("planned_by", ""),
            policy=Policy.from_whole_json(raw["policy"]) if raw.get("policy") else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Understood:
    """One message, read.

    Attributes:
        intent: what it is for.
        facts: attributes it answers, asked or volunteered.
        assessment: of the question in it, where there is one.
        revised: of the open topic's question, now that more is known; None to leave it.
        is_new_topic: the question is another one than the open topic's.
        has_nobody: it says that there is nobody to turn to.
        changes_subject: the message says that it changes the subject.
        is_minor: an age under the study's minimum was said.
        country: ISO 3166 code, where one was named in answer to "which country".
    """

    intent: Intent = Intent.OTHER
    facts: Mapping[Attribute, Answer] = field(default_factory=dict, repr=False)
    assessment: Assessment | None = None
    revised: Assessment | None = None
    is_new_topic: bool = False
    changes_subject: bool = False
    has_nobody: bool = False
    is_minor: bool = False
    country: str | None = None
