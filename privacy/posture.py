"""The auditor's report: every promise that can be checked from outside, checked on the deployment as it stands.

Nothing here opens content or needs a key that could: sealed values are told by their form, subjects by their row. What is
found is counted, never shown. The record of processing (GDPR Art. 30) is made from the schema in the file, so that a table
or column that nobody gave a rule shows up as what it is.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any, Final

from sqlite_utils import Database

from privacy.audit import AuditEvent, AuditLog, EventKind
from privacy.errors import AuditBroken
from privacy.residue import Scanner
from privacy.retention import Swept, coming, keyless, old_counts, old_entries, old_files, reports, where_due
from privacy.store.schema import (
    COLLECTED,
    PERSONAL,
    SEALED,
    TABLES,
    TableFacts,
    columns_of,
    columns_of_release,
)
from privacy.vault import KeyBook

KEPT, BROKEN, UNCHECKED = "kept", "broken", "not checkable from here"
GRACE: Final = timedelta(minutes=10)
"""After its slot a sweep may take so long before what it should have taken counts as overdue."""
TOLERANCE_DAYS: Final = 4

PROMISES: Final[Mapping[str, str]] = {
    "fail-closed": "What cannot be made safe is neither stored, logged nor sent; it is screened for danger all the same",
    "no-plain-text": "No personal text stands in clear in any file of ours",
    "sealed": "Every stored answer and message is ciphertext under the person's own key",
    "rotation": "Keys can be changed, and the old ones then open nothing",
    "erasure": "What was erased is nowhere any more, in no file, and does not come back from a backup",
    "consent": "Nothing is kept or sent without a consent that was in force at that moment",
    "access": "A person can see, take, correct and erase what is held of them",
    "record": "Every table and column is known, has a purpose, a legal basis and a retention rule",
    "retention": "Nothing outlives its time",
    "log": "The audit log is whole and says what happened",
    "redaction": "The 18 HIPAA classes are looked for, and how well is measured",
    "untouched": "Help lines, doses, durations and ages pass unchanged, as the answer needs them",
    "no-third-party": "The page loads nothing from anybody else",
    "secrets": "Keys and data can be read by their owner alone",
    "dependencies": "What it is built on is pinned and free of flaws that we know of",
    "configuration": "Chainlit and the server are set as a sensitive study needs",
}
"""The twelve of docs/privacy.md, and four of the deployment."""

_BY_TESTS: Final[Mapping[str, str]] = {
    "fail-closed": "tests/privacy/test_redaction.py and tests/bot/test_fault_matrix.py",
    "rotation": "tests/privacy/test_vault.py",
    "access": "tests/e2e/test_data_in_browser.py",
}

OTHER_FILES: Final[Mapping[str, Mapping[str, TableFacts]]] = {
    "keys.db": {
        "data_keys": TableFacts(
            categories=("participant",), purpose="each person's data key, wrapped by a master key", basis="security, Art. 32"
        )
    },
    "audit.db": {
        "events": TableFacts(
            categories=("audit_log",), purpose="what happened, in counts", basis="accountability, Art. 5(2)"
        ),
        "tombstones": TableFacts(
            categories=("audit_log",), purpose="who was erased, as an HMAC, so that no backup brings them back",
            basis="legal obligation, Art. 17",
        ),
        "own": TableFacts(categories=(), purpose="the key of those HMACs", basis="no personal data"),
    },
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that breaks a promise.

    Attributes:
        promise: its key.
        where: table, file or setting.
        what: is wrong, in counts.
        do: what to do about it.
    """

    promise: str
    where: str
    what: str
    do: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Something of the configuration that was looked at.

    Attributes:
        promise: that it belongs to.
        name: what was looked at.
        found: what it is.
        wanted: what it should be; the same where all is well.
        is_good: whether it is.
        do: what to do where it is not.
    """

    promise: str
    name: str
    found: str
    wanted: str
    is_good: bool
    do: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Redaction, measured now.

    Attributes:
        table: what, hits, of, low, high: counts with 95 % Wilson intervals.
        by_type: kind, covered, of, low, high; right, found, right_low, right_high.
        hipaa: the 18 classes, with labelled spans of their kinds and how many were covered.
        changed: how many of the texts that must pass unchanged did not.
        passed: of how many.
        refuses: whether a message over the limit is refused.
        known_gaps: what is known to be missed, in words.
    """

    table: Sequence[Mapping[str, Any]]
    by_type: Sequence[Mapping[str, Any]]
    hipaa: Sequence[Mapping[str, Any]]
    changed: int
    passed: int
    refuses: bool
    known_gaps: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Posture:
    """The whole report; JSON-ready but for its dataclasses.

    Attributes:
        at: when, ISO time.
        promises: key, title, state, why.
        findings: what breaks one.
        data_map: the record of processing, column by column.
        retention: by category.
        sweeps: their reports, newest first.
        coming: what goes within 30 days.
        encryption: columns, keys, files, residue.
        redaction: measured now, or None where that was not asked for.
        outbound: by month and destination.
        consent: counts and versions.
        rights: requests and times.
        escalations: counts, times, open ones.
        log: entries, kinds, heads.
        configuration: what was looked at.
    """

    at: str
    promises: list[dict[str, str]]
    findings: list[Finding]
    data_map: list[dict[str, Any]]
    retention: list[dict[str, Any]]
    sweeps: list[dict[str, Any]]
    coming: list[dict[str, Any]]
    encryption: dict[str, Any]
    redaction: dict[str, Any] | None
    outbound: list[dict[str, Any]]
    consent: dict[str, Any]
    rights: dict[str, Any]
    escalations: dict[str, Any]
    log: dict[str, Any]
    configuration: list[dict[str, Any]]

    @property
    def is_kept(self) -> bool:
        """No promise that can be checked is broken."""
        return not self.findings

    def to_json(self) -> dict[str, Any]:
        """As it is filed."""
        counts = {
            state: sum(p["state"] == state for p in self.promises) for state in (KEPT, BROKEN, UNCHECKED)
        }
        return {"version": 1, "verdict": counts, **asdict(self)}


