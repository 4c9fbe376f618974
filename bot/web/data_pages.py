"""Consent and *My data*: plain pages that need no script and no socket. Who somebody is comes from their cookie alone."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import FastAPI, Form, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from bot.assembly import consent_text
from bot.settings import Mode, Settings
from bot.web import pages
from policies.attributes import SPECS, Answer, Attribute, Standing
from privacy.consent import Scope
from privacy.errors import PrivacyError
from privacy.placeholders import Placeholders
from privacy.rights import HeldByLaw, Receipt
from privacy.store.records import Held

LONGEST_NUMBER = 10
log = logging.getLogger("raise.web.data")


def who(request: Request) -> str | None:
    """The pseudonym in the visitor's cookie, or None."""
    from chainlit.auth.cookie import get_token_from_cookies  # noqa: PLC0415 (Chainlit loads late)
    from chainlit.auth.jwt import decode_jwt  # noqa: PLC0415

    token = get_token_from_cookies(dict(request.cookies))
    if not token:
        return None
    try:
        return str(decode_jwt(token).identifier)
    except Exception as bad:  # noqa: BLE001 (a stale or foreign cookie is nobody's)
        log.info("a cookie was not read: %s", type(bad).__name__)
        return None


def _introduced(request: Request, response: Response) -> str:
    """The visitor's pseudonym; a new one, with its cookie, for who has none yet."""
    known = who(request)
    if known is not None:
        return known
    import chainlit as cl  # noqa: PLC0415
    from chainlit.auth import create_jwt  # noqa: PLC0415
    from chainlit.auth.cookie import set_auth_cookie  # noqa: PLC0415

    from bot.web import chat  # noqa: PLC0415

    made = chat.new_code()
    set_auth_cookie(request, response, create_jwt(cl.User(identifier=made)))
    return made


def _see_other(path: str) -> RedirectResponse:
    return RedirectResponse(path, HTTPStatus.SEE_OTHER)


async def asks_first(settings: Settings, request: Request) -> bool:
    """Whether the visitor must be asked before the chat opens: in a study, until they have said yes or no."""
    if settings.mode is not Mode.STUDY:
        return False
    from bot.web import chat  # noqa: PLC0415

    person = who(request)
    return person is None or not await chat.keeping.allows(person, Scope.CHAT)


