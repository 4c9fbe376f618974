"""Whether a deployment works from end to end, and what to do where it does not: `raise-chat doctor`.

Nothing here writes anything but a line of the audit log, and nothing shows anybody's words. What is checked is tried: a
text is redacted, a question answered, danger recognised, a sealed value opened, the log walked.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import socket
import stat
import sys
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from http import HTTPStatus
from importlib.metadata import PackageNotFoundError, version
from urllib.error import HTTPError
from urllib.parse import urlsplit

from bot import assembly
from bot.conversation import Conversation
from bot.errors import BotError
from bot.escalation import channels
from bot.keeping import Keeping
from bot.parts import Parts, now
from bot.posturing import ROOT, configuration
from bot.risk.verdict import RiskLevel
from bot.settings import Mode, Settings, study_of
from bot.studying import findings
from policies import crisis
from policies.crisis.checks import check_directory
from policies.errors import PolicyError
from privacy.audit import EventKind
from privacy.detector import Detector
from privacy.errors import PrivacyError
from privacy.retention import reports
from privacy.scheduler import last_slot
from privacy.store import NAME, VERSION, Store, figures

LEAST_FREE = 1_000_000_000
QUESTION = "My landlord wants me out by Friday. Can he do that?"
DANGER = "I am going to kill myself tonight"
LATE = timedelta(hours=1)
OLDEST_BACKUP = timedelta(days=2)
"""The timer in deploy/ makes one a day."""
SERVER_SECONDS = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check found.

    Attributes:
        what: was checked.
        state: well, look (works, but is to be looked at) or broken.
        found: in words.
        do: what to do, where it is not well.
    """

    what: str
    state: str
    found: str
    do: str = ""


def examined(settings: Settings) -> Iterator[Finding]:
    """Every check, one after the other, as each is done; a later one goes on where an earlier one failed."""
    yield from _tried("python and packages", _packages, "make setup, in a fresh .venv")
    yield from _tried("files that we serve", lambda: _served(settings), "make setup")
    yield from _tried("settings", lambda: _settings(settings), "see docs/settings.md")
    yield from _tried("policies", lambda: _policies(settings), "raise-chat policies check")
    yield from _tried("data directory", lambda: _directory(settings), "see docs/deploy.md")
    keeping: Keeping | None = None
    try:
        parts = assembly.assemble(settings)
        keeping = parts.keeping
    except (BotError, PolicyError) as bad:
        yield Finding(
            what="keys and store",
            state="broken",
            found=str(bad),
            do="see docs/privacy.md, or restore a backup",
        )
    except Exception as bad:  # noqa: BLE001 (the kind is enough; its message may hold values)
        yield Finding(
            what="keys and store", state="broken", found=type(bad).__name__, do="raise-chat privacy audit"
        )
    if keeping is not None:
        try:
            yield from _tried(
                "keys and store", lambda: _keys(keeping), "restore a backup; see docs/deploy.md"
            )
            yield from _tried("audit log", lambda: _audit(keeping), "raise-chat privacy verify-log")
            yield from _tried("purge", lambda: _purge(keeping), "raise-chat privacy purge")
            yield from _tried("backups", lambda: _backups(settings, keeping), "see docs/deploy.md")
            yield from _tried("redaction, danger, a question", lambda: _speaks(parts), "make setup")
        finally:
            if isinstance(parts.detector, Detector):
                parts.detector.close()
            keeping.close()
    yield from _tried("outside model", lambda: _model(settings), "raise-chat models check")
    yield from _tried("on call", lambda: _on_call(settings), "see docs/on-call.md")
    yield from _tried("study", lambda: _study(settings), "raise-chat study check")
    yield from _tried("server", lambda: _server(settings), "see its log; is another program on that port?")


def _tried(what: str, check: Callable[[], Iterator[Finding]], do: str) -> Iterator[Finding]:
    try:
        yield from check()
    except (BotError, PolicyError, PrivacyError) as bad:
        yield Finding(what=what, state="broken", found=str(bad), do=do)
    except Exception as bad:  # noqa: BLE001 (a check that fails is a finding; its message may hold values)
        yield Finding(what=what, state="broken", found=type(bad).__name__, do=do)


