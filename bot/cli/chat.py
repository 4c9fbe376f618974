"""`raise-chat chat`: the same conversation in a terminal, or as JSON lines for programs."""

from __future__ import annotations

import asyncio
import io
import json
import re
import secrets
import sys
import textwrap
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from bot.assembly import assemble
from bot.conversation import Conversation
from bot.errors import SettingsError
from bot.parts import Parts
from bot.responding import Words
from bot.session import Arm
from bot.settings import read_settings
from policies import crisis
from policies.attributes import Attribute
from privacy.consent import Scope
from privacy.detector import Detector

_CODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class Incoming:
    """One event of a line: said, chosen, or what is said of the last answer.

    Attributes:
        text: said or chosen; the note of a rating.
        chosen: it is a quick reply.
        helped: of a rating; None where it is none.
    """

    text: str
    chosen: bool
    helped: bool | None = None


def read_event(line: str, number: int) -> Incoming:
    """Parse one line of input.

    Raises:
        SettingsError: it is not an event; the message names the line, never its content.
    """
    try:
        raw = json.loads(line)
    except ValueError:
        raise SettingsError(
            f'line {number}: not JSON; write {{"say": "..."}} or {{"choose": "..."}}'
        ) from None
    if not isinstance(raw, dict):
        raise SettingsError(f"line {number}: not a JSON object")
    for key in ("say", "choose"):
        if isinstance(raw.get(key), str):
            return Incoming(raw[key], key == "choose")
    if "rate" in raw:
        note = raw.get("note", "")
        if raw["rate"] not in ("helped", "not") or not isinstance(note, str):
            raise SettingsError(f'line {number}: "rate" is "helped" or "not", "note" a text')
        return Incoming(note, chosen=False, helped=raw["rate"] == "helped")
    raise SettingsError(f'line {number}: needs "say" or "choose" with a text, or "rate"')


def read_profile(path: Path) -> dict[Attribute, str]:
    """A JSON object from attribute to text.

    Raises:
        SettingsError: it cannot be read, or names something that is not an attribute.
    """
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except OSError as missing:
        raise SettingsError(f"{path}: cannot be read ({missing.strerror})") from None
    except ValueError:
        raise SettingsError(f"{path}: not JSON") from None
    if not isinstance(raw, dict):
        raise SettingsError(f"{path}: not a JSON object from attribute to text")
    profile = {}
    for name, text in raw.items():
        try:
            attribute = Attribute(name)
        except ValueError:
            raise SettingsError(f"{path}: {name!r} is not one of the ten attributes") from None
        if not isinstance(text, str):
            raise SettingsError(f"{path}: {name}: not a text")
        profile[attribute] = text
    return profile


async def _answer(conversation: Conversation, event: Incoming) -> AsyncIterator[Words]:
    if event.helped is not None:
        moves = conversation.rate(helped=event.helped, note=event.text)
    else:
        moves = conversation.choose(event.text) if event.chosen else conversation.receive(event.text)
    async for words in moves:
        yield words


async def _json_turn(conversation: Conversation, event: Incoming) -> None:
    held: Words | None = None

    def write(words: Words, *, last: bool) -> None:
        raw: dict[str, Any] = words.to_json(conversation.session.turn)
        if last:
            raw["last"] = True
        sys.stdout.write(json.dumps(raw, ensure_ascii=False) + "\n")
        sys.stdout.flush()

    async for words in _answer(conversation, event):
        if words.is_partial:
            continue
        if held is not None:
            write(held, last=False)
        held = words
    if held is not None:
        write(held, last=True)


