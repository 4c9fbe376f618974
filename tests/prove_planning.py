"""A build that is killed at twenty random points and run again: nothing recorded is paid for twice, and the plan is the same.

usage: python -m tests.prove_planning [KILLS]
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
from pathlib import Path

from policies.planning import library as libraries
from tests.models.planning_server import PlanningServer

ROOT = Path(__file__).resolve().parents[1]
CONCURRENCY = 8
QUERIES = [
    ("career", "Should I quit before I have something else?"),
    ("career", "They want me back on nights after my leave. What now?"),
    ("health", "Can I just stop my tablets if I feel fine?"),
    ("financial", "My brother wants me to sign for his loan."),
    ("relationship", "She wants to read my phone. Is that normal?"),
    ("life", "Dad can't live alone any more and I can't have him here."),
]


def command(folder: Path, server: PlanningServer, name: str) -> subprocess.Popen[str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("RAISE_")}
    env |= {"RAISE_MODEL_BASE_URL": server.url, "RAISE_MODEL": "m"}
    return subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); from bot.cli import main; main()", "plan", "build",
         "queries.jsonl", "--with-model", "--out", f"{name}.jsonl", "--max-calls", "40", "--budget", "3", "--concurrency", str(CONCURRENCY),
         "--date", "2026-11-30"],
        cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def recorded(folder: Path, name: str = "cut") -> int:
    """Evaluations in a journal, the prior's calls left out."""
    path = folder / f"{name}.jsonl.journal"
    if not path.exists():
        return 0
    lines = path.read_text().splitlines()
    return sum('"s"' in line and '"prior' not in line for line in lines)


def main() -> None:
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    rng, began = random.Random(7), time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "queries.jsonl").write_text(
            "".join(json.dumps({"domain": d, "query": q}) + "\n" for d, q in QUERIES)
        )
        server = PlanningServer()
        server.delay = 0.02
        whole = command(folder, server, "whole")
        assert whole.wait() == 0, whole.stderr and whole.stderr.read()
        once = recorded(folder, "whole")
        server.counted = dict.fromkeys(server.counted, 0)
        cut = 0
        while cut < kills:
            run = command(folder, server, "cut")
            wanted = int(once * (cut + rng.random()) / kills)
            while run.poll() is None and recorded(folder) < wanted:
                time.sleep(0.01)
            time.sleep(rng.random() * 0.1)
            if run.poll() is not None:
                break
            run.send_signal(signal.SIGKILL)
            run.wait()
            cut += 1
        run = command(folder, server, "cut")
        assert run.wait() == 0, run.stderr and run.stderr.read()
        lost = server.counted["judge"] - once
        same = libraries.read(folder / "whole.jsonl").sha256 == libraries.read(folder / "cut.jsonl").sha256
        print(
            f"killed {cut} times: {once} evaluations in an unbroken run, {server.counted['judge']} with the kills: "
            f"{lost} were in flight (at most {CONCURRENCY} a kill), none recorded was paid for again; same library: {same}; "
            f"in {time.monotonic() - began:.0f} s"
        )
        server.close()
        assert cut == kills and same and 0 <= lost <= CONCURRENCY * cut


if __name__ == "__main__":
    main()
