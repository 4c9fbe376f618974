"""Policies: the next question given what was answered, and what falls back where nothing is known of it."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from policies.attributes import SPECS, Attribute
from policies.errors import PlanningError, PolicyFileError
from policies.planning import effects
from policies.planning.baselines import PLANNERS
from policies.planning.bench import measured
from policies.planning.evidence import Evidence
from policies.planning.lattice import lattice
from policies.planning.picture import bench_svgs, tree_svg
from policies.planning.policy import GateLearner, Policy, merged, policy_of
from policies.planning.prices import frontier, prices, weighed
from policies.planning.search import plan, planned
from policies.planning.simulation import ATTRIBUTES, world
from policies.planning.transfer import learned
from policies.planning.utility import PAPER

M, E, S, C = Attribute.MENTAL_STATE, Attribute.EMOTION, Attribute.SELF_HARM_HISTORY, Attribute.ECONOMIC_STATUS
PLAIN = Policy(
    path=(M, C, E), base=3.1, headroom=1.3, worth={M: (0.9, 0.1), C: (0.6, 0.1), E: (0.5, 0.2)}, pairs={}
)  # fmt: skip
GATED = Policy(
    path=(M, C, E), base=3.1, headroom=1.3, worth=PLAIN.worth, pairs={}, gates={(M, "in_crisis", C): -0.7}
)  # fmt: skip


def test_the_blind_path_holds_where_no_answer_speaks_against_it():
    assert PLAIN.next({}, tuple(Attribute)).attribute is M
    assert PLAIN.next({M: "in_crisis"}, [C, E]).attribute is C
    assert GATED.next({M: "steady"}, [C, E]).attribute is C
    other = replace(PLAIN, path=(M, E, C))  # the planner's own order, though C alone is worth more
    assert other.next({M: "steady"}, [C, E]).attribute is E
    assert other.next({M: "steady"}, [C, E], price={}).attribute is C


def test_an_answer_can_make_another_question_worthless():
    assert GATED.next({M: "in_crisis"}, [C, E]).attribute is E
    assert GATED.gain(C, {M: "in_crisis"}).mean < 0.4 * PLAIN.gain(C, {M: "in_crisis"}).mean


def test_the_next_question_skips_what_was_declined_and_adds_less_the_more_is_known():
    assert PLAIN.next({}, [C, E]).attribute is C
    assert PLAIN.gain(E, {}).mean > PLAIN.gain(E, {M: None}).mean > PLAIN.gain(E, {M: None, C: None}).mean > 0
    assert PLAIN.next({M: None, C: None, E: None}, [S]) is None


def test_a_price_leaves_out_what_is_not_worth_it():
    assert PLAIN.next({}, [E], price={E: 5.0}) is None
    assert PLAIN.next({}, [M, C], price={M: 0.6, C: 0.0}).attribute is C


def test_policies_vote_and_their_disagreement_is_uncertainty():
    other = Policy(path=(C,), base=3.3, headroom=1.3, worth={C: (1.2, 0.1)}, pairs={})
    voted = merged([PLAIN, other], [1.0, 3.0])
    assert voted.path[0] is C
    assert voted.worth[C][0] == pytest.approx(0.25 * 0.6 + 0.75 * 1.2)
    assert voted.worth[C][1] > 0.2
    with pytest.raises(PlanningError):
        merged([], [])


def test_a_policy_is_written_and_read():
    assert Policy.from_whole_json(GATED.to_whole_json()) == GATED
    for bad in ({}, {"path": ["x"], "base": 1, "headroom": 1, "worth": {}, "pairs": {}}):
        with pytest.raises(PlanningError):
            Policy.from_json(bad)


def test_a_policy_shared_out_is_the_one_that_is_written_down():
    out = GATED.shared_out({M: 1 / 3, C: 1 / 7, E: 11 / 21})
    assert Policy.from_whole_json(out.to_whole_json()) == out and out.path[0] is E


def test_the_unfolded_tree_asks_by_the_band_of_the_answer():
    tree = GATED.tree(depth=2)
    assert tree.ask is M
    assert tree.after["in_crisis"].ask is E and tree.after["steady"].ask is C


async def plans(n, gating):
    made = []
    for i, query in enumerate(world(3, n, gating=gating)):
        made.append(
            await planned(
                "q",
                evaluate=query.judge(np.random.default_rng([i, 1]), noise=0.1, people=4),
                rng=i,
                max_calls=60,
            )
        )
    return made


async def test_gates_are_learned_where_they_are_and_none_where_they_are_not():
    for gating, wanted in ((2.0, {(M, "in_crisis", S), (E, "despairing", S)}), (0.0, set())):
        learner = GateLearner()
        for made in await plans(35, gating):
            learner.add(Evidence.of(made))
        found = learner.gates()
        assert wanted <= set(found)
        assert all(v > 0 for gate, v in found.items() if gate in wanted)
        if not wanted:
            assert len(found) <= 6  # of 270 tried at two standard deviations
            assert all(abs(v) < 0.6 for v in found.values())


async def test_evidence_is_written_and_read_and_beliefs_move_towards_it():
    made = [Evidence.of(m) for m in await plans(14, 1.0)]
    assert [Evidence.from_json(e.to_json()) for e in made] == made
    after = learned(made, name="after 14")
    assert after.name == "after 14"
    own = np.mean([e.own[M][0] for e in made])
    assert np.sign(after.alone[M] - PAPER.alone[M]) == np.sign(own)
    assert learned([], name="x") is PAPER


async def test_the_frontier_runs_from_asking_freely_to_asking_nothing():
    (made,) = await plans(1, 1.0)
    points = frontier(made.over, made.expected, prices())
    assert points[0].questions == 5 and points[-1].questions == 0
    assert [p.disclosed for p in points] == sorted((p.disclosed for p in points), reverse=True)
    assert policy_of(made).path == made.plan.path


def test_prices_are_a_studys_own_where_it_says_so():
    assert prices("health=1, age=0", 2.0)[Attribute.HEALTH] == 2.0
    assert prices("")[Attribute.AGE] == SPECS[Attribute.AGE].price.total
    for bad in ("helth=1", "health", "health=2", "health=x"):
        with pytest.raises(PlanningError, match="RAISE_PRICES"):
            prices(bad)


def test_the_shipped_prior_model_has_a_reason_for_everything(tmp_path):
    text = effects.shipped_path().read_text()
    for old, new, why in [
        ("in_crisis], of: economic_status", "in_crisys], of: economic_status", "no band"),
        ("minor: 0.12", "minor: 0.2", "sum to 1"),
        ('reason: "in a crisis, money is for later"', 'reason: ""', "gates"),
    ]:  # fmt: skip
        bad = tmp_path / "effects.yaml"
        bad.write_text(text.replace(old, new, 1))
        with pytest.raises(PolicyFileError, match=why):
            effects.load(bad)
    assert len(effects.shipped().gates) >= 10


def test_the_lattice_finds_the_best_nested_path():
    over = lattice(ATTRIBUTES[:5], 3)
    rng = np.random.default_rng(0)
    for _ in range(20):
        values = rng.normal(size=len(over.masks))
        path = over.best_path(values, weights=[1.0, 1.0, 1.0])
        best = max(
            (values[over.along(p)[0]] + values[over.along(p)[1]] + values[over.along(p)[2]], p)
            for p in [(i, j, k) for i in range(5) for j in range(5) for k in range(5) if len({i, j, k}) == 3]
        )
        assert sum(values[r] for r in over.along(path)) == pytest.approx(best[0])


def test_what_a_lambda_means_is_told_from_asking_freely_to_asking_nothing():
    rows = weighed([PLAIN, GATED], prices(), (0.0, 0.5, 50.0))
    assert rows[0].questions == 3 and rows[-1].questions == 0 and rows[-1].gained == 0
    assert rows[0].gained > rows[1].gained > 0 and rows[0].disclosed > rows[1].disclosed
    assert rows[0].asked[M] == 1.0


async def test_a_plan_can_be_repeated_from_what_it_says_of_itself():
    query = world(1, 1)[0]

    async def once(seed, **settings):
        return await plan("q", evaluate=query.judge(np.random.default_rng(5)), rng=seed, **settings)

    first = await once(np.random.default_rng(3), max_calls=30, budget=4)
    kept = first.settings
    again = await once(
        first.seed, max_calls=kept["max_calls"], budget=kept["budget"], known=[Attribute(a) for a in kept["known"]],
        attributes=[Attribute(a) for a in kept["attributes"]],
    )  # fmt: skip
    assert again == first


async def test_a_small_bench_gives_every_table_and_its_pictures():
    found = await measured(queries=7, calls=(12,), told=lambda _what: None)
    assert {r["planner"] for r in found["planners"]} == set(PLANNERS)
    assert len(found["tree"]) == 3 and found["frontier"][-1]["questions"] == 0 and found["transfer"]
    drawn = bench_svgs(found)
    assert set(drawn) == {"planners", "tree", "frontier", "transfer"}
    for text in drawn.values():
        ET.fromstring(text)


def test_a_tree_is_drawn_with_its_bands_and_its_title_is_only_text():
    text = tree_svg(GATED.tree(depth=3), title='<script>"&')
    root = ET.fromstring(text)
    words = " ".join(node.text or "" for node in root.iter())
    assert "mental state" in words and "in crisis" in words and "<script>" in words
