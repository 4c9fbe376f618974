"""Participants, staff and sign-ins: PINs that are kept nowhere, arms that are seen nowhere, and doors that close at once."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bot.conversation import Conversation
from bot.keeping import Keeping, Line
from bot.parts import Parts
from bot.session import Session
from privacy import pins
from privacy.consent import Scope, ToKeep
from privacy.errors import ConsentMissing, SealBroken
from privacy.placeholders import Placeholders
from privacy.rights import ResidueFound
from privacy.store import Store
from privacy.store.accounts import STAFF, Accounts, Role, Status, digest
from privacy.store.files import checkpoint
from tests.conftest import Clock, InProcess, keeping_in

ARMS = ("quokka-arm", "numbat-arm")
"""Names that stand in no file by chance."""
ANONYMOUS = "visitor-aaaaaaaaaaaaaaaaaaaaaaaa"


@pytest.fixture
def keeping(tmp_path: Path, clock: Clock) -> Iterator[Keeping]:
    made: Any = keeping_in(tmp_path, clock=clock, always=True)
    yield made
    made.close()


@pytest.fixture
def act(keeping: Keeping) -> Callable[..., Any]:
    """Something done with the accounts, in the store's thread."""

    def do(work: Callable[[Accounts], Any]) -> Any:
        return keeping.call(lambda _: work(keeping.accounts))

    return do


def enrol(act: Callable[..., Any], arm: str = ARMS[0]) -> tuple[str, str]:
    made: tuple[str, str] = act(lambda a: a.enrol(arm, protocol="1 (abc)"))
    return made


def lets_in(act: Callable[..., Any], person: str, pin: str) -> bool:
    """What the sign-in page decides."""
    found = act(lambda a: a.pin_of(person))
    enrolled = act(lambda a: a.enrolment(person))
    return pins.verify(pin, found) and enrolled is not None and enrolled.status is Status.ACTIVE


def everywhere(folder: Path) -> bytes:
    return b"\0".join(p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file())


# ------------------------------------------------------------------------------------------------ PINs


def test_a_pin_is_kept_as_a_slow_salted_hash_of_the_recommended_cost(act: Callable[..., Any]) -> None:
    person, _ = enrol(act)
    kept, _ = act(lambda a: a.pin_of(person))
    assert re.fullmatch(r"\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}", kept)


def test_no_pin_and_no_password_stands_in_any_byte_of_any_file(
    keeping: Keeping, act: Callable[..., Any], tmp_path: Path
) -> None:
    secrets = [pin for _ in range(3) for _, pin in [enrol(act)]]
    secrets += [act(lambda a: a.add_staff("anna", Role.OPERATOR)), act(lambda a: a.reset_pin(_first(a)))]
    raw = everywhere(tmp_path)
    for secret in secrets:
        assert secret.encode() not in raw and pins.tidy_pin(secret).encode() not in raw
    assert b"$argon2id$" in raw


def _first(accounts: Accounts) -> str:
    return accounts.enrolments()[0].person


def test_the_hash_of_the_same_pin_verifies_under_its_own_persons_pepper_alone(
    act: Callable[..., Any],
) -> None:
    (one, pin), (two, _) = enrol(act), enrol(act)
    kept, mine = act(lambda a: a.pin_of(one))
    _, theirs = act(lambda a: a.pin_of(two))
    assert pins.matches(pin, kept, mine)
    assert not pins.matches(pin, kept, theirs) and not pins.matches(pin, kept)
    assert mine != theirs


def test_the_pepper_is_not_in_the_file_that_holds_the_hash(act: Callable[..., Any], tmp_path: Path) -> None:
    person, _ = enrol(act)
    kept, pepper = act(lambda a: a.pin_of(person))
    raw = b"\0".join(p.read_bytes() for p in tmp_path.glob("study.db*"))
    assert kept.encode() in raw
    assert pepper not in raw and pepper.hex().encode() not in raw


def test_the_same_pin_is_hashed_to_another_value_each_time() -> None:
    assert pins.hashed("1234 5678", b"pepper") != pins.hashed("1234 5678", b"pepper")


