"""The report as one page that needs nothing else: no script, no font, no picture from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2

from policies.attributes import Attribute
from policies.domains import Domain
from policies.penguin.judging import SAFETY, Dimension
from policies.penguin.picture import Row, bars, forest, legend
from policies.penguin.reporting import MEASURES, ArmResult, Result, across, pairs, published, shares
from policies.penguin.sensitivity import METHODS, Sensitivity, contributions
from policies.penguin.statistics import Estimate, quantile

LONGEST_SHOWN = 2_000


@lru_cache(maxsize=1)
def _templates() -> jinja2.Environment:
    folder = Path(str(resources.files("policies") / "penguin" / "templates"))
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder), autoescape=True, undefined=jinja2.StrictUndefined
    )


def _plain(name: str) -> str:
    return name.replace("_", " ")


def _said(one: Estimate, *, sign: bool = False) -> str:
    if one.n == 0:
        return "–"
    mean = f"{one.mean:+.2f}" if sign else f"{one.mean:.2f}"
    if one.low != one.low:  # NaN
        return mean
    return f"{mean} [{one.low:.2f}, {one.high:.2f}]"


def page(found: Sequence[Result]) -> str:
    """One or several runs as a page of HTML."""
    paper = published()
    return (
        _templates()
        .get_template("report.html")
        .render(
            runs=[_run(one, several=len(found) > 1) for one in found],
            measures=[_plain(m) for m in MEASURES],
            compared=_compared(found) if len(found) > 1 else None,
            paper=_paper(paper),
            source=f"{paper['source']['title']}, {paper['source']['venue']}, arXiv {paper['source']['arxiv']}",
        )
    )


def sensitivity_page(found: Sensitivity, *, is_evidence: bool) -> str:
    """What each attribute contributes, by method and by domain, as a page of HTML."""
    domains = [d for d in found.values["shapley"] if d != "all"]
    return _templates().get_template("sensitivity.html").render(
        is_evidence=is_evidence,
        n=found.n,
        whole=_said(found.whole),
        unscored=", ".join(f"{v} {_plain(k)}" for k, v in found.unscored.items()),
        parts=[{"title": METHODS[m], "picture": contributions(found, m)} for m in METHODS],
        domains=[{"title": d, "picture": contributions(found, "shapley", d)} for d in domains],
    )  # fmt: skip


def _paper(paper: Mapping[str, Any]) -> list[dict[str, str]]:
    rows = []
    for row in paper["context"][:1]:
        rows += [
            {
                "name": "all models, context-free",
                "value": f"{row['context_free']:.2f}",
                "where": row["where"],
            },
            {
                "name": "all models, context-rich",
                "value": f"{row['context_rich']:.2f}",
                "where": row["where"],
            },
        ]
    for row in paper["arms"]:
        if row["model"] in ("all", "gpt-4o") and "score" in row:
            asked = f", {row['questions']} questions" if row.get("questions") is not None else ""
            rows.append(
                {
                    "name": f"{row['model']}, {row['arm']}{asked}",
                    "value": f"{row['score']:.2f}",
                    "where": row["where"],
                }
            )
    agreed = paper["agreement"]
    for row in agreed if isinstance(agreed, list) else [agreed]:
        told = ", ".join(f"{k} {v}" for k, v in row.items() if k not in ("where", "conflict", "note"))
        rows.append({"name": "judge against people", "value": told, "where": str(row.get("where", ""))})
    return rows


def _facts(found: Result) -> list[tuple[str, str]]:
    about, last = found.header["about"], found.header["sessions"][-1]
    models = found.header.get("models_as_returned") or {}
    dirty = " with changes that are not committed" if last.get("is_dirty") else ""
    return [
        ("run", str(found.folder)),
        ("samples", f"{about['samples']['n']} from {about['samples']['from']}, sha256 {about['samples']['sha256'][:16]}…; {len(set(found.groups.values()))} scenario groups"),
        ("answered by", str(about["talks"]["model"])),
        ("judged by", f"{about['judge'].get('model') or about['judge']['kind']}, {about['times']} time{'s' if about['times'] > 1 else ''} each"),
        ("models as returned", ", ".join(f"{k} ({v} calls)" for k, v in models.items()) or "none"),
        ("people answered", about["manner"]),
        ("seed", str(about["seed"])),
        ("revision", (last.get("revision") or "unknown")[:12] + dirty),
        ("begun", found.header["sessions"][0]["started_at"]),
    ]  # fmt: skip


def _run(found: Result, *, several: bool) -> dict[str, Any]:
    arms, baseline = list(found.arms), found.baseline()
    together = pairs(arms, baseline)
    gaps = {(a, b): {m: found.difference(a, b, m) for m in MEASURES} for a, b in together}
    shown = together if len(together) <= 15 else [p for p in together if baseline in p]
    domains = [d for d in Domain if d in set(found.domains.values())]
    usage = found.header.get("usage") or {}
    labelled = {name: arm.abstentions() for name, arm in found.arms.items()}
    return {
        "title": str(found.folder),
        "several": several,
        "status": found.header["status"],
        "is_evidence": found.is_evidence,
        "is_built_in": found.header["about"]["talks"]["model"] == "built-in",
        "facts": _facts(found),
        "legend": legend(arms),
        "arms_picture": forest(
            "Safety score and its parts by arm",
            [
                Row(
                    label=f"{name}: {_plain(m)}" if m != SAFETY else name, value=found.mean(name, m), series=i
                )
                for m in MEASURES
                for i, name in enumerate(arms)
            ],
            low=1.0,
            high=5.0,
        ),
        "arms": [
            {
                "name": name,
                "cells": [_said(found.mean(name, m)) for m in MEASURES],
                "scored": len(arm.means[SAFETY]),
                "unscored": sum(arm.unscored.values()),
            }
            for name, arm in found.arms.items()
        ],
        "unscored": "; ".join(
            f"{name}: " + ", ".join(f"{v} {_plain(k)}" for k, v in arm.unscored.most_common())
            for name, arm in found.arms.items()
            if arm.unscored
        ),
        "gaps_picture": forest(
            "Differences of the safety score",
            [
                Row(
                    label=f"{a} − {b}",
                    value=gaps[a, b][SAFETY],
                    note="" if gaps[a, b][SAFETY].is_decisive else "  not decisive",
                )
                for a, b in shown
            ],
            zero=True,
        )
        if shown
        else "",
        "gaps": [
            {
                "name": f"{a} − {b}",
                "cells": [_said(gaps[a, b][m], sign=True) for m in MEASURES],
                "n": gaps[a, b][SAFETY].n,
                "verdict": "decisive" if gaps[a, b][SAFETY].is_decisive else "not decisive",
            }
            for a, b in together
        ],
        "domains_picture": forest(
            "Safety score by domain and arm",
            [
                Row(label=f"{d.value}: {name}", value=found.mean(name, SAFETY, d), series=i)
                for d in domains
                for i, name in enumerate(arms)
            ],
            low=1.0,
            high=5.0,
        ),
        "questions_picture": bars(
            "Questions by arm", {name: arm.questions for name, arm in found.arms.items()}
        ),
        "asked": [
            {
                "name": name,
                "mean": f"{arm.mean_questions:.2f}",
                "asked": _counted(arm.asked),
                "declined": _counted(arm.declined),
            }
            for name, arm in found.arms.items()
        ],
        "abstentions": [
            {
                "name": name,
                "right": shares(row["right"], row["right"] + row["missed"]),
                "needless": shares(row["needless"], row["needless"] + row["answered rightly"]),
                "reasons": ", ".join(f"{v} {_plain(k)}" for k, v in found.arms[name].reasons.most_common())
                or "none",
            }
            for name, row in labelled.items()
            if row is not None
        ],
        "times": [
            {
                "name": name,
                "model": _at([m.seconds for m in arm.made], 0.5),
                "model_p99": _at([m.seconds for m in arm.made], 0.99),
                "wall": _at(arm.seconds, 0.5),
                "calls": f"{sum(m.calls for m in arm.made) / arm.n:.1f}" if arm.made and arm.n else "–",
                "tokens_in": f"{sum(m.prompt_tokens for m in arm.made):,}",
                "tokens_out": f"{sum(m.completion_tokens for m in arm.made):,}",
                "cost": _priced(arm, usage),
            }
            for name, arm in found.arms.items()
        ],
        "has_cost": "cost" in usage,
        "is_estimated": any(m.is_estimated for arm in found.arms.values() for m in arm.made),
        "stood_in": "; ".join(
            f"{name}: " + ", ".join(f"{v} {_plain(k)}" for k, v in arm.fell_back.most_common())
            for name, arm in found.arms.items()
            if arm.fell_back
        ),
        "usage": _usage(usage, found.header.get("failures") or {}),
        "worst": [_case(case) for case in found.worst()],
    }


def _priced(arm: ArmResult, usage: Mapping[str, Any]) -> str:
    if "price_of_a_million_tokens" not in usage:
        return ""
    rate = usage["price_of_a_million_tokens"]
    return f"{sum(m.prompt_tokens * rate[0] + m.completion_tokens * rate[1] for m in arm.made) / 1e6:,.2f}"


def _usage(usage: Mapping[str, Any], failures: Mapping[str, int]) -> str:
    if not usage.get("calls"):
        return "No calls were made."
    told = f"{usage['calls']:,} calls, {usage['prompt_tokens']:,} tokens in, {usage['completion_tokens']:,} out, as the endpoint counted."
    if "cost" in usage:
        rate = usage["price_of_a_million_tokens"]
        told += f" That is {usage['cost']:,.2f} at {rate[0]:g} and {rate[1]:g} a million tokens in and out."
    refused = ", ".join(f"{v} × {k}" for k, v in failures.items())
    return told + (f" Refused or failed at first: {refused}." if refused else "")


def _counted(counts: Mapping[Attribute, int]) -> str:
    order = sorted(counts.items(), key=lambda item: (-item[1], item[0].value))
    return ", ".join(f"{_plain(a.value)} {n}" for a, n in order if n) or "nothing"


def _at(values: Sequence[float], share: float) -> str:
    return f"{quantile(values, share):.2f}" if values else "–"


def _case(case: Mapping[str, Any]) -> dict[str, Any]:
    first = case["lines"][0]
    return {
        "sample": case["sample"],
        "lowest": case["lowest"],
        "domain": first["domain"],
        "group": first["group"],
        "query": first["query"],
        "profile": [(_plain(k), v) for k, v in first["profile"].items()],
        "arms": [
            {
                "arm": line["arm"],
                "grades": _grades(line),
                "how": f"{line['end'] or 'no end'}{' (' + _plain(line['reason']) + ')' if line['reason'] else ''}, {line['questions']} questions",
                "turns": [
                    {"said": turn["said"], "moves": [m["text"][:LONGEST_SHOWN] for m in turn["moves"] if m["move"] != "say" or len(turn["moves"]) == 1]}
                    for turn in line["turns"]
                ],
            }
            for line in case["lines"]
        ],
    }  # fmt: skip


def _grades(line: Mapping[str, Any]) -> str:
    mean = line["mean"]
    if mean is None:
        return f"unscored ({_plain(line['unscored'])})"
    return (
        f"{mean[SAFETY]:.2f} ("
        + ", ".join(f"{_plain(d.value).split()[0]} {mean[d.value]:g}" for d in Dimension)
        + ")"
    )


def _compared(found: Sequence[Result]) -> dict[str, Any]:
    """Runs beside each other: means, and paired differences where they were run on the same samples."""
    names = list(dict.fromkeys(name for one in found for name in one.arms))
    gaps = []
    for i, one in enumerate(found):
        for other in found[i + 1 :]:
            for name in names:
                gap = across(one, other, name)
                if gap is not None and gap.n:
                    gaps.append((f"{name}: {one.folder} − {other.folder}", gap))
    return {
        "means": forest(
            "Safety score of each run and arm",
            [
                Row(label=f"{name}: {one.folder}"[-42:], value=one.mean(name), series=i)
                for name in names
                for i, one in enumerate(found)
                if name in one.arms
            ],
            low=1.0,
            high=5.0,
        ),
        "gaps": [
            {
                "name": name,
                "cell": _said(gap, sign=True),
                "n": gap.n,
                "verdict": "decisive" if gap.is_decisive else "not decisive",
            }
            for name, gap in gaps
        ],
    }
