"""Runs one written conversation through `raise-chat chat --json` and checks it move by move."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pytest
import yaml

HERE = Path(__file__).parent


_ready: dict[tuple[str, ...], list[subprocess.Popen[str]]] = {}
"""Programs that are loading already, by their arguments: loading takes longer than talking."""


def _started(arguments: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", "from bot.cli import main; main()", "chat", "--json", *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=HERE.parents[1],
    )  # fmt: skip


def prepare(paths: list[Path]) -> None:
    """Start the programs of the conversations that come next."""
    wanted = [_arguments(yaml.safe_load(path.read_text())) for path in paths]
    for arguments in wanted:
        started = _ready.setdefault(tuple(arguments), [])
        if len(started) < wanted.count(arguments):
            started.append(_started(arguments))


def dismiss() -> None:
    """End what was started and is not wanted any more."""
    for process in (p for started in _ready.values() for p in started):
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
    _ready.clear()


def _arguments(script: dict[str, Any]) -> list[str]:
    return [
        part for key in ("arm", "country", "seed") if key in script for part in (f"--{key}", str(script[key]))
    ]


@dataclass
class Talk:
    """A running `chat --json`; one event in, the moves of its turn out."""

    arguments: list[str]
    moves: list[dict[str, Any]] = field(default_factory=list)

    def __enter__(self) -> Self:
        waiting = _ready.get(tuple(self.arguments))
        self._process = waiting.pop(0) if waiting else _started(self.arguments)
        return self

    def __exit__(self, *failed: object) -> None:
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._process.stdin.close()
        assert self._process.wait(20) == 0, self._process.stderr.read()
        self._process.stdout.close()
        self._process.stderr.close()

    def send(self, event: dict[str, str]) -> list[dict[str, Any]]:
        """The moves that answer one event, up to the one marked last."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(event) + "\n")
        self._process.stdin.flush()
        turn = []
        while True:
            line = self._process.stdout.readline()
            assert line, "the program stopped answering"
            turn.append(json.loads(line))
            if turn[-1].get("last"):
                self.moves.extend(turn)
                return turn


class Loaded:
    """What `chat --json` does between its lines, in this process: loaded once, for many conversations."""

    def __init__(self) -> None:
        from bot.assembly import assemble
        from bot.settings import Settings

        with pytest.MonkeyPatch.context() as clean:
            for name in [n for n in os.environ if n.startswith("RAISE_")]:
                clean.delenv(name)
            self._parts: Any = assemble(Settings(), keeps=False)
        self._runner = asyncio.Runner()

    def talk(self, arguments: list[str]) -> Within:
        """A new conversation."""
        from bot.conversation import Conversation
        from bot.session import Arm

        told = dict(zip(arguments[::2], arguments[1::2], strict=True))
        conversation = Conversation.start(
            self._parts,
            arm=Arm(told.get("--arm", "raise")),
            seed=int(told.get("--seed", 0)),
            country=told.get("--country"),
        )
        return Within(conversation, self._runner)

    def close(self) -> None:
        """End it."""
        self._runner.close()


