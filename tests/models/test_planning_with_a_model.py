"""Planning with a real client and a real server: what is scored, what is not, what is paid for, and batch files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from bot.models.openai_api import Breaker, Endpoint
from bot.models.planning_model import BatchFiles, PlanningModel, batched, model_reward
from bot.models.usage import SPEAKING
from policies.attributes import Attribute
from policies.domains import Domain, Stakes
from policies.errors import PlanningError
from policies.planning import library as libraries
from policies.planning.building import BuildSettings, about, build
from policies.planning.journal import Journal
from policies.planning.library import id_of
from policies.planning.reward import Scenario
from tests.models.planning_server import BROKEN, PlanningServer

ROOT = Path(__file__).resolve().parents[2]
TEXTS = ("Should I quit before I have something else?", "They want me back on nights. What now?")
ROWS = tuple(
    Scenario(id=id_of(t), query=t, domain=Domain.CAREER, group="quitting", stakes=Stakes.HIGH) for t in TEXTS
)
SETTINGS = BuildSettings(max_calls=24, budget=3)


class NeverOpens(Breaker):
    """The breaker has its own tests."""

    def note(self, kind):
        pass


@pytest.fixture
def server():
    made = PlanningServer()
    yield made
    made.close()


async def run(path, server, rows=ROWS, settings=SETTINGS):
    endpoint = Endpoint(
        base_url=server.url,
        api_key="k",
        models=dict.fromkeys(SPEAKING, "m"),
        breaker=NeverOpens(),
    )
    model = PlanningModel(endpoint, wait=0.01)
    journal = Journal(path, about(rows, model_reward(model), settings))
    try:
        return await build(
            rows, model_reward(model), settings, journal, date="2026-11-30", concurrency=6
        ), model
    finally:
        journal.close()
        await endpoint.close()


async def test_a_model_plays_the_person_writes_and_judges(server, tmp_path):
    made, model = await run(tmp_path / "j", server)
    library = made.library
    assert library.made["model"] == "m" and set(library.made["prompts"]) == {
        "simulate",
        "write",
        "judge",
        "prior",
    }
    assert server.counted["write"] == server.counted["judge"] == 2 * 23
    assert server.counted["prior"] == 2 and server.counted["simulate"] <= 12
    assert all(len(e.policy.path) == 3 and 1 <= e.expected[-1][0] <= 5 for e in library.entries)
    assert model.tokens[0] > 0


async def test_the_writer_never_sees_what_is_not_known_and_the_judge_sees_all(server, tmp_path):
    await run(tmp_path / "j", server, rows=ROWS[:1])
    for body in map(json.loads, server.bodies):
        data = json.loads(body[1]["content"])
        if "known" in data and "left" not in data:
            assert set(data) == {"query", "known"}
            written = json.dumps(data)
            assert all(f"about {a.value}" not in written for a in Attribute if a.value not in data["known"])
        if "profile" in data:
            assert len(data["profile"]) == 10


async def test_a_judge_that_talks_nonsense_is_named_and_counted_and_never_a_reward(tmp_path):
    server = PlanningServer(fails=0.3)
    try:
        made, _ = await run(tmp_path / "j", server)
    finally:
        server.close()
    lines = [json.loads(line) for line in (tmp_path / "j").read_text().splitlines()]
    scored = [line["x"] for line in lines if "x" in line]
    why = Counter(line["why"] for line in lines if "why" in line)
    assert set(why) <= {"malformed", "empty"} and sum(why.values()) == sum(made.progress.unscored.values())
    assert all(abs(3 * x - round(3 * x)) < 1e-3 and 1 <= x <= 5 for x in scored)
    assert len(BROKEN) == 10 and len(scored) + sum(why.values()) == 2 * 23


@pytest.mark.parametrize("said", BROKEN)
async def test_each_kind_of_nonsense_alone_gives_no_score(said, tmp_path):
    server = PlanningServer()
    server._plays_judge = lambda data, noise: said
    try:
        with pytest.raises(PlanningError, match=r"malformed|empty"):
            await run(tmp_path / "j", server, rows=ROWS[:1])
    finally:
        server.close()
    assert '"x"' not in (tmp_path / "j").read_text()


async def test_a_server_that_is_limited_is_tried_again_and_then_named(tmp_path):
    server = PlanningServer(limited=1.0)
    try:
        with pytest.raises(PlanningError, match="12 rate_limited"):
            await run(tmp_path / "j", server, rows=ROWS[:1], settings=BuildSettings(max_calls=14, budget=2))
    finally:
        server.close()
    assert server.counted["judge"] == 3 * 12  # each tried again twice


async def test_a_key_that_is_refused_ends_the_run_and_keeps_what_was_paid(server, tmp_path):
    server._answer = lambda handler: server._unauthorised(handler, "", "")
    with pytest.raises(PlanningError, match="the endpoint answers auth"):
        await run(tmp_path / "j", server)
    assert len((tmp_path / "j").read_text().splitlines()) == 1  # not one call was written off


async def test_batch_files_carry_a_search_round_by_round(server, tmp_path):
    """Each round's requests are answered, as OpenAI's Batch API would, until the library is there."""
    folder, rounds = tmp_path / "batch", 0
    settings = BuildSettings(max_calls=16, budget=2)
    made = None
    while made is None:
        rounds += 1
        assert rounds < 20
        files = BatchFiles(folder, model="m")
        reward = batched(files)
        journal = Journal(tmp_path / "j", about(ROWS, reward, settings))
        try:
            made = await build(ROWS, reward, settings, journal, date="2026-11-30")
        except PlanningError:
            assert reward.waiting() > 0
            answers = []
            for line in (folder / "requests.jsonl").read_text().splitlines():
                request = json.loads(line)
                assert request["url"] == "/v1/chat/completions" and request["method"] == "POST"
                system, user = (m["content"] for m in request["body"]["messages"])
                from policies.planning.reward import prompt

                kind = next(k for k in ("simulate", "write", "judge", "prior") if prompt(k).text == system)
                text = getattr(server, f"_plays_{kind}")(json.loads(user), 0.0)
                body = {
                    "choices": [{"message": {"content": text}}],
                    "usage": {"prompt_tokens": 5, "completion_tokens": 7},
                }
                answers.append(
                    {"custom_id": request["custom_id"], "response": {"status_code": 200, "body": body}}
                )
            (folder / f"output-{rounds}.jsonl").write_text("".join(json.dumps(a) + "\n" for a in answers))
        finally:
            journal.close()
    assert rounds > 4 and len(made.library.entries) == 2
    assert files.tokens[0] > 0
    (folder / "bad.jsonl").write_text("{}\n")
    with pytest.raises(PlanningError, match=r"bad\.jsonl, line 1"):
        BatchFiles(folder, model="m")


def command(*args, cwd, **env):
    keep = {k: v for k, v in os.environ.items() if not k.startswith("RAISE_")}
    return subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); from bot.cli import main; main()", "plan", *args], cwd=cwd, env={**keep, **env}, capture_output=True, text=True, timeout=120
    )  # fmt: skip


def test_the_command_builds_shows_compares_and_merges(tmp_path):
    first = command(
        "build",
        "--per-domain",
        "2",
        "--max-calls",
        "20",
        "--out",
        "a.jsonl.gz",
        "--shard",
        "1/2",
        cwd=tmp_path,
    )
    assert first.returncode == 0, first.stderr
    assert "wrote a.jsonl.gz: 7 queries" in first.stdout and "7 of 7 planned" in first.stderr
    assert (
        command(
            "build",
            "--per-domain",
            "2",
            "--max-calls",
            "20",
            "--out",
            "b.jsonl.gz",
            "--shard",
            "2/2",
            cwd=tmp_path,
        ).returncode
        == 0
    )
    assert command("merge", "a.jsonl.gz", "b.jsonl.gz", "--out", "c.jsonl.gz", cwd=tmp_path).returncode == 0
    whole = libraries.read(tmp_path / "c.jsonl.gz")
    assert len(whole.entries) == 14
    shown = command(
        "show", whole.entries[0].id[:8], "--library", "c.jsonl.gz", "--svg", "t.svg", cwd=tmp_path
    )
    assert "nothing known" in shown.stdout and (tmp_path / "t.svg").read_text().startswith("<svg")
    near = command("show", "can I stop my pills", "--library", "c.jsonl.gz", "--json", cwd=tmp_path)
    assert json.loads(near.stdout)["tree"]["ask"]
    priced = command("frontier", "--library", "c.jsonl.gz", "--json", cwd=tmp_path, RAISE_PRICES="health=1")
    rows = json.loads(priced.stdout)
    assert rows[0]["questions"] > rows[-1]["questions"] == 0
    assert "health             1.00" in command("prices", cwd=tmp_path, RAISE_PRICES="health=1").stdout
    assert command("diff", "c.jsonl.gz", "c.jsonl.gz", cwd=tmp_path).returncode == 0
    other = command("diff", "a.jsonl.gz", "c.jsonl.gz", "--json", cwd=tmp_path)
    assert other.returncode == 1 and len(json.loads(other.stdout)["added"]) == 7


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (("build", "--out", "x", "--shard", "3"), "2/8"),
        (("build", "missing.jsonl", "--out", "x"), "missing.jsonl"),
        (("build", "--with-model", "--out", "x"), "RAISE_MODEL_BASE_URL"),
        (("show", "ffff"), "ffff"),
        (("show", "--library", "text"), "no path library"),
        (("merge", "text", "--out", "x"), "no path library"),
    ],
)
def test_wrong_use_is_named_and_exits_2(args, why, tmp_path):
    (tmp_path / "text").write_text("hello\n")
    done = command(*args, cwd=tmp_path)
    assert done.returncode == 2 and why in done.stderr
