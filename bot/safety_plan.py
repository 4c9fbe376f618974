"""A short safety plan, built in conversation, one step a message; pure.

The steps are those of the safety planning intervention (Stanley and Brown 2012, Cognitive and Behavioral Practice
19(2)): warning signs, what helps alone, people and places, people to ask, professionals, making the room safer. The
words stay the person's own; nothing is judged, scored or kept beyond the session without consent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

STEPS = ("signs", "soothes", "places", "people", "professionals", "safer")
LONGEST_ENTRY = 300
"""Characters kept of one entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SafetyPlan:
    """How far it has come.

    Attributes:
        entries: what the person wrote, by step; skipped steps are absent.
        step: the step that is open, or "" when none is.
    """

    entries: Mapping[str, str] = field(default_factory=dict, repr=False)
    step: str = STEPS[0]

    @property
    def is_open(self) -> bool:
        """A step waits for its words."""
        return bool(self.step)

    def written(self, text: str) -> SafetyPlan:
        """The open step answered; the next one opens."""
        kept = " ".join(text.split())[:LONGEST_ENTRY]
        entries = {**self.entries, self.step: kept} if kept else dict(self.entries)
        return replace(self, entries=entries, step=self._next())

    def skipped(self) -> SafetyPlan:
        """The open step left out; the next one opens."""
        return replace(self, step=self._next())

    def paused(self) -> SafetyPlan:
        """No step open; what was written stays."""
        return replace(self, step="")

    def resumed(self) -> SafetyPlan:
        """The first step without words opens; from the start where all have them."""
        return replace(self, step=next((s for s in STEPS if s not in self.entries), STEPS[0]))

    def _next(self) -> str:
        left = STEPS[STEPS.index(self.step) + 1 :]
        return next((s for s in left if s not in self.entries), "")

    def to_json(self) -> dict[str, Any]:
        """A JSON object that `from_json` reads back equal."""
        return {"entries": dict(self.entries), "step": self.step}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> SafetyPlan:
        """Read what `to_json` wrote."""
        return cls(entries=dict(raw["entries"]), step=raw["step"])
