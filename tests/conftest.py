"""Shared fixtures: no socket beyond loopback, a clean environment, the real parts built once."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

_LOOPBACK = ("127.", "::1", "localhost", "0.0.0.0")
_connect = socket.socket.connect
_lookup = socket.getaddrinfo


def pytest_sessionstart() -> None:
    """The programs that tests start would read the settings of a real deployment, and tell its on-call contact of danger."""
    if (Path(__file__).resolve().parents[1] / ".env").exists():
        raise pytest.UsageError(
            "a .env stands in the clone: move it away while tests run, as they say things that whoever is on call would be told of"
        )


class Outside(AssertionError):
    """A test tried to leave this machine."""


def _guarded_connect(self: socket.socket, address: object) -> object:
    host = address[0] if isinstance(address, tuple) else ""
    if self.family in (socket.AF_INET, socket.AF_INET6) and not str(host).startswith(_LOOPBACK):
        raise Outside(f"a socket to {host}")
    return _connect(self, address)


def _guarded_lookup(host: object, *rest: object, **more: object) -> object:
    if host is not None and not str(host if not isinstance(host, bytes) else host.decode()).startswith(
        _LOOPBACK
    ):
        raise Outside(f"a look-up of {host!r}")
    return _lookup(host, *rest, **more)


@pytest.fixture(autouse=True)
def _no_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket.socket, "connect", _guarded_connect)
    monkeypatch.setattr(socket, "getaddrinfo", _guarded_lookup)


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    for name in list(os.environ):
        if name.startswith(("RAISE_", "CHAINLIT_", "OPENAI_")):
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def _encoded_once() -> None:
    """No text is encoded twice in a run: the encoder is a pure function. The chat itself remembers nothing."""
    from policies import encoder

    if not encoder.built_in().remembers:  # a benchmark that ran in a test remembers nothing afterwards
        encoder.built_in().remember(60_000)


class Clock:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.time = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time

    def move(self, **by: float) -> None:
        self.time += timedelta(**by)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="session")
def shared_parts() -> Iterator[object]:
    from bot.parts import build_parts

    return build_parts()


@pytest.fixture
def parts(shared_parts: object, clock: Clock) -> object:
    from dataclasses import replace

    return replace(shared_parts, clock=clock)


class InProcess:
    """The real redactor without its worker process: what a test of something else needs of it."""

    def __init__(self) -> None:
        from bot.assembly import public_numbers
        from privacy.redaction import Redactor

        self._redactor = Redactor(public_numbers=public_numbers())

    async def redact(self, text: str) -> object:
        return self._redactor.redact(text)

    def redact_now(self, text: str) -> object:
        return self._redactor.redact(text)


@pytest.fixture(scope="session")
def redactor() -> InProcess:
    return InProcess()


KEY = "q0wq5cQ7cYqzq6m0pXGxqv3m2C6m6v2JmZzQ3l3dJ1A="


def keeping_in(
    folder: object, *, send_to: str = "", clock: object = None, always: bool = False, rules: object = None
) -> object:
    """A deployment's memory in a folder, with a key of the tests."""
    from pathlib import Path

    from bot.assembly import consent_text
    from bot.keeping import Keeping
    from bot.parts import now
    from bot.settings import read_settings
    from policies import retention
    from privacy.consent import ConsentVersion

    text = consent_text(read_settings())
    version = ConsentVersion.of(text.version, text.everything())
    return Keeping(
        Path(str(folder)),
        (KEY,),
        version,
        rules or retention.shipped(),
        clock=clock or now,
        send_to=send_to,
        always=always,
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Browser tests last: Playwright keeps a loop running in this thread, beside which no asynchronous test can run."""
    items.sort(key=lambda item: "e2e" in item.path.parts)
