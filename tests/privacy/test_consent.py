"""Consent: nothing is stored, sent or exported without it, in the words in force, at the moment it is used."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bot.conversation import Conversation
from bot.models.openai_api import Endpoint
from bot.models.usage import SPEAKING
from bot.parts import Outside, Parts
from privacy.consent import (
    ConsentLedger,
    ConsentVersion,
    Grant,
    MemoryConsents,
    Scope,
    ToKeep,
    ToSend,
)
from privacy.errors import AuditBroken, ConsentMissing
from tests.conftest import InProcess, keeping_in
from tests.models.server import ModelServer
from tests.models.test_failures import WORRY, parts_with

AT = datetime(2026, 11, 30, tzinfo=UTC)
ROOT = Path(__file__).resolve().parents[2]


def ledger(version: str = "1", *, send_to: str = "", store: MemoryConsents | None = None) -> ConsentLedger:
    return ConsentLedger(
        store or MemoryConsents(), ConsentVersion.of(version, f"text {version}"), send_to=send_to
    )


def test_there_is_no_grant_without_a_yes_and_none_after_a_no() -> None:
    made = ledger()
    assert made.grant("ann", ToKeep) is None
    made.answer("ann", Scope.KEEP, granted=True, at=AT)
    grant = made.grant("ann", ToKeep)
    assert grant is not None
    grant.check("ann")
    made.answer("ann", Scope.KEEP, granted=False, at=AT)
    with pytest.raises(ConsentMissing):
        grant.check("ann")
    assert made.grant("ann", ToKeep) is None


def test_a_grant_is_for_one_person_and_one_destination() -> None:
    made = ledger(send_to="api.one.example")
    made.answer("ann", Scope.SEND, granted=True, at=AT)
    grant = made.grant("ann", ToSend)
    assert grant is not None
    for person, where in (("bob", "api.one.example"), ("ann", "api.two.example"), ("ann", "")):
        with pytest.raises(ConsentMissing):
            grant.check(person, destination=where)


def test_a_new_text_or_another_model_asks_again() -> None:
    store = MemoryConsents()
    ledger(store=store).answer("ann", Scope.KEEP, granted=True, at=AT)
    assert ledger(store=store).allows("ann", Scope.KEEP)
    assert not ledger("2", store=store).allows("ann", Scope.KEEP)
    one = ledger(send_to="api.one.example", store=store)
    one.answer("ann", Scope.SEND, granted=True, at=AT)
    assert not ledger(send_to="api.two.example", store=store).allows("ann", Scope.SEND)


def test_nobody_else_can_make_a_grant() -> None:
    with pytest.raises(TypeError):
        Grant(object(), ledger(), "ann", ToKeep, "")


def test_a_no_to_chatting_is_a_no_to_everything() -> None:
    made = ledger()
    for scope in Scope:
        made.answer("ann", scope, granted=True, at=AT)
    made.answer("ann", Scope.CHAT, granted=False, at=AT)
    assert not any(made.allows("ann", scope) for scope in Scope)


WITHOUT = """
from datetime import UTC, datetime
from privacy.consent import Grant, ToSend
from privacy.store.records import Records

def wrong(records: Records, grant: Grant[ToSend]) -> None:
    records.keep_feedback(grant, person="x", session="s", number=1, rating=1, note="")

def none(records: Records) -> None:
    records.keep_feedback(person="x", session="s", number=1, rating=1, note="")
