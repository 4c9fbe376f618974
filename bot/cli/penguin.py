"""`raise-chat penguin`: how safe a model, or this chat, is for a person; with honest intervals."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from bot.benchmark import bench, environment, judge_settings, model_settings
from bot.cli.results import FILE, RUN, report, told_result
from bot.cli.telling import clock, cost, guess, teller
from bot.models.recorded import CallBook, Limits, batch_answers, write_requests
from bot.parts import now
from bot.settings import read_settings
from policies import crisis
from policies.domains import Domain
from policies.errors import PenguinError
from policies.penguin import runlog
from policies.penguin.reporting import result, to_json
from policies.penguin.running import (
    ARMS,
    NEEDS_MODEL,
    Calls,
    NoCalls,
    Progress,
    RunSettings,
    Task,
    condition,
    every,
    order_of,
)
from policies.penguin.running import run as run_samples
from policies.penguin.scenarios import Sample, Samples, read_samples, shipped_samples
from policies.penguin.talking import Manner

THERE = click.Path(exists=True, dir_okay=False, path_type=Path)
DEFAULT_ARMS = "vanilla,raise,context-rich"
TOKENS_A_CALL = (900, 150)
"""In and out, for an estimate before anything is known; our prompts are about so long."""


@click.group()
def penguin() -> None:
    """Measure how safe answers are for the person who asked (PENGUIN, Wu et al., NeurIPS 2025)."""


# ----------------------------------------------------------------------------------------------- samples


def told_bad(some: Samples) -> None:
    """Name the rows that were left out."""
    for row in some.bad[:20]:
        click.echo(f"left out: {row}", err=True)
    if len(some.bad) > 20:
        click.echo(f"left out: {len(some.bad) - 20} more", err=True)


def chosen_samples(path: Path | None, *, strict: bool, limit: int) -> Samples:
    """The samples of a file, or those that ship; `limit` takes domains in turn."""
    found = shipped_samples() if path is None else read_samples(path, strict=strict)
    if not limit:
        return found
    by_domain: dict[Domain, list[Sample]] = {}
    for sample in found.samples:
        by_domain.setdefault(sample.domain, []).append(sample)
    turns = [
        rows[i]
        for i in range(max(map(len, by_domain.values())))
        for rows in by_domain.values()
        if i < len(rows)
    ]
    return Samples(tuple(turns[:limit]), found.bad)


# ----------------------------------------------------------------------------------------------- running


def _used(calls: Calls, book: CallBook | None, limits: Limits) -> dict[str, Any]:
    """What a run took: of all its sessions, and of this one."""
    spent = calls.spent()
    used: dict[str, Any] = {
        "calls": book.recorded if book is not None else 0,
        "prompt_tokens": book.recorded_prompt if book is not None else 0,
        "completion_tokens": book.recorded_completion if book is not None else 0,
        "calls_in_this_session": spent.calls,
        "answered_from_the_book": spent.replayed,
    }
    if any(limits.price):
        used["cost"] = round(cost((used["prompt_tokens"], used["completion_tokens"]), limits.price), 4)
        used["price_of_a_million_tokens"] = list(limits.price)
    return used


def limits_of(price: tuple[float, float] | None, max_calls: int, max_cost: float) -> Limits:
    """When a run stops by itself."""
    if max_cost and price is None:
        raise click.UsageError("--max-cost needs --price, what a million tokens in and out cost")
    return Limits(calls=max_calls, cost=max_cost, price=price or (0.0, 0.0))


@penguin.command("run")
@click.option("--samples", "path", type=THERE, help="JSON lines; the seventy that ship where none are given.")
@click.option(
    "--arms",
    default=DEFAULT_ARMS,
    show_default=True,
    help=f"Of {', '.join(ARMS)}; or set:age+health for a set that is told.",
)
@click.option("--model", default="", help="That answers, at RAISE_MODEL_BASE_URL; or built-in.")
@click.option(
    "--judge",
    default="",
    help="Model that grades, at RAISE_JUDGE_BASE_URL or the same endpoint; or heuristic.",
)
@click.option("--out", type=RUN, help="Folder of the run; one that is there is gone on with.")
@click.option(
    "--times", type=click.IntRange(1, 20), default=1, show_default=True, help="Judgements of each answer."
)
@click.option(
    "--manner",
    type=click.Choice([m.value for m in Manner]),
    default="plain",
    show_default=True,
    help="How the people answer.",
)
@click.option("--limit", type=click.IntRange(0), default=0, help="So many samples, domains in turn; 0: all.")
@click.option(
    "--concurrency",
    type=click.IntRange(1, 256),
    default=8,
    show_default=True,
    help="Calls under way together.",
)
@click.option(
    "--max-calls", type=click.IntRange(0), default=0, help="Stop, ready to go on, after so many calls."
)
@click.option("--max-cost", type=click.FloatRange(0), default=0.0, help="The same by cost, at --price.")
@click.option("--price", type=(float, float), default=None, help="Of a million tokens in and out.")
@click.option(
    "--batch-out",
    type=FILE,
    help="Send nothing: write the calls that are needed here, for OpenAI's Batch API.",
)
@click.option("--batch-in", type=THERE, multiple=True, help="Output of such a batch; may be given again.")
@click.option("--country", default="", help="ISO code of the people's country.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--strict", is_flag=True, help="Stop at a sample that cannot be used.")
@click.option("--json", "as_json", is_flag=True, help="The report as JSON on standard output.")
def run_(
    *,
    path: Path | None,
    arms: str,
    model: str,
    judge: str,
    out: Path | None,
    times: int,
    manner: str,
    limit: int,
    concurrency: int,
    max_calls: int,
    max_cost: float,
    price: tuple[float, float] | None,
    batch_out: Path | None,
    batch_in: tuple[Path, ...],
    country: str,
    seed: int,
    strict: bool,
    as_json: bool,
) -> int:
    """Run samples in every arm, judge what each person was told, and report.

    With no arguments: our seventy samples on the built-in model, judged by a heuristic; no network, under a minute.
    """
    samples = chosen_samples(path, strict=strict, limit=limit)
    told_bad(samples)
    where = (country or read_settings().country).upper()
    if where and where not in crisis.shipped().countries:
        raise click.UsageError(f"no country {where!r} in our resources")
    conditions = list(
        {c.name: c for c in map(condition, filter(None, map(str.strip, arms.split(","))))}.values()
    )
    if not conditions:
        raise PenguinError(f"--arms names none; there are {', '.join(ARMS)}")
    folder = perform_tasks(
        samples,
        every(samples.samples, conditions),
        names=[c.name for c in conditions],
        model=model,
        judge=judge,
        out=out,
        settings=RunSettings(seed=seed, times=times, manner=Manner(manner)),
        concurrency=concurrency,
        limits=limits_of(price, max_calls, max_cost),
        batch_out=batch_out,
        batch_in=batch_in,
        country=where or None,
        named=path.name if path else "the seventy that ship",
        is_quiet=as_json,
    )
    if as_json:
        click.echo(json.dumps(to_json(result(folder)), indent=1, ensure_ascii=False))
    else:
        told_result(result(folder))
        click.echo(f"\nthe run: {folder}   look at it: raise-chat penguin report {folder} --html report.html")
    return 0


def perform_tasks(
    samples: Samples,
    tasks: list[Task],
    *,
    names: list[str],
    model: str,
    judge: str,
    out: Path | None,
    settings: RunSettings,
    concurrency: int,
    limits: Limits,
    batch_out: Path | None = None,
    batch_in: tuple[Path, ...] = (),
    country: str | None = None,
    named: str = "",
    is_quiet: bool = False,
    kind: str = "penguin",
    more: Mapping[str, Any] | None = None,
) -> Path:
    """Run, or go on with, one folder of samples each with its arm; which folder.

    Raises:
        PenguinError: the samples or the folder cannot be used; or the endpoint stops the run.
    """
    found = read_settings()
    under, grader = model_settings(found, model), judge_settings(found, judge)
    needy = [c.name for _, c in tasks if c.arm in NEEDS_MODEL]
    if needy and not under.model_base_url:
        raise PenguinError(f"arm {needy[0]!r} lets a model choose: set RAISE_MODEL_BASE_URL and --model")
    has_calls = bool(under.model_base_url or grader is not None)
    if batch_out is not None and (limits.calls or limits.cost):
        raise click.UsageError("--batch-out sends nothing: --max-calls and --max-cost have nothing to stop")
    if batch_out is not None and not has_calls:
        raise PenguinError("--batch-out: nothing here calls a model; name one with --model or --judge")
    digest = hashlib.sha256(
        "".join(json.dumps(s.to_json(), sort_keys=True) for s in samples.samples).encode()
    ).hexdigest()
    folder = (
        out
        or Path("runs")
        / f"{kind}-{_short(digest, names, model, judge, settings, under.model, country, more)}"
    )
    batch = batch_answers(list(batch_in))
    with runlog.Hold(folder) as hold:
        book = (
            CallBook(
                folder / runlog.CALLS,
                at_once=concurrency,
                limits=limits,
                sends=batch_out is None,
                answers=batch,
            )
            if has_calls
            else None
        )
        if book is not None:
            book.broken_off = "batch" if batch_out is not None else "budget"
        try:
            with bench(found, book, model=model, judge=judge, country=country) as made:
                about = {
                    "samples": {
                        "from": named,
                        "sha256": digest,
                        "n": len(samples.samples),
                        "left_out": len(samples.bad),
                    },
                    "arms": names,
                    "seed": settings.seed,
                    "times": settings.times,
                    "manner": settings.manner.value,
                    "talks": made.talks.about(),
                    "judge": made.judge.about(),
                    **(more or {}),
                }
                log = runlog.RunLog(hold, about, environment(), at=now())
                if not is_quiet:
                    _told_start(
                        tasks,
                        log,
                        settings,
                        limits,
                        made.judge.is_evidence,
                        bool(under.model_base_url),
                        folder,
                    )
                return _performed(
                    tasks, made, book, log, settings, concurrency, limits, batch_out, is_quiet=is_quiet
                )
        finally:
            if book is not None:
                book.close()


def _performed(  # noqa: PLR0917
    tasks: list[Task],
    made: Any,
    book: CallBook | None,
    log: runlog.RunLog,
    settings: RunSettings,
    concurrency: int,
    limits: Limits,
    batch_out: Path | None,
    *,
    is_quiet: bool,
) -> Path:
    calls: Calls = book or NoCalls()
    many = replace(settings, at_once=concurrency * 2 if book is not None else 2)
    status, progress = "interrupted", Progress(total=len(tasks))
    try:

        async def whole() -> Progress:
            try:
                return await run_samples(
                    tasks, talks=made.talks, judge=made.judge, calls=calls, log=log, settings=many,
                    told=teller(lambda p: _line(p, calls, book, limits), is_last=lambda p: p.done == p.total) if not is_quiet else lambda _: None,
                )  # fmt: skip
            finally:
                await made.close()

        try:
            progress = asyncio.run(whole())
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None
        status = (
            "stopped: " + progress.stopped
            if progress.stopped
            else "waiting for a batch"
            if progress.waiting
            else "done"
        )
    finally:
        log.close(
            status,
            {
                "usage": _used(calls, book, limits),
                "models_as_returned": dict(book.served) if book is not None else {},
                "failures": {str(k or "no answer"): v for k, v in book.failed.items()} if book is not None else {},
                "unscored": dict(progress.unscored),
            },
            order_of(tasks),
            at=now(),
        )  # fmt: skip
    if not is_quiet:
        click.echo("", err=True)
    if progress.waiting and batch_out is not None and book is not None:
        wrote = write_requests(book.asked, batch_out)
        where = " and ".join(f"{count} calls are waiting in {path}" for path, count in wrote.items())
        click.echo(
            f"{where}: send each as a batch, and run this again with --batch-in its output "
            f"({progress.done} of {progress.total} are finished)",
            err=True,
        )
    elif progress.stopped == "budget":
        click.echo(
            f"stopped at the limit, {progress.done} of {progress.total} finished; the same command goes on",
            err=True,
        )
    elif progress.stopped:
        raise PenguinError(
            f"{progress.stopped}; {progress.done} of {progress.total} are finished and kept in {log.folder}: mend it and run the same command again"
        )
    return log.folder


def _short(digest: str, arms: list[str], *rest: Any) -> str:
    told = json.dumps([digest, arms, *map(str, rest)])
    return hashlib.sha256(told.encode()).hexdigest()[:8]


def _told_start(  # noqa: PLR0917
    tasks: list[Task],
    log: runlog.RunLog,
    settings: RunSettings,
    limits: Limits,
    is_evidence: bool,
    has_model: bool,
    folder: Path,
) -> None:
    done = len(log.done)
    gone_on = f", {done} of them finished before" if done else ""
    counts = f"{len({s.id for s, _ in tasks})} samples in {len({c.name for _, c in tasks})} arms: {len(tasks)} conversations"
    click.echo(f"{counts}{gone_on}; into {folder}", err=True)
    low, high = expected_calls(tasks, settings, is_evidence=is_evidence, has_model=has_model)
    if high:
        click.echo(guess(low, high, TOKENS_A_CALL, limits.price if any(limits.price) else None), err=True)


def expected_calls(
    tasks: list[Task], settings: RunSettings, *, is_evidence: bool, has_model: bool
) -> tuple[int, int]:
    """Fewest and most calls a run is expected to take: a turn has two to four, an interview up to five turns."""
    low = high = 0
    for _, under in tasks:
        asks = under.arm not in ("vanilla", "context-rich")
        low += (3 if has_model else 0) + (settings.times if is_evidence else 0)
        high += ((14 if asks else 4) if has_model else 0) + (settings.times if is_evidence else 0)
    return low, high


def _line(progress: Progress, calls: Calls, book: CallBook | None, limits: Limits) -> str:
    left, used = progress.seconds_left(), calls.spent()
    parts = [f"{progress.done} of {progress.total}"]
    if used.calls or used.replayed:
        parts.append(f"{used.calls} calls")
    if book is not None and any(limits.price):
        to_come = book.cost() / max(1, progress.here) * (progress.total - progress.done)
        parts.append(f"{book.cost():.2f} spent, {to_come:.2f} to come")
    if sum(progress.unscored.values()):
        parts.append(f"{sum(progress.unscored.values())} unscored")
    if progress.waiting:
        parts.append(f"{progress.waiting} waiting")
    if left is not None and progress.done < progress.total:
        parts.append(f"{clock(left)} to go")
    return ", ".join(parts)


penguin.add_command(report)
