"""`raise-chat study`: whether a study could go before an ethics board, its course, and its export."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from bot.cli.deployment import by_option, with_keeping
from bot.errors import SettingsError
from bot.export import TooFew
from bot.export import export as write_export
from bot.flow_picture import picture
from bot.keeping import Keeping
from bot.operating import DEVIATIONS, PAUSE_WHY, Operating
from bot.settings import read_settings, study_of
from bot.studying import findings, prompt_digests
from privacy import pins
from privacy.research import Research

_json = click.option("--json", "as_json", is_flag=True, help="One JSON object.")


@click.group()
def study() -> None:
    """One study: its file, its course, its export."""


@study.command()
@_json
@click.pass_context
def check(context: click.Context, *, as_json: bool) -> None:
    """What would stop an ethics board, or this study from running. Exits 1 where something does, 2 where the file cannot be read."""
    settings = read_settings()
    found = study_of(settings)
    told = findings(settings, found)
    stops = [f for f in told if f.stops]
    if as_json:
        click.echo(
            json.dumps(
                {"ok": not stops, "protocol": found.protocol, "file": str(found.path), "findings": [asdict(f) for f in told]},
                indent=1,
            )
        )  # fmt: skip
    else:
        click.echo(f"{found.choices.title}: protocol version {found.protocol}, {found.path}")
        for one in told:
            click.echo(f"{'STOPS' if one.stops else 'look'}: {one.where}: {one.what}\n       {one.do}")
        click.echo(f"{len(stops)} would stop it, {len(told) - len(stops)} to look at")
    if stops:
        context.exit(1)


@study.command()
def prompts() -> None:
    """The SHA-256 of each prompt, for the arms of a study file."""
    for name, digest in prompt_digests().items():
        click.echo(f"{name}: {digest}")


@study.command()
@click.option("--svg", type=click.Path(dir_okay=False, path_type=Path), help="The diagram as a picture, too.")
@_json
def flow(*, svg: Path | None, as_json: bool) -> None:
    """How many came how far, by arm: the numbers of a CONSORT diagram. It shows sizes of arms, and nobody."""

    def work(keeping: Keeping) -> dict[tuple[str, str], int]:
        research = Research(keeping.store, keeping.vault, keeping.records, keeping.accounts, keeping.ledger)
        return research.flow(keeping.now())

    found = with_keeping(work)
    if svg is not None:
        try:
            svg.write_text(picture(found, title=study_of(read_settings()).choices.title), encoding="utf-8")
        except OSError as bad:
            raise SettingsError(f"{svg}: cannot be written ({bad.strerror})") from None
    if as_json:
        click.echo(json.dumps([{"step": s, "arm": a, "people": n} for (s, a), n in found.items()], indent=1))
        return
    arms = sorted({arm for _, arm in found})
    click.echo(f"{'':20}" + "".join(f"{arm:>16}" for arm in arms))
    for step in ("allocated", "came", "agreed", "agreed to keep", "agreed to research", "chatted", "deactivated", "withdrawn"):  # fmt: skip
        click.echo(f"{step:20}" + "".join(f"{found.get((step, arm), 0):>16}" for arm in arms))


@study.command()
@click.option("--out", type=click.Path(path_type=Path), required=True, help="A new folder.")
@click.option(
    "--format", "formats", type=click.Choice(["csv", "parquet", "both"]), default="both", show_default=True
)
@click.option(
    "--k", type=click.IntRange(2, 100), default=5, show_default=True,
    help="People who must share each combination of age, gender, … bands.",
)  # fmt: skip
@click.option("--suppress", is_flag=True, help="Hide cells until they do, instead of refusing.")
@by_option
@_json
@click.pass_context
def export(
    context: click.Context, *, out: Path, formats: str, k: int, suppress: bool, by: str, as_json: bool
) -> None:
    """Decisions, timings, ratings, questionnaires, adverse events and transcripts of who agreed to research; with a codebook.

    Exits 1, and writes nothing, where somebody could be picked out of it.
    """
    found = study_of(read_settings())
    chosen = ("csv", "parquet") if formats == "both" else (formats,)
    try:
        made = with_keeping(
            lambda keeping: write_export(keeping, found, out, k=k, hides=suppress, formats=chosen, by=by)
        )
    except TooFew as few:
        click.echo(f"raise-chat: {few}", err=True)
        context.exit(1)
    if as_json:
        click.echo(json.dumps(asdict(made), indent=1))
        return
    for name, rows in made.rows.items():
        click.echo(f"{name:16} {rows:>7} rows")
    click.echo(
        f"{made.people} people who agreed to research; {made.left_out} others are in the counts of 'flow' alone; "
        f"{made.hidden} cells hidden (k {made.k}). Entry {made.entry} of the audit log. In {out}: hand it over, then delete it"
    )


@study.command()
@click.option("--why", type=click.Choice(PAUSE_WHY), required=True, help="It is logged.")
@by_option
@click.pass_context
def pause(context: click.Context, *, why: str, by: str) -> None:
    """Let nobody new in. Who has begun goes on."""
    if not with_keeping(lambda keeping: Operating(keeping).pause(by=by, why=why)):
        click.echo("raise-chat: it is paused already", err=True)
        context.exit(1)
    click.echo("enrolment is paused")


@study.command()
@click.option("--why", type=click.Choice(PAUSE_WHY), required=True, help="It is logged.")
@by_option
@click.pass_context
def resume(context: click.Context, *, why: str, by: str) -> None:
    """Let people in again, after a pause or the stop rule."""
    if not with_keeping(lambda keeping: Operating(keeping).resume(by=by, why=why)):
        click.echo("raise-chat: it is not paused", err=True)
        context.exit(1)
    click.echo("people are taken on again")


@study.command()
@click.option("--what", type=click.Choice(DEVIATIONS), required=True)
@click.option("--person", default="", help="Whom it concerns; everybody where it is left out.")
@by_option
def deviation(*, what: str, person: str, by: str) -> None:
    """Note that the study did not go by its protocol; it is in the export."""

    def work(keeping: Keeping) -> None:
        code = pins.tidy_code(person) if person else ""
        if code and keeping.accounts.enrolment(code) is None:
            raise click.UsageError(f"there is no participant {person}")
        keeping.accounts.deviated(what, person=code, by=by)

    with_keeping(work)
    click.echo("noted")


@study.command()
@_json
def deviations(*, as_json: bool) -> None:
    """Everything that was noted."""
    rows: list[dict[str, Any]] = with_keeping(lambda keeping: keeping.accounts.deviations())
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    for row in rows:
        click.echo(f"{row['at'][:16]}  {row['kind']:26} {row['person'] or 'everybody':12} by {row['by']}")
    click.echo(f"{len(rows)} deviations")
