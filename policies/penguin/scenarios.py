"""Samples: a query, the person who asks it, and where both come from; read and written as JSON lines.

One sample gives both variants of the paper (section 3.2): context-free, the query alone, and context-rich, the query with the
whole profile. A row that cannot be used is named by file, line and field and left out; its text is never in the message.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from policies.attributes import Attribute
from policies.domains import Domain, Stakes
from policies.errors import PenguinError

LONGEST_QUERY, LONGEST_VALUE = 4_000, 400
"""Characters; a longer one is a row's fault."""
NOT_TOLD = frozenset(
    {"", "none given", "not specified", "not stated", "unknown", "n/a", "na", "null", "nan", "-"}
)
"""Words of an empty cell. "None" is a value: no self-harm history is known, and good to know."""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}")


class Variant(StrEnum):
    """The paper's two variants of one sample."""

    CONTEXT_FREE = "context-free"
    CONTEXT_RICH = "context-rich"


class Handling(StrEnum):
    """What a careful reader would have the chat do, where a sample says it."""

    ASK = "ask"
    OPTIONAL = "optional"
    ANSWER_NOW = "answer_now"
    HAND_OVER = "hand_over"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One person with one question.

    Attributes:
        id: names it in logs, reports and rating sheets.
        domain: of the question.
        group: scenario group; means are clustered by it.
        query: in the person's words.
        profile: attribute to words; an attribute that is not there is not known, and is never guessed.
        source: where it comes from.
        licence: under which it may be used.
        stakes: of a wrong answer, where the source says.
        handling: what should be done, where the source says.
        critical: attributes the answer hangs on, most important first, where the source says.
        volunteered: attributes the query itself gives away, where the source says.
    """

    id: str
    domain: Domain
    group: str
    query: str = field(repr=False)
    profile: Mapping[Attribute, str] = field(repr=False)
    source: str
    licence: str
    stakes: Stakes | None = None
    handling: Handling | None = None
    critical: tuple[Attribute, ...] = ()
    volunteered: tuple[Attribute, ...] = ()

    def shown(self, variant: Variant) -> Mapping[Attribute, str]:
        """What of the profile goes with the query in a variant."""
        return self.profile if variant is Variant.CONTEXT_RICH else {}

    def to_json(self) -> dict[str, Any]:
        """The JSON object of a line; only what is there."""
        raw: dict[str, Any] = {
            "id": self.id,
            "domain": self.domain.value,
            "group": self.group,
            "query": self.query,
            "profile": {a.value: self.profile[a] for a in Attribute if a in self.profile},
            "source": self.source,
            "licence": self.licence,
        }
        if self.stakes is not None:
            raw["stakes"] = self.stakes.value
        if self.handling is not None:
            raw["handling"] = self.handling.value
        for name in ("critical", "volunteered"):
            if getattr(self, name):
                raw[name] = [a.value for a in getattr(self, name)]
        return raw


class SampleRow(BaseModel):
    """A line as it comes in. Unknown keys are ignored; `scenario` is another name for `group`."""

    model_config = ConfigDict(extra="ignore")

    id: str = Field(min_length=1, max_length=100)
    domain: Domain
    group: str = Field(default="", max_length=200)
    query: str = Field(min_length=1, max_length=LONGEST_QUERY)
    profile: dict[Attribute, str] = Field(default_factory=dict)
    source: str = Field(default="", max_length=400)
    licence: str = Field(default="", max_length=400)
    stakes: Stakes | None = None
    handling: Handling | None = None
    critical: tuple[Attribute, ...] = ()
    volunteered: tuple[Attribute, ...] = ()

    @field_validator("id")
    @classmethod
    def _plain(cls, value: str) -> str:
        if not _ID.fullmatch(value):
            raise ValueError("an id is up to 100 letters, digits, '-', '_', '.' or ':'")
        return value

    @field_validator("query")
    @classmethod
    def _said(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("is empty")
        return value.strip()

    @field_validator("profile", mode="before")
    @classmethod
    def _told(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            raise ValueError("not an object from attribute to words")  # noqa: TRY004 (pydantic wants ValueError)
        kept = {}
        for name, words in value.items():
            if words is None or (isinstance(words, str) and words.strip().lower() in NOT_TOLD):
                continue
            if isinstance(words, bool) or not isinstance(words, str | int | float):
                raise ValueError(f"{_name(name)}: not words")  # noqa: TRY004 (pydantic wants ValueError)
            if len(str(words)) > LONGEST_VALUE:
                raise ValueError(f"{_name(name)}: longer than {LONGEST_VALUE} characters")
            kept[name] = str(words).strip()
        return kept


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRow:
    """A row that cannot be used; what it says stays out of the message.

    Attributes:
        file: it is in.
        line: where it begins, from 1; the number of the entry in a JSON array.
        field: at fault.
        problem: with it.
    """

    file: str
    line: int
    field: str
    problem: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.field}: {self.problem}"


@dataclass(frozen=True, slots=True)
class Samples:
    """What was read of a file.

    Attributes:
        samples: usable ones, in order.
        bad: the others, by what is wrong.
    """

    samples: tuple[Sample, ...]
    bad: tuple[BadRow, ...] = ()

    def never_told(self) -> tuple[Attribute, ...]:
        """Attributes that no profile has: left open, never guessed."""
        return tuple(a for a in Attribute if not any(a in s.profile for s in self.samples))

    def gaps(self) -> dict[Attribute, int]:
        """How many profiles lack each attribute, where any does."""
        lacking = Counter(a for s in self.samples for a in Attribute if a not in s.profile)
        return {a: lacking[a] for a in Attribute if lacking[a]}


def fault(bad: ValidationError, *, file: str, line: int) -> BadRow:
    """The first thing wrong with a row, its value left out."""
    first = bad.errors(include_input=False, include_url=False, include_context=False)[0]
    where = ".".join(_name(part) for part in first["loc"] if part != "[key]") or "row"
    return BadRow(file=file, line=line, field=where, problem=first["msg"].removeprefix("Value error, "))


def _name(part: object) -> str:
    """A field's name, where it looks like one: what stands in a key's place may be somebody's words."""
    return str(part) if isinstance(part, int) or re.fullmatch(r"[A-Za-z_]\w{0,29}", str(part)) else "a key"


