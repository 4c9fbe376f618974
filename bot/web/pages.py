"""Our own pages: they need no script, no socket, no login and no consent."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

from jinja2 import Environment, PackageLoader, select_autoescape

from policies import crisis
from policies.crisis import Country, Directory
from policies.crisis.measured import shipped as measured
from policies.guidance import Guidance

_pages = Environment(
    loader=PackageLoader("bot.web"), autoescape=select_autoescape(), trim_blocks=True, lstrip_blocks=True
)
_pages.filters["digits"] = lambda number: re.sub(r"[^\d+*#]", "", number)


def help_page(directory: Directory, country: Country | None) -> str:
    """The help page: for one country, or a list to choose from."""
    return _render(
        "help.html",
        country=country,
        countries=sorted(directory.countries.values(), key=lambda c: c.name),
        directories=directory.directories,
        fallback=directory.fallback_emergency,
        checked=directory.verified_on,
    )


def number_page(number: str, scheme: str, verb: str) -> str:
    """One link that dials, for where the chat's own link cannot."""
    return _render("number.html", number=number, scheme=scheme, verb=verb)


def protocol_page(*, checked: date, alerts: str) -> str:
    """The crisis protocol: what is detected, what then happens, what is counted, how often it errs."""
    return _render("protocol.html", checked=checked, alerts=alerts, measured=measured())


def about_page(guidance: Guidance, *, checked: date, alerts: str) -> str:
    """What this is, what it detects, what it does then, and what has not been measured."""
    sources = sorted(guidance.sources.values(), key=lambda s: (s.publisher, s.title))
    return _render("about.html", sources=sources, checked=checked, alerts=alerts)


def error_page(title: str) -> str:
    """Any error: kind words, and help."""
    return _render("error.html", title=title, fallback=crisis.shipped().fallback_emergency)


def _render(name: str, **values: Any) -> str:
    return _pages.get_template(name).render(**values)
