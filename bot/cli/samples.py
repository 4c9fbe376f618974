"""`raise-chat penguin import`, `generate` and `import-posts`: where samples come from."""

from __future__ import annotations

import asyncio
import json
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bot.assembly import public_numbers
from bot.benchmark import NOON, SECONDS, model_settings
from bot.cli.penguin import THERE, penguin, told_bad
from bot.cli.results import FILE, write
from bot.cli.telling import guess, spent, teller
from bot.errors import SettingsError
from bot.models.connect import endpoint
from bot.settings import read_settings
from policies.attributes import Attribute, Profile, Standing
from policies.domains import Domain
from policies.encoder import built_in
from policies.errors import PenguinError
from policies.penguin import generation, importing, posts
from policies.penguin.judging import prompt
from policies.penguin.scenarios import Sample, Samples, json_lines, read_samples, write_samples
from policies.planning.journal import Journal
from privacy.placeholders import Placeholders

if TYPE_CHECKING:
    from bot.interview import Reader
    from bot.models.guided import GuidedModel
    from bot.models.openai_api import Endpoint
    from bot.models.planning_model import PlanningModel
    from privacy.redaction import Redactor

TOKENS_A_CALL, TOKENS_A_POST = (450, 180), (900, 200)
"""In and out, of a person or a query, and of a post that is read, for an estimate before anything is known."""


@penguin.command("import")
@click.argument("files", nargs=-1, required=True, type=THERE)
@click.option("--out", required=True, type=FILE, help="JSON lines, one sample a line.")
@click.option("--mapping", type=THERE, help="Which column of a published set is what (YAML).")
@click.option("--profiles", type=THERE, help="The official code's profiles, beside its queries.")
@click.option(
    "--domain", type=click.Choice([d.value for d in Domain]), help="Of scenarios whose name tells none."
)
@click.option("--strict", is_flag=True, help="Stop at the first row that cannot be used.")
def import_(
    *,
    files: tuple[Path, ...],
    out: Path,
    mapping: Path | None,
    profiles: Path | None,
    domain: str | None,
    strict: bool,
) -> int:
    """Samples from FILES: the official code's JSON and CSV, a published set with --mapping, or our own JSON lines.

    A row that cannot be used is named by file, line and field, and left out.
    """
    where = Domain(domain) if domain else None
    found: list[Sample] = []
    bad = 0
    for path in files if mapping is None and profiles is None else ():
        if path.suffix.lower() == ".json" and len(files) > 1 and importing.is_profiles(path):
            profiles, files = path, tuple(p for p in files if p != path)
            break
    for path in files:
        some = _imported(path, mapping=mapping, profiles=profiles, domain=where, strict=strict)
        found += some.samples
        bad += len(some.bad)
        told_bad(some)
        _told_gaps(some, path)
    unique = {s.id: s for s in found}
    write_samples(list(unique.values()), out)
    doubles = len(found) - len(unique)
    more = f", {doubles} double" if doubles else ""
    click.echo(f"wrote {out}: {len(unique)} samples, {bad} rows left out{more}")
    return 0


def _imported(
    path: Path, *, mapping: Path | None, profiles: Path | None, domain: Domain | None, strict: bool
) -> Samples:
    if mapping is not None:
        return importing.mapped(path, importing.read_mapping(mapping), strict=strict)
    if path.suffix.lower() == ".csv":
        return importing.official_csv(path, domain=domain, strict=strict)
    if path.suffix.lower() == ".json":
        return importing.official(profiles, path, domain=domain, strict=strict)
    return read_samples(path, strict=strict)


def _told_gaps(some: Samples, path: Path) -> None:
    never = some.never_told()
    for attribute, lacking in some.gaps().items():
        which = "no profile" if attribute in never else f"{lacking} of {len(some.samples)} profiles lack it"
        click.echo(f"{path.name}: {attribute.value}: {which}; left open, not guessed", err=True)


def told_attributes(text: str) -> frozenset[Attribute]:
    """What a message tells of its writer, as the chat would read it."""
    found = _reader().read(text, built_in().encode([text])[0], at=NOON, pending=None, profile=Profile())
    return frozenset(a for a, answer in found.facts.items() if answer.standing is Standing.KNOWN)


