"""Consent: what a person agreed to, in which words, and since when.

Storing, sending and exporting each take a `Grant` of their scope. A grant is made by the ledger alone, for one person,
and asks the ledger again at the moment it is used: a withdrawal between the two counts (GDPR Art. 7(3)). Code that hands
over the wrong kind of grant does not type-check.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Generic, Protocol, TypeVar, final

from privacy.errors import ConsentMissing


class Scope(StrEnum):
    """What can be agreed to."""

    CHAT = "chat"
    SEND = "send"
    KEEP = "keep"
    RESEARCH = "research"
    CONTACT = "contact"


class ToChat:
    """Talk; nothing is kept beyond the session."""

    scope = Scope.CHAT


class ToSend:
    """Send redacted text to the named outside model."""

    scope = Scope.SEND


class ToKeep:
    """Keep answers and the state of the conversation, so that it can go on later."""

    scope = Scope.KEEP


class ToResearch:
    """Keep redacted transcripts for research."""

    scope = Scope.RESEARCH


class ToContact:
    """Let the study write to the person."""

    scope = Scope.CONTACT


_S = TypeVar("_S", ToChat, ToSend, ToKeep, ToResearch, ToContact)
_SEAL = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsentVersion:
    """The exact text that people agreed to.

    Attributes:
        version: as the study counts them.
        text: every word that was shown, in order.
        sha256: of the text; consent holds for this hash and no other.
    """

    version: str
    text: str = field(repr=False)
    sha256: str = ""

    @classmethod
    def of(cls, version: str, text: str) -> ConsentVersion:
        """A version with the hash of its text."""
        return cls(version=version, text=text, sha256=hashlib.sha256(text.encode()).hexdigest())


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsentRecord:
    """One answer to one scope.

    Attributes:
        scope: asked for.
        version: hash of the text it was asked in.
        destination: for `send`, the model's host; "" otherwise.
        granted: yes or no; a withdrawal is a no.
        at: when, aware UTC.
    """

    scope: Scope
    version: str
    destination: str
    granted: bool
    at: datetime


class ConsentStore(Protocol):
    """Where answers are kept: the study's database, or this process's memory."""

    def last_consents(self, person: str) -> Mapping[Scope, ConsentRecord]:
        """The newest answer to each scope."""
        ...

    def add_consent(self, person: str, record: ConsentRecord) -> None:
        """One more answer; earlier ones stay."""
        ...


class MemoryConsents:
    """Answers for as long as this process lives: a demo that keeps nothing."""

    def __init__(self) -> None:
        self._known: dict[str, dict[Scope, ConsentRecord]] = {}

    def last_consents(self, person: str) -> Mapping[Scope, ConsentRecord]:
        """The newest answer to each scope."""
        return dict(self._known.get(person, {}))

    def add_consent(self, person: str, record: ConsentRecord) -> None:
        """One more answer."""
        self._known.setdefault(person, {})[record.scope] = record

    def forget(self, person: str) -> None:
        """Nothing of this person stays."""
        self._known.pop(person, None)


@final
class Grant(Generic[_S]):
    """Leave to do one kind of thing with one person's data. Made by `ConsentLedger.grant` alone."""

    __slots__ = ("_destination", "_kind", "_ledger", "person")

    def __init__(
        self, seal: object, ledger: ConsentLedger, person: str, kind: type[_S], destination: str
    ) -> None:
        """For the ledger.

        Raises:
            TypeError: somebody else made it.
        """
        if seal is not _SEAL:
            raise TypeError("a grant is made by the consent ledger")
        self.person = person
        self._ledger = ledger
        self._kind: type[_S] = kind
        self._destination = destination

    def check(self, person: str, *, destination: str = "") -> None:
        """Nothing where it still holds, for this person and destination.

        Raises:
            ConsentMissing: it was withdrawn, is another person's, or for another destination.
        """
        if person != self.person or destination != self._destination:
            raise ConsentMissing(f"a grant to {self._kind.scope.value} for somebody or something else")
        self._ledger.check(person, self._kind, destination=destination)

    def __repr__(self) -> str:
        return f"Grant({self._kind.scope.value})"


class ConsentLedger:
    """Who agreed to what."""

    def __init__(self, store: ConsentStore, version: ConsentVersion, *, send_to: str = "") -> None:
        """Over a store.

        Args:
            store: of the answers.
            version: of the text in force; answers to another one do not count.
            send_to: the host of the outside model, which consent to send names; "" where there is none.
        """
        self._store, self._version, self._send_to = store, version, send_to

    @property
    def version(self) -> ConsentVersion:
        """In force."""
        return self._version

    @property
    def send_to(self) -> str:
        """The destination that consent to send is for."""
        return self._send_to

    def answers(self, person: str) -> dict[Scope, ConsentRecord]:
        """The newest answer to each scope, in the words in force; what was answered to others is not among them."""
        return {
            scope: record
            for scope, record in self._store.last_consents(person).items()
            if record.version == self._version.sha256
            and (scope is not Scope.SEND or record.destination == self._send_to)
        }

    def allows(self, person: str, scope: Scope) -> bool:
        """Whether the person agreed, in the words in force, and has not taken it back."""
        record = self.answers(person).get(scope)
        return record is not None and record.granted

    def answer(self, person: str, scope: Scope, *, granted: bool, at: datetime) -> None:
        """Note a yes or a no. A no to `chat` is a no to everything."""
        scopes = tuple(Scope) if scope is Scope.CHAT and not granted else (scope,)
        for each in scopes:
            destination = self._send_to if each is Scope.SEND else ""
            self._store.add_consent(
                person,
                ConsentRecord(
                    scope=each, version=self._version.sha256, destination=destination, granted=granted, at=at
                ),
            )

    def withdraw(self, person: str, *, at: datetime) -> None:
        """Take everything back at once, chatting aside."""
        for scope in Scope:
            if scope is not Scope.CHAT and self.allows(person, scope):
                self.answer(person, scope, granted=False, at=at)

    def grant(self, person: str, kind: type[_S]) -> Grant[_S] | None:
        """A grant, or None where there is no consent in force."""
        if not self.allows(person, kind.scope):
            return None
        return Grant(_SEAL, self, person, kind, self._send_to if kind.scope is Scope.SEND else "")

    def check(self, person: str, kind: type[_S], *, destination: str = "") -> None:
        """Nothing where consent is in force now.

        Raises:
            ConsentMissing: it is not.
        """
        expected = self._send_to if kind.scope is Scope.SEND else ""
        if destination != expected or not self.allows(person, kind.scope):
            raise ConsentMissing(f"no consent in force to {kind.scope.value}")
