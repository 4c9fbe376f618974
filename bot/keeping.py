"""What outlives a turn: consent, the sealed store, the audit log and the way out, for one deployment.

All of it runs in one thread of its own, the only writer. A conversation hands over what may be kept after each turn;
where it cannot be kept, the conversation goes on and says so.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import sqlite3
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from bot.moves import Step
from bot.session import Session
from policies.attributes import SPECS, Answer, Attribute
from policies.retention import RetentionPolicy
from privacy.audit import AuditLog, EventKind
from privacy.consent import (
    ConsentLedger,
    ConsentRecord,
    ConsentVersion,
    Grant,
    MemoryConsents,
    Scope,
    ToChat,
    ToKeep,
    ToResearch,
    ToSend,
)
from privacy.errors import ConsentMissing, PrivacyError
from privacy.gate import Sent
from privacy.placeholders import Placeholders
from privacy.retention import Due, RetentionSweep, SweepReport, Swept, Work, shorten
from privacy.rights import Receipt, Rights
from privacy.store import Store
from privacy.store.accounts import Accounts
from privacy.store.records import KeptSession, Records
from privacy.vault import Vault

log = logging.getLogger("raise.keeping")
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

STEADY_FOR = timedelta(days=2)
PAUSE_SECONDS, GENTLE_PAUSE_SECONDS = 0.001, 0.005
"""Between two steps of a sweep, for whoever waits for the store; and while somebody chats."""
GENTLE_FOR = 3.0
"""Seconds for which a sweep is gentle after somebody used the store."""

KEPT_FOR_LATER = (Scope.KEEP, Scope.RESEARCH, Scope.CONTACT, Scope.SEND)
"""Scopes whose yes must be kept on disk to be worth anything later."""


class Consents:
    """Answers in memory, until one of them means that something is kept; from then on all of them on disk.

    Who only chats leaves nothing behind, not even a note that they were here. A study keeps every answer.
    """

    def __init__(self, records: Records, *, always: bool, is_erased: Callable[[str], bool]) -> None:
        self._records, self._always, self._is_erased = records, always, is_erased
        self._memory = MemoryConsents()

    def last_consents(self, person: str) -> Mapping[Scope, ConsentRecord]:
        """The newest answer to each scope."""
        return {**self._records.last_consents(person), **self._memory.last_consents(person)}

    def add_consent(self, person: str, record: ConsentRecord) -> None:
        """One more answer."""
        on_disk = bool(self._records.last_consents(person))
        means_keeping = record.granted and record.scope in KEPT_FOR_LATER
        if self._is_erased(person) or not (self._always or on_disk or means_keeping):
            self._memory.add_consent(person, record)
            return
        for earlier in self._memory.last_consents(person).values():
            self._records.add_consent(person, earlier)
        self._memory.forget(person)
        self._records.add_consent(person, record)

    def forget(self, person: str) -> None:
        """Nothing of this person stays in memory."""
        self._memory.forget(person)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One message as it stands on the page.

    Attributes:
        id: of the message, the same whenever it is shown again.
        is_theirs: the person wrote it.
        move: what it is, for ours.
        text: redacted.
        resources: help lines that belong to it.
        is_own: it shows the person their own words.
    """

    id: str
    is_theirs: bool
    move: str
    text: str = field(repr=False)
    resources: tuple[Mapping[str, Any], ...] = ()
    is_own: bool = False

    @classmethod
    def nothing(cls) -> Line:
        """No message: only the state is kept."""
        return cls(id="", is_theirs=True, move="", text="")

    def to_json(self) -> dict[str, Any]:
        """A JSON object that `from_json` reads back equal."""
        return {
            "id": self.id, "theirs": self.is_theirs, "move": self.move, "text": self.text,
            "resources": [dict(r) for r in self.resources], "own": self.is_own,
        }  # fmt: skip

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Line:
        """Read what `to_json` wrote."""
        return cls(
            id=str(raw["id"]), is_theirs=bool(raw["theirs"]), move=str(raw["move"]), text=str(raw["text"]),
            resources=tuple(raw["resources"]), is_own=bool(raw["own"]),
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRecord:
    """What one turn leaves to be kept.

    Attributes:
        session: the state after it.
        event: what the dialogue was told, as JSON.
        steps: what it decided.
        said: the person's words, redacted.
        answered: ours, redacted.
        shown: what stands on the page after it, redacted.
        took_ms: milliseconds from the message to our last word.
        fell_back: an outside model failed, and the built-in one spoke in its place.
    """

    session: Session
    event: str = field(repr=False)
    steps: tuple[Step, ...]
    said: str = field(repr=False)
    answered: tuple[str, ...] = field(repr=False)
    shown: tuple[Line, ...] = field(default=(), repr=False)
    took_ms: int | None = None
    fell_back: bool = False


class SteadyClock:
    """A clock that does not go back: what has expired stays expired when the machine's clock is set back.

    A reading that lies more than two days ahead of the clock is taken for a fault of an earlier clock, not followed.
    """

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._newest: datetime | None = None

    def seen(self, at: datetime | None) -> None:
        """A time that was written down before."""
        if at is not None and at - self._clock() < STEADY_FOR and (self._newest is None or at > self._newest):
            self._newest = at

    def __call__(self) -> datetime:
        """The time, aware UTC."""
        now = self._clock()
        if self._newest is not None and now < self._newest:
            if self._newest - now < STEADY_FOR:
                return self._newest
            log.error("the clock was set back by more than two days")
        self._newest = now
        return now


class Keeping:
    """One deployment's memory. Share one between all conversations."""

    def __init__(
        self,
        directory: Path,
        masters: tuple[str, ...],
        version: ConsentVersion,
        rules: RetentionPolicy,
        *,
        clock: Callable[[], datetime],
        send_to: str = "",
        always: bool = False,
    ) -> None:
        """Open everything, in a thread of its own.

        Args:
            directory: of the data.
            masters: master keys, newest first.
            version: of the consent text in force.
            rules: how long each kind of record lives.
            clock: aware UTC.
            send_to: host of the outside model, "" where there is none beyond this machine.
            always: keep every answer to consent (a study).

        Raises:
            PrivacyError: a key, the store or the log cannot be used.
        """
        self.rules = rules
        self._clock = SteadyClock(clock)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="raise-keeping")
        self.uploads: tuple[Path, ...] = ()
        self._called_at = 0.0
        opening = partial(self._open, directory, masters, version, send_to=send_to, always=always)
        self._pool.submit(opening).result()

    def _open(
        self,
        directory: Path,
        masters: tuple[str, ...],
        version: ConsentVersion,
        *,
        send_to: str,
        always: bool,
    ) -> None:
        self.directory = directory
        self.store = Store(directory)
        self.vault = Vault(directory, masters)
        self.audit = AuditLog(directory)
        self._clock.seen(self.store.newest())
        volatile = frozenset(a.value for a in VOLATILE)
        self.records = Records(self.store.db, self.vault, self.rules, clock=self._clock, volatile=volatile)
        self.accounts = Accounts(self.store.db, self.vault, self.rules, clock=self._clock, volatile=volatile)
        self.consents = Consents(self.records, always=always, is_erased=self.audit.was_erased)
        self.ledger = ConsentLedger(self.consents, version, send_to=send_to)
        self.rights = Rights(directory, self.store, self.vault, self.audit, self.records, clock=self._clock)
        self._counted(self.rights.returned(), self.rights.replay_erasures)
        try:
            self.audit.note_change(
                EventKind.POLICY, f"{self.rules.digest[:32]} {version.sha256[:32]}", at=self._clock()
            )
        except PrivacyError as failed:
            log.error("the policies in force were not logged: %s", type(failed).__name__)
        self.redated = self.records.redate()
        if self.redated:
            log.warning("the retention rules have changed: %d records have another date now", self.redated)

    async def run(
        self, work: Callable[_Arguments, _Result], *arguments: _Arguments.args, **more: _Arguments.kwargs
    ) -> _Result:
        """A call in the one thread that may touch the store."""
        self._called_at = time.monotonic()
        return await self._run(work, *arguments, **more)

    async def _run(
        self, work: Callable[_Arguments, _Result], *arguments: _Arguments.args, **more: _Arguments.kwargs
    ) -> _Result:
        return await asyncio.get_running_loop().run_in_executor(self._pool, partial(work, *arguments, **more))

    def call(self, work: Callable[[Store], _Result]) -> _Result:
        """The same for another thread, which waits for it; it gets the store."""
        return self._pool.submit(lambda: work(self.store)).result()

    def note_escalation(self, level: str, told: bool, milliseconds: int) -> None:
        """A referral was shown: in the log, of nobody; in the store's thread. It must not keep the card from anybody."""
        try:
            self.audit.append(
                EventKind.ESCALATION,
                at=self._clock(),
                counts={"level": level, "on_call_told": told, "card_ms": milliseconds},
            )
        except PrivacyError as failed:
            log.error("an escalation was not logged: %s", type(failed).__name__)

    def erased(self, person: str) -> bool:
        """Whether somebody was erased; in the store's thread."""
        return self.audit.was_erased(person)

    def note_pause(self) -> None:
        """The stop rule has paused enrolment: in the log and among the deviations; in the store's thread."""
        self.accounts.deviated("enrolment-paused")
        try:
            self.audit.append(
                EventKind.POLICY, at=self._clock(), counts={"enrolment": "paused", "by": "stop rule"}
            )
        except PrivacyError as failed:
            log.error("a pause was not logged: %s", type(failed).__name__)

    def note_configuration(self, digest: str) -> None:
        """The settings in force, as a digest, where they are others than at the last start."""
        try:
            self.call(lambda _: self.audit.note_change(EventKind.CONFIGURATION, digest, at=self._clock()))
        except PrivacyError as failed:
            log.error("the configuration was not logged: %s", type(failed).__name__)

    def swept(self, *, opens: bool = True) -> Swept:
        """What a sweep works on; in the store's thread."""
        return Swept(
            directory=self.directory, store=self.store, audit=self.audit, rules=self.rules, clock=self._clock,
            records=self.records if opens else None, vault=self.vault if opens else None,
            rights=self.rights if opens else None, uploads=self.uploads,
        )  # fmt: skip

    async def sweep(self, slot: str, *, listing: bool = False) -> tuple[list[SweepReport], list[Due]]:
        """Sweep for a slot, a step at a time, so that people who chat come in between; an earlier one that was cut first.

        Raises:
            SweepBusy: another process sweeps.
            PrivacyError: the log or the store failed; the next sweep goes on.
        """
        done: list[SweepReport] = []
        listed: list[Due] = []
        while not done or done[-1].slot != slot:
            run = await self._run(lambda: RetentionSweep(self.swept(), slot, listing=listing))
            try:
                while more := await self._run(run.step):
                    if more is Work.LOG_IS_LONG:
                        await self._shorten()
                    run.is_gentle = time.monotonic() - self._called_at < GENTLE_FOR
                    await asyncio.sleep(GENTLE_PAUSE_SECONDS if run.is_gentle else PAUSE_SECONDS)
            except BaseException:
                self._pool.submit(run.stop)
                raise
            if run.report.finished_at is None:
                break
            done.append(run.report)
            listed += run.listed
        return done, listed

    async def _shorten(self) -> None:
        """A log that could not be shortened now is emptied at the end of the sweep."""
        try:
            await asyncio.to_thread(shorten, self.directory)
        except (PrivacyError, OSError, sqlite3.Error) as failed:
            log.error("the write-ahead log was not shortened: %s", type(failed).__name__)

    def now(self) -> datetime:
        """The time, aware UTC."""
        return self._clock()

    def close(self) -> None:
        """Finish what is under way and close the files."""

        def shut() -> None:
            self.store.close()
            self.vault.close()
            self.audit.close()

        self._pool.submit(shut).result()
        self._pool.shutdown()

    # ------------------------------------------------------------------------------------------- consent

    async def answer(self, person: str, scope: Scope, *, granted: bool) -> None:
        """Note a yes or a no to one scope, in the log and in the ledger."""

        def note() -> None:
            at = self._clock()
            if granted:
                if scope in KEPT_FOR_LATER and not self.audit.was_erased(person):
                    self.vault.key(person, at=at.isoformat())
                self._log_consent(person, scope, granted=True, at=at)
            self.ledger.answer(person, scope, granted=granted, at=at)
            if not granted:
                if scope in (Scope.KEEP, Scope.CHAT):
                    self.records.settle(person)
                    self.records.withdrew(person, at)
                self._log_consent(person, scope, granted=False, at=at)

        await self.run(note)

    def _log_consent(self, person: str, scope: Scope, *, granted: bool, at: datetime) -> None:
        """In the audit log, for who has a key and so may be named there.

        A yes is logged first, and is none where that fails; a no holds at once, even where it cannot be logged.
        """
        key = self.vault.audit_key(person)
        if key is None:
            return
        try:
            self.audit.append(
                EventKind.CONSENT, at=at, subject=person, key=key,
                counts={"scope": scope.value, "granted": granted, "version": self.ledger.version.version},
            )  # fmt: skip
        except PrivacyError as failed:
            if granted:
                raise
            log.error("an answer to consent was not logged: %s", type(failed).__name__)

    async def allows(self, person: str, scope: Scope) -> bool:
        """Whether consent is in force."""
        return await self.run(self.ledger.allows, person, scope)

    async def answers(self, person: str) -> dict[Scope, ConsentRecord]:
        """The newest answer to each scope."""
        return await self.run(self.ledger.answers, person)

    async def withdraw(self, person: str) -> None:
        """Take every yes but chatting back."""

        def take_back() -> None:
            at = self._clock()
            held = [s for s in Scope if s is not Scope.CHAT and self.ledger.allows(person, s)]
            self.ledger.withdraw(person, at=at)
            self.records.settle(person)
            self.records.withdrew(person, at)
            for scope in held:
                self._log_consent(person, scope, granted=False, at=at)

        await self.run(take_back)

    def still_true(self, session: Session) -> Session:
        """A session without the answers that have outlived their rule, as it lies in memory for as long as somebody chats."""
        now = self._clock()
        for attribute in tuple(session.profile):
            answer = session.profile.get(attribute)
            category = "volatile_attribute" if attribute in VOLATILE else "stable_attribute"
            if answer is not None and self.rules.until(category, answer.at) <= now:
                session = replace(session, profile=session.profile.without(attribute))
        return session

    async def may_send(self, person: str) -> Grant[ToSend] | None:
        """The grant to send, as it stands now."""
        return await self.run(self.ledger.grant, person, ToSend)

    async def may_chat(self, person: str) -> Grant[ToChat] | None:
        """The grant to chat, as it stands now."""
        return await self.run(self.ledger.grant, person, ToChat)

    # ------------------------------------------------------------------------------------------- keeping

    async def keep(
        self, person: str, session_id: str, recorded: Callable[[], TurnRecord], places: Placeholders
    ) -> bool:
        """Keep one turn as far as the person agreed; False where they did not, and then no record of it is made.

        Raises:
            PrivacyError: it was to be kept and could not be.
        """

        def write() -> bool:
            grant = self.ledger.grant(person, ToKeep)
            if grant is None or self.audit.was_erased(person):
                return False
            record = recorded()
            self._log_turn(person, session_id, record.steps)
            research = self.ledger.grant(person, ToResearch)
            session = record.session
            words = json.dumps({"said": record.said, "answered": list(record.answered)}, ensure_ascii=False)
            try:
                self.records.keep_turn(
                    grant,
                    person=person,
                    session=session_id,
                    number=session.turn,
                    at=self._clock(),
                    state=json.dumps(session.to_json(), ensure_ascii=False),
                    places=places.to_json(),
                    attributes=_attributes(session),
                    turn_input=record.event,
                    decisions=decisions_of(record.steps),
                    plan=json.dumps(session.plan.to_json())
                    if session.plan and session.plan.entries
                    else None,
                    words=(research, words) if research is not None else None,
                    shown=json.dumps([line.to_json() for line in record.shown], ensure_ascii=False),
                    took_ms=record.took_ms,
                )
            except ConsentMissing:
                return False
            if record.fell_back and self.accounts.enrolment(person) is not None:
                self.accounts.deviated("model-fell-back", person=person)
            return True

        return await self._written(write, "a turn could not be kept")

    async def coming(
        self,
        person: str,
        session_id: str,
        session: Session,
        line: Line | None,
        places: Placeholders,
        *,
        chosen: bool = False,
    ) -> None:
        """Keep a message that is about to be answered, as far as the person agreed, or forget it where it is settled.

        Args:
            person: pseudonym.
            session_id: of the conversation.
            session: the state before the message.
            line: the message; None where it is settled without a turn that was kept.
            places: the placeholder map.
            chosen: a quick reply was tapped.
        """
        state = json.dumps(session.to_json(), ensure_ascii=False)
        told = (
            ""
            if line is None or not line.id
            else json.dumps({**line.to_json(), "chosen": chosen}, ensure_ascii=False)
        )

        def write() -> None:
            if line is None:  # forgetting needs nobody's consent
                self.records.settle(person, session_id)
                return
            grant = self.ledger.grant(person, ToKeep)
            if grant is None or self.audit.was_erased(person):
                return
            with suppress(ConsentMissing):
                self.records.keep_coming(
                    grant,
                    person=person,
                    session=session_id,
                    state=state,
                    places=places.to_json(),
                    coming=told,
                )

        try:
            await self.run(write)
        except Exception as failed:  # noqa: BLE001 (sqlite's own; the answer does not wait for it)
            log.error("a message that is coming was not kept: %s", type(failed).__name__)

    def _counted(self, persons: list[str], erasing: Callable[[], object]) -> None:
        """Erase again who came back with a backup; who was enrolled counts as withdrawn there too. Their arm may not open any more."""
        left = {}
        for person in persons:
            if self.accounts.enrolment(person) is not None:
                arm = None
                with suppress(PrivacyError):
                    arm = self.accounts.arm(person)
                left[person] = (arm or "unknown", self.accounts.stages(person))
        try:
            erasing()
        finally:
            for person, (arm, stages) in left.items():
                if self.accounts.enrolment(person) is None:
                    self.accounts.note_withdrawal(arm, stages)

    def erase_keyless(self) -> None:
        """After a restore with keys newer than the data: who has no key was erased in between. In the store's thread."""
        self._counted(self.rights.keyless(), self.rights.erase_keyless)

    async def erase(self, person: str) -> Receipt:
        """Everything of a person, their place in the study included; of them a number by arm stays.

        Raises:
            HeldByLaw, ResidueFound, PrivacyError: see `Rights.erase_all`.
        """
        receipts: list[Receipt] = []

        def work() -> Receipt:
            self._counted([person], lambda: receipts.append(self.rights.erase_all(person)))
            return receipts[0]

        self.consents.forget(person)
        return await self.run(work)

    def _log_turn(self, person: str, session_id: str, steps: tuple[Step, ...]) -> None:
        """A session that begins, and what is decided: counts; the chat goes on where they cannot be logged."""
        at = self._clock()
        self.vault.key(person, at=at.isoformat())
        key = self.vault.audit_key(person)
        counts: dict[str, int | str | bool] = {}
        for decision in decisions_of(steps):
            counts[decision["outcome"]] = int(counts.get(decision["outcome"], 0)) + 1
        try:
            if not self.records.has_session(session_id):
                self.audit.append(EventKind.SESSION, at=at, subject=person, key=key, counts={"begun": True})
            if counts:
                self.audit.append(EventKind.DECISION, at=at, subject=person, key=key, counts=counts)
        except PrivacyError as failed:
            log.error("a turn was not logged: %s", type(failed).__name__)

    async def rate(
        self, person: str, session_id: str, number: int, *, helped: bool, note: str, places: Placeholders
    ) -> bool:
        """Keep what a person says of an answer; False where they did not agree to have anything kept.

        Raises:
            PrivacyError: it was to be kept and could not be.
        """

        def write() -> bool:
            grant = self.ledger.grant(person, ToKeep)
            if grant is None or self.audit.was_erased(person):
                return False
            try:
                self.records.keep_feedback(
                    grant, person=person, session=session_id, number=number, rating=int(helped), note=note,
                    places=places.to_json(),
                )  # fmt: skip
            except ConsentMissing:
                return False
            return True

        return await self._written(write, "feedback could not be kept")

    async def _written(self, write: Callable[[], bool], failing: str) -> bool:
        """A write in the store's thread, whose failure says its kind and nothing else.

        Raises:
            PrivacyError: it failed.
        """
        try:
            return await self.run(write)
        except PrivacyError:
            raise
        except Exception as failed:  # noqa: BLE001 (sqlite's own, whose messages may hold values)
            raise PrivacyError(f"{failing} ({type(failed).__name__})") from None

    async def correct(self, person: str, attribute: Attribute, answer: Answer) -> None:
        """Another answer in the place of one that is kept, where keeping is agreed to."""

        def write() -> None:
            grant = self.ledger.grant(person, ToKeep)
            if grant is not None:
                self.rights.correct(
                    grant, person, attribute.value, json.dumps(answer.to_json(), ensure_ascii=False)
                )

        await self.run(write)

    async def kept(self, person: str) -> tuple[KeptSession, frozenset[str]] | None:
        """The conversation that can go on, with the attributes that have not expired; None where there is none.

        What cannot be opened is as if it were not there, and so is what the person no longer agrees to have kept.
        """

        def found() -> tuple[KeptSession, frozenset[str]] | None:
            if not self.ledger.allows(person, Scope.KEEP):
                return None
            session = self.records.last_session(person)
            return (session, frozenset(self.records.live_attributes(person))) if session else None

        try:
            return await self.run(found)
        except Exception as failed:  # noqa: BLE001 (a damaged file must not keep anybody from the chat)
            log.error("a kept conversation does not open: %s", type(failed).__name__)
            return None


