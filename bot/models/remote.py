"""An outside model behind the protocol, with the built-in one beneath it.

The built-in model reads every message: intents, answers, facts, country. The outside model is asked for what it does
better (what a question is about, the reply, a second opinion on danger) and whatever it fails at is done by the
built-in one. What a person wrote and told goes in as JSON data, never into the instructions.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from bot.messages import messages
from bot.models.guided import GuidedModel
from bot.models.openai_api import Budget, Endpoint, Failure, ModelFailure, Role
from bot.models.protocol import Draft
from bot.prompts import prompt
from bot.risk.verdict import RiskLevel
from bot.session import Arm, Session
from bot.understanding import Assessment, Understood
from policies.attributes import Attribute, Standing
from policies.domains import Domain, Stakes

MAY_ASK = 6
LONGEST_MESSAGE = 4_000
FEWEST_WORDS, MOST_WORDS = 12, 320
"""Of a reply; the prompt asks for at most 200."""
SHARE_OF_CHOSEN = (0.5, 0.3, 0.2)
"""Weights of the attributes that the model chose, mixed with those of the planned paths."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class AssessAnswer(_Strict):
    """What *assess* must answer."""

    domain: Domain
    stakes: Stakes
    ask: list[Attribute] = Field(max_length=3)


class RiskAnswer(_Strict):
    """What *risk* must answer."""

    level: Literal["none", "elevated", "imminent"]


def messages_for(name: str, data: dict[str, Any]) -> list[dict[str, str]]:
    """Instructions from the prompt's file, and the person's data as one JSON object apart from them."""
    return [
        {"role": "system", "content": prompt(name).text},
        {"role": "user", "content": json.dumps(data, ensure_ascii=False)},
    ]


def _check_prose(text: str) -> None:
    """A reply is some sentences, not data, not a word, not a book.

    Raises:
        ModelFailure: it is none.
    """
    if text[0] in "{[<`" or not FEWEST_WORDS <= len(text.split()) <= MOST_WORDS:
        raise ModelFailure(Failure.MALFORMED)


class RemoteModel:
    """Implements `LanguageModel`. Holds no conversation; safe to share."""

    def __init__(self, endpoint: Endpoint, guided: GuidedModel, *, turn_seconds: float = 20.0) -> None:
        self.name = "remote"
        self._endpoint, self._guided, self._turn_seconds = endpoint, guided, turn_seconds

    async def understand(
        self, text: str, session: Session, *, at: datetime, chosen: bool, hurry: bool = False
    ) -> Understood:
        """Read by the built-in model; what a new question is about is asked of the outside one."""
        understood = await self._guided.understand(text, session, at=at, chosen=chosen)
        local = understood.assessment
        if local is None or not understood.is_new_topic or hurry:
            return understood
        is_agent = session.arm is Arm.AGENT
        offered = list(Attribute) if is_agent else list(local.weights)[:MAY_ASK]
        allowed = [a for a in offered if not session.profile.is_closed(a, at=at)]
        data = {
            "message": text[:LONGEST_MESSAGE],
            "may_ask": [a.value for a in allowed],
            "evidence": {} if is_agent else {a.value: round(local.weights[a], 2) for a in allowed},
        }
        try:
            answer = await self._endpoint.structured(
                Role.ASSESS, messages_for("assess", data), AssessAnswer, Budget(self._turn_seconds / 2)
            )
        except ModelFailure:
            return understood
        return replace(understood, assessment=self._merged(text, local, answer, allowed, is_agent=is_agent))

    def _merged(
        self,
        text: str,
        local: Assessment,
        answer: AssessAnswer,
        allowed: list[Attribute],
        *,
        is_agent: bool,
    ) -> Assessment:
        """The model's domain and stakes, its choice among what was offered, and the planned paths' weights.

        The paper's plain agent has no paths: its choice alone counts.
        """
        found = local if answer.domain is local.domain else self._guided.assess(text, domain=answer.domain)
        stakes = answer.stakes
        if stakes is Stakes.LOW and local.stakes is Stakes.HIGH:
            stakes = Stakes.MODERATE
        planned = {} if is_agent else found.weights or local.weights
        weights = {a: 0.5 * w for a, w in planned.items()}
        chosen = [a for a in dict.fromkeys(answer.ask) if a in allowed]
        for attribute, share in zip(chosen, SHARE_OF_CHOSEN, strict=False):
            weights[attribute] = weights.get(attribute, 0.0) + (1.0 if is_agent else 0.5) * share
        if stakes is Stakes.LOW:
            weights = {}
        return replace(found, stakes=stakes, weights=weights, confidence=max(found.confidence, 0.8))

    async def compose(self, session: Session, *, follow_up: str) -> Draft:
        """The outside model's reply, or the built-in one's with a word that it is so.

        Raises:
            ModelUnavailable: neither has one.
        """
        guided = await self._guided.compose(session, follow_up=follow_up)
        told = messages_for("answer", self._told(session, guided, follow_up))
        try:
            text = await self._endpoint.spoken(Role.ANSWER, told, Budget(self._turn_seconds))
            _check_prose(text)
        except ModelFailure:
            return replace(guided, sentences=(messages()["model_away"], *guided.sentences))
        parts = [p.strip() for p in re.split(r"\n\s*\n|\n(?=- )", text) if p.strip()]
        return Draft(
            sentences=tuple(parts),
            used=guided.used,
            sources=guided.sources,
            blocks=guided.blocks,
            is_generated=True,
        )

    @staticmethod
    def _told(session: Session, guided: Draft, follow_up: str) -> dict[str, Any]:
        topic = session.topic
        profile = session.profile
        return {
            "question": (topic.query if topic else "")[:LONGEST_MESSAGE],
            "follow_up": follow_up[:LONGEST_MESSAGE],
            "told": {
                a.value: answer.text
                for a in profile
                if (answer := profile.get(a)) is not None and answer.standing is Standing.KNOWN
            },
            "declined": [a.value for a in profile.with_standing(Standing.DECLINED)],
            "risk": session.risk.level.value,
            "is_minor": session.is_minor,
            "stakes": topic.assessment.stakes.value if topic else "high",
            "guidance": list(guided.sentences),
        }


class ModelOpinion:
    """Implements `bot.risk.opinion.Opinion`."""

    def __init__(self, endpoint: Endpoint, *, seconds: float = 5.0) -> None:
        self._endpoint, self._seconds = endpoint, seconds

    async def __call__(self, text: str) -> RiskLevel | str:
        """The level the model sees.

        Raises:
            ModelFailure: no opinion.
        """
        data = {"message": text[:LONGEST_MESSAGE]}
        answer = await self._endpoint.structured(
            Role.RISK, messages_for("risk", data), RiskAnswer, Budget(self._seconds)
        )
        return answer.level
