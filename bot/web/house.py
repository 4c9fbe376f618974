"""What the browser's handlers and pages share: the deployment's parts, built once when Chainlit loads the chat."""

from __future__ import annotations

import asyncio
import hashlib
import json
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from bot.assembly import arm_parts, arm_spec, assemble
from bot.errors import SettingsError
from bot.escalation import PAUSED, Desk, channels
from bot.keeping import Keeping
from bot.parts import Parts
from bot.session import Arm
from bot.settings import Mode, masked, read_settings, study_of
from policies.study import Study

settings = read_settings()
study: Study = study_of(settings)
is_study = settings.mode is Mode.STUDY
desk = Desk(
    settings.data_dir,
    channels(settings),
    tell_from=settings.on_call_level,
    keeps_notices=is_study,
    stop_after=study.choices.stop_rule.imminent_a_day if is_study else None,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where somebody stands in the study.

    Attributes:
        arm: name of the condition; "" for a visitor of the demo.
        kind: what the dialogue does.
        parts: of a conversation in it.
    """

    arm: str
    kind: Arm
    parts: Parts


def _assembled() -> Parts:
    made = assemble(settings, desk=desk)
    return replace(made, asks_first=is_study, is_open=lambda: not is_closed())


parts = _assembled()
if parts.keeping is None:
    raise SettingsError("the chat keeps nothing, and cannot say so: this is a bug")
keeping: Keeping = parts.keeping
keeping.note_configuration(
    hashlib.sha256(repr(sorted({**masked(settings), "study": study.sha256}.items())).encode()).hexdigest()
)
_arms: dict[str, Parts] = {}
_building = asyncio.Lock()


def now() -> datetime:
    """The time, aware UTC."""
    return parts.clock()


def _day(days: int = 0) -> str:
    return (now() + timedelta(days=days)).date().isoformat()


def is_early() -> bool:
    """The study has not begun."""
    opens = study.choices.opens
    return is_study and opens is not None and _day() < opens.isoformat()


def is_closed() -> bool:
    """The study is over, or has not begun: nobody chats; what is held stays theirs to see and erase."""
    closes = study.choices.closes
    return is_early() or (is_study and closes is not None and _day() > closes.isoformat())


async def paused() -> dict[str, str] | None:
    """Since when, and why, nobody new is taken on; None where the study goes on."""
    found = await keeping.run(keeping.store.own, PAUSED)
    return json.loads(found) if found else None


async def place(person: str) -> Place:
    """The arm of somebody, with its parts.

    Raises:
        SettingsError: the study file no longer has their arm, or it cannot be run.
        PrivacyError: it does not open.
    """
    name = await keeping.run(keeping.accounts.arm, person)
    if name is None:
        return Place(arm="", kind=Arm.RAISE, parts=parts)
    async with _building:
        if name not in _arms:
            made = await asyncio.to_thread(arm_parts, parts, settings, study, name)
            _arms[name] = replace(made, desk=desk)
    return Place(arm=name, kind=Arm(arm_spec(study, name).kind), parts=_arms[name])


def _note_protocol() -> None:
    """That people were enrolled under another version of the study file than the one in force, once for each."""
    versions = {e.protocol for e in keeping.accounts.enrolments()}
    before = keeping.store.own("protocol")
    if versions - {study.protocol} and before not in (None, study.protocol):
        keeping.accounts.deviated("protocol-changed")
    if before != study.protocol:
        keeping.store.set_own("protocol", study.protocol)


def build_arms() -> None:
    """Every arm that somebody is in, and every one of the study: what cannot be run is said at the start.

    Raises:
        SettingsError: an arm cannot be run.
    """
    wanted = keeping.call(
        lambda _: {keeping.accounts.arm(e.person) for e in keeping.accounts.enrolments()}
    ) - {None}
    keeping.call(lambda _: _note_protocol())
    for name in sorted({*map(str, wanted), *(study.choices.arms if is_study else ())}):
        _arms[name] = replace(arm_parts(parts, settings, study, name), desk=desk)
