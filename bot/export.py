"""The study's export: what consent allows, as CSV and Parquet with a codebook, once nobody can be picked out of it."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bot.errors import BotError, SettingsError
from bot.keeping import Keeping
from policies.attributes import Answer, Attribute, Standing
from policies.study import Study
from privacy.anonymity import HIDDEN, small_classes, suppressed
from privacy.audit import EventKind
from privacy.research import Research, Researched, spoken
from privacy.store.records import Held

QUASI = (
    Attribute.AGE, Attribute.GENDER, Attribute.MARITAL_STATUS, Attribute.PROFESSION, Attribute.ECONOMIC_STATUS,
    Attribute.EDUCATION,
)  # fmt: skip
"""Attributes by which somebody who knows a participant could pick them out: exported as bands, and checked."""
_NOT_SAID = ""
SKIPPED = "skipped"
"""The item that says that nothing of a questionnaire was answered, so that it is not asked again."""


class TooFew(BotError):
    """Somebody could be picked out of the export; nothing was written. The message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of the export.

    Attributes:
        name: of it.
        kind: text, integer, number or yes/no.
        meaning: in a sentence.
        values: that it can have, where they are few.
    """

    name: str
    kind: str
    meaning: str
    values: str = ""


_ID = Column(
    name="id",
    kind="text",
    meaning="The participant, under a code of the export's own; the same in each export.",
)
_SESSION = Column(name="session", kind="integer", meaning="Conversation of this participant, counted from 1.")
_TURN = Column(name="turn", kind="integer", meaning="Message of the conversation, counted from 1.")
_DAY = Column(
    name="day", kind="integer", meaning="Whole days since enrolment; calendar dates are not exported."
)

TABLES: dict[str, tuple[Column, ...]] = {
    "participants": (
        _ID,
        Column(name="arm", kind="text", meaning="The condition that chance gave them, as the study file names it."),
        Column(name="protocol", kind="text", meaning="Version and hash of the study file they were enrolled under."),
        Column(name="first_day", kind="integer", meaning="Days from enrolment to the first sign-in; empty: none."),
        Column(name="sessions", kind="integer", meaning="Conversations of which decisions are kept."),
        Column(name="turns", kind="integer", meaning="Messages of which a decision is kept."),
        Column(name="asked", kind="integer", meaning="Questions that the chat asked."),
        Column(name="answered", kind="integer", meaning="Answers that it gave."),
        Column(name="abstained", kind="integer", meaning="Answers that it withheld, naming people who can help."),
        Column(name="agrees_to_send", kind="yes/no", meaning="They agree to an outside model."),
        Column(name="agrees_to_contact", kind="yes/no", meaning="They agree to be contacted."),
        *(
            Column(
                name=a.value, kind="text", meaning=f"{a.value.replace('_', ' ')} in the bands of the chat; a quasi-identifier.",
                values='empty: not kept; "declined"; "unknown"; "*": hidden, as too few share it',
            )
            for a in QUASI
        ),
    ),
    "decisions": (
        _ID, _SESSION, _TURN,
        Column(name="outcome", kind="text", meaning="What the chat decided.", values="ask, answer, abstain"),
        Column(name="reason", kind="text", meaning="Why it asked or abstained."),
        Column(name="basis", kind="text", meaning="The rule that decided."),
        Column(name="attribute", kind="text", meaning="Asked for, where it asked."),
        Column(name="domain", kind="text", meaning="What the question is about (the paper's seven domains)."),
        Column(name="stakes", kind="text", meaning="How much a wrong answer could harm.", values="low, moderate, high"),
        Column(name="sufficiency", kind="number", meaning="How much of what matters was known, 0 to 5."),
    ),
    "attributes": (
        _ID,
        Column(name="attribute", kind="text", meaning="One of the paper's ten."),
        Column(name="times_asked", kind="integer", meaning="How often it was asked for."),
        Column(name="first_session", kind="integer", meaning="Conversation in which it was first asked; empty: told unasked."),
        Column(name="first_turn", kind="integer", meaning="Message at which it was first asked."),
        Column(name="standing", kind="text", meaning="What is known of it now.", values="known, declined, unknown, *: hidden, empty: not kept any more"),
    ),
    "timings": (
        _ID, _SESSION, _TURN, _DAY,
        Column(name="gap_seconds", kind="integer", meaning="Seconds since the message before it in the conversation; empty for the first."),
        Column(name="took_ms", kind="integer", meaning="Milliseconds from the message to the last word of the reply."),
    ),
    "ratings": (
        _ID, _SESSION, _TURN, _DAY,
        Column(name="helped", kind="yes/no", meaning="What they said of the answer."),
        Column(name="note", kind="text", meaning="In their words, redacted; names that were not found may stand in it."),
    ),
    "questionnaires": (
        _ID, _DAY,
        Column(name="questionnaire", kind="text", meaning="As the study file names it."),
        Column(name="occasion", kind="text", meaning="When.", values="before, after"),
        Column(name="item", kind="text", meaning="As the study file names it."),
        Column(name="value", kind="integer", meaning="The point of the scale; empty for a text."),
        Column(name="text", kind="text", meaning="In their words, redacted."),
    ),
    "adverse_events": (
        _ID, _DAY,
        Column(name="level", kind="text", meaning="As the risk screen judged; no diagnosis.", values="elevated, imminent"),
        Column(name="delivered_minutes", kind="integer", meaning="Minutes until the on-call contact was reached; empty: not."),
        Column(name="acknowledged_minutes", kind="integer", meaning="Minutes until somebody took it on; empty: nobody has."),
        Column(name="action", kind="text", meaning="What they did."),
        Column(name="outcome", kind="text", meaning="How it ended; empty: open."),
    ),
    "transcripts": (
        _ID, _SESSION, _TURN,
        Column(name="said", kind="text", meaning="Their words, redacted; names that were not found may stand in it."),
        Column(name="replied", kind="text", meaning="The chat's, redacted; a blank line between messages."),
    ),
    "deviations": (
        Column(name="id", kind="text", meaning="The participant, empty where it concerns everybody."),
        _DAY,
        Column(name="kind", kind="text", meaning="Where the study did not go by its protocol."),
    ),
    "flow": (
        Column(name="step", kind="text", meaning="Of the CONSORT diagram.", values="allocated, came, agreed, agreed to keep, agreed to research, chatted, deactivated, withdrawn, exported"),
        Column(name="arm", kind="text", meaning="As the study file names it; withdrawn ones are counted when they go."),
        Column(name="people", kind="integer", meaning="How many; of everybody, who did not agree to research included. Empty: hidden, as it is small."),
        Column(name="at_most", kind="integer", meaning="Where the count is hidden: it is at least 1 and at most this."),
    ),
}  # fmt: skip
"""Every table and column of the export: what is written, and its codebook."""


Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What an export held.

    Attributes:
        rows: by table.
        people: how many agreed.
        left_out: how many did not, and are in the counts alone.
        hidden: cells that were hidden.
        k: of the check.
        entry: of the audit log.
        sha256: of the manifest.
    """

    rows: dict[str, int]
    people: int
    left_out: int
    hidden: int
    k: int
    entry: int
    sha256: str


