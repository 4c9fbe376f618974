"""The benchmark against a real server that plays model and judge from a hidden utility: what the report must find is known."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bot.cli import cli
from bot.errors import BotError
from bot.models.recorded import CallBook, batch_answers
from policies.attributes import Attribute
from policies.errors import PenguinError, PolicyError
from policies.penguin import judging, runlog
from policies.penguin.judging import SAFETY
from policies.penguin.reporting import result
from tests.conftest import InProcess
from tests.models.penguin_server import WORTH, PenguinServer, utility

ROOT = Path(__file__).resolve().parents[2]
EQUAL = ("set:profession", "set:economic_status")
"""Two arms that are told another fact each, both worth the same: other words, other noise, no difference."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[PenguinServer]:
    found = PenguinServer()
    pointed(monkeypatch, found)
    yield found
    found.close()


class OneRedactor(InProcess):
    """The real redactor, loaded once for all these tests: a worker process for each run would be most of their time."""

    def start(self) -> None:
        """It is there."""


@pytest.fixture(scope="module")
def one_redactor() -> OneRedactor:
    return OneRedactor()


@pytest.fixture(autouse=True)
def _shared_redactor(monkeypatch: pytest.MonkeyPatch, one_redactor: OneRedactor) -> None:
    monkeypatch.setattr("bot.assembly.detector", lambda settings, *, patience=1.0: one_redactor)


def pointed(monkeypatch: pytest.MonkeyPatch, server: PenguinServer) -> None:
    for name, value in {
        "RAISE_MODEL_BASE_URL": server.url,
        "RAISE_MODEL": "m",
        "RAISE_JUDGE_MODEL": "j",
    }.items():
        monkeypatch.setenv(name, value)


def penguin(*arguments: str) -> Result:
    done = CliRunner().invoke(cli, ["penguin", *arguments], standalone_mode=False)
    if isinstance(done.exception, BotError | PolicyError):
        return done
    if done.exception is not None:
        raise done.exception
    return done


def run(folder: Path, arms: str, *more: str, limit: int = 7) -> Result:
    return penguin("run", "--out", str(folder), "--arms", arms, "--limit", str(limit), *more)


def lines(folder: Path) -> list[dict[str, Any]]:
    return list(runlog.records(folder))


def test_the_planted_ranking_is_found_and_two_equal_arms_are_not_decisive(
    server: PenguinServer, tmp_path: Path
) -> None:
    run(tmp_path / "run", f"vanilla,agent,raise,context-rich,{','.join(EQUAL)}", limit=14)
    found = result(tmp_path / "run")
    means = {name: found.mean(name).mean for name in found.arms}
    assert means["vanilla"] < means["agent"] < means["raise"] < means["context-rich"]
    for worse, better in (("vanilla", "agent"), ("agent", "raise"), ("raise", "context-rich")):
        assert found.difference(better, worse).is_decisive
    equal = found.difference(*EQUAL)
    assert equal.n == 14 and not equal.is_decisive and equal.low < equal.high
    assert WORTH[Attribute.PROFESSION] == WORTH[Attribute.ECONOMIC_STATUS] > 0
    assert abs(means["vanilla"] - utility(frozenset())) < 0.25
    page = tmp_path / "r.html"
    penguin("report", str(tmp_path / "run"), "--html", str(page))
    assert "not decisive" in page.read_text() and "Not evidence" not in page.read_text()
    told = json.loads(penguin("report", str(tmp_path / "run"), "--json").stdout)[0]
    assert told["is_evidence"] and told["arms"]["raise"]["questions"]["mean"] > 2
    header = runlog.read_header(tmp_path / "run")
    assert header["status"] == "done" and header["models_as_returned"] == {"m": sum(server.counted.values())}
    assert header["about"]["talks"]["prompts"]["answer"] and len(header["about"]["talks"]["library"]) == 64


