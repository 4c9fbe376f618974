"""Contributions of attributes: they add up, a planted ranking is found, and what there is to do is known before it starts."""

from __future__ import annotations

import json
from itertools import permutations

import pytest

from policies.attributes import Attribute
from policies.penguin.running import set_name
from policies.penguin.scenarios import Sample, shipped_samples
from policies.penguin.sensitivity import found, orders, sets_of, tasks_of

SOME = shipped_samples().samples[::7]
WORTH = {a: round(0.1 * i, 2) for i, a in enumerate(Attribute)}


def lines(samples: list[Sample], value, *, leaves_out: float = 0.0) -> list[dict]:
    made = []
    for number, (sample, under) in enumerate(tasks_of(samples, 4, 0)):
        lost = leaves_out and number % round(1 / leaves_out) == 0
        mean = None if lost else {"safety": value(under.given)}
        made.append(
            {"sample": sample.id, "arm": under.name, "mean": mean, "unscored": "malformed" if lost else ""}
        )
    return json.loads(json.dumps(made))


def test_what_each_attribute_is_worth_is_found_by_all_three_ways() -> None:
    one = found(SOME, lines(SOME, lambda given: 2 + sum(WORTH[a] for a in given)), 4, 0)
    for method in ("shapley", "alone", "beside"):
        got = {a: e.mean for a, e in one.values[method]["all"].items()}
        assert got == pytest.approx(WORTH)
    assert one.whole.mean == pytest.approx(sum(WORTH.values()))


def test_attributes_that_help_only_together_share_what_they_bring() -> None:
    """Alone each brings nothing, beside the others each brings everything: the Shapley value splits it."""
    pair = {Attribute.AGE, Attribute.HEALTH}
    one = found(SOME, lines(SOME, lambda given: 3.0 if pair <= given else 2.0), 4, 0)
    assert (
        one.values["alone"]["all"][Attribute.AGE].mean == 0
        and one.values["beside"]["all"][Attribute.AGE].mean == 1
    )
    both = [one.values["shapley"]["all"][a].mean for a in sorted(pair)]
    assert sum(both) == pytest.approx(1.0) and both == pytest.approx([0.5, 0.5])


def test_the_values_add_up_to_the_whole_gain() -> None:
    one = found(
        SOME,
        lines(SOME, lambda given: 2 + (len(given) ** 0.5) + (0.3 if Attribute.AGE in given else 0)),
        6,
        0,
    )
    del one
    six = found(SOME, lines(SOME, lambda given: 2 + len(given) ** 0.5), 4, 0)
    assert sum(e.mean for e in six.values["shapley"]["all"].values()) == pytest.approx(six.whole.mean)


def test_orders_come_with_their_reverse_and_are_the_same_each_time() -> None:
    drawn = orders(SOME[0], 4, 0)
    assert drawn[1] == tuple(reversed(drawn[0])) and drawn == orders(SOME[0], 4, 0) != orders(SOME[0], 4, 1)
    assert orders(SOME[0], 4, 0) != orders(SOME[1], 4, 0)


def test_every_set_is_tried_once_and_those_that_are_needed_are_there() -> None:
    sets = sets_of(SOME[0], 4, 0)
    assert len(sets) == len(set(sets)) and frozenset() in sets and frozenset(Attribute) in sets
    assert 22 <= len(sets) <= 22 + 4 * 7


def test_a_set_without_a_score_is_counted_and_moves_nothing() -> None:
    one = found(SOME, lines(SOME, lambda given: 2 + sum(WORTH[a] for a in given), leaves_out=0.2), 4, 0)
    assert {a: e.mean for a, e in one.values["shapley"]["all"].items()} == pytest.approx(WORTH)
    assert one.unscored["malformed"] > 0


def test_a_profile_with_gaps_is_asked_about_what_it_has() -> None:
    from dataclasses import replace

    some = [replace(s, profile={a: s.profile[a] for a in list(Attribute)[:3]}) for s in SOME]
    exact = {frozenset(order[:k]) for order in permutations(list(Attribute)[:3]) for k in range(4)}
    assert set(sets_of(some[0], 6, 0)) <= exact
    one = found(some, lines(some, lambda given: 2.0 + len(given)), 4, 0)
    assert set(one.values["alone"]["all"]) == set(list(Attribute)[:3])


def test_the_name_of_a_set_does_not_hang_on_its_order() -> None:
    assert set_name(frozenset({Attribute.HEALTH, Attribute.AGE})) == "set:age+health"
