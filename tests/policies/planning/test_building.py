"""Plans by the thousand: a build that is cut pays for nothing twice and gives the same library."""

from __future__ import annotations

import asyncio
import json
import random

import numpy as np
import pytest

from policies.attributes import SPECS, Attribute
from policies.domains import Domain, Stakes
from policies.errors import PlanningError, PolicyFileError, Unscored
from policies.planning import library as libraries
from policies.planning.building import BuildSettings, about, build, shard
from policies.planning.evidence import longhand, shorthand
from policies.planning.journal import Journal
from policies.planning.reward import AssumedReward, Scenario, needs_of, scenarios_of
from policies.planning.simulation import query_of
from policies.planning.starter import scenarios, starter_entries

SETTINGS = BuildSettings(max_calls=30, budget=3)


class CutShort(PlanningError):
    """The run is killed here."""


class PaidReward:
    """The prior model at a price: counts what was paid, and fails or stops when told to."""

    name, judge, costs = "paid", "paid", True

    def __init__(self, *, fails=0.0, stops_after=None):
        self.paid, self._fails, self._stops = [], fails, stops_after
        self._order = random.Random()

    def about(self):
        return {}

    def parts(self, scenario, seed, once):
        query = query_of(scenario.domain, scenario.needs, is_scaled=True)

        async def evaluate(chosen, n):
            for _ in range(self._order.randrange(6)):  # answers come back in any order, another in every run
                await asyncio.sleep(0)
            mask = sum(1 << i for i, a in enumerate(Attribute) if a in chosen)
            if self._stops is not None and len(self.paid) >= self._stops:
                raise CutShort("stopped")
            self.paid.append((scenario.id, mask, n))
            rng = np.random.default_rng([seed, int(scenario.id[:8], 16), mask, n])
            if rng.random() < self._fails:
                raise Unscored("rate_limited")
            return query.judged(chosen, rng, noise=0.25, people=1)

        async def prior(known):
            self.paid.append((scenario.id, "prior", len(known)))
            return {a: 1.0 + i for i, a in enumerate(Attribute) if a not in known}

        return evaluate, prior


def some(n=12):
    return scenarios(starter_entries(), per_domain=2)[:n]


async def run(path, reward, rows=None, settings=SETTINGS, **more):
    rows = rows or some()
    journal = Journal(path, about(rows, reward, settings))
    try:
        return await build(rows, reward, settings, journal, date="2026-11-30", **more)
    finally:
        journal.close()


async def test_a_run_cut_anywhere_resumes_without_paying_twice_and_gives_the_same_library(tmp_path):
    whole = PaidReward()
    wanted = (await run(tmp_path / "whole", whole)).library
    for cut in (1, 7, 40, 150, 333):
        path = tmp_path / f"cut-{cut}"
        first = PaidReward(stops_after=cut)
        with pytest.raises(CutShort):
            await run(path, first)
        again = PaidReward()
        made = await run(path, again)
        assert made.library.sha256 == wanted.sha256
        assert made.progress.calls + made.progress.replayed == made.library.made["spent"]["calls"]
        assert sorted(map(str, first.paid + again.paid)) == sorted(map(str, whole.paid))


async def test_a_torn_last_line_is_cut_off_and_paid_again(tmp_path):
    path = tmp_path / "j"
    with pytest.raises(CutShort):
        await run(path, PaidReward(stops_after=100))
    with path.open("a") as file:
        file.write('{"q": "abc", "s": "age", "x": 3.')
    made = await run(path, PaidReward())
    assert made.library.sha256 == (await run(tmp_path / "other", PaidReward())).library.sha256
    again = PaidReward()
    await run(path, again)  # what was written after the torn line can be read
    assert not again.paid


async def test_a_line_torn_in_the_middle_is_named(tmp_path):
    path = tmp_path / "j"
    await run(path, PaidReward())
    lines = path.read_text().splitlines()
    lines[3] = lines[3][:10]
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(PlanningError, match="line 4"):
        await run(path, PaidReward())


async def test_a_journal_of_something_else_is_refused_by_what_differs(tmp_path):
    await run(tmp_path / "j", PaidReward())
    with pytest.raises(PlanningError, match="another settings"):
        await run(tmp_path / "j", PaidReward(), settings=BuildSettings(max_calls=31, budget=3))
    with pytest.raises(PlanningError, match="another queries"):
        await run(tmp_path / "j", PaidReward(), rows=some(5))
    (tmp_path / "k").write_text('{"what": 1}\n')
    with pytest.raises(PlanningError, match="no journal"):
        await run(tmp_path / "k", PaidReward())


