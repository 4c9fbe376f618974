"""`raise-chat policies check`: whether what ships may be shown to a person today."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import click

from bot.agreement import disagreements
from bot.assembly import retention_rules
from bot.posturing import ROOT
from bot.settings import Mode, read_settings
from bot.words import shipped_texts
from policies import crisis, hazards
from policies.crisis.checks import Finding, check_directory
from policies.wording import lint


@click.group()
def policies() -> None:
    """What to ask, when to stop, where to send people: the files behind the chat."""


@policies.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of lines.")
@click.option(
    "--resources",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file of help lines instead of the one that ships.",
)
@click.pass_context
def check(context: click.Context, *, as_json: bool, resources: Path | None) -> None:
    """Check help lines, wording, retention rules and hazards: retired numbers, words that can harm, tables without a rule.

    Exits 1 on an error. An entry checked more than 180 days ago is a warning in demo mode and an error in a study.
    """
    settings = read_settings()
    today = datetime.now(UTC).date()
    directory = crisis.load(resources or crisis.PATH, to_check=True)
    findings = check_directory(directory, today=today, is_study=settings.mode is Mode.STUDY)
    findings += [
        Finding(is_error=True, kind="wording", where=where, problem=f"{found.rule}: {found.why}")
        for where, text in shipped_texts()
        for found in lint(text)
    ]
    rules = retention_rules(settings)
    findings += [
        Finding(is_error=True, kind="agreement", where=where, problem=problem)
        for where, problem in disagreements(rules, hazards.shipped(), ROOT)
    ]
    failed = any(found.is_error for found in findings)
    if as_json:
        raw = {"ok": not failed, "checked_on": today.isoformat(), "findings": [asdict(f) for f in findings]}
        click.echo(json.dumps(raw, ensure_ascii=False, indent=1))
    else:
        for found in findings:
            click.echo(f"{'error' if found.is_error else 'warning'}: {found.where}: {found.problem}")
        lines = sum(len(country.lines) for country in directory.countries.values())
        click.echo(
            f"{len(directory.countries)} countries, {lines} numbers, compared on {directory.verified_on}; "
            f"{sum(f.is_error for f in findings)} errors, {sum(not f.is_error for f in findings)} warnings"
        )
    if failed:
        context.exit(1)
