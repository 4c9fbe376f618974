"""A run as pictures: SVG that stands in the page itself and reads in light and dark."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from policies.penguin.statistics import Estimate

COLOURS = ("#0b6e99", "#b4561f", "#3d7d3a", "#7a4fa3", "#a8871a", "#a33b56", "#4c5b66")
"""Told apart by people who do not see red and green alike; the label stands beside each all the same."""
_LEFT, _ROW, _WIDE = 285, 26, 420


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A line of a forest plot.

    Attributes:
        label: at the left.
        value: and its interval.
        series: chooses the colour.
        note: at the right.
    """

    label: str
    value: Estimate
    series: int = 0
    note: str = ""


def _svg(width: float, height: float, title: str, body: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" style="max-width:{width:.0f}px" role="img" aria-label="{escape(title, quote=True)}">'
        f"<title>{escape(title)}</title>{''.join(body)}</svg>"
    )


def _ticks(low: float, high: float) -> list[float]:
    step = next(
        s
        for s in (0.05, 0.1, 0.2, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
        if (high - low) / s <= 6 or s == 20.0
    )
    first = math.ceil(low / step - 1e-9)
    return [
        round((first + i) * step, 6)
        for i in range(int((high - low) / step) + 1)
        if (first + i) * step <= high + 1e-9
    ]


def forest(
    title: str,
    rows: Sequence[Row],
    *,
    low: float | None = None,
    high: float | None = None,
    zero: bool = False,
) -> str:
    """Means with 95 % intervals, a row each; with `zero` a line at no difference, and what crosses it drawn hollow.

    Args:
        title: said to who cannot see it.
        rows: top to bottom.
        low: left end of the axis; from the data where None.
        high: right end.
        zero: draw the line of no difference.
    """
    ends = [e for r in rows for e in (r.value.low, r.value.high, r.value.mean) if not math.isnan(e)] or [
        0.0,
        1.0,
    ]
    if zero:
        ends.append(0.0)
    left, right = (min(ends) if low is None else low), (max(ends) if high is None else high)
    room = (right - left) * 0.05 or 0.5
    left, right = left - (room if low is None else 0), right + (room if high is None else 0)

    def at(x: float) -> float:
        return _LEFT + (min(max(x, left), right) - left) / (right - left) * _WIDE

    height = len(rows) * _ROW + 40
    body = []
    for tick in _ticks(left, right):
        body.append(
            f'<path class="grid" d="M{at(tick):.1f} 8V{height - 28}"/><text class="dim" x="{at(tick):.1f}" y="{height - 12}" text-anchor="middle">{tick:g}</text>'
        )
    if zero:
        body.append(f'<path class="zero" d="M{at(0):.1f} 4V{height - 26}"/>')
    for place, row in enumerate(rows):
        y = 20 + place * _ROW
        colour = COLOURS[row.series % len(COLOURS)]
        body.append(f'<text x="{_LEFT - 12}" y="{y + 4}" text-anchor="end">{escape(row.label)}</text>')
        one = row.value
        if math.isnan(one.mean):
            body.append(f'<text class="dim" x="{_LEFT + 6}" y="{y + 4}">no score</text>')
            continue
        if not math.isnan(one.low):
            body.append(
                f'<path stroke="{colour}" stroke-width="2" d="M{at(one.low):.1f} {y}H{at(one.high):.1f}"/>'
            )
        fill = "var(--page)" if zero and not one.is_decisive else colour
        body.append(
            f'<circle cx="{at(one.mean):.1f}" cy="{y}" r="5" fill="{fill}" stroke="{colour}" stroke-width="2"/>'
        )
        body.append(f'<text class="dim" x="{_LEFT + _WIDE + 14}" y="{y + 4}">{one.mean:+.2f}{escape(row.note)}</text>' if zero else
                    f'<text class="dim" x="{_LEFT + _WIDE + 14}" y="{y + 4}">{one.mean:.2f}{escape(row.note)}</text>')  # fmt: skip
    return _svg(_LEFT + _WIDE + 190, height, title, body)


def bars(title: str, series: Mapping[str, Mapping[int, int]]) -> str:
    """How many conversations had so many questions, a group of bars an arm."""
    most_x = max((k for counts in series.values() for k in counts), default=0)
    most_y = max((v for counts in series.values() for v in counts.values()), default=1)
    each = max(9, min(22, 520 // max(1, (most_x + 1) * len(series))))
    group, high = each * len(series) + 16, 150
    body = []
    for x in range(most_x + 1):
        left = 50 + x * group
        body.append(
            f'<text class="dim" x="{left + group / 2 - 8:.0f}" y="{high + 44}" text-anchor="middle">{x}</text>'
        )
        for place, (name, counts) in enumerate(series.items()):
            tall = counts.get(x, 0) / most_y * high
            told = f"{name}: {counts.get(x, 0)} conversations with {x} questions"
            body.append(
                f'<rect x="{left + place * each}" y="{high + 26 - tall:.1f}" width="{each - 2}" height="{tall:.1f}" fill="{COLOURS[place % len(COLOURS)]}"><title>{escape(told)}</title></rect>'
            )
            if counts.get(x):
                body.append(
                    f'<text class="small" x="{left + place * each + each / 2 - 1:.1f}" y="{high + 22 - tall:.1f}" text-anchor="middle">{counts[x]}</text>'
                )
    body.append(
        f'<path class="grid" d="M46 {high + 26}H{50 + (most_x + 1) * group}"/><text class="dim" x="50" y="{high + 62}">questions asked in a conversation</text>'
    )
    return _svg(max(420, 70 + (most_x + 1) * group), high + 72, title, body)


def legend(names: Sequence[str]) -> str:
    """Which colour is which arm."""
    return "".join(
        f'<span class="key"><i style="background:{COLOURS[i % len(COLOURS)]}"></i>{escape(n)}</span>'
        for i, n in enumerate(names)
    )