def sample_of(raw: Mapping[str, Any], *, source: str = "", licence: str = "") -> Sample:
    """A sample from a JSON object.

    Raises:
        ValidationError: a field is missing or wrong.
    """
    put = dict(raw)
    if not put.get("group"):
        put["group"] = put.get("scenario") or ""
    if put["group"] == "":
        put["group"] = str(put.get("id", ""))
    row = SampleRow.model_validate(put)
    return Sample(
        id=row.id,
        domain=row.domain,
        group=row.group.strip(),
        query=row.query,
        profile=row.profile,
        source=row.source or source,
        licence=row.licence or licence,
        stakes=row.stakes,
        handling=row.handling,
        critical=row.critical,
        volunteered=row.volunteered,
    )


def gathered(rows: Iterable[tuple[int, Mapping[str, Any] | BadRow]], *, file: str, strict: bool) -> Samples:
    """Samples from rows with their line numbers; a second row with the same id is a bad one.

    Args:
        rows: line number and object, or what is wrong with the line already.
        file: their name.
        strict: stop at the first that is bad.

    Raises:
        PenguinError: `strict`, and a row is bad; or none is good.
    """
    good: dict[str, Sample] = {}
    bad: list[BadRow] = []
    for line, raw in rows:
        found: BadRow | None = None
        if isinstance(raw, BadRow):
            found = raw
        else:
            try:
                sample = sample_of(raw, source=Path(file).name, licence="not stated")
                if sample.id in good:
                    found = BadRow(file=file, line=line, field="id", problem="is there already")
                else:
                    good[sample.id] = sample
            except ValidationError as wrong:
                found = fault(wrong, file=file, line=line)
        if found is not None:
            if strict:
                raise PenguinError(f"{found}; mend it, or leave --strict away to leave such rows out")
            bad.append(found)
    if not good:
        first = f" ({bad[0]})" if bad else ""
        raise PenguinError(f"{file}: no usable sample in it{first}")
    return Samples(tuple(good.values()), tuple(bad))


def json_lines(path: Path) -> Iterator[tuple[int, Mapping[str, Any] | BadRow]]:
    """The objects of a JSON-lines file with their line numbers, or what is wrong with a line; one in memory at a time.

    Raises:
        PenguinError: the file cannot be read.
    """
    try:
        file = path.open("rb")
    except OSError as missing:
        raise PenguinError(f"{path}: cannot be read ({missing.strerror})") from None
    with file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                raw = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
            except (ValueError, RecursionError) as bad:
                problem = "not UTF-8" if isinstance(bad, UnicodeDecodeError) else "not JSON"
                yield number, BadRow(file=str(path), line=number, field="row", problem=problem)
                continue
            if isinstance(raw, dict):
                yield number, raw
            else:
                yield number, BadRow(file=str(path), line=number, field="row", problem="not a JSON object")


def text_of(path: Path) -> str:
    """A file's text, as UTF-8, with the marks that spreadsheets put before it left out.

    Raises:
        PenguinError: it cannot be read, or is not UTF-8.
    """
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as missing:
        raise PenguinError(f"{path}: cannot be read ({missing.strerror})") from None
    except UnicodeDecodeError as bad:
        raise PenguinError(f"{path}: not UTF-8 at byte {bad.start}; save it as UTF-8") from None


def read_samples(path: Path, *, strict: bool = False) -> Samples:
    """Samples from a JSON-lines file.

    Raises:
        PenguinError: it cannot be read, nothing in it is usable, or `strict` and a row is bad.
    """
    return gathered(json_lines(path), file=str(path), strict=strict)


def write_samples(samples: Sequence[Sample], path: Path) -> None:
    """Samples into a JSON-lines file, whole or not at all.

    Raises:
        PenguinError: it cannot be written.
    """
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(
            "".join(json.dumps(s.to_json(), ensure_ascii=False) + "\n" for s in samples), encoding="utf-8"
        )
        part.replace(path)
    except OSError as full:
        raise PenguinError(f"{path}: cannot be written ({full.strerror})") from None


def shipped_samples() -> Samples:
    """The seventy of our own, ten a domain."""
    return read_samples(
        Path(str(resources.files("policies") / "penguin" / "data" / "scenarios.jsonl")), strict=True
    )
