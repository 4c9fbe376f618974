"""The configured endpoint as `policies.planning` needs it: at once, or by way of OpenAI Batch files."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from bot.models.openai_api import OPEN_SECONDS, Endpoint, Failure, ModelFailure
from bot.models.usage import Budget, Role
from policies.errors import PlanningError, Unscored
from policies.planning.reward import ModelReward, as_json

_Shape = TypeVar("_Shape", bound=BaseModel)
_Made = TypeVar("_Made")
SECONDS = 120.0
"""A call may take this long: nobody is waiting."""
PATIENCE = 10
"""Waits for an endpoint that is away, before the run is given up."""
_HOPELESS = frozenset({Failure.AUTH, Failure.NO_MODEL, Failure.CAPPED})


class PlanningModel:
    """Calls the endpoint; the queries are our own texts or a scenario file's, never what a participant wrote."""

    def __init__(self, endpoint: Endpoint, *, wait: float = OPEN_SECONDS, seconds: float = SECONDS) -> None:
        """Hold the endpoint.

        Args:
            endpoint: the configured one.
            wait: seconds before an endpoint that is left alone is tried again.
            seconds: a call may take.
        """
        self._endpoint, self._wait, self._seconds = endpoint, wait, seconds
        self.name = endpoint.model(Role.ASSESS)
        self._prompt = self._completion = 0

    @property
    def tokens(self) -> tuple[int, int]:
        """Tokens in and out so far."""
        return self._prompt, self._completion

    def _count(self, budget: Budget) -> None:
        for usage in budget.used.values():
            self._prompt += usage.prompt_tokens
            self._completion += usage.completion_tokens

    async def written(self, system: str, data: Mapping[str, Any], *, key: str) -> str:
        """As `TextModel.written`."""
        del key
        return await self._called(lambda b: self._endpoint.spoken(Role.ANSWER, _messages(system, data), b))

    async def shaped(self, system: str, data: Mapping[str, Any], shape: type[_Shape], *, key: str) -> _Shape:
        """As `TextModel.shaped`."""
        del key
        messages = _messages(system, data)
        return await self._called(lambda b: self._endpoint.structured(Role.ASSESS, messages, shape, b))

    async def _called(self, call: Callable[[Budget], Awaitable[_Made]]) -> _Made:
        """One call. An endpoint that is away is waited for, and not planned without.

        Raises:
            Unscored: this call gave nothing.
            PlanningError: the endpoint refuses us, or is away for longer than `PATIENCE` waits.
        """
        for _ in range(PATIENCE):
            budget = Budget(seconds=self._seconds, is_ours=True)
            try:
                return await call(budget)
            except ModelFailure as failed:
                if failed.kind in _HOPELESS:
                    raise PlanningError(
                        f"the endpoint answers {failed.kind.value}; what was paid for is in the journal: mend it and run again"
                    ) from None
                if failed.kind is not Failure.CIRCUIT_OPEN:
                    raise Unscored(failed.kind.value) from None
            finally:
                self._count(budget)
            await asyncio.sleep(self._wait)
        raise PlanningError(
            "the endpoint has been away for minutes; what was paid for is in the journal: run again when it is back"
        )


def model_reward(model: PlanningModel) -> ModelReward:
    """Rewards by the endpoint."""
    return ModelReward(model)


def _messages(system: str, data: Mapping[str, Any]) -> list[dict[str, str]]:
    return [{"role": "system", "content": system}, {"role": "user", "content": as_json(dict(data))}]


class Waiting(PlanningError):
    """A request was written into the batch file; its answer is not there yet."""


class BatchFiles:
    """Requests and answers as files of OpenAI's Batch API, in one folder.

    Every file but `requests.jsonl` is read as answers. What they do not answer is written to `requests.jsonl`, and the
    queries that need it wait; each round of a search is one batch.
    """

    def __init__(self, folder: Path, *, model: str) -> None:
        """Read the answers that are there.

        Raises:
            PlanningError: a line is no answer of the Batch API; the message names file and line.
        """
        self._folder, self.model = folder, model
        self._answers: dict[str, str | None] = {}
        self._asked: dict[str, dict[str, Any]] = {}
        self._prompt = self._completion = 0
        folder.mkdir(parents=True, exist_ok=True)
        for path in sorted(folder.glob("*.jsonl")):
            if path.name != "requests.jsonl":
                self._read(path)

    @property
    def tokens(self) -> tuple[int, int]:
        """Tokens in and out that the answers say they took."""
        return self._prompt, self._completion

    def _read(self, path: Path) -> None:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if not line.strip():
                continue
            try:
                raw = json.loads(line)
                name, response = raw["custom_id"], raw.get("response") or {}
            except (ValueError, KeyError, TypeError, AttributeError) as bad:
                raise PlanningError(f"{path}, line {number}: not a line of a batch's output") from bad
            body = response.get("body") or {}
            if response.get("status_code") == 200 and body.get("choices"):
                self._answers[name] = body["choices"][0].get("message", {}).get("content")
                usage = body.get("usage") or {}
                self._prompt += int(usage.get("prompt_tokens", 0))
                self._completion += int(usage.get("completion_tokens", 0))
            else:
                self._answers[name] = None

    def answer(self, system: str, data: Mapping[str, Any], shape: type[BaseModel] | None, key: str) -> str:
        """The answer to a request.

        Raises:
            Waiting: it is not there yet; the request was noted.
            Unscored: it failed, or is empty.
        """
        body: dict[str, Any] = {
            "model": self.model,
            "messages": _messages(system, data),
            "temperature": 0,
            "store": False,
        }
        if shape is not None:
            schema = {"name": shape.__name__, "schema": shape.model_json_schema(), "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        name = hashlib.sha256((key + as_json(body)).encode()).hexdigest()[:40]
        if name not in self._answers:
            self._asked[name] = {
                "custom_id": name,
                "method": "POST",
                "url": "/v1/chat/completions",
                "body": body,
            }
            raise Waiting("an answer is not there yet")
        found = self._answers[name]
        if not found:
            raise Unscored("batch_failed")
        return found

    def write(self) -> int:
        """Write the requests that wait; how many."""
        path = self._folder / "requests.jsonl"
        lines = [json.dumps(r, ensure_ascii=False, sort_keys=True) for _, r in sorted(self._asked.items())]
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        return len(lines)


class BatchModel:
    """A text model whose answers come from batch files."""

    def __init__(self, files: BatchFiles) -> None:
        self._files = files
        self.name = files.model

    async def written(self, system: str, data: Mapping[str, Any], *, key: str) -> str:
        """As `TextModel.written`."""
        return self._files.answer(system, data, None, key)

    async def shaped(self, system: str, data: Mapping[str, Any], shape: type[_Shape], *, key: str) -> _Shape:
        """As `TextModel.shaped`."""
        try:
            return shape.model_validate_json(self._files.answer(system, data, shape, key))
        except ValidationError:
            raise Unscored("malformed") from None


class BatchReward(ModelReward):
    """Rewards by way of batch files."""

    def __init__(self, files: BatchFiles) -> None:
        super().__init__(BatchModel(files))
        self._files = files

    def waiting(self) -> int:
        """Write what waits; how many requests."""
        return self._files.write()


def batched(files: BatchFiles) -> BatchReward:
    """Rewards by way of these files."""
    return BatchReward(files)