@dataclass
class Within:
    """As `Talk`, in this process."""

    conversation: Any
    runner: asyncio.Runner
    moves: list[dict[str, Any]] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failed: object) -> None:
        return

    def send(self, event: dict[str, str]) -> list[dict[str, Any]]:
        """The moves that answer one event."""
        from bot.cli.chat import _json_turn, read_event

        with contextlib.redirect_stdout(io.StringIO()) as out:
            self.runner.run(_json_turn(self.conversation, read_event(json.dumps(event), 1)))
        turn = [json.loads(line) for line in out.getvalue().splitlines()]
        assert turn and [bool(move.get("last")) for move in turn] == [False] * (len(turn) - 1) + [True]
        self.moves.extend(turn)
        return turn


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def check(moves: list[dict[str, Any]], expect: dict[str, Any], where: str) -> None:
    """Every expectation of one turn."""
    kinds = [m["move"] for m in moves]
    text = "\n".join(m["text"] for m in moves)
    asks = [m for m in moves if m["move"] == "ask"]
    for kind in as_list(expect.get("includes", [])):
        assert kind in kinds, f"{where}: no {kind} among {kinds}"
    for kind in as_list(expect.get("lacks", [])):
        assert kind not in kinds, f"{where}: a {kind} among {kinds}"
    if "ends_with" in expect:
        assert kinds[-1] in as_list(expect["ends_with"]), f"{where}: ends with {kinds[-1]}"
    if "ask" in expect:
        assert asks and asks[-1]["attribute"] in as_list(expect["ask"]), (
            f"{where}: asks {[a['attribute'] for a in asks]}"
        )
    for attribute in as_list(expect.get("never_asks", [])):
        assert attribute not in [a["attribute"] for a in asks], f"{where}: asks {attribute}"
    for key in ("reason", "domain", "stakes"):
        if key in expect:
            found = [m[key] for m in moves if key in m]
            assert any(f in as_list(expect[key]) for f in found), f"{where}: {key} is {found}"
    for pattern in as_list(expect.get("text_has", [])):
        assert re.search(pattern, text, re.IGNORECASE), f"{where}: nothing like {pattern!r} in\n{text}"
    for pattern in as_list(expect.get("text_lacks", [])):
        found = re.search(pattern, text, re.IGNORECASE)
        assert not found, f"{where}: {found and found[0]!r} in\n{text}"
    if expect.get("resources"):
        assert any(m.get("resources") for m in moves), f"{where}: no resources"
    if "used" in expect:
        used = [u for m in moves for u in m.get("used", [])]
        for attribute in as_list(expect["used"]):
            assert attribute in used, f"{where}: {attribute} did not shape the answer ({used})"


def run(path: Path, loaded: Loaded | None = None) -> list[dict[str, Any]]:
    """Run one conversation file; raises AssertionError where it goes another way.

    Args:
        path: of the file.
        loaded: where it runs in this process, not in a program of its own.
    """
    script = yaml.safe_load(path.read_text())
    arguments = _arguments(script)
    person = {k: str(v) for k, v in script.get("person", {}).items()}
    with loaded.talk(arguments) if loaded is not None else Talk(arguments) as talk:
        for number, turn in enumerate(script["turns"], 1):
            event = {key: turn[key] for key in ("say", "choose") if key in turn}
            moves = talk.send(event)
            if turn.get("then_person_answers"):
                for _ in range(8):
                    asks = [m for m in moves if m["move"] == "ask"]
                    if moves[-1]["move"] != "ask":
                        break
                    moves = [
                        *moves,
                        *talk.send({"say": person.get(asks[-1]["attribute"], "I'd rather not say")}),
                    ]
            check(moves, turn.get("expect", {}), f"{path.name}, turn {number}")
    general(talk.moves, path.name)
    return talk.moves


def general(moves: list[dict[str, Any]], where: str) -> None:
    """What holds in every conversation."""
    assert moves[0]["move"] == "say" and moves[0]["turn"] == 1 and "computer program" in moves[0]["text"], (
        where
    )
    attributes = [
        "age",
        "gender",
        "marital_status",
        "profession",
        "economic_status",
        "education",
        "health",
        "mental_state",
        "self_harm_history",
        "emotion",
    ]
    reasons = {
        "insufficient_context",
        "declined",
        "elevated_risk",
        "imminent_risk",
        "model_unavailable",
        "guard",
    }
    for move in moves:
        assert move["move"] in ("say", "ask", "answer", "abstain"), where
        if move["move"] == "ask":
            assert (
                move["attribute"] in attributes
                and move["choices"]
                and move["why"]
                and move["reason"] == "insufficient_context"
            ), where
        if move["move"] != "say":
            assert move["domain"], where
        if move["move"] == "abstain":
            assert move["resources"] and move["reason"], where
        if "reason" in move:
            assert move["reason"] in reasons, where
        if move["move"] == "answer":
            assert len(move["text"].split()) <= 260, f"{where}: {len(move['text'].split())} words"
