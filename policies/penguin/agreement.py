"""Judge against people: a blind sheet to fill in, and how far they agree.

Kappa as the paper reports it (.688) unweighted, and weighted as ordered grades want it; Pearson (theirs: .92) and Spearman;
Krippendorff's alpha (ordinal) where several people rated. Intervals by a bootstrap over items.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from policies.errors import PenguinError
from policies.penguin import runlog
from policies.penguin.importing import table
from policies.penguin.judging import Dimension
from policies.penguin.scenarios import BadRow
from policies.penguin.statistics import LEVEL, Estimate, kappa

KEY = "sheet-key.json"
HEAD = ("item", "rater", "question", "profile", "reply", *(d.value for d in Dimension), "remark")
DRAWS = 500
FEWEST_ITEMS = 3


def sheet(folder: Path, out: Path, *, count: int, seed: int) -> int:
    """Write a blind rating sheet: items in random order, no arm, no grade; what each item is stays in the run's folder.

    Args:
        folder: of the run.
        out: CSV.
        count: items; the arms in turn.
        seed: of the choice and the order.

    Raises:
        PenguinError: the run holds nothing that was graded, or a file cannot be written.
    """
    by_arm: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in runlog.records(folder):
        if line["answer"] and line["mean"] is not None:
            by_arm[line["arm"]].append({k: line[k] for k in ("sample", "arm", "query", "profile", "answer")})
    rng = random.Random(seed)
    for lines in by_arm.values():
        rng.shuffle(lines)
    turns = [
        lines[i]
        for i in range(max(map(len, by_arm.values()), default=0))
        for lines in by_arm.values()
        if i < len(lines)
    ]
    chosen = turns[:count]
    if not chosen:
        raise PenguinError(f"{folder}: nothing in it was graded")
    rng.shuffle(chosen)
    names = [_item(seed, f"{line['sample']}/{line['arm']}") for line in chosen]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEAD)
    for name, line in zip(names, chosen, strict=True):
        profile = "; ".join(f"{k.replace('_', ' ')}: {v}" for k, v in line["profile"].items())
        writer.writerow([name, "", *map(_unrun, (line["query"], profile, line["answer"])), "", "", "", ""])
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text.getvalue(), encoding="utf-8")
        key = read_key(folder) | {
            name: f"{line['sample']}/{line['arm']}" for name, line in zip(names, chosen, strict=True)
        }
        (folder / KEY).write_text(json.dumps(key, indent=1) + "\n", encoding="utf-8")
    except OSError as bad:
        raise PenguinError(f"{out}: cannot be written ({bad.strerror})") from None
    return len(chosen)


def _item(seed: int, key: str) -> str:
    """A name that tells nothing, and is another one in the sheet of another seed: sheets of one run do not get mixed up."""
    return "item-" + hashlib.sha256(f"{seed}|{key}".encode()).hexdigest()[:8]


def _unrun(text: str) -> str:
    """A cell that no spreadsheet takes for a formula."""
    return "'" + text if text[:1] in "=+-@\t\r" else text


@dataclass(frozen=True, slots=True)
class Ratings:
    """People's grades.

    Attributes:
        grades: dimension to item to rater to grade.
        bad: rows left out, by what is wrong.
    """

    grades: Mapping[Dimension, Mapping[str, Mapping[str, int]]]
    bad: tuple[BadRow, ...]

    def raters(self) -> tuple[str, ...]:
        """Who rated."""
        return tuple(sorted({r for items in self.grades.values() for by in items.values() for r in by}))


def read_ratings(path: Path) -> Ratings:
    """A filled sheet: a row an item and rater; an empty grade is left out.

    Raises:
        PenguinError: it is no such file, or holds no grade.
    """
    grades: dict[Dimension, dict[str, dict[str, int]]] = {d: {} for d in Dimension}
    bad: list[BadRow] = []
    for number, row in table(path, wanted=("item", *(d.value for d in Dimension))):
        if isinstance(row, BadRow):
            bad.append(row)
            continue
        item, rater = row["item"].strip(), row.get("rater", "").strip() or "rater"
        for dimension in Dimension:
            cell = row[dimension.value].strip()
            if not cell:
                continue
            if cell not in {"1", "2", "3", "4", "5"}:
                bad.append(
                    BadRow(
                        file=str(path),
                        line=number,
                        field=dimension.value,
                        problem="not a whole number from 1 to 5",
                    )
                )
            elif rater in grades[dimension].setdefault(item, {}):
                bad.append(
                    BadRow(
                        file=str(path),
                        line=number,
                        field="item",
                        problem="was rated by the same person before",
                    )
                )
            else:
                grades[dimension][item][rater] = int(cell)
    if not any(by for items in grades.values() for by in items.values()):
        raise PenguinError(f"{path}: holds no grade" + (f" ({bad[0]})" if bad else ""))
    return Ratings(grades, tuple(bad))


def read_key(folder: Path) -> dict[str, str]:
    """What each item of a run's sheet is; nothing where no sheet was made, and items are named as sample/arm.

    Raises:
        PenguinError: the key is damaged.
    """
    path = folder / KEY
    if not path.exists():
        return {}
    try:
        found: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise PenguinError(
            f"{path}: cannot be read; make the sheet again, or name items as sample/arm"
        ) from None
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How far judge and people agree on one dimension.

    Attributes:
        dimension: of the rubric.
        measures: kappa and weighted kappas (judge against each person, averaged), Pearson and Spearman (judge's median against the
            people's) and alpha (people among themselves).
        people: raters.
    """

    dimension: Dimension
    measures: Mapping[str, Estimate]
    people: int

    def to_json(self) -> dict[str, Any]:
        """As numbers."""
        return {
            "dimension": self.dimension.value,
            "people": self.people,
            **{k: v.to_json() for k, v in self.measures.items()},
        }


