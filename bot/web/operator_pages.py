"""`/operator`: what whoever runs a study must see at any moment, and nothing that they need not; `/readyz` for the monitor.

Behind a name, a password and a role. No words of anybody's, no arm; reading a conversation needs a reason, which is logged first.
"""

from __future__ import annotations

import logging
from http import HTTPStatus
from math import ceil
from typing import Annotated, Any

from fastapi import FastAPI, Form, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from bot.errors import SettingsError
from bot.health import look
from bot.operating import ACTIONS, OUTCOMES, PAUSE_WHY, WHY, Operating
from bot.settings import Settings
from bot.web import pages
from bot.web.audit_page import columns
from bot.web.study_pages import SENTENCES
from privacy import pins
from privacy.errors import AuditBroken, PrivacyError
from privacy.store import figures
from privacy.store.accounts import STAFF, Role

log = logging.getLogger("raise.web.operator")


def add_routes(app: FastAPI, settings: Settings) -> None:
    """The routes. Call once the environment is prepared, as it loads Chainlit and the deployment."""
    from bot.web import chat, doors, house, visitors  # noqa: PLC0415 (Chainlit loads late)
    from bot.web.house import keeping  # noqa: PLC0415

    operating = Operating(keeping)
    began = keeping.now()

    def door(told: str = "", status: HTTPStatus = HTTPStatus.OK) -> HTMLResponse:
        page = pages.render(
            "login.html", title="Study staff", told=told, code="", action="/operator/login", name_label="Name",
            second_label="Password", is_staff=True, is_demo=False, contact="",
        )  # fmt: skip
        return HTMLResponse(page, status)

    async def role_of(request: Request) -> tuple[str, Role] | None:
        name = doors.staff_of(request)
        role = await keeping.run(keeping.accounts.role, STAFF + name) if name is not None else None
        return (name, role) if name is not None and role is not None else None

    @app.get("/readyz")
    async def readyz(request: Request) -> Response:
        """Ready to take people: every part that is needed works. Details for this machine alone."""
        from bot.web.metrics import may_see  # noqa: PLC0415

        parts = await look(keeping, house.parts, app.state.schedule, began=began)
        is_ready = all(p.is_well for p in parts if p.is_needed)
        told: dict[str, Any] = {"ready": is_ready}
        if may_see(request):
            told["parts"] = {p.name: {"well": p.is_well, "told": p.told} for p in parts}
        return JSONResponse(told, HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE)

    @app.get("/operator")
    async def operator(request: Request, told: str = "") -> Response:
        known = await role_of(request)
        if known is None:
            return door()
        return HTMLResponse(await _page(*known, told=_TOLD.get(told, "")))

    async def _page(name: str, role: Role, *, told: str) -> str:
        now = keeping.now()
        store = keeping.store

        def counted() -> dict[str, Any]:
            return {
                "kept": figures.kept(store, now),
                "imminent": figures.imminent(store, now),
                "consents": figures.consents(store, now),
                "enrolled": figures.enrolled(store, now),
                "escalations": store.escalations(open_only=True, at=now),
                "hours": figures.by_hour(store, now),
                "withdrawn": sum(
                    n
                    for what, n in keeping.accounts.tallied("enrolment").items()
                    if what.startswith("withdrawn")
                ),
            }

        found = await keeping.run(counted)
        chain = ""
        if role is Role.AUDITOR:
            try:
                found["entries"] = await keeping.run(keeping.audit.verify)
                chain = "the chain is whole"
            except AuditBroken as broken:
                found["entries"], chain = "?", str(broken)
        for row in found["escalations"]:
            row["standing"] = standing(row, has_contact=settings.alerts)
        return pages.render(
            "operator.html",
            **{**found, "hours": columns(found["hours"], what="kept messages by hour")},
            study=settings.study_title or "A demo, no study",
            name=name,
            role=role.value,
            at=now.strftime("%Y-%m-%d %H:%M:%S UTC"),
            told=told,
            chain=chain,
            parts=await look(keeping, house.parts, app.state.schedule, began=began),
            paused=await house.paused(),
            now={
                "pages": chat.pages_open(),
                "in_memory": len(visitors.visitors),
                "parked": len(visitors.parked),
            },
            stop_after=house.study.choices.stop_rule.imminent_a_day if house.is_study else None,
            may_act=role is Role.OPERATOR,
            actions=ACTIONS,
            outcomes=OUTCOMES,
            reasons=WHY,
            pauses=PAUSE_WHY,
        )

    @app.post("/operator/login")
    async def login(
        request: Request, username: Annotated[str, Form()] = "", password: Annotated[str, Form()] = ""
    ) -> Response:
        address = request.client.host if request.client else ""
        try:
            await doors.enter_staff(username, password, address=address)
        except doors.Refused as refused:
            told = (
                SENTENCES["wait"].format(minutes=max(1, ceil(refused.wait / 60)))
                if refused.why == "wait"
                else "That name and password don't go together."
            )
            status = HTTPStatus.TOO_MANY_REQUESTS if refused.why == "wait" else HTTPStatus.UNAUTHORIZED
            return door(told, status)
        made = RedirectResponse("/operator", HTTPStatus.SEE_OTHER)
        await doors.welcome(request, made, STAFF + username.strip().lower()[: pins.LONGEST])
        return made

    async def acted(request: Request, work: Any, done: str) -> Response:
        """An act of the operator; the page says what came of it."""
        known = await role_of(request)
        if known is None or known[1] is not Role.OPERATOR:
            return door("Only an operator may do that.", HTTPStatus.FORBIDDEN)
        try:
            is_done = await keeping.run(work, known[0])
        except (PrivacyError, SettingsError) as failed:
            log.error("an act was not done: %s", type(failed).__name__)
            is_done = False
        return RedirectResponse(f"/operator?told={done if is_done else 'not'}", HTTPStatus.SEE_OTHER)

    @app.post("/operator/acknowledge")
    async def acknowledge(
        request: Request, number: Annotated[int, Form()], did: Annotated[str, Form()]
    ) -> Response:
        return await acted(request, lambda by: operating.acknowledge(number, by=by, did=did), "acknowledged")

    @app.post("/operator/close")
    async def close(
        request: Request, number: Annotated[int, Form()], outcome: Annotated[str, Form()]
    ) -> Response:
        return await acted(request, lambda by: operating.close(number, by=by, outcome=outcome), "closed")

    @app.post("/operator/pause")
    async def pause(request: Request, why: Annotated[str, Form(max_length=80)]) -> Response:
        return await acted(request, lambda by: operating.pause(by=by, why=why), "paused")

    @app.post("/operator/resume")
    async def resume(request: Request, why: Annotated[str, Form(max_length=80)]) -> Response:
        return await acted(request, lambda by: operating.resume(by=by, why=why), "resumed")

    @app.post("/operator/sign-out")
    async def sign_out(request: Request, person: Annotated[str, Form(max_length=40)]) -> Response:
        return await acted(
            request, lambda by: operating.sign_out(pins.tidy_code(person), by=by), "signed-out"
        )

    @app.post("/operator/read")
    async def read(
        request: Request, person: Annotated[str, Form(max_length=40)], why: Annotated[str, Form()]
    ) -> Response:
        known = await role_of(request)
        if known is None or known[1] is not Role.OPERATOR:
            return door("Only an operator may do that.", HTTPStatus.FORBIDDEN)
        if why not in WHY:
            return RedirectResponse("/operator?told=reason", HTTPStatus.SEE_OTHER)
        code = pins.tidy_code(person)
        try:
            found = await keeping.run(operating.read, code, by=known[0], why=why)
        except PrivacyError as failed:
            log.error("a conversation was not read: %s", type(failed).__name__)
            return RedirectResponse("/operator?told=not", HTTPStatus.SEE_OTHER)
        if found is None:
            return RedirectResponse("/operator?told=not", HTTPStatus.SEE_OTHER)
        entry, lines = found
        page = pages.render("read.html", person=code, name=known[0], why=why, entry=entry, lines=lines)
        return HTMLResponse(page)


_TOLD = {
    "acknowledged": "The notice is taken on.",
    "closed": "The notice is closed.",
    "paused": "Enrolment is paused.",
    "resumed": "People are taken on again.",
    "signed-out": "They are signed out everywhere.",
    "reason": "Choose a reason: reading without one is not possible.",
    "not": "That was not done: it is done already, or there is no such thing.",
}


def standing(row: dict[str, Any], *, has_contact: bool) -> str:
    """How far a notice has come, in words."""
    if row["acknowledged_at"]:
        return f"taken on by {row['acknowledged_by']} at {row['acknowledged_at'][11:16]}: {row['action']}"
    if row["delivered_at"]:
        return f"delivered {row['delivered_at'][:16].replace('T', ' ')}, NOT ACKNOWLEDGED"
    told = f"not delivered ({row['attempts']} tries)" if has_contact else "nobody was told: no contact is set"
    return f"{told}, NOT ACKNOWLEDGED"
