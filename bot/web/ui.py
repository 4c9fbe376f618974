"""The page Chainlit serves, without its third-party links: built from the installed package at set-up.

usage: python -m bot.web.ui
"""

from __future__ import annotations

import json
import re
import shutil
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from bot.errors import SettingsError

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "ui"

_THIRD_PARTY = re.compile(r"<link[^>]*(?:fonts\.googleapis|fonts\.gstatic|cdn\.jsdelivr)[^>]*/?>", re.DOTALL)
_NO_SCRIPT = """<noscript><main><h1>This chat needs scripts</h1><p>If you need someone now, this page works without them:
<a href="/help">Get help now</a>.</p></main></noscript>"""


def installed() -> Path:
    """Where the installed Chainlit keeps its page, found without importing it.

    Raises:
        SettingsError: Chainlit is not installed.
    """
    spec = find_spec("chainlit")
    if spec is None or spec.origin is None:
        raise SettingsError("chainlit is not installed; run 'make setup'")
    return Path(spec.origin).parent


def build(target: Path = BUILD) -> Path:
    """Copy the page, drop third-party links and source maps, and name our languages.

    Raises:
        SettingsError: Chainlit is not installed, or its page still names another host.
    """
    stamp = target / "made-from"
    wanted = f"chainlit {version('chainlit')}"
    if stamp.is_file() and stamp.read_text() == wanted:
        return target
    source = installed() / "frontend" / "dist"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.map"))
    page = (target / "index.html").read_text()
    page = _THIRD_PARTY.sub("", page)
    page = page.replace('<div id="root"></div>', f'<div id="root"></div>\n    {_NO_SCRIPT}')
    left = re.findall(r"(?:href|src)=\"(https?://[^\"]+)", page)
    if left:
        raise SettingsError(f"the Chainlit page names another host: {left[0]}")
    (target / "index.html").write_text(page)
    stamp.write_text(wanted)
    return target


TRANSLATION = {
    ("chat", "input", "placeholder"): "Write in your own words…",
    ("chat", "input", "actions", "stop"): "Stop",
    (
        "chat",
        "watermark",
    ): "An AI, not a person. It can be wrong. [Get help now](/help) · [My data](/my-data) · [How this works](/about)",
    ("auth", "login", "title"): "Sign in",
    ("auth", "login", "form", "email", "label"): "Study code",
    ("auth", "login", "form", "email", "required"): "Please write your study code",
    ("auth", "login", "form", "email", "placeholder"): "abcd-2345",
    ("auth", "login", "form", "password", "required"): "Please write your PIN",
    (
        "auth",
        "login",
        "errors",
        "credentialsSignin",
    ): "That code and PIN don't go together. Please check both.",
    ("auth", "login", "form", "password", "label"): "PIN",
    ("navigation", "header", "readme"): "About",
    ("navigation", "newChat", "dialog", "description"): "This clears the conversation on this screen. Go on?",
}


def write_translation(target: Path) -> None:
    """Write Chainlit's English texts with ours put in.

    Raises:
        SettingsError: Chainlit no longer has a text that we replace.
    """
    texts = json.loads((installed() / "translations" / "en-US.json").read_text())
    for path, text in TRANSLATION.items():
        at = texts
        for key in path[:-1]:
            at = at.get(key, {})
        if path[-1] not in at:
            raise SettingsError(f"Chainlit no longer has the text {'.'.join(path)}")
        at[path[-1]] = text
    wanted = json.dumps(texts, indent=1, ensure_ascii=False) + "\n"
    if not target.is_file() or target.read_text(encoding="utf-8") != wanted:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(wanted, encoding="utf-8")


def prepare(root: Path = ROOT) -> None:
    """Write everything at set-up that Chainlit would write beside the program at its first start.

    After that a start writes nothing there, and the program's folder can be read-only.
    """
    build(root / "build" / "ui")
    translations = root / ".chainlit" / "translations"
    write_translation(translations / "en-US.json")
    for shipped in (installed() / "translations").glob("*.json"):
        if not (translations / shipped.name).exists():
            shutil.copyfile(shipped, translations / shipped.name)
    (root / ".files").mkdir(exist_ok=True)


if __name__ == "__main__":
    prepare()
