"""Who takes part, who works for the study, and who is signed in: every query on it. Times are aware UTC.

The arm is sealed under the participant's own key, so that nobody who reads the file learns it (allocation concealment).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from privacy import pins
from privacy.errors import StoreError
from privacy.store.lifetimes import Lifetimes


class Status(StrEnum):
    """Whether somebody may sign in."""

    ACTIVE = "active"
    DEACTIVATED = "deactivated"


class Role(StrEnum):
    """What staff may see. Nobody reads chats by default."""

    OPERATOR = "operator"
    RESEARCHER = "researcher"
    AUDITOR = "auditor"


STAFF = "staff:"
"""Begins the name under which somebody of the staff is signed in; no participant's code has a colon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Enrolment:
    """A participant, without their arm.

    Attributes:
        person: pseudonym, the study code.
        status: whether they may sign in.
        protocol: version of the study file they were enrolled under.
        made_at: ISO time.
        first_at: ISO time of their first sign-in, "" before.
    """

    person: str
    status: Status
    protocol: str
    made_at: str
    first_at: str


class Accounts(Lifetimes):
    """Enrolments, staff and sign-ins. One instance for the store's thread."""

    # ------------------------------------------------------------------------------------------- participants

    def enrol(self, arm: str, *, protocol: str) -> tuple[str, str]:
        """A new participant: see `enrol_all`."""
        return self.enrol_all([arm], protocol=protocol)[0]

    def enrol_all(
        self, arms: Sequence[str], *, protocol: str, progress: Callable[[int], None] = lambda _: None
    ) -> list[tuple[str, str]]:
        """New participants, all or none: their codes and PINs, which are not kept and cannot be shown again.

        Written in another order than they were dealt, at one time: the file does not tell who came when.

        Args:
            arms: that chance chose, in the order in which they are to be handed out.
            protocol: version of the study file.
            progress: called with how many PINs are ready, as hashing them is slow.

        Raises:
            StoreError: no free code was found.
        """
        at = self._clock()
        made: dict[str, tuple[str, str, str]] = {}
        for number, arm in enumerate(arms, 1):
            code = next(
                (c for c in (pins.new_code() for _ in range(20)) if c not in made and not self._is_taken(c)),
                None,
            )
            if code is None:
                raise StoreError("no free study code was found")
            pin = pins.new_pin()
            self._key(code)
            made[code] = (pin, pins.hashed(pin, self._pepper(code)), arm)
            progress(number)
        shuffled = sorted(made)
        with self._db.atomic():
            for code in shuffled:
                _, hashed, arm = made[code]
                self._seen(code, at)
                sealed = self._key(code).seal("arm", json.dumps({"arm": arm}))
                self._write(
                    "INSERT INTO enrolments VALUES"
                    " (:person, 'enrolment', :pin, :arm, 'active', :protocol, :at, NULL, :until)",
                    {
                        "person": code, "pin": hashed, "arm": sealed, "protocol": protocol, "at": at.isoformat(),
                        "until": self._until("enrolment", at),
                    },
                )  # fmt: skip
                self._tally("enrolment", f"allocated {arm}", at)
        return [(code, pin) for code, (pin, _, _) in made.items()]

    def _is_taken(self, code: str) -> bool:
        row = self._db.execute("SELECT 1 FROM participants WHERE person = ?", [code]).fetchone()
        return row is not None

    def _pepper(self, person: str) -> bytes:
        found = self._vault.audit_key(person)
        if found is None:
            raise StoreError("a participant has no key: restore keys.db, or erase them")
        return found

    def _tally(self, category: str, what: str, at: datetime) -> None:
        self._write(
            "INSERT INTO tallies VALUES (:category, :month, :what, 1) ON CONFLICT DO UPDATE SET count = count + 1",
            {"category": category, "month": at.strftime("%Y-%m"), "what": what},
        )

    def tallied(self, category: str) -> dict[str, int]:
        """Counts of a category over all months."""
        rows = self._db.query(
            "SELECT what, sum(count) AS n FROM tallies WHERE category = ? GROUP BY 1", [category]
        )
        return {row["what"]: int(row["n"]) for row in rows}

    def enrolment(self, person: str) -> Enrolment | None:
        """A participant, or None where there is none of that code."""
        row = self._enrolled(person)
        return _enrolment(row) if row else None

    def enrolments(self) -> list[Enrolment]:
        """Everybody who takes part, in no telling order."""
        rows = self._db.query(
            "SELECT * FROM enrolments WHERE expires_at > ? ORDER BY person", [self._clock().isoformat()]
        )
        return [_enrolment(row) for row in rows]

    def _enrolled(self, person: str) -> dict[str, Any] | None:
        rows = self._db.query(
            "SELECT * FROM enrolments WHERE person = ? AND expires_at > ?",
            [person, self._clock().isoformat()],
        )
        return next(iter(rows), None)

    def arm(self, person: str) -> str | None:
        """The arm of a participant; None for who is none.

        Raises:
            SealBroken: it does not open.
        """
        row, key = self._enrolled(person), self._vault.key(person, make=False)
        if row is None or key is None:
            return None
        return str(json.loads(key.open("arm", row["arm"]))["arm"])

    def pin_of(self, person: str) -> tuple[str, bytes] | None:
        """The hash of a participant's PIN and its pepper, for `pins.verify`."""
        row = self._enrolled(person)
        pepper = self._vault.audit_key(person) if row is not None else None
        return (row["pin"], pepper) if row is not None and pepper is not None else None

    def reset_pin(self, person: str) -> str | None:
        """A new PIN; whoever is signed in is not any more. None where there is no such participant."""
        if self._enrolled(person) is None:
            return None
        pin = pins.new_pin()
        with self._db.atomic():
            self._write(
                "UPDATE enrolments SET pin = :pin WHERE person = :person",
                {"pin": pins.hashed(pin, self._pepper(person)), "person": person},
            )
            self._sign_out_all(person)
        return pin

    def set_status(self, person: str, status: Status) -> bool:
        """Let somebody in, or keep them out and sign them out; False where there is no such participant."""
        with self._db.atomic():
            done = self._db.execute(
                "UPDATE enrolments SET status = ? WHERE person = ?", [status.value, person]
            )
            if status is not Status.ACTIVE:
                self._sign_out_all(person)
        return bool(done.rowcount)

    def came(self, person: str) -> bool:
        """A participant has signed in; False where they have been erased meanwhile."""
        at = self._clock()
        if self._enrolled(person) is None:
            return False
        with self._db.atomic():
            self._seen(person, at)
            self._write(
                "UPDATE enrolments SET first_at = coalesce(first_at, :at) WHERE person = :person",
                {"at": at.isoformat(), "person": person},
            )
        return True

    def stages(self, person: str) -> tuple[str, ...]:
        """How far a participant has come, for the counts that stay when they go: came, agreed, chatted."""
        row = self._enrolled(person)
        if row is None:
            return ()
        agreed = self._db.execute(
            "SELECT 1 FROM consents WHERE person = ? AND scope = 'chat' AND granted = 1 LIMIT 1", [person]
        ).fetchone()
        chatted = self._db.execute("SELECT 1 FROM decisions WHERE person = ? LIMIT 1", [person]).fetchone()
        reached = {"came": row["first_at"], "agreed": agreed, "chatted": chatted}
        return tuple(stage for stage, found in reached.items() if found)

    def note_withdrawal(self, arm: str, stages: tuple[str, ...] = ()) -> None:
        """Somebody of an arm has withdrawn: numbers, as their rows go."""
        at = self._clock()
        with self._db.atomic():
            self._tally("enrolment", f"withdrawn {arm}", at)
            for stage in stages:
                self._tally("enrolment", f"{stage}, then left {arm}", at)

    # ------------------------------------------------------------------------------------------- staff

    def add_staff(self, name: str, role: Role) -> str:
        """Somebody of the staff, or the same with another role and password; the password, which is not kept.

        Args:
            name: as they sign in.
            role: what they may see.
        """
        password, at, person = pins.new_password(), self._clock(), STAFF + name
        with self._db.atomic():
            self._sign_out_all(person)
            self._write(
                "INSERT OR REPLACE INTO staff VALUES (:person, 'staff', :role, :password, 'active', :at, :until)",
                {
                    "person": person, "role": role.value, "password": pins.hashed(password), "at": at.isoformat(),
                    "until": self._until("staff", at),
                },
            )  # fmt: skip
        return password

    def staff(self) -> list[dict[str, Any]]:
        """Everybody of the staff: person, role, status, last_at."""
        rows = self._db.query(
            "SELECT person, role, status, last_at FROM staff WHERE expires_at > ? ORDER BY person",
            [self._clock().isoformat()],
        )
        return [{**row, "person": row["person"].removeprefix(STAFF)} for row in rows]

    def role(self, person: str) -> Role | None:
        """The role of somebody of the staff who may sign in."""
        rows = self._db.query(
            "SELECT role FROM staff WHERE person = ? AND status = 'active' AND expires_at > ?",
            [person, self._clock().isoformat()],
        )
        row = next(iter(rows), None)
        return Role(row["role"]) if row else None

    def password_of(self, name: str) -> tuple[str, bytes] | None:
        """The hash of somebody's password, for `pins.verify`."""
        rows = self._db.query(
            "SELECT password FROM staff WHERE person = ? AND status = 'active' AND expires_at > ?",
            [STAFF + name, self._clock().isoformat()],
        )
        row = next(iter(rows), None)
        return (row["password"], pins.NOBODYS) if row else None

    def staff_came(self, name: str) -> None:
        """Somebody of the staff has signed in: their account lives on."""
        at = self._clock()
        with self._db.atomic():
            self._write(
                "UPDATE staff SET last_at = :at, expires_at = :until WHERE person = :person",
                {"at": at.isoformat(), "until": self._until("staff", at), "person": STAFF + name},
            )

    def remove_staff(self, name: str) -> bool:
        """Take an account away, at once; False where there is none."""
        with self._db.atomic():
            self._sign_out_all(STAFF + name)
            return bool(self._db.execute("DELETE FROM staff WHERE person = ?", [STAFF + name]).rowcount)

    # ------------------------------------------------------------------------------------------- signed in

    def sign_in(self, person: str, token: str) -> None:
        """A cookie is good from now on; of who is there, as an erasure may have come in between."""
        at = self._clock()
        if self._enrolled(person) is None and self.role(person) is None:
            return
        with self._db.atomic():
            self._write(
                "INSERT OR REPLACE INTO logins VALUES (:digest, :person, 'login', :at, 0, :until)",
                {
                    "digest": digest(token), "person": person, "at": at.isoformat(),
                    "until": self._until("login", at),
                },
            )  # fmt: skip

    def sign_out(self, person: str, token: str, *, is_anonymous: bool = False) -> None:
        """A cookie is good no more, whoever has a copy of it.

        Of a visitor of the demo, who signs in nowhere, only the cookie's hash is kept, until the cookie expires by itself.
        """
        at = self._clock()
        with self._db.atomic():
            if is_anonymous:
                values = {"digest": digest(token), "at": at.isoformat(), "until": self._until("login", at)}
                self._write(
                    "INSERT OR IGNORE INTO logins VALUES (:digest, '', 'login', :at, 1, :until)", values
                )
                return
            self._write(
                "DELETE FROM logins WHERE digest = :digest AND person = :person",
                {"digest": digest(token), "person": person},
            )

    def sign_out_all(self, person: str) -> int:
        """Every cookie of a person is good no more; how many there were."""
        with self._db.atomic():
            return self._sign_out_all(person)

    def _sign_out_all(self, person: str) -> int:
        return max(0, self._db.execute("DELETE FROM logins WHERE person = ?", [person]).rowcount)

    def standing(self, person: str, token: str, *, is_anonymous: bool) -> bool:
        """Whether a cookie is good now: one of a participant or of staff that is kept here, or an anonymous one that was not ended.

        Args:
            person: whom it names.
            token: the cookie.
            is_anonymous: it is a visitor's of the demo, who signs in nowhere.
        """
        row = next(
            iter(
                self._db.query(
                    "SELECT * FROM logins WHERE digest = ? AND expires_at > ?",
                    [digest(token), self._clock().isoformat()],
                )
            ),
            None,
        )
        if is_anonymous:
            return row is None
        if row is None or row["is_ended"] or row["person"] != person:
            return False
        if person.startswith(STAFF):
            return self.role(person) is not None
        found = self.enrolment(person)
        return found is not None and found.status is Status.ACTIVE

    def signed_in(self) -> tuple[dict[str, str], frozenset[str]]:
        """Cookies that are good now, with whose they are, and cookies of visitors that were ended: hashes of both."""
        rows = self._db.query(
            "SELECT digest, person, is_ended FROM logins WHERE expires_at > :now AND (is_ended = 1"
            " OR person IN (SELECT person FROM enrolments WHERE status = 'active' AND expires_at > :now)"
            " OR person IN (SELECT person FROM staff WHERE status = 'active' AND expires_at > :now))",
            {"now": self._clock().isoformat()},
        )
        found = list(rows)
        good = {row["digest"]: row["person"] for row in found if not row["is_ended"]}
        return good, frozenset(row["digest"] for row in found if row["is_ended"])

    # ------------------------------------------------------------------------------------------- what deviated

    def deviated(self, kind: str, *, person: str = "", by: str = "program") -> None:
        """The study did not go by its protocol.

        Args:
            kind: of a fixed list.
            person: pseudonym, "" where it concerns everybody.
            by: who says so.
        """
        at = self._clock()
        with self._db.atomic():
            self._write(
                "INSERT INTO deviations (person, category, at, kind, by, expires_at)"
                " VALUES (:person, 'deviation', :at, :kind, :by, :until)",
                {
                    "person": person, "at": at.isoformat(), "kind": kind, "by": by,
                    "until": self._until("deviation", at),
                },
            )  # fmt: skip

    def deviations(self) -> list[dict[str, Any]]:
        """Every deviation whose time is not up, oldest first."""
        return list(
            self._db.query(
                "SELECT id, person, at, kind, by FROM deviations WHERE expires_at > ? ORDER BY id",
                [self._clock().isoformat()],
            )
        )


def digest(token: str) -> str:
    """What is kept of a cookie."""
    return hashlib.sha256(token.encode()).hexdigest()


def _enrolment(row: Mapping[str, Any]) -> Enrolment:
    return Enrolment(
        person=row["person"],
        status=Status(row["status"]),
        protocol=row["protocol"],
        made_at=row["made_at"],
        first_at=row["first_at"] or "",
    )


__all__ = ["STAFF", "Accounts", "Enrolment", "Role", "Status", "digest"]
