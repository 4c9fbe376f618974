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
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from privacy.errors import AuditBroken, StoreError
from privacy.store.files import empty_log, open_database

AUDIT = "audit.db"
START = "0" * 64
_SCHEMA = """
CREATE TABLE IF NOT EXISTS events (
  number INTEGER PRIMARY KEY, at TEXT NOT NULL, kind TEXT NOT NULL, subject TEXT NOT NULL, counts TEXT NOT NULL,
  before TEXT NOT NULL, hash TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS tombstones (mark TEXT PRIMARY KEY, at TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS own (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS events_kind ON events (kind, number);
CREATE TRIGGER IF NOT EXISTS events_stay BEFORE UPDATE ON events BEGIN SELECT raise(ABORT, 'append only'); END;
"""
_STAY = (
    "CREATE TRIGGER IF NOT EXISTS events_stay_too BEFORE DELETE ON events"
    " BEGIN SELECT raise(ABORT, 'append only'); END;"
)
PRUNED_TO, PRUNED_HASH = "log_pruned_to", "log_pruned_hash"


class EventKind(StrEnum):
    """What can be logged."""

    CONSENT = "consent"
    SESSION = "session"
    DECISION = "decision"
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
            self._db.executescript(_SCHEMA + _STAY)
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

    def newest(self, kind: EventKind, *, most: int = 1) -> list[AuditEvent]:
        """The newest entries of a kind, newest first."""
        rows = self._db.query(
            "SELECT * FROM events WHERE kind = ? ORDER BY number DESC LIMIT ?", [kind.value, most]
        )
        return [AuditEvent(**row) for row in list(rows)]

    def note_change(self, kind: EventKind, digest: str, *, at: datetime) -> bool:
        """Log a policy or a configuration that is another than at the last start; False where it is the same.

        Raises:
            AuditBroken: it could not be written.
        """
        last = self.newest(kind)
        if last and json.loads(last[0].counts).get("digest") == digest:
            return False
        self.append(kind, at=at, counts={"digest": digest})
        return True

    def verify(self, *, heads: Mapping[int, str] | None = None) -> int:
        """Walk the chain; the number of entries.

        Args:
            heads: hashes that somebody has seen before, by number.

        Raises:
            AuditBroken: an entry was changed, put in, taken out or moved, or a head that was seen is not there.
        """
        return verify_events(self.events(), heads=heads)

    def ages(self) -> Iterator[tuple[str, int]]:
        """When each entry was written, oldest first, with its number."""
        for row in self._db.query("SELECT at, number FROM events ORDER BY number"):
            yield row["at"], row["number"]

    def prune(self, number: int, *, at: datetime) -> int:
        """Delete the oldest entries up to one, whose time is up; how many.

        What the chain began with stands in an entry of its own, written first, so that the rest still verifies.

        Raises:
            AuditBroken: that entry could not be written, and nothing was deleted.
        """
        row = next(iter(self._db.query("SELECT hash FROM events WHERE number = ?", [number])), None)
        if row is None:
            return 0
        self.append(EventKind.PURGE, at=at, counts={PRUNED_TO: number, PRUNED_HASH: row["hash"]})
        with self._db.atomic():
            self._db.execute("DROP TRIGGER IF EXISTS events_stay_too")
            done = self._db.execute("DELETE FROM events WHERE number <= ?", [number]).rowcount
            self._db.execute(_STAY)
        return max(done, 0)

    def empty_log(self) -> bool:
        """Empty the write-ahead log; False where readers kept it busy."""
        return empty_log(self._db)

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


def from_json(raw: Mapping[str, Any]) -> AuditEvent:
    """An entry of an exported log.

    Raises:
        ValueError: a part is missing or of another kind.
    """
    try:
        return AuditEvent(
            number=int(raw["number"]), at=str(raw["at"]), kind=str(raw["kind"]), subject=str(raw["subject"]),
            counts=str(raw["counts"]), before=str(raw["before"]), hash=str(raw["hash"]),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError):
        raise ValueError("not an entry of a log") from None


def verify_events(events: Iterable[AuditEvent], *, heads: Mapping[int, str] | None = None) -> int:
    """Walk a chain; the number of entries. Needs no secret: SHA-256 over what stands there.

    Args:
        events: in the order of the log.
        heads: hashes that somebody has seen before, by number.

    Raises:
        AuditBroken: an entry was changed, put in, taken out or moved, or a head that was seen is not there; it says where.
    """
    before, count, first, last = START, 0, 1, 0
    hashes: dict[int, str] = {}
    pruned: dict[int, str] = {}
    for event in events:
        if count == 0 and event.number > 1:
            first, before = event.number, event.before
        count += 1
        expected = first + count - 1
        if event.number != expected:
            what = "is missing or was moved" if event.number > expected else "was put in or moved"
            raise AuditBroken(f"entry {expected} {what}: {event.number} stands in its place")
        if event.before != before:
            raise AuditBroken(
                f"entry {event.number} does not follow from the one before: it or its place was changed"
            )
        found = entry_hash(event.number, event.at, event.kind, event.subject, event.counts, event.before)
        if found != event.hash:
            raise AuditBroken(f"entry {event.number} was changed")
        hashes[event.number] = before = event.hash
        last = event.number
        if event.kind == EventKind.PURGE.value and PRUNED_TO in event.counts:
            told = json.loads(event.counts)
            pruned[int(told[PRUNED_TO])] = str(told[PRUNED_HASH])
        if count == 1 and first > 1:
            begins = event.before
    if first > 1 and pruned.get(first - 1) != begins:
        raise AuditBroken(f"entries 1 to {first - 1} are missing, and no entry says that their time was up")
    good = first - 1
    for number, seen in sorted((heads or {}).items()):
        if number < first:
            continue
        if number > last:
            raise AuditBroken(
                f"entry {number} was seen before and is not there: the log was cut after entry {last}, or an older copy put back"
            )
        if hashes.get(number) != seen:
            raise AuditBroken(
                f"entry {number} is another than was seen before: history was rewritten after entry {good}"
            )
        good = number
    return count


def write_head(path: Path, event: AuditEvent) -> None:
    """Add the newest entry's number, hash and time to a file of heads, and see it onto the disk.

    Raises:
        OSError: it cannot be written.
    """
    with os.fdopen(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600), "a") as out:
        out.write(f"{event.number} {event.hash} {event.at}\n")
        out.flush()
        os.fsync(out.fileno())


def read_heads(path: Path) -> dict[int, str]:
    """Heads by number, from a file of lines "number hash time".

    Raises:
        AuditBroken: a line is something else; it is named.
    """
    found: dict[int, str] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        parts = line.split()
        if not parts:
            continue
        if len(parts) < 2 or not parts[0].isdigit() or len(parts[1]) != 64:
            raise AuditBroken(f"{path}, line {number}: not a head (number, hash, time)")
        if found.get(int(parts[0]), parts[1]) != parts[1]:
            raise AuditBroken(f"{path}, line {number}: entry {parts[0]} was seen with another hash before")
        found[int(parts[0])] = parts[1]
    return found
