"""`raise-chat doctor`: whether a deployment works, from end to end, and what to do where it does not."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from bot.settings import read_settings

MARKS = {"well": "✓", "look": "!", "broken": "✗"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.pass_context
def doctor(context: click.Context, *, as_json: bool) -> None:
    """Try everything that a deployment needs: packages, settings, keys, store, log, redaction, danger, model, server.

    Exits 1 where something is broken; what is only to be looked at does not count.
    """
    settings = read_settings()
    from bot.doctoring import examined  # noqa: PLC0415 (loads the parts of the chat)

    found = []
    for one in examined(settings):
        found.append(one)
        if not as_json:
            click.echo(f"{MARKS[one.state]} {one.what}: {one.found}")
            if one.state != "well" and one.do:
                click.echo(f"    {one.do}")
    broken = sum(one.state == "broken" for one in found)
    if as_json:
        click.echo(json.dumps({"ok": not broken, "findings": [asdict(one) for one in found]}, indent=1))
    else:
        looked = sum(one.state == "look" for one in found)
        click.echo(f"{len(found)} checks: {broken} broken, {looked} to look at")
    if broken:
        context.exit(1)
