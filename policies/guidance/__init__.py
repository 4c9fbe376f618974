"""Guidance the built-in model composes replies from: cited blocks that apply under conditions on a profile.

Every block names a public guideline; none has been reviewed by a clinician, and every reply says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from policies.attributes import SPECS, Attribute
from policies.domains import Domain
from policies.errors import PolicyFileError
from policies.files import read_yaml

SLOTS = ("risk", "step", "avoid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A public guideline."""

    title: str
    publisher: str
    year: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A sentence or two that holds for some profiles.

    Attributes:
        id: unique, starts with its domain.
        groups: scenario groups it belongs to; {"*"} for every one.
        slot: "risk" names a danger this profile carries, "step" a next step, "avoid" a thing not to do.
        when: every attribute must carry one of its tags.
        unless: no attribute may carry one of its tags.
        priority: 1 to 9, higher first.
        source: the guideline it rests on.
    """

    id: str
    groups: frozenset[str]
    slot: str
    when: Mapping[str, frozenset[str]]
    unless: Mapping[str, frozenset[str]]
    priority: int
    text: str
    source: str

    def applies(self, tags: Mapping[str, frozenset[str]]) -> bool:
        """Whether it holds for a profile given as tags by attribute (and "risk", "declined")."""
        return all(tags.get(a, frozenset()) & wanted for a, wanted in self.when.items()) and not any(
            tags.get(a, frozenset()) & barred for a, barred in self.unless.items()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A scenario group: how to acknowledge it, who can help, what would change the advice."""

    name: str
    title: str
    acknowledge: tuple[str, ...]
    human: tuple[str, ...]
    would_change: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Human:
    """A kind of person to turn to: a label, and how to reach one."""

    label: str
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Guidance:
    """All guidance."""

    groups: Mapping[tuple[Domain, str], Group] = field(repr=False)
    blocks: Mapping[Domain, tuple[Block, ...]] = field(repr=False)
    common: tuple[Block, ...] = field(repr=False)
    sources: Mapping[str, Source] = field(repr=False)
    humans: Mapping[str, Human] = field(repr=False)

    def all_blocks(self) -> tuple[Block, ...]:
        """Every block, domains in order, then the common ones."""
        return tuple(b for d in Domain for b in self.blocks[d]) + self.common


def _conditions(path: Path, block: Mapping[str, Any], key: str) -> dict[str, frozenset[str]]:
    found = {}
    for name, tags in (block.get(key) or {}).items():
        if name == "risk":
            scale = frozenset({"elevated"})
        elif name == "declined":
            scale = frozenset(a.value for a in Attribute)
        else:
            try:
                scale = SPECS[Attribute(name)].tags
            except ValueError as bad:
                raise PolicyFileError(f"{path}: {block['id']}: {name} is not an attribute") from bad
        outside = set(tags) - scale
        if outside:
            raise PolicyFileError(f"{path}: {block['id']}: {name} has no tag {sorted(outside)[0]!r}")
        found[name] = frozenset(tags)
    return found


def _blocks(path: Path, raw: Mapping[str, Any], groups: frozenset[str]) -> tuple[Block, ...]:
    seen: set[str] = set()
    made = []
    for block in raw["blocks"]:
        name = block.get("id", "?")
        if name in seen:
            raise PolicyFileError(f"{path}: two blocks are named {name}")
        seen.add(name)
        if block.get("source") not in raw["sources"]:
            raise PolicyFileError(f"{path}: {name} cites no known source; an unsourced block does not ship")
        if block.get("slot") not in SLOTS:
            raise PolicyFileError(f"{path}: {name}: slot must be one of {', '.join(SLOTS)}")
        outside = set(block["groups"]) - groups - {"*"}
        if outside:
            raise PolicyFileError(f"{path}: {name}: no group {sorted(outside)[0]!r}")
        made.append(
            Block(
                id=name,
                groups=frozenset(block["groups"]),
                slot=block["slot"],
                when=_conditions(path, block, "when"),
                unless=_conditions(path, block, "unless"),
                priority=int(block.get("priority", 5)),
                text=" ".join(str(block["text"]).split()),
                source=block["source"],
            )
        )
    return tuple(made)


def load(folder: Path) -> Guidance:
    """Read all guidance files of a folder.

    Raises:
        PolicyFileError: a file is missing or malformed, or a block is unsourced; the block is named.
    """
    groups: dict[tuple[Domain, str], Group] = {}
    blocks: dict[Domain, tuple[Block, ...]] = {}
    sources: dict[str, Source] = {}
    humans = {
        key: Human(label=value["label"], how=" ".join(value["how"].split()))
        for key, value in read_yaml(folder / "humans.yaml").items()
    }

    def cite(raw: Mapping[str, Any]) -> None:
        for key, value in raw["sources"].items():
            made = Source(
                title=value["title"], publisher=str(value["publisher"]), year=str(value.get("year", "n.d."))
            )
            sources.setdefault(key, made)

    for domain in Domain:
        path = folder / f"{domain.value}.yaml"
        raw = read_yaml(path)
        cite(raw)
        for name, value in raw["groups"].items():
            unknown = set(value["human"]) - set(humans)
            if unknown:
                raise PolicyFileError(f"{path}: {name}: no human help {sorted(unknown)[0]!r} in humans.yaml")
            groups[domain, name] = Group(
                name=name,
                title=value["title"],
                acknowledge=tuple(" ".join(t.split()) for t in value["acknowledge"]),
                human=tuple(value["human"]),
                would_change=" ".join(value["would_change"].split()),
            )
        blocks[domain] = _blocks(path, raw, frozenset(raw["groups"]))
    raw = read_yaml(folder / "common.yaml")
    cite(raw)
    common = _blocks(folder / "common.yaml", raw, frozenset())
    return Guidance(groups=groups, blocks=blocks, common=common, sources=sources, humans=humans)


@lru_cache(maxsize=1)
def shipped() -> Guidance:
    """The guidance that ships."""
    return load(Path(str(resources.files("policies") / "guidance")))
