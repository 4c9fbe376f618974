"""The scan reads every byte, says what it could not read, and leaves SQLite's locks alone."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bot.keeping import Keeping
from privacy import residue
from privacy.residue import Needles, pieces
from tests.conftest import Clock, keeping_in
from tests.privacy.test_retention import HOST, PERSON, fill

TRY = (
    "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE'); print('got it')"
)


@pytest.fixture
def keeping(tmp_path: Path, clock: Clock) -> Iterator[Keeping]:
    made: Any = keeping_in(tmp_path / "data", clock=clock, send_to=HOST)
    made.call(lambda _: fill(made, clock))
    yield made
    made.close()


def locked_for_another(path: Path) -> bool:
    done = subprocess.run([sys.executable, "-c", TRY, str(path)], capture_output=True, text=True, check=False)
    return "locked" in done.stderr and "got it" not in done.stdout


async def test_a_scan_does_not_drop_the_locks_of_its_own_process(keeping: Keeping, tmp_path: Path) -> None:
    database = tmp_path / "data" / "study.db"

    def held_while_scanning() -> tuple[bool, bool]:
        keeping.store.db.execute("BEGIN IMMEDIATE")
        before = locked_for_another(database)
        keeping.rights.scanner._read(keeping.rights.scanner.files(), Needles(), orphans=False)
        after = locked_for_another(database)
        keeping.store.db.conn.rollback()
        return before, after

    assert await keeping.run(held_while_scanning) == (True, True)

    def read_in_this_process() -> bool:
        keeping.store.db.execute("BEGIN IMMEDIATE")
        for path in keeping.rights.scanner.files():
            path.read_bytes()
        after = locked_for_another(database)
        keeping.store.db.conn.rollback()
        return after

    assert not await keeping.run(read_in_this_process), "this is why another process reads"


def test_what_lies_across_two_pieces_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residue, "PIECE", 5_000)
    needle = b"walk the dog and ring Ann"
    for shift in (4_980, 4_999, 5_000, 9_990):
        path = tmp_path / f"file-{shift}"
        path.write_bytes(secrets.token_bytes(shift) + needle + secrets.token_bytes(6_000))
        assert any(needle in (raw or b"") for _, raw, _ in pieces([path]))
        assert sum(fresh for _, _, fresh in pieces([path])) == path.stat().st_size


def test_what_cannot_be_read_is_told_and_never_taken_for_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, gone, empty = tmp_path / "good", tmp_path / "gone", tmp_path / "empty"
    good.write_bytes(b"x" * 10)
    empty.write_bytes(b"")
    assert [(p.name, raw) for p, raw, _ in pieces([good, gone, empty, good])] == [
        ("good", b"x" * 10), ("gone", None), ("good", b"x" * 10),
    ]  # fmt: skip
    monkeypatch.setattr(residue, "_READER", "import os; os._exit(%d * 0)")
    assert [(p.name, raw) for p, raw, _ in pieces([good, empty])] == [("good", None), ("empty", None)]


async def test_a_reader_that_dies_refuses_the_receipt(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(residue, "_READER", "import os; os._exit(%d * 0)")
    found = await keeping.run(keeping.rights.scanner.scan)
    assert found.found and all("could not be read" in one for one in found.found)


async def test_a_value_that_is_replaced_while_somebody_reads_is_no_residue(
    keeping: Keeping, clock: Clock, tmp_path: Path
) -> None:
    """The old value of a conversation's state lies in the write-ahead log until that is emptied."""
    await keeping.run(lambda: fill(keeping, clock))
    wal = (tmp_path / "data" / "study.db-wal").stat().st_size
    found = await keeping.run(keeping.rights.scanner.scan)
    assert wal > 0 and found.found == ()


async def test_a_sealed_value_of_nobody_is_found(keeping: Keeping, clock: Clock, tmp_path: Path) -> None:
    def planted() -> str:
        key = keeping.vault.key(PERSON, make=False)
        assert key is not None
        return key.seal("words of somebody", "long gone " * 9)

    token = await keeping.run(planted)
    (tmp_path / "data" / "copy.db").write_bytes(os.urandom(100) + token.encode() + os.urandom(100))
    found = await keeping.run(keeping.rights.scanner.scan)
    assert found.found == ("copy.db: 1 sealed values of no living row",)


async def test_a_file_that_goes_while_it_is_read_is_no_finding(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    scanner = keeping.rights.scanner
    every = scanner.files()
    monkeypatch.setattr(scanner, "files", lambda: [*every, every[0].with_name("other.db-wal")])
    assert (await keeping.run(scanner.scan)).found == ()
