"""Two hundred people at once beside a bare Chainlit echo; what an idle session holds; what thousands leave who come and go.

usage: python -m tests.prove_load [PEOPLE] [MESSAGES] [SESSIONS]     (part of make prove; the last result is in docs/proofs.md)

Speaks Chainlit's own protocol over a websocket as a browser does: a cookie each, an origin, compression offered. LOAD_TIMEOUT
is Chainlit's session time-out during the proof in seconds, LOAD_PAUSE how long after the last has left is waited.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp

from bot.messages import messages
from policies.everyday import tell_of_nothing

ROOT = Path(__file__).resolve().parents[1]
THINK_SECONDS = 5.0
IDLE, WARM_UP, AT_ONCE = 500, 100, 50
TIMEOUT = float(os.environ.get("LOAD_TIMEOUT", "5"))
PAUSE = float(os.environ.get("LOAD_PAUSE", TIMEOUT + 100))
PATIENCE = 60.0
MOST_RATIO, MOST_KB_IDLE, MOST_MB_LEFT = 3.0, 100, 30
OURS = f"""
import bot.web.app as web
made = web.create_app
def create_app(settings):
    app = made(settings)
    from chainlit.config import config
    config.project.session_timeout = {TIMEOUT}
    return app
web.create_app = create_app
from bot.cli import main
main()
"""
BARE = f"""
import os, secrets
os.environ |= {{"CHAINLIT_AUTH_SECRET": secrets.token_urlsafe(48), "CHAINLIT_APP_ROOT": os.getcwd()}}
import uvicorn
from chainlit.config import config
from chainlit.utils import mount_chainlit
from fastapi import FastAPI
config.project.allow_origins = ["http://127.0.0.1:" + os.environ["RAISE_PORT"]]
config.project.session_timeout = {TIMEOUT}
config.project.transports = ["websocket"]
app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
@app.get("/healthz")
async def healthz():
    return {{"ok": True}}
mount_chainlit(app=app, target="echo.py", path="/")
uvicorn.run(app, host="127.0.0.1", port=int(os.environ["RAISE_PORT"]), log_level="warning", access_log=False,
            server_header=False, loop="uvloop")
"""
ECHO = """
import secrets
import chainlit as cl
@cl.header_auth_callback
async def anonymous(_):
    return cl.User(identifier="visitor-" + secrets.token_hex(12))
@cl.on_chat_start
async def start():
    await cl.Message(content="Hello.").send()
@cl.on_message
async def said(message):
    await cl.Message(content=message.content).send()
