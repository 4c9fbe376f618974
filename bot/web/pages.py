"""Our own pages: they need no script, no socket, no login and no consent."""

from __future__ import annotations

import json
import re
from datetime import date
from typing import Any

from jinja2 import Environment, PackageLoader, select_autoescape
from markupsafe import Markup, escape

from bot.responding import Words
from policies import crisis
from policies.consent import ConsentText, ScopeText
from policies.crisis import Country, Directory
from policies.crisis.measured import shipped as measured
from policies.guidance import Guidance

_pages = Environment(
    loader=PackageLoader("bot.web"), autoescape=select_autoescape(), trim_blocks=True, lstrip_blocks=True
)
_pages.filters["digits"] = lambda number: re.sub(r"[^\d+*#]", "", number)


def help_page(directory: Directory, country: Country | None) -> str:
    """The help page: for one country, or a list to choose from."""
    return render(
        "help.html",
        country=country,
        countries=sorted(directory.countries.values(), key=lambda c: c.name),
        directories=directory.directories,
        fallback=directory.fallback_emergency,
        checked=directory.verified_on,
    )


def number_page(number: str, scheme: str, verb: str) -> str:
    """One link that dials, for where the chat's own link cannot."""
    return render("number.html", number=number, scheme=scheme, verb=verb)


def protocol_page(*, checked: date, alerts: str) -> str:
    """The crisis protocol: what is detected, what then happens, what is counted, how often it errs."""
    return render("protocol.html", checked=checked, alerts=alerts, measured=measured())


def about_page(guidance: Guidance, *, checked: date, alerts: str) -> str:
    """What this is, what it detects, what it does then, and what has not been measured."""
    sources = sorted(guidance.sources.values(), key=lambda s: (s.publisher, s.title))
    return render("about.html", sources=sources, checked=checked, alerts=alerts)


def error_page(title: str) -> str:
    """Any error: kind words, and help."""
    return render("error.html", title=title, fallback=crisis.shipped().fallback_emergency)


def render(template: str, /, **values: Any) -> str:
    """One of our templates, filled; values are escaped."""
    return _pages.get_template(template).render(**values)


def export_page(export: dict[str, Any]) -> str:
    """Everything that is held of one person, to read: one self-contained page."""
    return render("export.html", export=export, kinds=KINDS)


KINDS = {
    "participants": "That you were here",
    "consents": "What you said yes or no to",
    "sessions": "A conversation, so that it can go on",
    "attributes": "An answer of yours",
    "turns": "A message and what came of it",
    "decisions": "A decision, without your words",
    "ledger": "Text that was sent to a model, names and numbers replaced",
    "safety_plans": "Your safety plan",
    "feedback": "What you said of an answer",
    "escalations": "A notice to the on-call contact, without your words",
    "enrolments": "Your place in the study",
    "logins": "That you are signed in",
    "responses": "An answer of yours to a questionnaire",
    "deviations": "That something in the study did not go by its plan",
    "deviations unlinked": "Notes that the study did not go by its plan, kept without their person from now on",
    "escalations unlinked": "Notices to the on-call contact, kept without their person from now on",
    "decisions unlinked": "Decisions, kept without their person from now on",
}
"""Tables in words."""


def consent_page(
    text: ConsentText,
    question: ScopeText | None,
    *,
    number: int,
    many: int,
    is_first: bool,
    answers: dict[str, bool],
    is_study: bool,
    single: bool,
) -> str:
    """One question of the consent text, or where things stand once all are answered."""
    return render(
        "consent.html", text=text, question=question, number=number, many=many, is_first=is_first, answers=answers,
        is_study=is_study, single=single,
    )  # fmt: skip


def my_data_page(found: dict[str, Any] | None) -> str:
    """What is held of the visitor, in plain words, with what they may do about it; None where they have no cookie."""
    return render("my_data.html", found=found)


def feedback_page(turn: int, rate: str = "", *, told: list[Words] | None = None) -> str:
    """A form for a sentence about an answer, or what the person is told once it is in; turn 0 where it is gone."""
    return render("feedback.html", turn=turn, rate=rate, told=[marked(w) for w in told or ()])


def marked(words: Words) -> Markup:
    """What the chat would say, as HTML: bold, lists as lines, numbers that dial."""
    text = str(escape(words.text))
    text = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", text)
    for resource in words.resources:
        for number in filter(None, [resource.get("phone"), *resource.get("also", ())]):
            shown, digits = str(escape(number)), re.sub(r"[^\d*#+]", "", number)
            text = re.sub(
                rf"(?i)\b(call ){re.escape(shown)}(?!\d)", rf'\1<a href="tel:{digits}">{shown}</a>', text
            )
    return Markup("<br>".join(text.split("\n")))  # noqa: S704 (escaped above)


def erase_page() -> str:
    """Asks once more before everything is erased."""
    return render("erase.html")


def receipt_page(receipt: dict[str, Any]) -> str:
    """What was erased, to keep."""
    return render("receipt.html", receipt=receipt, raw=json.dumps(receipt, indent=1), kinds=KINDS)
