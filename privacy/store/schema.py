"""The tables of `study.db`, as numbered steps, each in a transaction of its own.

Every table that holds something of a person has `person` (a pseudonym), `category` (what its retention rule is looked
up by) and `expires_at`. Columns named in `SEALED` hold ciphertext only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

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
)

SEALED: Final[Mapping[str, tuple[str, ...]]] = {
    "sessions": ("state", "places"),
    "attributes": ("value",),
    "turns": ("input", "words"),
    "ledger": ("content",),
    "safety_plans": ("entries",),
    "feedback": ("note",),
}
"""The content columns, by table: ciphertext, every one."""

PERSONAL: Final[tuple[str, ...]] = (
    "participants", "consents", "sessions", "attributes", "turns", "decisions", "ledger", "safety_plans", "feedback",
)  # fmt: skip
"""Tables whose rows belong to a person."""

NAMES: Final[Mapping[str, str]] = {
    "participants": "person", "consents": "id", "sessions": "id", "attributes": "attribute", "turns": "number",
    "decisions": "number", "ledger": "id", "safety_plans": "person", "feedback": "id",
}  # fmt: skip
"""The column that names a row of a person in each table."""
