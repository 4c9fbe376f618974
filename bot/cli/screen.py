"""`raise-chat screen`: the risk screen over a file of messages, or one message explained."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from bot.cli.lines import read_messages
from bot.errors import SettingsError
from bot.risk import spelling
from bot.risk.clauses import ReadingStage
from bot.risk.normalise import normalise
from bot.risk.screen import Screen
from bot.risk.semantic import SemanticStage
from bot.risk.stages import Stages
from bot.risk.verdict import Verdict
from policies import classifiers, encoder
from privacy.reading import Parser, ReadingError


def every_stage() -> tuple[Stages, Parser]:
    """The whole screen as the chat uses it, and a parser for it."""
    semantic = SemanticStage(encoder.built_in(), classifiers.shipped())
    return Stages(Screen(), reading=ReadingStage(), semantic=semantic, spelling=spelling.shipped()), Parser()


def read_cases(file: Path) -> Iterator[tuple[Any, str, list[str]]]:
    """(id, text, history) of each line.

    Raises:
        SettingsError: a line is not such an object; the message names file and line, never the text.
    """
    for where, number, raw in read_messages(file):
        history = raw.get("history") or []
        if not isinstance(history, list) or not all(isinstance(turn, str) for turn in history):
            raise SettingsError(f'{where}: "history" is not a list of strings')
        yield raw.get("id", number), raw["text"], history


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path, allow_dash=True))
@click.option("--explain", metavar="TEXT", help="Show why one message is judged as it is.")
def screen(*, file: Path | None, explain: str | None) -> None:
    """Judge each line of FILE ("-" for standard input): {"id", "text", "history": [...]} in, verdicts out."""
    if (file is None) == (explain is None):
        raise click.UsageError("give a FILE of messages, or --explain TEXT")
    stages, parser = every_stage()
    if explain is not None:
        _explain(stages, parser, explain)
        return
    _judge_all(Path(str(file)), stages, parser)


def _judge_all(file: Path, stages: Stages, parser: Parser) -> None:
    for done, (identity, text, history) in enumerate(read_cases(file), 1):
        verdict = stages.judge(text, history=history, parser=parser)
        click.echo(json.dumps({"id": identity, **as_json(verdict)}, ensure_ascii=False))
        if done % 200 == 0 and sys.stderr.isatty():
            click.echo(f"{done} messages judged", err=True)


def as_json(verdict: Verdict) -> dict[str, Any]:
    """A verdict as the command writes it."""
    return {
        "label": verdict.level.value,
        "categories": [c.value for c in verdict.categories],
        "subject": verdict.subject.value,
        "rules": list(verdict.rules),
        "why": verdict.why,
    }


def _explain(stages: Stages, parser: Parser, text: str) -> None:
    heard = stages.heard(text)
    try:
        reading = parser.read(text)
    except ReadingError as failed:
        reading = None
        click.echo(f"no reading ({failed}): the text stage decides without it", err=True)
    verdict = stages.deepened(text, heard, reading=reading)
    click.echo(f"level       {verdict.level.value}")
    click.echo(f"because     {verdict.why}")
    click.echo(f"categories  {', '.join(c.value for c in verdict.categories) or '-'}")
    click.echo(f"subject     {verdict.subject.value}")
    click.echo(f"rules       {', '.join(verdict.rules) or '-'}")
    click.echo(f"ideas       {', '.join(sorted(verdict.flags)) or '-'}")
    click.echo(f"held back   {', '.join(verdict.held) or '-'}")
    click.echo(f"text stage  {heard.level.value}: {heard.why}")
    click.echo(f"read as     {normalise(stages.mended(text)).strip()}")
    for clause in reading.clauses if reading else ():
        notes = [n for n, on in (("denied", clause.negated), ("quoted", clause.quoted)) if on]
        person = f"{clause.person.value} person, {clause.tense.value}, {clause.modality.value}"
        click.echo(f"clause      {clause.verb}: {person}{', ' if notes else ''}{', '.join(notes)}")
