"""Reading policy files: YAML and JSON lines, with errors that name the file and the line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from policies.errors import PolicyFileError

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(path: Path) -> Any:
    """The content of a YAML file.

    Raises:
        PolicyFileError: it is missing or is not YAML; the message names file and line.
    """
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506 (a safe loader)
    except OSError as missing:
        raise PolicyFileError(f"{path}: cannot be read ({missing.strerror})") from missing
    except yaml.YAMLError as bad:
        mark = getattr(bad, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise PolicyFileError(f"{path}{where}: not YAML ({getattr(bad, 'problem', 'unreadable')})") from bad


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a JSON-lines file, blank lines skipped.

    Raises:
        PolicyFileError: it is missing or a line is not a JSON object; the message names file and line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as missing:
        raise PolicyFileError(f"{path}: cannot be read ({missing.strerror})") from missing
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError as bad:
            raise PolicyFileError(f"{path}, line {number}: not JSON") from bad
        if not isinstance(value, dict):
            raise PolicyFileError(f"{path}, line {number}: not a JSON object")
        yield value


def key_lines(path: Path) -> dict[tuple[str, ...], int]:
    """Line numbers of a YAML file by key path, the place in a list as a number; a key that stands twice is refused.

    Raises:
        PolicyFileError: it does.
    """
    found: dict[tuple[str, ...], int] = {}

    def walk(node: Any, above: tuple[str, ...]) -> None:
        if isinstance(node, yaml.SequenceNode):
            for number, value in enumerate(node.value):
                found[(*above, str(number))] = value.start_mark.line + 1
                walk(value, (*above, str(number)))
        if not isinstance(node, yaml.MappingNode):
            return
        for key, value in node.value:
            place = (*above, str(key.value))
            if place in found:
                raise PolicyFileError(f"{path}, line {key.start_mark.line + 1}: {key.value}: there twice")
            found[place] = key.start_mark.line + 1
            walk(value, place)

    walk(yaml.compose(path.read_text(encoding="utf-8"), Loader=_Loader), ())
    return found
