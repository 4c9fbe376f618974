"""`raise-chat participants` and `staff`: who takes part in a study, and who works for it."""

from __future__ import annotations

import json
import random
import secrets
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

import click

from bot.assembly import arm_spec
from bot.cli.deployment import (
    by_option,
    check_free,
    hand_out,
    login,
    receipt_option,
    with_keeping,
    with_keeping_async,
)
from bot.errors import SettingsError
from bot.keeping import Keeping
from bot.models.connect import is_loopback
from bot.operating import WHY, Operating
from bot.settings import read_settings, study_of
from bot.slips import slips, write_private
from policies.allocation import allocate, ratios
from privacy import pins
from privacy.audit import EventKind
from privacy.consent import Scope
from privacy.store.accounts import Role

_json = click.option("--json", "as_json", is_flag=True, help="One JSON object.")


def _nobody(context: click.Context, code: str) -> NoReturn:
    click.echo(f"raise-chat: there is no participant {code}", err=True)
    context.exit(1)


@click.group()
def participants() -> None:
    """Who takes part: pseudonyms with PINs, in concealed arms."""


@participants.command()
@click.option("--count", type=click.IntRange(1, 10_000), required=True, help="How many.")
@click.option(
    "--arms", default="raise", show_default=True, help="Arms and their shares, such as raise:2,vanilla:1."
)
@click.option(
    "--block",
    default="",
    help="Size of the blocks, or several to choose from: 6 or 6,12. Twice the sum of the shares where it is left out.",
)
@click.option(
    "--seed",
    help="Of the sequence. One at random where there is none; a seed that is known is no concealment.",
)
@click.option(
    "--slips",
    "slips_file",
    type=click.Path(path_type=Path),
    help="A page of slips to print, with QR codes; mode 0600.",
)
@_json
def create(
    *, count: int, arms: str, block: str, seed: str | None, slips_file: Path | None, as_json: bool
) -> None:
    """Make participants: a code and a PIN each, which is shown once. Chance gives each an arm, which is not shown."""
    settings = read_settings()
    study = study_of(settings)
    shares = ratios(arms)
    for name in shares:
        arm_spec(study, name)
    if block and not all(b.strip().isdecimal() for b in block.split(",")):
        raise click.UsageError(f"--block {block!r}: a number, or several with commas")
    blocks = [int(b) for b in block.split(",")] if block else [2 * sum(shares.values())]
    seed_given = seed is not None
    seed = seed or secrets.token_hex(16)
    sequence = allocate(shares, count, blocks=blocks, rng=random.Random(seed))
    check_free(slips_file)  # before anybody is made: a PIN that cannot be written down is lost

    def progress(number: int) -> None:
        if count > 20 and (number % 10 == 0 or number == count):
            click.echo(f"\r{number} of {count}", nl=number == count, err=True)

    def work(keeping: Keeping) -> list[tuple[str, str]]:
        keeping.audit.append(
            EventKind.POLICY, at=keeping.now(),
            counts={"participants": count, "arms": ",".join(shares), "seed_given": seed_given, "protocol": study.protocol},
        )  # fmt: skip
        if seed_given:
            keeping.accounts.deviated("seed-given", by=login())
        return keeping.accounts.enrol_all(sequence, protocol=study.protocol, progress=progress)

    made = with_keeping(work)
    if slips_file is not None:
        page = slips(
            made, origin=settings.origin, title=settings.study_title or "raise-chat", contact=settings.study_contact
        )  # fmt: skip
        write_private(slips_file, page)
        if is_loopback(urlsplit(settings.origin).hostname or ""):
            click.echo(
                f"The slips send people to {settings.origin}, which this machine alone can open: if they come from elsewhere, "
                "set RAISE_PUBLIC_ORIGIN and make others.",
                err=True,
            )
    if as_json:
        rows = [{"code": code, "pin": pin} for code, pin in made]
        click.echo(
            json.dumps(
                {"protocol": study.protocol, "origin": settings.origin, "participants": rows}, indent=1
            )
        )
    elif slips_file is None:
        for code, pin in made:
            click.echo(f"{code}   PIN {pin}")
    if not as_json:
        where = (
            f"the slips are in {slips_file}; print them and delete it"
            if slips_file
            else "write the PINs down"
        )
        click.echo(f"{count} participants made. PINs cannot be shown again: {where}.", err=True)


@participants.command("list")
@_json
def listed(*, as_json: bool) -> None:
    """Everybody who takes part: code, state, since when; no arm."""

    def work(keeping: Keeping) -> list[dict[str, Any]]:
        rows = []
        for one in keeping.accounts.enrolments():
            answers = keeping.ledger.answers(one.person)
            said = [scope.value for scope in Scope if scope in answers and answers[scope].granted]
            rows.append(
                {
                    "code": one.person, "status": one.status.value, "made_at": one.made_at[:10],
                    "first_at": one.first_at[:10], "protocol": one.protocol, "consent": said,
                }
            )  # fmt: skip
        return rows

    rows = with_keeping(work)
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    for row in rows:
        came = f"first here {row['first_at']}" if row["first_at"] else "not here yet"
        click.echo(
            f"{row['code']}  {row['status']:12} {came:22} agreed to: {', '.join(row['consent']) or 'nothing yet'}"
        )
    click.echo(f"{len(rows)} participants")


@participants.command()
@click.argument("code")
@click.option("--undo", is_flag=True, help="Let them in again.")
@by_option
@click.pass_context
def deactivate(context: click.Context, code: str, *, undo: bool, by: str) -> None:
    """Keep somebody out, and sign them out at once everywhere; nothing of theirs is erased."""

    def work(keeping: Keeping) -> bool:
        act = Operating(keeping)
        return (act.activate if undo else act.deactivate)(pins.tidy_code(code), by=by)

    if not with_keeping(work):
        _nobody(context, code)
    click.echo("may sign in again" if undo else "kept out, and signed out everywhere")