@lru_cache(maxsize=1)
def _reader() -> Reader:
    from bot.interview import Reader  # noqa: PLC0415 (loads the classifiers)

    return Reader(built_in())


@lru_cache(maxsize=1)
def _guided() -> GuidedModel:
    from bot.models.guided import GuidedModel  # noqa: PLC0415 (loads policies and library)

    return GuidedModel(built_in(), minimum_age=read_settings().minimum_age)


@lru_cache(maxsize=1)
def _redactor() -> Redactor:
    from privacy.redaction import Redactor  # noqa: PLC0415 (loads spaCy)

    return Redactor(public_numbers=public_numbers())


def _writer(model: str) -> tuple[PlanningModel, Endpoint]:
    """A model that writes, and its endpoint, to close.

    Raises:
        SettingsError: there is no endpoint.
    """
    from bot.models.planning_model import PlanningModel  # noqa: PLC0415 (loads the client, a second's wait)

    found = endpoint(model_settings(read_settings(), model))
    if found is None:
        raise SettingsError("RAISE_MODEL_BASE_URL is not set: this needs a model to write with")
    return PlanningModel(found, seconds=SECONDS), found


@penguin.command()
@click.option("--out", required=True, type=FILE)
@click.option("--per-domain", type=click.IntRange(1, 5000), default=10, show_default=True)
@click.option("--model", default="", help="That writes; RAISE_MODEL where none is named.")
@click.option("--journal", type=FILE, help="Keeps what was written; default: beside --out.")
@click.option("--price", type=(float, float), default=None, help="Of a million tokens in and out.")
@click.option("--concurrency", type=click.IntRange(1, 256), default=8, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
def generate(
    *,
    out: Path,
    per_domain: int,
    model: str,
    journal: Path | None,
    price: tuple[float, float] | None,
    concurrency: int,
    seed: int,
) -> int:
    """Samples by a model: a scenario, a person in it, and what that person asks without saying who they are.

    Spread evenly over domains, scenarios and attribute bands; leaks and near copies are asked for again. A run that was cut
    goes on from its journal.
    """
    wanted = generation.slots(per_domain, seed=seed)
    writer, found = _writer(model)
    calls = 2 * len(wanted)
    click.echo(
        f"{len(wanted)} samples: {guess(calls, calls * generation.TRIES, TOKENS_A_CALL, price)}", err=True
    )
    log = Journal(
        journal or out.with_name(out.name + ".journal"),
        {
            "generate": per_domain, "seed": seed, "model": writer.name,
            "prompts": {n: prompt(n).sha256 for n in ("person", "query")},
        },
    )  # fmt: skip
    try:

        async def whole() -> generation.Made:
            try:
                return await generation.generate(
                    wanted, writer, log, encoder=built_in(), reads=told_attributes, at_once=concurrency,
                    told=teller(lambda m: f"{len(m.samples)} of {m.total}, {m.calls} calls{spent(writer.tokens, price)}"),
                )  # fmt: skip
            finally:
                await found.close()

        made = asyncio.run(whole())
    finally:
        log.close()
    click.echo("", err=True)
    if not made.samples:
        raise PenguinError(f"nothing passed: {dict(made.refused)}; what was paid for is in the journal")
    write_samples([made.samples[s.name] for s in wanted if s.name in made.samples], out)
    click.echo(
        f"wrote {out}: {len(made.samples)} of {made.total} samples, {made.calls} calls in this session"
    )
    if made.refused:
        click.echo(
            "asked for again: "
            + ", ".join(f"{n} {why.replace('_', ' ')}" for why, n in made.refused.most_common())
        )
    if made.left_out:
        click.echo(
            "left out: " + ", ".join(f"{n} {why.replace('_', ' ')}" for why, n in made.left_out.most_common())
        )
    click.echo("by domain: " + ", ".join(f"{d} {n}" for d, n in sorted(made.balance()["domains"].items())))
    click.echo("Read some before you use them: no check finds what is merely implausible.")
    return 0


@penguin.command("import-posts")
@click.argument("posts_file", metavar="POSTS", type=THERE)
@click.option("--out", required=True, type=FILE)
@click.option(
    "--least",
    type=click.IntRange(1, 10),
    default=posts.LEAST_ATTRIBUTES,
    show_default=True,
    help="Attributes a post must tell.",
)
@click.option(
    "--with-model", is_flag=True, help="A model reads the redacted posts; otherwise the built-in reader."
)
@click.option("--model", default="", help="Which; RAISE_MODEL where none is named.")
@click.option("--licence", default="not stated", show_default=True, help="Of the posts.")
@click.option("--journal", type=FILE, help="Keeps what a model read; default: beside --out.")
@click.option("--price", type=(float, float), default=None, help="Of a million tokens in and out.")
@click.option("--concurrency", type=click.IntRange(1, 256), default=8, show_default=True)
def import_posts(
    *,
    posts_file: Path,
    out: Path,
    least: int,
    with_model: bool,
    model: str,
    licence: str,
    journal: Path | None,
    price: tuple[float, float] | None,
    concurrency: int,
) -> int:
    """Samples from POSTS (JSON lines with text, or title and selftext): redacted first, then read, then filtered.

    Writes the counts of each stage beside the samples, as OUT.funnel.json: who tells much of themselves is not everybody.
    """
    writer, found = _writer(model) if with_model else (None, None)
    reading = posts.by_model(writer) if writer is not None else _built_in_extract
    log = None
    if writer is not None:
        count = sum(1 for _ in json_lines(posts_file))
        click.echo(f"{count} posts: {guess(0, count, TOKENS_A_POST, price)}", err=True)
        kept = journal or out.with_name(out.name + ".journal")
        log = Journal(kept, {"import-posts": least, "model": writer.name, "prompt": prompt("extract").sha256})
        kept.chmod(0o600)

    def line(funnel: posts.Funnel) -> str:
        used = spent(writer.tokens, price) if writer is not None else ""
        return f"{funnel.stages['read']} read, {funnel.stages['complete enough']} complete enough{used}"

    async def whole() -> tuple[list[Sample], posts.Funnel]:
        try:
            return await posts.from_posts(
                json_lines(posts_file), file=str(posts_file), redact=_redact, extract=reading, journal=log, least=least,
                licence=licence, at_once=concurrency, told=teller(line),
            )  # fmt: skip
        finally:
            if found is not None:
                await found.close()

    try:
        samples, funnel = asyncio.run(whole())
    finally:
        if log is not None:
            log.close()
    click.echo("", err=True)
    told_bad(Samples((), tuple(funnel.bad)))
    write(out.with_name(out.name + ".funnel.json"), json.dumps(funnel.to_json(), indent=1) + "\n")
    for stage in posts.STAGES:
        share = f"  {funnel.stages[stage] / funnel.stages['read']:.4f}" if funnel.stages["read"] else ""
        click.echo(f"{stage:20} {funnel.stages[stage]:7}{share}")
    for why, count in funnel.lost.most_common():
        click.echo(f"  lost: {why}: {count}")
    if not samples:
        raise PenguinError(
            f"no post tells {least} attributes; the counts are in {out}.funnel.json, and --least asks for fewer"
        )
    write_samples(samples, out)
    click.echo(f"wrote {out} and {out}.funnel.json (the paper kept 0.4 % of its posts)")
    return 0


async def _redact(post: str) -> str:
    """The product's own redactor, each post by itself."""
    return Placeholders().apply(post, _redactor().redact(post).spans)


async def _built_in_extract(post: str) -> dict[str, Any]:
    """The built-in reader: what the chat itself would understand of a post. Finds less than a model."""
    sentences = [s.strip() for s in post.replace("\n", ". ").split(". ") if s.strip()][:60]
    told: dict[str, str] = {}
    for sentence in sentences:
        for attribute in told_attributes(sentence):
            told.setdefault(attribute.value, sentence[:200])
    asks = [s for s in sentences if "?" in s]
    query = (asks or sentences)[-1][:600]
    assessed = _guided().assess(query)
    return {
        "asks": bool(asks), "domain": assessed.domain.value, "scenario": assessed.group.replace("_", " "), "query": query,
        **{a.value: told.get(a.value) for a in Attribute},
    }  # fmt: skip
