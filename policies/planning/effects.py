"""The shipped prior model of `effects.yaml`, read and checked: what each fact is assumed to be worth, with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from policies.attributes import SPECS, Attribute
from policies.domains import Domain
from policies.errors import PolicyFileError
from policies.files import read_yaml

Reason = Annotated[str, Field(min_length=10)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Effect(_Strict):
    """A factor on an attribute's worth."""

    times: float = Field(ge=0, le=5)
    reason: Reason


class Named(_Strict):
    """Gain alone, in safety points, by the place at which a query's authored path names an attribute."""

    points: tuple[Annotated[float, Field(gt=0, le=1.5)], ...] = Field(min_length=1)
    reason: Reason


class Needs(_Strict):
    """What a query's own authored path says of an attribute's worth to it."""

    named: Named
    unnamed: Effect
    group_share: Effect


class Pair(_Strict):
    """What two facts are worth together beyond their parts, in safety points."""

    of: tuple[Attribute, Attribute]
    points: float = Field(ge=-0.5, le=0.5)
    reason: Reason


class Gate(_Strict):
    """An answer in one band changes what another fact is worth."""

    when: tuple[Attribute, str]
    of: Attribute
    times: float = Field(ge=0, le=5)
    reason: Reason

    @model_validator(mode="after")
    def _band_exists(self) -> Gate:
        attribute, band = self.when
        if band not in SPECS[attribute].bands:
            raise ValueError(f"{attribute} has no band {band!r}")
        if attribute is self.of:
            raise ValueError("a gate changes another attribute than its own")
        return self


class Bands(_Strict):
    """How often each band is met, and how much graver than the mean it weighs."""

    shares: Mapping[str, float]
    weighs: Mapping[str, float]


class Effects(_Strict):
    """All of the shipped prior model."""

    domains: Mapping[Domain, Mapping[Attribute, Effect]]
    needs: Needs
    pairs: tuple[Pair, ...]
    gates: tuple[Gate, ...]
    bands: Mapping[Attribute, Bands]

    @model_validator(mode="after")
    def _whole(self) -> Effects:
        if set(self.domains) != set(Domain):
            raise ValueError("domains: all seven are needed")
        if set(self.bands) != set(Attribute):
            raise ValueError("bands: all ten attributes are needed")
        for attribute, bands in self.bands.items():
            scale = set(SPECS[attribute].bands)
            if set(bands.shares) != scale or set(bands.weighs) != scale:
                raise ValueError(f"bands.{attribute}: its bands are {', '.join(SPECS[attribute].bands)}")
            if abs(sum(bands.shares.values()) - 1) > 1e-6:
                raise ValueError(f"bands.{attribute}: the shares do not sum to 1")
            if abs(sum(bands.shares[b] * bands.weighs[b] for b in scale) - 1) > 0.01:
                raise ValueError(f"bands.{attribute}: the weights' mean is not 1")
        return self


def load(path: Path) -> Effects:
    """Read an effects file.

    Raises:
        PolicyFileError: it is missing or malformed; the message names the entry.
    """
    try:
        return Effects.model_validate(read_yaml(path))
    except ValidationError as bad:
        first = bad.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise PolicyFileError(f"{path}: {where}: {first['msg']}") from bad


def shipped_path() -> Path:
    """Where the shipped effects lie."""
    return Path(str(resources.files("policies") / "planning" / "effects.yaml"))


@lru_cache(maxsize=1)
def shipped() -> Effects:
    """The effects that ship."""
    return load(shipped_path())
