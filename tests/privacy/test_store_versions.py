"""The tables from release to release and back, and backups: nothing lost, nothing opened without keys, nobody brought back."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from sqlite_utils import Database

from bot.conversation import Conversation
from bot.keeping import Keeping
from bot.parts import Parts
from bot.session import Session
from policies import retention
from privacy.backup import MANIFEST, back_up, read, restore
from privacy.consent import ConsentRecord, ConsentVersion, Scope
from privacy.errors import StoreError
from privacy.placeholders import Placeholders
from privacy.store import NAME, VERSION, Store, figures
from privacy.store.accounts import Accounts, Role
from privacy.store.files import checkpoint
from privacy.store.records import field_name
from privacy.store.schema import MIGRATIONS, SEALED, columns_of, columns_of_release
from privacy.vault import Vault, new_master_key
from tests.conftest import KEY, Clock, InProcess, keeping_in

PREVIOUS = Path(__file__).parent / "previous"
ONE, TWO = "visitor-aaaaaaaaaaaaaaaaaaaaaaaa", "visitor-bbbbbbbbbbbbbbbbbbbbbbbb"
BEFORE = 3
"""Version of the tables that the previous release made."""
WORDS = "my heart is a paper boat in the bathtub"


@pytest.fixture
def december() -> Clock:
    made = Clock()
    made.time = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
    return made


@pytest.fixture
def previous(tmp_path: Path) -> Path:
    """The data directory that the previous release left."""
    for name in ("study.db", "audit.db", "keys.db"):
        shutil.copy(PREVIOUS / name, tmp_path / name)
    return tmp_path


def rows_of(folder: Path, columns: dict[str, list[str]]) -> dict[str, list[tuple[Any, ...]]]:
    """Every value of these columns as it stands in the file."""
    with closing(sqlite3.connect(folder / NAME)) as found:
        return {
            table: found.execute(f"SELECT rowid, {', '.join(names)} FROM {table} ORDER BY rowid").fetchall()
            for table, names in columns.items()
        }


def schema_of(folder: Path) -> tuple[int, dict[str, list[str]], list[tuple[str, str]]]:
    """Version, columns and indices of a file."""
    with closing(sqlite3.connect(folder / NAME)) as found:
        indices = found.execute("SELECT name, tbl_name FROM sqlite_master WHERE type = 'index' ORDER BY name")
        made = indices.fetchall()
    database = Database(folder / NAME)
    columns = columns_of(database)
    database.close()
    return Store.version_of(folder / NAME), columns, made


def everywhere(folder: Path) -> bytes:
    return b"\0".join(p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file())


def opened(folder: Path, clock: Clock) -> Keeping:
    """The deployment under the text that those who are in the file agreed to, whatever the text is now."""
    with closing(sqlite3.connect(folder / NAME)) as found:
        ((digest,),) = found.execute("SELECT DISTINCT version FROM consents").fetchall()
    version = ConsentVersion(version="of then", text="", sha256=digest)
    return Keeping(folder, (KEY,), version, retention.shipped(), clock=clock)


async def again(parts: Parts, keeping: Keeping, redactor: InProcess, person: str) -> Conversation:
    """The conversation that is kept, as the page takes it up."""
    found = await keeping.kept(person)
    assert found is not None, f"nothing is kept of {person}"
    kept = found[0]
    return Conversation(
        replace(parts, keeping=keeping, detector=redactor, clock=keeping.now),  # type: ignore[arg-type]
        Session.from_json(json.loads(kept.state)),
        person=person,
        places=Placeholders.from_json(kept.places),
        session_id=kept.id,
    )


async def say(conversation: Conversation, *texts: str) -> list[Any]:
    return [w for text in texts async for w in conversation.receive(text) if not w.is_partial]


# ------------------------------------------------------------------------------------------------ upgrade


def test_the_file_of_the_previous_release_is_what_these_tests_take_it_for(previous: Path) -> None:
    version, columns, _ = schema_of(previous)
    assert version == BEFORE and columns == columns_of_release(MIGRATIONS[:BEFORE])
    rows = rows_of(previous, columns)
    assert len(rows["sessions"]) == 2 and len(rows["turns"]) == 4 and len(rows["feedback"]) == 1


def test_an_upgrade_keeps_every_value_of_every_row(previous: Path) -> None:
    columns = columns_of_release(MIGRATIONS[:BEFORE])
    before = rows_of(previous, columns)
    store = Store(previous)
    assert figures.version(store) == VERSION == 4 and figures.integrity(store) == "ok"
    assert columns_of(store.db) == columns_of_release()
    store.close()
    assert rows_of(previous, columns) == before


def test_an_upgrade_leaves_every_sealed_value_openable(previous: Path, december: Clock) -> None:
    keeping = opened(previous, december)

    def open_all() -> int:
        count = 0
        for person in keeping.records.persons():
            key = keeping.vault.key(person, make=False)
            assert key is not None
            for table, column, row in keeping.records.tokens(person):
                assert key.open(field_name(table, column, row), row[column])
                count += 1
        return count

    there = sum(
        row[c] is not None
        for table in SEALED
        for row in keeping.call(lambda s, t=table: list(s.db.query(f"SELECT * FROM {t}")))  # type: ignore[misc]
        for c in SEALED[table]
    )
    assert keeping.call(lambda _: open_all()) == there >= 12
    keeping.close()


async def test_after_an_upgrade_a_conversation_goes_on_in_mid_question(
    previous: Path, december: Clock, parts: Parts, redactor: InProcess
) -> None:
    keeping = opened(previous, december)
    conversation = await again(parts, keeping, redactor, ONE)
    assert conversation.session.turn == 1 and conversation.session.pending is not None
    shown = [w async for w in conversation.where_we_were()]
    assert shown[-1].attribute is conversation.session.pending.attribute
    moves = await say(conversation, "low, not sleeping")
    assert moves and not any("not saved" in w.text for w in moves)
    kept, _ = await keeping.kept(ONE)  # type: ignore[misc]
    assert Session.from_json(json.loads(kept.state)).turn == 2 and kept.id == conversation.id
    assert json.loads(kept.shown), "what stands on the page is kept from now on"
    keeping.close()


async def test_after_an_upgrade_the_audit_log_of_before_still_verifies_and_an_erasure_is_still_known(
    previous: Path, december: Clock
) -> None:
    keeping = opened(previous, december)
    assert await keeping.run(keeping.audit.verify) >= 15
    assert await keeping.run(keeping.audit.was_erased, "visitor-cccccccccccccccccccccccc")
    assert await keeping.run(keeping.records.persons) == [ONE, TWO]
    keeping.close()


async def test_after_an_upgrade_a_person_of_before_can_be_erased_without_residue(
    previous: Path, december: Clock
) -> None:
    keeping = opened(previous, december)
    receipt = await keeping.erase(TWO)
    assert receipt.residue.found == () and receipt.counts["turns"] == 3 and receipt.counts["feedback"] == 1
    keeping.close()
    assert TWO.encode() not in everywhere(previous)


def test_a_step_that_fails_half_way_leaves_the_version_before_it(previous: Path) -> None:
    with closing(sqlite3.connect(previous / NAME)) as found, found:
        found.execute("CREATE TABLE deviations (in_the_way TEXT)")
    before = schema_of(previous)
    rows = rows_of(previous, columns_of_release(MIGRATIONS[:BEFORE]))
    with pytest.raises(StoreError, match="step 4 of the tables failed"):
        Store(previous)
    assert schema_of(previous) == before, "the tables that the step had made by then are gone again"
    assert rows_of(previous, columns_of_release(MIGRATIONS[:BEFORE])) == rows
    with closing(sqlite3.connect(previous / NAME)) as found, found:
        found.execute("DROP TABLE deviations")
    store = Store(previous)
    assert figures.version(store) == VERSION
    store.close()


def test_steps_before_the_one_that_fails_stand(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / NAME)) as found, found:
        found.execute("CREATE TABLE holds (in_the_way TEXT)")
    with pytest.raises(StoreError, match="step 3 of the tables failed"):
        Store(tmp_path)
    version, columns, _ = schema_of(tmp_path)
    assert version == 2 and "participants" in columns and "tallies" not in columns


def test_a_file_of_a_newer_release_is_refused_and_not_touched(previous: Path) -> None:
    Store(previous).close()
    with closing(sqlite3.connect(previous / NAME)) as found:
        found.execute(f"PRAGMA user_version = {VERSION + 1}")
    before = (previous / NAME).read_bytes()
    with pytest.raises(StoreError, match=f"newer release.*version {VERSION + 1}"):
        Store(previous)
    assert (previous / NAME).read_bytes() == before


# ------------------------------------------------------------------------------------------------ and back


@pytest.fixture
def upgraded(previous: Path, december: Clock) -> Iterator[Store]:
    """The same with what only this release has a place for."""
    store = Store(previous)
    vault = Vault(previous, (KEY,))
    accounts = Accounts(store.db, vault, retention.shipped(), clock=december)
    person, _ = accounts.enrol("zebra", protocol="1")
    accounts.sign_in(person, "a cookie")
    accounts.add_staff("anna", Role.OPERATOR)
    accounts.deviated("other")
    vault.close()
    yield store
    store.close()


def test_what_going_back_would_lose_is_counted(upgraded: Store) -> None:
    assert upgraded.lost(BEFORE) == {"enrolments": 1, "staff": 1, "deviations": 1}
    assert upgraded.lost(VERSION) == {}


def test_going_back_gives_exactly_the_tables_of_the_earlier_release(upgraded: Store, previous: Path) -> None:
    upgraded.roll_back(BEFORE)
    assert figures.integrity(upgraded) == "ok"
    upgraded.close()
    version, columns, indices = schema_of(previous)
    assert version == BEFORE and columns == columns_of_release(MIGRATIONS[:BEFORE])
    fresh = previous / "as the release makes it"
    fresh.mkdir()
    shutil.copy(PREVIOUS / NAME, fresh / NAME)
    assert indices == schema_of(fresh)[2]


def test_going_back_changes_no_value_of_a_row_that_the_earlier_release_had(
    previous: Path,
) -> None:
    columns = columns_of_release(MIGRATIONS[:BEFORE])
    before = rows_of(previous, columns)
    store = Store(previous)
    store.roll_back(BEFORE)
    store.close()
    assert rows_of(previous, columns) == before


def test_going_back_leaves_no_sealed_arm_in_the_file(upgraded: Store, previous: Path) -> None:
    (row,) = upgraded.db.query("SELECT arm, pin FROM enrolments")
    assert checkpoint(upgraded.db) and row["pin"].encode() in (previous / NAME).read_bytes()
    upgraded.roll_back(BEFORE)
    upgraded.close()
    raw = everywhere(previous)
    assert row["arm"].encode()[16:64] not in raw and row["pin"].encode() not in raw


def test_going_back_and_forth_again_works_and_a_conversation_goes_on(
    upgraded: Store, previous: Path, december: Clock
) -> None:
    upgraded.roll_back(BEFORE)
    upgraded.close()
    store = Store(previous)
    assert figures.version(store) == VERSION and columns_of(store.db) == columns_of_release()
    assert store.lost(BEFORE) == {}
    store.close()
    keeping = opened(previous, december)
    found = keeping.call(lambda _: keeping.records.last_session(ONE))
    assert found is not None and Session.from_json(json.loads(found.state)).pending is not None
    keeping.close()


def test_a_step_back_that_fails_half_way_leaves_the_version_as_it_was(
    upgraded: Store, previous: Path
) -> None:
    upgraded.db.execute("CREATE INDEX in_the_way ON turns (took_ms)")
    before = schema_of(previous)
    with pytest.raises(StoreError, match="step 4 was not taken back"):
        upgraded.roll_back(BEFORE)
    assert schema_of(previous) == before
    assert upgraded.lost(BEFORE) == {"enrolments": 1, "staff": 1, "deviations": 1}


def test_a_step_that_cannot_be_taken_back_is_said_so(upgraded: Store) -> None:
    with pytest.raises(StoreError, match="step 3 of the tables cannot be taken back"):
        upgraded.roll_back(2)
    assert figures.version(upgraded) == 3


# ------------------------------------------------------------------------------------------------ backups

FIRST, SECOND = "person-one-417", "person-two-417"


async def talked(parts: Parts, keeping: Keeping, redactor: InProcess, person: str) -> Conversation:
    for scope in (Scope.CHAT, Scope.KEEP):
        await keeping.answer(person, scope, granted=True)
    made = Conversation.start(
        replace(parts, keeping=keeping, detector=redactor),  # type: ignore[arg-type]
        person=person,
        country="GB",
    )
    await say(made, f"my wife left and I've stopped going to work, {WORDS}, what do I do?")
    return made


@pytest.fixture
async def live(parts: Parts, redactor: InProcess, clock: Clock, tmp_path: Path) -> Any:
    keeping: Any = keeping_in(tmp_path / "live", clock=clock)
    for person in (FIRST, SECOND):
        await talked(parts, keeping, redactor, person)
    yield keeping
    keeping.close()


def backed(keeping: Keeping, to: Path, kind: str) -> Path:
    """A backup made beside the open deployment."""
    back_up(keeping.directory, to, kind=kind, at=keeping.now())
    return to


def signed_again(folder: Path) -> None:
    """The manifest of a backup that a test changed on purpose."""
    raw = json.loads((folder / MANIFEST).read_text())
    raw["files"] = {name: sha256((folder / name).read_bytes()).hexdigest() for name in raw["files"]}
    (folder / MANIFEST).write_text(json.dumps(raw))


def test_a_backup_of_the_data_holds_no_key(live: Keeping, tmp_path: Path) -> None:
    data = backed(live, tmp_path / "data", "data")
    wrapped = live.call(lambda _: [t for p in (FIRST, SECOND) for t in live.vault.wrapped(p)])
    assert {p.name for p in data.iterdir()} == {"study.db", "audit.db", MANIFEST}
    raw = everywhere(data)
    assert len(wrapped) >= 2 and not any(token.encode()[16:64] in raw for token in wrapped)
    assert KEY.encode() not in raw and WORDS.encode() not in raw


def test_a_backup_of_the_keys_holds_no_data_and_no_master_key(live: Keeping, tmp_path: Path) -> None:
    keys = backed(live, tmp_path / "keys", "keys")
    tokens = live.call(lambda _: [row[c] for p in (FIRST, SECOND) for _, c, row in live.records.tokens(p)])
    assert {p.name for p in keys.iterdir()} == {"keys.db", "marks.db", MANIFEST}
    raw = everywhere(keys)
    assert len(tokens) >= 6 and not any(token.encode()[16:64] in raw for token in tokens)
    assert KEY.encode() not in raw


def test_nobody_else_can_read_a_backup(live: Keeping, tmp_path: Path) -> None:
    for kind in ("data", "keys"):
        folder = backed(live, tmp_path / kind, kind)
        assert folder.stat().st_mode & 0o777 == 0o700
        assert {p.stat().st_mode & 0o777 for p in folder.iterdir()} == {0o600}


def test_a_backup_into_a_folder_that_is_there_gets_a_folder_by_the_time(
    live: Keeping, tmp_path: Path
) -> None:
    (tmp_path / "nightly").mkdir()
    back_up(live.directory, tmp_path / "nightly", kind="data", at=live.now())
    assert read(tmp_path / "nightly" / "20261129T120000Z", kind="data").schema == VERSION
    with pytest.raises(StoreError, match="is there already"):
        back_up(live.directory, tmp_path / "nightly", kind="data", at=live.now())
    assert [p.name for p in (tmp_path / "nightly").iterdir()] == ["20261129T120000Z"]


def test_a_backup_that_cannot_be_made_leaves_nothing(live: Keeping, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"study\.db: is not there"):
        back_up(tmp_path / "nowhere", tmp_path / "data", kind="data", at=live.now())
    assert {p.name for p in tmp_path.iterdir()} == {"live"}


async def test_after_a_restore_chats_resume_and_the_audit_log_verifies(
    live: Keeping, parts: Parts, redactor: InProcess, clock: Clock, tmp_path: Path
) -> None:
    at_the_time = await live.run(live.audit.verify)
    data, keys = backed(live, tmp_path / "data", "data"), backed(live, tmp_path / "keys", "keys")
    restore(tmp_path / "new", data=data, keys=keys)
    keeping: Any = keeping_in(tmp_path / "new", clock=clock)
    assert await keeping.run(keeping.audit.verify) >= at_the_time
    for person in (FIRST, SECOND):
        conversation = await again(parts, keeping, redactor, person)
        assert conversation.session.pending is not None
        moves = await say(conversation, "low, not sleeping")
        assert moves and not any("not saved" in w.text for w in moves)
        assert (await keeping.kept(person))[0].id == conversation.id
    keeping.close()


def test_a_restore_is_private_and_leaves_the_backups_as_they_were(live: Keeping, tmp_path: Path) -> None:
    data, keys = backed(live, tmp_path / "data", "data"), backed(live, tmp_path / "keys", "keys")
    before = everywhere(data) + everywhere(keys)
    restore(tmp_path / "new", data=data, keys=keys)
    assert everywhere(data) + everywhere(keys) == before
    assert {p.stat().st_mode & 0o777 for p in (tmp_path / "new").iterdir()} == {0o600}
    assert {p.name for p in (tmp_path / "new").iterdir()} >= {"study.db", "audit.db", "keys.db"}
    assert "marks.db" not in {p.name for p in (tmp_path / "new").iterdir()}


@pytest.mark.parametrize("missing", ["data", "keys"])
def test_a_restore_needs_both(missing: str, live: Keeping, tmp_path: Path) -> None:
    places = {kind: backed(live, tmp_path / kind, kind) for kind in ("data", "keys")}
    other = places["keys" if missing == "data" else "data"]
    with pytest.raises(StoreError, match=f"not {missing}"):
        restore(tmp_path / "new", **{**places, missing: other})
    with pytest.raises(StoreError, match="not a backup of ours"):
        restore(tmp_path / "new", **{**places, missing: tmp_path / "nothing"})
    assert not (tmp_path / "new").exists()


def test_with_another_master_key_a_restore_opens_nothing(live: Keeping, clock: Clock, tmp_path: Path) -> None:
    from privacy.errors import KeysUnusable

    data, keys = backed(live, tmp_path / "data", "data"), backed(live, tmp_path / "keys", "keys")
    restore(tmp_path / "new", data=data, keys=keys)
    with pytest.raises(KeysUnusable):
        Vault(tmp_path / "new", (new_master_key(),))


@pytest.mark.parametrize("name", ["study.db", "audit.db", "keys.db", "marks.db"])
def test_a_damaged_file_is_named_and_nothing_is_restored(name: str, live: Keeping, tmp_path: Path) -> None:
    data, keys = backed(live, tmp_path / "data", "data"), backed(live, tmp_path / "keys", "keys")
    path = next(folder / name for folder in (data, keys) if (folder / name).exists())
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    with pytest.raises(StoreError, match=f"{name}: is missing or damaged"):
        restore(tmp_path / "new", data=data, keys=keys)
    path.unlink()
    with pytest.raises(StoreError, match=f"{name}: is missing or damaged"):
        restore(tmp_path / "new", data=data, keys=keys)
    assert not (tmp_path / "new").exists()


def test_a_backup_of_a_newer_release_is_refused(live: Keeping, tmp_path: Path) -> None:
    data, keys = backed(live, tmp_path / "data", "data"), backed(live, tmp_path / "keys", "keys")
    raw = json.loads((data / MANIFEST).read_text())
    (data / MANIFEST).write_text(json.dumps(raw | {"schema": VERSION + 1}))
    with pytest.raises(StoreError, match="newer release"):
        restore(tmp_path / "new", data=data, keys=keys)


def test_keys_of_another_deployment_are_refused_and_nothing_is_restored(
    live: Keeping, clock: Clock, tmp_path: Path
) -> None:
    other: Any = keeping_in(tmp_path / "other", clock=clock)
    data, keys = backed(live, tmp_path / "data", "data"), backed(other, tmp_path / "keys", "keys")
    other.close()
    with pytest.raises(StoreError, match="another deployment"):
        restore(tmp_path / "new", data=data, keys=keys)
    assert not any((tmp_path / "new" / name).exists() for name in ("study.db", "audit.db", "keys.db"))


@pytest.mark.parametrize("name", ["study.db", "audit.db", "keys.db"])
def test_a_directory_with_data_in_it_is_refused_and_not_touched(
    name: str, live: Keeping, tmp_path: Path
) -> None:
    data, keys = backed(live, tmp_path / "data", "data"), backed(live, tmp_path / "keys", "keys")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / name).write_bytes(b"somebody's")
    with pytest.raises(StoreError, match=f"{name}: is there already"):
        restore(tmp_path / "new", data=data, keys=keys)
    assert [p.name for p in (tmp_path / "new").iterdir()] == [name]
    assert (tmp_path / "new" / name).read_bytes() == b"somebody's"


# ------------------------------------------------------------------------------------------------ erased meanwhile


async def erased_since(live: Keeping, tmp_path: Path) -> tuple[Path, Path, Path, list[bytes]]:
    """A data backup, keys of then, keys of after the first person was erased, and pieces of what was sealed of them."""
    data, old = backed(live, tmp_path / "data", "data"), backed(live, tmp_path / "old keys", "keys")
    tokens = await live.run(lambda: [row[c].encode()[16:64] for _, c, row in live.records.tokens(FIRST)])
    await live.erase(FIRST)
    return data, old, backed(live, tmp_path / "keys", "keys"), tokens


async def nobody_came_back(folder: Path, clock: Clock, tokens: list[bytes]) -> None:
    keeping: Any = keeping_in(folder, clock=clock)
    assert await keeping.kept(FIRST) is None and await keeping.kept(SECOND) is not None
    assert await keeping.run(keeping.records.persons) == [SECOND]
    assert await keeping.run(lambda: keeping.vault.key(FIRST, make=False)) is None
    assert (await keeping.run(keeping.rights.scanner.scan)).found == ()
    assert await keeping.run(keeping.audit.verify) > 0
    keeping.close()
    raw = everywhere(folder)
    assert FIRST.encode() not in raw and tokens and not any(token in raw for token in tokens)


async def test_who_was_erased_after_the_data_was_backed_up_is_erased_again(
    live: Keeping, clock: Clock, tmp_path: Path
) -> None:
    data, _, keys, tokens = await erased_since(live, tmp_path)
    assert tokens[0] in (data / NAME).read_bytes(), "the backup holds what must go"
    restore(tmp_path / "new", data=data, keys=keys)
    await nobody_came_back(tmp_path / "new", clock, tokens)


async def test_the_mark_of_an_erasure_alone_erases_again_though_the_key_is_back(
    live: Keeping, clock: Clock, tmp_path: Path
) -> None:
    data, old, keys, tokens = await erased_since(live, tmp_path)
    shutil.copy(old / "keys.db", keys / "keys.db")
    signed_again(keys)
    restore(tmp_path / "new", data=data, keys=keys)
    await nobody_came_back(tmp_path / "new", clock, tokens)


async def test_a_missing_key_alone_erases_again_though_no_mark_says_so(
    live: Keeping, clock: Clock, tmp_path: Path
) -> None:
    data, _, keys, tokens = await erased_since(live, tmp_path)
    with closing(sqlite3.connect(keys / "marks.db")) as marks, marks:
        assert marks.execute("DELETE FROM tombstones").rowcount == 1
    signed_again(keys)
    restore(tmp_path / "new", data=data, keys=keys)
    keeping: Any = keeping_in(tmp_path / "new", clock=clock)
    assert FIRST in await keeping.run(keeping.records.persons), (
        "a start alone deletes nobody for want of a key"
    )
    await keeping.run(keeping.erase_keyless)
    keeping.close()
    await nobody_came_back(tmp_path / "new", clock, tokens)


async def test_who_only_answered_and_had_no_key_is_erased_again_by_the_mark(
    live: Keeping, clock: Clock, tmp_path: Path
) -> None:
    await live.run(lambda: live.records.add_consent(FIRST + "8", _yes(live)))
    data = backed(live, tmp_path / "data", "data")
    await live.erase(FIRST + "8")
    restore(tmp_path / "new", data=data, keys=backed(live, tmp_path / "keys", "keys"))
    keeping: Any = keeping_in(tmp_path / "new", clock=clock)
    assert await keeping.run(keeping.records.persons) == [FIRST, SECOND]
    keeping.close()


def _yes(keeping: Keeping) -> ConsentRecord:
    return ConsentRecord(
        scope=Scope.CHAT,
        version=keeping.ledger.version.sha256,
        destination="",
        granted=True,
        at=keeping.now(),
    )


async def test_with_the_keys_of_then_somebody_would_come_back(
    live: Keeping, clock: Clock, tmp_path: Path
) -> None:
    data, old, _, _ = await erased_since(live, tmp_path)
    restore(tmp_path / "new", data=data, keys=old)
    keeping: Any = keeping_in(tmp_path / "new", clock=clock)
    assert await keeping.kept(FIRST) is not None, "what the tests above rest on"
    keeping.close()


async def test_a_participant_who_withdrew_after_the_backup_cannot_sign_in_again(
    live: Keeping, clock: Clock, tmp_path: Path
) -> None:
    code, _ = await live.run(lambda: live.accounts.enrol("zebra", protocol="1"))
    stays, _ = await live.run(lambda: live.accounts.enrol("okapi", protocol="1"))
    data = backed(live, tmp_path / "data", "data")
    clock.move(hours=1)
    await live.erase(code)
    restore(tmp_path / "new", data=data, keys=backed(live, tmp_path / "keys", "keys"))
    keeping: Any = keeping_in(tmp_path / "new", clock=clock)
    assert await keeping.run(keeping.accounts.pin_of, code) is None
    assert [one.person for one in await keeping.run(keeping.accounts.enrolments)] == [stays]
    assert await keeping.run(keeping.accounts.arm, stays) == "okapi"
    keeping.close()


async def test_what_was_written_after_a_backup_is_not_in_it_and_the_rest_is_whole(
    live: Keeping, parts: Parts, redactor: InProcess, clock: Clock, tmp_path: Path
) -> None:
    data, keys = backed(live, tmp_path / "data", "data"), backed(live, tmp_path / "keys", "keys")
    clock.move(minutes=5)
    conversation = await again(parts, live, redactor, SECOND)
    await say(conversation, "low, not sleeping")
    restore(tmp_path / "new", data=data, keys=keys)
    keeping: Any = keeping_in(tmp_path / "new", clock=clock)
    kept, _ = await keeping.kept(SECOND)
    assert Session.from_json(json.loads(kept.state)).turn == 1 and kept.last_at == clock() - timedelta(
        minutes=5
    )
    keeping.close()


# ------------------------------------------------------------------------------------------------ what is not so yet


async def test_a_write_ahead_log_of_an_earlier_life_is_not_replayed_into_a_restore(
    live: Keeping, clock: Clock, tmp_path: Path
) -> None:
    await live.run(lambda: checkpoint(live.store.db))
    data, keys = backed(live, tmp_path / "data", "data"), backed(live, tmp_path / "keys", "keys")
    later = [(await live.run(lambda: live.accounts.enrol("zebra", protocol="1")))[0] for _ in range(3)]
    (tmp_path / "new").mkdir()
    for path in live.directory.glob("*-wal"):
        shutil.copy(path, tmp_path / "new" / path.name)
    with pytest.raises(StoreError, match="-wal: is there already"):
        restore(tmp_path / "new", data=data, keys=keys)
    assert later


async def test_keys_that_are_older_than_the_data_are_refused(
    live: Keeping, clock: Clock, tmp_path: Path
) -> None:
    keys = backed(live, tmp_path / "keys", "keys")
    clock.move(hours=1)
    await live.run(lambda: live.accounts.enrol("zebra", protocol="1"))
    data = backed(live, tmp_path / "data", "data")
    with pytest.raises(StoreError, match="older"):
        restore(tmp_path / "new", data=data, keys=keys)


async def test_who_is_erased_again_after_a_restore_is_counted_as_withdrawn_again(
    live: Keeping, clock: Clock, tmp_path: Path
) -> None:
    code, _ = await live.run(lambda: live.accounts.enrol("zebra", protocol="1"))
    data = backed(live, tmp_path / "data", "data")
    await live.erase(code)
    restore(tmp_path / "new", data=data, keys=backed(live, tmp_path / "keys", "keys"))
    keeping: Any = keeping_in(tmp_path / "new", clock=clock)
    told = await keeping.run(keeping.accounts.tallied, "enrolment")
    keeping.close()
    assert sum(n for what, n in told.items() if what.startswith("withdrawn")) == 1
