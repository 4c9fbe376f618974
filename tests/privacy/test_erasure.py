"""Canaries through every input: in no file in clear after redaction, in no file at all after erasure; and what makes it so."""

from __future__ import annotations

import json
import logging
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot.conversation import Conversation
from bot.correcting import corrected
from bot.keeping import Keeping
from bot.models.openai_api import Endpoint
from bot.models.usage import SPEAKING
from bot.parts import Outside, Parts
from policies.attributes import Attribute
from privacy.audit import AuditLog
from privacy.consent import Scope
from privacy.errors import AuditBroken
from privacy.rights import ResidueFound, Rights
from tests.conftest import InProcess, keeping_in
from tests.models.server import ModelServer

CANARIES = {
    "name": "Zebulonia Quartermaine",
    "phone": "07700 900417",
    "email": "zq.canary@lanternbox.example",
    "street": "417 Quillfeather Street",
    "handle": "@zq_canary_417",
    "clinic": "Marrowby Hollow Clinic",
}
WORDS = "my heart is a paper boat in the bathtub"
"""Nothing that names anybody, but theirs: kept where they agreed, and gone when they say so."""


@pytest.fixture
def keeping(tmp_path: Path) -> Iterator[Keeping]:
    made: Any = keeping_in(tmp_path)
    yield made
    made.close()


def talked(parts: Parts, keeping: Keeping, redactor: InProcess, **more: Any) -> Parts:
    return replace(parts, keeping=keeping, detector=redactor, **more)  # type: ignore[arg-type]


async def say(conversation: Conversation, text: str) -> list[Any]:
    return [w async for w in conversation.receive(text) if not w.is_partial]


async def agreed(keeping: Keeping, person: str, *scopes: Scope) -> None:
    for scope in (Scope.CHAT, *scopes):
        await keeping.answer(person, scope, granted=True)


async def confide(conversation: Conversation) -> list[Any]:
    """Secrets through the chat, a planned answer, an answer in passing, a correction, a safety plan and feedback."""
    seen = await say(
        conversation,
        f"my wife {CANARIES['name']} left and I stopped working at {CANARIES['clinic']}, {WORDS}, what do I do?",
    )
    seen += await say(conversation, f"low, {WORDS}. call me on {CANARIES['phone']} or {CANARIES['email']}")
    seen += await say(conversation, f"ashamed. I live at {CANARIES['street']}, I am {CANARIES['handle']}")
    seen += await say(conversation, f"actually {CANARIES['name']} says I am 41")
    seen += await say(conversation, "safety plan")
    seen += await say(conversation, f"{WORDS}, and then {CANARIES['name']} rings me on {CANARIES['phone']}")
    seen += await say(conversation, "stop here")
    note = f"{WORDS}, ask {CANARIES['name']} at {CANARIES['clinic']} on {CANARIES['phone']}"
    seen += [w async for w in conversation.rate(helped=False, note=note, number=1)]
    return seen


def everywhere(folder: Path) -> bytes:
    return b"\0".join(p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file())


