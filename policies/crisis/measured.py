"""The measured error rates of the risk screen, as the protocol page shows them (made by `scripts/measure_risk.py`)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Rate:
    """One rate with its 95 % Wilson interval, as text with three decimals."""

    what: str
    hits: int
    of: int
    rate: str
    low: str
    high: str


@dataclass(frozen=True, slots=True)
class MeasuredSet:
    """One set of labelled messages."""

    name: str
    about: str
    rows: tuple[Rate, ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """Every set that was scored."""

    sets: tuple[MeasuredSet, ...]


@lru_cache(maxsize=1)
def shipped() -> Measured:
    """The figures of `measured.json`."""
    raw = json.loads(
        Path(str(resources.files("policies") / "crisis" / "measured.json")).read_text(encoding="utf-8")
    )
    return Measured(
        tuple(
            MeasuredSet(s["name"], s["about"], tuple(Rate(**row) for row in s["rows"])) for s in raw["sets"]
        )
    )