def _attributes(session: Session) -> dict[str, tuple[str, datetime, bool]]:
    profile = session.profile.to_json()
    found = {}
    for attribute in session.profile:
        answer = session.profile.get(attribute)
        if answer is not None:
            is_volatile = SPECS[attribute].stays_true is not None and attribute in VOLATILE
            found[attribute.value] = (
                json.dumps(profile[attribute.value], ensure_ascii=False),
                answer.at,
                is_volatile,
            )
    return found


VOLATILE = (Attribute.EMOTION, Attribute.MENTAL_STATE)
"""Attributes that are kept for a short time only, as they stay true for a short time only."""


def decisions_of(steps: tuple[Step, ...]) -> list[dict[str, Any]]:
    """What was decided in a turn, without a word of anybody's."""
    from bot.moves import AbstainMove, AnswerMove, Ask  # noqa: PLC0415

    found: list[dict[str, Any]] = []
    for step in steps:
        topic = step.session.topic
        plan = (
            json.dumps(
                {
                    "planned_by": topic.assessment.planned_by,
                    "weights": {a.value: round(w, 3) for a, w in topic.assessment.weights.items()},
                }
            )
            if topic
            else None
        )
        for move in step.moves:
            if isinstance(move, Ask):
                found.append(
                    _decision("ask", move.reason.value, "gain_expected", move=move, topic=topic, plan=plan)
                )
            elif isinstance(move, AnswerMove):
                found.append(
                    _decision("answer", None, move.decision.basis, move=move, topic=topic, plan=plan)
                )
            elif isinstance(move, AbstainMove):
                found.append(
                    _decision("abstain", move.reason.value, move.key, move=move, topic=topic, plan=plan)
                )
    return found


