"""Retention under a frozen clock: at each rule's boundary nothing is read any more, and the sweep takes it away, once."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet

from bot.keeping import Keeping, SteadyClock
from bot.settings import read_settings
from bot.sweeping import Heads, Sweeper
from policies import retention
from privacy.audit import read_heads
from privacy.consent import ConsentRecord, Scope, ToKeep, ToResearch, ToSend
from privacy.errors import AuditBroken, PrivacyError, StoreError
from privacy.lease import LEASE, Lease, SweepBusy
from privacy.retention import Due, RetentionSweep, SweepReport, coming, due
from privacy.rights import HeldByLaw
from privacy.scheduler import BadSchedule, last_slot, next_slot, trigger
from tests.conftest import Clock, keeping_in

PERSON, OTHER = "person-one-417", "person-two-417"
HOST = "model.invalid"
RULES = retention.shipped()


@pytest.fixture
def keeping(tmp_path: Path, clock: Clock) -> Iterator[Keeping]:
    made: Any = keeping_in(tmp_path / "data", clock=clock, send_to=HOST)
    yield made
    made.close()


def grant(keeping: Keeping, person: str, kind: Any) -> Any:
    found = keeping.ledger.grant(person, kind)
    assert found is not None
    return found


def fill(keeping: Keeping, clock: Clock, person: str = PERSON, *, sessions: int = 1) -> None:
    """One of everything that can be held of a person, now; in the store's thread."""
    at = clock()
    for scope in Scope:
        keeping.ledger.answer(person, scope, granted=True, at=at)
    keeping.vault.key(person, at=at.isoformat())
    for number in range(sessions):
        session = hashlib.sha256(f"{person} {number}".encode()).hexdigest()[:24]
        profile = {
            "emotion": {"standing": "known", "at": at.isoformat(), "text": "numb as a stone", "tags": []},
            "age": {"standing": "known", "at": at.isoformat(), "text": "41 in spring", "tags": []},
        }
        for turn, words in (
            (1, None),
            (2, (grant(keeping, person, ToResearch), '{"said": "hush", "answered": []}')),
        ):
            keeping.records.keep_turn(
                grant(keeping, person, ToKeep), person=person, session=session, number=turn, at=at,
                state=json.dumps({"profile": profile}), places="{}",
                attributes={"emotion": ('"numb as a stone"', at, True), "age": ('"41 in spring"', at, False)},
                turn_input='{"events": []}', decisions=[DECISION], plan='{"entries": {"a": "walk the dog"}}', words=words,
            )  # fmt: skip
        keeping.records.keep_feedback(
            grant(keeping, person, ToKeep),
            person=person,
            session=session,
            number=2,
            rating=1,
            note="too long",
        )
    keeping.records.note_sent(
        grant(keeping, person, ToSend), person=person, destination=HOST, model="m", role="answer", entities={}, size=9,
        digest="d", content="zebra crossing", consented_to=HOST,
    )  # fmt: skip
    keeping.store.open_escalation(
        person=person,
        level="imminent",
        at=at,
        again_after=timedelta(minutes=20),
        until=RULES.until("escalation", at),
    )


DECISION = {
    "outcome": "ask", "reason": "insufficient_context", "basis": "gain", "sufficiency": 1.0, "attribute": "emotion",
    "domain": "life", "stakes": "high", "plan": None,
}  # fmt: skip
ROWS = [
    ("consents", "consent"), ("sessions", "session"), ("attributes", "stable_attribute"), ("attributes", "volatile_attribute"),
    ("turns", "turn"), ("turns", "transcript"), ("decisions", "decision"), ("ledger", "ledger"),
    ("safety_plans", "safety_plan"), ("feedback", "feedback"), ("escalations", "escalation"),
]  # fmt: skip


async def done(keeping: Keeping, slot: str = "slot") -> SweepReport:
    (report,), _ = await keeping.sweep(slot)
    return report


async def rows(keeping: Keeping, table: str, category: str) -> int:
    query = f"SELECT count(*) FROM {table} WHERE category = ?"
    found = await keeping.run(lambda: keeping.store.db.execute(query, [category]).fetchone()[0])
    return int(found)


async def seen(keeping: Keeping, table: str, category: str) -> int:
    held = await keeping.run(keeping.rights.held, PERSON)
    return sum(row.table == table and row.category == category for row in held)


