"""Reading answers in people's own words."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from bot.interview import Reader
from bot.understanding import Intent
from policies import questions
from policies.attributes import Answer, Attribute, Profile, Standing
from policies.domains import Domain
from policies.encoder import built_in

AT = datetime(2026, 11, 29, tzinfo=UTC)
A = Attribute


@pytest.fixture(scope="module")
def reader() -> Reader:
    return Reader(built_in())


def read(
    reader: Reader, text: str, pending: Attribute | None = None, profile: Profile | None = None, **more: Any
) -> Any:
    question = questions.shipped().get(pending, Domain.LIFE) if pending else None
    return reader.read(
        text,
        built_in().encode([text])[0],
        at=AT,
        pending=pending,
        profile=profile or Profile(),
        question=question,
        **more,
    )


@pytest.mark.parametrize(
    ("pending", "text", "tags"),
    [
        (A.AGE, "34 next month", {"adult"}),
        (A.AGE, "sixteen", {"teen"}),
        (A.AGE, "I'm in my early twenties", {"young_adult"}),
        (A.AGE, "71", {"older"}),
        (A.PROFESSION, "between jobs", {"unemployed"}),
        (A.PROFESSION, "nurse on nights", {"healthcare", "licensed", "shift_work"}),
        (A.MARITAL_STATUS, "divorced, two kids every other week", {"divorced", "children"}),
        (A.ECONOMIC_STATUS, "paycheck to paycheck, maxed the cards", {"no_savings", "debt"}),
        (A.HEALTH, "fine, nothing to report", {"good"}),
        (A.HEALTH, "20 weeks pregnant", {"pregnant"}),
        (A.HEALTH, "type 2 diabetes and I stopped my tablets", {"diabetes", "stopped_medication"}),
        (A.MENTAL_STATE, "94 days sober", {"in_recovery"}),
        (A.MENTAL_STATE, "depressed, on a waiting list", {"depressed", "untreated"}),
        (A.SELF_HARM_HISTORY, "no, never", {"none"}),
        (A.SELF_HARM_HISTORY, "an attempt when I was 19", {"past_attempt"}),
        (A.EMOTION, "ashamed and a bit numb", {"ashamed", "numb"}),
        (A.EMOTION, "mostly ok", {"calm"}),
    ],
)
def test_answers_in_any_wording(reader: Reader, pending: Attribute, text: str, tags: set[str]) -> None:
    answer = read(reader, text, pending).facts[pending]
    assert answer.standing is Standing.KNOWN
    assert tags <= answer.tags, answer.tags


@pytest.mark.parametrize("text", ["it comes and goes", "wounded", "my sister handles that"])
def test_words_without_a_band_are_still_an_answer(reader: Reader, text: str) -> None:
    assert read(reader, text, A.EMOTION).facts[A.EMOTION].standing is Standing.KNOWN


@pytest.mark.parametrize("text", ["asdkfjh qwlekjr", "?????", "zxcvbn mnbvcx"])
def test_keyboard_mash_is_not(reader: Reader, text: str) -> None:
    got = read(reader, text, A.EMOTION)
    assert A.EMOTION not in got.facts and got.intent is Intent.NONSENSE


@pytest.mark.parametrize(
    ("text", "intent"),
    [
        ("why do you ask?", Intent.WHY),
        ("what's that got to do with it", Intent.WHY),
        ("just answer me", Intent.JUST_ANSWER),
        ("stop asking so many questions", Intent.JUST_ANSWER),
        ("are you a real person?", Intent.HUMAN),
        ("are you a therapist?", Intent.THERAPIST),
        ("who reads this?", Intent.ABOUT),
        ("what have you understood so far about me?", Intent.MY_PROFILE),
        ("that's not what I said", Intent.DISPUTE),
        ("fuck off", Intent.RUDE),
    ],
)
def test_intents_beside_an_open_question(reader: Reader, text: str, intent: Intent) -> None:
    assert read(reader, text, A.HEALTH).intent is intent


@pytest.mark.parametrize(
    "text", ["I'd rather not", "pass", "skip", "none of your business", "not comfortable sharing that"]
)
def test_declining_is_not_not_knowing(reader: Reader, text: str) -> None:
    assert read(reader, text, A.SELF_HARM_HISTORY).facts[A.SELF_HARM_HISTORY].standing is Standing.DECLINED


@pytest.mark.parametrize("text", ["no idea", "hard to say", "I don't know"])
def test_not_knowing_is_not_declining(reader: Reader, text: str) -> None:
    assert read(reader, text, A.MENTAL_STATE).facts[A.MENTAL_STATE].standing is Standing.UNKNOWN


def test_several_facts_at_once(reader: Reader) -> None:
    facts = read(
        reader, "I'm a 52-year-old divorced woman, a bus driver with asthma, and money is tight"
    ).facts
    assert facts[A.AGE].tags == {"adult"}
    assert "divorced" in facts[A.MARITAL_STATUS].tags
    assert "driver" in facts[A.PROFESSION].tags
    assert "lung" in facts[A.HEALTH].tags


@pytest.mark.parametrize("text", ["nope", "no", "none of your business"])
def test_a_bare_no_answers_only_what_was_asked(reader: Reader, text: str) -> None:
    assert A.SELF_HARM_HISTORY not in read(reader, text, A.ECONOMIC_STATUS).facts


def test_a_correction_of_an_earlier_answer(reader: Reader) -> None:
    known = Profile({A.AGE: Answer(standing=Standing.KNOWN, at=AT, text="43", tags=frozenset({"adult"}))})
    got = read(reader, "actually I'm 34, not 43", A.HEALTH, known)
    assert got.intent is Intent.CORRECTION and got.facts[A.AGE].text == "34"


@pytest.mark.parametrize(
    "text", ["my son is 15 and rude", "she is 16 and pregnant", "I've been sober 17 days"]
)
def test_another_persons_age_is_not_the_askers(reader: Reader, text: str) -> None:
    assert A.AGE not in read(reader, text).facts


def test_what_is_denied_is_not_noted(reader: Reader) -> None:
    assert "diabetes" not in read(reader, "not diabetic, just overweight", A.HEALTH).facts[A.HEALTH].tags


def test_a_quick_reply_means_what_the_policy_says(reader: Reader) -> None:
    choice = questions.shipped().get(A.HEALTH, Domain.LIFE).choices[0]
    assert read(reader, choice.label, A.HEALTH, chosen=True).facts[A.HEALTH].tags == choice.tags
