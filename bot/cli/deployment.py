"""A deployment opened for a command, its errors in words."""

from __future__ import annotations

import asyncio
import getpass
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from bot import assembly
from bot.errors import SettingsError
from bot.keeping import Keeping
from bot.settings import read_settings
from bot.slips import write_private
from privacy.errors import PrivacyError

_Result = TypeVar("_Result")


def login() -> str:
    """Who runs this, or their number where the machine knows no name for it, as in a container."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"


by_option = click.option(
    "--by", default=login, show_default="your login", help="Who does it, which is logged."
)


receipt_option = click.option(
    "--receipt",
    "receipt_file",
    type=click.Path(path_type=Path),
    help="Write the receipt of the erasure into a new file, for the person; mode 0600.",
)


def check_free(path: Path | None) -> None:
    """Whether a file that is to be written after something that cannot be undone can be written.

    Raises:
        SettingsError: it is there already, or cannot be written.
    """
    if path is not None:
        write_private(path, "")
        path.unlink()


def hand_out(receipt: dict[str, Any], path: Path | None) -> None:
    """Write a receipt where it is wanted; where that fails after all, it is shown, as it cannot be made again.

    Raises:
        SystemExit: it could not be written, exit 1.
    """
    if path is None:
        return
    text = json.dumps(receipt, indent=1)
    try:
        write_private(path, text + "\n")
    except SettingsError as bad:
        click.echo(text)
        click.echo(f"raise-chat: it is erased, and the receipt above was not written: {bad}", err=True)
        raise SystemExit(1) from None


def with_keeping(work: Callable[[Keeping], _Result]) -> _Result:
    """The result of something done with the deployment's memory, in the store's thread.

    Raises:
        SettingsError: the deployment cannot be opened.
        SystemExit: it failed, exit 1; the reason is on standard error.
    """
    keeping = assembly.keeping(read_settings())
    try:
        return asyncio.run(keeping.run(work, keeping))
    except PrivacyError as failed:
        click.echo(f"raise-chat: {failed}", err=True)
        raise SystemExit(1) from None
    finally:
        keeping.close()


def with_keeping_async(work: Callable[[Keeping], Any]) -> Any:
    """The same for what calls the store by itself."""
    keeping = assembly.keeping(read_settings())
    try:
        return asyncio.run(work(keeping))
    except PrivacyError as failed:
        click.echo(f"raise-chat: {failed}", err=True)
        raise SystemExit(1) from None
    finally:
        keeping.close()
