"""One turn of RAISE, pure: (Session, Event) -> Step(session, moves, effects).

No clock, network, model or store: what the outside found (the risk verdict, the reading of the message, the
assessment of a question) comes in with the event, and what the outside must do (compose an answer) goes out as an
effect. Everything a session knows can be written as JSON and read back.

Read `step` from top to bottom: risk first, then the person's own wishes, then the interview.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from bot import abstention, acquisition, limits
from bot.abstention import Decision, Outcome, Reason
from bot.acquisition import WELL
from bot.limits import Limits
from bot.moves import (
    AFTER_OFFERS,
    AbstainMove,
    AnswerMove,
    Ask,
    Compose,
    Composed,
    Event,
    Move,
    Rules,
    Said,
    Say,
    Silence,
    Step,
)
from bot.risk import state as risk_state
from bot.risk.verdict import Category, RiskLevel, RiskState, Verdict
from bot.safety_plan import SafetyPlan
from bot.session import Arm, Pending, Session, Topic
from bot.understanding import Assessment, Intent, Understood
from policies.attributes import Answer, Attribute, Standing
from policies.domains import Domain, Stakes


def step(session: Session, event: Event, rules: Rules) -> Step:
    """One event, one step."""
    if isinstance(event, Composed):
        return _composed(session, event)
    if isinstance(event, Silence):
        return _silence(session)
    return _said(session, event, rules)


def _said(before: Session, event: Said, rules: Rules) -> Step:
    understood = event.understood or Understood()
    session = replace(
        before,
        turn=before.turn + 1,
        risk=risk_state.after(before.risk, event.verdict, says_safe=understood.intent is Intent.SAFE),
        introduced=True,
        quiet=0,
        language=event.verdict.language or before.language,
    )
    moves: list[Move] = []
    notice = _notice_due(before, event.at)
    if notice and (notice == "ai_notice" or session.risk.level is not RiskLevel.IMMINENT):
        moves.append(Say(key=notice))
    if moves or session.noticed_at is None:
        session = replace(session, noticed_at=event.at)

    if understood.country:
        session = replace(session, country=understood.country, wants_country=False)

    if session.risk.level is RiskLevel.IMMINENT:
        return _imminent(before, session, event, understood, moves)

    was_imminent = before.risk.level is RiskLevel.IMMINENT
    if was_imminent:
        topic = session.topic
        session = replace(session, pending=None, smaller=0, topic=topic and replace(topic, settled=True))
        safer = Say(key="safer_now", with_resources=True, offers=("safety_plan",))
        return Step(session=session, moves=(*moves, safer))

    planned = _safety_plan(session, event, understood, moves)
    if planned is not None:
        return planned

    wish = limits.heard(event.text)
    if wish is not None and wish.is_all and session.pending is not None:
        told = {a: v for a, v in understood.facts.items() if a is not session.pending.attribute}
        understood = replace(understood, facts=told)  # "no questions" is no answer to "have you ever …?"
    session, noted, corrected = _note(session, understood)
    if understood.is_minor and not session.is_minor:
        session = replace(session, is_minor=True)
        moves.append(Say(key="minor", with_resources=event.verdict.level is RiskLevel.NONE))

    if event.verdict.level is RiskLevel.ELEVATED:
        news = before.risk.level is RiskLevel.NONE or set(event.verdict.categories) - set(
            before.risk.categories
        )
        card = f"elevated_{_card(session.risk, event.verdict)}" if news else "elevated_again"
        own = set(event.verdict.categories or session.risk.categories) & _PLANNED_FOR
        offers = ("safety_plan",) if own and event.verdict.subject.value == "self" else ()
        moves.append(Say(key=card, with_resources=True, offers=offers))

    if understood.country and understood.intent is Intent.COUNTRY:
        moves.append(Say(key="country_noted", with_resources=True))
        return _resume(session, event, rules, moves)

    if wish is not None and not (wish.is_lifted and session.questions_left is None):
        session = _limited(session, wish, event.at)
        moves.append(Say(key=f"limit_{_limit(wish)}"))
        if understood.assessment is None:
            return _within_limits(session, event, rules, moves)

    return _interview(
        before, session, event, understood, rules, moves=moves, noted=noted, corrected=corrected
    )


def _limit(wish: Limits) -> str:
    """Which words say that a limit was heard."""
    if wish.is_lifted:
        return "lifted"
    return "never" if wish.never else "none" if wish.most == 0 else "most"


def _limited(session: Session, wish: Limits, at: datetime) -> Session:
    """The session with a person's own limits in force: what is never to be asked counts as declined."""
    profile, pending = session.profile, session.pending
    for attribute in wish.never:
        if not profile.is_known(attribute, at=at):
            profile = profile.with_answer(attribute, Answer(standing=Standing.DECLINED, at=at))
    if pending is not None and (pending.attribute in wish.never or wish.most == 0):
        pending = None
    left = None if wish.is_lifted else session.questions_left if wish.most is None else wish.most
    return replace(session, profile=profile, pending=pending, questions_left=left)


