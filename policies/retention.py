"""How long each kind of record lives: `policies/retention.yaml`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from functools import lru_cache
from importlib import resources
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from policies.errors import PolicyFileError
from policies.files import read_yaml

_UNITS = {
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
    "year": timedelta(days=365),
}
CATEGORIES = (
    "participant", "consent", "session", "stable_attribute", "volatile_attribute", "turn", "transcript", "decision",
    "ledger", "safety_plan", "feedback",
)  # fmt: skip


class _Rule(BaseModel):
    model_config = ConfigDict(extra="forbid")
    keep: str
    reason: str = Field(min_length=20)


def duration(text: str) -> timedelta:
    """A duration as people write it: "24 hours", "30 days", "2 weeks", "3 years".

    Raises:
        ValueError: it is none, or not longer than nothing.
    """
    found = re.fullmatch(r"\s*(\d+)\s+(hour|day|week|year)s?\s*", text)
    if found is None or not int(found[1]):
        raise ValueError(f'{text!r}: write a duration such as "24 hours", "30 days" or "3 years"')
    return int(found[1]) * _UNITS[found[2]]


def load(path: Path) -> Mapping[str, timedelta]:
    """Lifetimes by category.

    Raises:
        PolicyFileError: a category is unknown or missing, or a duration is none; the message names it.
    """
    raw = read_yaml(path)
    if not isinstance(raw, dict):
        raise PolicyFileError(f"{path}: not a mapping from category to rule")
    unknown, missing = sorted(set(raw) - set(CATEGORIES)), sorted(set(CATEGORIES) - set(raw))
    if unknown or missing:
        raise PolicyFileError(
            f"{path}: {unknown[0]}: no such category" if unknown else f"{path}: no rule for {missing[0]}"
        )
    found = {}
    for category, rule in raw.items():
        try:
            found[category] = duration(_Rule.model_validate(rule).keep)
        except ValidationError as bad:
            first = bad.errors()[0]
            raise PolicyFileError(f"{path}: {category}.{first['loc'][0]}: {first['msg']}") from None
        except ValueError as bad:
            raise PolicyFileError(f"{path}: {category}: {bad}") from None
    if found["volatile_attribute"] > found["stable_attribute"]:
        raise PolicyFileError(f"{path}: volatile_attribute: lives longer than stable_attribute")
    return found


@lru_cache(maxsize=1)
def shipped() -> Mapping[str, timedelta]:
    """The rules that ship."""
    return load(Path(str(resources.files("policies") / "retention.yaml")))
