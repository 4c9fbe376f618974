"""Slips of paper for participants: one page to print and cut, each with a code, a PIN and a QR code of the address."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

import segno
from markupsafe import Markup

from bot.errors import SettingsError
from bot.web.pages import render


def qr(text: str) -> Markup:
    """A QR code as inline SVG."""
    out = io.BytesIO()
    segno.make(text, error="m", micro=False).save(
        out, kind="svg", scale=3, border=2, xmldecl=False, svgns=True, nl=False
    )
    return Markup(out.getvalue().decode("utf-8"))  # noqa: S704 (made of our own address and code)


def slips(people: Iterable[tuple[str, str]], *, origin: str, title: str, contact: str) -> str:
    """The page. The QR code holds the address and the study code; the PIN is on paper alone, as an address ends up in logs.

    Args:
        people: code and PIN of each.
        origin: of the chat.
        title: of the study.
        contact: whom to ask.
    """
    made = [
        {"code": code, "pin": pin, "address": origin, "qr": qr(f"{origin}/sign-in?code={quote(code)}")}
        for code, pin in people
    ]
    return render("slips.html", slips=made, title=title, contact=contact)


def write_private(path: Path, text: str) -> None:
    """A file that its owner alone can read; one that is there already is not touched.

    Raises:
        SettingsError: it is there, or cannot be written.
    """
    try:
        with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as out:
            out.write(text)
    except FileExistsError:
        raise SettingsError(f"{path}: is there already; name another file") from None
    except OSError as bad:
        raise SettingsError(f"{path}: cannot be written ({bad.strerror})") from None