def _within_limits(session: Session, event: Said, rules: Rules, moves: list[Move]) -> Step:
    """After a limit was set, the interview goes on within it."""
    if session.topic is None or session.topic.settled:
        return Step(session=session, moves=tuple(moves))
    if session.pending is not None:
        return _resume(session, event, rules, moves)
    return _decide(session, event, rules, moves)


def _imminent(
    before: Session, session: Session, event: Said, understood: Understood, moves: list[Move]
) -> Step:
    """Danger now: nothing but safety, until the rules of `bot.risk.state` say otherwise."""
    topic = session.topic and replace(session.topic, settled=True)
    if topic is None and understood.assessment is not None:
        topic = Topic(query=event.text, assessment=understood.assessment, settled=True)
    first = before.risk.level is not RiskLevel.IMMINENT
    told = event.verdict.level is RiskLevel.IMMINENT
    few = len(event.text.split()) <= A_FEW_WORDS
    if risk_state.is_weak(event.verdict) and (few or understood.intent in _BRANCHES):
        told = False
    if understood.intent in _AFTER_A_CARD and few:
        told = False
    news = _card(session.risk, event.verdict)
    if event.verdict.rules and not risk_state.is_weak(event.verdict) and _steps(news) != _steps(before.card):
        told = True
    key = f"imminent_{news}" if first or told else _BRANCHES.get(understood.intent, "after_other")
    is_card = key.startswith("imminent_")
    smaller = 0 if is_card else before.smaller
    shows_step = key in _WITH_STEP
    card = key.removeprefix("imminent_") if is_card else before.card
    if key == "after_other":
        key = f"after_other_{_kind(card, session.risk)}"
    session = replace(
        session,
        card=card,
        is_minor=session.is_minor or understood.is_minor,
        pending=None,
        topic=topic,
        wants_country=session.country is None,
        plan=session.plan and session.plan.paused(),
        smaller=0 if is_card else smaller + shows_step,
        risk=replace(session.risk, cards=session.risk.cards + 1),
    )
    return Step(session=session, moves=(*moves, _danger(session, key, smaller=smaller)))


def _danger(session: Session, key: str, *, smaller: int) -> AbstainMove:
    """The words of danger: no answer, people first, and one tap to go on."""
    assessment = session.topic.assessment if session.topic else None
    return AbstainMove(
        reason=Reason.IMMINENT_RISK,
        key=key,
        domain=assessment.domain if assessment else Domain.LIFE,
        group=assessment.group if assessment else "",
        sufficiency=0.0,
        stakes=Stakes.HIGH,
        is_crisis=True,
        offers=AFTER_OFFERS,
        smaller=smaller,
        kind=_kind(session.card, session.risk),
    )


STEPS_FOR = {
    "medical_emergency": "medical",
    "substance": "medical",
    "eating_disorder": "medical",
    "other_person": "other",
    "child_abuse": "child",
    "domestic_violence": "violence",
    "sexual_exploitation": "violence",
    "harm_others": "harm",
}
"""Next steps after a card of danger, by the card; all others are for the person themself."""
_WITH_STEP = frozenset({"after_no_pickup", "after_cannot_talk", "after_wont_call", "after_other"})