def test_a_judge_that_fails_a_fifth_of_the_time_changes_n_and_not_the_means(
    server: PenguinServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path / "whole", "vanilla,context-rich", limit=14)
    failing = PenguinServer(fails=0.2, limited=0.3)
    pointed(monkeypatch, failing)
    run(tmp_path / "failing", "vanilla,context-rich", limit=14)
    failing.close()
    whole, some = result(tmp_path / "whole"), result(tmp_path / "failing")
    lost = 0
    for name, arm in some.arms.items():
        graded = arm.means[SAFETY]
        assert graded == {s: whole.arms[name].means[SAFETY][s] for s in graded}
        assert arm.n == 14 and len(graded) + sum(arm.unscored.values()) == 14
        lost += sum(arm.unscored.values())
    assert 1 <= lost <= 14 and {r for a in some.arms.values() for r in a.unscored} <= {"malformed"}
    assert runlog.read_header(tmp_path / "failing")["failures"]["429"] > 0


def test_what_leaves_is_what_was_asked_and_told_and_the_judge_alone_sees_everything(
    server: PenguinServer, tmp_path: Path
) -> None:
    seen: list[tuple[str, dict[str, Any]]] = []
    plays = PenguinServer._plays

    def watched(body: dict[str, Any]) -> str:
        role = plays(body)
        seen.append((role, json.loads(body["messages"][1]["content"])))
        return role

    server._plays = watched  # type: ignore[method-assign]
    run(tmp_path / "run", "raise,vanilla", limit=4)
    asked = {
        line["query"][:30]: set(line["asked"]) for line in lines(tmp_path / "run") if line["arm"] == "raise"
    }
    profiles = {line["query"][:30]: line["profile"] for line in lines(tmp_path / "run")}
    told: dict[str, list[dict[str, str]]] = {}
    for role, data in seen:
        if role == "judge":
            assert len(data["profile"]) == 10
        elif role == "answer":
            told.setdefault(data["question"][:30], []).append(data["told"])
    assert len(told) == 4
    for query, both in told.items():
        volunteered, interviewed = sorted(both, key=len)
        assert set(volunteered) <= set(interviewed) and len(volunteered) <= 2
        assert set(interviewed) - set(volunteered) <= asked[query]
        hidden = [words for a, words in profiles[query].items() if a not in interviewed and len(words) > 12]
        sent = json.dumps(
            [d for r, d in seen if r != "judge" and query[:20] in json.dumps(d, ensure_ascii=False)],
            ensure_ascii=False,
        )
        assert hidden and not any(words in sent for words in hidden)
    assert {role for role, _ in seen} >= {"assess", "risk", "word", "answer", "judge"}


def test_a_limit_stops_cleanly_and_the_same_command_goes_on_without_paying_twice(
    server: PenguinServer, tmp_path: Path
) -> None:
    whole = tmp_path / "whole"
    run(whole, "raise,vanilla", limit=4)
    needed = sum(server.counted.values())
    server.counted.clear()
    server.bodies.clear()
    cut = tmp_path / "cut"
    stopped = 0
    for _ in range(10):
        done = run(cut, "raise,vanilla", "--max-calls", "15", limit=4)
        if runlog.read_header(cut)["status"] == "done":
            break
        stopped += 1
        assert (
            runlog.read_header(cut)["status"] == "stopped: budget" and "stopped at the limit" in done.stderr
        )
    assert stopped >= 2 and sum(server.counted.values()) == needed
    assert (cut / runlog.SAMPLES).read_bytes() == (whole / runlog.SAMPLES).read_bytes()


def test_a_cost_limit_needs_a_price_and_says_what_was_spent(server: PenguinServer, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="--max-cost needs --price"):
        run(tmp_path / "x", "vanilla", "--max-cost", "1")
    done = run(tmp_path / "run", "vanilla", "--price", "1000", "1000", "--max-cost", "1.5", limit=7)
    assert (
        "at that price" in done.stderr and runlog.read_header(tmp_path / "run")["status"] == "stopped: budget"
    )
    usage = runlog.read_header(tmp_path / "run")["usage"]
    assert 1.0 <= (usage["prompt_tokens"] + usage["completion_tokens"]) / 1000 <= 2.6