@pytest.mark.parametrize(("table", "category"), ROWS)
async def test_a_second_before_it_is_there_and_at_its_time_it_is_neither_read_nor_left(
    table: str, category: str, keeping: Keeping, clock: Clock
) -> None:
    await keeping.run(fill, keeping, clock)
    began = clock()
    many = await rows(keeping, table, category)
    assert many and await seen(keeping, table, category) == many
    until = RULES.until(category, began)
    clock.time = until - timedelta(seconds=1)
    assert await seen(keeping, table, category) == many
    exported = await keeping.run(keeping.rights.export, PERSON)
    assert sum(e["kind"] == table and e["category"] == category for e in exported["held"]) == many
    await done(keeping, "before")
    assert await rows(keeping, table, category) == many, "not a second too early"
    clock.time = until
    assert await seen(keeping, table, category) == 0, "from that second on nobody reads it, swept or not"
    exported = await keeping.run(keeping.rights.export, PERSON)
    assert not any(e["kind"] == table and e["category"] == category for e in exported["held"])
    assert await rows(keeping, table, category) == many
    report = await done(keeping, "at")
    assert report.deleted[category] == many and report.is_clean
    assert await rows(keeping, table, category) == 0
    clock.move(seconds=1)
    assert category not in (await done(keeping, "after")).deleted, "once"


async def test_answers_fade_out_of_a_conversation_that_lives_on(keeping: Keeping, clock: Clock) -> None:
    await keeping.run(fill, keeping, clock)

    async def state() -> str:
        found = await keeping.kept(PERSON)
        assert found is not None
        exported = await keeping.run(keeping.rights.export, PERSON)
        assert found[0].state == json.dumps(
            next(e["content"]["state"] for e in exported["held"] if e["kind"] == "sessions"),
            ensure_ascii=False,
        )
        return found[0].state

    async def on_disk() -> str:
        def opened() -> str:
            (row,) = keeping.store.db.query("SELECT * FROM sessions")
            key = keeping.vault.key(PERSON, make=False)
            assert key is not None
            return key.open(f"state {row['id']}", row["state"])

        return await keeping.run(opened)

    clock.move(days=7, seconds=-1)
    assert "numb as a stone" in await state()
    clock.move(seconds=1)
    assert "numb as a stone" not in await state() and "41 in spring" in await state()
    assert "numb as a stone" in await on_disk()
    assert (await done(keeping)).is_clean
    assert "numb as a stone" not in await on_disk() and "41 in spring" in await on_disk()


async def test_a_key_goes_with_the_last_that_it_sealed_and_the_pseudonym_too(
    keeping: Keeping, clock: Clock
) -> None:
    await keeping.run(fill, keeping, clock)
    clock.move(days=364)
    assert (await done(keeping, "a")).keys == 0
    clock.move(days=366 * 3)
    report = await done(keeping, "b")
    assert report.keys == 1 and report.deleted["participant"] == 1
    assert not await keeping.run(lambda: list(keeping.vault.subjects()))
    assert (await keeping.run(keeping.rights.scanner.scan)).found == ()


async def test_a_key_of_somebody_whose_first_row_is_on_its_way_stays(keeping: Keeping, clock: Clock) -> None:
    await keeping.run(lambda: keeping.vault.key("new-here", at=clock().isoformat()))
    assert (await done(keeping, "a")).keys == 0
    clock.move(hours=1)
    assert (await done(keeping, "b")).keys == 1


async def test_counts_are_kept_of_what_goes_and_belong_to_nobody(keeping: Keeping, clock: Clock) -> None:
    await keeping.run(fill, keeping, clock)
    clock.move(days=366 * 3)
    report = await done(keeping)
    assert report.tallied == {"decision": 2, "ledger": 1, "feedback": 1, "escalation": 1}
    found = await keeping.run(lambda: list(keeping.store.db.query("SELECT * FROM tallies ORDER BY category")))
    assert [(r["category"], r["month"], r["what"], r["count"]) for r in found] == [
        ("decision", "2026-11", "ask", 2), ("escalation", "2026-11", "imminent", 1),
        ("feedback", "2026-11", "helped", 1), ("ledger", "2026-11", "answer", 1),
    ]  # fmt: skip
    clock.time = datetime(2036, 11, 30, 23, 59, 59, tzinfo=UTC)
    await done(keeping, "later")
    assert await keeping.run(lambda: keeping.store.db["tallies"].count) == 4
    clock.move(seconds=1)
    report = await done(keeping, "ten years after the month")
    assert report.deleted["counts"] >= 4 and await keeping.run(lambda: keeping.store.db["tallies"].count) == 0


def key(one: Due) -> tuple[str, str, str]:
    return one.table, one.name, one.category