def _well(what: str, found: str) -> Finding:
    return Finding(what=what, state="well", found=found)


def _packages() -> Iterator[Finding]:
    lock = ROOT / "requirements.lock"
    if not lock.exists():
        yield Finding(
            what="python and packages",
            state="look",
            found="no requirements.lock here",
            do="run from a clone of the release",
        )
        return
    wrong, many = [], 0
    for name, wanted in re.findall(
        r"^([A-Za-z0-9_.-]+)==([^ ;\\\n]+)", lock.read_text(encoding="utf-8"), re.MULTILINE
    ):
        many += 1
        try:
            found = version(name)
        except PackageNotFoundError:
            continue  # of another system
        if found != wanted:
            wrong.append(f"{name} {found} in place of {wanted}")
    python = ".".join(map(str, sys.version_info[:3]))
    if wrong:
        yield Finding(
            what="python and packages", state="look", found=f"{len(wrong)} others than locked: {'; '.join(wrong[:3])}",
            do="make setup, in a fresh .venv",
        )  # fmt: skip
    else:
        yield _well("python and packages", f"Python {python}; {many} packages as locked")


def _served(settings: Settings) -> Iterator[Finding]:
    bad = [c for c in configuration_checks(settings) if not c[1]]
    for name, _, do in bad:
        yield Finding(what="files that we serve", state="broken", found=name, do=do)
    if not bad:
        yield _well(
            "files that we serve", "Chainlit is set as a study needs; nothing is loaded from elsewhere"
        )


def configuration_checks(settings: Settings) -> Iterator[tuple[str, bool, str]]:
    """Chainlit's settings and the served files, as the auditor's report looks at them."""
    from bot.web import ui  # noqa: PLC0415 (nothing else of the web is needed)

    ui.build()
    for check in configuration(settings, ROOT):
        if check.promise in ("configuration", "no-third-party"):
            yield f"{check.name}: {check.found}, should be {check.wanted}", check.is_good, check.do


def _settings(settings: Settings) -> Iterator[Finding]:
    origin = settings.origin
    everywhere = settings.host in ("0.0.0.0", "::")  # noqa: S104 (compared, not bound)
    if everywhere and not settings.public_origin:
        yield Finding(
            what="settings", state="broken", found="it listens everywhere, and no public address is set",
            do="set RAISE_PUBLIC_ORIGIN=https://… and RAISE_HOST=127.0.0.1 behind nginx",
        )  # fmt: skip
    elif not origin.startswith("https://") and settings.mode is Mode.STUDY:
        yield Finding(
            what="settings", state="look", found=f"a study at {origin}: cookies are not Secure", do="put nginx with TLS before it"
        )  # fmt: skip
    else:
        yield _well("settings", f"{settings.mode.value} at {origin}")


def _policies(settings: Settings) -> Iterator[Finding]:
    directory = crisis.shipped()
    bad = check_directory(directory, today=now().date(), is_study=settings.mode is Mode.STUDY)
    errors = [f for f in bad if f.is_error]
    text = assembly.consent_text(settings)
    if errors:
        yield Finding(
            what="policies", state="broken", found=f"{len(errors)} help lines may not be shown: {errors[0].where}",
            do="raise-chat policies check",
        )  # fmt: skip
    elif bad:
        yield Finding(
            what="policies",
            state="look",
            found=f"{len(bad)} help lines to look at",
            do="raise-chat policies check",
        )
    else:
        yield _well(
            "policies", f"{len(directory.countries)} countries' help lines; consent text {text.version}"
        )


