"""`raise-chat doctor`: well on a fresh demo; what is broken is said with what to do."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from bot import doctoring
from bot.settings import Mode, Settings
from privacy.audit import EventKind
from privacy.store import Store
from privacy.vault import new_master_key
from tests.conftest import KEY, keeping_in

ROOT = Path(__file__).resolve().parents[2]


def doctor(folder: Path, **settings: str) -> tuple[int, dict[str, dict[str, str]]]:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("RAISE_", "CHAINLIT_"))}
    done = subprocess.run(
        [sys.executable, "-c", "from bot.cli import main; main()", "doctor", "--json"], cwd=ROOT,
        env={**env, "RAISE_DATA_DIR": str(folder / "data"), "RAISE_PORT": "18799", **settings},
        capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    found = json.loads(done.stdout) if done.stdout.startswith("{") else {"findings": []}
    return done.returncode, {f["what"]: f for f in found["findings"]}


def test_a_fresh_demo_is_well(tmp_path: Path) -> None:
    code, found = doctor(tmp_path)
    broken = {what: f for what, f in found.items() if f["state"] == "broken"}
    assert code == 0 and not broken, broken
    assert found["redaction"]["state"] == found["danger"]["state"] == "well"


def test_a_study_without_anybody_on_call_or_a_key_is_broken(tmp_path: Path) -> None:
    code, found = doctor(tmp_path, RAISE_MODE="study")
    assert code == 1
    assert found["keys and store"]["state"] == "broken" and "master key" in found["keys and store"]["found"]
    assert found["on call"]["state"] == found["study"]["state"] == "broken" and found["on call"]["do"]


def test_a_wrong_setting_ends_with_two(tmp_path: Path) -> None:
    assert doctor(tmp_path, RAISE_PORT="many")[0] == 2


def states(check: object) -> dict[str, str]:
    return {f.what: f.state for f in check}  # type: ignore[attr-defined]


def test_a_study_whose_backups_are_missing_or_old_is_to_be_looked_at(tmp_path: Path) -> None:
    keeping = keeping_in(tmp_path / "data")
    study = Settings(data_dir=tmp_path / "data", mode=Mode.STUDY)

    def found() -> doctoring.Finding:
        return next(doctoring._backups(study, keeping))

    def backed_up(kind: str, days: float) -> None:
        at = keeping.now() - timedelta(days=days)
        keeping.call(lambda _: keeping.audit.append(EventKind.EXPORT, at=at, counts={"backup": kind}))

    assert found().state == "look" and "data: none; keys: none" in found().found
    backed_up("data", 3)
    backed_up("keys", 1)
    assert found().state == "look" and "backup data" in found().do
    backed_up("data", 1)
    assert found().state == "well"
    keeping.call(lambda _: keeping.audit.append(EventKind.EXPORT, at=keeping.now(), counts={"rows": 4}))
    assert found().state == "well" and "none" not in found().found
    assert states(doctoring._backups(Settings(data_dir=tmp_path / "data"), keeping)) == {"backups": "well"}
    keeping.close()


def test_files_that_others_can_read_are_found(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data")
    keeping_in(tmp_path / "data").close()
    assert states(doctoring._directory(settings))["data directory"] == "well"
    (tmp_path / "data" / "study.db").chmod(0o644)
    assert states(doctoring._directory(settings))["data directory"] == "broken"


def test_tables_of_an_earlier_release_are_found(tmp_path: Path) -> None:
    keeping_in(tmp_path).close()
    store = Store(tmp_path)
    store.roll_back(3)
    store.close()
    found = list(doctoring._directory(Settings(data_dir=tmp_path)))
    assert [f.do for f in found if f.what == "tables"] == ["raise-chat store migrate"]


def test_a_key_that_opens_nothing_is_found(tmp_path: Path) -> None:
    keeping = keeping_in(tmp_path)
    keeping.call(lambda _: keeping.vault.key("person-one", at="2026-11-30T00:00:00+00:00"))
    assert states(doctoring._keys(keeping))["keys and store"] == "well"
    row = keeping.call(lambda _: keeping.vault._row("person-one"))
    keeping.call(lambda _: keeping.vault._update("person-one", {"wrapped": row["wrapped"][:-8] + "AAAAAAA="}))
    assert states(doctoring._keys(keeping))["keys and store"] == "broken"
    keeping.close()


@pytest.mark.parametrize(
    ("told", "state"), [({"host": "0.0.0.0"}, "broken"), ({"mode": "study"}, "look"), ({}, "well")]
)
def test_where_it_listens(told: dict[str, str], state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAISE_MASTER_KEYS", new_master_key() + "," + KEY)
    assert states(doctoring._settings(Settings(**told)))["settings"] == state


def test_another_program_on_the_port_is_found() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        assert states(doctoring._server(Settings(port=port)))["server"] == "well", "nothing listens there"
