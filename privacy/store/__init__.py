"""The SQLite file and every query on it.

So far it keeps what needs no consent, as it names nobody: counts of referrals, and the notices that an on-call contact
was sent (a pseudonym, a level and times; never a word of what was written).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlite_utils import Database

VERSION = 1
BUSY_SECONDS = 2.0
NAME = "raise.db"

_SCHEMA = """
CREATE TABLE IF NOT EXISTS referrals (
  month TEXT NOT NULL, level TEXT NOT NULL, category TEXT NOT NULL, country TEXT NOT NULL, count INTEGER NOT NULL,
  PRIMARY KEY (month, level, category, country)
);
CREATE TABLE IF NOT EXISTS escalations (
  id INTEGER PRIMARY KEY, person TEXT NOT NULL, level TEXT NOT NULL, raised_at TEXT NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0, next_try TEXT, delivered_at TEXT,
  acknowledged_at TEXT, acknowledged_by TEXT, action TEXT, closed_at TEXT, closed_by TEXT, outcome TEXT
);
CREATE INDEX IF NOT EXISTS escalations_due ON escalations (next_try) WHERE next_try IS NOT NULL;
"""


class StoreError(Exception):
    """The store cannot be opened or used; the message names the file and what to do, never its content."""


class Store:
    """One connection, for one thread. Times are aware UTC; they are stored as ISO 8601 text."""

    def __init__(self, directory: Path) -> None:
        """Open or create the file.

        Raises:
            StoreError: it cannot be opened, or a newer release made it.
        """
        path = directory / NAME
        try:
            found = self._open(path)
        except Exception as failed:  # noqa: BLE001 (sqlite names values in some of its messages)
            raise StoreError(f"{path}: cannot be opened ({type(failed).__name__})") from None
        if found > VERSION:
            self.close()
            raise StoreError(f"{path}: made by a newer release (version {found}); use that release")

    def _open(self, path: Path) -> int:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        self._db = Database(path)
        self._pragma(f"busy_timeout = {int(BUSY_SECONDS * 1000)}")
        self._pragma("journal_mode = WAL")
        self._pragma("secure_delete = ON")
        self._pragma("foreign_keys = ON")
        found = int(self._one("PRAGMA user_version")["user_version"])
        if found < VERSION:
            self._db.conn.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")
        return found

    def close(self) -> None:
        """Close the connection."""
        self._db.close()

    def _pragma(self, setting: str) -> None:
        self._db.execute(f"PRAGMA {setting}").fetchall()

    def _one(self, sql: str, parameters: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return next(iter(self._db.query(sql, dict(parameters or {}))), {})

    # ------------------------------------------------------------------------------------------- referrals

    def count_referral(self, *, month: str, level: str, category: str, country: str) -> None:
        """One more crisis referral shown. No identifier, no day, no hour.

        Args:
            month: "2026-11".
            level: elevated or imminent.
            category: the kind of danger, "unclear" where none was found.
            country: ISO code, "" where it is not known.
        """
        with self._db.atomic():
            self._db.execute(
                "INSERT INTO referrals VALUES (:month, :level, :category, :country, 1)"
                " ON CONFLICT DO UPDATE SET count = count + 1",
                {"month": month, "level": level, "category": category, "country": country},
            )

    def referrals(self, year: int) -> list[dict[str, Any]]:
        """Rows of month, level, category, country and count of one year."""
        return list(
            self._db.query(
                "SELECT * FROM referrals WHERE month LIKE :year ORDER BY month, level, category, country",
                {"year": f"{year:04d}-%"},
            )
        )

    # ------------------------------------------------------------------------------------------- escalations

    def open_escalation(self, *, person: str, level: str, at: datetime, again_after: timedelta) -> int | None:
        """A notice to be sent; None where one for this person and level was raised lately and nobody closed it."""
        since = (at - again_after).isoformat()
        with self._db.atomic():
            # The write comes first: a read that turns into a write fails at once beside another writer.
            made = self._db.execute(
                "INSERT INTO escalations (person, level, raised_at, next_try)"
                " SELECT :person, :level, :at, :at WHERE NOT EXISTS (SELECT 1 FROM escalations"
                " WHERE person = :person AND level = :level AND raised_at > :since AND closed_at IS NULL)",
                {"person": person, "level": level, "at": at.isoformat(), "since": since},
            )
            return int(made.lastrowid) if made.rowcount and made.lastrowid else None

    def due(self, at: datetime) -> list[dict[str, Any]]:
        """Notices to be tried now, oldest first."""
        return list(
            self._db.query(
                "SELECT * FROM escalations WHERE next_try <= :at ORDER BY id", {"at": at.isoformat()}
            )
        )

    def tried(self, number: int, *, delivered_at: datetime | None, next_try: datetime | None) -> None:
        """One attempt was made."""
        with self._db.atomic():
            self._db.execute(
                "UPDATE escalations SET attempts = attempts + 1, delivered_at = coalesce(:done, delivered_at),"
                " next_try = :next WHERE id = :id",
                {
                    "id": number,
                    "done": delivered_at and delivered_at.isoformat(),
                    "next": next_try and next_try.isoformat(),
                },
            )

    def acknowledge(self, number: int, *, by: str, action: str, at: datetime) -> bool:
        """Someone has taken it on; False where there is no such notice or it was taken on before."""
        with self._db.atomic():
            done = self._db.execute(
                "UPDATE escalations SET acknowledged_at = :at, acknowledged_by = :by, action = :action, next_try = NULL"
                " WHERE id = :id AND acknowledged_at IS NULL",
                {"id": number, "by": by, "action": action, "at": at.isoformat()},
            )
            return bool(done.rowcount)

    def close_escalation(self, number: int, *, by: str, outcome: str, at: datetime) -> bool:
        """The adverse event is closed; False where it is not open or nobody acknowledged it."""
        with self._db.atomic():
            done = self._db.execute(
                "UPDATE escalations SET closed_at = :at, closed_by = :by, outcome = :outcome"
                " WHERE id = :id AND acknowledged_at IS NOT NULL AND closed_at IS NULL",
                {"id": number, "by": by, "outcome": outcome, "at": at.isoformat()},
            )
            return bool(done.rowcount)

    def escalations(self, *, open_only: bool) -> list[dict[str, Any]]:
        """All notices, or those not closed, oldest first."""
        where = " WHERE closed_at IS NULL" if open_only else ""
        return list(self._db.query(f"SELECT * FROM escalations{where} ORDER BY id"))  # noqa: S608 (a constant)


def utc_now() -> datetime:
    """The time, aware UTC."""
    return datetime.now(UTC)
