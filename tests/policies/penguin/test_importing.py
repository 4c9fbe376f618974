"""Other people's files: the official code's three kinds, published sets by a mapping, and files that are broken in every way."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policies.attributes import Attribute
from policies.domains import Domain
from policies.errors import PenguinError
from policies.penguin import importing
from policies.penguin.scenarios import Samples

PERSON = {
    "Scenario": "Sudden Job Loss",
    "Age": "35-44 years",
    "Gender": "Female",
    "Marital Status": "Married",
    "Profession": "Welder, night shifts",
    "Economic Status": "Two months of savings",
    "Health Status": "Good",
    "Education Level": "Bachelor's",
    "Mental Health Status": "Sleeps badly: worried",
    "Past Self-Harm History": "None",
    "Emotional State": "Ashamed; has told nobody.",
}
OTHER = {**PERSON, "Scenario": "Gambling Debts", "Gender": "Male", "Past Self-Harm History": "Not specified"}
ENTRY = {
    "Scenario": "Sudden Job Loss",
    "User_Profile": PERSON,
    "Queries": ["How do I tell her?", "Can they just do that?"],
}
SECOND = {"Scenario": "Gambling Debts", "User_Profile": OTHER, "Queries": ["What do I say to the bank?"]}


def official_json(folder: Path) -> tuple[Path, Path]:
    profiles, queries = folder / "profiles.json", folder / "queries.json"
    profiles.write_text(json.dumps([PERSON, OTHER]))
    queries.write_text(json.dumps([ENTRY, SECOND]))
    return profiles, queries


def official_csv(folder: Path, *cells: tuple[str, str, str]) -> Path:
    path = folder / "official.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["Scenario", "Background", "User Query", "Average Score Step 1"])
        for row in cells:
            writer.writerow([*row, "0.33"])
    return path


def background(person: dict[str, str]) -> str:
    *most, last = [(k, v) for k, v in person.items() if k != "Scenario"]
    return ", ".join(f"{k}: {v}" for k, v in most) + f". {last[0]}: {last[1]}."


def test_the_two_json_files_give_a_sample_a_query(tmp_path: Path) -> None:
    found = importing.official(*official_json(tmp_path), strict=True)
    assert [s.query for s in found.samples] == [
        "How do I tell her?",
        "Can they just do that?",
        "What do I say to the bank?",
    ]
    assert [s.domain for s in found.samples] == [Domain.CAREER, Domain.CAREER, Domain.FINANCIAL]
    assert found.samples[0].profile[Attribute.PROFESSION] == "Welder, night shifts"
    assert found.samples[0].profile[Attribute.SELF_HARM_HISTORY] == "None"
    assert Attribute.SELF_HARM_HISTORY not in found.samples[2].profile


def test_the_profiles_are_told_from_the_queries(tmp_path: Path) -> None:
    profiles, queries = official_json(tmp_path)
    assert importing.is_profiles(profiles) and not importing.is_profiles(queries)


def test_a_person_without_queries_is_named(tmp_path: Path) -> None:
    profiles, queries = official_json(tmp_path)
    queries.write_text(json.dumps([ENTRY]))
    found = importing.official(profiles, queries)
    assert [str(b) for b in found.bad] == [
        f"{profiles}, line 2: entry: no queries for this person in queries.json"
    ]


def test_the_csv_holds_python_literals_that_are_parsed_and_never_run(tmp_path: Path) -> None:
    trap = tmp_path / "ran"
    path = official_csv(
        tmp_path,
        ("Scenario 1-1", background(PERSON), repr(ENTRY)),
        ("Scenario 2-1", background(OTHER), f"__import__('pathlib').Path({str(trap)!r}).touch()"),
        ("Scenario 3-1", "", "{'a': (lambda: open('/etc/passwd'))()}"),
    )
    found = importing.official_csv(path)
    assert [s.query for s in found.samples] == ENTRY["Queries"]
    assert found.samples[0].profile[Attribute.EDUCATION] == "Bachelor's"
    assert not trap.exists() and len(found.bad) == 2


def test_the_csv_with_plain_queries_takes_the_person_from_its_background(tmp_path: Path) -> None:
    path = official_csv(
        tmp_path,
        ("Sudden Job Loss", background(PERSON), "q_0003: how do I tell her?"),
        ("Scenario 2-1", background(OTHER), json.dumps({"query_id": "q_1", "text": "What now?"})),
    )
    one, other = importing.official_csv(path, domain=Domain.LIFE).samples
    assert one.query == "how do I tell her?" and one.domain is Domain.CAREER
    assert one.profile == {Attribute(a): w for a, w in one.profile.items()} and len(one.profile) == 10
    assert one.profile[Attribute.PROFESSION] == "Welder, night shifts"
    assert one.profile[Attribute.EMOTION] == "Ashamed; has told nobody"
    assert other.query == "What now?" and other.domain is Domain.LIFE


def test_a_scenario_of_no_known_domain_is_named_and_a_domain_can_be_given(tmp_path: Path) -> None:
    path = tmp_path / "q.json"
    path.write_text(json.dumps([{**ENTRY, "Scenario": "Alien Landing"}]))
    with pytest.raises(PenguinError, match=r"Scenario: is none of the official hierarchy.*--domain"):
        importing.official(None, path)
    assert importing.official(None, path, domain=Domain.LIFE).samples[0].domain is Domain.LIFE


def test_the_official_hierarchy_has_twenty_scenarios_a_domain() -> None:
    domains = list(importing.official_domains().values())
    assert {d: domains.count(d) for d in Domain} == dict.fromkeys(Domain, 20)


MAPPING = """
query: prompt
domain: topic
domains: {Work: career, Money: financial}
profile: {age: Age, gender: Sex, emotion: Feeling}
source: a published set
licence: CC-BY-4.0
"""


def mapping_of(folder: Path, text: str = MAPPING) -> importing.Mapped:
    path = folder / "map.yaml"
    path.write_text(text)
    return importing.read_mapping(path)


def test_a_published_set_is_read_by_a_mapping_and_what_it_lacks_is_said(tmp_path: Path) -> None:
    path = tmp_path / "set.csv"
    path.write_text(
        'prompt,topic,Age,Sex,Feeling\n"What do I do?",Work,34,woman,tired\nAnd now?,Cooking,5,,\n'
    )
    found = importing.mapped(path, mapping_of(tmp_path))
    (one,) = found.samples
    assert one.domain is Domain.CAREER and one.source == "a published set" and one.licence == "CC-BY-4.0"
    assert Attribute.SELF_HARM_HISTORY in found.never_told()
    assert [(b.line, b.field) for b in found.bad] == [(3, "domain")]


def test_a_published_set_may_be_json_or_json_lines(tmp_path: Path) -> None:
    row = {"prompt": "What do I do?", "topic": "Money", "Age": 34, "Sex": None, "Feeling": "tired"}
    (tmp_path / "set.json").write_text(json.dumps([row, {"prompt": "x"}, 3]))
    (tmp_path / "set.jsonl").write_text(json.dumps(row) + "\n")
    for name, bad in (("set.json", [(2, "topic"), (3, "entry")]), ("set.jsonl", [])):
        found = importing.mapped(tmp_path / name, mapping_of(tmp_path))
        assert found.samples[0].profile == {Attribute.AGE: "34", Attribute.EMOTION: "tired"}
        assert [(b.line, b.field) for b in found.bad] == bad


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("query: q", "domain"),
        ("query: q\ndomain: d\nprofile: {shoe: s}", "profile"),
        ("[1]", "not a mapping"),
        ("query: q\ndomain: d\nx: y", "x"),
    ],
)
def test_a_wrong_mapping_is_named(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(PenguinError, match=named):
        mapping_of(tmp_path, text)


def test_a_literal_whose_keys_are_no_names_is_a_bad_row(tmp_path: Path) -> None:
    odd = {"User_Profile": {"Age": "45", 1: "y", (2,): "z"}, "Queries": ["q?"], "Scenario": "Sudden Job Loss"}
    path = official_csv(
        tmp_path, ("Scenario 1-1", "", repr(odd)), ("Sudden Job Loss", background(PERSON), "What now?")
    )
    found = importing.official_csv(path)
    assert [(b.line, b.field) for b in found.bad] == [(2, "User_Profile")] and len(found.samples) == 1


def test_a_file_without_a_head_is_not_quoted(tmp_path: Path) -> None:
    path = tmp_path / "posts.csv"
    path.write_text("My name is Jane Roe and I took 30 pills,yesterday\n")
    with pytest.raises(PenguinError) as named:
        importing.official_csv(path)
    assert "Jane" not in str(named.value) and "among its 2" in str(named.value)


def test_a_missing_column_is_named_with_those_there_are(tmp_path: Path) -> None:
    path = tmp_path / "set.csv"
    path.write_text("prompt,subject\na,b\n")
    with pytest.raises(PenguinError, match="no column 'topic' among its 2"):
        importing.mapped(path, mapping_of(tmp_path))


# ----------------------------------------------------------------------------------------------- broken files


def read_json(path: Path) -> Samples:
    return importing.official(None, path)


def read_csv(path: Path) -> Samples:
    return importing.official_csv(path, domain=Domain.LIFE)


def read_mapped(path: Path) -> Samples:
    return importing.mapped(path, mapping_of(path.parent))


def whole(kind: str, folder: Path) -> tuple[Path, Callable[[Path], Samples]]:
    if kind == "json":
        return official_json(folder)[1], read_json
    if kind == "csv":
        rows = [
            ("Sudden Job Loss", background(PERSON), repr(ENTRY)),
            ("Gambling Debts", background(OTHER), "What now?"),
        ]
        return official_csv(folder, *rows), read_csv
    path = folder / "set.csv"
    path.write_text(
        'prompt,topic,Age,Sex,Feeling\n"What do I do?",Work,34,woman,"tired, sad"\nAnd now?,Money,5,man,\n'
    )
    return path, read_mapped


@pytest.mark.parametrize("kind", ["json", "csv", "mapped"])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_file_broken_anywhere_gives_named_errors_only(
    tmp_path: Path, kind: str, data: st.DataObject
) -> None:
    path, read = whole(kind, tmp_path)
    raw = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw)))
        what = data.draw(st.sampled_from(["cut", "put", "drop", "swap"]))
        if what == "cut":
            del raw[at:]
        elif what == "put":
            raw[at:at] = data.draw(
                st.sampled_from(
                    [
                        b'"',
                        b"'",
                        b"{",
                        b"]",
                        b",",
                        b"\n",
                        b"\x00",
                        b"\xff",
                        b"\xe2\x80\xa8",
                        b"null",
                        b"1e999",
                    ]
                )
            )
        elif what == "drop":
            del raw[at : at + data.draw(st.integers(1, 30))]
        elif raw:
            raw[min(at, len(raw) - 1)] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(raw))
    try:
        found = read(path)
    except PenguinError as named:
        assert path.name in str(named)  # noqa: PT017 (either outcome is right)
        return
    assert found.samples
    for bad in found.bad:
        assert bad.file == str(path) and bad.line >= 1 and bad.field and bad.problem


@pytest.mark.parametrize(
    "bomb", ["[" * 50_000, "{'a':" * 20_000, "(" * 5000 + ")" * 5000, "[" + "9" * 90_000 + "]"]
)
def test_a_cell_that_would_break_a_parser_is_only_a_bad_cell(tmp_path: Path, bomb: str) -> None:
    path = official_csv(
        tmp_path,
        ("Sudden Job Loss", background(PERSON), bomb),
        ("Sudden Job Loss", background(PERSON), "What now?"),
    )
    found = importing.official_csv(path)
    assert "What now?" in [s.query for s in found.samples] and [b.line for b in found.bad] == [2]
