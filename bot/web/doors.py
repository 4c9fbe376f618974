"""Signing in and out. A cookie is good while the store says so: signing out ends it, whoever holds a copy; staff can end all of a person's at once."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass

import chainlit as cl
from chainlit.auth import create_jwt
from chainlit.auth.cookie import clear_auth_cookie, get_token_from_cookies, set_auth_cookie
from chainlit.auth.jwt import decode_jwt
from chainlit.server import sio
from chainlit.session import WebsocketSession, ws_sessions_id
from fastapi import Request, Response

from bot.web import house, visitors
from bot.web.house import keeping
from bot.web.throttle import Throttle
from privacy import pins
from privacy.audit import EventKind
from privacy.store.accounts import STAFF, Role, Status, digest

WATCH_SECONDS = 1.0
"""How often open pages are compared with who is signed in; each message is, anyway."""
AT_ONCE = 2
"""PINs that are compared at the same time: it is slow by design, and others chat meanwhile."""

log = logging.getLogger("raise.web.doors")
throttle = Throttle(time.monotonic)
_comparing = asyncio.Semaphore(AT_ONCE)
shows_card: set[str] = set()
"""Open pages of who is signed out and was just shown who can help: they stay as they are, and do not load anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused(Exception):
    """Not signed in.

    Attributes:
        why: wrong, wait, deactivated, early or paused: which sentence the page shows.
        wait: seconds to wait, where that is why.
    """

    why: str
    wait: float = 0.0


def user(code: str) -> cl.User:
    """What a cookie holds: the code, and a number that makes each cookie another."""
    return cl.User(identifier=code, metadata={"n": secrets.token_hex(8)})


def token_of(cookies: Mapping[str, str]) -> str:
    """The token in a visitor's cookies, "" where there is none."""
    return get_token_from_cookies(dict(cookies)) or ""


def code_of(token: str) -> str | None:
    """Whom a token names; None for one that is stale or not ours."""
    if not token:
        return None
    try:
        return str(decode_jwt(token).identifier)
    except Exception as bad:  # noqa: BLE001 (a stale or foreign cookie is nobody's)
        log.info("a cookie was not read: %s", type(bad).__name__)
        return None


def is_staff(code: str) -> bool:
    """Whether somebody works for the study: they do not chat under that name."""
    return code.startswith(STAFF)


def who(request: Request) -> str | None:
    """The participant or visitor of a request; what is not signed in was taken out of it at the door (`Shield`)."""
    code = code_of(token_of(request.cookies))
    return None if code is None or is_staff(code) else code


def staff_of(request: Request) -> str | None:
    """The name of the staff's somebody who asks."""
    code = code_of(token_of(request.cookies))
    return code.removeprefix(STAFF) if code is not None and code.startswith(STAFF) else None


async def is_good(cookies: Mapping[str, str]) -> bool:
    """Whether the token in these cookies is good now."""
    token = token_of(cookies)
    code = code_of(token)
    return code is not None and await is_standing(code, token)


async def is_standing(code: str, token: str) -> bool:
    """Whether a token is good now. Fails closed: where the store cannot say, it is for nobody but a demo's visitors."""
    is_anonymous = visitors.is_anonymous(code)
    if is_anonymous and house.is_study:
        return False
    try:
        return await keeping.run(keeping.accounts.standing, code, token, is_anonymous=is_anonymous)
    except Exception as failed:  # noqa: BLE001 (sqlite's own)
        log.error("a cookie could not be checked: %s", type(failed).__name__)
        return is_anonymous


async def enter(code: str, pin: str, *, address: str) -> str:
    """A participant signs in: the code they are known by.

    Raises:
        Refused: they are not let in, and why.
    """
    code = pins.tidy_code(code)
    await _tried(code, address, pin, await keeping.run(keeping.accounts.pin_of, code))
    found = await keeping.run(keeping.accounts.enrolment, code)
    if found is None or found.status is not Status.ACTIVE:
        raise Refused(why="deactivated")
    if not found.first_at:
        if house.is_early():
            raise Refused(why="early")
        if await house.paused():
            raise Refused(why="paused")
    if not await keeping.run(keeping.accounts.came, code):
        raise Refused(why="wrong")
    return code


