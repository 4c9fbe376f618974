"""Looking for what must not be there: every byte of every file of ours, for erased values and for sealed ones of no living row.

It needs no key: sealed values are told by their form, and belong to a living row or to none.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sqlite_utils import Database

from privacy.audit import EventKind
from privacy.consent import Scope
from privacy.errors import StoreError
from privacy.store.files import empty_log
from privacy.store.schema import MIGRATIONS, SEALED, TABLES
from privacy.vault import KeyBook

LONGEST_NEEDLE, CHUNK = 400, 48
SHORTEST_VALUE = 8
"""Characters of a value that is looked for in the files; shorter ones stand in others by chance."""
PIECE, OVERLAP = 4_000_000, 1_024
"""Bytes read at once, and how much of them is looked at again with the next: more than the longest that is looked for."""
AGAIN, AGAIN_SECONDS = 2, 0.1
_UNREAD = int.from_bytes(b"\xff" * 8, "big")
_TOKEN = re.compile(rb"gAAAAA[A-Za-z0-9_-]{90,}={0,2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Residue:
    """What a scan of our files found.

    Attributes:
        files: how many were read.
        size: bytes read.
        found: file and what kind of thing is in it; never the thing.
    """

    files: int
    size: int
    found: tuple[str, ...] = ()


@dataclass(slots=True)
class Needles:
    """What may be nowhere any more."""

    values: set[bytes] = field(default_factory=set, repr=False)
    tokens: set[bytes] = field(default_factory=set, repr=False)

    def add_value(self, text: str, *, is_theirs: bool = False) -> None:
        """A value, or each text inside it where it is JSON."""
        for piece in _leaves(text, is_theirs=is_theirs):
            if len(piece) >= SHORTEST_VALUE and not _is_ours(piece):
                self.values.add(piece[:LONGEST_NEEDLE].encode())

    def add_token(self, token: str) -> None:
        """A sealed value."""
        raw = token.encode()
        for start in range(16, max(17, len(raw) - CHUNK), CHUNK * 4):
            self.tokens.add(raw[start : start + CHUNK])


_OURS = frozenset(
    word
    for text in (
        *MIGRATIONS,
        *TABLES,
        *(facts.purpose for facts in TABLES.values()),
        *(" ".join(facts.categories) for facts in TABLES.values()),
        *map(str, EventKind),
        *map(str, Scope),
    )
    for word in re.findall(r"[a-z_]+", text.lower())
)
"""Words that stand in our files whatever anybody writes: names of tables, columns, scopes and events."""


def _is_ours(piece: str) -> bool:
    """A single word of our own: that it is found says nothing of anybody."""
    return piece.strip().lower() in _OURS


_MACHINE = re.compile(r"[a-z0-9_.:+-]+|\d{4}-\d\d-\d\dT[\d:.+-]+")
_WORDS_OF_A_PERSON = frozenset(
    {"text", "query", "said", "answered", "message", "answer", "question", "follow_up"}
)


def _leaves(text: str, *, is_theirs: bool = False) -> Iterator[str]:
    """The texts inside a JSON value, or the text itself; codes and names of our own are left out."""
    try:
        waiting = [(json.loads(text), is_theirs)]
    except ValueError:
        yield text
        return
    while waiting:
        found, theirs = waiting.pop()
        if isinstance(found, dict):
            waiting += [(v, theirs or k in _WORDS_OF_A_PERSON) for k, v in found.items()]
        elif isinstance(found, list):
            waiting += [(v, theirs) for v in found]
        elif isinstance(found, str) and (theirs or not _MACHINE.fullmatch(found)):
            yield found


class Scanner:
    """Reads the files of one deployment, in the store's thread."""

    def __init__(self, directory: Path, database: Database, keys: KeyBook) -> None:
        """A scanner.

        Args:
            directory: of the data.
            database: the open store.
            keys: the open key file; no key is needed.
        """
        self._directory, self._db, self._keys = directory, database, keys
        self.more_files: list[Path] = []
        """Files of ours outside the data directory: Chainlit's."""

    def files(self) -> list[Path]:
        """Every file of ours."""
        own = [p for p in sorted(self._directory.rglob("*")) if p.is_file()]
        for place in self.more_files:
            own += [p for p in sorted(place.rglob("*")) if p.is_file()] if place.is_dir() else [place]
        return [p for p in own if p.exists()]

    def scan(self, needles: Needles | None = None, *, orphans: bool = True) -> Residue:
        """Read every byte of every file for what may be nowhere, and for sealed values that belong to no living row.

        While people chat, values are written and replaced under the reader's eyes: a value of no living row counts only
        where it is still there, and still nobody's, when it is looked for again.
        """
        paths = self.files()
        found, strays, size = self._read(paths, needles, orphans=orphans)
        for _ in range(AGAIN if strays else 0):
            time.sleep(AGAIN_SECONDS)
            empty_log(self._db)
            self._keys.empty_log()
            _, left, _ = self._read([p for p in paths if p in strays and p.exists()], None, orphans=True)
            strays = {p: strays[p] & left[p] for p in left if strays[p] & left[p]}
        found += [f"{p.name}: {len(every)} sealed values of no living row" for p, every in strays.items()]
        return Residue(files=len(paths), size=size, found=tuple(found))

    def _read(
        self, paths: Sequence[Path], needles: Needles | None, *, orphans: bool
    ) -> tuple[list[str], dict[Path, set[bytes]], int]:
        """What is told of files, the strays in each, and how many bytes were read."""
        living = self._living() if orphans else set()
        told: dict[str, None] = {}
        strays: dict[Path, set[bytes]] = {}
        size = 0
        for path, raw, fresh in pieces(paths):
            if raw is None:
                if (
                    path.exists()
                ):  # one that went meanwhile, as a log does when the last connection closes, holds nothing
                    told[f"{path.name}: could not be read"] = None
                continue
            size += fresh
            if needles is not None:
                if any(value in raw for value in needles.values):
                    told[f"{path.name}: a value in clear"] = None
                if any(token in raw for token in needles.tokens):
                    told[f"{path.name}: a sealed value"] = None
            if orphans and (path.suffix == ".db" or path.name.endswith("-wal")):
                nobodys = {t[16:64] for t in _TOKEN.findall(raw)} - living
                if nobodys:
                    strays.setdefault(path, set()).update(nobodys)
        return list(told), strays, size

    def _living(self) -> set[bytes]:
        """A piece of each sealed value that a living row holds."""
        pieces = set()
        for table, columns in SEALED.items():
            for column in columns:
                rows = self._db.query(
                    f"SELECT {column} AS token FROM {table} WHERE {column} IS NOT NULL"  # noqa: S608 (our own names)
                )
                pieces |= {row["token"].encode()[16:64] for row in rows}
        for subject in self._keys.subjects():
            pieces |= {token.encode()[16:64] for token in self._keys.wrapped(subject)}
        return pieces


