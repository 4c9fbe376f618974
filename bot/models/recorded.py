"""Completions that are kept as they come, so that a benchmark pays for each once, can be replayed, and can go by batch files.

A transport beneath the client: a request that was answered before, in the same sample and arm and for the same time, is
answered from the book; another one is sent, waited for as long as the endpoint asks, and written down before it is used.
"""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import json
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import httpx2

from policies.errors import PenguinError
from policies.penguin.running import CallsOf, Spent

PATIENCE = 8
"""Tries of a call that an endpoint refuses for now or does not answer."""
LONGEST_PAUSE = 60.0
_FOR_NOW = frozenset({408, 409, 425, 429})
"""Refusals that may pass; so does every failure of the server's own (5xx)."""
_HOPELESS = {
    401: "the endpoint refuses the key",
    402: "the endpoint's account has no money left",
    403: "the endpoint refuses the key",
    404: "the endpoint has no such model or address",
}
_SECONDS = 600.0
"""A call may take this long: nobody is waiting."""


class _Off(Exception):
    """A call that is not made, or has no answer: the sample that wanted it ends here."""


@dataclass(slots=True)
class _Inside:
    """The sample and arm that calls are being made for."""

    key: str
    made: CallsOf
    task: asyncio.Task[Any] | None
    turns: Counter[str] = field(default_factory=Counter)


