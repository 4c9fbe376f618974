"""A model's opinion on risk, asked in parallel: it can raise the level, never lower it, and its absence is not felt.

The rules decide alone when the model is off, slow, wrong or talked round. An opinion that comes too late for its own
turn counts on the next one.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from typing import Protocol

from bot.models.usage import Budget
from bot.risk.verdict import RiskLevel, Verdict

OPINION_SECONDS = 1.5
"""After the message came in, how long a turn may wait for the opinion."""

log = logging.getLogger("raise.risk")


class Opinion(Protocol):
    """A model asked for the risk level of one message."""

    async def __call__(self, text: str, budget: Budget) -> RiskLevel | str:
        """The level. Anything that is no level counts as no opinion."""
        ...


@dataclass(slots=True)
class Second:
    """The opinion on one message, and what is left of the one before.

    Attributes:
        task: under way or done; None where no model is configured.
        due: loop time after which the turn goes on without it.
        before: the task of the turn before, where it was still under way.
    """

    task: asyncio.Task[RiskLevel] | None = None
    due: float = 0.0
    before: asyncio.Task[RiskLevel] | None = None

    @classmethod
    def asked(
        cls, opinion: Opinion | None, text: str, *, before: Second, budget: Budget, patience: float = 1.0
    ) -> Second:
        """Start asking; the opinion runs beside everything else."""
        if opinion is None:
            return cls()
        loop = asyncio.get_running_loop()
        left = before.task if before.task is not None and not before.used() else None
        if before.before is not None:
            before.before.cancel()
        return cls(
            task=loop.create_task(_level(opinion, text, budget)),
            due=loop.time() + OPINION_SECONDS * patience,
            before=left,
        )

    def cancel(self) -> None:
        """Nobody is there any more to whom it would matter."""
        for task in (self.task, self.before):
            if task is not None:
                task.cancel()

    def used(self) -> bool:
        """Its turn had it in time."""
        return self.due == 0.0

    async def raised(self, verdict: Verdict) -> Verdict:
        """The verdict, raised where the opinion came in time and is graver."""
        if self.task is None:
            return verdict
        left = self.due - asyncio.get_running_loop().time()
        done, _ = await asyncio.wait({self.task}, timeout=max(0.0, left))
        if self.task.cancelled():
            return verdict
        if not done:
            log.error("opinion on risk not within %.1f s", OPINION_SECONDS)
            return verdict
        self.due = 0.0
        return _graver(verdict, self.task.result(), "opinion of the model")

    def late(self, verdict: Verdict) -> Verdict:
        """The verdict, raised where the opinion on the message before has come since."""
        if self.before is None or not self.before.done() or self.before.cancelled():
            return verdict
        level, self.before = self.before.result(), None
        return _graver(verdict, level, "opinion of the model on the message before")


async def _level(opinion: Opinion, text: str, budget: Budget) -> RiskLevel:
    try:
        return RiskLevel(await opinion(text, budget))
    except ValueError:
        log.error("opinion on risk is no level")
    except Exception as failed:  # noqa: BLE001 (any failure of a model is no opinion)
        log.error("opinion on risk failed: %s", type(failed).__name__)
    return RiskLevel.NONE


def _graver(verdict: Verdict, level: RiskLevel, why: str) -> Verdict:
    if level.rank <= verdict.level.rank:
        return verdict
    return replace(verdict, level=level, rules=(*verdict.rules, f"opinion-{level.value}"), why=why)