async def test_no_canary_stands_in_clear_in_any_file_log_or_request(
    parts: Parts, keeping: Keeping, redactor: InProcess, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from bot.models.remote import ModelOpinion, RemoteModel
    from bot.models.wording import Meaning
    from policies import encoder, questions

    server = ModelServer()
    endpoint = Endpoint(base_url=server.url, api_key="none", models=dict.fromkeys(SPEAKING, "m"))
    meaning = Meaning(encoder.built_in(), questions.shipped())
    remote = RemoteModel(endpoint, parts.model, meaning=meaning)  # type: ignore[arg-type]
    with_model = talked(
        parts, keeping, redactor, model=remote, opinion=ModelOpinion(endpoint), outside=Outside(host="127.0.0.1", is_local=True),
    )  # fmt: skip
    await agreed(keeping, "person-one-417", Scope.KEEP, Scope.RESEARCH)
    with caplog.at_level(logging.DEBUG):
        await confide(Conversation.start(with_model, person="person-one-417", country="GB"))
    raw = everywhere(tmp_path)
    sent = json.dumps(server.said, ensure_ascii=False)
    assert len(server.said) > 5 and "<PERSON_1>" in sent
    for what, canary in CANARIES.items():
        for piece in (canary, canary.lower(), *canary.split()[:1]):
            if len(piece) >= 8:
                assert piece.encode() not in raw, what
                assert piece not in sent, what
                assert piece not in caplog.text, what
    assert WORDS.encode() not in raw and WORDS not in caplog.text
    assert WORDS in sent, "the model needs the words that name nobody"
    await endpoint.close()
    server.close()


async def test_the_person_reads_their_own_words_back(
    parts: Parts, keeping: Keeping, redactor: InProcess
) -> None:
    await agreed(keeping, "person-one-417", Scope.KEEP)
    seen = await confide(
        Conversation.start(talked(parts, keeping, redactor), person="person-one-417", country="GB")
    )
    text = "\n".join(w.text for w in seen)
    assert "<PERSON_" not in text and "<PHONE" not in text
    assert CANARIES["name"].split()[0] in text


async def test_after_erasure_nothing_is_left_in_any_file_and_a_receipt_says_so(
    parts: Parts, keeping: Keeping, redactor: InProcess, tmp_path: Path
) -> None:
    kept = talked(parts, keeping, redactor)
    await agreed(keeping, "person-one-417", Scope.KEEP, Scope.RESEARCH)
    await agreed(keeping, "person-two-417", Scope.KEEP)
    await confide(Conversation.start(kept, person="person-one-417", country="GB"))
    await say(
        Conversation.start(kept, person="person-two-417", country="GB"),
        "how do I ask for a day off? " + WORDS,
    )
    answer = await corrected(
        kept, Attribute.EMOTION, f"numb, says {CANARIES['name']}", Conversation(kept).places
    )
    await keeping.correct("person-one-417", Attribute.EMOTION, answer)
    assert await keeping.kept("person-one-417") is not None
    receipt = await keeping.run(keeping.rights.erase_all, "person-one-417")
    assert b"person-one-417" not in everywhere(tmp_path)
    assert receipt.residue.found == () and receipt.counts["turns"] >= 5 and receipt.counts["feedback"] == 1
    assert await keeping.kept("person-one-417") is None and await keeping.kept("person-two-417") is not None
    assert await keeping.run(keeping.rights.verify_receipt, receipt.to_json()) == ""
    decisions = await keeping.run(
        lambda: list(keeping.store.db.query("SELECT * FROM decisions WHERE person IS NULL"))
    )
    assert decisions and all("paper boat" not in json.dumps(d) for d in decisions)
    changed = {**receipt.to_json(), "counts": {"turns": 1}}
    assert "other counts" in await keeping.run(keeping.rights.verify_receipt, changed)
    assert "not a receipt" in await keeping.run(keeping.rights.verify_receipt, {"id": 1})


async def kept_and_erased(parts: Parts, keeping: Keeping, redactor: InProcess) -> Any:
    await agreed(keeping, "person-one-417", Scope.KEEP, Scope.RESEARCH)
    conversation = Conversation.start(talked(parts, keeping, redactor), person="person-one-417", country="GB")
    await confide(conversation)
    return await keeping.run(keeping.rights.erase_all, "person-one-417")


async def test_without_secure_delete_the_scan_finds_the_residue(
    parts: Parts, keeping: Keeping, redactor: InProcess
) -> None:
    await keeping.run(lambda: keeping.store.db.execute("PRAGMA secure_delete = OFF").fetchall())
    with pytest.raises(ResidueFound, match=r"study\.db"):
        await kept_and_erased(parts, keeping, redactor)


async def test_without_the_checkpoint_the_scan_finds_the_residue(
    parts: Parts, keeping: Keeping, redactor: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("privacy.rights.checkpoint", lambda _db: True)
    with pytest.raises(ResidueFound, match="wal"):
        await kept_and_erased(parts, keeping, redactor)


async def test_without_the_gate_the_model_would_hear_the_canaries(
    parts: Parts, keeping: Keeping, tmp_path: Path
) -> None:
    """What the canary test above rests on: take redaction out, and it fails."""

    class Blind:
        async def redact(self, _: str) -> Any:
            from privacy.spans import Redaction

            return Redaction(spans=())

    await agreed(keeping, "person-one-417", Scope.KEEP, Scope.RESEARCH)
    conversation = Conversation.start(
        replace(parts, keeping=keeping, detector=Blind()),
        person="person-one-417",
        country="GB",  # type: ignore[arg-type]
    )
    await confide(conversation)
    state = json.dumps(conversation.session.to_json())
    assert CANARIES["name"] in state and WORDS.encode() not in everywhere(tmp_path), "sealed all the same"


async def test_with_a_reader_in_the_way_the_erasure_says_so_and_can_be_repeated(
    parts: Parts, keeping: Keeping, redactor: InProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("privacy.store.files.time.sleep", lambda _: None)
    await agreed(keeping, "person-one-417", Scope.KEEP)
    await confide(Conversation.start(talked(parts, keeping, redactor), person="person-one-417", country="GB"))
    reader = sqlite3.connect(tmp_path / "study.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM turns").fetchone()
    with pytest.raises(ResidueFound):
        await keeping.run(keeping.rights.erase_all, "person-one-417")
    reader.close()
    found = await keeping.run(keeping.rights.erase_all, "person-one-417")
    assert found.residue.found == ()


async def test_a_reader_that_goes_within_seconds_is_waited_for(
    parts: Parts, keeping: Keeping, redactor: InProcess, tmp_path: Path
) -> None:
    conversation = Conversation.start(talked(parts, keeping, redactor), person="person-one-417", country="GB")
    await agreed(keeping, "person-one-417", Scope.CHAT, Scope.KEEP)
    await confide(conversation)
    code = (
        "import sqlite3, sys, time; db = sqlite3.connect(sys.argv[1], isolation_level=None); db.execute('BEGIN');"
        "db.execute('SELECT count(*) FROM turns').fetchone(); print('reads', flush=True); time.sleep(3)"
    )
    reader = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "study.db")], stdout=subprocess.PIPE
    )
    assert reader.stdout is not None and reader.stdout.readline() == b"reads\n"
    receipt = await keeping.run(keeping.rights.erase_all, "person-one-417")
    assert receipt.residue.found == () and reader.wait(10) == 0
    reader.stdout.close()


