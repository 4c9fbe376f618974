"""`raise-chat models check`: whether the configured endpoint can play each role."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

from bot.errors import SettingsError
from bot.models.connect import endpoint
from bot.settings import read_settings

if TYPE_CHECKING:
    from bot.models.openai_api import Endpoint

QUESTION = "My landlord wants me out by Friday. Can he do that?"
CALLS_A_CONVERSATION = {"assess": 1, "risk": 4, "answer": 1}
"""A question, three answers, a reply: what one conversation of the paper's length asks of each role."""


@click.group()
def models() -> None:
    """The models that speak here."""


@models.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of lines.")
@click.pass_context
def check(context: click.Context, *, as_json: bool) -> None:
    """Try each role once: what works, what was degraded, how long and how many tokens. Exits 1 where a role fails."""
    settings = read_settings()
    found = endpoint(settings)
    if found is None:
        raise SettingsError("RAISE_MODEL_BASE_URL is not set: the built-in model speaks, and needs no check")
    rows = asyncio.run(_tried(found, settings.model_turn_seconds))
    tokens = sum(row["tokens"] * CALLS_A_CONVERSATION[row["role"]] for row in rows)
    if as_json:
        click.echo(json.dumps({"roles": rows, "tokens_a_conversation": tokens}, indent=1))
    else:
        for row in rows:
            how = "plain JSON, no schema" if row["degraded"] else ""
            click.echo(
                f"{row['role']:8} {row['result']:14} {row['seconds']:6.2f} s {row['tokens']:6} tokens  {how}".rstrip()
            )
        click.echo(f"about {tokens} tokens a conversation of three questions")
    if any(row["result"] != "works" for row in rows):
        context.exit(1)


async def _tried(found: Endpoint, seconds: float) -> list[dict[str, Any]]:
    from bot.models.openai_api import Budget, ModelFailure, Role  # noqa: PLC0415 (loads the client, a second's wait)
    from bot.models.remote import AssessAnswer, RiskAnswer, messages_for  # noqa: PLC0415

    data = {"message": QUESTION, "may_ask": ["economic_status", "health"], "evidence": {}}
    told = {
        "question": QUESTION,
        "told": {},
        "declined": [],
        "risk": "none",
        "stakes": "high",
        "guidance": [],
    }
    tries: dict[Role, Callable[[], Awaitable[object]]] = {
        Role.ASSESS: lambda: found.structured(
            Role.ASSESS, messages_for("assess", data), AssessAnswer, Budget(seconds)
        ),
        Role.RISK: lambda: found.structured(
            Role.RISK, messages_for("risk", {"message": QUESTION}), RiskAnswer, Budget(seconds)
        ),
        Role.ANSWER: lambda: found.spoken(Role.ANSWER, messages_for("answer", told), Budget(seconds)),
    }
    rows = []
    for role, attempt in tries.items():
        began = time.monotonic()
        try:
            await attempt()
            result = "works"
        except ModelFailure as failed:
            result = failed.kind.value
        rows.append(
            {
                "role": role.value,
                "result": result,
                "seconds": round(time.monotonic() - began, 3),
                "tokens": found.usage[role].tokens,
                "degraded": found.degraded(role),
            }
        )
    await found.close()
    return rows