def export(
    keeping: Keeping, study: Study, folder: Path, *, k: int, hides: bool, formats: Sequence[str], by: str
) -> Exported:
    """Write the export. In the store's thread.

    Args:
        keeping: the deployment's memory.
        study: its choices.
        folder: a new one, which is made.
        k: people who must share each combination of quasi-identifiers.
        hides: hide cells until they do.
        formats: csv, parquet.
        by: who exports, which is logged.

    Raises:
        TooFew: somebody could be picked out; nothing was written.
        SettingsError: the folder is there already, or cannot be written.
        PrivacyError: the audit log could not be written, and nothing was.
    """
    if folder.exists():
        raise SettingsError(f"{folder}: is there already; name a new folder")
    research = Research(keeping.store, keeping.vault, keeping.records, keeping.accounts, keeping.ledger)
    people = list(research.read())
    now = keeping.now()
    tables: dict[str, list[Row]] = {name: [] for name in TABLES}
    for one in people:
        _add(tables, one)
    tables["deviations"] = _deviations(keeping, research, people)
    for (step, arm), many in research.flow(now).items():
        tables["flow"].append({"step": step, "arm": arm, "people": many})
    for arm in sorted({one.arm for one in people}):
        tables["flow"].append(
            {"step": "exported", "arm": arm, "people": sum(one.arm == arm for one in people)}
        )
    hidden = _check(tables, k=k, hides=hides)
    left_out = len(research.persons()) - len(people)
    manifest = {
        "version": 1, "study": study.choices.title, "protocol": study.protocol, "study_sha256": study.sha256,
        "raise_chat": version("raise-chat"), "made_at": now.isoformat(), "consent_text": keeping.ledger.version.version,
        "consent_sha256": keeping.ledger.version.sha256, "k": k, "cells_hidden": hidden, "people": len(people),
        "left_out": left_out, "rows": {name: len(rows) for name, rows in tables.items()},
    }  # fmt: skip
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=".export-", dir=folder.parent))
    except OSError as bad:
        raise SettingsError(f"{folder}: cannot be made ({bad.strerror})") from None
    try:
        files = _written(made, tables, formats)
        told = json.dumps({**manifest, "files": files}, indent=1) + "\n"
        _private(made / "manifest.json", told.encode())
        digest = hashlib.sha256(told.encode()).hexdigest()
        entry = keeping.audit.append(
            EventKind.EXPORT, at=now,
            counts={"study": True, "people": len(people), "rows": sum(map(len, tables.values())), "k": k,
                    "hidden": hidden, "by": by, "manifest": digest},
        )  # fmt: skip
        made.rename(folder)
    except OSError as bad:
        raise SettingsError(f"{folder}: cannot be written ({bad.strerror})") from None
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return Exported(
        rows={name: len(rows) for name, rows in tables.items()}, people=len(people), left_out=left_out,
        hidden=hidden, k=k, entry=entry.number, sha256=digest,
    )  # fmt: skip


