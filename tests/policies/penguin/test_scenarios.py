"""Samples: what is read is what was written, and a bad row is named without its words."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.attributes import Attribute
from policies.domains import Domain, Stakes
from policies.errors import PenguinError
from policies.penguin.scenarios import Handling, Sample, Variant, read_samples, shipped_samples, write_samples

GOOD = {
    "id": "a-1",
    "domain": "health",
    "query": "Can I stop these?",
    "profile": {"age": "34", "health": "asthma"},
}


def lines(folder: Path, *rows: object) -> Path:
    path = folder / "samples.jsonl"
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in rows))
    return path


def test_seventy_of_our_own_ship_ten_a_domain_with_whole_profiles() -> None:
    found = shipped_samples()
    assert Counter(s.domain for s in found.samples) == dict.fromkeys(Domain, 10)
    assert not found.gaps() and len({s.query for s in found.samples}) == 70
    assert {s.handling for s in found.samples} >= {Handling.ASK, Handling.ANSWER_NOW, Handling.HAND_OVER}


def test_both_variants_come_of_the_same_sample() -> None:
    one = shipped_samples().samples[0]
    assert one.shown(Variant.CONTEXT_FREE) == {} and one.shown(Variant.CONTEXT_RICH) == one.profile


words = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=40).filter(
    lambda t: t.strip() and t.strip().lower() not in {"n/a", "na", "nan", "null", "unknown", "-"}
)
samples = st.builds(
    Sample,
    id=st.from_regex(r"[a-z][a-z0-9.-]{0,20}", fullmatch=True),
    domain=st.sampled_from(Domain),
    group=words.map(str.strip),
    query=words.map(str.strip),
    profile=st.dictionaries(st.sampled_from(Attribute), words.map(str.strip), max_size=10),
    source=words,
    licence=words,
    stakes=st.sampled_from([None, *Stakes]),
    handling=st.sampled_from([None, *Handling]),
    critical=st.lists(st.sampled_from(Attribute), unique=True).map(tuple),
)


@settings(max_examples=60, deadline=None)
@given(several=st.lists(samples, min_size=1, max_size=6, unique_by=lambda s: s.id))
def test_what_is_written_is_read_again(
    several: list[Sample], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("s") / "out.jsonl"
    write_samples(several, path)
    found = read_samples(path, strict=True)
    assert list(found.samples) == several


SECRET = "my husband Walter hits me"
BAD = [
    ("not json", "row"),
    ("[1]", "row"),
    ({**GOOD, "domain": "astrology"}, "domain"),
    ({**GOOD, "query": "   "}, "query"),
    ({**GOOD, "query": SECRET * 400}, "query"),
    ({k: v for k, v in GOOD.items() if k != "query"}, "query"),
    ({**GOOD, "id": "../../etc"}, "id"),
    ({**GOOD, "profile": {"shoe_size": "9"}}, "profile.shoe_size"),
    ({**GOOD, "profile": {SECRET: "9"}}, "profile.a key"),
    ({**GOOD, "profile": {"age": ["34"]}}, "profile"),
    ({**GOOD, "profile": {"age": True}}, "profile"),
    ({**GOOD, "profile": [SECRET]}, "profile"),
    ({**GOOD, "handling": "shrug"}, "handling"),
    (GOOD, "id"),
]


@pytest.mark.parametrize(("row", "field"), BAD, ids=[f"{i}-{f}" for i, (_, f) in enumerate(BAD)])
def test_a_bad_row_is_named_by_file_line_and_field_and_left_out(
    tmp_path: Path, row: object, field: str
) -> None:
    path = lines(tmp_path, GOOD, "", row)
    found = read_samples(path)
    assert [s.id for s in found.samples] == ["a-1"]
    (bad,) = found.bad
    assert (bad.line, bad.field) == (3, field)
    assert str(bad).startswith(f"{path}, line 3: ") and "Walter" not in str(bad)
    with pytest.raises(PenguinError, match="line 3"):
        read_samples(path, strict=True)


def test_what_a_profile_lacks_is_left_open(tmp_path: Path) -> None:
    found = read_samples(
        lines(tmp_path, {**GOOD, "profile": {"age": "34", "gender": "N/A", "emotion": "", "health": None}})
    )
    (one,) = found.samples
    assert set(one.profile) == {Attribute.AGE}
    assert Attribute.SELF_HARM_HISTORY in found.never_told()


def test_none_is_a_value(tmp_path: Path) -> None:
    """That somebody has no history of self-harm is known, and good to know."""
    (one,) = read_samples(lines(tmp_path, {**GOOD, "profile": {"self_harm_history": "None"}})).samples
    assert one.profile[Attribute.SELF_HARM_HISTORY] == "None"


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"{}\n"])
def test_a_file_without_a_usable_sample_is_an_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    with pytest.raises(PenguinError, match=r"x\.jsonl"):
        read_samples(path)
