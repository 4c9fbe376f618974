"""What staff do while a study runs: logged before it is done; enrolment that pauses by itself; and what stops a study from starting."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bot.cli import cli, main
from bot.conversation import Conversation
from bot.escalation import PAUSED, Desk, Referral
from bot.keeping import Keeping
from bot.operating import ACTIONS, DEVIATIONS, OUTCOMES, WHY, Operating
from bot.parts import Parts
from bot.risk.verdict import RiskLevel
from bot.settings import read_settings, study_of
from bot.studying import Finding, findings, prompt_digests
from privacy.audit import AuditEvent, EventKind
from privacy.consent import Scope
from privacy.errors import AuditBroken, PrivacyError
from privacy.store.accounts import Status
from tests.conftest import KEY, Clock, InProcess, keeping_in


@pytest.fixture
def keeping(tmp_path: Path, clock: Clock) -> Iterator[Keeping]:
    made: Any = keeping_in(tmp_path / "data", clock=clock, always=True)
    yield made
    made.close()


def in_store(keeping: Keeping, work: Callable[[Operating], Any]) -> Any:
    return keeping.call(lambda _: work(Operating(keeping)))


def logged(keeping: Keeping, kind: EventKind) -> list[dict[str, Any]]:
    """What the log says of a kind, newest first, without the policies in force."""
    found: list[AuditEvent] = keeping.call(lambda _: keeping.audit.newest(kind, most=99))
    return [counts for event in found if "digest" not in (counts := json.loads(event.counts))]


def deviations(keeping: Keeping) -> list[tuple[str, str, str]]:
    rows = keeping.call(lambda _: keeping.accounts.deviations())
    return [(row["kind"], row["person"], row["by"]) for row in rows]


def enrol(keeping: Keeping, arm: str = "quokka") -> str:
    person, _ = keeping.call(lambda _: keeping.accounts.enrol(arm, protocol="1"))
    return str(person)


def no_log(keeping: Keeping) -> None:
    keeping.call(lambda _: keeping.audit._db.execute("ALTER TABLE events RENAME TO elsewhere"))


# ------------------------------------------------------------------------------------------------ the stop rule


class Pager:
    """A way to reach somebody, which always does."""

    def __init__(self) -> None:
        self.told: list[dict[str, str]] = []

    def send(self, notice: dict[str, str]) -> None:
        self.told.append(notice)


def danger(
    keeping: Keeping,
    clock: Clock,
    *people: str,
    stop_after: int | None = 2,
    level: RiskLevel = RiskLevel.IMMINENT,
    way: Pager | None = None,
) -> Desk:
    """A desk that was told of danger to each of these people now, and has written all of it."""
    desk = Desk(
        keeping.directory, [way] if way else [], clock=clock, keeps_notices=True, stop_after=stop_after,
        tell_from=RiskLevel.ELEVATED,
    )  # fmt: skip
    desk.write_through(keeping.call, keeping.note_escalation, keeping.note_pause)
    for person in people:
        desk.note(
            Referral(person=person, level=level, category="suicide", country="GB", at=clock(), is_news=True)
        )
    desk.close(within=30)
    return desk


def paused(keeping: Keeping) -> dict[str, Any] | None:
    told = keeping.call(lambda s: s.own(PAUSED))
    return json.loads(told) if told else None


def test_as_many_notices_as_the_rule_allows_pause_nothing(keeping: Keeping, clock: Clock) -> None:
    danger(keeping, clock, "one", "two")
    assert paused(keeping) is None and deviations(keeping) == []
    assert len(keeping.call(lambda s: s.escalations(open_only=True, at=clock()))) == 2, (
        "kept, though nobody is told"
    )


def test_one_more_within_a_day_pauses_enrolment_once_is_logged_and_deviates(
    keeping: Keeping, clock: Clock
) -> None:
    danger(keeping, clock, "one", "two")
    clock.move(hours=23)
    danger(keeping, clock, "three")
    first = paused(keeping)
    assert first == {
        "at": clock().isoformat(), "why": "stop rule: more than 2 notices of imminent danger in 24 hours", "by": "program",
    }  # fmt: skip
    clock.move(minutes=5)
    danger(keeping, clock, "four", "five")
    assert paused(keeping) == first
    assert logged(keeping, EventKind.POLICY) == [{"enrolment": "paused", "by": "stop rule"}]
    assert deviations(keeping) == [("enrolment-paused", "", "program")]


def test_notices_of_more_than_a_day_ago_do_not_count(keeping: Keeping, clock: Clock) -> None:
    danger(keeping, clock, "one", "two")
    clock.move(hours=24, seconds=1)
    danger(keeping, clock, "three", "four")
    assert paused(keeping) is None
    danger(keeping, clock, "five")
    assert paused(keeping) is not None


def test_one_person_who_says_it_again_counts_once(keeping: Keeping, clock: Clock) -> None:
    danger(keeping, clock, *["one"] * 5)
    assert paused(keeping) is None


def test_notices_of_a_lower_level_do_not_count(keeping: Keeping, clock: Clock) -> None:
    danger(keeping, clock, *"abcdef", level=RiskLevel.ELEVATED)
    assert paused(keeping) is None
    assert len(keeping.call(lambda s: s.escalations(open_only=True, at=clock()))) == 6


def test_notices_of_a_lower_level_beside_imminent_ones_do_not_count(keeping: Keeping, clock: Clock) -> None:
    danger(keeping, clock, *"abcdef", level=RiskLevel.ELEVATED)
    danger(keeping, clock, "one", "two")
    assert paused(keeping) is None


def test_a_notice_of_a_lower_level_does_not_pause_again_after_a_resume(
    keeping: Keeping, clock: Clock
) -> None:
    danger(keeping, clock, "one", "two", "three")
    in_store(keeping, lambda o: o.resume(by="anna", why="notices-looked-at"))
    danger(keeping, clock, "four", level=RiskLevel.ELEVATED)
    assert paused(keeping) is None


def test_without_a_rule_nothing_pauses(keeping: Keeping, clock: Clock) -> None:
    danger(keeping, clock, *"abcdef", stop_after=None)
    assert paused(keeping) is None


def test_without_a_study_no_record_is_kept_where_nobody_is_told(keeping: Keeping, clock: Clock) -> None:
    desk = Desk(keeping.directory, clock=clock)
    desk.write_through(keeping.call, keeping.note_escalation, keeping.note_pause)
    desk.note(
        Referral(
            person="one", level=RiskLevel.IMMINENT, category="suicide", country="GB", at=clock(), is_news=True
        )
    )
    desk.close(within=30)
    assert keeping.call(lambda s: s.escalations(open_only=False, at=clock())) == []
    assert keeping.call(lambda s: s.referrals(clock().year))[0]["count"] == 1


def test_whoever_is_on_call_is_told_once_that_enrolment_paused(keeping: Keeping, clock: Clock) -> None:
    pager = Pager()
    desk = danger(keeping, clock, "one", "two", "three", "four", way=pager)
    desk._send()
    news = [notice for notice in pager.told if notice["level"] == "enrolment paused"]
    assert news == [{"id": "0", "person": "nobody", "level": "enrolment paused", "at": clock().isoformat()}]
    assert sorted(n["person"] for n in pager.told if n["level"] == "imminent") == [
        "four",
        "one",
        "three",
        "two",
    ]


def test_who_could_not_be_told_of_a_pause_is_told_after_a_restart_and_only_once(
    keeping: Keeping, clock: Clock
) -> None:
    def pauses(way: Pager) -> int:
        return sum(notice["level"] == "enrolment paused" for notice in way.told)

    class Dead(Pager):
        def send(self, notice: dict[str, str]) -> None:
            super().send(notice)
            raise OSError("nobody answers")

    dead, pager = Dead(), Pager()
    desk = danger(keeping, clock, "one", "two", "three", way=dead)
    tries = pauses(dead)
    desk._send()
    assert tries == 1 and pauses(dead) == 1, "it waits before it tries again"
    clock.move(seconds=6)
    desk._send()
    assert pauses(dead) == 2
    for _ in range(2):
        danger(keeping, clock, way=pager)
    assert pauses(pager) == 1
    keeping.call(lambda s: s.set_own(PAUSED, None))
    clock.move(hours=1)
    danger(keeping, clock, "four", way=pager)
    assert pauses(pager) == 2, "another pause is told anew"


def test_a_pause_after_one_that_could_not_be_told_is_told_at_once(keeping: Keeping, clock: Clock) -> None:
    class Dead(Pager):
        dead = True

        def send(self, notice: dict[str, str]) -> None:
            super().send(notice)
            if self.dead:
                raise OSError("nobody answers")

    pager = Dead()
    desk = danger(keeping, clock, "one", "two", "three", way=pager)
    for _ in range(6):
        desk._send()
        clock.move(hours=1)
    keeping.call(lambda s: s.set_own(PAUSED, None))
    pager.told, pager.dead = [], False
    clock.move(minutes=1)
    told = json.dumps({"at": clock().isoformat(), "why": "stop rule", "by": "program"})
    keeping.call(lambda s: s.set_own(PAUSED, told))
    desk._send()
    desk._send()
    assert [n["level"] for n in pager.told].count("enrolment paused") == 1


async def test_danger_in_conversations_pauses_enrolment(
    keeping: Keeping, parts: Parts, redactor: InProcess, clock: Clock
) -> None:
    desk = Desk(keeping.directory, clock=clock, keeps_notices=True, stop_after=1)
    desk.write_through(keeping.call, keeping.note_escalation, keeping.note_pause)
    for person in ("person-one-417", "person-two-417"):
        conversation = Conversation(
            replace(parts, desk=desk, keeping=keeping, detector=redactor), person=person
        )  # type: ignore[arg-type]
        _ = [w async for w in conversation.receive("I am going to kill myself tonight")]
    await keeping.run(lambda: None)
    desk.close(within=30)
    assert paused(keeping) is not None


# ------------------------------------------------------------------------------------------------ pausing by hand


def test_a_pause_is_kept_logged_and_deviates_once(keeping: Keeping, clock: Clock) -> None:
    assert in_store(keeping, lambda o: o.pause(by="anna", why="technical"))
    assert not in_store(keeping, lambda o: o.pause(by="bert", why="board"))
    assert paused(keeping) == {"at": clock().isoformat(), "why": "technical", "by": "anna"}
    assert logged(keeping, EventKind.POLICY) == [{"enrolment": "paused", "by": "anna"}]
    assert deviations(keeping) == [("enrolment-paused", "", "anna")]


def test_resuming_clears_a_pause_by_hand_or_by_the_rule(keeping: Keeping, clock: Clock) -> None:
    assert not in_store(keeping, lambda o: o.resume(by="anna", why="notices-looked-at"))
    danger(keeping, clock, "one", "two", "three")
    assert in_store(keeping, lambda o: o.resume(by="anna", why="notices-looked-at"))
    assert paused(keeping) is None
    assert logged(keeping, EventKind.POLICY)[0] == {
        "enrolment": "resumed",
        "by": "anna",
        "why": "notices-looked-at",
    }
    assert deviations(keeping)[-1] == ("enrolment-resumed", "", "anna")


def test_more_danger_after_a_resume_pauses_again(keeping: Keeping, clock: Clock) -> None:
    danger(keeping, clock, "one", "two", "three")
    in_store(keeping, lambda o: o.resume(by="anna", why="notices-looked-at"))
    danger(keeping, clock, "four")
    assert paused(keeping) is not None and [kind for kind, _, _ in deviations(keeping)] == [
        "enrolment-paused", "enrolment-resumed", "enrolment-paused",
    ]  # fmt: skip


def test_where_it_cannot_be_logged_nothing_pauses_or_resumes(keeping: Keeping, clock: Clock) -> None:
    danger(keeping, clock, "one", "two", "three")
    no_log(keeping)
    with pytest.raises(AuditBroken):
        in_store(keeping, lambda o: o.resume(by="anna", why="notices-looked-at"))
    assert paused(keeping) is not None
    keeping.call(lambda s: s.set_own(PAUSED, None))
    with pytest.raises(AuditBroken):
        in_store(keeping, lambda o: o.pause(by="anna", why="technical"))
    assert paused(keeping) is None


# ------------------------------------------------------------------------------------------------ notices


def test_a_notice_is_taken_on_and_closed_in_fixed_words(keeping: Keeping, clock: Clock) -> None:
    danger(keeping, clock, "one")
    assert not in_store(keeping, lambda o: o.acknowledge(1, by="anna", did="had a word"))
    assert not in_store(keeping, lambda o: o.close(1, by="anna", outcome="safe")), "nobody has taken it on"
    assert in_store(keeping, lambda o: o.acknowledge(1, by="anna", did=ACTIONS[0]))
    assert not in_store(keeping, lambda o: o.acknowledge(1, by="bert", did=ACTIONS[0]))
    assert not in_store(keeping, lambda o: o.close(1, by="anna", outcome="fine, I think"))
    assert in_store(keeping, lambda o: o.close(1, by="anna", outcome=OUTCOMES[0]))
    assert keeping.call(lambda s: s.escalations(open_only=True, at=clock())) == []
    (row,) = keeping.call(lambda s: s.escalations(open_only=False, at=clock()))
    assert (row["acknowledged_by"], row["action"], row["outcome"]) == ("anna", "reached", "safe")


def test_where_it_cannot_be_logged_a_notice_is_not_taken_on(keeping: Keeping, clock: Clock) -> None:
    danger(keeping, clock, "one")
    no_log(keeping)
    with pytest.raises(AuditBroken):
        in_store(keeping, lambda o: o.acknowledge(1, by="anna", did=ACTIONS[0]))
    (row,) = keeping.call(lambda s: s.escalations(open_only=True, at=clock()))
    assert row["acknowledged_at"] is None


# ------------------------------------------------------------------------------------------------ looking


async def talked(keeping: Keeping, parts: Parts, redactor: InProcess) -> str:
    person = await keeping.run(lambda: keeping.accounts.enrol("quokka", protocol="1")[0])
    for scope in (Scope.CHAT, Scope.KEEP):
        await keeping.answer(person, scope, granted=True)
    conversation = Conversation.start(
        replace(parts, keeping=keeping, detector=redactor),  # type: ignore[arg-type]
        person=person,
        country="GB",
    )
    _ = [
        w
        async for w in conversation.receive("I can't sleep since Zebulonia Quartermaine left, what do I do?")
    ]
    return str(person)


async def test_reading_a_conversation_needs_a_reason_and_is_logged_first(
    keeping: Keeping, parts: Parts, redactor: InProcess
) -> None:
    person = await talked(keeping, parts, redactor)
    entry, lines = await keeping.run(lambda: Operating(keeping).read(person, by="anna", why="safety"))
    assert any("sleep" in line.text for line in lines if line.is_theirs) and any(
        not line.is_theirs for line in lines
    )
    assert not any("Zebulonia" in line.text for line in lines), "redacted"
    head = await keeping.run(keeping.audit.head)
    assert head is not None and head.number == entry and head.subject, "of whom, for who has their key"
    assert json.loads(head.counts) == {"command": "read", "by": "anna", "why": "safety"}


@pytest.mark.parametrize("why", ["", "curious", "person-asked, I think"])
async def test_without_a_reason_of_ours_nothing_is_read_and_nothing_logged(
    why: str, keeping: Keeping, parts: Parts, redactor: InProcess
) -> None:
    person = await talked(keeping, parts, redactor)
    before = await keeping.run(keeping.audit.head)
    with pytest.raises(PrivacyError, match="needs a reason"):
        await keeping.run(lambda: Operating(keeping).read(person, by="anna", why=why))
    assert await keeping.run(keeping.audit.head) == before and why not in WHY


async def test_where_it_cannot_be_logged_nothing_is_read(
    keeping: Keeping, parts: Parts, redactor: InProcess
) -> None:
    person = await talked(keeping, parts, redactor)
    await keeping.run(lambda: keeping.audit._db.execute("ALTER TABLE events RENAME TO elsewhere"))
    with pytest.raises(AuditBroken):
        await keeping.run(lambda: Operating(keeping).read(person, by="anna", why="safety"))


def test_reading_of_who_said_nothing_is_logged_all_the_same(keeping: Keeping) -> None:
    person = enrol(keeping)
    entry, lines = in_store(keeping, lambda o: o.read(person, by="anna", why="technical"))
    assert lines == [] and logged(keeping, EventKind.ACCESS)[0]["command"] == "read" and entry > 0


def test_unblinding_tells_the_arm_is_logged_and_deviates(keeping: Keeping) -> None:
    person = enrol(keeping, "numbat")
    assert in_store(keeping, lambda o: o.unblind(person, by="anna", why="safety")) == "numbat"
    assert logged(keeping, EventKind.ACCESS) == [{"command": "unblind", "by": "anna", "why": "safety"}]
    assert deviations(keeping) == [("unblinded", person, "anna")]


def test_unblinding_nobody_tells_and_logs_nothing(keeping: Keeping) -> None:
    assert in_store(keeping, lambda o: o.unblind("nnnn-nnnn", by="anna", why="safety")) is None
    assert logged(keeping, EventKind.ACCESS) == [] and deviations(keeping) == []


def test_where_it_cannot_be_logged_no_arm_is_told(keeping: Keeping) -> None:
    person = enrol(keeping)
    no_log(keeping)
    with pytest.raises(AuditBroken):
        in_store(keeping, lambda o: o.unblind(person, by="anna", why="safety"))
    assert deviations(keeping) == []


# ------------------------------------------------------------------------------------------------ doors

ACTS: dict[str, Callable[[Operating, str], Any]] = {
    "sign out": lambda o, person: o.sign_out(person, by="anna"),
    "deactivate": lambda o, person: o.deactivate(person, by="anna"),
    "activate": lambda o, person: o.activate(person, by="anna"),
    "reset-pin": lambda o, person: o.reset_pin(person, by="anna"),
}


@pytest.mark.parametrize("name", ACTS)
def test_each_act_on_a_participant_is_in_the_log_and_of_nobody_else(name: str, keeping: Keeping) -> None:
    person = enrol(keeping)
    assert in_store(keeping, lambda o: ACTS[name](o, person))
    assert logged(keeping, EventKind.ACCESS) == [{"command": name, "by": "anna"}]
    assert not in_store(keeping, lambda o: ACTS[name](o, "nnnn-nnnn"))
    assert len(logged(keeping, EventKind.ACCESS)) == 1


@pytest.mark.parametrize("name", ["sign out", "deactivate", "reset-pin"])
def test_where_it_cannot_be_logged_no_door_closes(name: str, keeping: Keeping) -> None:
    person = enrol(keeping)
    keeping.call(lambda _: keeping.accounts.sign_in(person, "cookie"))
    pin = keeping.call(lambda _: keeping.accounts.pin_of(person))
    no_log(keeping)
    with pytest.raises(AuditBroken):
        in_store(keeping, lambda o: ACTS[name](o, person))
    assert keeping.call(lambda _: keeping.accounts.standing(person, "cookie", is_anonymous=False))
    assert keeping.call(lambda _: keeping.accounts.pin_of(person)) == pin


def test_who_is_signed_out_or_deactivated_is_out_at_once(keeping: Keeping) -> None:
    for name in ("sign out", "deactivate", "reset-pin"):
        person = enrol(keeping)
        keeping.call(lambda _, p=person: keeping.accounts.sign_in(p, "cookie " + p))  # type: ignore[misc]
        in_store(keeping, lambda o, p=person, n=name: ACTS[n](o, p))  # type: ignore[misc]
        assert not keeping.call(
            lambda _, p=person: keeping.accounts.standing(p, "cookie " + p, is_anonymous=False)
        ), name  # type: ignore[misc]


def test_a_deactivation_is_a_deviation_and_can_be_undone(keeping: Keeping) -> None:
    person = enrol(keeping)
    in_store(keeping, lambda o: o.deactivate(person, by="anna"))
    in_store(keeping, lambda o: o.activate(person, by="anna"))
    found = keeping.call(lambda _: keeping.accounts.enrolment(person))
    assert found.status is Status.ACTIVE and deviations(keeping) == [("deactivated", person, "anna")]


def test_kinds_of_deviation_that_the_program_notes_are_among_those_of_the_command(keeping: Keeping) -> None:
    person = enrol(keeping)
    for act in (
        lambda o: o.pause(by="a", why="board"), lambda o: o.resume(by="a", why="board"), lambda o: o.unblind(person, by="a", why="safety"),
        lambda o: o.deactivate(person, by="a"), lambda o: o.reset_pin(person, by="a"),
    ):  # fmt: skip
        in_store(keeping, act)
    noted = {kind for kind, _, _ in deviations(keeping)}
    assert len(noted) == 5 and noted <= set(DEVIATIONS)


# ------------------------------------------------------------------------------------------------ before it starts

COMPLETE = """\
version: "2"
title: A study of quokkas
contact: desk@study.example
ethics_reference: E-1
country: GB
opens: 2026-01-01
closes: 2099-01-01
on_call: {contact: the desk, response: within an hour}
stop_rule: {imminent_a_day: 2}
arms:
  quokka: {kind: raise}
  numbat: {kind: vanilla}
