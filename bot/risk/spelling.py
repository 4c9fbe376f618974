"""Plain misspellings, mended for the later stages of the screen: fear and haste misspell ("swalowed my tabelts").

Only words that no dictionary knows are touched, and only where one word of our own lines is a single slip away (one
letter too many, too few, wrong, or two swapped). The raw text is screened first and whatever happens here: what is mended
is looked at beside it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from pathlib import Path

from symspellpy import SymSpell, Verbosity

WORDS = Path(__file__).resolve().parents[2] / "policies" / "trained" / "words.txt"
"""Words of the training lines with how often each is used there; written by `make train`."""
SHORTEST = 4
"""Letters of a word that is mended: too many words are a slip away from a shorter one."""
DICTIONARY = "frequency_dictionary_en_82_765.txt"
_WORD = re.compile(r"(?<![\w'’@#.])[a-z]+(?:['’][a-z]+)?(?![\w@])")


class Speller:
    """Mends words. Holds no text; safe to share."""

    def __init__(self, meant: Mapping[str, int], known: frozenset[str]) -> None:
        """Index the words.

        Args:
            meant: words that a misspelling may be mended to, with how often they are used.
            known: words that are left as they are, beside those.
        """
        self._known = known | meant.keys()
        self._index = SymSpell(max_dictionary_edit_distance=1, prefix_length=7)
        for word, times in meant.items():
            self._index.create_dictionary_entry(word, times)

    def mended(self, text: str) -> str:
        """The text with its plain misspellings mended; the same text where there are none.

        Capitalised words are left alone: they may be names.
        """
        return _WORD.sub(self._one, text)

    def _one(self, found: re.Match[str]) -> str:
        word = found[0]
        if len(word) < SHORTEST or word.replace("’", "'") in self._known:
            return word
        near = self._index.lookup(word, Verbosity.TOP, max_edit_distance=1)
        return str(near[0].term) if near else word


@lru_cache(maxsize=1)
def shipped() -> Speller:
    """The speller with the words that ship and the dictionary of symspellpy (82,765 English words)."""
    meant = {}
    for line in WORDS.read_text(encoding="utf-8").splitlines():
        word, times = line.split()
        meant[word] = int(times)
    return Speller(meant, dictionary())


def dictionary() -> frozenset[str]:
    """The English words that symspellpy ships."""
    text = (resources.files("symspellpy") / DICTIONARY).read_text(encoding="utf-8-sig")
    return frozenset(line.split()[0] for line in text.splitlines() if line)
