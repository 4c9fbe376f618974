"""An outside model behind the protocol, with the built-in one beneath it.

The built-in model reads every message first: intents, answers, facts, country. The outside model is asked for what it
does better (what a question is about, an answer that could not be read, a question that fits, the reply, a second
opinion on danger), and whatever it fails at is done by the built-in one. What a person wrote and told goes in as JSON
data, never into the instructions.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from bot.aside import aside
from bot.messages import messages
from bot.models.guided import GuidedModel
from bot.models.neighbours import Neighbours
from bot.models.openai_api import Endpoint, Failure, ModelFailure
from bot.models.protocol import Draft
from bot.models.sentences import Sentences
from bot.models.usage import Budget, Role
from bot.models.wording import AS_WRITTEN, Meaning
from bot.prompts import prompt
from bot.risk.verdict import RiskLevel
from bot.session import Arm, Session
from bot.understanding import Assessment, Intent, Understood
from policies.attributes import SPECS, Answer, Attribute, Profile, Standing
from policies.domains import Domain, Stakes
from policies.questions import Question

MAY_ASK = 6
LONGEST_MESSAGE = 4_000
FEWEST_WORDS, MOST_WORDS = 12, 320
"""Of a reply; the prompt asks for at most 200."""
SHARE_OF_CHOSEN = (0.5, 0.3, 0.2)
"""Weights of the attributes that the model chose, mixed with those of the planned paths."""
ASSESS_SECONDS, READ_SECONDS, WORD_SECONDS = 10.0, 4.0, 3.0
"""What each may take of the turn's budget; the reply has what is left."""
_UNREAD = (Intent.OTHER, Intent.NONSENSE, Intent.ANSWER)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class AssessAnswer(_Strict):
    """What *assess* must answer."""

    domain: Domain
    stakes: Stakes
    sufficiency: Literal[0, 1, 2, 3, 4, 5]
    ask: list[Attribute] = Field(max_length=3)


class WordAnswer(_Strict):
    """What *interview* must answer when it words a question."""

    lead: str = Field(max_length=200)
    question: str = Field(min_length=5, max_length=300)


class ReadAnswer(_Strict):
    """What *interview* must answer when it reads an answer."""

    standing: Literal["known", "declined", "unknown", "none"]
    tags: list[Annotated[str, Field(max_length=40)]] = Field(max_length=6)


class RiskAnswer(_Strict):
    """What *risk* must answer."""

    level: Literal["none", "elevated", "imminent"]


def messages_for(name: str, data: dict[str, Any]) -> list[dict[str, str]]:
    """Instructions from the prompt's file, and the person's data as one JSON object apart from them."""
    return [
        {"role": "system", "content": prompt(name).text},
        {"role": "user", "content": json.dumps(data, ensure_ascii=False)},
    ]


def told(profile: Profile) -> dict[str, str]:
    """What is known of a person, in their words, by attribute."""
    return {
        a.value: answer.text
        for a in profile
        if (answer := profile.get(a)) is not None and answer.standing is Standing.KNOWN
    }


