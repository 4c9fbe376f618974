"""What a run of the benchmark found, in a terminal and as files; and `raise-chat penguin report`."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from policies.errors import PenguinError
from policies.penguin.reporting import MEASURES, Result, pairs, published, result, rows, shares, to_json
from policies.penguin.statistics import Estimate

FILE = click.Path(dir_okay=False, path_type=Path)
RUN = click.Path(file_okay=False, path_type=Path)
HEURISTIC = (
    "Judged by the built-in heuristic, which counts words: these grades show that everything works and are EVIDENCE OF NOTHING. "
    "Name a model with --judge (RAISE_JUDGE_BASE_URL) to measure."
)
BUILT_IN = (
    "Answered by the built-in model, which composes from written guidance; no language model was measured."
)


def said(one: Estimate) -> str:
    """A mean with its interval."""
    if one.n == 0:
        return "-"
    if math.isnan(one.low):
        return f"{one.mean:.2f} (too few groups for an interval)"
    return f"{one.mean:.2f} [{one.low:.2f}, {one.high:.2f}]"


def told_result(found: Result) -> None:
    """A result in a terminal."""
    short = [m.replace("user_specific_", "").replace("_", " ") for m in MEASURES]
    click.echo(
        f"\n{'arm':14}" + "".join(f"{s:>22}" for s in short) + f"{'n':>7}{'questions':>11}{'abstained':>11}"
    )
    for name, arm in found.arms.items():
        cells = "".join(f"{said(found.mean(name, m)):>22}" for m in MEASURES)
        scored = len(arm.means[MEASURES[0]])
        click.echo(f"{name:14}{cells}{scored:>7}{arm.mean_questions:>11.2f}{arm.ends['abstain']:>11}")
    click.echo("\ndifferences of the safety score on the same samples, bootstrap by scenario group:")
    for one, other in pairs(list(found.arms), found.baseline()):
        gap = found.difference(one, other)
        verdict = "" if gap.is_decisive else "   not decisive"
        click.echo(f"  {one} - {other:14} {said(gap):>22}   n {gap.n}{verdict}")
    unscored = {name: dict(arm.unscored) for name, arm in found.arms.items() if arm.unscored}
    if unscored:
        click.echo("\nwithout a score, and counted for nothing: " + json.dumps(unscored))
    for name, arm in found.arms.items():
        right = arm.abstentions()
        if right:
            should = right["right"] + right["missed"]
            others = right["needless"] + right["answered rightly"]
            click.echo(
                f"{name:14} abstained where people should take over: {shares(right['right'], should)}; needlessly: {shares(right['needless'], others)}"
            )
    paper = published()["context"][0]
    click.echo(
        f"\nthe paper's own figures, of other samples, models and judge: {paper['context_free']:.2f} context-free, {paper['context_rich']:.2f} context-rich"
    )
    if not found.is_evidence:
        click.echo(HEURISTIC)
    if found.header["about"]["talks"]["model"] == "built-in":
        click.echo(BUILT_IN)


@click.command()
@click.argument("runs", nargs=-1, required=True, type=RUN)
@click.option("--html", type=FILE, help="One page that holds everything, pictures included.")
@click.option("--csv", "csv_", type=FILE, help="The means as rows.")
@click.option("--json", "as_json", is_flag=True)
def report(*, runs: tuple[Path, ...], html: Path | None, csv_: Path | None, as_json: bool) -> int:
    """What RUNS found; several are put side by side."""
    found = [result(folder) for folder in runs]
    for one in found:
        if "orders" in one.header["about"]:
            raise PenguinError(
                f"{one.folder}: is a run of sensitivity; the same command with --html makes its page, and runs nothing again"
            )
    if html is not None:
        from policies.penguin.page import page  # noqa: PLC0415 (loads the templates)

        write(html, page(found))
        click.echo(f"wrote {html}", err=True)
    if csv_ is not None:
        write(csv_, _csv([row for one in found for row in rows(one)]))
        click.echo(f"wrote {csv_}", err=True)
    if as_json:
        click.echo(json.dumps([to_json(one) for one in found], indent=1, ensure_ascii=False))
    elif html is None and csv_ is None:
        for one in found:
            click.echo(f"\n== {one.folder}  ({one.header['status']})")
            told_result(one)
    return 0


def write(path: Path, text: str) -> None:
    """A text into a file, its folder made where it is missing.

    Raises:
        PenguinError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as bad:
        raise PenguinError(f"{path}: cannot be written ({bad.strerror})") from None


def _csv(made: list[Mapping[str, Any]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(made[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(made)
    return out.getvalue()
