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


def _see_other(path: str) -> RedirectResponse:
    return RedirectResponse(path, HTTPStatus.SEE_OTHER)


def add_routes(app: FastAPI, settings: Settings) -> None:
    """The routes of both pages. Call once the environment is prepared, as it loads Chainlit and the deployment."""
    from bot.web import chat, doors, visitors  # noqa: PLC0415 (Chainlit loads late)
    from bot.web.house import keeping  # noqa: PLC0415

    text = consent_text(settings)
    asked = [Scope(s.scope) for s in text.scopes]

    @app.get("/consent")
    async def consent_page(request: Request, scope: str = "", step: int = 0) -> Response:
        response = HTMLResponse("")
        person = doors.who(request)
        if person is None and settings.mode is Mode.STUDY:
            return _see_other("/login")
        if person is None:
            person = visitors.new_code()
            await doors.welcome(request, response, person)
        answers = await keeping.answers(person)
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
        person = doors.who(request)
        if person is None or scope not in [s.value for s in asked] or answer not in ("yes", "no"):
            return _see_other("/consent")
        granted = answer == "yes"
        if not granted:
            visitors.interrupt(person)
        if not granted and Scope(scope) is Scope.CHAT:
            visitors.forget(person)
        await keeping.answer(person, Scope(scope), granted=granted)
        return _see_other("/my-data" if single else "/consent?step=1")

    @app.get("/my-data")
    async def my_data(request: Request) -> Response:
        person = doors.who(request)
        if person is None:
            return HTMLResponse(pages.my_data_page(None))
        held = await keeping.run(keeping.rights.held, person)
        answers = await keeping.answers(person)
        local = chat.local_ledger(person)
        return HTMLResponse(
            pages.my_data_page(
                {
                    "person": person,
                    "answers": {s.value: (s in answers and answers[s].granted) for s in asked},
                    "titles": {s.scope: s.title for s in text.scopes},
                    "held": in_their_words(held),
                    "sent_here": [{"role": s.role, "bytes": s.size, "content": s.content} for s in local],
                    "is_enrolled": not visitors.is_anonymous(person),
                    "in_memory": chat.in_memory(person),
                    "is_held": await keeping.run(keeping.records.is_held, person),
                    "may_keep": Scope.KEEP in answers and answers[Scope.KEEP].granted,
                }
            )
        )

    @app.post("/my-data/correct")
    async def correct(
        request: Request, attribute: Annotated[str, Form()], value: Annotated[str, Form(max_length=400)]
    ) -> Response:
        person = doors.who(request)
        if person is not None and attribute in set(Attribute) and value.strip():
            await chat.correct(person, Attribute(attribute), value.strip())
        return _see_other("/my-data")

    @app.post("/my-data/delete")
    async def delete(
        request: Request, table: Annotated[str, Form()], name: Annotated[str, Form()]
    ) -> Response:
        person = doors.who(request)
        if person is None or table not in ("sessions", "attributes", "ledger", "safety_plans", "feedback"):
            return _see_other("/my-data")
        await chat.forget_in_memory(person, table, name)
        return await _erased(lambda: keeping.rights.erase_item(person, table, name))

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
        number = _number(turn)
        told = await chat.rate(doors.who(request), number, rate, note)
        return HTMLResponse(pages.feedback_page(number, rate, told=told))

    @app.post("/my-data/withdraw")
    async def withdraw(request: Request) -> Response:
        person = doors.who(request)
        if person is not None:
            visitors.interrupt(person)
            await keeping.withdraw(person)
        return _see_other("/my-data#withdrawn")

    @app.post("/my-data/erase")
    async def erase(request: Request, sure: Annotated[str, Form()] = "") -> Response:
        person = doors.who(request)
        if person is None:
            return _see_other("/my-data")
        if sure != "yes":
            return HTMLResponse(pages.erase_page())
        visitors.forget(person)
        leaving = Response()
        await doors.leave(request, leaving)  # first, as signing out afterwards would leave a trace
        try:
            receipt = await keeping.erase(person)
        except PrivacyError as failed:
            return _not_erased(failed)
        made = HTMLResponse(pages.receipt_page(receipt.to_json()))
        made.raw_headers += [(name, value) for name, value in leaving.raw_headers if name == b"set-cookie"]
        return made

    async def _erased(work: Any) -> Response:
        try:
            receipt: Receipt = await keeping.run(work)
        except PrivacyError as failed:
            return _not_erased(failed)
        return HTMLResponse(pages.receipt_page(receipt.to_json()))

    @app.get("/my-data/export.json")
    async def export_json(request: Request) -> Response:
        person = doors.who(request)
        if person is None:
            return _see_other("/my-data")
        found = blinded(await keeping.run(keeping.rights.export, person))
        return JSONResponse(found, headers={"content-disposition": 'attachment; filename="my-data.json"'})

    @app.get("/my-data/export.html")
    async def export_html(request: Request) -> Response:
        person = doors.who(request)
        if person is None:
            return _see_other("/my-data")
        found = blinded(await keeping.run(keeping.rights.export, person))
        return HTMLResponse(pages.export_page(found))


