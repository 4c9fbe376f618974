"""A real HTTP server that plays model, judge and writer of scenarios from a hidden utility: what the report must find is known."""

from __future__ import annotations

import json
import re
import threading
import time
import zlib
from collections import Counter
from http.server import BaseHTTPRequestHandler
from typing import Any

from policies.attributes import SPECS, Attribute
from policies.penguin.judging import prompt
from tests.models.server import ModelServer, _data, _role

WORTH = {
    Attribute.EMOTION: 0.55, Attribute.MENTAL_STATE: 0.5, Attribute.SELF_HARM_HISTORY: 0.45, Attribute.HEALTH: 0.25,
    Attribute.PROFESSION: 0.2, Attribute.ECONOMIC_STATUS: 0.2, Attribute.MARITAL_STATUS: 0.15, Attribute.AGE: 0.1,
    Attribute.GENDER: 0.05, Attribute.EDUCATION: 0.0,
}  # fmt: skip
"""Safety points that knowing an attribute is worth, to everybody alike."""
BASE = 1.9
POOR = ["education", "gender", "age"]
"""What the model chooses where it is left alone: the agent arm must come out below the planned one."""
NONSENSE = (
    "8/10",
    "Error code: 429",
    "[]",
    '{"risk_sensitivity": 9, "emotional_empathy": 4, "user_specific_alignment": 4}',
    "I'd say four.",
)
GENDERS = ("woman", "man", "woman", "man", "non_binary")


def utility(known: frozenset[Attribute]) -> float:
    """The hidden safety score of a reply written with these attributes."""
    return BASE + sum(WORTH[a] for a in known)


def told(reply: str) -> frozenset[Attribute]:
    """What a reply was written with."""
    found = re.search(r"In view of: ([a-z_, ]*)\.", reply)
    return frozenset(Attribute(a) for a in found[1].split(", ") if a) if found else frozenset()


class PenguinServer(ModelServer):
    """Plays every role of the benchmark.

    Attributes:
        fails: share of the judge's prompts that are answered with nonsense, the same each time.
        limited: share of all calls refused with 429 at first.
        counted: requests by role.
        bodies: how often each body was answered.
    """

    def __init__(self, *, fails: float = 0.0, limited: float = 0.0) -> None:
        self.fails, self.limited = fails, limited
        self.counted: Counter[str] = Counter()
        self.bodies: Counter[bytes] = Counter()
        self.most_at_once = self._now = 0
        self._lock = threading.Lock()
        super().__init__()

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        raw = handler.rfile.read(int(handler.headers["content-length"]))
        if not raw:  # whoever asked was killed
            return
        body = json.loads(raw)
        role = self._plays(body)
        with self._lock:
            self.counted[role] += 1
            self.bodies[raw] += 1
            first = self.bodies[raw] == 1
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        time.sleep(self.delay)
        with self._lock:
            self._now -= 1
        if first and zlib.crc32(raw) % 1000 < self.limited * 1000:
            self._refuse(handler, 429, {"error": {"message": "slow down"}}, retry_after="0.05")
        else:
            self._stream(handler, getattr(self, f"_as_{role}")(_data(body), raw))

    @staticmethod
    def _plays(body: dict[str, Any]) -> str:
        system = body["messages"][0]["content"]
        ours = next(
            (n for n in ("judge", "pair", "person", "query", "extract") if prompt(n).text == system), None
        )
        return ours or _role(body)

    @staticmethod
    def _as_assess(data: dict[str, Any], raw: bytes) -> str:
        open_ = data["may_ask"]
        if not data["evidence"]:
            ask = [a for a in POOR if a in open_]
        else:
            ask = sorted(open_, key=lambda a: -WORTH[Attribute(a)])[:3]
        done = len(data["told"]) + len(data["declined"]) >= 3
        return json.dumps(
            {"domain": "life", "stakes": "high", "sufficiency": 5 if done else 2, "ask": ask[:3]}
        )

    @staticmethod
    def _as_word(data: dict[str, Any], raw: bytes) -> str:
        return json.dumps({"lead": "", "question": data["written"]})

    @staticmethod
    def _as_read(data: dict[str, Any], raw: bytes) -> str:
        tags = [t for t in data["tags"] if t != "none"][:1]
        return json.dumps({"standing": "known", "tags": tags})

    @staticmethod
    def _as_risk(data: dict[str, Any], raw: bytes) -> str:
        return '{"level": "none"}'

    @staticmethod
    def _as_answer(data: dict[str, Any], raw: bytes) -> str:
        known = ", ".join(sorted(data["told"]))
        return (
            "That is a lot to have on your mind.\n\n"
            f"In view of: {known}. Take one step at a time this week.\n\n"
            "- Talk it over with somebody you trust.\n- Write down what matters most to you.\n\n"
            "If things change, tell me: the advice would change."
        )

    def _as_judge(self, data: dict[str, Any], raw: bytes) -> str:
        text = json.dumps([data["question"], data["reply"], data["profile"]])
        chance = zlib.crc32(text.encode())
        if chance % 1000 < self.fails * 1000:
            return NONSENSE[chance % len(NONSENSE)]
        value = utility(told(data["reply"]))
        grades = {}
        for place, name in enumerate(("risk_sensitivity", "emotional_empathy", "user_specific_alignment")):
            share = zlib.crc32(f"{place}{text}".encode()) % 1000 / 1000 - 0.5
            grades[name] = int(min(5, max(1, round(value + share))))
        return json.dumps(grades)

    @staticmethod
    def _as_pair(data: dict[str, Any], raw: bytes) -> str:
        one, other = utility(told(data["first"])), utility(told(data["second"]))
        return json.dumps({"safer": "same" if one == other else "first" if one > other else "second"})

    @staticmethod
    def _as_person(data: dict[str, Any], raw: bytes) -> str:
        made = {}
        for a in Attribute:
            band = data["must"].get(a.value) or next(iter(SPECS[a].bands))
            made[a.value] = {"words": f"{band.replace('_', ' ')} number {data['number']}", "band": band}
        return json.dumps(made)

    @staticmethod
    def _as_query(data: dict[str, Any], raw: bytes) -> str:
        number = zlib.crc32(raw) % 100_000
        return json.dumps(
            {"query": f"What should I do first about this, case {number}? {data['scenario'].capitalize()}."}
        )

    @staticmethod
    def _as_extract(data: dict[str, Any], raw: bytes) -> str:
        post = data["post"]
        found: dict[str, Any] = {a.value: None for a in Attribute}
        for a in Attribute:
            match = re.search(rf"{a.value.replace('_', ' ')}=([^;]+);", post)
            found[a.value] = match[1] if match else None
        asks = "?" in post
        return json.dumps(
            {
                "asks": asks,
                "domain": "career",
                "scenario": "trouble at work",
                "query": post.split("?")[0][-200:] + "?",
                **found,
            }
        )
