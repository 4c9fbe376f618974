"""The patterns of `policies/crisis/patterns.yaml`, compiled."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from bot.risk.verdict import Category, RiskLevel
from policies.attributes import Attribute
from policies.errors import PolicyFileError
from policies.files import read_yaml


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One idea.

    Attributes:
        name: what it is called in explanations.
        idea: the flag it raises.
        category: the kind of danger.
        level: none for a flag that matters only in combinations.
        reason: why, in words.
        patterns: any of these in a sentence.
        unless: and none of these in it.
        requires: and, where given, one of these.
        about_other: it speaks of somebody else.
        anywhere: looked for in the raw text in lower case, within words too, for scripts that set no words apart.
        attributes: only for answers to a question about one of these; empty for any text.
        examples: sentences it must fire on.
    """

    name: str
    idea: str
    category: Category
    level: RiskLevel
    reason: str
    patterns: re.Pattern[str]
    unless: re.Pattern[str] | None
    requires: re.Pattern[str] | None
    about_other: bool
    anywhere: bool
    attributes: frozenset[Attribute]
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    """Ideas that together mean more than each alone, also over several turns."""

    name: str
    parts: tuple[frozenset[str], ...]
    level: RiskLevel
    category: Category
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppressor:
    """What holds rules back.

    Attributes:
        name: what it is called in explanations.
        effect: one of `EFFECTS`; `bot.risk.screen` says what each does.
        reason: why, in words.
        pattern: in normalised text.
        examples: texts in which it holds every rule back.
        not_examples: texts in which it must leave the rules alone.
    """

    name: str
    effect: str
    reason: str
    pattern: re.Pattern[str]
    examples: tuple[str, ...]
    not_examples: tuple[str, ...]


EFFECTS = (
    "fiction",
    "study",
    "idiom",
    "topic",
    "asked",
    "denied",
    "made_safe",
    "long_past",
    "recovered",
    "bereaved",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patterns:
    """All that the text stage matches."""

    rules: tuple[Rule, ...]
    combinations: tuple[Combination, ...]
    suppressors: tuple[Suppressor, ...]


def load(path: Path) -> Patterns:
    """Read and compile a patterns file.

    Raises:
        PolicyFileError: it is malformed; the message names the rule.
    """
    raw = read_yaml(path)
    macros: Mapping[str, str] = raw["macros"]
    rules = [_rule(path, entry, macros) for entry in (*raw["rules"], *raw["answers"])]
    rules += [_rule(path, entry, macros, anywhere=True) for entry in raw["anywhere"]]
    names = [rule.name for rule in rules]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise PolicyFileError(f"{path}: two rules are named {sorted(twice)[0]}")
    ideas = {rule.idea for rule in rules} | OUTSIDE_IDEAS
    combinations = []
    for entry in raw["combinations"]:
        parts = tuple(frozenset(part) for part in entry["all"])
        unknown = set().union(*parts) - ideas
        if unknown:
            raise PolicyFileError(
                f"{path}: {entry['name']} combines {sorted(unknown)[0]}, which no rule raises"
            )
        combinations.append(
            Combination(
                name=entry["name"],
                parts=parts,
                level=RiskLevel(entry["level"]),
                category=Category(entry["category"]),
                reason=entry["reason"],
            )
        )
    suppressors = tuple(_suppressor(path, entry) for entry in raw["suppressors"])
    lacking = set(EFFECTS) - {suppressor.effect for suppressor in suppressors}
    if lacking:
        raise PolicyFileError(f"{path}: no suppressor has the effect {sorted(lacking)[0]}")
    return Patterns(rules=tuple(rules), combinations=tuple(combinations), suppressors=suppressors)


def _suppressor(path: Path, entry: Mapping[str, Any]) -> Suppressor:
    name = entry.get("name", "?")
    try:
        if entry["effect"] not in EFFECTS or not entry["reason"] or not entry["examples"]:
            raise PolicyFileError(f"{path}: suppressor {name}: no such effect, no reason or no example")
        return Suppressor(
            name=entry["name"],
            effect=entry["effect"],
            reason=entry["reason"],
            pattern=re.compile(entry["pattern"]),
            examples=tuple(entry["examples"]),
            not_examples=tuple(entry["not_examples"]),
        )
    except (KeyError, re.error) as bad:
        raise PolicyFileError(f"{path}: suppressor {name}: {bad}") from bad


OUTSIDE_IDEAS = frozenset({"postpartum", "medical_sign", "decided", "close_tie"})
"""Ideas raised from the profile rather than from a pattern."""


def _rule(path: Path, entry: Mapping[str, Any], macros: Mapping[str, str], *, anywhere: bool = False) -> Rule:
    def compiled(key: str) -> re.Pattern[str] | None:
        if not entry.get(key):
            return None
        parts = []
        for source in entry[key]:
            expanded = source
            for name, body in macros.items():
                expanded = expanded.replace("{" + name + "}", body)
            free = anywhere or expanded.startswith("^")
            parts.append(f"(?:{expanded})" if free else rf"(?:(?<!\w)(?:{expanded}))")
        try:
            return re.compile("|".join(parts))
        except re.error as bad:
            raise PolicyFileError(f"{path}: rule {entry.get('name')}: {key}: {bad}") from bad

    try:
        patterns = compiled("any")
        if patterns is None or not entry["reason"] or not entry.get("examples"):
            raise PolicyFileError(f"{path}: rule {entry['name']} has no pattern, no reason or no example")
        return Rule(
            name=entry["name"],
            idea=entry["idea"],
            category=Category(entry["category"]),
            level=RiskLevel(entry["level"]),
            reason=entry["reason"],
            patterns=patterns,
            unless=compiled("not"),
            requires=compiled("requires"),
            anywhere=anywhere,
            about_other=entry.get("subject") == "other",
            attributes=frozenset(Attribute(a) for a in entry.get("attributes", ())),
            examples=tuple(entry.get("examples", ())),
        )
    except (KeyError, ValueError) as bad:
        raise PolicyFileError(f"{path}: rule {entry.get('name', '?')}: {bad}") from bad


@lru_cache(maxsize=1)
def shipped() -> Patterns:
    """The patterns that ship."""
    return load(Path(str(resources.files("policies") / "crisis" / "patterns.yaml")))
