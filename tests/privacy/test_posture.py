"""A seeded deployment with planted violations: the audit finds each of them and nothing else; a clean one passes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bot.cli import cli
from bot.keeping import Keeping
from bot.observing import observed
from bot.posturing import ROOT, examined
from bot.settings import read_settings
from bot.sweeping import Heads
from bot.web.audit_page import audit_page
from policies import retention
from privacy.posture import BROKEN, KEPT, PROMISES, UNCHECKED, Posture
from privacy.retention import RetentionSweep
from privacy.vault import new_master_key
from tests.conftest import Clock, keeping_in
from tests.privacy.test_retention import HOST, OTHER, PERSON, fill

ABOUT = {"title": "a test", "mode": "demo", "release": "0"}


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The parts of an installation that the audit looks at, so that a test may change them."""
    root = tmp_path_factory.mktemp("installation")
    for name in ("public", ".chainlit", "bot/web/templates", "build/ui"):
        if (ROOT / name).exists():
            shutil.copytree(ROOT / name, root / name)
    shutil.copy(ROOT / "requirements.lock", root / "requirements.lock")
    return root


@pytest.fixture
def root(installation: Path, tmp_path: Path) -> Path:
    shutil.copytree(installation, tmp_path / "root")
    return tmp_path / "root"


@pytest.fixture
def seeded(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Keeping]:
    """Two people, swept up to now, with a head of the log handed out; its file still open."""
    monkeypatch.setenv("RAISE_DATA_DIR", str(tmp_path / "data"))
    clock.move(days=-20)
    made: Any = keeping_in(tmp_path / "data", clock=clock, send_to=HOST)
    made.call(lambda _: (fill(made, clock), fill(made, clock, OTHER, sessions=2)))
    clock.move(days=20)
    asyncio.run(made.sweep(clock().isoformat()))
    made.call(lambda _: made.rights.erase_all(OTHER))
    head = made.call(lambda _: made.audit.head())
    assert head is not None
    Heads.of(read_settings()).publish(head)
    yield made
    made.close()


def looked(clock: Clock, root: Path, *, measures: bool = False) -> Posture:
    settings = read_settings()
    with observed(settings) as found:
        return examined(settings, found, at=clock(), root=root, measures=measures)


def broken(posture: Posture) -> set[tuple[str, str]]:
    return {(f.promise, f.where.split(" (")[0]) for f in posture.findings}


def test_a_clean_deployment_passes(seeded: Keeping, clock: Clock, root: Path) -> None:
    posture = looked(clock, root, measures=True)
    assert posture.findings == [] and posture.is_kept
    states = {p["promise"]: p["state"] for p in posture.promises}
    assert set(states) == set(PROMISES) and BROKEN not in states.values()
    assert [k for k, s in states.items() if s == UNCHECKED] == ["rotation", "access"]
    raw = posture.to_json()
    assert raw["verdict"][KEPT] == len(PROMISES) - 2
    assert raw["encryption"]["share"] == 1.0 and raw["encryption"]["keys"] == 1
    assert sum(c["values"] for c in raw["encryption"]["columns"]) >= 8
    assert raw["rights"]["erasures"] == 1 and raw["rights"]["erasures_unfinished"] == 0
    assert raw["outbound"][0]["destination"] == HOST and raw["outbound"][0]["calls"] == 1
    assert {a["scope"] for a in raw["consent"]["answers"]} == {"chat", "send", "keep", "research", "contact"}
    assert raw["sweeps"][0]["deleted"]["volatile_attribute"] == 2
    assert raw["escalations"]["unacknowledged"] == 2
    assert {m["what"] for m in raw["redaction"]["table"]} >= {"covered", "messages fully protected"}
    assert raw["redaction"]["changed"] == 0 and raw["redaction"]["refuses"]
    mapped = {(c["file"], c["table"], c["column"]) for c in raw["data_map"]}
    assert ("study.db", "turns", "words") in mapped and ("audit.db", "events", "counts") in mapped
    assert all(c["rule"] for c in raw["data_map"] if c["category"])
    assert json.loads(json.dumps(raw)) == raw