@participants.command("reset-pin")
@click.argument("code")
@by_option
@_json
@click.pass_context
def reset_pin(context: click.Context, code: str, *, by: str, as_json: bool) -> None:
    """A new PIN, shown once; whoever is signed in with the old one is not any more."""
    pin = with_keeping(lambda keeping: Operating(keeping).reset_pin(pins.tidy_code(code), by=by))
    if pin is None:
        _nobody(context, code)
    click.echo(
        json.dumps({"code": pins.tidy_code(code), "pin": pin})
        if as_json
        else f"{pins.tidy_code(code)}   PIN {pin}"
    )


@participants.command()
@click.argument("code")
@click.option("--yes", is_flag=True, help="Do not ask again.")
@receipt_option
@by_option
@_json
@click.pass_context
def withdraw(
    context: click.Context, code: str, *, yes: bool, receipt_file: Path | None, by: str, as_json: bool
) -> None:
    """Somebody leaves the study: every consent is taken back, everything of theirs erased; a receipt for them."""
    person = pins.tidy_code(code)
    check_free(receipt_file)
    if not yes:
        click.confirm(f"Erase everything of {person}? This cannot be undone", abort=True, err=True)

    async def work(keeping: Keeping) -> dict[str, Any] | None:
        if await keeping.run(keeping.accounts.enrolment, person) is None:
            return None
        key = await keeping.run(keeping.vault.audit_key, person)
        await keeping.run(
            lambda: keeping.audit.append(
                EventKind.ACCESS, at=keeping.now(), subject=person, key=key, counts={"command": "withdraw", "by": by}
            )
        )  # fmt: skip
        await keeping.answer(person, Scope.CHAT, granted=False)
        return (await keeping.erase(person)).to_json()

    receipt = with_keeping_async(work)
    if receipt is None:
        _nobody(context, code)
    hand_out(receipt, receipt_file)
    if as_json:
        click.echo(json.dumps(receipt, indent=1))
        return
    rows = ", ".join(f"{n} {table}" for table, n in sorted(receipt["counts"].items())) or "nothing"
    click.echo(f"withdrawn; erased: {rows}. Entry {receipt['audit']['number']} of the audit log")


@participants.command()
@click.argument("code")
@click.option("--why", type=click.Choice(WHY), required=True, help="The reason, which is logged.")
@by_option
@click.pass_context
def unblind(context: click.Context, code: str, *, why: str, by: str) -> None:
    """The arm of one participant, in an emergency: logged, and a deviation in the export."""
    arm = with_keeping(lambda keeping: Operating(keeping).unblind(pins.tidy_code(code), by=by, why=why))
    if arm is None:
        _nobody(context, code)
    click.echo(arm)


@participants.command()
@click.argument("code")
@click.option("--why", type=click.Choice(WHY), required=True, help="The reason, which is logged.")
@by_option
@click.pass_context
def read(context: click.Context, code: str, *, why: str, by: str) -> None:
    """What is kept of somebody's newest conversation, redacted. Nobody reads chats without a reason; it is logged first."""
    found = with_keeping(lambda keeping: Operating(keeping).read(pins.tidy_code(code), by=by, why=why))
    if found is None:
        _nobody(context, code)
    entry, lines = found
    for line in lines:
        click.echo(f"{'they' if line.is_theirs else 'chat'}: {line.text}")
    click.echo(f"entry {entry} of the audit log says that {by} read this, and why", err=True)


# ------------------------------------------------------------------------------------------------ staff


@click.group()
def staff() -> None:
    """Who works for the study: operator, researcher or auditor."""


@staff.command("create")
@click.argument("name")
@click.option("--role", type=click.Choice([r.value for r in Role]), required=True)
@_json
def create_staff(name: str, *, role: str, as_json: bool) -> None:
    """An account for NAME, or a new password for it; the password is shown once."""
    name = name.strip().lower()
    if not name or not name.replace("-", "").replace(".", "").isalnum() or len(name) > 40:
        raise SettingsError(f"{name!r}: a name of letters, digits, dots and hyphens")

    def work(keeping: Keeping) -> str:
        keeping.audit.append(
            EventKind.ACCESS,
            at=keeping.now(),
            counts={"command": "staff create", "staff": name, "role": role},
        )
        return keeping.accounts.add_staff(name, Role(role))

    password = with_keeping(work)
    if as_json:
        click.echo(json.dumps({"name": name, "role": role, "password": password}))
    else:
        click.echo(f"{name}   {role}   password {password}   (shown once; they sign in at /operator)")


@staff.command("list")
@_json
def listed_staff(*, as_json: bool) -> None:
    """Every account: name, role, when last used."""
    rows = with_keeping(lambda keeping: keeping.accounts.staff())
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    for row in rows:
        click.echo(f"{row['person']:20} {row['role']:12} last {row['last_at'][:16]}")
    click.echo(f"{len(rows)} accounts")


@staff.command("remove")
@click.argument("name")
@click.pass_context
def remove_staff(context: click.Context, name: str) -> None:
    """Take an account away, at once, also where it is signed in."""

    def work(keeping: Keeping) -> bool:
        keeping.audit.append(
            EventKind.ACCESS, at=keeping.now(), counts={"command": "staff remove", "staff": name}
        )
        return keeping.accounts.remove_staff(name.strip().lower())

    if not with_keeping(work):
        click.echo(f"raise-chat: there is no account {name}", err=True)
        context.exit(1)
    click.echo("removed")