def _directory(settings: Settings) -> Iterator[Finding]:
    directory = settings.data_dir
    if not directory.exists():
        yield _well("data directory", f"{directory} is not there yet; it is made at the first start")
        return
    mode = stat.S_IMODE(directory.stat().st_mode)
    loose = [p.name for p in directory.iterdir() if p.is_file() and stat.S_IMODE(p.stat().st_mode) & 0o077]
    free = shutil.disk_usage(directory).free
    if mode & 0o077 or loose:
        what = ", ".join(loose[:3]) or "the folder"
        yield Finding(
            what="data directory",
            state="broken",
            found=f"others can read {what}",
            do=f"chmod -R go-rwx {directory}",
        )
    elif free < LEAST_FREE:
        yield Finding(what="data directory", state="look", found=f"{free / 1e9:.1f} GB free", do="make room")
    else:
        yield _well("data directory", f"{directory}, private, {free / 1e9:.0f} GB free")
    path = directory / NAME
    if path.exists() and (found := Store.version_of(path)) != VERSION:
        yield Finding(
            what="tables",
            state="broken",
            found=f"version {found}, this release makes {VERSION}",
            do="raise-chat store migrate",
        )


def _keys(keeping: Keeping) -> Iterator[Finding]:
    def work() -> tuple[str, int, int]:
        opened, shut = 0, 0
        for subject in keeping.vault.subjects():
            try:
                keeping.vault.key(subject, make=False)
                opened += 1
            except PrivacyError:
                shut += 1
        figures.can_write(keeping.store)
        return figures.integrity(keeping.store), opened, shut

    told, opened, shut = keeping.call(lambda _: work())
    if told != "ok" or shut:
        found = f"integrity {told}; {shut} of {opened + shut} data keys open under no master key"
        yield Finding(
            what="keys and store",
            state="broken",
            found=found,
            do="put the earlier master key behind the newest, or restore",
        )
    else:
        yield _well("keys and store", f"tables version {VERSION}, whole; {opened} data keys open")


def _audit(keeping: Keeping) -> Iterator[Finding]:
    count = keeping.call(lambda _: keeping.audit.verify())
    yield _well("audit log", f"{count} entries, the chain is whole")


def _purge(keeping: Keeping) -> Iterator[Finding]:
    last = keeping.call(lambda store: next((r for r in reports(store, most=10) if r.finished_at), None))
    slot = last_slot(keeping.rules.sweep, keeping.now())
    if last is None or last.finished_at is None:
        yield _well("purge", "none yet; there is one at each start, then by schedule")
    elif not last.is_clean:
        yield Finding(
            what="purge",
            state="broken",
            found="after the last one something was left",
            do="raise-chat privacy audit",
        )
    elif slot - datetime.fromisoformat(last.finished_at) > LATE:
        yield Finding(
            what="purge", state="look", found=f"the last one was {last.finished_at[:16]}: has the chat run since?",
            do="start it, or raise-chat privacy purge",
        )  # fmt: skip
    else:
        yield _well("purge", f"last {last.finished_at[:16].replace('T', ' ')} UTC, clean")


def _backups(settings: Settings, keeping: Keeping) -> Iterator[Finding]:
    """By the audit log, where each is noted: whether the copies lie anywhere is not known here."""
    if settings.mode is not Mode.STUDY:
        yield _well("backups", "a demo needs none")
        return
    at = {"data": "", "keys": ""}
    for event in keeping.call(lambda _: list(keeping.audit.events())):
        kind = json.loads(event.counts).get("backup") if event.kind == EventKind.EXPORT else None
        if kind in at:
            at[kind] = event.at
    since = keeping.now() - OLDEST_BACKUP
    late = [kind for kind, last in at.items() if not last or datetime.fromisoformat(last) < since]
    told = "; ".join(
        f"{kind}: {last[:16].replace('T', ' ') + ' UTC' if last else 'none'}" for kind, last in at.items()
    )
    if late:
        do = f"raise-chat backup {late[0]} --to FOLDER, daily; see docs/deploy.md"
        yield Finding(what="backups", state="look", found=told, do=do)
    else:
        yield _well("backups", told)


