"""The auditor's report as one self-contained page, with its pictures as inline SVG: no script, no other file, printable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup, escape

from bot.web.pages import render
from privacy.posture import BROKEN, KEPT, UNCHECKED, Posture

_WIDTH, _ROW, _LEFT = 720, 24, 190


def audit_page(posture: Posture, *, about: dict[str, str]) -> str:
    """The page.

    Args:
        posture: the report.
        about: what it was made from: mode, title, release, data directory.
    """
    raw = posture.to_json()
    return render(
        "audit.html",
        r=raw,
        about=about,
        states={"kept": KEPT, "broken": BROKEN, "unchecked": UNCHECKED},
        ages=ages(raw["retention"]),
        names={digest: f"version {name}" for name, digest in raw["consent"]["texts"].items()},
        tables=_tables(raw["data_map"]),
        sweeps=columns(
            [
                (s["started_at"][:16].replace("T", " "), sum(s["deleted"].values()))
                for s in reversed(raw["sweeps"][:40])
            ],
            what="rows deleted by each of the last sweeps",
        ),
        coming=columns(_by_day(raw["coming"]), what="rows whose time will be up, by day, within 30 days"),
    )


def _tables(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The record of processing by table, its columns in a list; sealed ones with a star."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        table = found.setdefault((row["file"], row["table"]), {**row, "columns": []})
        if row["column"]:
            table["columns"].append(row["column"] + ("*" if row["sealed"] else ""))
    return list(found.values())


def _by_day(rows: Sequence[dict[str, Any]]) -> list[tuple[str, int]]:
    days: dict[str, int] = {}
    for row in rows:
        days[row["day"]] = days.get(row["day"], 0) + row["rows"]
    return sorted(days.items())


def ages(rows: Sequence[dict[str, Any]]) -> Markup:
    """The age of the oldest record of each category, against how long it may live."""
    parts = []
    shown = [row for row in rows if row["rows"]]
    for number, row in enumerate(shown):
        y = number * _ROW
        limit = row["limit_days"] or row["age_days"] or 1.0
        wide = min(1.0, row["age_days"] / limit) * (_WIDTH - _LEFT - 170)
        kind = "bad" if row["overdue"] or row["too_long"] else "good"
        label = f"{row['category'].replace('_', ' ')} ({row['rows']:,})"
        told = f"{row['age_days']:g} of {limit:g} days"
        if row["category"] == "participant":
            wide, told = 0.0, "as long as anything else"
        parts.append(
            f'<text x="{_LEFT - 8}" y="{y + 16}" text-anchor="end">{escape(label)}</text>'
            f'<rect class="rail" x="{_LEFT}" y="{y + 5}" width="{_WIDTH - _LEFT - 170}" height="14" rx="3"/>'
            f'<rect class="{kind}" x="{_LEFT}" y="{y + 5}" width="{max(2.0, wide):.1f}" height="14" rx="3"/>'
            f'<text x="{_WIDTH - 155}" y="{y + 16}">{escape(told)}</text>'
        )
    if not shown:
        return Markup("<p>Nothing is held.</p>")
    return _svg(
        "".join(parts), len(shown) * _ROW + 4, "age of the oldest record of each kind against its limit"
    )


def columns(rows: Sequence[tuple[str, int]], *, what: str) -> Markup:
    """Upright bars, each with its number and the first and last label."""
    if not rows:
        return Markup("<p>None.</p>")
    most = max([1, *(n for _, n in rows)])
    step = min(64.0, (_WIDTH - 20) / len(rows))
    parts = []
    for number, (label, count) in enumerate(rows):
        high = 90 * count / most
        x = 10 + number * step
        parts.append(
            f'<g><title>{escape(label)}: {count:,}</title><rect class="good" x="{x:.1f}" y="{112 - high:.1f}"'
            f' width="{max(2.0, step - 4):.1f}" height="{max(1.0, high):.1f}"/></g>'
        )
        if len(rows) <= 16:
            parts.append(
                f'<text x="{x + step / 2 - 2:.1f}" y="{106 - high:.1f}" text-anchor="middle">{count:,}</text>'
            )
    end = 10 + len(rows) * step
    parts.append(f'<text x="10" y="130">{escape(rows[0][0])}</text>')
    if len(rows) > 1:
        anchor = "end" if end > 300 else "start"
        parts.append(
            f'<text x="{max(end, 170):.1f}" y="130" text-anchor="{anchor}">{escape(rows[-1][0])}</text>'
        )
    parts.append(f'<line class="rail" x1="8" y1="112.5" x2="{max(end, 200):.1f}" y2="112.5"/>')
    return _svg("".join(parts), 138, what)


def _svg(inside: str, high: int, what: str) -> Markup:
    return Markup(  # noqa: S704 (labels are escaped where they are put in)
        f'<svg role="img" aria-label="{escape(what)}" viewBox="0 0 {_WIDTH} {high}" width="100%">{inside}</svg>'
    )
