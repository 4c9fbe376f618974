"""`raise-chat redact`, `replay` and `privacy`: what an operator and an auditor do with what is held."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import click

from bot import assembly
from bot.cli.auditing import audit, export_log, head, protocol, verify_log
from bot.cli.deployment import check_free, hand_out, login, receipt_option, with_keeping_async
from bot.cli.lines import read_messages
from bot.cli.retention import due_soon, hold, purge
from bot.errors import SettingsError
from bot.keeping import Keeping, decisions_of
from bot.moves import Rules
from bot.observing import observed
from bot.operating import WHY
from bot.record import derived
from bot.settings import Settings, read_settings, study_of
from bot.web import pages
from policies import thresholds
from privacy.audit import AuditLog, EventKind
from privacy.errors import AuditBroken, PrivacyError, RedactionFailed
from privacy.placeholders import Placeholders
from privacy.rights import Rights
from privacy.vault import new_master_key

# ------------------------------------------------------------------------------------------------ redact


@click.command()
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
def redact(file: Path) -> None:
    """Redact messages: {"id", "text"} a line in FILE (- for standard input), {"id", "redacted", "spans"} a line out."""
    found = assembly.detector(read_settings())
    try:
        found.start()
    except RedactionFailed as failed:
        raise SettingsError(str(failed)) from None
    failures = 0
    for _, number, raw in read_messages(file):
        row: dict[str, Any] = {"id": raw.get("id", number)}
        try:
            redaction = found.redact_now(raw["text"])
        except RedactionFailed as failed:
            failures += 1
            row |= {"redacted": None, "spans": [], "failed": str(failed)}
        else:
            spans = [
                {"start": s.start, "end": s.end, "type": s.type, "score": round(s.score, 3)}
                for s in redaction.spans
            ]
            row |= {"redacted": Placeholders().apply(raw["text"], redaction.spans), "spans": spans}
        click.echo(json.dumps(row, ensure_ascii=False))
    found.close()
    if failures:
        click.echo(f"raise-chat: {failures} messages could not be redacted", err=True)
        raise SystemExit(1)


# ------------------------------------------------------------------------------------------------ replay


@click.command()
@click.argument("session")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a decision.")
def replay(session: str, *, as_json: bool) -> None:
    """Derive every decision of a kept SESSION again from what was stored, and compare. Exits 1 where they differ."""
    settings = read_settings()
    keeping = _open(settings)
    try:
        keeping.call(
            lambda _: keeping.audit.append(
                EventKind.ACCESS, at=keeping.now(), counts={"command": "replay", "by": login()}
            )
        )
        rows, inputs = asyncio.run(_stored(keeping, session))
        person = next((row["person"] for row in rows if row["person"]), None)
        arm = keeping.call(lambda _: keeping.accounts.arm(person)) if person else None
    finally:
        keeping.close()
    if not rows:
        raise SettingsError(f"no decisions of a session {session} are kept")
    rules = _rules_of(settings, arm)
    different = 0
    for number in sorted({row["number"] for row in rows}):
        stored = [row for row in rows if row["number"] == number]
        told = inputs.get(number)
        again = decisions_of(derived(told, rules)) if told else None
        for position, row in enumerate(stored):
            same = (
                None
                if again is None
                else position < len(again)
                and all(
                    again[position][k] == row[k]
                    for k in ("outcome", "reason", "basis", "attribute", "domain", "stakes")
                )
            )
            different += same is False
            state = "words erased" if same is None else "derived again" if same else "DIFFERS"
            if as_json:
                click.echo(json.dumps({**row, "replayed": same}))
            else:
                what = row["attribute"] or row["basis"]
                click.echo(f"turn {number}: {row['outcome']:8} {what:24} {row['reason'] or '':22} {state}")
    if different:
        raise SystemExit(1)


def _rules_of(settings: Settings, arm: str | None) -> Rules:
    """The rules that an arm decides by; the deployment's own for who is in none.

    Raises:
        SettingsError: the study file no longer has the arm.
    """
    rules = Rules(thresholds=thresholds.shipped())
    return assembly.arm_rules(rules, study_of(settings), arm) if arm else rules


async def _stored(keeping: Keeping, session: str) -> tuple[list[dict[str, Any]], dict[int, str | None]]:
    rows = await keeping.run(keeping.records.decisions, session)
    inputs = await keeping.run(lambda: dict(keeping.records.turn_inputs(session)))
    return rows, inputs


def _open(settings: Settings) -> Keeping:
    return assembly.keeping(settings)


# ------------------------------------------------------------------------------------------------ privacy


@click.group()
def privacy() -> None:
    """What is held of people: export, erase, verify, rotate keys, look for residue."""


_for = click.option(
    "--why",
    type=click.Choice(WHY),
    default="person-asked",
    show_default=True,
    help="The reason, which is logged.",
)
_by = click.option("--by", default=login, show_default="your login", help="Who does it, which is logged.")


def _with_rights(
    work: Any, *, person: str = "", command: str = "", why: str = "person-asked", by: str = ""
) -> Any:
    """The result of a call on the rights of this deployment, errors in words; staff's access to a person is logged first."""
    keeping = _open(read_settings())

    def logged() -> Any:
        if command:
            keeping.audit.append(
                EventKind.ACCESS, at=keeping.now(), subject=person,
                key=keeping.vault.audit_key(person) if person else None, counts={"command": command, "why": why, "by": by},
            )  # fmt: skip
        return work(keeping.rights)

    try:
        return asyncio.run(keeping.run(logged))
    except (PrivacyError, AuditBroken) as failed:
        click.echo(f"raise-chat: {failed}", err=True)
        raise SystemExit(1) from None
    finally:
        keeping.close()