"""


def test_code_without_the_right_grant_does_not_type_check(tmp_path: Path) -> None:
    path = tmp_path / "without.py"
    path.write_text(WITHOUT)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file", str(ROOT / "pyproject.toml"), str(path)],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 1
    assert 'expected "Grant[ToKeep]"' in done.stdout and 'Missing positional argument "grant"' in done.stdout


# ------------------------------------------------------------------------------------------------ in a conversation


async def say(conversation: Conversation, text: str) -> list[Any]:
    return [w async for w in conversation.receive(text) if not w.is_partial]


@dataclass(frozen=True)
class Far:
    """A study whose model is elsewhere: the parts of its chat, and both ends of the call."""

    parts: Parts
    keeping: Any
    endpoint: Endpoint
    server: ModelServer


@pytest.fixture
async def far(parts: Parts, tmp_path: Path) -> AsyncIterator[Far]:
    server = ModelServer()
    endpoint = Endpoint(base_url=server.url, api_key="none", models=dict.fromkeys(SPEAKING, "m"))
    keeping: Any = keeping_in(tmp_path, send_to="api.models.example")
    elsewhere = Outside(host="api.models.example", is_local=False)
    yield Far(
        replace(parts_with(endpoint, parts), keeping=keeping, outside=elsewhere), keeping, endpoint, server
    )
    await endpoint.close()
    server.close()
    keeping.close()


def kept_rows(keeping: Any) -> Any:
    return keeping.run(lambda: keeping.store.db.execute("SELECT count(*) FROM participants").fetchone()[0])


async def test_who_only_chats_leaves_nothing_behind(
    parts: Parts, redactor: InProcess, tmp_path: Path
) -> None:
    keeping: Any = keeping_in(tmp_path)
    conversation = Conversation.start(
        replace(parts, keeping=keeping, detector=redactor), person="ann", country="GB"
    )  # type: ignore[arg-type]
    moves = await say(conversation, WORRY)
    assert moves[-1].move == "ask" and await kept_rows(keeping) == 0
    assert b"ann" not in b"".join(p.read_bytes() for p in tmp_path.glob("study.db*"))
    keeping.close()


@pytest.mark.parametrize("granted", [True, False])
async def test_an_outside_model_hears_nothing_without_a_yes_and_no_name_with_one(
    granted: bool, far: Far
) -> None:
    server, keeping = far.server, far.keeping
    await keeping.answer("ann", Scope.CHAT, granted=True)
    await keeping.answer("ann", Scope.SEND, granted=granted)
    conversation = Conversation.start(far.parts, person="ann", country="GB")
    moves = await say(conversation, "my wife Zebulonia left and I've stopped going to work, what do I do?")
    assert moves[-1].move == "ask", "the built-in model asks all the same"
    rows = await keeping.run(lambda: list(keeping.store.db.query("SELECT * FROM ledger")))
    if not granted:
        assert server.said == [] and rows == []
    else:
        assert server.said and "Zebulonia" not in str(server.said) and "<PERSON_1>" in str(server.said)
        assert len(rows) == len(server.said), "one line of the ledger a request"
        assert {r["destination"] for r in rows} == {"api.models.example"} and all(r["digest"] for r in rows)
        held = await keeping.run(
            lambda: [h.fields["content"] for h in keeping.rights.held("ann") if h.table == "ledger"]
        )
        assert any("<PERSON_1>" in text for text in held), (
            "the exact text that was sent, for the person to read"
        )


async def test_no_byte_leaves_around_the_gate(far: Far) -> None:
    """Every request's own text is in the ledger, word for word; without a passage nothing is sent at all."""
    from bot.models.openai_api import Failure, ModelFailure
    from bot.models.remote import AssessAnswer, messages_for
    from bot.models.usage import Budget, Role

    server, keeping = far.server, far.keeping
    for scope in (Scope.CHAT, Scope.SEND):
        await keeping.answer("ann", scope, granted=True)
    conversation = Conversation.start(far.parts, person="ann", country="GB")
    for text in (WORRY, "low, not sleeping", "no, never", "ashamed", "34"):
        await say(conversation, text)
    sent = sorted(r["messages"][1]["content"] for r in server.said)
    kept = await keeping.run(
        lambda: sorted(h.fields["content"] for h in keeping.rights.held("ann") if h.table == "ledger")
    )
    assert kept == sent and len(sent) > 6
    before = len(server.said)
    with pytest.raises(ModelFailure) as refused:
        await far.endpoint.structured(
            Role.ASSESS, messages_for("assess", {"message": "x"}), AssessAnswer, Budget()
        )
    assert refused.value.kind is Failure.NOT_LET_OUT and len(server.said) == before