"""
QUESTIONS = (
    "I lost my job {when} and don't know how to tell my {who}",
    "should I move back in with my {who} after the breakup?",
    "my {who} drinks every night and I don't know what to say anymore",
    "how do I ask my boss for fewer shifts without losing the job?",
    "I owe about {n}00 pounds on two cards, which one do I pay first?",
    "my chest has felt tight {when}, is it stress or should I see someone?",
    "I failed my exams {when}, is it worth trying again?",
    "my {who} wants me to sign for a loan and I can't say no",
    "is it ok to stop my tablets if I feel better?",
    "I can't sleep because of work, what can I do?",
    "do I tell {name} that I saw her husband with someone else?",
    "how do I get my {who} to see a doctor?",
)
ANSWERS = (
    "I'm {n}", "low most days, not sleeping much", "no, never", "ashamed, mostly", "I work nights in a warehouse",
    "married, two kids", "I'd rather not say", "skip that one please", "why do you ask?", "just answer me please",
    "about {n} hundred a month left after rent", "scared of what {name} will think", "not really, my health is fine",
    "yes, I talked to {name} about it {when}", "actually I meant my {who}, not me", "thanks, that helps",
    "and what if my {who} gets angry?", "how are you today?", "what do you know about me?", "nothing new, tired as always",
    "some days I don't see the point of it all", "I finished school and did a year of college",
)  # fmt: skip
Says = Callable[[random.Random, int], list[str]]
WHO = ("wife", "husband", "mum", "dad", "brother", "sister", "partner", "best friend", "son", "boss")
WHEN = ("last week", "in March", "two months ago", "on Friday", "since the summer", "a year ago", "yesterday")
NAMES = ("Amira", "Tom", "Jelena", "Kwame", "Rosa", "Ivo", "Priya", "Liam", "Noor", "Beth")
LEADS = ("", "", "well, ", "honestly, ", "hm, ", "ok so ", "I guess ", "to be fair ", "look, ")
ENDS = (
    "",
    "",
    ", if that matters",
    ", you know",
    " and that's how it is",
    ", I think",
    " or so",
    " at least for now",
)


def conversation(rng: random.Random, length: int) -> list[str]:
    """A question, then what people say to such a program, in an order and in words of this person's own."""
    texts = [rng.choice(QUESTIONS), *rng.sample(ANSWERS, min(length, len(ANSWERS)))]
    if length > 3:
        texts[length // 2 + 1] = "another thing: " + rng.choice(QUESTIONS)
    return [
        rng.choice(LEADS)
        + text.format(
            who=rng.choice(WHO), when=rng.choice(WHEN), name=rng.choice(NAMES), n=rng.randrange(18, 70)
        )
        + ("" if text.endswith("?") else rng.choice(ENDS))
        for text in texts[:length]
    ]


def everyday_words(rng: random.Random, length: int) -> list[str]:
    """What everybody says, which the chat knows before it is said: greetings, small talk, "are you a bot"."""
    return rng.sample(sorted(tell_of_nothing()), length)


# ------------------------------------------------------------------------------------------------ servers


@dataclass(frozen=True)
class Server:
    url: str
    pid: int

    def pids(self) -> list[int]:
        """The process and its children, itself first."""
        found = [self.pid]
        for pid in found:
            with contextlib.suppress(OSError):
                for task in Path(f"/proc/{pid}/task").iterdir():
                    found += map(int, (task / "children").read_text().split())
        return found

    def kilobytes(self) -> tuple[int, int]:
        """Resident memory of the process, and of its children together."""
        own, *children = map(_resident, self.pids())
        return own, sum(children)

    def seconds(self) -> tuple[float, float]:
        """Processor time of the process, and of its children together."""
        own, *children = map(_worked, self.pids())
        return own, sum(children)


def _resident(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    return 0


def _worked(pid: int) -> float:
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


@contextlib.contextmanager
def serving(*, ours: bool) -> Iterator[Server]:
    """Our chat, or the bare one, in a process of its own and a folder that goes with it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "echo.py").write_text(ECHO)
        env = {k: v for k, v in os.environ.items() if not k.startswith(("RAISE_", "CHAINLIT_"))}
        env |= {"RAISE_PORT": str(port), "RAISE_DATA_DIR": str(folder / "data")}
        log = folder / "log"
        with log.open("w") as out:
            process = subprocess.Popen(
                [sys.executable, "-c", OURS if ours else BARE, "serve"], cwd=ROOT if ours else folder, env=env, stdout=out,
                stderr=out,
            )  # fmt: skip
        try:
            for _ in range(480):
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                assert process.poll() is None, log.read_text()
                time.sleep(0.25)
            else:
                raise AssertionError("the server did not start: " + log.read_text())
            server = Server(f"http://127.0.0.1:{port}", process.pid)
            for _ in range(60):
                if asyncio.run(answers(server)):
                    break
                time.sleep(0.5)
            yield server
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


# ------------------------------------------------------------------------------------------------ people


@dataclass
class Measured:
    first: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)


class Person:
    """One browser tab."""

    def __init__(self, url: str, http: aiohttp.ClientSession, measured: Measured) -> None:
        self._url, self._http, self._measured = url, http, measured
        self._welcomed, self._first, self._done = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._is_leaving = False

    async def come(self) -> None:
        """A cookie, a socket, a session, and the welcome of the chat."""
        origin = {"Origin": self._url}
        cookie = await self.cookie()
        self._socket = await self._http.ws_connect(
            self._url + "/ws/socket.io/?EIO=4&transport=websocket", headers={**origin, "Cookie": cookie}, compress=15,
            max_msg_size=0,
        )  # fmt: skip
        await self._socket.receive_str()
        session = {
            "clientType": "webapp",
            "sessionId": str(uuid.uuid4()),
            "threadId": "",
            "userEnv": "{}",
            "chatProfile": "",
        }
        await self._socket.send_str("40" + json.dumps(session))
        connected = await self._socket.receive_str()
        assert connected.startswith("40"), connected
        self._listening = asyncio.create_task(self._listen())
        await self._emit("connection_successful")
        await asyncio.wait_for(self._welcomed.wait(), PATIENCE)

    async def cookie(self) -> str:
        """Of an anonymous visitor."""
        async with self._http.post(self._url + "/auth/header", headers={"Origin": self._url}) as answer:
            answer.raise_for_status()
            return "; ".join(f"{c.key}={c.value}" for c in answer.cookies.values())

    async def say(self, text: str) -> None:
        """Send one message and wait until all of its answer has come."""
        self._first.clear()
        self._done.clear()
        step = {
            "id": str(uuid.uuid4()), "threadId": "", "name": "User", "type": "user_message", "output": text,
            "createdAt": datetime.now(UTC).isoformat(), "metadata": {"location": self._url},
        }  # fmt: skip
        began = time.perf_counter()
        await self._emit("client_message", {"message": step, "fileReferences": []})
        async with asyncio.timeout(PATIENCE):
            await self._first.wait()
            first = time.perf_counter() - began
            await self._done.wait()
        self._measured.first.append(first)
        self._measured.whole.append(time.perf_counter() - began)

    async def go(self, how: str) -> None:
        """Leave: "clear" as a new chat does, "close" as a page that unloads, "lost" as a connection that breaks."""
        self._is_leaving = True
        if how == "lost":
            fd = os.dup(self._socket.get_extra_info("socket").fileno())
            with socket.socket(fileno=fd) as line:
                line.shutdown(socket.SHUT_RDWR)
        elif how == "clear":
            await self._emit("clear_session")
            await self._socket.send_str("41")
        await self._socket.close()
        await self._listening

    async def _emit(self, event: str, *data: Any) -> None:
        await self._socket.send_str("42" + json.dumps([event, *data]))

    async def _listen(self) -> None:
        async for packet in self._socket:
            if packet.data == "2":
                await self._socket.send_str("3")
            elif packet.data.startswith("42"):
                self._heard(*json.loads(packet.data[2:]))
        if not self._is_leaving:
            self._measured.errors["the connection was lost"] += 1

    def _heard(self, event: str, data: Any = None) -> None:
        if event == "task_end" and self._first.is_set():
            self._done.set()
        elif event in ("stream_start", "stream_token"):
            self._first.set()
        elif event == "new_message" and data["type"] == "assistant_message":
            self._welcomed.set()
            self._first.set()
            for failure in FAILURES:
                if data["output"].startswith(messages()[failure]):
                    self._measured.errors[f"answered by {failure!r}"] += 1


FAILURES = ("failure", "unsaved", "not_safe_to_read", "still_thinking")


@contextlib.asynccontextmanager
async def browsers() -> Any:
    connector = aiohttp.TCPConnector(limit=0)
    jar = aiohttp.DummyCookieJar()
    async with aiohttp.ClientSession(connector=connector, cookie_jar=jar) as http:
        yield http


async def answers(server: Server) -> bool:
    """Whether a first message is answered: the redactor's process starts beside the web server."""
    measured = Measured()
    async with browsers() as http:
        person = Person(server.url, http, measured)
        await person.come()
        await person.say("Is this on?")
        await person.go("clear")
    return not measured.errors


async def talk(
    server: Server,
    people: int,
    length: int,
    *,
    think: float = THINK_SECONDS,
    seed: int = 0,
    says: Says = conversation,
) -> Measured:
    """So many people at once, each with pauses between their messages."""
    measured = Measured()
    gate, there = asyncio.Semaphore(AT_ONCE), asyncio.Barrier(people)
    async with browsers() as http:

        async def one(number: int) -> None:
            rng, person = random.Random(1000 * seed + number), Person(server.url, http, measured)
            try:
                async with gate:
                    await person.come()
            finally:
                await there.wait()
            for text in says(rng, length):
                await asyncio.sleep(rng.expovariate(1 / think))
                await person.say(text)
            await person.go("clear")

        for failed in await asyncio.gather(*map(one, range(people)), return_exceptions=True):
            if failed is not None:
                measured.errors[type(failed).__name__] += 1
    return measured


async def come_and_go(server: Server, sessions: int) -> Counter[str]:
    """Every third says two things; every third leaves for a new chat, closes the page, or is cut off."""
    measured = Measured()
    gate = asyncio.Semaphore(AT_ONCE)
    async with browsers() as http:

        async def one(number: int) -> None:
            rng, person = random.Random(number), Person(server.url, http, measured)
            async with gate:
                await person.come()
                for text in conversation(rng, 2) if number % 3 == 0 else ():
                    await person.say(text)
                await person.go(("clear", "close", "lost")[number // 3 % 3])

        for failed in await asyncio.gather(*map(one, range(sessions)), return_exceptions=True):
            if failed is not None:
                measured.errors[type(failed).__name__] += 1
    return measured.errors


async def idle(server: Server, sessions: int) -> tuple[float, float, Counter[str]]:
    """Kilobytes a connected session, in the process and in its children."""
    measured = Measured()
    before = server.kilobytes()
    async with browsers() as http:
        gate = asyncio.Semaphore(AT_ONCE)
        people = [Person(server.url, http, measured) for _ in range(sessions)]

        async def one(person: Person) -> None:
            async with gate:
                await person.come()

        for failed in await asyncio.gather(*map(one, people), return_exceptions=True):
            if failed is not None:
                measured.errors[type(failed).__name__] += 1
        await asyncio.sleep(3)
        after = server.kilobytes()
        await asyncio.gather(*(p.go("clear") for p in people), return_exceptions=True)
    own, children = ((a - b) / sessions for a, b in zip(after, before, strict=True))
    return own, children, measured.errors


# ------------------------------------------------------------------------------------------------ proofs


@dataclass(frozen=True)
class Load:
    """Of one server: milliseconds to the first word and to the end, at the median and at the 99th."""

    first: tuple[float, float]
    whole: tuple[float, float]
    work: float
    errors: Counter[str]

    @classmethod
    def of(cls, name: str, server: Server, people: int, length: int, says: Says = conversation) -> Load:
        asyncio.run(talk(server, 10, 2, think=0.1, seed=1, says=says))
        began, own, other = time.perf_counter(), *server.seconds()
        driving = time.process_time()
        found = asyncio.run(talk(server, people, length, says=says))
        took, driving = time.perf_counter() - began, time.process_time() - driving
        own, other = (now - then for now, then in zip(server.seconds(), (own, other), strict=True))
        sent = max(1, len(found.whole))
        made = cls(
            _percentiles(found.first), _percentiles(found.whole), 1000 * (own + other) / sent, found.errors
        )
        print(
            f"{name}: {people} people, {len(found.whole)} messages in {took:.0f} s, to the first word p50 {made.first[0]:.0f}, p99 "
            f"{made.first[1]:.0f} ms; to the end p50 {made.whole[0]:.0f}, p99 {made.whole[1]:.0f} ms; processor a message "
            f"{1000 * own / sent:.1f} ms, its children {1000 * other / sent:.1f} ms (driving it {1000 * driving / sent:.1f} ms); "
            f"errors {_told(found.errors)}",
            flush=True,
        )  # fmt: skip
        return made


def _percentiles(seconds: Sequence[float]) -> tuple[float, float]:
    if len(seconds) < 2:
        return float("nan"), float("nan")
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    return 1000 * cuts[49], 1000 * cuts[98]


def _told(errors: Counter[str]) -> str:
    return ", ".join(f"{n} x {kind}" for kind, n in errors.items()) or "0"


def prove_load(people: int, length: int) -> bool:
    with serving(ours=False) as server:
        bare = Load.of("bare echo", server, people, length)
    with serving(ours=True) as server:
        known = Load.of("our chat, everyday words", server, people, length, everyday_words)
    with serving(ours=True) as server:
        ours = Load.of("our chat, words of their own", server, people, length)
    held = [_beside(bare, known), _beside(bare, ours)]
    return all(held)


def _beside(bare: Load, ours: Load) -> bool:
    pairs = zip((*ours.first, *ours.whole), (*bare.first, *bare.whole), strict=True)
    ratios = [a / b for a, b in pairs]
    print(
        f"ratios to the bare echo: first word p50 {ratios[0]:.1f}, p99 {ratios[1]:.1f}; end p50 {ratios[2]:.1f}, p99 {ratios[3]:.1f}; "
        f"processor a message {ours.work / bare.work:.1f}; aim: first word at most {MOST_RATIO:.0f}",
        flush=True,
    )
    return not bare.errors and not ours.errors and max(ratios[:2]) <= MOST_RATIO


def prove_idle(sessions: int) -> bool:
    held = {}
    wrong: Counter[str] = Counter()
    for is_ours in (False, True):
        with serving(ours=is_ours) as server:
            wrong += asyncio.run(come_and_go(server, WARM_UP))
            time.sleep(PAUSE)
            own, children, errors = asyncio.run(idle(server, sessions))
            held[is_ours] = own
            wrong += errors
    print(
        f"{sessions} idle sessions: {held[True]:.1f} KB each (children {children:+.1f} KB each), in the bare echo "
        f"{held[False]:.1f} KB each; aim: at most {MOST_KB_IDLE}; errors {_told(wrong)}",
        flush=True,
    )
    return held[True] <= MOST_KB_IDLE and not wrong


def prove_churn(sessions: int) -> bool:
    with serving(ours=True) as server:
        wrong = asyncio.run(come_and_go(server, WARM_UP))
        time.sleep(PAUSE)
        before, began = server.kilobytes(), time.monotonic()
        wrong += asyncio.run(come_and_go(server, sessions))
        full, took = server.kilobytes(), time.monotonic() - began
        time.sleep(PAUSE)
        after = server.kilobytes()
    left = (after[0] - before[0]) / 1024
    print(
        f"{sessions} sessions came and went in {took:.0f} s: {before[0] / 1024:.0f} MB at the start, {full[0] / 1024:.0f} when the last "
        f"left, {after[0] / 1024:.0f} after {PAUSE:.0f} s: {left:+.1f} MB (children {(after[1] - before[1]) / 1024:+.1f} MB); aim: at "
        f"most {MOST_MB_LEFT}; errors {_told(wrong)}",
        flush=True,
    )
    return left <= MOST_MB_LEFT and not wrong


def main(people: int = 200, length: int = 6, sessions: int = 3000) -> None:
    began = time.monotonic()
    held = [prove_load(people, length), prove_idle(min(IDLE, sessions)), prove_churn(sessions)]
    print(f"{'held' if all(held) else 'MISSED'}; in {time.monotonic() - began:.0f} s")
    sys.exit(not all(held))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
