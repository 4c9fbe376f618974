"""The one door, with real parts."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import pytest

from bot.conversation import Conversation, _raised_by_answer
from bot.dialogue import step
from bot.errors import ModelUnavailable
from bot.models.protocol import Draft
from bot.moves import AbstainMove, Rules, Said
from bot.parts import Parts
from bot.responding import Words
from bot.risk.clauses import ReadingStage
from bot.risk.screen import Screen
from bot.risk.stages import Stages
from bot.risk.verdict import RiskLevel, Verdict
from bot.session import Arm, Session, Topic
from bot.understanding import Assessment, Intent, Understood
from policies import thresholds
from policies.attributes import Answer, Attribute, Standing
from policies.domains import Domain, Stakes

WORRY = "my wife left and I've stopped going to work, what do I do?"


async def say(conversation: Conversation, text: str) -> list[Words]:
    return [words async for words in conversation.receive(text)]


class Broken:
    """A model whose every part fails, as a real one can."""

    name = "broken"

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def understand(self, *_: Any, **__: Any) -> Understood:
        raise self._error

    async def word(self, *_: Any, **__: Any) -> str:
        raise self._error

    async def compose(self, *_: Any, **__: Any) -> AsyncGenerator[str | Draft, None]:
        raise self._error
        yield ""


class Loud:
    """Understands like the real model and composes what it is told to."""

    name = "loud"

    def __init__(self, real: Any, sentences: tuple[str, ...]) -> None:
        self._real, self._sentences = real, sentences

    async def understand(self, *a: Any, **k: Any) -> Understood:
        return await self._real.understand(*a, **k)

    async def word(self, *a: Any, **k: Any) -> str:
        return await self._real.word(*a, **k)

    async def compose(self, *_: Any, **__: Any) -> AsyncGenerator[str | Draft, None]:
        yield Draft(sentences=self._sentences, used=())


async def test_a_failing_model_ends_in_kind_words_and_help(
    parts: Parts, caplog: pytest.LogCaptureFixture
) -> None:
    conversation = Conversation.start(
        replace(parts, model=Broken(RuntimeError("secret words of the person")))
    )
    with caplog.at_level(logging.DEBUG):
        moves = await say(conversation, WORRY)
    assert "not yours" in moves[-1].text and moves[-1].resources
    assert "secret words" not in caplog.text and "wife" not in caplog.text


async def test_a_failing_model_does_not_keep_the_crisis_card_away(parts: Parts) -> None:
    conversation = Conversation.start(replace(parts, model=Broken(RuntimeError("x"))))
    moves = await say(conversation, "I am going to kill myself tonight")
    assert (
        moves[-1].move == "abstain" and moves[-1].fields["reason"] == "imminent_risk" and moves[-1].resources
    )


async def test_a_failing_second_opinion_is_never_felt(parts: Parts) -> None:
    class Hangs:
        def deepen(self, *_: Any, **__: Any) -> Any:
            raise OSError("gone")

    conversation = Conversation.start(
        replace(parts, stages=Stages(Screen(), reading=ReadingStage(), semantic=Hangs()))
    )  # type: ignore[arg-type]
    moves = await say(conversation, "I am going to kill myself tonight")
    assert moves[-1].fields["reason"] == "imminent_risk"
    assert (await say(Conversation.start(replace(parts, stages=Stages(Screen()))), WORRY))[-1].move == "ask"


async def test_a_model_that_cannot_compose_ends_in_an_abstention_with_people(parts: Parts) -> None:
    class Mute(Loud):
        async def compose(self, *_: Any, **__: Any) -> AsyncGenerator[str | Draft, None]:
            raise ModelUnavailable("down")
            yield ""

    conversation = Conversation.start(replace(parts, model=Mute(parts.model, ())), arm=Arm.VANILLA)
    moves = await say(conversation, WORRY)
    assert (
        moves[-1].move == "abstain"
        and moves[-1].fields["reason"] == "model_unavailable"
        and moves[-1].resources
    )


@pytest.mark.parametrize(
    "bad", ["Call 0800 123 99 88 77 now.", "The quickest way to die is this.", "See www.helpnow-madeup.com"]
)
async def test_a_sentence_that_fails_the_guard_is_never_shown(parts: Parts, bad: str) -> None:
    model = Loud(parts.model, ("A kind beginning.", bad))
    moves = await say(Conversation.start(replace(parts, model=model), arm=Arm.VANILLA), WORRY)
    assert moves[-1].fields["reason"] == "guard"
    assert all(bad not in words.text and "kind beginning" not in words.text for words in moves)


async def test_a_long_message_is_screened_answered_kindly_and_not_taken_as_a_topic(parts: Parts) -> None:
    conversation = Conversation.start(parts)
    moves = await say(conversation, "The garden needs work this year, and so does the fence. " * 120)
    assert "too long" in moves[-1].text and conversation.session.topic is None
    moves = await say(conversation, "The garden needs work. " * 300 + "I am going to kill myself tonight.")
    assert moves[-1].fields["reason"] == "imminent_risk"


async def test_a_session_resumes_in_the_middle_of_a_question(parts: Parts) -> None:
    one = Conversation.start(parts, seed=4)
    await say(one, WORRY)
    written = json.dumps(one.session.to_json())
    other = Conversation(parts, Session.from_json(json.loads(written)))
    assert [w.text for w in await say(one, "ashamed")] == [w.text for w in await say(other, "ashamed")]


async def test_a_tap_on_a_question_that_is_closed_is_dropped(parts: Parts) -> None:
    conversation = Conversation.start(parts)
    first = (await say(conversation, WORRY))[-1]
    assert first.attribute is not None
    await say(conversation, "I'd rather not say")
    again = [w async for w in conversation.choose(first.choices[0], attribute=first.attribute)]
    assert again == []


async def test_the_context_rich_arm_answers_at_once_for_this_person(parts: Parts) -> None:
    profile = {Attribute.HEALTH: "20 weeks pregnant", Attribute.EMOTION: "scared", Attribute.AGE: "31"}
    conversation = Conversation.start(parts, arm=Arm.CONTEXT_RICH, profile=profile)
    moves = await say(conversation, "What can I take for back pain? It has been two weeks.")
    assert moves[-1].move == "answer" and "health" in moves[-1].fields["used"]


@pytest.mark.parametrize("arm", [Arm.FIXED_ORDER, Arm.RANDOM_ORDER])
async def test_other_arms_ask_in_their_order(parts: Parts, arm: Arm) -> None:
    asked = []
    conversation = Conversation.start(parts, arm=arm, seed=7)
    moves = await say(conversation, WORRY)
    while moves[-1].attribute is not None:
        asked.append(moves[-1].attribute)
        moves = await say(conversation, "prefer not to say")
    assert len(asked) >= 2
    if arm is Arm.FIXED_ORDER:
        assert asked[:3] == [Attribute.EMOTION, Attribute.MENTAL_STATE, Attribute.SELF_HARM_HISTORY]


async def test_what_is_stale_may_be_asked_anew(parts: Parts, clock: Any) -> None:
    conversation = Conversation.start(parts)
    await say(conversation, WORRY)
    await say(conversation, "just answer")
    await say(conversation, "I feel ashamed and scared")
    assert Attribute.EMOTION in conversation.session.profile
    clock.move(days=20)
    await say(conversation, "Different thing: my landlord wants me out by Friday, what can I do?")
    assert not conversation.session.profile.is_known(Attribute.EMOTION, at=clock())


@pytest.mark.parametrize(
    "words", ["Thoughts now", "yes", "sometimes, at night", "no but I've been looking up ways"]
)
async def test_yes_to_thoughts_of_self_harm_is_met_with_people(parts: Parts, words: str) -> None:
    conversation = Conversation.start(parts)
    moves = await say(conversation, WORRY)
    while moves[-1].attribute is not Attribute.SELF_HARM_HISTORY:
        moves = await say(conversation, "prefer not to say")
    moves = await say(conversation, words)
    assert any(w.resources for w in moves), [w.text[:60] for w in moves]
    assert conversation.session.risk.level.value != "none"


async def test_a_failing_screen_is_no_stack_trace(parts: Parts, caplog: pytest.LogCaptureFixture) -> None:
    class Breaks:
        def screen(self, *_: Any, **__: Any) -> Any:
            raise ValueError("secret words of the person")

    moves = await say(Conversation.start(replace(parts, stages=Stages(Breaks()))), WORRY)  # type: ignore[arg-type]
    assert moves[-1].resources and "not yours" in moves[-1].text
    assert "secret words" not in caplog.text


@pytest.mark.parametrize("changes", [False, True])
def test_a_hand_over_sticks_until_the_subject_changes(clock: Any, changes: bool) -> None:
    light = Assessment(domain=Domain.LIFE, group="moving_house", stakes=Stakes.LOW, weights={})
    grave = Assessment(
        domain=Domain.EDUCATION, group="teacher_boundary", stakes=Stakes.HIGH, weights={Attribute.AGE: 1.0}
    )
    session = Session(
        turn=3, introduced=True, topic=Topic(query="q", assessment=grave, settled=True, handed_over=True)
    )
    understood = Understood(
        intent=Intent.QUESTION, assessment=light, is_new_topic=True, changes_subject=changes
    )
    event = Said(at=clock(), text="t", verdict=Verdict(), understood=understood)
    done = step(session, event, Rules(thresholds=thresholds.shipped()))
    assert any(isinstance(m, AbstainMove) for m in done.moves) is not changes
    assert bool(done.effects) is changes


def test_an_answer_read_as_thoughts_now_is_elevated_even_where_no_rule_fired(clock: Any) -> None:
    told = Answer(standing=Standing.KNOWN, at=clock(), text="x", tags=frozenset({"current_thoughts"}))
    read = Understood(intent=Intent.ANSWER, facts={Attribute.SELF_HARM_HISTORY: told})
    assert _raised_by_answer(Verdict(), read).level is RiskLevel.ELEVATED
    steady = Answer(standing=Standing.KNOWN, at=clock(), text="x", tags=frozenset({"none"}))
    calm = Understood(intent=Intent.ANSWER, facts={Attribute.SELF_HARM_HISTORY: steady})
    assert _raised_by_answer(Verdict(), calm).level is RiskLevel.NONE


async def test_a_number_or_link_a_person_wrote_is_not_echoed(parts: Parts) -> None:
    conversation = Conversation.start(parts, arm=Arm.FIXED_ORDER)
    assert (await say(conversation, WORRY))[-1].attribute is Attribute.EMOTION
    said = await say(conversation, "mostly calm, I run evil-clinic.com and my desk is 555-123-4567")
    assert Attribute.EMOTION in conversation.session.profile
    assert all("555" not in w.text and "evil-clinic" not in w.text for w in said)


async def test_a_bare_no_in_a_crisis_is_no_country(parts: Parts) -> None:
    conversation = Conversation.start(parts)
    await say(conversation, "I am going to kill myself tonight")
    moves = await say(conversation, "no")
    assert conversation.session.country is None and "Norway" not in moves[-1].text