async def test_a_dry_run_lists_exactly_what_the_real_run_deletes(
    keeping: Keeping, clock: Clock, tmp_path: Path
) -> None:
    for number in range(4):
        await keeping.run(lambda n=number: fill(keeping, clock, f"person-{n}", sessions=3))
        clock.move(days=9)
    exports = tmp_path / "data" / "exports"
    exports.mkdir()
    old = exports / "export-1.json"
    old.write_text("{}")
    os.utime(old, (clock().timestamp() - 8 * 86400,) * 2)
    (exports / "export-2.json").write_text("{}")
    os.utime(exports / "export-2.json", (clock().timestamp(),) * 2)
    await keeping.run(lambda: keeping.records.hold("person-1", why="case 7", by="ethics board"))
    planned = await keeping.run(lambda: list(due(keeping.swept(), clock(), subjects=keeping.vault.made())))
    assert {one.table for one in planned} >= {
        "sessions",
        "turns",
        "attributes",
        "feedback",
        "ledger",
        "files",
    }
    assert not any("person-1" in one.name for one in planned)
    _, listed = await keeping.sweep("real", listing=True)
    assert sorted(map(key, planned)) == sorted(map(key, listed))
    assert not old.exists() and (exports / "export-2.json").exists()
    clock.move(days=4000)
    planned = await keeping.run(lambda: list(due(keeping.swept(), clock(), subjects=keeping.vault.made())))
    _, listed = await keeping.sweep("all", listing=True)
    assert sorted(map(key, planned)) == sorted(map(key, listed))
    assert any(one.table == "audit" for one in planned) and any(one.table == "keys" for one in planned)


async def test_a_legal_hold_keeps_rows_unread_and_refuses_erasure_until_it_is_lifted(
    keeping: Keeping, clock: Clock
) -> None:
    await keeping.run(fill, keeping, clock)
    await keeping.run(fill, keeping, clock, OTHER)
    await keeping.run(lambda: keeping.records.hold(PERSON, why="case 7", by="court"))
    clock.move(days=31)
    report = await done(keeping, "held")
    assert report.held_back > 0 and report.is_clean and report.deleted["session"] == 1
    assert await rows(keeping, "sessions", "session") == 1 and await seen(keeping, "sessions", "session") == 0
    with pytest.raises(HeldByLaw):
        await keeping.run(keeping.rights.erase_all, PERSON)
    assert await keeping.run(lambda: keeping.records.release(PERSON))
    assert (await done(keeping, "lifted")).deleted["session"] == 1
    await keeping.run(keeping.rights.erase_all, PERSON)


async def test_a_hold_runs_out(keeping: Keeping, clock: Clock) -> None:
    await keeping.run(fill, keeping, clock)
    await keeping.run(lambda: keeping.records.hold(PERSON, why="case 7", by="court"))
    clock.move(days=3 * 366)
    report = await done(keeping)
    assert report.deleted["legal_hold"] == 1 and report.deleted["session"] == 1 and not report.held_back


# ------------------------------------------------------------------------------------------------ cut, twice, busy


