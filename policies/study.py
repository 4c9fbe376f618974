"""One study's choices: `policies/study.yaml`, or a file of its own. Errors name file, line and value."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from policies.errors import PolicyFileError
from policies.files import key_lines, read_yaml

PATH = Path(str(resources.files("policies") / "study.yaml"))
KINDS = ("raise", "vanilla", "agent", "fixed-order", "context-rich")
NAME = r"^[a-z][a-z0-9-]{0,39}$"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ArmSpec(_Strict):
    """A condition.

    Attributes:
        kind: what the dialogue does.
        budget: questions a topic at most; None: as the thresholds say.
        thresholds: file beside the study file; "" for the one that ships.
        library: planned paths, a file beside the study file; "" for those that ship.
        model: "built-in", or a model of the endpoint; "" for the study's.
        prompts: SHA-256 by name of prompt: another prompt is another protocol.
    """

    kind: Literal["raise", "vanilla", "agent", "fixed-order", "context-rich"]
    budget: int | None = Field(default=None, ge=0, le=10)
    thresholds: str = ""
    library: str = ""
    model: str = ""
    prompts: dict[str, str] = Field(default_factory=dict)

    @field_validator("prompts")
    @classmethod
    def _digests(cls, value: dict[str, str]) -> dict[str, str]:
        for name, found in value.items():
            if len(found) != 64 or set(found) - set("0123456789abcdef"):
                raise ValueError(f"{name}: not a SHA-256 (64 hexadecimal digits)")
        return value


class Item(_Strict):
    """One question of a questionnaire.

    Attributes:
        id: names it in the export.
        text: as participants read it.
        kind: likert or text.
        points: of the scale, 2 to 11.
        low: label of the first point.
        high: label of the last.
    """

    id: str = Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")
    text: str = Field(min_length=3)
    kind: Literal["likert", "text"]
    points: int = Field(default=5, ge=2, le=11)
    low: str = ""
    high: str = ""

    @model_validator(mode="after")
    def _labelled(self) -> Item:
        if self.kind == "likert" and not (self.low and self.high):
            raise ValueError("a likert item needs low and high, the labels of its ends")
        return self


class Questionnaire(_Strict):
    """Questions on a page of their own.

    Attributes:
        name: in the export.
        title: above it.
        when: before the chat, after it, or both.
        intro: a sentence or two.
        items: in order.
    """

    name: str = Field(pattern=NAME)
    title: str = Field(min_length=3)
    when: tuple[Literal["before", "after"], ...] = Field(min_length=1)
    intro: str = ""
    items: tuple[Item, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _once(self) -> Questionnaire:
        ids = [item.id for item in self.items]
        twice = next((i for i in ids if ids.count(i) > 1), None)
        if twice:
            raise ValueError(f"the item {twice} is there twice")
        return self


class OnCall(_Strict):
    """Who is told of danger, and how fast they answer."""

    contact: str = ""
    response: str = ""


class StopRule(_Strict):
    """When enrolment pauses by itself: more imminent notices in 24 hours than this; None for never."""

    imminent_a_day: int | None = Field(default=None, ge=1)


class Model(_Strict):
    """Who speaks: "built-in", or a model of the endpoint."""

    name: str = "built-in"


class _File(_Strict):
    version: str = Field(min_length=1, max_length=40)
    title: str = Field(min_length=3)
    contact: str = ""
    ethics_reference: str = ""
    languages: tuple[str, ...] = ("en",)
    country: str = Field(default="", pattern=r"^([A-Za-z]{2})?$")
    minimum_age: int = Field(default=18, ge=13, le=21)
    opens: date | None = None
    closes: date | None = None
    retention_file: str = ""
    consent: str = ""
    model: Model = Model()
    on_call: OnCall = OnCall()
    stop_rule: StopRule = StopRule()
    arms: dict[str, ArmSpec] = Field(min_length=1)
    questionnaires: tuple[Questionnaire, ...] = ()

    @field_validator("languages")
    @classmethod
    def _spoken(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if value != ("en",):
            raise ValueError(f"{', '.join(value) or 'none'}: the chat speaks English only: [en]")
        return value

    @model_validator(mode="after")
    def _agree(self) -> _File:
        if self.opens and self.closes and self.closes < self.opens:
            raise ValueError(f"closes: {self.closes} is before opens, {self.opens}")
        names = [q.name for q in self.questionnaires]
        twice = next((n for n in names if names.count(n) > 1), None)
        if twice:
            raise ValueError(f"questionnaires: {twice} is there twice")
        for name in self.arms:
            if not name.replace("-", "").isalnum() or not name.islower():
                raise ValueError(f"arms: {name!r}: write small letters, digits and hyphens")
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A study file, read.

    Attributes:
        path: of the file.
        sha256: of it.
        choices: what stands in it.
        lines: line numbers by key path, for errors that come later.
    """

    path: Path
    sha256: str
    choices: _File
    lines: Mapping[tuple[str, ...], int]

    @property
    def is_example(self) -> bool:
        """It is the file that ships, which no study runs on."""
        return self.path == PATH

    @property
    def protocol(self) -> str:
        """The version, with the beginning of the file's hash: what the export calls the protocol version."""
        return f"{self.choices.version} ({self.sha256[:12]})"

    def beside(self, name: str) -> Path:
        """A file that the study file names."""
        return self.path.parent / name

    def where(self, *keys: str) -> str:
        """File and line of something in it."""
        return f"{self.path}, line {self.lines.get(keys, 1)}"

    def asked(self, occasion: str) -> tuple[Questionnaire, ...]:
        """The questionnaires of an occasion, "before" or "after"."""
        return tuple(q for q in self.choices.questionnaires if occasion in q.when)

    def files(self) -> Iterator[tuple[str, Path]]:
        """Every file that it names: where it is named, and its path.

        Raises:
            PolicyFileError: one is not there.
        """
        named: list[tuple[tuple[str, ...], str]] = [(("retention_file",), self.choices.retention_file)]
        for name, arm in self.choices.arms.items():
            named += [
                (("arms", name, "thresholds"), arm.thresholds),
                (("arms", name, "library"), arm.library),
            ]
        for keys, file in named:
            if file:
                path = self.beside(file)
                if not path.is_file():
                    raise PolicyFileError(f"{self.where(*keys)}: {keys[-1]}: {file} is not there")
                yield ".".join(keys), path


