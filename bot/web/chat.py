"""The Chainlit handlers. They decide nothing: text and taps go in at the one door, moves come out.

`chainlit run bot/web/chainlit_app.py` works for development; only `raise-chat serve` adds the origin check, the headers, the
closed routes and the clean-up of files.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import chainlit as cl
import chainlit.message
from chainlit.chat_context import chat_contexts
from chainlit.context import init_ws_context
from chainlit.server import sio
from chainlit.session import WebsocketSession, ws_sessions_id

from bot.conversation import Conversation
from bot.correcting import corrected
from bot.keeping import Line
from bot.responding import Words
from bot.risk.verdict import RiskLevel
from bot.web import doors
from bot.web.house import desk, is_study, keeping, parts, settings
from bot.web.visitors import (
    Visitor,
    danger_in,
    forget,
    fresh,
    is_anonymous,
    new_code,
    nobody,
    of,
    park,
    parked,
    visitors,
)
from policies.attributes import Attribute
from privacy.detector import Detector
from privacy.errors import PrivacyError
from privacy.gate import Sent
from privacy.placeholders import Placeholders

MOST_CHARACTERS = 200_000
"""Of a longer message the first and the last so many are read."""

# Chainlit sleeps for a millisecond, on the loop, each time a message is made: everybody's conversation waits for it.
chainlit.message.time = SimpleNamespace(sleep=lambda _: None)

log = logging.getLogger("raise.web.chat")
desk.write_through(keeping.call, keeping.note_escalation, keeping.note_pause, keeping.erased)
outside = parts.endpoint


class SignedOut(Exception):
    """Whoever writes is not signed in any more."""


async def _visitor() -> Visitor:
    """Who is here, as long as they are signed in.

    Raises:
        SignedOut: they are not, since a moment ago.
    """
    session = cl.context.session
    code = session.user.identifier
    if doors.is_staff(code) or not await doors.is_standing(code, session.token or ""):
        raise SignedOut
    return await of(code)


if is_study:

    @cl.password_auth_callback
    async def with_pin(code: str, pin: str) -> cl.User | None:
        """Tells Chainlit that people sign in with two fields; our own route, which comes first, lets them in."""
        del code, pin
        return None

else:

    @cl.header_auth_callback
    async def anonymous(_: Any) -> cl.User:
        """Each visitor gets an anonymous code of their own; it names nobody."""
        return doors.user(new_code())


# ------------------------------------------------------------------------------------------------ for the pages


def close() -> None:
    """The program ends: the files are closed, the redactor stopped."""
    if isinstance(parts.detector, Detector):
        parts.detector.close()
    keeping.close()


def local_ledger(code: str) -> list[Sent]:
    """What went to a model on this machine in this session."""
    visitor = visitors.get(code)
    return list(visitor.conversation.outbox.lines) if visitor and visitor.conversation.outbox else []


def in_memory(code: str) -> int:
    """Messages of the conversation that is held in memory."""
    visitor = visitors.get(code)
    return visitor.conversation.session.turn if visitor else 0


async def correct(code: str, attribute: Attribute, value: str) -> None:
    """Another answer in the place of one that is held, in memory and on disk."""
    visitor = visitors.get(code)
    places = visitor.conversation.places if visitor else Placeholders()
    try:
        answer = await corrected(parts, attribute, value, places)
    except PrivacyError as failed:
        log.error("a correction was not taken: %s", type(failed).__name__)
        return
    if visitor is not None:
        visitor.conversation.correct(attribute, answer)
    await keeping.correct(code, attribute, answer)


async def forget_in_memory(code: str, table: str, name: str) -> None:
    """What is erased on disk must not be written again from memory."""
    visitor = visitors.get(code)
    if visitor is None:
        return
    if table in {"sessions", "safety_plans"}:
        forget(code)
    elif table == "attributes":
        visitor.conversation.drop(Attribute(name))


# ------------------------------------------------------------------------------------------------ showing moves


def _actions(words: Words, turn: int) -> list[cl.Action]:
    """Taps that belong to a message; their ids follow from its own, so that showing it again makes no second ones."""
    if words.offers:
        made = [cl.Action(name="offer", payload={"label": label}, label=label) for label in words.offers]
    elif words.move != "ask" or words.attribute is None:
        return []
    else:
        payload = {"attribute": words.attribute.value, "turn": turn}
        made = [cl.Action(name="choose", payload={**payload, "label": c}, label=c) for c in words.choices]
        made.append(cl.Action(name="why", payload=payload, label="Why do you ask?"))
    return _numbered(made, words.id)


def _numbered(actions: list[cl.Action], message_id: str) -> list[cl.Action]:
    for number, action in enumerate(actions):
        if message_id:
            action.id = f"{message_id}.{number}"
    return actions


def _ratings(turn: int, message_id: str) -> list[cl.Action]:
    """Two taps that say what an answer was worth."""
    labels = {"helped": "This helped", "not": "This didn't help"}
    made = [
        cl.Action(name="rate", payload={"rate": rate, "turn": turn}, label=label)
        for rate, label in labels.items()
    ]
    return _numbered(made, message_id)


def _message(content: str, *, message_id: str = "", actions: list[cl.Action] | None = None) -> cl.Message:
    """A message of ours, under its own id where it has one."""
    made = cl.Message(content=content, actions=actions or [])
    if message_id:
        made.id = message_id
    return made


def linked(words: Words | Line) -> str:
    """The text with its numbers as links that a phone dials.

    Chainlit's markdown drops `tel:`; these go to a page of ours that holds the link, and `raise.js` makes them direct.
    """
    text = words.text
    for resource in words.resources:
        numbers = [resource.get("phone"), *resource.get("also", ())]
        for way, route, number in (
            *(("call", "call", n) for n in numbers),
            ("text", "text", resource.get("sms")),
        ):
            if number:
                digits = re.sub(r"[^\d*#+]", "", number)
                pattern = rf"(?i)\b({way} )({re.escape(number)})(?![\d\]])"
                text = re.sub(pattern, rf"\1[\2](/{route}/{digits})", text)
    return text


async def _show(moves: AsyncIterator[Words], conversation: Conversation) -> None:
    coming: cl.Message | None = None
    async for words in moves:
        if words.is_partial:
            coming = coming or _message("", message_id=words.id)
            await coming.stream_token(words.parts[0])
            continue
        if words.move == "answer":
            message = coming or _message("", message_id=words.id)
            coming = None
            if await conversation.may_be_rated():
                message.actions = _ratings(conversation.session.turn, message.id)
            if words.text.startswith(message.content):
                for part in re.split(r"(?<=\n)", words.text[len(message.content) :]):
                    await message.stream_token(part)
            else:
                message.content = words.text
            await message.update()
        else:
            if coming is not None:
                await coming.remove()
                coming = None
            actions = _actions(words, conversation.session.turn)
            message = _message(linked(words), message_id=words.id, actions=actions)
            await message.send()
        if message.actions:
            cl.user_session.set("open", message)


async def _close_question() -> None:
    message = cl.user_session.get("open")
    if message is not None:
        cl.user_session.set("open", None)
        await message.remove_actions()


async def _again(conversation: Conversation) -> None:
    """Everything that stands on the page, by the same ids: what is there already stays where it is, once."""
    emitter = cl.context.emitter
    for line in conversation.page.as_seen():
        shown = _message(line.text if line.is_theirs else linked(line), message_id=line.id)
        if line.is_theirs:
            shown.type, shown.author = "user_message", "You"
        # Without a parent: the step that runs now is one of another page, where nothing would hang on it.
        await emitter.send_step({**shown.to_dict(), "parentId": None})
    question = conversation.open_question()
    if question is None:
        return
    message = _message(linked(question), message_id=question.id)
    message.actions = _actions(question, conversation.session.turn)
    for action in message.actions:
        await emitter.emit("remove_action", {"id": action.id})
        await action.send(for_id=message.id)
    cl.user_session.set("open", message)


async def _elsewhere(visitor: Visitor) -> None:
    """The same person's other pages show what happened here."""
    mine = cl.context.session.id
    for session in list(ws_sessions_id.values()):
        is_theirs = session.user is not None and session.user.identifier == visitor.code
        if is_theirs and session.id != mine and await doors.is_standing(visitor.code, session.token or ""):
            init_ws_context(session)
            try:
                await _close_question()
                await _again(visitor.conversation)
            except Exception as failed:  # noqa: BLE001 (that page may be gone)
                log.error("another page was not brought up to date: %s", type(failed).__name__)
    init_ws_context(WebsocketSession.get_by_id(mine) or cl.context.session)