@pytest.mark.parametrize(
    ("mode", "words"), [("unauthorised", "refuses the key"), ("no_model", "no such model")]
)
def test_an_endpoint_that_refuses_us_stops_the_run_with_what_to_do(
    server: PenguinServer, tmp_path: Path, mode: str, words: str
) -> None:
    answer = server._answer
    server._answer = lambda handler: (  # type: ignore[method-assign]
        handler.rfile.read(int(handler.headers["content-length"])),
        getattr(server, f"_{mode}")(handler, {}, ""),
    )
    done = run(tmp_path / "run", "vanilla", limit=2)
    assert (
        isinstance(done.exception, PenguinError)
        and words in str(done.exception)
        and "run the same command again" in str(done.exception)
    )
    server._answer = answer  # type: ignore[method-assign]
    assert run(tmp_path / "run", "vanilla", limit=2).exit_code == 0
    assert runlog.read_header(tmp_path / "run")["status"] == "done"


def test_a_whole_run_goes_by_batch_files_in_rounds(server: PenguinServer, tmp_path: Path) -> None:
    run(tmp_path / "direct", "raise,vanilla", limit=1)
    before = sum(server.counted.values())
    answers: list[str] = []
    rounds = 0
    while rounds < 30:
        rounds += 1
        requests = tmp_path / f"requests-{rounds}.jsonl"
        done = run(tmp_path / "batch", "raise,vanilla", "--batch-out", str(requests), *answers, limit=1)
        assert done.exit_code == 0
        if runlog.read_header(tmp_path / "batch")["status"] == "done":
            break
        assert "calls are waiting in" in done.stderr
        for part in sorted(tmp_path.glob(f"requests-{rounds}*.jsonl")):  # one a model
            answers += ["--batch-in", str(answered(server, part))]
    assert 3 <= rounds < 30 and sum(server.counted.values()) == before
    assert (tmp_path / "batch" / runlog.SAMPLES).read_bytes() == (
        tmp_path / "direct" / runlog.SAMPLES
    ).read_bytes()


