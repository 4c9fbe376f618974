"""Who is here: each person's conversation, in memory by their code, parked small when they are gone, taken up again after.

One conversation a person, on whichever device: a second page shows the same one. What somebody agreed to have kept is
dropped from memory once their page is closed; what nobody keeps is held, compressed, for a day.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bot.conversation import Conversation
from bot.keeping import Line
from bot.risk import state as risk_state
from bot.risk.verdict import RiskLevel
from bot.session import Arm, Session
from bot.web import house
from bot.web.house import Place, keeping, parts, settings
from privacy.consent import Scope
from privacy.placeholders import Placeholders

FORGET_AFTER_SECONDS = 24 * 3600
PARK_AFTER_SECONDS = 60.0
MOST_VISITORS = 5_000

log = logging.getLogger("raise.web.visitors")


@dataclass
class Visitor:
    """Somebody who is here, or was a moment ago.

    Attributes:
        code: pseudonym.
        place: where they stand in the study.
        conversation: theirs.
        seen_at: monotonic seconds.
        silence: answers silence after a card of danger.
        wants_new: "new chat" was pressed.
        coming: a message that was not answered when the program ended, or that their form told of danger.
    """

    code: str
    place: Place
    conversation: Conversation
    seen_at: float = field(default_factory=time.monotonic)
    silence: asyncio.Task[None] | None = None
    wants_new: bool = False
    coming: dict[str, Any] | None = field(default=None, repr=False)


visitors: dict[str, Visitor] = {}
parked: dict[str, tuple[float, int, bytes]] = {}
"""By code: when they were last here, the rank of their risk, and their conversation, compressed."""


def new_code() -> str:
    """A pseudonym that names nobody."""
    return "visitor-" + secrets.token_hex(12)


def is_anonymous(code: str) -> bool:
    """A visitor of the demo, who signed in nowhere."""
    return code.startswith("visitor-")


def fresh(code: str, place: Place, before: Session | None = None) -> Conversation:
    """A new conversation; risk, language, country, age and a safety plan survive a new chat; a form does too."""
    session = Session(
        seed=secrets.randbelow(1000),
        arm=place.kind,
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
            filled_in=before.filled_in,
            profile=before.profile if place.kind is Arm.CONTEXT_RICH else session.profile,
        )
    return Conversation(place.parts, session, person=code)


async def of(code: str) -> Visitor:
    """The visitor of a code: held in memory, parked, or taken up again from what they agreed to have kept.

    Raises:
        SettingsError: their arm cannot be run.
        PrivacyError: their arm does not open.
    """
    forget_old()
    found = visitors.get(code)
    if found is None:
        place = await house.place(code)
        conversation, coming = _unparked(code, place), None
        if conversation is None:
            conversation, coming = await _kept(code, place)
        made = Visitor(code, place, conversation or fresh(code, place), coming=coming)
        found = visitors.setdefault(code, made)
        parked.pop(code, None)
    found.seen_at = time.monotonic()
    return found


async def _kept(code: str, place: Place) -> tuple[Conversation | None, dict[str, Any] | None]:
    """The conversation as it was, mid-question and mid-message included, where it was kept and can be read."""
    found = await keeping.kept(code)
    if found is None:
        return None, None
    kept, live = found
    try:
        session = Session.from_json(json.loads(kept.state))
        for attribute in tuple(session.profile):
            if attribute.value not in live and session.turn:
                session = replace(session, profile=session.profile.without(attribute))
        places = Placeholders.from_json(kept.places)
        shown = [Line.from_json(line) for line in json.loads(kept.shown)]
        coming = json.loads(kept.coming) if kept.coming else None
    except (ValueError, KeyError, TypeError) as bad:
        log.error("a kept conversation was not read: %s", type(bad).__name__)
        return None, None
    made = Conversation(place.parts, session, person=code, places=places, session_id=kept.id, shown=shown)
    return made, coming


# ------------------------------------------------------------------------------------------------ parking


async def park(here: Collection[str]) -> None:
    """Make small who has no page open: dropped where their conversation is kept, compressed where it is not.

    Args:
        here: codes of those who have a page open.
    """
    now = time.monotonic()
    for code, visitor in list(visitors.items()):
        is_waited_for = visitor.silence is not None and not visitor.silence.done()
        is_gone = code not in here and now - visitor.seen_at > PARK_AFTER_SECONDS
        if not is_gone or is_waited_for or visitor.conversation.is_answering or visitor.coming:
            continue
        conversation = visitor.conversation
        session = conversation.session
        is_empty = not session.turn and not conversation.page.lines and not session.filled_in
        is_kept = not is_empty and conversation.is_kept and await keeping.allows(code, Scope.KEEP)
        if visitors.get(code) is not visitor or conversation.is_answering:
            continue
        if is_empty:
            keeping.consents.forget(code)
        elif not is_kept:
            parked[code] = (visitor.seen_at, session.risk.level.rank, _small(conversation))
        del visitors[code]


def _small(conversation: Conversation) -> bytes:
    raw = {
        "id": conversation.id,
        "state": conversation.session.to_json(),
        "places": conversation.places.to_json(),
        "shown": [line.to_json() for line in conversation.page.lines],
        "recent": conversation.recent(),
    }
    return zlib.compress(json.dumps(raw, ensure_ascii=False).encode())


def _unparked(code: str, place: Place) -> Conversation | None:
    if code not in parked:
        return None
    raw = json.loads(zlib.decompress(parked[code][2]))
    return Conversation(
        place.parts,
        Session.from_json(raw["state"]),
        person=code,
        places=Placeholders.from_json(raw["places"]),
        session_id=raw["id"],
        shown=[Line.from_json(line) for line in raw["shown"]],
        recent=raw["recent"],
    )


def forget_old() -> None:
    """Drop who has not been here for a day, and the longest away where there are too many; who is in danger goes last."""
    now = time.monotonic()
    for old in [c for c, v in visitors.items() if now - v.seen_at > FORGET_AFTER_SECONDS]:
        del visitors[old]
        keeping.consents.forget(old)
    for old in [c for c, (seen, _, _) in parked.items() if now - seen > FORGET_AFTER_SECONDS]:
        del parked[old]
        keeping.consents.forget(old)
    while len(visitors) >= MOST_VISITORS:
        del visitors[min(visitors, key=lambda c: (_rank(visitors[c]), visitors[c].seen_at))]
    while len(parked) >= MOST_VISITORS:
        oldest = min(parked, key=lambda c: (parked[c][1], parked[c][0]))
        del parked[oldest]
        keeping.consents.forget(oldest)


def forget(code: str) -> None:
    """Somebody has left the page for good: what runs for them is cancelled, what is held of them is dropped."""
    parked.pop(code, None)
    visitor = visitors.pop(code, None)
    if visitor is None:
        return
    visitor.conversation.leave()
    if visitor.silence is not None:
        visitor.silence.cancel()


def interrupt(code: str) -> None:
    """Consent was taken back: what is under way is cancelled, and nothing of it is kept."""
    visitor = visitors.get(code)
    if visitor is not None:
        visitor.conversation.leave()


def is_in_danger(code: str) -> bool:
    """Whether somebody here was shown who can help, and it still stands."""
    visitor = visitors.get(code)
    return visitor is not None and visitor.conversation.session.risk.level is not RiskLevel.NONE


def _rank(visitor: Visitor) -> int:
    return visitor.conversation.session.risk.level.rank


# ------------------------------------------------------------------------------------------------ a profile form


async def danger_in(texts: Sequence[str], conversation: Conversation) -> str | None:
    """What of these texts tells of danger, screened like messages, each alone and all together; None where nothing does."""
    found = [text for text in texts if text.strip()]
    for text in (*found, *([" ".join(found)] if len(found) > 1 else [])):
        if await conversation.noted(text) is None:
            return text
    return None


def nobody() -> Conversation:
    """A conversation of nobody in particular: for words of somebody who is not signed in, which are screened all the same.

    They see who can help. Nobody is told: a code that leads to nobody helps no one, and anybody could ring the bell.
    """
    alone = replace(parts, asks_first=False, desk=None)
    return fresh(new_code(), Place(arm="", kind=Arm.RAISE, parts=alone))


async def fill_in(code: str, told: Mapping[Any, str]) -> None:
    """A profile form was sent, before the chat: each text is screened, redacted and read like an answer.

    What tells of danger is answered as a message, with the card and the notice that belong to it, when the chat opens, after a
    restart too where keeping was agreed to.
    """
    visitor = await of(code)
    start = visitor.conversation.session
    danger = await danger_in(list(told.values()), visitor.conversation)
    made = await asyncio.to_thread(
        Conversation.start, visitor.place.parts, arm=visitor.place.kind, seed=start.seed, country=start.country,
        profile=dict(told), person=code,
    )  # fmt: skip
    session = replace(made.session, introduced=True, noticed_at=start.noticed_at, filled_in=True)
    if session.risk.level is not RiskLevel.NONE and danger is None:
        danger = " ".join(told.values())
    session = replace(session, risk=start.risk)
    conversation = Conversation(visitor.place.parts, session, person=code, places=made.places)
    visitor.conversation = conversation
    if danger is None:
        await conversation.keep_now()
        return
    line = Line(id=secrets.token_hex(16), is_theirs=True, move="", text=danger, is_own=True)
    visitor.coming = {**line.to_json(), "chosen": False}
    await conversation.keep_coming(line)