# ------------------------------------------------------------------------------------------------ reading apart

_READER = """
import sys
out = sys.stdout.buffer
for name in sys.stdin.buffer.read().split(b"\\0"):
    try:
        with open(name, "rb") as file:
            while piece := file.read(%d):
                out.write(len(piece).to_bytes(8, "big") + piece)
        out.write((0).to_bytes(8, "big"))
    except OSError:
        out.write(b"\\xff" * 8)
out.flush()
"""


def pieces(paths: Sequence[Path]) -> Iterator[tuple[Path, bytes | None, int]]:
    """The content of files, piece by piece, each beginning with the end of the one before; None where one cannot be read.

    Another process reads them. One that has a database open must never open and close its files by another way: that
    drops the locks by which SQLite keeps processes apart (sqlite.org/howtocorrupt.html, 2.2), and a database can break.
    """
    if not paths:
        return
    reader = subprocess.Popen(  # noqa: S603 (our own words)
        [sys.executable, "-I", "-S", "-c", _READER % PIECE],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        if reader.stdin is None or reader.stdout is None:
            raise StoreError("the files could not be read: no pipe to the reader")
        reader.stdin.write(b"\0".join(os.fsencode(path) for path in paths))
        reader.stdin.close()
        for path in paths:
            before = b""
            while True:
                head = reader.stdout.read(8)
                length = int.from_bytes(head, "big")
                if len(head) == 8 and not length:
                    break
                piece = b"" if len(head) < 8 or length == _UNREAD else reader.stdout.read(length)
                if not piece or len(piece) < length:
                    yield path, None, 0
                    break
                yield path, before + piece, len(piece)
                before = piece[-OVERLAP:]
    finally:
        if reader.stdout is not None:
            reader.stdout.close()
        reader.kill()
        reader.wait()
