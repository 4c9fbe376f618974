"""Each kind of tampering with the audit log is detected and located, by our command and by the stand-alone script."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bot.cli import cli
from privacy.audit import START, AuditLog, EventKind, as_json, entry_hash, read_heads, write_head
from privacy.errors import AuditBroken
from tests.conftest import Clock

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "docs" / "verify_log.py"
ENTRIES = 12


@pytest.fixture
def log(tmp_path: Path, clock: Clock) -> Path:
    """A folder with a log of twelve entries, heads seen after the fifth and the last, and an older copy of it."""
    made = AuditLog(tmp_path)
    for number in range(ENTRIES):
        clock.move(hours=1)
        event = made.append(
            EventKind.SESSION, at=clock(), subject=f"p{number}", key=b"k" * 32, counts={"n": number}
        )
        if number in (4, ENTRIES - 1):
            write_head(tmp_path / "audit-heads.txt", event)
        if number == 8:
            made.empty_log()
            shutil.copy(tmp_path / "audit.db", tmp_path / "older.db")
    made.close()
    return tmp_path


def rewritten(rows: list[dict[str, Any]], start: int) -> None:
    """Hash everything from an entry on anew, as somebody would who knows how."""
    for at in range(start, len(rows)):
        row = rows[at]
        row["before"] = rows[at - 1]["hash"] if at else START
        row["hash"] = entry_hash(*(row[k] for k in ("number", "at", "kind", "subject", "counts", "before")))


def edit(rows: list[dict[str, Any]]) -> None:
    rows[6]["counts"] = '{"n": 99}'


def edit_of_hash(rows: list[dict[str, Any]]) -> None:
    rows[6]["hash"] = "f" * 64


def insert(rows: list[dict[str, Any]]) -> None:
    rows.insert(6, dict(rows[6]))


def insert_and_renumber(rows: list[dict[str, Any]]) -> None:
    rows.insert(6, dict(rows[6]))
    for number, row in enumerate(rows, 1):
        row["number"] = number


def delete(rows: list[dict[str, Any]]) -> None:
    del rows[6]


def delete_first(rows: list[dict[str, Any]]) -> None:
    del rows[:3]


def reorder(rows: list[dict[str, Any]]) -> None:
    rows[6], rows[7] = rows[7], rows[6]


def reorder_and_renumber(rows: list[dict[str, Any]]) -> None:
    rows[6], rows[7] = rows[7], rows[6]
    rows[6]["number"], rows[7]["number"] = 7, 8


def cut_the_tail(rows: list[dict[str, Any]]) -> None:
    del rows[9:]


def rewrite_all(rows: list[dict[str, Any]]) -> None:
    rows[6]["counts"] = '{"n": 99}'
    rewritten(rows, 6)


def rewrite_from_the_start(rows: list[dict[str, Any]]) -> None:
    rows[1]["counts"] = '{"n": 99}'
    rewritten(rows, 1)


def cut_and_grow_again(rows: list[dict[str, Any]]) -> None:
    """An older copy put back, and written on until it is as long as before."""
    for row in rows[9:]:
        row["counts"] = '{"other": 1}'
    rewritten(rows, 9)


MATRIX: list[tuple[Callable[[list[dict[str, Any]]], None], str, str]] = [
    (edit, "entry 7 was changed", "line 7: entry 7 was changed"),
    (edit_of_hash, "entry 7 was changed", "line 7: entry 7 was changed"),
    (insert, "entry 8 was put in or moved", "line 8: entry 8 should stand here"),
    (insert_and_renumber, "entry 8 does not follow", "line 8: entry 8 does not follow"),
    (delete, "entry 7 is missing or was moved", "line 7: entry 7 should stand here"),
    (delete_first, "entries 1 to 3 are missing", "entries 1 to 3 are missing"),
    (reorder, "entry 7 is missing or was moved", "line 7: entry 7 should stand here"),
    (reorder_and_renumber, "entry 7 does not follow", "line 7: entry 7 does not follow"),
    (cut_the_tail, "entry 12 was seen before and is not there: the log was cut after entry 9", "cut after 9"),
    (rewrite_all, "entry 12 is another than was seen before: history was rewritten after entry 5", "rewritten after entry 5"),
    (rewrite_from_the_start, "entry 5 is another than was seen before: history was rewritten after entry 0", "after entry 0"),
    (cut_and_grow_again, "entry 12 is another than was seen before: history was rewritten after entry 5", "after entry 5"),
]  # fmt: skip


def exported(folder: Path, rows: list[dict[str, Any]]) -> Path:
    path = folder / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def entries(folder: Path) -> list[dict[str, Any]]:
    made = AuditLog(folder)
    found = [as_json(event) for event in made.events()]
    made.close()
    return found


def alone(*words: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(SCRIPT), *words],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )
    return done.returncode, done.stdout + done.stderr


def ours(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["privacy", "verify-log", *words])
    return done.exit_code, done.output


@pytest.mark.parametrize(("tamper", "says", "script_says"), MATRIX)
def test_tampering_is_detected_and_located(
    tamper: Callable[[list[dict[str, Any]]], None],
    says: str,
    script_says: str,
    log: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAISE_DATA_DIR", str(log))
    heads = str(log / "audit-heads.txt")
    rows = entries(log)
    whole = str(exported(log, rows))
    assert ours(whole, "--heads", heads) == (0, "whole: 12 entries, 2 heads seen before\n")
    assert alone(whole, heads) == (0, "whole: 12 entries, 2 heads seen before\n")
    assert ours()[0] == 0
    tamper(rows)
    broken = str(exported(log, rows))
    code, told = ours(broken, "--heads", heads)
    assert code == 1 and says in told
    code, told = alone(broken, heads)
    assert code == 1 and script_says in told, told
    with sqlite3.connect(log / "audit.db") as db:
        db.executescript("DROP TRIGGER events_stay; DROP TRIGGER events_stay_too; DELETE FROM events;")
        db.execute("CREATE TABLE moved AS SELECT * FROM events")
        db.executescript("DROP TABLE events; ALTER TABLE moved RENAME TO events;")
        for row in rows:
            db.execute(
                "INSERT INTO events VALUES (:number, :at, :kind, :subject, :counts, :before, :hash)", row
            )
    db.close()
    code, told = ours()
    assert code == (tamper is not reorder), (
        "in the database itself too, where entries stand by number, by the heads beside it"
    )


def test_an_older_copy_put_back_is_detected(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAISE_DATA_DIR", str(log))
    for name in ("audit.db-wal", "audit.db-shm"):
        (log / name).unlink(missing_ok=True)
    shutil.copy(log / "older.db", log / "audit.db")
    code, told = ours()
    assert code == 1 and "entry 12 was seen before and is not there: the log was cut after entry 9" in told


def test_without_heads_a_rewritten_log_agrees_with_itself_and_the_script_says_why(log: Path) -> None:
    rows = entries(log)
    rewrite_all(rows)
    assert alone(str(exported(log, rows)))[0] == 0
    assert "only a head that you kept tells" in SCRIPT.read_text().replace("\n", " ")


def test_the_script_is_short_and_needs_nothing() -> None:
    text = SCRIPT.read_text()
    assert text.count("\n") < 80
    assert {line.split()[1] for line in text.splitlines() if line.startswith("import ")} == {
        "hashlib",
        "json",
        "sys",
    }
    assert "\nfrom " not in text
    assert alone()[0] == 2 and alone("/nowhere")[0] == 2


def test_the_log_is_append_only_through_sqlite_too(log: Path) -> None:
    db = sqlite3.connect(log / "audit.db")
    for statement in (
        "UPDATE events SET counts = '{}' WHERE number = 3",
        "DELETE FROM events WHERE number = 3",
    ):
        with pytest.raises(sqlite3.IntegrityError, match="append only"):
            db.execute(statement)
    db.close()


def test_entries_whose_time_is_up_go_and_the_rest_verifies(log: Path, clock: Clock) -> None:
    made = AuditLog(log)
    heads = read_heads(log / "audit-heads.txt")
    assert made.prune(7, at=clock()) == 7
    assert made.verify(heads=heads) == 6, "five that are left, and the one that says so"
    made.append(EventKind.SESSION, at=clock(), counts={})
    assert made.prune(9, at=clock() + timedelta(hours=1)) == 2 and made.verify(heads=heads) == 6
    rows = [as_json(event) for event in made.events()]
    made.close()
    assert alone(str(exported(log, rows)), str(log / "audit-heads.txt"))[0] == 0
    code, told = alone(str(exported(log, rows[1:])))
    assert code == 1 and "entries 1 to 10 are missing" in told, "cut further than was said"


def test_heads_that_do_not_agree_are_named(tmp_path: Path) -> None:
    (tmp_path / "heads").write_text("3 " + "a" * 64 + " t\n3 " + "b" * 64 + " t\n")
    with pytest.raises(AuditBroken, match="line 2: entry 3 was seen with another hash"):
        read_heads(tmp_path / "heads")
    (tmp_path / "heads").write_text("three " + "a" * 64)
    with pytest.raises(AuditBroken, match="line 1"):
        read_heads(tmp_path / "heads")


def test_a_change_is_logged_once(tmp_path: Path, clock: Clock) -> None:
    made = AuditLog(tmp_path)
    assert made.note_change(EventKind.POLICY, "a", at=clock()) and not made.note_change(
        EventKind.POLICY, "a", at=clock()
    )
    assert made.note_change(EventKind.CONFIGURATION, "a", at=clock()) and made.note_change(
        EventKind.POLICY, "b", at=clock()
    )
    assert [e.kind for e in made.events()] == ["policy", "configuration", "policy"]
    made.close()