def test_a_wrong_pin_nobodys_pin_and_a_broken_hash_let_nobody_in(act: Callable[..., Any]) -> None:
    person, pin = enrol(act)
    wrong = pin.translate(str.maketrans("0123456789", "1234567890"))
    assert lets_in(act, person, pin) and not lets_in(act, person, wrong) and not lets_in(act, person, "")
    assert not lets_in(act, "nnnn-nnnn", pin) and not pins.verify(pin, None)
    assert not pins.matches(pin, "no hash at all", b"x") and not pins.matches(pin, "", b"x")


@pytest.mark.parametrize(
    "typed",
    ["abcd-2345", "ABCD-2345", "abcd2345", " abcd 2345 ", "a b c d - 2 3 4 5", "abcd–2345", "“Abcd-2345”", "abcd_2345\n"],
)  # fmt: skip
def test_a_code_is_the_same_however_it_is_typed(typed: str) -> None:
    assert pins.tidy_code(typed) == "abcd-2345"


@pytest.mark.parametrize("typed", ["1234 5678", "12345678", "1234-5678", " 1234\t5678\n", "1234\u00a05678"])
def test_a_pin_is_the_same_however_it_is_typed(typed: str) -> None:
    assert pins.matches(typed, pins.hashed("1234 5678", b"p"), b"p")


@given(text=st.text(max_size=40))
@example(text="abcd-23456")
@example(text="é" * 300)
def test_a_tidy_code_stays_as_it_is_and_has_no_sign_that_staff_names_have(text: str) -> None:
    made = pins.tidy_code(text)
    assert pins.tidy_code(made) == made and ":" not in made and len(made) <= pins.LONGEST


def test_codes_pins_and_passwords_have_letters_that_are_not_taken_for_one_another() -> None:
    for _ in range(50):
        assert re.fullmatch(r"[a-z2-9]{4}-[a-z2-9]{4}", code := pins.new_code()) and not set(code) & set(
            "il1o0"
        )
        assert re.fullmatch(r"\d{4} \d{4}", pins.new_pin())
    assert re.fullmatch(r"([a-z2-9]{5}-){3}[a-z2-9]{5}", pins.new_password())


# ------------------------------------------------------------------------------------------------ arms


def test_the_arm_stands_in_no_byte_of_any_file_but_in_the_counts(
    keeping: Keeping, act: Callable[..., Any], tmp_path: Path
) -> None:
    people = [enrol(act, arm)[0] for arm in (*ARMS, *ARMS)]
    assert [act(lambda a, p=p: a.arm(p)) for p in people] == [*ARMS, *ARMS]  # type: ignore[misc]
    assert set(act(lambda a: a.tallied("enrolment"))) == {f"allocated {arm}" for arm in ARMS}

    def without_counts(store: Store) -> None:
        with store.db.atomic():
            store.db.execute("DELETE FROM tallies")
        assert checkpoint(store.db)

    keeping.call(without_counts)
    raw = everywhere(tmp_path)
    assert people[0].encode() in raw and not any(arm.encode() in raw for arm in ARMS)


def test_sealed_arms_are_all_as_long_and_none_is_like_another(
    keeping: Keeping, act: Callable[..., Any]
) -> None:
    for arm in ("a", "a", "an-arm-with-quite-a-long-name"):
        enrol(act, arm)
    sealed = keeping.call(lambda s: [row["arm"] for row in s.db.query("SELECT arm FROM enrolments")])
    assert len(set(sealed)) == 3 and len({len(token) for token in sealed}) == 1


def test_the_list_of_participants_tells_no_arm(act: Callable[..., Any], clock: Clock) -> None:
    people = {enrol(act, arm)[0] for arm in ARMS}
    listed = act(lambda a: a.enrolments())
    assert {one.person for one in listed} == people and not any(arm in repr(listed) for arm in ARMS)
    assert {(one.status, one.protocol, one.made_at, one.first_at) for one in listed} == {
        (Status.ACTIVE, "1 (abc)", clock().isoformat(), "")
    }


def test_the_order_of_the_list_is_not_the_order_in_which_arms_were_given(act: Callable[..., Any]) -> None:
    made = [enrol(act)[0] for _ in range(8)]
    assert [one.person for one in act(lambda a: a.enrolments())] == sorted(made) != made


