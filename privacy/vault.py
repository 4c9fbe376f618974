"""Keys and sealed values.

Master keys, newest first, wrap one Fernet data key a subject. Wrapped keys live in `keys.db`, a file of its own, so that
a backup of the data holds no keys: destroying a wrapped key then makes everything it sealed unreadable, backups of the
data included (crypto-shredding; NIST SP 800-88, cryptographic erase).

Fernet has no associated data and shows the length of what it sealed in steps of 16 bytes, so a sealed value carries its
subject and field inside, where they are checked, and is padded to steps of 64.
"""

from __future__ import annotations

import base64
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from sqlite_utils import Database

from privacy.errors import KeysUnusable, SealBroken
from privacy.store.files import checkpoint, empty_log, open_database

KEYS = "keys.db"
MASTER = "master.key"
STEP = 64
"""Bytes to which the inside of a sealed value is padded."""
REMEMBERED = 2_000
"""Data keys held ready in memory."""
SAMPLE_KEYS = frozenset({"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", "change-me"})
"""Keys that stand in examples; nobody may run on one."""
MOUNTED = (Path("/run/secrets"), Path("/var/run/secrets"), Path("/run/credentials"), Path("/mnt/secrets"))
"""Where secret managers, and systemd's LoadCredential, mount keys; what they put there is theirs to guard."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS data_keys (
  subject TEXT PRIMARY KEY, wrapped TEXT NOT NULL, next_wrapped TEXT, audit_wrapped TEXT NOT NULL, made_at TEXT NOT NULL
);
"""


# ------------------------------------------------------------------------------------------------ master keys


def master_keys(
    directory: Path, *, from_environment: str = "", file: Path | None = None, may_make: bool = False
) -> tuple[str, ...]:
    """The master keys in force, newest first.

    Args:
        directory: of the data; a key that we make lives here.
        from_environment: keys separated by commas or white space.
        file: a file with one key a line, mode 0600 unless a secret manager mounted it.
        may_make: make one where there is none (a demo on one machine).

    Raises:
        KeysUnusable: none is set, a file can be read by others, a key is malformed or one from an example.
    """
    own = directory / MASTER
    if from_environment.strip():
        found, where = from_environment.replace(",", " ").split(), "RAISE_MASTER_KEYS"
    elif file is not None:
        found, where = _read_keys(file), str(file)
    elif own.exists():
        found, where = _read_keys(own), str(own)
    elif may_make:
        _write_key(own, Fernet.generate_key().decode())
        found, where = _read_keys(own), str(own)
    else:
        raise KeysUnusable(
            "no master key: set RAISE_MASTER_KEYS, or RAISE_MASTER_KEY_FILE to a file of mode 0600 "
            "('raise-chat privacy new-key' prints one)"
        )
    for key in found:
        if key in SAMPLE_KEYS:
            raise KeysUnusable(f"{where}: this is the key of an example; make one of your own")
        try:
            Fernet(key)
        except ValueError:
            raise KeysUnusable(f"{where}: not a Fernet key (32 bytes, URL-safe base64)") from None
    if not found:
        raise KeysUnusable(f"{where}: holds no key")
    return tuple(dict.fromkeys(found))


def is_mounted(path: Path) -> bool:
    """Whether a secret manager put it there, whose modes are not ours to judge."""
    return any(path.resolve().is_relative_to(place) for place in MOUNTED)


def _read_keys(path: Path) -> list[str]:
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as failed:
        raise KeysUnusable(f"{path}: cannot be read ({type(failed).__name__})") from None
    if not is_mounted(path) and stat.S_IMODE(mode) & 0o077:
        raise KeysUnusable(
            f"{path}: others can read it (mode {stat.S_IMODE(mode):04o}); run 'chmod 600 {path}'"
        )
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


