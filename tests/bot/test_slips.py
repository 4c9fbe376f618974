"""Slips of paper: private, in the order dealt, the PIN on paper alone."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner

from bot.cli import cli
from bot.errors import SettingsError
from bot.slips import qr, slips, write_private
from tests.conftest import KEY


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.setenv("RAISE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("RAISE_MASTER_KEYS", KEY)
    return CliRunner()


def test_the_qr_code_holds_the_address_and_the_code_and_not_the_pin() -> None:
    page = slips(
        [("abcd-2345", "1234 5678")], origin="https://chat.example", title="<A study>", contact="desk"
    )
    assert qr("https://chat.example/sign-in?code=abcd-2345") in page
    assert "&lt;A study&gt;" in page and page.count("1234 5678") == 1
    assert qr("https://chat.example/sign-in?code=abcd-2345") != qr(
        "https://chat.example/sign-in?code=abcd-2346"
    )


def test_slips_are_private_and_hold_everybody_once(run: CliRunner, tmp_path: Path) -> None:
    path = tmp_path / "slips.html"
    done = run.invoke(cli, ["participants", "create", "--count", "3", "--slips", str(path), "--json"])
    people = json.loads(done.stdout)["participants"]
    page = path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [page.index(row["pin"]) for row in people] == sorted(page.index(row["pin"]) for row in people)
    assert all(page.count(row["pin"]) == 1 for row in people)


def test_a_file_that_is_there_is_not_touched_and_nobody_is_made(run: CliRunner, tmp_path: Path) -> None:
    path = tmp_path / "slips.html"
    path.write_text("earlier PINs")
    done = run.invoke(cli, ["participants", "create", "--count", "3", "--slips", str(path)])
    assert done.exit_code != 0 and path.read_text() == "earlier PINs"
    assert json.loads(run.invoke(cli, ["participants", "list", "--json"]).stdout) == []


@pytest.mark.parametrize(
    ("origin", "is_told"), [("http://127.0.0.1:8800", True), ("https://chat.example.org", False)]
)
def test_slips_that_lead_to_this_machine_alone_are_said_to(
    origin: str, is_told: bool, run: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAISE_PUBLIC_ORIGIN", origin)
    done = run.invoke(
        cli, ["participants", "create", "--count", "1", "--slips", str(tmp_path / "slips.html")]
    )
    assert done.exit_code == 0 and ("RAISE_PUBLIC_ORIGIN" in done.stderr) is is_told


def test_who_leaves_can_be_given_a_receipt_that_the_audit_log_bears_out(
    run: CliRunner, tmp_path: Path
) -> None:
    made = run.invoke(cli, ["participants", "create", "--count", "2", "--json"])
    first, second = (row["code"] for row in json.loads(made.stdout)["participants"])
    path = tmp_path / "receipt.json"
    done = run.invoke(cli, ["participants", "withdraw", first, "--yes", "--receipt", str(path)])
    assert done.exit_code == 0 and stat.S_IMODE(path.stat().st_mode) == 0o600
    assert first not in path.read_text()
    assert run.invoke(cli, ["privacy", "verify-receipt", str(path)]).exit_code == 0
    for words in (
        ["participants", "withdraw", second],
        ["privacy", "erase", second, "--why", "person-asked"],
    ):
        done = run.invoke(cli, [*words, "--yes", "--receipt", str(path)])
        assert isinstance(done.exception, SettingsError), "before anything is erased"
    rows = json.loads(run.invoke(cli, ["participants", "list", "--json"]).stdout)
    assert second in {row["code"] for row in rows if row["status"] != "withdrawn"}


def test_a_receipt_that_cannot_be_written_after_all_is_shown(
    run: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, text: str) -> None:
        if text:
            raise SettingsError(f"{path}: cannot be written (no space left)")
        write_private(path, text)

    made = run.invoke(cli, ["participants", "create", "--count", "1", "--json"])
    code = json.loads(made.stdout)["participants"][0]["code"]
    monkeypatch.setattr("bot.cli.deployment.write_private", full)
    done = run.invoke(cli, ["participants", "withdraw", code, "--yes", "--receipt", str(tmp_path / "r.json")])
    assert done.exit_code == 1 and json.loads(done.stdout)["what"] == "everything"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--arms", "raise:2,vanilla:1", "--block", "4"], "not a multiple of 3"), (["--arms", "nobody:1"], "no arm nobody"),
        (["--arms", "raise:x"], "write an arm and its share"), (["--block", "six"], "--block"),
    ],
)  # fmt: skip
def test_wrong_use_is_told_and_makes_nobody(words: list[str], told: str, run: CliRunner) -> None:
    done = run.invoke(cli, ["participants", "create", "--count", "3", *words])
    assert done.exit_code != 0 and told in (done.output + str(done.exception))
    assert json.loads(run.invoke(cli, ["participants", "list", "--json"]).stdout) == []
