"""Who may sweep: one process at a time, by a row in the database that is taken over only from one that is dead."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from sqlite_utils import Database

from privacy.errors import PrivacyError

LEASE: Final = "sweep"
LEASE_SECONDS: Final = 120


class SweepBusy(PrivacyError):
    """Another process is sweeping."""


def _place() -> str:
    """Where process numbers mean the same: this boot, this namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        space = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return os.uname().nodename
    return f"{boot} {space}"


def _born(pid: int) -> str:
    """When a process began, in ticks since the boot; "" where there is none."""
    try:
        return (
            Path(f"/proc/{pid}/stat")
            .read_text(encoding="ascii", errors="replace")
            .rsplit(")", 1)[1]
            .split()[19]
        )
    except (OSError, IndexError):
        return ""


def _is_dead(lease: Mapping[str, Any], now: datetime) -> bool:
    """Whether its holder is gone: by its process where that can be told, by its time otherwise."""
    if lease["place"] == _place() and Path("/proc/self/stat").exists():
        return _born(lease["pid"]) != str(lease["owner"]).split(" ")[1]
    return str(lease["until"]) <= now.isoformat()


class Lease:
    """The right to sweep, held in the database."""

    def __init__(self, db: Database, clock: Callable[[], datetime]) -> None:
        self._db, self._clock = db, clock
        pid = os.getpid()
        self.owner = f"{pid} {_born(pid)} {os.urandom(6).hex()}"

    def take(self) -> None:
        """Take it.

        Raises:
            SweepBusy: somebody who is alive holds it.
        """
        now = self._clock()
        held = next(iter(self._db.query("SELECT * FROM leases WHERE name = ?", [LEASE])), None)
        if held is not None and not _is_dead(held, now):
            raise SweepBusy("another process is sweeping")
        with self._db.atomic():
            if held is not None:
                self._db.execute("DELETE FROM leases WHERE name = ? AND owner = ?", [LEASE, held["owner"]])
            done = self._db.execute(
                "INSERT OR IGNORE INTO leases VALUES (?, ?, ?, ?, ?)",
                [LEASE, self.owner, _place(), os.getpid(), self._until(now)],
            )
        if not done.rowcount:
            raise SweepBusy("another process is sweeping")

    def renew(self) -> None:
        """Hold it for longer; within a transaction, as its first statement.

        Raises:
            SweepBusy: it was taken.
        """
        done = self._db.execute(
            "UPDATE leases SET until = ? WHERE name = ? AND owner = ?",
            [self._until(self._clock()), LEASE, self.owner],
        )
        if not done.rowcount:
            raise SweepBusy("another process has taken the sweep over")

    def give_back(self) -> None:
        """Let another take it."""
        with self._db.atomic():
            self._db.execute("DELETE FROM leases WHERE name = ? AND owner = ?", [LEASE, self.owner])

    @staticmethod
    def _until(now: datetime) -> str:
        return (now + timedelta(seconds=LEASE_SECONDS)).isoformat()
