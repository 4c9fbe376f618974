"""What stands on a person's page, and stands there again after a reload, a restart or on another device."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from uuid import NAMESPACE_OID, uuid5

from bot.keeping import Line
from bot.responding import Words
from privacy.placeholders import Placeholders

MOST_SHOWN = 80
"""Messages that are shown again."""


class Page:
    """The messages of one conversation as they are shown, redacted; the newest of them where there are many."""

    def __init__(self, session_id: str, places: Placeholders, lines: Iterable[Line] = ()) -> None:
        """A page as it stood, or an empty one.

        Args:
            session_id: of the conversation.
            places: its placeholders, which fill up as it goes on.
            lines: what stood on it.
        """
        self._session_id = session_id
        self._places = places
        self.lines: deque[Line] = deque(lines, maxlen=MOST_SHOWN)
        """What stands on it, with placeholders."""

    def id_of(self, turn: int, which: str) -> str:
        """The id of a message: the same when its turn is done again, as after a restart in the middle of it."""
        return str(uuid5(NAMESPACE_OID, f"{self._session_id} {turn} {which}"))

    def holds(self, message_id: str) -> bool:
        """Whether this message stands on it."""
        return any(line.id == message_id for line in self.lines)

    def put(self, lines: Iterable[Line]) -> None:
        """These stand on it from now on; those that do already stay where they are."""
        self.lines.extend(self._missing(lines))

    def with_these(self, lines: Iterable[Line]) -> Sequence[Line]:
        """What will stand on it once these do."""
        return (*self.lines, *self._missing(lines))[-MOST_SHOWN:]

    def as_seen(self) -> list[Line]:
        """What the person sees: their own words in the place of placeholders."""
        return [
            replace(line, text=self._places.restore(line.text, own=line.is_theirs or line.is_own))
            for line in self.lines
        ]

    def last_of_ours(self) -> Line | None:
        """The newest message that is not the person's; None where there is none."""
        return next((line for line in reversed(self.lines) if not line.is_theirs), None)

    def restored(self, words: Words) -> Words:
        """Words of ours as the person sees them."""
        if not self._places.values:
            return words
        back = partial(self._places.restore, own=words.is_own)
        return replace(words, text=back(words.text), parts=tuple(map(back, words.parts)), why=back(words.why))

    def _missing(self, lines: Iterable[Line]) -> list[Line]:
        known = {line.id for line in self.lines}
        return [line for line in lines if line.id not in known]


def line_of(words: Words) -> Line:
    """A message of ours as it stands on the page."""
    return Line(
        id=words.id,
        is_theirs=False,
        move=words.move,
        text=words.text,
        resources=words.resources,
        is_own=words.is_own,
    )