def load(path: Path) -> Study:
    """Read a study file.

    Raises:
        PolicyFileError: a value is missing, unknown or impossible, or a file it names is not there; it says where.
    """
    raw = read_yaml(path)
    if not isinstance(raw, dict):
        raise PolicyFileError(f"{path}: not a study file: needs version, title and arms")
    lines = key_lines(path)
    try:
        choices = _File.model_validate({k: v for k, v in raw.items() if v is not None})
    except ValidationError as bad:
        first = bad.errors()[0]
        told = first["msg"].removeprefix("Value error, ")
        keys = tuple(str(part) for part in first["loc"])
        named, _, rest = told.partition(": ")
        if not keys and (named,) in lines:
            keys, told = (named,), rest
        line = next((lines[keys[:n]] for n in range(len(keys), 0, -1) if keys[:n] in lines), 1)
        value = first["input"]
        shown = f" (found {value!r})" if isinstance(value, str | int | float) else ""
        raise PolicyFileError(f"{path}, line {line}: {'.'.join(keys) or 'the file'}: {told}{shown}") from None
    made = Study(
        path=path, sha256=hashlib.sha256(path.read_bytes()).hexdigest(), choices=choices, lines=lines
    )
    for _ in made.files():
        pass
    return made


@lru_cache(maxsize=1)
def shipped() -> Study:
    """The example that ships."""
    return load(PATH)