@privacy.command("new-key")
def new_key() -> None:
    """Print a fresh master key; keep it where backups of the data do not go."""
    click.echo(new_master_key())


@privacy.command()
@click.argument("person")
@click.option("--html", "as_html", is_flag=True, help="A readable page instead of JSON.")
@click.option("--json", "as_json", is_flag=True, help="JSON, the default.")
@_for
@_by
def export(person: str, *, as_html: bool, as_json: bool, why: str, by: str) -> None:
    """Everything that is held of PERSON, for that person: GDPR Art. 15 and 20."""
    del as_json
    found = _with_rights(
        lambda rights: rights.export(person), person=person, command="export", why=why, by=by
    )
    click.echo(pages.export_page(found) if as_html else json.dumps(found, ensure_ascii=False, indent=1))


@privacy.command()
@click.argument("person")
@click.option("--dry-run", is_flag=True, help="Say what would be erased, and erase nothing.")
@click.option("--json", "as_json", is_flag=True, help="The receipt as JSON.")
@click.option("--yes", is_flag=True, help="Do not ask again.")
@receipt_option
@_for
@_by
def erase(
    person: str, *, dry_run: bool, as_json: bool, yes: bool, receipt_file: Path | None, why: str, by: str
) -> None:
    """Erase everything of PERSON and give a receipt: GDPR Art. 17."""
    if dry_run:
        counts = _with_rights(
            lambda rights: rights.preview(person), person=person, command="erase --dry-run", why=why, by=by
        )
        click.echo(json.dumps({"would_erase": counts}) if as_json else _told("would erase", counts))
        return
    check_free(receipt_file)
    if not yes:
        click.confirm(f"Erase everything of {person}? This cannot be undone", abort=True, err=True)
    _with_rights(lambda _rights: None, person=person, command="erase", why=why, by=by)
    receipt = with_keeping_async(lambda keeping: keeping.erase(person)).to_json()
    hand_out(receipt, receipt_file)
    if as_json:
        click.echo(json.dumps(receipt, indent=1))
        return
    click.echo(_told("erased", receipt["counts"]))
    click.echo(
        f"entry {receipt['audit']['number']} of the audit log; nothing was found in {receipt['residue']['files_read']} files"
    )
    for copy in receipt["not_reached"]:
        click.echo(f"not reached: {copy}")


def _told(what: str, counts: dict[str, int]) -> str:
    rows = ", ".join(f"{n} {table}" for table, n in sorted(counts.items())) or "nothing"
    return f"{what}: {rows}"


@privacy.command("verify-receipt")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def verify_receipt(file: Path, *, as_json: bool) -> None:
    """Whether the audit log still says what a receipt says. Exits 1 where it does not. Needs no key."""
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise SettingsError(f"{file}: not a receipt (no JSON)") from None
    settings = read_settings()
    log = AuditLog(settings.data_dir)
    try:
        wrong = Rights.receipt_differs(log, raw)
    except AuditBroken as broken:
        wrong = str(broken)
    finally:
        log.close()
    if as_json:
        click.echo(json.dumps({"verified": not wrong, "why": wrong}))
    else:
        click.echo(f"does not agree: {wrong}" if wrong else "the log says the same")
    if wrong:
        raise SystemExit(1)


@privacy.command("rotate-keys")
@click.option("--data", is_flag=True, help="New data keys too: every value is sealed anew.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def rotate_keys(*, data: bool, as_json: bool) -> None:
    """Wrap every data key under the newest master key; run it again if it was cut. Then take the old key out."""

    def progress(done: int, every: int) -> None:
        if done % 200 == 0 or done == every:
            click.echo(f"{done} of {every}", err=True)

    def work(rights: Rights) -> dict[str, int]:
        return rights.rotate(data=data, progress=progress)

    counts = _with_rights(work)
    click.echo(json.dumps(counts) if as_json else _told("rotated", counts))


@privacy.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def residue(*, as_json: bool) -> None:
    """Read every byte of every file of ours for sealed values of no living row. Needs no key. Exits 1 where one is found."""
    with observed(read_settings()) as deployment:
        found = deployment.scanner.scan()
    if as_json:
        click.echo(json.dumps({"files": found.files, "bytes": found.size, "found": list(found.found)}))
    else:
        click.echo(
            f"{found.files} files, {found.size:,} bytes: " + ("; ".join(found.found) or "nothing is left")
        )
    if found.found:
        raise SystemExit(1)


for command in (purge, due_soon, hold, verify_log, export_log, head, audit, protocol):
    privacy.add_command(command)
