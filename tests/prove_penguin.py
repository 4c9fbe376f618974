"""Runs of the benchmark that are killed, timed and grown: nothing is paid for twice, waiting is not wasted, memory does not grow.

usage: python -m tests.prove_penguin [KILLS] [SAMPLES] [MEMORY_SAMPLES]
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from policies.penguin import runlog
from policies.penguin.scenarios import Sample, shipped_samples, write_samples
from tests.models.penguin_server import PenguinServer

ROOT = Path(__file__).resolve().parents[1]
AT_ONCE = 8
LATENCY = 0.5


def command(folder: Path, server: PenguinServer | None, *arguments: str) -> subprocess.Popen[str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("RAISE_")}
    if server is not None:
        env |= {"RAISE_MODEL_BASE_URL": server.url, "RAISE_MODEL": "m", "RAISE_JUDGE_MODEL": "j"}
    return subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); from bot.cli import main; main()", "penguin", "run",
         "--concurrency", str(AT_ONCE), *arguments],
        cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip


def copies(count: int) -> list[Sample]:
    """So many samples: ours, again and again, each with an id of its own."""
    from dataclasses import replace

    own = shipped_samples().samples
    return [replace(own[i % len(own)], id=f"{own[i % len(own)].id}-{i // len(own)}") for i in range(count)]


def recorded(folder: Path) -> int:
    path = folder / runlog.CALLS
    return path.read_bytes().count(b"\n") if path.exists() else 0


def kills(count: int) -> None:
    rng, began = random.Random(7), time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = PenguinServer()
        server.delay = 0.05
        arguments = ("--arms", "vanilla,raise", "--limit", "14")
        assert command(folder, server, *arguments, "--out", "whole").wait() == 0
        once = sum(server.counted.values())
        server.counted = Counter()
        cut = 0
        while cut < count:
            run = command(folder, server, *arguments, "--out", "cut")
            wanted = int(once * (cut + rng.random()) / count)
            while run.poll() is None and recorded(folder / "cut") < wanted:
                time.sleep(0.01)
            time.sleep(rng.random() * 0.1)
            if run.poll() is not None:
                break
            run.send_signal(signal.SIGKILL)
            run.wait()
            cut += 1
        assert command(folder, server, *arguments, "--out", "cut").wait() == 0
        made = sum(server.counted.values())
        same = (folder / "cut" / runlog.SAMPLES).read_bytes() == (
            folder / "whole" / runlog.SAMPLES
        ).read_bytes()
        server.close()
        print(
            f"killed {cut} times: {once} calls in an unbroken run, {made} with the kills: {made - once} were in flight (at most {AT_ONCE} a kill), "
            f"none recorded was made again; same samples: {same}; in {time.monotonic() - began:.0f} s"
        )
        names = [json.loads(line)["id"] for line in (folder / "cut" / runlog.CALLS).read_text().splitlines()]
        assert len(names) == len(set(names)) == once, "a call that was recorded was made again"
        assert cut == count and same and 0 <= made - once <= AT_ONCE * cut


def wall(count: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = PenguinServer()
        server.delay = LATENCY
        write_samples(copies(count), folder / "s.jsonl")
        assert (
            command(
                folder, server, "--samples", "s.jsonl", "--arms", "vanilla,raise,context-rich", "--out", "run"
            ).wait()
            == 0
        )
        server.close()
        header = runlog.read_header(folder / "run")
        from datetime import datetime

        session = header["sessions"][0]
        took = (
            datetime.fromisoformat(session["ended_at"]) - datetime.fromisoformat(session["started_at"])
        ).total_seconds()
        made = header["usage"]["calls_in_this_session"]
        ideal = made * LATENCY / AT_ONCE
        print(
            f"{count} samples in three arms, {LATENCY * 1000:.0f} ms a call, {AT_ONCE} at once: {made} calls in {took:.0f} s; "
            f"calls x latency / concurrency is {ideal:.0f} s; ratio {took / ideal:.2f}; most under way together {server.most_at_once}"
        )
        assert server.most_at_once <= AT_ONCE and took / ideal <= 1.3


def memory(count: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_samples(copies(count), folder / "s.jsonl")
        server = PenguinServer()
        run = command(folder, server, "--samples", "s.jsonl", "--arms", "context-rich", "--out", "run")
        grown: list[tuple[int, float]] = []
        part = folder / "run" / runlog.PART
        while run.poll() is None:
            time.sleep(1)
            if part.exists() and (done := part.read_bytes().count(b"\n")):
                text = (
                    Path(f"/proc/{run.pid}/status").read_text()
                    if Path(f"/proc/{run.pid}/status").exists()
                    else ""
                )
                mine = next(
                    (int(line.split()[1]) / 1024 for line in text.splitlines() if line.startswith("VmRSS")),
                    0.0,
                )
                if mine:
                    grown.append((done, mine))
        server.close()
        assert run.returncode == 0
        at = {share: next(mb for done, mb in grown if done >= share * count) for share in (0.1, 0.5, 0.95)}
        print(
            f"{count} samples: resident {at[0.1]:.0f} MB after a tenth, {at[0.5]:.0f} MB after half, {at[0.95]:.0f} MB at the end; "
            f"the log {json.dumps(runlog.read_header(folder / 'run')['status'])}"
        )
        assert at[0.95] - at[0.1] < 60, grown[-3:]


def main() -> None:
    numbers = [int(a) for a in sys.argv[1:]] + [20, 200, 1000][len(sys.argv) - 1 :]
    kills(numbers[0])
    wall(numbers[1])
    memory(numbers[2])


if __name__ == "__main__":
    main()