def test_an_arm_that_was_put_into_another_persons_row_does_not_open(
    keeping: Keeping, act: Callable[..., Any]
) -> None:
    one, two = enrol(act, ARMS[0])[0], enrol(act, ARMS[1])[0]
    keeping.call(
        lambda s: s.db.execute(
            "UPDATE enrolments SET arm = (SELECT arm FROM enrolments WHERE person = ?) WHERE person = ?",
            [two, one],
        )
    )
    with pytest.raises(SealBroken):
        act(lambda a: a.arm(one))
    assert act(lambda a: a.arm(two)) == ARMS[1] and act(lambda a: a.arm("nnnn-nnnn")) is None


def test_counts_say_how_many_were_allocated_and_have_withdrawn(act: Callable[..., Any], clock: Clock) -> None:
    for arm in (ARMS[0], ARMS[0], ARMS[1]):
        enrol(act, arm)
    clock.move(days=40)
    enrol(act, ARMS[1])
    act(lambda a: a.note_withdrawal(ARMS[0]))
    assert act(lambda a: a.tallied("enrolment")) == {
        f"allocated {ARMS[0]}": 2, f"allocated {ARMS[1]}": 2, f"withdrawn {ARMS[0]}": 1,
    }  # fmt: skip


def test_the_first_sign_in_is_noted_once_and_coming_keeps_the_place_in_the_study(
    act: Callable[..., Any], clock: Clock
) -> None:
    person, _ = enrol(act)
    first = clock()
    act(lambda a: a.came(person))
    for _ in range(3):
        clock.move(days=200)
        act(lambda a: a.came(person))
    found = act(lambda a: a.enrolment(person))
    assert found is not None and found.first_at == first.isoformat()
    clock.move(days=366)
    assert act(lambda a: a.enrolment(person)) is None and act(lambda a: a.pin_of(person)) is None
    assert act(lambda a: a.enrolments()) == []


# ------------------------------------------------------------------------------------------------ signed in


def stands(
    act: Callable[..., Any], person: str, token: str = "cookie", *, is_anonymous: bool = False
) -> bool:
    return bool(act(lambda a: a.standing(person, token, is_anonymous=is_anonymous)))


def signed_in(act: Callable[..., Any], *tokens: str) -> tuple[str, str]:
    person, pin = enrol(act)
    for token in tokens or ("cookie",):
        act(lambda a, t=token: a.sign_in(person, t))  # type: ignore[misc]
    return person, pin


def test_a_cookie_of_a_participant_is_good_once_they_have_signed_in_and_for_them_alone(
    act: Callable[..., Any],
) -> None:
    person, _ = enrol(act)
    other, _ = enrol(act)
    assert not stands(act, person)
    act(lambda a: a.sign_in(person, "cookie"))
    assert stands(act, person)
    assert not stands(act, other) and not stands(act, person, "another cookie")


def test_a_cookie_of_a_participant_is_good_for_twelve_hours(act: Callable[..., Any], clock: Clock) -> None:
    person, _ = signed_in(act)
    clock.move(hours=12, seconds=-1)
    assert stands(act, person)
    clock.move(hours=1)
    assert not stands(act, person)


def test_a_cookie_of_a_visitor_of_the_demo_is_good_until_it_is_ended(act: Callable[..., Any]) -> None:
    assert stands(act, ANONYMOUS, is_anonymous=True)
    act(lambda a: a.sign_out(ANONYMOUS, "cookie", is_anonymous=True))
    assert not stands(act, ANONYMOUS, is_anonymous=True)
    assert stands(act, ANONYMOUS, "another", is_anonymous=True)


def test_a_cookie_that_was_never_given_is_good_for_no_participant_after_it_was_ended(
    act: Callable[..., Any],
) -> None:
    person, _ = enrol(act)
    act(lambda a: a.sign_out(person, "cookie"))
    assert not stands(act, person)


def test_signing_out_ends_one_cookie_and_not_another(act: Callable[..., Any]) -> None:
    person, _ = signed_in(act, "phone", "library")
    act(lambda a: a.sign_out(person, "library"))
    assert not stands(act, person, "library") and stands(act, person, "phone")


