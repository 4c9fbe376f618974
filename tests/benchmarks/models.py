"""An outside model: our overhead beside the bare client making the same calls, and a hundred conversations at once.

usage: python -m tests.benchmarks.models     (part of make bench)

A server of the tests plays the model on loopback. Nothing is asserted.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import statistics
import tempfile
import time
from asyncio import events
from typing import Any

import openai

from bot.assembly import detector, settle
from bot.conversation import Conversation
from bot.models.openai_api import Endpoint
from bot.models.usage import SPEAKING
from bot.parts import Outside, Parts, build_parts
from bot.settings import read_settings
from tests.conftest import keeping_in
from tests.models.server import ModelServer
from tests.models.test_failures import PERSON, WORRY

CONVERSATIONS, AT_ONCE, CALL_SECONDS = 30, 100, 0.2


def _endpoint(url: str) -> Endpoint:
    return Endpoint(base_url=url, api_key="none", models=dict.fromkeys(SPEAKING, "m"))


def _parts(endpoint: Endpoint) -> Parts:
    """As served: redacted in a worker, through the gate, the ledger in memory."""
    finds = detector(read_settings())
    finds.start()
    here: Any = keeping_in(tempfile.mkdtemp(prefix="raise-bench-"))
    return build_parts(
        endpoint=endpoint, detector=finds, keeping=here, outside=Outside(host="127.0.0.1", is_local=True)
    )


async def _talk(parts: Parts, seed: int, *, think: float = 0.0) -> int:
    """One conversation to its answer; turns taken."""
    rng = random.Random(seed)
    conversation, text, turns = (
        Conversation.start(parts, seed=seed, country="GB", person=f"bench-{seed}"),
        WORRY,
        0,
    )
    while turns < 8:
        asked = None
        async for words in conversation.receive(text):
            asked = words.attribute or asked
        turns += 1
        if asked is None:
            break
        text = PERSON[asked.value]
        await asyncio.sleep(think * rng.uniform(0.5, 1.5))
    return turns


async def overhead() -> None:
    server = ModelServer()
    endpoint = _endpoint(server.url)
    parts = _parts(endpoint)
    await _talk(parts, 0)
    server.said.clear()
    began = time.perf_counter()
    turns = 0
    for seed in range(CONVERSATIONS):
        turns += await _talk(parts, seed)
    ours = (time.perf_counter() - began) / turns * 1000
    bodies = [{k: v for k, v in request.items() if k != "role"} for request in server.said]
    client = openai.AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0)
    began = time.perf_counter()
    for body in bodies:
        stream: Any = await client.chat.completions.create(**body)
        async for _ in stream:
            pass
    bare = (time.perf_counter() - began) / turns * 1000
    print(
        f"a turn with an outside model that answers at once: {ours:6.1f} ms, {len(bodies) / turns:.1f} calls"
    )
    print(f"the bare client, the same calls one after another:  {bare:6.1f} ms")
    print(f"ratio {ours / bare:.2f}, our side {ours - bare:.1f} ms a turn")
    await endpoint.close()
    await client.close()
    server.close()


def _serve(pipe: Any) -> None:
    server = ModelServer()
    server.delay = CALL_SECONDS
    pipe.send(server.url)
    pipe.recv()
    server.close()


async def at_once() -> None:
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs,))
    process.start()
    endpoint = _endpoint(ours.recv())
    parts = _parts(endpoint)
    await _talk(parts, 0)
    settle()
    steps: list[float] = []
    run = events.Handle._run

    def timed(self: Any) -> None:
        began = time.perf_counter()
        run(self)
        steps.append(time.perf_counter() - began)

    lags: list[float] = []

    async def heartbeat() -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0.005)
            lags.append(time.perf_counter() - began - 0.005)

    async def later(seed: int) -> int:
        await asyncio.sleep(random.Random(seed).uniform(0, 10))
        return await _talk(parts, seed, think=5.0)

    events.Handle._run = timed  # type: ignore[method-assign]
    beating = asyncio.create_task(heartbeat())
    began = time.perf_counter()
    turns = sum(await asyncio.gather(*(later(seed) for seed in range(AT_ONCE))))
    took = time.perf_counter() - began
    beating.cancel()
    events.Handle._run = run  # type: ignore[method-assign]
    lags.sort()
    print(
        f"{AT_ONCE} conversations at once, {CALL_SECONDS * 1000:.0f} ms a call, 5 s of thought: {turns} turns in {took:.0f} s; "
        f"longest block {max(steps) * 1000:.1f} ms; loop late by median {statistics.median(lags) * 1000:.1f}, "
        f"p99 {lags[int(0.99 * len(lags))] * 1000:.1f}, most {lags[-1] * 1000:.1f} ms"
    )
    await endpoint.close()
    ours.send("done")
    process.join(10)


def main() -> None:
    asyncio.run(overhead())
    asyncio.run(at_once())


if __name__ == "__main__":
    main()
