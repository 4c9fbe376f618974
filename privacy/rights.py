"""A person's rights over what is held: to see it, take a copy, correct it, have it erased with a receipt.

GDPR Art. 15 (access), 16 (correction), 17 (erasure), 20 (portability). Erasing destroys the key first, then the rows,
empties the write-ahead logs, and reads every byte of every file of ours for what may be left. A receipt is given only
where nothing is.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from privacy.audit import AuditLog, EventKind
from privacy.consent import Grant, ToKeep
from privacy.errors import PrivacyError, SealBroken
from privacy.residue import SHORTEST_VALUE, Needles, Residue, Scanner
from privacy.store import Store
from privacy.store.files import checkpoint
from privacy.store.records import Held, Records
from privacy.store.schema import SEALED
from privacy.vault import Vault

NOT_REACHED = (
    "what an outside model's provider may have kept of redacted text that was sent with your consent",
    "copies of exports that were handed to you or, with your consent, to researchers",
    "backups of the sealed data: they hold no keys, so what they hold of you cannot be read, and they expire",
)
"""Copies that no program here can reach."""


TRIES = 4
"""Times that the write-ahead log is emptied, each waiting for two seconds, before something is said to be left."""


class HeldByLaw(PrivacyError):
    """A legal hold keeps what a person wants erased."""


class ResidueFound(PrivacyError):
    """Something of an erased person is still in a file; no receipt is given. The message names the files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What was erased, for the person to keep and verify.

    Attributes:
        id: random; names nobody.
        at: when, aware UTC.
        what: "everything", or the item.
        counts: rows by table.
        audit_number: of the entry in the audit log.
        audit_hash: of that entry.
        residue: what the scan found: nothing.
        not_reached: copies that cannot be reached.
    """

    id: str
    at: datetime
    what: str
    counts: dict[str, int]
    audit_number: int
    audit_hash: str
    residue: Residue
    not_reached: tuple[str, ...] = NOT_REACHED

    def to_json(self) -> dict[str, Any]:
        """As the person gets it."""
        return {
            "version": 1, "id": self.id, "at": self.at.isoformat(), "what": self.what, "counts": self.counts,
            "audit": {"number": self.audit_number, "hash": self.audit_hash},
            "residue": {"files_read": self.residue.files, "bytes_read": self.residue.size, "found": 0},
            "not_reached": list(self.not_reached),
        }  # fmt: skip


class Rights:
    """What a person may do with what is held of them. One instance for the store's thread."""

    def __init__(
        self,
        directory: Path,
        store: Store,
        vault: Vault,
        audit: AuditLog,
        records: Records,
        *,
        clock: Callable[[], datetime],
    ) -> None:
        self._directory, self._store, self._vault = directory, store, vault
        self._audit, self._records, self._clock = audit, records, clock
        self.scanner = Scanner(directory, store.db, vault)

    # ------------------------------------------------------------------------------------------- seeing

    def held(self, person: str) -> list[Held]:
        """Everything that is held of a person and has not expired."""
        return list(self._records.held(person))

    def export(self, person: str) -> dict[str, Any]:
        """Everything of this person and nobody else, readable by machines; the export itself is logged."""
        at = self._clock()
        rows = self.held(person)
        self._audit.append(
            EventKind.EXPORT,
            at=at,
            subject=person,
            key=self._vault.audit_key(person),
            counts={"rows": len(rows)},
        )
        return {
            "version": 1,
            "pseudonym": person,
            "exported_at": at.isoformat(),
            "held": [
                {
                    "kind": row.table, "name": row.name, "category": row.category, "at": row.at.isoformat(),
                    "until": row.expires_at.isoformat(),
                    "content": {k: _readable(v) for k, v in row.fields.items() if k not in _BARE},
                }
                for row in rows
            ],
        }  # fmt: skip

    def correct(self, grant: Grant[ToKeep], person: str, attribute: str, value: str) -> bool:
        """Another answer in the place of one that is held.

        Raises:
            ConsentMissing: the grant does not hold any more.
        """
        self._audit.append(
            EventKind.CORRECTION, at=self._clock(), subject=person, key=self._vault.audit_key(person),
            counts={"attribute": attribute},
        )  # fmt: skip
        return self._records.correct(grant, person, attribute, value)

    # ------------------------------------------------------------------------------------------- erasing

    def _allowed(self, person: str) -> None:
        """Refuse where the law holds something back (GDPR Art. 17(3)).

        Raises:
            HeldByLaw: a legal hold is on what is held of this person.
        """
        if self._records.is_held(person):
            raise HeldByLaw("a legal hold is on this: nothing of it may be erased before the hold is lifted")

    def preview(self, person: str) -> dict[str, int]:
        """What erasing everything would delete, by table."""
        counts: dict[str, int] = {}
        for row in self._records.held(person):
            counts[row.table] = counts.get(row.table, 0) + 1
        return counts

    def erase_item(self, person: str, table: str, name: str) -> Receipt:
        """One row, or one conversation with its turns; the rest is sealed anew, so that old copies open nothing.

        Raises:
            AuditBroken: the intent could not be logged, and nothing was erased.
            HeldByLaw: a legal hold is on it.
            ResidueFound: something is left.
        """
        self._allowed(person)
        whole = table in ("attributes", "safety_plans")
        needles = Needles()
        for row in self._records.held(person):
            belongs = row.table == table and row.name == name
            if belongs or (table == "sessions" and row.table == "turns" and row.name.startswith(name + " ")):
                for column in SEALED.get(row.table, ()):
                    if row.fields.get(column):
                        needles.add_value(str(row.fields[column]))
        kept = self._texts(person, without=(table, name))
        needles.values = {v for v in needles.values if not any(v in text for text in kept)}
        self._begin(person, {"table": table})
        counts = {table: self._records.delete(person, table, name)}
        if whole:
            counts |= self._records.scrub(person, table, name)
        old = [token for _, _, token in self._tokens(person)]
        if self._vault.begin_rotation(person) is not None:
            for _ in self._records.reseal(person):
                pass
            self._vault.end_rotation(person)
        for token in old:
            needles.add_token(token)
        return self._finish(person, f"one of {table}", counts, needles, bury=False)

    def erase_all(self, person: str) -> Receipt:
        """Everything: key, rows, traces in files.

        Raises:
            AuditBroken: the intent could not be logged, and nothing was erased.
            HeldByLaw: a legal hold is on it.
            ResidueFound: something is left.
        """
        self._allowed(person)
        needles = self._needles(person)
        clear = self.scanner.scan(Needles(values=set(needles.values)), orphans=False)
        if clear.found:
            raise ResidueFound(
                "before anything was destroyed, something of it stands in clear in "
                + "; ".join(clear.found[:5])
                + ": remove that first"
            )
        audit_key = self._vault.audit_key(person)
        self._begin(person, {"everything": True})
        self._audit.bury(person, at=self._clock())
        self._vault.shred(person)
        counts = self._records.delete_all(person)
        if len(person) >= SHORTEST_VALUE:
            needles.values.add(person.encode())
        return self._finish(person, "everything", counts, needles, bury=True, audit_key=audit_key)

    def _begin(self, person: str, counts: dict[str, int | str | bool]) -> None:
        """Logged before anything is destroyed: where that fails, nothing is."""
        self._audit.append(
            EventKind.ERASURE_BEGUN,
            at=self._clock(),
            subject=person,
            key=self._vault.audit_key(person),
            counts=counts,
        )

    def _finish(
        self,
        person: str,
        what: str,
        counts: dict[str, int],
        needles: Needles,
        *,
        bury: bool,
        audit_key: bytes | None = None,
    ) -> Receipt:
        for _ in range(TRIES):  # a sweep or a backup of another process may be in the way for seconds
            is_emptied = checkpoint(self._store.db) and self._vault.checkpoint()
            residue = self.scanner.scan(needles)
            if is_emptied or not residue.found:
                break
        if residue.found:
            raise ResidueFound(
                "something is left in "
                + "; ".join(residue.found[:5])
                + ": run the erasure again once nothing reads "
                "those files ('raise-chat privacy residue' looks again)"
            )
        at, number = self._clock(), secrets.token_hex(8)
        event = self._audit.append(
            EventKind.ERASURE, at=at, subject=person, key=audit_key if bury else self._vault.audit_key(person),
            counts={**counts, "receipt": hashlib.sha256(number.encode()).hexdigest()[:16], "residue": 0},
        )  # fmt: skip
        return Receipt(
            id=number,
            at=at,
            what=what,
            counts=counts,
            audit_number=event.number,
            audit_hash=event.hash,
            residue=residue,
        )

    def rotate(
        self, *, data: bool, progress: Callable[[int, int], None] = lambda _done, _all: None
    ) -> dict[str, int]:
        """Wrap every data key under the newest master key; with `data`, seal every value under a new data key first.

        Resumable: whatever is done already is left.

        Raises:
            KeysUnusable: a data key opens under none of the master keys.
        """
        self._audit.append(EventKind.KEYS, at=self._clock(), counts={"begun": True, "data": data})
        counts = {"values": 0}
        if data:
            subjects = list(self._vault.subjects())
            for number, subject in enumerate(subjects, 1):
                if self._vault.begin_rotation(subject) is not None:
                    *_, done = (0, *self._records.reseal(subject))
                    counts["values"] += done
                    self._vault.end_rotation(subject)
                progress(number, len(subjects))
        counts["keys"] = self._vault.rotate_masters(progress=progress)
        self._audit.append(EventKind.KEYS, at=self._clock(), counts=dict(counts))
        checkpoint(self._store.db)
        return counts

    def verify_receipt(self, raw: dict[str, Any]) -> str:
        """See `receipt_differs`."""
        return self.receipt_differs(self._audit, raw)

    @staticmethod
    def receipt_differs(log: AuditLog, raw: dict[str, Any]) -> str:
        """Nothing where the log still says what the receipt says, or in words what does not agree.

        Raises:
            AuditBroken: the log itself does not verify.
        """
        try:
            number, seen = int(raw["audit"]["number"]), str(raw["audit"]["hash"])
            mark = hashlib.sha256(str(raw["id"]).encode()).hexdigest()[:16]
            told = {str(k): int(v) for k, v in raw["counts"].items()}
        except (KeyError, TypeError, ValueError, AttributeError):
            return "it is not a receipt of ours"
        log.verify(heads={number: seen})
        event = next(e for e in log.events() if e.number == number)
        counts = json.loads(event.counts)
        if event.kind != EventKind.ERASURE.value or counts.pop("receipt", "") != mark:
            return f"entry {number} of the log is another one"
        counts.pop("residue", None)
        return "" if counts == told else f"entry {number} of the log gives other counts"

    def replay_erasures(self) -> list[str]:
        """Erase again whoever was erased and is back, as after an older backup was restored. Before anybody logs in."""
        back = self.returned()
        for person in back:
            self._records.release(person)  # a hold that came back was lifted before they were erased
            self.erase_all(person)
        return back

    def returned(self) -> list[str]:
        """Who was erased and is there again, rows or a key."""
        back = [person for person in self._records.everybody() if self._audit.was_erased(person)]
        back += [p for p in self._vault.subjects() if self._audit.was_erased(p) and p not in back]
        return back

    def keyless(self) -> list[str]:
        """Who has sealed rows and no key."""
        subjects = set(self._vault.subjects())
        return sorted(person for person in self._records.sealed_of() if person not in subjects)

    def erase_keyless(self) -> list[str]:
        """Erase who has sealed rows and no key: after a restore with keys newer than the data they were erased in between.

        Only then: keys that are lost by accident must not delete anything.
        """
        found = self.keyless()
        for person in found:
            self._records.release(person)
            self.erase_all(person)
        return found

    # ------------------------------------------------------------------------------------------- what may be left

    def _tokens(self, person: str) -> Iterator[tuple[str, str, str]]:
        for table, column, row in self._records.tokens(person):
            yield table, column, row[column]

    def _texts(self, person: str, *, without: tuple[str, str]) -> list[bytes]:
        """What stays held, to tell what an erased value has in common with it."""
        found = []
        for row in self._records.held(person):
            if (row.table, row.name) == without or row.name.startswith(without[1] + " "):
                continue
            found += [str(v).encode() for v in row.fields.values() if isinstance(v, str)]
        return found

    def _needles(self, person: str) -> Needles:
        needles = Needles()
        for row in self._records.held(person, also_expired=True):
            for column in SEALED.get(row.table, ()):
                if row.fields.get(column):
                    needles.add_value(str(row.fields[column]), is_theirs=column == "places")
        for _, _, token in self._tokens(person):
            needles.add_token(token)
        for token in self._vault.wrapped(person):
            needles.add_token(token)
        return needles


_BARE = frozenset({
    "person", "category", "at", "expires_at", "collected_at", "last_at", "pin", "password", "digest",
})  # fmt: skip


def _readable(value: Any) -> Any:
    """JSON inside a text, taken out of it."""
    if not isinstance(value, str) or value[:1] not in "[{":
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def summary(rows: Sequence[Held] | Iterable[Held]) -> dict[str, int]:
    """How many of each table."""
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.table] = counts.get(row.table, 0) + 1
    return counts


__all__ = [
    "NOT_REACHED",
    "HeldByLaw",
    "Receipt",
    "Residue",
    "ResidueFound",
    "Rights",
    "SealBroken",
    "summary",
]