def _check(tables: dict[str, list[Row]], *, k: int, hides: bool) -> int:
    """Nobody can be picked out by their bands; how many cells were hidden for that. Small counts of the flow are hidden too.

    Raises:
        TooFew: somebody could be.
    """
    columns = [a.value for a in QUASI]
    if tables["participants"] and len(tables["participants"]) < k:
        raise TooFew(
            f"{len(tables['participants'])} people agreed to research, fewer than {k}: whatever is hidden, fewer than {k} share it. "
            "Nothing was written. Wait for more, or choose another --k if your board allows it"
        )
    for row in tables["flow"]:
        row["people"], row["at_most"] = (
            (row["people"], None) if row["people"] == 0 or row["people"] >= k else (None, k - 1)
        )
    small = small_classes(tables["participants"], columns, k)
    if not small:
        return 0
    if not hides:
        raise TooFew(
            f"{len(small)} combinations of {', '.join(columns)} are shared by fewer than {k} people ({sum(small.values())} people "
            "in all): they could be picked out. Nothing was written. Run it again with --suppress to hide such cells, or with "
            "another --k if your board allows it"
        )
    tables["participants"], hidden = suppressed(tables["participants"], columns, k)
    covered = {(row["id"], c) for row in tables["participants"] for c in columns if row[c] == HIDDEN}
    for row in tables["attributes"]:
        if (row["id"], row["attribute"]) in covered:
            row["standing"] = HIDDEN
    return hidden


# ------------------------------------------------------------------------------------------------ rows


