"""The chat as the benchmark meets it: the one door, held open without a screen, and the judge behind an endpoint."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from bot.assembly import assemble
from bot.conversation import Conversation
from bot.errors import SettingsError
from bot.models.connect import endpoint
from bot.models.recorded import CallBook
from bot.models.usage import Role
from bot.parts import Parts
from bot.prompts import prompt
from bot.responding import Words
from bot.session import Arm
from bot.settings import Settings
from policies import encoder, thresholds
from policies.attributes import Attribute
from policies.penguin.judging import HeuristicJudge, Judge, ModelJudge
from policies.penguin.scenarios import Sample
from policies.penguin.talking import Heard
from policies.planning import library as libraries
from privacy.consent import Scope
from privacy.detector import Detector

if TYPE_CHECKING:
    from bot.models.openai_api import Endpoint

PATIENCE = 1_000.0
"""Nobody is waiting: every wait may be a thousand times as long, so that a run comes out the same on a slow machine."""
SECONDS = 36_000.0
"""What a judgement may take, waits for the endpoint included."""
REMEMBERED = 8_000
"""Vectors kept in a run: the same queries and answers come again in every arm."""
ROLES = ("assess", "word", "read", "risk", "answer")
NOON = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
"""The time at which every conversation of a run is held: what is said of the time of day must not differ between runs."""
_PACKAGES = (
    "raise-chat",
    "chainlit",
    "openai",
    "numpy",
    "scipy",
    "spacy",
    "presidio-analyzer",
    "onnxruntime",
    "pydantic",
)


class HeadlessTalk:
    """Implements `policies.penguin.talking.Talk`."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation

    async def say(self, text: str) -> Sequence[Heard]:
        """As `Talk.say`. What is asked beside a turn is waited for, so that the next one comes out the same each time."""
        moves = [heard(w) async for w in self._conversation.receive(text) if not w.is_partial]
        await self._conversation.settled()
        roles = tuple(sorted(role.value for role in self._conversation.fell_back))
        return [*moves[:-1], replace(moves[-1], fell_back=roles)] if moves else []

    async def leave(self) -> None:
        """As `Talk.leave`."""
        self._conversation.leave()


def heard(words: Words) -> Heard:
    """A move as the benchmark keeps it: what the person sees, help lines in words, and what replays must agree on."""
    text = words.text
    for resource in words.resources:
        lines = [str(resource[k]) for k in ("name", "phone", "text", "url", "what", "how") if resource.get(k)]
        if lines:
            text += "\n" + ": ".join(lines)
    more: dict[str, Any] = {
        k: v for k, v in words.fields.items() if k in ("domain", "stakes", "sufficiency", "used")
    }
    return Heard(
        move=words.move,
        text=text,
        attribute=words.attribute,
        reason=str(words.fields.get("reason", "")),
        more=more,
    )


class HeadlessTalks:
    """Implements `policies.penguin.talking.Talks` through the very conversation that participants use."""

    def __init__(self, parts: Parts, settings: Settings, *, country: str | None) -> None:
        self._parts, self._settings, self._country = parts, settings, country
        self.name = settings.model if parts.endpoint is not None else "built-in"

    def about(self) -> Mapping[str, Any]:
        """As `Talks.about`."""
        library = libraries.read(self._settings.library) if self._settings.library else libraries.shipped()
        known: dict[str, Any] = {
            "model": self.name,
            "library": library.sha256,
            "thresholds": hashlib.sha256(repr(thresholds.shipped()).encode()).hexdigest()[:16],
            "minimum_age": self._settings.minimum_age,
            "price_weight": self._settings.price_weight,
            "prices": self._settings.prices,
            "country": self._country or "",
        }
        if self._parts.endpoint is not None:
            known["models"] = {
                r.value: self._parts.endpoint.model(r) for r in Role if self._parts.endpoint.plays(r)
            }
            known["prompts"] = {name: prompt(name).sha256 for name in ROLES}
        return known

    async def begin(
        self, sample: Sample, arm: str, given: Mapping[Attribute, str], *, key: str, seed: int
    ) -> HeadlessTalk:
        """As `Talks.begin`. The simulated person grants what the run needs: to chat, and to send to the model."""
        del sample
        person = "sim-" + hashlib.sha256(key.encode()).hexdigest()[:16]
        keeping = self._parts.keeping
        if keeping is not None:
            for scope in (Scope.CHAT, Scope.SEND):
                await keeping.answer(person, scope, granted=True)
        return HeadlessTalk(
            Conversation.start(
                self._parts,
                arm=Arm(arm),
                seed=seed,
                country=self._country,
                profile=dict(given) or None,
                person=person,
            )
        )


@dataclass(frozen=True, slots=True)
class Bench:
    """What a run needs of `bot`.

    Attributes:
        talks: the chat.
        judge: of its answers.
        close: the endpoints.
    """

    talks: HeadlessTalks
    judge: Judge
    close: Callable[[], Any] = field(repr=False)