def _not_erased(failed: PrivacyError) -> HTMLResponse:
    """Why an erasure is not done yet, kindly."""
    if isinstance(failed, HeldByLaw):
        page = pages.error_page(
            "The law asks us to keep this for now, so it can't be erased yet. Nobody can read what has expired. "
            "The study contact can tell you why and for how long"
        )
        return HTMLResponse(page, HTTPStatus.CONFLICT)
    log.error("an erasure was not finished: %s", type(failed).__name__)
    page = pages.error_page(
        "The erasure could not be finished yet. Please try again, or ask the study contact"
    )
    return HTMLResponse(page, HTTPStatus.SERVICE_UNAVAILABLE)


WITHHELD = "not shown while the study runs, so that it stays blind; the study contact can tell you afterwards"
_BLIND_COLUMNS = {
    "decisions": ("reason", "basis", "sufficiency", "stakes", "plan"),
    "escalations": ("level",),
    "enrolments": ("arm",),
}
_BLIND_STATE = ("arm", "risk", "card", "smaller", "quiet", "seed")


def blinded(export: dict[str, Any]) -> dict[str, Any]:
    """A person's own copy without what would tell them their arm, or how their risk was judged; it says so.

    Withheld for as long as the study runs (GDPR Art. 89(2)); the command line's export for the study team holds it.
    """
    for row in export["held"]:
        content = row["content"]
        for column in _BLIND_COLUMNS.get(row["kind"], ()):
            if column in content:
                content[column] = WITHHELD
        if isinstance(content.get("state"), dict):
            content["state"] = {k: WITHHELD if k in _BLIND_STATE else v for k, v in content["state"].items()}
            topic = content["state"].get("topic")
            if isinstance(topic, dict):
                content["state"]["topic"] = {"query": topic.get("query")}
        if isinstance(content.get("input"), dict):
            events = content["input"].get("events", [])
            content["input"] = {"events": [{"text": e["text"]} for e in events if e.get("text")]}
        if isinstance(content.get("shown"), list):
            content["shown"] = [{"theirs": line["theirs"], "text": line["text"]} for line in content["shown"]]
    return export


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
        what = (fields["attribute"] or fields["domain"] or "").replace("_", " ")
        made["lines"] = [f"{_OUTCOMES[fields['outcome']]} ({what})"]
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
        made["lines"] = ["somebody was told that you might need help", _standing(fields)]
    elif row.table == "responses" and fields["value"]:
        made["lines"] = [f"{fields['instrument']}, {fields['item']}: {_response_in_words(fields['value'])}"]
    elif row.table == "enrolments":
        made["lines"] = [f"your study code, since {str(fields['made_at'])[:10]}"]
    elif row.table == "consents":
        made["lines"] = [f"{fields['scope']}: {'yes' if fields['granted'] else 'no'}"]
    return made


_OUTCOMES = {
    "ask": "I asked you something",
    "answer": "I answered",
    "abstain": "I gave no answer, and named people who can help",
}


def _response_in_words(value: str) -> str:
    raw = json.loads(value)
    return str(raw.get("text", raw.get("value", "")))


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


__all__ = ["add_routes", "blinded", "row_in_words"]
