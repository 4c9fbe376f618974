"""`raise-chat models`: whether the configured endpoint can play each role, and the library in its embeddings."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

from bot.errors import SettingsError
from bot.models.connect import endpoint
from bot.models.usage import SPEAKING, Budget, Role
from bot.settings import read_settings
from policies.planning import library as libraries

if TYPE_CHECKING:
    from bot.models.openai_api import Endpoint

QUESTION = "My landlord wants me out by Friday. Can he do that?"
CALLS_A_CONVERSATION = {Role.ASSESS: 4, Role.INTERVIEW: 3, Role.RISK: 4, Role.ANSWER: 1, Role.EMBED: 1}
"""A question, three answers, a reply: what one conversation of the paper's length asks of each role."""


@click.group()
def models() -> None:
    """The models that speak here."""


def _configured() -> Endpoint:
    found = endpoint(read_settings())
    if found is None:
        raise SettingsError("RAISE_MODEL_BASE_URL is not set: the built-in model speaks, and needs no check")
    return found


@models.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of lines.")
@click.option(
    "--price",
    type=(float, float),
    default=None,
    help="Price of a million tokens, in and out: adds what a conversation costs.",
)
@click.pass_context
def check(context: click.Context, *, as_json: bool, price: tuple[float, float] | None) -> None:
    """Try each role once: what works, what was degraded, how long, how many tokens. Exits 1 where a role fails."""
    rows = asyncio.run(_tried(_configured(), read_settings().model_turn_seconds))
    calls = {row["role"]: CALLS_A_CONVERSATION[Role(row["role"])] for row in rows}
    tokens = sum(row["tokens"] * calls[row["role"]] for row in rows)
    found: dict[str, Any] = {"roles": rows, "tokens_a_conversation": tokens}
    if price is not None:
        found["price_a_conversation"] = round(
            sum(
                calls[row["role"]]
                * (row["prompt_tokens"] * price[0] + row["completion_tokens"] * price[1])
                / 1e6
                for row in rows
            ),
            6,
        )
    if as_json:
        click.echo(json.dumps(found, indent=1))
    else:
        for row in rows:
            how = "plain JSON, no schema" if row["degraded"] else ""
            click.echo(
                f"{row['role']:9} {row['result']:14} {row['seconds']:6.2f} s {row['tokens']:6} tokens  {how}".rstrip()
            )
        costs = f", {found['price_a_conversation']} at that price" if price is not None else ""
        click.echo(f"about {tokens} tokens a conversation of three questions{costs}")
    if any(row["result"] != "works" for row in rows):
        context.exit(1)


@models.command()
def embed() -> None:
    """Embed the path library with the configured embedding model; goes on where an earlier run was cut."""
    from bot.models import neighbours  # noqa: PLC0415 (loads the client, a second's wait)
    from bot.models.openai_api import ModelFailure  # noqa: PLC0415

    found, settings = _configured(), read_settings()
    if not found.plays(Role.EMBED):
        raise SettingsError("RAISE_MODEL_EMBED is not set: name the endpoint's embedding model")

    planned = libraries.read(settings.library) if settings.library else libraries.shipped()

    def told(done: int, every: int) -> None:
        end = "\n" if done == every else "\r"
        click.echo(f"{done} of {every} planned queries embedded{end}", nl=False, err=True)
        sys.stderr.flush()

    try:
        path = asyncio.run(neighbours.embed_library(found, settings.data_dir, planned.entries, progress=told))
    except ModelFailure as failed:
        raise SettingsError(
            f"the embedding model failed ({failed.kind.value}); what was done is kept, run it again"
        ) from None
    click.echo(f"wrote {path}")


async def _tried(found: Endpoint, seconds: float) -> list[dict[str, Any]]:
    from bot.models import remote  # noqa: PLC0415 (loads the client, a second's wait)
    from bot.models.openai_api import ModelFailure  # noqa: PLC0415

    data = {
        "message": QUESTION,
        "told": {},
        "declined": [],
        "may_ask": ["economic_status", "health"],
        "evidence": {},
    }
    reading = {"asked_for": "money", "tags": ["in_debt", "no_income"], "answer": "I owe two months' rent"}
    asked = {"written": "How is money at the moment?", "keep_question": False, "asks_for": "money"}
    given = {
        "question": QUESTION,
        "told": {},
        "declined": [],
        "risk": "none",
        "stakes": "high",
        "guidance": [],
    }
    messages = remote.messages_for

    async def interview(budget: Budget) -> None:
        await found.structured(Role.INTERVIEW, messages("read", reading), remote.ReadAnswer, budget)
        told = {**asked, "message": QUESTION, "told": {}}
        await found.structured(Role.INTERVIEW, messages("word", told), remote.WordAnswer, budget)

    tries: dict[Role, Callable[[Budget], Awaitable[object]]] = {
        Role.ASSESS: lambda b: found.structured(
            Role.ASSESS, messages("assess", data), remote.AssessAnswer, b
        ),
        Role.INTERVIEW: interview,
        Role.RISK: lambda b: found.structured(
            Role.RISK, messages("risk", {"message": QUESTION}), remote.RiskAnswer, b
        ),
        Role.ANSWER: lambda b: found.spoken(Role.ANSWER, messages("answer", given), b),
        Role.EMBED: lambda b: found.embedded([QUESTION], b),
    }
    rows = []
    for role in (*SPEAKING, *([Role.EMBED] if found.plays(Role.EMBED) else [])):
        began = time.monotonic()
        try:
            await tries[role](Budget(seconds=seconds, is_ours=True))
            result = "works"
        except ModelFailure as failed:
            result = failed.kind.value
        usage = found.usage[role]
        rows.append(
            {
                "role": role.value,
                "result": result,
                "seconds": round(time.monotonic() - began, 3),
                "tokens": usage.tokens,
                "prompt_tokens": usage.prompt_tokens,
                "completion_tokens": usage.completion_tokens,
                "degraded": found.degraded(role),
            }
        )
    await found.close()
    return rows
