"""What staff do while a study runs, each act in the audit log before it is done. For the store's thread."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from bot.escalation import PAUSED
from bot.keeping import Keeping, Line
from privacy.audit import EventKind
from privacy.errors import PrivacyError, SealBroken
from privacy.store.accounts import Status

ACTIONS = ("reached", "called-emergency", "handed-over", "left-message", "not-reached", "false-alarm")
OUTCOMES = ("safe", "in-care", "not-reached", "withdrawn", "false-alarm", "harm-occurred")
"""Fixed words: free text about a person does not belong in these files."""
WHY = ("person-asked", "safety", "complaint", "legal", "technical")
"""Reasons for looking at one person's records: fixed words, as free text does not belong in the log."""
PAUSE_WHY = ("safety", "notices-looked-at", "enough-people", "technical", "board", "other")
"""Reasons for pausing enrolment, and for going on."""
DEVIATIONS = (
    "model-fell-back", "seed-given", "protocol-changed", "enrolment-paused", "enrolment-resumed", "unblinded", "pin-reset", "deactivated",
    "consent-late", "wrong-arm", "data-lost", "instructions-not-followed", "other",
)  # fmt: skip
"""Kinds of deviation from the protocol; the first three, pauses and what staff do at a code the program notes by itself."""


@dataclass(frozen=True, slots=True)
class Operating:
    """Acts on one deployment."""

    keeping: Keeping

    def _logged(self, kind: EventKind, *, person: str = "", **counts: int | str | bool) -> int:
        keeping = self.keeping
        key = keeping.vault.audit_key(person) if person else None
        return keeping.audit.append(kind, at=keeping.now(), subject=person, key=key, counts=counts).number

    def _open(self) -> list[dict[str, Any]]:
        return self.keeping.store.escalations(open_only=True, at=self.keeping.now())

    # ------------------------------------------------------------------------------------------- danger

    def acknowledge(self, number: int, *, by: str, did: str) -> bool:
        """Take a notice on; False where there is none, or it was taken on before, or the word is not one of ours."""
        if did not in ACTIONS:
            return False
        if not any(n["id"] == number and not n["acknowledged_at"] for n in self._open()):
            return False
        self._logged(EventKind.ESCALATION, notice=number, acknowledged=True, action=did)
        return self.keeping.store.acknowledge(number, by=by, action=did, at=self.keeping.now())

    def close(self, number: int, *, by: str, outcome: str) -> bool:
        """Close a notice that was taken on."""
        if outcome not in OUTCOMES:
            return False
        if not any(n["id"] == number and n["acknowledged_at"] for n in self._open()):
            return False
        self._logged(EventKind.ESCALATION, notice=number, closed=True, outcome=outcome)
        return self.keeping.store.close_escalation(number, by=by, outcome=outcome, at=self.keeping.now())

    # ------------------------------------------------------------------------------------------- enrolment

    def pause(self, *, by: str, why: str) -> bool:
        """Nobody new is let in; False where that is so already, or the reason is none of ours."""
        keeping = self.keeping
        if why not in PAUSE_WHY or keeping.store.own(PAUSED) is not None:
            return False
        self._logged(EventKind.POLICY, enrolment="paused", by=by)
        told = json.dumps({"at": keeping.now().isoformat(), "why": why, "by": by})
        keeping.store.set_own(PAUSED, told)
        keeping.accounts.deviated("enrolment-paused", by=by)
        return True

    def resume(self, *, by: str, why: str) -> bool:
        """People are let in again; False where they are, or the reason is none of ours."""
        keeping = self.keeping
        if why not in PAUSE_WHY or keeping.store.own(PAUSED) is None:
            return False
        self._logged(EventKind.POLICY, enrolment="resumed", by=by, why=why)
        keeping.store.set_own(PAUSED, None)
        keeping.accounts.deviated("enrolment-resumed", by=by)
        return True

    def sign_out(self, person: str, *, by: str) -> bool:
        """End every sign-in of a person at once; False where there is no such participant."""
        keeping = self.keeping
        if keeping.accounts.enrolment(person) is None:
            return False
        self._logged(EventKind.ACCESS, person=person, command="sign out", by=by)
        keeping.accounts.sign_out_all(person)
        return True

    def deactivate(self, person: str, *, by: str) -> bool:
        """Somebody may not sign in any more, and is signed out; False where there is no such participant."""
        keeping = self.keeping
        if keeping.accounts.enrolment(person) is None:
            return False
        self._logged(EventKind.ACCESS, person=person, command="deactivate", by=by)
        keeping.accounts.deviated("deactivated", person=person, by=by)
        return keeping.accounts.set_status(person, Status.DEACTIVATED)

    def activate(self, person: str, *, by: str) -> bool:
        """Somebody may sign in again."""
        keeping = self.keeping
        if keeping.accounts.enrolment(person) is None:
            return False
        self._logged(EventKind.ACCESS, person=person, command="activate", by=by)
        return keeping.accounts.set_status(person, Status.ACTIVE)

    def reset_pin(self, person: str, *, by: str) -> str | None:
        """A new PIN for somebody, who is signed out; None where there is no such participant."""
        keeping = self.keeping
        if keeping.accounts.enrolment(person) is None:
            return None
        self._logged(EventKind.ACCESS, person=person, command="reset-pin", by=by)
        keeping.accounts.deviated("pin-reset", person=person, by=by)
        return keeping.accounts.reset_pin(person)

    # ------------------------------------------------------------------------------------------- looking

    def unblind(self, person: str, *, by: str, why: str) -> str | None:
        """The arm of somebody, which is logged and is a deviation; None where there is no such participant.

        Raises:
            PrivacyError: it could not be logged, and is not told; or it does not open.
        """
        keeping = self.keeping
        if why not in WHY:
            raise PrivacyError("unblinding needs a reason")
        if keeping.accounts.enrolment(person) is None:
            return None
        self._logged(EventKind.ACCESS, person=person, command="unblind", by=by, why=why)
        keeping.accounts.deviated("unblinded", person=person, by=by)
        return keeping.accounts.arm(person)

    def read(self, person: str, *, by: str, why: str) -> tuple[int, list[Line]] | None:
        """What is kept of somebody's newest conversation, redacted; the number of the entry that says who read it, and why.

        None where there is nobody of that code.

        Raises:
            PrivacyError: it could not be logged, and is not shown.
        """
        if why not in WHY:
            raise PrivacyError("reading a conversation needs a reason")
        if person not in self.keeping.records.persons():
            return None
        entry = self._logged(EventKind.ACCESS, person=person, command="read", by=by, why=why)
        try:
            kept = self.keeping.records.last_session(person)
        except SealBroken:
            kept = None
        return entry, [Line.from_json(raw) for raw in json.loads(kept.shown)] if kept else []
