"""From a query to a policy: near ones vote, far ones fall back and say so."""

from __future__ import annotations

import numpy as np
import pytest

from policies.attributes import Attribute
from policies.domains import Domain, Stakes
from policies.errors import PlanningError
from policies.planning.building import BuildSettings, about, build
from policies.planning.journal import Journal
from policies.planning.library import EVERYWHERE, Entry, assembled, id_of, shipped, shipped_path
from policies.planning.policy import Policy
from policies.planning.retrieval import CANDIDATES, Index, Retrieval, Source, WordVectors
from policies.planning.reward import AssumedReward
from policies.planning.starter import PathLibrary, scenarios, starter_entries, vectors_of

M, C = Attribute.MENTAL_STATE, Attribute.ECONOMIC_STATUS


def policy(first, second):
    return Policy(
        path=(first, second), base=3.1, headroom=1.3, worth={first: (0.9, 0.1), second: (0.3, 0.1)}, pairs={}
    )


def entry(query, domain, first, second):
    return Entry(
        id=id_of(query), query=query, domain=domain, group="g", stakes=Stakes.HIGH, policy=policy(first, second),
        expected=((3.1, 0.1), (3.6, 0.1), (3.9, 0.1)), calls=1, seed=1,
    )  # fmt: skip


ENTRIES = (
    entry("my rent is due and I have nothing", Domain.FINANCIAL, C, M),
    entry("the bank wants the loan back", Domain.FINANCIAL, C, M),
    entry("my boyfriend left me", Domain.RELATIONSHIP, M, C),
)
LIBRARY = assembled(ENTRIES, {}, {"model": "m"})
VECTORS = np.eye(4, dtype=np.float32)[[0, 1, 2]]


def test_the_nearest_planned_queries_vote():
    found = Retrieval(LIBRARY, VECTORS, by="test").policy_for(np.array([0.9, 0.4, 0.1, 0], dtype=np.float32))
    assert found.source is Source.NEIGHBOURS and found.near[0].entry is ENTRIES[0]
    assert found.policy.path[0] is C and found.shares[C] > found.shares[M]
    assert sum(found.shares.values()) == pytest.approx(1.0)


def test_far_away_the_domain_speaks_and_where_it_is_unsure_all_queries_do():
    retrieval = Retrieval(LIBRARY, VECTORS, by="test")
    far = np.array([0.1, 0.05, 0.05, 0.99], dtype=np.float32)
    found = retrieval.policy_for(far, domain=Domain.RELATIONSHIP, sure=0.9)
    assert found.source is Source.DOMAIN and found.policy == LIBRARY.policies["relationship"]
    found = retrieval.policy_for(far, domain=Domain.RELATIONSHIP, sure=0.1)
    assert found.source is Source.EVERYWHERE and found.policy == LIBRARY.policies[EVERYWHERE]
    assert retrieval.policy_for(far, domain=Domain.HEALTH, sure=0.9).source is Source.EVERYWHERE
    assert sum(found.shares.values()) == pytest.approx(1.0)


def test_vectors_of_another_library_are_refused():
    with pytest.raises(PlanningError, match="embed it again"):
        Retrieval(LIBRARY, VECTORS[:2], by="test")


def test_two_looks_find_what_one_look_would():
    rng = np.random.default_rng(0)
    spectrum = 1.0 / np.sqrt(1 + np.arange(384))
    rows = rng.normal(size=(6000, 384)) * spectrum
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    index = Index(rows)
    assert len(index) == 6000 > 4 * CANDIDATES
    same = 0
    for query in rows[:200] + 0.05 * rng.normal(size=(200, 384)).astype(np.float32) * spectrum.astype(
        np.float32
    ):
        unit = query / np.linalg.norm(query)
        exact = np.argsort(-(rows @ unit))[:8]
        same += len({int(i) for i, _ in index.nearest(unit, 8)} & set(exact.tolist()))
    assert same / (200 * 8) > 0.98


def test_words_alone_find_what_shares_words_where_no_encoder_is_installed():
    words = WordVectors([e.query for e in ENTRIES])
    near = words.encode([e.query for e in ENTRIES]) @ words.encode(["they want my rent"])[0]
    assert int(near.argmax()) == 0 and "no encoder" in words.name
    assert not words.encode(["zzz"]).any()


def test_the_shipped_library_is_whole_and_of_our_own_queries():
    library = shipped()
    ours = {e.query: e for e in starter_entries()}
    assert library.made["model"] == "the shipped prior model" and shipped_path().suffix == ".gz"
    for domain in Domain:
        assert sum(e.domain is domain for e in library.entries) >= 50
    assert all(e.query in ours and e.stakes is ours[e.query].stakes for e in library.entries)
    assert all(1 <= m <= 5 for e in library.entries for m, _ in e.expected)
    assert library.gates[EVERYWHERE]


def test_the_shipped_library_was_planned_with_the_shipped_prior_model():
    assert shipped().made["prompts"] == dict(AssumedReward().about()), (
        "effects.yaml has changed: 'make library'"
    )


async def test_the_shipped_library_is_what_the_planner_gives_today(tmp_path):
    """The first query of each domain, planned anew: the same path, and the same expectation to a hundredth of a point."""
    rows, held = scenarios(starter_entries(), per_domain=1), {e.id: e for e in shipped().entries}
    settings = BuildSettings(max_calls=60)
    journal = Journal(tmp_path / "j", about(rows, AssumedReward(), settings))
    made = await build(rows, AssumedReward(), settings, journal, date="2026-11-30")
    journal.close()
    assert len(rows) == 7 and shipped().made["settings"] == settings.to_json()
    for entry in made.library.entries:
        assert entry.policy.path == held[entry.id].policy.path
        assert np.array(entry.expected) == pytest.approx(np.array(held[entry.id].expected), abs=0.01)


def test_a_library_of_other_queries_is_encoded_once_and_kept(tmp_path):
    class Counts:
        def __init__(self):
            self.encoded = 0

        def encode(self, sentences):
            self.encoded += len(sentences)
            return np.eye(384, dtype=np.float32)[: len(sentences)]

    own, encoder = PathLibrary((), np.zeros((0, 384), dtype=np.float32)), Counts()
    first = vectors_of(LIBRARY, own, encoder, tmp_path)
    assert (vectors_of(LIBRARY, own, encoder, tmp_path) == first).all()
    assert encoder.encoded == 3 and len(list(tmp_path.iterdir())) == 1