def add_routes(app: FastAPI, settings: Settings) -> None:
    """The routes of both pages."""
    text = consent_text(settings)
    asked = [Scope(s.scope) for s in text.scopes]

    @app.get("/consent")
    async def consent_page(request: Request, scope: str = "", step: int = 0) -> Response:
        from bot.web import chat  # noqa: PLC0415

        response = HTMLResponse("")
        person = _introduced(request, response)
        answers = await chat.keeping.answers(person)
        names = [s.value for s in asked]
        if scope in names:
            open_scopes, single = [Scope(scope)], True
        else:
            open_scopes, single = [s for s in asked if s not in answers], False
        refused = Scope.CHAT in answers and not answers[Scope.CHAT].granted
        if not single and refused:
            open_scopes = []
        question = text.scope(open_scopes[0].value) if open_scopes else None
        body = pages.consent_page(
            text,
            question,
            number=asked.index(open_scopes[0]) + 1 if open_scopes else 0,
            many=len(asked),
            is_first=not answers and not single and step == 0,
            answers={s.value: r.granted for s, r in answers.items()},
            is_study=settings.mode is Mode.STUDY,
            single=single,
        )
        made = HTMLResponse(body)
        for name, value in response.raw_headers:
            if name == b"set-cookie":
                made.raw_headers.append((name, value))
        return made

    @app.post("/consent")
    async def consent_answered(
        request: Request,
        scope: Annotated[str, Form()],
        answer: Annotated[str, Form()],
        single: Annotated[str, Form()] = "",
    ) -> Response:
        from bot.web import chat  # noqa: PLC0415

        person = who(request)
        if person is None or scope not in [s.value for s in asked] or answer not in ("yes", "no"):
            return _see_other("/consent")
        granted = answer == "yes"
        if not granted:
            chat.interrupt(person)
        await chat.keeping.answer(person, Scope(scope), granted=granted)
        return _see_other("/my-data" if single else "/consent?step=1")

    @app.get("/my-data")
    async def my_data(request: Request) -> Response:
        from bot.web import chat  # noqa: PLC0415

        person = who(request)
        if person is None:
            return HTMLResponse(pages.my_data_page(None))
        held = await chat.keeping.run(chat.keeping.rights.held, person)
        answers = await chat.keeping.answers(person)
        local = chat.local_ledger(person)
        return HTMLResponse(
            pages.my_data_page(
                {
                    "person": person,
                    "answers": {s.value: (s in answers and answers[s].granted) for s in asked},
                    "titles": {s.scope: s.title for s in text.scopes},
                    "held": in_their_words(held),
                    "sent_here": [{"role": s.role, "bytes": s.size, "content": s.content} for s in local],
                    "in_memory": chat.in_memory(person),
                    "is_held": await chat.keeping.run(chat.keeping.records.is_held, person),
                    "may_keep": Scope.KEEP in answers and answers[Scope.KEEP].granted,
                }
            )
        )

    @app.post("/my-data/correct")
    async def correct(
        request: Request, attribute: Annotated[str, Form()], value: Annotated[str, Form(max_length=400)]
    ) -> Response:
        from bot.web import chat  # noqa: PLC0415

        person = who(request)
        if person is not None and attribute in set(Attribute) and value.strip():
            await chat.correct(person, Attribute(attribute), value.strip())
        return _see_other("/my-data")

    @app.post("/my-data/delete")
    async def delete(
        request: Request, table: Annotated[str, Form()], name: Annotated[str, Form()]
    ) -> Response:
        from bot.web import chat  # noqa: PLC0415

        person = who(request)
        if person is None or table not in ("sessions", "attributes", "ledger", "safety_plans", "feedback"):
            return _see_other("/my-data")
        await chat.forget_in_memory(person, table, name)
        return await _erased(lambda: chat.keeping.rights.erase_item(person, table, name))

    @app.get("/feedback")
    async def feedback(turn: str = "", rate: str = "") -> Response:
        return HTMLResponse(pages.feedback_page(_number(turn), rate))

    @app.post("/feedback")
    async def feedback_given(
        request: Request,
        turn: Annotated[str, Form()] = "",
        rate: Annotated[str, Form()] = "",
        note: Annotated[str, Form()] = "",
    ) -> Response:
        """No field is refused: a note that tells of danger is answered with help, whatever else is wrong with the form."""
        from bot.web import chat  # noqa: PLC0415

        number = _number(turn)
        told = await chat.rate(who(request), number, rate, note)
        return HTMLResponse(pages.feedback_page(number, rate, told=told))

    @app.post("/my-data/withdraw")
    async def withdraw(request: Request) -> Response:
        from bot.web import chat  # noqa: PLC0415

        person = who(request)
        if person is not None:
            chat.interrupt(person)
            await chat.keeping.withdraw(person)
        return _see_other("/my-data#withdrawn")

    @app.post("/my-data/erase")
    async def erase(request: Request, sure: Annotated[str, Form()] = "") -> Response:
        from bot.web import chat  # noqa: PLC0415

        person = who(request)
        if person is None:
            return _see_other("/my-data")
        if sure != "yes":
            return HTMLResponse(pages.erase_page())
        chat.forget(person)
        chat.keeping.consents.forget(person)
        response = await _erased(lambda: chat.keeping.rights.erase_all(person))
        response.delete_cookie("access_token", path="/")
        return response

    async def _erased(work: Any) -> Response:
        from bot.web import chat  # noqa: PLC0415

        try:
            receipt: Receipt = await chat.keeping.run(work)
        except HeldByLaw:
            page = pages.error_page(
                "The law asks us to keep this for now, so it can't be erased yet. Nobody can read what has expired. "
                "The study contact can tell you why and for how long"
            )
            return HTMLResponse(page, HTTPStatus.CONFLICT)
        except PrivacyError as failed:
            log.error("an erasure was not finished: %s", type(failed).__name__)
            page = pages.error_page(
                "The erasure could not be finished yet. Please try again, or ask the study contact"
            )
            return HTMLResponse(page, HTTPStatus.SERVICE_UNAVAILABLE)
        return HTMLResponse(pages.receipt_page(receipt.to_json()))

    @app.get("/my-data/export.json")
    async def export_json(request: Request) -> Response:
        from bot.web import chat  # noqa: PLC0415

        person = who(request)
        if person is None:
            return _see_other("/my-data")
        found = await chat.keeping.run(chat.keeping.rights.export, person)
        return JSONResponse(found, headers={"content-disposition": 'attachment; filename="my-data.json"'})

    @app.get("/my-data/export.html")
    async def export_html(request: Request) -> Response:
        from bot.web import chat  # noqa: PLC0415

        person = who(request)
        if person is None:
            return _see_other("/my-data")
        found = await chat.keeping.run(chat.keeping.rights.export, person)
        return HTMLResponse(pages.export_page(found))


