"""Placeholders in the place of personal data, and the way back for the person's own eyes.

One to one between placeholder and value for a whole conversation, numbered once and never restarted. A placeholder that
the person types themselves is a value like any other and never resolves to somebody else's. The map lives in memory; it
is sealed under the person's key where the conversation is kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from privacy.spans import Span

_FORM = re.compile(r"<([A-Z][A-Z_]*)_(\d{1,5})>")
_TYPED = "TYPED"
SHOWN_BACK = frozenset(
    {"PERSON", "LOCATION", "ORGANIZATION", "DATE_TIME", "DATE_OF_BIRTH", "AGE_OVER_89", _TYPED}
)
"""Kinds that are put back where a model uses them. Numbers, addresses and links of anybody are not: what is shown as
a number to call comes from our checked list alone."""
_INSTEAD = {
    "PHONE_NUMBER": "that number", "EMAIL_ADDRESS": "that address", "URL": "that page", "STREET_ADDRESS": "that address",
    "POSTCODE": "that postcode", "SOCIAL_HANDLE": "that account",
}  # fmt: skip
LONGEST_PLACEHOLDER = 40


@dataclass(slots=True)
class Placeholders:
    """The map of one conversation.

    Attributes:
        values: by placeholder.
    """

    values: dict[str, str] = field(default_factory=dict, repr=False)
    _known: dict[tuple[str, str], str] = field(default_factory=dict, repr=False)
    _numbers: dict[str, int] = field(default_factory=dict, repr=False)

    def _for(self, kind: str, value: str) -> str:
        known = self._known.get((kind, _same(value)))
        if known is not None:
            return known
        self._numbers[kind] = self._numbers.get(kind, 0) + 1
        name = f"<{kind}_{self._numbers[kind]}>"
        self.values[name] = value
        self._known[kind, _same(value)] = name
        return name

    def apply(self, text: str, spans: Sequence[Span], *, keeps_known: bool = False) -> str:
        """The text with its spans replaced; what looks like a placeholder in it is replaced too.

        Args:
            text: a text.
            spans: what is personal in it.
            keeps_known: it has been through here before, so that placeholders of this conversation in it are ours.
        """
        forms = list(_FORM.finditer(text))
        ours = [m for m in forms if keeps_known and m[0] in self.values]
        spans = [s for s in spans if not any(s.start < m.end() and m.start() < s.end for m in ours)]
        typed = [
            Span(start=m.start(), end=m.end(), type=_TYPED, score=1.0)
            for m in forms
            if m not in ours and not any(s.start < m.end() and m.start() < s.end for s in spans)
        ]
        out: list[str] = []
        at = 0
        for span in sorted([*spans, *typed], key=lambda s: s.start):
            out += (text[at : span.start], self._for(span.type, text[span.start : span.end]))
            at = span.end
        return "".join([*out, text[at:]])

    def restore(self, text: str, *, own: bool = False) -> str:
        """The text with the person's own words back.

        Args:
            text: with placeholders.
            own: it is the person's own text shown back to them, so that every kind is put back; otherwise only
                `SHOWN_BACK`, and a plain word stands in for the rest and for what this conversation does not know.
        """

        def back(match: re.Match[str]) -> str:
            value = self.values.get(match[0])
            if value is not None and (own or match[1] in SHOWN_BACK):
                return value
            return _INSTEAD.get(
                match[1], "that one" if value is not None else match[1].lower().replace("_", " ")
            )

        return _FORM.sub(back, text)

    def to_json(self) -> str:
        """As text that `from_json` reads back equal."""
        return json.dumps(self.values, ensure_ascii=False)

    @classmethod
    def from_json(cls, raw: str) -> Placeholders:
        """Read what `to_json` wrote; numbering goes on where it was."""
        made = cls()
        for name, value in json.loads(raw).items():
            form = _FORM.fullmatch(name)
            if form is not None:
                made.values[name] = value
                made._known[form[1], _same(value)] = name
                made._numbers[form[1]] = max(made._numbers.get(form[1], 0), int(form[2]))
        return made


class Restorer:
    """Restores a text that comes in pieces: holds back only what may still become a placeholder."""

    def __init__(self, places: Placeholders) -> None:
        self._places, self._held = places, ""

    def feed(self, piece: str) -> str:
        """What can be shown now; every way of cutting the text restores the same."""
        text = self._held + piece
        at = text.rfind("<")
        begun = at >= 0 and ">" not in text[at:] and re.fullmatch(r"<[A-Z_]*\d{0,5}", text[at:])
        if begun and len(text) - at <= LONGEST_PLACEHOLDER:
            self._held, text = text[at:], text[:at]
        else:
            self._held = ""
        return self._places.restore(text)

    def rest(self) -> str:
        """What was held back, at the end."""
        held, self._held = self._held, ""
        return held


def _same(value: str) -> str:
    return re.sub(r"\s+", " ", value).strip().casefold()


def counts(spans: Iterable[Span]) -> dict[str, int]:
    """How many of each kind."""
    found: dict[str, int] = {}
    for span in spans:
        found[span.type] = found.get(span.type, 0) + 1
    return found
