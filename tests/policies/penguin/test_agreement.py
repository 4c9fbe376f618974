"""Judge against people: what agrees is said to agree, and a rater can see neither arm nor grade."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from policies.errors import PenguinError
from policies.penguin import agreement as agreeing
from policies.penguin import bias
from policies.penguin.judging import Dimension, HeuristicJudge
from policies.penguin.reporting import result
from policies.penguin.runlog import Hold, RunLog
from policies.penguin.scenarios import shipped_samples

AT = datetime(2026, 11, 30, tzinfo=UTC)


def a_run(
    folder: Path,
    *,
    arms: tuple[str, ...] = ("vanilla", "raise"),
    model: str = "m",
    judge: str = "j",
    bonus: float = 0.0,
) -> Path:
    """A finished run with grades of its own."""
    rng = np.random.default_rng(9)
    about = {
        "samples": {"from": "x", "sha256": "0", "n": 70, "left_out": 0}, "arms": list(arms), "seed": 0, "times": 1, "manner": "plain",
        "talks": {"model": model}, "judge": {"kind": "model", "model": judge},
    }  # fmt: skip
    hold = Hold(folder)
    log = RunLog(hold, about, {}, at=AT)
    order = {}
    for s in shipped_samples().samples:
        for arm in arms:
            grades = {d.value: int(np.clip(rng.integers(1, 6) + bonus, 1, 5)) for d in Dimension}
            mean = {k: float(v) for k, v in grades.items()}
            record = {
                "sample": s.id, "arm": arm, "domain": s.domain.value, "group": s.group, "handling": "", "query": s.query, "reason": "",
                "profile": {a.value: w for a, w in s.profile.items()}, "end": "answer", "answer": f"=Reply for {s.id}", "questions": 0,
                "asked": [], "declined": [], "fell_back": {}, "turns": [], "scores": [grades], "unscored": "", "mean": mean | {"safety": sum(mean.values()) / 3},
            }  # fmt: skip
            log.add(record, seconds=0.1)
            order[f"{s.id}/{arm}"] = len(order)
    log.close("done", {}, order, at=AT)
    hold.close()
    return folder


def filled(sheet: Path, run: Path, raters: dict[str, int]) -> Path:
    """A sheet that each rater filled with the judge's grade, moved by so much on every fourth item."""
    judged, key = agreeing.judge_grades(run), agreeing.read_key(run)
    rows = list(csv.DictReader(io.StringIO(sheet.read_text())))
    path = sheet.with_name("filled.csv")
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        for rater, off in raters.items():
            for place, row in enumerate(rows):
                grades = {
                    d.value: str(
                        int(np.clip(judged[d][key[row["item"]]][0] + (off if place % 4 == 0 else 0), 1, 5))
                    )
                    for d in Dimension
                }
                writer.writerow({**row, "rater": rater, **grades})
    return path


