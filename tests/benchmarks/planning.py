"""Retrieval among 14,000 planned queries, and a build of 350: beside a plain search and beside the evaluations alone.

usage: python -m tests.benchmarks.planning
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from policies import classifiers
from policies.planning.building import BuildSettings, about, build
from policies.planning.journal import Journal
from policies.planning.library import shipped
from policies.planning.retrieval import Index, Retrieval
from policies.planning.reward import AssumedReward
from policies.planning.search import planned
from policies.planning.simulation import world
from policies.planning.starter import scenarios, starter_entries

ENTRIES = 14_000


def grown(vectors: np.ndarray, n: int) -> np.ndarray:
    """Our own queries' vectors, and as many more between pairs of them as are lacking."""
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, len(vectors), (n - len(vectors), 2))
    more = vectors[pairs[:, 0]] + vectors[pairs[:, 1]]
    rows = np.concatenate([vectors, more])
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def timed(call, queries) -> list[float]:
    out = []
    for query in queries:
        began = time.perf_counter()
        call(query)
        out.append((time.perf_counter() - began) * 1000)
    return out


def told(name: str, rows: list[float]) -> None:
    print(
        f"  {name:44} median {statistics.median(rows):6.2f} ms   99th percentile {np.percentile(rows, 99):6.2f} ms"
    )


def retrieval() -> None:
    library = shipped()
    own = classifiers.shipped().vectors("library")
    vectors = grown(own[: len(library.entries)], ENTRIES)
    entries = (library.entries * 2)[:ENTRIES]
    held = Retrieval(replace(library, entries=entries), vectors, by="bench")
    rng = np.random.default_rng(1)
    queries = vectors[rng.integers(0, ENTRIES, 400)] + 0.02 * rng.standard_normal(
        (400, vectors.shape[1])
    ).astype(np.float32)
    queries = queries / np.linalg.norm(queries, axis=1, keepdims=True)
    index = Index(vectors)
    same = [
        len({i for i, _ in index.nearest(q, 25)} & set(np.argsort(-(vectors @ q))[:25].tolist())) / 25
        for q in queries[:200]
    ]
    print(f"retrieval among {ENTRIES:,} planned queries, the question encoded:")
    plain = timed(lambda q: np.argsort(-(vectors @ q))[:25], queries)
    ours = timed(lambda q: held._index.nearest(q, 25), queries)
    whole = timed(held.policy_for, queries)
    told("plain: every cosine, sorted", plain)
    told("in two looks", ours)
    told("in two looks, and the vote of 25 policies", whole)
    print(
        f"  ratio of medians, two looks to plain: {statistics.median(ours) / statistics.median(plain):.2f}; same neighbours: {np.mean(same):.4f}"
    )


async def building() -> None:
    rows = scenarios(starter_entries(), per_domain=50)
    reward, settings = AssumedReward(), BuildSettings(max_calls=100)
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder) / "j", about(rows, reward, settings))
        began = time.perf_counter()
        made = await build(rows, reward, settings, journal, date="2026-11-30")
        took = time.perf_counter() - began
        journal.close()
    began = time.perf_counter()
    for scenario in rows:
        evaluate, _ = reward.parts(scenario, 0, None)
        for n in range(99):
            await evaluate(frozenset(), n + 1)
    alone = time.perf_counter() - began
    calls = made.library.made["spent"]["calls"]
    print(
        f"a build of {len(rows)} queries: {calls:,} calls in {took:.1f} s, {took / len(rows) * 1000:.0f} ms a query"
    )
    print(f"  the same evaluations alone: {alone:.1f} s; ratio {took / alone:.1f}")


async def waiting() -> None:
    """A query whose judge takes 50 ms, twelve at once."""
    query = world(0, 1)[0]
    judge = query.judge(np.random.default_rng(1))

    async def evaluate(chosen):
        await asyncio.sleep(0.05)
        return await judge(chosen)

    async def prior(known):
        await asyncio.sleep(0.05)
        return await query.opinion(np.random.default_rng(2))(known)

    took = []
    for seed in range(10):
        began = time.perf_counter()
        await planned("q", evaluate=evaluate, prior=prior, rng=seed, concurrency=12)
        took.append(time.perf_counter() - began)
    least = 0.05 * (1 + 99 / 12)
    print(
        f"a query at 50 ms a call, twelve at once: median {statistics.median(took):.2f} s, longest {max(took):.2f} s; "
        f"the calls alone {least:.2f} s; ratio {statistics.median(took) / least:.2f}"
    )


def main() -> None:
    retrieval()
    asyncio.run(waiting())
    asyncio.run(building())


if __name__ == "__main__":
    main()
