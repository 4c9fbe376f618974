"""The sweep at scale: a million rows, people who chat meanwhile, kill -9 in the middle, two processes that race.

usage: python -m tests.prove_retention [ROWS] [KILLS] [RACES]     (part of make prove; the last result is in docs/proofs.md)
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bot.conversation import Conversation
from bot.keeping import Keeping
from bot.parts import Parts, build_parts, now
from policies import retention
from privacy.audit import AuditLog, EventKind
from privacy.consent import Scope
from privacy.residue import Scanner
from privacy.retention import reports
from privacy.store import Store
from privacy.store.schema import PERSONAL
from privacy.vault import KeyBook, Vault
from tests.conftest import KEY, keeping_in

ROOT = Path(__file__).resolve().parents[1]
PEOPLE = 5_000
TURNS = 12
SHARES = {
    "turns": 0.6,
    "decisions": 0.23,
    "attributes": 0.05,
    "ledger": 0.05,
    "sessions": 0.04,
    "feedback": 0.03,
}
CATEGORY = {
    "turns": "turn", "decisions": "decision", "attributes": "stable_attribute", "ledger": "ledger", "sessions": "session",
    "feedback": "feedback",
}  # fmt: skip
FIELDS = {
    "turns": "input {session} {turn}", "attributes": "value a{number}", "ledger": "content {number}", "sessions": "state {session}",
    "feedback": "note {number}",
}  # fmt: skip
WORRY = "my wife left and I've stopped going to work, what do I do?"
ANSWERS = (
    "low most days, not sleeping",
    "no, never",
    "ashamed, mostly",
    "34",
    "how do I ask for a day off?",
    "thanks",
)


def seed(folder: Path, rows: int, *, people: int = PEOPLE, expired: bool = True) -> datetime:
    """So many rows of so many people, written in the order of time, all of them expired by now (or none)."""
    folder.mkdir(parents=True, exist_ok=True)
    store, vault = Store(folder), Vault(folder, (KEY,))
    at = now() - (timedelta(days=500) if expired else timedelta(days=1))
    rules = retention.shipped()
    people = max(1, min(people, rows // 20))
    store.db.execute("PRAGMA synchronous = OFF").fetchall()
    keys = []
    for number in range(people):
        person = f"seeded-{number:06d}"
        key = vault.key(person, at=at.isoformat())
        assert key is not None
        keys.append((person, key))
    with store.db.atomic():
        for person, _ in keys:
            until = rules.until("participant", at).isoformat()
            store.db.execute(
                "INSERT INTO participants VALUES (?, 'participant', ?, ?, ?)",
                [person, at.isoformat(), at.isoformat(), until],
            )
    for table, share in SHARES.items():
        with store.db.atomic():
            for number in range(round(rows * share)):
                talk, turn = divmod(number, TURNS if table in ("turns", "decisions") else 1)
                person, key = keys[talk % people]
                when = at + timedelta(seconds=number)
                until = rules.until(CATEGORY[table], when).isoformat()
                store.db.execute(*row(table, talk, turn, person, key, when, until))
    store.close()
    vault.close()
    return at


def row(  # noqa: PLR0917
    table: str, number: int, turn: int, person: str, key: Any, at: datetime, until: str
) -> tuple[str, list[Any]]:
    """One row: the turns of a conversation follow each other, and belong to one person."""
    words = (
        f"message number {number} of somebody, about as long as messages are, and then a little more of it"
    )
    time_ = at.isoformat()
    session = hashlib.sha256(f"{table if table == 'sessions' else ''}{number}".encode()).hexdigest()[:24]
    names = FIELDS.get(table, "").format(session=session, turn=turn, number=number)
    sealed = key.seal(names, words) if names else ""
    sql: dict[str, tuple[str, list[Any]]] = {
        "turns": ("?, ?, ?, 'turn', ?, ?, NULL, ?", [session, turn, person, time_, sealed, until]),
        "decisions": (
            "?, ?, 0, ?, 'decision', ?, 'ask', 'declined', 'gain', 1.0, 'emotion', 'life', 'high', NULL, ?",
            [session, turn, person, time_, until],
        ),
        "attributes": ("?, ?, 'stable_attribute', ?, ?, ?", [person, f"a{number}", sealed, time_, until]),
        "ledger": (
            "?, ?, 'ledger', ?, 'x', 'm', 'answer', '{}', 9, 'd', ?, ?", [number, person, time_, sealed, until],
        ),
        "sessions": (
            "?, ?, 'session', ?, ?, 1, ?, ?, ?, NULL", [session, person, time_, time_, sealed, sealed, until],
        ),
        "feedback": ("?, ?, 'feedback', ?, 1, ?, 1, ?, ?", [number, person, session, time_, sealed, until]),
    }  # fmt: skip
    places, values = sql[table]
    return f"INSERT INTO {table} VALUES ({places})", values


def count(folder: Path) -> int:
    db = sqlite3.connect(folder / "study.db")
    total = sum(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in PERSONAL)
    db.close()
    return int(total)


def plain_delete(folder: Path) -> float:
    """What deleting at once takes: one statement a table, secure_delete on, and the log emptied."""
    store = Store(folder)
    began = time.perf_counter()
    at = now().isoformat()
    for table in reversed(PERSONAL):
        with store.db.atomic():
            store.db.execute(f"DELETE FROM {table} WHERE expires_at <= ?", [at])
    store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    took = time.perf_counter() - began
    store.close()
    return took


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[Keeping]:
    keeping: Any = keeping_in(folder)
    try:
        yield keeping
    finally:
        keeping.close()


async def chatting(
    parts: Parts, keeping: Keeping, seconds: float, stop: asyncio.Event | None = None
) -> list[float]:
    """Turns of people who keep their answers, one after another; seconds each."""
    took: list[float] = []
    number, ends = 0, time.monotonic() + seconds
    kept = replace(parts, keeping=keeping)
    while time.monotonic() < ends and not (stop and stop.is_set()):
        person = f"chatting-{number}-{random.randrange(10**9)}"
        number += 1
        for scope in (Scope.CHAT, Scope.KEEP):
            await keeping.answer(person, scope, granted=True)
        conversation = Conversation.start(kept, person=person, country="GB")
        for text in (WORRY, *ANSWERS):
            began = time.perf_counter()
            async for _ in conversation.receive(text):
                pass
            took.append(time.perf_counter() - began)
    return sorted(took)


def at_share(values: list[float], share: float) -> float:
    return values[min(len(values) - 1, int(share * len(values)))] * 1000


def scale(folder: Path, rows: int) -> None:
    began = time.perf_counter()
    seed(folder / "one", rows)
    print(
        f"seeded {count(folder / 'one'):,} rows of {PEOPLE:,} people, {sum(p.stat().st_size for p in (folder / 'one').glob('*')) / 1e6:.0f} MB, in {time.perf_counter() - began:.0f} s",
        flush=True,
    )
    for name in ("two", "three"):
        shutil.copytree(folder / "one", folder / name)
    plain = plain_delete(folder / "two")
    shutil.rmtree(folder / "two")
    with opened(folder / "one") as keeping:
        began = time.perf_counter()
        (report,), _ = asyncio.run(keeping.sweep("prove"))
        took = time.perf_counter() - began
    assert report.is_clean and count(folder / "one") == 0, report
    residue = look(folder / "one")
    print(
        f"sweep: {sum(report.deleted.values()):,} rows and {report.keys:,} keys in {took:.1f} s beside plain DELETE's {plain:.1f} s: ratio {took / plain:.2f};"
        f" {report.steps:,} steps, the longest held the store for {report.longest_ms:.0f} ms; residue {residue}", flush=True,
    )  # fmt: skip
    parts = build_parts()
    with opened(folder / "three") as keeping:
        alone = asyncio.run(chatting(parts, keeping, 20.0))

        async def both() -> tuple[list[float], Any, float]:
            stop = asyncio.Event()
            talking = asyncio.ensure_future(chatting(parts, keeping, 900.0, stop))
            began = time.perf_counter()
            (done,), _ = await keeping.sweep("prove while chatting")
            took = time.perf_counter() - began
            stop.set()
            return await talking, done, took

        beside, report, took = asyncio.run(both())
    assert report.is_clean, report
    print(
        f"chat turns: alone p50 {at_share(alone, 0.5):.0f}, p99 {at_share(alone, 0.99):.0f} ms ({len(alone)}); while sweeping p50 {at_share(beside, 0.5):.0f},"
        f" p99 {at_share(beside, 0.99):.0f} ms ({len(beside)}): ratio of p99 {at_share(beside, 0.99) / at_share(alone, 0.99):.2f}; the sweep took {took:.0f} s beside them,"
        f" its longest step {report.longest_ms:.0f} ms", flush=True,
    )  # fmt: skip


def look(folder: Path) -> int:
    """Files in which something is left."""
    store, keys = Store(folder), KeyBook(folder)
    found = Scanner(folder, store.db, keys).scan()
    store.close()
    keys.close()
    return len(found.found)


SWEEPER = """
import asyncio, sys
from pathlib import Path
from tests.conftest import keeping_in
from privacy.lease import SweepBusy
from privacy.errors import PrivacyError
keeping = keeping_in(Path(sys.argv[1]))
print("ready", flush=True)
for line in sys.stdin:
    for _ in range(200):
        try:
            done, _ = asyncio.run(keeping.sweep(line.strip()))
            print(sum(sum(r.deleted.values()) for r in done), len(done), flush=True)
            break
        except SweepBusy:
            print("busy", flush=True)
            break
        except PrivacyError:
            pass
