"""The on-call contact: signed, retried, once, acknowledged; a pseudonym, a level and a time, never a word."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import socketserver
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner

from bot.cli import cli
from bot.conversation import Conversation
from bot.errors import SettingsError
from bot.escalation import Desk, Referral, Webhook, channels
from bot.parts import Parts
from bot.risk.verdict import RiskLevel
from bot.settings import read_settings
from privacy.store import Store

SECRET = "a secret of ours"


class Hook:
    """A real HTTP server that fails as often as it is told to."""

    def __init__(self) -> None:
        self.failures, self.received = 0, []  # type: int, list[tuple[dict[str, str], bytes]]
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if hook.failures:
                    hook.failures -= 1
                    self.send_response(503)
                elif self.path == "/moved":
                    self.send_response(302)
                    self.send_header("location", f"http://127.0.0.1:{hook.port}/hook")
                else:
                    hook.received.append(({k.lower(): v for k, v in self.headers.items()}, body))
                    self.send_response(204)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def hook() -> Iterator[Hook]:
    made = Hook()
    yield made
    made.close()


def wait_for(ready: Any, seconds: float = 10.0) -> None:
    for _ in range(int(seconds / 0.05)):
        if ready():
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen in time")


def referral(clock: Any, **changes: Any) -> Referral:
    return Referral(
        **{
            "person": "visitor-1",
            "level": RiskLevel.IMMINENT,
            "category": "suicide",
            "country": "GB",
            "at": clock(),
            "is_news": True,
            **changes,
        }
    )


async def test_danger_is_told_once_signed_and_without_a_word_of_it(
    parts: Parts, tmp_path: Path, hook: Hook, clock: Any
) -> None:
    desk = Desk(tmp_path, [Webhook(f"http://127.0.0.1:{hook.port}/hook", SECRET)], clock=clock, pause=0.05)
    conversation = Conversation(replace(parts, desk=desk), person="visitor-7")
    for text in ("I am going to kill myself tonight", "I mean it, I'm going to hang myself tonight", "hm"):
        async for _ in conversation.receive(text):
            pass
    wait_for(lambda: hook.received)
    desk.close()
    assert len(hook.received) == 1
    headers, body = hook.received[0]
    signed = headers["x-raise-timestamp"].encode() + b"." + body
    expected = hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()
    assert headers["x-raise-signature"] == f"sha256={expected}"
    assert json.loads(body) == {
        "id": "1",
        "person": "visitor-7",
        "level": "imminent",
        "at": clock().isoformat(),
    }
    store = Store(tmp_path)
    assert sum(r["count"] for r in store.referrals(clock().year)) == 3
    assert not any("kill" in str(v) for row in store.escalations(open_only=False) for v in row.values())
    store.close()


async def test_who_stops_a_message_of_danger_before_its_card_is_told_of_all_the_same(
    parts: Parts, tmp_path: Path, hook: Hook, clock: Any
) -> None:
    class Waiting:
        def __getattr__(self, name: str) -> Any:
            return getattr(parts.stages, name)

        def deepened(self, text: str, verdict: Any, **more: Any) -> Any:
            ended.wait(20)
            return verdict

    ended = threading.Event()
    desk = Desk(tmp_path, [Webhook(f"http://127.0.0.1:{hook.port}/hook", SECRET)], clock=clock, pause=0.05)
    conversation = Conversation(replace(parts, desk=desk, stages=Waiting()), person="visitor-8")  # type: ignore[arg-type]

    async def say() -> None:
        async for _ in conversation.receive("I am going to kill myself tonight"):
            pass

    turn = asyncio.ensure_future(say())
    async with asyncio.timeout(20):
        while not conversation.is_answering:
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    ended.set()
    wait_for(lambda: hook.received)
    desk.close()
    told = json.loads(hook.received[0][1])
    assert (told["person"], told["level"]) == ("visitor-8", "imminent")


def test_it_is_tried_again_until_it_is_delivered(tmp_path: Path, hook: Hook, clock: Any) -> None:
    hook.failures = 2
    desk = Desk(tmp_path, [Webhook(f"http://127.0.0.1:{hook.port}/hook", SECRET)], clock=clock, pause=0.05)
    desk.note(referral(clock))
    wait_for(lambda: hook.failures == 1)
    time.sleep(0.3)
    assert hook.failures == 1, "it did not wait before trying again"
    clock.move(seconds=6)
    wait_for(lambda: hook.failures == 0)
    clock.move(seconds=31)
    wait_for(lambda: hook.received)
    desk.close()
    store = Store(tmp_path)
    row = store.escalations(open_only=True)[0]
    store.close()
    assert row["attempts"] == 3 and row["delivered_at"] and row["next_try"] is None


def test_a_restart_in_between_loses_nothing(tmp_path: Path, hook: Hook, clock: Any) -> None:
    hook.failures = 1
    way = Webhook(f"http://127.0.0.1:{hook.port}/hook", SECRET)
    first = Desk(tmp_path, [way], clock=clock, pause=0.05)
    first.note(referral(clock))
    first.close()
    assert not hook.received
    clock.move(minutes=5)
    second = Desk(tmp_path, [way], clock=clock, pause=0.05)
    wait_for(lambda: hook.received)
    second.close()


def test_once_in_twenty_minutes_a_person_and_level_and_again_after_that(
    tmp_path: Path, hook: Hook, clock: Any
) -> None:
    desk = Desk(tmp_path, [Webhook(f"http://127.0.0.1:{hook.port}/hook", SECRET)], clock=clock, pause=0.02)
    for change in ({}, {}, {"person": "visitor-2"}, {"level": RiskLevel.ELEVATED}, {"is_news": False}):
        desk.note(referral(clock, **change))
    wait_for(lambda: len(hook.received) == 2)
    clock.move(minutes=21)
    desk.note(referral(clock))
    wait_for(lambda: len(hook.received) == 3)
    time.sleep(0.2)
    desk.close()
    assert len(hook.received) == 3


def test_a_redirect_is_not_followed(hook: Hook) -> None:
    with pytest.raises(OSError, match="302"):
        Webhook(f"http://127.0.0.1:{hook.port}/moved", SECRET).send({"id": "1"})
    assert not hook.received


class Letters(socketserver.StreamRequestHandler):
    """Enough of SMTP to take a letter."""

    taken: ClassVar[list[str]] = []

    def handle(self) -> None:
        def answer(line: str) -> None:
            self.wfile.write(line.encode() + b"\r\n")

        answer("220 here")
        while line := self.rfile.readline().decode().strip():
            word = line.split()[0].upper()
            if word == "DATA":
                answer("354 go on")
                letter = []
                while (part := self.rfile.readline().decode()) != ".\r\n":
                    letter.append(part)
                Letters.taken.append("".join(letter))
                answer("250 taken")
            elif word == "QUIT":
                answer("221 bye")
                return
            else:
                answer("250 fine")


def test_a_drill_tries_every_way_and_says_which_failed(
    tmp_path: Path, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAISE_DATA_DIR", str(tmp_path / "data"))
    none = CliRunner().invoke(cli, ["crisis", "drill"])
    assert isinstance(none.exception, SettingsError) and not hook.received
    monkeypatch.setenv("RAISE_ON_CALL_WEBHOOK", f"http://127.0.0.1:{hook.port}/hook")
    monkeypatch.setenv("RAISE_ON_CALL_SECRET", SECRET)
    done = CliRunner().invoke(cli, ["crisis", "drill"])
    assert done.exit_code == 0 and "webhook: sent" in done.output
    assert json.loads(hook.received[0][1]) | {"at": ""} == {
        "id": "0", "person": "nobody", "level": "drill", "at": "",
    }  # fmt: skip
    hook.failures = 1
    done = CliRunner().invoke(cli, ["crisis", "drill"])
    assert done.exit_code == 1 and "webhook: not sent (HTTPError)" in done.output
    assert not (tmp_path / "data").exists(), "a drill is no notice of anybody and leaves nothing"


def test_it_is_mailed(tmp_path: Path, clock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    Letters.taken.clear()
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Letters)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name, value in {
        "ON_CALL_EMAIL": "oncall@example.org",
        "SMTP_HOST": "127.0.0.1",
        "SMTP_PORT": str(server.server_address[1]),
        "SMTP_TLS": "false",
    }.items():
        monkeypatch.setenv(f"RAISE_{name}", value)
    desk = Desk(tmp_path, channels(read_settings()), clock=clock, pause=0.05)
    desk.note(referral(clock))
    wait_for(lambda: Letters.taken)
    desk.close()
    server.shutdown()
    server.server_close()
    assert "visitor-1" in Letters.taken[0] and "imminent" in Letters.taken[0]
    assert "crisis acknowledge 1" in Letters.taken[0]


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"ON_CALL_WEBHOOK": "http://example.org/x", "ON_CALL_SECRET": "s"}, "https"),
        ({"ON_CALL_WEBHOOK": "https://example.org/x"}, "RAISE_ON_CALL_SECRET"),
        ({"ON_CALL_EMAIL": "a@example.org"}, "RAISE_SMTP_HOST"),
    ],
)
def test_half_a_setting_is_refused(
    values: dict[str, str], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in values.items():
        monkeypatch.setenv(f"RAISE_{name}", value)
    with pytest.raises(SettingsError, match=named):
        channels(read_settings())


def test_taken_on_closed_and_reported_from_the_command_line(
    tmp_path: Path, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAISE_DATA_DIR", str(tmp_path))
    store = Store(tmp_path)
    store.open_escalation(
        person="visitor-1",
        level="imminent",
        at=clock(),
        again_after=timedelta(hours=1),
        until=clock() + timedelta(days=9),
    )
    for country in ("GB", "GB", ""):
        store.count_referral(month="2026-11", level="imminent", category="suicide", country=country)
    store.close()
    run = CliRunner()

    def done(*words: str) -> tuple[int, str]:
        result = run.invoke(cli, ["crisis", *words])
        return result.exit_code, result.output

    assert done("close", "1", "--by", "Ada", "--outcome", "safe")[0] == 1
    assert done("acknowledge", "1", "--by", "Ada", "--did", "reached")[0] == 0
    assert done("acknowledge", "1", "--by", "Bo", "--did", "reached")[0] == 1
    assert "taken on by Ada: reached" in done("list")[1]
    assert done("close", "1", "--by", "Ada", "--outcome", "safe")[0] == 0
    assert "0 notices" in done("list")[1] and "closed by Ada: safe" in done("list", "--all")[1]
    assert "3 crisis referrals shown in 2026" in done("report", "--year", "2026")[1]
    assert "2026-11,imminent,suicide,GB,2" in done("report", "--year", "2026", "--format", "csv")[1]
    small = json.loads(done("report", "--year", "2026", "--format", "json", "--at-least", "2")[1])
    assert small["total"] == 2 and {r["count"] for r in small["referrals"]} == {2, "<2"}
    assert done("report", "--year", "2025")[1].startswith("0 crisis referrals")


def test_people_are_told_truthfully_whether_anyone_is(parts: Parts) -> None:
    from bot.parts import build_parts

    assert "nobody is told" in parts.responder.message("welcome")
    told = build_parts(on_call="within two hours on weekdays").responder
    for key in ("welcome", "ai_notice", "cannot_call"):
        assert "within two hours on weekdays" in told.message(key) and "no emergency service" in told.message(
            key
        )
        assert "nobody is told" not in told.message(key)
    early = build_parts(on_call="", alerts_key="alerts_someone_early").responder
    assert "signs of danger" in early.message("welcome") and "a day or more" in early.message("welcome")


def test_what_people_are_told_follows_the_level_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_settings().alerts_key == "alerts_nobody"
    monkeypatch.setenv("RAISE_ON_CALL_EMAIL", "oncall@example.org")
    assert read_settings().alerts_key == "alerts_someone"
    monkeypatch.setenv("RAISE_ON_CALL_LEVEL", "elevated")
    assert read_settings().alerts_key == "alerts_someone_early"
    monkeypatch.setenv("RAISE_ON_CALL_LEVEL", "none")
    with pytest.raises(SettingsError, match="RAISE_ON_CALL_LEVEL"):
        read_settings()


async def test_the_head_of_the_audit_log_is_sent_signed(
    hook: Hook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bot.sweeping import Heads, Sweeper
    from tests.conftest import keeping_in

    hook.failures = 1
    monkeypatch.setenv("RAISE_AUDIT_WEBHOOK", f"http://127.0.0.1:{hook.port}/hook")
    with pytest.raises(SettingsError, match="RAISE_AUDIT_WEBHOOK needs RAISE_AUDIT_WEBHOOK_SECRET"):
        Heads.of(read_settings())
    monkeypatch.setenv("RAISE_AUDIT_WEBHOOK_SECRET", SECRET)
    monkeypatch.setenv("RAISE_DATA_DIR", str(tmp_path))
    keeping: Any = keeping_in(tmp_path)
    sweeper = Sweeper(keeping, Heads.of(read_settings()))
    await sweeper.sweep()
    await sweeper.sweep()
    head = await keeping.run(keeping.audit.head)
    keeping.close()
    (headers, body) = hook.received[-1]
    assert json.loads(body) == {"number": str(head.number), "hash": head.hash, "at": head.at}
    signed = hmac.new(
        SECRET.encode(), headers["x-raise-timestamp"].encode() + b"." + body, hashlib.sha256
    ).hexdigest()
    assert headers["x-raise-signature"] == f"sha256={signed}"
    monkeypatch.setenv("RAISE_AUDIT_WEBHOOK", "http://auditor.example/hook")
    with pytest.raises(SettingsError, match="needs https"):
        Heads.of(read_settings())
