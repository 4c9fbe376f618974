"""Whether a running deployment is fit to serve, part by part: for /readyz, the operator's page and the monitor."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from bot.keeping import Keeping
from bot.parts import Parts
from privacy.retention import reports
from privacy.scheduler import SweepSchedule, last_slot, next_slot
from privacy.store import figures

if TYPE_CHECKING:
    from bot.models.openai_api import Endpoint

CHECK_SECONDS = 3.0
LEAST_FREE = 200_000_000
"""Bytes that must be free on the disk: beneath, what people agreed to have kept may not be."""
LATE = timedelta(minutes=30)
"""A sweep may end so long after its slot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of the deployment.

    Attributes:
        name: of it.
        is_well: whether it works.
        told: in words and numbers, nobody's data.
        is_needed: without it nobody should be sent here.
    """

    name: str
    is_well: bool
    told: str
    is_needed: bool = True


async def look(
    keeping: Keeping, parts: Parts, schedule: SweepSchedule | None, *, began: datetime
) -> list[Part]:
    """Every part, looked at now.

    Args:
        keeping: the deployment's memory.
        parts: of its conversations.
        schedule: of the sweep.
        began: when the program started, aware UTC.
    """
    checks: list[tuple[str, bool, Callable[[], Awaitable[tuple[bool, str]]]]] = [
        ("store", True, lambda: _store(keeping)),
        ("audit log", True, lambda: _audit(keeping)),
        ("keys", True, lambda: _keys(keeping)),
        ("scheduler", True, lambda: _scheduler(keeping, schedule, began)),
        ("redaction", True, lambda: _redaction(parts)),
        ("model", False, lambda: _model(parts.endpoint)),
        ("disk", True, lambda: _disk(keeping)),
    ]
    return [await _looked(name, is_needed, check) for name, is_needed, check in checks]


async def _looked(name: str, is_needed: bool, check: Callable[[], Awaitable[tuple[bool, str]]]) -> Part:
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            is_well, told = await check()
    except TimeoutError:
        is_well, told = False, f"no answer within {CHECK_SECONDS:.0f} s"
    except Exception as failed:  # noqa: BLE001 (what fails is what is asked here)
        is_well, told = False, type(failed).__name__
    return Part(name=name, is_well=is_well, told=told, is_needed=is_needed)


async def _store(keeping: Keeping) -> tuple[bool, str]:
    def work() -> str:
        figures.can_write(keeping.store)
        return f"version {figures.version(keeping.store)} of the tables"

    return True, await keeping.run(work)


async def _audit(keeping: Keeping) -> tuple[bool, str]:
    head = await keeping.run(keeping.audit.head)
    return True, f"{head.number:,} entries" if head else "empty"


async def _keys(keeping: Keeping) -> tuple[bool, str]:
    count = await keeping.run(lambda: sum(1 for _ in keeping.vault.subjects()))
    return True, f"{count:,} data keys"


async def _scheduler(keeping: Keeping, schedule: SweepSchedule | None, began: datetime) -> tuple[bool, str]:
    last = await keeping.run(lambda: next(iter(reports(keeping.store, most=1)), None))
    now = keeping.now()
    following = next_slot(keeping.rules.sweep, now)
    ended = datetime.fromisoformat(last.finished_at) if last and last.finished_at else None
    told = f"last purge {_minute(ended) if ended else 'not yet'}, next {_minute(following) if following else 'never'}"
    is_late = now - last_slot(keeping.rules.sweep, now) > LATE and now - began > LATE
    is_late = is_late and (ended is None or ended < last_slot(keeping.rules.sweep, now))
    is_running = schedule is not None and schedule.is_running
    return is_running and not is_late, told + ("; LATE" if is_late else "")


def _minute(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M UTC")


async def _redaction(parts: Parts) -> tuple[bool, str]:
    if parts.detector is None:
        return True, "nothing is kept or sent"
    found = await parts.detector.redact("My name is Alice Example.")
    return bool(found.spans), "finds a name" if found.spans else "it did not find a name that it knows"


async def _model(endpoint: Endpoint | None) -> tuple[bool, str]:
    if endpoint is None:
        return True, "built-in"
    failed = sum(endpoint.failed.values())
    calls = sum(usage.calls for usage in endpoint.usage.values())
    told = f"{calls:,} calls, {failed:,} without an answer"
    if endpoint.breaker.is_open:
        return False, f"{told}; left alone after failures, the built-in model speaks"
    return True, told


async def _disk(keeping: Keeping) -> tuple[bool, str]:
    usage = shutil.disk_usage(keeping.directory)
    own = sum(p.stat().st_size for p in keeping.directory.rglob("*") if p.is_file())
    told = f"{usage.free / 1e9:.1f} GB free of {usage.total / 1e9:.1f}; ours {own / 1e6:.1f} MB"
    return usage.free > LEAST_FREE, told
