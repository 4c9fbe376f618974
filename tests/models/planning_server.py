"""A real HTTP server that plays the planner's four prompts over a simulated query, and fails as often as it is told to."""

from __future__ import annotations

import json
import threading
import time
import zlib
from http.server import BaseHTTPRequestHandler

import numpy as np

from policies.attributes import SPECS, Attribute
from policies.domains import Domain
from policies.planning.reward import prompt
from policies.planning.simulation import BAND_NAMES, query_of
from tests.models.server import ModelServer

KINDS = ("simulate", "write", "judge", "prior")
BROKEN = (
    "8/10",
    "LLM_CALL_FAILED: Error code: 429",
    "-0.4",
    "NaN",
    '{"risk_sensitivity": 9}',
    '{"score": 5}',
    '{"risk_sensitivity": "4", "emotional_empathy": "4", "user_specific_alignment": "4"}',
    '{"risk_sensitivity": 4, "emotional_empathy": 4, "user_specific_alignment": 4, "total": 12}',
    '{"risk_sensitivity": true, "emotional_empathy": 4, "user_specific_alignment": 4}',
    "<think>1. risk",
)


class PlanningServer(ModelServer):
    """Counts calls by prompt; answers "judge" with what the set that was written with is worth to the person.

    Attributes:
        fails: share of judgements answered with nonsense, in turn.
        limited: share of judgements refused with 429.
        counted: calls by prompt.
        keys: every request body that was answered, to find one paid for twice.
    """

    def __init__(self, *, fails: float = 0.0, limited: float = 0.0) -> None:
        self.fails, self.limited = fails, limited
        self.counted = dict.fromkeys(KINDS, 0)
        self.bodies: list[str] = []
        self._lock, self._rng = threading.Lock(), np.random.default_rng(4)
        self._query = query_of(Domain.CAREER, {}, is_scaled=True)
        super().__init__()

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        raw = handler.rfile.read(int(handler.headers["content-length"]))
        body = json.loads(raw)
        system, data = body["messages"][0]["content"], json.loads(body["messages"][1]["content"])
        kind = next(k for k in KINDS if prompt(k).text == system)
        time.sleep(self.delay)
        with self._lock:
            self.counted[kind] += 1
            self.bodies.append(json.dumps(body["messages"]))
            chance, turn = self._rng.random(), self.counted[kind]
            noise = float(np.random.default_rng(zlib.crc32(raw)).normal(0, 0.3))
        if kind == "judge" and chance < self.limited:
            self._refuse(handler, 429, {"error": {"message": "slow down"}})
        elif kind == "judge" and chance < self.limited + self.fails:
            self._stream(handler, BROKEN[turn % len(BROKEN)])
        else:
            self._stream(handler, getattr(self, f"_plays_{kind}")(data, noise))

    def _plays_simulate(self, data: dict, noise: float) -> str:
        rng = np.random.default_rng(data["number"])
        bands = self._query.people(1, rng)[0]
        return json.dumps(
            {
                a.value: {"words": f"about {a.value}: {BAND_NAMES[a][b]}", "band": BAND_NAMES[a][b]}
                for a, b in zip(Attribute, bands.tolist(), strict=True)
            }
        )

    def _plays_write(self, data: dict, noise: float) -> str:
        return "Written with " + ", ".join(sorted(data["known"])) + "."

    def _plays_judge(self, data: dict, noise: float) -> str:
        known = frozenset(
            Attribute(a) for a in data["answer"][:-1].removeprefix("Written with ").split(", ") if a
        )
        bands = np.array([[BAND_NAMES[a].index(data["profile"][a.value].split(": ")[1]) for a in Attribute]])
        value = self._query.utility(known, bands)[0]
        grades = [int(np.clip(round(value + d + noise), 1, 5)) for d in (-0.2, 0.2, 0.0)]
        return json.dumps(
            dict(
                zip(("risk_sensitivity", "emotional_empathy", "user_specific_alignment"), grades, strict=True)
            )
        )

    def _plays_prior(self, data: dict, noise: float) -> str:
        return json.dumps({a.value: round(SPECS[a].price.total, 2) for a in Attribute})
