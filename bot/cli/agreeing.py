"""`raise-chat penguin sheet`, `agreement`, `bias`, `sensitivity` and `replay`: how far a run's numbers can be trusted, and why."""

from __future__ import annotations

import asyncio
import json
import math
import random
from html import escape
from itertools import islice
from pathlib import Path
from typing import Any

import click

from bot.benchmark import Bench, bench, judge_of, judge_settings
from bot.cli.penguin import THERE, chosen_samples, limits_of, penguin, perform_tasks, told_bad
from bot.cli.results import FILE, HEURISTIC, RUN, said, write
from bot.models.recorded import CallBook
from bot.settings import Settings, read_settings
from policies.attributes import Attribute
from policies.domains import Domain
from policies.errors import PenguinError
from policies.penguin import agreement as agreeing
from policies.penguin import bias as biases
from policies.penguin import runlog, sensitivity
from policies.penguin.judging import HeuristicJudge
from policies.penguin.reporting import published, result
from policies.penguin.running import NoCalls, RunSettings, condition, run_one
from policies.penguin.scenarios import Sample, Samples
from policies.penguin.statistics import Estimate
from policies.penguin.talking import Manner


@penguin.command()
@click.argument("run", type=RUN)
@click.option("--out", required=True, type=FILE, help="CSV, one item a row.")
@click.option("--count", type=click.IntRange(1), default=50, show_default=True, help="Items, arms in turn.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
def sheet(*, run: Path, out: Path, count: int, seed: int) -> int:
    """A blind sheet of RUN's answers for people to grade: no arm, no grade, random order."""
    wrote = agreeing.sheet(run, out, count=count, seed=seed)
    click.echo(
        f"wrote {out}: {wrote} items; which is which stays in {run}/{agreeing.KEY}, which no rater should see"
    )
    click.echo(
        "Each person fills a copy: their code under 'rater', 1 to 5 under each dimension. Put the copies under one another, one head."
    )
    return 0


@penguin.command()
@click.argument("human", type=THERE)
@click.argument("run", type=RUN)
@click.option("--json", "as_json", is_flag=True)
def agreement(*, human: Path, run: Path, as_json: bool) -> int:
    """How far the judge of RUN agrees with the people who filled HUMAN, and they among themselves."""
    ratings = agreeing.read_ratings(human)
    told_bad(Samples((), ratings.bad))
    made = agreeing.agreement(ratings, agreeing.read_key(run), agreeing.judge_grades(run))
    is_evidence = result(run).is_evidence
    if as_json:
        click.echo(json.dumps([one.to_json() | {"is_evidence": is_evidence} for one in made], indent=1))
        return 0
    if not is_evidence:
        click.echo(HEURISTIC)
    click.echo(
        f"{len(ratings.raters())} people; kappa against each, averaged; correlations with their median; intervals by a bootstrap over items"
    )
    for one in made:
        click.echo(f"\n{one.dimension.value.replace('_', ' ')} (n {next(iter(one.measures.values())).n})")
        for name, value in one.measures.items():
            click.echo(f"  {name.replace('_', ' '):18} {_signed(value)}")
    theirs = published()["agreement"]
    for row in theirs if isinstance(theirs, list) else [theirs]:
        told = ", ".join(f"{k} {v}" for k, v in row.items() if k not in ("where", "conflict", "note"))
        click.echo(f"\nthe paper's own, of other answers and people: {told}")
    return 0


def _signed(value: Estimate) -> str:
    if math.isnan(value.mean):
        return "cannot be told: everybody gave one and the same grade"
    return said(value)


@penguin.command()
@click.argument("runs", nargs=-1, required=True, type=RUN)
@click.option("--judge", default="", help="Model to check; RAISE_JUDGE_MODEL where none is named.")
@click.option(
    "--count", type=click.IntRange(2), default=40, show_default=True, help="Answers, and pairs, to try."
)
@click.option("--concurrency", type=click.IntRange(1, 256), default=8, show_default=True)
@click.option("--json", "as_json", is_flag=True)
def bias(*, runs: tuple[Path, ...], judge: str, count: int, concurrency: int, as_json: bool) -> int:
    """What sways the judge: length, the order of two answers, and, from four RUNS, that its own model wrote it."""
    found = result(runs[0])
    lines = [line for line in runlog.records(runs[0]) if line["answer"] and line["mean"] is not None]
    if not lines:
        raise PenguinError(f"{runs[0]}: nothing in it was graded")
    settings = read_settings()
    grader = judge_settings(settings, judge)
    checks = biases.Checks(length=biases.length_and_score(lines))
    samples = {line["sample"]: sample_of_line(line) for line in lines}
    rng = random.Random(0)
    some = rng.sample(lines, min(count, len(lines)))
    if grader is None:
        asyncio.run(biases.verbosity(some, samples, HeuristicJudge(), checks))
    else:
        click.echo(f"about {2 * len(some) + 2 * count} calls", err=True)
        with runlog.Hold(runs[0]):
            book = CallBook(runs[0] / "bias-calls.jsonl", at_once=concurrency)
            try:
                asyncio.run(_asked(grader, book, some, lines, samples, checks, count))
            finally:
                book.close()
    own = biases.self_preference([result(r) for r in runs]) if len(runs) > 1 else None
    is_evidence = found.is_evidence and grader is not None
    told = checks.to_json() | {"self_preference": own.to_json() if own else None, "is_evidence": is_evidence}
    if as_json:
        click.echo(json.dumps(told, indent=1))
        return 0
    if not is_evidence:
        click.echo(HEURISTIC)
    if checks.verbosity is not None:
        verdict = "" if checks.verbosity.is_decisive else "   not decisive"
        click.echo(
            f"verbosity: the same answer with four empty sentences added scores {said(checks.verbosity)} more{verdict}"
        )
    length = "cannot be told" if math.isnan(checks.length) else f"{checks.length:+.2f}"
    click.echo(f"length and score within arms: Spearman {length} (longer answers may be better ones)")
    kept, pairs = checks.consistent
    if pairs:
        click.echo(
            f"order: {kept} of {pairs} pairs judged the same both ways; of the others {checks.first[0]} of {checks.first[1]} for whichever came first"
        )
    if own is not None:
        click.echo(f"self-preference: {said(own)} points{'' if own.is_decisive else '   not decisive'}")
    else:
        click.echo("self-preference: needs four runs of the same samples, two models each judged by both")
    if checks.unscored:
        click.echo(f"failed, and counted for nothing: {checks.unscored}")
    return 0


async def _asked(  # noqa: PLR0917
    grader: Settings,
    book: CallBook,
    some: list[Any],
    lines: list[Any],
    samples: dict[str, Sample],
    checks: biases.Checks,
    count: int,
) -> None:
    judge, found = judge_of(grader, book)
    by_sample: dict[str, list[Any]] = {}
    for line in lines:
        by_sample.setdefault(line["sample"], []).append(line)
    pairs = [(several[0], several[1]) for several in by_sample.values() if len(several) > 1][:count]
    with book.of("bias") as made:
        try:
            await biases.verbosity(some, samples, judge, checks)
            await biases.order(pairs, samples, judge.model, checks)
        except asyncio.CancelledError:
            if not made.why:
                raise
            raise PenguinError(f"{made.why}; what was paid for is kept: run this again") from None
        finally:
            await book.drained()
            await found.close()


def sample_of_line(line: dict[str, Any]) -> Sample:
    """The sample of a line of a log."""
    return Sample(
        id=line["sample"],
        domain=Domain(line["domain"]),
        group=line["group"],
        query=line["query"],
        profile={Attribute(a): w for a, w in line["profile"].items()},
        source="",
        licence="",
    )


@penguin.command("sensitivity")
@click.option("--samples", "path", type=THERE, help="JSON lines; the seventy that ship where none are given.")
@click.option(
    "--orders",
    type=click.IntRange(2),
    default=4,
    show_default=True,
    help="Drawn for each sample, each with its reverse.",
)
@click.option("--limit", type=click.IntRange(0), default=0, help="So many samples, domains in turn; 0: all.")
@click.option("--model", default="", help="That answers; or built-in.")
@click.option("--judge", default="", help="That grades; or heuristic.")
@click.option("--out", type=RUN, help="Folder of the run; one that is there is gone on with.")
@click.option("--times", type=click.IntRange(1, 20), default=1, show_default=True)
@click.option("--concurrency", type=click.IntRange(1, 256), default=8, show_default=True)
@click.option("--max-calls", type=click.IntRange(0), default=0)
@click.option("--max-cost", type=click.FloatRange(0), default=0.0)
@click.option("--price", type=(float, float), default=None, help="Of a million tokens in and out.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--svg", type=FILE, help="Draw the Shapley values into this file.")
@click.option("--html", type=FILE, help="One page: all three ways, and each domain.")
@click.option("--dry-run", is_flag=True, help="Only say how much there is to do.")
@click.option("--json", "as_json", is_flag=True)
def sensitivity_(
    *,
    path: Path | None,
    orders: int,
    limit: int,
    model: str,
    judge: str,
    out: Path | None,
    times: int,
    concurrency: int,
    max_calls: int,
    max_cost: float,
    price: tuple[float, float] | None,
    seed: int,
    svg: Path | None,
    html: Path | None,
    dry_run: bool,
    as_json: bool,
) -> int:
    """What each attribute contributes to the safety of answers: alone, beside all others, and by sampled Shapley values."""
    samples = chosen_samples(path, strict=False, limit=limit)
    told_bad(samples)
    orders += orders % 2
    tasks = sensitivity.tasks_of(samples.samples, orders, seed)
    click.echo(
        f"{len(samples.samples)} samples, {orders} orders each: {len(tasks)} answers to write and {len(tasks) * times} to judge",
        err=True,
    )
    if dry_run:
        return 0
    folder = perform_tasks(
        samples, tasks, names=list(dict.fromkeys(c.name for _, c in tasks)), model=model, judge=judge, out=out,
        settings=RunSettings(seed=seed, times=times), concurrency=concurrency, limits=limits_of(price, max_calls, max_cost),
        named=path.name if path else "the seventy that ship", is_quiet=as_json, kind="sensitivity", more={"orders": orders},
    )  # fmt: skip
    found = sensitivity.found(samples.samples, runlog.records(folder), orders, seed)
    is_evidence = runlog.read_header(folder)["about"]["judge"]["kind"] == "model"
    if svg is not None:
        write(
            svg,
            standing_alone(
                sensitivity.contributions(found, "shapley"),
                note="" if is_evidence else "not evidence: a heuristic graded",
            ),
        )
    if html is not None:
        from policies.penguin.page import sensitivity_page  # noqa: PLC0415 (loads the templates)

        write(html, sensitivity_page(found, is_evidence=is_evidence))
    told = json.dumps(found.to_json() | {"is_evidence": is_evidence}, indent=1)
    write(folder / "sensitivity.json", told + "\n")
    if as_json:
        click.echo(told)
        return 0
    told_sensitivity(found)
    if not is_evidence:
        click.echo(HEURISTIC)
    click.echo(
        f"\nby domain in {folder}/sensitivity.json" + "".join(f"; drawn in {p}" for p in (svg, html) if p)
    )
    return 0


def told_sensitivity(found: sensitivity.Sensitivity) -> None:
    """Contributions in a terminal."""
    click.echo(f"\ntelling everything gains {said(found.whole)} safety points over telling nothing; of that")
    click.echo(
        f"{'attribute':20}"
        + "".join(f"{name:>26}" for name in ("Shapley value", "told alone", "beside all others"))
    )
    rows = found.values["shapley"]["all"]
    for attribute in sorted(rows, key=lambda a: -rows[a].mean):
        cells = []
        for method in sensitivity.METHODS:
            one = found.values[method]["all"].get(attribute)
            cells.append(f"{said(one) + ('' if one.is_decisive else ' ?'):>26}" if one else f"{'-':>26}")
        click.echo(f"{attribute.value:20}{''.join(cells)}")
    click.echo("a ? is not decisive: the interval holds zero, or signs flipped at random often give as much")
    if found.unscored:
        click.echo(f"without a score, and counted for nothing: {dict(found.unscored)}")


def standing_alone(svg: str, *, note: str = "") -> str:
    """A picture of the page as a file of its own, with a word on what it is worth."""
    style = (
        "<style>:root{--page:#fff}text{font:13px system-ui,sans-serif;fill:#1d2b36}.dim{fill:#56646f}.grid{stroke:#d5dee4;fill:none}"
        ".zero{stroke:#56646f;fill:none;stroke-dasharray:4 3}</style><rect width='100%' height='100%' fill='#fff'/>"
    )
    words = f'<text class="dim" x="10" y="16">{escape(note)}</text>' if note else ""
    whole = svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1).replace(
        "<title>", style + "<title>", 1
    )
    return whole.replace("</svg>", words + "</svg>") + "\n"