def _write_key(path: Path, key: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (
        suppress(FileExistsError),
        os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as out,
    ):
        out.write(key + "\n")


# ------------------------------------------------------------------------------------------------ sealed values


@dataclass(frozen=True, slots=True)
class SealKey:
    """One subject's key, ready to seal and open. Fetch a new one for each turn: it may have been destroyed since."""

    subject: str
    _newest: Fernet = field(repr=False)
    _every: MultiFernet = field(repr=False)

    def seal(self, name: str, value: str) -> str:
        """A token that opens only as this subject's field of this name."""
        inside = f"{self.subject}\0{name}\0{value}".encode()
        head = len(inside).to_bytes(4, "big")
        padded = head + inside + bytes(-(len(head) + len(inside)) % STEP)
        return self._newest.encrypt(padded).decode("ascii")

    def open(self, name: str, token: str) -> str:
        """What was sealed.

        Raises:
            SealBroken: the token is cut, altered, sealed under another key, or belongs to another subject or field.
        """
        try:
            padded = self._every.decrypt(token.encode("ascii"))
            length = int.from_bytes(padded[:4], "big")
            subject, found, value = padded[4 : 4 + length].decode().split("\0", 2)
        except (InvalidToken, ValueError):
            raise SealBroken(f"{name} of {self.subject}: the sealed value does not open") from None
        if (subject, found) != (self.subject, name):
            raise SealBroken(f"{name} of {self.subject}: the sealed value belongs to another record")
        return value

    def is_newest(self, token: str) -> bool:
        """Whether the newest key alone opens it."""
        try:
            self._newest.decrypt(token.encode("ascii"))
        except InvalidToken:
            return False
        return True


class KeyBook:
    """The key file as anybody may see it who holds no master key: whose keys there are, since when, still wrapped."""

    def __init__(self, directory: Path) -> None:
        """Open or create `keys.db`.

        Raises:
            StoreError: it cannot be opened.
        """
        self._db: Database = open_database(directory / KEYS)
        self._db.executescript(_SCHEMA)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def wrapped(self, subject: str) -> list[str]:
        """The wrapped keys of a subject, as they stand in the file."""
        row = self._row(subject)
        return [row[c] for c in ("wrapped", "next_wrapped", "audit_wrapped") if row[c]] if row else []

    def checkpoint(self) -> bool:
        """Empty the write-ahead log; False where readers kept it busy."""
        return checkpoint(self._db)

    def empty_log(self) -> bool:
        """Empty the write-ahead log, in one try; False where a reader is in the way."""
        return empty_log(self._db)

    def subjects(self) -> Iterator[str]:
        """Everybody who has a key."""
        for row in list(self._db.query("SELECT subject FROM data_keys ORDER BY subject")):
            yield row["subject"]

    def made(self) -> dict[str, str]:
        """Everybody who has a key, and when it was made."""
        return {row["subject"]: row["made_at"] for row in self._db.query("SELECT * FROM data_keys")}

    def wrapped_at(self) -> dict[str, datetime]:
        """Everybody who has a key, and when it was last wrapped by a master key (Fernet shows that without a key)."""
        rows = self._db.query("SELECT subject, wrapped FROM data_keys")
        return {row["subject"]: token_time(row["wrapped"]) for row in rows}

    def _row(self, subject: str) -> dict[str, Any] | None:
        return next(iter(self._db.query("SELECT * FROM data_keys WHERE subject = ?", [subject])), None)


class Vault(KeyBook):
    """The data keys. One instance for one thread."""

    def __init__(self, directory: Path, masters: Sequence[str]) -> None:
        """Open or create `keys.db`.

        Raises:
            StoreError: it cannot be opened.
            KeysUnusable: the master keys do not open what is in it.
        """
        super().__init__(directory)
        self._newest = Fernet(masters[0])
        self._master = MultiFernet([Fernet(key) for key in masters])
        self._ready: dict[str, Fernet] = {}
        first = next(iter(self._db.query("SELECT subject, wrapped FROM data_keys LIMIT 1")), None)
        if first is not None:
            self._unwrap(first["wrapped"], first["subject"])

    def close(self) -> None:
        """Close the file and forget every key."""
        self._ready.clear()
        self._db.close()

    # ------------------------------------------------------------------------------------------- one subject

    def key(self, subject: str, *, at: str = "", make: bool = True) -> SealKey | None:
        """The subject's key; made where there is none, or None where it may not be made.

        Args:
            subject: pseudonym.
            at: ISO time, for a key that is made.
            make: whether to make one.

        Raises:
            KeysUnusable: no master key opens it.
        """
        row = self._row(subject)
        if row is None:
            if not make:
                return None
            with self._db.atomic():
                self._db.execute(
                    "INSERT OR IGNORE INTO data_keys VALUES (?, ?, NULL, ?, ?)",
                    [
                        subject,
                        self._wrapped(Fernet.generate_key()),
                        self._wrapped(secrets.token_bytes(32)),
                        at,
                    ],
                )
            row = self._row(subject)
            if row is None:
                raise KeysUnusable(f"the key of {subject} could not be kept")
        current = self._unwrap(row["wrapped"], subject)
        coming = self._unwrap(row["next_wrapped"], subject) if row["next_wrapped"] else None
        newest = coming or current
        return SealKey(subject, newest, MultiFernet([newest, current]))

    def audit_key(self, subject: str) -> bytes | None:
        """Under which a subject's events are named in the audit log; None once it is shredded."""
        row = self._row(subject)
        if row is None:
            return None
        try:
            return self._master.decrypt(row["audit_wrapped"])
        except InvalidToken:
            raise KeysUnusable(f"no master key opens the audit key of {subject}") from None

    def shred(self, subject: str) -> bool:
        """Destroy the subject's keys, on disk and in memory; False where there were none."""
        done = self.shred_many([subject])
        checkpoint(self._db)
        return bool(done)

    def shred_many(self, subjects: Sequence[str]) -> int:
        """Destroy the keys of several; how many there were. The caller empties the write-ahead log, which still holds them."""
        self._ready.clear()
        with self._db.atomic():
            return sum(
                self._db.execute("DELETE FROM data_keys WHERE subject = ?", [subject]).rowcount
                for subject in subjects
            )

    # ------------------------------------------------------------------------------------------- rotation

    def rotate_masters(self, *, progress: Callable[[int, int], None] = lambda _done, _all: None) -> int:
        """Wrap every data key under the newest master key; keys that are already are left. Resumable: run it again.

        Raises:
            KeysUnusable: a key opens under none of the master keys; it is named, the others are done.
        """
        rows = list(self._db.query("SELECT * FROM data_keys ORDER BY subject"))
        changed, foreign = 0, []
        for number, row in enumerate(rows, 1):
            columns: dict[str, str | None] = {}
            for name in ("wrapped", "next_wrapped", "audit_wrapped"):
                token = row[name]
                if token is None or self._is_newest(token):
                    continue
                try:
                    columns[name] = self._wrapped(self._master.decrypt(token))
                except InvalidToken:
                    foreign.append(row["subject"])
                    break
            else:
                if columns:
                    self._update(row["subject"], columns)
                    changed += 1
            progress(number, len(rows))
        checkpoint(self._db)
        if foreign:
            raise KeysUnusable(f"no master key opens the key of {foreign[0]} and {len(foreign) - 1} more")
        return changed

    def begin_rotation(self, subject: str) -> SealKey | None:
        """A new data key beside the old one: both open, the new one seals. Goes on where an earlier run was cut."""
        row = self._row(subject)
        if row is None:
            return None
        if not row["next_wrapped"]:
            self._update(subject, {"next_wrapped": self._wrapped(Fernet.generate_key())})
        return self.key(subject, make=False)

    def end_rotation(self, subject: str) -> None:
        """Only the new key from now on; the old one opens nothing that is kept."""
        row = self._row(subject)
        if row is not None and row["next_wrapped"]:
            self._update(subject, {"wrapped": row["next_wrapped"], "next_wrapped": None})
            self._ready.clear()

    # ------------------------------------------------------------------------------------------- inside

    def _update(self, subject: str, columns: dict[str, str | None]) -> None:
        setting = ", ".join(f"{name} = :{name}" for name in columns)
        with self._db.atomic():
            self._db.execute(
                f"UPDATE data_keys SET {setting} WHERE subject = :subject",  # noqa: S608 (our own column names)
                {**columns, "subject": subject},
            )

    def _wrapped(self, key: bytes) -> str:
        return self._newest.encrypt(key).decode("ascii")

    def _is_newest(self, token: str) -> bool:
        try:
            self._newest.decrypt(token)
        except InvalidToken:
            return False
        return True

    def _unwrap(self, token: str, subject: str) -> Fernet:
        ready = self._ready.get(token)
        if ready is None:
            try:
                ready = Fernet(self._master.decrypt(token))
            except (InvalidToken, ValueError):
                raise KeysUnusable(
                    f"no master key opens the key of {subject}: put the key that made it back into force, "
                    "behind the newest"
                ) from None
            if len(self._ready) >= REMEMBERED:
                self._ready.clear()
            self._ready[token] = ready
        return ready


def token_time(token: str) -> datetime:
    """When a Fernet token was made: its bytes 1 to 8, in the clear (Fernet specification)."""
    return datetime.fromtimestamp(int.from_bytes(base64.urlsafe_b64decode(token[:12])[1:9], "big"), tz=UTC)


def new_master_key() -> str:
    """A fresh master key."""
    return Fernet.generate_key().decode("ascii")
