"""What the conversation needs of a model: to assess, to read, to compose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from bot.session import Session
from bot.understanding import Understood
from policies.attributes import Attribute


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A composed answer, before the guard.

    Attributes:
        sentences: paragraphs and list items in order, each screened before it is shown.
        used: the attributes that shaped it.
        sources: ids of the guidance cited.
        is_generated: a language model wrote it, rather than people whose guidance is composed.
        blocks: ids of the guidance blocks used, so that a follow-up does not repeat them.
    """

    sentences: Sequence[str] = field(repr=False)
    used: tuple[Attribute, ...]
    sources: tuple[str, ...] = ()
    is_generated: bool = False
    blocks: tuple[str, ...] = ()


class LanguageModel(Protocol):
    """A model that understands a message and composes an answer."""

    name: str

    async def understand(
        self, text: str, session: Session, *, at: datetime, chosen: bool, hurry: bool = False
    ) -> Understood:
        """Read one message in its session; in a hurry, with nothing that could keep a crisis card waiting."""
        ...

    async def compose(self, session: Session, *, follow_up: str) -> Draft:
        """Compose the answer to the session's open topic from what is known.

        Raises:
            ModelUnavailable: nothing can be composed now.
        """
        ...