class RemoteModel:
    """Implements `LanguageModel`. Holds no conversation; safe to share."""

    def __init__(
        self,
        endpoint: Endpoint,
        guided: GuidedModel,
        *,
        meaning: Meaning,
        neighbours: Neighbours | None = None,
        attributes: frozenset[Attribute] = frozenset(Attribute),
    ) -> None:
        """Hold both models.

        Args:
            endpoint: the outside one.
            guided: the one beneath.
            meaning: checks questions that the outside one has worded.
            neighbours: planned paths found by the endpoint's embeddings, where a library was embedded.
            attributes: the study's list; no other is offered to the model.
        """
        self.name = "remote"
        self._endpoint, self._guided, self._meaning, self._neighbours = endpoint, guided, meaning, neighbours
        self._attributes = attributes

    # ------------------------------------------------------------------------------------------- understanding

    async def understand(
        self,
        text: str,
        session: Session,
        *,
        at: datetime,
        chosen: bool,
        budget: Budget,
        hurry: bool = False,
    ) -> Understood:
        """Read by the built-in model; the outside one reads what that could not, and assesses what is open."""
        understood = await self._guided.understand(text, session, at=at, chosen=chosen, budget=budget)
        if hurry:
            return understood
        pending = session.pending.attribute if session.pending else None
        heard = understood.facts.get(pending) if pending is not None else None
        is_unread = heard is None or (heard.standing is Standing.KNOWN and not heard.tags)
        if pending is not None and is_unread and not chosen and understood.intent in _UNREAD:
            answer = await self._read(text, pending, at=at, budget=budget)
            if answer is not None:
                facts = {**understood.facts, pending: answer}
                understood = replace(understood, facts=facts, intent=Intent.ANSWER, assessment=None)
        if understood.assessment is not None and understood.is_new_topic:
            return replace(
                understood,
                assessment=await self._assessed(
                    text, understood.assessment, session, understood.facts, at=at, budget=budget
                ),
            )
        topic = session.topic
        if topic is None or topic.settled or pending is None or not understood.facts:
            return understood
        revised = await self._assessed(
            topic.query, topic.assessment, session, understood.facts, at=at, budget=budget
        )
        return replace(understood, revised=revised)

    async def _read(self, text: str, attribute: Attribute, *, at: datetime, budget: Budget) -> Answer | None:
        """An answer that the built-in reader could not read; None where the outside one cannot either.

        That somebody has never hurt themselves is never taken from a model's reading alone.
        """
        tags = sorted(SPECS[attribute].tags)
        data = {"asked_for": SPECS[attribute].label, "tags": tags, "answer": text[:LONGEST_MESSAGE]}
        try:
            read = await self._endpoint.structured(
                Role.INTERVIEW, messages_for("read", data), ReadAnswer, budget.share(READ_SECONDS)
            )
        except ModelFailure:
            budget.fell_back.add(Role.INTERVIEW)
            return None
        if read.standing == "none" or not set(read.tags) <= set(tags):
            return None
        if read.standing == "declined":
            return Answer(standing=Standing.DECLINED, at=at)
        if read.standing == "unknown":
            return Answer(standing=Standing.UNKNOWN, at=at)
        if attribute is Attribute.SELF_HARM_HISTORY and (not read.tags or "none" in read.tags):
            return None
        return Answer(standing=Standing.KNOWN, at=at, text=text[:160], tags=frozenset(read.tags))

    async def _assessed(
        self,
        query: str,
        local: Assessment,
        session: Session,
        facts: Mapping[Attribute, Answer],
        *,
        at: datetime,
        budget: Budget,
    ) -> Assessment:
        """Domain and stakes of a question, whether enough is known, and the choice among the best few facts."""
        profile = session.profile
        for attribute, fact in facts.items():
            profile = profile.with_answer(attribute, fact)
        is_agent = session.arm is Arm.AGENT
        if self._neighbours is not None and not is_agent and not facts:
            local = await self._neighbours.weighed(query, local, budget)
        offered = list(Attribute) if is_agent else sorted(local.weights, key=lambda a: -local.weights[a])
        may_ask = [a for a in offered if a in self._attributes and not profile.is_closed(a, at=at)]
        allowed = may_ask[: None if is_agent else MAY_ASK]
        data = {
            "message": query[:LONGEST_MESSAGE],
            "told": told(profile),
            "declined": [a.value for a in profile.with_standing(Standing.DECLINED)],
            "may_ask": [a.value for a in allowed],
            "evidence": {} if is_agent else {a.value: round(local.weights[a], 2) for a in allowed},
        }
        try:
            answer = await self._endpoint.structured(
                Role.ASSESS, messages_for("assess", data), AssessAnswer, budget.share(ASSESS_SECONDS)
            )
        except ModelFailure:
            budget.fell_back.add(Role.ASSESS)
            return local
        if session.pending is None or facts == {}:
            return await aside(self._merged, query, local, answer, allowed, is_agent=is_agent)
        return replace(
            local,
            weights=self._weights(local, answer, allowed, is_agent=is_agent),
            sufficiency=answer.sufficiency,
        )

    def _merged(
        self, text: str, local: Assessment, answer: AssessAnswer, allowed: list[Attribute], *, is_agent: bool
    ) -> Assessment:
        """The model's domain and stakes, its choice among what was offered, and the planned paths' weights.

        The paper's plain agent has no paths: its choice alone counts.
        """
        found = local if answer.domain is local.domain else self._guided.assess(text, domain=answer.domain)
        stakes = answer.stakes
        if stakes is Stakes.LOW and local.stakes is Stakes.HIGH:
            stakes = Stakes.MODERATE
        planned = found if found.weights else replace(found, weights=local.weights)
        weights = self._weights(planned, answer, allowed, is_agent=is_agent)
        return replace(
            found,
            stakes=stakes,
            weights={} if stakes is Stakes.LOW else weights,
            confidence=max(found.confidence, 0.8),
            sufficiency=answer.sufficiency,
        )

    @staticmethod
    def _weights(
        planned: Assessment, answer: AssessAnswer, allowed: list[Attribute], *, is_agent: bool
    ) -> dict[Attribute, float]:
        """What the open attributes weigh together, shared out anew: half as planned, half as the model chose.

        What is known already keeps its weight, and what was not offered gets none.
        """
        closed = {a: w for a, w in planned.weights.items() if a not in allowed}
        if is_agent:
            closed = {a: w for a, w in closed.items() if planned.sufficiency is not None}
        chosen = [a for a in dict.fromkeys(answer.ask) if a in allowed]
        if not chosen:
            return closed if is_agent else dict(planned.weights)
        kept = {} if is_agent else {a: 0.5 * w for a, w in planned.weights.items() if a in allowed}
        shared = max(0.0, 1.0 - sum(closed.values()) - sum(kept.values()))
        shares = SHARE_OF_CHOSEN[: len(chosen)]
        for attribute, share in zip(chosen, shares, strict=True):
            kept[attribute] = kept.get(attribute, 0.0) + shared * share / sum(shares)
        return {**closed, **kept}

    # ------------------------------------------------------------------------------------------- speaking

    async def word(self, question: Question, session: Session, *, variant: int, budget: Budget) -> str:
        """The question fitted to the conversation, or as it is written where the fit changes what it asks."""
        written = question.phrasing(variant)
        topic = session.topic
        data = {
            "written": written,
            "keep_question": question.attribute in AS_WRITTEN,
            "asks_for": SPECS[question.attribute].label,
            "message": (topic.query if topic else "")[:LONGEST_MESSAGE],
            "told": told(session.profile),
        }
        try:
            answer = await self._endpoint.structured(
                Role.INTERVIEW, messages_for("word", data), WordAnswer, budget.share(WORD_SECONDS)
            )
        except ModelFailure:
            budget.fell_back.add(Role.INTERVIEW)
            return written
        lead, asked = answer.lead.strip(), answer.question.strip()
        fits = await aside(self._meaning.fits, lead, asked, question)
        return f"{lead} {asked}".strip() if fits else written

    async def compose(
        self, session: Session, *, follow_up: str, budget: Budget
    ) -> AsyncGenerator[str | Draft, None]:
        """The outside model's reply as it is written; or the built-in one's, with a word that it is so.

        Raises:
            ModelUnavailable: neither has one.
        """
        guided = await aside(self._guided.draft, session, follow_up=follow_up)
        data = self._given(session, guided, follow_up)
        text = ""
        try:
            stream = self._endpoint.streamed(Role.ANSWER, messages_for("answer", data), budget)
            async with contextlib.aclosing(_prose(stream)) as sentences:
                async for sentence in sentences:
                    text += sentence
                    yield sentence
        except ModelFailure:
            budget.fell_back.add(Role.ANSWER)
            yield replace(guided, sentences=(messages()["model_away"], *guided.sentences))
            return
        parts = [p.strip() for p in re.split(r"\n\s*\n|\n(?=- )", text) if p.strip()]
        yield Draft(
            sentences=tuple(parts),
            used=guided.used,
            sources=guided.sources,
            blocks=guided.blocks,
            is_generated=True,
            is_streamed=True,
        )

    @staticmethod
    def _given(session: Session, guided: Draft, follow_up: str) -> dict[str, Any]:
        topic, profile = session.topic, session.profile
        return {
            "question": (topic.query if topic else "")[:LONGEST_MESSAGE],
            "follow_up": follow_up[:LONGEST_MESSAGE],
            "told": told(profile),
            "declined": [a.value for a in profile.with_standing(Standing.DECLINED)],
            "risk": session.risk.level.value,
            "is_minor": session.is_minor,
            "stakes": topic.assessment.stakes.value if topic else "high",
            "guidance": list(guided.sentences),
        }