async def test_nothing_is_destroyed_where_the_intent_cannot_be_logged(
    parts: Parts, keeping: Keeping, redactor: InProcess
) -> None:
    await agreed(keeping, "person-one-417", Scope.KEEP)
    await confide(Conversation.start(talked(parts, keeping, redactor), person="person-one-417", country="GB"))

    def broken(*_: Any, **__: Any) -> None:
        raise AuditBroken("full disk")

    keeping.audit.append = broken  # type: ignore[method-assign,assignment]
    with pytest.raises(AuditBroken):
        await keeping.run(keeping.rights.erase_all, "person-one-417")
    assert await keeping.kept("person-one-417") is not None


async def test_an_older_backup_is_erased_again_before_anybody_is_served(
    parts: Parts, redactor: InProcess, tmp_path: Path
) -> None:
    first: Any = keeping_in(tmp_path / "live")
    await agreed(first, "person-one-417", Scope.KEEP)
    await agreed(first, "person-two-417", Scope.KEEP)
    for person in ("person-one-417", "person-two-417"):
        await say(
            Conversation.start(talked(parts, first, redactor), person=person, country="GB"),
            WORDS + ", what now?",
        )
    backup = tmp_path / "backup.db"
    await first.run(lambda: first.store.db.execute("VACUUM INTO ?", [str(backup)]).fetchall())
    keys = tmp_path / "keys.db"
    await first.run(lambda: first.vault._db.execute("VACUUM INTO ?", [str(keys)]).fetchall())
    await first.run(first.rights.erase_all, "person-one-417")
    first.close()
    for name, copy in (("study.db", backup), ("keys.db", keys)):
        for old in (tmp_path / "live").glob(name + "*"):
            old.unlink()
        (tmp_path / "live" / name).write_bytes(copy.read_bytes())
    again: Any = keeping_in(tmp_path / "live")
    assert await again.kept("person-one-417") is None and await again.kept("person-two-417") is not None
    rows = await again.run(
        lambda: [r["person"] for r in again.store.db.query("SELECT person FROM participants")]
    )
    assert rows == ["person-two-417"]
    again.close()