async def test_a_sweep_that_is_cut_anywhere_goes_on_and_counts_each_row_once(
    tmp_path: Path, clock: Clock
) -> None:
    whole: Any = keeping_in(tmp_path / "whole", clock=clock, send_to=HOST)
    await whole.run(lambda: [fill(whole, clock, f"p-{n}", sessions=4) for n in range(6)])
    clock.move(days=366 * 4)
    expected = await done(whole, "one")
    whole.close()
    steps = expected.steps
    assert steps > 12
    for cut_after in range(1, steps, max(1, steps // 8)):
        clock.move(days=-366 * 4)
        made: Any = keeping_in(tmp_path / f"cut-{cut_after}", clock=clock, send_to=HOST)
        await made.run(lambda m=made: [fill(m, clock, f"p-{n}", sessions=4) for n in range(6)])
        clock.move(days=366 * 4)

        def cut(keeping: Keeping = made, after: int = cut_after) -> None:
            run = RetentionSweep(keeping.swept(), "one")
            for _ in range(after):
                run.step()
            dead = subprocess.run(
                [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True
            )
            number = int(dead.stdout)
            keeping.store.db.execute("UPDATE leases SET pid = ?, owner = ?", [number, f"{number} 1 cafe"])
            run._is_open = False

        await made.run(cut)
        reports, _ = await made.sweep("two")
        assert [r.slot for r in reports][-1] == "two" and all(r.is_clean for r in reports), cut_after
        total: dict[str, int] = {}
        for report in reports:
            for category, count in report.deleted.items():
                total[category] = total.get(category, 0) + count
        assert total == expected.deleted, cut_after
        ends = [
            counts
            for event in await made.run(lambda m=made: list(m.audit.events()))
            if "rows" in (counts := json.loads(event.counts))
        ]
        assert [c["slot"] for c in ends] == [r.slot for r in reports], "each reported once"
        assert [c["rows"] for c in ends] == [sum(r.deleted.values()) for r in reports]
        tallied = await made.run(lambda m=made: list(m.store.db.query("SELECT sum(count) AS n FROM tallies")))
        assert tallied[0]["n"] == sum(expected.tallied.values())
        made.close()


HOLDER = """
import sys, time
from datetime import datetime, UTC
from pathlib import Path
from privacy.retention import Lease
from privacy.store import Store
store = Store(Path(sys.argv[1]))
Lease(store.db, lambda: datetime(2020, 1, 1, tzinfo=UTC)).take()
print("held", flush=True)
time.sleep(60)
"""


async def test_the_lease_is_taken_from_the_dead_and_from_nobody_else(
    keeping: Keeping, clock: Clock, tmp_path: Path
) -> None:
    await keeping.run(fill, keeping, clock)
    clock.move(days=8)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "data")], stdout=subprocess.PIPE, text=True,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert holder.stdout is not None and holder.stdout.readline().strip() == "held"
    with pytest.raises(SweepBusy):
        await keeping.sweep("slot")
    assert await rows(keeping, "attributes", "volatile_attribute") == 1, "alive, however old its lease is"
    holder.kill()
    holder.wait()
    holder.stdout.close()
    assert (await done(keeping)).deleted["volatile_attribute"] == 1
    assert await keeping.run(lambda: keeping.store.db["leases"].count) == 0


async def test_a_lease_of_another_machine_is_respected_until_its_time(keeping: Keeping, clock: Clock) -> None:
    await keeping.run(
        lambda: keeping.store.db.execute(
            "INSERT INTO leases VALUES (?, '1 2 x', 'elsewhere', 1, ?)",
            [LEASE, (clock() + timedelta(seconds=60)).isoformat()],
        )
    )
    with pytest.raises(SweepBusy):
        await keeping.sweep("slot")
    clock.move(seconds=60)
    assert (await done(keeping)).is_clean


async def test_who_has_lost_the_lease_stops(keeping: Keeping, clock: Clock) -> None:
    await keeping.run(fill, keeping, clock)
    clock.move(days=400)
    run = await keeping.run(lambda: RetentionSweep(keeping.swept(), "slot"))
    await keeping.run(run.step)
    await keeping.run(lambda: keeping.store.db.execute("UPDATE leases SET owner = 'another'"))
    before = await rows(keeping, "turns", "turn")
    with pytest.raises(SweepBusy):
        await keeping.run(run.run)
    assert await rows(keeping, "turns", "turn") == before


async def test_a_slot_is_swept_once(keeping: Keeping, clock: Clock) -> None:
    assert (await done(keeping, "slot")).finished_at is not None
    again, _ = await keeping.sweep("slot")
    assert again == []


async def test_where_the_log_cannot_be_written_nothing_is_deleted(keeping: Keeping, clock: Clock) -> None:
    await keeping.run(fill, keeping, clock)
    clock.move(days=400)
    await keeping.run(lambda: keeping.audit._db.execute("DROP TABLE events"))
    with pytest.raises(AuditBroken):
        await keeping.sweep("slot")
    assert await rows(keeping, "sessions", "session") == 1


async def test_a_database_that_is_busy_is_waited_out(
    keeping: Keeping, clock: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await keeping.run(fill, keeping, clock)
    clock.move(days=400)
    await keeping.run(lambda: keeping.store.db.execute("PRAGMA busy_timeout = 50").fetchall())
    other = sqlite3.connect(tmp_path / "data" / "study.db", check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="the next one goes on"):
        await keeping.sweep("slot")
    freed = threading.Timer(0.8, other.rollback)
    freed.start()
    sweeper = Sweeper(keeping, Heads(file=tmp_path / "heads.txt"), passed=time.monotonic, again=0.1)
    with caplog.at_level(logging.ERROR):
        await sweeper.sweep()
    freed.join()
    other.close()
    assert "a sweep was cut" in caplog.text
    assert await rows(keeping, "sessions", "session") == 0
    head = await keeping.run(keeping.audit.head)
    assert head is not None and read_heads(tmp_path / "heads.txt") == {head.number: head.hash}


async def test_ten_years_at_once_go_in_short_steps(keeping: Keeping, clock: Clock) -> None:
    def ten_years() -> None:
        for month in range(0, 120, 6):
            fill(keeping, clock, f"p-{month}", sessions=3)
            clock.move(days=180)

    await keeping.run(ten_years)
    clock.move(days=400)
    report = await done(keeping)
    assert report.is_clean and report.deleted["session"] == 60 and report.steps > 15
    assert (await keeping.run(keeping.rights.scanner.scan)).found == ()


async def test_a_chat_goes_on_between_two_steps_of_a_sweep(keeping: Keeping, clock: Clock) -> None:
    await keeping.run(lambda: [fill(keeping, clock, f"p-{n}", sessions=5) for n in range(10)])
    clock.move(days=400)
    sweeping = asyncio.ensure_future(keeping.sweep("slot"))
    turns = 0
    while not sweeping.done():
        await keeping.answer("somebody-else", Scope.KEEP, granted=True)
        turns += 1
    assert turns > 5 and (await sweeping)[0][0].is_clean


# ------------------------------------------------------------------------------------------------ clocks


async def test_what_has_expired_stays_so_when_the_clock_is_set_back(
    keeping: Keeping, clock: Clock, tmp_path: Path
) -> None:
    await keeping.run(fill, keeping, clock)
    clock.move(days=7)
    assert await seen(keeping, "attributes", "volatile_attribute") == 0
    clock.move(hours=-20)
    assert await seen(keeping, "attributes", "volatile_attribute") == 0
    assert (await done(keeping)).deleted["volatile_attribute"] == 1
    again: Any = keeping_in(tmp_path / "data", clock=clock, send_to=HOST)
    assert again.now() == clock() + timedelta(hours=20), "a restart does not forget it either"
    again.close()


def test_a_clock_that_was_far_ahead_is_not_followed(clock: Clock) -> None:
    steady = SteadyClock(clock)
    clock.move(days=4000)
    ahead = steady()
    clock.move(days=-4000)
    assert steady() == clock() < ahead
    steady.seen(clock() + timedelta(days=4000))
    assert steady() == clock()


async def test_a_clock_that_jumps_ahead_deletes_nothing(
    keeping: Keeping, clock: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await keeping.run(fill, keeping, clock)
    seconds = [0.0]
    sweeper = Sweeper(keeping, Heads(file=tmp_path / "heads.txt"), passed=lambda: seconds[0])
    clock.move(days=400)
    with caplog.at_level(logging.ERROR):
        await sweeper.sweep()
    assert "9600 hours ahead" in caplog.text and await rows(keeping, "sessions", "session") == 1
    seconds[0] = 400 * 86400.0
    await sweeper.sweep()
    assert await rows(keeping, "sessions", "session") == 0


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
@pytest.mark.parametrize("day", ["2026-03-29", "2026-10-25", "2026-11-01", "2027-04-04"])
def test_daylight_saving_neither_skips_nor_repeats_a_slot(
    zone: str, day: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    start = datetime.fromisoformat(day).replace(tzinfo=UTC)
    slots = {last_slot("17 * * * *", start + timedelta(minutes=10 * n)) for n in range(6 * 24)}
    assert len(slots) == 25 and all(s.minute == 17 for s in slots)
    assert next_slot("17 * * * *", start) == start + timedelta(minutes=17)
    monkeypatch.undo()
    time.tzset()


def test_a_schedule_that_is_none_or_never_comes_is_refused() -> None:
    for wrong in ("61 * * * *", "a b c d e", "* * * *"):
        with pytest.raises(BadSchedule):
            trigger(wrong)
    with pytest.raises(BadSchedule, match="never"):
        last_slot("0 0 30 2 *", datetime(2026, 11, 29, tzinfo=UTC))
    assert last_slot("0 0 29 2 *", datetime(2028, 6, 1, tzinfo=UTC)) == datetime(2028, 2, 29, tzinfo=UTC)


# ------------------------------------------------------------------------------------------------ rules that change


def with_rules(folder: Path, before: str, after: str, **more: Any) -> retention.RetentionPolicy:
    good = retention.PATH.read_text()
    assert good.count(before) == 1
    (folder / "rules.yaml").write_text(good.replace(before, after))
    return retention.load(folder / "rules.yaml", **more)


async def test_a_shorter_rule_holds_for_what_is_there_already_and_is_logged(
    keeping: Keeping, clock: Clock, tmp_path: Path
) -> None:
    await keeping.run(fill, keeping, clock)
    rules = with_rules(tmp_path, "    keep: 30 days\n    reason: Long", "    keep: 2 days\n    reason: Long")
    clock.move(days=2)
    assert await seen(keeping, "sessions", "session") == 1
    again: Any = keeping_in(tmp_path / "data", clock=clock, send_to=HOST, rules=rules)
    assert await seen(again, "sessions", "session") == 0 and await seen(again, "turns", "turn") == 1
    kinds = await again.run(lambda: [e.kind for e in again.audit.events()])
    assert kinds.count("policy") == 2
    assert (await done(again)).deleted == {"session": 1}
    again.close()


async def test_last_activity_and_withdrawal_move_a_date(clock: Clock, tmp_path: Path) -> None:
    rules = with_rules(
        tmp_path,
        "    keep: 30 days\n    reason: Long",
        "    keep: 10 days\n    from: last activity\n    reason: Long",
    )
    active: Any = keeping_in(tmp_path / "active", clock=clock, send_to=HOST, rules=rules)
    await active.run(fill, active, clock)
    clock.move(days=9)
    record = ConsentRecord(scope=Scope.CONTACT, version="1", destination="", granted=True, at=clock())
    await active.run(active.records.add_consent, PERSON, record)
    clock.move(days=9)
    assert await seen(active, "sessions", "session") == 1, "they were here nine days ago"
    clock.move(days=1)
    assert await seen(active, "sessions", "session") == 0
    active.close()
    rules = with_rules(
        tmp_path,
        "    keep: 30 days\n    reason: Long",
        "    keep: withdrawal + 1 day\n    at_most: 1 year\n    reason: Long",
    )
    withdrawn: Any = keeping_in(tmp_path / "withdrawn", clock=clock, send_to=HOST, rules=rules)
    await withdrawn.run(fill, withdrawn, clock)
    clock.move(days=100)
    assert await seen(withdrawn, "sessions", "session") == 1
    await withdrawn.withdraw(PERSON)
    clock.move(days=1, seconds=-1)
    assert await seen(withdrawn, "sessions", "session") == 1
    clock.move(seconds=1)
    assert await seen(withdrawn, "sessions", "session") == 0
    withdrawn.close()


async def test_what_is_due_within_days_is_told_by_day_and_kind(keeping: Keeping, clock: Clock) -> None:
    await keeping.run(fill, keeping, clock)
    found = await keeping.run(lambda: coming(keeping.store, clock(), days=30))
    assert {(r["day"], r["category"], r["rows"]) for r in found} >= {
        ("2026-12-06", "volatile_attribute", 1), ("2026-12-29", "session", 1), ("2026-12-29", "turn", 1),
    }  # fmt: skip
    assert not any(r["category"] == "transcript" for r in found)


async def test_a_transcript_outlives_its_conversation(keeping: Keeping, clock: Clock) -> None:
    await keeping.run(fill, keeping, clock)
    clock.move(days=31)
    await done(keeping)
    assert await rows(keeping, "sessions", "session") == 0
    assert await seen(keeping, "turns", "transcript") == 1, "a year, as the consent text says"


async def test_a_lease_is_given_back_when_a_sweep_is_cancelled(keeping: Keeping, clock: Clock) -> None:
    await keeping.run(lambda: [fill(keeping, clock, f"p-{n}", sessions=5) for n in range(10)])
    clock.move(days=400)
    sweeping = asyncio.ensure_future(keeping.sweep("slot"))
    await asyncio.sleep(0.05)
    sweeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sweeping
    assert await keeping.run(lambda: keeping.store.db["leases"].count) == 0
    assert (await keeping.sweep("slot"))[0][-1].is_clean


def test_a_lease_is_a_matter_of_one_database(tmp_path: Path, clock: Clock) -> None:
    from privacy.store import Store

    one, two = Store(tmp_path), Store(tmp_path)
    first, second = Lease(one.db, clock), Lease(two.db, clock)
    first.take()
    with pytest.raises(PrivacyError):
        second.take()
    first.give_back()
    second.take()
    one.close()
    two.close()


# ------------------------------------------------------------------------------------------------ found by a reviewer


async def test_who_comes_back_while_keys_go_keeps_theirs(keeping: Keeping, clock: Clock) -> None:
    many = 450

    def people() -> None:
        for number in range(many):
            keeping.vault.key(f"p-{number:04d}", at=clock().isoformat())

    await keeping.run(people)
    clock.move(hours=2)
    run = await keeping.run(lambda: RetentionSweep(keeping.swept(), "slot"))
    while await keeping.run(run.step):
        if 0 < run.report.keys < many:
            break
    assert 0 < run.report.keys < many, "between two batches"
    await keeping.run(fill, keeping, clock, f"p-{many - 1:04d}")
    report = await keeping.run(run.run)
    assert report.keys == many - 1
    assert await keeping.kept(f"p-{many - 1:04d}") is not None, "what they just kept opens"


async def test_keys_are_taken_under_the_lock_under_which_they_are_destroyed(
    keeping: Keeping, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process that keeps something must not hold a key from before the sweep's lock."""
    seen: list[bool] = []
    made = keeping.vault.key

    def key(subject: str, **more: Any) -> Any:
        seen.append(keeping.store.db.conn.in_transaction)
        return made(subject, **more)

    await keeping.run(fill, keeping, clock)
    monkeypatch.setattr(keeping.vault, "key", key)
    await keeping.run(fill, keeping, clock)
    assert seen.count(True) >= 4 and seen.count(False) == 1, "all but the test's own"


@pytest.mark.parametrize("failing", [OSError("disk"), StoreError("busy"), ValueError("odd")])
async def test_what_fails_beside_a_step_does_not_stop_the_sweeps_to_come(
    failing: Exception, keeping: Keeping, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Path) -> None:
        raise failing

    monkeypatch.setattr("bot.keeping.shorten", broken)
    monkeypatch.setattr("privacy.retention.LONG_LOG", 0)
    await keeping.run(fill, keeping, clock)
    clock.move(days=400)
    if isinstance(failing, ValueError):
        with pytest.raises(ValueError, match="odd"):
            await keeping.sweep("slot")
    else:
        await keeping.sweep("slot")
    monkeypatch.undo()
    assert (await keeping.sweep("next"))[0][-1].is_clean
    pragma = await keeping.run(lambda: keeping.store.db.execute("PRAGMA wal_autocheckpoint").fetchone()[0])
    assert pragma == 1000, "set back"


async def test_one_key_that_does_not_open_stops_nothing(
    keeping: Keeping, clock: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await keeping.run(fill, keeping, clock)
    await keeping.run(fill, keeping, clock, OTHER)
    foreign = Fernet(Fernet.generate_key()).encrypt(Fernet.generate_key()).decode()
    await keeping.run(
        lambda: keeping.vault._db.execute(
            "UPDATE data_keys SET wrapped = ? WHERE subject = ?", [foreign, PERSON]
        )
    )
    await keeping.run(keeping.vault._ready.clear)
    clock.move(days=8)
    sweeper = Sweeper(keeping, Heads(file=tmp_path / "heads"), passed=lambda: 8 * 86400.0, again=0.01)
    sweeper._began_passed = 0.0
    with caplog.at_level(logging.DEBUG):
        await sweeper.sweep()
    assert await rows(keeping, "attributes", "volatile_attribute") == 0
    assert PERSON not in caplog.text


async def test_a_hold_that_a_backup_brings_back_keeps_nobody_from_the_chat(
    keeping: Keeping, clock: Clock, tmp_path: Path
) -> None:
    await keeping.run(fill, keeping, clock)
    await keeping.run(lambda: keeping.records.hold(PERSON, why="case 7", by="court"))
    older = {
        p.name: p.read_bytes() for p in (tmp_path / "data").glob("*.db*") if not p.name.startswith("audit")
    }
    await keeping.run(lambda: keeping.records.release(PERSON))
    await keeping.run(keeping.rights.erase_all, PERSON)
    keeping.close()
    for name in ("study.db", "study.db-wal", "study.db-shm", "keys.db", "keys.db-wal", "keys.db-shm"):
        (tmp_path / "data" / name).unlink(missing_ok=True)
    for name, raw in older.items():
        (tmp_path / "data" / name).write_bytes(raw)
    again: Any = keeping_in(tmp_path / "data", clock=clock, send_to=HOST)
    assert await again.run(again.records.persons) == []
    again.close()
    keeping.close = lambda: None  # type: ignore[method-assign]


async def test_a_hold_that_ran_out_stands_in_no_erasures_way(keeping: Keeping, clock: Clock) -> None:
    await keeping.run(fill, keeping, clock)
    await keeping.run(lambda: keeping.records.hold(PERSON, why="case 7", by="court"))
    clock.move(days=3 * 366)
    receipt = await keeping.run(keeping.rights.erase_all, PERSON)
    assert receipt.residue.found == ()


async def test_a_tap_revives_no_note_and_prolongs_none(keeping: Keeping, clock: Clock) -> None:
    await keeping.run(fill, keeping, clock)
    session = (await keeping.run(keeping.rights.held, PERSON))[-2].fields["session"]

    def tap() -> None:
        keeping.records.keep_feedback(
            grant(keeping, PERSON, ToKeep), person=PERSON, session=session, number=2, rating=0, note=""
        )

    async def notes() -> list[tuple[str | None, str]]:
        held = await keeping.run(keeping.rights.held, PERSON)
        return [(h.fields["note"], h.expires_at.date().isoformat()) for h in held if h.table == "feedback"]

    assert await notes() == [("too long", "2026-12-29")]
    clock.move(days=29)
    await keeping.run(tap)
    assert await notes() == [("too long", "2026-12-29")], "the sentence keeps the time it had"
    clock.move(days=1)
    assert await notes() == []
    await keeping.run(tap)
    assert await notes() == [(None, "2027-01-28")], "a new tap, without the old sentence"


@pytest.mark.parametrize("scope", [Scope.KEEP, Scope.CHAT])
async def test_a_no_on_the_page_of_consent_is_a_withdrawal(
    scope: Scope, clock: Clock, tmp_path: Path
) -> None:
    after = "    keep: withdrawal + 7 days\n    at_most: 2 years\n    reason: Long"
    rules = with_rules(tmp_path, "    keep: 30 days\n    reason: Long", after)
    kept: Any = keeping_in(tmp_path / "data", clock=clock, send_to=HOST, rules=rules)
    await kept.run(fill, kept, clock)
    clock.move(days=10)
    await kept.answer(PERSON, scope, granted=False)
    until = clock() + timedelta(days=7)

    async def date() -> str:
        return str(
            await kept.run(lambda: kept.store.db.execute("SELECT expires_at FROM sessions").fetchone()[0])
        )

    assert await date() == until.isoformat()
    clock.move(days=1)
    await kept.answer(PERSON, scope, granted=True)
    clock.move(days=1)
    await kept.answer(PERSON, scope, granted=False)
    assert await date() == until.isoformat(), "a second no postpones nothing"
    await kept.answer(PERSON, scope, granted=True)
    await kept.run(lambda: kept.store.db.execute("DELETE FROM own"))
    await kept.run(kept.records.redate)
    assert await date() == until.isoformat(), "nor does agreeing again"
    kept.close()


async def test_the_proof_of_a_consent_lives_as_long_as_what_rests_on_it(clock: Clock, tmp_path: Path) -> None:
    rules = with_rules(
        tmp_path, "    keep: 3 years\n    reason: Proof", "    keep: 10 days\n    reason: Proof"
    )
    kept: Any = keeping_in(tmp_path / "data", clock=clock, send_to=HOST, rules=rules)
    await kept.run(fill, kept, clock)
    clock.move(days=10)
    assert "consent" not in (await done(kept, "a")).deleted
    clock.move(days=400)
    assert (await done(kept, "b")).deleted["consent"] == len(Scope)
    kept.close()


async def test_a_change_of_rules_is_swept_for_at_the_next_start(clock: Clock, tmp_path: Path) -> None:
    first: Any = keeping_in(tmp_path / "data", clock=clock, send_to=HOST)
    await first.run(fill, first, clock)
    clock.move(days=2)
    await first.sweep(last_slot(first.rules.sweep, clock()).isoformat())
    first.close()
    rules = with_rules(tmp_path, "    keep: 30 days\n    reason: Long", "    keep: 1 day\n    reason: Long")
    again: Any = keeping_in(tmp_path / "data", clock=clock, send_to=HOST, rules=rules)
    await Sweeper(again, Heads(file=tmp_path / "heads"), passed=lambda: 0.0).sweep()
    assert await rows(again, "sessions", "session") == 0
    again.close()


async def test_what_has_expired_comes_back_by_no_rule(clock: Clock, tmp_path: Path) -> None:
    after = "    keep: 10 days\n    from: last activity\n    reason: Long"
    rules = with_rules(tmp_path, "    keep: 30 days\n    reason: Long", after)
    kept: Any = keeping_in(tmp_path / "data", clock=clock, send_to=HOST, rules=rules)
    await kept.run(fill, kept, clock)
    clock.move(days=10)
    assert await seen(kept, "sessions", "session") == 0
    await kept.answer(PERSON, Scope.CONTACT, granted=True)
    assert await seen(kept, "sessions", "session") == 0, "not by coming back"
    kept.close()
    longer: Any = keeping_in(tmp_path / "data", clock=clock, send_to=HOST)
    assert longer.redated == 0 and await seen(longer, "sessions", "session") == 0, "nor by longer rules"
    assert (await done(longer)).deleted["session"] == 1
    longer.close()


async def test_two_scheduled_sweeps_do_not_overlap_and_both_can_be_stopped(
    keeping: Keeping, clock: Clock, tmp_path: Path
) -> None:
    await keeping.run(lambda: [fill(keeping, clock, f"p-{n}", sessions=5) for n in range(10)])
    clock.move(days=400)
    sweeper = Sweeper(keeping, Heads(file=tmp_path / "heads"), passed=lambda: 0.0)
    sweeper._began = clock()
    one, two = asyncio.ensure_future(sweeper.sweep()), asyncio.ensure_future(sweeper.sweep())
    await asyncio.sleep(0.02)
    await sweeper.stop()
    assert one.cancelled() and two.cancelled()
    assert await keeping.run(lambda: keeping.store.db["leases"].count) == 0


async def test_a_reader_in_the_way_does_not_hold_up_the_chat(
    keeping: Keeping, clock: Clock, tmp_path: Path
) -> None:
    await keeping.run(fill, keeping, clock)
    reader = sqlite3.connect(tmp_path / "data" / "study.db")
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM turns").fetchone()
    clock.move(days=400)
    report = await done(keeping)
    reader.close()
    assert report.wal_bytes > 0 and not report.is_clean, "said so"
    assert report.longest_ms < 1000
    assert (await done(keeping, "after")).is_clean


def test_a_hold_is_set_on_somebody_and_lifting_it_sweeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from click.testing import CliRunner

    from bot.cli import cli
    from bot.errors import SettingsError

    monkeypatch.setenv("RAISE_DATA_DIR", str(tmp_path / "demo"))

    def ran(*words: str) -> Any:
        return CliRunner().invoke(cli, ["privacy", *words])

    refused = ran("hold", "nobody", "--why", "case 7", "--by", "court")
    assert isinstance(refused.exception, SettingsError)
    assert ran("hold", PERSON, "--why", "case 7").exit_code == 2
    from bot.assembly import keeping as opened

    real = opened(read_settings())
    real.call(lambda _: real.records.add_consent(PERSON, old_record()))
    real.close()
    assert ran("hold", PERSON, "--why", "case 7", "--by", "court").exit_code == 0
    assert "case 7" in ran("hold").output
    assert "1 held back" in ran("purge").output
    assert ran("hold", PERSON, "--release").output == "lifted\n"
    assert "nothing" in ran("purge", "--dry-run").output.split("\n")[0], (
        "the sweep that lifting begins has taken it"
    )
    assert ran("hold", PERSON, "--release").exit_code == 1


def old_record() -> ConsentRecord:
    return ConsentRecord(
        scope=Scope.CHAT, version="1", destination="", granted=True, at=datetime(2020, 1, 1, tzinfo=UTC)
    )
