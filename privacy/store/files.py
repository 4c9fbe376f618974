"""Opening a database file the only way we do: private, WAL, secure_delete, foreign keys; each asserted."""

from __future__ import annotations

import os
import time
from pathlib import Path
from sqlite3 import OperationalError

from sqlite_utils import Database

from privacy.errors import StoreError

BUSY_SECONDS = 2.0
_WANTED = {"journal_mode": "wal", "secure_delete": 1, "foreign_keys": 1}


def open_database(path: Path, *, busy_seconds: float = BUSY_SECONDS) -> Database:
    """One connection to a file that is made where it is missing, with mode 0600.

    Raises:
        StoreError: it cannot be opened, is damaged, or a setting that erasure relies on does not hold.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        database = Database(path)
        database.execute(f"PRAGMA busy_timeout = {int(busy_seconds * 1000)}").fetchall()
        for name in _WANTED:
            _set(database, f"PRAGMA {name} = {'WAL' if name == 'journal_mode' else 'ON'}")
        found = {name: database.execute(f"PRAGMA {name}").fetchone()[0] for name in _WANTED}
    except Exception as failed:  # noqa: BLE001 (sqlite names values in some of its messages)
        raise StoreError(f"{path}: cannot be opened ({type(failed).__name__})") from None
    wrong = [name for name, value in _WANTED.items() if found[name] != value]
    if wrong:
        database.close()
        raise StoreError(f"{path}: {wrong[0]} is not in force, and erasing would leave traces")
    return database


def _set(database: Database, pragma: str, *, within: float = 1.0) -> None:
    """Set something; the switch to WAL is refused at once, without waiting, while another connection makes it too."""
    ends = time.monotonic() + within
    while True:
        try:
            database.execute(pragma).fetchall()
        except OperationalError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.02)
        else:
            return


def empty_log(database: Database) -> bool:
    """Empty the write-ahead log into the file, in one try that waits for nobody; False where a reader is in the way."""
    patience = database.execute("PRAGMA busy_timeout").fetchone()[0]
    database.execute("PRAGMA busy_timeout = 20").fetchall()
    try:
        busy, _, _ = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        database.execute(f"PRAGMA busy_timeout = {patience}").fetchall()
    return not busy


def checkpoint(database: Database, *, tries: int = 20, pause: float = 0.1) -> bool:
    """Empty the write-ahead log into the file; False where readers kept it busy all the time."""
    for _ in range(tries):
        if empty_log(database):
            return True
        time.sleep(pause)
    return False
