"""Cutting a text that is still coming into sentences, so that each can be guarded before it is shown."""

from __future__ import annotations

import re

_END = re.compile(r"[.!?…][\"'”’)\]*_]*(?=\s)|\n")


class Sentences:
    """Gathers pieces of any size; gives back whole sentences, each with the white space before it."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> list[str]:
        """The sentences that are complete now; joined with `rest`, all of them are the text, character by character."""
        self._held += piece
        found, start = [], 0
        for end in _END.finditer(self._held):
            sentence = self._held[start : end.end()]
            if sentence.strip():
                found.append(sentence)
                start = end.end()
        self._held = self._held[start:]
        return found

    def rest(self) -> str:
        """What is left at the end of the text."""
        rest, self._held = self._held, ""
        return rest