async def _prose(stream: AsyncGenerator[str, None]) -> AsyncGenerator[str, None]:
    """Whole sentences of a reply as they come, held back until there are enough words to tell that it is one.

    Raises:
        ModelFailure: it is data, a word or a book, or it broke off.
    """
    cut = Sentences()
    held: list[str] = []
    words = 0

    def counted(sentence: str) -> list[str]:
        nonlocal held, words
        words += len(sentence.split())
        held.append(sentence if held or words > len(sentence.split()) else sentence.lstrip())
        if held[0].lstrip()[:1] in "{[<`" or words > MOST_WORDS:
            raise ModelFailure(Failure.MALFORMED)
        if words < FEWEST_WORDS:
            return []
        ready, held = held, []
        return ready

    async with contextlib.aclosing(stream) as pieces:
        async for piece in pieces:
            for sentence in cut.feed(piece):
                for ready in counted(sentence):
                    yield ready
    rest = cut.rest().rstrip()
    if rest:
        for ready in counted(rest):
            yield ready
    if words < FEWEST_WORDS:
        raise ModelFailure(Failure.MALFORMED)


class ModelOpinion:
    """Implements `bot.risk.opinion.Opinion`."""

    def __init__(self, endpoint: Endpoint, *, seconds: float = 5.0) -> None:
        self._endpoint, self._seconds = endpoint, seconds

    async def __call__(self, text: str, budget: Budget) -> RiskLevel | str:
        """The level the model sees.

        Raises:
            ModelFailure: no opinion.
        """
        data = {"message": text[:LONGEST_MESSAGE]}
        answer = await self._endpoint.structured(
            Role.RISK, messages_for("risk", data), RiskAnswer, budget.share(self._seconds)
        )
        return answer.level
