"""Backups: the data without keys, and the keys in a place of their own. Neither opens anything without the other.

Copies are made with SQLite's own backup, beside whoever chats. A backup of the keys carries the marks of who was erased,
so that an older backup of the data forgets them again; so does every person of whom there are rows and no key.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from privacy.audit import AUDIT
from privacy.errors import StoreError
from privacy.store import EARLIER_NAME, NAME, VERSION
from privacy.store.files import checkpoint, open_database
from privacy.vault import KEYS

MANIFEST = "manifest.json"
DATA_FILES, KEY_FILES = (NAME, AUDIT), (KEYS, "marks.db")
_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """What a backup holds.

    Attributes:
        kind: data or keys.
        made_at: ISO time.
        files: SHA-256 by name.
        schema: version of the tables.
    """

    kind: str
    made_at: str
    files: dict[str, str]
    schema: int


def back_up(directory: Path, to: Path, *, kind: str, at: datetime) -> Backup:
    """Copy the data, or the keys, into a new folder; whole, or not at all.

    Args:
        directory: of the data.
        to: a folder that is made; where it is there, a folder by the time is made in it.
        kind: data or keys.
        at: the time, aware UTC.

    Raises:
        StoreError: a file cannot be read or written; nothing half-made is left.
    """
    target = to / at.strftime("%Y%m%dT%H%M%SZ") if to.exists() else to
    made = target.with_name(f".{target.name}.partial")
    try:
        if target.exists():
            raise StoreError(f"{target}: is there already")
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True, mode=0o700)
        if kind == "data":
            for name in DATA_FILES:
                _copy(directory / name, made / name)
        else:
            _copy(directory / KEYS, made / KEYS)
            _marks(directory / AUDIT, made / "marks.db")
        files = {p.name: _sha256(p) for p in sorted(made.iterdir())}
        backup = Backup(kind=kind, made_at=at.isoformat(), files=files, schema=VERSION)
        _private(
            made / MANIFEST,
            json.dumps({"format": _FORMAT, "kind": kind, "made_at": backup.made_at, "files": files, "schema": VERSION}, indent=1),
        )  # fmt: skip
        made.rename(target)
    except (OSError, sqlite3.Error) as failed:
        raise StoreError(f"{target}: the backup was not made ({type(failed).__name__})") from None
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return backup


def _copy(source: Path, target: Path) -> None:
    """A copy of a database that others write to meanwhile.

    Raises:
        StoreError: it is not there.
    """
    if not source.exists():
        raise StoreError(f"{source}: is not there; is RAISE_DATA_DIR right?")
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    with (
        closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True)) as one,
        closing(sqlite3.connect(target)) as other,
    ):
        one.backup(other, pages=2_000)
        other.execute("PRAGMA journal_mode = DELETE").fetchall()


def _marks(source: Path, target: Path) -> None:
    """Who was erased, as marks that say so of no other, and the key that they are made with."""
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    with (
        closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True)) as one,
        closing(sqlite3.connect(target)) as other,
        other,
    ):
        other.execute("CREATE TABLE tombstones (mark TEXT PRIMARY KEY, at TEXT NOT NULL)")
        other.execute("CREATE TABLE own (name TEXT PRIMARY KEY, value TEXT NOT NULL)")
        other.executemany(
            "INSERT INTO tombstones VALUES (?, ?)", one.execute("SELECT mark, at FROM tombstones")
        )
        other.executemany(
            "INSERT INTO own VALUES (?, ?)",
            one.execute("SELECT name, value FROM own WHERE name = 'mark_key'"),
        )


def read(folder: Path, *, kind: str) -> Backup:
    """A backup, its files compared with what its manifest says of them.

    Raises:
        StoreError: it is none, of another kind, of a newer release, or was damaged; the file is named.
    """
    path = folder / MANIFEST
    try:
        raw: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        found = Backup(
            kind=str(raw["kind"]),
            made_at=str(raw["made_at"]),
            files=dict(raw["files"]),
            schema=int(raw["schema"]),
        )
    except (OSError, ValueError, KeyError, TypeError) as bad:
        raise StoreError(f"{path}: not a backup of ours ({type(bad).__name__})") from None
    if found.kind != kind:
        raise StoreError(f"{folder}: holds {found.kind}, not {kind}")
    if found.schema > VERSION or raw.get("format") != _FORMAT:
        raise StoreError(f"{folder}: made by a newer release; restore with that one")
    wanted = DATA_FILES if kind == "data" else KEY_FILES
    for name in wanted:
        if name not in found.files:
            raise StoreError(f"{folder}: has no {name}")
        if not (folder / name).is_file() or _sha256(folder / name) != found.files[name]:
            raise StoreError(f"{folder / name}: is missing or damaged: it is not what the manifest says")
    return found


def restore(directory: Path, *, data: Path, keys: Path, older_keys: bool = False) -> tuple[Backup, Backup]:
    """Put a backup of the data and one of the keys into an empty directory; whole, or not at all.

    Erasures are replayed when it is opened (`Rights.replay_erasures`). The master key is put in place by whoever holds it.

    Args:
        directory: of the data; not there, or empty of ours.
        data: folder of the one backup.
        keys: folder of the other.
        older_keys: use keys that are older than the data: who came in between cannot be read, and who was erased in between
            is back.

    Raises:
        StoreError: something is in the way, or a backup cannot be used; nothing was changed.
    """
    ours = (NAME, AUDIT, KEYS, EARLIER_NAME)
    there = (
        sorted(p.name for p in directory.glob("*.db*") if p.name.startswith(ours))
        if directory.is_dir()
        else []
    )
    if there:
        raise StoreError(f"{directory / there[0]}: is there already; restore into an empty RAISE_DATA_DIR")
    one, other = read(data, kind="data"), read(keys, kind="keys")
    if other.made_at < one.made_at and not older_keys:
        raise StoreError(
            f"{keys}: the keys are older ({other.made_at[:19]}) than the data ({one.made_at[:19]}): who came in between could not be read, "
            "and who was erased in between would be back. Take newer keys; with --older-keys it is done all the same"
        )
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    placed: list[Path] = []
    try:
        for source in (data / NAME, data / AUDIT, keys / KEYS):
            target = directory / source.name
            with (
                source.open("rb") as content,
                os.fdopen(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as out,
            ):
                placed.append(target)
                shutil.copyfileobj(content, out)
        with _opened(directory / AUDIT) as audit:
            _merge_marks(audit, keys / "marks.db")
    except (OSError, sqlite3.Error, StoreError) as failed:
        for target in placed:
            target.unlink(missing_ok=True)
        told = str(failed) if isinstance(failed, StoreError) else type(failed).__name__
        raise StoreError(f"{directory}: nothing was restored ({told})") from None
    return one, other


@contextmanager
def _opened(path: Path) -> Iterator[Database]:
    database = open_database(path)
    try:
        yield database
        checkpoint(database)
    finally:
        database.close()


def _merge_marks(audit: Database, marks: Path) -> None:
    """Who was erased since the data was backed up is known to have been.

    Raises:
        StoreError: the keys are of another deployment.
    """
    with closing(sqlite3.connect(f"file:{marks}?mode=ro", uri=True)) as found:
        theirs = found.execute("SELECT value FROM own WHERE name = 'mark_key'").fetchone()
        rows = found.execute("SELECT mark, at FROM tombstones").fetchall()
    ours = next(iter(audit.query("SELECT value FROM own WHERE name = 'mark_key'")), None)
    if theirs is None or ours is None or theirs[0] != ours["value"]:
        raise StoreError("the keys are of another deployment than the data")
    with audit.atomic():
        for mark, at in rows:
            audit.execute("INSERT OR IGNORE INTO tombstones VALUES (?, ?)", [mark, at])


def _sha256(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _private(path: Path, text: str) -> None:
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as out:
        out.write(text)
