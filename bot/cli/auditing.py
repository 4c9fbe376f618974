"""`raise-chat privacy verify-log`, `export-log`, `audit` and `protocol`: what an auditor runs. None of it needs a key."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click

from bot.agreement import disagreements
from bot.assembly import retention_rules
from bot.errors import SettingsError
from bot.observing import observed
from bot.posturing import ROOT, examined
from bot.protocol_pack import pack
from bot.settings import read_settings
from bot.sweeping import HEADS
from bot.web.audit_page import audit_page
from policies import hazards
from privacy.audit import AUDIT, AuditEvent, AuditLog, as_json, from_json, read_heads, verify_events
from privacy.errors import AuditBroken
from privacy.posture import BROKEN, KEPT, UNCHECKED, Posture


def _exported(file: Path) -> list[AuditEvent]:
    """The entries of an exported log.

    Raises:
        SettingsError: a line is not one; the message names it.
    """
    found = []
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as failed:
        raise SettingsError(f"{file}: cannot be read ({type(failed).__name__})") from None
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                found.append(from_json(json.loads(line)))
            except (ValueError, TypeError):
                raise SettingsError(f"{file}, line {number}: not an entry of a log") from None
    return found


@click.command("verify-log")
@click.argument("file", required=False, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--heads",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Heads that somebody has seen before: lines of number, hash, time. Default: audit-heads.txt beside the data.",
)
@click.option("--json", "as_json_", is_flag=True, help="One JSON object.")
def verify_log(*, file: Path | None, heads: Path | None, as_json_: bool) -> None:
    """Whether the audit log, or an exported FILE of it, is whole and unchanged. Exits 1 where it is not, and says where."""
    settings = read_settings()
    kept = heads or settings.audit_heads_file or settings.data_dir / HEADS
    why, count, seen = "", 0, {}
    try:
        try:
            seen = read_heads(kept) if kept.exists() and (heads or file is None) else {}
        except (OSError, UnicodeDecodeError) as failed:
            raise SettingsError(f"{kept}: cannot be read ({type(failed).__name__})") from None
        if file is not None:
            count = verify_events(_exported(file), heads=seen)
        else:
            if not (settings.data_dir / AUDIT).exists():
                raise SettingsError(f"{settings.data_dir / AUDIT}: not there; nothing has been logged yet")
            log = AuditLog(settings.data_dir)
            try:
                count = log.verify(heads=seen)
            finally:
                log.close()
    except AuditBroken as broken:
        why = str(broken)
    if as_json_:
        click.echo(json.dumps({"verified": not why, "entries": count, "heads": len(seen), "why": why}))
    else:
        click.echo(f"broken: {why}" if why else f"whole: {count} entries, {len(seen)} heads seen before")
    if why:
        raise SystemExit(1)


@click.command("audit")
@click.option(
    "--html", "page", type=click.Path(path_type=Path, dir_okay=False), help="Write the report as one page."
)
@click.option("--json", "as_json_", is_flag=True, help="The whole report as JSON.")
@click.option(
    "--root", type=click.Path(path_type=Path, file_okay=False), default=ROOT, help="Of the installation."
)
@click.option("--quick", is_flag=True, help="Do not measure redaction, which takes some seconds.")
def audit(*, page: Path | None, as_json_: bool, root: Path, quick: bool) -> None:
    """Check every promise that can be checked from outside. Exits 1 where one is broken. Needs no key, shows no content."""
    settings = read_settings()
    with observed(settings) as found:
        posture = examined(settings, found, root=root, measures=not quick)
    if page is not None:
        about = {
            "title": settings.study_title or "A demo, no study", "mode": settings.mode.value,
            "release": _release(),
        }  # fmt: skip
        try:
            page.write_text(audit_page(posture, about=about), encoding="utf-8")
        except OSError as failed:
            raise SettingsError(f"{page}: cannot be written ({failed.strerror})") from None
    if as_json_:
        click.echo(json.dumps(posture.to_json(), indent=1))
    else:
        _told(posture, page)
    if not posture.is_kept:
        raise SystemExit(1)


@click.command("protocol")
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="Write the pack into this folder."
)
@click.option(
    "--check",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Compare a pack that was made before.",
)
@click.option(
    "--root", type=click.Path(path_type=Path, file_okay=False), default=ROOT, help="Of the installation."
)
def protocol(*, out: Path | None, check: Path | None, root: Path) -> None:
    """The pack for an ethics board, from the running configuration. Exits 1 where code and policy, or a pack, differ."""
    if (out is None) == (check is None):
        raise click.UsageError("one of --out DIR and --check DIR")
    settings = read_settings()
    rules, log = retention_rules(settings), hazards.shipped()
    wrong = [f"{where}: {problem}" for where, problem in disagreements(rules, log, root)]
    with observed(settings) as found:
        posture = examined(settings, found, root=root)
    wrong += [f"{f.where}: {f.what}" for f in posture.findings if f.promise == "record"]
    made = pack(settings, rules=rules, hazards=log, posture=posture, release=_release())
    if check is not None:
        wrong += made.differs(check)
    elif out is not None and not wrong:
        try:
            made.write(out)
        except OSError as failed:
            raise SettingsError(f"{out}: cannot be written ({failed.strerror})") from None
        click.echo(f"{len(made.files) + 1} files in {out}")
    for line in wrong:
        click.echo(f"differs: {line}", err=True)
    if wrong:
        raise SystemExit(1)
    if check is not None:
        click.echo("the program does what the pack says")


def _release() -> str:
    try:
        return version("raise-chat")
    except PackageNotFoundError:
        return "not installed"


def _told(posture: Posture, page: Path | None) -> None:
    for state in (BROKEN, UNCHECKED, KEPT):
        for promise in posture.promises:
            if promise["state"] == state:
                why = f" ({promise['why']})" if promise["why"] else ""
                click.echo(f"{state + ':':23} {promise['title']}{why if state != BROKEN else ''}")
    for finding in posture.findings:
        click.echo(f"\n{finding.where}: {finding.what}\n  what to do: {finding.do}")
    counts = posture.to_json()["verdict"]
    click.echo(
        "\n"
        + ", ".join(f"{n} {state}" for state, n in counts.items())
        + (f"; the page: {page}" if page else "")
    )


@click.command("export-log")
def export_log() -> None:
    """The audit log, an entry a line, for an auditor; docs/verify_log.py checks it without us. It holds no content."""
    settings = read_settings()
    if not (settings.data_dir / AUDIT).exists():
        raise SettingsError(f"{settings.data_dir / AUDIT}: not there; nothing has been logged yet")
    log = AuditLog(settings.data_dir)
    try:
        for event in log.events():
            click.echo(json.dumps(as_json(event)))
    finally:
        log.close()


@click.command("head")
def head() -> None:
    """The newest entry of the log: number, hash, time. Keep it where the operator cannot reach it."""
    log = AuditLog(read_settings().data_dir)
    try:
        newest = log.head()
    finally:
        log.close()
    if newest is None:
        raise SettingsError("the log is empty")
    click.echo(f"{newest.number} {newest.hash} {newest.at}")
