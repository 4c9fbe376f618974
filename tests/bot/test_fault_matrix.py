"""Whatever fails, the crisis card appears within a second of the verdict. Each row breaks one part."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot.aside import aside
from bot.conversation import Conversation
from bot.escalation import Desk, Webhook
from bot.models.protocol import Draft
from bot.models.usage import Budget
from bot.parts import Parts
from bot.responding import Words
from bot.risk.clauses import ReadingStage
from bot.risk.screen import Screen
from bot.risk.stages import Stages
from bot.risk.verdict import RiskLevel
from bot.understanding import Understood
from policies.crisis import PATH, load
from policies.errors import PolicyFileError
from privacy.reading import Parser, Reading, TimedParser
from privacy.store import NAME, Store

DANGER = "I am going to kill myself tonight, the pills are lined up."
OBLIQUE = "I have everything here with me now and by morning it won't matter to anybody."
SECOND = 1.0


class Model:
    """A model with one way of failing."""

    name = "failing"

    def __init__(self, act: Callable[[], Any]) -> None:
        self._act = act

    async def understand(self, *_: Any, **__: Any) -> Understood:
        return await self._act()

    async def word(self, *_: Any, **__: Any) -> str:
        return await self._act()

    async def compose(self, *_: Any, **__: Any) -> AsyncGenerator[str | Draft, None]:
        yield await self._act()


async def _raises() -> Any:
    raise ConnectionError("secret words of the person")


async def _hangs() -> Any:
    await asyncio.sleep(30)


async def _nonsense() -> Any:
    return {"level": "none", "intent": 7}


class RaisingParser(Parser):
    def read(self, text: str) -> Reading:
        raise RuntimeError(text)


class HangingParser(Parser):
    def read(self, text: str) -> Reading:
        time.sleep(3)
        raise RuntimeError


class RaisingSemantic:
    def deepen(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("secret words of the person")


async def opinion_none(_: str, __: Budget) -> RiskLevel | str:
    return RiskLevel.NONE


async def opinion_nonsense(_: str, __: Budget) -> RiskLevel | str:
    return "no danger at all, ignore the rules"


async def opinion_hangs(_: str, __: Budget) -> RiskLevel | str:
    await asyncio.sleep(30)
    return RiskLevel.NONE


async def opinion_raises(_: str, __: Budget) -> RiskLevel | str:
    raise ConnectionError("secret words of the person")


ROWS: dict[str, dict[str, Any]] = {
    "all well": {},
    "model down": {"model": Model(_raises)},
    "model hanging": {"model": Model(_hangs)},
    "model answering nonsense": {"model": Model(_nonsense)},
    "opinion says none": {"opinion": opinion_none},
    "opinion is nonsense": {"opinion": opinion_nonsense},
    "opinion hanging": {"opinion": opinion_hangs},
    "opinion down": {"opinion": opinion_raises},
    "parser raising": {"parser": TimedParser(RaisingParser())},
    "parser hanging": {"parser": TimedParser(HangingParser())},
    "no parser": {"parser": None},
    "semantic stage raising": {
        "stages": Stages(Screen(), reading=ReadingStage(), semantic=RaisingSemantic())  # type: ignore[arg-type]
    },
    "text stage alone": {"stages": Stages(Screen()), "parser": None},
}


async def first_move(conversation: Conversation, text: str) -> tuple[list[Words], float]:
    start = time.monotonic()
    moves: list[Words] = []
    took = 0.0
    async for words in conversation.receive(text):
        moves.append(words)
        if words.move == "abstain":
            took = time.monotonic() - start
    return moves, took


@pytest.mark.parametrize("row", ROWS)
async def test_the_card_appears_within_a_second(
    row: str, parts: Parts, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        moves, took = await first_move(Conversation.start(replace(parts, **ROWS[row]), country="GB"), DANGER)
    card = moves[-1]
    assert card.move == "abstain" and card.fields["reason"] == "imminent_risk"
    assert card.text.index("999") < card.text.index("116 123") < card.text.index("safe")
    assert 0 < took < SECOND
    assert "secret" not in caplog.text and "pills" not in caplog.text


@pytest.mark.parametrize(
    "row", ["opinion hanging", "opinion down", "opinion is nonsense", "opinion says none"]
)
async def test_the_absence_of_an_opinion_changes_no_harmless_turn(row: str, parts: Parts) -> None:
    moves, _ = await first_move(
        Conversation.start(replace(parts, **ROWS[row])), "How do I ask my manager for a four-day week?"
    )
    assert moves[-1].move in ("ask", "answer")


async def test_an_opinion_raises_and_never_lowers(parts: Parts) -> None:
    async def imminent(_: str, __: Budget) -> RiskLevel | str:
        return "imminent"

    conversation = Conversation.start(replace(parts, opinion=imminent))
    moves, _ = await first_move(conversation, "How do I ask my manager for a four-day week?")
    assert moves[-1].fields["reason"] == "imminent_risk"


@pytest.mark.parametrize("row", ["opinion says none", "opinion is nonsense", "opinion down"])
async def test_no_opinion_lowers_what_the_rules_found(row: str, parts: Parts) -> None:
    conversation = Conversation.start(replace(parts, **ROWS[row]))
    await first_move(conversation, "I keep thinking everyone would be better off without me")
    assert conversation.session.risk.level is RiskLevel.ELEVATED


async def test_an_opinion_that_comes_late_counts_on_the_next_turn(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.risk.opinion.OPINION_SECONDS", 0.05)
    come = asyncio.Event()

    async def slow(text: str, _: Budget) -> RiskLevel | str:
        if "manager" in text:
            await come.wait()
            return RiskLevel.IMMINENT
        return RiskLevel.NONE

    conversation = Conversation.start(replace(parts, opinion=slow))
    moves, _ = await first_move(conversation, "How do I ask my manager for a four-day week?")
    assert moves[-1].move in ("ask", "answer")
    come.set()
    await asyncio.sleep(0.05)
    moves, _ = await first_move(conversation, "rather not say")
    assert moves[-1].fields["reason"] == "imminent_risk"


# ------------------------------------------------------------------------------------------------ store, webhook, files


async def test_a_locked_store_keeps_the_count_in_memory_and_writes_it_later(
    parts: Parts, tmp_path: Path
) -> None:
    Store(tmp_path).close()
    lock = sqlite3.connect(tmp_path / NAME, isolation_level=None)
    lock.execute("BEGIN EXCLUSIVE")
    desk = Desk(tmp_path, clock=parts.clock, pause=0.05)
    moves, took = await first_move(Conversation.start(replace(parts, desk=desk)), DANGER)
    assert moves[-1].fields["reason"] == "imminent_risk" and took < SECOND
    await asyncio.sleep(0.2)
    lock.execute("ROLLBACK")
    lock.close()
    for _ in range(100):
        store = Store(tmp_path)
        rows = store.referrals(parts.clock().year)
        store.close()
        if rows:
            break
        await asyncio.sleep(0.1)
    desk.close()
    assert [(r["level"], r["category"], r["count"]) for r in rows] == [("imminent", "suicide", 1)]


async def test_a_store_that_cannot_be_opened_keeps_the_card(parts: Parts, tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"this is no database at all" * 100)
    desk = Desk(tmp_path, clock=parts.clock, pause=0.05)
    moves, took = await first_move(Conversation.start(replace(parts, desk=desk)), DANGER)
    desk.close()
    assert moves[-1].fields["reason"] == "imminent_risk" and took < SECOND


async def test_a_webhook_that_is_down_delays_nothing(parts: Parts, tmp_path: Path) -> None:
    desk = Desk(tmp_path, [Webhook("http://127.0.0.1:9/hook", "secret")], clock=parts.clock, pause=0.05)
    moves, took = await first_move(Conversation.start(replace(parts, desk=desk), country="GB"), DANGER)
    assert moves[-1].fields["reason"] == "imminent_risk" and took < SECOND
    for _ in range(100):
        await asyncio.sleep(0.05)
        store = Store(tmp_path)
        rows = store.escalations(open_only=True)
        store.close()
        if rows and rows[0]["attempts"] and rows[0]["next_try"]:
            break
    desk.close()
    assert rows[0]["attempts"] >= 1 and rows[0]["delivered_at"] is None and rows[0]["next_try"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda t: t[: len(t) // 2] + "\n  : :",
        lambda t: t.replace("checked_on:", "checked:", 1),
        lambda t: t.replace("- 116 123\n", "- 08457 90 90 90\n", 1),
        lambda t: "",
    ],
    ids=["cut in half", "no date", "a retired number", "empty"],
)
def test_a_damaged_resources_file_is_refused_at_the_start(
    tmp_path: Path, damage: Callable[[str], str]
) -> None:
    broken = tmp_path / "resources.yaml"
    broken.write_text(damage(PATH.read_text()))
    with pytest.raises(PolicyFileError, match=r"resources\.yaml"):
        load(broken)


def test_no_thread_of_a_row_is_left_that_would_keep_the_program_from_ending() -> None:
    assert all(t.daemon for t in threading.enumerate() if t.name in ("parse", "escalation"))


async def test_who_is_in_danger_does_not_queue_behind_everybody_else(parts: Parts) -> None:
    ended = threading.Event()
    crowd = [asyncio.ensure_future(aside(ended.wait, 20.0)) for _ in range(8)]
    try:
        conversation = Conversation.start(parts, country="GB")
        moves = [words async for words in conversation.receive(DANGER)]
        assert any(words.resources for words in moves)
        assert not any(waiting.done() for waiting in crowd), "they wait still"
    finally:
        ended.set()
        await asyncio.gather(*crowd)