def _steps(card: str) -> str:
    return STEPS_FOR.get(card, "self")


def _kind(card: str, risk: RiskState) -> str:
    """Whose danger the next steps are for."""
    kind = _steps(card)
    return "overdose" if kind == "self" and "attempt_now" in risk.flags else kind


_PLANNED_FOR = frozenset({Category.SUICIDE, Category.SELF_INJURY})
NOTICE_EVERY, NOTICE_MINOR_EVERY = timedelta(hours=3), timedelta(hours=1)
"""How often "an AI, not a human" is said again (New York GBL 1702; California SB 243; Washington HB 2225)."""
MOST_SILENCES = 2


def _notice_due(session: Session, at: datetime) -> str:
    """Which AI notice is due now, "" for none."""
    if session.turn == 0 and not session.introduced:
        return "ai_notice"
    if session.noticed_at is None:
        return ""
    every = NOTICE_MINOR_EVERY if session.is_minor else NOTICE_EVERY
    if at - session.noticed_at < every:
        return ""
    return "ai_notice_minor" if session.is_minor else "ai_notice_again"


def _silence(session: Session) -> Step:
    """After a card of danger, silence is answered twice, each time asking less; then the card stands."""
    if session.risk.level is not RiskLevel.IMMINENT or session.quiet >= MOST_SILENCES:
        return Step(session=session, moves=())
    key = "after_silence" if session.quiet == 0 else "after_silence_again"
    move = _danger(session, key, smaller=session.smaller)
    return Step(session=replace(session, quiet=session.quiet + 1), moves=(move,))


_ENDS_PLAN = frozenset({Intent.STOP_PLAN, Intent.GOODBYE, Intent.RUDE, Intent.JUST_ANSWER})
_WITHIN_PLAN = {
    Intent.HELP: "help",
    Intent.HUMAN: "human",
    Intent.THERAPIST: "therapist",
    Intent.CAN_YOU_CALL: "cannot_call",
    Intent.ABOUT: "about",
    Intent.WHY: "plan_why",
}


def _safety_plan(session: Session, event: Said, understood: Understood, moves: list[Move]) -> Step | None:
    """Where a safety plan is asked for or open; None where it is not about one."""
    plan, intent = session.plan, understood.intent
    risen = event.verdict.level is RiskLevel.ELEVATED
    if intent is Intent.SAFETY_PLAN:
        if risen:
            moves.append(Say(key="plan_heard", with_resources=True))
        if session.is_minor:
            moves.append(Say(key="plan_minor", with_resources=not risen))
        opened = plan.resumed() if plan else SafetyPlan()
        return Step(
            session=replace(session, plan=opened, pending=None),
            moves=(
                *moves,
                Say(key="plan_start"),
                Say(key=f"plan_{opened.step}", offers=("plan_skip", "plan_stop")),
            ),
        )
    if intent is Intent.SHOW_PLAN:
        key = "plan_shown" if plan and plan.entries else "plan_none"
        return Step(
            session=session, moves=(*moves, Say(key=key, with_resources=True, offers=("safety_plan",)))
        )
    if plan is None or not plan.is_open:
        return None
    if intent in _ENDS_PLAN:
        return _plan_ends(session, plan.paused(), moves)
    if intent is Intent.QUESTION and understood.assessment is not None and event.text.rstrip().endswith("?"):
        moves.append(Say(key="plan_paused"))
        return None
    if intent in _WITHIN_PLAN:
        moves.append(Say(key=_WITHIN_PLAN[intent], with_resources=intent is Intent.HELP))
        after = plan
    elif understood.has_nobody and plan.step in ("places", "people", "professionals"):
        moves.append(Say(key="plan_nobody"))
        after = plan.skipped()
    elif intent in (Intent.DECLINE, Intent.DONT_KNOW):
        after = plan.skipped()
    else:
        after = plan.written(event.text)
    if not after.is_open:
        return _plan_ends(session, after, moves)
    lead = (Say(key="plan_heard", with_resources=True),) if risen else ()
    step_ = Say(key=f"plan_{after.step}", offers=("plan_skip", "plan_stop"))
    return Step(session=replace(session, plan=after), moves=(*moves, *lead, step_))


