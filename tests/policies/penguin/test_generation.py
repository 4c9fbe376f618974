"""Generation and posts: spread evenly, leaks and copies refused, nothing paid for twice, nothing read before it is redacted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from policies.attributes import SPECS, Attribute
from policies.domains import Domain, Stakes
from policies.encoder import built_in
from policies.errors import PolicyFileError, Unscored
from policies.penguin import generation, posts
from policies.penguin.generation import SPREAD, generate, hierarchy, leaked, slots
from policies.penguin.judging import prompt
from policies.planning.journal import Journal
from policies.planning.reward import as_json


class Writer:
    """Writes people and queries as it is told to; refuses a prompt it does not know."""

    name = "writer"

    def __init__(self, *, query: str = "", band_wrong: int = 0, leaks_first: bool = False) -> None:
        self.query, self.band_wrong, self.leaks_first = query, band_wrong, leaks_first
        self.calls: list[str] = []
        self.told: list[list[str]] = []

    async def written(self, system: str, data: Mapping[str, Any], *, key: str) -> str:
        raise AssertionError("plain text was not asked for")

    async def shaped(self, system: str, data: Mapping[str, Any], shape: type, *, key: str) -> Any:
        self.calls.append(key)
        self.told.append(data["not"])
        assert system in (prompt("person").text, prompt("query").text)
        if system == prompt("person").text:
            bands = {a.value: data["must"].get(a.value) or next(iter(SPECS[a].bands)) for a in Attribute}
            if self.band_wrong:
                self.band_wrong -= 1
                bands["age"] = next(b for b in SPECS[Attribute.AGE].bands if b != bands["age"])
            return shape.model_validate_json(
                as_json({k: {"words": f"{k} words {b}", "band": b} for k, b in bands.items()})
            )
        if self.leaks_first and data["try"] == 1:
            return shape(query="I am 17 and need to know what to do")
        return shape(query=self.query or f"what comes first when {data['scenario']}")


def nothing(text: str) -> frozenset[Attribute]:
    return frozenset({Attribute.AGE}) if "I am 17" in text else frozenset()


async def made(folder: Path, writer: Writer, count: int = 3) -> generation.Made:
    journal = Journal(folder / "g.journal", {"x": 1})
    try:
        return await generate(slots(count, seed=1), writer, journal, encoder=built_in(), reads=nothing)
    finally:
        journal.close()


def test_the_hierarchy_has_twenty_scenarios_a_domain_and_everyday_ones_among_them() -> None:
    places = hierarchy()
    assert Counter(p.domain for p in places) == dict.fromkeys(Domain, 20)
    low = Counter(p.domain for p in places if p.stakes is Stakes.LOW)
    assert all(low[d] >= 1 for d in Domain)


def test_a_hierarchy_with_a_double_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "h.yaml"
    path.write_text("life:\n  a:\n    - {id: x, what: one}\n    - {id: x, what: two}\n")
    with pytest.raises(PolicyFileError, match="'x' is there twice"):
        hierarchy(path)


def test_what_is_asked_for_is_spread_evenly() -> None:
    wanted = slots(30, seed=3)
    for domain in Domain:
        own = [s for s in wanted if s.place.domain is domain]
        assert len(own) == 30 and max(Counter(s.place.id for s in own).values()) == 2
        for a in SPREAD:
            counts = Counter(s.must[a] for s in own)
            assert set(counts) == set(SPECS[a].bands) and max(counts.values()) - min(counts.values()) <= 1


async def test_samples_are_made_for_every_slot_and_say_where_they_come_from(tmp_path: Path) -> None:
    found = await made(tmp_path, Writer())
    assert len(found.samples) == 21 and not found.left_out
    assert found.balance()["domains"] == {d.value: 3 for d in Domain}
    one = next(iter(found.samples.values()))
    assert "writer" in one.source and prompt("query").sha256[:12] in one.source and len(one.profile) == 10


async def test_people_of_one_scenario_are_told_of_those_before(tmp_path: Path) -> None:
    writer = Writer()
    found = await made(tmp_path, writer, count=24)
    twice = [name for name, n in found.balance()["scenarios"].items() if n > 1]
    assert twice or found.left_out["near_copy"]
    assert sum(bool(t) for t in writer.told) >= 7 * 4 * 2


async def test_a_leak_and_a_wrong_band_are_asked_for_again(tmp_path: Path) -> None:
    found = await made(tmp_path, Writer(leaks_first=True, band_wrong=2))
    assert len(found.samples) == 21 and found.refused["leaks_age"] >= 19 and found.refused["other_bands"] == 2


async def test_copies_are_left_out_and_counted(tmp_path: Path) -> None:
    found = await made(tmp_path, Writer(query="what should I do about all of this"))
    assert len(found.samples) == 7 and found.left_out == {"near_copy": 14}


async def test_a_run_that_was_cut_pays_for_nothing_twice(tmp_path: Path) -> None:
    first = Writer()
    one = await made(tmp_path, first)
    again = Writer()
    other = await made(tmp_path, again)
    assert len(first.calls) == 42 and not again.calls and one.samples == other.samples


@pytest.mark.parametrize(
    ("query", "leaks"),
    [
        ("I am 17 and want to know", Attribute.AGE),
        ("as a night welder with two months of savings, what now", Attribute.PROFESSION),
        ("what do I do about the letter from the landlord", None),
        ("they owe me 4500 now", Attribute.ECONOMIC_STATUS),
    ],
)
def test_what_the_profile_hides_is_found_in_a_query(query: str, leaks: Attribute | None) -> None:
    profile = {
        Attribute.AGE: "seventeen",
        Attribute.PROFESSION: "night welder at a yard",
        Attribute.ECONOMIC_STATUS: "4500 in debt",
    }
    assert leaked(query, profile, "a letter from the landlord came", nothing) is leaks


# ----------------------------------------------------------------------------------------------- posts

POST = "My name is Walter and I drive a lorry. {facts} I lost the job last week and I don't know who to tell first. What would you do?"


def post(told: int, number: int = 0) -> dict[str, str]:
    facts = " ".join(f"{a.value}={a.value} words {number};" for a in list(Attribute)[:told])
    return {"title": f"lost my job {number}", "selftext": POST.format(facts=facts)}


async def redact(text: str) -> str:
    if "cannot" in text:
        raise RuntimeError(text)
    return text.replace("Walter", "<NAME_1>")


async def extract(text: str) -> Mapping[str, Any]:
    assert "Walter" not in text
    if "gibberish" in text:
        raise Unscored("malformed")
    import re

    told = {a.value: (re.search(rf"{a.value}=([^;]+);", text) or [None, None])[1] for a in Attribute}
    return {
        "asks": "What would" in text,
        "domain": "career",
        "scenario": "lost job",
        "query": text.split("\n\n", maxsplit=1)[0],
        **told,
    }


async def funnelled(rows: list[Any], folder: Path | None = None) -> tuple[list, posts.Funnel]:
    journal = Journal(folder / "p.journal", {"x": 1}) if folder else None
    try:
        numbered = list(enumerate(rows, 1))
        return await posts.from_posts(
            numbered, file="posts.jsonl", redact=redact, extract=extract, journal=journal
        )
    finally:
        if journal:
            journal.close()


async def test_each_stage_is_counted_and_the_selection_can_be_reported(tmp_path: Path) -> None:
    rows = [
        post(10, 1), post(7, 2), post(6, 3), post(7, 2), {"text": "short?"}, {"text": post(8, 4)["selftext"] + " cannot"},
        {"text": post(8, 5)["selftext"] + " gibberish"}, {"text": "I have nothing to ask. " * 8}, {"body": 3},
    ]  # fmt: skip
    samples, funnel = await funnelled(rows, tmp_path)
    assert [len(s.profile) for s in samples] == [10, 7]
    told = funnel.to_json()
    assert told["stages"] == {
        "read": 8,
        "usable length": 7,
        "redacted": 6,
        "asks for advice": 4,
        "complete enough": 3,
        "kept": 2,
    }
    assert told["lost"] == {
        "too short or too long": 1, "could not be redacted": 1, "not read: malformed": 1, "asks for no advice": 1,
        "tells fewer than 7 attributes": 1, "a copy of another": 1,
    }  # fmt: skip
    assert (
        told["told_before"]["health"] == 0.75
        and told["told_before"]["emotion"] == 0.25
        and told["told_after"]["emotion"] == 0.5
    )
    assert [str(b) for b in funnel.bad] == ["posts.jsonl, line 9: text: is missing"]
    assert "Walter" not in (tmp_path / "p.journal").read_text() and "Walter" not in json.dumps(
        [s.to_json() for s in samples]
    )
