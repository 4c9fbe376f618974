"""Any OpenAI-compatible endpoint, behind calls that end in an answer or in one `ModelFailure` with a kind.

The only module that imports the client. Every call has its share of one budget a turn; retries are bounded and
jittered; a circuit breaker, shared by all sessions, spares a dead endpoint and the people waiting for it. Reasoning
traces are cut out before anything else sees the text; nothing of a prompt or an answer reaches a log.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import re
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

import openai
from pydantic import BaseModel, ValidationError

from bot.errors import ModelUnavailable
from bot.models.usage import Budget, Role, Usage, no_usage
from privacy.errors import PrivacyError

RETRIES = 2
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 4.0
BREAKS_AFTER, OPEN_SECONDS = 5, 30.0
LONGEST_ANSWER = 8_000
"""Characters of an answer; what runs on beyond is endless and cut off."""

log = logging.getLogger("raise.model")
_Shape = TypeVar("_Shape", bound=BaseModel)
_Result = TypeVar("_Result")
Messages = Sequence[Mapping[str, str]]
_NAMES = ("think", "thinking", "thought", "reasoning", "reflection", "analysis", "scratchpad")
_REASONING = re.compile(rf"<({'|'.join(_NAMES)})>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_REST_OF_REASONING = re.compile(rf"\A.*</(?:{'|'.join(_NAMES)})>", re.DOTALL | re.IGNORECASE)
"""A trace whose opening tag the endpoint has put into the prompt, as some templates do: all up to the closing one."""


_TAGS = tuple(f"<{slash}{name}>" for name in _NAMES for slash in ("", "/"))


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
    NOT_LET_OUT = "not_let_out"


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

    @property
    def is_open(self) -> bool:
        """The endpoint is left alone now."""
        return self.clock() < self.open_until

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
        client: Any = None,
    ) -> None:
        """Hold a client.

        Args:
            base_url: up to and including /v1.
            api_key: sent as a bearer token; any text where the endpoint wants none.
            models: by role; a role without one cannot be called.
            day_tokens: after so many tokens a day every call fails with `Failure.CAPPED`; 0 for no cap.
            breaker: shared with other endpoints of the same server.
            client: of HTTP, in place of the usual one: one that records, as a benchmark's.
        """
        self._client = openai.AsyncOpenAI(
            base_url=base_url, api_key=api_key, max_retries=0, http_client=client
        )
        self._models = dict(models)
        self.breaker = breaker or Breaker()
        self._day_tokens, self._day, self._spent = day_tokens, 0, 0
        self._plain: set[Role] = set()
        self._shown_whole: set[str] = set()
        self.usage: dict[Role, Usage] = no_usage()
        self.failed: Counter[tuple[Role, Failure]] = Counter()

    def plays(self, role: Role) -> bool:
        """Whether a model is set for a role."""
        return bool(self._models.get(role))

    def model(self, role: Role) -> str:
        """The model that plays a role, "" where none does."""
        return self._models.get(role, "")

    def degraded(self, role: Role) -> bool:
        """Whether the endpoint refused schema, usage or `store` for this role, so that it is asked in plain JSON."""
        return role in self._plain

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    # ------------------------------------------------------------------------------------------- calls

    async def structured(self, role: Role, messages: Messages, shape: type[_Shape], budget: Budget) -> _Shape:
        """One answer of a shape, strictly parsed.

        Raises:
            ModelFailure: no such answer within the budget.
        """

        async def once() -> _Shape:
            text = await self._text(role, messages, budget, shape=shape)
            try:
                return shape.model_validate_json(text)  # as strict as the shape itself is
            except (ValueError, ValidationError):
                raise ModelFailure(Failure.MALFORMED) from None

        return await self._tried(role, once, budget)

    async def spoken(self, role: Role, messages: Messages, budget: Budget) -> str:
        """One answer in words.

        Raises:
            ModelFailure: none within the budget.
        """
        return await self._tried(role, lambda: self._text(role, messages, budget), budget)

    async def streamed(self, role: Role, messages: Messages, budget: Budget) -> AsyncGenerator[str, None]:
        """One answer in words as it comes, reasoning left out. Tried again only while nothing has come yet.

        A closing tag that no opening one came before shows that what was given is a trace: the answer fails (its reader
        takes it back). From then on, as after such a trace in an answer to another role, that model's answers are given
        at once, when they are whole.

        Raises:
            ModelFailure: it broke off, or none came within the budget.
        """
        for attempt in range(RETRIES + 1):
            self._check(budget)
            usage, has_begun = Usage(calls=1), False
            began = time.monotonic()
            try:
                shown, raw, model = 0, "", self._models[role]
                whole_only = model in self._shown_whole
                async with contextlib.aclosing(self._pieces(role, messages, budget, usage)) as pieces:
                    async for piece in pieces:
                        raw += piece
                        if not whole_only and _thinks_unannounced(raw):
                            self._shown_whole.add(model)
                            whole_only = True
                            if has_begun:
                                raise ModelFailure(Failure.MALFORMED)  # noqa: TRY301 (noted below like any other)
                        visible = _without_reasoning(raw)
                        if not whole_only and len(visible) > shown:
                            has_begun = True
                            text, shown = visible[shown:], len(visible)
                            yield text
                rest = _said_aloud(raw)
                if not rest.strip():
                    raise ModelFailure(Failure.EMPTY)  # noqa: TRY301 (noted below like any other)
                if len(rest) > shown:
                    yield rest[shown:]
            except ModelFailure as failed:
                self._note(role, usage, began, budget, failed.kind)
                pause = failed.after or _pause(attempt)
                if has_begun or not _again(failed.kind, attempt, pause, budget):
                    raise
                await asyncio.sleep(pause)
            except (GeneratorExit, asyncio.CancelledError):
                self._left_off(role, usage, began, budget)
                raise
            else:
                self._note(role, usage, began, budget, None)
                return

    async def embedded(self, texts: Sequence[str], budget: Budget) -> list[list[float]]:
        """Vectors of texts, one each, in order.

        Raises:
            ModelFailure: not within the budget, or not one for each.
        """

        async def once() -> list[list[float]]:
            asked = [{"role": "user", "content": text} for text in texts]
            safe = [m["content"] for m in await self._let_out(Role.EMBED, asked, budget)]
            try:
                async with asyncio.timeout(budget.left()):
                    got = await self._client.embeddings.create(
                        model=self._models[Role.EMBED], input=safe, encoding_format="float"
                    )
            except Exception as failed:  # noqa: BLE001 (each becomes a kind; its message may hold the text)
                raise _kind_of(failed) from None
            vectors = [list(item.embedding) for item in sorted(got.data, key=lambda item: item.index)]
            if len(vectors) != len(texts) or len({len(v) for v in vectors}) != 1 or not vectors[0]:
                raise ModelFailure(Failure.MALFORMED)
            if got.usage is not None:
                usage = Usage(prompt_tokens=got.usage.prompt_tokens)
                self._count(Role.EMBED, usage, budget)
            return vectors

        return await self._tried(Role.EMBED, once, budget)

    # ------------------------------------------------------------------------------------------- inside

    async def _tried(self, role: Role, once: Callable[[], Awaitable[_Result]], budget: Budget) -> _Result:
        """With bounded, jittered retries inside the budget."""
        for attempt in range(RETRIES + 1):
            self._check(budget)
            usage, began = Usage(calls=1), time.monotonic()
            try:
                result = await once()
            except ModelFailure as failed:
                self._note(role, usage, began, budget, failed.kind)
                pause = failed.after or _pause(attempt)
                if not _again(failed.kind, attempt, pause, budget):
                    raise
                await asyncio.sleep(pause)
            except asyncio.CancelledError:
                self._left_off(role, usage, began, budget)
                raise
            else:
                self._note(role, usage, began, budget, None)
                return result
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _check(self, budget: Budget) -> None:
        """Whether a call may be made now.

        Raises:
            ModelFailure: the breaker is open, or a cap is reached.
        """
        self.breaker.check()
        day = int(time.time() // 86_400)
        if day != self._day:
            self._day, self._spent = day, 0
        if budget.is_spent() or (self._day_tokens and self._spent >= self._day_tokens):
            raise ModelFailure(Failure.CAPPED)

    def _note(self, role: Role, usage: Usage, began: float, budget: Budget, kind: Failure | None) -> None:
        """A call ended, with a failure or without."""
        usage.seconds += time.monotonic() - began
        if kind is not None:
            usage.failures = 1
            self.failed[role, kind] += 1
            log.error("model call as %s failed: %s", role.value, kind.value)
        self.breaker.note(kind)
        self._count(role, usage, budget)

    def _left_off(self, role: Role, usage: Usage, began: float, budget: Budget) -> None:
        """A call was cancelled: it has cost something and says nothing of the endpoint."""
        usage.seconds += time.monotonic() - began
        self._count(role, usage, budget)

    def _count(self, role: Role, usage: Usage, budget: Budget) -> None:
        self.usage[role].add(usage)
        budget.used[role].add(usage)
        self._spent += usage.tokens

    async def _text(
        self, role: Role, messages: Messages, budget: Budget, *, shape: type[BaseModel] | None = None
    ) -> str:
        """The whole of one answer, reasoning left out, or why there is none."""
        usage = Usage()
        try:
            async with contextlib.aclosing(
                self._pieces(role, messages, budget, usage, shape=shape)
            ) as pieces:
                text = "".join([piece async for piece in pieces])
        finally:
            self._count(role, usage, budget)
        if _thinks_unannounced(text):
            self._shown_whole.add(self._models[role])
        text = _said_aloud(text).strip()
        if not text:
            raise ModelFailure(Failure.EMPTY)
        return text

    async def _pieces(
        self,
        role: Role,
        messages: Messages,
        budget: Budget,
        usage: Usage,
        *,
        shape: type[BaseModel] | None = None,
    ) -> AsyncGenerator[str, None]:
        """What the endpoint streams, piece by piece; each wait within the budget."""
        stream: Any = None
        finish, length, is_counted = "", 0, False
        try:
            stream = await self._opened(role, messages, shape, budget)
            chunks = aiter(stream)
            while True:
                async with asyncio.timeout(budget.left()):
                    chunk = await anext(chunks, None)
                if chunk is None:
                    break
                if chunk.usage is not None:
                    usage.prompt_tokens, usage.completion_tokens = (
                        chunk.usage.prompt_tokens,
                        chunk.usage.completion_tokens,
                    )
                    is_counted = True
                for choice in chunk.choices[:1]:
                    if getattr(choice.delta, "refusal", None):
                        raise ModelFailure(Failure.REFUSED)  # noqa: TRY301 (one place translates what others raise)
                    finish = choice.finish_reason or finish
                    if choice.delta.content:
                        length += len(choice.delta.content)
                        yield choice.delta.content
                if length > LONGEST_ANSWER:
                    raise ModelFailure(Failure.ENDLESS)  # noqa: TRY301
            _check_finish(finish)
        except ModelFailure:
            raise
        except Exception as failed:  # noqa: BLE001 (each becomes a kind; its message may hold the question)
            raise _kind_of(failed) from None
        finally:
            if not is_counted:
                told = sum(len(m["content"]) for m in messages) if stream is not None else 0
                usage.prompt_tokens, usage.completion_tokens = told // 4, length // 4
            if stream is not None:
                await stream.close()

    async def _opened(
        self, role: Role, messages: Messages, shape: type[BaseModel] | None, budget: Budget
    ) -> Any:
        """The stream of an answer.

        An endpoint that refuses the request is asked once more without what it may not know; if that is taken, so from
        then on. A refusal for another reason (a question that is too long) changes nothing.
        """
        for plain in (role in self._plain, True):
            safe = await self._let_out(role, messages, budget)
            try:
                async with asyncio.timeout(budget.left()):
                    stream = await self._client.chat.completions.create(
                        **self._request(role, safe, shape, is_plain=plain)
                    )
            except openai.BadRequestError as refused:
                kind = _kind_of(refused)
                if plain or kind.kind is not Failure.REJECTED:
                    raise kind from None
            else:
                if plain:
                    self._plain.add(role)
                return stream
        raise AssertionError("unreachable: the plain request is taken or refused")

    async def _let_out(self, role: Role, messages: Messages, budget: Budget) -> Messages:
        """The messages as the gate lets them out.

        Raises:
            ModelFailure: it does not: no consent, a text that could not be made safe, or a ledger that is not kept.
        """
        if budget.is_ours:
            return messages
        if budget.passage is None:
            raise ModelFailure(Failure.NOT_LET_OUT)
        try:
            async with asyncio.timeout(budget.left()):
                return await budget.passage.out(model=self.model(role), role=role.value, messages=messages)
        except PrivacyError as kept_in:
            log.warning("a call as %s was not let out: %s", role.value, type(kept_in).__name__)
            raise ModelFailure(Failure.NOT_LET_OUT) from None

    def _request(
        self, role: Role, messages: Messages, shape: type[BaseModel] | None, *, is_plain: bool
    ) -> dict[str, Any]:
        """The body of a call. `store` is off: nothing of it is to be kept by who serves the model."""
        request: dict[str, Any] = {
            "model": self._models[role],
            "messages": list(messages),
            "temperature": 0,
            "stream": True,
        }
        if not is_plain:
            request |= {"store": False, "stream_options": {"include_usage": True}}
        if shape is not None and is_plain:
            request["response_format"] = {"type": "json_object"}
        elif shape is not None:
            schema = {"name": shape.__name__, "schema": shape.model_json_schema(), "strict": True}
            request["response_format"] = {"type": "json_schema", "json_schema": schema}
        return request


def _pause(attempt: int) -> float:
    """Seconds before another try: longer each time, and never the same for everybody."""
    return float(min(LONGEST_PAUSE, FIRST_PAUSE * 2.0**attempt)) * random.uniform(0.5, 1.5)


def _again(kind: Failure, attempt: int, pause: float, budget: Budget) -> bool:
    """Whether another try is worth it and fits into the budget."""
    return kind in _WORTH_RETRYING and attempt < RETRIES and pause < budget.left()


def _thinks_unannounced(raw: str) -> bool:
    """Whether a trace was closed that nothing opened."""
    return bool(_REST_OF_REASONING.search(_REASONING.sub("", raw)))


def _said_aloud(raw: str) -> str:
    """A whole answer without its traces of reasoning."""
    return _REST_OF_REASONING.sub("", _REASONING.sub("", raw))


def _without_reasoning(raw: str) -> str:
    """What may be shown of an answer that is still coming: no trace of reasoning, no tag that may still begin one."""
    text = _REASONING.sub("", raw)
    at = text.rfind("<")
    tail = text[at:].lower() if at >= 0 else ""
    return text[:at] if tail and any(tag.startswith(tail) for tag in _TAGS) else text


def _check_finish(finish: str) -> None:
    """Nothing where the answer came to its own end.

    Raises:
        ModelFailure: it was cut by a filter, by its length, or broke off.
    """
    if finish == "content_filter":
        raise ModelFailure(Failure.FILTERED)
    if finish == "length":
        raise ModelFailure(Failure.TRUNCATED)
    if not finish:
        raise ModelFailure(Failure.CONNECTION)


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
