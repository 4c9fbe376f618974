"""Plans as pictures: a policy tree, and the tables of `plan bench`, as SVG that reads in light and dark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from policies.planning.policy import Branch

STYLE = (
    "<style>.back{fill:#fff}text{font:13px system-ui,sans-serif;fill:#1d2b36}.dim{fill:#5b6b78}.band{font-size:11px}.box{fill:#eef4f8;stroke:#7d99ad}"
    ".line{stroke:#7d99ad;fill:none}.a{stroke:#0b6e99;fill:none;stroke-width:2}.dot{fill:#0b6e99}.bar{stroke:#0b6e99}"
    "@media(prefers-color-scheme:dark){.back{fill:#11181f}text{fill:#e6edf3}.dim{fill:#9fb0be}.box{fill:#1f2d38}.a,.bar{stroke:#6cc3ea}"
    ".dot{fill:#6cc3ea}}</style>"
)
_ROW, _COLUMN, _BOX = 40, 260, 150


def _svg(width: float, height: float, title: str, body: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
        f'aria-label="{escape(title, quote=True)}"><title>{escape(title)}</title>{STYLE}<rect class="back" width="100%" height="100%"/>{"".join(body)}</svg>\n'
    )


def _words(name: str) -> str:
    return name.replace("_", " ")


def tree_svg(tree: Branch, *, title: str) -> str:
    """A policy tree, root at the left; branches that ask the same are drawn once."""
    body: list[str] = []
    deepest = [0]

    def draw(branch: Branch, x: int, top: int) -> tuple[int, float]:
        """Draw a branch from row `top` on; the next free row, and the height of its own middle."""
        if branch.ask is None:
            return top, (top + 0.5) * _ROW
        deepest[0] = max(deepest[0], x)
        row, ends = top, []
        for bands, after in branch.together():
            begun = row
            row, middle = draw(after, x + 1, row)
            if after.ask is None:
                row, middle = begun, (begun + 0.5) * _ROW
            else:
                ends.append((bands, middle))
        row = max(row, top + 1)
        own = (ends[0][1] + ends[-1][1]) / 2 if ends else (top + 0.5) * _ROW
        left = x * _COLUMN + 10
        body.append(f'<rect class="box" x="{left}" y="{own + 26:.0f}" width="{_BOX}" height="26" rx="5"/>')
        body.append(f'<text x="{left + 8}" y="{own + 44:.0f}">{escape(_words(branch.ask.value))}</text>')
        for bands, middle in ends:
            start, end = left + _BOX, left + _COLUMN
            body.append(
                f'<path class="line" d="M{start} {own + 39:.0f} C{start + 30} {own + 39:.0f} {end - 40} {middle + 39:.0f} {end} {middle + 39:.0f}"/>'
            )
            if len(bands) < len(branch.after):
                body.append(
                    f'<text class="dim band" x="{end - 6}" y="{middle + 34:.0f}" text-anchor="end">'
                    f"{escape(', '.join(map(_words, bands)))}</text>"
                )
        return row, own

    rows, _ = draw(tree, 0, 0)
    shown = title if len(title) < 90 else title[:88] + "…"
    head = f'<text x="10" y="18">{escape(shown)}</text>'
    return _svg((deepest[0] + 1) * _COLUMN + 20, max(1, rows) * _ROW + 50, title, [head, *body])


def chart_svg(
    title: str,
    rows: Sequence[tuple[float, float, float, str]],
    *,
    across: str,
    up: str,
    is_joined: bool = True,
) -> str:
    """Points (x, y, standard error, label) with 95 % intervals."""
    xs, ys = [r[0] for r in rows], [y for r in rows for y in (r[1] - 1.96 * r[2], r[1] + 1.96 * r[2])]
    low_x, high_x, low_y, high_y = min(xs), max(xs), min(0.0, *ys), max(0.0, *ys)
    wide, high, left, top = 560.0, 280.0, 64.0, 34.0

    def at(x: float, y: float) -> tuple[float, float]:
        return (
            left + (x - low_x) / ((high_x - low_x) or 1) * wide,
            top + high - (y - low_y) / ((high_y - low_y) or 1) * high,
        )

    body = [f'<text x="{left}" y="20">{escape(title)}</text>']
    digits = 3 if high_y - low_y < 0.1 else 2
    for i in range(5):
        y = low_y + (high_y - low_y) * i / 4
        _, py = at(low_x, y)
        body.append(f'<path class="line" opacity=".4" d="M{left} {py:.1f}H{left + wide}"/>')
        body.append(
            f'<text class="dim" x="{left - 8}" y="{py + 4:.1f}" text-anchor="end">{y:.{digits}f}</text>'
        )
    points = [at(r[0], r[1]) for r in rows]
    if is_joined:
        body.append('<path class="a" d="M' + "L".join(f"{x:.1f} {y:.1f}" for x, y in points) + '"/>')
    for i in range(5):
        x = low_x + (high_x - low_x) * i / 4
        px, _ = at(x, low_y)
        body.append(
            f'<text class="dim" x="{px:.1f}" y="{top + high + 16}" text-anchor="middle" style="font-size:11px">{x:.2g}</text>'
        )
    last = -1e9
    for (x, y, se, label), (px, py) in zip(rows, points, strict=True):
        _, above = at(x, y + 1.96 * se)
        _, below = at(x, y - 1.96 * se)
        body.append(f'<path class="bar" d="M{px:.1f} {above:.1f}V{below:.1f}"/>')
        body.append(f'<circle class="dot" cx="{px:.1f}" cy="{py:.1f}" r="4"/>')
        if abs(px - last) > 44:
            body.append(
                f'<text x="{px + 6:.1f}" y="{py - 7:.1f}" style="font-size:11px">{escape(label)}</text>'
            )
            last = px
    body.append(
        f'<text class="dim" x="{left + wide / 2}" y="{top + high + 34}" text-anchor="middle">{escape(across)}</text>'
    )
    body.append(
        f'<text class="dim" x="14" y="{top + high / 2}" transform="rotate(-90 14 {top + high / 2})" text-anchor="middle">{escape(up)}</text>'
    )
    return _svg(left + wide + 90, top + high + 50, title, body)


def bars_svg(title: str, rows: Sequence[tuple[str, float, float, float]], *, unit: str) -> str:
    """Bars (name, mean, standard error, 90th percentile), longest scale shared."""
    longest = max(max(r[1] + 1.96 * r[2], r[3]) for r in rows) or 1.0
    wide, left = 420.0, 190.0
    body = [f'<text x="10" y="20">{escape(title)}</text>']
    tail = "; thin line: 90th percentile" if any(row[3] for row in rows) else ""
    for i, (name, mean, se, p90) in enumerate(rows):
        y = 36 + i * 28
        body.append(f'<text x="{left - 8}" y="{y + 15}" text-anchor="end">{escape(name)}</text>')
        body.append(
            f'<rect class="dot" opacity=".55" x="{left}" y="{y}" width="{mean / longest * wide:.1f}" height="20"/>'
        )
        low, high = (mean - 1.96 * se) / longest * wide, (mean + 1.96 * se) / longest * wide
        body.append(f'<path class="bar" stroke-width="2" d="M{left + low:.1f} {y + 10}H{left + high:.1f}"/>')
        if p90:
            body.append(f'<path class="line" d="M{left + p90 / longest * wide:.1f} {y}v20"/>')
        body.append(
            f'<text class="dim" x="{left + max(p90, mean + 1.96 * se) / longest * wide + 8:.1f}" y="{y + 15}">mean {mean:.1f} {escape(unit)}</text>'
        )
    body.append(
        f'<text class="dim" x="{left}" y="{36 + len(rows) * 28 + 16}" style="font-size:11px">bar: mean; thick line: 95 % interval{escape(tail)}</text>'
    )
    return _svg(left + wide + 110, 36 + len(rows) * 28 + 30, title, body)


def bench_svgs(found: Mapping[str, Any]) -> dict[str, str]:
    """The tables of `plan bench`, drawn, by file name."""
    out = {}
    if found.get("planners"):
        first = min(r["calls"] for r in found["planners"])
        rows = [
            (r["planner"], r["mean"], r["se"], r["p90"]) for r in found["planners"] if r["calls"] == first
        ]
        out["planners"] = bars_svg(
            f"Our own simulated world: gain lost by each planner at {first} calls a query", rows, unit="%"
        )
    if found.get("tree"):
        out["tree"] = chart_svg(
            "Policy tree against blind path",
            [(r["gating"], r["gain"], r["se"], f"{r['gain']:+.3f}") for r in found["tree"]],
            across="how strongly an answer changes what another fact is worth (0: not at all)",
            up="safety points gained",
        )
    if found.get("frontier"):
        out["frontier"] = chart_svg(
            "Safety gained against what is disclosed",
            [(r["disclosed"], r["safety"], r["se"], f"λ {r['lambda']:g}") for r in found["frontier"]],
            across="sum of the prices of what is asked",
            up="safety points over asking nothing",
        )
    if found.get("transfer"):
        out["transfer"] = bars_svg(
            "Gain lost, planned alone and after other queries of the domain",
            [
                row
                for r in found["transfer"]
                for row in (
                    (f"shared {r['shared']:g}, {r['calls']}: alone", r["alone"], 0.0, 0.0),
                    ("after", r["after"], r["se"], 0.0),
                )
            ],
            unit="%",
        )
    return out
