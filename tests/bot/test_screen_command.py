"""`raise-chat screen`: verdicts on files of messages, and why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bot.cli import cli
from bot.errors import SettingsError


def run(*words: str, given: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["screen", *words], input=given)


LINES = [
    {"id": "a", "text": "I am going to kill myself tonight", "kind": "ignored"},
    {"id": "b", "text": "this homework is killing me lol"},
    {
        "id": 3,
        "text": "Ok I've made up my mind. It's tonight.",
        "history": ["I keep thinking it would be simpler not to be alive."],
    },
    {"id": "d", "text": ""},
]


def test_one_verdict_a_line_from_a_file_and_from_standard_input(tmp_path: Path) -> None:
    lines = "\n".join(json.dumps(line) for line in LINES) + "\n\n"
    path = tmp_path / "cases.jsonl"
    path.write_text(lines)
    from_file, from_input = run(str(path)), run("-", given=lines)
    assert from_file.exit_code == 0 and from_file.output == from_input.output
    found = [json.loads(line) for line in from_file.output.splitlines()]
    assert [f["id"] for f in found] == ["a", "b", 3, "d"]
    assert [f["label"] for f in found] == ["imminent", "none", "imminent", "none"]
    assert found[0]["categories"] == ["suicide"] and found[0]["subject"] == "self" and found[0]["rules"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("not json with secret words", "line 2: not JSON"),
        ('{"id": 1}', 'line 2: needs "text"'),
        ('{"id": 1, "text": 7}', 'line 2: needs "text"'),
        ('{"id": 1, "text": "x", "history": "secret words"}', 'line 2: "history"'),
    ],
)
def test_a_bad_line_is_named_and_never_repeated(line: str, problem: str) -> None:
    result = run("-", given='{"id": 0, "text": "hello"}\n' + line + "\n")
    assert isinstance(result.exception, SettingsError) and problem in str(result.exception)
    assert "secret" not in str(result.exception) and '"id": 0' in result.output


def test_a_missing_file_and_wrong_use_are_errors(tmp_path: Path) -> None:
    assert isinstance(run(str(tmp_path / "nowhere.jsonl")).exception, SettingsError)
    assert run().exit_code == 2 and run("x", "--explain", "y").exit_code == 2


def test_explain_says_why() -> None:
    told = run("--explain", "My husband shoved me against the wall again").output
    assert (
        "level       elevated" in told and "domestic_violence" in told and "shove: third person, past" in told
    )
    calm = run("--explain", "how do I cite a website?").output
    assert "level       none" in calm and "nothing found" in calm
