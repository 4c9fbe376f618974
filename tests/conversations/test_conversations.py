"""Written conversations, run through `chat --json` and checked move by move."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conversations.runner import HERE, dismiss, prepare, run

SCRIPTS = sorted(HERE.glob("*.yaml"))


def test_there_are_at_least_twenty_four() -> None:
    assert len(SCRIPTS) >= 24


@pytest.fixture(scope="module", autouse=True)
def _dismissed() -> Iterator[None]:
    yield
    dismiss()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.stem)
def test_conversation(script: Path) -> None:
    at = SCRIPTS.index(script)
    prepare(SCRIPTS[at : at + 2])
    run(script)
