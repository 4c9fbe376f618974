"""The ethics-board pack comes from the running configuration, and differs where code and policy do."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from bot.agreement import disagreements
from bot.cli import cli
from bot.posturing import ROOT
from policies import hazards, retention
from policies.errors import PolicyFileError
from privacy.store.schema import SEALED, TABLES, TableFacts, columns_of_release


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in {
        "DATA_DIR": str(tmp_path / "data"), "MODE": "study", "STUDY_TITLE": "Pilot of two arms", "STUDY_CONTACT": "Dr Example",
        "ETHICS_REFERENCE": "EC-2026-17", "MODEL_BASE_URL": "https://model.invalid/v1", "MODEL": "large-1", "MODEL_API_KEY": "secret-key",
    }.items():  # fmt: skip
        monkeypatch.setenv(f"RAISE_{name}", value)
    return tmp_path


def ran(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["privacy", "protocol", *words])
    return done.exit_code, done.output


def test_the_pack_says_what_the_program_does(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = study / "pack"
    code, told = ran("--out", str(out))
    assert code == 0, told
    texts = {p.name: p.read_text() for p in out.iterdir()}
    assert set(texts) >= {
        "README.md", "data-map.csv", "retention.md", "next-30-days.md", "crisis-protocol.html", "hazards.md", "breach.md",
        "subprocessors.md", "measured.md", "settings.json", "audit.html", "audit.json", "consent-1.md", "manifest.json",
    }  # fmt: skip
    assert "secret-key" not in "".join(texts.values())
    assert "Pilot of two arms" in texts["README.md"] and "EC-2026-17" in texts["README.md"]
    assert "model.invalid" in texts["subprocessors.md"] and "large-1" in texts["subprocessors.md"]
    assert not re.search(r"\{\w+\}", texts["breach.md"]) and "Dr Example" in texts["breach.md"]
    rows = list(csv.DictReader(texts["data-map.csv"].splitlines()))
    mapped = {(r["table"], r["column"]): r for r in rows if r["file"] == "study.db"}
    for table, columns in columns_of_release().items():
        for column in columns:
            assert mapped[table, column]["purpose"] == TABLES[table].purpose
            assert (mapped[table, column]["sealed"] == "True") is (column in SEALED.get(table, ()))
    for category in retention.CATEGORIES:
        assert category.replace("_", " ") in texts["retention.md"]
    for hazard in hazards.shipped().hazards:
        assert f"## {hazard.id} " in texts["hazards.md"]
    assert json.loads(texts["manifest.json"])["retention.md"]
    assert "No clinician" in texts["README.md"] and "Nobody has dialled" in texts["measured.md"]
    assert ran("--check", str(out)) == (0, "the program does what the pack says\n")
    monkeypatch.setenv("RAISE_MODEL", "larger-2")
    code, told = ran("--check", str(out))
    assert code == 1 and "subprocessors.md: says something else" in told and "consent-1.md" in told
    assert "retention.md" not in told
    (out / "hazards.md").unlink()
    assert "hazards.md: not there" in ran("--check", str(out))[1]


def test_a_table_without_a_rule_stops_the_pack_and_the_policy_check(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    less = {k: v for k, v in TABLES.items() if k != "feedback"}
    monkeypatch.setattr("bot.agreement.TABLES", less)
    code, told = ran("--out", str(study / "pack"))
    assert code == 1 and "table feedback: no purpose and no retention rule" in told
    assert not (study / "pack").exists()
    done = CliRunner().invoke(cli, ["policies", "check"])
    assert done.exit_code == 1 and "table feedback: no purpose" in done.output


def test_code_and_policy_agree_and_each_way_of_differing_is_named(tmp_path: Path) -> None:
    rules, log = retention.shipped(), hazards.shipped()
    assert list(disagreements(rules, log, ROOT)) == []
    changed = {
        **TABLES, "ghosts": TableFacts(categories=("session",), purpose="none", basis="none"),
        "own": TableFacts(categories=("session",), purpose="none", basis="none"),
        "referrals": TableFacts(categories=("weather",), purpose="none", basis="none"),
    }  # fmt: skip
    told = " / ".join(": ".join(one) for one in disagreements(rules, log, ROOT, tables=changed))
    assert "table ghosts: it has a rule and no migration makes it" in told
    assert "table own: it belongs to persons and has no column" in told
    assert "table referrals: its category weather has no rule" in told
    unused = {k: v for k, v in TABLES.items() if k != "holds"}
    assert ("rule legal_hold", "no table and no folder falls under it") in set(
        disagreements(rules, log, ROOT, tables=unused)
    )
    first = log.hazards[0].model_copy(update={"code": ("bot/nowhere.py",)})
    told = dict(disagreements(rules, log.model_copy(update={"hazards": (first,)}), ROOT))
    assert told == {f"hazard {first.id}": "bot/nowhere.py is not there"}


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("severity: 5", "severity: 9", "severity"),
        ("id: H02", "id: H01", "H01: there twice"),
        ("    cause:", "    because:", "cause: Field required"),
    ],
)
def test_a_hazard_log_that_cannot_hold_is_refused(before: str, after: str, says: str, tmp_path: Path) -> None:
    text = hazards.PATH.read_text()
    assert before in text
    (tmp_path / "hazards.yaml").write_text(text.replace(before, after, 1))
    with pytest.raises(PolicyFileError, match=says):
        hazards.load(tmp_path / "hazards.yaml")


def test_one_of_out_and_check(study: Path) -> None:
    assert ran()[0] == 2
