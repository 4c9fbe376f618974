"""`raise-chat plan`: paths planned by the thousand, kept in a library, looked at, compared and measured."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from bot.cli.telling import Price, clock, cost, spent, teller
from bot.errors import SettingsError
from bot.models.connect import endpoint
from bot.settings import read_settings
from policies.attributes import SPECS
from policies.domains import Domain
from policies.errors import PlanningError
from policies.files import read_lines
from policies.planning import library as libraries
from policies.planning.baselines import PLANNERS
from policies.planning.building import FIRST_WAVE, BuildSettings, Built, Progress, about, build, shard
from policies.planning.journal import Journal
from policies.planning.policy import Branch
from policies.planning.prices import prices, weighed
from policies.planning.reward import AssumedReward, Rewarder, Scenario, scenarios_of
from policies.planning.search import SURE
from policies.planning.starter import PathLibrary, scenarios, starter_entries, vectors_of

FAR_STAND_IN = "its domain or, where that is unsure, of all queries"
LAMBDAS = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8)
FILE = click.Path(dir_okay=False, path_type=Path)


@click.group()
def plan() -> None:
    """What to ask, in which order: planned offline."""


@plan.command("build")
@click.argument("queries", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--out", required=True, type=FILE, help="The library; gzipped where it ends in .gz.")
@click.option("--journal", type=FILE, help="Where evaluations are kept; default: beside the library.")
@click.option(
    "--per-domain", type=click.IntRange(0), default=50, show_default=True, help="Of our own queries; 0: all."
)
@click.option("--with-model", is_flag=True, help="Judge with the configured endpoint, not the prior model.")
@click.option("--planner", type=click.Choice(sorted(PLANNERS)), default="raise", show_default=True)
@click.option("--budget", type=click.IntRange(1, 10), default=5, show_default=True, help="Longest path.")
@click.option(
    "--max-calls", type=click.IntRange(1), default=100, show_default=True, help="Evaluations a query."
)
@click.option("--all-calls", type=click.IntRange(0), default=0, help="Evaluations of this run; 0: no limit.")
@click.option(
    "--per-second", type=click.FloatRange(0), default=0.0, help="Evaluations begun a second; 0: no limit."
)
@click.option("--concurrency", type=click.IntRange(1), default=48, show_default=True)
@click.option(
    "--lambda",
    "weight",
    type=click.FloatRange(0),
    default=0.0,
    help="Safety points that a full price is worth.",
)
@click.option(
    "--sure",
    type=click.FloatRange(0),
    default=SURE,
    show_default=True,
    help="Stop a search early under this expected regret, in points.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option(
    "--shard", "part", default="1/1", show_default=True, help="This part of the queries, such as 2/8."
)
@click.option(
    "--date", "day", default=lambda: time.strftime("%Y-%m-%d", time.gmtime()), help="In the header; today."
)
@click.option(
    "--price", type=(float, float), default=None, help="Of a million tokens in and out: tells what it costs."
)
@click.option(
    "--batch",
    type=click.Path(file_okay=False, path_type=Path),
    help="With OpenAI Batch files in this folder.",
)
def build_(
    *,
    queries: Path | None,
    out: Path,
    journal: Path | None,
    per_domain: int,
    with_model: bool,
    planner: str,
    budget: int,
    max_calls: int,
    all_calls: int,
    per_second: float,
    concurrency: int,
    weight: float,
    sure: float,
    seed: int,
    part: str,
    day: str,
    price: tuple[float, float] | None,
    batch: Path | None,
) -> int:
    """Plan QUERIES (JSON lines with query and domain; our own where none are given) into a library.

    A run that was cut goes on from its journal and pays for nothing twice.
    """
    number = re.fullmatch(r"(\d+)/(\d+)", part)
    if number is None:
        raise click.BadParameter("two numbers such as 2/8", param_hint="--shard")
    every = _scenarios(queries, per_domain)
    some = shard(every, int(number[1]), int(number[2]))
    settings = BuildSettings(
        budget=budget,
        max_calls=max_calls,
        seed=seed,
        price=prices(read_settings().prices, weight) if weight else None,
        price_weight=weight,
        sure=sure,
        planner=PLANNERS[planner] if planner != "raise" else None,
    )
    rewarder, used, close = _rewarder(with_model=with_model or batch is not None, batch=batch)
    kept = journal or out.with_name(out.name + ".journal")
    began = time.monotonic()
    log = Journal(kept, about(some, rewarder, settings))

    async def run() -> Built:
        try:
            return await build(
                some,
                rewarder,
                settings,
                log,
                date=day,
                concurrency=concurrency,
                a_second=per_second,
                most_calls=all_calls,
                told=teller(lambda p: _line(p, used, price), is_last=lambda p: p.done == p.queries),
                part=part,
            )
        finally:
            await close()

    try:
        made = asyncio.run(run())
    except PlanningError as stopped:
        wrote = getattr(rewarder, "waiting", lambda: 0)()
        if not wrote:
            raise
        click.echo(
            f"{wrote} requests are waiting in {batch}/requests.jsonl: send them as a batch, put its output into "
            f"{batch}/, and run this again ({stopped})"
        )
        return 0
    finally:
        log.close()
    libraries.write(made.library, out)
    _told(made, out, time.monotonic() - began, used, price)
    return 0


def _library(path: Path | None) -> libraries.Library:
    """The library named, or the one in force."""
    path = path or read_settings().library
    return libraries.read(path) if path else libraries.shipped()


def _scenarios(queries: Path | None, per_domain: int) -> tuple[Scenario, ...]:
    if queries is None:
        return scenarios(starter_entries(), per_domain=per_domain)
    return scenarios_of(list(read_lines(queries)), str(queries))


Spent = Callable[[], tuple[int, int]]


def _rewarder(*, with_model: bool, batch: Path | None) -> tuple[Rewarder, Spent, Callable[[], Any]]:
    async def nothing() -> None:
        return None

    if not with_model:
        return AssumedReward(), lambda: (0, 0), nothing
    from bot.models.planning_model import BatchFiles, PlanningModel, batched, model_reward  # noqa: PLC0415 (the client)

    settings = read_settings()
    if batch is not None:
        if not settings.model:
            raise SettingsError("RAISE_MODEL is not set: batch files name the model that is to answer")
        files = BatchFiles(batch, model=settings.model_assess or settings.model)
        return batched(files), lambda: files.tokens, nothing
    found = endpoint(settings)
    if found is None:
        raise SettingsError("RAISE_MODEL_BASE_URL is not set: --with-model needs an endpoint to judge with")
    model = PlanningModel(found)
    return model_reward(model), lambda: model.tokens, found.close


def _line(progress: Progress, used: Spent, price: Price | None) -> str:
    left = progress.seconds_left()
    when = f", {clock(left)} to go" if left is not None else ""
    bad = sum(progress.unscored.values())
    return (
        f"{progress.done} of {progress.queries} planned, {progress.calls} calls, {bad} unscored"
        f"{spent(used(), price)}{when}"
    )


def _told(made: Built, out: Path, seconds: float, used: Spent, price: Price | None) -> None:
    click.echo("", err=True)
    library, progress = made.library, made.progress
    click.echo(
        f"wrote {out}: {len(library.entries)} queries, sha256 {library.sha256[:16]}…, in {seconds:.0f} s"
    )
    click.echo(f"{progress.calls} calls made, {progress.replayed} taken from the journal")
    if progress.unscored:
        why = ", ".join(f"{n} {reason}" for reason, n in sorted(progress.unscored.items()))
        click.echo(f"without a score, and counted for nothing: {why}")
    if price:
        click.echo(f"cost at that price: {cost(used(), price):.2f}")
    waves = [one for one in made.transfers if one.queries > FIRST_WAVE]
    if waves:
        click.echo("learning across a domain's queries (first wave, then the last half):")
    for one in waves:
        click.echo(
            f"  {one.domain.value:13} {one.queries:5} queries   calls {one.calls[0]:6.1f} → {one.calls[1]:6.1f}   "
            f"regret left {one.left[0]:.3f} → {one.left[1]:.3f} points"
        )


@plan.command()
@click.argument(
    "shards", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--out", required=True, type=FILE)
@click.option("--partial", is_flag=True, help="Even where a shard is missing.")
def merge(shards: tuple[Path, ...], out: Path, partial: bool) -> None:
    """One library from the SHARDS of one build."""
    made = libraries.merged_libraries([libraries.read(path) for path in shards], is_partial=partial)
    libraries.write(made, out)
    click.echo(f"wrote {out}: {len(made.entries)} queries, sha256 {made.sha256[:16]}…")


@plan.command()
@click.argument("query", required=False)
@click.option(
    "--library",
    "path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Default: RAISE_LIBRARY, or the one that ships.",
)
@click.option("--depth", type=click.IntRange(1, 4), default=3, show_default=True)
@click.option("--svg", type=FILE, help="Draw the tree into this file.")
@click.option("--json", "as_json", is_flag=True)
def show(query: str | None, path: Path | None, depth: int, svg: Path | None, as_json: bool) -> None:
    """What a library holds; with QUERY (an id, or a question in words) what it would ask, and when."""
    library = _library(path)
    if query is None:
        _show_library(library, as_json=as_json)
        return
    entry, how = _found(library, query)
    if as_json:
        click.echo(
            json.dumps(
                {"how": how, **entry.to_json(), "tree": _tree_json(entry.policy.tree(depth=depth))}, indent=1
            )
        )
    else:
        click.echo(
            f"{entry.id}  {entry.domain.value}/{entry.group}, {entry.stakes.value} stakes  ({how})\n  {entry.query}"
        )
        click.echo(f"  planned with {library.made['model']}, {entry.calls} calls, seed {entry.seed}")
        base, *rest = entry.expected
        click.echo(f"  nothing known                 {base[0]:.2f} ± {base[1]:.2f}")
        for attribute, (mean, sd) in zip(entry.policy.path, rest, strict=True):
            click.echo(f"  + {attribute.value:26}  {mean:.2f} ± {sd:.2f}")
        click.echo("then, by what is answered:")
        for line in _tree_lines(entry.policy.tree(depth=depth)):
            click.echo("  " + line)
    if svg is not None:
        from policies.planning.picture import tree_svg  # noqa: PLC0415

        svg.write_text(
            tree_svg(
                entry.policy.tree(depth=depth),
                title=entry.query if how == "planned" else f"nearest: {entry.query}",
            ),
            encoding="utf-8",
        )
        click.echo(f"drew {svg}", err=True)


def _found(library: libraries.Library, wanted: str) -> tuple[libraries.Entry, str]:
    try:
        return library.named(wanted), "planned"
    except PlanningError:
        if re.fullmatch(r"[0-9a-f]{4,16}", wanted):
            raise
    from policies import classifiers  # noqa: PLC0415 (these load the encoder)
    from policies.encoder import built_in  # noqa: PLC0415
    from policies.errors import EncoderError  # noqa: PLC0415
    from policies.planning.retrieval import FAR, WordVectors  # noqa: PLC0415

    queries = [e.query for e in library.entries]
    try:
        encoder = built_in()
        own = PathLibrary(starter_entries(), classifiers.shipped().vectors("library"))
        near = vectors_of(library, own, encoder) @ encoder.encode([wanted])[0]
        by = "the built-in encoder"
    except EncoderError:
        words = WordVectors(queries)
        near, by = words.encode(queries) @ words.encode([wanted])[0], WordVectors.name
    best = int(near.argmax())
    cosine = float(near[best])
    far = (
        f"; too far to vote: a conversation would ask by the policy of {FAR_STAND_IN}" if cosine < FAR else ""
    )
    return library.entries[best], f"the nearest by {by}, cosine {cosine:.2f}{far}"


def _show_library(library: libraries.Library, *, as_json: bool) -> None:
    by_domain = {
        d: sum(e.domain.value == d for e in library.entries)
        for d in library.policies
        if d != libraries.EVERYWHERE
    }
    if as_json:
        click.echo(
            json.dumps({"made": dict(library.made), "sha256": library.sha256, "queries": by_domain}, indent=1)
        )
        return
    made = library.made
    click.echo(
        f"{len(library.entries)} planned queries, sha256 {library.sha256[:16]}…, {made['date']}, {made['licence']}"
    )
    click.echo(f"model: {made['model']}; judge: {made['judge']}; λ = {made['settings']['lambda']}")
    click.echo(f"{made['spent']['calls']} calls, {made['spent']['unscored']} without a score")
    for domain, count in by_domain.items():
        path = " → ".join(a.value for a in library.policies[domain].path)
        click.echo(f"  {domain:13} {count:5}   {path}")
    click.echo("an answer that changes what another fact is worth (everywhere):")
    for (a, band, c), change in sorted(
        library.gates.get(libraries.EVERYWHERE, {}).items(), key=lambda g: g[1]
    ):
        click.echo(f"  {a.value} {band}: {c.value} {change:+.0%}")
    click.echo(
        "ids: "
        + ", ".join(e.id[:8] for e in library.entries[:6])
        + (", …" if len(library.entries) > 6 else "")
    )


def _tree_lines(branch: Branch, lead: str = "") -> list[str]:
    if branch.ask is None:
        return []
    lines = [f"{lead}ask {branch.ask.value} ({branch.gain:+.2f})"]
    groups = branch.together()
    for bands, after in groups:
        rows = _tree_lines(after, lead + ("  " if len(groups) == 1 else "    "))
        if rows and len(groups) > 1:
            lines.append(f"{lead}  {' or '.join(bands)}:")
        lines += rows
    return lines


def _tree_json(branch: Branch) -> dict[str, Any]:
    if branch.ask is None:
        return {"ask": None}
    return {
        "ask": branch.ask.value,
        "gain": round(branch.gain, 3),
        "after": {band: _tree_json(b) for band, b in branch.after.items()},
    }


@plan.command()
@click.argument("old", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("new", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True)
def diff(old: Path, new: Path, as_json: bool) -> int:
    """What changed from library OLD to NEW; exits 1 where anything did."""
    found = libraries.differences(libraries.read(old), libraries.read(new))
    if as_json:
        click.echo(json.dumps(found, indent=1))
    else:
        for key, (before, after) in found["made"].items():
            click.echo(f"{key}: {json.dumps(before)[:100]} → {json.dumps(after)[:100]}")
        for key in ("added", "removed", "other_path", "other_first"):
            some = ", ".join(i[:8] for i in found[key][:8]) + (", …" if len(found[key]) > 8 else "")
            click.echo(f"{key.replace('_', ' '):12} {len(found[key]):6}  {some}".rstrip())
        click.echo(f"same path    {found['same']:6}")
    return int(bool(found["made"] or any(found[k] for k in ("added", "removed", "other_path"))))


@plan.command("prices")
def prices_() -> None:
    """What asking each attribute costs a person, and why; a study sets its own with RAISE_PRICES."""
    for attribute, total in prices(read_settings().prices, 1.0).items():
        own = SPECS[attribute].price
        click.echo(
            f"{attribute.value:18} {total:.2f}   leak {own.sensitivity:.1f}  effort {own.effort:.1f}  harm {own.harm:.1f}   {own.reason}"
        )


@plan.command()
@click.option(
    "--library",
    "path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Default: RAISE_LIBRARY, or the one that ships.",
)
@click.option("--domain", type=click.Choice([d.value for d in Domain]), help="Only this domain's queries.")
@click.option(
    "--queries",
    type=click.IntRange(1),
    default=350,
    show_default=True,
    help="At most so many, spread evenly.",
)
@click.option("--json", "as_json", is_flag=True)
def frontier(path: Path | None, domain: str | None, queries: int, as_json: bool) -> None:
    """What each λ costs in safety and saves in disclosure, from asking freely to asking nothing: for a study to choose by."""
    library = _library(path)
    some = [e.policy for e in library.entries if domain in (None, e.domain.value)]
    some = some[:: max(1, len(some) // queries)][:queries]
    rows = weighed(some, prices(read_settings().prices, 1.0), LAMBDAS)
    if as_json:
        click.echo(
            json.dumps(
                [
                    {
                        "lambda": row.weight,
                        "safety_gained": round(row.gained, 4),
                        "disclosed": round(row.disclosed, 4),
                        "questions": round(row.questions, 3),
                        "asked": {a.value: round(v, 3) for a, v in row.asked.items()},
                    }
                    for row in rows
                ],
                indent=1,
            )
        )
        return
    click.echo(
        f"{len(some)} planned queries; safety as {library.made['model']} expects it, over asking nothing"
    )
    click.echo(f"{'λ':>6} {'gained':>8} {'disclosed':>10} {'questions':>10}   asked most")
    for row in rows:
        most = sorted(row.asked.items(), key=lambda item: -item[1])[:3]
        names = ", ".join(f"{a.value} {share:.0%}" for a, share in most if share)
        click.echo(
            f"{row.weight:6.2f} {row.gained:8.2f} {row.disclosed:10.2f} {row.questions:10.2f}   {names or 'nothing'}"
        )


@plan.command()
@click.option("--json", "as_json", is_flag=True)
@click.option("--queries", type=click.IntRange(7), default=70, show_default=True, help="Simulated, a world.")
@click.option("--seeds", type=click.IntRange(1), default=1, show_default=True)
@click.option("--calls", multiple=True, type=click.IntRange(10), default=(100, 200), show_default=True)
@click.option(
    "--pictures", type=click.Path(file_okay=False, path_type=Path), help="Draw the tables into this folder."
)
@click.option("--only", multiple=True, type=click.Choice(["planners", "tree", "frontier", "transfer"]))
def bench(
    *,
    as_json: bool,
    queries: int,
    seeds: int,
    calls: tuple[int, ...],
    pictures: Path | None,
    only: tuple[str, ...],
) -> None:
    """Measure the planners on our own simulated world: regret, policy trees, the privacy frontier, transfer."""
    from policies.planning.bench import measured  # noqa: PLC0415

    found = asyncio.run(
        measured(
            queries=queries,
            seeds=range(seeds),
            calls=calls,
            only=only,
            told=lambda what: click.echo(what, err=True),
        )
    )
    if pictures is not None:
        from policies.planning.picture import bench_svgs  # noqa: PLC0415

        pictures.mkdir(parents=True, exist_ok=True)
        for name, drawn in bench_svgs(found).items():
            (pictures / f"plan-{name}.svg").write_text(drawn, encoding="utf-8")
    click.echo(json.dumps(found, indent=1) if as_json else _bench_text(found))


def _bench_text(found: dict[str, Any]) -> str:
    lines = []
    for name, rows in found.items():
        if not isinstance(rows, list) or not rows:
            continue
        lines.append(name)
        heads = list(rows[0])
        lines.append("  " + "  ".join(f"{h:>14}" for h in heads))
        for row in rows:
            lines.append(
                "  "
                + "  ".join(f"{(f'{v:.3f}' if isinstance(v, float) else str(v)):>14}" for v in row.values())
            )
    return "\n".join(lines)