def _decision(
    outcome: str, reason: str | None, basis: str, *, move: Any, topic: Any, plan: str | None
) -> dict[str, Any]:
    attribute = getattr(move, "attribute", None)
    return {
        "outcome": outcome,
        "reason": reason,
        "basis": basis,
        "sufficiency": move.sufficiency,
        "attribute": attribute.value if attribute is not None else None,
        "domain": move.domain.value,
        "stakes": topic.assessment.stakes.value if topic else None,
        "plan": plan,
    }


@dataclass(slots=True)
class Outbox:
    """One person's outbound ledger: on disk where they agreed to send, in memory where nothing leaves this machine.

    Attributes:
        keeping: the deployment's memory.
        person: pseudonym.
        lines: what went to a model on this machine, for this session only.
    """

    keeping: Keeping
    person: str
    lines: list[Sent] = field(default_factory=list, repr=False)

    async def note(self, sent: Sent, grant: Grant[ToSend] | Grant[ToChat]) -> None:
        """Keep one line before anything is sent.

        Raises:
            ConsentMissing: the grant does not hold any more.
            PrivacyError: the line could not be kept.
        """
        send_to = self.keeping.ledger.send_to

        def write() -> None:
            if not send_to:
                grant.check(self.person)
                return
            self.keeping.records.note_sent(
                grant, person=self.person, destination=sent.destination, model=sent.model, role=sent.role,
                entities=sent.entities, size=sent.size, digest=sent.digest, content=sent.content, consented_to=send_to,
            )  # fmt: skip
            self.keeping.audit.append(
                EventKind.OUTBOUND, at=self.keeping.now(), subject=self.person,
                key=self.keeping.vault.audit_key(self.person),
                counts={"role": sent.role, "bytes": sent.size, "entities": sum(sent.entities.values())},
            )  # fmt: skip

        try:
            await self.keeping.run(write)
        except PrivacyError:
            raise
        except Exception as failed:  # noqa: BLE001 (sqlite's own)
            raise PrivacyError(f"the ledger could not be written ({type(failed).__name__})") from None
        if not send_to:
            self.lines.append(sent)
            del self.lines[:-200]


def new_session_id() -> str:
    """An id that says nothing."""
    return secrets.token_hex(12)
