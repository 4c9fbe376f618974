"""The flow of participants as a picture: one column an arm, one box a step, as in a CONSORT diagram (CONSORT 2010, figure 1)."""

from __future__ import annotations

from collections.abc import Mapping

from markupsafe import escape

STEPS = (
    ("allocated", "allocated"), ("came", "came"), ("agreed", "agreed to chat"), ("chatted", "chatted"),
    ("withdrawn", "withdrew"), ("agreed to research", "in the analysis"),
)  # fmt: skip
"""Steps that are drawn, each with what is written in its box."""
WIDE, HIGH, GAP, LEFT, TOP = 190, 44, 26, 20, 60


def picture(flow: Mapping[tuple[str, str], int], *, title: str) -> str:
    """The flow as a self-contained SVG; a step that nobody of an arm has reached says 0.

    Args:
        flow: people by step and arm.
        title: of the study.
    """
    arms = sorted({arm for _, arm in flow})
    width = max(420, LEFT * 2 + len(arms) * (WIDE + GAP))
    height = TOP + 34 + len(STEPS) * (HIGH + GAP)
    parts = [f'<text class="title" x="{LEFT}" y="30">{escape(title)}</text>']
    for column, arm in enumerate(arms):
        x = LEFT + column * (WIDE + GAP)
        parts.append(
            f'<text class="arm" x="{x + WIDE / 2}" y="{TOP + 12}" text-anchor="middle">{escape(arm)}</text>'
        )
        for row, (step, words) in enumerate(STEPS):
            y = TOP + 28 + row * (HIGH + GAP)
            people = flow.get((step, arm), 0)
            kind = "out" if step == "withdrawn" else "box"
            parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{WIDE}" height="{HIGH}" rx="6"/>')
            parts.append(
                f'<text x="{x + WIDE / 2}" y="{y + 28}" text-anchor="middle">{escape(words)}: {people}</text>'
            )
            if row:
                middle = x + WIDE / 2
                parts.append(f'<line x1="{middle}" y1="{y - GAP}" x2="{middle}" y2="{y - 2}"/>')
    said = "; ".join(f"{arm}: " + ", ".join(f"{w} {flow.get((s, arm), 0)}" for s, w in STEPS) for arm in arms)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(said)}" viewBox="0 0 {width} {height}"'
        f' width="{width}" height="{height}"><style>text{{font:15px system-ui,sans-serif;fill:#17262d}}.title{{font-weight:700;'
        "font-size:18px}.arm{font-weight:700}rect{fill:#fdfcf8;stroke:#1b5c5f;stroke-width:1.5}.out{stroke-dasharray:5 4}"
        f'line{{stroke:#1b5c5f;stroke-width:1.5}}</style><rect width="{width}" height="{height}" style="stroke:none"/>'
        f"{''.join(parts)}</svg>\n"
    )