def _plan_ends(session: Session, plan: SafetyPlan, moves: list[Move]) -> Step:
    key = "plan_done" if plan.entries else "plan_empty"
    return Step(session=replace(session, plan=plan), moves=(*moves, Say(key=key, with_resources=True)))


def _card(state: RiskState, verdict: Verdict) -> str:
    """Which words: by the kind of danger, and by who is in it."""
    for flag in ("intrusive", "assault"):
        if flag in verdict.flags and verdict.level is RiskLevel.ELEVATED:
            return flag
    categories = verdict.categories or (() if verdict.level is not RiskLevel.NONE else state.categories)
    if not categories:
        return "unclear"
    category = categories[0]
    if category in (Category.SUICIDE, Category.SELF_INJURY) and verdict.subject.value in (
        "child",
        "other_adult",
    ):
        return "other_person"
    return category.value


def _note(
    session: Session, understood: Understood
) -> tuple[Session, tuple[Attribute, ...], tuple[Attribute, ...]]:
    """Take what was understood into the profile; what was new, and what was changed by it."""
    profile, noted, corrected = session.profile, [], []
    for attribute, answer in understood.facts.items():
        known = profile.get(attribute)
        if known == answer:
            continue
        asked = session.pending is not None and session.pending.attribute is attribute
        if known is not None and known.standing is Standing.KNOWN and not asked:
            if understood.intent is not Intent.CORRECTION:
                continue
            corrected.append(attribute)
        elif answer.standing is Standing.KNOWN:
            noted.append(attribute)
        profile = profile.with_answer(attribute, answer)
    last = (*noted, *corrected) or session.last_noted
    return replace(session, profile=profile, last_noted=last), tuple(noted), tuple(corrected)


