"""Scenarios from raw posts: redact, read out the attributes, keep those that tell enough; and say what that leaves out.

The paper's Reddit half kept 0.4 % of the posts, those that tell at least seven of the ten attributes (appendix B). Who tells so
much of themselves is not everybody who asks: the counts at each stage, and how often each attribute was told before and after,
go beside the samples so that this can be reported.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, create_model

from policies.attributes import Attribute
from policies.domains import Domain
from policies.errors import Unscored
from policies.penguin.judging import prompt
from policies.penguin.scenarios import BadRow, Sample
from policies.planning.journal import Journal
from policies.planning.reward import TextModel

LEAST_ATTRIBUTES = 7
"""Of ten, as the paper wants (appendix B)."""
SHORTEST, LONGEST = 80, 12_000
"""Characters of a post that can be used."""
STAGES = ("read", "usable length", "redacted", "asks for advice", "complete enough", "kept")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


Extracted: type[BaseModel] = create_model(
    "Extracted",
    __base__=_Strict,
    asks=(bool, ...),
    domain=(Domain, ...),
    scenario=(str, Field(min_length=1, max_length=120)),
    query=(str, Field(min_length=1, max_length=800)),
    **{a.value: (str | None, ...) for a in Attribute},
)  # type: ignore[call-overload]
"""What a post tells; null where it says nothing."""

Extract = Callable[[str], Awaitable[Mapping[str, Any]]]
"""Reads a redacted post into the fields of `Extracted`; raises `Unscored` where it cannot."""
Redact = Callable[[str], Awaitable[str]]
"""A post without personal data; raises where it cannot be made safe. Handed in."""


def by_model(model: TextModel) -> Extract:
    """A model reads the posts."""

    async def extract(post: str) -> Mapping[str, Any]:
        name = hashlib.sha256(post.encode("utf-8", "replace")).hexdigest()[:16]
        found = await model.shaped(prompt("extract").text, {"post": post}, Extracted, key=name)
        return found.model_dump(mode="json")

    return extract


@dataclass(slots=True)
class Funnel:
    """What each stage left over.

    Attributes:
        stages: posts that reached each stage.
        lost: posts that went no further, by why.
        told: how often each attribute was told among those that ask for advice.
        told_kept: the same among those kept.
        domains: of those that ask.
        domains_kept: of those kept.
        bad: rows that are no posts.
    """

    stages: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    told: Counter[Attribute] = field(default_factory=Counter)
    told_kept: Counter[Attribute] = field(default_factory=Counter)
    domains: Counter[Domain] = field(default_factory=Counter)
    domains_kept: Counter[Domain] = field(default_factory=Counter)
    bad: list[BadRow] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """As numbers."""
        read, kept = self.stages["read"], self.stages["kept"]
        return {
            "stages": {s: self.stages[s] for s in STAGES},
            "kept_share": round(kept / read, 5) if read else None,
            "lost": dict(self.lost),
            "told_before": {a.value: _share(self.told[a], self.stages["asks for advice"]) for a in Attribute},
            "told_after": {a.value: _share(self.told_kept[a], kept) for a in Attribute},
            "domains_before": {d.value: self.domains[d] for d in Domain},
            "domains_after": {d.value: self.domains_kept[d] for d in Domain},
        }


def _share(k: int, n: int) -> float | None:
    return round(k / n, 4) if n else None


def text_of_post(raw: Mapping[str, Any]) -> str | None:
    """A post's words: `text`, or `title` and `selftext` as Reddit calls them; None where it has none."""
    if isinstance(raw.get("text"), str):
        return str(raw["text"]).strip()
    parts = [raw[k] for k in ("title", "selftext", "body") if isinstance(raw.get(k), str)]
    return "\n\n".join(parts).strip() if parts else None


async def from_posts(
    rows: Iterable[tuple[int, Mapping[str, Any] | BadRow]],
    *,
    file: str,
    redact: Redact,
    extract: Extract,
    journal: Journal | None,
    least: int = LEAST_ATTRIBUTES,
    licence: str = "not stated",
    at_once: int = 8,
    told: Callable[[Funnel], None] = lambda _: None,
) -> tuple[list[Sample], Funnel]:
    """Samples from posts, and what was lost on the way.

    Nothing of a post goes to `extract` or into the journal before it was redacted.

    Args:
        rows: line numbers and posts; taken one at a time, as there may be hundreds of thousands.
        file: their name.
        redact: takes personal data out.
        extract: reads attributes.
        journal: keeps what was read, so that nothing is paid for twice.
        least: attributes that must be told.
        licence: of the posts.
        at_once: posts under way together.
        told: is told of progress.
    """
    funnel, todo = Funnel(), iter(rows)
    found: dict[int, Sample] = {}

    async def one(number: int, raw: Mapping[str, Any] | BadRow) -> None:
        if isinstance(raw, BadRow):
            funnel.bad.append(raw)
            return
        post = text_of_post(raw)
        if post is None:
            funnel.bad.append(BadRow(file=file, line=number, field="text", problem="is missing"))
            return
        funnel.stages["read"] += 1
        if not SHORTEST <= len(post) <= LONGEST:
            funnel.lost["too short or too long"] += 1
            return
        funnel.stages["usable length"] += 1
        sample = await _one(post, redact, extract, journal, funnel, least, licence, file)
        if sample is not None:
            found[number] = sample
        told(funnel)

    async def work() -> None:
        for number, raw in todo:
            await one(number, raw)

    await asyncio.gather(*(work() for _ in range(at_once)))
    kept: dict[str, Sample] = {}
    for number in sorted(found):
        sample = found[number]
        if sample.query.lower() in kept:
            funnel.lost["a copy of another"] += 1
            continue
        kept[sample.query.lower()] = sample
        funnel.stages["kept"] += 1
        funnel.told_kept.update(list(sample.profile))
        funnel.domains_kept[sample.domain] += 1
    return list(kept.values()), funnel


async def _one(  # noqa: PLR0917
    post: str,
    redact: Redact,
    extract: Extract,
    journal: Journal | None,
    funnel: Funnel,
    least: int,
    licence: str,
    file: str,
) -> Sample | None:
    try:
        safe = await redact(post)
    except Exception:  # noqa: BLE001 (its message may hold the post)
        funnel.lost["could not be redacted"] += 1
        return None
    funnel.stages["redacted"] += 1
    name = hashlib.sha256(safe.encode("utf-8", "replace")).hexdigest()[:16]
    try:
        made = (
            await journal.once(name)("extract", lambda: _read(extract, safe))
            if journal
            else await _read(extract, safe)
        )
    except Unscored as failed:
        funnel.lost[f"not read: {failed.reason}"] += 1
        return None
    if not made["asks"]:
        funnel.lost["asks for no advice"] += 1
        return None
    domain = Domain(made["domain"])
    profile = {a: str(made[a.value]).strip()[:400] for a in Attribute if made.get(a.value)}
    funnel.stages["asks for advice"] += 1
    funnel.told.update(list(profile))
    funnel.domains[domain] += 1
    if len(profile) < least:
        funnel.lost[f"tells fewer than {least} attributes"] += 1
        return None
    funnel.stages["complete enough"] += 1
    return Sample(
        id="post-" + name[:12],
        domain=domain,
        group=str(made["scenario"])[:200],
        query=str(made["query"])[:800],
        profile=profile,
        source=f"posts of {file.rsplit('/', 1)[-1]}, redacted",
        licence=licence,
    )


async def _read(extract: Extract, safe: str) -> dict[str, Any]:
    return dict(await extract(safe))
