"""The pages of a study before and after the chat: signing in and out, a profile form, questionnaires. They need no script."""

from __future__ import annotations

import json
import logging
from http import HTTPStatus
from math import ceil
from typing import Annotated, Any

from fastapi import FastAPI, Form, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.datastructures import FormData

from bot.export import SKIPPED
from bot.responding import Words
from bot.session import Arm
from bot.settings import Mode, Settings
from bot.web import pages
from policies.attributes import SPECS, Attribute
from policies.study import Item, Questionnaire
from privacy.consent import Scope, ToKeep
from privacy.errors import PrivacyError

LONGEST_TEXT = 4_000
"""Characters of one field that are read; the forms let nobody write more."""
SENTENCES = {
    "wrong": "That code and PIN don't go together. Please check both.",
    "wait": "There were too many wrong tries with this code. Please wait {minutes} minutes, or ask the study contact.",
    "deactivated": "This code is not in use any more. The study contact can tell you why.",
    "early": "The study has not begun yet.",
    "paused": "The study takes nobody new on at the moment. This says nothing about you; the study contact can tell you more.",
}

log = logging.getLogger("raise.web.study")


def add_routes(app: FastAPI, settings: Settings) -> None:
    """The routes. Call once the environment is prepared, as it loads Chainlit and the deployment."""
    from bot.web import doors, house, visitors  # noqa: PLC0415 (Chainlit loads late)
    from bot.web.house import keeping  # noqa: PLC0415

    is_demo = settings.mode is Mode.DEMO

    def door(code: str = "", told: str = "", status: HTTPStatus = HTTPStatus.OK) -> HTMLResponse:
        page = pages.render(
            "login.html", title="Sign in", told=told, code=code, action="/login", name_label="Study code",
            second_label="PIN", is_staff=False, is_demo=is_demo, contact=settings.study_contact,
        )  # fmt: skip
        return HTMLResponse(page, status)

    @app.get("/sign-in")
    async def login_page(code: str = "") -> Response:
        return door(code[:40])

    if not is_demo:  # in a demo this is where Chainlit's page gives each visitor a code of their own
        app.get("/login")(login_page)

    @app.post("/login")
    async def login(
        request: Request, username: Annotated[str, Form()] = "", password: Annotated[str, Form()] = ""
    ) -> Response:
        wants_page = "text/html" in request.headers.get("accept", "")
        address = request.client.host if request.client else ""
        try:
            code = await doors.enter(username, password, address=address)
        except doors.Refused as refused:
            told = SENTENCES[refused.why].format(minutes=max(1, ceil(refused.wait / 60)))
            status = {"wrong": HTTPStatus.UNAUTHORIZED, "wait": HTTPStatus.TOO_MANY_REQUESTS}.get(
                refused.why, HTTPStatus.FORBIDDEN
            )
            answer: Response = (
                door(username[:40], told, status)
                if wants_page
                else JSONResponse({"detail": told, "help": "/help"}, status)
            )
            if refused.wait:
                answer.headers["retry-after"] = str(ceil(refused.wait))
            return answer
        made: Response = (
            RedirectResponse("/", HTTPStatus.SEE_OTHER) if wants_page else JSONResponse({"success": True})
        )
        await doors.welcome(request, made, code)
        return made

    @app.get("/logout")
    async def logout_page() -> Response:
        lines = ["Whoever uses this browser after you then needs your code and PIN to see anything of yours."]
        page = pages.render(
            "plain.html", title="Sign out", lines=lines, button="Sign out", action="/logout",
            links=[("/", "Back to the chat")],
        )  # fmt: skip
        return HTMLResponse(page)

    @app.post("/logout")
    async def logout(request: Request) -> Response:
        wants_page = "text/html" in request.headers.get("accept", "")
        made: Response = (
            RedirectResponse("/sign-in" if is_demo else "/login", HTTPStatus.SEE_OTHER)
            if wants_page
            else JSONResponse({"success": True})
        )
        await doors.leave(request, made)
        made.headers["clear-site-data"] = '"cache", "storage"'
        return made

    # ------------------------------------------------------------------------------------------- before the chat

    async def gate(request: Request) -> str | None:
        """Where somebody must go before the chat opens; None where it opens."""
        person = doors.who(request)
        if doors.staff_of(request) is not None:
            return "/operator"
        if person is None:
            return None if is_demo else "/login"
        if house.is_closed():
            return "/closed"
        if visitors.is_anonymous(person):
            return None
        if not await keeping.allows(person, Scope.CHAT):
            return "/consent"
        if await pending(person, "before"):
            return "/questions/before"
        place = await house.place(person)
        if place.kind is Arm.CONTEXT_RICH:
            visitor = await visitors.of(person)
            if not (visitor.conversation.session.filled_in or visitor.conversation.session.turn):
                return "/about-you"
        return None

    app.state.gate = gate

    async def pending(person: str, occasion: str) -> list[Questionnaire]:
        """Questionnaires that are still to be asked of somebody who agreed to have answers kept."""
        asked = house.study.asked(occasion) if not is_demo else ()
        if not asked or not await keeping.allows(person, Scope.KEEP):
            return []
        found = []
        for one in asked:
            if not await keeping.run(keeping.records.has_responses, person, one.name, occasion):
                found.append(one)
        return found

    @app.get("/closed")
    async def closed() -> Response:
        lines = (
            ["The study has not begun yet."]
            if house.is_early()
            else ["The study is over. Thank you for taking part."]
        )
        lines.append("What is held about you is still yours to see, to take a copy of and to erase.")
        return HTMLResponse(
            pages.render(
                "plain.html", title="No chat now", lines=lines, button="", action="",
                links=[("/my-data", "My data"), ("/finish", "Last questions"), ("/logout", "Sign out")],
            )
        )  # fmt: skip

    async def fills_in(request: Request) -> str | None:
        """Who is to fill in the form now: of that arm, agreed, in a study that runs, before the first message; once."""
        person = doors.who(request)
        return person if person is not None and await gate(request) == "/about-you" else None

    @app.get("/about-you")
    async def about_you(request: Request) -> Response:
        if await fills_in(request) is None:
            return RedirectResponse("/", HTTPStatus.SEE_OTHER)
        fields = [{"name": a.value, "label": SPECS[a].label.capitalize()} for a in Attribute]
        return HTMLResponse(pages.render("about_you.html", fields=fields))

    @app.post("/about-you")
    async def about_you_told(request: Request) -> Response:
        form = await request.form()
        person = await fills_in(request)
        if person is None:
            return await unasked(request, form, "/")
        told = {} if form.get("skip") else {a: _text(form, a.value, LONGEST_TEXT) for a in Attribute}
        await visitors.fill_in(person, {a: text for a, text in told.items() if text})
        return RedirectResponse("/", HTTPStatus.SEE_OTHER)

    async def unasked(request: Request, form: FormData, then: str) -> Response:
        """A form that nobody waits for: whoever sent it, and however late, its words are screened before anything else."""
        person = doors.who(request)
        conversation = (await visitors.of(person)).conversation if person is not None else visitors.nobody()
        texts = [_text(form, name, LONGEST_TEXT) for name in form]
        danger = await visitors.danger_in([t for t in texts if not t.isdecimal()], conversation)
        if danger is None:
            return RedirectResponse(then, HTTPStatus.SEE_OTHER)
        told = [pages.marked(words) async for words in conversation.receive(danger)]
        return HTMLResponse(pages.render("feedback.html", turn=0, rate="", told=told))

    # ------------------------------------------------------------------------------------------- questionnaires

    @app.get("/finish")
    async def finish(request: Request) -> Response:
        person = doors.who(request)
        if person is not None and await pending(person, "after"):
            return RedirectResponse("/questions/after", HTTPStatus.SEE_OTHER)
        lines = [
            "Thank you. There is nothing more to answer. You can come back to the chat while the study runs."
        ]
        links = [("/", "Back to the chat"), ("/my-data", "My data"), ("/logout", "Sign out")]
        return HTMLResponse(
            pages.render("plain.html", title="Thank you", lines=lines, button="", action="", links=links)
        )

    @app.get("/questions/{occasion}")
    async def questions(request: Request, occasion: str) -> Response:
        person = doors.who(request)
        asked = await pending(person, occasion) if person is not None else []
        if not asked:
            return RedirectResponse("/", HTTPStatus.SEE_OTHER)
        return HTMLResponse(pages.render("questions.html", asked=asked, occasion=occasion, told=None))

    @app.post("/questions/{occasion}")
    async def questions_answered(request: Request, occasion: str) -> Response:
        person, form = doors.who(request), await request.form()
        asked = await pending(person, occasion) if person is not None else []
        then = "/" if occasion == "before" else "/finish"
        if person is None or not asked or not await keeping.allows(person, Scope.CHAT):
            return await unasked(request, form, then)
        visitor = await visitors.of(person)
        said: list[Words] = []
        for one in asked:
            values: dict[str, str] = {}
            for item in one.items:
                text = _text(form, f"{one.name}.{item.id}", LONGEST_TEXT)
                if item.kind == "text" and text:
                    safe = await visitor.conversation.noted(text)
                    if safe is None:
                        said += [words async for words in visitor.conversation.receive(text)]
                    text = safe or ""
                if text and not form.get("skip") and (value := _value(item, text)) is not None:
                    values[item.id] = json.dumps(value, ensure_ascii=False)
            await keep(person, one, occasion, values)
        if said:
            told = [pages.marked(words) for words in said]
            return HTMLResponse(pages.render("questions.html", asked=asked, occasion=occasion, told=told))
        return RedirectResponse(then, HTTPStatus.SEE_OTHER)

    async def keep(person: str, one: Questionnaire, occasion: str, values: dict[str, str]) -> None:
        """Kept where they agreed; that nothing was answered is kept too."""

        def write() -> None:
            grant = keeping.ledger.grant(person, ToKeep)
            if grant is not None:
                keeping.records.keep_responses(
                    grant,
                    person=person,
                    instrument=one.name,
                    occasion=occasion,
                    values=values or {SKIPPED: "{}"},
                )

        try:
            await keeping.run(write)
        except PrivacyError as failed:
            log.error("answers to a questionnaire were not kept: %s", type(failed).__name__)


def _text(form: FormData, name: str, most: int) -> str:
    found: Any = form.get(name, "")
    return found.strip()[:most] if isinstance(found, str) else ""


def _value(item: Item, text: str) -> dict[str, Any] | None:
    """An answer as it is kept; None for a point that is not on the scale."""
    if item.kind == "text":
        return {"text": text}
    return {"value": int(text)} if text.isdecimal() and 1 <= int(text) <= item.points else None
