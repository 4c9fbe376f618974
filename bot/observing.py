"""A deployment as its auditor sees it: every file open, no key that opens content, nothing written but the log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bot.assembly import CHAINLIT_FILES, retention_rules
from bot.errors import SettingsError
from bot.parts import now
from bot.settings import Settings
from policies.retention import RetentionPolicy
from privacy.audit import AuditLog
from privacy.errors import PrivacyError
from privacy.residue import Scanner
from privacy.retention import Swept
from privacy.store import Store
from privacy.vault import KeyBook


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Open files of a deployment.

    Attributes:
        swept: store, log and rules.
        rules: in force.
        keys: wrapped, and no master key.
        scanner: looks for residue.
    """

    swept: Swept
    rules: RetentionPolicy
    keys: KeyBook
    scanner: Scanner


@contextmanager
def observed(settings: Settings) -> Iterator[Observed]:
    """Open what can be looked at without a key.

    Raises:
        SettingsError: a file cannot be used; it says which.
        PolicyFileError: the retention rules cannot be used.
    """
    rules = retention_rules(settings)
    opened: list[Store | KeyBook | AuditLog] = []
    try:
        try:
            store, keys, audit = (
                Store(settings.data_dir), KeyBook(settings.data_dir), AuditLog(settings.data_dir),
            )  # fmt: skip
        except PrivacyError as failed:
            raise SettingsError(str(failed)) from None
        opened += [store, keys, audit]
        scanner = Scanner(settings.data_dir, store.db, keys)
        scanner.more_files = [CHAINLIT_FILES]
        yield Observed(
            swept=Swept(
                directory=settings.data_dir,
                store=store,
                audit=audit,
                rules=rules,
                clock=now,
                uploads=(CHAINLIT_FILES,),
            ),
            rules=rules,
            keys=keys,
            scanner=scanner,
        )
    finally:
        for file in opened:
            file.close()