def _speaks(parts: Parts) -> Iterator[Finding]:
    async def work() -> tuple[bool, bool, str]:
        detector = parts.detector
        found = await detector.redact("My name is Alice Example, alice@example.org") if detector else None
        heard = parts.stages.heard(DANGER).level is RiskLevel.IMMINENT
        conversation = Conversation.start(_untold(parts), country="GB", person="doctor")
        moves = [words.move async for words in conversation.receive(QUESTION)]
        return bool(found and found.spans), heard, ", ".join(moves)

    finds, heard, moves = asyncio.run(work())
    if not finds:
        yield Finding(
            what="redaction", state="broken", found="it does not find a name and an address", do="make setup"
        )
    else:
        yield _well("redaction", "finds a name and an address")
    if not heard:
        yield Finding(
            what="danger",
            state="broken",
            found="a plain sentence of danger is not recognised",
            do="put back the release",
        )
    else:
        yield _well("danger", "recognised")
    if not moves or "abstain" in moves:
        yield Finding(
            what="a question",
            state="look",
            found=f"the chat said: {moves or 'nothing'}",
            do="raise-chat chat",
        )
    else:
        yield _well("a question", f"the chat said: {moves}")


def _untold(parts: Parts) -> Parts:
    """The same parts, which keep, send and tell nobody anything."""
    return replace(
        parts, keeping=None, outside=None, endpoint=None, opinion=None, desk=None, asks_first=False
    )


def _model(settings: Settings) -> Iterator[Finding]:
    if not settings.model_base_url:
        yield _well("outside model", "none: the built-in one speaks")
        return
    where = urlsplit(settings.model_base_url)
    port = where.port or (443 if where.scheme == "https" else 80)
    try:
        socket.create_connection((where.hostname or "", port), timeout=SERVER_SECONDS).close()
    except OSError as bad:
        yield Finding(
            what="outside model", state="look", found=f"{where.hostname} does not answer ({type(bad).__name__}); the built-in one speaks meanwhile",
            do="raise-chat models check",
        )  # fmt: skip
    else:
        yield _well("outside model", f"{where.hostname} answers; 'raise-chat models check' tries each role")


def _on_call(settings: Settings) -> Iterator[Finding]:
    ways = len(channels(settings))
    if ways:
        yield _well("on call", f"{ways} ways are set; try them: 'raise-chat crisis drill'")
    elif settings.mode is Mode.STUDY:
        yield Finding(
            what="on call",
            state="broken",
            found="nobody is told of danger",
            do="set RAISE_ON_CALL_WEBHOOK or RAISE_ON_CALL_EMAIL",
        )
    else:
        yield _well("on call", "nobody; participants are told so")


def _study(settings: Settings) -> Iterator[Finding]:
    if settings.mode is not Mode.STUDY:
        yield _well("study", "none: a demo")
        return
    found = study_of(settings)
    stops = [f for f in findings(settings, found) if f.stops]
    if stops:
        yield Finding(
            what="study", state="broken", found=f"{len(stops)} things would stop it: {stops[0].what}", do="raise-chat study check"
        )  # fmt: skip
    else:
        yield _well("study", f"{found.choices.title}, protocol {found.protocol}")


def _server(settings: Settings) -> Iterator[Finding]:
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host  # noqa: S104 (compared, not bound)
    address = f"http://{host}:{settings.port}/readyz"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(address, timeout=SERVER_SECONDS) as answer:
            told = json.loads(answer.read())
    except HTTPError as bad:
        if bad.code == HTTPStatus.SERVICE_UNAVAILABLE:
            parts = json.loads(bad.read()).get("parts", {})
            ill = "; ".join(f"{name}: {p['told']}" for name, p in parts.items() if not p["well"])
            yield Finding(what="server", state="broken", found=f"not ready: {ill}", do="see /operator")
        else:
            yield Finding(
                what="server",
                state="broken",
                found=f"port {settings.port} answers {bad.code}: another program?",
                do="set RAISE_PORT",
            )
    except OSError:
        yield _well("server", f"not running on port {settings.port}; 'raise-chat serve' starts it")
    else:
        state = "well" if told.get("ready") else "broken"
        yield Finding(what="server", state=state, found="running and ready", do="see /operator")
