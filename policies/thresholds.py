"""When to ask on, answer or abstain: the numbers of `abstention.yaml`, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from policies.domains import Stakes
from policies.errors import PolicyFileError
from policies.files import read_yaml


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Numbers the abstention module decides by.

    Attributes:
        most_questions: questions a topic at most, repeats included.
        budget: questions planned for, by stakes.
        enough: sufficiency (0 to 5) at which an answer is given, by stakes.
        floor: sufficiency below which an answer is withheld, by stakes.
        least_gain: share of the answer's safety a further question must be expected to carry where nothing was planned.
        doubt: standard deviations of that gain which count for asking, by stakes.
        least_points: safety points that a further question must be expected to add, its price taken off, by stakes.
    """

    most_questions: int
    budget: Mapping[Stakes, int]
    enough: Mapping[Stakes, float]
    floor: Mapping[Stakes, float]
    least_gain: Mapping[Stakes, float]
    least_points: Mapping[Stakes, float]
    doubt: Mapping[Stakes, float]


class _Number(BaseModel):
    model_config = ConfigDict(extra="forbid")
    low: float = Field(ge=0, le=10)
    moderate: float = Field(ge=0, le=10)
    high: float = Field(ge=0, le=10)
    reason: str = Field(min_length=20)


class _MostQuestions(BaseModel):
    model_config = ConfigDict(extra="forbid")
    value: int = Field(ge=0, le=10)
    reason: str = Field(min_length=20)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")
    most_questions: _MostQuestions
    budget: _Number
    enough: _Number
    floor: _Number
    least_gain: _Number
    least_points: _Number
    doubt: _Number

    @model_validator(mode="after")
    def _agree(self) -> _File:
        for stakes in Stakes:
            if getattr(self.budget, stakes) > self.most_questions.value:
                raise ValueError(f"budget.{stakes} is more than most_questions.value")
            if getattr(self.floor, stakes) > getattr(self.enough, stakes):
                raise ValueError(
                    f"floor.{stakes} is more than enough.{stakes}: nothing could ever be answered"
                )
        return self


def load(path: Path) -> Thresholds:
    """Read a thresholds file.

    Raises:
        PolicyFileError: it is missing, malformed or contradicts itself; the message names the entry.
    """
    try:
        raw = _File.model_validate(read_yaml(path))
    except ValidationError as bad:
        first = bad.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise PolicyFileError(f"{path}: {where}: {first['msg']}") from bad

    def by_stakes(number: _Number) -> dict[Stakes, float]:
        return {s: float(getattr(number, s.value)) for s in Stakes}

    return Thresholds(
        most_questions=raw.most_questions.value,
        budget={s: int(n) for s, n in by_stakes(raw.budget).items()},
        enough=by_stakes(raw.enough),
        floor=by_stakes(raw.floor),
        least_gain=by_stakes(raw.least_gain),
        least_points=by_stakes(raw.least_points),
        doubt=by_stakes(raw.doubt),
    )


@lru_cache(maxsize=1)
def shipped() -> Thresholds:
    """The thresholds in `policies/abstention.yaml`."""
    return load(Path(str(resources.files("policies") / "abstention.yaml")))
