"""A conversation goes on where it was: what stands on the page, and a message that was not answered yet."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot.conversation import Conversation
from bot.keeping import Keeping, Line
from bot.parts import Parts
from bot.session import Session
from policies import encoder
from privacy.consent import Scope
from privacy.placeholders import Placeholders
from tests.conftest import keeping_in

WORRY = "my wife Zebulonia left and I've stopped going to work, what do I do?"


@pytest.fixture
def keeping(tmp_path: Path, clock: Any) -> Iterator[Keeping]:
    made = keeping_in(tmp_path, clock=clock)
    yield made
    made.close()


@pytest.fixture
def whole(parts: Parts, keeping: Keeping, redactor: Any) -> Parts:
    return replace(parts, keeping=keeping, detector=redactor)


async def agreed(keeping: Keeping, person: str = "person-one") -> None:
    for scope in (Scope.CHAT, Scope.KEEP):
        await keeping.answer(person, scope, granted=True)


async def said(conversation: Conversation, text: str) -> list[Any]:
    return [words async for words in conversation.receive(text)]


async def again(whole: Parts, keeping: Keeping, person: str = "person-one") -> tuple[Conversation, Any]:
    """As after a restart: from what the store has."""
    kept, _ = await keeping.kept(person)
    made = Conversation(
        whole,
        Session.from_json(json.loads(kept.state)),
        person=person,
        places=Placeholders.from_json(kept.places),
        session_id=kept.id,
        shown=[Line.from_json(line) for line in json.loads(kept.shown)],
    )
    return made, json.loads(kept.coming) if kept.coming else None


async def test_the_page_is_the_same_after_a_restart_ids_included(whole: Parts, keeping: Keeping) -> None:
    await agreed(keeping)
    conversation = Conversation.start(whole, person="person-one", country="GB")
    words = [*await said(conversation, WORRY), *await said(conversation, "never")]
    restarted, coming = await again(whole, keeping)
    assert restarted.page.as_seen() == conversation.page.as_seen() and coming is None
    ours = [line for line in restarted.page.as_seen() if not line.is_theirs]
    assert [(line.id, line.text) for line in ours] == [(w.id, w.text) for w in words if not w.is_partial]
    assert [line.text for line in restarted.page.as_seen() if line.is_theirs] == [WORRY, "never"]
    assert len({line.id for line in restarted.page.as_seen()}) == len(restarted.page.as_seen())
    question = restarted.open_question()
    assert question is not None and question.id == ours[-1].id and question.choices


async def test_what_stands_on_the_page_is_kept_redacted_and_only_where_keeping_was_agreed_to(
    whole: Parts, keeping: Keeping, tmp_path: Path
) -> None:
    await agreed(keeping)
    conversation = Conversation.start(whole, person="person-one", country="GB")
    await said(conversation, WORRY)
    kept, _ = await keeping.kept("person-one")
    assert "Zebulonia" not in kept.shown and "<PERSON_1>" in kept.shown
    other = Conversation.start(whole, person="person-two", country="GB")
    await said(other, WORRY)
    assert await keeping.kept("person-two") is None and len(other.page.as_seen()) >= 2
    assert b"Zebulonia" not in b"".join(p.read_bytes() for p in tmp_path.rglob("*.db*"))


async def test_a_message_that_was_not_answered_is_answered_after_a_restart_once(
    whole: Parts, keeping: Keeping
) -> None:
    await agreed(keeping)
    conversation = Conversation.start(whole, person="person-one", country="GB")
    before = conversation.session
    line = Line(id="m-1", is_theirs=True, move="", text="my wife <PERSON_1> left, what do I do?")
    conversation.places.values["<PERSON_1>"] = "Zebulonia"
    await keeping.coming("person-one", conversation.id, before, line, conversation.places)
    restarted, coming = await again(whole, keeping)
    assert coming["id"] == "m-1" and restarted.in_words(coming) == "my wife Zebulonia left, what do I do?"
    words = [w async for w in restarted.go_on(coming)]
    assert words and [p.id for p in restarted.page.as_seen() if p.is_theirs] == ["m-1"]
    assert not [w async for w in restarted.go_on(coming)], "not twice"
    assert (await again(whole, keeping))[1] is None, "it is answered"


async def test_a_turn_that_is_done_again_has_the_same_ids(whole: Parts, keeping: Keeping) -> None:
    await agreed(keeping)
    conversation = Conversation.start(whole, person="person-one", country="GB", seed=3)
    twin = Conversation(whole, conversation.session, person="person-one", session_id=conversation.id)
    first, second = await said(conversation, WORRY), await said(twin, WORRY)
    assert [w.id for w in first] == [w.id for w in second] and all(w.id for w in first)


async def test_a_message_that_was_stopped_is_not_answered_after_a_restart(
    whole: Parts, keeping: Keeping
) -> None:
    await agreed(keeping)
    conversation = Conversation.start(whole, person="person-one", country="GB")
    await said(conversation, "how do I cite a website?")
    moves = conversation.receive(WORRY)
    talking = asyncio.ensure_future(anext(moves))
    for _ in range(200):
        await asyncio.sleep(0.005)
        if (await again(whole, keeping))[1] is not None or talking.done():
            break
    conversation.stop()
    ended: BaseException | None = None
    while ended is None:
        await asyncio.wait({talking})
        ended = asyncio.CancelledError() if talking.cancelled() else talking.exception()
        talking = asyncio.ensure_future(anext(moves)) if ended is None else talking
    assert isinstance(ended, StopAsyncIteration | asyncio.CancelledError)
    for _ in range(50):
        if (await again(whole, keeping))[1] is None:
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it is still coming")


async def test_erasing_one_answer_takes_the_page_with_it(whole: Parts, keeping: Keeping) -> None:
    await agreed(keeping)
    conversation = Conversation.start(whole, person="person-one", country="GB")
    await said(conversation, WORRY)
    await said(conversation, "an attempt years ago, nothing now")
    await keeping.run(keeping.rights.erase_item, "person-one", "attributes", "self_harm_history")
    kept, _ = await keeping.kept("person-one")
    assert kept.shown == "[]" and "years ago" not in kept.state


async def test_a_study_that_is_over_answers_with_help_and_danger_still_gets_its_card(whole: Parts) -> None:
    closed = replace(whole, is_open=lambda: False)
    conversation = Conversation.start(closed, person="person-one", country="GB")
    words = await said(conversation, WORRY)
    assert "isn't running now" in words[-1].text and words[-1].resources
    words = await said(conversation, "I am going to kill myself tonight")
    assert words[-1].fields.get("reason") == "imminent_risk" and "999" in words[-1].text


async def test_a_text_is_encoded_once_a_turn_and_nothing_is_known_of_it_afterwards(
    whole: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    brain = encoder.built_in()
    runs: list[int] = []

    class Counted:
        def run(self, *arguments: Any) -> Any:
            runs.append(arguments[1]["input_ids"].shape[1])
            return session.run(*arguments)

    session = brain._session
    monkeypatch.setattr(brain, "_session", Counted())
    monkeypatch.setattr(brain, "_most", 0)
    conversation = Conversation.start(whole, country="GB")
    moves = conversation.receive(WORRY)
    await anext(moves)
    assert WORRY in brain._held
    await moves.aclose()
    for _ in range(100):
        if not brain._held:
            break
        await asyncio.sleep(0.01)
    assert not brain._held, "a turn that is left forgets too"
    runs.clear()
    await said(Conversation.start(whole, country="GB"), WORRY)
    assert runs.count(max(runs)) == 1 and not brain._held


async def test_words_in_a_silence_after_danger_stand_on_the_page_too(whole: Parts) -> None:
    conversation = Conversation.start(whole, person="person-one", country="GB")
    await said(conversation, "I am going to kill myself tonight")
    before = len(conversation.page.as_seen())
    silent = [words async for words in conversation.silent()]
    assert silent and [line.id for line in conversation.page.as_seen()[before:]] == [w.id for w in silent]


async def test_a_conversation_that_begins_is_in_the_log_once(whole: Parts, keeping: Keeping) -> None:
    await agreed(keeping)
    conversation = Conversation.start(whole, person="person-one", country="GB")
    await said(conversation, WORRY)
    await said(conversation, "never")
    kinds = [event.kind for event in await keeping.run(lambda: list(keeping.audit.events()))]
    assert kinds.count("session") == 1


async def test_what_was_only_coming_goes_with_the_consent_to_keep_it(whole: Parts, keeping: Keeping) -> None:
    await agreed(keeping)
    conversation = Conversation.start(whole, person="person-one", country="GB")
    line = Line(id="m-1", is_theirs=True, move="", text="how do I ask for a day off?")

    async def tables() -> set[str]:
        held = await keeping.run(keeping.rights.held, "person-one")
        return {row.table for row in held}

    await keeping.coming("person-one", conversation.id, conversation.session, line, conversation.places)
    assert "sessions" in await tables()
    await keeping.answer("person-one", Scope.KEEP, granted=False)
    assert "sessions" not in await tables(), "nothing of that message is kept"

    await keeping.answer("person-one", Scope.KEEP, granted=True)
    await keeping.coming("person-one", conversation.id, conversation.session, line, conversation.places)
    await keeping.withdraw("person-one")
    await keeping.coming("person-one", conversation.id, conversation.session, None, conversation.places)
    assert "sessions" not in await tables(), "nor where it is settled after the withdrawal"


async def test_an_age_under_the_minimum_leaves_nothing_to_be_answered_later(
    whole: Parts, keeping: Keeping
) -> None:
    await agreed(keeping)
    conversation = Conversation.start(whole, person="person-one", country="GB")
    await said(conversation, "I'm 15 and my mum found out I skipped school, what do I do?")
    assert conversation.session.is_minor
    held = await keeping.run(keeping.rights.held, "person-one")
    assert not [row for row in held if row.table == "sessions"]


async def test_the_card_comes_though_putting_words_back_fails(
    whole: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation = Conversation.start(whole, person="person-one", country="GB")
    await said(conversation, "my wife Zebulonia left, what do I do?")

    def broken(*_: Any, **__: Any) -> str:
        raise RuntimeError

    monkeypatch.setattr(Placeholders, "restore", broken)
    words = await said(conversation, "I am going to kill myself tonight")
    assert "999" in words[-1].text and words[-1].resources
