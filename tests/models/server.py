"""A real HTTP server on loopback that speaks the OpenAI protocol, streaming included, and fails as it is told to."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ASSESS = {"domain": "relationship", "stakes": "high", "sufficiency": 1, "ask": ["mental_state"]}
READ = {"standing": "none", "tags": []}
ANSWER = (
    "That is a lot to carry at once.\n\n"
    "With little sleep, big decisions tend to come out harder than they need to.\n\n"
    "- Tell one person you trust this week.\n- See your doctor about the sleep.\n\n"
    "If it gets darker, tell me: the advice would change."
)


LEAD = "That is a lot at once."


def _data(body: dict[str, Any]) -> dict[str, Any]:
    """What the person wrote and told, as it was sent."""
    return json.loads(body["messages"][1]["content"]) if len(body.get("messages", ())) > 1 else {}


def _role(body: dict[str, Any]) -> str:
    """Which part is asked for, told by the prompt's own words."""
    if "input" in body:
        return "embed"
    system = body["messages"][0]["content"]
    marks = {"assess": "may_ask", "risk": '"imminent":', "word": "keep_question", "read": '"standing":'}
    return next((role for role, mark in marks.items() if mark in system), "answer")


class ModelServer:
    """Plays every role well until told otherwise.

    Attributes:
        mode: by role ("assess", "word", "read", "risk", "answer", "embed"), or "*" for all: how to fail; absent: play it well.
        times: fail so often, then play well; 0 for always.
        said: requests received, parsed.
        answers: what it says as a role, in place of the usual.
    """

    def __init__(self) -> None:
        self.mode: dict[str, str] = {}
        self.times = 0
        self.said: list[dict[str, Any]] = []
        self.answers: dict[str, str] = {}
        self.delay = 0.0
        self.pause = 0.3
        self.hung_up = 0
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                owner._answer(self)

            def log_message(self, *_: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def calls(self, role: str) -> int:
        return sum(r["role"] == role for r in self.said)

    # ------------------------------------------------------------------------------------------- answering

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        body = json.loads(handler.rfile.read(int(handler.headers["content-length"])))
        role = _role(body)
        self.said.append({**body, "role": role})
        mode = self.mode.get(role, self.mode.get("*", ""))
        if mode and self.times:
            self.times -= 1
            if not self.times:
                self.mode = {}
        time.sleep(self.delay)
        usual = {
            "assess": json.dumps(ASSESS),
            "word": json.dumps({"lead": LEAD, "question": _data(body).get("written", "")}),
            "read": json.dumps(READ),
            "risk": '{"level": "none"}',
            "answer": ANSWER,
            "embed": "",
        }
        text = self.answers.get(role, usual[role])
        getattr(self, "_" + (mode or "well").replace("-", "_"))(handler, body, text)

    @staticmethod
    def _refuse(handler: BaseHTTPRequestHandler, status: int, body: dict[str, Any], **headers: str) -> None:
        raw = json.dumps(body).encode()
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", str(len(raw)))
        handler.end_headers()
        handler.wfile.write(raw)

    @staticmethod
    def _start(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.send_header("connection", "close")
        handler.end_headers()
        handler.close_connection = True

    @staticmethod
    def _event(
        handler: BaseHTTPRequestHandler, delta: dict[str, Any], finish: str | None = None, **more: Any
    ) -> None:
        chunk = {
            "id": "x", "object": "chat.completion.chunk", "created": 0, "model": "m",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more,
        }  # fmt: skip
        handler.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        handler.wfile.flush()

    def _stream(self, handler: BaseHTTPRequestHandler, text: str, finish: str = "stop") -> None:
        self._start(handler)
        for start in range(0, len(text), 17):
            self._event(handler, {"content": text[start : start + 17]})
        usage = {"prompt_tokens": 100, "completion_tokens": len(text) // 4, "total_tokens": 0}
        self._event(handler, {}, finish)
        last = {
            "id": "x",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": "m",
            "choices": [],
            "usage": usage,
        }
        handler.wfile.write(b"data: " + json.dumps(last).encode() + b"\n\ndata: [DONE]\n\n")

    def _well(self, handler: BaseHTTPRequestHandler, body: Any, text: str) -> None:
        if "input" in body:
            self._embed(handler, body["input"])
        else:
            self._stream(handler, text)

    def _embed(self, handler: BaseHTTPRequestHandler, texts: list[str]) -> None:
        """A vector of letters a text: crude, and nearer for texts that share words."""
        rows = []
        for i, text in enumerate(texts):
            vector = [0.0] * 64
            for word in text.lower().split():
                vector[zlib.crc32(word.encode()) % 64] += 1.0
            rows.append({"object": "embedding", "index": i, "embedding": vector})
        body = {
            "object": "list",
            "data": rows,
            "model": "m",
            "usage": {"prompt_tokens": 7, "total_tokens": 7},
        }
        self._refuse(handler, 200, body)

    def _slowly(self, handler: BaseHTTPRequestHandler, _: Any, text: str) -> None:
        """A sentence at a time, each after `pause`."""
        self._start(handler)
        try:
            for sentence in re.split(r"(?<=[.\n])", text):
                self._event(handler, {"content": sentence})
                time.sleep(self.pause)
            self._event(handler, {}, "stop")
        except OSError:
            self.hung_up += 1

    def _hangs(self, handler: BaseHTTPRequestHandler, _: Any, __: str) -> None:
        time.sleep(5)
        handler.close_connection = True

    def _unauthorised(self, handler: BaseHTTPRequestHandler, body: Any, _: str) -> None:
        self._refuse(handler, 401, {"error": {"message": "bad key " + str(body)[:50]}})

    def _forbidden(self, handler: BaseHTTPRequestHandler, _: Any, __: str) -> None:
        self._refuse(handler, 403, {"error": {"message": "no"}})

    def _no_model(self, handler: BaseHTTPRequestHandler, _: Any, __: str) -> None:
        self._refuse(handler, 404, {"error": {"message": "no such model"}})

    def _limited(self, handler: BaseHTTPRequestHandler, _: Any, __: str) -> None:
        self._refuse(handler, 429, {"error": {"message": "slow down"}}, retry_after="0.2")

    def _limited_for_long(self, handler: BaseHTTPRequestHandler, _: Any, __: str) -> None:
        self._refuse(handler, 429, {"error": {"message": "slow down"}}, retry_after="600")

    def _broken(self, handler: BaseHTTPRequestHandler, body: Any, _: str) -> None:
        self._refuse(handler, 500, {"error": {"message": "trace " + str(body)[:200]}})

    def _cut_before(self, handler: BaseHTTPRequestHandler, _: Any, __: str) -> None:
        handler.connection.shutdown(socket.SHUT_RDWR)
        handler.close_connection = True

    def _cut_in_the_middle(self, handler: BaseHTTPRequestHandler, _: Any, text: str) -> None:
        self._start(handler)
        self._event(handler, {"content": text[: len(text) // 2]})
        handler.connection.shutdown(socket.SHUT_RDWR)

    def _empty(self, handler: BaseHTTPRequestHandler, _: Any, __: str) -> None:
        self._stream(handler, "")

    def _endless(self, handler: BaseHTTPRequestHandler, _: Any, text: str) -> None:
        self._start(handler)
        try:
            for _round in range(2_000):
                self._event(handler, {"content": text})
        except OSError:
            pass

    def _malformed(self, handler: BaseHTTPRequestHandler, _: Any, __: str) -> None:
        self._start(handler)
        handler.wfile.write(b"data: {this is no json\n\n")

    def _schema_breaking(self, handler: BaseHTTPRequestHandler, _: Any, __: str) -> None:
        self._stream(
            handler, '{"domain": "astrology", "stakes": "none", "level": "fine", "ask": ["shoe_size"]}'
        )

    def _truncated(self, handler: BaseHTTPRequestHandler, _: Any, text: str) -> None:
        self._stream(handler, text[: len(text) // 2], "length")

    def _refused(self, handler: BaseHTTPRequestHandler, _: Any, __: str) -> None:
        self._start(handler)
        self._event(handler, {"refusal": "I cannot help with that."})
        self._event(handler, {}, "stop")

    def _filtered_question(self, handler: BaseHTTPRequestHandler, _: Any, __: str) -> None:
        self._refuse(
            handler, 400, {"error": {"code": "content_filter", "message": "the prompt was filtered"}}
        )

    def _filtered_answer(self, handler: BaseHTTPRequestHandler, _: Any, text: str) -> None:
        self._stream(handler, text[:20], "content_filter")

    def _no_schema(self, handler: BaseHTTPRequestHandler, body: Any, text: str) -> None:
        if body.get("response_format", {}).get("type") == "json_schema":
            self._refuse(handler, 400, {"error": {"message": "response_format json_schema is not supported"}})
        else:
            self._stream(handler, text)

    def _thinks_aloud(self, handler: BaseHTTPRequestHandler, _: Any, text: str) -> None:
        self._stream(handler, "<think>the person said secret things, let me plan</think>\n" + text)

    def _thinks_unannounced(self, handler: BaseHTTPRequestHandler, _: Any, text: str) -> None:
        self._stream(handler, "The person said secret things. Let me plan.</think>\n" + text)
