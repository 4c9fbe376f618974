"""Written conversations, checked move by move: every third through the program `chat --json`, the others within it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conversations.runner import HERE, Loaded, dismiss, prepare, run

SCRIPTS = sorted(HERE.glob("*.yaml"))
PROGRAMS = SCRIPTS[::3]
"""Loading a program takes longer than talking to it."""


def test_there_are_at_least_twenty_four() -> None:
    assert len(PROGRAMS) >= 24


@pytest.fixture(scope="module", autouse=True)
def _dismissed() -> Iterator[None]:
    yield
    dismiss()


@pytest.mark.parametrize("script", PROGRAMS, ids=lambda p: p.stem)
def test_conversation_with_the_program(script: Path) -> None:
    at = PROGRAMS.index(script)
    prepare(PROGRAMS[at : at + 2])
    run(script)


@pytest.fixture(scope="module")
def loaded() -> Iterator[Loaded]:
    made = Loaded()
    yield made
    made.close()


@pytest.mark.parametrize("script", [s for s in SCRIPTS if s not in PROGRAMS], ids=lambda p: p.stem)
def test_conversation(script: Path, loaded: Loaded) -> None:
    run(script, loaded)
