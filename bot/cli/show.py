"""`raise-chat settings`: what is in force."""

from __future__ import annotations

import json

import click

from bot.settings import Settings, masked, read_settings


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of lines.")
def settings(*, as_json: bool) -> None:
    """Print every setting in force, secrets masked."""
    found = masked(read_settings())
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return
    for name, value in found.items():
        described = Settings.model_fields[name.removeprefix("RAISE_").lower()].description or ""
        click.echo(f"{name}={value}  # {described}")
