"""The retention sweep: what has expired is deleted, in small steps, by one process, and reported.

Nothing here decides what may be read: every query leaves out what has expired, from that second on. The sweep takes away
what nobody can read any more. It goes by expiry, a short transaction at a time, so that people who are chatting do not
wait; it can be cut anywhere and goes on where it was; a lease in the database keeps a second process out, and is taken
over only from one that is dead. What is to happen is in the audit log first: where that cannot be written, nothing goes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from pathlib import Path
from typing import Any, Final

from sqlite_utils import Database

from privacy.audit import AuditLog, EventKind
from privacy.errors import PrivacyError, StoreError
from privacy.lease import Lease
from privacy.rights import Rights
from privacy.store import NAME, Store
from privacy.store.files import empty_log, open_database
from privacy.store.lifetimes import Rules
from privacy.store.records import Records, row_name
from privacy.store.schema import COLLECTED, PERSONAL, TABLES, TALLIED
from privacy.vault import Vault

STEP_SECONDS, GENTLE_SECONDS = 0.05, 0.02
"""What one step may take of the thread that the chat uses too; and while somebody chats. Long steps cost less in all, as
rows of many people share pages, which each step writes."""
LONG_LOG: Final = 64_000_000
"""Bytes of the write-ahead log after which it is shortened on the way."""
FEWEST, FIRST, MOST = 20, 200, 10_000
CACHE_KIB: Final = 64_000
"""Rows a step."""
KEY_GRACE: Final = timedelta(hours=1)
"""A key younger than this may belong to somebody whose first row is on its way."""
SCANNED_BYTES: Final = 16_000_000
"""Up to so much the files are read for residue within the sweep; beyond, `raise-chat privacy residue` does."""
FOLDERS: Final[Mapping[str, str]] = {"exports": "exports", "logs": "logs", "uploads": "uploads"}
"""Folders of the data directory, by category."""
_SWEPT = (*reversed(PERSONAL[1:]), "holds", "participants")


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """One thing whose time is up.

    Attributes:
        table: of the row; "keys", "files" or "audit" for what is no row.
        name: of it: an id, a pseudonym or a file name, never content.
        category: of its rule.
        expired_at: ISO time.
    """

    table: str
    name: str
    category: str
    expired_at: str


@dataclass(slots=True, kw_only=True)
class SweepReport:
    """What one sweep did.

    Attributes:
        slot: the scheduled time it was for, or a name of its own where an operator asked for it.
        as_of: what had expired by then was due.
        started_at: ISO time.
        finished_at: ISO time, or None while it runs.
        deleted: rows by category.
        tallied: rows that left counts behind, by category.
        keys: data keys destroyed, as nothing is held of their person.
        files: files deleted.
        log_entries: entries of the audit log that were older than its rule.
        held_back: expired rows that a legal hold keeps; nobody can read them.
        left: expired rows that are there all the same; 0, or the sweep failed.
        wal_bytes: 0 once the write-ahead logs, which hold what was deleted, were emptied; else their size.
        residue: files in which sealed values of no living row were found; None where it was not looked for.
        resumed: how many times it was cut and went on.
        steps: how many there were.
        longest_ms: the longest of them, in milliseconds.
    """

    slot: str
    as_of: str
    started_at: str
    finished_at: str | None = None
    deleted: dict[str, int] = field(default_factory=dict)
    tallied: dict[str, int] = field(default_factory=dict)
    keys: int = 0
    files: int = 0
    log_entries: int = 0
    held_back: int = 0
    left: int = 0
    wal_bytes: int = 0
    residue: int | None = None
    resumed: int = 0
    steps: int = 0
    longest_ms: float = 0.0

    @property
    def is_clean(self) -> bool:
        """Nothing that had expired is left anywhere."""
        return not (self.left or self.wal_bytes or self.residue)


# ------------------------------------------------------------------------------------------------ what is due


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What a sweep works on: the deployment's files and rules, for the store's thread.

    Attributes:
        directory: of the data.
        store: rows.
        audit: the log.
        rules: in force.
        clock: aware UTC.
        records: rows of persons, opened where answers fade; None for a look that opens nothing.
        vault: keys; None for a look that opens nothing.
        rights: scans for residue.
        uploads: folders of Chainlit's.
    """

    directory: Path
    store: Store
    audit: AuditLog
    rules: Rules
    clock: Callable[[], datetime]
    records: Records | None = None
    vault: Vault | None = None
    rights: Rights | None = None
    uploads: tuple[Path, ...] = ()