async def test_one_conversation_can_be_erased_and_the_rest_is_sealed_anew(
    parts: Parts, keeping: Keeping, redactor: InProcess
) -> None:
    await agreed(keeping, "person-one-417", Scope.KEEP)
    kept = talked(parts, keeping, redactor)
    first = Conversation.start(kept, person="person-one-417", country="GB")
    await say(first, WORDS + ", what do I do about my job?")
    second = Conversation.start(kept, person="person-one-417", country="GB")
    await say(second, "how do I tell my landlord that the roof leaks?")
    before = await keeping.run(
        lambda: {row["id"]: row["state"] for row in keeping.store.db.query("SELECT * FROM sessions")}
    )
    receipt = await keeping.run(keeping.rights.erase_item, "person-one-417", "sessions", first.id)
    after = await keeping.run(
        lambda: {row["id"]: row["state"] for row in keeping.store.db.query("SELECT * FROM sessions")}
    )
    assert receipt.residue.found == () and set(after) == {second.id}
    assert after[second.id] != before[second.id], "an old copy of the key opens nothing that is kept"
    assert (await keeping.kept("person-one-417"))[0].id == second.id  # type: ignore[index]


async def test_what_has_expired_is_not_read_from_that_second_on_and_then_deleted_with_its_key(
    parts: Parts, redactor: InProcess, tmp_path: Path, clock: Any
) -> None:
    keeping: Any = keeping_in(tmp_path, clock=clock)
    await agreed(keeping, "person-one-417", Scope.KEEP)
    conversation = Conversation.start(
        talked(replace(parts, clock=clock), keeping, redactor), person="person-one-417", country="GB"
    )
    await say(conversation, "my wife left and I've stopped going to work, what do I do?")
    await say(conversation, "ashamed")
    clock.move(days=30, seconds=-1)
    assert await keeping.kept("person-one-417") is not None
    clock.move(seconds=1)
    assert await keeping.kept("person-one-417") is None, "from the second it expires, purged or not"
    assert await keeping.run(lambda: keeping.store.db["sessions"].count) == 1
    (report,), _ = await keeping.sweep("one")
    assert report.deleted["session"] == 1 and report.deleted["turn"] == 2 and report.is_clean
    assert await keeping.run(lambda: keeping.store.db["sessions"].count) == 0
    assert (await keeping.run(keeping.rights.scanner.scan)).found == ()
    clock.move(days=365 * 3)
    (report,), _ = await keeping.sweep("two")
    assert report.keys == 1 and report.is_clean
    assert await keeping.run(keeping.audit.verify) >= 6
    keeping.close()


async def test_an_erased_answer_is_out_of_the_conversation_too(
    parts: Parts, keeping: Keeping, redactor: InProcess
) -> None:
    await agreed(keeping, "person-one-417", Scope.KEEP, Scope.RESEARCH)
    conversation = Conversation.start(talked(parts, keeping, redactor), person="person-one-417", country="GB")
    await confide(conversation)
    name = next(a.value for a in conversation.session.profile if conversation.session.profile.get(a).text)  # type: ignore[union-attr]
    receipt = await keeping.run(keeping.rights.erase_item, "person-one-417", "attributes", name)
    assert receipt.counts["turns"] >= 5
    kept, live = await keeping.kept("person-one-417")  # type: ignore[misc]
    assert name not in json.loads(kept.state)["profile"] and name not in live


