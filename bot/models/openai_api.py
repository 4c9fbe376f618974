"""Any OpenAI-compatible endpoint, behind calls that end in an answer or in one `ModelFailure` with a kind.

The only module that imports the client. Every call has its share of one budget a turn; retries are bounded and
jittered; a circuit breaker, shared by all sessions, spares a dead endpoint and the people waiting for it. Reasoning
traces are cut out before anything else sees the text; nothing of a prompt or an answer reaches a log.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

import openai
from pydantic import BaseModel, ValidationError

from bot.errors import ModelUnavailable

RETRIES = 2
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 4.0
BREAKS_AFTER, OPEN_SECONDS = 5, 30.0
LONGEST_ANSWER = 8_000
"""Characters of an answer; what runs on beyond is endless and cut off."""

log = logging.getLogger("raise.model")
_Shape = TypeVar("_Shape", bound=BaseModel)
_Result = TypeVar("_Result")
_REASONING = re.compile(r"<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)


class Role(StrEnum):
    """What a model is asked to be."""

    ASSESS = "assess"
    ANSWER = "answer"
    RISK = "risk"


class Failure(StrEnum):
    """How a call ended without an answer."""

    TIMEOUT = "timeout"
    AUTH = "auth"
    NO_MODEL = "no_model"
    RATE_LIMITED = "rate_limited"
    SERVER = "server"
    CONNECTION = "connection"
    REJECTED = "rejected"
    EMPTY = "empty"
    ENDLESS = "endless"
    MALFORMED = "malformed"
    TRUNCATED = "truncated"
    REFUSED = "refused"
    FILTERED = "filtered"
    CIRCUIT_OPEN = "circuit_open"
    CAPPED = "capped"


_WORTH_RETRYING = frozenset(
    {Failure.RATE_LIMITED, Failure.SERVER, Failure.CONNECTION, Failure.EMPTY, Failure.MALFORMED}
)
_BREAKS = frozenset(
    {
        Failure.TIMEOUT,
        Failure.AUTH,
        Failure.NO_MODEL,
        Failure.RATE_LIMITED,
        Failure.SERVER,
        Failure.CONNECTION,
    }
)
"""Failures of the endpoint rather than of one question."""


class ModelFailure(ModelUnavailable):
    """A call ended without an answer; carries the kind and nothing else."""

    def __init__(self, kind: Failure, *, after: float | None = None) -> None:
        super().__init__(kind.value)
        self.kind = kind
        self.after = after


@dataclass(slots=True)
class Usage:
    """What one role has cost so far."""

    calls: int = 0
    failures: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0

    @property
    def tokens(self) -> int:
        """Prompt and completion together."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(slots=True)
class Breaker:
    """Opens after several failures of the endpoint in a row, for a while; shared by all sessions."""

    clock: Callable[[], float] = time.monotonic
    failures: int = 0
    open_until: float = 0.0

    def check(self) -> None:
        """Nothing while closed.

        Raises:
            ModelFailure: it is open.
        """
        if self.clock() < self.open_until:
            raise ModelFailure(Failure.CIRCUIT_OPEN)

    def note(self, kind: Failure | None) -> None:
        """A call ended: None for an answer."""
        if kind is None:
            self.failures = 0
        elif kind in _BREAKS:
            self.failures += 1
            if self.failures >= BREAKS_AFTER:
                self.open_until = self.clock() + OPEN_SECONDS
                self.failures = 0
                log.error("model endpoint left alone for %.0f s", OPEN_SECONDS)


@dataclass(slots=True)
class Budget:
    """Seconds that the calls of one turn may take together."""

    seconds: float
    started: float = field(default_factory=time.monotonic)

    def left(self) -> float:
        """Seconds left, at least 0."""
        return max(0.0, self.seconds - (time.monotonic() - self.started))