def test_signing_out_everywhere_ends_every_cookie_of_that_person_alone(act: Callable[..., Any]) -> None:
    person, _ = signed_in(act, "phone", "library")
    other, _ = signed_in(act, "theirs")
    assert act(lambda a: a.sign_out_all(person)) == 2
    assert (
        not stands(act, person, "phone")
        and not stands(act, person, "library")
        and stands(act, other, "theirs")
    )


def test_no_cookie_is_kept_only_its_hash(keeping: Keeping, act: Callable[..., Any], tmp_path: Path) -> None:
    signed_in(act, "a-cookie-that-nobody-else-has")
    raw = everywhere(tmp_path)
    assert b"a-cookie-that-nobody-else-has" not in raw
    assert digest("a-cookie-that-nobody-else-has").encode() in raw


def test_a_new_pin_ends_sign_ins_and_the_old_pin(act: Callable[..., Any]) -> None:
    person, old = signed_in(act)
    new = act(lambda a: a.reset_pin(person))
    assert new != old and lets_in(act, person, new) and not lets_in(act, person, old)
    assert not stands(act, person)
    assert act(lambda a: a.arm(person)) == ARMS[0], "the arm stays"
    assert act(lambda a: a.reset_pin("nnnn-nnnn")) is None


def test_who_is_deactivated_is_out_at_once_and_can_be_let_in_again(act: Callable[..., Any]) -> None:
    person, pin = signed_in(act)
    before = act(lambda a: a.signed_in())
    assert act(lambda a: a.set_status(person, Status.DEACTIVATED))
    assert not stands(act, person) and not lets_in(act, person, pin)
    assert act(lambda a: a.signed_in()) != before, "open pages hear of it"
    assert act(lambda a: a.set_status(person, Status.ACTIVE))
    assert lets_in(act, person, pin) and not stands(act, person), "the old cookie stays ended"
    assert not act(lambda a: a.set_status("nnnn-nnnn", Status.DEACTIVATED))


def test_a_cookie_that_comes_back_after_deactivation_is_not_good(act: Callable[..., Any]) -> None:
    person, _ = signed_in(act)
    act(lambda a: a.set_status(person, Status.DEACTIVATED))
    act(lambda a: a.sign_in(person, "cookie"))
    assert not stands(act, person)


@pytest.mark.parametrize("how", ["sign_in", "sign_out", "sign_out_all", "reset_pin", "deactivate"])
def test_open_pages_can_tell_that_something_about_sign_ins_has_changed(
    how: str, act: Callable[..., Any]
) -> None:
    person, _ = signed_in(act)
    before = act(lambda a: a.signed_in())
    {
        "sign_in": lambda: act(lambda a: a.sign_in(person, "another")),
        "sign_out": lambda: act(lambda a: a.sign_out(person, "cookie")),
        "sign_out_all": lambda: act(lambda a: a.sign_out_all(person)),
        "reset_pin": lambda: act(lambda a: a.reset_pin(person)),
        "deactivate": lambda: act(lambda a: a.set_status(person, Status.DEACTIVATED)),
    }[how]()
    assert act(lambda a: a.signed_in()) != before


# ------------------------------------------------------------------------------------------------ staff


def test_staff_sign_in_with_their_password_and_have_their_role(act: Callable[..., Any]) -> None:
    password = act(lambda a: a.add_staff("anna", Role.OPERATOR))
    assert pins.verify(password.upper(), act(lambda a: a.password_of("anna")))
    assert not pins.verify("wrong", act(lambda a: a.password_of("anna")))
    assert act(lambda a: a.role(STAFF + "anna")) is Role.OPERATOR
    assert act(lambda a: a.role("anna")) is None and act(lambda a: a.role(STAFF + "bob")) is None
    assert act(lambda a: a.password_of("bob")) is None


def test_a_cookie_of_staff_is_good_while_they_have_an_account(act: Callable[..., Any]) -> None:
    act(lambda a: a.add_staff("anna", Role.OPERATOR))
    assert not stands(act, STAFF + "anna")
    act(lambda a: a.sign_in(STAFF + "anna", "cookie"))
    assert stands(act, STAFF + "anna")
    assert act(lambda a: a.remove_staff("anna"))
    assert not stands(act, STAFF + "anna") and act(lambda a: a.password_of("anna")) is None
    assert act(lambda a: a.staff()) == [] and not act(lambda a: a.remove_staff("anna"))
    act(lambda a: a.sign_in(STAFF + "anna", "cookie"))
    assert not stands(act, STAFF + "anna"), "no account, no standing, whatever lies among the sign-ins"


