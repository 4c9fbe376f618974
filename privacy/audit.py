"""The audit log: what happened, never what was said. Append-only, each entry chained to the one before by SHA-256.

A plain chain needs no secret to verify: whoever holds an earlier head (the operator's file, the auditor's mail) sees any
edit, insertion, deletion, reordering, truncation or rollback since. Subjects appear as an HMAC under a key of their own,
which is destroyed with their data key, so that afterwards nobody can tell whose entries these were. An erasure also
leaves a tombstone under the deployment's own key, by which a restored backup knows whom it must forget again.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from privacy.errors import AuditBroken, StoreError
from privacy.store.files import open_database

AUDIT = "audit.db"
START = "0" * 64
_SCHEMA = """
CREATE TABLE IF NOT EXISTS events (
  number INTEGER PRIMARY KEY, at TEXT NOT NULL, kind TEXT NOT NULL, subject TEXT NOT NULL, counts TEXT NOT NULL,
  before TEXT NOT NULL, hash TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS tombstones (mark TEXT PRIMARY KEY, at TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS own (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TRIGGER IF NOT EXISTS events_stay BEFORE UPDATE ON events BEGIN SELECT raise(ABORT, 'append only'); END;
CREATE TRIGGER IF NOT EXISTS events_stay_too BEFORE DELETE ON events BEGIN SELECT raise(ABORT, 'append only'); END;
"""


class EventKind(StrEnum):
    """What can be logged."""

    CONSENT = "consent"
    SESSION = "session"
    OUTBOUND = "outbound"
    EXPORT = "export"
    CORRECTION = "correction"
    ERASURE_BEGUN = "erasure_begun"
    ERASURE = "erasure"
    KEYS = "keys"
    PURGE = "purge"
    ESCALATION = "escalation"
    ACCESS = "access"
    POLICY = "policy"
    CONFIGURATION = "configuration"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent:
    """One entry.

    Attributes:
        number: from 1.
        at: ISO time, UTC.
        kind: what happened.
        subject: HMAC of the pseudonym, "" where it concerns nobody.
        counts: numbers and fixed words, JSON.
        before: hash of the entry before.
        hash: of this one.
    """

    number: int
    at: str
    kind: str
    subject: str
    counts: str
    before: str
    hash: str


def entry_hash(  # noqa: PLR0917 (the order is the format)
    number: int, at: str, kind: str, subject: str, counts: str, before: str
) -> str:
    """SHA-256 over the parts of an entry, one a line."""
    return hashlib.sha256("\n".join((str(number), at, kind, subject, counts, before)).encode()).hexdigest()


class AuditLog:
    """The log of one deployment. One instance for one thread."""

    def __init__(self, directory: Path) -> None:
        """Open or create `audit.db`.

        Raises:
            AuditBroken: it cannot be opened.
        """
        try:
            self._db = open_database(directory / AUDIT)
            self._db.executescript(_SCHEMA)
            with self._db.atomic():
                self._db.execute("INSERT OR IGNORE INTO own VALUES ('mark_key', ?)", [secrets.token_hex(32)])
            row = next(iter(self._db.query("SELECT value FROM own WHERE name = 'mark_key'")))
        except (StoreError, OSError, StopIteration) as failed:
            raise AuditBroken(f"{directory / AUDIT}: cannot be used ({type(failed).__name__})") from None
        except Exception as failed:  # noqa: BLE001 (sqlite's own)
            raise AuditBroken(f"{directory / AUDIT}: cannot be used ({type(failed).__name__})") from None
        self._mark_key = bytes.fromhex(row["value"])

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def append(
        self,
        kind: EventKind,
        *,
        at: datetime,
        subject: str = "",
        key: bytes | None = None,
        counts: Mapping[str, int | str | bool] | None = None,
    ) -> AuditEvent:
        """One more entry, written before the act it records.

        Args:
            kind: what happens.
            at: aware UTC.
            subject: pseudonym; it is not stored.
            key: the subject's audit key.
            counts: numbers and fixed words, no text of anybody's.

        Raises:
            AuditBroken: it could not be written; what is destructive must not happen.
        """
        named = hmac.new(key, subject.encode(), hashlib.sha256).hexdigest() if subject and key else ""
        told = json.dumps(dict(counts or {}), sort_keys=True)
        try:
            self._db.execute("BEGIN IMMEDIATE")
            last = next(
                iter(self._db.query("SELECT number, hash FROM events ORDER BY number DESC LIMIT 1")), None
            )
            number, before = (last["number"] + 1, last["hash"]) if last else (1, START)
            made = AuditEvent(
                number=number, at=at.isoformat(), kind=kind.value, subject=named, counts=told, before=before,
                hash=entry_hash(number, at.isoformat(), kind.value, named, told, before),
            )  # fmt: skip
            self._db.execute(
                "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)",
                [made.number, made.at, made.kind, made.subject, made.counts, made.before, made.hash],
            )
            self._db.conn.commit()
        except Exception as failed:  # noqa: BLE001 (sqlite's own)
            self._db.conn.rollback()
            raise AuditBroken(f"{AUDIT}: an entry could not be written ({type(failed).__name__})") from None
        return made

    def events(self) -> Iterator[AuditEvent]:
        """Every entry, in order."""
        for row in self._db.query("SELECT * FROM events ORDER BY number"):
            yield AuditEvent(**row)

    def head(self) -> AuditEvent | None:
        """The newest entry."""
        row = next(iter(self._db.query("SELECT * FROM events ORDER BY number DESC LIMIT 1")), None)
        return AuditEvent(**row) if row else None

    def verify(self, *, heads: Mapping[int, str] | None = None) -> int:
        """Walk the chain; the number of entries.

        Args:
            heads: hashes that somebody has seen before, by number.

        Raises:
            AuditBroken: an entry was changed, put in, taken out or moved, or a head that was seen is not there.
        """
        before, count = START, 0
        hashes: dict[int, str] = {}
        for event in self.events():
            count += 1
            if event.number != count:
                raise AuditBroken(f"entry {count} is missing: {event.number} stands in its place")
            if event.before != before:
                raise AuditBroken(f"entry {event.number} does not follow from the one before")
            found = entry_hash(event.number, event.at, event.kind, event.subject, event.counts, event.before)
            if found != event.hash:
                raise AuditBroken(f"entry {event.number} was changed")
            hashes[event.number] = before = event.hash
        for number, seen in sorted((heads or {}).items()):
            if hashes.get(number) != seen:
                raise AuditBroken(
                    f"entry {number} is not the one that was seen before: history was cut or rewritten"
                )
        return count

    # ------------------------------------------------------------------------------------------- tombstones

    def _mark(self, subject: str) -> str:
        return hmac.new(self._mark_key, subject.encode(), hashlib.sha256).hexdigest()

    def bury(self, subject: str, *, at: datetime) -> None:
        """Remember that this pseudonym was erased, in a form that says so of no other."""
        with self._db.atomic():
            self._db.execute(
                "INSERT OR REPLACE INTO tombstones VALUES (?, ?)", [self._mark(subject), at.isoformat()]
            )

    def was_erased(self, subject: str) -> bool:
        """Whether it was."""
        found = self._db.query("SELECT 1 AS yes FROM tombstones WHERE mark = ?", [self._mark(subject)])
        return next(iter(found), None) is not None


def as_json(event: AuditEvent) -> dict[str, Any]:
    """An entry for an exported log, one JSON object a line."""
    return {
        "number": event.number, "at": event.at, "kind": event.kind, "subject": event.subject, "counts": event.counts,
        "before": event.before, "hash": event.hash,
    }  # fmt: skip