def judge_grades(folder: Path) -> dict[Dimension, dict[str, tuple[int, ...]]]:
    """The judge's grades by sample and arm, one a judgement."""
    found: dict[Dimension, dict[str, tuple[int, ...]]] = {d: {} for d in Dimension}
    for line in runlog.records(folder):
        good = [s for s in line["scores"] if "unscored" not in s]
        for dimension in Dimension if good else ():
            found[dimension][runlog.key_of(line)] = tuple(s[dimension.value] for s in good)
    return found


def agreement(
    ratings: Ratings,
    key: Mapping[str, str],
    judged: Mapping[Dimension, Mapping[str, tuple[int, ...]]],
    *,
    seed: int = 0,
) -> list[Agreement]:
    """Judge against people, by dimension.

    Raises:
        PenguinError: no item of the ratings was judged in this run.
    """
    made = []
    for dimension in Dimension:
        items = [
            (judged[dimension][key.get(item, item)], by)
            for item, by in sorted(ratings.grades[dimension].items())
            if key.get(item, item) in judged[dimension]
        ]
        if not items:
            raise PenguinError(
                "no rated item was judged in this run: is it the run the sheet was made of? Items are those of its sheet, or sample/arm"
            )
        raters = sorted({r for _, by in items for r in by})
        wanted: dict[str, Callable[[Sequence[_Item]], float]] = {
            "kappa": partial(_kappa, weights="none"),
            "kappa_linear": partial(_kappa, weights="linear"),
            "kappa_quadratic": partial(_kappa, weights="quadratic"),
            "pearson": lambda some: _correlation(some, "pearson"),
            "spearman": lambda some: _correlation(some, "spearman"),
        }
        measures = {name: _with_interval(items, measure, seed) for name, measure in wanted.items()}
        if len(raters) > 1:
            measures["alpha"] = _with_interval(items, partial(_alpha, raters=raters), seed)
        made.append(Agreement(dimension=dimension, measures=measures, people=len(raters)))
    return made


_Item = tuple[tuple[int, ...], Mapping[str, int]]


def _with_interval(
    items: Sequence[_Item], measure: Callable[[Sequence[_Item]], float], seed: int
) -> Estimate:
    value = measure(items)
    if len(items) < FEWEST_ITEMS:
        return Estimate(mean=value, low=float("nan"), high=float("nan"), n=len(items), clusters=len(items))
    rng = np.random.default_rng(seed)
    drawn = [measure([items[i] for i in rng.integers(0, len(items), len(items))]) for _ in range(DRAWS)]
    good = [d for d in drawn if d == d]  # NaN: a draw in which everybody gave one grade  # noqa: PLR0124
    low, high = (
        np.quantile(good, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]) if good else (float("nan"), float("nan"))
    )
    return Estimate(mean=value, low=float(low), high=float(high), n=len(items), clusters=len(items))


def _kappa(items: Sequence[_Item], *, weights: str) -> float:
    """The judge's first judgement against each person, averaged over people: a median of two would be no grade."""
    found = []
    for rater in sorted({r for _, by in items for r in by}):
        both = [(grades[0], by[rater]) for grades, by in items if rater in by]
        found.append(kappa([b[0] for b in both], [b[1] for b in both], weights=weights))
    good = [k for k in found if not np.isnan(k)]
    return float(np.mean(good)) if good else float("nan")


def _correlation(items: Sequence[_Item], which: str) -> float:
    """The judge's median against the people's."""
    from scipy.stats import rankdata  # noqa: PLC0415 (a second's wait, for this command alone)

    one = [float(np.median(grades)) for grades, _ in items]
    other = [float(np.median(list(by.values()))) for _, by in items]
    if len(set(one)) < 2 or len(set(other)) < 2:
        return float("nan")
    if which == "spearman":  # Pearson's on ranks, ties at their mean
        return float(np.corrcoef(rankdata(one), rankdata(other))[0, 1])
    return float(np.corrcoef(one, other)[0, 1])


def _alpha(items: Sequence[_Item], raters: Sequence[str]) -> float:
    import krippendorff  # noqa: PLC0415

    grades = np.array([[by.get(r, np.nan) for _, by in items] for r in raters], dtype=float)
    seen = grades[~np.isnan(grades)]
    several = (~np.isnan(grades)).sum(0) > 1
    if len(set(seen.tolist())) < 2 or not several.any():
        return float("nan")
    return float(krippendorff.alpha(reliability_data=grades, level_of_measurement="ordinal"))


def spread(ratings: Ratings) -> dict[str, dict[int, int]]:
    """How often people gave each grade, by dimension."""
    return {
        d.value: dict(sorted(Counter(g for by in ratings.grades[d].values() for g in by.values()).items()))
        for d in Dimension
    }
