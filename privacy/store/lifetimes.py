"""When what is kept of a person goes: each row's date by the rules in force, answers that fade earlier, and legal holds.

Times are aware UTC, stored as ISO 8601 text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Protocol

from sqlite_utils import Database

from privacy.consent import Scope
from privacy.errors import KeysUnusable, SealBroken
from privacy.store.schema import COLLECTED, PERSONAL, TABLES
from privacy.vault import SealKey, Vault


class Rules(Protocol):
    """The retention rules, parsed."""

    @property
    def digest(self) -> str:
        """Of the file they stand in."""
        ...

    def until(self, category: str, at: datetime, *, withdrawn: datetime | None = None) -> datetime:
        """When a record that came at that time goes."""
        ...

    def counted_from(self, category: str) -> str:
        """One of "collection", "last activity", "end of study" and "withdrawal"."""
        ...

    def keeps_counts(self, category: str) -> bool:
        """Whether its rows leave counts behind."""
        ...

    def describe(self, category: str) -> dict[str, str]:
        """The rule in words: keep, from, then, reason."""
        ...


class Lifetimes:
    """The dates of the rows of persons. One instance for one thread."""

    def __init__(
        self,
        database: Database,
        vault: Vault,
        rules: Rules,
        *,
        clock: Callable[[], datetime],
        volatile: Collection[str] = (),
    ) -> None:
        """Records in an open database.

        Args:
            database: of the store.
            vault: the keys.
            rules: how long each category lives.
            clock: aware UTC.
            volatile: attributes that are kept for a short time only.
        """
        self._db, self._vault, self._rules, self._clock = database, vault, rules, clock
        self._volatile = frozenset(volatile)
        self._following = {
            table: [c for c in facts.categories if rules.counted_from(c) == "last activity"]
            for table, facts in TABLES.items()
            if table in PERSONAL[1:]
        }

    def _write(self, sql: str, values: Mapping[str, Any]) -> None:
        self._db.execute(sql, dict(values))

    def _key(self, person: str) -> SealKey:
        key = self._vault.key(person, at=self._clock().isoformat())
        if key is None:
            raise SealBroken(f"no key of {person} could be made")
        return key

    def _seen(self, person: str, at: datetime) -> None:
        """The person exists, and was last here now."""
        self._write(
            "INSERT INTO participants VALUES (:person, 'participant', :at, :at, :until)"
            " ON CONFLICT DO UPDATE SET last_at = max(last_at, excluded.last_at),"
            " expires_at = max(expires_at, excluded.expires_at)",
            {"person": person, "at": at.isoformat(), "until": self._until("participant", at)},
        )
        for table, categories in self._following.items():
            for category in categories:
                self._write(
                    f"UPDATE {table} SET expires_at = :until WHERE person = :person AND category = :category"  # noqa: S608
                    " AND expires_at > :at",
                    {
                        "person": person,
                        "category": category,
                        "at": at.isoformat(),
                        "until": self._until(category, at),
                    },
                )

    def _until(self, category: str, at: datetime) -> str:
        return self._rules.until(category, at).isoformat()

    def _outlived(self, name: str, answer: Mapping[str, Any]) -> str:
        """When an answer in a state goes."""
        category = "volatile_attribute" if name in self._volatile else "stable_attribute"
        return self._until(category, datetime.fromisoformat(answer["at"]))

    def _fades(self, state: Mapping[str, Any]) -> str | None:
        """When the first answer in a state goes; None where there is none."""
        return min((self._outlived(n, a) for n, a in state.get("profile", {}).items()), default=None)

    def _faded(self, state: str, as_of: str) -> str:
        """A state without the answers whose time is up."""
        raw = json.loads(state)
        profile = raw.get("profile", {})
        gone = [name for name, answer in profile.items() if self._outlived(name, answer) <= as_of]
        if not gone:
            return state
        raw["profile"] = {name: answer for name, answer in profile.items() if name not in gone}
        return json.dumps(raw, ensure_ascii=False)

    def fade(self, as_of: str, *, most: int) -> int:
        """Take answers whose time is up out of conversations that live on; how many conversations were looked at."""
        rows = list(
            self._db.query(
                "SELECT id, person, state FROM sessions WHERE fades_at <= :now AND expires_at > :now"
                " AND person NOT IN (SELECT person FROM holds WHERE expires_at > :now) ORDER BY fades_at LIMIT :most",
                {"now": as_of, "most": most},
            )
        )
        for row in rows:
            name = f"state {row['id']}"
            values: dict[str, str | None] = {"state": row["state"], "fades": None, "id": row["id"]}
            with suppress(SealBroken, KeysUnusable, ValueError, KeyError, TypeError, AttributeError):
                key = self._vault.key(row["person"], make=False)
                if key is not None:
                    left = self._faded(key.open(name, row["state"]), as_of)
                    values |= {"state": key.seal(name, left), "fades": self._fades(json.loads(left))}
            with self._db.atomic():
                self._write("UPDATE sessions SET state = :state, fades_at = :fades WHERE id = :id", values)
        return len(rows)

    def withdrew(self, person: str, at: datetime) -> None:
        """A yes to keeping or to chatting was taken back: what is counted from that gets its date, never a later one."""
        for table in PERSONAL[1:]:
            for category in TABLES[table].categories:
                if self._rules.counted_from(category) != "withdrawal":
                    continue
                rows = self._db.query(
                    f"SELECT rowid AS number, {COLLECTED[table]} AS at, expires_at FROM {table}"  # noqa: S608 (our own names)
                    " WHERE person = :person AND category = :category",
                    {"person": person, "category": category},
                )
                for row in list(rows):
                    until = self._rules.until(category, datetime.fromisoformat(row["at"]), withdrawn=at)
                    with self._db.atomic():
                        self._db.execute(
                            f"UPDATE {table} SET expires_at = ? WHERE rowid = ?",  # noqa: S608 (our own names)
                            [min(until.isoformat(), row["expires_at"]), row["number"]],
                        )

    def redate(self, *, most: int = 2000) -> int:
        """Give every row the date that the rules in force give it, where they are others than before; how many changed.

        What has expired stays expired, however long the new rules are.
        """
        found = next(iter(self._db.query("SELECT value FROM own WHERE name = 'retention'")), None)
        if found is not None and found["value"] == self._rules.digest:
            return 0
        changed = 0
        for table in (*PERSONAL, "holds"):
            column, last = COLLECTED[table], 0
            while True:
                rows = list(
                    self._db.query(
                        f"SELECT rowid AS number, person, category, {column} AS at, expires_at FROM {table}"  # noqa: S608
                        " WHERE rowid > ? AND expires_at > ? ORDER BY rowid LIMIT ?",
                        [last, self._clock().isoformat(), most],
                    )
                )
                if not rows:
                    break
                with self._db.atomic():
                    for row in rows:
                        until = self._redated(table, row)
                        if until != row["expires_at"]:
                            self._db.execute(
                                f"UPDATE {table} SET expires_at = ? WHERE rowid = ?",  # noqa: S608 (our own names)
                                [until, row["number"]],
                            )
                            changed += 1
                last = rows[-1]["number"]
        with self._db.atomic():
            self._db.execute("UPDATE sessions SET fades_at = ''")
            self._db.execute("INSERT OR REPLACE INTO own VALUES ('retention', ?)", [self._rules.digest])
        return changed

    def _redated(self, table: str, row: Mapping[str, Any]) -> str:
        category, at, person = row["category"], datetime.fromisoformat(row["at"]), row["person"]
        counted = self._rules.counted_from(category)
        withdrawn = None
        if counted == "last activity" and table != "participants":
            seen = next(
                iter(self._db.query("SELECT last_at FROM participants WHERE person = ?", [person])), None
            )
            at = datetime.fromisoformat(seen["last_at"]) if seen else at
        elif counted == "withdrawal":
            first = self._db.execute(
                "SELECT min(at) FROM consents WHERE person = ? AND scope IN (?, ?) AND granted = 0 AND at >= ?",
                [person, Scope.KEEP.value, Scope.CHAT.value, row["at"]],
            ).fetchone()[0]
            withdrawn = datetime.fromisoformat(first) if first else None
        return self._rules.until(category, at, withdrawn=withdrawn).isoformat()

    # ------------------------------------------------------------------------------------------- legal hold

    def hold(self, person: str, *, why: str, by: str) -> None:
        """Nothing of this person is swept or erased until the hold is lifted or runs out."""
        at = self._clock()
        with self._db.atomic():
            self._write(
                "INSERT OR REPLACE INTO holds VALUES (:person, 'legal_hold', :why, :by, :at, :until)",
                {
                    "person": person, "why": why, "by": by, "at": at.isoformat(),
                    "until": self._until("legal_hold", at),
                },
            )  # fmt: skip

    def release(self, person: str) -> bool:
        """Lift a hold; False where there is none."""
        with self._db.atomic():
            return bool(self._db.execute("DELETE FROM holds WHERE person = ?", [person]).rowcount)

    def holds(self) -> list[dict[str, Any]]:
        """Every hold that has not run out."""
        return list(
            self._db.query(
                "SELECT * FROM holds WHERE expires_at > ? ORDER BY at", [self._clock().isoformat()]
            )
        )

    def is_held(self, person: str) -> bool:
        """Whether a hold is on what is held of them."""
        found = self._db.query(
            "SELECT 1 AS yes FROM holds WHERE person = ? AND expires_at > ?",
            [person, self._clock().isoformat()],
        )
        return next(iter(found), None) is not None