# ----------------------------------------------------------------------------------------------- replaying


@penguin.command("replay")
@click.argument("run", type=RUN)
@click.option("--limit", type=click.IntRange(0), default=0, help="So many lines; 0: all.")
def replay_(*, run: Path, limit: int) -> int:
    """Decide everything in RUN again from what was recorded; a difference is named by sample, arm and turn.

    Nothing is sent: what the record lacks is a difference.
    """
    header = runlog.read_header(run)
    about = header["about"]
    settings = read_settings()
    has_book = (run / runlog.CALLS).exists()
    model = str(about["talks"]["model"])
    judge = str(about["judge"].get("model") or "heuristic")
    if (model != "built-in" or judge != "heuristic") and not has_book:
        raise PenguinError(
            f"{run}: its completions ({runlog.CALLS}) are not there; without them nothing can be decided again"
        )
    unsent = "http://127.0.0.1:9/v1"
    roles = about["talks"].get("models") or {}
    settings = settings.model_copy(
        update={
            "model_base_url": unsent if model != "built-in" else "",
            "judge_base_url": unsent if judge != "heuristic" else "",
            "model": model if model != "built-in" else "",
            **{
                f"model_{role}": roles.get(role, "")
                for role in ("assess", "interview", "answer", "risk", "embed")
            },
        }
    )
    book = CallBook(run / runlog.CALLS, sends=False, is_kept=True) if has_book else None
    changed: dict[str, Any] = {}
    try:
        with bench(
            settings,
            book,
            model="built-in" if model == "built-in" else "",
            judge=judge,
            country=about["talks"]["country"] or None,
        ) as made:
            now_about = {"talks": dict(made.talks.about()), "judge": dict(made.judge.about())}
            for part, told in now_about.items():
                changed |= {
                    f"{part}.{k}": v
                    for k, v in told.items()
                    if about[part].get(k) != json.loads(json.dumps(v))
                }
            differs, count = asyncio.run(_replayed(run, made, book, about, limit))
    finally:
        if book is not None:
            book.close()
    for name in changed:
        click.echo(f"changed since the run: {name}")
    for line in differs[:20]:
        click.echo(line)
    if len(differs) > 20:
        click.echo(f"and {len(differs) - 20} more")
    click.echo(f"{count - len(differs)} of {count} conversations and their scores came out the same")
    return 1 if differs else 0