@contextmanager
def bench(
    settings: Settings, book: CallBook | None, *, model: str = "", judge: str = "", country: str | None = None
) -> Iterator[Bench]:
    """Everything a run needs, its deployment in a folder of its own that goes with it.

    Args:
        settings: in force.
        book: keeps the calls; None where none are made.
        model: that answers, or "built-in"; RAISE_MODEL where empty.
        judge: that grades, or "heuristic"; RAISE_JUDGE_MODEL where empty.
        country: of the people.

    Raises:
        SettingsError: a model is named and no endpoint, or the other way round.
    """
    under, grader = model_settings(settings, model), judge_settings(settings, judge)
    if (under.model_base_url or grader is not None) and book is None:
        raise SettingsError("a model is set: its calls must be kept")
    with tempfile.TemporaryDirectory(prefix="raise-penguin-") as folder:
        client = book.client() if book is not None and under.model_base_url else None
        parts = assemble(
            under.model_copy(update={"data_dir": Path(folder)}),
            keeps=False,
            embedded=settings.data_dir,
            clock=lambda: NOON,
            client=client,
            patience=PATIENCE,
        )
        judges: Judge = HeuristicJudge()
        far: Endpoint | None = None
        encoder.built_in().remember(REMEMBERED)
        try:
            if grader is not None and book is not None:
                judges, far = judge_of(grader, book)
            yield Bench(
                HeadlessTalks(parts, under, country=country), judges, lambda: _closed(parts, far, book)
            )
        finally:
            encoder.built_in().remember(0)
            if isinstance(parts.detector, Detector):
                parts.detector.close()
            if parts.keeping is not None:
                parts.keeping.close()


def model_settings(settings: Settings, model: str) -> Settings:
    """The settings with the model that a run is for.

    Raises:
        SettingsError: a model is named and there is no endpoint.
    """
    none = {"model_base_url": "", "model": "", "model_assess": "", "model_interview": "", "model_answer": "", "model_risk": "",
            "model_embed": ""}  # fmt: skip
    if model == "built-in" or (not model and not settings.model_base_url):
        return settings.model_copy(update=none)
    if not settings.model_base_url:
        raise SettingsError(
            "--model names a model and RAISE_MODEL_BASE_URL no endpoint; set it, or say --model built-in"
        )
    changed: dict[str, Any] = {"model_day_tokens": 0, "model_session_tokens": 0, "model_turn_seconds": 120.0}
    if model:
        changed |= none | {"model_base_url": settings.model_base_url, "model": model}
    return settings.model_copy(update=changed)


def judge_settings(settings: Settings, judge: str) -> Settings | None:
    """The settings of the judge's endpoint, or None for the heuristic judge.

    Raises:
        SettingsError: a judge is named and there is no endpoint.
    """
    name = judge or settings.judge_model
    if not name or name == "heuristic":
        return None
    url = settings.judge_base_url or settings.model_base_url
    if not url:
        raise SettingsError("--judge names a model: set RAISE_JUDGE_BASE_URL, or say --judge heuristic")
    key = settings.judge_api_key or (settings.model_api_key if url == settings.model_base_url else None)
    return settings.model_copy(
        update={"model_base_url": url, "model_api_key": key or SecretStr("none"), "model": name, "model_assess": "", "model_interview": "",
                "model_answer": "", "model_risk": "", "model_embed": "", "model_day_tokens": 0}
    )  # fmt: skip


def judge_of(settings: Settings, book: CallBook) -> tuple[ModelJudge, Endpoint]:
    """The judge behind an endpoint, its calls kept; and the endpoint, to close.

    Raises:
        SettingsError: the endpoint cannot be used.
    """
    from bot.models.planning_model import PlanningModel  # noqa: PLC0415 (loads the client, a second's wait)

    found = endpoint(settings, client=book.client())
    if found is None:
        raise SettingsError("no endpoint for the judge")
    return ModelJudge(PlanningModel(found, seconds=SECONDS)), found


async def _closed(parts: Parts, judge: Endpoint | None, book: CallBook | None) -> None:
    if book is not None:
        await book.drained()
    for one in (parts.endpoint, judge):
        if one is not None:
            with suppress(Exception):
                await one.close()


def environment() -> dict[str, Any]:
    """Revision, dirty flag and packages: what this session runs on."""
    root = Path(__file__).resolve().parents[1]
    found: dict[str, Any] = {
        "python": platform.python_version(),
        "system": platform.system(),
        "revision": "",
        "is_dirty": None,
    }
    with suppress(OSError, subprocess.SubprocessError):
        told = [
            subprocess.run(  # noqa: S603 (fixed words)
                ["git", "-C", str(root), *words],  # noqa: S607 (whichever git is there)
                capture_output=True,
                text=True,
                timeout=20,
                check=True,
            ).stdout.strip()
            for words in (["rev-parse", "HEAD"], ["status", "--porcelain"])
        ]
        found |= {"revision": told[0], "is_dirty": bool(told[1])}
    versions = {}
    for name in _PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return found | {"packages": versions}