async def test_a_file_that_is_no_journal_is_left_as_it_was(tmp_path):
    for text in ("my notes, without an end of line", "[]\n", '{"journal":2}\n', "a\nb\n"):
        path = tmp_path / "notes"
        path.write_text(text)
        with pytest.raises(PlanningError, match="no journal"):
            await run(path, PaidReward())
        assert path.read_text() == text


async def test_two_runs_do_not_write_one_journal(tmp_path):
    rows = some(3)
    held = Journal(tmp_path / "j", about(rows, PaidReward(), SETTINGS))
    with pytest.raises(PlanningError, match="another run"):
        await run(tmp_path / "j", PaidReward(), rows=rows)
    held.close()
    await run(tmp_path / "j", PaidReward(), rows=rows)


async def test_what_a_query_needs_once_is_made_once_and_is_the_same_after_a_kill(tmp_path):
    made = []

    async def make():
        await asyncio.sleep(0)
        made.append(1)
        return {"who": len(made)}

    for _ in range(2):
        journal = Journal(tmp_path / "j", {"a": 1})
        once = journal.once("q")
        assert await asyncio.gather(once("person 0", make), once("person 0", make)) == [{"who": 1}] * 2
        journal.close()
    assert len(made) == 1


async def test_the_shared_limit_of_calls_stops_the_run_and_keeps_what_was_paid(tmp_path):
    reward = PaidReward()
    with pytest.raises(PlanningError, match="50 calls were made"):
        await run(tmp_path / "j", reward, most_calls=50)
    assert len(reward.paid) == 50
    again = PaidReward()
    await run(tmp_path / "j", again)
    assert not {str(p) for p in again.paid} & {str(p) for p in reward.paid}


async def test_failures_are_counted_by_reason_and_a_third_of_them_does_not_stop_a_build(tmp_path):
    made = await run(tmp_path / "j", PaidReward(fails=0.3))
    unscored = made.progress.unscored
    assert set(unscored) == {"rate_limited"}
    assert 0.2 < unscored["rate_limited"] / made.library.made["spent"]["calls"] < 0.4
    assert made.library.made["spent"]["unscored"] == unscored["rate_limited"]
    assert all(len(e.policy.path) == 3 for e in made.library.entries)


@pytest.mark.parametrize("concurrency", [1, 4])
async def test_the_library_is_the_same_at_any_concurrency(tmp_path, concurrency):
    one = await run(tmp_path / "a", PaidReward())
    other = await run(tmp_path / "b", PaidReward(), concurrency=concurrency)
    assert one.library.sha256 == other.library.sha256


async def test_no_more_calls_begin_a_second_than_allowed(tmp_path):
    reward, times = PaidReward(), []
    loop = asyncio.get_running_loop()
    parts = reward.parts

    def timed(scenario, seed, once):
        evaluate, prior = parts(scenario, seed, once)

        async def noted(chosen, n):
            times.append(loop.time())
            return await evaluate(chosen, n)

        return noted, prior

    reward.parts = timed
    await run(tmp_path / "j", reward, rows=some(2), a_second=200)
    assert (len(times) - 1) / (times[-1] - times[0]) < 230


async def test_shards_are_planned_apart_and_merged(tmp_path):
    rows = some(12)
    parts = [shard(rows, i, 3) for i in (1, 2, 3)]
    assert sorted(s.id for part in parts for s in part) == sorted(s.id for s in rows)
    made = [
        (await run(tmp_path / str(i), PaidReward(), rows=part, part=f"{i + 1}/3")).library
        for i, part in enumerate(parts)
    ]
    with pytest.raises(PlanningError, match="shard 2/3 is missing"):
        libraries.merged_libraries([made[0], made[2]])
    assert len(libraries.merged_libraries(made[:2], is_partial=True).entries) == 8
    whole = libraries.merged_libraries(made)
    assert {e.id for e in whole.entries} == {s.id for s in rows}
    assert whole.made["spent"]["queries"] == 12 and whole.made["shards"] == 3
    libraries.write(whole, tmp_path / "l.jsonl.gz")
    assert libraries.read(tmp_path / "l.jsonl.gz") == whole
    with pytest.raises(PlanningError, match="planned twice"):
        libraries.merged_libraries([made[0], made[0]], is_partial=True)
    with pytest.raises(PlanningError, match="3/2"):
        shard(rows, 3, 2)


