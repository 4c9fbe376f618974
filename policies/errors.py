"""What can go wrong with policy files.

PolicyError
├── PolicyFileError     a file that ships or is configured is missing, malformed or contradicts itself
├── EncoderError        the sentence encoder's files are absent or not the ones we know
├── PlanningError       a search cannot be run, or a plan, journal or library cannot be used
│   └── Unscored        one evaluation gave no score; counted by its reason, never taken for one
└── PenguinError        samples, a run or a rating sheet of the benchmark cannot be used
"""

from __future__ import annotations


class PolicyError(Exception):
    """Base of everything `policies` raises."""


class PolicyFileError(PolicyError):
    """A policy file cannot be used; the message names the file, the entry and the remedy."""


class EncoderError(PolicyError):
    """The sentence encoder cannot be used; the message names the file and the remedy."""


class PlanningError(PolicyError):
    """A search cannot be run or its file cannot be used; the message names the file, the line and the remedy."""


class Unscored(PlanningError):
    """An evaluation gave no score.

    Attributes:
        reason: a short name to count it by, such as "rate_limited" or "out_of_range".
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"no score: {reason}")
        self.reason = reason


class PenguinError(PolicyError):
    """The benchmark cannot go on; the message names the file, the line, the field and the remedy."""
