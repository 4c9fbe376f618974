"""THE ONE DOOR: screen, read, dialogue, guard. Browser, terminal, benchmark and tests all come through it."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from bot import dialogue
from bot.abstention import Reason
from bot.errors import ModelUnavailable
from bot.escalation import Desk, Referral
from bot.models.guided import GuidedModel
from bot.models.protocol import Draft, LanguageModel
from bot.moves import AnswerMove, Compose, Composed, Move, Rules, Said, Say, Silence, Step
from bot.responding import Responder, Words
from bot.risk import state as risk_state
from bot.risk.clauses import ReadingStage
from bot.risk.guard import Guard
from bot.risk.opinion import Opinion, Second
from bot.risk.replies import ReplyJudge
from bot.risk.screen import Screen
from bot.risk.semantic import RECENT, RECENT_CHARACTERS, SemanticStage
from bot.risk.stages import Stages
from bot.risk.verdict import Category, RiskLevel, RiskState, Verdict
from bot.session import Arm, Session
from bot.understanding import Understood
from policies import classifiers, crisis, encoder, guidance, questions, thresholds
from policies.attributes import Answer, Attribute, Profile, Standing
from policies.crisis import cards
from policies.domains import Domain
from policies.errors import EncoderError
from privacy.reading import ReadingError, TimedParser

if TYPE_CHECKING:
    from bot.models.openai_api import Endpoint

LONGEST_ANSWERED = 4_000
"""Characters of a message that is understood and answered; a longer one is screened all the same."""

READING_SECONDS = 0.4
HURRY_SECONDS = 0.5
MODEL_SECONDS = 60.0
THINKING_SECONDS = 3.0
"""After this long without a word the person is told that it takes longer."""
"""What the crisis card may wait for: the parse that could lower it, and the local reading of country and intent."""

log = logging.getLogger("raise.conversation")


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything a conversation is made of, built once and shared by all sessions.

    Attributes:
        stages: the risk screen; its text stage is never absent.
        parser: for the reading stage, or None.
        opinion: a model's opinion on risk, or None; it can only raise.
        model: understands and composes.
        responder: words.
        guard: checks every sentence out.
        rules: thresholds and the study's attributes.
        clock: aware UTC.
        desk: counts referrals and tells the on-call contact, or None.
    """

    stages: Stages
    parser: TimedParser | None
    opinion: Opinion | None
    model: LanguageModel
    responder: Responder
    guard: Guard
    rules: Rules
    clock: Callable[[], datetime]
    desk: Desk | None = None


def now() -> datetime:
    """The time, aware UTC."""
    return datetime.now(UTC)


def build_parts(
    *,
    clock: Callable[[], datetime] = now,
    minimum_age: int = 18,
    desk: Desk | None = None,
    on_call: str | None = None,
    alerts_key: str = "alerts_someone",
    endpoint: Endpoint | None = None,
    turn_seconds: float = 20.0,
) -> Parts:
    """Load everything that ships: policies, encoder, classifiers.

    Args:
        clock: aware UTC.
        minimum_age: below it the conversation changes.
        desk: counts referrals and tells the on-call contact.
        on_call: how fast that contact answers, as people read it; None where nobody is told.
        alerts_key: the message that says of what they are told.
        endpoint: of an outside model; the built-in one alone where None.
        turn_seconds: what a turn's calls to it may take together.

    Raises:
        PolicyError: a policy file or the encoder cannot be used.
    """
    screen = Screen()
    directory = crisis.shipped()
    brain = encoder.built_in()
    guided = GuidedModel(brain, minimum_age=minimum_age)
    model, opinion = _speakers(guided, endpoint, turn_seconds)
    return Parts(
        stages=Stages(screen, reading=ReadingStage(), semantic=SemanticStage(brain, classifiers.shipped())),
        parser=_warm_parser(),
        opinion=opinion,
        model=model,
        responder=Responder(
            guidance.shipped(),
            questions.shipped(),
            directory,
            cards=cards.shipped(),
            on_call=on_call,
            alerts_key=alerts_key,
        ),
        guard=Guard(
            screen,
            directory,
            judge=ReplyJudge(brain, classifiers.shipped()),
            vetted=frozenset(block.text for block in guidance.shipped().all_blocks()),
        ),
        rules=Rules(thresholds=thresholds.shipped()),
        clock=clock,
        desk=desk,
    )


def _speakers(
    guided: GuidedModel, endpoint: Endpoint | None, turn_seconds: float
) -> tuple[LanguageModel, Opinion | None]:
    """Who speaks, and who gives a second opinion on danger."""
    if endpoint is None:
        return guided, None
    from bot.models.remote import ModelOpinion, RemoteModel  # noqa: PLC0415 (loads the client, a second's wait)

    return RemoteModel(endpoint, guided, turn_seconds=turn_seconds), ModelOpinion(endpoint)