_FREE = "person NOT IN (SELECT person FROM holds WHERE expires_at > :now)"
NOTHING_ELSE = " AND ".join(
    f"NOT EXISTS (SELECT 1 FROM {table} t WHERE t.person = participants.person AND t.expires_at > :now)"  # noqa: S608
    for table in PERSONAL[1:]
)


_RESTS_ON_NOTHING = " AND ".join(
    f"NOT EXISTS (SELECT 1 FROM {table} t WHERE t.person = consents.person AND t.expires_at > :now)"  # noqa: S608
    for table in ("sessions", "turns", "attributes", "ledger", "safety_plans", "feedback", "responses")
)
"""The proof of a consent lives for as long as anything that was kept or sent because of it."""


def where_due(table: str) -> str:
    """What of a table is due."""
    if table == "participants":
        held = "participants.person NOT IN (SELECT person FROM holds WHERE expires_at > :now)"
        return f"expires_at <= :now AND {held} AND {NOTHING_ELSE}"
    if table == "consents":
        return f"expires_at <= :now AND {_FREE} AND {_RESTS_ON_NOTHING}"
    if table == "holds":
        return "expires_at <= :now"
    if table == "decisions":
        return f"expires_at <= :now AND (person IS NULL OR {_FREE})"
    return f"expires_at <= :now AND {_FREE}"


def due(found: Swept, as_of: datetime, *, subjects: Mapping[str, str]) -> Iterator[Due]:
    """Everything that a sweep would delete now, in its order.

    Args:
        found: the deployment.
        as_of: what has expired by then is due.
        subjects: who has a data key, and since when.
    """
    now = {"now": as_of.isoformat()}
    for table in _SWEPT:
        for row in found.store.db.query(
            f"SELECT * FROM {table} WHERE {where_due(table)} ORDER BY expires_at",  # noqa: S608 (our own names)
            now,
        ):
            yield _due_row(table, row)
    for subject in keyless(found.store.db, as_of, subjects):
        yield Due(table="keys", name=subject, category="participant", expired_at=as_of.isoformat())
    for table, month, until in old_counts(found, as_of):
        yield Due(table=table, name=month, category="counts", expired_at=until)
    for category, path, until in old_files(found, as_of):
        yield Due(table="files", name=path.name, category=category, expired_at=until)
    number, until = old_entries(found, as_of)
    if number:
        yield Due(table="audit", name=f"up to {number}", category="audit_log", expired_at=until)


def _due_row(table: str, row: Mapping[str, Any]) -> Due:
    name = row_name(table, row)
    whose = row["person"] or ""
    return Due(
        table=table,
        name=name if name == whose else f"{whose} {name}".strip(),
        category=row["category"],
        expired_at=row["expires_at"],
    )


def keyless(db: Database, as_of: datetime, subjects: Mapping[str, str]) -> list[str]:
    """Who has a key and nothing that it seals, once what is due is gone."""
    living = {
        row["person"]
        for row in db.query(
            f"SELECT person FROM participants WHERE NOT ({where_due('participants')})",  # noqa: S608 (our own names)
            {"now": as_of.isoformat()},
        )
    }
    young = (as_of - KEY_GRACE).isoformat()
    return sorted(s for s, made_at in subjects.items() if s not in living and made_at <= young)


def old_counts(found: Swept, as_of: datetime) -> list[tuple[str, str, str]]:
    """Months of counts, and reports of sweeps, that are older than their rule: table, month or slot, when it expired."""
    old = []
    for table in ("referrals", "tallies"):
        for row in found.store.db.query(f"SELECT DISTINCT month FROM {table} ORDER BY month"):  # noqa: S608
            until = counts_until(found.rules, row["month"])
            if until <= as_of:
                old.append((table, row["month"], until.isoformat()))
    for row in found.store.db.query(
        "SELECT slot, finished_at FROM sweeps WHERE finished_at IS NOT NULL ORDER BY finished_at"
    ):
        until = found.rules.until("counts", datetime.fromisoformat(row["finished_at"]))
        if until > as_of:
            break
        old.append(("sweeps", row["slot"], until.isoformat()))
    return old


