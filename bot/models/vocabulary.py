"""Texts and codes that are ours, word for word: they tell of nobody, and the gate lets them out as they are."""

from __future__ import annotations

from functools import lru_cache

from bot.models.guided import FEELINGS
from bot.words import shipped_texts
from policies.attributes import SPECS, Attribute
from policies.domains import Domain, Stakes


@lru_cache(maxsize=1)
def _ours() -> frozenset[str]:
    texts = {text for _, text in shipped_texts()} | set(FEELINGS.values())
    codes = {a.value for a in Attribute} | {d.value for d in Domain} | {s.value for s in Stakes}
    codes |= {"none", "elevated", "imminent"} | {s.label for s in SPECS.values()}
    codes |= {tag for s in SPECS.values() for tag in s.tags}
    lines = {line.strip() for text in texts for line in text.split("\n")}
    return frozenset(texts | codes | lines)


def is_ours(text: str) -> bool:
    """Whether a text is one that we ship, as it stands or as a step of a list."""
    known = _ours()
    return not text or text in known or text.removeprefix("- ") in known
