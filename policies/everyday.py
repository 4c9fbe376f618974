"""What people say to such a program in words that everybody uses: known before anybody says it, so nobody's.

Greetings, thanks, "why do you ask?" and their like from the lines that intents were learnt from, and the quick replies.
What the encoder, the screen and the search for personal data find in one of these is found once and then known. Only
these texts: what a person says in words of their own is remembered by none of them.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from pathlib import Path

from policies import questions
from policies.attributes import Attribute
from policies.files import read_lines

_TELL_OF_NOTHING = frozenset({"greeting", "human", "about", "small_talk"})
"""Intents that add nothing to what was said before. Not thanks and goodbyes: what came before can make a farewell of them."""


def _lines() -> list[tuple[str, str]]:
    path = Path(str(resources.files("policies") / "reading" / "intents.jsonl"))
    return [(line["text"], line["intent"]) for line in read_lines(path)]


def _as_written(text: str) -> set[str]:
    return {text, text[:1].upper() + text[1:]}


@lru_cache(maxsize=1)
def everyday() -> frozenset[str]:
    """Every such text, as it is typed, with a capital and without.

    Raises:
        PolicyFileError: a file cannot be used.
    """
    asked = questions.shipped()
    texts = [text for text, _ in _lines()]
    texts += [c.label for a in Attribute for question in asked.every(a) for c in question.choices]
    return frozenset(variant for text in texts for variant in _as_written(text))


@lru_cache(maxsize=1)
def tell_of_nothing() -> frozenset[str]:
    """Those that tell nothing of who says them, whatever came before: "hello", "are you a bot?".

    Raises:
        PolicyFileError: a file cannot be used.
    """
    return frozenset(v for text, intent in _lines() if intent in _TELL_OF_NOTHING for v in _as_written(text))