async def enter_staff(name: str, password: str, *, address: str) -> Role:
    """Somebody of the staff signs in, which is logged.

    Raises:
        Refused: they are not let in, and why.
    """
    name = name.strip().lower()[: pins.LONGEST]
    await _tried(STAFF + name, address, password, await keeping.run(keeping.accounts.password_of, name))

    def came() -> Role | None:
        keeping.accounts.staff_came(name)
        role = keeping.accounts.role(STAFF + name)
        counts: dict[str, int | str | bool] = {"staff": name, "role": str(role), "command": "sign in"}
        keeping.audit.append(EventKind.ACCESS, at=keeping.now(), counts=counts)
        return role

    role = await keeping.run(came)
    if role is None:
        raise Refused(why="wrong")
    return role


async def _tried(code: str, address: str, secret: str, found: tuple[str, bytes] | None) -> None:
    """Compare, as slowly as it must be.

    Raises:
        Refused: it is wrong, or it is too early to try again.
    """
    wait = throttle.wait(code, address)
    if wait > 0:
        raise Refused(why="wait", wait=wait)
    throttle.failed(code, address)  # before it is compared: tries that come at once all count
    await asyncio.sleep(throttle.delay(address))
    async with _comparing:
        is_right = await asyncio.to_thread(pins.verify, secret, found)
    if not is_right:
        raise Refused(why="wrong")
    throttle.passed(code, address)


async def welcome(request: Request, response: Response, code: str) -> None:
    """Signed in: the cookie is set, and stands in the store."""
    token = create_jwt(user(code))
    if not visitors.is_anonymous(code):
        await keeping.run(keeping.accounts.sign_in, code, token)
    set_auth_cookie(request, response, token)


async def leave(request: Request, response: Response, *, is_leaving: bool = False) -> None:
    """Signed out: the cookie is good for nobody any more, and pages that were open with it close.

    Args:
        request: with the cookie.
        response: that clears it.
        is_leaving: the page is on its way elsewhere, and must not be told to load anew.
    """
    token = token_of(request.cookies)
    code = code_of(token)
    clear_auth_cookie(request, response)
    if code is None:
        return
    is_anonymous = visitors.is_anonymous(code)
    await keeping.run(keeping.accounts.sign_out, code, token, is_anonymous=is_anonymous)
    for session in [s for s in list(ws_sessions_id.values()) if s.token == token]:
        await turn_out(session, reloads=not is_leaving)
    if visitors.is_anonymous(code):
        visitors.forget(code)


async def turn_out(session: WebsocketSession, *, reloads: bool = True) -> None:
    """Close an open page: it loads anew, and finds the door."""
    try:
        if reloads and session.id not in shows_card:
            await session.emit("reload", {})
        shows_card.discard(session.id)
        await sio.disconnect(session.socket_id)
        await session.delete()
    except Exception as failed:  # noqa: BLE001 (it may be gone already)
        log.error("a page was not closed: %s", type(failed).__name__)


async def watch() -> None:
    """Open pages of who is not signed in any more are closed, whichever process ended it."""
    while True:
        await asyncio.sleep(WATCH_SECONDS)
        try:
            if not ws_sessions_id:
                continue
            good, ended = await keeping.run(keeping.accounts.signed_in)
            for session in list(ws_sessions_id.values()):
                code = session.user.identifier if session.user is not None else ""
                mark = digest(session.token or "")
                is_out = mark in ended if visitors.is_anonymous(code) else good.get(mark) != code
                if is_out:
                    visitors.interrupt(code)
                    await turn_out(session, reloads=not visitors.is_in_danger(code))
        except Exception as failed:  # noqa: BLE001 (the next look may find it)
            log.error("who is signed in could not be looked at: %s", type(failed).__name__)
