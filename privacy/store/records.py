"""What is kept of a person: every query on it, sealed on the way in, opened on the way out.

Each method that writes takes the grant it needs and checks it again; whatever has expired is never read, purged or not.
Times are aware UTC, stored as ISO 8601 text.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from privacy.consent import ConsentRecord, Grant, Scope, ToChat, ToKeep, ToResearch, ToSend
from privacy.errors import SealBroken
from privacy.store.lifetimes import Lifetimes
from privacy.store.schema import COLLECTED, NAMES, PERSONAL, SEALED
from privacy.vault import SealKey


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSession:
    """A conversation that can go on.

    Attributes:
        id: of the session.
        state: as the bot wrote it.
        places: the placeholder map as the redactor wrote it.
        last_at: of the last turn.
        shown: what stood on the page, as the bot wrote it.
        coming: a message that was not answered yet, as the bot wrote it; "" where there is none.
    """

    id: str
    state: str = field(repr=False)
    places: str = field(repr=False)
    last_at: datetime
    shown: str = field(default="[]", repr=False)
    coming: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One thing that is held of a person, opened.

    Attributes:
        table: where.
        name: of the row in its table.
        category: of its retention rule.
        at: when it came.
        expires_at: when it goes.
        fields: column by column; sealed ones opened, or None where they do not open.
    """

    table: str
    name: str
    category: str
    at: datetime
    expires_at: datetime
    fields: Mapping[str, Any] = field(repr=False)


