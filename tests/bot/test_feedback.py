"""What a person says of an answer: screened, redacted, kept where they agreed, once an answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot.conversation import LONGEST_ANSWERED, Conversation
from bot.keeping import Keeping
from bot.parts import Parts
from bot.risk.verdict import RiskLevel
from policies.attributes import Attribute
from privacy.consent import Scope
from privacy.store.records import Held
from tests.conftest import InProcess, keeping_in

PERSON = "person-who-rates"


@pytest.fixture
def keeping(tmp_path: Path) -> Iterator[Keeping]:
    made: Any = keeping_in(tmp_path)
    yield made
    made.close()


@pytest.fixture
async def conversation(parts: Parts, keeping: Keeping, redactor: InProcess) -> Conversation:
    for scope in (Scope.CHAT, Scope.KEEP):
        await keeping.answer(PERSON, scope, granted=True)
    with_store = replace(parts, keeping=keeping, detector=redactor)  # type: ignore[arg-type]
    made = Conversation.start(with_store, person=PERSON, country="GB")
    _ = [w async for w in made.receive("how do I ask for a day off?")]
    return made


async def rated(conversation: Conversation, *, helped: bool, note: str = "") -> list[Any]:
    return [w async for w in conversation.rate(helped=helped, note=note)]


async def kept(keeping: Keeping) -> list[Held]:
    held = await keeping.run(keeping.rights.held, PERSON)
    return [row for row in held if row.table == "feedback"]


async def test_a_rating_is_kept_redacted_and_a_second_one_takes_its_place(
    conversation: Conversation, keeping: Keeping
) -> None:
    assert await conversation.may_be_rated()
    (told,) = await rated(conversation, helped=False, note="it forgot that Zebulonia Quartermaine left")
    assert told.move == "say" and "noted" in told.text
    (row,) = await kept(keeping)
    assert (
        row.fields["rating"] == 0 and "Zebulonia" not in row.fields["note"] and "left" in row.fields["note"]
    )
    session = await keeping.kept(PERSON)
    assert session is not None and "Zebulonia" in session[0].places, "so that My data can read it back"
    await rated(conversation, helped=True)
    (row,) = await kept(keeping)
    assert row.fields["rating"] == 1 and "left" in row.fields["note"], "a tap keeps the earlier sentence"


async def test_without_consent_to_keep_nobody_is_asked_and_nothing_is_kept(
    conversation: Conversation, keeping: Keeping
) -> None:
    await keeping.withdraw(PERSON)
    assert not await conversation.may_be_rated()
    (told,) = await rated(conversation, helped=True, note="fine")
    assert "wasn't kept" in told.text and not await kept(keeping)


async def test_a_note_that_tells_of_danger_is_answered_as_a_message(
    conversation: Conversation, keeping: Keeping
) -> None:
    moves = await rated(conversation, helped=False, note="useless. I am going to kill myself tonight")
    assert any(w.resources for w in moves) and conversation.session.risk.level is RiskLevel.IMMINENT
    assert not await kept(keeping) and not await conversation.may_be_rated()


async def test_a_damaged_or_slow_store_keeps_no_answer_back(
    conversation: Conversation, keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slow(*_: Any) -> bool:
        await asyncio.sleep(30)
        return True

    await keeping.run(lambda: keeping.store.db.execute("DROP TABLE consents"))
    assert not await conversation.may_be_rated()
    monkeypatch.setattr(keeping, "allows", slow)
    async with asyncio.timeout(5):
        assert not await conversation.may_be_rated()


async def test_a_note_that_is_too_long_is_screened_and_left_out(
    conversation: Conversation, keeping: Keeping
) -> None:
    (told,) = await rated(conversation, helped=True, note="thank you so much " * (LONGEST_ANSWERED // 10))
    assert "too long" in told.text
    (row,) = await kept(keeping)
    assert row.fields["rating"] == 1 and row.fields["note"] is None
    moves = await rated(conversation, helped=True, note="x " * LONGEST_ANSWERED + "I want to kill myself now")
    assert any(w.resources for w in moves)


async def test_a_note_of_no_answer_is_screened_all_the_same(
    conversation: Conversation, keeping: Keeping
) -> None:
    (told,) = [w async for w in conversation.rate(helped=None, note="fine", number=99)]
    assert "wasn't kept" in told.text and not await kept(keeping)
    moves = [
        w async for w in conversation.rate(helped=None, note="I am going to kill myself tonight", number=99)
    ]
    assert any(w.resources for w in moves)


async def test_while_there_is_danger_a_note_is_answered_as_a_message(
    conversation: Conversation, keeping: Keeping
) -> None:
    _ = [w async for w in conversation.receive("I am going to kill myself tonight")]
    moves = await rated(conversation, helped=False, note="you did not help at all")
    assert not any("noted" in w.text for w in moves) and not await kept(keeping)


async def test_a_models_opinion_can_raise_a_note(conversation: Conversation, keeping: Keeping) -> None:
    async def opinion(text: str, budget: Any) -> RiskLevel:
        del text, budget
        return RiskLevel.IMMINENT

    conversation._parts = replace(conversation._parts, opinion=opinion)
    moves = await rated(conversation, helped=False, note="the kettle knows")
    assert any(w.resources for w in moves) and not await kept(keeping)


async def test_whatever_fails_inside_ends_in_kind_words_and_help(
    conversation: Conversation, keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("the kettle knows")

    monkeypatch.setattr(Conversation, "_screened", broken)
    (told,) = await rated(conversation, helped=False, note="the kettle knows")
    assert told.resources and not await kept(keeping)


async def test_where_it_cannot_be_written_the_person_is_told(
    conversation: Conversation, keeping: Keeping
) -> None:
    await keeping.run(lambda: keeping.store.db.execute("DROP TABLE feedback"))
    (told,) = await rated(conversation, helped=True)
    assert "wasn't kept" in told.text


def test_programs_rate_on_a_line(tmp_path: Path) -> None:
    from bot.cli.chat import read_event
    from bot.errors import SettingsError

    event = read_event(json.dumps({"rate": "not", "note": "too long"}), 3)
    assert event.helped is False and event.text == "too long"
    for wrong in ({"rate": "maybe"}, {"rate": "not", "note": 3}):
        with pytest.raises(SettingsError, match="line 3"):
            read_event(json.dumps(wrong), 3)


async def test_an_answer_that_outlived_its_rule_leaves_a_chat_that_never_ended(
    conversation: Conversation, clock: Any, keeping: Keeping, redactor: InProcess
) -> None:
    """Somebody who writes every day stays in memory; what they felt a week ago is not sent or shown any more."""
    steady = conversation._parts.clock
    keeping._clock = steady  # type: ignore[assignment]
    _ = [w async for w in conversation.receive("my wife left and I've stopped going to work, what do I do?")]
    _ = [w async for w in conversation.receive("I'm 41 and I feel ashamed and numb")]
    known = set(conversation.session.profile)
    assert known >= {Attribute.AGE, Attribute.EMOTION}
    clock.move(days=7, seconds=-1)
    assert set(keeping.still_true(conversation.session).profile) == known
    clock.move(seconds=1)
    _ = [w async for w in conversation.receive("thanks")]
    assert (
        Attribute.EMOTION not in conversation.session.profile
        and Attribute.AGE in conversation.session.profile
    )