_inside: contextvars.ContextVar[_Inside | None] = contextvars.ContextVar("sample", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """After what a run stops by itself; 0 for no limit.

    Attributes:
        calls: made in this session.
        cost: of them, at a price.
        price: of a million tokens in and out.
    """

    calls: int = 0
    cost: float = 0.0
    price: tuple[float, float] = (0.0, 0.0)


class CallBook:
    """Implements `policies.penguin.running.Calls` over one file of completions."""

    def __init__(
        self,
        path: Path | None,
        *,
        at_once: int = 8,
        limits: Limits | None = None,
        sends: bool = True,
        answers: Mapping[str, Mapping[str, Any]] | None = None,
        first_pause: float = 0.5,
        is_kept: bool = False,
    ) -> None:
        """Open, or begin.

        Args:
            path: of the completions; None to keep none.
            at_once: calls under way together.
            limits: after what the run stops.
            sends: calls may leave this machine; otherwise what the book lacks breaks the sample off.
            answers: of batch files, by the name of the call.
            first_pause: seconds before the second try.
            is_kept: the file is read and never written.

        Raises:
            PenguinError: the file cannot be read or written, or a line within it is damaged.
        """
        self._path, self._limits, self._sends = path, limits or Limits(), sends
        self._turn = asyncio.Semaphore(at_once)
        self._known: dict[str, tuple[int, int]] = {}
        self._answers = dict(answers or {})
        self._pause, self._rng = first_pause, random.Random()
        self._calls = self._replayed = self._under_way = self._prompt = self._completion = 0
        self.recorded = self.recorded_prompt = self.recorded_completion = 0
        """Completions in the book, of all sessions, and their tokens as returned."""
        self.failed: Counter[int] = Counter()
        self.served: Counter[str] = Counter()
        self.asked: dict[str, dict[str, Any]] = {}
        self.broken_off = "missing" if not sends else "budget"
        self._open_calls: set[asyncio.Task[httpx2.Response]] = set()
        self._file: TextIO | None = None
        self._reader: Any = None
        if path is not None and is_kept:
            with path.open("rb") as file:
                self._read(file)
            self._reader = path.open("rb")
        elif path is not None:
            self._open(path)

    def _open(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a+b") as file:
                whole = self._read(file)
                file.truncate(whole)
            self._file = path.open("a", encoding="utf-8")
            self._reader = path.open("rb")
        except OSError as bad:
            raise PenguinError(f"{path}: cannot be used ({bad.strerror})") from None

    def _read(self, file: Any) -> int:
        """Where each completion stands; the length of what is whole."""
        file.seek(0)
        at = 0
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return at
            try:
                raw = json.loads(line)
                self._known[raw["id"]] = (at, len(line))
            except (ValueError, KeyError, TypeError):
                raise PenguinError(
                    f"{self._path}, line {number}: damaged; take the line out and run again"
                ) from None
            self._added(raw)
            at += len(line)
        return at

    def _added(self, line: Mapping[str, Any]) -> None:
        self.recorded += 1
        self.recorded_prompt += line.get("in", 0)
        self.recorded_completion += line.get("out", 0)
        if line.get("model"):
            self.served[line["model"]] += 1

    def close(self) -> None:
        """Close the files."""
        for file in (self._file, self._reader):
            if file is not None:
                file.close()

    def client(self) -> httpx2.AsyncClient:
        """A client of HTTP whose calls go through the book."""
        return httpx2.AsyncClient(transport=_Transport(self), timeout=httpx2.Timeout(_SECONDS, connect=10.0))

    def spent(self) -> Spent:
        """So far."""
        return Spent(
            calls=self._calls,
            replayed=self._replayed,
            prompt_tokens=self._prompt,
            completion_tokens=self._completion,
        )

    def cost(self) -> float:
        """Of the calls of this session, at the price."""
        price = self._limits.price
        return (self._prompt * price[0] + self._completion * price[1]) / 1e6

    @contextmanager
    def of(self, key: str) -> Iterator[CallsOf]:
        """As `Calls.of`."""
        made = CallsOf()
        token = _inside.set(_Inside(key, made, asyncio.current_task()))
        try:
            yield made
        finally:
            _inside.reset(token)

    # ------------------------------------------------------------------------------------------- answering

    async def answered(self, request: httpx2.Request, send: Callable[[], Any]) -> httpx2.Response:
        """The answer to a request, from the book or from the endpoint."""
        inside = _inside.get()
        body = json.loads(request.content) if request.content else {}
        if inside is None:
            return await self._sent(request, send, name="", key="", body=body)
        asked = digest(body)
        inside.turns[asked] += 1
        name = call_name(inside.key, asked, inside.turns[asked])
        found = self._kept(name)
        if found is not None:
            self._replayed += 1
            return _response(found, request, stream=bool(body.get("stream")))
        if not self._sends:
            self.asked[name] = {
                "custom_id": name,
                "method": "POST",
                "url": _path(request),
                "body": _batched(body),
            }
            return await self._broken_off(inside, self.broken_off)
        sending = asyncio.ensure_future(self._sent(request, send, name=name, key=inside.key, body=body))
        self._open_calls.add(sending)
        sending.add_done_callback(self._open_calls.discard)
        try:
            return await asyncio.shield(
                sending
            )  # what was sent is paid for: it is kept, whoever waits for it
        except (_Off, PenguinError) as over:
            return await self._broken_off(inside, str(over))

    async def drained(self) -> None:
        """Until every call that was sent has been answered and kept, whether or not anybody still waits for it."""
        while self._open_calls:
            await asyncio.wait(set(self._open_calls))

    def _kept(self, name: str) -> Mapping[str, Any] | None:
        if name in self._answers:
            line = self._answers.pop(name)
            self._added(line)
            self._write({"id": name, **line})
            return line
        place = self._known.get(name)
        if place is None:
            return None
        self._reader.seek(place[0])
        return dict(json.loads(self._reader.read(place[1])))

    def _is_over(self) -> bool:
        limits = self._limits
        if limits.calls and self._calls + self._under_way >= limits.calls:
            return True
        each = self.cost() / self._calls if self._calls else 0.0
        return bool(limits.cost) and self.cost() + each * self._under_way >= limits.cost

    @staticmethod
    async def _broken_off(inside: _Inside, why: str) -> httpx2.Response:
        """The sample ends here: its task is cancelled, and nothing of it is written."""
        inside.made.why = inside.made.why or why
        if inside.task is not None:
            inside.task.cancel()
        await asyncio.Event().wait()
        raise AssertionError("unreachable: it waits until it is cancelled")

    async def _sent(
        self,
        request: httpx2.Request,
        send: Callable[[], Any],
        *,
        name: str,
        key: str,
        body: Mapping[str, Any],
    ) -> httpx2.Response:
        """Send, as often as it takes, and write the answer down.

        Raises:
            _Off: a limit is reached, or the endpoint cannot be had.
            PenguinError: the answer cannot be written down.
        """
        status, content = 0, b""
        for attempt in range(PATIENCE):
            async with self._turn:
                if self._is_over():
                    raise _Off("budget")
                self._under_way += 1
                began = time.monotonic()
                try:
                    response = await send()
                    content = await response.aread()
                    status, wait = response.status_code, _wait(response)
                except httpx2.HTTPError:
                    status, content, wait = 0, b"", None
                finally:
                    self._under_way -= 1
                    self._calls += 1
            told = {"key": key, "prompt": _told(body), "ms": round((time.monotonic() - began) * 1000)}
            if status == 200:
                line = _estimated(_line(content, response.headers.get("content-type", "")), body) | told
                self._note(name, line)
                return _response(line, request, stream=bool(body.get("stream")))
            self.failed[status] += 1
            if status in _HOPELESS:
                raise _Off(_HOPELESS[status])
            if status and status < 500 and status not in _FOR_NOW:
                line = {"status": status, "raw": content.decode("utf-8", "replace")[:2000]} | told
                self._note(name, line)
                return _response(line, request, stream=False)
            if attempt < PATIENCE - 1:
                pause = wait or self._pause * 2.0**attempt * self._rng.uniform(0.7, 1.3)
                await asyncio.sleep(min(LONGEST_PAUSE, pause))
        raise _Off("the endpoint does not answer, or has had enough")

    def _note(self, name: str, line: dict[str, Any]) -> None:
        self._prompt += line.get("in", 0)
        self._completion += line.get("out", 0)
        self._added(line)
        if name:
            self._write({"id": name, **line})

    def _write(self, line: Mapping[str, Any]) -> None:
        if self._file is None:
            return
        try:
            self._file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")
            self._file.flush()
        except OSError as full:
            raise PenguinError(
                f"{self._path}: cannot be written ({full.strerror}); nothing more is paid for"
            ) from full


class _Transport(httpx2.AsyncBaseTransport):
    def __init__(self, book: CallBook) -> None:
        self._book, self._real = book, httpx2.AsyncHTTPTransport(limits=httpx2.Limits(max_connections=200))

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        await request.aread()
        return await self._book.answered(request, lambda: self._real.handle_async_request(request))

    async def aclose(self) -> None:
        await self._real.aclose()


def digest(body: Mapping[str, Any]) -> str:
    """The hash of a request, streamed or not."""
    kept = {k: v for k, v in body.items() if k not in ("stream", "stream_options")}
    return hashlib.sha256(
        json.dumps(kept, sort_keys=True, ensure_ascii=False).encode("utf-8", "replace")
    ).hexdigest()


def call_name(key: str, asked: str, turn: int) -> str:
    """What names a call: the sample and arm, the request, and how often it was made there."""
    return hashlib.sha256(f"{key}|{asked}|{turn}".encode()).hexdigest()[:40]


def _path(request: httpx2.Request) -> str:
    """As the Batch API wants it: from /v1 on."""
    path = request.url.path
    at = path.find("/v1/")
    return path[at:] if at >= 0 else path


def _batched(body: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in body.items() if k not in ("stream", "stream_options")}


def _told(body: Mapping[str, Any]) -> str:
    """Which prompt a call was made with, by the hash of its words."""
    messages = body.get("messages") or [{}]
    return hashlib.sha256(str(messages[0].get("content", "")).encode()).hexdigest()[:12]


def _wait(response: httpx2.Response) -> float | None:
    """Seconds the endpoint asks for."""
    try:
        return max(0.0, float(response.headers.get("retry-after", "")))
    except ValueError:
        return None


def _line(content: bytes, kind: str) -> dict[str, Any]:
    """A completion as it is kept: text, how it ended, the model and the tokens as returned; the raw body where it is none."""
    text = content.decode("utf-8", "replace")
    try:
        found = _streamed(text) if "event-stream" in kind else completion(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        found = None
    return found if found is not None else {"status": 200, "raw": text, "kind": kind}


def completion(raw: Mapping[str, Any]) -> dict[str, Any] | None:
    """A chat completion object as it is kept; None where it is of another kind."""
    if not isinstance(raw.get("choices"), list) or not raw["choices"]:
        return None
    choice = raw["choices"][0]
    usage = raw.get("usage") or {}
    line: dict[str, Any] = {
        "status": 200,
        "text": choice["message"].get("content") or "",
        "finish": choice.get("finish_reason") or "",
        "model": raw.get("model") or "",
        "in": int(usage.get("prompt_tokens") or 0),
        "out": int(usage.get("completion_tokens") or 0),
    }
    if choice["message"].get("refusal"):
        line["refusal"] = choice["message"]["refusal"]
    return line


def _estimated(line: dict[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    """Tokens by length where the endpoint tells none, marked as such: a limit of cost must hold there too."""
    if "raw" in line or line["in"] or line["out"]:
        return line
    said = sum(len(str(m.get("content", ""))) for m in body.get("messages") or ())
    return line | {"in": said // 4, "out": len(line["text"]) // 4, "estimated": True}


def _streamed(text: str) -> dict[str, Any] | None:
    line: dict[str, Any] = {"status": 200, "text": "", "finish": "", "model": "", "in": 0, "out": 0}
    for event in text.split("\n"):
        if not event.startswith("data:") or event[5:].strip() == "[DONE]":
            continue
        raw = json.loads(event[5:])
        line["model"] = raw.get("model") or line["model"]
        usage = raw.get("usage") or {}
        line["in"] = int(usage.get("prompt_tokens") or line["in"])
        line["out"] = int(usage.get("completion_tokens") or line["out"])
        for choice in (raw.get("choices") or [])[:1]:
            delta = choice.get("delta") or {}
            line["text"] += delta.get("content") or ""
            line["finish"] = choice.get("finish_reason") or line["finish"]
            if delta.get("refusal"):
                line["refusal"] = delta["refusal"]
    return line


def _response(line: Mapping[str, Any], request: httpx2.Request, *, stream: bool) -> httpx2.Response:
    """A kept completion as an endpoint would send it."""
    if "raw" in line:
        kind = {"content-type": line.get("kind") or "application/json"}
        return httpx2.Response(line["status"], headers=kind, content=line["raw"].encode(), request=request)
    usage = {
        "prompt_tokens": line["in"],
        "completion_tokens": line["out"],
        "total_tokens": line["in"] + line["out"],
    }
    common = {"id": "kept", "created": 0, "model": line["model"]}
    said: dict[str, Any] = {"role": "assistant", "content": line["text"]}
    if line.get("refusal"):
        said["refusal"] = line["refusal"]
    if not stream:
        choice = {"index": 0, "message": said, "finish_reason": line["finish"] or None}
        whole = common | {"object": "chat.completion", "choices": [choice], "usage": usage}
        return httpx2.Response(200, json=whole, request=request)
    chunk = common | {"object": "chat.completion.chunk"}
    first = chunk | {"choices": [{"index": 0, "delta": said, "finish_reason": None}]}
    last = chunk | {"choices": [{"index": 0, "delta": {}, "finish_reason": line["finish"] or None}]}
    end = chunk | {"choices": [], "usage": usage}
    events = "".join(f"data: {json.dumps(e)}\n\n" for e in (first, last, end)) + "data: [DONE]\n\n"
    return httpx2.Response(
        200, headers={"content-type": "text/event-stream"}, content=events.encode(), request=request
    )


def batch_answers(paths: list[Path]) -> dict[str, dict[str, Any]]:
    """Completions of batch output files, by the name of the call.

    A request that was refused for good (4xx) is kept as refused, as it would be without a batch; one that failed otherwise is
    asked again in the next round.

    Raises:
        PenguinError: a line is none of the Batch API; the message names file and line.
    """
    found: dict[str, dict[str, Any]] = {}
    for path in paths:
        try:
            lines = path.read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError):
            raise PenguinError(f"{path}: cannot be read") from None
        for number, text in enumerate(lines, 1):
            if not text.strip():
                continue
            try:
                raw = json.loads(text)
                name, response = raw["custom_id"], raw.get("response") or {}
                status = int(response.get("status_code") or 0)
                line = completion(response.get("body") or {}) if status == 200 else None
            except (ValueError, KeyError, TypeError, AttributeError, IndexError):
                raise PenguinError(f"{path}, line {number}: not a line of a batch's output") from None
            if line is not None:
                found[name] = line
            elif 400 <= status < 500 and status not in _FOR_NOW and status not in _HOPELESS:
                found[name] = {"status": status, "raw": json.dumps(response.get("body") or {})[:2000]}
    return found


def write_requests(asked: Mapping[str, Mapping[str, Any]], path: Path) -> dict[Path, int]:
    """Requests as batch input files, one a model, as a batch is of one model; how many in each.

    Raises:
        PenguinError: one cannot be written.
    """
    by_model: dict[str, list[str]] = {}
    for name in sorted(asked):
        line = json.dumps(asked[name], ensure_ascii=False, sort_keys=True)
        by_model.setdefault(str(asked[name]["body"].get("model", "")), []).append(line)
    wrote = {}
    for model, lines in sorted(by_model.items()):
        part = re.sub(r"[^A-Za-z0-9._-]", "_", model)
        to = path if len(by_model) == 1 else path.with_name(f"{path.stem}-{part}{path.suffix}")
        try:
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        except OSError as bad:
            raise PenguinError(f"{to}: cannot be written ({bad.strerror})") from None
        wrote[to] = len(lines)
    return wrote