def _interview(
    before: Session,
    session: Session,
    event: Said,
    understood: Understood,
    rules: Rules,
    *,
    moves: list[Move],
    noted: tuple[Attribute, ...],
    corrected: tuple[Attribute, ...],
) -> Step:
    pending, topic = session.pending, session.topic
    intent = understood.intent

    if understood.revised is not None and topic is not None and not topic.settled:
        topic = replace(topic, assessment=understood.revised)
        session = replace(session, topic=topic)

    if corrected:
        moves.append(Say(key="corrected", noted=corrected))
        if topic is not None and topic.settled and understood.assessment is None:
            session = replace(session, topic=replace(topic, settled=False, wants_answer=True))
            return _decide(session, event, rules, moves)

    if intent is Intent.DISPUTE and before.last_noted:
        attribute = before.last_noted[-1]
        session = replace(session, profile=session.profile.without(attribute), pending=None)
        if topic is not None and not topic.settled:
            moves.append(Say(key="disputed"))
            return _ask(session, attribute, event, rules, moves)
        return Step(session=session, moves=(*moves, Say(key="disputed_say_again")))

    if session.risk.level is RiskLevel.ELEVATED and intent in _AFTER_A_CARD:
        moves.append(Say(key=_AFTER_A_CARD[intent], with_resources=True))
        return _resume(session, event, rules, moves)

    small = _SMALL_TALK.get(intent)
    if small is not None:
        moves.append(Say(key=small, noted=tuple(session.profile) if intent is Intent.MY_PROFILE else ()))
        if intent in (Intent.HELP, Intent.NOT_SAFE):
            moves[-1] = Say(key=small, with_resources=True)
            session = replace(session, wants_country=session.country is None)
        if intent in (Intent.GOODBYE, Intent.RUDE):
            return Step(session=session, moves=tuple(moves))
        return _resume(session, event, rules, moves)

    if intent is Intent.WHY and pending is None:
        return Step(session=session, moves=(*moves, Say(key="about")))
    if (
        intent is Intent.NOT_ENGLISH
        and event.verdict.level is RiskLevel.ELEVATED
        and event.verdict.language != "en"
    ):
        return _resume(session, event, rules, moves)
    if intent is Intent.NOT_ENGLISH:
        moves.append(Say(key="english_only", with_resources=True))
        return _resume(session, event, rules, moves)
    if intent is Intent.DECLINE and pending is None:
        return Step(session=session, moves=(*moves, Say(key="fine_then")))

    if pending is not None and topic is not None:
        attribute = pending.attribute
        if intent is Intent.WHY:
            moves.append(Say(key="why", noted=(attribute,)))
            return _resume(session, event, rules, moves)
        if intent is Intent.JUST_ANSWER:
            session = replace(session, pending=None, topic=replace(topic, wants_answer=True))
            return _decide(session, event, rules, moves)
        closed = session.profile.get(attribute)
        if closed is not None and attribute in understood.facts:
            if closed.standing is Standing.DECLINED:
                moves.append(Say(key="declined", noted=(attribute,)))
            elif closed.standing is Standing.UNKNOWN:
                moves.append(Say(key="unknown", noted=(attribute,)))
            elif not any(isinstance(m, Say) and m.key.startswith("elevated") for m in moves):
                moves.append(Say(key=_echo_key(session, attribute), noted=noted))
            session = replace(session, pending=None)
            return _decide(session, event, rules, moves)
        if intent is Intent.QUESTION and understood.assessment is not None and understood.is_new_topic:
            session = replace(session, pending=None)
            return _new_topic(session, event, understood.assessment, rules, moves)
        if noted:
            moves.append(Say(key="noted", noted=noted))
            return _ask_again(session, pending, event, rules, moves)
        if pending.tries == 1:
            return _ask_again(session, pending, event, rules, moves)
        answer = Answer(standing=Standing.UNKNOWN, at=event.at)
        session = replace(session, pending=None, profile=session.profile.with_answer(attribute, answer))
        moves.append(Say(key="dropped"))
        return _decide(session, event, rules, moves)

    if topic is not None and topic.handed_over and not understood.changes_subject:
        level = abstention.sufficiency(topic.assessment, session.profile, at=event.at)
        still = Decision(
            outcome=Outcome.ABSTAIN, reason=Reason.ELEVATED_RISK, basis="hand_over", sufficiency=level
        )
        return _abstain(session, still, moves)

    if (
        topic is not None
        and topic.settled
        and understood.assessment is not None
        and not understood.is_new_topic
    ):
        again = replace(topic, settled=False, asked=(), wants_answer=True)
        return _decide(replace(session, topic=again), event, rules, moves, follow_up=event.text)

    if topic is not None and topic.settled and understood.assessment is None:
        if noted or corrected:
            moves.append(Say(key="noted", noted=(*noted, *corrected)))
            again = replace(topic, settled=False, asked=(), wants_answer=True)
            return _decide(replace(session, topic=again), event, rules, moves)
        return Step(session=session, moves=(*moves, Say(key="anything_else")))

    if understood.assessment is not None:
        return _new_topic(session, event, understood.assessment, rules, moves)
    if intent is Intent.JUST_ANSWER and topic is not None and not topic.settled:
        return _decide(replace(session, topic=replace(topic, wants_answer=True)), event, rules, moves)
    return Step(session=session, moves=(*moves, Say(key="say_more")))


A_FEW_WORDS = 8
"""So short a reply to a card tells no new danger: "right now" in it is no time for a plan."""
_AFTER_A_CARD = {
    Intent.NO_PICKUP: "after_no_pickup",
    Intent.CANNOT_TALK: "after_cannot_talk",
    Intent.WONT_CALL: "after_wont_call",
}

