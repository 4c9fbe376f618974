"""The AI notice again after three hours, hourly for a stated minor; silence answered; ever smaller steps."""

from __future__ import annotations

from typing import Any

import pytest

from bot.conversation import Conversation
from bot.parts import Parts
from bot.responding import Words

DANGER = "I am going to kill myself tonight"


async def say(conversation: Conversation, text: str) -> list[Words]:
    return [words async for words in conversation.receive(text)]


def notices(moves: list[Words]) -> list[str]:
    return [m.text for m in moves if "computer program (an AI)" in m.text]


async def test_the_notice_comes_again_after_three_hours(parts: Parts, clock: Any) -> None:
    conversation = Conversation.start(parts)
    assert len(notices(await say(conversation, "hello"))) == 1
    clock.move(hours=2, minutes=59)
    assert not notices(await say(conversation, "how do I ask for a raise?"))
    clock.move(minutes=2)
    assert "reminder" in notices(await say(conversation, "rather not say"))[0].lower()
    clock.move(hours=1, minutes=1)
    assert not notices(await say(conversation, "rather not say"))


async def test_hourly_for_a_stated_minor_with_a_break(parts: Parts, clock: Any) -> None:
    conversation = Conversation.start(parts)
    await say(conversation, "i'm 14, should i change schools?")
    clock.move(minutes=61)
    found = notices(await say(conversation, "rather not say"))
    assert found and "break" in found[0]
    clock.move(minutes=30)
    assert not notices(await say(conversation, "rather not say"))
    clock.move(minutes=31)
    assert notices(await say(conversation, "rather not say"))


async def test_the_notice_waits_while_danger_is_shown(parts: Parts, clock: Any) -> None:
    conversation = Conversation.start(parts, country="GB")
    await say(conversation, "hello")
    clock.move(hours=4)
    moves = await say(conversation, DANGER)
    assert len(moves) == 1 and moves[0].fields["reason"] == "imminent_risk"


async def test_silence_after_a_card_is_answered_twice_and_then_left(parts: Parts) -> None:
    conversation = Conversation.start(parts, country="GB")
    await say(conversation, DANGER)
    texts = []
    for _ in range(4):
        texts += [words.text async for words in conversation.silent()]
    assert len(texts) == 2 and all("999" in t for t in texts)
    assert len(texts[1].split()) < len(texts[0].split())
    await say(conversation, "ok")
    assert [w async for w in conversation.silent()]


async def test_silence_without_danger_is_left_alone(parts: Parts) -> None:
    conversation = Conversation.start(parts)
    await say(conversation, "how do I ask for a raise?")
    assert not [w async for w in conversation.silent()]


BRANCHES = {
    "they didn't pick up": "lines get busy",
    "i can't talk right now": "don't have to speak",
    "I don't want to call": "isn't the only way",
    "I'm safe now": "glad about that",
    "it was a joke": "won't argue",
}


@pytest.mark.parametrize("text", BRANCHES)
async def test_after_the_first_card_each_branch_stays_with_safety(parts: Parts, text: str) -> None:
    conversation = Conversation.start(parts, country="GB")
    card = (await say(conversation, DANGER))[-1]
    moves = await say(conversation, text)
    assert len(moves) == 1 and moves[0].move == "abstain" and moves[0].fields["reason"] == "imminent_risk"
    assert BRANCHES[text] in moves[0].text and "999" in moves[0].text
    assert len(moves[0].text.split()) < len(card.text.split())


async def test_each_next_step_asks_less(parts: Parts) -> None:
    conversation = Conversation.start(parts, country="GB")
    await say(conversation, DANGER)
    steps = []
    for text in ("they didn't pick up", "I don't want to call", "hm", "no idea", "hm"):
        steps.append((await say(conversation, text))[-1].text.rsplit(": ", 1)[-1])
    assert len(dict.fromkeys(steps[:4])) == 4, steps
    assert steps[3] == steps[4]
    assert len(steps[0].split()) >= 5


async def test_quick_replies_go_on_from_a_card(parts: Parts) -> None:
    conversation = Conversation.start(parts, country="GB")
    card = (await say(conversation, DANGER))[-1]
    assert card.offers == (
        "I'm safe now",
        "They didn't pick up",
        "I can't talk right now",
        "I don't want to call",
    )
    for label in card.offers:
        moves = await say(conversation, label)
        assert moves[-1].fields["reason"] == "imminent_risk" or label == "I'm safe now"