def _warm_parser() -> TimedParser | None:
    """The parser, loaded now so that the first message does not wait; None where it is not installed."""
    parser = TimedParser()
    try:
        parser.warm()
    except ReadingError as missing:
        log.error("no reading stage: %s", missing)
        return None
    return parser


class Conversation:
    """One person's conversation. One message at a time: a lock holds the next back until a turn is done."""

    def __init__(self, parts: Parts, session: Session | None = None, *, person: str = "anonymous") -> None:
        """A conversation from its beginning, or from a session that was kept.

        Args:
            parts: shared parts.
            session: what is known already.
            person: pseudonym for on-call notices.
        """
        self._parts = parts
        self._person = person
        self._session = session or Session()
        self._lock = asyncio.Lock()
        self._second = Second()
        self._recent: deque[str] = deque(maxlen=RECENT)

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
                verdict = parts.stages.heard(text, state=risk, answering=attribute)
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

    async def silent(self) -> AsyncIterator[Words]:
        """Nothing came for a while: after a card of danger the person hears that someone is still here."""
        async with self._lock:
            step = dialogue.step(self._session, Silence(at=self._parts.clock()), self._parts.rules)
            self._session = step.session
            for move in step.moves:
                yield self._worded(move, step.session)

    async def _turn(self, text: str, *, chosen: bool) -> AsyncIterator[Words]:
        before = self._session
        text = text.encode("utf-8", "replace").decode("utf-8")
        verdict = Verdict()
        self._second = Second.asked(self._parts.opinion, text, before=self._second)
        referred = False
        try:
            verdict = await self._screened(text)
            async for words in self._moves(text, verdict, self._second, chosen=chosen):
                referred = referred or _is_referral(words)
                yield words
        except Exception as failed:  # noqa: BLE001 (the last door: nothing may reach the person as a stack trace)
            log.error("turn failed: %s", type(failed).__name__)
            for words in self._failed(before, verdict):
                referred = referred or _is_referral(words)
                yield words
        finally:
            self._recent.append(text[:RECENT_CHARACTERS])
            if referred:
                self._note_referral(before, verdict)

    def _note_referral(self, before: Session, verdict: Verdict) -> None:
        """Counted, and told where somebody is on call; never waited for."""
        risk = self._session.risk
        if self._parts.desk is None or risk.level is RiskLevel.NONE:
            return
        kinds = verdict.categories or risk.categories
        self._parts.desk.note(
            Referral(
                person=self._person,
                level=risk.level,
                category=kinds[0].value if kinds else "unclear",
                country=self._session.country or "",
                at=self._parts.clock(),
                is_news=risk.level.rank > before.risk.level.rank or verdict.level is RiskLevel.IMMINENT,
            )
        )

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

    async def _screened(self, text: str) -> Verdict:
        """The raw text, first, at any length; then what the parse and the meaning add, each within its time."""
        session, parts = self._session, self._parts
        flags = set()
        if session.profile.tags(Attribute.HEALTH) & {"postpartum"} or session.profile.tags(
            Attribute.MENTAL_STATE
        ) & {"postnatal"}:
            flags.add("postpartum")
        if session.topic is not None and "chest" in session.topic.query.lower():
            flags.add("medical_maybe")
        if session.topic is not None and session.topic.assessment.domain is Domain.RELATIONSHIP:
            flags.add("close_tie")
        pending = session.pending.attribute if session.pending else None
        heard = partial(parts.stages.heard, text, state=session.risk, answering=pending, profile_flags=flags)
        verdict = heard() if len(text) <= LONGEST_ANSWERED else await asyncio.to_thread(heard)
        try:
            reading = await parts.parser.read(text, within=READING_SECONDS) if parts.parser else None
            deepened = partial(
                parts.stages.deepened,
                text,
                verdict,
                reading=reading,
                state=session.risk,
                answering=pending,
                recent=tuple(self._recent),
            )
            return deepened() if len(text) <= LONGEST_ANSWERED else await asyncio.to_thread(deepened)
        except Exception as failed:  # noqa: BLE001 (second opinions: their failure is logged, the text stage has decided)
            log.error("deepening failed: %s", type(failed).__name__)
            return verdict

    async def _moves(
        self, text: str, verdict: Verdict, second: Second, *, chosen: bool
    ) -> AsyncIterator[Words]:
        parts, session = self._parts, self._session
        at = parts.clock()
        verdict = second.late(verdict)
        imminent = RiskLevel.IMMINENT in (verdict.level, session.risk.level)
        if len(text) > LONGEST_ANSWERED and not imminent:
            verdict = await second.raised(verdict)
            imminent = verdict.level is RiskLevel.IMMINENT
        if len(text) > LONGEST_ANSWERED and not imminent:
            async for words in self._too_long(verdict):
                yield words
            return
        reading = asyncio.ensure_future(
            self._understood(text[:LONGEST_ANSWERED], at=at, chosen=chosen, hurry=imminent)
        )
        async for words in self._while_waiting(reading):
            yield words
        understood = reading.result()
        verdict = _raised_by_answer(verdict, understood)
        if not imminent:
            verdict = await second.raised(verdict)
        step = dialogue.step(
            session, Said(at=at, text=text, verdict=verdict, understood=understood), parts.rules
        )
        self._session = step.session
        for move in step.moves:
            yield self._worded(move, step.session)
        for effect in step.effects:
            composing = asyncio.ensure_future(self._composed(effect, step))
            async for words in self._while_waiting(composing):
                yield words
            done, draft = composing.result()
            self._session = done.session
            for move in done.moves:
                if isinstance(move, AnswerMove) and draft is not None:
                    yield parts.responder.render(
                        move, done.session, answer=draft.sentences, is_generated=draft.is_generated
                    )
                else:
                    yield parts.responder.render(move, done.session)

    async def _while_waiting(self, task: asyncio.Future[Any]) -> AsyncIterator[Words]:
        """Wait for a model; after a while the person hears, once, that it takes longer. Cancelled when they leave."""
        try:
            done, _ = await asyncio.wait({task}, timeout=THINKING_SECONDS)
            if not done:
                yield self._worded(Say(key="still_thinking"), self._session)
                await asyncio.wait({task})
        finally:
            if not task.done():
                task.cancel()

    async def _too_long(self, verdict: Verdict) -> AsyncIterator[Words]:
        """Screened, not understood: the risk state moves on, help is shown, nothing is lost."""
        session = self._session
        risk = risk_state.after(session.risk, verdict, says_safe=False)
        self._session = replace(session, turn=session.turn + 1, risk=risk, introduced=True)
        for words in self._notice(session):
            yield words
        yield self._parts.responder.failure(self._session, key="too_long")

    async def _understood(self, text: str, *, at: datetime, chosen: bool, hurry: bool) -> Understood:
        """What the model reads; in danger it has little time, as the card does not wait for it."""
        model, session = self._parts.model, self._session
        if not hurry:
            async with asyncio.timeout(MODEL_SECONDS):
                return await model.understand(text, session, at=at, chosen=chosen)
        try:
            async with asyncio.timeout(HURRY_SECONDS):
                return await model.understand(text, session, at=at, chosen=chosen, hurry=True)
        except Exception as failed:  # noqa: BLE001 (time-outs too: the card comes first)
            log.error("not understood in time: %s", type(failed).__name__)
            return Understood()

    def _worded(self, move: Move, session: Session) -> Words:
        """A move in words; what a person wrote is echoed only where the guard lets it out."""
        words = self._parts.responder.render(move, session)
        if not isinstance(move, Say):
            return words
        own_plan = move.key in ("plan_done", "plan_shown")
        refused = self._parts.guard.harms if own_plan else self._parts.guard.refuse
        if (move.noted or own_plan) and any(refused(line) for line in words.text.split("\n")):
            return self._parts.responder.render(move, session, in_words=False)
        return words

    async def _composed(self, effect: Compose, step: Step) -> tuple[Step, Draft | None]:
        """Compose, guard sentence by sentence, and tell the dialogue what came of it."""
        parts = self._parts
        session = replace(step.session, topic=effect.topic)
        try:
            async with asyncio.timeout(MODEL_SECONDS):
                draft = await parts.model.compose(session, follow_up=effect.follow_up)
        except (ModelUnavailable, TimeoutError):
            event = Composed(at=parts.clock(), failed=Reason.MODEL_UNAVAILABLE)
            return dialogue.step(session, event, parts.rules), None
        if any(parts.guard.refuse(sentence) for sentence in draft.sentences):
            event = Composed(at=parts.clock(), failed=Reason.GUARD)
            return dialogue.step(session, event, parts.rules), None
        event = Composed(at=parts.clock(), used=draft.used, shown=draft.blocks)
        return dialogue.step(session, event, parts.rules), draft


def _is_referral(words: Words) -> bool:
    return words.fields.get("reason") in (Reason.ELEVATED_RISK.value, Reason.IMMINENT_RISK.value) and bool(
        words.resources
    )


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
