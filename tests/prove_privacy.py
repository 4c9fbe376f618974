"""Kill -9 in the middle of turns: nothing but the turn in flight is lost, and no file is damaged.

usage: python -m tests.prove_privacy [TIMES]     (part of make prove; the last result is in docs/proofs.md)
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TURNS = [
    "my wife left and I've stopped going to work, what do I do?", "low most days, not sleeping", "no, never", "ashamed, mostly",
    "and how do I tell my sister?", "34", "different question: how do I ask for a day off?", "thanks",
]  # fmt: skip


def killed(folder: Path, rng: random.Random, number: int) -> tuple[int, int]:
    """One conversation killed somewhere; (turns that were answered to the end, turns that are kept)."""
    person = f"person-{number:04d}"
    env = {k: v for k, v in os.environ.items() if not k.startswith("RAISE_")} | {
        "RAISE_DATA_DIR": str(folder)
    }
    command = [sys.executable, "-c", "from bot.cli import main; main()", "chat", "--json"]
    process = subprocess.Popen(
        [*command, "--consent", "chat,keep,research", "--person", person, "--country", "GB"],
        cwd=ROOT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert process.stdin and process.stdout
    answered, last_turn = 0, rng.randrange(1, len(TURNS))
    for position, text in enumerate(TURNS):
        process.stdin.write(json.dumps({"say": text}) + "\n")
        process.stdin.flush()
        if position == last_turn:
            time.sleep(rng.uniform(0.0, 0.25))
            break
        while not json.loads(process.stdout.readline()).get("last"):
            pass
        answered += 1
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    with sqlite3.connect(folder / "study.db") as db:
        kept = db.execute("SELECT count(*) FROM turns WHERE person = ?", [person]).fetchone()[0]
    db.close()
    return answered, kept


def main(times: int) -> None:
    rng = random.Random(0)
    began = time.time()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lost = 0
        for number in range(times):
            answered, kept = killed(folder, rng, number)
            assert kept >= answered, f"run {number}: {answered} turns were answered and {kept} are kept"
            lost += kept == answered
            for file in ("study.db", "keys.db", "audit.db"):
                db = sqlite3.connect(folder / file)
                assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok", file
                db.close()
            if (number + 1) % 10 == 0:
                print(f"killed {number + 1} of {times}, {time.time() - began:.0f} s", flush=True)
        for command in (["privacy", "residue"], ["privacy", "rotate-keys", "--data", "--json"]):
            done = subprocess.run(
                [sys.executable, "-c", "from bot.cli import main; main()", *command], cwd=ROOT, capture_output=True, text=True,
                env={**os.environ, "RAISE_DATA_DIR": str(folder)},
            )  # fmt: skip
            assert done.returncode == 0, done.stderr[-300:]
            print(" ".join(command), "->", done.stdout.strip()[:200])
    print(
        f"held: killed {times} times in mid-turn, {lost} times the turn in flight was lost and nothing else, integrity clean, "
        f"in {time.time() - began:.0f} s"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
