"""The sweep as the running chat does it: by its schedule, beside people who chat; and the log's heads handed out after it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from bot.escalation import Webhook, signed
from bot.keeping import Keeping
from bot.settings import Settings
from privacy.audit import AuditEvent, write_head
from privacy.lease import SweepBusy
from privacy.scheduler import last_slot

HEADS = "audit-heads.txt"
AGAIN_SECONDS = 30.0
TRIES = 120
"""A store that is busy for an hour is waited out."""
JUMP = timedelta(days=1)
"""A wall clock that has run ahead of the time that passed by more than this is not believed: it would delete what is not due."""

log = logging.getLogger("raise.sweeping")


@dataclass(frozen=True, slots=True, kw_only=True)
class Heads:
    """Where the newest entry of the audit log goes, so that its operator cannot rewrite what others have seen.

    Attributes:
        file: lines are added to it.
        webhook: it is sent there too, signed; None where none is set.
    """

    file: Path
    webhook: Webhook | None = None

    @classmethod
    def of(cls, settings: Settings) -> Heads:
        """As the settings say.

        Raises:
            SettingsError: the webhook would go out unencrypted or unsigned.
        """
        hook = signed(
            settings.audit_webhook,
            settings.audit_webhook_secret,
            name="RAISE_AUDIT_WEBHOOK",
            key="RAISE_AUDIT_WEBHOOK_SECRET",
        )
        return cls(file=settings.audit_heads_file or settings.data_dir / HEADS, webhook=hook)

    def publish(self, event: AuditEvent) -> None:
        """Write and send it; where either fails the log says so, and the next one is tried."""
        try:
            write_head(self.file, event)
        except OSError as failed:
            log.error("the head of the audit log was not written: %s", type(failed).__name__)
        if self.webhook is None:
            return
        try:
            self.webhook.send({"number": str(event.number), "hash": event.hash, "at": event.at})
        except Exception as failed:  # noqa: BLE001 (the next head holds all that this one does)
            log.error("the head of the audit log was not delivered: %s", type(failed).__name__)


class Sweeper:
    """Sweeps for the newest slot of the schedule, and hands out the log's head afterwards."""

    def __init__(
        self,
        keeping: Keeping,
        heads: Heads,
        *,
        passed: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
        again: float = AGAIN_SECONDS,
    ) -> None:
        """A sweeper for one deployment.

        Args:
            keeping: its memory.
            heads: where the log's head goes.
            passed: seconds that have passed, whatever is done to the clock; sleep of the machine included.
            again: seconds after which a sweep that failed is tried again.
        """
        self._keeping, self._heads, self._passed, self._again = keeping, heads, passed, again
        self._began, self._began_passed = keeping.now(), passed()
        self._one_at_a_time = asyncio.Lock()
        self._running: set[asyncio.Task[None]] = set()

    async def sweep(self) -> None:
        """One scheduled sweep; whatever fails is logged, and made up for at the next."""
        task = asyncio.current_task()
        if task is not None:
            self._running.add(task)
        try:
            async with self._one_at_a_time:
                await self._sweep()
        finally:
            if task is not None:
                self._running.discard(task)

    async def stop(self) -> None:
        """Cut what is under way."""
        running = set(self._running)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=5.0)

    async def _sweep(self) -> None:
        keeping = self._keeping
        ahead = keeping.now() - self._began - timedelta(seconds=self._passed() - self._began_passed)
        if ahead > JUMP:
            log.error(
                "the clock has run %d hours ahead of the time that passed: nothing is deleted until the program is started"
                " again, or 'raise-chat privacy purge' is run",
                ahead.total_seconds() // 3600,
            )
            return
        slots = [last_slot(keeping.rules.sweep, keeping.now()).isoformat()]
        if keeping.redated:
            slots.append(f"other rules {keeping.now().isoformat()}")
        for slot in slots:
            if not await self._swept(slot):
                return
        keeping.redated = 0
        head = await keeping.run(keeping.audit.head)
        if head is not None:
            await asyncio.to_thread(self._heads.publish, head)

    async def _swept(self, slot: str) -> bool:
        """Sweep for one slot, again and again where the store fails; False where it cannot be done now."""
        for _ in range(TRIES):
            try:
                done, _ = await self._keeping.sweep(slot)
            except SweepBusy:
                log.info("another process sweeps")
                return False
            except Exception as failed:  # noqa: BLE001 (what failed must not keep the next sweep from being tried)
                log.error("a sweep was cut: %s", type(failed).__name__)
                await asyncio.sleep(self._again)
                continue
            for report in done:
                log.info(
                    "swept: %d rows, %d keys, %d files, %d held back",
                    sum(report.deleted.values()), report.keys, report.files, report.held_back,
                )  # fmt: skip
                if not report.is_clean:
                    log.error("after a sweep something is left: 'raise-chat privacy audit' says what")
            return True
        return False
