"""Prompts: one file each, with a name, a version and a purpose between --- lines, and then what a model is told."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from pathlib import Path

from policies.errors import PolicyFileError


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One prompt.

    Attributes:
        name: of the file.
        version: raised with every change of meaning.
        purpose: in a sentence.
        text: what the model is told; no person's data is ever in it.
        sha256: of the whole file, for the record of a study.
    """

    name: str
    version: int
    purpose: str
    text: str = field(repr=False)
    sha256: str


@lru_cache(maxsize=32)
def read_prompt(package: str, name: str) -> Prompt:
    """A prompt of a package, such as "bot" or "policies.penguin", from its folder of prompts.

    Raises:
        PolicyFileError: there is none, or its head is malformed.
    """
    path = Path(str(resources.files(package) / "prompts" / f"{name}.md"))
    try:
        raw = path.read_text(encoding="utf-8")
    except OSError:
        raise PolicyFileError(f"{path}: no such prompt") from None
    head = re.match(r"---\nname: (\w+)\nversion: (\d+)\npurpose: (.+)\n---\n", raw)
    if head is None or head[1] != name:
        raise PolicyFileError(f"{path}: needs name, version and purpose between --- lines")
    return Prompt(
        name=name,
        version=int(head[2]),
        purpose=head[3],
        text=raw[head.end() :].strip(),
        sha256=hashlib.sha256(raw.encode()).hexdigest(),
    )