_SEALED_FORM = (
    "({c} GLOB 'gAAAAA[A-Za-z0-9_-]*' AND {c} NOT GLOB '*[^A-Za-z0-9_=-]*' AND"
    " (length({c}) * 3 / 4 - (length({c}) - length(rtrim({c}, '='))) - 73) % 64 = 0)"
)
"""A Fernet token of a value that was padded as `privacy.vault` pads it: its form and its length."""


@dataclass(slots=True)
class Examination:
    """One look at a deployment. Call `posture` once.

    Attributes:
        found: store, log and rules.
        keys: the key file, closed to us.
        scanner: looks for residue.
        now: aware UTC.
        swept_until: what had expired by then must be gone.
        heads: of the log, seen before.
        texts: consent versions that are in force or were: version to SHA-256.
        checks: of the configuration.
        measured: redaction, or None.
        secret_files: files outside the data directory that hold secrets.
    """

    found: Swept
    keys: KeyBook
    scanner: Scanner
    now: datetime
    swept_until: datetime
    heads: Mapping[int, str]
    texts: Mapping[str, str]
    checks: Sequence[Check]
    measured: Measured | None = None
    secret_files: Sequence[Path] = ()
    _findings: list[Finding] = field(default_factory=list)

    def posture(self) -> Posture:
        """The report."""
        configuration = self._configuration()
        data_map = self._data_map()
        retention = self._retention()
        encryption = self._encryption()
        redaction = self._redaction()
        consent = self._consent()
        log, events = self._log()
        return Posture(
            at=self.now.isoformat(timespec="seconds"),
            data_map=data_map,
            retention=retention,
            sweeps=[asdict(r) for r in reports(self.found.store)],
            coming=coming(self.found.store, self.now, days=30),
            encryption={**encryption, **_rotations(events)},
            redaction=redaction,
            outbound=self._outbound(),
            consent={**consent, **_withdrawals(events)},
            rights=_rights(events),
            escalations=self._escalations(events),
            log=log,
            configuration=configuration,
            findings=list(self._findings),
            promises=self._promises(),
        )

    def _find(self, promise: str, where: str, what: str, do: str) -> None:
        self._findings.append(Finding(promise=promise, where=where, what=what, do=do))

    def _one(self, sql: str, values: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return next(iter(self.found.store.db.query(sql, dict(values or {}))), {})

    def _promises(self) -> list[dict[str, str]]:
        broken = {f.promise for f in self._findings}
        told = []
        for key, title in PROMISES.items():
            state, why = KEPT, ""
            if key in broken:
                state = BROKEN
                why = "; ".join(f"{f.where}: {f.what}" for f in self._findings if f.promise == key)
            elif key in ("fail-closed", "redaction", "untouched") and self.measured is None:
                state, why = UNCHECKED, "redaction was not run"
            elif key == "access":
                state, why = UNCHECKED, f"it needs a person; {_BY_TESTS[key]} does it in a browser"
            elif key == "rotation":
                state, why = UNCHECKED, f"it needs the keys; {_BY_TESTS[key]} does it"
            elif key in _BY_TESTS:
                why = f"a part of it is checked by {_BY_TESTS[key]} alone"
            told.append({"promise": key, "title": title, "state": state, "why": why})
        return told

    # ------------------------------------------------------------------------------------------- record of processing

    def _data_map(self) -> list[dict[str, Any]]:
        rows = self._mapped("study.db", self.found.store.db, TABLES, columns_of_release())
        for name, tables in OTHER_FILES.items():
            path = self.found.directory / name
            if path.exists():
                database = Database(path)
                rows += self._mapped(name, database, tables, None)
                database.close()
        for category in ("exports", "logs", "uploads"):
            rows.append({
                "file": category, "table": "", "column": "", "category": category, "purpose": "files on disk",
                "basis": "as what they hold", "sealed": False, "rule": self._rule_of(category), "rows": None, "oldest": "",
                "next": "",
            })  # fmt: skip
        return rows

    def _mapped(
        self,
        file: str,
        database: Database,
        tables: Mapping[str, TableFacts],
        reference: Mapping[str, Sequence[str]] | None,
    ) -> list[dict[str, Any]]:
        rows = []
        for table, columns in columns_of(database).items():
            facts = tables.get(table)
            if facts is None:
                self._find(
                    "record", f"{file}: {table}", "a table without purpose and retention rule",
                    "find out who made it; remove it, or give it a rule in privacy/store/schema.py and policies/retention.yaml",
                )  # fmt: skip
            span = self._span(database, table, columns)
            for column in columns:
                is_known = reference is None or column in reference.get(table, ())
                if facts is not None and not is_known:
                    self._find(
                        "sealed", f"{file}: {table}.{column}", "a column that this release did not make, and does not seal",
                        "find out who made it and what it holds; remove it",
                    )  # fmt: skip
                rows.append({
                    "file": file, "table": table, "column": column,
                    "category": ", ".join(facts.categories) if facts else "NONE",
                    "purpose": facts.purpose if facts else "NONE", "basis": facts.basis if facts else "NONE",
                    "sealed": column in SEALED.get(table, ()) or (file == "keys.db" and "wrapped" in column),
                    "rule": "; ".join(self._rule_of(c) for c in facts.categories) if facts else "NONE", **span,
                })  # fmt: skip
        return rows

    def _rule_of(self, category: str) -> str:
        told = self.found.rules.describe(category)
        return f"{told['keep']} from {told['from']}, then {told['then']}"

    @staticmethod
    def _span(database: Database, table: str, columns: Sequence[str]) -> dict[str, Any]:
        when = COLLECTED.get(table) or next(
            (c for c in ("at", "made_at", "started_at") if c in columns), "''"
        )
        goes = "expires_at" if "expires_at" in columns else "''"
        row = next(
            iter(
                database.query(
                    f'SELECT count(*) AS rows, min({when}) AS oldest, min({goes}) AS next FROM "{table}"'  # noqa: S608
                )
            )
        )
        return {"rows": row["rows"], "oldest": (row["oldest"] or "")[:10], "next": (row["next"] or "")[:10]}

    # ------------------------------------------------------------------------------------------- retention

    def _retention(self) -> list[dict[str, Any]]:
        told = []
        for table in (*PERSONAL, "holds"):
            for category in TABLES[table].categories:
                row = self._of_category(table, category)
                told.append(row)
                if row["overdue"]:
                    self._overdue(
                        f"{table} ({category})", f"{row['overdue']} rows have expired and were not swept"
                    )
                if row["too_long"]:
                    self._find(
                        "retention", f"{table} ({category})",
                        f"{row['too_long']} rows are to live longer than their rule allows",
                        "find out who changed expires_at; start the chat with the rules in force, which dates every row anew",
                    )  # fmt: skip
        self._other_overdue()
        return told

    def _overdue(self, where: str, what: str) -> None:
        self._find(
            "retention", where, what,
            "run 'raise-chat privacy purge', and see that the chat is running, which sweeps by schedule",
        )  # fmt: skip

    def _other_overdue(self) -> None:
        """What is no row of a person: faded answers, keys, counts, files, old entries of the log."""
        found, by = self.found, self.swept_until
        fading = self._one(
            "SELECT count(*) AS n FROM sessions WHERE fades_at > '' AND fades_at <= :now AND expires_at > :now"
            " AND person NOT IN (SELECT person FROM holds WHERE expires_at > :now)",
            {"now": by.isoformat()},
        )["n"]
        if fading:
            self._overdue("sessions.state", f"{fading} conversations hold answers whose time is up")
        keys = len(keyless(found.store.db, by, self.keys.made()))
        if keys:
            self._overdue("keys.db", f"{keys} keys seal nothing any more")
        counts, files, (number, _) = old_counts(found, by), old_files(found, by), old_entries(found, by)
        if counts:
            self._overdue("counts", f"{len(counts)} months of counts, or reports, are older than their rule")
        for category in sorted({category for category, _, _ in files}):
            many = sum(1 for c, _, _ in files if c == category)
            self._overdue(category, f"{many} files are older than their rule")
        if number:
            self._overdue("audit.db", f"entries up to {number} are older than their rule")

    def _of_category(self, table: str, category: str) -> dict[str, Any]:
        came = COLLECTED[table]
        row = self._one(
            f"SELECT count(*) AS rows, min({came}) AS oldest, min(expires_at) AS next FROM {table}"  # noqa: S608 (our own names)
            " WHERE category = :c",
            {"c": category},
        )
        overdue = self._one(
            f"SELECT count(*) AS n FROM {table} WHERE category = :c AND {where_due(table)}",  # noqa: S608 (our own names)
            {"c": category, "now": self.swept_until.isoformat()},
        )["n"]
        expired = self._one(
            f"SELECT count(*) AS n FROM {table} WHERE category = :c AND expires_at <= :now",  # noqa: S608 (our own names)
            {"c": category, "now": self.now.isoformat()},
        )["n"]
        oldest = datetime.fromisoformat(row["oldest"]) if row["oldest"] else None
        limit = self.found.rules.until(category, oldest) - oldest if oldest else None
        return {
            "table": table, "category": category, "rows": row["rows"], **self.found.rules.describe(category),
            "age_days": round((self.now - oldest).total_seconds() / 86400, 1) if oldest else 0.0,
            "limit_days": round(limit.total_seconds() / 86400, 1) if limit else None,
            "next": (row["next"] or "")[:19], "overdue": overdue, "expired_unswept": expired - overdue,
            "too_long": self._too_long(table, category),
        }  # fmt: skip

    def _too_long(self, table: str, category: str) -> int:
        """Rows whose date is later than their rule gives; months and years differ by days, so four days are let pass."""
        rules, came, values = self.found.rules, f"{table}.{COLLECTED[table]}", {"c": category}
        counted = rules.counted_from(category)
        if counted == "end of study":
            late = "expires_at > :last"
            values["last"] = (rules.until(category, self.now) + timedelta(days=TOLERANCE_DAYS)).isoformat()
        else:
            if counted == "last activity" and table != "participants":
                came = f"(SELECT last_at FROM participants p WHERE p.person = {table}.person)"  # noqa: S608
            days = (rules.until(category, self.now) - self.now).total_seconds() / 86400 + TOLERANCE_DAYS
            late = f"julianday(expires_at) - julianday({came}) > {days:.3f}"
        return int(
            self._one(f"SELECT count(*) AS n FROM {table} WHERE category = :c AND {late}", values)["n"]  # noqa: S608
        )

    # ------------------------------------------------------------------------------------------- encryption

    def _encryption(self) -> dict[str, Any]:
        columns = []
        for table, names in SEALED.items():
            for column in names:
                row = self._one(
                    f"SELECT count({column}) AS every, sum({_SEALED_FORM.format(c=column)}) AS good"  # noqa: S608
                    f" FROM {table} WHERE {column} IS NOT NULL"
                )
                every, good = row["every"], row["good"] or 0
                columns.append({"table": table, "column": column, "values": every, "ciphertext": good})
                if good != every:
                    self._find(
                        "sealed", f"study.db: {table}.{column}", f"{every - good} of {every} values are not ciphertext",
                        "find out who wrote them; erase those rows, and treat it as a breach until you know",
                    )  # fmt: skip
        residue = self.scanner.scan()
        for where in residue.found:
            self._find(
                "erasure", where, "sealed values that belong to no living row",
                "stop what reads that file, run 'raise-chat privacy purge', then look again",
            )  # fmt: skip
        self._erased_are_back()
        made, wrapped = self.keys.made(), self.keys.wrapped_at()
        return {
            "columns": columns,
            "share": 1.0 if not (n := sum(c["values"] for c in columns)) else sum(c["ciphertext"] for c in columns) / n,
            "keys": len(made),
            "oldest_key": min(made.values(), default="")[:10],
            "oldest_wrapping": min((at.isoformat() for at in wrapped.values()), default="")[:10],
            "residue": {"files": residue.files, "bytes": residue.size, "found": list(residue.found)},
            "files": self._modes(),
        }  # fmt: skip

    def _erased_are_back(self) -> None:
        audit = self.found.audit
        there: set[str] = set()
        for table in (*PERSONAL, "holds"):
            rows = self.found.store.db.query(f"SELECT DISTINCT person FROM {table}")  # noqa: S608 (our own names)
            there |= {row["person"] for row in rows if row["person"]}
        back = sum(audit.was_erased(person) for person in there | set(self.keys.made()))
        if back:
            self._find(
                "erasure", "study.db and keys.db", f"{back} people who were erased are there again",
                "start the chat, which erases them again before anybody is served; an older backup was put back",
            )  # fmt: skip

    def _modes(self) -> list[dict[str, Any]]:
        files: list[dict[str, Any]] = []
        told: set[str] = set()
        own = [p for p in sorted(self.found.directory.rglob("*")) if p.is_file()]
        for path in (*own, *self.secret_files):
            mode = stat.S_IMODE(path.stat().st_mode)
            name = str(path.relative_to(self.found.directory)) if path in own else path.name
            files.append({"file": name, "mode": f"{mode:04o}"})
            companion = name.removesuffix("-wal").removesuffix("-shm")
            if mode & 0o077 and companion not in told:
                told.add(companion)
                self._find(
                    "secrets", name, f"others can read it (mode {mode:04o})",
                    f"run 'chmod 600 {path}'; if it is a key, rotate it: raise-chat privacy rotate-keys --data",
                )  # fmt: skip
        return files

    # ------------------------------------------------------------------------------------------- redaction, configuration

    def _redaction(self) -> dict[str, Any] | None:
        if self.measured is None:
            return None
        if self.measured.changed:
            self._find(
                "untouched", "redaction", f"{self.measured.changed} of {self.measured.passed} texts were changed",
                "see tests/privacy/test_redaction.py; a stronger recogniser may take out too much",
            )  # fmt: skip
        if not self.measured.refuses:
            self._find(
                "fail-closed",
                "redaction",
                "a message over the limit was not refused",
                "do not run this build",
            )
        return asdict(self.measured)

    def _configuration(self) -> list[dict[str, Any]]:
        for check in self.checks:
            if not check.is_good:
                self._find(
                    check.promise, check.name, f"it is {check.found}, and should be {check.wanted}", check.do
                )
        return [asdict(check) for check in self.checks]

    # ------------------------------------------------------------------------------------------- outbound, consent

    def _outbound(self) -> list[dict[str, Any]]:
        found: dict[tuple[str, str, str], dict[str, Any]] = {}
        for row in self.found.store.db.query("SELECT at, destination, model, bytes, entities FROM ledger"):
            key = (row["at"][:7], row["destination"], row["model"])
            told = found.setdefault(
                key,
                {
                    "month": key[0],
                    "destination": key[1],
                    "model": key[2],
                    "calls": 0,
                    "bytes": 0,
                    "entities": {},
                },
            )
            told["calls"] += 1
            told["bytes"] += row["bytes"]
            for kind, count in json.loads(row["entities"]).items():
                told["entities"][kind] = told["entities"].get(kind, 0) + count
        return [found[key] for key in sorted(found)]

    def _consent(self) -> dict[str, Any]:
        """What is held, against the consent that was in force when it came."""
        missing: dict[str, dict[str, int]] = {}
        for table, scope, moment, which in _NEEDED:
            count = self._one(_without(table, scope, moment, which), {"scope": scope})["n"]
            if count:
                missing.setdefault(scope, {})[table] = count
        for scope, tables in missing.items():
            told = ", ".join(f"{n} of {table}" for table, n in tables.items())
            self._find(
                "consent", f"study.db, consent to {scope}", f"rows without one that was in force: {told}",
                "find out how they came; erase them ('raise-chat privacy erase PERSON'), and tell the persons concerned",
            )  # fmt: skip
        versions = list(
            self.found.store.db.query(
                "SELECT version, scope, sum(granted) AS yes, count(*) - sum(granted) AS no FROM consents"
                " GROUP BY 1, 2 ORDER BY 1, 2"
            )
        )
        return {
            "without": {t: n for tables in missing.values() for t, n in tables.items()},
            "answers": versions,
            "texts": dict(self.texts),
        }

    def _escalations(self, events: Sequence[AuditEvent]) -> dict[str, Any]:
        open_ones = self._one(
            "SELECT count(*) AS n, min(raised_at) AS oldest FROM escalations WHERE acknowledged_at IS NULL"
            " AND expires_at > :now",
            {"now": self.now.isoformat()},
        )
        levels: dict[str, list[int]] = {}
        for counts in _counts(events, EventKind.ESCALATION):
            if "level" in counts:
                levels.setdefault(str(counts["level"]), []).append(int(counts.get("card_ms", -1)))
        times = {
            level: {
                "shown": len(every), "median_ms": median(t) if (t := [x for x in every if x >= 0]) else None,
                "longest_ms": max(t, default=None),
            }
            for level, every in sorted(levels.items())
        }  # fmt: skip
        return {
            "levels": times, "referrals": self._one("SELECT coalesce(sum(count), 0) AS n FROM referrals")["n"],
            "unacknowledged": open_ones["n"], "oldest_unacknowledged": (open_ones["oldest"] or "")[:16],
        }  # fmt: skip

    # ------------------------------------------------------------------------------------------- the log

    def _log(self) -> tuple[dict[str, Any], list[AuditEvent]]:
        audit: AuditLog = self.found.audit
        events = list(audit.events())
        why = ""
        try:
            audit.verify(heads=self.heads)
        except AuditBroken as broken:
            why = str(broken)
            self._find(
                "log", "audit.db", why,
                "keep the file as it is; compare with heads that others hold (docs/verify_log.py) and with backups",
            )  # fmt: skip
        kinds: dict[str, int] = {}
        for event in events:
            kinds[event.kind] = kinds.get(event.kind, 0) + 1
        told = {
            "entries": len(events), "kinds": dict(sorted(kinds.items())), "heads": len(self.heads), "why": why,
            "head": f"{events[-1].number} {events[-1].hash}" if events else "",
        }  # fmt: skip
        return told, events


_NEEDED: Final = (
    ("sessions", "keep", "last_at", ""),
    ("turns", "keep", "at", ""),
    ("turns", "research", "at", "words IS NOT NULL AND "),
    ("attributes", "keep", "", ""),
    ("safety_plans", "keep", "at", ""),
    ("feedback", "keep", "at", ""),
    ("ledger", "send", "at", ""),
)
"""Which consent each table needs, at which moment; an answer may have been given before it was agreed to keep it."""


def _without(table: str, scope: str, moment: str, which: str) -> str:
    """Rows whose person had not agreed at that moment."""
    before = f" AND c.at <= {table}.{moment}" if moment else ""
    place = " AND c.destination = ledger.destination" if scope == "send" else ""
    newest = (
        f"SELECT granted FROM consents c WHERE c.person = {table}.person AND c.scope = :scope{before}{place}"  # noqa: S608
        f" ORDER BY {'c.granted DESC, ' if not moment else ''}c.id DESC LIMIT 1"
    )
    return f"SELECT count(*) AS n FROM {table} WHERE {which}coalesce(({newest}), 0) = 0"  # noqa: S608 (our own names)


def _counts(events: Iterable[AuditEvent], *kinds: EventKind) -> Iterable[dict[str, Any]]:
    names = {kind.value for kind in kinds}
    for event in events:
        if event.kind in names:
            try:
                yield json.loads(event.counts)
            except ValueError:
                continue


def _withdrawals(events: Sequence[AuditEvent]) -> dict[str, Any]:
    """How often a yes was taken back or refused, and how long it then took to an erasure, where one was asked for."""
    said_no: dict[str, datetime] = {}
    count, hours = 0, []
    for event in events:
        if event.kind == EventKind.CONSENT.value and not json.loads(event.counts).get("granted", True):
            count += 1
            said_no.setdefault(event.subject, datetime.fromisoformat(event.at))
        elif event.kind == EventKind.ERASURE.value and event.subject in said_no:
            hours.append(
                (datetime.fromisoformat(event.at) - said_no.pop(event.subject)).total_seconds() / 3600
            )
    return {"withdrawals": count, "hours_to_erasure_median": round(median(hours), 2) if hours else None}


def _rotations(events: Sequence[AuditEvent]) -> dict[str, Any]:
    """How often keys were changed, and when last."""
    ends = [e.at for e in events if e.kind == EventKind.KEYS.value and "begun" not in e.counts]
    return {"rotations": len(ends), "last_rotation": ends[-1][:10] if ends else ""}


def _rights(events: Sequence[AuditEvent]) -> dict[str, Any]:
    """Requests, and how long erasing took: from its first entry to the one that finds nothing left."""
    begun: dict[str, datetime] = {}
    seconds: list[float] = []
    for event in events:
        if event.kind == EventKind.ERASURE_BEGUN.value:
            begun[event.subject] = datetime.fromisoformat(event.at)
        elif event.kind == EventKind.ERASURE.value and event.subject in begun:
            seconds.append((datetime.fromisoformat(event.at) - begun.pop(event.subject)).total_seconds())
    return {
        "exports": sum(1 for _ in _counts(events, EventKind.EXPORT)),
        "corrections": sum(1 for _ in _counts(events, EventKind.CORRECTION)),
        "erasures": len(seconds), "erasures_unfinished": len(begun),
        "erasure_seconds_median": round(median(seconds), 2) if seconds else None,
        "erasure_seconds_longest": round(max(seconds), 2) if seconds else None,
        "staff_access": sum(1 for _ in _counts(events, EventKind.ACCESS)),
    }  # fmt: skip