def database(file: str, script: str) -> Callable[[Path, Path], None]:
    def plant(data: Path, root: Path) -> None:
        del root
        with sqlite3.connect(data / file) as db:
            db.executescript("PRAGMA secure_delete = ON;" + script)
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        db.close()

    return plant


def expired(data: Path, root: Path) -> None:
    """A row that should have been swept a month ago."""
    database("study.db", "UPDATE feedback SET expires_at = '2026-10-20T00:00:00+00:00'")(data, root)


def unconsented(data: Path, root: Path) -> None:
    """A conversation of somebody who said no."""
    database("study.db", f"UPDATE consents SET granted = 0 WHERE scope = 'keep' AND person = '{PERSON}'")(
        data, root
    )


def readable_key(data: Path, root: Path) -> None:
    (data / "master.key").write_text(new_master_key())
    (data / "master.key").chmod(0o644)


def font(data: Path, root: Path) -> None:
    with (root / "public" / "raise.css").open("a") as css:
        css.write('\n@import url("https://fonts.example.com/css2?family=Inter");\n')


def old_chainlit(data: Path, root: Path) -> None:
    lock = root / "requirements.lock"
    text = re.sub(
        r"^chainlit==.*?(?=^\w)", "chainlit>=1.3.2\n", lock.read_text(), flags=re.MULTILINE | re.DOTALL
    )
    assert "chainlit>=1.3.2" in text
    lock.write_text(text)


def old_export(data: Path, root: Path) -> None:
    (data / "exports").mkdir()
    (data / "exports" / "export-1.json").write_text("{}")
    (data / "exports" / "export-1.json").chmod(0o644)
    os.utime(data / "exports" / "export-1.json", (1_700_000_000,) * 2)


def broken_chain(data: Path, root: Path) -> None:
    database(
        "audit.db", "DROP TRIGGER events_stay; UPDATE events SET counts = '{\"rows\": 0}' WHERE number = 3"
    )(data, root)