async def _terminal_turn(conversation: Conversation, event: Incoming) -> tuple[str, ...]:
    choices: tuple[str, ...] = ()
    writing = False
    async for words in _answer(conversation, event):
        if words.is_partial:
            if not writing:
                click.echo(click.style("  (writing…)", dim=True))
            writing = True
            continue
        for paragraph in words.text.split("\n"):
            click.echo(textwrap.fill(paragraph, 96) if paragraph else "")
        if words.choices or words.offers:
            choices = words.choices or words.offers
            click.echo(
                click.style("  " + "   ".join(f"[{i}] {c}" for i, c in enumerate(choices, 1)), dim=True)
            )
        click.echo()
    return choices


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Read one event a line, write one move a line.")
@click.option("--arm", type=click.Choice([a.value for a in Arm]), default=Arm.RAISE.value, show_default=True)
@click.option(
    "--profile",
    type=click.Path(path_type=Path),
    help="For context-rich: a JSON object from attribute to text.",
)
@click.option("--country", default=None, help="ISO code, such as GB; asked when it matters otherwise.")
@click.option(
    "--consent",
    "consented",
    default="chat",
    show_default=True,
    help="Scopes granted without a dialogue: chat,send,keep,research,contact.",
)
@click.option("--person", default="", help="Pseudonym to keep under; a fresh one otherwise.")
@click.option("--seed", type=int, default=None, help="Chooses phrasings, and the order in random-order.")
def chat(
    *,
    as_json: bool,
    arm: str,
    profile: Path | None,
    country: str | None,
    seed: int | None,
    consented: str,
    person: str,
) -> None:
    """Hold a conversation here. Type /help for people who can help, /quit to leave."""
    settings = read_settings()
    if profile is not None and arm != Arm.CONTEXT_RICH.value:
        raise click.UsageError("--profile goes with --arm context-rich")
    if arm == Arm.CONTEXT_RICH.value and profile is None:
        raise click.UsageError("--arm context-rich needs --profile FILE")
    if arm == Arm.AGENT.value and not settings.model_base_url:
        raise click.UsageError("--arm agent lets a model choose: set RAISE_MODEL_BASE_URL and RAISE_MODEL")
    if person and not _CODE.fullmatch(person):
        raise click.UsageError(
            "--person is a code that names nobody: up to 64 letters, digits, '-', '_' or '.'"
        )
    where = (country or settings.country).upper() or None
    if where and where not in crisis.shipped().countries:
        raise click.UsageError(f"no country {where!r} in our resources")
    known = read_profile(profile) if profile else None
    scopes = read_scopes(consented)
    parts = assemble(settings, keeps=bool(scopes - {Scope.CHAT}))
    conversation = Conversation.start(
        parts,
        arm=Arm(arm),
        seed=settings.seed if seed is None else seed,
        country=where,
        profile=known,
        person=person or f"terminal-{secrets.token_hex(6)}",
    )
    try:
        with asyncio.Runner() as runner:
            runner.run(_agree(conversation, parts, scopes))
            if as_json:
                _json_lines(conversation, runner)
            else:
                _terminal(conversation, runner)
    finally:
        if isinstance(parts.detector, Detector):
            parts.detector.close()
        if parts.keeping is not None:
            parts.keeping.close()


async def _agree(conversation: Conversation, parts: Parts, scopes: frozenset[Scope]) -> None:
    """Grant what the caller says was granted."""
    if parts.keeping is not None:
        for scope in Scope:
            if scope in scopes:
                await parts.keeping.answer(conversation.person, scope, granted=True)


def read_scopes(text: str) -> frozenset[Scope]:
    """Scopes from a list separated by commas.

    Raises:
        UsageError: a name is no scope.
    """
    found = set()
    for name in filter(None, (part.strip() for part in text.split(","))):
        try:
            found.add(Scope(name))
        except ValueError:
            raise click.UsageError(f"--consent: {name!r} is none of {', '.join(Scope)}") from None
    return frozenset(found | {Scope.CHAT})


def _json_lines(conversation: Conversation, runner: asyncio.Runner) -> None:
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="replace")
    for number, line in enumerate(iter(sys.stdin.readline, ""), 1):
        if line.strip():
            runner.run(_json_turn(conversation, read_event(line, number)))


def _terminal(conversation: Conversation, runner: asyncio.Runner) -> None:
    click.echo(
        click.style(
            "raise-chat: type your question. /help shows people who can help, /quit leaves.\n", bold=True
        )
    )
    choices: tuple[str, ...] = ()
    while True:
        try:
            said = click.prompt(click.style("you", fg="cyan"), prompt_suffix="> ").strip()
        except (click.Abort, EOFError):
            click.echo()
            return
        if said in ("/quit", "/exit"):
            return
        picked = said.isdigit() and 1 <= int(said) <= len(choices) <= 9
        event = Incoming(choices[int(said) - 1], chosen=True) if picked else Incoming(said, chosen=False)
        click.echo()
        choices = runner.run(_terminal_turn(conversation, event))
