"""What a model is asked to be, what that took, and what one turn and one session may take of it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from enum import StrEnum

from privacy.gate import Passage


class Role(StrEnum):
    """What a model is asked to be."""

    ASSESS = "assess"
    INTERVIEW = "interview"
    ANSWER = "answer"
    RISK = "risk"
    EMBED = "embed"


SPEAKING = (Role.ASSESS, Role.INTERVIEW, Role.ANSWER, Role.RISK)
"""The roles that every model for words can play; embedding needs a model of its own."""


@dataclass(slots=True)
class Usage:
    """What one role has taken.

    Attributes:
        calls: requests made, retries included.
        failures: of them, those that ended without an answer.
        prompt_tokens: as the endpoint counts them.
        completion_tokens: the same.
        seconds: from request to the end of the answer, added up.
    """

    calls: int = 0
    failures: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0

    @property
    def tokens(self) -> int:
        """Prompt and completion together."""
        return self.prompt_tokens + self.completion_tokens

    def add(self, other: Usage) -> None:
        """Count what another one took."""
        self.calls += other.calls
        self.failures += other.failures
        self.prompt_tokens += other.prompt_tokens
        self.completion_tokens += other.completion_tokens
        self.seconds += other.seconds


def no_usage() -> dict[Role, Usage]:
    """A meter at zero for each role."""
    return {role: Usage() for role in Role}


@dataclass(slots=True, kw_only=True)
class Budget:
    """What the calls of one turn may take together, and what they took.

    Attributes:
        seconds: from `started`.
        tokens: left for this conversation when the turn began; None for no cap.
        started: on the monotonic clock.
        used: by role, shared by every part of the same turn.
        passage: the way out of this conversation; without it only our own texts may be sent.
        is_ours: what is sent is our own text, as when an endpoint is tried.
        is_patient: nobody is waiting (a benchmark): no call is held to a share of the turn.
        fell_back: what the built-in model did because this one failed at it; shared by every part of the same turn.
    """

    seconds: float = 20.0
    tokens: int | None = None
    started: float = field(default_factory=time.monotonic)
    used: dict[Role, Usage] = field(default_factory=no_usage)
    passage: Passage | None = field(default=None, repr=False)
    is_ours: bool = False
    is_patient: bool = False
    fell_back: set[Role] = field(default_factory=set)

    def left(self) -> float:
        """Seconds left, at least 0."""
        return max(0.0, self.seconds - (time.monotonic() - self.started))

    def spent(self) -> int:
        """Tokens taken in this turn."""
        return sum(usage.tokens for usage in self.used.values())

    def is_spent(self) -> bool:
        """Whether this conversation has no tokens left."""
        return self.tokens is not None and self.spent() >= self.tokens

    def share(self, seconds: float) -> Budget:
        """A part of the same turn that may take so many seconds at most, and never more than are left."""
        return Budget(
            seconds=self.left() if self.is_patient else min(seconds, self.left()),
            tokens=self.tokens,
            started=time.monotonic(),
            used=self.used,
            passage=self.passage,
            is_ours=self.is_ours,
            is_patient=self.is_patient,
            fell_back=self.fell_back,
        )
