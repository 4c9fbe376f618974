"""Written conversations, run through `chat --json` and checked move by move."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conversations.runner import HERE, run

SCRIPTS = sorted(HERE.glob("*.yaml"))


def test_there_are_at_least_twenty_four() -> None:
    assert len(SCRIPTS) >= 24


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.stem)
def test_conversation(script: Path) -> None:
    run(script)