async def _safely(moves: AsyncIterator[Words], visitor: Visitor) -> None:
    """Whatever fails between us and the browser ends in kind words and help."""
    conversation = visitor.conversation
    if visitor.silence is not None:
        visitor.silence.cancel()
    try:
        await _show(moves, conversation)
        await _elsewhere(visitor)
        if conversation.session.risk.level is RiskLevel.IMMINENT:
            visitor.silence = asyncio.create_task(_keep_company(visitor))
    except Exception as failed:  # noqa: BLE001 (the browser's last door)
        log.error("showing failed: %s", type(failed).__name__)
        await cl.Message(content=linked(parts.responder.failure(conversation.session))).send()


async def _keep_company(visitor: Visitor) -> None:
    """Under danger, silence is answered: twice, each time asking less."""
    conversation = visitor.conversation
    for wait in (settings.silence_seconds, settings.silence_seconds * 3):
        await asyncio.sleep(wait)
        if visitor.conversation is not conversation:
            return
        try:
            await _close_question()
            await _show(conversation.silent(), conversation)
        except Exception as failed:  # noqa: BLE001 (the page may be gone; the card stands there when it comes back)
            log.error("silence not answered: %s", type(failed).__name__)
            return


# ------------------------------------------------------------------------------------------------ handlers


