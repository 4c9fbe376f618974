"""What the conversation needs of a model: to assess, to read, to word a question, to compose."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from bot.models.usage import Budget
from bot.session import Session
from bot.understanding import Understood
from policies.attributes import Attribute
from policies.questions import Question


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A composed answer, before the guard.

    Attributes:
        sentences: paragraphs and list items in order, each screened before it is shown.
        used: the attributes that shaped it.
        sources: ids of the guidance cited.
        is_generated: a language model wrote it, rather than people whose guidance is composed.
        is_streamed: its text is what was streamed before it, guarded piece by piece.
        blocks: ids of the guidance blocks used, so that a follow-up does not repeat them.
    """

    sentences: Sequence[str] = field(repr=False)
    used: tuple[Attribute, ...]
    sources: tuple[str, ...] = ()
    is_generated: bool = False
    is_streamed: bool = False
    blocks: tuple[str, ...] = ()


class LanguageModel(Protocol):
    """A model that understands a message, words a question and composes an answer."""

    name: str

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
        """Read one message in its session; in a hurry, with nothing that could keep a crisis card waiting."""
        ...

    async def word(self, question: Question, session: Session, *, variant: int, budget: Budget) -> str:
        """The question in words that fit this conversation and mean what the written one means."""
        ...

    def compose(
        self, session: Session, *, follow_up: str, budget: Budget
    ) -> AsyncGenerator[str | Draft, None]:
        """The answer to the session's open topic: its sentences as they are written, then the whole as a draft.

        A model that writes all at once yields the draft alone. A draft that is not `is_streamed` takes back what was
        yielded before it.

        Raises:
            ModelUnavailable: nothing can be composed now.
        """
        ...
