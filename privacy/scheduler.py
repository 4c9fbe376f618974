"""When the sweep runs: APScheduler around it. In UTC, so that daylight saving neither skips nor repeats one.

A run that was missed is made up for at once, several as one; its memory forgets what was missed while the program was
down, so there is a run at start too. Which slot a run is for is worked out from the schedule, so that two processes that
sweep by the same rules sweep each slot once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.cron import CronTrigger

from privacy.errors import PrivacyError

_BACK = tuple(timedelta(days=d) for d in (1 / 24, 1, 8, 32, 370))


class BadSchedule(PrivacyError):
    """The cron expression of the sweep is none."""


def trigger(cron: str) -> CronTrigger:
    """The schedule of five cron fields, in UTC.

    Raises:
        BadSchedule: it is none.
    """
    try:
        return CronTrigger.from_crontab(cron, timezone=UTC)
    except ValueError as bad:
        raise BadSchedule(f"sweep: {cron!r}: {bad}") from None


def last_slot(cron: str, now: datetime) -> datetime:
    """The newest time of the schedule that is not in the future.

    Raises:
        BadSchedule: it is no schedule, or has no time within the last year.
    """
    times = trigger(cron)
    for back in _BACK:
        found: datetime | None = None
        at: datetime | None = times.get_next_fire_time(None, now - back)
        while at is not None and at <= now:
            found = at
            at = times.get_next_fire_time(at, at + timedelta(microseconds=1))
        if found is not None:
            return found.astimezone(UTC)
    raise BadSchedule(f"sweep: {cron!r}: never within a year")


def next_slot(cron: str, now: datetime) -> datetime | None:
    """The next time of the schedule."""
    found: datetime | None = trigger(cron).get_next_fire_time(None, now + timedelta(microseconds=1))
    return found.astimezone(UTC) if found else None


class SweepSchedule:
    """Calls a sweep at start and by its schedule, on the running event loop."""

    def __init__(self, cron: str, sweep: Callable[[], Awaitable[None]]) -> None:
        """A schedule that is not running yet.

        Args:
            cron: five fields, UTC.
            sweep: what is called; it must not raise, and no two run at once.

        Raises:
            BadSchedule: it is none.
        """
        self._scheduler = AsyncIOScheduler(timezone=UTC)
        options = {"coalesce": True, "misfire_grace_time": None, "max_instances": 1}
        self._scheduler.add_job(sweep, trigger(cron), id="sweep", **options)
        self._scheduler.add_job(sweep, "date", id="sweep at start", **options)

    def start(self) -> None:
        """From now on."""
        self._scheduler.start()

    @property
    def is_running(self) -> bool:
        """It will call again."""
        return bool(self._scheduler.running)

    def stop(self) -> None:
        """No more. A sweep that is under way is cancelled by its loop, and goes on at the next start."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)