def test_the_sheet_is_blind(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    sheet = tmp_path / "sheet.csv"
    assert agreeing.sheet(run, sheet, count=40, seed=1) == 40
    text = sheet.read_text()
    assert "vanilla" not in text and "raise" not in text
    rows = list(csv.DictReader(io.StringIO(sheet.read_text())))
    assert all(not r[d.value] for r in rows for d in Dimension) and all(
        r["reply"].startswith("'=") for r in rows
    )
    key = json.loads((run / agreeing.KEY).read_text())
    arms = [k.split("/")[1] for k in key.values()]
    assert arms.count("raise") == arms.count("vanilla") == 20 and arms != sorted(arms)


def test_people_who_grade_like_the_judge_agree_with_it(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    agreeing.sheet(run, tmp_path / "sheet.csv", count=60, seed=1)
    ratings = agreeing.read_ratings(filled(tmp_path / "sheet.csv", run, {"A": 0, "B": 0}))
    for one in agreeing.agreement(ratings, agreeing.read_key(run), agreeing.judge_grades(run)):
        assert {k: v.mean for k, v in one.measures.items()} == pytest.approx(dict.fromkeys(one.measures, 1.0))


def test_near_misses_cost_the_unweighted_kappa_more(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    agreeing.sheet(run, tmp_path / "sheet.csv", count=80, seed=1)
    ratings = agreeing.read_ratings(filled(tmp_path / "sheet.csv", run, {"A": 1, "B": 1, "C": -1}))
    for one in agreeing.agreement(ratings, agreeing.read_key(run), agreeing.judge_grades(run)):
        m = one.measures
        assert m["kappa"].mean < m["kappa_linear"].mean < m["kappa_quadratic"].mean < 1
        assert (
            m["kappa"].low < m["kappa"].mean < m["kappa"].high and 0 < m["alpha"].mean < 1 and one.people == 3
        )


def test_a_second_sheet_does_not_mix_up_the_first(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    agreeing.sheet(run, tmp_path / "sheet.csv", count=30, seed=1)
    first = filled(tmp_path / "sheet.csv", run, {"A": 0})
    agreeing.sheet(run, tmp_path / "other.csv", count=20, seed=2)
    for one in agreeing.agreement(
        agreeing.read_ratings(first), agreeing.read_key(run), agreeing.judge_grades(run)
    ):
        assert one.measures["kappa"].mean == pytest.approx(1.0) and one.measures["kappa"].n == 30


def test_two_people_do_not_count_as_the_milder_of_them(tmp_path: Path) -> None:
    """A judge that is right between two people is not called too mild: their median is the mean of the two."""
    items = [((g,), {"A": g - 1, "B": g + 1}) for g in (2, 3, 4, 2, 3, 4)]
    assert agreeing._correlation(items, "pearson") == pytest.approx(1.0)
    assert (
        agreeing._kappa(
            [((4,), {"A": 4, "B": 5}), ((3,), {"A": 3, "B": 5}), ((2,), {"A": 2})], weights="none"
        )
        < 1
    )


def test_correlations_are_what_scipy_says() -> None:
    from scipy import stats

    rng = np.random.default_rng(2)
    items = [((int(g),), {"A": int(np.clip(g + rng.integers(-1, 2), 1, 5))}) for g in rng.integers(1, 6, 60)]
    one, other = [g[0] for g, _ in items], [by["A"] for _, by in items]
    assert agreeing._correlation(items, "pearson") == pytest.approx(stats.pearsonr(one, other).statistic)
    assert agreeing._correlation(items, "spearman") == pytest.approx(stats.spearmanr(one, other).statistic)


def test_items_may_be_named_by_sample_and_arm(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    path = tmp_path / "h.csv"
    path.write_text(
        "item,rater,risk_sensitivity,emotional_empathy,user_specific_alignment\nlife-01/raise,A,3,3,3\n"
    )
    (one, *_) = agreeing.agreement(
        agreeing.read_ratings(path), agreeing.read_key(run), agreeing.judge_grades(run)
    )
    assert one.measures["pearson"].n == 1
    path.write_text("item,rater,risk_sensitivity,emotional_empathy,user_specific_alignment\nnobody,A,3,3,3\n")
    with pytest.raises(PenguinError, match="no rated item was judged"):
        agreeing.agreement(agreeing.read_ratings(path), agreeing.read_key(run), agreeing.judge_grades(run))


def test_a_bad_grade_is_named_and_left_out(tmp_path: Path) -> None:
    path = tmp_path / "h.csv"
    path.write_text(
        "item,rater,risk_sensitivity,emotional_empathy,user_specific_alignment\ni,A,6,3,\ni,A,2,3,4\nj,A,x,,\n"
    )
    found = agreeing.read_ratings(path)
    assert [(b.line, b.field) for b in found.bad] == [
        (2, "risk_sensitivity"),
        (3, "item"),
        (4, "risk_sensitivity"),
    ]
    path.write_text("item,rater,risk_sensitivity,emotional_empathy,user_specific_alignment\ni,A,,,\n")
    with pytest.raises(PenguinError, match="holds no grade"):
        agreeing.read_ratings(path)


def test_a_judge_that_prefers_its_own_model_is_found_and_a_milder_one_is_not(tmp_path: Path) -> None:
    def four(own: float, mild: float) -> list:
        return [
            result(
                a_run(
                    tmp_path / f"{own}{mild}{m}{j}",
                    model=m,
                    judge=j,
                    bonus=(own if m == j else 0) + (mild if j == "b" else 0),
                )
            )
            for m in "ab"
            for j in "ab"
        ]

    partial = bias.self_preference(four(1.0, 0.0))
    fair = bias.self_preference(four(0.0, 1.0))
    assert partial is not None and partial.is_decisive and partial.mean > 0.5
    assert fair is not None and not fair.is_decisive and abs(fair.mean) < 1e-9
    assert bias.self_preference(four(1.0, 0.0)[:3]) is None


async def test_the_heuristic_judge_is_not_swayed_by_empty_sentences(tmp_path: Path) -> None:
    checks, samples = bias.Checks(), shipped_samples().samples[:4]
    lines = [
        {"sample": s.id, "arm": "x", "group": s.group, "answer": "I'm sorry, that is hard. Call your doctor."}
        for s in samples
    ]
    await bias.verbosity(lines, {s.id: s for s in samples}, HeuristicJudge(), checks)
    assert checks.verbosity is not None and checks.verbosity.mean == 0 and checks.verbosity.n == 4
