"""Looking for what must not be there: every byte of every file of ours, for erased values and for sealed ones of no living row.

It needs no key: sealed values are told by their form, and belong to a living row or to none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sqlite_utils import Database

from privacy.store.schema import SEALED
from privacy.vault import KeyBook

LONGEST_NEEDLE, CHUNK = 400, 48
SHORTEST_VALUE = 8
"""Characters of a value that is looked for in the files; shorter ones stand in others by chance."""
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
            if len(piece) >= SHORTEST_VALUE:
                self.values.add(piece[:LONGEST_NEEDLE].encode())

    def add_token(self, token: str) -> None:
        """A sealed value."""
        raw = token.encode()
        for start in range(16, max(17, len(raw) - CHUNK), CHUNK * 4):
            self.tokens.add(raw[start : start + CHUNK])


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
        """Read every byte of every file for what may be nowhere, and for sealed values that belong to no living row."""
        living = self._living()
        files, size = 0, 0
        found: list[str] = []
        for path in self.files():
            try:
                raw = path.read_bytes()
            except OSError as failed:
                found.append(f"{path.name}: could not be read ({type(failed).__name__})")
                continue
            files, size = files + 1, size + len(raw)
            if needles is not None:
                if any(value in raw for value in needles.values):
                    found.append(f"{path.name}: a value in clear")
                if any(token in raw for token in needles.tokens):
                    found.append(f"{path.name}: a sealed value")
            if orphans and (path.suffix == ".db" or path.name.endswith("-wal")):
                strays = {t for t in _TOKEN.findall(raw) if t[16:64] not in living}
                if strays:
                    found.append(f"{path.name}: {len(strays)} sealed values of no living row")
        return Residue(files=files, size=size, found=tuple(found))

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
