"""`raise-chat backup`, `restore` and `store`: copies of the data, and its tables from release to release."""

from __future__ import annotations

import json
from pathlib import Path

import click

from bot import assembly
from bot.errors import SettingsError
from bot.parts import now
from bot.settings import read_settings
from privacy.audit import AuditLog, EventKind
from privacy.backup import back_up
from privacy.backup import restore as put_back
from privacy.errors import PrivacyError, StoreError
from privacy.lease import Lease
from privacy.store import NAME, VERSION, Store, figures

_TO = click.Path(file_okay=False, path_type=Path)
_json = click.option("--json", "as_json", is_flag=True, help="One JSON object.")


@click.group()
def backup() -> None:
    """Copies, made beside whoever chats: the data without keys, and the keys in a place of their own."""


def _backed_up(kind: str, to: Path, *, as_json: bool) -> None:
    settings = read_settings()
    try:
        made = back_up(settings.data_dir, to, kind=kind, at=now())
        log = AuditLog(settings.data_dir)
        try:
            log.append(EventKind.EXPORT, at=now(), counts={"backup": kind})
        finally:
            log.close()
    except PrivacyError as failed:
        raise SettingsError(str(failed)) from None
    if as_json:
        click.echo(json.dumps({"kind": kind, "made_at": made.made_at, "files": made.files}, indent=1))
    else:
        click.echo(f"{kind}: {', '.join(made.files)} as of {made.made_at[:19].replace('T', ' ')} UTC")


@backup.command("data")
@click.option(
    "--to", type=_TO, required=True, help="A new folder; in one that is there, a folder by the time."
)
@_json
def backup_data(*, to: Path, as_json: bool) -> None:
    """study.db and audit.db: ciphertext, pseudonyms and counts, and no key. Nothing in it opens by itself."""
    _backed_up("data", to, as_json=as_json)


@backup.command("keys")
@click.option("--to", type=_TO, required=True, help="Where backups of the data do not go.")
@_json
def backup_keys(*, to: Path, as_json: bool) -> None:
    """keys.db, wrapped, and the marks of who was erased. The master key is not in it: keep that apart too.

    An old backup of the keys brings back the key of who was erased since: replace it, do not collect them.
    """
    _backed_up("keys", to, as_json=as_json)


@click.command()
@click.option("--data", type=_TO, required=True, help="A backup of the data.")
@click.option("--keys", type=_TO, required=True, help="A backup of the keys, the newest that there is.")
@click.option("--older-keys", is_flag=True, help="Though the keys are older than the data.")
@_json
def restore(*, data: Path, keys: Path, older_keys: bool, as_json: bool) -> None:
    """Put both into an empty RAISE_DATA_DIR, and erase again whoever was erased since. The master key must be set."""
    settings = read_settings()
    try:
        one, other = put_back(settings.data_dir, data=data, keys=keys, older_keys=older_keys)
    except PrivacyError as failed:
        raise SettingsError(str(failed)) from None
    before = _persons(settings.data_dir)
    keeping = assembly.keeping(settings)  # replays erasures
    try:
        lost = 0
        if older_keys:
            lost = keeping.call(lambda _: len(keeping.rights.keyless()))
        else:
            keeping.call(lambda _: keeping.erase_keyless())
        after = keeping.call(lambda _: len(keeping.records.persons()))
        keeping.call(
            lambda _: keeping.audit.append(
                EventKind.ACCESS,
                at=keeping.now(),
                counts={"command": "restore", "erased_again": before - after},
            )
        )
        entries = keeping.call(lambda _: keeping.audit.verify())
    except PrivacyError as failed:
        click.echo(f"raise-chat: {failed}", err=True)
        raise SystemExit(1) from None
    finally:
        keeping.close()
    told = {"data_of": one.made_at, "keys_of": other.made_at, "persons": after, "erased_again": before - after, "unreadable": lost, "audit_entries": entries}  # fmt: skip
    if as_json:
        click.echo(json.dumps(told, indent=1))
    else:
        click.echo(
            f"restored: {after} persons as of {one.made_at[:19].replace('T', ' ')} UTC; {before - after} who were erased since are "
            f"erased again; the audit log's {entries} entries are whole. Next: raise-chat doctor"
        )
    click.echo(
        f"Erasures after {other.made_at[:19].replace('T', ' ')} UTC are not known to these keys: repeat those of which you know, and of whoever comes with a later receipt."
        + (
            f" {lost} people who came after that cannot be read: erase them, or find their keys."
            if lost
            else ""
        ),
        err=True,
    )


def _persons(directory: Path) -> int:
    store = Store(directory)
    try:
        return len(list(store.db.query("SELECT person FROM participants")))
    finally:
        store.close()


# ------------------------------------------------------------------------------------------------ tables


@click.group("store")
def tables() -> None:
    """The tables of study.db, from release to release."""


@tables.command()
@_json
def status(*, as_json: bool) -> None:
    """The version of the tables in the file, and of this release. Changes nothing."""
    path = read_settings().data_dir / NAME
    if not path.exists():
        raise SettingsError(f"{path}: is not there")
    found = Store.version_of(path)
    if as_json:
        click.echo(json.dumps({"file": found, "release": VERSION}))
    else:
        click.echo(f"the file has version {found}, this release makes {VERSION}")


@tables.command()
def migrate() -> None:
    """Bring the tables to this release's version, step by step; starting the chat does the same."""
    directory = read_settings().data_dir
    if not (directory / NAME).exists():
        raise SettingsError(f"{directory / NAME}: is not there")
    before = Store.version_of(directory / NAME)
    try:
        store = Store(directory)
    except StoreError as failed:
        raise SettingsError(str(failed)) from None
    told, after = figures.integrity(store), figures.version(store)
    store.close()
    click.echo(f"from version {before} to {after}; integrity {told}")
    if told != "ok":
        raise SystemExit(1)


@tables.command()
@click.option("--to", type=click.IntRange(1), required=True, help="Version of the earlier release.")
@click.option(
    "--discard", is_flag=True, help="Though rows are lost that the earlier release has no place for."
)
def rollback(*, to: int, discard: bool) -> None:
    """Bring the tables back to an earlier release's version. Stop the chat, and make a backup, first."""
    directory = read_settings().data_dir
    if not (directory / NAME).exists():
        raise SettingsError(f"{directory / NAME}: is not there")
    if to > VERSION:
        raise SettingsError(f"--to {to}: this release makes version {VERSION}")
    store = Store(directory)
    lease = Lease(store.db, now)
    try:
        lease.take()
        lost = store.lost(to)
        if lost and not discard:
            told = ", ".join(f"{n} of {table}" for table, n in lost.items())
            raise SettingsError(
                f"the earlier release has no place for {told}: make a backup, then run it again with --discard"
            )
        store.roll_back(to)
        lease.give_back()
        told = figures.integrity(store)
    except PrivacyError as failed:
        click.echo(f"raise-chat: {failed}", err=True)
        raise SystemExit(1) from None
    finally:
        store.close()
    click.echo(f"back at version {to}; integrity {told}; lost: {', '.join(lost) or 'nothing'}")