VIOLATIONS = {
    "plaintext column": (
        database("study.db", "UPDATE turns SET words = 'my wife left' WHERE words IS NOT NULL"),
        {("sealed", "study.db: turns.words")},
    ),
    "plaintext column of another's making": (
        database("study.db", "ALTER TABLE turns ADD COLUMN note TEXT; UPDATE turns SET note = 'she said'"),
        {("sealed", "study.db: turns.note")},
    ),
    "expired row": (expired, {("retention", "feedback")}),
    "row dated past its rule": (
        database("study.db", "UPDATE turns SET expires_at = '2031-01-01T00:00:00+00:00' WHERE category = 'turn'"),
        {("retention", "turns")},
    ),
    "session without consent": (unconsented, {("consent", "study.db, consent to keep")}),
    "world-readable key": (readable_key, {("secrets", "master.key")}),
    "third-party font": (font, {("no-third-party", "public/raise.css")}),
    "unpinned old Chainlit": (old_chainlit, {("dependencies", "requirements.lock"), ("dependencies", "Chainlit")}),
    "broken chain": (broken_chain, {("log", "audit.db")}),
    "table without rule": (
        database("study.db", "CREATE TABLE notes (id INTEGER PRIMARY KEY, person TEXT, text TEXT)"),
        {("record", "study.db: notes")},
    ),
    "old copy of somebody's data, readable by all": (
        old_export, {("retention", "exports"), ("secrets", "exports/export-1.json")},
    ),
    "transcript without consent to research": (
        database("study.db", "UPDATE consents SET granted = 0 WHERE scope = 'research'"),
        {("consent", "study.db, consent to research")},
    ),
    "answers that should have faded": (
        database("study.db", "UPDATE sessions SET fades_at = '2026-11-01T00:00:00+00:00'"),
        {("retention", "sessions.state")},
    ),
    "a key that seals nothing": (
        database("keys.db", "INSERT INTO data_keys SELECT 'gone-before', wrapped, NULL, audit_wrapped, made_at FROM data_keys"),
        {("retention", "keys.db")},
    ),
    "counts older than their rule": (
        database("study.db", "INSERT INTO referrals VALUES ('2010-01', 'imminent', 'suicide', 'GB', 3)"),
        {("retention", "counts")},
    ),
    "pseudonym dated for ever": (
        database("study.db", "UPDATE participants SET expires_at = '9999-01-01T00:00:00+00:00'"),
        {("retention", "participants")},
    ),
    "somebody erased is back": (
        database(
            "study.db",
            f"INSERT INTO participants VALUES ('{OTHER}', 'participant', '2026-11-20T00:00:00+00:00',"
            " '2026-11-20T00:00:00+00:00', '2026-12-20T00:00:00+00:00')",
        ),
        {("erasure", "study.db and keys.db")},
    ),
    "Chainlit lets people edit": (
        lambda _, root: (root / ".chainlit" / "config.toml").write_text(
            (root / ".chainlit" / "config.toml").read_text().replace("edit_message = false", "edit_message = true")
        ),
        {("configuration", "Chainlit features.edit_message")},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", VIOLATIONS)
def test_each_violation_is_found_and_nothing_else(
    name: str, seeded: Keeping, clock: Clock, root: Path
) -> None:
    plant, finds = VIOLATIONS[name]
    plant(seeded.directory, root)
    posture = looked(clock, root)
    assert broken(posture) == finds
    assert all(f.do and f.what for f in posture.findings)
    assert {p["promise"] for p in posture.promises if p["state"] == BROKEN} == {
        promise for promise, _ in finds
    }


EIGHT = (
    "plaintext column", "expired row", "session without consent", "world-readable key", "third-party font",
    "unpinned old Chainlit", "broken chain", "table without rule",
)  # fmt: skip


def test_all_eight_at_once_are_found_and_nothing_else(seeded: Keeping, clock: Clock, root: Path) -> None:
    expected: set[tuple[str, str]] = set()
    for name in EIGHT:
        plant, finds = VIOLATIONS[name]
        plant(seeded.directory, root)
        expected |= finds
    assert broken(looked(clock, root)) == expected


def test_a_row_that_expired_since_the_last_slot_is_not_overdue(
    seeded: Keeping, clock: Clock, root: Path
) -> None:
    at = (clock() - timedelta(minutes=5)).isoformat()
    database("study.db", f"UPDATE feedback SET expires_at = '{at}'")(seeded.directory, root)
    assert looked(clock, root).findings == []


def test_while_the_sweep_of_a_slot_may_be_running_its_rows_are_not_overdue(
    seeded: Keeping, clock: Clock, root: Path
) -> None:
    """The sweep is at 17 minutes past; a row expired within the hour before."""
    clock.time = clock.time.replace(minute=17, second=1)
    at = clock.time.replace(minute=0).isoformat()
    database("study.db", f"UPDATE feedback SET expires_at = '{at}'")(seeded.directory, root)
    assert looked(clock, root).findings == []
    clock.move(minutes=10)
    assert broken(looked(clock, root)) == {("retention", "feedback")}


@pytest.mark.parametrize(
    ("keep", "collected"), [("6 months", "2027-03-15"), ("1 month", "2027-01-20"), ("1 year", "2027-06-01")]
)
def test_months_of_different_length_are_no_breach(  # noqa: PLR0917
    keep: str, collected: str, clock: Clock, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = retention.PATH.read_text().replace(
        "    keep: 30 days\n    reason: What the dialogue", f"    keep: {keep}\n    reason: What the dialogue"
    )
    (tmp_path / "rules.yaml").write_text(
        text.replace("keep: 1 year\n    reason: Redacted", "keep: 3 years\n    reason: Redacted")
    )
    monkeypatch.setenv("RAISE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("RAISE_RETENTION_FILE", str(tmp_path / "rules.yaml"))
    clock.time = datetime.fromisoformat(collected).replace(tzinfo=UTC)
    made: Any = keeping_in(
        tmp_path / "data", clock=clock, send_to=HOST, rules=retention.load(tmp_path / "rules.yaml")
    )
    made.call(lambda _: fill(made, clock))
    for _ in range(4):
        assert not [f for f in looked(clock, root).findings if "longer" in f.what]
        clock.move(days=9)
        made.call(lambda _: RetentionSweep(made.swept(), clock().isoformat()).run())
    made.close()


def test_a_secret_that_a_manager_mounted_is_not_ours_to_judge(
    seeded: Keeping, clock: Clock, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = tmp_path / "mount" / "key"
    key.parent.mkdir()
    key.write_text(new_master_key())
    key.chmod(0o444)
    monkeypatch.setenv("RAISE_MASTER_KEY_FILE", str(key))
    assert broken(looked(clock, root)) == {("secrets", "key")}
    monkeypatch.setattr("privacy.vault.MOUNTED", (key.parent,))
    assert looked(clock, root).findings == []


def test_wrong_use_is_no_broken_promise(
    seeded: Keeping, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bot.errors import SettingsError

    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    for words in (
        ["verify-log", "--heads", str(binary)], ["verify-log", str(binary)],
        ["audit", "--quick", "--root", str(root), "--html", "/nonexistent/x.html"],
    ):  # fmt: skip
        done = CliRunner().invoke(cli, ["privacy", *words])
        assert isinstance(done.exception, SettingsError), words


def test_a_log_that_was_cut_is_found_by_the_head_beside_it(seeded: Keeping, clock: Clock, root: Path) -> None:
    database(
        "audit.db",
        "DROP TRIGGER events_stay_too; DELETE FROM events WHERE number = (SELECT max(number) FROM events)",
    )(seeded.directory, root)
    (finding,) = looked(clock, root).findings
    assert "is not there" in finding.what


def test_a_fresh_deployment_passes_from_the_command_line_without_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: Path
) -> None:
    monkeypatch.setenv("RAISE_DATA_DIR", str(tmp_path / "new"))
    monkeypatch.setenv("RAISE_MODE", "study")
    for name in ("TITLE", "CONTACT"):
        monkeypatch.setenv(f"RAISE_STUDY_{name}", "x")
    monkeypatch.setenv("RAISE_ETHICS_REFERENCE", "x")
    page = tmp_path / "report.html"
    done = CliRunner().invoke(cli, ["privacy", "audit", "--quick", "--html", str(page), "--root", str(root)])
    assert done.exit_code == 0, done.output
    assert "broken" in done.output and "0 broken" in done.output
    assert not (tmp_path / "new" / "master.key").exists()
    text = page.read_text()
    assert "no promise that can be checked is broken" in text and "Nothing is held" in text
    done = CliRunner().invoke(cli, ["privacy", "audit", "--quick", "--json", "--root", str(root)])
    assert json.loads(done.output)["verdict"][BROKEN] == 0


def test_a_broken_promise_ends_in_exit_code_1(seeded: Keeping, clock: Clock, root: Path) -> None:
    font(seeded.directory, root)
    done = CliRunner().invoke(cli, ["privacy", "audit", "--quick", "--root", str(root)])
    assert done.exit_code == 1 and "what to do" in done.output and "public/raise.css" in done.output


def test_the_report_holds_counts_and_no_content(seeded: Keeping, clock: Clock, root: Path) -> None:
    posture = looked(clock, root)
    told = audit_page(posture, about=ABOUT) + json.dumps(posture.to_json())
    for secret in (
        "numb as a stone",
        "41 in spring",
        "walk the dog",
        "zebra crossing",
        "hush",
        PERSON,
        OTHER,
    ):
        assert secret not in told
    assert not re.search(r"gAAAAA[\w-]{20}", told), "nor a sealed value"
    assert not re.search(r"(?:src|href)=", told), "one self-contained page"


def test_the_report_needs_no_key_even_where_one_is_missing(seeded: Keeping, clock: Clock, root: Path) -> None:
    (seeded.directory / "master.key").unlink(missing_ok=True)
    assert looked(clock, root).is_kept
