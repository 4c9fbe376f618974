"""`raise-chat crisis`: referrals counted, and what the on-call contact does."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from bot.assembly import retention_rules
from bot.errors import SettingsError
from bot.escalation import DRILL, channels
from bot.operating import ACTIONS, OUTCOMES
from bot.settings import read_settings
from privacy.audit import AuditLog, EventKind
from privacy.errors import AuditBroken
from privacy.retention import counts_until
from privacy.store import NAME, Store, StoreError, utc_now


@contextmanager
def _store() -> Iterator[Store]:
    directory = read_settings().data_dir
    if not (directory / NAME).exists():
        raise SettingsError(f"{directory / NAME}: not there; nothing has been recorded in RAISE_DATA_DIR yet")
    try:
        store = Store(directory)
    except StoreError as failed:
        raise SettingsError(str(failed)) from None
    try:
        yield store
    finally:
        store.close()


def _logged(kind: EventKind, **counts: int | str | bool) -> None:
    """In the audit log, before the act; an act of care happens all the same where it cannot be written."""
    try:
        log = AuditLog(read_settings().data_dir)
        try:
            log.append(kind, at=utc_now(), counts=counts)
        finally:
            log.close()
    except AuditBroken as failed:
        click.echo(f"raise-chat: not logged: {failed}", err=True)


@click.group()
def crisis() -> None:
    """Referrals counted without identifiers, and the on-call contact's notices."""


@crisis.command()
def drill() -> None:
    """Try whether a notice arrives: one is sent each way that is set, marked as a drill; exit 1 where one does not go out."""
    ways = channels(read_settings())
    if not ways:
        raise SettingsError("nobody is told of danger: set RAISE_ON_CALL_WEBHOOK or RAISE_ON_CALL_EMAIL")
    notice = {"id": "0", "person": "nobody", "level": DRILL, "at": utc_now().isoformat()}
    failures = 0
    for way in ways:
        name = type(way).__name__.lower()
        try:
            way.send(notice)
        except Exception as failed:  # noqa: BLE001 (its kind is enough: a message may hold an address)
            failures += 1
            click.echo(f"{name}: not sent ({type(failed).__name__})")
        else:
            click.echo(f"{name}: sent; did it reach whoever is on call?")
    if failures:
        raise SystemExit(1)


@crisis.command()
@click.option("--year", type=click.IntRange(2020, 2200), required=True)
@click.option(
    "--format", "form", type=click.Choice(["text", "csv", "json"]), default="text", show_default=True
)
@click.option(
    "--at-least",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="Smaller cells are shown as '<N'.",
)
def report(*, year: int, form: str, at_least: int) -> None:
    """Crisis referrals of a year, by month, level, category and country; no identifiers."""
    rules, now = retention_rules(read_settings()), utc_now()
    with _store() as store:
        rows = [row for row in store.referrals(year) if counts_until(rules, row["month"]) > now]
    total = sum(row["count"] for row in rows if row["count"] >= at_least)
    shown = [{**row, "count": row["count"] if row["count"] >= at_least else f"<{at_least}"} for row in rows]
    if form == "json":
        click.echo(json.dumps({"year": year, "total": total, "referrals": shown}, indent=1))
    elif form == "csv":
        out = io.StringIO()
        writer = csv.DictWriter(out, ["month", "level", "category", "country", "count"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(shown)
        sys.stdout.write(out.getvalue())
    else:
        for row in shown:
            where = row["country"] or "country not known"
            click.echo(f"{row['month']}  {row['level']:9} {row['category']:20} {where:18} {row['count']:>6}")
        least = "at least " if any(row["count"] < at_least for row in rows) else ""
        click.echo(f"{least}{total} crisis referrals shown in {year}; counted without identifiers")


@crisis.command("list")
@click.option("--all", "every", is_flag=True, help="Closed ones too.")
@click.option("--json", "as_json", is_flag=True)
def notices(*, every: bool, as_json: bool) -> None:
    """The on-call contact's notices that are not closed."""
    with _store() as store:
        _logged(EventKind.ACCESS, command="crisis list")
        rows = store.escalations(open_only=not every)
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    for row in rows:
        click.echo(
            f"{row['id']:>4}  {row['level']:9} {row['raised_at'][:16]}  {row['person']}  {_standing(row)}"
        )
    click.echo(f"{len(rows)} notices")


def _standing(row: dict[str, Any]) -> str:
    if row["closed_at"]:
        return f"closed by {row['closed_by']}: {row['outcome']}"
    if row["acknowledged_at"]:
        return f"taken on by {row['acknowledged_by']}: {row['action']}"
    if row["delivered_at"]:
        return f"delivered {row['delivered_at'][:16]}, nobody has taken it on"
    return f"not delivered, {row['attempts']} attempts"


@crisis.command()
@click.argument("number", type=int)
@click.option("--by", required=True, help="Who takes it on.")
@click.option("--did", type=click.Choice(ACTIONS), required=True)
@click.pass_context
def acknowledge(context: click.Context, *, number: int, by: str, did: str) -> None:
    """Take a notice on: who, when and what was done."""
    with _store() as store:
        _logged(EventKind.ESCALATION, notice=number, acknowledged=True, action=did)
        if not store.acknowledge(number, by=by, action=did, at=utc_now()):
            click.echo(f"notice {number}: there is none, or it was taken on before", err=True)
            context.exit(1)
    click.echo(f"notice {number}: taken on by {by}")


@crisis.command()
@click.argument("number", type=int)
@click.option("--by", required=True, help="Who closes it.")
@click.option("--outcome", type=click.Choice(OUTCOMES), required=True)
@click.pass_context
def close(context: click.Context, *, number: int, by: str, outcome: str) -> None:
    """Close a notice that was taken on: the adverse event is over."""
    with _store() as store:
        _logged(EventKind.ESCALATION, notice=number, closed=True, outcome=outcome)
        if not store.close_escalation(number, by=by, outcome=outcome, at=utc_now()):
            click.echo(f"notice {number}: not open, or nobody has taken it on yet", err=True)
            context.exit(1)
    click.echo(f"notice {number}: closed")
