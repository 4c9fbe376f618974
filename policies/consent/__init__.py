"""Consent texts, one file a version: what is asked, scope by scope, in plain words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from policies.errors import PolicyFileError
from policies.files import read_yaml

SCOPES = ("chat", "send", "keep", "research", "contact")


class _Scope(BaseModel):
    model_config = ConfigDict(extra="forbid")
    title: str
    ask: str
    if_yes: str
    if_no: str


class _Text(BaseModel):
    model_config = ConfigDict(extra="forbid")
    version: str
    language: str
    title: str
    intro: list[str] = Field(min_length=3)
    on_call: list[str]
    randomisation: str
    who_sees: str
    scopes: dict[str, _Scope]
    erasure: str
    rights: list[str]
    contact_line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeText:
    """One question of the consent text.

    Attributes:
        scope: its name.
        title: short.
        ask: the question.
        if_yes: what then happens.
        if_no: what happens otherwise.
    """

    scope: str
    title: str
    ask: str
    if_yes: str
    if_no: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsentText:
    """A version as it is shown: filled in, with what does not apply left out.

    Attributes:
        version: as the file says.
        language: ISO 639-1.
        title: above everything.
        paragraphs: before the questions, in order.
        scopes: the questions, in order.
        after: what follows them.
        rights: what the person may do.
        contact: whom to ask.
    """

    version: str
    language: str
    title: str
    paragraphs: tuple[str, ...] = field(repr=False)
    scopes: tuple[ScopeText, ...] = field(repr=False)
    after: tuple[str, ...] = field(repr=False)
    rights: tuple[str, ...] = field(repr=False)
    contact: str = field(repr=False)

    def everything(self) -> str:
        """Every word that is shown, in order: what is hashed, and what people agree to."""
        questions = [f"{s.title}\n{s.ask}\n{s.if_yes}\n{s.if_no}" for s in self.scopes]
        return "\n".join([self.title, *self.paragraphs, *questions, *self.after, *self.rights, self.contact])

    def scope(self, name: str) -> ScopeText | None:
        """One question, or None where it is not asked here."""
        return next((s for s in self.scopes if s.scope == name), None)


def load(
    path: Path, values: Mapping[str, str], *, has_outside: bool, has_on_call: bool, is_randomised: bool
) -> ConsentText:
    """A version, filled in for a deployment.

    Args:
        path: of the file.
        values: for its placeholders.
        has_outside: an outside model beyond this machine may be used.
        has_on_call: somebody is told of danger.
        is_randomised: chance decides how questions are asked.

    Raises:
        PolicyFileError: the file is malformed, lacks a scope, or uses a placeholder that is not known; it is named.
    """
    try:
        raw = _Text.model_validate(read_yaml(path))
    except ValidationError as bad:
        first = bad.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise PolicyFileError(f"{path}: {where}: {first['msg']}") from None
    lacking = [s for s in SCOPES if s not in raw.scopes]
    if lacking or set(raw.scopes) - set(SCOPES):
        raise PolicyFileError(f"{path}: scopes: {(lacking or sorted(set(raw.scopes) - set(SCOPES)))[0]}")

    def filled(text: str) -> str:
        try:
            return text.format_map(dict(values))
        except (KeyError, ValueError, IndexError) as bad:
            raise PolicyFileError(f"{path}: no value for the placeholder {bad}") from None

    scopes = tuple(
        ScopeText(
            scope=name,
            title=filled(s.title),
            ask=filled(s.ask),
            if_yes=filled(s.if_yes),
            if_no=filled(s.if_no),
        )
        for name in SCOPES
        if (s := raw.scopes[name]) and (name != "send" or has_outside)
    )
    paragraphs = [
        *raw.intro,
        *(raw.on_call if has_on_call else []),
        *([raw.randomisation] if is_randomised else []),
    ]
    return ConsentText(
        version=raw.version,
        language=raw.language,
        title=filled(raw.title),
        paragraphs=tuple(filled(p) for p in [*paragraphs, raw.who_sees]),
        scopes=scopes,
        after=(filled(raw.erasure),),
        rights=tuple(filled(r) for r in raw.rights),
        contact=filled(raw.contact_line),
    )


def every(language: str = "en") -> tuple[Path, ...]:
    """The files of all versions in a language, oldest first."""
    folder = Path(str(resources.files("policies") / "consent"))
    return tuple(sorted(folder.glob(f"{language}-*.yaml"), key=lambda p: int(p.stem.split("-")[1])))


@lru_cache(maxsize=1)
def newest(language: str = "en") -> Path:
    """The file of the newest version in a language.

    Raises:
        PolicyFileError: there is none.
    """
    found = every(language)
    if not found:
        raise PolicyFileError(f"policies/consent: no consent text in {language}")
    return found[-1]
