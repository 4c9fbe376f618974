"""Numbers of a deployment for those who run it: counts and times, of nobody in particular."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from privacy.store import Store


def consents(store: Store, at: datetime) -> dict[str, dict[str, int]]:
    """By scope, how many persons say yes now, say no, and took a yes back."""
    rows = store.db.query(
        "SELECT person, scope, granted FROM consents WHERE expires_at > ? ORDER BY id", [at.isoformat()]
    )
    history: dict[tuple[str, str], list[int]] = {}
    for row in rows:
        history.setdefault((row["scope"], row["person"]), []).append(row["granted"])
    found: dict[str, dict[str, int]] = {}
    for (scope, _), answers in history.items():
        counts = found.setdefault(scope, {"yes": 0, "no": 0, "taken back": 0})
        is_back = not answers[-1] and any(answers)
        counts["yes" if answers[-1] else "taken back" if is_back else "no"] += 1
    return found


def enrolled(store: Store, at: datetime) -> dict[str, int]:
    """Participants: all, active, and those who have signed in at least once."""
    row = store.db.execute(
        "SELECT count(*), coalesce(sum(status = 'active'), 0), coalesce(sum(first_at IS NOT NULL), 0) FROM enrolments"
        " WHERE expires_at > ?",
        [at.isoformat()],
    ).fetchone()
    return {"all": int(row[0]), "active": int(row[1]), "came": int(row[2])}


def imminent(store: Store, at: datetime, *, within: timedelta = timedelta(days=1)) -> int:
    """Notices of imminent danger within a time."""
    return int(
        store.db.execute(
            "SELECT count(*) FROM escalations WHERE level = 'imminent' AND raised_at > ?",
            [(at - within).isoformat()],
        ).fetchone()[0]
    )


def kept(store: Store, at: datetime) -> dict[str, int]:
    """Rows that have not expired: persons with anything kept, conversations, messages."""
    row = store.db.execute(
        "SELECT (SELECT count(*) FROM sessions WHERE expires_at > :now), (SELECT count(*) FROM turns WHERE expires_at > :now),"
        " (SELECT count(DISTINCT person) FROM sessions WHERE expires_at > :now)",
        {"now": at.isoformat()},
    ).fetchone()
    return {"conversations": int(row[0]), "messages": int(row[1]), "persons": int(row[2])}


def by_hour(store: Store, at: datetime, *, hours: int = 24) -> list[tuple[str, int]]:
    """Kept messages by hour, oldest first; hours without any are there."""
    since = at - timedelta(hours=hours - 1)
    counts: Counter[str] = Counter()
    for row in store.db.query(
        "SELECT substr(at, 1, 13) AS hour FROM turns WHERE at > ?", [since.isoformat()]
    ):
        counts[row["hour"]] += 1
    names = [(since + timedelta(hours=n)).isoformat()[:13] for n in range(hours)]
    return [(name[11:] + ":00", counts[name]) for name in names]


def can_write(store: Store) -> None:
    """Nothing where the store can be written to.

    Raises:
        Exception: sqlite's own: locked, full or damaged.
    """
    store.db.execute("BEGIN IMMEDIATE")
    store.db.conn.rollback()


def version(store: Store) -> int:
    """Of the tables in the file."""
    row: Any = store.db.execute("PRAGMA user_version").fetchone()
    return int(row[0])


def integrity(store: Store) -> str:
    """SQLite's own check: ok, or its first complaint."""
    return str(store.db.execute("PRAGMA integrity_check(1)").fetchone()[0])