def _add(tables: dict[str, list[Row]], one: Researched) -> None:
    numbers = _numbers(one)
    decisions = one.of("decisions")
    outcomes = [row.fields["outcome"] for row in decisions]
    known = {row.fields["attribute"]: _answer(row) for row in one.of("attributes")}
    first = datetime.fromisoformat(one.first_at) if one.first_at else None
    turns = {(row.fields["session"], row.fields["number"]) for row in decisions}
    tables["participants"].append(
        {
            "id": one.code, "arm": one.arm, "protocol": one.protocol,
            "first_day": (first - one.began).days if first else None,
            "sessions": len({s for s, _ in turns}), "turns": len(turns), "asked": outcomes.count("ask"),
            "answered": outcomes.count("answer"), "abstained": outcomes.count("abstain"),
            "agrees_to_send": "send" in one.scopes, "agrees_to_contact": "contact" in one.scopes,
            **{a.value: _band(known.get(a.value)) for a in QUASI},
        }
    )  # fmt: skip
    for row in decisions:
        f = row.fields
        tables["decisions"].append(
            {
                **_place(one, numbers, row), "outcome": f["outcome"], "reason": f["reason"], "basis": f["basis"],
                "attribute": f["attribute"], "domain": f["domain"], "stakes": f["stakes"], "sufficiency": f["sufficiency"],
            }
        )  # fmt: skip
    _add_attributes(tables, one, numbers, known)
    _add_timings(tables, one, numbers)
    for row in one.of("feedback"):
        tables["ratings"].append(
            {
                **_place(one, numbers, row), "day": _day(one, row), "helped": bool(row.fields["rating"]),
                "note": row.fields["note"],
            }
        )  # fmt: skip
    for row in one.of("responses"):
        if row.fields["item"] == SKIPPED:
            continue
        raw = json.loads(row.fields["value"]) if row.fields["value"] else {}
        tables["questionnaires"].append(
            {
                "id": one.code, "day": _day(one, row), "questionnaire": row.fields["instrument"],
                "occasion": row.fields["occasion"], "item": row.fields["item"], "value": raw.get("value"),
                "text": raw.get("text"),
            }
        )  # fmt: skip
    for row in one.of("escalations"):
        f = row.fields
        tables["adverse_events"].append(
            {
                "id": one.code, "day": _day(one, row), "level": f["level"],
                "delivered_minutes": _minutes(f["raised_at"], f["delivered_at"]),
                "acknowledged_minutes": _minutes(f["raised_at"], f["acknowledged_at"]), "action": f["action"],
                "outcome": f["outcome"],
            }
        )  # fmt: skip
    for row in one.of("turns"):
        said = spoken(row)
        if said is not None:
            tables["transcripts"].append(
                {**_place(one, numbers, row), "said": said[0], "replied": "\n\n".join(said[1])}
            )


def _numbers(one: Researched) -> dict[str, int]:
    """Conversations by their order, as their ids say nothing to anybody."""
    first: dict[str, datetime] = {}
    for table in ("decisions", "turns"):
        for row in one.of(table):
            session = str(row.fields["session"])
            first[session] = min(first.get(session, row.at), row.at)
    return {session: n for n, session in enumerate(sorted(first, key=lambda s: (first[s], s)), 1)}


def _place(one: Researched, numbers: dict[str, int], row: Held) -> Row:
    session = numbers.get(str(row.fields["session"]))
    return {"id": one.code, "session": session, "turn": int(row.fields["number"])}


def _day(one: Researched, row: Held) -> int:
    return (row.at - one.began).days


def _add_attributes(
    tables: dict[str, list[Row]], one: Researched, numbers: dict[str, int], known: dict[str, Answer | None]
) -> None:
    asked: dict[str, list[Held]] = {}
    for row in one.of("decisions"):
        if row.fields["outcome"] == "ask" and row.fields["attribute"]:
            asked.setdefault(row.fields["attribute"], []).append(row)
    for attribute in Attribute:
        rows, answer = asked.get(attribute.value, []), known.get(attribute.value)
        if not rows and answer is None:
            continue
        place = _place(one, numbers, rows[0]) if rows else {}
        tables["attributes"].append(
            {
                "id": one.code, "attribute": attribute.value, "times_asked": len(rows),
                "first_session": place.get("session"), "first_turn": place.get("turn"),
                "standing": answer.standing.value if answer else None,
            }
        )  # fmt: skip


def _add_timings(tables: dict[str, list[Row]], one: Researched, numbers: dict[str, int]) -> None:
    before: dict[str, datetime] = {}
    for row in one.of("turns"):
        session = str(row.fields["session"])
        gap = round((row.at - before[session]).total_seconds()) if session in before else None
        before[session] = row.at
        tables["timings"].append(
            {
                **_place(one, numbers, row), "day": _day(one, row), "gap_seconds": gap,
                "took_ms": row.fields["took_ms"],
            }
        )  # fmt: skip


