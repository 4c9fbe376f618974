"""The lexicon of `reading/lexicon.yaml`, compiled: words that say a fact plainly."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path

from policies.attributes import SPECS, Attribute
from policies.errors import PolicyFileError
from policies.files import read_yaml

FIRST_PERSON = (
    r"(?<!\w)(?:i am|im|i have|ive|i was|i feel|feeling|i felt|as an?|i got|i get|i work|i live|i had|i just|were|we are|"
    r"money is|moneys|finances are|i lost|i recently|i currently|i also|me|i take|i suffer|i started|i run|i owe|weve|we have|i|and|still)"
    r"(?: (?!if\b|what\b|how\b|whether\b|the\b|she\b|he\b|they\b|my\b|not\b|never\b|no\b|when\b|see\b|know\b|want\b|hate\b|like\b|need\b|think\b|saw\b|got\b|told\b|met\b|help\w*\b|asked\b|could\b|would\b|should\b|dont\b|cant\b)\w+){0,5} "
)
"""What must stand before a fact that nobody asked for."""


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Compiled patterns by attribute and tag: as answers, and as facts volunteered in passing."""

    answers: Mapping[Attribute, Mapping[str, re.Pattern[str]]]
    volunteered: Mapping[Attribute, Mapping[str, re.Pattern[str]]]


def load(path: Path) -> Lexicon:
    """Read a lexicon.

    Raises:
        PolicyFileError: it names an attribute or tag outside the scale, or a pattern does not compile.
    """
    answers: dict[Attribute, dict[str, re.Pattern[str]]] = {}
    volunteered: dict[Attribute, dict[str, re.Pattern[str]]] = {}
    for name, tags in read_yaml(path).items():
        try:
            attribute = Attribute(name)
        except ValueError as bad:
            raise PolicyFileError(f"{path}: {name} is not an attribute") from bad
        for tag, sources in tags.items():
            if tag not in SPECS[attribute].tags:
                raise PolicyFileError(f"{path}: {name} has no tag {tag!r}")
            try:
                body = "|".join(sources)
                answers.setdefault(attribute, {})[tag] = re.compile(rf"(?<!\w)(?:{body})s?(?!\w)")
                possessive = [s for s in sources if s.startswith("my ")]
                alone = "|".join(possessive)
                strict = rf"{FIRST_PERSON}(?:an? |the |so |really |very |too |just )*(?P<fact>{body})s?(?!\w)"
                volunteered.setdefault(attribute, {})[tag] = re.compile(
                    rf"(?:{strict})" + (rf"|(?<!\w)(?P<own>{alone})" if alone else "")
                )
            except re.error as bad:
                raise PolicyFileError(f"{path}: {name}.{tag}: {bad}") from bad
    return Lexicon(answers, volunteered)


@lru_cache(maxsize=1)
def shipped() -> Lexicon:
    """The lexicon that ships."""
    return load(Path(str(resources.files("policies") / "reading" / "lexicon.yaml")))
