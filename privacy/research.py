"""What researchers get: records of those who agreed to research, and of nobody else, opened row by row, under another code.

Every person is asked for again at the moment of reading (a `Grant` of research). The code is an HMAC under the person's own
key: the same in each export, and nobody's once that key is destroyed.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from privacy.consent import ConsentLedger, Grant, ToResearch
from privacy.errors import SealBroken
from privacy.store import Store
from privacy.store.accounts import Accounts
from privacy.store.records import Held, Records
from privacy.vault import Vault

CODE_LETTERS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Researched:
    """One person's records, as far as they agreed.

    Attributes:
        code: in exports.
        arm: of the study; "" where they are not enrolled.
        protocol: version they were enrolled under.
        began: when they were enrolled, or first here; days are counted from it.
        first_at: ISO time of their first sign-in; "" where there was none.
        rows: everything that has not expired, opened.
        scopes: what they agree to now.
    """

    code: str
    arm: str
    protocol: str
    began: datetime
    first_at: str
    rows: tuple[Held, ...] = field(repr=False)
    scopes: frozenset[str] = frozenset()

    def of(self, table: str) -> list[Held]:
        """The rows of one table, oldest first."""
        return sorted((row for row in self.rows if row.table == table), key=lambda row: (row.at, row.name))


class Research:
    """Reads for researchers. One instance for the store's thread."""

    def __init__(
        self, store: Store, vault: Vault, records: Records, accounts: Accounts, ledger: ConsentLedger
    ) -> None:
        self._store, self._vault, self._records = store, vault, records
        self._accounts, self._ledger = accounts, ledger

    def persons(self) -> list[str]:
        """Everybody of whom there is anything."""
        return self._records.persons()

    def read(self) -> Iterator[Researched]:
        """Whoever agreed to research, one at a time, in the order of their codes."""
        found = []
        for person in self.persons():
            grant = self._ledger.grant(person, ToResearch)
            if grant is None:
                continue
            code = self.code(person)
            if code is not None:
                found.append((code, person, grant))
        for code, person, grant in sorted(found, key=lambda one: one[0]):
            yield self._one(code, person, grant)

    def _one(self, code: str, person: str, grant: Grant[ToResearch]) -> Researched:
        grant.check(person)
        enrolment = self._accounts.enrolment(person)
        arm = self._arm(person)
        rows = tuple(self._records.held(person))
        began = datetime.fromisoformat(enrolment.made_at) if enrolment else min(row.at for row in rows)
        answers = self._ledger.answers(person)
        return Researched(
            code=code,
            arm=arm,
            protocol=enrolment.protocol if enrolment else "",
            began=began,
            first_at=enrolment.first_at if enrolment else "",
            rows=rows,
            scopes=frozenset(scope.value for scope, answer in answers.items() if answer.granted),
        )

    def _arm(self, person: str) -> str:
        try:
            return self._accounts.arm(person) or ""
        except SealBroken:
            return "does not open"

    def code(self, person: str) -> str | None:
        """The code of a person in exports; None where they have no key any more."""
        key = self._vault.audit_key(person)
        if key is None:
            return None
        return hmac.new(key, b"export " + person.encode(), hashlib.sha256).hexdigest()[:CODE_LETTERS]

    def flow(self, at: datetime) -> dict[tuple[str, str], int]:
        """How many came how far, by step and arm: allocated, came, agreed, agreed to research, withdrawn."""
        counts: dict[tuple[str, str], int] = {}

        def add(step: str, arm: str, many: int = 1) -> None:
            counts[step, arm] = counts.get((step, arm), 0) + many

        for what, many in self._accounts.tallied("enrolment").items():
            step, _, arm = what.rpartition(" ")
            add(step.removesuffix(", then left"), arm, many)
        for one in self._accounts.enrolments():
            arm = self._arm(one.person)
            for step in ("came", "agreed", "agreed to keep", "agreed to research", "deactivated", "chatted"):
                counts.setdefault((step, arm), 0)
            add("came", arm, bool(one.first_at))
            answers = self._ledger.answers(one.person)
            said = {scope.value for scope, answer in answers.items() if answer.granted}
            add("agreed", arm, "chat" in said)
            add("agreed to keep", arm, "keep" in said)
            add("agreed to research", arm, "research" in said)
            add("deactivated", arm, one.status.value != "active")
            add("chatted", arm, self._has_turns(one.person, at))
        return dict(sorted(counts.items()))

    def _has_turns(self, person: str, at: datetime) -> bool:
        row = self._store.db.execute(
            "SELECT 1 FROM decisions WHERE person = ? AND expires_at > ? LIMIT 1", [person, at.isoformat()]
        ).fetchone()
        return row is not None


def spoken(row: Held) -> tuple[str, list[str]] | None:
    """What was said in a turn on both sides, redacted; None where no transcript of it is kept."""
    if row.category != "transcript" or not row.fields.get("words"):
        return None
    raw: dict[str, Any] = json.loads(row.fields["words"])
    return str(raw["said"]), [str(text) for text in raw["answered"]]