def test_another_role_is_another_password_and_ends_sign_ins(act: Callable[..., Any]) -> None:
    old = act(lambda a: a.add_staff("anna", Role.OPERATOR))
    act(lambda a: a.sign_in(STAFF + "anna", "cookie"))
    new = act(lambda a: a.add_staff("anna", Role.AUDITOR))
    assert act(lambda a: a.role(STAFF + "anna")) is Role.AUDITOR and not stands(act, STAFF + "anna")
    assert pins.verify(new, act(lambda a: a.password_of("anna")))
    assert not pins.verify(old, act(lambda a: a.password_of("anna")))


def test_an_account_of_staff_that_nobody_uses_for_a_year_is_closed(
    act: Callable[..., Any], clock: Clock
) -> None:
    for name in ("anna", "bert"):
        act(lambda a, n=name: a.add_staff(n, Role.RESEARCHER))  # type: ignore[misc]
    clock.move(days=200)
    act(lambda a: a.staff_came("anna"))
    clock.move(days=200)
    assert [row["person"] for row in act(lambda a: a.staff())] == ["anna"]
    assert act(lambda a: a.role(STAFF + "bert")) is None and act(lambda a: a.password_of("bert")) is None


def test_the_list_of_staff_tells_no_hash(act: Callable[..., Any], clock: Clock) -> None:
    act(lambda a: a.add_staff("anna", Role.OPERATOR))
    assert act(lambda a: a.staff()) == [
        {"person": "anna", "role": "operator", "status": "active", "last_at": clock().isoformat()}
    ]


def test_no_code_of_a_participant_can_be_that_of_staff(act: Callable[..., Any]) -> None:
    act(lambda a: a.add_staff("anna", Role.OPERATOR))
    assert act(lambda a: a.enrolment(pins.tidy_code("staff:anna"))) is None
    assert act(lambda a: a.pin_of("staff:anna")) is None


# ------------------------------------------------------------------------------------------------ leaving


async def test_erasing_takes_the_enrolment_the_sign_ins_and_leaves_a_number(
    keeping: Keeping, act: Callable[..., Any], tmp_path: Path
) -> None:
    person, pin = signed_in(act)
    other, _ = enrol(act, ARMS[1])
    act(lambda a: a.deviated("pin-reset", person=person))
    await keeping.answer(person, Scope.CHAT, granted=True)
    receipt = await keeping.erase(person)
    assert receipt.counts["enrolments"] == 1 and receipt.counts["logins"] == 1 and receipt.residue.found == ()
    assert (
        act(lambda a: a.enrolment(person)) is None
        and not lets_in(act, person, pin)
        and not stands(act, person)
    )
    assert act(lambda a: a.tallied("enrolment")) == {
        f"agreed, then left {ARMS[0]}": 1, f"allocated {ARMS[0]}": 1, f"allocated {ARMS[1]}": 1, f"withdrawn {ARMS[0]}": 1,
    }  # fmt: skip
    assert [(row["kind"], row["person"]) for row in act(lambda a: a.deviations())] == [
        ("pin-reset", "erased")
    ]
    assert act(lambda a: a.arm(other)) == ARMS[1]
    assert person.encode() not in everywhere(tmp_path)


async def test_a_visitor_who_is_erased_counts_for_no_arm(keeping: Keeping, act: Callable[..., Any]) -> None:
    await keeping.answer(ANONYMOUS, Scope.CHAT, granted=True)
    await keeping.erase(ANONYMOUS)
    assert act(lambda a: a.tallied("enrolment")) == {}


