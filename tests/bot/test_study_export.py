"""The study's export: who agreed and nobody else, nobody who can be picked out, and numbers that add up."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from bot.conversation import Conversation
from bot.errors import SettingsError
from bot.export import QUASI, SKIPPED, TABLES, Exported, TooFew, _cell, _csv, export
from bot.keeping import Keeping
from bot.operating import Operating
from bot.parts import Parts
from policies import study as studies
from privacy.anonymity import HIDDEN, small_classes, suppressed
from privacy.audit import EventKind
from privacy.consent import Scope, ToKeep
from privacy.errors import AuditBroken
from privacy.research import Research
from tests.conftest import Clock, InProcess, keeping_in

STUDY = """
version: "7"
title: A study of quokkas
arms:
  quokka: {kind: raise}
  numbat: {kind: vanilla}
"""
PROTOCOL = "7 (abcdef012345)"
SECRETS = ("paperboatish", "lanternboxed", "kettleworthy", "quillfeathers")
"""Words of somebody who did not agree to research, each said in another place."""
WORRY = "I can't sleep and everything feels too much, what do I do?"
"""Tells nothing by which somebody could be picked out."""


@dataclass
class Deployment:
    """A study under way."""

    keeping: Keeping
    parts: Parts
    clock: Clock
    folder: Path

    async def enrol(self, arm: str, *scopes: Scope) -> str:
        person, _ = await self.keeping.run(lambda: self.keeping.accounts.enrol(arm, protocol=PROTOCOL))
        await self.keeping.run(self.keeping.accounts.came, person)
        for scope in scopes:
            await self.keeping.answer(person, scope, granted=True)
        return str(person)

    async def talk(self, person: str, *texts: str, note: str = "") -> Conversation:
        made = Conversation.start(self.parts, person=person, country="GB")
        for text in texts:
            _ = [w async for w in made.receive(text)]
            self.clock.move(minutes=2)
        if note:
            _ = [w async for w in made.rate(helped=False, note=note, number=1)]
        return made

    async def respond(self, person: str, **values: Any) -> None:
        def write() -> None:
            grant = self.keeping.ledger.grant(person, ToKeep)
            assert grant is not None
            raw = {item: json.dumps(value) for item, value in values.items()}
            self.keeping.records.keep_responses(
                grant, person=person, instrument="distress", occasion="before", values=raw
            )

        await self.keeping.run(write)

    async def alarm(self, person: str) -> None:
        now = self.clock()

        def write() -> None:
            self.keeping.store.open_escalation(
                person=person,
                level="imminent",
                at=now,
                again_after=timedelta(0),
                until=now + timedelta(days=99),
            )

        await self.keeping.run(write)

    async def export(
        self,
        name: str = "out",
        *,
        k: int = 2,
        hides: bool = False,
        formats: Sequence[str] = ("csv", "parquet"),
    ) -> Exported:
        study = self.folder / "study.yaml"
        study.write_text(STUDY)
        return await self.keeping.run(
            lambda: export(
                self.keeping,
                studies.load(study),
                self.folder / name,
                k=k,
                hides=hides,
                formats=formats,
                by="anna",
            )
        )

    async def code(self, person: str) -> str:
        k = self.keeping
        return str(await k.run(Research(k.store, k.vault, k.records, k.accounts, k.ledger).code, person))

    async def flow(self) -> dict[tuple[str, str], int]:
        k = self.keeping
        return await k.run(Research(k.store, k.vault, k.records, k.accounts, k.ledger).flow, k.now())

    def rows(self, table: str, name: str = "out") -> list[dict[str, str]]:
        text = (self.folder / name / f"{table}.csv").read_text(encoding="utf-8")
        return list(csv.DictReader(io.StringIO(text)))

    def all_bytes(self, name: str = "out") -> bytes:
        return b"\0".join(p.read_bytes() for p in sorted((self.folder / name).rglob("*")) if p.is_file())

    async def exports_logged(self) -> list[dict[str, Any]]:
        newest = await self.keeping.run(lambda: self.keeping.audit.newest(EventKind.EXPORT, most=99))
        return [json.loads(event.counts) for event in newest]


@pytest.fixture
async def study(parts: Parts, redactor: InProcess, clock: Clock, tmp_path: Path) -> AsyncIterator[Deployment]:
    keeping: Any = keeping_in(tmp_path / "data", clock=clock, always=True)
    (tmp_path / "exports").mkdir()
    yield Deployment(
        keeping=keeping,
        parts=replace(parts, keeping=keeping, detector=redactor),  # type: ignore[arg-type]
        clock=clock,
        folder=tmp_path / "exports",
    )
    keeping.close()


ALL = (Scope.CHAT, Scope.KEEP, Scope.RESEARCH)


@pytest.fixture
async def three(study: Deployment) -> tuple[Deployment, str, str, str]:
    """Two who agreed to research, one in each arm, and one who did not and said secrets everywhere."""
    one, two = await study.enrol("quokka", *ALL), await study.enrol("numbat", *ALL)
    other = await study.enrol("quokka", Scope.CHAT, Scope.KEEP)
    await study.talk(one, WORRY, "low, not sleeping", note="it was too short")
    await study.talk(two, "how do I ask for a day off?")
    await study.talk(
        other,
        f"I can't sleep in my {SECRETS[0]} room, what do I do?",
        f"low and {SECRETS[1]}",
        note=f"so {SECRETS[2]}",
    )
    for person, text in ((one, "fine so far"), (other, f"a {SECRETS[3]} day")):
        await study.respond(person, now={"value": 4}, words={"text": text})
        await study.alarm(person)
        await study.keeping.run(lambda p=person: study.keeping.accounts.deviated("pin-reset", person=p))  # type: ignore[misc]
    return study, one, two, other


# ------------------------------------------------------------------------------------------------ who is in it


async def test_nothing_of_who_did_not_agree_to_research_is_in_any_byte(
    three: tuple[Deployment, str, str, str],
) -> None:
    study, _, _, other = three
    kept, _ = await study.keeping.kept(other)  # type: ignore[misc]
    assert SECRETS[0] in kept.shown, "it is kept, and would be there"
    made = await study.export()
    raw = study.all_bytes()
    for secret in (*SECRETS, other, await study.code(other)):
        assert secret.encode() not in raw, secret
    assert made.people == 2 and made.left_out == 1


async def test_no_pseudonym_and_no_session_id_is_in_any_byte(three: tuple[Deployment, str, str, str]) -> None:
    study, one, two, _ = three
    ids = await study.keeping.run(
        lambda: [r["id"] for r in study.keeping.store.db.query("SELECT id FROM sessions")]
    )
    await study.export()
    raw = study.all_bytes()
    assert len(ids) == 3 and not any(name.encode() in raw for name in (one, two, *ids))
    assert b"2026-11-29" not in raw.replace((study.folder / "out" / "manifest.json").read_bytes(), b"")


async def test_arm_protocol_and_what_was_done_are_there(three: tuple[Deployment, str, str, str]) -> None:
    study, one, two, _ = three
    made = await study.export()
    codes = {await study.code(one): "quokka", await study.code(two): "numbat"}
    people = {row["id"]: row for row in study.rows("participants")}
    assert {code: row["arm"] for code, row in people.items()} == codes
    assert {row["protocol"] for row in people.values()} == {PROTOCOL}
    mine = people[await study.code(one)]
    assert (mine["sessions"], mine["turns"], mine["first_day"]) == ("1", "2", "0")
    assert {"asked", "answered"} <= set(mine) and int(mine["asked"]) >= 1
    assert [row["note"] for row in study.rows("ratings")] == ["it was too short"]
    assert {(row["item"], row["value"], row["text"]) for row in study.rows("questionnaires")} == {
        ("now", "4", ""), ("words", "", "fine so far"),
    }  # fmt: skip
    assert [(row["id"], row["level"]) for row in study.rows("adverse_events")] == [(mine["id"], "imminent")]
    assert [(row["id"], row["kind"]) for row in study.rows("deviations")] == [(mine["id"], "pin-reset")]
    said = [row["said"] for row in study.rows("transcripts") if row["id"] == mine["id"]]
    assert said == [WORRY, "low, not sleeping"]
    assert made.rows == {name: len(study.rows(name)) for name in TABLES}


async def test_a_deviation_of_the_whole_study_is_there_without_an_id(study: Deployment) -> None:
    for _ in range(2):
        await study.enrol("quokka", *ALL)
    await study.keeping.run(lambda: study.keeping.accounts.deviated("enrolment-paused"))
    await study.export()
    assert [(row["id"], row["kind"]) for row in study.rows("deviations")] == [("", "enrolment-paused")]


async def test_gaps_and_days_are_counted_and_no_date_is_told(study: Deployment) -> None:
    one, _ = await study.enrol("quokka", *ALL), await study.enrol("quokka", *ALL)
    study.clock.move(days=3)
    await study.talk(one, WORRY, "low, not sleeping")
    await study.export()
    rows = study.rows("timings")
    assert [(r["session"], r["turn"], r["day"], r["gap_seconds"]) for r in rows] == [
        ("1", "1", "3", ""), ("1", "2", "3", "120"),
    ]  # fmt: skip
    assert all(int(r["took_ms"]) >= 0 for r in rows)


async def test_a_questionnaire_that_was_skipped_is_no_answer(study: Deployment) -> None:
    one, _ = await study.enrol("quokka", *ALL), await study.enrol("quokka", *ALL)
    await study.respond(one, **{SKIPPED: {}})
    await study.export()
    assert study.rows("questionnaires") == []


async def test_after_research_is_taken_back_nothing_of_that_person_is_exported(
    three: tuple[Deployment, str, str, str],
) -> None:
    study, one, two, _ = three
    await study.enrol("quokka", *ALL)
    await study.export("before")
    code = (await study.code(one)).encode()
    assert code in study.all_bytes("before") and b"it was too short" in study.all_bytes("before")
    await study.keeping.answer(one, Scope.RESEARCH, granted=False)
    made = await study.export("after")
    raw = study.all_bytes("after")
    for gone in (code, b"it was too short", WORRY.encode(), b"fine so far"):
        assert gone not in raw, gone
    assert (await study.code(two)).encode() in raw and (made.people, made.left_out) == (2, 2)


async def test_who_was_erased_is_a_number_in_the_flow_and_nothing_else(
    three: tuple[Deployment, str, str, str],
) -> None:
    study, one, _, _ = three
    await study.enrol("quokka", *ALL)
    code = await study.code(one)
    await study.keeping.erase(one)
    await study.export()
    assert code.encode() not in study.all_bytes() and WORRY.encode() not in study.all_bytes()
    flow = {(row["step"], row["arm"]): row for row in study.rows("flow")}
    assert flow["allocated", "quokka"]["people"] == "3"
    assert flow["withdrawn", "quokka"]["people"] == "" and flow["withdrawn", "quokka"]["at_most"] == "1", (
        "it is hidden"
    )
    assert (await study.flow())["withdrawn", "quokka"] == 1


async def test_a_code_is_the_same_in_each_export_and_no_two_people_share_one(
    three: tuple[Deployment, str, str, str],
) -> None:
    study, one, two, other = three
    await study.export("first")
    study.clock.move(days=1)
    await study.export("second")
    first, second = ([r["id"] for r in study.rows("participants", name)] for name in ("first", "second"))
    assert first == second == sorted(first) and set(first) == {await study.code(one), await study.code(two)}
    assert len({await study.code(p) for p in (one, two, other)}) == 3
    assert not any(p.replace("-", "") in code for p in (one, two) for code in first)


async def test_the_code_of_somebody_is_another_in_another_deployment(
    three: tuple[Deployment, str, str, str], clock: Clock, tmp_path: Path
) -> None:
    study, one, _, _ = three
    other: Any = keeping_in(tmp_path / "other", clock=clock)
    await other.answer(one, Scope.KEEP, granted=True)
    research = Research(other.store, other.vault, other.records, other.accounts, other.ledger)
    assert await other.run(research.code, one) not in (None, await study.code(one))
    other.close()


# ------------------------------------------------------------------------------------------------ picked out


async def with_bands(study: Deployment) -> list[str]:
    """Four who agreed: two of an age, and two who are each of their own."""
    people = [await study.enrol("quokka", *ALL) for _ in range(4)]
    for person, age in zip(people, ("34", "34", "71", "19"), strict=True):
        await study.talk(person, f"I am {age} years old. I can't sleep, what do I do?")
    return people


async def test_where_somebody_could_be_picked_out_it_refuses_and_writes_nothing(study: Deployment) -> None:
    await with_bands(study)
    with pytest.raises(TooFew, match=r"2 combinations .* fewer than 2 people \(2 people in all\)"):
        await study.export(k=2)
    assert [p.name for p in study.folder.iterdir()] == ["study.yaml"]
    assert await study.exports_logged() == []


async def test_hidden_cells_leave_every_combination_shared(study: Deployment) -> None:
    await with_bands(study)
    made = await study.export(k=2, hides=True)
    rows = study.rows("participants")
    columns = [a.value for a in QUASI]
    assert small_classes(rows, columns, 2) == {} and made.hidden == 2
    ages = Counter(row["age"] for row in rows)
    assert ages[HIDDEN] == 2 and len(ages) == 2, "who shares an age keeps it"
    manifest = json.loads((study.folder / "out" / "manifest.json").read_text())
    assert (manifest["k"], manifest["cells_hidden"]) == (2, 2)


async def test_bands_are_told_and_not_words(study: Deployment) -> None:
    one, two = [await study.enrol("quokka", *ALL) for _ in range(2)]
    await study.talk(one, "I am 34 years old. I can't sleep, what do I do?")
    await study.talk(two, "I am 34 years old. I can't sleep, what do I do?")
    await study.export(k=2)
    (age,) = {row["age"] for row in study.rows("participants")}
    assert age and "34" not in age


SMALL = st.lists(
    st.fixed_dictionaries({"age": st.sampled_from("abcd"), "gender": st.sampled_from("mf"), "job": st.sampled_from("xyz")}),
    max_size=40,
)  # fmt: skip
COLUMNS = ("age", "gender", "job")


@given(rows=SMALL, k=st.integers(min_value=2, max_value=8))
@settings(deadline=None)
def test_hiding_leaves_no_combination_that_fewer_than_k_share(rows: list[dict[str, str]], k: int) -> None:
    made, hidden = suppressed(rows, COLUMNS, k)
    left = small_classes(made, COLUMNS, k)
    if len(rows) >= k:
        assert left == {}
    else:
        assert set(left) <= {(HIDDEN,) * 3}, "fewer people than k: nothing tells them apart"
    changed = [
        (new[c], old[c]) for new, old in zip(made, rows, strict=True) for c in COLUMNS if new[c] != old[c]
    ]
    assert hidden == len(changed) and all(new == HIDDEN for new, _ in changed), "hidden, never changed"


@given(rows=SMALL, k=st.integers(min_value=2, max_value=8))
@settings(deadline=None)
def test_hiding_touches_nothing_where_nobody_could_be_picked_out(rows: list[dict[str, str]], k: int) -> None:
    often = rows * k
    assert suppressed(often, COLUMNS, k) == (often, 0)


# ------------------------------------------------------------------------------------------------ files


async def test_a_folder_that_is_there_is_not_touched(three: tuple[Deployment, str, str, str]) -> None:
    study, *_ = three
    (study.folder / "out").mkdir()
    with pytest.raises(SettingsError, match="is there already"):
        await study.export()
    assert list((study.folder / "out").iterdir()) == []


async def test_where_it_cannot_be_logged_nothing_is_written(three: tuple[Deployment, str, str, str]) -> None:
    study, *_ = three
    await study.keeping.run(lambda: study.keeping.audit._db.execute("ALTER TABLE events RENAME TO elsewhere"))
    with pytest.raises(AuditBroken):
        await study.export()
    assert [p.name for p in study.folder.iterdir()] == ["study.yaml"]


async def test_files_are_for_whoever_exports_alone(three: tuple[Deployment, str, str, str]) -> None:
    study, *_ = three
    await study.export()
    out = study.folder / "out"
    assert out.stat().st_mode & 0o777 == 0o700 and {p.stat().st_mode & 0o777 for p in out.iterdir()} == {
        0o600
    }


async def test_the_log_has_the_digest_of_the_manifest_and_the_manifest_that_of_each_file(
    three: tuple[Deployment, str, str, str],
) -> None:
    study, *_ = three
    made = await study.export()
    raw = (study.folder / "out" / "manifest.json").read_bytes()
    manifest = json.loads(raw)
    (told,) = await study.exports_logged()
    assert told["manifest"] == hashlib.sha256(raw).hexdigest() == made.sha256
    assert (told["by"], told["people"], told["k"], told["rows"]) == ("anna", 2, 2, sum(made.rows.values()))
    files = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in (study.folder / "out").iterdir()}
    del files["manifest.json"]
    assert manifest["files"] == files and manifest["people"] == 2 and manifest["left_out"] == 1
    assert manifest["protocol"] == f"7 ({hashlib.sha256(STUDY.encode()).hexdigest()[:12]})"
    head = await study.keeping.run(study.keeping.audit.head)
    assert head is not None and head.number == made.entry


async def test_parquet_says_the_same_as_csv(three: tuple[Deployment, str, str, str]) -> None:
    study, *_ = three
    await study.export()
    for name, columns in TABLES.items():
        table = parquet.read_table(study.folder / "out" / f"{name}.parquet")
        assert table.column_names == [c.name for c in columns]
        assert all(table.schema.field(c.name).metadata[b"meaning"].decode() == c.meaning for c in columns)
        again = _csv(table.column_names, table.to_pylist())
        assert again == (study.folder / "out" / f"{name}.csv").read_bytes(), name
        assert table.num_rows, "each table has a row, or this compares nothing"


async def test_types_are_those_of_the_codebook(three: tuple[Deployment, str, str, str]) -> None:
    study, *_ = three
    await study.export()
    kinds = {"text": "string", "integer": "int64", "number": "double", "yes/no": "bool"}
    for name, columns in TABLES.items():
        schema = parquet.read_schema(study.folder / "out" / f"{name}.parquet")
        assert [str(f.type) for f in schema] == [kinds[c.kind] for c in columns]


async def test_the_codebook_names_every_column_of_every_file(three: tuple[Deployment, str, str, str]) -> None:
    study, *_ = three
    await study.export()
    book = study.rows("codebook")
    found = {}
    for path in (study.folder / "out").glob("*.csv"):
        if path.stem != "codebook":
            found[path.stem] = path.read_text(encoding="utf-8").splitlines()[0].split(",")
    told: dict[str, list[str]] = {}
    for row in book:
        told.setdefault(row["file"], []).append(row["column"])
        assert row["meaning"].endswith(".") and row["kind"]
    assert told == found
    text = (study.folder / "out" / "codebook.md").read_text()
    for name, columns in found.items():
        assert f"## {name}\n" in text and all(f"| {column} |" in text for column in columns)


@pytest.mark.parametrize("formats", [("csv",), ("parquet",)])
async def test_only_the_formats_that_are_wanted_are_written(
    formats: tuple[str, ...], three: tuple[Deployment, str, str, str]
) -> None:
    study, *_ = three
    await study.export(formats=formats)
    suffixes = Counter(
        p.suffix for p in (study.folder / "out").iterdir() if p.stem not in ("codebook", "manifest")
    )
    assert suffixes == {f".{formats[0]}": len(TABLES)}


@pytest.mark.parametrize("begins", ["=", "+", "-", "@", "\t", "\r"])
def test_a_cell_that_a_spreadsheet_would_compute_is_quoted(begins: str) -> None:
    text = begins + 'HYPERLINK("http://evil.example","x")'
    (row,) = csv.DictReader(io.StringIO(_csv(["note"], [{"note": text}]).decode(), newline=""))
    assert row["note"] == "'" + text


def test_numbers_are_no_formulas_and_truth_is_a_word() -> None:
    assert [_cell(v) for v in (-3, 0.5, True, False, None, "a=b")] == [-3, 0.5, "yes", "no", "", "a=b"]


async def test_a_note_that_is_a_formula_is_exported_as_text(study: Deployment) -> None:
    one, _ = await study.enrol("quokka", *ALL), await study.enrol("quokka", *ALL)
    await study.talk(one, "how do I ask for a day off?", note="=1+1 is what it told me")
    await study.export()
    assert [row["note"] for row in study.rows("ratings")] == ["'=1+1 is what it told me"]
    (row,) = parquet.read_table(study.folder / "out" / "ratings.parquet").to_pylist()
    assert row["note"] == "=1+1 is what it told me"


# ------------------------------------------------------------------------------------------------ it adds up


async def test_counts_add_up_with_the_flow(three: tuple[Deployment, str, str, str]) -> None:
    study, *_ = three
    silent = await study.enrol("numbat")
    leaves = await study.enrol("numbat", *ALL)
    await study.keeping.run(lambda: Operating(study.keeping).deactivate(silent, by="anna"))
    await study.keeping.erase(leaves)
    await study.export()
    flow = await study.flow()
    for row in study.rows("flow"):
        if row["step"] != "exported":
            assert row["people"] == (
                "" if flow[row["step"], row["arm"]] == 1 else str(flow[row["step"], row["arm"]])
            )
    for arm in ("quokka", "numbat"):
        people = [row for row in study.rows("participants") if row["arm"] == arm]
        assert flow["agreed to research", arm] == len(people) == 1
        assert flow["agreed", arm] >= flow["agreed to keep", arm] >= flow["agreed to research", arm]
        assert flow["came", arm] == flow["allocated", arm], (
            "who came and left is still counted as having come"
        )
    assert {key: n for key, n in flow.items() if key[0] in ("allocated", "withdrawn", "deactivated")} == {
        ("allocated", "quokka"): 2, ("allocated", "numbat"): 3, ("withdrawn", "numbat"): 1,
        ("deactivated", "quokka"): 0, ("deactivated", "numbat"): 1,
    }  # fmt: skip
    assert flow["chatted", "quokka"] == 2 and flow["chatted", "numbat"] == 1


async def test_rows_of_people_and_of_their_decisions_add_up(three: tuple[Deployment, str, str, str]) -> None:
    study, *_ = three
    await study.export()
    by_outcome = Counter((row["id"], row["outcome"]) for row in study.rows("decisions"))
    for row in study.rows("participants"):
        for column, outcome in (("asked", "ask"), ("answered", "answer"), ("abstained", "abstain")):
            assert int(row[column]) == by_outcome[row["id"], outcome]
    asked = sum(int(row["times_asked"]) for row in study.rows("attributes"))
    assert asked == sum(int(row["asked"]) for row in study.rows("participants")) > 0


async def test_an_export_of_nobody_is_empty_and_says_so(study: Deployment) -> None:
    await study.enrol("quokka", Scope.CHAT)
    made = await study.export(k=5)
    assert made.people == 0 and made.left_out == 1
    assert {name for name, rows in made.rows.items() if rows} == {"flow"}


# ------------------------------------------------------------------------------------------------ what is not so yet


async def test_an_arm_that_does_not_open_keeps_nobody_from_the_export(study: Deployment) -> None:
    one, two = await study.enrol("quokka", *ALL), await study.enrol("numbat", *ALL)
    await study.keeping.run(
        lambda: study.keeping.store.db.execute(
            "UPDATE enrolments SET arm = (SELECT arm FROM enrolments WHERE person = ?) WHERE person = ?",
            [two, one],
        )
    )
    await study.export()
    assert {row["arm"] for row in study.rows("participants")} == {"does not open", "numbat"}


async def test_what_is_hidden_of_a_person_is_not_told_by_another_table(study: Deployment) -> None:
    people = [await study.enrol("quokka", *ALL) for _ in range(3)]
    made = await study.talk(people[0], "I've stopped going to work and I can't sleep, what do I do?")
    while (pending := made.session.pending) is not None and pending.attribute not in QUASI:
        _ = [w async for w in made.receive("low, not sleeping")]
    assert pending is not None
    _ = [w async for w in made.receive("I'd rather not say")]
    await study.export(k=2, hides=True)
    code = await study.code(people[0])
    (row,) = [r for r in study.rows("participants") if r["id"] == code]
    hidden = {a.value for a in QUASI if row[a.value] == HIDDEN}
    assert pending.attribute.value in hidden
    told = {r["attribute"]: r["standing"] for r in study.rows("attributes") if r["id"] == code}
    assert not any(told.get(name) == "declined" for name in hidden)