async def test_a_library_says_how_it_was_made_and_a_damaged_or_foreign_one_is_refused_by_name(tmp_path):
    made = (await run(tmp_path / "j", AssumedReward(), rows=some(6))).library
    assert made.made["model"] == "the shipped prior model" and made.made["licence"] == "Apache-2.0"
    assert made.made["date"] == "2026-11-30" and made.made["settings"]["lambda"] == 0.0
    path = tmp_path / "l.jsonl"
    libraries.write(made, path)
    assert libraries.read(path) == made
    raw = path.read_text()
    for name, text, why in [
        ("flipped", raw.replace('"calls": 30', '"calls": 31', 1), "damaged"),
        ("short", raw[: raw.rindex('{"base"')], "damaged"),
        ("foreign", '{"kind": "something"}\n', "no path library"),
        ("newer", raw.replace('"version": 1', '"version": 9', 1), "version 9"),
        ("empty", "", "no path library"),
        ("pickle", "\x80\x04", "no path library"),
    ]:
        bad = tmp_path / f"{name}.jsonl"
        bad.write_text(text)
        with pytest.raises(PlanningError, match=why) as failed:
            libraries.read(bad)
        assert bad.name in str(failed.value)
    torn = tmp_path / "torn.jsonl.gz"
    libraries.write(made, torn)
    torn.write_bytes(torn.read_bytes()[:-40])
    with pytest.raises(PlanningError, match="cannot be read"):
        libraries.read(torn)


async def test_differences_between_libraries_are_named(tmp_path):
    old = (await run(tmp_path / "a", PaidReward(), rows=some(6))).library
    new = (
        await run(tmp_path / "b", PaidReward(), rows=some(7), settings=BuildSettings(max_calls=12, budget=3))
    ).library
    found = libraries.differences(old, new)
    assert len(found["added"]) == 1 and not found["removed"]
    assert "settings" in found["made"] and found["same"] + len(found["other_path"]) == 6
    assert libraries.differences(old, old)["same"] == 6


def test_scenarios_name_the_line_that_is_wrong():
    assert scenarios_of([{"query": "a?", "domain": "health", "profile": {"age": "30", "notes": "x"}}], "f")[
        0
    ].profiles == ({Attribute.AGE: "30"},)
    for line, why in [({"domain": "health"}, "query"), ({"query": "a", "domain": "no"}, "line 2"), ({"query": "  ", "domain": "life"}, "empty"),
                      ({"query": "a", "domain": "life", "path": ["aged"]}, "aged")]:  # fmt: skip
        with pytest.raises(PolicyFileError, match=why):
            scenarios_of([{"query": "b?", "domain": "life"}, line], "f")


def test_needs_follow_the_authored_path():
    needs = needs_of([Attribute.PROFESSION, Attribute.AGE], Domain.CAREER)
    rest = [v for a, v in needs.items() if a not in (Attribute.PROFESSION, Attribute.AGE)]
    assert min(needs[Attribute.PROFESSION], needs[Attribute.AGE]) > max(rest)


def test_bands_are_shortened_and_lengthened_without_loss():
    bands = {a: list(SPECS[a].bands)[i % 3] for i, a in enumerate(Attribute) if i != 4}
    assert longhand(shorthand(bands)) == bands
    with pytest.raises(ValueError):
        longhand("012")


def test_every_tag_is_in_one_band_of_three():
    for spec in SPECS.values():
        every = [tag for tags in spec.bands.values() for tag in tags]
        assert sorted(every) == sorted(spec.tags) and len(spec.bands) == 3


def test_the_journal_holds_ids_and_scores_and_no_query(tmp_path):
    rows = (
        Scenario(
            id="0123456789abcdef",
            query="a very secret question",
            domain=Domain.LIFE,
            group="x",
            stakes=Stakes.HIGH,
        ),
    )
    asyncio.run(run(tmp_path / "j", PaidReward(), rows=rows))
    text = (tmp_path / "j").read_text()
    assert "secret" not in text and "0123456789abcdef" in text
    assert all(json.loads(line) for line in text.splitlines())
