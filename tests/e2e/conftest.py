"""A real server on loopback and a real Chromium."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if CHROMIUM:
        return
    if os.environ.get("RAISE_TESTS_NEED_BROWSER"):
        raise pytest.UsageError("Chromium is not installed, and this run must not skip the browser tests")
    for item in items:
        if "e2e" in str(item.path) and item.get_closest_marker("browser"):
            item.add_marker(
                pytest.mark.skip(reason="Chromium is not installed (Debian: apt-get install chromium)")
            )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Server:
    """A running chat."""

    url: str
    log: Path
    people: list[tuple[str, str]] = field(default_factory=list)
    process: Any = None

    def kill(self) -> None:
        """As when the power goes: nothing is closed."""
        self.process.kill()
        self.process.wait(20)


@contextmanager
def running(
    folder: Path, *, port: int = 0, code: str = "from bot.cli import main; main()", **settings: str
) -> Iterator[Server]:
    """A chat in a process of its own, with these settings and a data folder under `folder`."""
    port = port or free_port()
    log = folder / "log"
    env = {k: v for k, v in os.environ.items() if not k.startswith(("RAISE_", "CHAINLIT_"))}
    env |= {"RAISE_PORT": str(port), "RAISE_DATA_DIR": str(folder / "data"), **settings}
    with log.open("a") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", code, "serve"], cwd=ROOT, env=env, stdout=out, stderr=out
        )
        url = f"http://127.0.0.1:{port}"
        for _ in range(240):
            try:
                urllib.request.urlopen(url + "/healthz", timeout=1).read()
                break
            except OSError:
                assert process.poll() is None, log.read_text()
                time.sleep(0.25)
        else:
            raise AssertionError("the server did not start: " + log.read_text())
        try:
            yield Server(url, log, process=process)
        finally:
            process.terminate()
            assert process.wait(20) is not None


def command(folder: Path, *words: str, **settings: str) -> str:
    """What a command says, run as an operator would beside the running chat."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("RAISE_", "CHAINLIT_"))}
    env |= {"RAISE_DATA_DIR": str(folder / "data"), **settings}
    done = subprocess.run(
        [sys.executable, "-c", "from bot.cli import main; main()", *words],
        cwd=ROOT, env=env, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def enrolled(folder: Path, count: int, *, arms: str = "raise", **settings: str) -> list[tuple[str, str]]:
    """Participants with their PINs."""
    told = command(
        folder, "participants", "create", "--count", str(count), "--arms", arms, "--json", **settings
    )
    return [(row["code"], row["pin"]) for row in json.loads(told)["participants"]]


def sign_in(page: Any, url: str, code: str, pin: str) -> None:
    """A participant at the door."""
    page.goto(url + "/login")
    page.get_by_label("Study code").fill(code)
    page.get_by_label("PIN").fill(pin)
    with page.expect_navigation():
        page.get_by_role("button", name="Sign in").click()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("server"), RAISE_SILENCE_SECONDS="20") as made:
        yield made


@pytest.fixture(scope="session")
def browser() -> Iterator[object]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()
