"""Arms of a study: what each may change, and what none may."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bot.assembly import arm_parts, arm_spec
from bot.cli import cli
from bot.conversation import Conversation
from bot.errors import SettingsError
from bot.parts import Parts
from bot.session import Arm
from bot.settings import Settings
from bot.studying import prompt_digests
from policies import study as studies
from policies.study import Study
from privacy.consent import Scope
from tests.conftest import KEY, keeping_in

ROOT = Path(__file__).resolve().parents[2]
WORRY = "my wife left and I've stopped going to work, what do I do?"
HEAD = "version: '1'\ntitle: A study\narms:\n"


@pytest.fixture
def made(parts: Parts, tmp_path: Path) -> Callable[..., tuple[Parts, Study]]:
    def make(arm: str, **settings: Any) -> tuple[Parts, Study]:
        path = tmp_path / "study.yaml"
        path.write_text(HEAD + f"  mine: {arm}\n")
        found = studies.load(path)
        return arm_parts(parts, Settings(data_dir=tmp_path, **settings), found, "mine"), found

    return make


async def asked(parts: Parts, kind: Arm = Arm.RAISE) -> list[str]:
    conversation = Conversation.start(parts, arm=kind, country="GB", seed=1)
    moves = []
    for text in (WORRY, "no, never", "ashamed", "low most days", "I'm 34", "an office job"):
        moves += [words.move async for words in conversation.receive(text)]
        if moves[-1] != "ask":
            break
    return [m for m in moves if m == "ask"]


@pytest.mark.parametrize(
    "arm",
    ["{kind: raise, budget: 1}", "{kind: vanilla}", "{kind: fixed-order}", "{kind: raise, model: built-in}"],
)
def test_no_arm_changes_the_screen_the_guard_or_what_is_kept(
    arm: str, made: Callable[..., tuple[Parts, Study]], parts: Parts
) -> None:
    found, _ = made(arm)
    for name in ("stages", "guard", "keeping", "detector", "outside", "desk", "opinion", "responder"):
        assert getattr(found, name) is getattr(parts, name), name


@pytest.mark.parametrize(("budget", "most"), [(0, 0), (1, 1), (2, 2)])
async def test_a_budget_is_kept_to(
    budget: int, most: int, made: Callable[..., tuple[Parts, Study]], parts: Parts
) -> None:
    assert len(await asked(parts)) > 2, "without one there are more"
    found, _ = made(f"{{kind: raise, budget: {budget}}}")
    assert len(await asked(found)) == most


async def test_a_vanilla_arm_never_asks(parts: Parts) -> None:
    assert not await asked(parts, Arm.VANILLA)


def test_a_file_of_thresholds_beside_the_study_counts(
    made: Callable[..., tuple[Parts, Study]], tmp_path: Path, parts: Parts
) -> None:
    text = (
        (ROOT / "policies" / "abstention.yaml")
        .read_text(encoding="utf-8")
        .replace("value: 4", "value: 3")
        .replace("high: 4\n", "high: 3\n", 1)
    )
    (tmp_path / "own.yaml").write_text(text)
    found, _ = made("{kind: raise, thresholds: own.yaml}")
    assert (found.rules.thresholds.most_questions, parts.rules.thresholds.most_questions) == (3, 4)


@pytest.mark.parametrize(
    ("arm", "told"),
    [
        ("{kind: agent}", "set RAISE_MODEL_BASE_URL"), ("{kind: raise, model: some-model}", "set RAISE_MODEL_BASE_URL"),
        ("{kind: raise, prompts: {answer: '" + "0" * 64 + "'}}", "the prompt answer is another than the protocol's"),
    ],
)  # fmt: skip
def test_an_arm_that_cannot_be_run_is_refused_with_its_line(
    arm: str, told: str, made: Callable[..., tuple[Parts, Study]]
) -> None:
    with pytest.raises(SettingsError, match=told) as refused:
        made(arm)
    assert "study.yaml, line 4" in str(refused.value)


def test_prompts_by_their_hash_are_let_through_and_an_unknown_arm_is_not(
    made: Callable[..., tuple[Parts, Study]],
) -> None:
    _, found = made(f"{{kind: raise, prompts: {{answer: '{prompt_digests()['answer']}'}}}}")
    assert arm_spec(found, "vanilla").kind == "vanilla", "what ships is there beside the study's own"
    with pytest.raises(SettingsError, match="no arm zebra"):
        arm_spec(found, "zebra")


async def test_decisions_of_an_arm_with_its_own_budget_are_derived_again(
    parts: Parts, redactor: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(HEAD + "  short: {kind: raise, budget: 1}\n")
    keeping: Any = keeping_in(tmp_path / "data")
    person, _ = await keeping.run(lambda: keeping.accounts.enrol("short", protocol="1"))
    for scope in (Scope.CHAT, Scope.KEEP):
        await keeping.answer(person, scope, granted=True)
    own = replace(parts, keeping=keeping, detector=redactor, clock=keeping.now)
    own = arm_parts(own, Settings(data_dir=tmp_path / "data"), studies.load(path), "short")
    conversation = Conversation.start(own, person=person, country="GB")
    for text in (WORRY, "no, never"):
        _ = [words async for words in conversation.receive(text)]
    keeping.close()
    for name, value in (("DATA_DIR", tmp_path / "data"), ("MASTER_KEYS", KEY), ("STUDY_FILE", path)):
        monkeypatch.setenv(f"RAISE_{name}", str(value))
    import asyncio

    done = await asyncio.to_thread(CliRunner().invoke, cli, ["replay", conversation.id, "--json"])
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.exit_code == 0 and [r["outcome"] for r in rows] == ["ask", "answer"], done.output
    assert all(row["replayed"] for row in rows)
