"""The SQLite file `study.db`, and the queries that need nobody's consent.

Those are counts of referrals, and the notices that an on-call contact was sent (a pseudonym, a level and times; never a
word of what was written). What belongs to a person is in `privacy.store.records`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from privacy.errors import StoreError
from privacy.store.files import checkpoint, open_database
from privacy.store.schema import BACKWARDS, LOST_BACKWARDS, MIGRATIONS

NAME = "study.db"
EARLIER_NAME = "raise.db"
"""Of releases before there were participants."""
VERSION = len(MIGRATIONS)


class Store:
    """One connection, for one thread. Times are aware UTC; they are stored as ISO 8601 text."""

    def __init__(self, directory: Path) -> None:
        """Open or create the file.

        Raises:
            StoreError: it cannot be opened, or a newer release made it.
        """
        path = directory / NAME
        earlier = directory / EARLIER_NAME
        if earlier.exists() and not path.exists():
            earlier.rename(path)
        self.db: Database = open_database(path)
        try:
            self._migrate(path)
        except StoreError:
            self.close()
            raise

    def _migrate(self, path: Path) -> None:
        """Bring the tables to this release's version, one step a transaction.

        Raises:
            StoreError: a newer release made the file, or a step failed; the steps before it stand.
        """
        found = int(self._one("PRAGMA user_version")["user_version"])
        if found > VERSION:
            raise StoreError(f"{path}: made by a newer release (version {found}); use that release")
        for number, script in enumerate(MIGRATIONS[found:], found + 1):
            self._step(
                script, before=number - 1, makes=number, failing=f"{path}: step {number} of the tables failed"
            )

    def _step(self, script: str, *, before: int, makes: int, failing: str) -> None:
        """One step of the tables, forwards or back, in a transaction; nothing where another process has made it meanwhile.

        Raises:
            StoreError: it failed, and changed nothing.
        """
        try:
            self.db.conn.execute("BEGIN IMMEDIATE")
            if (
                int(self._one("PRAGMA user_version")["user_version"]) == before
            ):  # looked at again, with the lock held
                for statement in filter(str.strip, script.split(";")):
                    self.db.conn.execute(statement)
                self.db.conn.execute(f"PRAGMA user_version = {makes}")
            self.db.conn.commit()
        except Exception as failed:  # noqa: BLE001 (sqlite names values in some of its messages)
            self.db.conn.rollback()
            raise StoreError(f"{failing} ({type(failed).__name__})") from None

    @staticmethod
    def version_of(path: Path) -> int:
        """The version of the tables in a file, which is not changed.

        Raises:
            StoreError: it cannot be read.
        """
        try:
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as found:
                return int(found.execute("PRAGMA user_version").fetchone()[0])
        except sqlite3.Error as failed:
            raise StoreError(f"{path}: cannot be read ({type(failed).__name__})") from None

    def lost(self, to: int) -> dict[str, int]:
        """What going back to an earlier version of the tables would lose, with how many."""
        found = int(self._one("PRAGMA user_version")["user_version"])
        asked = {
            w: sql for number in range(to + 1, found + 1) for w, sql in LOST_BACKWARDS.get(number, {}).items()
        }
        counts = {what: int(self.db.execute(sql).fetchone()[0]) for what, sql in asked.items()}
        return {what: count for what, count in counts.items() if count}

    def roll_back(self, to: int) -> None:
        """Bring the tables to an earlier version, one step a transaction; the file is then the earlier release's.

        Raises:
            StoreError: a step cannot be taken back, or failed; the steps before it stand.
        """
        found = int(self._one("PRAGMA user_version")["user_version"])
        for number in range(found, to, -1):
            if number not in BACKWARDS:
                raise StoreError(
                    f"{NAME}: step {number} of the tables cannot be taken back; restore a backup"
                )
            failing = f"{NAME}: step {number} was not taken back"
            self._step(BACKWARDS[number], before=number, makes=number - 1, failing=failing)
        checkpoint(self.db)

    def own(self, name: str) -> str | None:
        """A note of the deployment's own."""
        row = self._one("SELECT value FROM own WHERE name = :name", {"name": name})
        return row.get("value")

    def set_own(self, name: str, value: str | None) -> None:
        """Write a note of the deployment's own, or take it away; nobody's personal data."""
        with self.db.atomic():
            if value is None:
                self.db.execute("DELETE FROM own WHERE name = ?", [name])
            else:
                self.db.execute("INSERT OR REPLACE INTO own VALUES (?, ?)", [name, value])

    def close(self) -> None:
        """Close the connection."""
        self.db.close()

    def _one(self, sql: str, parameters: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return next(iter(self.db.query(sql, dict(parameters or {}))), {})

    def newest(self) -> datetime | None:
        """The newest time that anything was written, as far as participants and sweeps tell."""
        row = self._one(
            "SELECT max(at) AS at FROM (SELECT max(last_at) AS at FROM participants"
            " UNION ALL SELECT max(as_of) FROM sweeps)"
        )
        return datetime.fromisoformat(row["at"]) if row.get("at") else None

    # ------------------------------------------------------------------------------------------- referrals

    def count_referral(self, *, month: str, level: str, category: str, country: str) -> None:
        """One more crisis referral shown. No identifier, no day, no hour.

        Args:
            month: "2026-11".
            level: elevated or imminent.
            category: the kind of danger, "unclear" where none was found.
            country: ISO code, "" where it is not known.
        """
        with self.db.atomic():
            self.db.execute(
                "INSERT INTO referrals VALUES (:month, :level, :category, :country, 1)"
                " ON CONFLICT DO UPDATE SET count = count + 1",
                {"month": month, "level": level, "category": category, "country": country},
            )

    def referrals(self, year: int) -> list[dict[str, Any]]:
        """Rows of month, level, category, country and count of one year."""
        return list(
            self.db.query(
                "SELECT * FROM referrals WHERE month LIKE :year ORDER BY month, level, category, country",
                {"year": f"{year:04d}-%"},
            )
        )

    # ------------------------------------------------------------------------------------------- escalations

    def open_escalation(
        self, *, person: str, level: str, at: datetime, again_after: timedelta, until: datetime
    ) -> int | None:
        """A notice to be sent; None where one for this person and level was raised lately and nobody closed it.

        Args:
            person: pseudonym.
            level: that was reached.
            at: when, aware UTC.
            again_after: within this time one open notice is enough.
            until: when the record of it goes.
        """
        since = (at - again_after).isoformat()
        with self.db.atomic():
            # The write comes first: a read that turns into a write fails at once beside another writer.
            made = self.db.execute(
                "INSERT INTO escalations (person, level, raised_at, next_try, expires_at)"
                " SELECT :person, :level, :at, :at, :until WHERE NOT EXISTS (SELECT 1 FROM escalations"
                " WHERE person = :person AND level = :level AND raised_at > :since AND closed_at IS NULL)",
                {
                    "person": person, "level": level, "at": at.isoformat(), "since": since, "until": until.isoformat(),
                },
            )  # fmt: skip
            return int(made.lastrowid) if made.rowcount and made.lastrowid else None

    def due(self, at: datetime) -> list[dict[str, Any]]:
        """Notices to be tried now, oldest first."""
        return list(
            self.db.query(
                "SELECT * FROM escalations WHERE next_try <= :at AND expires_at > :at ORDER BY id",
                {"at": at.isoformat()},
            )
        )

    def tried(self, number: int, *, delivered_at: datetime | None, next_try: datetime | None) -> None:
        """One attempt was made."""
        with self.db.atomic():
            self.db.execute(
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
        with self.db.atomic():
            done = self.db.execute(
                "UPDATE escalations SET acknowledged_at = :at, acknowledged_by = :by, action = :action, next_try = NULL"
                " WHERE id = :id AND acknowledged_at IS NULL",
                {"id": number, "by": by, "action": action, "at": at.isoformat()},
            )
            return bool(done.rowcount)

    def close_escalation(self, number: int, *, by: str, outcome: str, at: datetime) -> bool:
        """The adverse event is closed; False where it is not open or nobody acknowledged it."""
        with self.db.atomic():
            done = self.db.execute(
                "UPDATE escalations SET closed_at = :at, closed_by = :by, outcome = :outcome"
                " WHERE id = :id AND acknowledged_at IS NOT NULL AND closed_at IS NULL",
                {"id": number, "by": by, "outcome": outcome, "at": at.isoformat()},
            )
            return bool(done.rowcount)

    def escalations(self, *, open_only: bool, at: datetime | None = None) -> list[dict[str, Any]]:
        """All notices whose time is not up, or those not closed, oldest first."""
        where = " AND closed_at IS NULL" if open_only else ""
        return list(
            self.db.query(
                f"SELECT * FROM escalations WHERE expires_at > ?{where} ORDER BY id",  # noqa: S608 (a constant)
                [(at or utc_now()).isoformat()],
            )
        )


def utc_now() -> datetime:
    """The time, aware UTC."""
    return datetime.now(UTC)


__all__ = ["EARLIER_NAME", "NAME", "VERSION", "Store", "StoreError", "utc_now"]