async def test_a_withdrawal_stops_the_next_call_and_the_next_write(far: Far) -> None:
    server, keeping = far.server, far.keeping
    for scope in (Scope.CHAT, Scope.SEND, Scope.KEEP):
        await keeping.answer("ann", scope, granted=True)
    conversation = Conversation.start(far.parts, person="ann", country="GB")
    await say(conversation, WORRY)
    heard, turns = len(server.said), await keeping.run(lambda: keeping.store.db["turns"].count)
    await keeping.withdraw("ann")
    moves = await say(conversation, "low, not sleeping")
    assert moves and len(server.said) == heard
    assert await keeping.run(lambda: keeping.store.db["turns"].count) == turns


async def test_a_minor_is_shown_youth_help_and_nothing_more_is_kept(
    parts: Parts, redactor: InProcess, tmp_path: Path
) -> None:
    keeping: Any = keeping_in(tmp_path)
    for scope in (Scope.CHAT, Scope.KEEP):
        await keeping.answer("ann", scope, granted=True)
    conversation = Conversation.start(
        replace(parts, keeping=keeping, detector=redactor), person="ann", country="GB"
    )  # type: ignore[arg-type]
    await say(conversation, "my friends left me out of the group chat and I can't stop crying, what do I do?")
    before = await keeping.run(lambda: keeping.store.db["turns"].count)
    moves = await say(conversation, "I'm 14")
    assert any("young people" in m.text for m in moves)
    await say(conversation, "sad mostly")
    assert await keeping.run(lambda: keeping.store.db["turns"].count) == before
    assert not await keeping.allows("ann", Scope.KEEP)
    keeping.close()


async def test_a_study_answers_nobody_before_they_agreed_but_danger_gets_its_card(
    parts: Parts, redactor: InProcess, tmp_path: Path
) -> None:
    keeping: Any = keeping_in(tmp_path, always=True)
    study = replace(parts, keeping=keeping, detector=redactor, asks_first=True)  # type: ignore[arg-type]
    conversation = Conversation.start(study, person="ann", country="GB")
    assert "/consent" in (await say(conversation, WORRY))[-1].text
    assert (await say(conversation, "I am going to kill myself tonight"))[-1].fields[
        "reason"
    ] == "imminent_risk"
    await keeping.answer("bob", Scope.CHAT, granted=True)
    assert (await say(Conversation.start(study, person="bob", country="GB"), WORRY))[-1].move == "ask"
    keeping.close()


def test_a_text_with_a_missing_scope_or_an_unknown_placeholder_is_refused(tmp_path: Path) -> None:
    from policies import consent
    from policies.errors import PolicyFileError

    good = consent.newest().read_text()
    values = dict.fromkeys(re.findall(r"\{(\w+)\}", good), "x")
    (tmp_path / "en-1.yaml").write_text(good.replace("{study_title}", "{shoe_size}"))
    with pytest.raises(PolicyFileError, match="shoe_size"):
        consent.load(tmp_path / "en-1.yaml", values, has_outside=True, has_on_call=True, is_randomised=True)
    (tmp_path / "en-2.yaml").write_text(good.replace("  contact:\n", "  contacts:\n"))
    with pytest.raises(PolicyFileError, match="contact"):
        consent.load(tmp_path / "en-2.yaml", values, has_outside=True, has_on_call=True, is_randomised=True)


async def test_a_yes_that_cannot_be_logged_is_none_and_a_no_holds(tmp_path: Path) -> None:
    keeping: Any = keeping_in(tmp_path)
    await keeping.answer("ann", Scope.KEEP, granted=True)
    await keeping.run(lambda: keeping.audit._db.execute("ALTER TABLE events RENAME TO away"))
    with pytest.raises(AuditBroken):
        await keeping.answer("ann", Scope.RESEARCH, granted=True)
    assert not await keeping.allows("ann", Scope.RESEARCH)
    await keeping.answer("ann", Scope.KEEP, granted=False)
    assert not await keeping.allows("ann", Scope.KEEP)
    keeping.close()
