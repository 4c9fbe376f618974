"""THE ONE DOOR: screen, read, dialogue, guard. Browser, terminal, benchmark and tests all come through it."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from bot import country, dialogue
from bot.abstention import Reason
from bot.aside import aside, first
from bot.errors import ModelUnavailable
from bot.escalation import Referral
from bot.keeping import Line, Outbox, TurnRecord, new_session_id
from bot.models import vocabulary
from bot.models.protocol import Draft
from bot.models.usage import Budget, Role
from bot.moves import (
    AnswerMove,
    Ask,
    Compose,
    Composed,
    Event,
    Move,
    Said,
    Say,
    Silence,
    Step,
)
from bot.page import Page, line_of
from bot.parts import Parts
from bot.record import told
from bot.responding import Words
from bot.risk import state as risk_state
from bot.risk.opinion import Second
from bot.risk.semantic import RECENT, RECENT_CHARACTERS
from bot.risk.verdict import Category, RiskLevel, RiskState, Verdict
from bot.session import Arm, Session
from bot.understanding import Intent, Understood
from policies import encoder
from policies.attributes import Answer, Attribute, Profile, Standing
from policies.domains import Domain
from privacy.consent import Grant, Scope, ToSend
from privacy.errors import PrivacyError, RedactionFailed
from privacy.gate import Passage, RedactsNow
from privacy.placeholders import Placeholders
from privacy.reading import Reading
from privacy.spans import Redaction

LONGEST_ANSWERED = 4_000
"""Characters of a message that is understood and answered; a longer one is screened all the same."""

READING_SECONDS = 0.4
HURRY_SECONDS = 0.5
AGREE_SECONDS = 0.3
MODEL_SECONDS = 60.0
"""What the crisis card may wait for: the parse that could lower it, and the local reading of country and intent."""
THINKING_SECONDS = 3.0
"""After this long without a word the person is told, once a turn, that it takes longer."""

log = logging.getLogger("raise.conversation")
_Result = TypeVar("_Result")


@dataclass(slots=True)
class _Turn:
    """What one turn carries along.

    Attributes:
        budget: of its calls to an outside model.
        told_to_wait: the person has heard that it takes longer.
        looking: the search for personal data in the message.
        safe: the message without it.
        steps: what the dialogue decided.
        events: what it was told, each with the state it met.
        answered: our words, with placeholders.
        in_flight: what is awaited now; cancelled where the turn is interrupted.
        is_cut: it was interrupted.
        id: of the person's message on the page.
        shown: what stands on the page of this turn, with placeholders.
        began: by the monotonic clock.
        turn: its number.
        beside: the message is being kept.
        heard: what the screen has heard in it so far.
        screening: the screen at work.
    """

    budget: Budget
    told_to_wait: bool = False
    looking: asyncio.Future[Redaction] | None = None
    safe: str = ""
    steps: list[Step] = field(default_factory=list)
    events: list[tuple[Session, Event]] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)
    in_flight: asyncio.Future[Any] | None = None
    is_cut: bool = False
    id: str = ""
    shown: list[Line] = field(default_factory=list, repr=False)
    began: float = field(default_factory=time.perf_counter)
    turn: int = 0
    beside: asyncio.Future[None] | None = None
    heard: Verdict = field(default_factory=Verdict)
    screening: asyncio.Future[Verdict] | None = None


class _Interrupted(Exception):
    """The turn was cut: the person stopped it, or said something that cannot wait."""


class Conversation:
    """One person's conversation. One message at a time: a lock holds the next back until a turn is done.

    Only danger does not wait: a message that is imminent by its raw text cuts the turn that is under way.
    """

    def __init__(
        self,
        parts: Parts,
        session: Session | None = None,
        *,
        person: str = "anonymous",
        places: Placeholders | None = None,
        session_id: str | None = None,
        shown: Sequence[Line] = (),
        recent: Sequence[str] = (),
    ) -> None:
        """A conversation from its beginning, or from a session that was kept.

        Args:
            parts: shared parts.
            session: what is known already.
            person: pseudonym.
            places: the placeholder map of a session that was kept.
            session_id: of a session that was kept.
            shown: what stood on its page.
            recent: the beginnings of its last messages, as the screen hears them together.
        """
        self._parts = parts
        self.places = places or Placeholders()
        self._person = person
        self.id = session_id or new_session_id()
        self.page = Page(self.id, self.places, shown)
        self.outbox = Outbox(parts.keeping, person) if parts.keeping is not None else None
        self._passage = self._way_out()
        self._told_unsaved = False
        self._session = session or Session()
        self._lock = asyncio.Lock()
        self._second = Second()
        self._recent: deque[str] = deque(recent, maxlen=RECENT)
        self.is_kept = session_id is not None
        """The last turn stands in the store, as far as the person agreed."""
        self._running: _Turn | None = None
        self.fell_back: frozenset[Role] = frozenset()
        """What the built-in model did in the last turn in the place of an outside one that failed."""

    def _wait(self, seconds: float) -> float:
        """How long a wait of so many seconds may be here."""
        return seconds * self._parts.patience

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
        person: str = "anonymous",
    ) -> Conversation:
        """A new conversation.

        Args:
            parts: shared parts.
            arm: the condition it runs under.
            seed: chooses phrasings and, in the random arm, the order.
            country: ISO code where it is known beforehand.
            profile: texts by attribute, for the context-rich arm.
            person: pseudonym.
        """
        answers: dict[Attribute, Answer] = {}
        places = Placeholders()
        at = parts.clock()
        risk = RiskState()
        if profile:
            from bot.interview import Reader  # noqa: PLC0415 (only the context-rich arm reads a profile)

            brain = encoder.built_in()
            reader = Reader(brain)
            for attribute, told_text in profile.items():
                text = told_text
                if isinstance(parts.detector, RedactsNow):
                    text = places.apply(told_text, parts.detector.redact_now(told_text).spans)
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
        return cls(parts, session, person=person, places=places)

    async def choose(
        self, label: str, *, attribute: Attribute | None = None, message_id: str = ""
    ) -> AsyncGenerator[Words, None]:
        """A quick reply was tapped.

        Args:
            label: its text.
            attribute: the question it belonged to; a reply to a question that is no longer open is dropped.
            message_id: of the reply on the page.
        """
        async with self._lock:
            pending = self._session.pending
            if attribute is not None and (pending is None or pending.attribute is not attribute):
                return
            turn = self._turn(label, chosen=self._is_offered(label), message_id=message_id)
            async with aclosing(turn) as moves:
                async for words in moves:
                    yield words

    def _is_offered(self, label: str) -> bool:
        """Whether a label is a quick reply of the open question: anything else is a person's own words."""
        session = self._session
        if session.pending is None or session.topic is None:
            return False
        move = Ask(
            attribute=session.pending.attribute,
            variant=0,
            domain=session.topic.assessment.domain,
            sufficiency=0.0,
        )
        return label in self._parts.responder.render(move, session).choices

    async def receive(self, text: str, *, message_id: str = "") -> AsyncGenerator[Words, None]:
        """One message in; its moves out, each as soon as it is known.

        Whatever fails inside, the message is screened first, and the person gets kind words and human help.

        Args:
            text: of the message.
            message_id: of the message on the page; one is made where it is empty.
        """
        if self._running is not None and self._is_imminent(text):
            self.stop(for_danger=True)
        async with self._lock:
            if message_id and self.page.holds(message_id):
                return  # the same message once more, as after a connection that was lost
            async with aclosing(self._turn(text, chosen=False, message_id=message_id)) as moves:
                async for words in moves:
                    yield words

    async def go_on(self, coming: Mapping[str, Any]) -> AsyncGenerator[Words, None]:
        """Answer a message that was not answered yet when the program ended.

        Args:
            coming: the message as it was kept.
        """
        line = Line.from_json(coming)
        async with self._lock:
            if self.page.holds(line.id):
                return
            text = self.places.restore(line.text, own=True)
            turn = self._turn(text, chosen=bool(coming["chosen"]), message_id=line.id)
            async with aclosing(turn) as moves:
                async for words in moves:
                    yield words

    def recent(self) -> list[str]:
        """The beginnings of the last messages."""
        return list(self._recent)

    async def keep_now(self) -> None:
        """Keep the state before the first message, as far as the person agreed: a form was filled in."""
        keeping = self._parts.keeping
        if keeping is not None and not self._session.is_minor:
            await keeping.coming(self._person, self.id, self._session, Line.nothing(), self.places)
            self.is_kept = True

    async def keep_coming(self, line: Line) -> None:
        """Keep a message that is to be answered when the chat opens, redacted, as far as the person agreed."""
        keeping, detector = self._parts.keeping, self._parts.detector
        if keeping is None or detector is None:
            return
        try:
            safe = self.places.apply(line.text, (await detector.redact(line.text)).spans)
        except PrivacyError as failed:
            log.error("a message was not made safe: %s", type(failed).__name__)
            return
        await keeping.coming(self._person, self.id, self._session, replace(line, text=safe), self.places)

    def open_question(self) -> Words | None:
        """The question that is open, as it stands on the page; None where there is none."""
        session = self._session
        asked = self.page.last_of_ours()
        if session.pending is None or session.topic is None or asked is None or asked.move != "ask":
            return None
        return replace(self._parts.responder.render(self._asked(), session), id=asked.id, text=asked.text)

    def in_words(self, coming: Mapping[str, Any]) -> str:
        """A message that was not answered yet, as the person wrote it."""
        return self.places.restore(str(coming["text"]), own=True)

    def welcome_back_in_danger(self, before: Session) -> Words:
        """After a reload under danger: people who can help, once on a page however often it is opened."""
        words = self._parts.responder.failure(before, key="welcome_back_risk")
        return replace(words, id=self.page.id_of(before.turn, "welcome back"))

    @property
    def is_answering(self) -> bool:
        """A message is being answered."""
        return self._running is not None

    @property
    def person(self) -> str:
        """Pseudonym."""
        return self._person

    def _way_out(self) -> Passage | None:
        """Through the gate to the outside model, where there is one."""
        parts = self._parts
        if parts.outside is None or parts.keeping is None or parts.detector is None or self.outbox is None:
            return None
        keeping, person = parts.keeping, self._person
        is_local = parts.outside.is_local
        return Passage(
            destination=parts.outside.host,
            is_local=is_local,
            redactor=parts.detector,
            places=self.places,
            grant=lambda: keeping.may_chat(person) if is_local else self._may_send(),
            ledger=self.outbox,
            key=secrets.token_bytes(32),
            is_ours=vocabulary.is_ours,
        )

    async def _may_send(self) -> Grant[ToSend] | None:
        """The grant to send, as it stands now; none once an age under the minimum was said."""
        keeping = self._parts.keeping
        return None if keeping is None or self._session.is_minor else await keeping.may_send(self._person)

    def stop(self, *, for_danger: bool = False) -> None:
        """Cut the turn that is under way: calls to a model are cancelled, nothing more of it is shown.

        Args:
            for_danger: a message of danger waits, and does not wait for what the meaning of the earlier one adds.
        """
        if self._running is not None:
            self._running.is_cut = True
            if self._running.in_flight is not None:
                self._running.in_flight.cancel()
            if for_danger and self._running.screening is not None:
                self._running.screening.cancel()

    async def settled(self) -> None:
        """Until everything that was asked beside the last turn has come: a benchmark waits, as nobody else does."""
        if self._second.task is not None:
            await asyncio.wait({self._second.task})

    def leave(self) -> None:
        """The person has gone or withdrawn: everything under way for them is cancelled."""
        self.stop()
        self._second.cancel()

    def _is_imminent(self, text: str) -> bool:
        """By the raw text alone, which is never wrong about being there."""
        return self._parts.stages.heard(text[:LONGEST_ANSWERED]).level is RiskLevel.IMMINENT

    async def silent(self) -> AsyncGenerator[Words, None]:
        """Nothing came for a while: after a card of danger the person hears that someone is still here."""
        async with self._lock:
            step = dialogue.step(self._session, Silence(at=self._parts.clock()), self._parts.rules)
            self._session = step.session
            for number, move in enumerate(step.moves):
                words = await self._worded(move, step.session)
                which = f"silence {step.session.quiet} {number}"
                words = replace(words, id=self.page.id_of(step.session.turn, which))
                self.page.put([line_of(words)])
                yield words

    async def _turn(self, text: str, *, chosen: bool, message_id: str) -> AsyncGenerator[Words, None]:
        """One turn, in which no text is encoded twice."""
        text = text.encode("utf-8", "replace").decode("utf-8")
        topic = self._session.topic
        with encoder.built_in().holding(text, topic.query if topic else ""):
            async with aclosing(self._turned(text, chosen=chosen, message_id=message_id)) as turned:
                async for words in turned:
                    yield words

    async def _turned(self, text: str, *, chosen: bool, message_id: str) -> AsyncGenerator[Words, None]:
        if self._parts.keeping is not None:
            self._session = self._parts.keeping.still_true(self._session)
        before = self._session
        left = (
            None if self._parts.session_tokens is None else self._parts.session_tokens - before.model_tokens
        )
        turn = _Turn(
            Budget(
                seconds=self._wait(self._parts.turn_seconds),
                tokens=left,
                passage=self._passage,
                is_patient=self._parts.patience > 1,
            ),
            id=message_id or self.page.id_of(before.turn + 1, "you"),
            turn=before.turn + 1,
        )
        if self._parts.detector is not None and len(text) <= LONGEST_ANSWERED:
            turn.looking = asyncio.ensure_future(self._parts.detector.redact(text))
        with suppress(Exception):
            async with asyncio.timeout(self._wait(AGREE_SECONDS)):
                await self._agree_to_chat(before)
        asked = self._parts.opinion if len(text) <= LONGEST_ANSWERED else None
        self._second = Second.asked(
            asked, text, before=self._second, budget=turn.budget, patience=self._parts.patience
        )
        referred: float | None = None
        began = time.perf_counter()
        self._running = turn
        try:
            async with aclosing(self._while_screening(text, turn)) as waiting:
                async for words in waiting:
                    yield self._restored(words, turn)
            if turn.is_cut:
                raise _Interrupted  # noqa: TRY301 (handled right below, like one from within)
            async with aclosing(self._moves(text, turn.heard, turn, chosen=chosen)) as moves:
                async for words in moves:
                    if referred is None and _is_referral(words):
                        referred = time.perf_counter() - began
                    yield self._restored(words, turn)
            if turn.is_cut:
                raise _Interrupted  # noqa: TRY301 (handled right below, like one from within)
            if not await self._kept(before, turn):
                yield self._restored(self._parts.responder.render(Say(key="unsaved"), self._session), turn)
        except _Interrupted:
            self._cut_off(before, turn.heard)
            await self._settled(turn)
        except (GeneratorExit, asyncio.CancelledError):  # they left, or pressed stop
            self._second.cancel()
            self._cut_off(before, turn.heard)
            raise
        except Exception as failed:  # noqa: BLE001 (the last door: nothing may reach the person as a stack trace)
            log.error("turn failed: %s", type(failed).__name__)
            for words in self._failed(before, turn.heard):
                if referred is None and _is_referral(words):
                    referred = time.perf_counter() - began
                yield self._standing(words, turn)
        finally:
            self._running = None
            self.page.put(turn.shown)
            if self._passage is not None:
                self._passage.forget()
            if turn.looking is not None:
                turn.looking.add_done_callback(_swallow)
            self._recent.append(text[:RECENT_CHARACTERS])
            self.fell_back = frozenset(turn.budget.fell_back)
            spent = turn.budget.spent()
            if spent:
                self._session = replace(self._session, model_tokens=self._session.model_tokens + spent)
            _log_usage(turn.budget)
            if referred is None and self._session.risk.level is RiskLevel.IMMINENT is not before.risk.level:
                referred = (
                    time.perf_counter() - began
                )  # it ended before its card: somebody is to know all the same
            if referred is not None:
                self._note_referral(before, turn.heard, seconds=referred)

    def _cut_off(self, before: Session, verdict: Verdict) -> None:
        """The turn was cut before it was understood: what the screen heard in it sticks all the same."""
        if self._session is before:
            risk = risk_state.after(before.risk, verdict, says_safe=False)
            self._session = replace(before, turn=before.turn + 1, risk=risk)

    def _note_referral(self, before: Session, verdict: Verdict, *, seconds: float) -> None:
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
                seconds=seconds,
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

    async def where_we_were(self) -> AsyncGenerator[Words, None]:
        """After a reload or a restart: a word of welcome, and the question that is open."""
        session = self._session
        yield self._parts.responder.render(Say(key="welcome_back"), session)
        if session.pending is not None and session.topic is not None:
            yield self._parts.responder.render(self._asked(), session)

    def _asked(self) -> Ask:
        """The open question as a move; only where there is one."""
        session = self._session
        if session.pending is None or session.topic is None:
            raise ValueError("no question is open")
        return Ask(
            attribute=session.pending.attribute,
            variant=session.seed + session.topic.asked.count(session.pending.attribute) - 1,
            domain=session.topic.assessment.domain,
            sufficiency=0.0,
        )

    async def may_be_rated(self) -> bool:
        """Whether what the person says of an answer would be kept; without that nobody asks them."""
        keeping = self._parts.keeping
        if keeping is None or self._session.is_minor or self._session.risk.level is not RiskLevel.NONE:
            return False
        with suppress(Exception):  # a store that is damaged or slow must not keep the answer from anybody
            async with asyncio.timeout(self._wait(AGREE_SECONDS)):
                return await keeping.allows(self._person, Scope.KEEP)
        return False

    async def rate(
        self, *, helped: bool | None, note: str = "", number: int | None = None
    ) -> AsyncGenerator[Words, None]:
        """What the person says of an answer; kept, redacted, where they agreed to that.

        A note passes the screen like any message before anything else, and one that tells of danger is answered as one.

        Args:
            helped: it did; None where that was not said or is of no answer of ours, and then nothing is kept.
            note: more of it, in their own words.
            number: of the turn that answered; the newest where None.
        """
        note = note.encode("utf-8", "replace").decode("utf-8").strip()
        if note and self._running is not None and self._is_imminent(note):
            self.stop(for_danger=True)
        try:
            key = await self._rated(note, helped=helped, number=number)
        except Exception as failed:  # noqa: BLE001 (the last door, as for a message)
            log.error("feedback failed: %s", type(failed).__name__)
            yield self._parts.responder.failure(self._session)
            return
        if key is None:
            async for words in self.receive(note):
                yield words
            return
        yield self._parts.responder.render(Say(key=key), self._session)

    async def _rated(self, note: str, *, helped: bool | None, number: int | None) -> str | None:
        """Screen the note, then keep what was said; the key of what the person is told, None where it tells of danger."""
        parts = self._parts
        looking = (
            asyncio.ensure_future(parts.detector.redact(note))
            if note and parts.detector is not None and len(note) <= LONGEST_ANSWERED
            else None
        )
        try:
            async with self._lock:
                if note and await self._tells_of_danger(note, looking):
                    return None
                if parts.keeping is None or self._session.is_minor or helped is None:
                    return "feedback_not_kept"
                safe = "" if looking is None else self.places.apply(note, (await looking).spans)
                is_kept = await parts.keeping.rate(
                    self._person, self.id, self._session.turn if number is None else number,
                    helped=helped, note=safe, places=self.places,
                )  # fmt: skip
        except PrivacyError as failed:
            log.error("feedback was not kept: %s", type(failed).__name__)
            return "feedback_not_kept"
        finally:
            if looking is not None:
                looking.add_done_callback(_swallow)
        if note and looking is None:
            return "feedback_without_note"
        return "feedback_kept" if is_kept else "feedback_not_kept"

    async def noted(self, text: str) -> str | None:
        """Something written on a page beside the chat, redacted, "" where it cannot be made safe; None where it tells of danger.

        What tells of danger is to be answered as a message: hand it to `receive`.
        """
        text = text.encode("utf-8", "replace").decode("utf-8").strip()
        detector = self._parts.detector
        looking = asyncio.ensure_future(detector.redact(text)) if detector is not None else None
        try:
            async with self._lock:
                if await self._tells_of_danger(text, looking):
                    return None
                return text if looking is None else self.places.apply(text, (await looking).spans)
        except PrivacyError as failed:
            log.error("a text was not made safe: %s", type(failed).__name__)
            return ""
        finally:
            if looking is not None:
                looking.add_done_callback(_swallow)

    async def _tells_of_danger(self, note: str, looking: asyncio.Future[Redaction] | None) -> bool:
        """Whether a note is to be answered as a message: it tells of danger, or comes while there is some."""
        asked = self._parts.opinion if len(note) <= LONGEST_ANSWERED else None
        budget = Budget(seconds=self._parts.turn_seconds, tokens=None, passage=self._passage)
        second = Second.asked(asked, note, before=Second(), budget=budget)
        try:
            verdict = await second.raised(await self._screened(note, looking))
        finally:
            second.cancel()
        return verdict.level is not RiskLevel.NONE or self._session.risk.level is RiskLevel.IMMINENT

    def correct(self, attribute: Attribute, answer: Answer) -> None:
        """Another answer in the place of one that is held."""
        self._session = replace(self._session, profile=self._session.profile.with_answer(attribute, answer))

    def drop(self, attribute: Attribute) -> None:
        """An answer is forgotten."""
        self._session = replace(self._session, profile=self._session.profile.without(attribute))

    async def _has_agreed(self) -> bool:
        keeping = self._parts.keeping
        return keeping is not None and await keeping.allows(self._person, Scope.CHAT)

    async def _agree_to_chat(self, before: Session) -> None:
        """Who writes to a demo has agreed to chat, which keeps nothing; a study asks first."""
        keeping = self._parts.keeping
        if keeping is None or before.turn or self._parts.asks_first:
            return
        if not await keeping.allows(self._person, Scope.CHAT):
            await keeping.answer(self._person, Scope.CHAT, granted=True)

    def _restored(self, words: Words, turn: _Turn) -> Words:
        """Words as they stand on the page from now on, as the person sees them."""
        return self.page.restored(self._standing(words, turn))

    def _standing(self, words: Words, turn: _Turn) -> Words:
        """Words with the id that they have on the page, where they stand from now on."""
        is_answer = words.is_partial or words.move == "answer"
        number = "answer" if is_answer else str(sum(not line.is_theirs for line in turn.shown))
        words = replace(words, id=self.page.id_of(turn.turn, number))
        if not words.is_partial:
            turn.answered.append(words.text)
            turn.shown.append(line_of(words))
        return words

    async def _begun(self, before: Session, turn: _Turn, *, chosen: bool) -> None:
        """The message stands on the page, and is kept until it is answered; nobody waits for that."""
        line = Line(id=turn.id, is_theirs=True, move="", text=turn.safe)
        turn.shown.insert(0, line)
        self.page.put([line])
        keeping = self._parts.keeping
        if keeping is not None and not before.is_minor:
            writing = keeping.coming(self._person, self.id, before, line, self.places, chosen=chosen)
            turn.beside = asyncio.ensure_future(writing)

    async def _settled(self, turn: _Turn) -> None:
        """A message that was cut is not answered again after a restart."""
        if turn.safe:
            await self.drop_coming()

    async def drop_coming(self) -> None:
        """No message waits for an answer any more, after a restart either: the person pressed stop."""
        keeping = self._parts.keeping
        if keeping is not None:
            await keeping.coming(self._person, self.id, self._session, None, self.places)

    async def _kept(self, before: Session, turn: _Turn) -> bool:
        """Keep the turn as far as the person agreed; False, once, where it was to be kept and could not be."""
        keeping = self._parts.keeping
        if keeping is None:
            return True
        if not turn.events and self._session.risk.level is before.risk.level:
            self.is_kept = False
            await self._settled(turn)
            return True
        if self._session.is_minor:
            self.is_kept = False
            await self._settled(turn)
            return True
        spent = turn.budget.spent()
        session = replace(self._session, model_tokens=self._session.model_tokens + spent)

        def recorded() -> TurnRecord:
            return TurnRecord(
                session=session,
                event=told(before, turn.events),
                steps=tuple(turn.steps),
                said=turn.safe,
                answered=tuple(turn.answered),
                shown=tuple(self.page.with_these(turn.shown)),
                took_ms=round((time.perf_counter() - turn.began) * 1000),
                fell_back=bool(turn.budget.fell_back),
            )

        try:
            await keeping.keep(self._person, self.id, recorded, self.places)
        except PrivacyError as failed:
            log.error("a turn was not kept: %s", type(failed).__name__)
            self.is_kept = False
            is_first, self._told_unsaved = not self._told_unsaved, True
            return not is_first
        self._told_unsaved, self.is_kept = False, True
        return True

    async def _made_safe(self, text: str, turn: _Turn) -> str | None:
        """The message with placeholders in the place of personal data; None where it cannot be made safe."""
        if self._parts.detector is None:
            return text
        if turn.looking is None:
            return None
        try:
            redaction = await turn.looking
        except RedactionFailed as failed:
            log.error("a message was not made safe: %s", failed)
            return None
        return self.places.apply(text, redaction.spans)

    def _stepped(self, session: Session, event: Event, turn: _Turn) -> Step:
        """One step of the dialogue, remembered for the record."""
        step = dialogue.step(session, event, self._parts.rules)
        turn.events.append((session, event))
        turn.steps.append(step)
        self._session = step.session
        return step

    async def _read_in_time(self, text: str, looking: asyncio.Future[Redaction] | None) -> Reading | None:
        """The grammar of the message, from the parser or with the search for personal data, within its time."""
        if self._parts.parser is not None:
            return await self._parts.parser.read(text, within=self._wait(READING_SECONDS))
        if looking is None:
            return None
        done, _ = await asyncio.wait({looking}, timeout=self._wait(READING_SECONDS))
        if not done or looking.cancelled() or looking.exception() is not None:
            return None
        return looking.result().reading

    async def _screened(
        self, text: str, looking: asyncio.Future[Redaction] | None, turn: _Turn | None = None
    ) -> Verdict:
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
        verdict = heard() if len(text) <= LONGEST_ANSWERED else await first(heard)
        if turn is not None:
            turn.heard = verdict
        try:
            reading = await self._read_in_time(text, looking)
            deepened = partial(
                parts.stages.deepened,
                text,
                verdict,
                reading=reading,
                state=session.risk,
                answering=pending,
                recent=tuple(self._recent),
            )
            is_urgent = RiskLevel.IMMINENT in (verdict.level, session.risk.level)
            return await (first if is_urgent else aside)(deepened)
        except Exception as failed:  # noqa: BLE001 (second opinions: their failure is logged, the text stage has decided)
            log.error("deepening failed: %s", type(failed).__name__)
            return verdict

    async def _moves(
        self, text: str, verdict: Verdict, turn: _Turn, *, chosen: bool
    ) -> AsyncGenerator[Words, None]:
        parts, session, second = self._parts, self._session, self._second
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
        if not parts.is_open() and not imminent:
            async for words in self._too_long(verdict, key="study_closed"):
                yield words
            return
        if parts.asks_first and not imminent and not await self._has_agreed():
            async for words in self._too_long(verdict, key="consent_first"):
                yield words
            return
        safe = text if chosen else await self._made_safe(text[:LONGEST_ANSWERED], turn)
        if safe is None and not imminent:
            async for words in self._too_long(verdict, key="not_safe_to_read"):
                yield words
            return
        turn.safe = safe or ""
        if turn.safe:
            await self._begun(session, turn, chosen=chosen)
        reading = asyncio.ensure_future(
            self._understood(
                safe or text[:LONGEST_ANSWERED], turn.budget, at=at, chosen=chosen, hurry=imminent
            )
        )
        async for words in self._while_waiting(reading, turn):
            yield words
        understood = reading.result()
        if safe is None:
            understood = replace(understood, facts={}, assessment=None)
        if safe != text:
            named = country.named(text[:LONGEST_ANSWERED], parts.directory)
            intent = Intent.COUNTRY if named.is_all else understood.intent
            understood = replace(understood, intent=intent, country=named.code or understood.country)
        verdict = _raised_by_answer(verdict, understood)
        if not imminent:
            verdict = await second.raised(verdict)
        step = self._stepped(
            session, Said(at=at, text=turn.safe, verdict=verdict, understood=understood), turn
        )
        if step.session.is_minor and not session.is_minor and parts.keeping is not None:
            await parts.keeping.withdraw(self._person)
        for move in step.moves:
            if not isinstance(move, Ask):
                yield await self._worded(move, step.session)
                continue
            wording = asyncio.ensure_future(self._wording(move, step.session, turn.budget))
            async for words in self._while_waiting(wording, turn):
                yield words
            yield parts.responder.render(move, step.session, wording=wording.result())
        for effect in step.effects:
            async with aclosing(self._answered(effect, step, turn)) as answered:
                async for words in answered:
                    yield words

    async def _while_screening(self, text: str, turn: _Turn) -> AsyncGenerator[Words, None]:
        """Screen the message, into `turn.heard`; after a while the person hears, once they know to whom they speak, that it takes longer.

        A message of danger that comes meanwhile ends it, with what the text stage has heard.
        """
        turn.screening = screening = asyncio.ensure_future(self._screened(text, turn.looking, turn))
        try:
            done, _ = await asyncio.wait({screening}, timeout=self._wait(THINKING_SECONDS))
            if not done and self._session.introduced and not turn.is_cut:
                turn.told_to_wait = True
                yield self._parts.responder.render(Say(key="still_thinking"), self._session)
            await asyncio.wait({screening})
        finally:
            turn.screening = None
            screening.cancel()
        if not screening.cancelled():
            turn.heard = screening.result()

    async def _while_waiting(self, task: asyncio.Future[Any], turn: _Turn) -> AsyncGenerator[Words, None]:
        """Wait for a model; after a while the person hears, once, that it takes longer. Cancelled when they leave.

        Raises:
            _Interrupted: the turn was cut.
        """
        turn.in_flight = task
        try:
            if not turn.told_to_wait and not turn.is_cut:
                done, _ = await asyncio.wait({task}, timeout=self._wait(THINKING_SECONDS))
                if not done:
                    turn.told_to_wait = True
                    yield await self._worded(Say(key="still_thinking"), self._session)
            if not turn.is_cut:
                await asyncio.wait({task})
        finally:
            turn.in_flight = None
            if not task.done():
                task.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await task
        if turn.is_cut:
            raise _Interrupted

    async def _too_long(self, verdict: Verdict, *, key: str = "too_long") -> AsyncGenerator[Words, None]:
        """Screened, not understood: the risk state moves on, help is shown, nothing is lost."""
        session = self._session
        risk = risk_state.after(session.risk, verdict, says_safe=False)
        self._session = replace(session, turn=session.turn + 1, risk=risk, introduced=True)
        for words in self._notice(session):
            yield words
        yield self._parts.responder.failure(self._session, key=key)

    async def _understood(
        self, text: str, budget: Budget, *, at: datetime, chosen: bool, hurry: bool
    ) -> Understood:
        """What the model reads; in danger it has little time, as the card does not wait for it."""
        model, session = self._parts.model, self._session
        if not hurry:
            async with asyncio.timeout(self._wait(MODEL_SECONDS)):
                return await model.understand(text, session, at=at, chosen=chosen, budget=budget)
        try:
            async with asyncio.timeout(self._wait(HURRY_SECONDS)):
                return await model.understand(text, session, at=at, chosen=chosen, budget=budget, hurry=True)
        except Exception as failed:  # noqa: BLE001 (time-outs too: the card comes first)
            log.error("not understood in time: %s", type(failed).__name__)
            return Understood()

    async def _worded(self, move: Move, session: Session) -> Words:
        """A move in words; what a person wrote is echoed only where the guard lets it out."""
        words = self._parts.responder.render(move, session)
        if not isinstance(move, Say):
            return words
        own_plan = move.key in ("plan_done", "plan_shown")
        if not (move.noted or own_plan):
            return words
        refused = self._parts.guard.harms if own_plan else self._parts.guard.refuse
        shown = self.places.restore(words.text, own=True)
        if await aside(lambda: any(map(refused, shown.split("\n")))):
            return self._parts.responder.render(move, session, in_words=False)
        return replace(words, is_own=True)

    async def _wording(self, move: Ask, session: Session, budget: Budget) -> str:
        """The question in the model's words where they pass the guard, in the written ones otherwise."""
        parts = self._parts
        question = parts.responder.question(move, session)
        written = question.phrasing(move.variant)
        try:
            async with asyncio.timeout(self._wait(MODEL_SECONDS)):
                worded = await parts.model.word(question, session, variant=move.variant, budget=budget)
        except (ModelUnavailable, TimeoutError):
            return written
        if worded == written:
            return written
        return written if await aside(parts.guard.refuse, worded) else worded

    async def _answered(self, effect: Compose, step: Step, turn: _Turn) -> AsyncGenerator[Words, None]:
        """Compose; guard and show sentence by sentence; then tell the dialogue what came of it.

        A sentence that the guard refuses ends the answer: what was shown of it is taken back.
        """
        parts = self._parts
        session = replace(step.session, topic=effect.topic)
        composing = parts.model.compose(session, follow_up=effect.follow_up, budget=turn.budget)
        draft: Draft | None = None
        failed: Reason | None = None
        shown = ""
        async with aclosing(composing) as pieces:
            while draft is None and failed is None:
                coming = asyncio.ensure_future(_next(pieces, within=self._wait(MODEL_SECONDS)))
                async for words in self._while_waiting(coming, turn):
                    yield words
                try:
                    piece = coming.result()
                except (ModelUnavailable, TimeoutError):
                    failed = Reason.MODEL_UNAVAILABLE
                    break
                if isinstance(piece, Draft):
                    is_refused = not piece.is_streamed and await aside(
                        lambda sentences: any(map(parts.guard.refuse, sentences)), piece.sentences
                    )
                    draft, failed = (None, Reason.GUARD) if is_refused else (piece, None)
                elif await aside(self._refuses, piece, shown):
                    failed = Reason.GUARD
                else:
                    shown += piece
                    yield Words(move="answer", text=shown, parts=(piece,), is_partial=True)
        at = parts.clock()
        event = (
            Composed(at=at, failed=failed or Reason.MODEL_UNAVAILABLE)
            if draft is None
            else Composed(at=at, used=draft.used, shown=draft.blocks)
        )
        done = self._stepped(session, event, turn)
        for move in done.moves:
            if isinstance(move, AnswerMove) and draft is not None:
                yield parts.responder.render(
                    move, done.session, answer=draft.sentences, is_generated=draft.is_generated
                )
            else:
                yield parts.responder.render(move, done.session)

    def _refuses(self, sentence: str, shown: str) -> bool:
        """Whether a sentence may not be shown, by itself or with what stands before it in its paragraph."""
        if self._parts.guard.refuse(sentence.strip()):
            return True
        before = "" if sentence.lstrip(" ")[:1] == "\n" else shown.rsplit("\n", 1)[-1]
        return bool(before) and self._parts.guard.refuse((before + sentence).strip()) is not None


async def _next(pieces: AsyncIterator[_Result], *, within: float) -> _Result:
    """The next piece, within the longest that any model may take.

    Raises:
        ModelUnavailable: there is none.
        TimeoutError: it took too long.
    """
    try:
        async with asyncio.timeout(within):
            return await anext(pieces)
    except StopAsyncIteration:
        raise ModelUnavailable("it ended without an answer") from None


def _swallow(done: asyncio.Future[Any]) -> None:
    """A search that nobody waited for to its end may fail unheard."""
    if not done.cancelled():
        done.exception()


def _log_usage(budget: Budget) -> None:
    """Calls, failures, tokens and seconds of one turn by role; nothing that was said."""
    for role, usage in budget.used.items():
        if usage.calls:
            log.info(
                "turn as %s: %d calls, %d failed, %d tokens, %.2f s",
                role.value, usage.calls, usage.failures, usage.tokens, usage.seconds,
            )  # fmt: skip


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