def _both_ends(text: str) -> str:
    """What is read of a message: all of it, or the beginning and the end of one that has no end."""
    return text[:MOST_CHARACTERS] + (text[-MOST_CHARACTERS:] if len(text) > MOST_CHARACTERS else "")


@cl.on_chat_start
async def start() -> None:
    """A page was opened, reloaded, or "new chat" was pressed."""
    try:
        visitor = await _visitor()
    except SignedOut:
        await doors.turn_out(cl.context.session)
        return
    except Exception as failed:  # noqa: BLE001 (an arm that cannot be run, a key that is missing)
        log.error("a conversation was not opened: %s", type(failed).__name__)
        await _help("not_started")
        return
    before = visitor.conversation.session
    if before.turn and visitor.wants_new:
        visitor.conversation = fresh(visitor.code, visitor.place, before)
    conversation, visitor.wants_new = visitor.conversation, False
    if conversation.page.lines:
        await _again(conversation)
    elif conversation.session.turn:
        await _show(conversation.where_we_were(), conversation)
    if visitor.coming is not None:
        coming, visitor.coming = visitor.coming, None
        await _echo(conversation.in_words(coming), coming["id"])
        await _safely(conversation.go_on(coming), visitor)
    elif before.risk.level is not RiskLevel.NONE:
        lines = conversation.welcome_back_in_danger(before)
        message = _message(linked(lines), message_id=lines.id, actions=_actions(lines, before.turn))
        await message.send()
        cl.user_session.set("open", message)
    elif not conversation.session.turn:
        await cl.Message(content=parts.responder.message("welcome")).send()


async def _help(key: str) -> None:
    """A message of ours with people who can help, where there is no conversation to say it in."""
    words = parts.responder.failure(nobody().session, key=key)
    await cl.Message(content=linked(words)).send()