class Records(Lifetimes):
    """The rows of persons, in the one database. One instance for one thread."""

    # ------------------------------------------------------------------------------------------- consent

    def last_consents(self, person: str) -> Mapping[Scope, ConsentRecord]:
        """The newest answer to each scope."""
        rows = self._db.query(
            "SELECT * FROM consents WHERE person = :person AND expires_at > :now ORDER BY id",
            {"person": person, "now": self._clock().isoformat()},
        )
        return {
            Scope(row["scope"]): ConsentRecord(
                scope=Scope(row["scope"]),
                version=row["version"],
                destination=row["destination"],
                granted=bool(row["granted"]),
                at=datetime.fromisoformat(row["at"]),
            )
            for row in rows
        }

    def add_consent(self, person: str, record: ConsentRecord) -> None:
        """One more answer. It needs no grant: it is the grant."""
        with self._db.atomic():
            self._seen(person, record.at)
            self._write(
                "INSERT INTO consents (person, category, scope, version, destination, granted, at, expires_at)"
                " VALUES (:person, 'consent', :scope, :version, :destination, :granted, :at, :until)",
                {
                    "person": person,
                    "scope": record.scope.value,
                    "version": record.version,
                    "destination": record.destination,
                    "granted": int(record.granted),
                    "at": record.at.isoformat(),
                    "until": self._until("consent", record.at),
                },
            )

    # ------------------------------------------------------------------------------------------- conversations

    def keep_turn(
        self,
        grant: Grant[ToKeep],
        *,
        person: str,
        session: str,
        number: int,
        at: datetime,
        state: str,
        places: str,
        attributes: Mapping[str, tuple[str, datetime, bool]],
        turn_input: str,
        decisions: Sequence[Mapping[str, Any]],
        plan: str | None = None,
        words: tuple[Grant[ToResearch], str] | None = None,
        shown: str = "[]",
        took_ms: int | None = None,
    ) -> None:
        """All of one turn, or nothing of it.

        Args:
            grant: to keep.
            person: pseudonym.
            session: id of the conversation.
            number: of the turn.
            at: when it ended.
            state: the dialogue, so that it can go on.
            places: the placeholder map.
            attributes: by name: the answer as JSON, when it was given, whether it goes stale.
            turn_input: what the dialogue was told, as JSON, so that its decisions can be derived again.
            decisions: what was decided, without words.
            plan: the safety plan as JSON.
            words: what was said on both sides, redacted, with the grant for research.
            shown: what stands on the page, redacted, as JSON, so that it can be shown again.
            took_ms: milliseconds from the message to the last word of ours.

        Raises:
            ConsentMissing: a grant does not hold any more.
            StoreError: it could not be written.
        """
        grant.check(person)
        now = at.isoformat()
        with self._db.atomic():
            self._seen(person, at)
            key = self._key(person)
            self._write(
                "INSERT INTO sessions VALUES"
                " (:id, :person, 'session', :at, :at, :turns, :state, :places, :until, :fades, :shown, NULL)"
                " ON CONFLICT DO UPDATE SET last_at = excluded.last_at, turns = excluded.turns, state = excluded.state,"
                " places = excluded.places, expires_at = excluded.expires_at, fades_at = excluded.fades_at,"
                " shown = excluded.shown, coming = NULL",
                {
                    "fades": self._fades(json.loads(state)), "shown": key.seal(f"shown {session}", shown),
                    "id": session, "person": person, "at": now, "turns": number,
                    "state": key.seal(f"state {session}", state), "places": key.seal(f"places {session}", places),
                    "until": self._until("session", at),
                },
            )  # fmt: skip
            self._keep_attributes(key, person, attributes)
            spoken = None
            if words is not None:
                words[0].check(person)
                spoken = key.seal(f"words {session} {number}", words[1])
            self._write(
                "INSERT OR REPLACE INTO turns VALUES"
                " (:session, :number, :person, :category, :at, :input, :words, :until, :took)",
                {
                    "took": took_ms,
                    "session": session, "number": number, "person": person, "at": now, "words": spoken,
                    "category": "turn" if spoken is None else "transcript",
                    "input": key.seal(f"input {session} {number}", turn_input),
                    "until": self._until("turn" if spoken is None else "transcript", at),
                },
            )  # fmt: skip
            for position, decision in enumerate(decisions):
                self._write(
                    "INSERT OR REPLACE INTO decisions VALUES (:session, :number, :position, :person, 'decision', :at,"
                    " :outcome, :reason, :basis, :sufficiency, :attribute, :domain, :stakes, :plan, :until)",
                    {
                        **decision, "session": session, "number": number, "position": position, "person": person,
                        "at": now, "until": self._until("decision", at),
                    },
                )  # fmt: skip
            if plan is not None:
                self._write(
                    "INSERT OR REPLACE INTO safety_plans VALUES (:person, 'safety_plan', :entries, :at, :until)",
                    {
                        "person": person, "entries": key.seal("entries", plan), "at": now,
                        "until": self._until("safety_plan", at),
                    },
                )  # fmt: skip

    def keep_coming(
        self, grant: Grant[ToKeep], *, person: str, session: str, state: str, places: str, coming: str
    ) -> None:
        """A message that is about to be answered: where the program ends meanwhile, it is not lost.

        Args:
            grant: to keep.
            person: pseudonym.
            session: id of the conversation.
            state: the dialogue before it.
            places: the placeholder map, with what the message brought.
            coming: the message, redacted, as JSON.

        Raises:
            ConsentMissing: the grant does not hold any more.
        """
        grant.check(person)
        at = self._clock()
        with self._db.atomic():
            self._seen(person, at)
            key = self._key(person)
            self._write(
                "INSERT INTO sessions VALUES"
                " (:id, :person, 'session', :at, :at, 0, :state, :places, :until, :fades, NULL, :coming)"
                " ON CONFLICT DO UPDATE SET places = excluded.places, coming = excluded.coming",
                {
                    "id": session, "person": person, "at": at.isoformat(), "until": self._until("session", at),
                    "state": key.seal(f"state {session}", state), "places": key.seal(f"places {session}", places),
                    "coming": key.seal(f"coming {session}", coming), "fades": self._fades(json.loads(state)),
                },
            )  # fmt: skip

    def settle(self, person: str, session: str = "") -> None:
        """A message that was coming needs no answer any more; a conversation that was nothing else goes with it.

        Args:
            person: pseudonym.
            session: of one conversation; all of theirs where it is empty.
        """
        which = {"person": person, "id": session}
        mine = "person = :person AND (:id = '' OR id = :id) AND coming IS NOT NULL"
        with self._db.atomic():
            self._write(f"DELETE FROM sessions WHERE {mine} AND turns = 0", which)  # noqa: S608 (our own words)
            self._write(f"UPDATE sessions SET coming = NULL WHERE {mine}", which)  # noqa: S608 (our own words)

    def _keep_attributes(
        self, key: SealKey, person: str, attributes: Mapping[str, tuple[str, datetime, bool]]
    ) -> None:
        known = {
            row["attribute"]
            for row in self._db.query(
                "SELECT attribute FROM attributes WHERE person = :p AND expires_at > :now",
                {"p": person, "now": self._clock().isoformat()},
            )
        }
        for gone in known - set(attributes):
            self._write(
                "DELETE FROM attributes WHERE person = :p AND attribute = :a", {"p": person, "a": gone}
            )
        for name, (value, collected_at, is_volatile) in attributes.items():
            category = "volatile_attribute" if is_volatile else "stable_attribute"
            self._write(
                "INSERT OR REPLACE INTO attributes VALUES (:person, :name, :category, :value, :at, :until)",
                {
                    "person": person, "name": name, "category": category, "value": key.seal(f"value {name}", value),
                    "at": collected_at.isoformat(), "until": self._until(category, collected_at),
                },
            )  # fmt: skip

    def last_session(self, person: str) -> KeptSession | None:
        """The newest conversation that has not expired, or None.

        Raises:
            SealBroken: it does not open.
        """
        key = self._vault.key(person, make=False)
        row = next(
            iter(
                self._db.query(
                    "SELECT * FROM sessions WHERE person = :person AND expires_at > :now ORDER BY last_at DESC LIMIT 1",
                    {"person": person, "now": self._clock().isoformat()},
                )
            ),
            None,
        )
        if row is None or key is None:
            return None
        return KeptSession(
            id=row["id"],
            state=self._faded(key.open(f"state {row['id']}", row["state"]), self._clock().isoformat()),
            places=key.open(f"places {row['id']}", row["places"]),
            last_at=datetime.fromisoformat(row["last_at"]),
            shown=key.open(f"shown {row['id']}", row["shown"]) if row["shown"] else "[]",
            coming=key.open(f"coming {row['id']}", row["coming"]) if row["coming"] else "",
        )

    def has_session(self, session: str) -> bool:
        """Whether a conversation is kept, a message of it answered."""
        return (
            next(
                iter(self._db.query("SELECT 1 AS yes FROM sessions WHERE id = ? AND turns > 0", [session])),
                None,
            )
            is not None
        )

    def live_attributes(self, person: str) -> dict[str, str]:
        """The answers that have not expired, by attribute, as they were written."""
        key = self._vault.key(person, make=False)
        if key is None:
            return {}
        rows = self._db.query(
            "SELECT * FROM attributes WHERE person = :p AND expires_at > :now",
            {"p": person, "now": self._clock().isoformat()},
        )
        return {row["attribute"]: key.open(f"value {row['attribute']}", row["value"]) for row in rows}

    def turn_inputs(self, session: str) -> Iterator[tuple[int, str | None]]:
        """What the dialogue was told, turn by turn; None where it is not there or does not open any more."""
        rows = list(
            self._db.query(
                "SELECT * FROM turns WHERE session = :s AND expires_at > :now ORDER BY number",
                {"s": session, "now": self._clock().isoformat()},
            )
        )
        for row in rows:
            key = self._vault.key(row["person"], make=False)
            try:
                told = key.open(f"input {session} {row['number']}", row["input"]) if key else None
            except SealBroken:
                told = None
            yield row["number"], told

    def decisions(self, session: str) -> list[dict[str, Any]]:
        """What was decided in a conversation, in order; without a word of it, after erasure too."""
        return list(
            self._db.query(
                "SELECT * FROM decisions WHERE session = :s AND expires_at > :now ORDER BY number, position",
                {"s": session, "now": self._clock().isoformat()},
            )
        )

    # ------------------------------------------------------------------------------------------- ledger, feedback

    def note_sent(
        self,
        grant: Grant[ToSend] | Grant[ToChat],
        *,
        person: str,
        destination: str,
        model: str,
        role: str,
        entities: Mapping[str, int],
        size: int,
        digest: str,
        content: str,
        consented_to: str,
    ) -> None:
        """One message that goes out, before it goes.

        Args:
            grant: to send to that destination, or to chat where it stays on this machine.
            person: pseudonym.
            destination: host.
            model: its name.
            role: what it is asked to be.
            entities: how many of each kind were replaced.
            size: bytes sent.
            digest: keyed hash of what is sent.
            content: the exact redacted text.
            consented_to: the destination that the grant must be for.

        Raises:
            ConsentMissing: the grant does not hold any more.
        """
        grant.check(person, destination=consented_to)
        at = self._clock()
        number = secrets.randbits(62)
        with self._db.atomic():
            self._seen(person, at)
            self._write(
                "INSERT INTO ledger VALUES (:id, :person, 'ledger', :at, :destination, :model, :role, :entities, :bytes,"
                " :digest, :content, :until)",
                {
                    "id": number, "person": person, "at": at.isoformat(), "destination": destination, "model": model,
                    "role": role, "entities": json.dumps(entities, sort_keys=True), "bytes": size, "digest": digest,
                    "content": self._key(person).seal(f"content {number}", content),
                    "until": self._until("ledger", at),
                },
            )  # fmt: skip

    def keep_feedback(
        self,
        grant: Grant[ToKeep],
        *,
        person: str,
        session: str,
        number: int,
        rating: int,
        note: str,
        places: str = "",
    ) -> None:
        """A rating of one answer, and a redacted note; it takes the place of an earlier one of that answer.

        Args:
            grant: to keep.
            person: pseudonym.
            session: id of the conversation.
            number: of the turn that answered.
            rating: 1 it helped, 0 it did not.
            note: in their words, redacted; "" where there is none, and then an earlier note stays, as long as it had to live.
            places: the placeholder map, so that their words can be read back.

        Raises:
            ConsentMissing: the grant does not hold any more.
        """
        grant.check(person)
        at = self._clock()
        row = secrets.randbits(62)
        mine = {"person": person, "session": session, "number": number, "now": at.isoformat()}
        which = "FROM feedback WHERE person = :person AND session = :session AND number = :number AND expires_at > :now"
        until = self._until("feedback", at)
        with self._db.atomic():
            self._seen(person, at)
            key = self._key(person)
            earlier = next(iter(self._db.query(f"SELECT * {which}", mine)), None)
            if earlier is not None and earlier["note"] and not note:
                note = key.open(f"note {earlier['id']}", earlier["note"])
                at, until = datetime.fromisoformat(earlier["at"]), earlier["expires_at"]
            self._write(f"DELETE {which}", mine)
            if places:
                self._write(
                    "UPDATE sessions SET places = :places WHERE id = :session AND person = :person",
                    {"places": key.seal(f"places {session}", places), "session": session, "person": person},
                )
            self._write(
                "INSERT INTO feedback VALUES (:id, :person, 'feedback', :session, :number, :at, :rating, :note, :until)",
                {
                    "id": row, "person": person, "session": session, "number": number, "at": at.isoformat(),
                    "rating": rating, "note": key.seal(f"note {row}", note) if note else None,
                    "until": until,
                },
            )  # fmt: skip

    # ------------------------------------------------------------------------------------------- questionnaires

    def keep_responses(
        self, grant: Grant[ToKeep], *, person: str, instrument: str, occasion: str, values: Mapping[str, str]
    ) -> None:
        """Answers to one questionnaire on one occasion, in the place of earlier ones.

        Args:
            grant: to keep.
            person: pseudonym.
            instrument: name of the questionnaire.
            occasion: before or after.
            values: JSON by item, redacted; items that were skipped are left out.

        Raises:
            ConsentMissing: the grant does not hold any more.
        """
        grant.check(person)
        at = self._clock()
        with self._db.atomic():
            self._seen(person, at)
            key = self._key(person)
            for item, value in values.items():
                row = {"person": person, "instrument": instrument, "occasion": occasion, "item": item}
                token = key.seal(field_name("responses", "value", row), value)
                self._write(
                    "INSERT OR REPLACE INTO responses (person, category, instrument, occasion, item, value, at, expires_at)"
                    " VALUES (:person, 'questionnaire', :instrument, :occasion, :item, :value, :at, :until)",
                    {
                        **row, "value": token, "at": at.isoformat(), "until": self._until("questionnaire", at),
                    },
                )  # fmt: skip

    def has_responses(self, person: str, instrument: str, occasion: str) -> bool:
        """Whether a questionnaire was answered on an occasion."""
        found = self._db.query(
            "SELECT 1 AS yes FROM responses WHERE person = ? AND instrument = ? AND occasion = ? AND expires_at > ?",
            [person, instrument, occasion, self._clock().isoformat()],
        )
        return next(iter(found), None) is not None

    # ------------------------------------------------------------------------------------------- everything of one

    def held(self, person: str, *, also_expired: bool = False) -> Iterator[Held]:
        """Everything of a person that has not expired, opened, table by table; what has, too, where it is to be erased."""
        key = self._vault.key(person, make=False)
        now = "" if also_expired else self._clock().isoformat()
        for table in PERSONAL:
            rows = self._db.query(
                f"SELECT * FROM {table} WHERE person = :p AND expires_at > :now",  # noqa: S608 (our own names)
                {"p": person, "now": now},
            )
            for row in list(rows):
                opened = dict(row)
                for column in SEALED.get(table, ()):
                    if row[column] is not None:
                        opened[column] = self._opened(key, table, column, row)
                if now and opened.get("state"):
                    opened["state"] = self._faded(opened["state"], now)
                at = str(row[COLLECTED[table]])
                yield Held(
                    table=table,
                    name=row_name(table, row),
                    category=row["category"],
                    at=datetime.fromisoformat(at),
                    expires_at=datetime.fromisoformat(row["expires_at"]),
                    fields=opened,
                )

    @staticmethod
    def _opened(key: SealKey | None, table: str, column: str, row: Mapping[str, Any]) -> str | None:
        try:
            return key.open(field_name(table, column, row), row[column]) if key else None
        except SealBroken:
            return None

    def tokens(self, person: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Every sealed value of a person: table, column and row."""
        for table, columns in SEALED.items():
            rows = self._db.query(
                f"SELECT rowid AS row_number, * FROM {table} WHERE person = :p",  # noqa: S608 (our own names)
                {"p": person},
            )
            for row in list(rows):
                for column in columns:
                    if row[column] is not None:
                        yield table, column, row

    def reseal(self, person: str, *, most: int = 500) -> Iterator[int]:
        """Seal every value of a person under the newest key; yields how many were done after each batch.

        What is sealed under it already is left, so that a run that was cut goes on where it was.
        """
        key = self._vault.key(person, make=False)
        if key is None:
            return
        batch: list[tuple[str, str, int, str]] = []
        done = 0

        def write() -> int:
            with self._db.atomic():
                for table, column, number, token in batch:
                    self._db.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", [token, number])  # noqa: S608
            count = len(batch)
            batch.clear()
            return count

        for table, column, row in self.tokens(person):
            if key.is_newest(row[column]):
                continue
            name = field_name(table, column, row)
            batch.append((table, column, row["row_number"], key.seal(name, key.open(name, row[column]))))
            if len(batch) >= most:
                done += write()
                yield done
        if batch:
            done += write()
            yield done

    def correct(self, grant: Grant[ToKeep], person: str, attribute: str, value: str) -> bool:
        """Put another answer in the place of one that is held; False where there is none (GDPR Art. 16)."""
        grant.check(person)
        token = self._key(person).seal(f"value {attribute}", value)
        with self._db.atomic():
            done = self._db.execute(
                "UPDATE attributes SET value = :value WHERE person = :p AND attribute = :a AND expires_at > :now",
                {"value": token, "p": person, "a": attribute, "now": self._clock().isoformat()},
            )
        return bool(done.rowcount)

    def scrub(self, person: str, table: str, name: str) -> dict[str, int]:
        """Take an erased answer or plan out of the conversations it is part of; the messages that told it go with it."""
        key = self._key(person)
        rows = list(self._db.query("SELECT * FROM sessions WHERE person = ?", [person]))
        with self._db.atomic():
            for row in rows:
                state = json.loads(key.open(f"state {row['id']}", row["state"]))
                if table == "safety_plans":
                    state["plan"] = None
                else:
                    state.get("profile", {}).pop(name, None)
                token = key.seal(f"state {row['id']}", json.dumps(state, ensure_ascii=False))
                self._db.execute(
                    "UPDATE sessions SET state = ?, shown = NULL, coming = NULL WHERE id = ?",
                    [token, row["id"]],
                )
            gone = self._db.execute("DELETE FROM turns WHERE person = ?", [person]).rowcount
        return {"turns": gone} if gone > 0 else {}

    def delete(self, person: str, table: str, name: str) -> int:
        """One row of a person; a conversation goes with its turns. The number of rows.

        Raises:
            ValueError: there is no such table.
        """
        if table not in PERSONAL:
            raise ValueError(f"{table}: not a table of persons")
        column = NAMES[table]
        with self._db.atomic():
            count = 0
            if table == "sessions":
                count += self._db.execute(
                    "DELETE FROM turns WHERE session = ? AND person = ?", [name, person]
                ).rowcount
                self._db.execute(
                    "UPDATE decisions SET person = NULL WHERE session = ? AND person = ?", [name, person]
                )
            where = f"{column} = ? AND person = ?"
            values: list[Any] = [name, person]
            if table == "turns":
                session, number = name.split(" ")
                where, values = "session = ? AND number = ? AND person = ?", [session, number, person]
            count += self._db.execute(f"DELETE FROM {table} WHERE {where}", values).rowcount  # noqa: S608
        return count

    def delete_all(self, person: str) -> dict[str, int]:
        """Every row of a person, by table; decisions stay without their person."""
        counts: dict[str, int] = {}
        with self._db.atomic():
            for table in reversed(PERSONAL):
                if table == "decisions":
                    done = self._db.execute("UPDATE decisions SET person = NULL WHERE person = ?", [person])
                    counts["decisions unlinked"] = done.rowcount
                    continue
                if table in ("escalations", "deviations"):
                    unlinked = f"UPDATE {table} SET person = 'erased' WHERE person = ?"  # noqa: S608 (our own names)
                    done = self._db.execute(unlinked, [person])
                    counts[f"{table} unlinked"] = done.rowcount
                    continue
                done = self._db.execute(f"DELETE FROM {table} WHERE person = ?", [person])  # noqa: S608
                counts[table] = done.rowcount
            self._db.execute("DELETE FROM holds WHERE person = ?", [person])
        return {table: count for table, count in counts.items() if count}

    def sealed_of(self) -> set[str]:
        """Everybody of whom there is a sealed value."""
        found: set[str] = set()
        for table, columns in SEALED.items():
            there = " OR ".join(f"{column} IS NOT NULL" for column in columns)
            rows = self._db.query(f"SELECT DISTINCT person FROM {table} WHERE {there}")  # noqa: S608 (our own names)
            found |= {row["person"] for row in rows if row["person"]}
        return found

    def everybody(self) -> list[str]:
        """Everybody whose code stands in any table."""
        found: set[str] = set()
        for table in (*PERSONAL, "holds"):
            rows = self._db.query(f"SELECT DISTINCT person FROM {table}")  # noqa: S608 (our own names)
            found |= {row["person"] for row in rows if row["person"]}
        return sorted(found)

    def persons(self) -> list[str]:
        """Everybody of whom there is a row."""
        return [row["person"] for row in self._db.query("SELECT person FROM participants ORDER BY person")]


def field_name(table: str, column: str, row: Mapping[str, Any]) -> str:
    """The name that a sealed value carries inside."""
    if table == "sessions":
        return f"{column} {row['id']}"
    if table == "attributes":
        return f"{column} {row['attribute']}"
    if table == "turns":
        return f"{column} {row['session']} {row['number']}"
    if table in ("ledger", "feedback"):
        return f"{column} {row['id']}"
    if table == "responses":
        return f"{column} {row['instrument']} {row['occasion']} {row['item']}"
    return column


def row_name(table: str, row: Mapping[str, Any]) -> str:
    """What names a row of a person in its table."""
    if table in ("turns", "decisions"):
        return f"{row['session']} {row['number']}"
    return str(row[NAMES[table]])
