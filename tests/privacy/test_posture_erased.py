"""A code of somebody who was erased is found wherever it stands, and taken away at the next start."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.observing import observed
from bot.posturing import examined
from bot.settings import read_settings
from privacy.consent import Scope
from tests.conftest import KEY, Clock, keeping_in

PERSON = "abcd-2345"


async def test_a_trace_at_the_door_breaks_the_promise_and_does_not_outlive_a_start(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeping = keeping_in(tmp_path, clock=clock)
    await keeping.answer(PERSON, Scope.KEEP, granted=True)
    await keeping.erase(PERSON)
    keeping.call(
        lambda store: store.db.execute(
            "INSERT INTO logins VALUES ('d', ?, 'login', ?, 1, '2099-01-01')", [PERSON, clock().isoformat()]
        )
    )
    keeping.close()
    monkeypatch.setenv("RAISE_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("RAISE_MASTER_KEYS", KEY)
    settings = read_settings()

    def broken() -> list[str]:
        with observed(settings) as found:
            report = examined(settings, found, at=clock(), measures=False).to_json()
        return [p["what"] for p in report["findings"] if p["promise"] == "erasure"]

    assert any("are there again" in what for what in broken())
    keeping_in(tmp_path, clock=clock).close()
    assert not broken()
    assert PERSON.encode() not in b"".join(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
