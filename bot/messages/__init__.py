"""Every sentence a participant can read that is not guidance, by language."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from pathlib import Path

from policies.errors import PolicyFileError
from policies.files import read_yaml


@lru_cache(maxsize=4)
def messages(language: str = "en") -> Mapping[str, str]:
    """The messages of one language, by key.

    Raises:
        PolicyFileError: there is no such language.
    """
    return {
        k: str(v)
        for k, v in read_yaml(Path(str(resources.files("bot") / "messages" / f"{language}.yaml"))).items()
    }


@lru_cache(maxsize=4)
def crisis_texts(language: str = "en") -> Mapping[str, str]:
    """The crisis texts of one language, flattened: "imminent_suicide", "after_safe", "emergency_known", ...

    Raises:
        PolicyFileError: there is no such language, or a text is empty.
    """
    path = Path(str(resources.files("policies") / "crisis" / f"texts.{language}.yaml"))
    flat: dict[str, str] = {}
    for key, value in read_yaml(path).items():
        if isinstance(value, dict):
            flat.update(
                {(name if key == "after" else f"{key}_{name}"): str(text) for name, text in value.items()}
            )
        else:
            flat[key] = str(value)
    empty = [key for key, text in flat.items() if not text.strip()]
    if empty:
        raise PolicyFileError(f"{path}: {empty[0]} is empty")
    return flat