async def _echo(text: str, message_id: str) -> None:
    """A message of the person's, as it stands on the page."""
    message = cl.Message(content=text, type="user_message", author="You")
    if message_id:
        message.id = message_id
    await message.send()


@cl.on_message
async def said(message: cl.Message) -> None:
    """Free text, beside quick replies too."""
    try:
        visitor = await _visitor()
    except SignedOut:
        await _unheard(message.content)
        return
    except Exception as failed:  # noqa: BLE001 (the same as when the page was opened)
        log.error("a message found no conversation: %s", type(failed).__name__)
        await _unheard(message.content, key="not_started")
        return
    await _close_question()
    moves = visitor.conversation.receive(_both_ends(message.content), message_id=message.id)
    await _safely(moves, visitor)


async def _unheard(text: str, *, key: str = "signed_out") -> None:
    """A message that belongs to nobody any more is screened all the same: danger gets its card, which stays."""
    conversation = nobody()
    if await danger_in([_both_ends(text)], conversation) is None:
        await _help(key)
    else:
        doors.shows_card.add(cl.context.session.id)
        await _show(conversation.receive(_both_ends(text)), conversation)
    if key == "signed_out":
        await doors.turn_out(cl.context.session)


def _is_open(payload: dict[str, Any], conversation: Conversation) -> bool:
    """Payloads come from the client: the question must be the open one of this very turn."""
    pending = conversation.session.pending
    return (
        pending is not None
        and payload.get("attribute") == pending.attribute.value
        and payload.get("turn") == conversation.session.turn
    )


async def _tapping() -> Visitor | None:
    """Who tapped something; None where they are signed out."""
    try:
        return await _visitor()
    except SignedOut:
        await _help("signed_out")
        await doors.turn_out(cl.context.session)
    except Exception as failed:  # noqa: BLE001 (as for a message)
        log.error("a tap found no conversation: %s", type(failed).__name__)
        await _help("not_started")
    return None


@cl.action_callback("choose")
async def chose(action: cl.Action) -> None:
    """A quick reply was tapped. A second tap, or one on an old question, is dropped."""
    visitor = await _tapping()
    if visitor is None:
        return
    conversation = visitor.conversation
    label = action.payload.get("label")
    if (
        not isinstance(label, str)
        or not _is_open(action.payload, conversation)
        or cl.user_session.get("busy")
    ):
        return
    cl.user_session.set("busy", True)
    try:
        await _close_question()
        echo = str(uuid4())
        await _echo(label, echo)
        attribute = Attribute(action.payload["attribute"])
        await _safely(conversation.choose(label, attribute=attribute, message_id=echo), visitor)
    finally:
        cl.user_session.set("busy", False)


@cl.action_callback("offer")
async def took_offer(action: cl.Action) -> None:
    """A way to go on was tapped: the same as writing it."""
    visitor = await _tapping()
    if visitor is None:
        return
    label = action.payload.get("label")
    if label not in parts.responder.every_offer() or cl.user_session.get("busy"):
        return
    cl.user_session.set("busy", True)
    try:
        await _close_question()
        echo = str(uuid4())
        await _echo(label, echo)
        await _safely(visitor.conversation.receive(label, message_id=echo), visitor)
    finally:
        cl.user_session.set("busy", False)


@cl.on_stop
async def stopped() -> None:
    """The person pressed stop: Chainlit has cancelled the turn, and with it the call to a model."""
    visitor = await _tapping()
    if visitor is None:
        return
    visitor.conversation.stop()
    await visitor.conversation.drop_coming()
    session = visitor.conversation.session
    if session.risk.level is RiskLevel.NONE:
        await cl.Message(content=parts.responder.message("stopped")).send()
    else:  # what was heard in the message sticks, and whoever stopped it sees who can help
        await cl.Message(content=linked(parts.responder.failure(session, key="stopped"))).send()


