"""The runner and its log: it goes on after a kill, refuses what would mix two runs, and an unscored line is no number."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from policies.attributes import SPECS, Attribute, Sensitivity
from policies.errors import PenguinError, Unscored
from policies.penguin import runlog
from policies.penguin.judging import HeuristicJudge, Score, means
from policies.penguin.page import page
from policies.penguin.picture import COLOURS
from policies.penguin.reporting import result, rows, to_json
from policies.penguin.running import ARMS, NoCalls, Progress, RunSettings, condition, every, order_of, run
from policies.penguin.scenarios import Sample, shipped_samples
from policies.penguin.talking import Heard, Manner, SimulatedPerson, Transcript, talked
from policies.planning.reward import Judged

AT = datetime(2026, 11, 30, tzinfo=UTC)
SOME = shipped_samples().samples[::5]


class AskingChat:
    """A small chat of the tests: asks for what it is told to, then answers with what it heard."""

    name = "asks"

    def __init__(self, asks: Sequence[Attribute] = (), *, mute: bool = False) -> None:
        self.asks, self.mute, self.begun = list(asks), mute, []

    def about(self) -> Mapping[str, Any]:
        return {"model": "asks"}

    async def begin(
        self, sample: Sample, arm: str, given: Mapping[Attribute, str], *, key: str, seed: int
    ) -> AskingTalk:
        self.begun.append(key)
        return AskingTalk(
            self,
            dict(given) if arm == "context-rich" else {},
            [] if arm in ("vanilla", "context-rich") else list(self.asks),
        )


class AskingTalk:
    def __init__(self, chat: AskingChat, known: dict[Attribute, str], asks: list[Attribute]) -> None:
        self.chat, self.known, self.asks, self.open, self.left = chat, known, asks, None, False

    async def say(self, text: str) -> Sequence[Heard]:
        if self.open is not None:
            self.known[self.open] = text
        self.open = self.asks.pop(0) if self.asks else None
        if self.open is not None:
            return [Heard(move="ask", text="?", attribute=self.open)]
        if self.chat.mute:
            return [Heard(move="say", text="Hm.")]
        return [
            Heard(move="answer", text="With " + ", ".join(sorted(self.known.values())), more={"used": []})
        ]

    async def leave(self) -> None:
        self.left = True


class FussyJudge:
    """Grades by how much is known, and fails where it is told to."""

    name, is_evidence = "fussy", True

    def __init__(self, fails: Sequence[str] = ()) -> None:
        self.fails = set(fails)

    def about(self) -> Mapping[str, Any]:
        return {"kind": "model", "model": "fussy"}

    async def grade(self, sample: Sample, answer: str, *, key: str) -> Judged:
        if sample.id in self.fails:
            raise Unscored("rate_limited")
        grade = min(5, 2 + answer.count(","))
        return Judged(risk_sensitivity=grade, emotional_empathy=grade, user_specific_alignment=grade)


async def ran(
    folder: Path,
    arms: Sequence[str],
    *,
    judge: Any = None,
    chat: Any = None,
    samples: Sequence[Sample] = SOME,
    **about: Any,
) -> Progress:
    chat, judge = chat or AskingChat([Attribute.AGE, Attribute.HEALTH]), judge or FussyJudge()
    tasks = every(samples, [condition(a) for a in arms])
    with runlog.Hold(folder) as hold:
        log = runlog.RunLog(
            hold,
            {"samples": {"from": "x", "sha256": "0", "n": len(samples), "left_out": 0}, "arms": list(arms), "seed": 0, "times": 1, "manner": "plain",
             "talks": chat.about(), "judge": judge.about(), **about},
            {"revision": "r"},
            at=AT,
        )  # fmt: skip
        progress = await run(
            tasks, talks=chat, judge=judge, calls=NoCalls(), log=log, settings=RunSettings(at_once=3)
        )
        log.close("done", {"usage": {}}, order_of(tasks), at=AT)
    return progress


async def test_the_same_samples_are_run_in_every_arm_and_the_log_is_in_order(tmp_path: Path) -> None:
    await ran(tmp_path / "run", ["raise", "vanilla", "context-rich"])
    keys = [runlog.key_of(r) for r in runlog.records(tmp_path / "run")]
    assert keys == [f"{s.id}/{a}" for s in SOME for a in ("raise", "vanilla", "context-rich")]
    found = result(tmp_path / "run")
    assert (
        found.mean("vanilla").mean == 2
        and found.mean("raise").mean >= 3
        and found.mean("context-rich").mean == 5
    )
    assert found.difference("raise", "vanilla").is_decisive


async def test_a_failed_judgement_changes_n_and_never_the_mean(tmp_path: Path) -> None:
    arms = ["raise", "vanilla"]
    await ran(tmp_path / "whole", arms)
    failing = [s.id for s in SOME[::3]]
    await ran(tmp_path / "failing", arms, judge=FussyJudge(failing))
    whole, some = result(tmp_path / "whole"), result(tmp_path / "failing")
    for arm in arms:
        left = {s: v for s, v in whole.arms[arm].means["safety"].items() if s not in failing}
        assert some.arms[arm].means["safety"] == left
        assert some.arms[arm].unscored == {"rate_limited": len(failing)}
        assert some.arms[arm].judgements["rate_limited"] == len(failing)
    assert to_json(some)["arms"]["raise"]["scored"] == len(SOME) - len(failing)


async def test_a_torn_log_goes_on_to_the_same_samples(tmp_path: Path) -> None:
    await ran(tmp_path / "whole", ["raise", "vanilla"])
    whole = (tmp_path / "whole" / runlog.SAMPLES).read_bytes()
    cut = tmp_path / "cut"
    await ran(cut, ["raise", "vanilla"])
    lines = (cut / runlog.SAMPLES).read_bytes().splitlines(keepends=True)
    (cut / runlog.SAMPLES).unlink()
    (cut / runlog.PART).write_bytes(b"".join([lines[3], lines[0], lines[7]]) + lines[5][:40])
    header = json.loads((cut / runlog.HEADER).read_text()) | {"status": "running"}
    (cut / runlog.HEADER).write_text(json.dumps(header))
    chat = AskingChat([Attribute.AGE, Attribute.HEALTH])
    await ran(cut, ["raise", "vanilla"], chat=chat)
    assert (cut / runlog.SAMPLES).read_bytes() == whole and not (cut / runlog.PART).exists()
    assert len(chat.begun) == len(lines) - 3
    assert len(json.loads((cut / runlog.HEADER).read_text())["sessions"]) == 2


async def test_a_run_with_other_settings_is_refused_and_what_differs_is_named(tmp_path: Path) -> None:
    await ran(tmp_path / "run", ["vanilla"])
    with pytest.raises(PenguinError, match=r"was begun with another .*library"):
        await ran(tmp_path / "run", ["vanilla"], library="another")


async def test_two_writers_and_a_stranger_s_folder_are_refused(tmp_path: Path) -> None:
    with runlog.Hold(tmp_path / "run"), pytest.raises(PenguinError, match="another run writes it"):
        runlog.Hold(tmp_path / "run")
    runlog.Hold(tmp_path / "run").close()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letters.txt").write_text("x")
    with pytest.raises(PenguinError, match="holds no run"):
        runlog.Hold(tmp_path / "mine")
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["letters.txt"]


async def test_a_torn_timing_costs_that_timing_alone(tmp_path: Path) -> None:
    await ran(tmp_path / "run", ["vanilla"])
    with (tmp_path / "run" / runlog.TIMINGS).open("a") as file:
        file.write('{"key": "x", "sec')
    assert len(result(tmp_path / "run").arms["vanilla"].seconds) == len(SOME)


async def test_what_is_not_the_chat_s_own_end_says_nothing_of_abstaining(tmp_path: Path) -> None:
    labelled = [s for s in shipped_samples().samples if s.handling is not None][:6]
    await ran(tmp_path / "run", ["vanilla"], chat=AskingChat(mute=True), samples=labelled)
    arm = result(tmp_path / "run").arms["vanilla"]
    assert arm.unanswered == 6 and arm.abstentions() is None


async def test_runs_of_the_same_samples_are_compared_sample_by_sample(tmp_path: Path) -> None:
    await ran(tmp_path / "a", ["raise", "vanilla"])
    await ran(tmp_path / "b", ["raise", "vanilla"])
    both = page([result(tmp_path / "a"), result(tmp_path / "b")])
    assert f"raise: {tmp_path / 'a'} − {tmp_path / 'b'}" in both and "not decisive" in both


async def test_one_group_gives_json_without_nan(tmp_path: Path) -> None:
    await ran(tmp_path / "run", ["raise", "vanilla"], samples=SOME[:1])
    json.dumps(to_json(result(tmp_path / "run")), allow_nan=False)


async def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    await ran(tmp_path / "run", ["vanilla"])
    path = tmp_path / "run" / runlog.SAMPLES
    text = path.read_text().splitlines(keepends=True)
    path.write_text("".join([text[0], "{oops\n", *text[2:]]))
    with pytest.raises(PenguinError, match="line 2: damaged"):
        result(tmp_path / "run")


async def test_a_chat_that_never_answers_is_unscored(tmp_path: Path) -> None:
    progress = await ran(tmp_path / "run", ["vanilla"], chat=AskingChat(mute=True), samples=SOME[:2])
    assert progress.unscored == {"no_end": 2} and result(tmp_path / "run").mean("vanilla").n == 0


@pytest.mark.parametrize("manner", list(Manner))
async def test_people_answer_in_their_manner_and_tell_what_the_profile_says(manner: Manner) -> None:
    sample, asks = SOME[0], [Attribute.AGE, Attribute.MENTAL_STATE]
    talk = await AskingChat(asks).begin(sample, "raise", {}, key="k", seed=0)
    person = SimulatedPerson(sample, manner, 1)
    out = Transcript()
    await talked(talk, sample, person, out)
    assert out.end == "answer" and talk.left and out.asked == asks
    told = talk.known[Attribute.MENTAL_STATE]
    if manner is Manner.DECLINING:
        assert told == "I'd rather not say" and out.declined == [Attribute.MENTAL_STATE]
        assert (
            SPECS[Attribute.AGE].sensitivity is not Sensitivity.HIGH
            and talk.known[Attribute.AGE] == sample.profile[Attribute.AGE]
        )
    elif manner is Manner.RELUCTANT:
        assert told == "why do you ask?"
    elif manner is Manner.TERSE:
        assert sample.profile[Attribute.MENTAL_STATE].startswith(told)
    else:
        assert sample.profile[Attribute.MENTAL_STATE] in told


def test_what_a_profile_lacks_nobody_makes_up() -> None:
    from dataclasses import replace

    bare = replace(SOME[0], profile={})
    assert SimulatedPerson(bare, Manner.PLAIN, 0).answer(Attribute.AGE) == "I don't know"


def test_an_arm_is_told_what_it_is_given_and_nothing_else() -> None:
    assert condition("context-rich").of(SOME[0]) == SOME[0].profile
    assert condition("raise").of(SOME[0]) == {} and condition("set:").of(SOME[0]) == {}
    assert set(condition("set:health+age").of(SOME[0])) == {Attribute.AGE, Attribute.HEALTH}
    assert condition("set:health+age").name == "set:age+health"
    for bad in ("fancy", "set:shoes"):
        with pytest.raises(PenguinError, match=bad):
            condition(bad)


def test_the_mean_of_nothing_is_nothing() -> None:
    assert means([Score(unscored="malformed")]) is None and means([]) is None


async def test_the_page_says_not_decisive_and_that_a_heuristic_is_no_evidence(tmp_path: Path) -> None:
    await ran(tmp_path / "a", ["raise", "vanilla", "no-abstention"], judge=HeuristicJudge())
    await ran(tmp_path / "b", ["raise", "no-abstention"])
    html = page([result(tmp_path / "a"), result(tmp_path / "b")])
    assert "Not evidence" in html and html.count("Not evidence") == 1
    assert "not decisive" in html and "raise − no-abstention" in html
    assert "<script" not in html and "http" not in html.replace("http://www.w3.org", "")
    assert html.count("<details") == 20 and "context-free" in html


async def test_what_a_person_wrote_is_text_on_the_page(tmp_path: Path) -> None:
    from dataclasses import replace

    nasty = replace(
        SOME[0], query="<script>alert(1)</script>", group="<b>g", profile={Attribute.AGE: "<img src=x>"}
    )
    await ran(tmp_path / "run", ["vanilla"], samples=[nasty, SOME[1]])
    html = page([result(tmp_path / "run")])
    assert "<script" not in html and "<img" not in html and "&lt;script&gt;" in html


async def test_the_rows_of_the_csv_are_every_arm_and_domain(tmp_path: Path) -> None:
    await ran(tmp_path / "run", ["raise", "vanilla"])
    made = rows(result(tmp_path / "run"))
    assert {r["arm"] for r in made} == {"raise", "vanilla"} and {"all", "health"} <= {
        r["domain"] for r in made
    }


def test_every_arm_has_a_colour_of_its_own() -> None:
    assert len(COLOURS) >= len(ARMS) and len(set(COLOURS)) == len(COLOURS)
