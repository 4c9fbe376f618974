"""What can go wrong for a person, what the product does about it, and what is left: `policies/hazards.yaml`.

The form follows hazard logs of clinical safety cases (NHS DCB0129; ISO 14971). Scores are estimates by its authors.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from policies.errors import PolicyFileError
from policies.files import read_yaml

PATH = Path(str(resources.files("policies") / "hazards.yaml"))


class Hazard(BaseModel):
    """One hazard.

    Attributes:
        id: H01 and on.
        hazard: what can go wrong.
        cause: how it comes about.
        harm: to whom, and which.
        severity: 1 to 5.
        likelihood: 1 to 5, before controls.
        controls: what the product does.
        code: files that do it.
        verified_by: tests that show it.
        residual: what is left.
        residual_likelihood: 1 to 5, after controls.
        operator: what the study must do itself.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    id: str = Field(pattern=r"^H\d\d$")
    hazard: str = Field(min_length=10)
    cause: str = Field(min_length=10)
    harm: str = Field(min_length=10)
    severity: int = Field(ge=1, le=5)
    likelihood: int = Field(ge=1, le=5)
    controls: tuple[str, ...] = Field(min_length=1)
    code: tuple[str, ...] = Field(min_length=1)
    verified_by: tuple[str, ...] = Field(min_length=1)
    residual: str = Field(min_length=10)
    residual_likelihood: int = Field(ge=1, le=5)
    operator: str = Field(min_length=3)


class HazardLog(BaseModel):
    """The whole log.

    Attributes:
        reviewed_by: who has, or "nobody yet".
        scales: what the scores mean.
        hazards: in order.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    reviewed_by: str
    scales: dict[str, str]
    hazards: tuple[Hazard, ...] = Field(min_length=1)


def load(path: Path = PATH) -> HazardLog:
    """The hazards of a file.

    Raises:
        PolicyFileError: it cannot be used; the message names the hazard and what is wrong with it.
    """
    raw = read_yaml(path)
    try:
        log = HazardLog.model_validate(raw)
    except ValidationError as bad:
        first = bad.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise PolicyFileError(f"{path}: {where}: {first['msg']}") from None
    ids = [hazard.id for hazard in log.hazards]
    twice = next((i for i in ids if ids.count(i) > 1), None)
    if twice:
        raise PolicyFileError(f"{path}: {twice}: there twice")
    return log


@lru_cache(maxsize=1)
def shipped() -> HazardLog:
    """The log that ships."""
    return load()