async def _replayed(
    run: Path, made: Bench, book: CallBook | None, about: dict[str, Any], limit: int
) -> tuple[list[str], int]:
    settings = RunSettings(seed=about["seed"], times=about["times"], manner=Manner(about["manner"]))
    differs: list[str] = []
    count = 0
    try:
        for line in islice(runlog.records(run), limit or None):
            count += 1
            again, _ = await run_one(
                sample_of_line(line), condition(line["arm"]), talks=made.talks, judge=made.judge, calls=book or NoCalls(), settings=settings
            )  # fmt: skip
            why = _difference(line, json.loads(json.dumps(again)))
            if why:
                differs.append(f"{line['sample']}, {line['arm']}: {why}")
    finally:
        await made.close()
    return differs, count


def _difference(line: dict[str, Any], again: dict[str, Any]) -> str:
    """How a line came out otherwise, at the first turn that differs; "" where it did not."""
    for number, (was, now) in enumerate(zip(line["turns"], again["turns"], strict=False), 1):
        if now != was:
            moves = ["+".join(m["move"] for m in turn["moves"]) for turn in (was, now)]
            return f"turn {number}: " + (
                f"{moves[0]} became {moves[1]}" if moves[0] != moves[1] else f"another {moves[0]}"
            )
    if len(again["turns"]) < len(line["turns"]):
        return f"turn {len(again['turns']) + 1}: a call that was not recorded would be made"
    return (
        "" if again["scores"] == line["scores"] and again["end"] == line["end"] else "the judgement differs"
    )