@cl.action_callback("why")
async def why(action: cl.Action) -> None:
    """The reason for the open question was asked for with a tap."""
    visitor = await _tapping()
    if visitor is None:
        return
    conversation = visitor.conversation
    if not _is_open(action.payload, conversation) or cl.user_session.get("busy"):
        return
    cl.user_session.set("busy", True)
    try:
        await _close_question()
        echo = str(uuid4())
        await _echo("Why do you ask?", echo)
        await _safely(conversation.receive("Why do you ask?", message_id=echo), visitor)
    finally:
        cl.user_session.set("busy", False)


@cl.action_callback("rate")
async def rated(action: cl.Action) -> None:
    """An answer was rated with a tap; a sentence more can be written on a page of its own."""
    visitor = await _tapping()
    if visitor is None:
        return
    number, rate = action.payload.get("turn"), action.payload.get("rate")
    is_answered = isinstance(number, int) and 0 < number <= visitor.conversation.session.turn
    if rate not in ("helped", "not") or not is_answered or cl.user_session.get("busy"):
        return
    cl.user_session.set("busy", True)
    try:
        await _close_question()
        async for words in visitor.conversation.rate(helped=rate == "helped", number=number):
            more = f" If you like, [say more](/feedback?turn={number}&rate={rate})."
            await cl.Message(content=linked(words) + more).send()
    finally:
        cl.user_session.set("busy", False)


async def rate(code: str | None, number: int, rating: str, note: str) -> list[Words]:
    """The same from the page, with a sentence; what the person is told.

    Whatever is wrong with the form, or with who sends it, the sentence passes the screen; only then does it matter
    whether there is an answer that it is said of.
    """
    visitor = await of(code) if code is not None else None
    conversation = visitor.conversation if visitor is not None else nobody()
    is_answered = rating in ("helped", "not") and 0 < number <= conversation.session.turn
    helped = rating == "helped" if is_answered else None
    return [w async for w in conversation.rate(helped=helped, note=_both_ends(note), number=number)]


# ------------------------------------------------------------------------------------------------ life cycle

_connected = sio.handlers["/"]["connection_successful"]


async def connection_successful(sid: str) -> None:
    """Chainlit does not replay what was emitted while the socket was down: send it again, by the same ids."""
    await _connected(sid)
    session = WebsocketSession.get(sid)
    if session and session.restored:
        init_ws_context(session)
        code = session.user.identifier if session.user is not None else ""
        if code in visitors and await doors.is_standing(code, session.token or ""):
            await _again(visitors[code].conversation)


sio.on("connection_successful", connection_successful)

_clear = sio.handlers["/"]["clear_session"]


async def clear_session(sid: str) -> None:
    """A new chat was asked for: what opens next begins anew; a reload goes on where it was."""
    session = WebsocketSession.get(sid)
    if session is not None and session.user is not None and session.user.identifier in visitors:
        visitors[session.user.identifier].wants_new = True
    await _clear(sid)


sio.on("clear_session", clear_session)


def here() -> set[str]:
    """Codes of those who have a page open."""
    return {s.user.identifier for s in list(ws_sessions_id.values()) if s.user is not None}


def pages_open() -> int:
    """Pages that are connected now; a page that is gone is remembered for a while, in case it comes back."""
    manager = sio.manager
    return sum(bool(manager.is_connected(s.socket_id, "/")) for s in list(ws_sessions_id.values()))


async def park_idle() -> None:
    """Make small who is gone, and forget who has left the study."""
    enrolled = await keeping.run(lambda: {e.person for e in keeping.accounts.enrolments()})
    for code in [c for c in (*visitors, *parked) if not is_anonymous(c) and c not in enrolled]:
        forget(code)
    await park(here())


_delete = WebsocketSession.delete


async def delete(self: WebsocketSession) -> None:
    """A session that is over leaves no transcript in memory (Chainlit keeps it for ever)."""
    await _delete(self)
    chat_contexts.pop(self.id, None)


WebsocketSession.delete = delete
