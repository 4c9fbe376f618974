"""THE ONE DOOR: screen, read, dialogue, guard. Browser, terminal, benchmark and tests all come through it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from bot import dialogue
from bot.abstention import Reason
from bot.dialogue import AnswerMove, Arm, Composed, Rules, Said, Session, Step
from bot.errors import ModelUnavailable
from bot.models.guided import GuidedModel
from bot.models.protocol import Draft, LanguageModel
from bot.responding import Responder, Words
from bot.risk.guard import Guard
from bot.risk.screen import Screen
from bot.risk.semantic import SemanticStage
from bot.risk.verdict import RiskLevel, Verdict
from bot.understanding import Understood
from policies import classifiers, crisis, encoder, guidance, questions, thresholds
from policies.attributes import Answer, Attribute, Profile, Standing
from policies.errors import EncoderError

LONGEST_ANSWERED = 4_000
"""Characters of a message that is understood and answered; a longer one is screened all the same."""

log = logging.getLogger("raise.conversation")


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything a conversation is made of, built once and shared by all sessions.

    Attributes:
        screen: the text stage; never absent.
        semantic: the semantic stage, or None where no encoder is installed.
        model: understands and composes.
        responder: words.
        guard: checks every sentence out.
        rules: thresholds and the study's attributes.
        clock: aware UTC.
    """

    screen: Screen
    semantic: SemanticStage | None
    model: LanguageModel
    responder: Responder
    guard: Guard
    rules: Rules
    clock: Callable[[], datetime]


def now() -> datetime:
    """The time, aware UTC."""
    return datetime.now(UTC)


def build_parts(*, clock: Callable[[], datetime] = now, minimum_age: int = 18) -> Parts:
    """Load everything that ships: policies, encoder, classifiers.

    Raises:
        PolicyError: a policy file or the encoder cannot be used.
    """
    screen = Screen()
    directory = crisis.shipped()
    brain = encoder.built_in()
    return Parts(
        screen=screen,
        semantic=SemanticStage(brain, classifiers.shipped()),
        model=GuidedModel(brain, minimum_age=minimum_age),
        responder=Responder(guidance.shipped(), questions.shipped(), directory),
        guard=Guard(screen, directory),
        rules=Rules(thresholds=thresholds.shipped()),
        clock=clock,
    )