keeping.close()
"""


def sweeper(folder: Path) -> subprocess.Popen[str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("RAISE_")}
    made = subprocess.Popen(
        [sys.executable, "-c", SWEEPER, str(folder)], cwd=ROOT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert made.stdout and made.stdout.readline().strip() == "ready"
    return made


def killed(folder: Path, times: int, rows: int = 20_000) -> None:
    """One sweep after another, each killed somewhere until one ends; then all are gone, each counted once."""
    rng = random.Random(0)
    began, kills, deleted, sweeps = time.time(), 0, 0, 0
    while kills < times:
        place = folder / f"kill-{sweeps}"
        seed(place, rows)
        expected = count(place)
        for attempt in range(50):
            process = sweeper(place)
            assert process.stdin and process.stdout
            process.stdin.write("slot\n")
            process.stdin.flush()
            if kills < times and attempt < 8:
                time.sleep(rng.uniform(0.0, 0.4))
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
                process.stdout.close()
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.close()
                kills += is_cut(place)
                for name in ("study.db", "keys.db", "audit.db"):
                    db = sqlite3.connect(place / name)
                    assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok", name
                    db.close()
                continue
            process.stdout.readline()
            process.stdin.close()
            process.wait()
            process.stdout.close()
            break
        store = Store(place)
        (report,) = reports(store)
        store.close()
        assert report.finished_at and report.is_clean, report
        assert sum(report.deleted.values()) == expected, (report.deleted, expected)
        assert count(place) == 0 and look(place) == 0
        log = AuditLog(place)
        log.verify()
        ends = [e for e in log.events() if e.kind == EventKind.PURGE.value and '"rows"' in e.counts]
        log.close()
        assert len(ends) == 1, "reported once"
        deleted, sweeps = deleted + expected, sweeps + 1
        shutil.rmtree(place)
    print(
        f"killed {kills} times in mid-sweep: {sweeps} sweeps of {deleted:,} rows went on and ended, each row counted once, each reported once,"
        f" integrity and chain clean, residue 0, in {time.time() - began:.0f} s", flush=True,
    )  # fmt: skip


def is_cut(folder: Path) -> bool:
    """Whether a sweep stands there that has begun and not ended."""
    db = sqlite3.connect(folder / "study.db")
    found = db.execute("SELECT count(*) FROM sweeps WHERE finished_at IS NULL").fetchone()[0]
    db.close()
    return bool(found)


def raced(folder: Path, times: int, rows: int = 400) -> None:
    """Two processes sweep for the same slot at the same moment, again and again."""
    began = time.time()
    place = folder / "race"
    place.mkdir()
    Store(place).close()
    processes = [sweeper(place) for _ in range(2)]
    swept, both_busy, busy = 0, 0, 0
    for number in range(times):
        more = seed_more(place, number, rows)
        for process in processes:
            assert process.stdin
            process.stdin.write(f"slot-{number:04d}\n")
            process.stdin.flush()
        said = []
        for process in processes:
            assert process.stdout
            said.append(process.stdout.readline().strip())
        busy += said.count("busy")
        both_busy += said == ["busy", "busy"]
        done = sum(int(s.split()[0]) for s in said if s not in ("busy", ""))
        assert done == more, (number, said, more)
        swept += done
    for process in processes:
        assert process.stdin and process.stdout
        process.stdin.close()
        process.wait()
        process.stdout.close()
    store = Store(place)
    told = reports(store, most=times + 10)
    store.close()
    assert len(told) == times and len({r.slot for r in told}) == times and all(r.finished_at for r in told)
    assert sum(sum(r.deleted.values()) for r in told) == swept and both_busy == 0
    log = AuditLog(place)
    log.verify()
    ends = [
        json.loads(e.counts)["slot"]
        for e in log.events()
        if e.kind == EventKind.PURGE.value and '"rows"' in e.counts
    ]
    log.close()
    assert sorted(ends) == sorted(set(ends)) and len(ends) == times
    print(
        f"two processes raced for {times} sweeps: {swept:,} rows, each deleted once, each sweep reported once; the other was told it is busy {busy} times,"
        f" and that it is done otherwise, in {time.time() - began:.0f} s", flush=True,
    )  # fmt: skip


def seed_more(folder: Path, number: int, rows: int) -> int:
    """Expired decisions of nobody."""
    store = Store(folder)
    at = datetime(2020, 1, 1, tzinfo=UTC).isoformat()
    with store.db.atomic():
        for position in range(rows):
            store.db.execute(
                "INSERT INTO decisions VALUES (?, 1, 0, NULL, 'decision', ?, 'ask', NULL, 'gain', 1.0, NULL, NULL, NULL, NULL, ?)",
                [f"race-{number}-{position}", at, at],
            )
    store.close()
    return rows


def main(rows: int, kills: int, races: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if races:
            raced(folder, races)
        if kills:
            killed(folder, kills)
        if rows:
            scale(folder, rows)


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    main(*(given + [1_000_000, 50, 100][len(given) :]))
