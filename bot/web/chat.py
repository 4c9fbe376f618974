"""The Chainlit handlers. They decide nothing: text and taps go in at the one door, moves come out.

`chainlit run bot/web/chainlit_app.py` works for development; only `raise-chat serve` adds the origin check, the headers, the
closed routes and the clean-up of files.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any

import chainlit as cl
from chainlit.chat_context import chat_contexts
from chainlit.context import init_ws_context
from chainlit.server import sio
from chainlit.session import WebsocketSession

from bot.assembly import assemble
from bot.conversation import Conversation
from bot.correcting import corrected
from bot.errors import SettingsError
from bot.escalation import Desk, channels
from bot.keeping import Keeping
from bot.responding import Words
from bot.risk import state as risk_state
from bot.risk.verdict import RiskLevel
from bot.session import Session
from bot.settings import Mode, masked, read_settings
from policies.attributes import Attribute
from privacy.detector import Detector
from privacy.errors import PrivacyError
from privacy.gate import Sent
from privacy.placeholders import Placeholders

FORGET_AFTER_SECONDS = 24 * 3600
MOST_VISITORS = 5_000
MOST_CHARACTERS = 200_000
"""Of a longer message the first and the last so many are read."""

log = logging.getLogger("raise.web.chat")
settings = read_settings()
desk = Desk(settings.data_dir, channels(settings), tell_from=settings.on_call_level)
parts = replace(assemble(settings, desk=desk), asks_first=settings.mode is Mode.STUDY)
if parts.keeping is None:
    raise SettingsError("the chat keeps nothing, and cannot say so: this is a bug")
keeping: Keeping = parts.keeping
keeping.note_configuration(hashlib.sha256(repr(sorted(masked(settings).items())).encode()).hexdigest())
desk.write_through(keeping.call, keeping.note_escalation)
outside = parts.endpoint


@dataclass
class Visitor:
    """One anonymous visitor of the demo: a conversation in memory and nowhere else."""

    conversation: Conversation
    seen_at: float = field(default_factory=time.monotonic)
    silence: asyncio.Task[None] | None = None
    wants_new: bool = False


visitors: dict[str, Visitor] = {}


def _fresh(code: str, before: Session | None = None) -> Conversation:
    """A new conversation; risk, language, country, age and a safety plan survive a new chat, nothing else."""
    session = Session(
        seed=secrets.randbelow(1000),
        country=settings.country or None,
        introduced=True,
        noticed_at=parts.clock(),
    )
    if before is not None:
        session = replace(
            session,
            country=before.country or session.country,
            risk=risk_state.at_new_conversation(before.risk),
            card=before.card,
            is_minor=before.is_minor,
            language=before.language,
            smaller=before.smaller,
            plan=before.plan and before.plan.paused(),
        )
    return Conversation(parts, session, person=code)


def forget_old() -> None:
    """Drop who has not been here for a day, and the longest away where there are too many."""
    now = time.monotonic()
    for old in [c for c, v in visitors.items() if now - v.seen_at > FORGET_AFTER_SECONDS]:
        del visitors[old]
    while len(visitors) >= MOST_VISITORS:
        del visitors[min(visitors, key=lambda c: (_rank(visitors[c]), visitors[c].seen_at))]


def forget(code: str) -> None:
    """A visitor has left the page for good: what runs for them is cancelled, what is held of them is dropped."""
    visitor = visitors.pop(code, None)
    if visitor is None:
        return
    visitor.conversation.leave()
    if visitor.silence is not None:
        visitor.silence.cancel()


def _rank(visitor: Visitor) -> int:
    """Who is in danger is forgotten last."""
    return visitor.conversation.session.risk.level.rank


async def _visitor() -> Visitor:
    """Who is here: held in memory, or taken up again from what they agreed to have kept."""
    return await _of(cl.context.session.user.identifier)


async def _of(code: str) -> Visitor:
    """The visitor of a code, the same way."""
    forget_old()
    found = visitors.get(code)
    if found is None:
        resumed = await _kept(code)
        found = visitors.setdefault(code, Visitor(resumed or _fresh(code)))
    found.seen_at = time.monotonic()
    return found


async def _kept(code: str) -> Conversation | None:
    """The conversation as it was, mid-question included, where it was kept and can be read."""
    found = await keeping.kept(code)
    if found is None:
        return None
    kept, live = found
    try:
        session = Session.from_json(json.loads(kept.state))
        for attribute in tuple(session.profile):
            if attribute.value not in live:
                session = replace(session, profile=session.profile.without(attribute))
        places = Placeholders.from_json(kept.places)
    except (ValueError, KeyError, TypeError) as bad:
        log.error("a kept conversation was not read: %s", type(bad).__name__)
        return None
    return Conversation(parts, session, person=code, places=places, session_id=kept.id)


def new_code() -> str:
    """A pseudonym that names nobody."""
    return "visitor-" + secrets.token_hex(12)


@cl.header_auth_callback
async def anonymous(_: Any) -> cl.User:
    """Each visitor gets an anonymous code of their own; it names nobody."""
    return cl.User(identifier=new_code())


# ------------------------------------------------------------------------------------------------ for the pages


def close() -> None:
    """The program ends: the files are closed, the redactor stopped."""
    if isinstance(parts.detector, Detector):
        parts.detector.close()
    keeping.close()


def interrupt(code: str) -> None:
    """Consent was taken back: what is under way is cancelled, and nothing of it is kept."""
    visitor = visitors.get(code)
    if visitor is not None:
        visitor.conversation.leave()


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
    if words.offers:
        return [cl.Action(name="offer", payload={"label": label}, label=label) for label in words.offers]
    if words.move != "ask" or words.attribute is None:
        return []
    payload = {"attribute": words.attribute.value, "turn": turn}
    made = [cl.Action(name="choose", payload={**payload, "label": c}, label=c) for c in words.choices]
    return [*made, cl.Action(name="why", payload=payload, label="Why do you ask?")]


def _ratings(turn: int) -> list[cl.Action]:
    """Two taps that say what an answer was worth."""
    labels = {"helped": "This helped", "not": "This didn't help"}
    return [
        cl.Action(name="rate", payload={"rate": rate, "turn": turn}, label=label)
        for rate, label in labels.items()
    ]


def linked(words: Words) -> str:
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
            coming = coming or cl.Message(content="")
            await coming.stream_token(words.parts[0])
            continue
        if words.move == "answer":
            message = coming or cl.Message(content="")
            coming = None
            if await conversation.may_be_rated():
                message.actions = _ratings(conversation.session.turn)
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
            message = cl.Message(content=linked(words), actions=_actions(words, conversation.session.turn))
            await message.send()
        if message.actions:
            cl.user_session.set("open", message)


async def _close_question() -> None:
    message = cl.user_session.get("open")
    if message is not None:
        cl.user_session.set("open", None)
        await message.remove_actions()


async def _safely(moves: AsyncIterator[Words], visitor: Visitor) -> None:
    """Whatever fails between us and the browser ends in kind words and help."""
    conversation = visitor.conversation
    if visitor.silence is not None:
        visitor.silence.cancel()
    try:
        await _show(moves, conversation)
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
    visitor = await _visitor()
    before = visitor.conversation.session
    is_back = bool(before.turn) and not visitor.wants_new
    if before.turn and visitor.wants_new:
        visitor.conversation = _fresh(cl.context.session.user.identifier, before)
    visitor.wants_new = False
    if before.risk.level is RiskLevel.NONE:
        if is_back:
            await _show(visitor.conversation.where_we_were(), visitor.conversation)
        else:
            await cl.Message(content=parts.responder.message("welcome")).send()
        return
    lines = parts.responder.failure(before, key="welcome_back_risk")
    message = cl.Message(content=linked(lines), actions=_actions(lines, before.turn))
    await message.send()
    cl.user_session.set("open", message)


@cl.on_message
async def said(message: cl.Message) -> None:
    """Free text, beside quick replies too."""
    visitor = await _visitor()
    await _close_question()
    await _safely(visitor.conversation.receive(_both_ends(message.content)), visitor)


def _is_open(payload: dict[str, Any], conversation: Conversation) -> bool:
    """Payloads come from the client: the question must be the open one of this very turn."""
    pending = conversation.session.pending
    return (
        pending is not None
        and payload.get("attribute") == pending.attribute.value
        and payload.get("turn") == conversation.session.turn
    )


@cl.action_callback("choose")
async def chose(action: cl.Action) -> None:
    """A quick reply was tapped. A second tap, or one on an old question, is dropped."""
    visitor = await _visitor()
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
        await cl.Message(content=label, type="user_message", author="You").send()
        await _safely(conversation.choose(label, attribute=Attribute(action.payload["attribute"])), visitor)
    finally:
        cl.user_session.set("busy", False)


@cl.action_callback("offer")
async def took_offer(action: cl.Action) -> None:
    """A way to go on was tapped: the same as writing it."""
    visitor = await _visitor()
    label = action.payload.get("label")
    if label not in parts.responder.every_offer() or cl.user_session.get("busy"):
        return
    cl.user_session.set("busy", True)
    try:
        await _close_question()
        await cl.Message(content=label, type="user_message", author="You").send()
        await _safely(visitor.conversation.receive(label), visitor)
    finally:
        cl.user_session.set("busy", False)


@cl.on_stop
async def stopped() -> None:
    """The person pressed stop: Chainlit has cancelled the turn, and with it the call to a model."""
    (await _visitor()).conversation.stop()
    await cl.Message(content=parts.responder.message("stopped")).send()


@cl.action_callback("why")
async def why(action: cl.Action) -> None:
    """The reason for the open question was asked for with a tap."""
    visitor = await _visitor()
    conversation = visitor.conversation
    if not _is_open(action.payload, conversation) or cl.user_session.get("busy"):
        return
    cl.user_session.set("busy", True)
    try:
        await _close_question()
        await cl.Message(content="Why do you ask?", type="user_message", author="You").send()
        await _safely(conversation.receive("Why do you ask?"), visitor)
    finally:
        cl.user_session.set("busy", False)


@cl.action_callback("rate")
async def rated(action: cl.Action) -> None:
    """An answer was rated with a tap; a sentence more can be written on a page of its own."""
    visitor = await _visitor()
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
    visitor = await _of(code) if code is not None else None
    conversation = visitor.conversation if visitor is not None else _fresh(new_code())
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
        context = init_ws_context(session)
        for message in cl.chat_context.get():
            await context.emitter.send_step(message.to_dict())
        question = cl.user_session.get("open")
        if question is not None:
            for action in question.actions:
                await action.send(for_id=question.id)


sio.on("connection_successful", connection_successful)

_clear = sio.handlers["/"]["clear_session"]


async def clear_session(sid: str) -> None:
    """A new chat was asked for: what opens next begins anew; a reload goes on where it was."""
    session = WebsocketSession.get(sid)
    if session is not None and session.user is not None and session.user.identifier in visitors:
        visitors[session.user.identifier].wants_new = True
    await _clear(sid)


sio.on("clear_session", clear_session)

_delete = WebsocketSession.delete


async def delete(self: WebsocketSession) -> None:
    """A session that is over leaves no transcript in memory (Chainlit keeps it for ever)."""
    await _delete(self)
    chat_contexts.pop(self.id, None)


WebsocketSession.delete = delete