_BRANCHES = {
    **_AFTER_A_CARD,
    Intent.SAFE: "after_safe",
    Intent.NOT_SAFE: "after_not_safe",
    Intent.JOKE: "after_joke",
    Intent.COUNTRY: "after_country",
    Intent.HUMAN: "after_human",
    Intent.THERAPIST: "after_human",
    Intent.CAN_YOU_CALL: "after_human",
}
"""What may be said after a card of danger, and the words that answer it."""

_SMALL_TALK = {
    Intent.GREETING: "greeting",
    Intent.THANKS: "thanks",
    Intent.GOODBYE: "goodbye",
    Intent.HUMAN: "human",
    Intent.THERAPIST: "therapist",
    Intent.ABOUT: "about",
    Intent.HELP: "help",
    Intent.NOT_SAFE: "not_safe",
    Intent.SMALL_TALK: "small_talk",
    Intent.MY_PROFILE: "my_profile",
    Intent.CAN_YOU_CALL: "cannot_call",
    Intent.JOKE: "after_joke_calm",
    Intent.SAFE: "glad_safe",
    Intent.RUDE: "rude",
}


def _echo_key(session: Session, attribute: Attribute) -> str:
    """The first echo says that it can be corrected; the later ones are lighter."""
    answered = len(session.profile.with_standing(Standing.KNOWN))
    steady = session.profile.tags(attribute) <= WELL.get(attribute, frozenset())
    if attribute in (Attribute.SELF_HARM_HISTORY, Attribute.MENTAL_STATE) and not steady:
        return "echo_trust"
    return "echo_first" if answered <= 1 else "echo"


def _new_topic(
    session: Session, event: Said, assessment: Assessment, rules: Rules, moves: list[Move]
) -> Step:
    if event.verdict.level is RiskLevel.ELEVATED and assessment.stakes is Stakes.LOW:
        return Step(session=session, moves=(*moves, Say(key="say_more")))
    earlier = session.asked_before + (session.topic.asked if session.topic else ())
    fresh = session.profile
    for attribute in tuple(fresh):
        if fresh.is_stale(attribute, at=event.at):
            fresh = fresh.without(attribute)
    session = replace(
        session,
        profile=fresh,
        topic=Topic(query=event.text, assessment=assessment),
        pending=None,
        asked_before=tuple(dict.fromkeys(earlier)),
    )
    return _decide(session, event, rules, moves)


def _decide(session: Session, event: Said, rules: Rules, moves: list[Move], *, follow_up: str = "") -> Step:
    topic = session.topic
    if topic is None:
        return Step(session=session, moves=(*moves, Say(key="say_more")))
    chosen = acquisition.next_attribute(
        topic.assessment,
        session.profile,
        at=event.at,
        arm=session.arm.value,
        seed=session.seed,
        asked=topic.asked,
        allowed=rules.attributes,
        risk=session.risk,
        prices=rules.prices,
    )
    decision = abstention.decide(
        topic.assessment,
        session.profile,
        at=event.at,
        thresholds=rules.thresholds,
        asked=len(set(topic.asked)),
        asks=len(topic.asked),
        candidate=chosen,
        wants_answer=topic.wants_answer,
        asks_at_all=session.arm not in (Arm.VANILLA, Arm.CONTEXT_RICH),
        risk=session.risk,
        is_minor=session.is_minor,
        questions_left=session.questions_left,
        may_withhold=session.arm is not Arm.NO_ABSTENTION,
    )
    if decision.outcome is Outcome.ASK and chosen is not None:
        return _ask(session, chosen.attribute, event, rules, moves, sufficiency=decision.sufficiency)
    if decision.outcome is Outcome.ABSTAIN:
        return _abstain(session, decision, moves)
    return Step(
        session=replace(session, pending=None),
        moves=tuple(moves),
        effects=(Compose(topic=topic, decision=decision, follow_up=follow_up),),
    )


