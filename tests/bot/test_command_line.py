"""The commands: exit codes, errors that name the line, settings with secrets masked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str, stdin: str = "", cwd: Path = ROOT, **env: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("RAISE_")}
    return subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); from bot.cli import main; main()", *arguments],
        input=stdin, capture_output=True, text=True, cwd=cwd, env={**clean, **env}, timeout=120,
    )  # fmt: skip


def test_json_lines_in_and_out() -> None:
    done = run("chat", "--json", stdin='{"say": "hello"}\n\n{"say": "thanks"}\n')
    assert done.returncode == 0
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[0]["move"] == "say" and lines[0]["turn"] == 1 and "computer program" in lines[0]["text"]
    assert [line.get("last") for line in lines].count(True) == 2


def test_nothing_is_written_before_the_first_event() -> None:
    assert run("chat", "--json", stdin="").stdout == ""


@pytest.mark.parametrize("line", ["not json", "[1]", '{"shout": "x"}', '{"say": 3}'])
def test_a_bad_line_is_named_and_not_repeated(line: str) -> None:
    done = run("chat", "--json", stdin='{"say": "hello"}\n' + line + "\n")
    assert done.returncode == 2
    assert "line 2" in done.stderr and "shout" not in done.stderr.replace('"say"', "")


def test_settings_are_printed_with_secrets_masked() -> None:
    done = run("settings", RAISE_AUTH_SECRET="hunter2hunter2", RAISE_PORT="9001")
    assert done.returncode == 0 and "RAISE_PORT=9001" in done.stdout
    assert "hunter2" not in done.stdout and "********" in done.stdout


@pytest.mark.parametrize(
    ("name", "value"), [("RAISE_PORT", "many"), ("RAISE_MODE", "party"), ("RAISE_PROT", "1")]
)
def test_a_wrong_setting_is_named(name: str, value: str) -> None:
    done = run("settings", **{name: value})
    assert done.returncode == 2 and name in done.stderr


def test_a_setting_in_the_env_file_counts_and_a_misspelt_one_is_named(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("RAISE_PORT=9002\n")
    assert "RAISE_PORT=9002" in run("settings", cwd=tmp_path).stdout
    (tmp_path / ".env").write_text("RAISE_PROT=9002\n")
    assert "RAISE_PROT" in run("settings", cwd=tmp_path).stderr


def test_study_mode_refuses_to_start_without_a_master_key(tmp_path: Path) -> None:
    done = run("serve", RAISE_MODE="study", RAISE_DATA_DIR=str(tmp_path))
    assert done.returncode == 2 and "RAISE_MASTER_KEY" in done.stderr and "new-key" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("--arm", "context-rich"),
        ("--profile", "x.json"),
        ("--country", "XX"),
        ("--arm", "nobody"),
        ("--arm", "context-rich", "--profile", "/no/such.json"),
    ],
)
def test_wrong_use_is_exit_two(arguments: tuple[str, ...]) -> None:
    assert run("chat", "--json", *arguments).returncode == 2


def test_a_profile_that_names_no_attribute_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text('{"shoe_size": "44"}')
    done = run("chat", "--json", "--arm", "context-rich", "--profile", str(tmp_path / "p.json"))
    assert done.returncode == 2 and "shoe_size" in done.stderr


def test_a_name_is_no_code_to_keep_under(tmp_path: Path) -> None:
    done = run("chat", "--json", "--person", "Zebulonia Quartermaine", RAISE_DATA_DIR=str(tmp_path))
    assert done.returncode == 2 and "names nobody" in done.stderr
    assert "Zebulonia" not in done.stderr and not any(tmp_path.iterdir())
