"""Time to the first visible word, beside a bare Chainlit echo in the same run; and what a turn costs inside.

usage: python -m tests.benchmarks            (make bench)

200 turns each through Chainlit's own socket protocol on loopback, one visitor at a time. Prints medians, 99th
percentiles and ratios; nothing is asserted.
"""

from __future__ import annotations

import asyncio
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TURNS = 200
QUESTIONS = [
    "my landlord wants me out by friday, can he do that",
    "how do i tell my boss i need a day off",
    "I'd rather not say",
    "what goes in the first box on moving day",
    "ashamed, mostly",
    "my sister stopped answering me, what now",
]
ECHO = """
import chainlit as cl
@cl.header_auth_callback
async def anonymous(headers): return cl.User(identifier="x")
@cl.on_message
async def said(m): await cl.Message(content="echo: " + m.content).send()
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def first_words(url: str) -> list[float]:
    """Milliseconds from sending a message to the first step that answers it, for each turn."""
    import httpx
    import socketio

    async with httpx.AsyncClient(base_url=url) as web:
        cookies = (await web.post("/auth/header", headers={"origin": url})).cookies
    jar = "; ".join(f"{k}={v}" for k, v in cookies.items())
    client = socketio.AsyncClient()
    waiting: asyncio.Future[float] | None = None

    def answered(step: dict[str, object]) -> None:
        if waiting is not None and not waiting.done() and step.get("type") == "assistant_message":
            waiting.set_result(time.perf_counter())

    for event in ("new_message", "stream_start", "stream_token", "update_message"):
        client.on(event, answered)
    done = asyncio.Event()
    client.on("task_end", lambda *_: done.set())
    session = str(uuid.uuid4())
    await client.connect(
        url, socketio_path="/ws/socket.io", transports=["websocket"], headers={"cookie": jar, "origin": url},
        auth={"clientType": "webapp", "sessionId": session, "threadId": "", "userEnv": "{}", "chatProfile": ""},
    )  # fmt: skip
    await client.emit("connection_successful")
    await asyncio.sleep(1)
    took = []
    for turn in range(TURNS):
        waiting, began = asyncio.get_running_loop().create_future(), time.perf_counter()
        done.clear()
        message = {
            "id": str(uuid.uuid4()),
            "name": "u",
            "type": "user_message",
            "output": QUESTIONS[turn % len(QUESTIONS)],
        }
        await client.emit(
            "client_message",
            {"message": {**message, "createdAt": "2026-01-01T00:00:00Z"}, "fileReferences": []},
        )
        took.append((await asyncio.wait_for(waiting, 20) - began) * 1000)
        await asyncio.wait_for(done.wait(), 20)
        await asyncio.sleep(0.01)
    await client.disconnect()
    return took


def serve(command: list[str], port: int, cwd: Path, **env: str) -> subprocess.Popen[bytes]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("RAISE_", "CHAINLIT_"))}
    process = subprocess.Popen(
        command, cwd=cwd, env={**clean, **env}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    for _ in range(240):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return process
        time.sleep(0.25)
    raise SystemExit("a server did not start")


def p99(values: list[float]) -> float:
    return sorted(values)[int(0.99 * (len(values) - 1))]


def browser_turns() -> None:
    port = free_port()
    ours = serve(
        [sys.executable, "-c", "from bot.cli import main; main()", "serve"], port, ROOT, RAISE_PORT=str(port)
    )
    try:
        time.sleep(1)
        mine = asyncio.run(first_words(f"http://127.0.0.1:{port}"))
    finally:
        ours.terminate()
        ours.wait(20)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "echo.py").write_text(ECHO)
        port = free_port()
        command = [sys.executable, "-m", "chainlit", "run", "echo.py", "--headless", "--port", str(port)]
        bare = serve(command, port, Path(folder), CHAINLIT_AUTH_SECRET="x" * 48)
        try:
            time.sleep(2)
            echo = asyncio.run(first_words(f"http://127.0.0.1:{port}"))
        finally:
            bare.terminate()
            bare.wait(20)
    for name, took in (("raise-chat", mine), ("bare echo", echo)):
        print(
            f"{name:12s} first visible word over {len(took)} turns: median {statistics.median(took):6.1f} ms   p99 {p99(took):6.1f} ms"
        )
    print(
        f"ratio        median {statistics.median(mine) / statistics.median(echo):.2f}   p99 {p99(mine) / p99(echo):.2f}"
    )


HOSTILE = {
    "one letter, 50,000 times": "a" * 50_000,
    "one word, 50,000 characters": "kill " * 10_000,
    "no sentence end, 50,000": "i want to say that " * 2_600,
    "brackets, 50,000": "([{<" * 12_500,
    "spaced letters, 50,000": "k i l l " * 6_250,
    "look-alikes, 50,000": "кіll mуsеlf " * 4_200,
    "zero-width, 50,000": "a\u200b" * 25_000,
    "quotes, 50,000": '"' * 50_000,
}


def inside() -> None:
    """The screen beside the parse it uses and the encoder, in the same run; hostile inputs."""
    from bot.cli.screen import every_stage
    from bot.risk.clauses import ReadingStage
    from bot.risk.screen import Screen
    from bot.risk.verdict import Verdict
    from policies.encoder import built_in

    text_stage, brain, reading_stage = Screen(), built_in(), ReadingStage()
    stages, parser = every_stage()
    parser.warm()
    readings = {q: parser.read(q) for q in QUESTIONS}

    def timed(what: str, call: Callable[[str], object], times: int = 300) -> float:
        texts = [QUESTIONS[i % len(QUESTIONS)] for i in range(times)]
        began = time.perf_counter()
        for text in texts:
            call(text)
        took = (time.perf_counter() - began) / times * 1000
        print(f"{what:32s} {took:7.3f} ms a message")
        return took

    parsing = timed("the parse (spaCy)", parser.read)
    encoding = timed("the sentence encoder", lambda t: brain.encode([t]))
    screening = timed("risk screen, text stage", text_stage.screen)
    reading = timed(
        "risk screen, reading stage", lambda t: reading_stage.deepen(readings[t], Verdict(), not_real=False)
    )
    every = timed("risk screen, all stages", lambda t: stages.judge(t, parser=parser))
    print(f"ratio  text stage to parse       {screening / parsing:.3f}")
    print(f"ratio  reading stage to parse    {reading / parsing:.3f}")
    print(f"ratio  all stages to parse + encoder {every / (parsing + encoding):.3f}")
    usual = screening
    for name, text in HOSTILE.items():
        began = time.perf_counter()
        text_stage.screen(text)
        alone = (time.perf_counter() - began) * 1000
        began = time.perf_counter()
        stages.judge(text, parser=parser)
        whole = (time.perf_counter() - began) * 1000
        print(
            f"hostile: {name:30s} text stage {alone:7.1f} ms ({alone / usual:5.0f} x a message)   all {whole:7.1f} ms"
        )


if __name__ == "__main__":
    from tests.benchmarks import models, planning, privacy

    inside()
    models.main()
    privacy.main()
    planning.main()
    browser_turns()
