"""What privacy costs: a turn with and without it in the same run; sealing, rotating and exporting 100,000 values.

usage: python -m tests.benchmarks.privacy     (part of make bench). Nothing is asserted.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bot.assembly import detector
from bot.conversation import Conversation
from bot.parts import Parts, build_parts
from bot.settings import read_settings
from policies import retention
from privacy.consent import Scope
from tests.conftest import keeping_in

SAID = [
    "my wife Leanne left and I've stopped going to work, what do I do?", "low most days, not sleeping", "no, never",
    "ashamed, mostly, and my brother Tom knows", "34, in Hexham",
]  # fmt: skip
VALUES = 100_000


async def turns(parts: Parts, person: str, times: int) -> list[float]:
    took = []
    for seed in range(times):
        conversation = Conversation.start(parts, seed=seed, person=f"{person}-{seed}", country="GB")
        if parts.keeping is not None:
            for scope in (Scope.CHAT, Scope.KEEP, Scope.RESEARCH):
                await parts.keeping.answer(conversation.person, scope, granted=True)
        for text in SAID:
            began = time.perf_counter()
            async for _ in conversation.receive(text):
                pass
            took.append((time.perf_counter() - began) * 1000)
    return took


async def a_turn() -> None:
    plain = build_parts()
    finds = detector(read_settings())
    finds.start()
    with tempfile.TemporaryDirectory() as folder:
        keeping: Any = keeping_in(folder)
        guarded = replace(plain, parser=None, detector=finds, keeping=keeping)
        for parts, name in ((plain, "warm"), (guarded, "warm")):
            await turns(parts, name, 2)
        without, with_it = await turns(plain, "plain", 30), await turns(guarded, "kept", 30)
        keeping.close()
    finds.close()
    one, other = statistics.median(without), statistics.median(with_it)
    print(
        f"a turn without privacy: median {one:6.1f} ms; redacted, sealed and written: {other:6.1f} ms; ratio {other / one:.2f}"
    )


def values() -> None:
    from privacy.store import Store
    from privacy.store.records import Records
    from privacy.vault import Vault, new_master_key

    at = datetime(2026, 11, 30, tzinfo=UTC)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store, vault = Store(folder), Vault(folder, (new_master_key(),))
        records = Records(store.db, vault, retention.shipped(), clock=lambda: at)
        key = vault.key("ann", at=at.isoformat())
        assert key is not None
        began = time.perf_counter()
        rows = [(i, key.seal(f"content {i}", f"a line of what was sent, number {i}")) for i in range(VALUES)]
        sealing = time.perf_counter() - began
        store.db.execute(
            "INSERT INTO participants VALUES ('ann', 'participant', '2026-11-30T00:00:00+00:00', '2026-11-30T00:00:00+00:00', '2099-01-01T00:00:00+00:00')"
        )
        with store.db.atomic():
            store.db.conn.executemany(
                "INSERT INTO ledger VALUES (?, 'ann', 'ledger', '2026-11-30T00:00:00+00:00', 'h', 'm', 'r', '{}', 1, 'd', ?, '2099-01-01T00:00:00+00:00')", rows
            )  # fmt: skip
        began = time.perf_counter()
        done = sum(1 for _ in records.held("ann"))
        exporting = time.perf_counter() - began
        vault.begin_rotation("ann")
        began = time.perf_counter()
        for _ in records.reseal("ann", most=5000):
            pass
        vault.end_rotation("ann")
        rotating = time.perf_counter() - began
        store.close()
        vault.close()
    for what, took in (("sealed", sealing), ("exported", exporting), ("rotated", rotating)):
        print(f"{VALUES:,} values {what:9s} in {took:5.1f} s, {VALUES / took:8,.0f} a second")
    assert done > VALUES


def main() -> None:
    asyncio.run(a_turn())
    values()


if __name__ == "__main__":
    main()
