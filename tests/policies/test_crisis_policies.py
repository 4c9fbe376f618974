"""Help lines that may be shown, cards in other languages, and words that may be used."""

from __future__ import annotations

import json
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from bot.cli import cli
from bot.words import shipped_texts
from policies import crisis
from policies.crisis import cards
from policies.crisis.checks import OLDEST_DAYS, Finding, check_directory
from policies.wording import lint


def findings(path: Path, *, today: date | None = None, is_study: bool = False) -> list[Finding]:
    directory = crisis.load(path, to_check=True)
    return check_directory(directory, today=today or directory.verified_on, is_study=is_study)


def test_what_ships_has_no_error_on_its_day() -> None:
    assert not [f for f in findings(crisis.PATH) if f.is_error]


def _changed(tmp_path: Path, change: Any) -> Path:
    raw = yaml.safe_load(crisis.PATH.read_text())
    change(raw)
    path = tmp_path / "resources.yaml"
    path.write_text(yaml.safe_dump(raw, allow_unicode=True))
    return path


def _set(raw: dict[str, Any], country: str, line: int, key: str, value: Any) -> None:
    raw["countries"][country]["lines"][line][key] = value


CHANGES: dict[str, tuple[Any, str]] = {
    "a retired number": (lambda r: _set(r, "KR", 0, "phones", ["1393"]), "retired"),
    "988 press 3": (lambda r: _set(r, "US", 0, "name", "988 (press 3 for LGBTQ+ youth)"), "retired"),
    "a missing date": (lambda r: _set(r, "GB", 0, "checked_on", None), "date"),
    "a date to come": (lambda r: _set(r, "GB", 0, "checked_on", "2199-01-01"), "date"),
    "half a pair": (lambda r: r["countries"]["GB"]["lines"].pop(1), "pair"),
    "no emergency number": (lambda r: r["countries"]["FR"].update(emergency=None), "emergency"),
    "no national line": (lambda r: r["countries"]["PT"]["lines"].pop(0), "missing"),
    "no source": (lambda r: _set(r, "GB", 0, "sources", []), "missing"),
}


@pytest.mark.parametrize("case", CHANGES)
def test_each_fault_is_found_and_named(case: str, tmp_path: Path) -> None:
    change, kind = CHANGES[case]
    found = [f for f in findings(_changed(tmp_path, change)) if f.is_error]
    assert [f.kind for f in found].count(kind) >= 1, found
    assert all(len(f.problem) > 8 and f.where for f in found)


@pytest.mark.parametrize(("days", "old"), [(OLDEST_DAYS, False), (OLDEST_DAYS + 1, True)])
@pytest.mark.parametrize("is_study", [False, True])
def test_old_entries_warn_in_demo_and_fail_in_a_study(days: int, old: bool, is_study: bool) -> None:
    today = crisis.shipped().verified_on + timedelta(days=days)
    found = [f for f in findings(crisis.PATH, today=today, is_study=is_study) if f.kind == "old"]
    assert bool(found) is old and all(f.is_error is is_study for f in found)


def test_the_command_exits_1_on_an_error_and_lists_it_as_json(tmp_path: Path) -> None:
    run = CliRunner()
    assert run.invoke(cli, ["policies", "check"]).exit_code == 0
    path = _changed(tmp_path, CHANGES["half a pair"][0])
    result = run.invoke(cli, ["policies", "check", "--json", "--resources", str(path)])
    listed = json.loads(result.output)
    assert result.exit_code == 1 and listed["ok"] is False
    assert any(f["kind"] == "pair" and f["is_error"] for f in listed["findings"])


def test_pairs_are_shown_together(parts: Any) -> None:
    from bot.session import Session

    for country, names in {
        "GB": ("Samaritans", "Shout"),
        "US": ("988", "Crisis Text Line"),
        "BE": ("1813", "Prevention"),
    }.items():
        shown = [line.name for line in parts.responder.lines(Session(country=country))]
        assert all(any(name in line for line in shown) for name in names), shown


def test_every_language_of_the_issue_has_a_card_with_number_and_lines() -> None:
    found = cards.shipped()
    assert set(found) == {"es", "fr", "de", "pt", "it", "nl", "pl", "sv", "tr", "hi", "id", "tl"}
    for card in found.values():
        assert not card.is_reviewed
        assert (
            card.imminent.index("{emergency}")
            < card.imminent.index("{lines}")
            < card.imminent.index("?", card.imminent.index("{lines}"))
        )
        assert 3 <= len(card.imminent.splitlines()) <= 10 and card.safe_question.count("?") >= 1


# ------------------------------------------------------------------------------------------------ words


def test_no_text_we_ship_breaks_a_rule_of_wording() -> None:
    texts = list(shipped_texts())
    assert len(texts) > 2_500
    broken = [(where, found.rule) for where, text in texts for found in lint(text)]
    assert not broken


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("He committed suicide in March.", "committed"),
        ("After a failed attempt she moved.", "success_or_failure"),
        ("They died by suicide because of the exam.", "single_cause"),
        ("For him death was a peaceful way out.", "romance"),
        ("A suicide epidemic at the school", "sensation"),
        ("a suicide victim", "victim"),
        ("It's just a cry for attention.", "belittling"),
        ("You should have known; it is your fault.", "blame"),
        ("like a junkie", "slur"),
        ("Everything will be fine.", "false_promise"),
        ("As your therapist, I think", "false_self"),
        ("people who overdose on something", "method"),
    ],
)
def test_each_rule_of_wording_finds_its_kind(text: str, rule: str) -> None:
    assert rule in [found.rule for found in lint(text)]


@pytest.mark.parametrize(
    "text",
    [
        "She died by suicide last year.",
        "It isn't your fault.",
        "Suicide prevention lines are open.",
        "I'm a computer program, not a person.",
        "A safety plan can help when thoughts of suicide come.",
    ],
)
def test_good_words_pass(text: str) -> None:
    assert not lint(text)
