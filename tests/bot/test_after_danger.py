"""What reviewers found people say in and after danger: heard rightly, answered for the right person, and a way out."""

from __future__ import annotations

from typing import Any

import pytest

from bot.conversation import Conversation
from bot.parts import Parts
from bot.responding import Words
from bot.risk import state as risk_state
from bot.risk.verdict import Category, RiskLevel, RiskState, Verdict
from policies.attributes import Attribute

DANGER = "I am going to kill myself tonight"


async def say(conversation: Conversation, *texts: str) -> Words:
    last: Words | None = None
    for text in texts:
        async for words in conversation.receive(text):
            last = words
    assert last is not None
    return last


@pytest.mark.parametrize(
    "text",
    [
        "I'm not safe",
        "i dont feel safe",
        "am I safe?",
        "I'll be safe soon",
        "I called no one",
        "no estoy a salvo",
    ],
)
async def test_these_are_no_statements_of_safety(parts: Parts, text: str) -> None:
    conversation = Conversation.start(parts, country="GB")
    words = await say(conversation, DANGER, text, text, text)
    assert conversation.session.risk.level is RiskLevel.IMMINENT and "999" in words.text
    assert "glad about that" not in words.text


@pytest.mark.parametrize(
    "text", ["I'm safe now", "an ambulance is here", "ok ringing them now", "estoy a salvo"]
)
async def test_these_are(parts: Parts, text: str) -> None:
    conversation = Conversation.start(parts, country="GB")
    assert "glad about that" in (await say(conversation, DANGER, text)).text
    await say(conversation, text)
    assert conversation.session.risk.level is RiskLevel.ELEVATED


async def test_once_safer_an_ordinary_tomorrow_brings_no_card_back(parts: Parts) -> None:
    conversation = Conversation.start(parts, country="GB")
    words = await say(
        conversation,
        "I'm going to kill myself tomorrow, the rope is ready",
        "I'm safe now, my sister is here",
        "yes I'm safe, she took the rope away",
        "how do I tell my boss I need tomorrow off?",
    )
    assert conversation.session.risk.level is RiskLevel.ELEVATED
    assert words.fields.get("reason") != "imminent_risk"


@pytest.mark.parametrize("reply", ["no one", "nobody cares", "nobody"])
async def test_loneliness_never_clears_a_wish_to_die(parts: Parts, reply: str) -> None:
    conversation = Conversation.start(parts, country="GB")
    await say(conversation, "I don't want to be alive any more, my husband left and I owe money", reply)
    assert "none" not in conversation.session.profile.tags(Attribute.SELF_HARM_HISTORY)


async def test_who_told_of_wanting_to_die_is_asked_how_near_it_is(parts: Parts) -> None:
    conversation = Conversation.start(parts, country="GB")
    words = await say(conversation, "I don't want to be alive any more, my husband left and I owe money")
    assert words.attribute is Attribute.SELF_HARM_HISTORY
    assert "right now" in words.text or "today" in words.text
    words = await say(conversation, "I have a plan or things ready")
    assert words.fields["reason"] == "imminent_risk"


@pytest.mark.parametrize(
    ("danger", "follow", "said", "unsaid"),
    [
        (
            "my dad collapsed and he isn't breathing properly",
            "shall I drive him?",
            "can't examine",
            "could hurt you",
        ),
        (
            "I've taken all my tablets",
            "do I really need hospital? I feel fine",
            "hours or days later",
            "That is enough",
        ),
        (
            "hes hitting my brother right now, im 11",
            "what will happen to me",
            "not in trouble",
            "could hurt you",
        ),
        (
            "my brother texted that he is going to hang himself tonight",
            "he is in his room",
            "a lot for them",
            "could hurt you",
        ),
        (
            "he has a knife and I'm locked in the bathroom",
            "what about the kids",
            "isn't your fault",
            "could hurt you",
        ),
        (
            "I'm going to stab him when he gets home",
            "i cant stop thinking",
            "Distance first",
            "could hurt you",
        ),
    ],
)
async def test_next_steps_fit_whose_danger_it_is(
    parts: Parts, danger: str, follow: str, said: str, unsaid: str
) -> None:
    words = await say(Conversation.start(parts, country="GB"), danger, follow)
    assert words.fields["reason"] == "imminent_risk"
    assert said in words.text and unsaid not in words.text


async def test_who_cannot_speak_is_shown_what_takes_a_text_first(parts: Parts) -> None:
    words = await say(Conversation.start(parts, country="GB"), DANGER, "I can't talk right now")
    assert words.text.index("85258") < words.text.index("116 123")
    words = await say(Conversation.start(parts, country="DE"), DANGER, "I can't talk right now")
    assert "no line there that takes a text" in words.text


async def test_the_list_is_not_shown_whole_for_ever(parts: Parts) -> None:
    conversation = Conversation.start(parts, country="GB")
    words = await say(conversation, DANGER, "hm", "hm", "hm")
    assert words.text.count("- **") == 1 and "999" in words.text


async def test_after_a_wish_to_die_few_words_are_stayed_with(parts: Parts) -> None:
    conversation = Conversation.start(parts, country="GB")
    words = await say(conversation, "I want to die", "...", "k", "...")
    assert "not sure I understood" not in words.text


async def test_another_kind_of_danger_gets_its_own_card(parts: Parts) -> None:
    words = await say(
        Conversation.start(parts, country="GB"),
        "I'm going to stab him when he gets home",
        "no, I mean me, I want to die",
    )
    assert "your life may be in danger" in words.text and "could be badly hurt" not in words.text


@pytest.mark.parametrize("text", ["/help", "I'm not safe", "UK"])
async def test_wherever_lines_are_shown_the_emergency_number_comes_before_them(
    parts: Parts, text: str
) -> None:
    words = await say(Conversation.start(parts, country="GB"), text)
    assert words.text.index("999") < words.text.index("116 123")


def test_signs_stay_within_a_conversation_and_end_only_with_a_new_one_after_ten_quiet_turns() -> None:
    state = RiskState(level=RiskLevel.ELEVATED, categories=(Category.SUICIDE,))
    for _ in range(12):
        state = risk_state.after(state, Verdict(), says_safe=False)
    assert state.level is RiskLevel.ELEVATED
    assert risk_state.at_new_conversation(state).level is RiskLevel.NONE
    fresh = RiskState(level=RiskLevel.ELEVATED, turns_since=9)
    assert risk_state.at_new_conversation(fresh) == fresh
    danger = RiskState(level=RiskLevel.IMMINENT, turns_since=99)
    assert risk_state.at_new_conversation(danger) == danger


@pytest.mark.parametrize(
    ("changes", "counted"),
    [
        ({"rules": ("meaning-imminent",)}, 1),
        ({"rules": ("x",), "by_combination": True}, 1),
        ({"rules": ("x",)}, 0),
    ],
)
def test_a_statement_of_safety_counts_where_only_likeness_speaks_against_it(
    changes: dict[str, Any], counted: int
) -> None:
    verdict = Verdict(level=RiskLevel.IMMINENT, categories=(Category.SUICIDE,), **changes)
    state = risk_state.after(RiskState(level=RiskLevel.IMMINENT), verdict, says_safe=True)
    assert state.level is RiskLevel.IMMINENT and state.safe_statements == counted