def _number(text: str) -> int:
    """The number of a turn, 0 where it is none."""
    return int(text) if text.isdecimal() and len(text) < LONGEST_NUMBER else 0


def in_their_words(held: list[Held]) -> list[dict[str, Any]]:
    """Everything that is held, with the person's own words back in the place of placeholders, the ledger left as sent."""
    maps = {
        row.name: Placeholders.from_json(row.fields["places"])
        for row in held
        if row.table == "sessions" and row.fields["places"]
    }
    newest = next(reversed(maps.values()), Placeholders())
    rows = []
    for row in held:
        shown = row_in_words(row)
        session = row.name if row.table == "sessions" else str(row.fields.get("session", ""))
        places = maps.get(session, newest)
        if row.table != "ledger":
            shown["lines"] = [places.restore(line, own=True) for line in shown["lines"]]
        rows.append(shown)
    return rows


def row_in_words(row: Held) -> dict[str, Any]:
    """One thing that is held, as *My data* shows it."""
    made: dict[str, Any] = {
        "table": row.table,
        "name": row.name,
        "kind": pages.KINDS[row.table],
        "since": row.at.date().isoformat(),
        "until": row.expires_at.date().isoformat(),
        "may_delete": row.table in ("sessions", "attributes", "ledger", "safety_plans", "feedback"),
        "lines": [],
    }
    fields = row.fields
    if row.table == "attributes":
        made["attribute"] = fields["attribute"]
        made["label"] = SPECS[Attribute(fields["attribute"])].label
        made["lines"] = [_answer_in_words(fields["value"])]
    elif row.table == "sessions" and fields["state"]:
        topic = json.loads(fields["state"]).get("topic")
        made["lines"] = [f"{fields['turns']} messages", *([topic["query"]] if topic else [])]
    elif row.table == "turns":
        words = json.loads(fields["words"]) if fields["words"] else None
        made["lines"] = [words["said"], *words["answered"]] if words else _told(fields["input"])
    elif row.table == "decisions":
        what = fields["attribute"] or fields["domain"] or ""
        made["lines"] = [
            f"{fields['outcome']} ({what}): {fields['reason'] or fields['basis']}".replace("_", " ")
        ]
    elif row.table == "ledger":
        made["lines"] = [
            f"to {fields['destination']}, as {fields['role']}, {fields['bytes']} bytes",
            fields["content"],
        ]
    elif row.table == "safety_plans" and fields["entries"]:
        entries = json.loads(fields["entries"]).get("entries", {})
        made["lines"] = [f"{step}: {text}" for step, text in entries.items()]
    elif row.table == "feedback":
        made["lines"] = [
            "it helped" if fields["rating"] else "it didn't help",
            *filter(None, [fields["note"]]),
        ]
    elif row.table == "escalations":
        made["lines"] = [f"level: {fields['level']}", _standing(fields)]
    elif row.table == "consents":
        made["lines"] = [f"{fields['scope']}: {'yes' if fields['granted'] else 'no'}"]
    return made


def _standing(fields: Mapping[str, Any]) -> str:
    """What came of a notice."""
    if fields["acknowledged_at"]:
        return "somebody has taken it on: " + str(fields["action"]).replace("-", " ")
    return "it was delivered" if fields["delivered_at"] else "it has not been delivered yet"


def _told(turn_input: str | None) -> list[str]:
    """The message of a turn, as it is held: redacted, with what was understood of it."""
    if turn_input is None:
        return ["(it does not open any more)"]
    return [e["text"] for e in json.loads(turn_input)["events"] if e.get("text")]


def _answer_in_words(value: str | None) -> str:
    if value is None:
        return "(it does not open any more)"
    answer = Answer.from_json(json.loads(value))
    if answer.standing is Standing.DECLINED:
        return "you'd rather not say"
    if answer.standing is Standing.UNKNOWN:
        return "not sure"
    return answer.text or ", ".join(sorted(answer.tags)).replace("_", " ")


__all__ = ["add_routes", "asks_first", "row_in_words", "who"]
