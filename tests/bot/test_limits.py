"""What a person lets themselves be asked: heard in their words, and kept."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from bot.abstention import Reason
from bot.acquisition import next_attribute
from bot.conversation import Conversation
from bot.limits import Limits, heard
from bot.risk.verdict import Category, RiskLevel, RiskState
from bot.session import Session
from bot.understanding import Assessment
from policies.attributes import PSYCHOLOGICAL, SPECS, Answer, Attribute, Profile, Standing
from policies.domains import Domain, Stakes
from policies.planning.policy import Policy

AT = datetime(2026, 11, 30, tzinfo=UTC)
M, E, C, H = Attribute.MENTAL_STATE, Attribute.EMOTION, Attribute.ECONOMIC_STATUS, Attribute.HEALTH


@pytest.mark.parametrize(
    ("text", "most", "never"),
    [
        ("Ask me at most one thing", 1, set()),
        ("Should I quit? You may ask two questions at most.", 2, set()),
        ("Please, no more than 3 questions", 3, set()),
        ("no questions please", 0, set()),
        ("don't ask me anything else", 0, set()),
        ("Never ask about my health", None, {H, M, Attribute.SELF_HARM_HISTORY}),
        ("Never ask about my physical health", None, {H}),
        ("please don’t ask me about money, or my family", None, {C, Attribute.MARITAL_STATUS}),
        ("I'd rather not talk about my mental health", None, {M}),
        ("my feelings are off limits", None, {E}),
        ("leave my job out of it", None, {Attribute.PROFESSION}),
        ("I'd rather you didn't ask about my marriage", None, {Attribute.MARITAL_STATUS}),
        ("my rent is due, but please don't ask me anything about money", None, {C}),
        ("you must not ask me about my school", None, {Attribute.EDUCATION}),
        ("No questions about my feelings please", None, {E}),
        ("I don't want to be asked about my age", None, {Attribute.AGE}),
        ("Stop asking about self-harm. And ask only one more question.", 1, {Attribute.SELF_HARM_HISTORY}),
    ],
)
def test_limits_are_heard(text, most, never):
    assert heard(text) == Limits(most=most, never=frozenset(never))


@pytest.mark.parametrize(
    "text",
    [
        "I have no money",
        "my boss asks me about my health every day",
        "just one question: can I take ibuprofen with wine?",
        "should I leave my family out of the will?",
        "I never talk about my feelings",
        "Is my age private?",
        "He never asks about my work",
        "She asked me two questions and left",
        "I don't know what to ask about my health",
        "how do I stop asking for money",
        "my parents don't ask me anything. I feel invisible",
        "they never ask about my work",
        "my doctor had no questions.",
        "I have no questions.",
        "I should not ask my family",
        "I don't ask my husband, he'd shout",
        "the visa form has at most 2 questions",
        "they ask only one question at the interview",
        "my boss told me to never ask about money",
        "she keeps my money",
        "he said don't mention my health to them",
        "I can't talk about my feelings with him",
        "I want to leave my job",
        "I can't keep my job and my family",
        "leave my husband?",
        "I just want to stay calm, and leave my husband",
        "should I pack and keep my job",
        "Is it wrong to keep the money and leave the family",
    ],
)
def test_what_is_no_limit_is_not_taken_for_one(text):
    assert heard(text) is None


async def said(conversation, text):
    return [words async for words in conversation.receive(text)]


def asked(words):
    return [w.attribute for w in words if w.move == "ask"]


async def test_at_most_one_thing_is_one_thing(parts):
    conversation = Conversation.start(parts)
    first = await said(
        conversation, "My wife left and I stopped going to work, what do I do? Ask me at most one thing."
    )
    assert len(asked(first)) == 1 and conversation.session.questions_left == 0
    then = await said(conversation, "low, not sleeping")
    assert not asked(then) and then[-1].move in ("answer", "abstain")


async def test_what_is_off_limits_is_never_asked_and_counts_as_declined(parts):
    conversation = Conversation.start(parts)
    words = await said(
        conversation, "my girlfriend left me last night. never ask about my feelings or my mental health"
    )
    for _ in range(5):
        assert not {M, E} & set(asked(words))
        assert conversation.session.profile.get(M).standing is Standing.DECLINED
        if not asked(words):
            break
        words = await said(conversation, "skip")
    assert words[-1].move in ("answer", "abstain")


async def test_a_limit_in_mid_interview_lets_the_open_question_go(parts):
    conversation = Conversation.start(parts)
    words = await said(conversation, "I lost my job and can't pay the rent, what now?")
    (open_,) = asked(words)
    names = {M: "my mental health", E: "my feelings", C: "money", H: "my health", Attribute.SELF_HARM_HISTORY: "self-harm",
             Attribute.MARITAL_STATUS: "my family", Attribute.PROFESSION: "my work", Attribute.AGE: "my age"}  # fmt: skip
    words = await said(conversation, f"please don't ask me about {names[open_]}")
    assert open_ not in asked(words)
    words = await said(conversation, "no more questions")
    assert not asked(words)


@pytest.mark.parametrize("text", ["no questions please", "don't ask me anything", "No more questions."])
async def test_a_wish_is_no_answer_to_the_open_question(parts, text):
    """ "No questions" must not be noted as "no, I have never hurt myself"."""
    conversation = Conversation.start(parts)
    words = await said(conversation, "my wife left and I've stopped going to work, what do I do?")
    (open_,) = asked(words)
    words = await said(conversation, text)
    assert conversation.session.profile.get(open_) is None or not conversation.session.profile.is_known(
        open_, at=AT
    )
    assert not asked(words)


def test_an_answer_beside_a_wish_is_still_read():
    assert not heard("I owe nine thousand. Ask me only one more question.").is_all
    assert heard("no more questions").is_all and heard("Please never ask about my health!").is_all


async def test_a_limit_can_be_lifted(parts):
    conversation = Conversation.start(parts)
    await said(
        conversation, "My wife left and I stopped going to work, what do I do? Ask me at most one thing."
    )
    assert conversation.session.questions_left == 0
    words = await said(conversation, "ok, you can ask me more")
    assert conversation.session.questions_left is None or asked(words)
    assert any("a little more" in w.text for w in words)


def test_what_lifts_a_limit_is_heard():
    for text in ("ask me anything", "ok you can ask more questions", "Fine. Ask whatever you need to know"):
        assert heard(text) == Limits(is_lifted=True)
    for text in ("can I ask you more about this?", "he asks me anything", "should I ask again?"):
        assert heard(text) is None


async def test_danger_is_met_whatever_was_limited(parts):
    conversation = Conversation.start(parts)
    words = await said(conversation, "no questions please. I am going to kill myself tonight")
    assert words[-1].move == "abstain" and words[-1].fields["reason"] == Reason.IMMINENT_RISK.value


def test_a_limit_survives_being_written_down():
    session = Session(questions_left=1)
    assert Session.from_json(session.to_json()) == session
    old = session.to_json()
    del old["questions_left"]
    assert Session.from_json(old).questions_left is None


def assessment(**more):
    policy = Policy(
        path=(M, C, E), base=3.1, headroom=1.3, worth={M: (0.9, 0.1), C: (0.6, 0.1), E: (0.5, 0.2)}, pairs={},
        gates={(M, "in_crisis", C): -0.8},
    )  # fmt: skip
    return Assessment(
        domain=Domain.CAREER, group="quitting", stakes=Stakes.HIGH, weights={M: 0.45, C: 0.3, E: 0.25}, policy=policy, **more
    )  # fmt: skip


def ask(profile=None, prices=None):
    return next_attribute(
        assessment(), profile or Profile(), at=AT, arm="raise", seed=0, asked=(), allowed=frozenset(Attribute),
        risk=RiskState(), prices=prices,
    )  # fmt: skip


def known(attribute, tag):
    return Profile().with_answer(
        attribute, Answer(standing=Standing.KNOWN, at=AT, text="x", tags=frozenset({tag}))
    )


def test_the_next_question_hangs_on_the_band_of_the_answer():
    steady = next(iter(SPECS[M].bands["strained"]))
    crisis = next(iter(SPECS[M].bands["in_crisis"]))
    assert ask().attribute is M
    assert ask(known(M, steady)).attribute is C
    assert ask(known(M, crisis)).attribute is E


def test_a_price_changes_what_is_asked_and_the_gain_is_told_in_points():
    free = ask()
    assert free.points == pytest.approx(1.3 * (1 - 2.718281828 ** (-0.9 / 1.3)), abs=0.01)
    dear = ask(prices={M: 2.0})
    assert dear.attribute is C and dear.price == 0.0


def test_an_assessment_is_written_and_read_with_its_policy():
    assert Assessment.from_json(assessment().to_json()) == assessment()


def test_where_danger_is_heard_no_price_keeps_a_question_back():
    """Safe first, private second."""
    dear = dict.fromkeys(Attribute, 20.0)
    risk = RiskState(level=RiskLevel.ELEVATED, categories=(Category.SUICIDE,))
    found = next_attribute(
        assessment(), Profile(), at=AT, arm="raise", seed=0, asked=(), allowed=frozenset(Attribute), risk=risk, prices=dear,
    )  # fmt: skip
    assert found.attribute in PSYCHOLOGICAL and found.price == 0.0
    assert ask(prices=dear).price == 20.0