def _answer(row: Held) -> Answer | None:
    return Answer.from_json(json.loads(row.fields["value"])) if row.fields["value"] else None


def _band(answer: Answer | None) -> str:
    """An answer in the chat's own bands; never in the person's words."""
    if answer is None:
        return _NOT_SAID
    if answer.standing is not Standing.KNOWN:
        return answer.standing.value
    return " ".join(sorted(answer.tags)) or "other"


def _minutes(start: str, end: str | None) -> int | None:
    if not end:
        return None
    return round((datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds() / 60)


def _deviations(keeping: Keeping, research: Research, people: list[Researched]) -> list[Row]:
    """Of who agreed, and of the study as a whole."""
    agreed = {one.code: one for one in people}
    opened = min((one.began for one in people), default=keeping.now())
    rows = []
    for raw in keeping.accounts.deviations():
        code = research.code(raw["person"]) if raw["person"] not in ("", "erased") else ""
        if code is None or (code and code not in agreed):
            continue
        began = agreed[code].began if code else opened
        at = datetime.fromisoformat(raw["at"])
        rows.append({"id": code, "day": (at - began).days, "kind": raw["kind"]})
    return rows


# ------------------------------------------------------------------------------------------------ files


def _written(folder: Path, tables: dict[str, list[Row]], formats: Sequence[str]) -> dict[str, str]:
    """Every file with its SHA-256."""
    files: dict[str, bytes] = {}
    for name, rows in tables.items():
        if "csv" in formats:
            files[f"{name}.csv"] = _csv([c.name for c in TABLES[name]], rows)
        if "parquet" in formats:
            files[f"{name}.parquet"] = _parquet(TABLES[name], rows)
    book = [
        {"file": name, "column": c.name, "kind": c.kind, "meaning": c.meaning, "values": c.values}
        for name, columns in TABLES.items()
        for c in columns
    ]
    files["codebook.csv"] = _csv(["file", "column", "kind", "meaning", "values"], book)
    files["codebook.md"] = _codebook().encode()
    for name, content in files.items():
        _private(folder / name, content)
    return {name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items())}


def _private(path: Path, content: bytes) -> None:
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as out:
        out.write(content)


def _csv(columns: Sequence[str], rows: Iterable[Row]) -> bytes:
    """CSV that a spreadsheet reads as text: what looks like a formula is told apart by a leading quote."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows({c: _cell(row.get(c)) for c in columns} for row in rows)
    return out.getvalue().encode()


_FORMULA = frozenset("=+-@")


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str) and (value[:1] in ("\t", "\r", "\n") or value.lstrip()[:1] in _FORMULA):
        return "'" + value
    return value


def _parquet(columns: Sequence[Column], rows: Sequence[Row]) -> bytes:
    import pyarrow as arrow  # noqa: PLC0415 (loads slowly, and only an export needs it)
    from pyarrow import parquet  # noqa: PLC0415

    kinds = {
        "text": arrow.string(),
        "integer": arrow.int64(),
        "number": arrow.float64(),
        "yes/no": arrow.bool_(),
    }
    schema = arrow.schema(
        [arrow.field(c.name, kinds[c.kind], metadata={"meaning": c.meaning}) for c in columns]
    )
    table = arrow.Table.from_pylist(
        [{c.name: row.get(c.name) for c in columns} for row in rows], schema=schema
    )
    out = io.BytesIO()
    parquet.write_table(table, out)
    return out.getvalue()


def _codebook() -> str:
    lines = [
        "# Codebook",
        "",
        "CSV: UTF-8, empty for what is not there, yes and no. Parquet: the same with types.",
        "",
    ]
    for name, columns in TABLES.items():
        lines += [f"## {name}", "", "| column | kind | meaning | values |", "|---|---|---|---|"]
        lines += [f"| {c.name} | {c.kind} | {c.meaning} | {c.values} |" for c in columns]
        lines.append("")
    return "\n".join(lines)