def counts_until(rules: Rules, month: str) -> datetime:
    """When the counts of a month ("2026-11") go: their time runs from the month's end."""
    year, number = map(int, month.split("-"))
    return rules.until("counts", datetime(year + number // 12, number % 12 + 1, 1, tzinfo=UTC))


def old_files(found: Swept, as_of: datetime) -> list[tuple[str, Path, str]]:
    """Files on disk whose time is up: category, path, when."""
    old = []
    places = [(c, found.directory / name) for c, name in FOLDERS.items()]
    places += [("uploads", place) for place in found.uploads]
    for category, folder in places:
        for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
            try:
                changed = datetime.fromtimestamp(path.stat().st_mtime, tz=UTC)
            except OSError:
                continue
            until = found.rules.until(category, changed)
            if path.is_file() and until <= as_of:
                old.append((category, path, until.isoformat()))
    return old


def old_entries(found: Swept, as_of: datetime) -> tuple[int, str]:
    """The newest entry of the log that is older than its rule, and when it expired."""
    number, expired = 0, ""
    for at, last in found.audit.ages():
        until = found.rules.until("audit_log", datetime.fromisoformat(at))
        if until > as_of:
            break
        number, expired = last, until.isoformat()
    return number, expired


def coming(store: Store, now: datetime, *, days: int) -> list[dict[str, Any]]:
    """What will expire within so many days: day, category, rows."""
    select = " UNION ALL ".join(
        f"SELECT substr(expires_at, 1, 10) AS day, category, count(*) AS rows FROM {table}"  # noqa: S608 (our own names)
        " WHERE expires_at > :now AND expires_at <= :then GROUP BY 1, 2"
        for table in _SWEPT
    )
    then = (now + timedelta(days=days)).isoformat()
    return list(
        store.db.query(
            f"SELECT day, category, sum(rows) AS rows FROM ({select}) GROUP BY 1, 2 ORDER BY 1, 2",  # noqa: S608
            {"now": now.isoformat(), "then": then},
        )
    )


# ------------------------------------------------------------------------------------------------ the sweep


class Work(IntEnum):
    """What a step leaves to do."""

    DONE = 0
    MORE = 1
    LOG_IS_LONG = 2


def shorten(directory: Path) -> None:
    """Write what the store's write-ahead log holds into its file; on a connection of its own.

    First beside whoever reads and writes, then, of the little that came meanwhile, with the log emptied.
    """
    database = open_database(directory / NAME)
    try:
        database.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        empty_log(database)
    finally:
        database.close()


class RetentionSweep:
    """One sweep. Call `step` in the store's thread until it says that it is done."""

    def __init__(self, found: Swept, slot: str, *, listing: bool = False) -> None:
        """A sweep for one slot.

        Args:
            found: the deployment; with records, vault and rights.
            slot: the scheduled time it is for; a slot that is done is not swept again.
            listing: remember what was deleted, as `due` names it.
        """
        self._found, self._listing = found, listing
        self._db = found.store.db
        self._lease = Lease(self._db, found.clock)
        now = found.clock().isoformat()
        self.report = SweepReport(slot=slot, as_of=now, started_at=now)
        self.listed: list[Due] = []
        self.is_gentle = False
        """Somebody chats: short steps."""
        self._steps = self._work()
        self._rows = FIRST
        self._is_open = False

    def step(self) -> Work:
        """One short piece of the work; DONE (which is false) once nothing is left to do.

        After LOG_IS_LONG the caller should call `shorten` in a thread that nobody waits for, before the next step.

        Raises:
            SweepBusy: another process sweeps; nothing was done.
            AuditBroken: the log cannot be written; nothing was deleted.
            PrivacyError: the store failed; what was done stays done, and the next sweep goes on.
        """
        began = time.perf_counter()
        try:
            if next(self._steps, None) is None:
                return Work.DONE
            return Work.LOG_IS_LONG if self._log_size() > LONG_LOG else Work.MORE
        except PrivacyError:
            self.stop()
            raise
        except Exception as failed:  # noqa: BLE001 (sqlite's own, whose messages may hold values)
            self.stop()
            raise StoreError(f"the sweep was cut ({type(failed).__name__}); the next one goes on") from None
        finally:
            self.report.longest_ms = max(self.report.longest_ms, (time.perf_counter() - began) * 1000)
            self.report.steps += 1

    def run(self) -> SweepReport:
        """All of it at once, where nobody waits."""
        while more := self.step():
            if more is Work.LOG_IS_LONG:
                shorten(self._found.directory)
        return self.report

    def _log_size(self) -> int:
        try:
            return (self._found.directory / f"{NAME}-wal").stat().st_size
        except OSError:
            return 0

    def stop(self) -> None:
        """Leave it; the next sweep goes on where it was."""
        self._steps.close()
        self._release()

    def _release(self) -> None:
        if not self._is_open:
            return
        self._is_open = False
        with suppress(Exception):
            for pragma in ("cache_size = -2000", "wal_autocheckpoint = 1000", "synchronous = FULL"):
                self._db.execute(f"PRAGMA {pragma}").fetchall()
        with suppress(Exception):  # a lease of a process that ends is dead anyway
            self._lease.give_back()

    # ------------------------------------------------------------------------------------------- inside

    def _work(self) -> Generator[bool, None, None]:
        if self._is_done():
            return
        self._lease.take()
        self._is_open = True
        for pragma in (f"cache_size = -{CACHE_KIB}", "wal_autocheckpoint = 0", "synchronous = NORMAL"):
            self._db.execute(f"PRAGMA {pragma}").fetchall()
        if self._is_done():
            self._release()
            return
        self._begin()
        yield True
        yield from self._fade()
        as_of = datetime.fromisoformat(self.report.as_of)
        for table in _SWEPT:
            yield from self._delete(table)
        yield from self._shred(as_of)
        self._drop_counts(as_of)
        yield True
        self._drop_files(as_of)
        yield True
        self._prune_log(as_of)
        yield True
        yield from self._empty_logs()
        yield from self._verify(as_of)
        self._log_end()
        self.report.finished_at = self._found.clock().isoformat()
        self._save()
        yield from self._empty_logs()
        self._release()

    def _is_done(self) -> bool:
        """Whether somebody has swept for this slot."""
        row = next(
            iter(self._db.query("SELECT finished_at FROM sweeps WHERE slot = ?", [self.report.slot])), None
        )
        return row is not None and row["finished_at"] is not None

    def _begin(self) -> None:
        """Say so in the log first; then go on with a sweep that was cut, or open a new one."""
        report, found = self.report, self._found
        cut = next(
            iter(
                self._db.query(
                    "SELECT * FROM sweeps WHERE finished_at IS NULL ORDER BY slot = ? DESC, slot LIMIT 1",
                    [report.slot],
                )
            ),
            None,
        )
        found.audit.append(
            EventKind.PURGE,
            at=found.clock(),
            counts={"slot": cut["slot"] if cut else report.slot, "begun": True, "resumed": cut is not None},
        )
        if cut is not None:
            self.report = SweepReport(**json.loads(cut["report"]))
            self.report.resumed += 1
            self._save()
            return
        with self._db.atomic():
            self._lease.renew()
            self._db.execute(
                "INSERT INTO sweeps VALUES (?, ?, ?, NULL, ?, ?)",
                [
                    report.slot,
                    report.as_of,
                    report.started_at,
                    self._lease.owner,
                    json.dumps(asdict(report)),
                ],
            )

    def _save(self) -> None:
        """The report as it stands, with what it reports, in one transaction."""
        with self._db.atomic():
            self._lease.renew()
            self._write_report()

    def _write_report(self) -> None:
        self._db.execute(
            "UPDATE sweeps SET report = ?, finished_at = ?, owner = ? WHERE slot = ?",
            [
                json.dumps(asdict(self.report)),
                self.report.finished_at,
                self._lease.owner,
                self.report.slot,
            ],
        )

    def _fade(self) -> Iterator[bool]:
        """Answers whose time is up, inside conversations that live on."""
        records = self._found.records
        while records is not None and records.fade(self.report.as_of, most=max(1, self._rows // 20)):
            yield True

    def _delete(self, table: str) -> Iterator[bool]:
        """What is due of one table, by expiry, so many rows at a time as a step allows."""
        after = ""
        while True:
            began = time.perf_counter()
            count, after = self._delete_some(table, after)
            took = time.perf_counter() - began
            if count:
                seconds = GENTLE_SECONDS if self.is_gentle else STEP_SECONDS
                aim = self._rows * min(2.0, seconds / max(took, 1e-4))
                self._rows = round(min(MOST, max(FEWEST, aim)))
                yield True
            if not after:
                return

    def _next(self, table: str, after: str) -> tuple[str, dict[str, Any], str]:
        """The rows of the next step: a condition, its values, and the expiry they end with; "" where they are the last.

        By a range of expiry, which the index gives at once; where too many expire in the same moment, by their number.
        """
        now: dict[str, Any] = {"now": self.report.as_of, "after": after, "most": self._rows}
        if table not in ("participants", "consents"):
            cut = self._db.execute(
                f"SELECT expires_at FROM {table} WHERE expires_at > :after AND expires_at <= :now"  # noqa: S608 (our own names)
                " ORDER BY expires_at LIMIT 1 OFFSET :most",
                now,
            ).fetchone()
            now["cut"] = cut[0] if cut else self.report.as_of
            many = self._db.execute(
                f"SELECT count(*) FROM {table} WHERE expires_at > :after AND expires_at <= :cut",  # noqa: S608
                now,
            ).fetchone()[0]
            if many <= 4 * self._rows:
                # One upper bound alone: beside another SQLite may search by that one, and read all that is left.
                free = where_due(table).replace("expires_at <= :now", "expires_at <= :cut", 1)
                return f"{free} AND expires_at > :after", now, now["cut"] if cut else ""
        chosen = f"SELECT rowid FROM {table} WHERE {where_due(table)} ORDER BY expires_at LIMIT :most"  # noqa: S608
        return f"rowid IN ({chosen})", now, after or " "

    def _delete_some(self, table: str, after: str) -> tuple[int, str]:
        """One step: how many rows went, and the expiry to go on after; "" where none is left."""
        db, report = self._db, self.report
        deleted, tallied = dict(report.deleted), dict(report.tallied)
        categories = TABLES[table].categories
        listed: list[Due] = []
        with db.atomic():
            self._lease.renew()
            which, values, last = self._next(table, after)
            if self._listing:
                listed = self._list(table, which, values)
            for category in categories:
                if table in TALLIED and self._found.rules.keeps_counts(category):
                    counted = self._tally(table, category, which, values)
                    if counted:
                        tallied[category] = tallied.get(category, 0) + counted
            by_category = {}
            if len(categories) > 1:
                by_category = dict(
                    db.execute(
                        f"SELECT category, count(*) FROM {table} WHERE {which} GROUP BY 1",  # noqa: S608 (our own names)
                        values,
                    ).fetchall()
                )
            count = max(0, db.execute(f"DELETE FROM {table} WHERE {which}", values).rowcount)  # noqa: S608
            if not count:
                return 0, "" if last == (after or " ") else last
            for category, many in (by_category or {categories[0]: count}).items():
                deleted[category] = deleted.get(category, 0) + many
            before = report.deleted, report.tallied
            report.deleted, report.tallied = deleted, tallied
            try:
                self._write_report()
            except Exception:
                report.deleted, report.tallied = before
                raise
        self.listed += listed
        return count, last

    def _list(self, table: str, which: str, values: Mapping[str, Any]) -> list[Due]:
        rows = self._db.query(
            f"SELECT * FROM {table} WHERE {which} ORDER BY expires_at",  # noqa: S608 (our own names)
            dict(values),
        )
        return [_due_row(table, row) for row in rows]

    def _tally(self, table: str, category: str, which: str, values: Mapping[str, Any]) -> int:
        """Counts by month of the rows that are about to go, but of months whose counts would have gone too."""
        rows = self._db.execute(
            f"SELECT substr({COLLECTED[table]}, 1, 7), {TALLIED[table]}, count(*) FROM {table}"  # noqa: S608 (our own names)
            f" WHERE {which} AND category = :category GROUP BY 1, 2",
            {**values, "category": category},
        ).fetchall()
        as_of = datetime.fromisoformat(self.report.as_of)
        kept = [row for row in rows if counts_until(self._found.rules, row[0]) > as_of]
        for month, what, count in kept:
            self._db.execute(
                "INSERT INTO tallies VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count",
                [category, month, what, count],
            )
        return sum(count for _, _, count in kept)

    def _shred(self, as_of: datetime) -> Iterator[bool]:
        """Keys of which nothing is left that they seal.

        Who has none is looked at again for each batch, with the store's write lock held until the keys are gone: somebody
        may come back at any moment, and whoever keeps something for them takes their key under the same lock.
        """
        vault = self._found.vault
        while vault is not None:
            with self._db.atomic():
                self._lease.renew()
                gone = keyless(self._db, as_of, vault.made())[:FIRST]
                self.report.keys += vault.shred_many(gone)
                self._write_report()
            if self._listing:
                self.listed += [
                    Due(table="keys", name=subject, category="participant", expired_at=as_of.isoformat())
                    for subject in gone
                ]
            if len(gone) < FIRST:
                return
            yield True

    def _drop_counts(self, as_of: datetime) -> None:
        old = old_counts(self._found, as_of)
        with self._db.atomic():
            self._lease.renew()
            for table, name, until in old:
                column = "slot" if table == "sweeps" else "month"
                done = self._db.execute(f"DELETE FROM {table} WHERE {column} = ?", [name])  # noqa: S608 (our own names)
                self.report.deleted["counts"] = self.report.deleted.get("counts", 0) + max(done.rowcount, 0)
                self.listed.append(Due(table=table, name=name, category="counts", expired_at=until))
            self._write_report()

    def _drop_files(self, as_of: datetime) -> None:
        self._save()
        for category, path, until in old_files(self._found, as_of):
            path.unlink(missing_ok=True)
            self.report.files += 1
            self.listed.append(Due(table="files", name=path.name, category=category, expired_at=until))
        self._save()

    def _prune_log(self, as_of: datetime) -> None:
        number, until = old_entries(self._found, as_of)
        if not number:
            return
        self._save()
        self.report.log_entries += self._found.audit.prune(number, at=self._found.clock())
        self.listed.append(Due(table="audit", name=f"up to {number}", category="audit_log", expired_at=until))
        self._save()

    def _empty_logs(self) -> Iterator[bool]:
        """The write-ahead logs, which hold what was deleted until they are emptied; readers may be in the way."""
        vault = self._found.vault
        for _ in range(40):
            done = (
                empty_log(self._db) and (vault is None or vault.empty_log()) and self._found.audit.empty_log()
            )
            if done:
                self.report.wal_bytes = 0
                return
            self.report.wal_bytes = sum(p.stat().st_size for p in self._found.directory.glob("*.db-wal"))
            yield True
            time.sleep(0.01)

    def _verify(self, as_of: datetime) -> Iterator[bool]:
        report, db = self.report, self._db
        now = {"now": as_of.isoformat()}
        report.left = report.held_back = 0
        for table in _SWEPT:
            report.left += db.execute(
                f"SELECT count(*) FROM {table} WHERE {where_due(table)}",  # noqa: S608 (our own names)
                now,
            ).fetchone()[0]
            if table not in ("participants", "holds"):
                report.held_back += db.execute(
                    f"SELECT count(*) FROM {table} WHERE expires_at <= :now AND person IN"  # noqa: S608 (our own names)
                    " (SELECT person FROM holds WHERE expires_at > :now)",
                    now,
                ).fetchone()[0]
            yield True
        rights = self._found.rights
        if rights is not None and sum(p.stat().st_size for p in rights.scanner.files()) <= SCANNED_BYTES:
            report.residue = len(rights.scanner.scan().found)

    def _log_end(self) -> None:
        """What came of it, in the log, once: a sweep that was cut right after saying so does not say it again."""
        report, audit = self.report, self._found.audit
        said = (json.loads(event.counts) for event in audit.newest(EventKind.PURGE, most=50))
        if any(counts.get("slot") == report.slot and "rows" in counts for counts in said):
            return
        audit.append(
            EventKind.PURGE, at=self._found.clock(),
            counts={
                "slot": report.slot, "rows": sum(report.deleted.values()), "keys": report.keys, "files": report.files,
                "held_back": report.held_back, "left": report.left, "resumed": report.resumed,
            },
        )  # fmt: skip


def reports(store: Store, *, most: int = 100) -> list[SweepReport]:
    """The newest sweeps, newest first."""
    rows = store.db.query("SELECT report FROM sweeps ORDER BY started_at DESC LIMIT ?", [most])
    return [SweepReport(**json.loads(row["report"])) for row in rows]