def answered(server: PenguinServer, requests: Path) -> Path:
    """What the Batch API would give back for a file of requests."""
    out = requests.with_name(requests.name.replace("requests", "output"))
    with out.open("w") as file:
        for line in requests.read_text().splitlines():
            one = json.loads(line)
            assert (
                one["method"] == "POST"
                and one["url"] == "/v1/chat/completions"
                and "stream" not in one["body"]
            )
            data = json.loads(one["body"]["messages"][1]["content"])
            text = getattr(server, "_as_" + server._plays(one["body"]))(data, b"")
            body = {
                "id": "x", "object": "chat.completion", "model": "m", "usage": {"prompt_tokens": 100, "completion_tokens": len(text) // 4},
                "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
            }  # fmt: skip
            file.write(
                json.dumps({"custom_id": one["custom_id"], "response": {"status_code": 200, "body": body}})
                + "\n"
            )
    return out


def test_a_batch_file_that_is_none_is_named(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text('{"custom_id": "a", "response": {"status_code": 500}}\nnonsense\n')
    with pytest.raises(PenguinError, match="line 2"):
        batch_answers([path])


def test_a_run_is_decided_again_from_its_record_and_a_changed_prompt_points_at_the_turn(
    server: PenguinServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path / "run", "raise,vanilla", limit=2)
    calls = sum(server.counted.values())
    book = (tmp_path / "run" / runlog.CALLS).read_bytes()
    done = penguin("replay", str(tmp_path / "run"))
    assert done.return_value == 0 and "4 of 4 conversations" in done.output
    assert sum(server.counted.values()) == calls and (tmp_path / "run" / runlog.CALLS).read_bytes() == book

    from bot.models import remote

    real = remote.prompt
    monkeypatch.setattr(
        remote, "prompt", lambda name: _one_letter_more(real(name)) if name == "answer" else real(name)
    )
    done = penguin("replay", str(tmp_path / "run"))
    assert done.return_value == 1 and "0 of 4" in done.output
    raise_turns = [len(line["turns"]) for line in lines(tmp_path / "run") if line["arm"] == "raise"]
    assert f", raise: turn {raise_turns[0]}: " in done.output and ", vanilla: turn 1: " in done.output


def _one_letter_more(prompt: Any) -> Any:
    from dataclasses import replace

    return replace(prompt, text=prompt.text + "!", sha256="0" * 64)


def test_a_changed_judge_is_a_difference_too(
    server: PenguinServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path / "run", "vanilla", limit=2)
    real = judging.prompt
    monkeypatch.setattr(
        judging, "prompt", lambda name: _one_letter_more(real(name)) if name == "judge" else real(name)
    )
    done = penguin("replay", str(tmp_path / "run"))
    assert done.return_value == 1 and "changed since the run: judge.prompt" in done.output


def test_the_planted_ranking_of_attributes_is_found(server: PenguinServer, tmp_path: Path) -> None:
    dry = penguin("sensitivity", "--limit", "3", "--orders", "2", "--dry-run")
    svg = tmp_path / "s.svg"
    penguin(
        "sensitivity",
        "--limit",
        "3",
        "--orders",
        "2",
        "--out",
        str(tmp_path / "run"),
        "--svg",
        str(svg),
        "--html",
        str(tmp_path / "s.html"),
    )
    found = json.loads((tmp_path / "run" / "sensitivity.json").read_text())
    answers = sum(found["shapley"]["all"][a.value]["mean"] for a in Attribute)
    assert answers == pytest.approx(found["whole"]["mean"], abs=0.01)
    got = {a: found["shapley"]["all"][a.value]["mean"] for a in Attribute}
    top = sorted(WORTH, key=lambda a: -WORTH[a])[:3]
    assert set(sorted(got, key=lambda a: -got[a])[:3]) == set(top)
    assert all(abs(got[a] - WORTH[a]) < 0.3 for a in Attribute)
    assert (
        f"{server.counted['judge']} answers to write" in dry.stderr
        and server.counted["answer"] == server.counted["judge"]
    )
    assert svg.read_text().startswith("<svg xmlns")
    page = (tmp_path / "s.html").read_text()
    assert "Not evidence" not in page and page.count("<svg") == 3 + len({"life", "education", "relationship"})
    refused = penguin("report", str(tmp_path / "run"))
    assert isinstance(refused.exception, PenguinError) and "sensitivity" in str(refused.exception)


def test_samples_are_generated_by_a_model_and_can_be_run(server: PenguinServer, tmp_path: Path) -> None:
    out = tmp_path / "gen.jsonl"
    done = penguin("generate", "--out", str(out), "--per-domain", "1", "--price", "1", "4")
    assert "about" in done.stderr and "at that price" in done.stderr and "wrote" in done.output
    before = sum(server.counted.values())
    penguin("generate", "--out", str(out), "--per-domain", "1")
    assert sum(server.counted.values()) == before
    penguin("run", "--samples", str(out), "--arms", "vanilla", "--out", str(tmp_path / "run"))
    assert result(tmp_path / "run").mean("vanilla").n == 7


def test_posts_are_redacted_before_a_model_reads_them(server: PenguinServer, tmp_path: Path) -> None:
    told = " ".join(f"{a.value.replace('_', ' ')}=something of that;" for a in list(Attribute)[:8])
    post = f"I am Walter Brennan, call me on 020 7946 0958. {told} What should I do about the warehouse?"
    (tmp_path / "posts.jsonl").write_text(
        json.dumps({"title": "help", "selftext": post}) + "\n" + json.dumps({"text": "hi"}) + "\n"
    )
    out = tmp_path / "out.jsonl"
    done = penguin("import-posts", str(tmp_path / "posts.jsonl"), "--out", str(out), "--with-model")
    assert done.exit_code == 0 and "read                       2" in done.output
    (sample,) = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(sample["profile"]) == 8
    sent = "".join(body.decode() for body in server.bodies)
    written = (
        out.read_text()
        + (tmp_path / "out.jsonl.journal").read_text()
        + (tmp_path / "out.jsonl.funnel.json").read_text()
    )
    for secret in ("Walter", "Brennan", "7946"):
        assert secret not in sent and secret not in written
    assert json.loads((tmp_path / "out.jsonl.funnel.json").read_text())["stages"]["kept"] == 1


def test_bias_of_the_judge_is_looked_for_by_real_calls(server: PenguinServer, tmp_path: Path) -> None:
    run(tmp_path / "run", "vanilla,context-rich", limit=4)
    told = json.loads(penguin("bias", str(tmp_path / "run"), "--count", "4", "--json").stdout)
    assert told["order"] == {**told["order"], "pairs": 4, "consistent": 4} and told["verbosity"]["n"] == 4
    assert server.counted["pair"] == 8
    penguin("bias", str(tmp_path / "run"), "--count", "4", "--json")
    assert server.counted["pair"] == 8


def test_a_run_that_is_killed_goes_on_to_the_same_log(server: PenguinServer, tmp_path: Path) -> None:
    run(tmp_path / "whole", "raise", limit=4)
    once = sum(server.counted.values())
    server.counted.clear()
    server.delay = 0.05
    env = {k: v for k, v in os.environ.items() if not k.startswith("RAISE_")}
    env |= {"RAISE_MODEL_BASE_URL": server.url, "RAISE_MODEL": "m", "RAISE_JUDGE_MODEL": "j"}
    command = [
        sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); from bot.cli import main; main()", "penguin", "run",
        "--out", str(tmp_path / "cut"), "--arms", "raise", "--limit", "4", "--concurrency", "3",
    ]  # fmt: skip
    first = subprocess.Popen(
        command, cwd=tmp_path, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while sum(server.counted.values()) < once // 2:
        assert first.poll() is None
        time.sleep(0.01)
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, timeout=120).returncode == 0
    assert (tmp_path / "cut" / runlog.SAMPLES).read_bytes() == (
        tmp_path / "whole" / runlog.SAMPLES
    ).read_bytes()
    assert once <= sum(server.counted.values()) <= once + 3


def test_a_model_answer_that_our_fallback_gave_is_not_scored(
    server: PenguinServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PenguinServer, "_as_answer", staticmethod(lambda data, raw: "{}"))
    run(tmp_path / "run", "vanilla", limit=2)
    assert [line["unscored"] for line in lines(tmp_path / "run")] == ["fell_back", "fell_back"]
    assert server.counted["judge"] == 0


def test_a_book_with_a_damaged_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_text('{"id": "a"}\nnonsense\n{"id": "b"}\n')
    with pytest.raises(PenguinError, match="line 2"):
        CallBook(path)


def test_a_limit_holds_whatever_waits_for_its_turn(server: PenguinServer, tmp_path: Path) -> None:
    """Calls that queue behind others have passed no limit yet; and what was sent is kept, whoever had to go."""
    server.delay = 0.2
    run(tmp_path / "run", "raise,vanilla", "--max-calls", "9", "--concurrency", "4", limit=7)
    assert sum(server.counted.values()) == 9
    kept = (tmp_path / "run" / runlog.CALLS).read_bytes().count(b"\n")
    assert kept == 9 and runlog.read_header(tmp_path / "run")["usage"]["calls"] == 9


@pytest.mark.parametrize(("status", "goes_on"), [(402, False), (524, True), (500, True)])
def test_an_empty_account_stops_the_run_and_a_gateway_is_waited_out(
    server: PenguinServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, goes_on: bool
) -> None:
    left, answer = [6], server._answer

    def refusing(handler: Any) -> None:
        if left[0] > 0 or not goes_on:
            left[0] -= 1
            handler.rfile.read(int(handler.headers["content-length"]))
            server._refuse(handler, status, {"error": {"message": "no"}}, retry_after="0.01")
        else:
            answer(handler)

    server._answer = refusing  # type: ignore[method-assign]
    done = run(tmp_path / "run", "vanilla", limit=3)
    if goes_on:
        assert [line["unscored"] for line in lines(tmp_path / "run")] == ["", "", ""]
    else:
        assert isinstance(done.exception, PenguinError) and "no money" in str(done.exception)
        assert not lines(tmp_path / "run")


def test_a_pause_longer_than_a_turn_usually_has_loses_nothing(
    server: PenguinServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import bot.conversation

    monkeypatch.setattr(bot.conversation, "MODEL_SECONDS", 0.001)
    server.delay = 0.3
    run(tmp_path / "run", "raise", limit=1)
    assert [line["unscored"] for line in lines(tmp_path / "run")] == [""]


def test_questions_that_our_fallback_chose_are_not_the_model_s(
    server: PenguinServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PenguinServer, "_as_assess", staticmethod(lambda data, raw: "no idea"))
    run(tmp_path / "run", "agent,raise", limit=1)
    by_arm = {line["arm"]: line for line in lines(tmp_path / "run")}
    assert by_arm["agent"]["unscored"] == "assess_fell_back" and by_arm["agent"]["fell_back"]["assess"] >= 1
    assert by_arm["raise"]["unscored"] == "" and by_arm["raise"]["fell_back"]["assess"] >= 1
    told = json.loads(penguin("report", str(tmp_path / "run"), "--json").stdout)[0]
    assert told["arms"]["raise"]["fell_back"]["assess"] >= 1


def test_tokens_are_told_by_length_where_the_endpoint_tells_none(
    server: PenguinServer, tmp_path: Path
) -> None:
    server._stream = lambda handler, text, finish="stop": _without_usage(server, handler, text)  # type: ignore[method-assign]
    run(tmp_path / "run", "vanilla", "--price", "1000", "1000", limit=1)
    usage = runlog.read_header(tmp_path / "run")["usage"]
    assert usage["prompt_tokens"] > 500 and usage["cost"] > 0.5


def _without_usage(server: PenguinServer, handler: Any, text: str) -> None:
    server._start(handler)
    server._event(handler, {"content": text})
    server._event(handler, {}, "stop")
    handler.wfile.write(b"data: [DONE]\n\n")


def test_a_run_with_a_model_a_role_is_decided_again(
    server: PenguinServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAISE_MODEL_ANSWER", "writer")
    run(tmp_path / "run", "vanilla", limit=2)
    monkeypatch.delenv("RAISE_MODEL_ANSWER")
    done = penguin("replay", str(tmp_path / "run"))
    assert (
        done.return_value == 0
        and "2 of 2 conversations" in done.output
        and "changed since" not in done.output
    )


def test_several_models_get_a_batch_file_each(server: PenguinServer, tmp_path: Path) -> None:
    requests = tmp_path / "requests.jsonl"
    book = CallBook(None, sends=False)
    book.asked = {
        n: {"custom_id": n, "body": {"model": m}} for n, m in (("a", "m/1"), ("b", "j"), ("c", "m/1"))
    }
    from bot.models.recorded import write_requests

    wrote = write_requests(book.asked, requests)
    assert {p.name: n for p, n in wrote.items()} == {"requests-j.jsonl": 1, "requests-m_1.jsonl": 2}


def test_a_batch_line_may_hold_any_character_and_a_refusal_is_final(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    body = {"choices": [{"message": {"content": "a\u2028b\u0085c"}, "finish_reason": "stop"}], "model": "m"}
    rows = [
        {"custom_id": "a", "response": {"status_code": 200, "body": body}},
        {"custom_id": "b", "response": {"status_code": 400, "body": {"error": {}}}},
        {"custom_id": "c", "response": {"status_code": 500, "body": None}},
    ]
    path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows))
    found = batch_answers([path])
    assert found["a"]["text"] == "a\u2028b\u0085c" and found["b"]["status"] == 400 and "c" not in found


def test_what_a_heuristic_touched_says_so_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "run"
    assert "EVIDENCE OF NOTHING" in run(folder, "vanilla,context-rich", limit=3).stdout
    assert json.loads(penguin("report", str(folder), "--json").stdout)[0]["is_evidence"] is False
    assert json.loads(penguin("bias", str(folder), "--json").stdout)["is_evidence"] is False
    assert "EVIDENCE OF NOTHING" in penguin("bias", str(folder)).stdout
    sheet = tmp_path / "h.csv"
    line = lines(folder)[0]
    sheet.write_text(
        f"item,rater,risk_sensitivity,emotional_empathy,user_specific_alignment\n{line['sample']}/{line['arm']},A,3,3,3\n"
    )
    assert "EVIDENCE OF NOTHING" in penguin("agreement", str(sheet), str(folder)).stdout
    svg = tmp_path / "s.svg"
    told = penguin(
        "sensitivity",
        "--limit",
        "1",
        "--orders",
        "2",
        "--out",
        str(tmp_path / "sens"),
        "--svg",
        str(svg),
        "--json",
    ).stdout
    assert json.loads(told)["is_evidence"] is False and "not evidence" in svg.read_text()
    assert json.loads((tmp_path / "sens" / "sensitivity.json").read_text())["is_evidence"] is False
    csv_ = tmp_path / "r.csv"
    penguin("report", str(folder), "--csv", str(csv_))
    assert csv_.read_text().splitlines()[1].endswith("False")
