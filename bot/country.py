"""The country that somebody names; read from the raw message, as redaction may take the name out of what is read after."""

from __future__ import annotations

import re
from dataclasses import dataclass

from policies.crisis import Directory

_LIVED = re.compile(r"\bi(?:'?m| am)?(?: live| living)? in (?:the )?([a-z ]{2,30})")


@dataclass(frozen=True, slots=True)
class Named:
    """A country that was named.

    Attributes:
        code: ISO 3166, or None.
        is_all: the message says nothing else.
    """

    code: str | None
    is_all: bool


def named(text: str, directory: Directory) -> Named:
    """The country in a message: as its whole content, or as where the writer is."""
    whole = directory.is_country(text)
    if whole:
        return Named(whole, is_all=True)
    lived = _LIVED.search(text.lower().replace("’", "'"))
    return Named(directory.find_country(lived[1]) if lived else None, is_all=False)
