"""The questions of `questions.yaml`: wording, quick replies, why they are asked, and what declining changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from policies.attributes import SPECS, Attribute
from policies.domains import Domain
from policies.errors import PolicyFileError
from policies.files import read_yaml


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A quick reply and what it means."""

    label: str
    tags: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One attribute as it is asked in one domain.

    Attributes:
        phrasings: at least two, each complete.
        choices: quick replies, without "prefer not to say", which every question has.
        why: the reason for asking, one honest sentence.
        declined: what changes when it is declined.
    """

    attribute: Attribute
    phrasings: tuple[str, ...]
    choices: tuple[Choice, ...]
    why: str
    declined: str

    def phrasing(self, variant: int) -> str:
        """One of the phrasings, by a counter that may run past their number."""
        return self.phrasings[variant % len(self.phrasings)]


SURE_OF_DOMAIN = 0.55


class _Choice(BaseModel):
    model_config = ConfigDict(extra="forbid")
    label: str = Field(min_length=1, max_length=40)
    tags: list[str]


class _Wording(BaseModel):
    model_config = ConfigDict(extra="forbid")
    phrasings: list[str] = Field(min_length=2)
    choices: list[_Choice] | None = None
    why: str | None = None
    declined: str | None = None


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid")
    default: _Wording
    disclosed: _Wording | None = None
    domains: dict[Domain, _Wording] = {}


@dataclass(frozen=True, slots=True)
class Questions:
    """Every question, by attribute and domain."""

    by_place: Mapping[tuple[Attribute, Domain], Question]
    defaults: Mapping[Attribute, Question]
    disclosed: Mapping[Attribute, Question]

    def get(self, attribute: Attribute, domain: Domain) -> Question:
        """The question for an attribute as a domain words it."""
        return self.by_place[attribute, domain]

    def worded(
        self, attribute: Attribute, domain: Domain, confidence: float, *, is_disclosed: bool = False
    ) -> Question:
        """As the domain words it where the domain is sure enough, and in words that fit any otherwise.

        Args:
            attribute: asked for.
            domain: of the topic.
            confidence: of the domain.
            is_disclosed: the person has told of wanting to die; asked how near that is, rather than whether.
        """
        if is_disclosed and attribute in self.disclosed:
            return self.disclosed[attribute]
        return self.by_place[attribute, domain] if confidence >= SURE_OF_DOMAIN else self.defaults[attribute]

    def every(self, attribute: Attribute) -> Iterator[Question]:
        """Each wording of the question for an attribute, once."""
        yield self.defaults[attribute]
        if attribute in self.disclosed:
            yield self.disclosed[attribute]
        yield from (self.by_place[attribute, domain] for domain in Domain)


def _question(attribute: Attribute, words: _Wording, default: _Wording) -> Question:
    return Question(
        attribute=attribute,
        phrasings=tuple(words.phrasings),
        choices=tuple(
            Choice(label=c.label, tags=frozenset(c.tags)) for c in words.choices or default.choices or ()
        ),
        why=words.why or default.why or "",
        declined=words.declined or default.declined or "",
    )


def load(path: Path) -> Questions:
    """Read a questions file.

    Raises:
        PolicyFileError: it is malformed, lacks an attribute, or uses a tag outside the scale; the entry is named.
    """
    raw = read_yaml(path)
    by_place: dict[tuple[Attribute, Domain], Question] = {}
    defaults: dict[Attribute, Question] = {}
    disclosed: dict[Attribute, Question] = {}
    for attribute in Attribute:
        try:
            entry = _Entry.model_validate(raw[attribute.value])
        except KeyError as missing:
            raise PolicyFileError(f"{path}: no question for {attribute.value}") from missing
        except ValidationError as bad:
            first = bad.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise PolicyFileError(f"{path}: {attribute.value}.{where}: {first['msg']}") from bad
        if not (entry.default.choices and entry.default.why and entry.default.declined):
            raise PolicyFileError(f"{path}: {attribute.value}.default needs choices, why and declined")
        defaults[attribute] = _question(attribute, entry.default, entry.default)
        if entry.disclosed is not None:
            disclosed[attribute] = _question(attribute, entry.disclosed, entry.default)
            _check_tags(path, attribute, entry.disclosed.choices or [])
        for domain in Domain:
            words = entry.domains.get(domain, entry.default)
            choices = words.choices or entry.default.choices
            _check_tags(path, attribute, choices)
            by_place[attribute, domain] = _question(attribute, words, entry.default)
    return Questions(by_place, defaults, disclosed)


def _check_tags(path: Path, attribute: Attribute, choices: Sequence[_Choice]) -> None:
    for choice in choices:
        outside = set(choice.tags) - SPECS[attribute].tags
        if outside:
            raise PolicyFileError(
                f"{path}: {attribute.value}: {choice.label!r}: no tag {sorted(outside)[0]!r}"
            )


@lru_cache(maxsize=1)
def shipped() -> Questions:
    """The questions in `policies/questions.yaml`."""
    return load(Path(str(resources.files("policies") / "questions.yaml")))
