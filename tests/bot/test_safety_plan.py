"""A safety plan, built in conversation: offered, skippable, shown back in the person's words, safe in the middle."""

from __future__ import annotations

import json

import pytest

from bot.conversation import Conversation
from bot.parts import Parts
from bot.responding import Words
from bot.safety_plan import STEPS, SafetyPlan
from bot.session import Session


async def say(conversation: Conversation, text: str) -> list[Words]:
    return [words async for words in conversation.receive(text)]


ENTRIES = [
    "I stop answering messages and stay in bed",
    "walking the dog, old records",
    "the library on Mill Road",
    "my sister Jo, 07700 900123",
    "Dr Okafor at the surgery",
    "Jo keeps my spare medicine at hers",
]


async def test_it_is_offered_with_an_elevated_card_and_built_step_by_step(parts: Parts) -> None:
    conversation = Conversation.start(parts, country="GB")
    moves = await say(conversation, "I keep thinking everyone would be better off without me")
    assert "Make a safety plan" in [o for m in moves for o in m.offers]
    moves = await say(conversation, "Make a safety plan")
    assert "1 of 6" in moves[-1].text and moves[-1].offers == ("Skip this step", "Stop here")
    for number, entry in enumerate(ENTRIES, 2):
        moves = await say(conversation, entry)
        if number <= len(STEPS):
            assert f"{number} of 6" in moves[-1].text, entry
    shown = moves[-1]
    assert all(entry in shown.text for entry in ENTRIES) and shown.resources
    assert "I keep it beyond this session only if" in shown.text
    again = await say(conversation, "show me my plan")
    assert ENTRIES[0] in again[-1].text


async def test_steps_can_be_skipped_and_the_plan_stopped_and_taken_up_again(parts: Parts) -> None:
    conversation = Conversation.start(parts)
    await say(conversation, "safety plan")
    moves = await say(conversation, "Skip this step")
    assert "2 of 6" in moves[-1].text
    await say(conversation, ENTRIES[1])
    moves = await say(conversation, "Stop here")
    assert ENTRIES[1] in moves[-1].text and moves[-1].resources
    moves = await say(conversation, "safety plan")
    assert "1 of 6" in moves[-1].text


async def test_danger_in_the_middle_interrupts_and_the_plan_waits(parts: Parts) -> None:
    conversation = Conversation.start(parts, country="GB")
    await say(conversation, "safety plan")
    await say(conversation, ENTRIES[0])
    moves = await say(conversation, "it's no use, I'm going to kill myself tonight")
    assert moves[-1].fields["reason"] == "imminent_risk" and "999" in moves[-1].text
    moves = await say(conversation, ENTRIES[1])
    assert moves[-1].move == "abstain" and "of 6" not in moves[-1].text
    for text in ("I'm safe now, my sister is here", "yes I am safe, she took the pills away"):
        moves = await say(conversation, text)
    assert "Make a safety plan" in moves[-1].offers
    moves = await say(conversation, "Make a safety plan")
    assert "2 of 6" in moves[-1].text


async def test_a_sign_that_tells_of_danger_gets_lines_and_the_plan_goes_on(parts: Parts) -> None:
    conversation = Conversation.start(parts, country="GB")
    await say(conversation, "safety plan")
    moves = await say(conversation, "when I start to wish I was dead and that nobody would miss me")
    assert any(m.resources for m in moves) and "2 of 6" in moves[-1].text


async def test_words_that_could_harm_are_not_shown_back(parts: Parts) -> None:
    conversation = Conversation.start(parts)
    await say(conversation, "safety plan")
    await say(conversation, "I look up the lethal dose again")
    moves = await say(conversation, "Stop here")
    assert "lethal dose" not in moves[-1].text and "(in your own words)" in moves[-1].text


@pytest.mark.parametrize("text", ["my plan", "show my safety plan"])
async def test_no_plan_yet_is_said(parts: Parts, text: str) -> None:
    moves = await say(Conversation.start(parts), text)
    assert "no plan yet" in moves[-1].text and moves[-1].resources


def test_a_plan_survives_as_json_and_never_prints_its_words() -> None:
    plan = SafetyPlan().written("secret words").skipped()
    session = Session(plan=plan)
    assert Session.from_json(json.loads(json.dumps(session.to_json()))).plan == plan
    assert "secret" not in repr(session)
    assert plan.step == "places" and plan.resumed().step == "soothes"