class Endpoint:
    """Calls to one endpoint. Safe to share between sessions."""

    def __init__(
        self,
        *,
        base_url: str,
        api_key: str,
        models: Mapping[Role, str],
        day_tokens: int = 0,
        breaker: Breaker | None = None,
    ) -> None:
        """Hold a client.

        Args:
            base_url: up to and including /v1.
            api_key: sent as a bearer token; any text where the endpoint wants none.
            models: by role.
            day_tokens: after so many tokens a day every call fails with `Failure.CAPPED`; 0 for no cap.
            breaker: shared with other endpoints of the same server.
        """
        self._client = openai.AsyncOpenAI(base_url=base_url, api_key=api_key, max_retries=0)
        self._models = dict(models)
        self._breaker = breaker or Breaker()
        self._day_tokens, self._day, self._spent = day_tokens, 0, 0
        self._plain_json: set[Role] = set()
        self.usage: dict[Role, Usage] = {role: Usage() for role in Role}

    def degraded(self, role: Role) -> bool:
        """Whether the endpoint has no JSON schema for this role's model, so that plain JSON is asked for."""
        return role in self._plain_json

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def structured(
        self, role: Role, messages: Sequence[Mapping[str, str]], shape: type[_Shape], budget: Budget
    ) -> _Shape:
        """One answer of a shape, strictly parsed.

        Raises:
            ModelFailure: no such answer within the budget.
        """

        async def once() -> _Shape:
            try:
                text = await self._text(role, messages, budget, shape=shape)
            except ModelFailure as failed:
                if failed.kind is not Failure.REJECTED or role in self._plain_json:
                    raise
                self._plain_json.add(role)
                text = await self._text(role, messages, budget, shape=shape)
            try:
                return shape.model_validate(json.loads(text), strict=False)
            except (ValueError, ValidationError):
                raise ModelFailure(Failure.MALFORMED) from None

        return await self._tried(role, once, budget)

    async def spoken(self, role: Role, messages: Sequence[Mapping[str, str]], budget: Budget) -> str:
        """One answer in words.

        Raises:
            ModelFailure: none within the budget.
        """
        return await self._tried(role, lambda: self._text(role, messages, budget), budget)

    async def _tried(self, role: Role, once: Callable[[], Awaitable[_Result]], budget: Budget) -> _Result:
        """With bounded, jittered retries inside the budget."""
        for attempt in range(RETRIES + 1):
            self._breaker.check()
            self._check_cap()
            usage, began = self.usage[role], time.monotonic()
            usage.calls += 1
            try:
                result = await once()
            except ModelFailure as failed:
                usage.failures += 1
                usage.seconds += time.monotonic() - began
                self._breaker.note(failed.kind)
                log.error("model call as %s failed: %s", role.value, failed.kind.value)
                pause = failed.after or _pause(attempt)
                if failed.kind not in _WORTH_RETRYING or attempt == RETRIES or pause >= budget.left():
                    raise
                await asyncio.sleep(pause)
            else:
                usage.seconds += time.monotonic() - began
                self._breaker.note(None)
                return result
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _check_cap(self) -> None:
        day = int(time.time() // 86_400)
        if day != self._day:
            self._day, self._spent = day, 0
        if self._day_tokens and self._spent >= self._day_tokens:
            raise ModelFailure(Failure.CAPPED)

    async def _text(
        self,
        role: Role,
        messages: Sequence[Mapping[str, str]],
        budget: Budget,
        *,
        shape: type[BaseModel] | None = None,
    ) -> str:
        request: dict[str, Any] = {"model": self._models[role], "messages": list(messages), "temperature": 0}
        if shape is not None and role not in self._plain_json:
            request["store"] = False
            schema = {"name": shape.__name__, "schema": shape.model_json_schema(), "strict": True}
            request["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif shape is not None:
            request["response_format"] = {"type": "json_object"}
        try:
            async with asyncio.timeout(budget.left()):
                stream = await self._client.chat.completions.create(
                    **request, stream=True, stream_options={"include_usage": True}
                )
                async with contextlib.aclosing(stream):
                    return await self._read(role, stream)
        except ModelFailure:
            raise
        except Exception as failed:  # noqa: BLE001 (each becomes a kind; its message may hold the question)
            raise _kind_of(failed) from None

    async def _read(self, role: Role, stream: Any) -> str:
        """The whole of a streamed answer, or why there is none."""
        pieces: list[str] = []
        finish, length = "", 0
        async for chunk in stream:
            if chunk.usage is not None:
                self._count(role, chunk.usage.prompt_tokens, chunk.usage.completion_tokens)
            for choice in chunk.choices[:1]:
                if getattr(choice.delta, "refusal", None):
                    raise ModelFailure(Failure.REFUSED)
                pieces.append(choice.delta.content or "")
                length += len(pieces[-1])
                finish = choice.finish_reason or finish
            if length > LONGEST_ANSWER:
                raise ModelFailure(Failure.ENDLESS)
        return _checked("".join(pieces), finish)

    def _count(self, role: Role, prompt: int, completion: int) -> None:
        usage = self.usage[role]
        usage.prompt_tokens += prompt
        usage.completion_tokens += completion
        self._spent += prompt + completion


def _pause(attempt: int) -> float:
    """Seconds before another try: longer each time, and never the same for everybody."""
    return float(min(LONGEST_PAUSE, FIRST_PAUSE * 2.0**attempt)) * random.uniform(0.5, 1.5)


def _checked(text: str, finish: str) -> str:
    if finish == "content_filter":
        raise ModelFailure(Failure.FILTERED)
    if finish == "length":
        raise ModelFailure(Failure.TRUNCATED)
    if not finish:
        raise ModelFailure(Failure.CONNECTION)
    text = _REASONING.sub("", text).strip()
    if not text:
        raise ModelFailure(Failure.EMPTY)
    return text


def _kind_of(failed: Exception) -> ModelFailure:
    if isinstance(failed, TimeoutError | openai.APITimeoutError):
        return ModelFailure(Failure.TIMEOUT)
    if isinstance(failed, openai.AuthenticationError | openai.PermissionDeniedError):
        return ModelFailure(Failure.AUTH)
    if isinstance(failed, openai.NotFoundError):
        return ModelFailure(Failure.NO_MODEL)
    if isinstance(failed, openai.RateLimitError):
        header = failed.response.headers.get("retry-after", "")
        return ModelFailure(
            Failure.RATE_LIMITED, after=float(header) if re.fullmatch(r"\d+(\.\d+)?", header) else None
        )
    if isinstance(failed, openai.BadRequestError | openai.UnprocessableEntityError):
        is_filter = "content_filter" in str(getattr(failed, "code", "")) + str(getattr(failed, "body", ""))
        return ModelFailure(Failure.FILTERED if is_filter else Failure.REJECTED)
    if isinstance(failed, openai.APIStatusError):
        return ModelFailure(Failure.SERVER)
    if isinstance(failed, ValueError | openai.APIResponseValidationError):
        return ModelFailure(Failure.MALFORMED)
    return ModelFailure(Failure.CONNECTION)
