"""Whatever a person does, in any order: what the dialogue never does, and what it always does."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bot.abstention import Reason
from bot.dialogue import step
from bot.moves import AbstainMove, AnswerMove, Ask, Composed, Rules, Said, Say, Silence
from bot.risk.verdict import Category, RiskLevel, Verdict
from bot.session import Session
from bot.understanding import Assessment, Intent, Understood
from policies import thresholds
from policies.attributes import SPECS, Answer, Attribute, Standing
from policies.domains import Domain, Stakes

RULES = Rules(thresholds=thresholds.shipped())
START = datetime(2026, 11, 29, tzinfo=UTC)


@st.composite
def answers(draw: st.DrawFn, at: datetime) -> tuple[Attribute, Answer]:
    attribute = draw(st.sampled_from(list(Attribute)))
    standing = draw(st.sampled_from(list(Standing)))
    tags = (
        draw(st.sets(st.sampled_from(sorted(SPECS[attribute].tags)), max_size=2))
        if standing is Standing.KNOWN
        else set()
    )
    return attribute, Answer(
        standing=standing, at=at, text="x" if standing is Standing.KNOWN else "", tags=frozenset(tags)
    )


@st.composite
def assessments(draw: st.DrawFn) -> Assessment:
    stakes = draw(st.sampled_from(list(Stakes)))
    ranked = draw(st.permutations(list(Attribute)))[: draw(st.integers(0, 6))]
    weights = dict(zip(ranked, (0.3, 0.25, 0.2, 0.12, 0.08, 0.05), strict=False))
    return Assessment(
        domain=draw(st.sampled_from(list(Domain))),
        group="breakup",
        stakes=stakes,
        weights={} if stakes is Stakes.LOW else weights,
    )


@st.composite
def verdicts(draw: st.DrawFn) -> Verdict:
    level = draw(st.sampled_from([RiskLevel.NONE] * 6 + [RiskLevel.ELEVATED, RiskLevel.IMMINENT]))
    if level is RiskLevel.NONE:
        return Verdict()
    return Verdict(
        level=level,
        categories=(draw(st.sampled_from(list(Category))),),
        rules=("rule",),
        flags=frozenset({"x"}),
    )


@st.composite
def histories(draw: st.DrawFn) -> list[Said]:
    at, events = START, []
    for _ in range(draw(st.integers(1, 14))):
        at += timedelta(minutes=draw(st.sampled_from([1, 1, 1, 5, 60 * 13, 60 * 24 * 8])))
        facts = dict(draw(st.lists(answers(at), max_size=2)))
        understood = Understood(
            intent=draw(st.sampled_from(list(Intent))),
            facts=facts,
            assessment=draw(st.none() | assessments()),
            is_new_topic=draw(st.booleans()),
            is_minor=draw(st.booleans()),
            country=draw(st.sampled_from([None, None, "GB"])),
        )
        events.append(Said(at=at, text="t", verdict=draw(verdicts()), understood=understood))
    return events


def play(session: Session, event: Said) -> tuple[Session, list[object]]:
    """One event through the dialogue, answers composed at once."""
    done = step(session, event, RULES)
    moves = list(done.moves)
    current = done.session
    for _ in done.effects:
        composed = step(current, Composed(at=event.at, used=()), RULES)
        current, moves = composed.session, [*moves, *composed.moves]
    return current, moves


many = settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@many
@given(histories())
def test_a_topic_never_asks_more_than_its_budget(events: list[Said]) -> None:
    session = Session()
    for event in events:
        session, _ = play(session, event)
        if session.topic is not None:
            assert len(session.topic.asked) <= RULES.thresholds.most_questions


@many
@given(histories())
def test_never_asks_what_is_declined_nor_what_is_known_and_fresh(events: list[Said]) -> None:
    session = Session()
    for event in events:
        before = session
        session, moves = play(session, event)
        for move in moves:
            if isinstance(move, Ask):
                answer = session.profile.get(move.attribute)
                assert answer is None or session.profile.is_stale(move.attribute, at=event.at)
                earlier = before.profile.get(move.attribute)
                disputed = event.understood is not None and event.understood.intent is Intent.DISPUTE
                if earlier is not None and not disputed:
                    assert earlier.standing is not Standing.DECLINED
                    assert before.profile.is_stale(move.attribute, at=event.at)


@many
@given(histories())
def test_nothing_is_answered_or_asked_while_the_level_is_imminent(events: list[Said]) -> None:
    session = Session()
    for event in events:
        session, moves = play(session, event)
        if session.risk.level is RiskLevel.IMMINENT:
            assert not any(isinstance(m, Ask | AnswerMove) for m in moves)
            assert any(isinstance(m, AbstainMove) and m.reason is Reason.IMMINENT_RISK for m in moves)


@many
@given(histories())
def test_every_turn_says_something(events: list[Said]) -> None:
    session = Session()
    for event in events:
        session, moves = play(session, event)
        assert moves


@many
@given(histories())
def test_one_denial_never_lowers_the_level(events: list[Said]) -> None:
    session = Session()
    for event in events:
        before = session.risk
        session, _ = play(session, event)
        if before.level is RiskLevel.IMMINENT and before.safe_statements == 0:
            assert session.risk.level is RiskLevel.IMMINENT


@many
@given(histories(), st.integers(0, 13))
def test_a_session_written_and_read_back_makes_the_same_moves(events: list[Said], cut: int) -> None:
    through = resumed = Session(seed=3)
    for number, event in enumerate(events):
        if number == cut:
            resumed = Session.from_json(json.loads(json.dumps(resumed.to_json())))
        through, expected = play(through, event)
        resumed, got = play(resumed, event)
        assert got == expected
    assert resumed == through


@many
@given(histories())
def test_the_ai_notice_opens_every_conversation_once(events: list[Said]) -> None:
    session, said = Session(), []
    for event in events:
        session, moves = play(session, event)
        said += [m.key for m in moves if isinstance(m, Say)]
        assert said[0] == "ai_notice"
    assert said.count("ai_notice") == 1


def test_a_session_of_another_version_is_refused() -> None:
    import pytest

    with pytest.raises(ValueError, match="version 99"):
        Session.from_json({**Session().to_json(), "version": 99})


@many
@given(histories())
def test_silence_is_answered_only_under_danger_twice_at_most_and_never_with_a_question_or_an_answer(
    events: list[Said],
) -> None:
    session = Session()
    for event in events:
        session, _ = play(session, event)
        quiet, said = session, []
        for _ in range(4):
            done = step(quiet, Silence(at=event.at), RULES)
            quiet, said = done.session, [*said, *done.moves]
            assert not done.effects
        assert len(said) == (2 if session.risk.level is RiskLevel.IMMINENT else 0)
        assert all(isinstance(move, AbstainMove) and move.reason is Reason.IMMINENT_RISK for move in said)
        assert Session.from_json(json.loads(json.dumps(quiet.to_json()))) == quiet