def _ask(
    session: Session,
    attribute: Attribute,
    event: Said,
    rules: Rules,
    moves: list[Move],
    *,
    sufficiency: float | None = None,
    tries: int = 1,
) -> Step:
    topic = session.topic
    closed = session.profile.is_closed(attribute, at=event.at)
    spent = session.questions_left is not None and session.questions_left <= 0
    if topic is None or closed or spent or len(topic.asked) >= rules.thresholds.most_questions:
        return _decide(replace(session, pending=None), event, rules, moves)
    if sufficiency is None:
        sufficiency = abstention.sufficiency(topic.assessment, session.profile, at=event.at)
    variant = session.seed + topic.asked.count(attribute) + session.asked_before.count(attribute)
    ask = Ask(attribute=attribute, variant=variant, domain=topic.assessment.domain, sufficiency=sufficiency)
    session = replace(
        session,
        topic=replace(topic, asked=(*topic.asked, attribute)),
        pending=Pending(attribute=attribute, tries=tries),
        questions_left=None if session.questions_left is None else session.questions_left - 1,
    )
    return Step(session=session, moves=(*moves, ask))


def _ask_again(session: Session, pending: Pending, event: Said, rules: Rules, moves: list[Move]) -> Step:
    """In other words, while the budget allows; otherwise the question is let go."""
    topic = session.topic
    if topic is not None and len(topic.asked) < rules.thresholds.most_questions:
        return _ask(session, pending.attribute, event, rules, moves, tries=pending.tries + 1)
    answer = Answer(standing=Standing.UNKNOWN, at=event.at)
    session = replace(session, pending=None, profile=session.profile.with_answer(pending.attribute, answer))
    return _decide(session, event, rules, moves)


def _resume(session: Session, event: Said, rules: Rules, moves: list[Move]) -> Step:
    """After a digression: the open question is put again, in other words, while the budget allows."""
    pending, topic = session.pending, session.topic
    if pending is None or topic is None:
        return Step(session=session, moves=tuple(moves))
    closed = session.profile.is_closed(pending.attribute, at=event.at)
    if closed or len(topic.asked) < rules.thresholds.most_questions:
        return _ask(session, pending.attribute, event, rules, moves, tries=pending.tries)
    return Step(session=session, moves=(*moves, Say(key="still_open")))


def _abstain(session: Session, decision: Decision, moves: list[Move]) -> Step:
    topic = session.topic
    if topic is None:
        raise ValueError("nothing to abstain from: no topic is open")
    assessment = topic.assessment
    reason = decision.reason or Reason.INSUFFICIENT_CONTEXT
    is_crisis = reason in (Reason.ELEVATED_RISK, Reason.IMMINENT_RISK)
    move = AbstainMove(
        reason=reason,
        key=f"abstain_{reason.value}",
        domain=assessment.domain,
        group=assessment.group,
        sufficiency=decision.sufficiency,
        stakes=assessment.stakes,
        is_crisis=is_crisis,
        lines_shown=any(isinstance(m, Say) and m.with_resources for m in moves),
    )
    handed_over = topic.handed_over or decision.basis == "hand_over"
    settled = replace(session, pending=None, topic=replace(topic, settled=True, handed_over=handed_over))
    if is_crisis:
        settled = replace(settled, wants_country=session.country is None)
    return Step(session=settled, moves=(*moves, move))


def _composed(session: Session, event: Composed) -> Step:
    topic = session.topic
    if topic is None or session.risk.level is RiskLevel.IMMINENT:
        return Step(session=session, moves=())
    level = abstention.sufficiency(topic.assessment, session.profile, at=event.at)
    if event.failed is not None:
        decision = Decision(
            outcome=Outcome.ABSTAIN, reason=event.failed, basis=event.failed.value, sufficiency=level
        )
        return _abstain(session, decision, [])
    decision = Decision(outcome=Outcome.ANSWER, reason=None, basis="composed", sufficiency=level)
    move = AnswerMove(
        domain=topic.assessment.domain,
        stakes=topic.assessment.stakes,
        sufficiency=level,
        decision=decision,
        used=event.used,
    )
    told = replace(topic, settled=True, shown=(*topic.shown, *event.shown))
    kept = told if event.shown or topic.shown else None
    return Step(session=replace(session, topic=kept, pending=None), moves=(move,))
