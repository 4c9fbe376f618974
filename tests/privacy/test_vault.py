"""Keys and sealed values: swap, truncation, wrong key, rotation that is cut, files that others can read."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from hypothesis import given
from hypothesis import strategies as st

from privacy.errors import KeysUnusable, SealBroken, StoreError
from privacy.store.files import open_database
from privacy.vault import STEP, Vault, master_keys, new_master_key

AT = datetime(2026, 11, 30, tzinfo=UTC).isoformat()


@pytest.fixture
def vault(tmp_path: Path) -> Any:
    made = Vault(tmp_path, (new_master_key(),))
    yield made
    made.close()


def test_what_is_sealed_opens_and_shows_neither_text_nor_length(vault: Vault) -> None:
    key = vault.key("ann", at=AT)
    assert key is not None
    tokens = {key.seal("value age", text) for text in ("", "3", "thirty-four", "a bit more than thirty")}
    assert len({len(t) for t in tokens}) == 1, f"padded to steps of {STEP}"
    assert key.open("value age", key.seal("value age", "34 naïve ☔")) == "34 naïve ☔"


def test_a_token_of_another_field_or_person_is_refused_and_named(vault: Vault) -> None:
    ann, bob = vault.key("ann", at=AT), vault.key("bob", at=AT)
    assert ann is not None and bob is not None
    token = ann.seal("value age", "34")
    with pytest.raises(SealBroken, match="another record"):
        ann.open("value health", token)
    with pytest.raises(SealBroken, match="value age of bob"):
        bob.open("value age", token)


@given(cut=st.integers(min_value=1, max_value=60))
def test_a_cut_or_changed_token_is_refused_without_its_content(cut: int) -> None:
    from privacy.vault import SealKey

    key = Fernet(Fernet.generate_key())
    from cryptography.fernet import MultiFernet

    seal = SealKey("ann", key, MultiFernet([key]))
    token = seal.seal("value age", "a secret of mine")
    for bad in (token[:-cut], token[:20] + "A" * cut + token[20 + cut :]):
        with pytest.raises(SealBroken) as refused:
            seal.open("value age", bad)
        assert "secret" not in str(refused.value)


def test_a_wrong_master_key_is_a_clear_message(tmp_path: Path) -> None:
    first = Vault(tmp_path, (new_master_key(),))
    first.key("ann", at=AT)
    first.close()
    with pytest.raises(KeysUnusable, match="back into force"):
        Vault(tmp_path, (new_master_key(),))


def test_after_rotation_the_old_master_key_opens_nothing(tmp_path: Path) -> None:
    old, new = new_master_key(), new_master_key()
    vault = Vault(tmp_path, (old,))
    token = vault.key("ann", at=AT).seal("f", "kept")  # type: ignore[union-attr]
    vault.close()
    vault = Vault(tmp_path, (new, old))
    assert vault.rotate_masters() == 1 and vault.rotate_masters() == 0, "idempotent"
    vault.close()
    vault = Vault(tmp_path, (new,))
    assert vault.key("ann", make=False).open("f", token) == "kept"  # type: ignore[union-attr]
    vault.close()
    with pytest.raises(KeysUnusable):
        Vault(tmp_path, (old,))


class Cut(BaseException):
    """The process dies here."""


@pytest.mark.parametrize("at", range(10))
def test_a_master_rotation_that_is_cut_goes_on_where_it_was(at: int, tmp_path: Path) -> None:
    old, new = new_master_key(), new_master_key()
    vault = Vault(tmp_path, (old,))
    for number in range(12):
        vault.key(f"person {number}", at=AT)
    vault.close()
    vault = Vault(tmp_path, (new, old))

    def die(done: int, _: int) -> None:
        if done == at + 1:
            raise Cut

    with pytest.raises(Cut):
        vault.rotate_masters(progress=die)
    vault.close()
    vault = Vault(tmp_path, (new, old))
    assert vault.rotate_masters() == 12 - (at + 1)
    vault.close()
    Vault(tmp_path, (new,)).close()


@pytest.mark.parametrize("at", range(10))
def test_a_data_rotation_that_is_cut_loses_nothing_and_the_old_key_then_opens_nothing(
    at: int, tmp_path: Path
) -> None:
    from bot.parts import now
    from policies import retention
    from privacy.consent import ConsentLedger, ConsentVersion, Scope, ToKeep
    from privacy.store import Store
    from privacy.store.records import Records
    from tests.conftest import KEY

    store, vault = Store(tmp_path), Vault(tmp_path, (KEY,))
    records = Records(store.db, vault, retention.shipped(), clock=now)
    ledger = ConsentLedger(records, ConsentVersion.of("1", "x"))
    ledger.answer("ann", Scope.KEEP, granted=True, at=now())
    for number in range(1, 13):
        records.keep_turn(
            ledger.grant("ann", ToKeep), person="ann", session="s", number=number, at=now(), state=json.dumps({"n": number}),  # type: ignore[arg-type]
            places="{}", attributes={}, turn_input=f"input {number}", decisions=[],
        )  # fmt: skip
    old = vault.key("ann", make=False)
    vault.begin_rotation("ann")
    steps = records.reseal("ann", most=1)
    for _ in range(at):
        next(steps)
    store.close()
    vault.close()
    store, vault = Store(tmp_path), Vault(tmp_path, (KEY,))
    records = Records(store.db, vault, retention.shipped(), clock=now)
    assert dict(records.turn_inputs("s")) == {n: f"input {n}" for n in range(1, 13)}, (
        "all is readable in between"
    )
    vault.begin_rotation("ann")
    done = [0, *records.reseal("ann", most=1)][-1]
    assert done == 15 - at
    vault.end_rotation("ann")
    assert dict(records.turn_inputs("s")) == {n: f"input {n}" for n in range(1, 13)}
    for _, _, row in records.tokens("ann"):
        for token in (row["input"],) if "input" in row else ():
            with pytest.raises(SealBroken):
                old.open(f"input s {row['number']}", token)  # type: ignore[union-attr]
    assert [0, *records.reseal("ann")][-1] == 0
    store.close()
    vault.close()


def test_a_swapped_row_is_refused(tmp_path: Path) -> None:
    vault = Vault(tmp_path, (new_master_key(),))
    key = vault.key("ann", at=AT)
    assert key is not None
    first, second = key.seal("input s 1", "one"), key.seal("input s 2", "two")
    with pytest.raises(SealBroken):
        key.open("input s 1", second)
    assert key.open("input s 1", first) == "one"
    vault.close()


def test_a_shredded_key_opens_nothing_not_even_from_memory(vault: Vault) -> None:
    token = vault.key("ann", at=AT).seal("f", "x")  # type: ignore[union-attr]
    assert vault.shred("ann") and not vault.shred("ann")
    assert vault.key("ann", make=False) is None and vault.audit_key("ann") is None
    fresh = vault.key("ann", at=AT)
    with pytest.raises(SealBroken):
        fresh.open("f", token)  # type: ignore[union-attr]


# ------------------------------------------------------------------------------------------------ where keys come from


def test_a_key_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(new_master_key())
    path.chmod(0o644)
    with pytest.raises(KeysUnusable, match="chmod 600"):
        master_keys(tmp_path, file=path)
    path.chmod(0o600)
    assert len(master_keys(tmp_path, file=path)) == 1


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("change-me", "example"),
        ("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", "example"),
        ("short", "not a Fernet key"),
    ],
)
def test_a_default_or_a_broken_key_is_refused(given: str, named: str, tmp_path: Path) -> None:
    with pytest.raises(KeysUnusable, match=named):
        master_keys(tmp_path, from_environment=given)


def test_a_study_must_bring_a_key_and_a_demo_makes_its_own(tmp_path: Path) -> None:
    with pytest.raises(KeysUnusable, match="new-key"):
        master_keys(tmp_path)
    made = master_keys(tmp_path, may_make=True)
    assert made == master_keys(tmp_path, may_make=True)
    assert (tmp_path / "master.key").stat().st_mode & 0o777 == 0o600


def test_every_connection_has_what_erasure_relies_on(tmp_path: Path) -> None:
    database = open_database(tmp_path / "x.db")
    assert [database.execute(f"PRAGMA {p}").fetchone()[0] for p in ("journal_mode", "secure_delete", "foreign_keys")] == [
        "wal", 1, 1,
    ]  # fmt: skip
    assert (tmp_path / "x.db").stat().st_mode & 0o777 == 0o600
    (tmp_path / "broken.db").write_bytes(b"this is no database" * 100)
    with pytest.raises(StoreError, match=r"broken\.db"):
        open_database(tmp_path / "broken.db")