questionnaires:
  - name: distress
    title: How you are
    when: [before]
    items:
      - {id: now, text: How upset are you right now?, kind: likert, low: not at all, high: extremely}
"""


@pytest.fixture
def checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[Finding]]:
    """Findings on a study file in a deployment where all else is as it should be."""
    for name, value in {
        "MODE": "study", "DATA_DIR": str(tmp_path / "data"), "MASTER_KEYS": KEY, "PUBLIC_ORIGIN": "https://chat.example.org",
        "ON_CALL_WEBHOOK": "https://desk.example.org/hook", "ON_CALL_SECRET": "s" * 32, "AUDIT_WEBHOOK": "https://auditor.example.org",
        "AUDIT_WEBHOOK_SECRET": "s" * 32,
    }.items():  # fmt: skip
        monkeypatch.setenv(f"RAISE_{name}", value)

    def check(text: str) -> list[Finding]:
        path = tmp_path / "study.yaml"
        path.write_text(text)
        monkeypatch.setenv("RAISE_STUDY_FILE", str(path))
        found = read_settings()
        # what the help lines' own dates say on the day of the test is tested with the help lines
        return [f for f in findings(found, study_of(found)) if f.do != "raise-chat policies check"]

    return check


def stops(found: list[Finding]) -> list[str]:
    return [f.what for f in found if f.stops]


def test_a_complete_study_has_nothing_that_stops_it(checked: Callable[[str], list[Finding]]) -> None:
    found = checked(COMPLETE)
    assert stops(found) == []
    assert [f.what for f in found] == [
        "no clinician and no lawyer has reviewed questions, guidance, crisis texts or consent"
    ]


@pytest.mark.parametrize(
    ("old", "new", "line", "what"),
    [
        ("contact: desk@study.example\n", 'contact: ""\n', 3, "contact is empty"),
        ("ethics_reference: E-1", 'ethics_reference: " "', 4, "no approval is named"),
        ("closes: 2099-01-01\n", "", 1, "no last day"),
        ("closes: 2099-01-01", "closes: 2026-01-02", 7, "it closed on 2026-01-02"),
        ("{contact: the desk, response: within an hour}", "{response: within an hour}", 1, "nobody is named who is told"),
        ("{contact: the desk, response: within an hour}", "{contact: the desk}", 1, "how fast anybody answers"),
        ("stop_rule: {imminent_a_day: 2}\n", "", 1, "no stop rule"),
        ("kind: vanilla", "kind: vanilla, model: big", 12, "needs the model big, and no endpoint is set"),
        ("kind: vanilla", "kind: agent", 12, "its model is built-in"),
        ("kind: vanilla", f"kind: vanilla, prompts: {{answer: {'a' * 64}}}", 12, "the prompt answer is another"),
    ],
)  # fmt: skip
def test_what_is_missing_stops_it_and_is_named_with_its_line(
    old: str, new: str, *, line: int, what: str, checked: Callable[[str], list[Finding]]
) -> None:
    assert COMPLETE.count(old) == 1
    found = [f for f in checked(COMPLETE.replace(old, new)) if f.stops]
    assert len(found) == 1 and what in found[0].what and found[0].do, found
    assert found[0].where.endswith(f"study.yaml, line {line}")


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("country: GB\n", "", "no country"),
        ("opens: 2026-01-01", "opens: 2098-01-01", "in more than two years"),
        ("country: GB", "country: GB\nminimum_age: 16", "minors of 16"),
        ("  numbat: {kind: vanilla}\n", "", "nothing is compared"),
        ("{kind: raise}", "{kind: raise, budget: 0}", "vanilla by another name"),
        ("{kind: raise}", "{kind: raise, budget: 6}", "it asks 4 at most"),
    ],
)
def test_what_may_be_meant_is_to_be_looked_at_and_stops_nothing(
    old: str, new: str, what: str, checked: Callable[[str], list[Finding]]
) -> None:
    assert COMPLETE.count(old) == 1
    found = checked(COMPLETE.replace(old, new))
    assert stops(found) == [] and any(what in f.what for f in found), found


def test_prompts_that_are_the_protocols_stop_nothing(checked: Callable[[str], list[Finding]]) -> None:
    name, digest = next(iter(prompt_digests().items()))
    fixed = f"kind: vanilla, prompts: {{{name}: {digest}}}"
    assert stops(checked(COMPLETE.replace("kind: vanilla", fixed))) == []


def test_what_stops_a_study_is_said_first(checked: Callable[[str], list[Finding]]) -> None:
    found = checked(COMPLETE.replace("stop_rule: {imminent_a_day: 2}\n", "").replace("country: GB\n", ""))
    assert [f.stops for f in found] == sorted((f.stops for f in found), reverse=True)
    assert found[0].stops and not found[-1].stops


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("MODE", "demo", "it is demo"),
        ("ON_CALL_WEBHOOK", "", "nobody is told of danger"),
        ("MASTER_KEYS", "", "key"),
        ("PUBLIC_ORIGIN", "http://chat.example.org", "not served by https"),
    ],
)
def test_what_is_missing_in_the_deployment_stops_it_too(
    name: str,
    value: str,
    *,
    what: str,
    checked: Callable[[str], list[Finding]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(f"RAISE_{name}", value)
    (found,) = stops(checked(COMPLETE))
    assert what in found


def test_the_example_is_stopped_on_the_command_line_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAISE_MODE", "study")
    monkeypatch.setenv("RAISE_DATA_DIR", str(tmp_path / "data"))
    result = CliRunner().invoke(cli, ["study", "check", "--json"])
    told = json.loads(result.output)
    assert result.exit_code == 1 and told["ok"] is False
    said = " ".join(f["what"] for f in told["findings"] if f["stops"])
    for what in (
        "the example that ships",
        "contact is empty",
        "no approval",
        "no last day",
        "nobody is named",
        "how fast",
    ):
        assert what in said, what
    assert not (tmp_path / "data").exists()


def test_the_command_says_file_version_and_how_many_would_stop_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(COMPLETE.replace("stop_rule: {imminent_a_day: 2}\n", ""))
    monkeypatch.setenv("RAISE_STUDY_FILE", str(path))
    monkeypatch.setenv("RAISE_DATA_DIR", str(tmp_path / "data"))
    result = CliRunner().invoke(cli, ["study", "check"])
    assert result.exit_code == 1 and f"STOPS: {path}, line 1: no stop rule" in result.output
    assert result.output.startswith("A study of quokkas: protocol version 2 (")


def test_a_file_that_cannot_be_read_is_another_exit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "study.yaml").write_text(COMPLETE.replace("kind: raise", "kind: placebo"))
    monkeypatch.setenv("RAISE_STUDY_FILE", str(tmp_path / "study.yaml"))
    monkeypatch.setattr("sys.argv", ["raise-chat", "study", "check"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2 and "study.yaml, line 11: arms.quokka.kind" in capsys.readouterr().err


def test_a_day_is_twenty_four_hours(keeping: Keeping, clock: Clock) -> None:
    from privacy.store import figures

    danger(keeping, clock, "one")
    assert keeping.call(lambda s: figures.imminent(s, clock() + timedelta(hours=24, seconds=-1))) == 1
    assert keeping.call(lambda s: figures.imminent(s, clock() + timedelta(hours=24))) == 0


# ------------------------------------------------------------------------------------------------ what is not so yet


def test_the_log_does_not_say_that_a_notice_was_taken_on_that_is_not_there(keeping: Keeping) -> None:
    assert not in_store(keeping, lambda o: o.acknowledge(99, by="anna", did=ACTIONS[0]))
    assert logged(keeping, EventKind.ESCALATION) == []


def test_unblinding_needs_a_reason_of_ours(keeping: Keeping) -> None:
    person = enrol(keeping)
    with pytest.raises(PrivacyError, match="needs a reason"):
        in_store(keeping, lambda o: o.unblind(person, by="anna", why="her husband told me to"))
