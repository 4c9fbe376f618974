"""THE ONE DOOR: screen, read, dialogue, guard. Browser, terminal, benchmark and tests all come through it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from bot import dialogue
from bot.abstention import Reason
from bot.dialogue import AnswerMove, Arm, Composed, Move, Rules, Said, Say, Session, Step
from bot.errors import ModelUnavailable
from bot.models.guided import GuidedModel
from bot.models.protocol import Draft, LanguageModel
from bot.responding import Responder, Words
from bot.risk import state as risk_state
from bot.risk.guard import Guard
from bot.risk.screen import Screen
from bot.risk.semantic import SemanticStage
from bot.risk.verdict import Category, RiskLevel, RiskState, Verdict
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
        answers: dict[Attribute, Answer] = {}
        at = parts.clock()
        risk = RiskState()
        if profile:
            from bot.interview import Reader  # noqa: PLC0415 (only the context-rich arm reads a profile)

            brain = encoder.built_in()
            reader = Reader(brain)
            for attribute, text in profile.items():
                verdict = parts.screen.screen(text, state=risk, answering=attribute)
                risk = risk_state.after(risk, verdict, says_safe=False)
                read = reader.read(text, brain.encode([text])[0], at=at, pending=attribute, profile=Profile())
                known = read.facts.get(attribute)
                answers[attribute] = (
                    known
                    if known and known.standing is Standing.KNOWN
                    else Answer(standing=Standing.KNOWN, at=at, text=text[:160])
                )
        age = answers.get(Attribute.AGE)
        is_minor = age is not None and bool(age.tags & {"child", "teen"})
        session = Session(
            arm=arm, seed=seed, country=country, profile=Profile(answers), risk=risk, is_minor=is_minor
        )
        return cls(parts, session)

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
        text = text.encode("utf-8", "replace").decode("utf-8")
        verdict = Verdict()
        try:
            verdict = self._screened(text)
            async for words in self._moves(text, verdict, chosen=chosen):
                yield words
        except Exception as failed:  # noqa: BLE001 (the last door: nothing may reach the person as a stack trace)
            log.error("turn failed: %s", type(failed).__name__)
            for words in self._failed(before, verdict):
                yield words

    def _failed(self, before: Session, verdict: Verdict) -> list[Words]:
        """Our own machinery failed: the risk state moves on all the same, and people are shown."""
        rules, responder = self._parts.rules, self._parts.responder
        event = Said(at=self._parts.clock(), text="", verdict=verdict, understood=Understood())
        step = dialogue.step(before, event, rules)
        if step.session.risk.level is RiskLevel.IMMINENT:
            self._session = step.session
            return [responder.render(move, step.session) for move in step.moves]
        self._session = replace(before, turn=before.turn + 1, risk=step.session.risk, introduced=True)
        return [*self._notice(before), responder.failure(self._session)]

    def _notice(self, before: Session) -> list[Words]:
        """The AI notice, where it was not yet shown."""
        if before.introduced:
            return []
        return [self._parts.responder.render(Say(key="ai_notice"), before)]

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
        imminent = RiskLevel.IMMINENT in (verdict.level, session.risk.level)
        if len(text) > LONGEST_ANSWERED and not imminent:
            risk = risk_state.after(session.risk, verdict, says_safe=False)
            self._session = replace(session, turn=session.turn + 1, risk=risk, introduced=True)
            for words in self._notice(session):
                yield words
            yield parts.responder.failure(self._session, key="too_long")
            return
        understood = await parts.model.understand(text[:LONGEST_ANSWERED], session, at=at, chosen=chosen)
        verdict = _raised_by_answer(verdict, understood)
        step = dialogue.step(
            session, Said(at=at, text=text, verdict=verdict, understood=understood), parts.rules
        )
        self._session = step.session
        for move in step.moves:
            yield self._worded(move, step.session)
        for effect in step.effects:
            done, answer = await self._composed(effect, step)
            self._session = done.session
            for move in done.moves:
                sentences = answer if isinstance(move, AnswerMove) else ()
                yield parts.responder.render(move, done.session, answer=sentences)

    def _worded(self, move: Move, session: Session) -> Words:
        """A move in words; what a person wrote is echoed only where the guard lets it out."""
        words = self._parts.responder.render(move, session)
        echoes = isinstance(move, Say) and move.noted
        if echoes and any(self._parts.guard.refuse(line) for line in words.text.split("\n")):
            return self._parts.responder.render(move, session, in_words=False)
        return words

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


def _raised_by_answer(verdict: Verdict, understood: Understood) -> Verdict:
    """An answer that was read as thoughts, a plan or self-harm now counts, however few words it had."""
    answer = understood.facts.get(Attribute.SELF_HARM_HISTORY)
    if verdict.level is not RiskLevel.NONE or answer is None:
        return verdict
    if not answer.tags & {"current_thoughts", "plan", "recent_self_harm"}:
        return verdict
    category = (
        Category.SELF_INJURY if answer.tags <= {"recent_self_harm", "past_self_harm"} else Category.SUICIDE
    )
    return replace(
        verdict,
        level=RiskLevel.ELEVATED,
        categories=(category,),
        rules=("answer-read-as-risk",),
        why="the answer to the question about self-harm was read as thoughts or harm now",
    )


__all__ = ["Arm", "Conversation", "Draft", "EncoderError", "Parts", "build_parts", "now"]
