"""Intervals that know of clusters, kappa as others compute it, and differences that do not pretend."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from policies.penguin.statistics import difference, estimate, kappa, wilson


def clustered(seed: int, *, groups: int = 20, each: int = 10) -> tuple[dict[str, float], dict[str, str]]:
    rng = np.random.default_rng(seed)
    values, of = {}, {}
    for g in range(groups):
        middle = rng.normal(3, 1)
        for i in range(each):
            values[f"{g}-{i}"], of[f"{g}-{i}"] = float(middle + rng.normal(0, 0.1)), str(g)
    return values, of


def test_samples_of_one_scenario_do_not_count_as_many() -> None:
    values, of = clustered(1)
    honest, naive = estimate(values, of), estimate(values, {k: k for k in values})
    assert honest.mean == naive.mean and honest.clusters == 20 and naive.clusters == 200
    assert honest.high - honest.low > 2.5 * (naive.high - naive.low)


def test_an_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    held = 0
    for seed in range(200):
        values, of = clustered(seed, groups=25, each=4)
        one = estimate(values, of, draws=600)
        held += one.low <= 3 <= one.high
    assert 0.88 <= held / 200 <= 0.99


def test_a_difference_takes_the_samples_that_both_have() -> None:
    found = difference({"a": 4.0, "b": 3.0, "c": 5.0}, {"a": 3.0, "b": 2.0, "d": 1.0}, {})
    assert found.n == 2 and found.mean == 1.0


def test_few_samples_that_differ_are_not_decisive_however_short_the_interval() -> None:
    """Four of twenty-eight that all go one way: chance alone does that one time in eight."""
    one = {str(i): 3.0 + (0.33 if i < 4 else 0.0) for i in range(28)}
    found = difference(one, dict.fromkeys(one, 3.0), {})
    assert found.low > 0 and found.p == pytest.approx(0.125, abs=0.02) and not found.is_decisive
    nine = {str(i): 3.0 + (0.33 if i < 9 else 0.0) for i in range(28)}
    assert difference(nine, dict.fromkeys(nine, 3.0), {}).is_decisive


def test_every_combination_of_signs_is_tried_where_there_are_few() -> None:
    five = difference(dict.fromkeys("abcde", 4.0), dict.fromkeys("abcde", 3.0), {})
    assert five.p == pytest.approx(2 / 32) and not five.is_decisive
    six = difference(dict.fromkeys("abcdef", 4.0), dict.fromkeys("abcdef", 3.0), {})
    assert six.p == pytest.approx(2 / 64) and six.is_decisive


def test_two_equal_arms_are_never_decisive() -> None:
    values, of = clustered(3)
    same = difference(values, dict(values), of)
    assert same.mean == 0 and not same.is_decisive
    rng = np.random.default_rng(0)
    decided = 0
    for _ in range(100):
        one = {k: v + rng.normal(0, 0.5) for k, v in values.items()}
        other = {k: v + rng.normal(0, 0.5) for k, v in values.items()}
        decided += difference(one, other, of).is_decisive
    assert decided <= 15


def test_one_group_has_no_interval() -> None:
    one = estimate({"a": 1.0, "b": 2.0}, {"a": "g", "b": "g"})
    assert one.mean == 1.5 and np.isnan(one.low) and not one.is_decisive


def test_nothing_is_no_number() -> None:
    none = estimate({}, {})
    assert none.n == 0 and np.isnan(none.mean) and none.to_json()["mean"] is None


@pytest.mark.parametrize("weights", ["none", "linear", "quadratic"])
def test_kappa_is_what_scikit_learn_says(weights: str) -> None:
    from sklearn.metrics import cohen_kappa_score

    rng = np.random.default_rng(5)
    for _ in range(20):
        one = rng.integers(1, 6, 60)
        other = np.clip(one + rng.integers(-2, 3, 60), 1, 5)
        theirs = cohen_kappa_score(
            one, other, weights=None if weights == "none" else weights, labels=[1, 2, 3, 4, 5]
        )
        assert kappa(one.tolist(), other.tolist(), weights=weights) == pytest.approx(theirs)


def test_kappa_of_one_grade_alone_is_no_number() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(kappa([3, 3], [3, 3]))


def test_wilson_stays_between_nothing_and_everything() -> None:
    assert wilson(0, 14)[0] == 0.0 and wilson(14, 14)[1] == 1.0
    low, high = wilson(8, 10)
    assert low == pytest.approx(0.490, abs=0.001) and high == pytest.approx(0.943, abs=0.001)