class Conversation:
    """One person's conversation. One message at a time: a lock holds the next back until a turn is done."""

    def __init__(self, parts: Parts, session: Session | None = None) -> None:
        self._parts = parts
        self._session = session or Session()
        self._lock = asyncio.Lock()

    @property
    def session(self) -> Session:
        """What is known now; serialisable."""
        return self._session

    @classmethod
    def start(
        cls,
        parts: Parts,
        *,
        arm: Arm = Arm.RAISE,
        seed: int = 0,
        country: str | None = None,
        profile: dict[Attribute, str] | None = None,
    ) -> Conversation:
        """A new conversation.

        Args:
            parts: shared parts.
            arm: the condition it runs under.
            seed: chooses phrasings and, in the random arm, the order.
            country: ISO code where it is known beforehand.
            profile: texts by attribute, for the context-rich arm.
        """
        answers = {}
        at = parts.clock()
        if profile:
            from bot.interview import Reader  # noqa: PLC0415 (only the context-rich arm reads a profile)

            brain = encoder.built_in()
            reader = Reader(brain)
            for attribute, text in profile.items():
                read = reader.read(text, brain.encode([text])[0], at=at, pending=attribute, profile=Profile())
                known = read.facts.get(attribute)
                answers[attribute] = (
                    known
                    if known and known.standing is Standing.KNOWN
                    else Answer(standing=Standing.KNOWN, at=at, text=text[:160])
                )
        return cls(parts, Session(arm=arm, seed=seed, country=country, profile=Profile(answers)))

    async def choose(self, label: str, *, attribute: Attribute | None = None) -> AsyncIterator[Words]:
        """A quick reply was tapped.

        Args:
            label: its text.
            attribute: the question it belonged to; a reply to a question that is no longer open is dropped.
        """
        async with self._lock:
            pending = self._session.pending
            if attribute is not None and (pending is None or pending.attribute is not attribute):
                return
            async for words in self._turn(label, chosen=True):
                yield words

    async def receive(self, text: str) -> AsyncIterator[Words]:
        """One message in; its moves out, each as soon as it is known.

        Whatever fails inside, the message is screened first, and the person gets kind words and human help.
        """
        async with self._lock:
            async for words in self._turn(text, chosen=False):
                yield words

    async def _turn(self, text: str, *, chosen: bool) -> AsyncIterator[Words]:
        before = self._session
        verdict = self._screened(text)
        try:
            async for words in self._moves(text, verdict, chosen=chosen):
                yield words
        except Exception as failed:  # noqa: BLE001 (the last door: nothing may reach the person as a stack trace)
            log.error("turn failed: %s", type(failed).__name__)
            at = self._parts.clock()
            event = Said(at=at, text="", verdict=verdict, understood=Understood())
            if verdict.level is RiskLevel.IMMINENT or before.risk.level is RiskLevel.IMMINENT:
                step = dialogue.step(before, event, self._parts.rules)
                self._session = step.session
                for move in step.moves:
                    yield self._parts.responder.render(move, step.session)
                return
            self._session = replace(before, turn=before.turn + 1)
            yield self._parts.responder.failure(before)

    def _screened(self, text: str) -> Verdict:
        """The raw text, first, at any length. Only the semantic stage may be missing."""
        session = self._session
        flags = set()
        if session.profile.tags(Attribute.HEALTH) & {"postpartum"} or session.profile.tags(
            Attribute.MENTAL_STATE
        ) & {"postnatal"}:
            flags.add("postpartum")
        if session.topic is not None and "chest" in session.topic.query.lower():
            flags.add("medical_maybe")
        pending = session.pending.attribute if session.pending else None
        verdict = self._parts.screen.screen(text, state=session.risk, answering=pending, profile_flags=flags)
        if self._parts.semantic is None:
            return verdict
        try:
            return self._parts.semantic.deepen(
                text,
                verdict,
                not_real=bool(verdict.flags & {"not_real", "bereaved"}) or "not_real" in session.risk.flags,
                is_short_answer=pending not in (None, Attribute.SELF_HARM_HISTORY) and len(text.split()) < 8,
            )
        except Exception as failed:  # noqa: BLE001 (a second opinion: its failure is logged, the rules have decided)
            log.error("semantic stage failed: %s", type(failed).__name__)
            return verdict

    async def _moves(self, text: str, verdict: Verdict, *, chosen: bool) -> AsyncIterator[Words]:
        parts, session = self._parts, self._session
        at = parts.clock()
        imminent = verdict.level is RiskLevel.IMMINENT
        if len(text) > LONGEST_ANSWERED and not imminent:
            event = Said(at=at, text="", verdict=verdict, understood=Understood())
            state = dialogue.step(replace(session, topic=None, pending=None), event, parts.rules)
            self._session = replace(session, turn=session.turn + 1, risk=state.session.risk)
            yield parts.responder.failure(self._session, key="too_long")
            return
        understood: Understood | None = None
        if not imminent or len(text) <= LONGEST_ANSWERED:
            understood = await parts.model.understand(text, session, at=at, chosen=chosen)
        step = dialogue.step(
            session, Said(at=at, text=text, verdict=verdict, understood=understood), parts.rules
        )
        self._session = step.session
        for move in step.moves:
            yield parts.responder.render(move, step.session)
        for effect in step.effects:
            done, answer = await self._composed(effect, step)
            self._session = done.session
            for move in done.moves:
                sentences = answer if isinstance(move, AnswerMove) else ()
                yield parts.responder.render(move, done.session, answer=sentences)

    async def _composed(self, effect: dialogue.Compose, step: Step) -> tuple[Step, tuple[str, ...]]:
        """Compose, guard sentence by sentence, and tell the dialogue what came of it."""
        parts = self._parts
        session = replace(step.session, topic=effect.topic)
        try:
            draft = await parts.model.compose(session, follow_up=effect.follow_up)
        except ModelUnavailable:
            event = Composed(at=parts.clock(), failed=Reason.MODEL_UNAVAILABLE)
            return dialogue.step(session, event, parts.rules), ()
        if any(parts.guard.refuse(sentence) for sentence in draft.sentences):
            event = Composed(at=parts.clock(), failed=Reason.GUARD)
            return dialogue.step(session, event, parts.rules), ()
        event = Composed(at=parts.clock(), used=draft.used, shown=draft.blocks)
        return dialogue.step(session, event, parts.rules), tuple(draft.sentences)


__all__ = ["Arm", "Conversation", "Draft", "EncoderError", "Parts", "build_parts", "now"]
