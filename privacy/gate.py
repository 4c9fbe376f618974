"""The only way out to a model: redaction, grant, ledger, in this order; whatever fails, nothing leaves.

A `Passage` is one conversation's way through the gate. It replaces what is personal, checks the grant for the
destination at that moment, writes the ledger, and hands back the text that may go.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from privacy.consent import Grant, ToChat, ToSend
from privacy.errors import ConsentMissing, RedactionFailed
from privacy.placeholders import Placeholders, counts
from privacy.spans import Redaction

log = logging.getLogger("raise.gate")

Messages = Sequence[Mapping[str, str]]


class Redacts(Protocol):
    """Something that redacts in its own time."""

    async def redact(self, text: str) -> Redaction:
        """The redaction of a text, or RedactionFailed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One line of the outbound ledger.

    Attributes:
        destination: host.
        model: its name.
        role: what it is asked to be.
        entities: how many of each kind were replaced.
        size: bytes.
        digest: keyed hash of what was sent.
        content: the exact redacted text.
    """

    destination: str
    model: str
    role: str
    entities: Mapping[str, int]
    size: int
    digest: str
    content: str = field(repr=False)


@runtime_checkable
class RedactsNow(Protocol):
    """The same for callers without an event loop."""

    def redact_now(self, text: str) -> Redaction:
        """The redaction of a text, or RedactionFailed."""
        ...


class LedgerKeeper(Protocol):
    """Where lines of the ledger go before anything is sent."""

    async def note(self, sent: Sent, grant: Grant[ToSend] | Grant[ToChat]) -> None:
        """Keep one line; raises where it cannot be kept or the grant does not hold any more."""
        ...


@dataclass(slots=True)
class Passage:
    """One conversation's way out.

    Attributes:
        destination: the host that everything goes to.
        is_local: it is this machine: nothing leaves it, and leave to chat is enough.
        redactor: finds what is personal.
        places: the conversation's placeholders.
        grant: gives the grant in force now, or None.
        ledger: keeps what goes out.
        key: of the digests.
        is_ours: whether a text is one that we ship, word for word, and tells of nobody.
    """

    destination: str
    is_local: bool
    redactor: Redacts
    places: Placeholders
    grant: Callable[[], Awaitable[Grant[ToSend] | Grant[ToChat] | None]]
    ledger: LedgerKeeper
    key: bytes = field(repr=False)
    is_ours: Callable[[str], bool] = field(default=lambda _text: False, repr=False)
    _clean: dict[str, tuple[str, dict[str, int]]] = field(default_factory=dict, repr=False)

    async def out(self, *, model: str, role: str, messages: Messages) -> list[dict[str, str]]:
        """The messages as they may be sent: personal data replaced in all but our own instructions.

        Args:
            model: its name.
            role: what it is asked to be.
            messages: our instructions as "system", the person's data as "user".

        Raises:
            ConsentMissing: the person has not agreed to send to this destination, or has taken it back.
            RedactionFailed: a text could not be made safe.
        """
        grant = await self.grant()
        if grant is None:
            raise ConsentMissing("no consent to send")
        safe: list[dict[str, str]] = []
        entities: dict[str, int] = {}
        for message in messages:
            content = message["content"]
            if message["role"] != "system":
                content, found = await self._emptied(content)
                for kind, number in found.items():
                    entities[kind] = entities.get(kind, 0) + number
            safe.append({**message, "content": content})
        told = "\n\n".join(m["content"] for m in safe if m["role"] != "system")
        everything = "\n\n".join(m["content"] for m in safe)
        line = Sent(
            destination=self.destination,
            model=model,
            role=role,
            entities=entities,
            size=len(everything.encode()),
            digest=hmac.new(self.key, everything.encode(), hashlib.sha256).hexdigest(),
            content=told,
        )
        await self.ledger.note(line, grant)
        return safe

    def forget(self) -> None:
        """A turn is over: no raw text of it stays here."""
        self._clean.clear()

    async def texts(self, *, model: str, role: str, texts: Sequence[str]) -> list[str]:
        """The same for bare texts, as an embedding takes them."""
        made = await self.out(
            model=model, role=role, messages=[{"role": "user", "content": t} for t in texts]
        )
        return [m["content"] for m in made]

    async def _emptied(self, content: str) -> tuple[str, dict[str, int]]:
        """A message without personal data: each text in its JSON by itself, or all of it where it is none."""
        try:
            data = json.loads(content)
        except ValueError:
            return await self._made_safe(content)
        if not isinstance(data, dict | list):
            return await self._made_safe(content)
        entities: dict[str, int] = {}

        async def walked(value: Any) -> Any:
            if isinstance(value, dict):
                return {k: await walked(v) for k, v in value.items()}
            if isinstance(value, list):
                return [await walked(v) for v in value]
            if not isinstance(value, str) or self.is_ours(value):
                return value
            text, found = await self._made_safe(value)
            for kind, number in found.items():
                entities[kind] = entities.get(kind, 0) + number
            return text

        return json.dumps(await walked(data), ensure_ascii=False), entities

    async def _made_safe(self, text: str) -> tuple[str, dict[str, int]]:
        """Each piece of text once; what was made safe before is not passed again."""
        known = self._clean.get(text)
        if known is None:
            redaction = await self.redactor.redact(text)
            known = (self.places.apply(text, redaction.spans, keeps_known=True), counts(redaction.spans))
            if len(self._clean) > 200:
                self._clean.clear()
            self._clean[text] = known
        return known


__all__ = ["ConsentMissing", "LedgerKeeper", "Passage", "RedactionFailed", "Redacts", "Sent"]
