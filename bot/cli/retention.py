"""`raise-chat privacy purge`, `due` and `hold`: what has expired, what will, and what must be kept for now."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from typing import Any

import click

from bot import assembly
from bot.errors import SettingsError
from bot.observing import observed
from bot.parts import now
from bot.settings import read_settings
from privacy.audit import EventKind
from privacy.errors import PrivacyError
from privacy.retention import Due, SweepReport, coming, due


@click.command()
@click.option("--dry-run", is_flag=True, help="List what would be deleted, and delete nothing. Needs no key.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, every record listed.")
def purge(*, dry_run: bool, as_json: bool) -> None:
    """Delete what has expired, now. Exits 1 where something that had expired is left."""
    settings = read_settings()
    if dry_run:
        with observed(settings) as found:
            listed = list(due(found.swept, now(), subjects=found.keys.made()))
        _print(listed, [], as_json=as_json, dry_run=True)
        return
    keeping = assembly.keeping(settings)
    try:
        reports, listed = asyncio.run(keeping.sweep(f"asked for {now().isoformat()}", listing=True))
    except PrivacyError as failed:
        click.echo(f"raise-chat: {failed}", err=True)
        raise SystemExit(1) from None
    finally:
        keeping.close()
    _print(listed, reports, as_json=as_json, dry_run=False)
    if not all(report.is_clean for report in reports):
        raise SystemExit(1)


def _print(listed: list[Due], reports: list[SweepReport], *, as_json: bool, dry_run: bool) -> None:
    counts: dict[str, int] = {}
    for one in listed:
        counts[one.category if one.table != "keys" else "keys"] = (
            counts.get(one.category if one.table != "keys" else "keys", 0) + 1
        )
    if as_json:
        raw = {
            "dry_run": dry_run, "counts": counts, "due": [asdict(one) for one in listed],
            "reports": [asdict(report) for report in reports],
        }  # fmt: skip
        click.echo(json.dumps(raw, indent=1))
        return
    told = ", ".join(f"{n} {kind.replace('_', ' ')}" for kind, n in sorted(counts.items())) or "nothing"
    click.echo(f"{'would delete' if dry_run else 'deleted'}: {told}")
    for report in reports:
        held = f", {report.held_back} held back by a legal hold" if report.held_back else ""
        seen = "not looked for (too large: run 'raise-chat privacy residue')"
        residue = seen if report.residue is None else f"{report.residue or 'nothing'}"
        click.echo(
            f"sweep {report.slot}: {report.steps} steps, the longest {report.longest_ms:.0f} ms{held}; left: "
            f"{report.left or 'nothing'}; residue: {residue}"
        )


@click.command("due")
@click.option("--days", type=click.IntRange(1, 3650), default=30, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def due_soon(*, days: int, as_json: bool) -> None:
    """What will be deleted within the next days, by day and kind. Needs no key."""
    with observed(read_settings()) as found:
        at = now()
        rows = coming(found.swept.store, at, days=days)
        overdue = sum(1 for one in due(found.swept, at, subjects=found.keys.made()) if one.table != "keys")
    if as_json:
        click.echo(
            json.dumps({"from": at.isoformat(), "days": days, "overdue": overdue, "due": rows}, indent=1)
        )
        return
    if overdue:
        click.echo(f"due now: {overdue} records (the next sweep deletes them; nobody can read them)")
    most = max((row["rows"] for row in rows), default=1)
    for row in rows:
        bar = "#" * max(1, round(40 * row["rows"] / most))
        click.echo(f"{row['day']}  {row['category'].replace('_', ' '):20} {row['rows']:>7}  {bar}")
    if not rows:
        click.echo(f"nothing within {days} days")


@click.command()
@click.argument("person", required=False)
@click.option(
    "--why", default="", help="The reason, in fixed words: a case number, never anything they wrote."
)
@click.option("--by", default="", help="Who ordered it.")
@click.option("--release", "lift", is_flag=True, help="Lift the hold.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def hold(*, person: str | None, why: str, by: str, lift: bool, as_json: bool) -> None:
    """Keep what is held of PERSON from deletion, or list the holds. What has expired stays unreadable all the same."""
    if person and not lift and not (why.strip() and by.strip()):
        raise click.UsageError("a hold needs --why and --by")
    keeping = assembly.keeping(read_settings())

    def work() -> Any:
        if person is None:
            return keeping.records.holds()
        key = keeping.vault.audit_key(person)
        keeping.audit.append(
            EventKind.POLICY, at=keeping.now(), subject=person, key=key,
            counts={"legal_hold": "lifted" if lift else "set"},
        )  # fmt: skip
        if lift:
            return {"person": person, "lifted": keeping.records.release(person)}
        keeping.records.hold(person, why=why.strip(), by=by.strip())
        return {"person": person, "held": True}

    async def both() -> Any:
        if person is not None and not lift and person not in await keeping.run(keeping.records.persons):
            raise SettingsError("nothing is held of a person of that name")
        done = await keeping.run(work)
        if lift:
            await keeping.sweep(f"a hold was lifted {now().isoformat()}")
        return done

    try:
        found = asyncio.run(both())
    except PrivacyError as failed:
        click.echo(f"raise-chat: {failed}", err=True)
        raise SystemExit(1) from None
    finally:
        keeping.close()
    if as_json:
        click.echo(json.dumps(found, indent=1))
    elif isinstance(found, list):
        for row in found:
            click.echo(
                f"{row['person']}: since {row['at'][:10]}, by {row['by']}: {row['why']}; until {row['expires_at'][:10]}"
            )
        click.echo(f"{len(found)} holds")
    elif lift:
        click.echo("lifted" if found["lifted"] else "there was no hold")
    else:
        click.echo(f"held: {person}")
    if lift and isinstance(found, dict) and not found["lifted"]:
        raise SystemExit(1)