async def test_what_stands_in_clear_stops_the_erasure_before_anything_is_destroyed(
    parts: Parts, keeping: Keeping, redactor: InProcess, tmp_path: Path
) -> None:
    await agreed(keeping, "person-one-417", Scope.KEEP)
    await confide(Conversation.start(talked(parts, keeping, redactor), person="person-one-417", country="GB"))
    (tmp_path / "leak.txt").write_text(CANARIES["phone"])
    for _ in range(2):
        with pytest.raises(ResidueFound, match=r"leak\.txt"):
            await keeping.run(keeping.rights.erase_all, "person-one-417")
    assert await keeping.kept("person-one-417") is not None
    (tmp_path / "leak.txt").unlink()
    assert (await keeping.run(keeping.rights.erase_all, "person-one-417")).residue.found == ()


async def test_who_was_erased_is_not_written_of_again_under_the_same_code(
    parts: Parts, keeping: Keeping, redactor: InProcess
) -> None:
    await agreed(keeping, "person-one-417", Scope.KEEP)
    conversation = Conversation.start(talked(parts, keeping, redactor), person="person-one-417", country="GB")
    await say(conversation, "my wife left and I've stopped going to work, what do I do?")
    await keeping.run(keeping.rights.erase_all, "person-one-417")
    await agreed(keeping, "person-one-417", Scope.KEEP)
    await say(conversation, "low, not sleeping")
    assert await keeping.run(lambda: keeping.store.db["participants"].count) == 0
    assert await keeping.run(lambda: keeping.store.db["turns"].count) == 0


async def test_a_forged_quick_reply_is_a_persons_own_words(
    parts: Parts, keeping: Keeping, redactor: InProcess
) -> None:
    await agreed(keeping, "person-one-417", Scope.KEEP)
    conversation = Conversation.start(talked(parts, keeping, redactor), person="person-one-417", country="GB")
    asked = (await say(conversation, "my wife left and I've stopped going to work, what do I do?"))[-1]
    [w async for w in conversation.choose(f"low, call me on {CANARIES['phone']}", attribute=asked.attribute)]
    assert CANARIES["phone"] not in json.dumps(conversation.session.to_json())


async def test_a_damaged_store_takes_nothing_from_the_crisis_card(
    parts: Parts, keeping: Keeping, redactor: InProcess
) -> None:
    def broken(_: str) -> Any:
        raise sqlite3.DatabaseError("database disk image is malformed")

    keeping.records.last_consents = broken  # type: ignore[method-assign]
    conversation = Conversation.start(talked(parts, keeping, redactor), person="person-one-417", country="GB")
    card = await say(conversation, "I am going to kill myself tonight")
    assert any(m.fields.get("reason") == "imminent_risk" for m in card)
    again = Conversation.start(talked(parts, keeping, redactor), person="person-one-417", country="GB")
    moves = await say(again, "my wife left, what do I do?")
    assert any(m.move == "ask" for m in moves) and "not saved" in moves[-1].text
    assert await keeping.kept("person-one-417") is None


async def test_a_turn_that_was_cut_at_its_last_word_is_not_kept(
    parts: Parts, keeping: Keeping, redactor: InProcess
) -> None:
    await agreed(keeping, "person-one-417", Scope.KEEP)
    conversation = Conversation.start(talked(parts, keeping, redactor), person="person-one-417", country="GB")
    async for words in conversation.receive("my wife left and I've stopped going to work, what do I do?"):
        if words.move == "ask":
            conversation.leave()
    assert await keeping.run(lambda: keeping.store.db["turns"].count) == 0


# ------------------------------------------------------------------------------------------------ going on


