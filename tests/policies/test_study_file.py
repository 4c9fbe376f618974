"""The study file: what is wrong in it is said with file, line and value. And arms: balanced, by a seed, and by nothing else."""

from __future__ import annotations

import random
from collections import Counter
from functools import reduce
from hashlib import sha256
from math import gcd
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies import study
from policies.allocation import allocate, ratios
from policies.errors import PolicyError, PolicyFileError
from policies.files import key_lines

WHOLE = """\
version: "3"
title: A study of quokkas
contact: desk@study.example
country: gb
minimum_age: 16
opens: 2027-01-11
closes: 2027-06-30
retention_file: short.yaml
arms:
  quokka:
    kind: raise
    budget: 3
    thresholds: strict.yaml
  numbat:
    kind: vanilla
questionnaires:
  - name: distress
    title: How you are
    when: [before, after]
    items:
      - id: now
        text: How upset are you?
        kind: likert
        low: not at all
        high: extremely
      - id: words
        text: Anything to add?
        kind: text
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("short.yaml", "strict.yaml"):
        (tmp_path / name).write_text("x: 1\n")
    return tmp_path


def written(folder: Path, text: str = WHOLE) -> Path:
    path = folder / "study.yaml"
    path.write_text(text)
    return path


def refused(folder: Path, old: str, new: str) -> str:
    """What is said of the file with something else in it."""
    assert WHOLE.count(old) == 1
    with pytest.raises(PolicyFileError) as said:
        study.load(written(folder, WHOLE.replace(old, new)))
    return str(said.value)


# ------------------------------------------------------------------------------------------------ what is read


def test_a_whole_file_is_read(folder: Path) -> None:
    found = study.load(written(folder))
    said = found.choices
    assert (said.version, said.title, said.minimum_age, str(said.closes)) == (
        "3",
        "A study of quokkas",
        16,
        "2027-06-30",
    )
    assert said.arms["quokka"].budget == 3 and said.arms["numbat"].kind == "vanilla"
    assert [q.name for q in found.asked("before")] == [q.name for q in found.asked("after")] == ["distress"]
    assert not found.is_example


def test_the_file_that_ships_is_read_and_known_for_the_example() -> None:
    found = study.shipped()
    assert found.is_example and set(found.choices.arms) == {"raise", "vanilla"} and list(found.files()) == []


def test_the_protocol_version_has_the_hash_of_the_file(folder: Path) -> None:
    path = written(folder)
    found = study.load(path)
    assert found.sha256 == sha256(path.read_bytes()).hexdigest()
    assert found.protocol == f"3 ({found.sha256[:12]})"


def test_a_change_of_any_line_is_another_protocol_version(folder: Path) -> None:
    first = study.load(written(folder)).protocol
    assert study.load(written(folder, WHOLE + "# a comment\n")).protocol != first


def test_the_files_that_it_names_are_looked_for_beside_it(folder: Path) -> None:
    found = study.load(written(folder))
    assert list(found.files()) == [
        ("retention_file", folder / "short.yaml"), ("arms.quokka.thresholds", folder / "strict.yaml"),
    ]  # fmt: skip


def test_a_questionnaire_is_asked_on_its_occasions_only(folder: Path) -> None:
    found = study.load(written(folder, WHOLE.replace("[before, after]", "[after]")))
    assert found.asked("before") == () and len(found.asked("after")) == 1


def test_what_is_left_empty_is_as_if_it_were_not_there(folder: Path) -> None:
    found = study.load(written(folder, WHOLE.replace("closes: 2027-06-30", "closes:")))
    assert found.choices.closes is None and found.choices.languages == ("en",)


def test_where_something_stands_is_told_by_file_and_line(folder: Path) -> None:
    found = study.load(written(folder))
    assert found.where("title") == f"{found.path}, line 2"
    assert found.where("arms", "quokka", "thresholds") == f"{found.path}, line 13"
    assert found.where("stop_rule") == f"{found.path}, line 1", "what is not there"


# ------------------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("old", "new", "line", "named", "value"),
    [
        ("contact: desk", "colour: desk", 3, "colour", "'desk@study.example'"),
        ('version: "3"', "version: 3", 1, "version", "3"),
        ('version: "3"', 'version: ""', 1, "version", "''"),
        ("title: A study of quokkas", "title: A", 2, "title", "'A'"),
        ("country: gb", "country: gbr", 4, "country", "'gbr'"),
        ("minimum_age: 16", "minimum_age: 12", 5, "minimum_age", "12"),
        ("minimum_age: 16", "minimum_age: old", 5, "minimum_age", "'old'"),
        ("opens: 2027-01-11", "opens: tomorrow", 6, "opens", "'tomorrow'"),
        ("kind: vanilla", "kind: placebo", 15, "arms.numbat.kind", "'placebo'"),
        ("budget: 3", "budget: 11", 12, "arms.quokka.budget", "11"),
        ("budget: 3", "budget: -1", 12, "arms.quokka.budget", "-1"),
        ("budget: 3", "bugdet: 3", 12, "arms.quokka.bugdet", "3"),
        ("name: distress", "name: How upset", 17, "questionnaires.0.name", "'How upset'"),
        ("[before, after]", "[during]", 19, "questionnaires.0.when.0", "'during'"),
        ("id: words", "id: Words", 26, "questionnaires.0.items.1.id", "'Words'"),
        ("kind: text", "kind: essay", 28, "questionnaires.0.items.1.kind", "'essay'"),
        ("kind: likert", "kind: likert\n        points: 12", 24, "questionnaires.0.items.0.points", "12"),
    ],
)  # fmt: skip
def test_a_bad_value_is_named_with_file_and_line(
    old: str, new: str, *, line: int, named: str, value: str, folder: Path
) -> None:
    said = refused(folder, old, new)
    assert said.startswith(f"{folder / 'study.yaml'}, line {line}: {named}: "), said
    assert said.endswith(f"(found {value})"), said


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("title: A study of quokkas\n", "", "line 1: title: Field required"),
        ("contact: desk@study.example", "languages: [de]", "the chat speaks English only"),
        ("contact: desk@study.example", "languages: [en, de]", "the chat speaks English only"),
        ("closes: 2027-06-30", "closes: 2026-06-30", "closes: 2026-06-30 is before opens"),
        ("id: words", "id: now", "line 17: questionnaires.0: the item now is there twice"),
        ("        low: not at all\n", "", "line 21: questionnaires.0.items.0: a likert item needs low and high"),
        ("        high: extremely\n", "", "line 21: questionnaires.0.items.0: a likert item needs low and high"),
        ("    kind: vanilla", "    kind: vanilla\n    prompts: {answer: abc}", "line 16: arms.numbat.prompts: answer: not a SHA-256"),
        ("    kind: vanilla", f"    kind: vanilla\n    prompts: {{answer: {'G' * 64}}}", "line 16: arms.numbat.prompts: answer: not"),
        ("  numbat:", "  Numbat:", "arms: 'Numbat': write small letters"),
        ("  numbat:", "  num bat:", "arms: 'num bat': write small letters"),
        ("retention_file: short.yaml", "retention_file: long.yaml", "line 8: retention_file: long.yaml is not there"),
        ("thresholds: strict.yaml", "library: paths.json", "line 13: library: paths.json is not there"),
        ("thresholds: strict.yaml", "thresholds: strict.yaml\n    thresholds: strict.yaml", "line 14: thresholds: there twice"),
        ('version: "3"', 'version: "3"\nversion: "4"', "line 2: version: there twice"),
        ("minimum_age: 16", "minimum_age: [16", "not YAML"),
    ],
)  # fmt: skip
def test_what_is_impossible_is_named_with_file_and_line(old: str, new: str, told: str, folder: Path) -> None:
    said = refused(folder, old, new)
    assert said.startswith(str(folder / "study.yaml")) and told in said, said


def test_two_questionnaires_of_one_name_are_refused(folder: Path) -> None:
    twice = WHOLE + WHOLE[WHOLE.index("  - name: distress") :]
    with pytest.raises(PolicyFileError, match="questionnaires: distress is there twice"):
        study.load(written(folder, twice))


@pytest.mark.parametrize("text", ["", "just words", "- a list\n", "arms: {}\ntitle: Study\nversion: '1'\n"])
def test_what_is_no_study_file_is_refused(text: str, folder: Path) -> None:
    with pytest.raises(PolicyFileError, match=r"study\.yaml"):
        study.load(written(folder, text))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(PolicyFileError, match=r"nowhere\.yaml: cannot be read"):
        study.load(tmp_path / "nowhere.yaml")


def test_every_key_and_place_in_a_list_has_its_line(folder: Path) -> None:
    lines = key_lines(written(folder))
    text = WHOLE.splitlines()
    keys = [line for line in text if line.strip().removeprefix("- ")[:1].isalpha()]
    assert len([place for place in lines if not place[-1].isdecimal()]) == len(keys) == len(text)
    for place, line in lines.items():
        if not place[-1].isdecimal():
            assert text[line - 1].strip().removeprefix("- ").startswith(f"{place[-1]}:"), place
    assert (
        lines["questionnaires", "0", "items", "1"] == 26 and lines["questionnaires", "0", "when", "1"] == 19
    )


# ------------------------------------------------------------------------------------------------ allocation

SHARES = st.dictionaries(st.sampled_from(("a", "b", "c", "d")), st.integers(1, 6), min_size=1)


def least(shares: dict[str, int]) -> int:
    return sum(shares.values()) // reduce(gcd, shares.values())


@given(shares=SHARES, times=st.integers(1, 4), count=st.integers(1, 60), seed=st.integers())
@settings(deadline=None)
def test_every_whole_block_is_balanced(shares: dict[str, int], times: int, count: int, seed: int) -> None:
    size = least(shares) * times
    made = allocate(shares, count, blocks=[size], rng=random.Random(seed))
    assert len(made) == count
    for start in range(0, count - size + 1, size):
        block = Counter(made[start : start + size])
        assert block == {arm: share * size // sum(shares.values()) for arm, share in shares.items()}


@given(shares=SHARES, sizes=st.lists(st.integers(1, 4), min_size=1, max_size=3), seed=st.integers())
@settings(deadline=None)
def test_blocks_of_several_sizes_leave_no_arm_behind_by_more_than_a_block(
    shares: dict[str, int], sizes: list[int], seed: int
) -> None:
    blocks = [least(shares) * times for times in sizes]
    made = allocate(shares, 50, blocks=blocks, rng=random.Random(seed))
    for count in range(1, 51):
        for arm, share in shares.items():
            expected = count * share / sum(shares.values())
            assert abs(made[:count].count(arm) - expected) <= max(blocks)


@given(shares=SHARES, seed=st.integers())
@settings(deadline=None)
def test_the_same_seed_gives_the_same_sequence(shares: dict[str, int], seed: int) -> None:
    blocks = [least(shares), 2 * least(shares)]
    first, second = (allocate(shares, 40, blocks=blocks, rng=random.Random(seed)) for _ in range(2))
    assert first == second


def test_another_seed_gives_another_sequence() -> None:
    made = {tuple(allocate({"a": 1, "b": 1}, 40, blocks=[4], rng=random.Random(seed))) for seed in range(20)}
    assert len(made) == 20


def test_within_a_block_any_order_can_come() -> None:
    made = {tuple(allocate({"a": 1, "b": 1}, 4, blocks=[4], rng=random.Random(seed))) for seed in range(200)}
    assert len(made) == 6


@given(shares=SHARES, size=st.integers(-3, 60))
@settings(deadline=None)
def test_a_block_that_does_not_hold_the_shares_is_refused(shares: dict[str, int], size: int) -> None:
    def made() -> list[str]:
        return allocate(shares, 5, blocks=[size], rng=random.Random(1))

    if size > 0 and size % least(shares) == 0:
        assert len(made()) == 5
    else:
        with pytest.raises(PolicyError, match=f"--block {size}: not a multiple of {least(shares)}"):
            made()


@pytest.mark.parametrize(
    ("text", "shares"),
    [
        ("raise", {"raise": 1}),
        ("raise:2,vanilla:1", {"raise": 2, "vanilla": 1}),
        (" raise:2 , vanilla ", {"raise": 2, "vanilla": 1}),
        ("raise:100,", {"raise": 100}),
    ],
)
def test_arms_and_shares_are_read_as_they_are_written(text: str, shares: dict[str, int]) -> None:
    assert ratios(text) == shares and list(ratios(text)) == list(shares)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "at least one arm"),
        (" , ", "at least one arm"),
        ("raise:0", "raise:0"),
        ("raise:101", "raise:101"),
        ("raise:-1", "raise:-1"),
        ("raise:half", "raise:half"),
        ("raise:1.5", "raise:1.5"),
        ("raise:1:2", "raise:1:2"),
        ("raise,raise:2", "raise is there twice"),
    ],
)
def test_arms_that_are_none_are_refused(text: str, told: str) -> None:
    with pytest.raises(PolicyError, match="--arms") as said:
        ratios(text)
    assert told in str(said.value)


def test_a_share_without_an_arm_is_refused() -> None:
    with pytest.raises(PolicyError, match="--arms"):
        ratios(":2")


def test_nobody_is_allocated_where_nobody_is_wanted() -> None:
    found: Any = allocate({"a": 1}, 0, blocks=[1], rng=random.Random(1))
    assert found == []
