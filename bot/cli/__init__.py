"""`raise-chat`: a module a noun."""

from __future__ import annotations

import logging
import sys

import click

from bot.cli import agreeing, samples  # noqa: F401 (they add their commands to penguin)
from bot.cli.chat import chat
from bot.cli.check import policies
from bot.cli.crisis import crisis
from bot.cli.doctor import doctor
from bot.cli.models import models
from bot.cli.participants import participants, staff
from bot.cli.penguin import penguin
from bot.cli.planning import plan
from bot.cli.privacy import privacy, redact, replay
from bot.cli.screen import screen
from bot.cli.serve import serve
from bot.cli.show import settings
from bot.cli.store import backup, restore, tables
from bot.cli.study import study
from bot.errors import BotError
from policies.errors import PolicyError

__all__ = ["main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="raise-chat")
def cli() -> None:
    """A chat that asks the few facts that make an answer safe for you."""


cli.add_command(backup)
cli.add_command(chat)
cli.add_command(crisis)
cli.add_command(doctor)
cli.add_command(models)
cli.add_command(participants)
cli.add_command(penguin)
cli.add_command(plan)
cli.add_command(policies)
cli.add_command(privacy)
cli.add_command(redact)
cli.add_command(replay)
cli.add_command(restore)
cli.add_command(screen)
cli.add_command(serve)
cli.add_command(settings)
cli.add_command(staff)
cli.add_command(study)
cli.add_command(tables)


def main() -> None:
    """Run the command line: exit 0 done, 1 a check failed, 2 wrong use or configuration."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    try:
        done = cli(standalone_mode=False)
        sys.exit(done if isinstance(done, int) else 0)
    except click.exceptions.Exit as early:
        sys.exit(early.exit_code)
    except click.Abort:
        sys.exit(130)
    except click.ClickException as wrong:
        wrong.show()
        sys.exit(2)
    except (BotError, PolicyError) as wrong:
        click.echo(f"raise-chat: {wrong}", err=True)
        sys.exit(2)
    except Exception as failed:  # noqa: BLE001 (a traceback may hold what a person wrote)
        click.echo(f"raise-chat: failed with {type(failed).__name__}; nothing was saved", err=True)
        sys.exit(1)
