"""Nothing reaches out at import, at start, or at the first message."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

PROGRAM = """
import asyncio, socket, sys
tried = []
real_connect, real_lookup = socket.socket.connect, socket.getaddrinfo
def connect(self, address):
    if self.family in (socket.AF_INET, socket.AF_INET6):
        tried.append(("connect", address))
        raise OSError("no network here")
    return real_connect(self, address)
def lookup(*a, **k):
    tried.append(("lookup", a[0]))
    raise OSError("no network here")
socket.socket.connect, socket.getaddrinfo = connect, lookup
from bot.settings import read_settings
from bot.web.app import create_app
app = create_app(read_settings())
from bot.conversation import Conversation
from bot.parts import build_parts
async def main():
    async with app.router.lifespan_context(app):
        conversation = Conversation.start(build_parts())
        for text in ("hello", "my wife left, mail me at jo@example.org", "I am going to kill myself tonight"):
            async for _ in conversation.receive(text):
                pass
asyncio.run(main())
assert not tried, tried
print("nothing tried")
"""


def test_no_socket_is_opened_and_no_name_looked_up() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "nothing tried" in done.stdout


def test_a_test_that_reaches_out_fails() -> None:
    import socket

    import pytest

    with pytest.raises(AssertionError, match="look-up"):
        socket.getaddrinfo("example.org", 80)


def test_the_encoder_leaves_no_telemetry_on_disk(tmp_path: Path) -> None:
    program = "from policies.encoder import built_in; built_in().encode(['hello']); print('encoded')"
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, env=env, cwd=ROOT
    )
    assert "encoded" in done.stdout, done.stderr[-300:]
    assert not list(tmp_path.rglob("*"))