async def test_who_leaves_is_counted_though_a_reader_was_in_the_way_at_first(
    keeping: Keeping, act: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("privacy.store.files.time.sleep", lambda _: None)
    person, _ = enrol(act)
    await keeping.answer(person, Scope.KEEP, granted=True)
    reader = sqlite3.connect(tmp_path / "study.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM enrolments").fetchone()
    with pytest.raises(ResidueFound):
        await keeping.erase(person)
    reader.close()
    await keeping.erase(person)
    assert act(lambda a: a.enrolments()) == []
    assert act(lambda a: a.tallied("enrolment")).get(f"withdrawn {ARMS[0]}") == 1


# ------------------------------------------------------------------------------------------------ questionnaires

CANARY = "the kettle knows what the lanternbox said"


async def responded(keeping: Keeping, person: str, text: str = CANARY) -> None:
    for scope in (Scope.CHAT, Scope.KEEP):
        await keeping.answer(person, scope, granted=True)

    def write() -> None:
        grant = keeping.ledger.grant(person, ToKeep)
        assert grant is not None
        values = {"now": json.dumps({"value": 4}), "words": json.dumps({"text": text})}
        keeping.records.keep_responses(
            grant, person=person, instrument="distress", occasion="before", values=values
        )

    await keeping.run(write)


async def test_answers_to_a_questionnaire_are_sealed_and_open_for_their_person(
    keeping: Keeping, act: Callable[..., Any], tmp_path: Path
) -> None:
    person, _ = enrol(act)
    await responded(keeping, person)
    held = [row for row in await keeping.run(keeping.rights.held, person) if row.table == "responses"]
    assert {(row.fields["item"], row.fields["value"]) for row in held} == {
        ("now", '{"value": 4}'), ("words", json.dumps({"text": CANARY})),
    }  # fmt: skip
    assert await keeping.run(keeping.records.has_responses, person, "distress", "before")
    assert not await keeping.run(keeping.records.has_responses, person, "distress", "after")
    assert CANARY.encode() not in everywhere(tmp_path)


async def test_a_second_answer_takes_the_place_of_the_first(
    keeping: Keeping, act: Callable[..., Any]
) -> None:
    person, _ = enrol(act)
    await responded(keeping, person, "first")
    await responded(keeping, person, "second")
    held = [row for row in await keeping.run(keeping.rights.held, person) if row.table == "responses"]
    assert len(held) == 2 and "second" in {json.loads(r.fields["value"]).get("text") for r in held}


async def test_answers_to_a_questionnaire_are_erased_with_their_person(
    keeping: Keeping, act: Callable[..., Any]
) -> None:
    (person, _), (other, _) = enrol(act), enrol(act)
    await responded(keeping, person)
    await responded(keeping, other)
    receipt = await keeping.erase(person)
    assert receipt.counts["responses"] == 2 and receipt.residue.found == ()
    assert not await keeping.run(keeping.records.has_responses, person, "distress", "before")
    assert await keeping.run(keeping.records.has_responses, other, "distress", "before")


@pytest.mark.parametrize("text", ["participants", "enrolment", "escalations"])
async def test_who_answered_with_a_word_that_our_tables_use_can_be_erased(
    text: str, keeping: Keeping, act: Callable[..., Any]
) -> None:
    person, _ = enrol(act)
    await responded(keeping, person, text)
    assert (await keeping.erase(person)).residue.found == ()


async def test_without_consent_to_keep_no_answer_is_written(
    keeping: Keeping, act: Callable[..., Any]
) -> None:
    person, _ = enrol(act)
    await responded(keeping, person)
    grant = await keeping.run(keeping.ledger.grant, person, ToKeep)
    await keeping.answer(person, Scope.KEEP, granted=False)
    with pytest.raises(ConsentMissing):
        await keeping.run(
            lambda: keeping.records.keep_responses(
                grant, person=person, instrument="distress", occasion="after", values={"now": "{}"}  # type: ignore[arg-type]
            )
        )  # fmt: skip
    assert not await keeping.run(keeping.records.has_responses, person, "distress", "after")


# ------------------------------------------------------------------------------------------------ what is coming


@pytest.fixture
async def conversation(
    keeping: Keeping, act: Callable[..., Any], parts: Parts, redactor: InProcess
) -> Conversation:
    person, _ = enrol(act)
    for scope in (Scope.CHAT, Scope.KEEP):
        await keeping.answer(person, scope, granted=True)
    return Conversation.start(
        replace(parts, keeping=keeping, detector=redactor),  # type: ignore[arg-type]
        person=person,
        country="GB",
    )


def line(text: str) -> Line:
    return Line(id="message-1", is_theirs=True, move="", text=text)


async def test_a_message_that_is_coming_is_kept_sealed_until_it_is_settled(
    keeping: Keeping, conversation: Conversation, tmp_path: Path
) -> None:
    person = conversation._person
    before = conversation.session
    await keeping.coming(person, conversation.id, before, line(CANARY), conversation.places, chosen=True)
    kept, _ = await keeping.kept(person)  # type: ignore[misc]
    found = json.loads(kept.coming)
    assert Line.from_json(found) == line(CANARY) and found["chosen"] is True
    assert kept.id == conversation.id and Session.from_json(json.loads(kept.state)) == before
    await keeping.coming(person, conversation.id, before, None, conversation.places)
    assert await keeping.kept(person) is None, "a conversation that was nothing else goes with it"
    assert CANARY.encode() not in everywhere(tmp_path)


async def test_a_message_that_is_coming_leaves_the_state_of_the_turn_before_it(
    keeping: Keeping, conversation: Conversation
) -> None:
    person = conversation._person
    _ = [w async for w in conversation.receive("my wife left and I've stopped going to work, what do I do?")]
    earlier, _ = await keeping.kept(person)  # type: ignore[misc]
    assert earlier.coming == "", "the turn that was kept settled its own message"
    await keeping.coming(person, conversation.id, conversation.session, line("low"), conversation.places)
    kept, _ = await keeping.kept(person)  # type: ignore[misc]
    assert (kept.state, kept.shown) == (earlier.state, earlier.shown) and json.loads(kept.coming)[
        "text"
    ] == "low"


async def test_a_message_that_was_coming_when_the_program_ended_is_answered_at_the_next_start(
    keeping: Keeping,
    conversation: Conversation,
    *,
    parts: Parts,
    redactor: InProcess,
    clock: Clock,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    person = conversation._person
    text = "my wife left and I've stopped going to work, what do I do?"
    await keeping.coming(person, conversation.id, conversation.session, line(text), conversation.places)
    folder = tmp_path_factory.mktemp("killed") / "data"
    shutil.copytree(tmp_path, folder)
    second: Any = keeping_in(folder, clock=clock, always=True)
    kept, _ = await second.kept(person)
    resumed = Conversation(
        replace(parts, keeping=second, detector=redactor), Session.from_json(json.loads(kept.state)), person=person,
        places=Placeholders.from_json(kept.places), session_id=kept.id,
    )  # fmt: skip
    moves = [w async for w in resumed.go_on(json.loads(kept.coming)) if not w.is_partial]
    assert any(w.move == "ask" for w in moves) and resumed.session.turn == 1
    kept, _ = await second.kept(person)
    assert kept.coming == "" and Session.from_json(json.loads(kept.state)).turn == 1
    shown = [Line.from_json(raw) for raw in json.loads(kept.shown)]
    assert [one.text for one in shown if one.is_theirs] == [text], "once"
    second.close()


async def test_without_consent_to_keep_nothing_that_is_coming_is_kept(
    keeping: Keeping, conversation: Conversation
) -> None:
    person = conversation._person
    await keeping.withdraw(person)
    await keeping.coming(person, conversation.id, conversation.session, line("low"), conversation.places)
    assert keeping.call(lambda s: s.db["sessions"].count) == 0


async def test_a_message_that_is_coming_goes_with_its_person(
    keeping: Keeping, conversation: Conversation
) -> None:
    person = conversation._person
    await keeping.coming(person, conversation.id, conversation.session, line(CANARY), conversation.places)
    receipt = await keeping.erase(person)
    assert receipt.counts["sessions"] == 1 and receipt.residue.found == ()


# ------------------------------------------------------------------------------------------------ deviations


def test_deviations_are_told_in_order_until_their_time_is_up(act: Callable[..., Any], clock: Clock) -> None:
    act(lambda a: a.deviated("other", by="anna"))
    clock.move(days=1)
    act(lambda a: a.deviated("pin-reset", person="abcd-2345"))
    told = act(lambda a: a.deviations())
    assert [(row["kind"], row["person"], row["by"]) for row in told] == [
        ("other", "", "anna"), ("pin-reset", "abcd-2345", "program"),
    ]  # fmt: skip
    clock.time += timedelta(days=3 * 366)
    assert act(lambda a: a.deviations()) == []