async def test_a_conversation_survives_a_restart_in_mid_question(
    parts: Parts, redactor: InProcess, tmp_path: Path
) -> None:
    from bot.session import Session
    from privacy.placeholders import Placeholders

    first: Any = keeping_in(tmp_path)
    await agreed(first, "person-one-417", Scope.KEEP)
    conversation = Conversation.start(talked(parts, first, redactor), person="person-one-417", country="GB")
    asked = (await say(conversation, f"my wife {CANARIES['name']} left, what do I do?"))[-1]
    assert asked.move == "ask"
    first.close()
    second: Any = keeping_in(tmp_path)
    kept, _ = await second.kept("person-one-417")
    again = Conversation(
        talked(parts, second, redactor), Session.from_json(json.loads(kept.state)), person="person-one-417",
        places=Placeholders.from_json(kept.places), session_id=kept.id,
    )  # fmt: skip
    assert again.session == conversation.session and again.places.values == conversation.places.values
    shown = [w async for w in again.where_we_were()]
    assert shown[-1].attribute is asked.attribute
    assert (await say(again, "low, not sleeping"))[-1].text
    second.close()


@pytest.mark.parametrize("broken", ["locked", "read-only", "gone"])
async def test_the_chat_goes_on_unsaved_and_says_so_once(
    broken: str, parts: Parts, keeping: Keeping, redactor: InProcess, tmp_path: Path
) -> None:
    await agreed(keeping, "person-one-417", Scope.KEEP)
    conversation = Conversation.start(talked(parts, keeping, redactor), person="person-one-417", country="GB")
    other = None
    if broken == "locked":
        await keeping.run(lambda: keeping.store.db.execute("PRAGMA busy_timeout = 50").fetchall())
        other = sqlite3.connect(tmp_path / "study.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
    elif broken == "read-only":
        await keeping.run(lambda: keeping.store.db.execute("PRAGMA query_only = ON").fetchall())
    else:
        await keeping.run(lambda: keeping.store.db.execute("DROP TABLE turns").fetchall())
    moves = await say(conversation, "my wife left and I've stopped going to work, what do I do?")
    assert "not saved" in moves[-1].text and any(m.move == "ask" for m in moves)
    assert not any("not saved" in m.text for m in await say(conversation, "low most days"))
    danger = await say(conversation, "I am going to kill myself tonight")
    assert any(m.fields.get("reason") == "imminent_risk" for m in danger)
    if other is not None:
        other.close()


@pytest.fixture
async def replayed(
    parts: Parts, redactor: InProcess, tmp_path: Path
) -> AsyncIterator[tuple[Any, Conversation]]:
    keeping: Any = keeping_in(tmp_path)
    await agreed(keeping, "person-one-417", Scope.KEEP)
    conversation = Conversation.start(talked(parts, keeping, redactor), person="person-one-417", country="GB")
    await say(conversation, "my wife left and I've stopped going to work, what do I do?")
    await say(conversation, "I'd rather not say")
    await say(conversation, "low, not sleeping")
    yield keeping, conversation
    keeping.close()


async def test_every_decision_is_derived_again_from_what_was_stored_and_stays_after_erasure(
    replayed: tuple[Any, Conversation],
) -> None:
    from bot.keeping import decisions_of
    from bot.moves import Rules
    from bot.record import derived
    from policies import thresholds

    keeping, conversation = replayed
    stored = await keeping.run(keeping.records.decisions, conversation.id)
    told = await keeping.run(lambda: dict(keeping.records.turn_inputs(conversation.id)))
    rules = Rules(thresholds=thresholds.shipped())
    again = [d for number in sorted(told) for d in decisions_of(derived(told[number], rules))]
    assert len(stored) >= 3
    for row, found in zip(stored, again, strict=True):
        assert {k: row[k] for k in found} == found
    await keeping.run(keeping.rights.erase_all, "person-one-417")
    after = await keeping.run(keeping.records.decisions, conversation.id)
    assert [r["outcome"] for r in after] == [r["outcome"] for r in stored] and {
        r["person"] for r in after
    } == {None}
    assert not await keeping.run(lambda: dict(keeping.records.turn_inputs(conversation.id)))


def test_the_log_of_another_deployment_verifies_no_receipt(tmp_path: Path) -> None:
    log = AuditLog(tmp_path)
    raw = {"id": "x", "counts": {}, "audit": {"number": 1, "hash": "0" * 64}}
    with pytest.raises(AuditBroken, match="is not there"):
        Rights.receipt_differs(log, raw)
    log.close()
