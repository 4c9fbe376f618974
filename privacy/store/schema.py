"""The tables of `study.db`, as numbered steps, each in a transaction of its own.

Every table that holds something of a person has `person` (a pseudonym), `category` (what its retention rule is looked
up by) and `expires_at`. Columns named in `SEALED` hold ciphertext only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlite_utils import Database

MIGRATIONS: Final[tuple[str, ...]] = (
    """
    CREATE TABLE IF NOT EXISTS referrals (
      month TEXT NOT NULL, level TEXT NOT NULL, category TEXT NOT NULL, country TEXT NOT NULL, count INTEGER NOT NULL,
      PRIMARY KEY (month, level, category, country)
    );
    CREATE TABLE IF NOT EXISTS escalations (
      id INTEGER PRIMARY KEY, person TEXT NOT NULL, level TEXT NOT NULL, raised_at TEXT NOT NULL,
      attempts INTEGER NOT NULL DEFAULT 0, next_try TEXT, delivered_at TEXT,
      acknowledged_at TEXT, acknowledged_by TEXT, action TEXT, closed_at TEXT, closed_by TEXT, outcome TEXT
    );
    CREATE INDEX IF NOT EXISTS escalations_due ON escalations (next_try) WHERE next_try IS NOT NULL;
    """,
    """
    CREATE TABLE participants (
      person TEXT PRIMARY KEY, category TEXT NOT NULL, made_at TEXT NOT NULL, last_at TEXT NOT NULL,
      expires_at TEXT NOT NULL
    );
    CREATE TABLE consents (
      id INTEGER PRIMARY KEY, person TEXT NOT NULL REFERENCES participants ON DELETE CASCADE, category TEXT NOT NULL,
      scope TEXT NOT NULL, version TEXT NOT NULL, destination TEXT NOT NULL DEFAULT '', granted INTEGER NOT NULL,
      at TEXT NOT NULL, expires_at TEXT NOT NULL
    );
    CREATE INDEX consents_person ON consents (person, scope, id);
    CREATE TABLE sessions (
      id TEXT PRIMARY KEY, person TEXT NOT NULL REFERENCES participants ON DELETE CASCADE, category TEXT NOT NULL,
      started_at TEXT NOT NULL, last_at TEXT NOT NULL, turns INTEGER NOT NULL, state TEXT NOT NULL, places TEXT NOT NULL,
      expires_at TEXT NOT NULL
    );
    CREATE INDEX sessions_person ON sessions (person, last_at);
    CREATE TABLE attributes (
      person TEXT NOT NULL REFERENCES participants ON DELETE CASCADE, attribute TEXT NOT NULL, category TEXT NOT NULL,
      value TEXT NOT NULL, collected_at TEXT NOT NULL, expires_at TEXT NOT NULL, PRIMARY KEY (person, attribute)
    );
    CREATE TABLE turns (
      session TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE, number INTEGER NOT NULL,
      person TEXT NOT NULL REFERENCES participants ON DELETE CASCADE, category TEXT NOT NULL, at TEXT NOT NULL,
      input TEXT NOT NULL, words TEXT, expires_at TEXT NOT NULL, PRIMARY KEY (session, number)
    );
    CREATE INDEX turns_person ON turns (person);
    CREATE TABLE decisions (
      session TEXT NOT NULL, number INTEGER NOT NULL, position INTEGER NOT NULL, person TEXT, category TEXT NOT NULL,
      at TEXT NOT NULL, outcome TEXT NOT NULL, reason TEXT, basis TEXT NOT NULL, sufficiency REAL NOT NULL,
      attribute TEXT, domain TEXT, stakes TEXT, plan TEXT, expires_at TEXT NOT NULL,
      PRIMARY KEY (session, number, position)
    );
    CREATE INDEX decisions_person ON decisions (person) WHERE person IS NOT NULL;
    CREATE TABLE ledger (
      id INTEGER PRIMARY KEY, person TEXT NOT NULL REFERENCES participants ON DELETE CASCADE, category TEXT NOT NULL,
      at TEXT NOT NULL, destination TEXT NOT NULL, model TEXT NOT NULL, role TEXT NOT NULL, entities TEXT NOT NULL,
      bytes INTEGER NOT NULL, digest TEXT NOT NULL, content TEXT NOT NULL, expires_at TEXT NOT NULL
    );
    CREATE INDEX ledger_person ON ledger (person, id);
    CREATE TABLE safety_plans (
      person TEXT PRIMARY KEY REFERENCES participants ON DELETE CASCADE, category TEXT NOT NULL, entries TEXT NOT NULL,
      at TEXT NOT NULL, expires_at TEXT NOT NULL
    );
    CREATE TABLE feedback (
      id INTEGER PRIMARY KEY, person TEXT NOT NULL REFERENCES participants ON DELETE CASCADE, category TEXT NOT NULL,
      session TEXT NOT NULL, number INTEGER NOT NULL, at TEXT NOT NULL, rating INTEGER NOT NULL, note TEXT,
      expires_at TEXT NOT NULL
    );
    CREATE INDEX feedback_person ON feedback (person);
    CREATE INDEX participants_due ON participants (expires_at);
    CREATE INDEX consents_due ON consents (expires_at);
    CREATE INDEX sessions_due ON sessions (expires_at);
    CREATE INDEX attributes_due ON attributes (expires_at);
    CREATE INDEX turns_due ON turns (expires_at);
    CREATE INDEX decisions_due ON decisions (expires_at);
    CREATE INDEX ledger_due ON ledger (expires_at);
    CREATE INDEX safety_plans_due ON safety_plans (expires_at);
    CREATE INDEX feedback_due ON feedback (expires_at);
    """,
    # Turns outlive their conversation where transcripts are kept for research, so they no longer hang on it.
    """
    CREATE TABLE turns_new (
      session TEXT NOT NULL, number INTEGER NOT NULL,
      person TEXT NOT NULL REFERENCES participants ON DELETE CASCADE, category TEXT NOT NULL, at TEXT NOT NULL,
      input TEXT NOT NULL, words TEXT, expires_at TEXT NOT NULL, PRIMARY KEY (session, number)
    );
    INSERT INTO turns_new SELECT session, number, person, category, at, input, words, expires_at FROM turns;
    DROP TABLE turns;
    ALTER TABLE turns_new RENAME TO turns;
    CREATE INDEX turns_person ON turns (person);
    CREATE INDEX turns_due ON turns (expires_at);
    ALTER TABLE sessions ADD COLUMN fades_at TEXT;
    CREATE INDEX sessions_fade ON sessions (fades_at) WHERE fades_at IS NOT NULL;
    ALTER TABLE escalations ADD COLUMN category TEXT NOT NULL DEFAULT 'escalation';
    ALTER TABLE escalations ADD COLUMN expires_at TEXT NOT NULL DEFAULT '9999-12-31T00:00:00+00:00';
    UPDATE escalations SET expires_at = strftime('%Y-%m-%dT%H:%M:%S+00:00', raised_at, '+3 years');
    CREATE INDEX escalations_expire ON escalations (expires_at);
    CREATE INDEX escalations_person ON escalations (person);
    CREATE TABLE tallies (
      category TEXT NOT NULL, month TEXT NOT NULL, what TEXT NOT NULL, count INTEGER NOT NULL,
      PRIMARY KEY (category, month, what)
    );
    CREATE TABLE holds (
      person TEXT PRIMARY KEY, category TEXT NOT NULL, why TEXT NOT NULL, by TEXT NOT NULL, at TEXT NOT NULL,
      expires_at TEXT NOT NULL
    );
    CREATE TABLE sweeps (
      slot TEXT PRIMARY KEY, as_of TEXT NOT NULL, started_at TEXT NOT NULL, finished_at TEXT, owner TEXT NOT NULL,
      report TEXT NOT NULL
    );
    CREATE TABLE leases (
      name TEXT PRIMARY KEY, owner TEXT NOT NULL, place TEXT NOT NULL, pid INTEGER NOT NULL, until TEXT NOT NULL
    );
    CREATE TABLE own (name TEXT PRIMARY KEY, value TEXT NOT NULL);
    """,
    # A study: who takes part and in which arm, who works for it, who is signed in, what was answered and what deviated;
    # and what makes a conversation go on in the middle of a message.
    """
    CREATE TABLE enrolments (
      person TEXT PRIMARY KEY, category TEXT NOT NULL, pin TEXT NOT NULL, arm TEXT NOT NULL, status TEXT NOT NULL,
      protocol TEXT NOT NULL, made_at TEXT NOT NULL, first_at TEXT, expires_at TEXT NOT NULL
    );
    CREATE TABLE staff (
      person TEXT PRIMARY KEY, category TEXT NOT NULL, role TEXT NOT NULL, password TEXT NOT NULL, status TEXT NOT NULL,
      last_at TEXT NOT NULL, expires_at TEXT NOT NULL
    );
    CREATE TABLE logins (
      digest TEXT PRIMARY KEY, person TEXT NOT NULL, category TEXT NOT NULL, at TEXT NOT NULL,
      is_ended INTEGER NOT NULL DEFAULT 0, expires_at TEXT NOT NULL
    );
    CREATE INDEX logins_person ON logins (person);
    CREATE TABLE responses (
      id INTEGER PRIMARY KEY, person TEXT NOT NULL REFERENCES participants ON DELETE CASCADE, category TEXT NOT NULL,
      instrument TEXT NOT NULL, occasion TEXT NOT NULL, item TEXT NOT NULL, value TEXT NOT NULL, at TEXT NOT NULL,
      expires_at TEXT NOT NULL
    );
    CREATE UNIQUE INDEX responses_one ON responses (person, instrument, occasion, item);
    CREATE TABLE deviations (
      id INTEGER PRIMARY KEY, person TEXT NOT NULL, category TEXT NOT NULL, at TEXT NOT NULL, kind TEXT NOT NULL,
      by TEXT NOT NULL, expires_at TEXT NOT NULL
    );
    CREATE INDEX deviations_person ON deviations (person);
    CREATE INDEX enrolments_due ON enrolments (expires_at);
    CREATE INDEX staff_due ON staff (expires_at);
    CREATE INDEX logins_due ON logins (expires_at);
    CREATE INDEX responses_due ON responses (expires_at);
    CREATE INDEX deviations_due ON deviations (expires_at);
    ALTER TABLE sessions ADD COLUMN shown TEXT;
    ALTER TABLE sessions ADD COLUMN coming TEXT;
    ALTER TABLE turns ADD COLUMN took_ms INTEGER;
    """,
)

BACKWARDS: Final[Mapping[int, str]] = {
    4: """
    DROP TABLE enrolments;
    DROP TABLE staff;
    DROP TABLE logins;
    DROP TABLE responses;
    DROP TABLE deviations;
    ALTER TABLE sessions DROP COLUMN shown;
    ALTER TABLE sessions DROP COLUMN coming;
    ALTER TABLE turns DROP COLUMN took_ms;
    """,
}
"""How a step is taken back, so that the release before it can use the file again."""
LOST_BACKWARDS: Final[Mapping[int, Mapping[str, str]]] = {
    4: {
        "enrolments": "SELECT count(*) FROM enrolments",
        "staff": "SELECT count(*) FROM staff",
        "responses": "SELECT count(*) FROM responses",
        "deviations": "SELECT count(*) FROM deviations",
        "pages that could be shown again": "SELECT count(*) FROM sessions WHERE shown IS NOT NULL OR coming IS NOT NULL",
    },
}
"""What is lost when a step is taken back, each with a count of it."""

SEALED: Final[Mapping[str, tuple[str, ...]]] = {
    "sessions": ("state", "places", "shown", "coming"),
    "attributes": ("value",),
    "turns": ("input", "words"),
    "ledger": ("content",),
    "safety_plans": ("entries",),
    "feedback": ("note",),
    "enrolments": ("arm",),
    "responses": ("value",),
}
"""The content columns, by table: ciphertext, every one."""

PERSONAL: Final[tuple[str, ...]] = (
    "participants", "consents", "sessions", "attributes", "turns", "decisions", "ledger", "safety_plans", "feedback",
    "escalations", "enrolments", "staff", "logins", "responses", "deviations",
)  # fmt: skip
"""Tables whose rows belong to a person; the first goes last, and only when the others hold nothing of them."""

NAMES: Final[Mapping[str, str]] = {
    "participants": "person", "consents": "id", "sessions": "id", "attributes": "attribute", "turns": "number",
    "decisions": "number", "ledger": "id", "safety_plans": "person", "feedback": "id", "escalations": "id",
    "holds": "person", "enrolments": "person", "staff": "person", "logins": "digest", "responses": "id", "deviations": "id",
}  # fmt: skip
"""The column that names a row of a person in each table."""

COLLECTED: Final[Mapping[str, str]] = {
    "participants": "last_at", "consents": "at", "sessions": "last_at", "attributes": "collected_at", "turns": "at",
    "decisions": "at", "ledger": "at", "safety_plans": "at", "feedback": "at", "escalations": "raised_at", "holds": "at",
    "enrolments": "made_at", "staff": "last_at", "logins": "at", "responses": "at", "deviations": "at",
}  # fmt: skip
"""The column that says when a row came, or was last of use."""

TALLIED: Final[Mapping[str, str]] = {
    "decisions": "outcome", "ledger": "role", "feedback": "CASE rating WHEN 1 THEN 'helped' ELSE 'did not help' END",
    "escalations": "level",
}  # fmt: skip
"""What is counted, by month, of rows that go and leave counts behind: an SQL expression without anybody's words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """What a table is for: a line of the record of processing (GDPR Art. 30).

    Attributes:
        categories: of retention rules that its rows fall under; none for machinery that holds no record of anybody.
        purpose: in words.
        basis: the legal ground.
    """

    categories: tuple[str, ...]
    purpose: str
    basis: str


_CONSENT = "consent, Art. 6(1)(a) and 9(2)(a)"
_DUTY = "legal obligation, Art. 6(1)(c): to show compliance, Art. 5(2) and 7(1)"
_SAFETY = "vital interests, Art. 6(1)(d), and the study's duty of care"
_NOBODYS = "no personal data"

TABLES: Final[Mapping[str, TableFacts]] = {
    "participants": TableFacts(
        categories=("participant",),
        purpose="a pseudonym, so that what is held of one person can be found",
        basis=_CONSENT,
    ),
    "consents": TableFacts(categories=("consent",), purpose="what was agreed to and taken back", basis=_DUTY),
    "sessions": TableFacts(
        categories=("session",), purpose="conversations, so that they can go on", basis=_CONSENT
    ),
    "attributes": TableFacts(
        categories=("stable_attribute", "volatile_attribute"),
        purpose="answers to the questions asked, so that they are not asked again",
        basis=_CONSENT,
    ),
    "turns": TableFacts(
        categories=("turn", "transcript"),
        purpose="what each decision was made on; with consent for research the redacted words",
        basis=_CONSENT,
    ),
    "decisions": TableFacts(
        categories=("decision",), purpose="what was decided and why, without words", basis=_CONSENT
    ),
    "ledger": TableFacts(
        categories=("ledger",),
        purpose="the exact redacted text that was sent to an outside model",
        basis=_CONSENT,
    ),
    "safety_plans": TableFacts(
        categories=("safety_plan",), purpose="a plan that the person made", basis=_CONSENT
    ),
    "feedback": TableFacts(categories=("feedback",), purpose="what was said of an answer", basis=_CONSENT),
    "escalations": TableFacts(
        categories=("escalation",),
        purpose="notices to the on-call contact: pseudonym, level, times",
        basis=_SAFETY,
    ),
    "enrolments": TableFacts(
        categories=("enrolment",),
        purpose="who takes part, under a pseudonym: a hash of the PIN, the arm, when they first came",
        basis=_CONSENT,
    ),
    "staff": TableFacts(
        categories=("staff",),
        purpose="who works for the study: a name, a role, a hash of the password",
        basis="legitimate interest, Art. 6(1)(f): only who may see the study's pages gets in",
    ),
    "logins": TableFacts(
        categories=("login",),
        purpose="who is signed in: hashes of their session cookies, so that signing out really ends them",
        basis=_CONSENT,
    ),
    "responses": TableFacts(
        categories=("questionnaire",), purpose="answers to the study's questionnaires", basis=_CONSENT
    ),
    "deviations": TableFacts(
        categories=("deviation",),
        purpose="where the study did not go by its protocol: a kind from a fixed list, a time, a pseudonym",
        basis=_DUTY,
    ),
    "holds": TableFacts(
        categories=("legal_hold",), purpose="what must not be deleted yet, by whom and why", basis=_DUTY
    ),
    "referrals": TableFacts(
        categories=("counts",), purpose="crisis referrals by month, level, kind and country", basis=_NOBODYS
    ),
    "tallies": TableFacts(
        categories=("counts",), purpose="counts by month of rows that were deleted", basis=_NOBODYS
    ),
    "sweeps": TableFacts(categories=("counts",), purpose="reports of retention sweeps", basis=_NOBODYS),
    "leases": TableFacts(categories=(), purpose="which process sweeps now", basis=_NOBODYS),
    "own": TableFacts(categories=(), purpose="digest of the retention rules in force", basis=_NOBODYS),
}
"""Every table of `study.db`. One that is not here has no rule, and the check of the policies fails."""


def columns_of(database: Database) -> dict[str, list[str]]:
    """The columns of each table of a database, sqlite's own left out."""
    names = [
        row["name"]
        for row in database.query(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
        )
    ]
    return {name: [c["name"] for c in database.query(f'PRAGMA table_info("{name}")')] for name in names}


def columns_of_release(steps: Sequence[str] = MIGRATIONS) -> dict[str, list[str]]:
    """The columns of each table that these steps make."""
    database = Database(memory=True)
    try:
        for step in steps:
            database.executescript(step)
        return columns_of(database)
    finally:
        database.close()
