"""Crisis cards in other languages: a few lines each, not reviewed by anybody yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path

from policies.errors import PolicyFileError
from policies.files import read_yaml


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What is shown to someone who writes in another language than English.

    Attributes:
        language: ISO 639-1 code; "hi" is Hindi in Latin script.
        name: of the language, in English.
        own_name: of the language, in itself.
        imminent: with {emergency} and {lines}.
        elevated: with {emergency} and {lines}.
        safe_question: the one question about safety now.
        is_reviewed: by a native clinician.
    """

    language: str
    name: str
    own_name: str
    imminent: str
    elevated: str
    safe_question: str
    is_reviewed: bool


def load(path: Path) -> Mapping[str, Card]:
    """Read a file of cards.

    Raises:
        PolicyFileError: a card lacks a text or a place for number and lines; the message names it.
    """
    raw = read_yaml(path)
    found = {}
    for language, entry in raw["cards"].items():
        try:
            card = Card(
                language=str(language),
                name=entry["name"],
                own_name=entry["own_name"],
                imminent=entry["imminent"].strip(),
                elevated=entry["elevated"].strip(),
                safe_question=entry["safe_question"].strip(),
                is_reviewed=bool(raw["reviewed"]),
            )
        except KeyError as missing:
            raise PolicyFileError(f"{path}: {language}: no {missing}") from missing
        for text in (card.imminent, card.elevated):
            if text.count("{emergency}") != 1 or text.count("{lines}") != 1:
                raise PolicyFileError(f"{path}: {language}: each text needs {{emergency}} and {{lines}} once")
        found[card.language] = card
    return found


@lru_cache(maxsize=1)
def shipped() -> Mapping[str, Card]:
    """The cards that ship, by language."""
    return load(Path(str(resources.files("policies") / "crisis" / "cards.yaml")))
