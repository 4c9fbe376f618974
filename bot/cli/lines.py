"""Reading messages from a file or standard input, one JSON object a line, with errors that name file and line, never text."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from bot.errors import SettingsError


def read_messages(file: Path) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """(where, number, object) of each line of a file, or of standard input for "-"; each has a "text".

    Raises:
        SettingsError: the file cannot be read, or a line is not such an object.
    """
    is_input = str(file) == "-"
    name = "standard input" if is_input else str(file)
    try:
        opened = nullcontext(sys.stdin) if is_input else file.open(encoding="utf-8", errors="replace")
    except OSError as missing:
        raise SettingsError(f"{file}: cannot be read ({missing.strerror})") from None
    with opened as stream:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            where = f"{name}, line {number}"
            try:
                raw = json.loads(line)
            except ValueError:
                raise SettingsError(f'{where}: not JSON; write {{"id": ..., "text": "..."}}') from None
            if not isinstance(raw, dict) or not isinstance(raw.get("text"), str):
                raise SettingsError(f'{where}: needs "text" with a string')
            yield where, number, raw
