"""Ask, answer or abstain, and why.

The paper's abstention module asks a model for a completeness of 0 to 5 and leaves its threshold open (section 5.3);
here sufficiency is computed from the planned paths, and every threshold is a line of `policies/abstention.yaml`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from bot.acquisition import Candidate, is_troubled
from bot.risk.verdict import RiskLevel, RiskState
from bot.understanding import Assessment
from policies.attributes import Attribute, Profile, Standing
from policies.domains import Stakes
from policies.thresholds import Thresholds


class Outcome(StrEnum):
    """The three things a decision can be."""

    ASK = "ask"
    ANSWER = "answer"
    ABSTAIN = "abstain"


class Reason(StrEnum):
    """Why a question was asked or an answer withheld, for machines."""

    INSUFFICIENT_CONTEXT = "insufficient_context"
    DECLINED = "declined"
    ELEVATED_RISK = "elevated_risk"
    IMMINENT_RISK = "imminent_risk"
    MODEL_UNAVAILABLE = "model_unavailable"
    GUARD = "guard"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One decision.

    Attributes:
        outcome: ask, answer or abstain.
        reason: machine-readable; None for an answer that needs none.
        basis: which rule decided, for the record: "enough", "low_stakes", "budget", "asked_to_answer", ...
        sufficiency: 0 to 5 when it was taken.
    """

    outcome: Outcome
    reason: Reason | None
    basis: str
    sufficiency: float


def sufficiency(assessment: Assessment, profile: Profile, *, at: datetime) -> float:
    """0 to 5: the share of the answer's safety that hangs on facts known now, times five."""
    if assessment.stakes is Stakes.LOW or not assessment.weights:
        return 5.0
    total = sum(assessment.weights.values())
    known = sum(w for a, w in assessment.weights.items() if profile.is_known(a, at=at))
    return round(5.0 * known / total, 2) if total else 5.0


_PASSIVE_DEATH_WISH = frozenset({"death_wish", "join_the_dead", "waiting_to_die"})
_LETTING_GO = frozenset(
    {"stopped_medicine", "not_eating", "hopeless", "giving_away", "sudden_calm", "insurance"}
)


MINORS_IN_THESE = frozenset(
    {"teacher_boundary", "sextortion_and_image_abuse", "family_escape", "partner_violence"}
)
"""Scenario groups in which a minor is handed to people at once: adults hold the danger, and advice alone leaves a
child with it (NICE NG76)."""

FRIGHTENED_MINORS_IN_THESE = frozenset(
    {"leaving_home", "housing_insecurity", "in_laws_and_control", "disownment", "online_romance", "sexual_pressure",
     "community_and_family_honour", "underage_or_informal_work"}
)  # fmt: skip
"""Groups in which a minor who is also frightened is handed to people."""


def must_hand_over(risk: RiskState, assessment: Assessment, profile: Profile, *, is_minor: bool) -> bool:
    """Whether only people should answer this, once the interview has shown it.

    A child who is being hurt, a minor in an abusive or exploiting tie, new psychosis, or a wish to die beside signs
    of letting go.
    """
    if is_minor:
        frightened = profile.tags(Attribute.EMOTION) & {"scared", "trapped", "desperate"} or profile.tags(
            Attribute.MENTAL_STATE
        ) & {"anxious", "panic"}
        if assessment.group in MINORS_IN_THESE or (
            assessment.group in FRIGHTENED_MINORS_IN_THESE and frightened
        ):
            return True
    if risk.level is not RiskLevel.ELEVATED:
        return risk.level is RiskLevel.IMMINENT
    if "child_hurt" in risk.flags:
        return True
    if {"psychosis", "psychosis_acute"} <= risk.flags:
        return True
    if is_minor and risk.flags & {"child_abuse", "child_now", "dv", "dv_now", "sextortion"}:
        return True
    return bool(risk.flags & _PASSIVE_DEATH_WISH and risk.flags & _LETTING_GO)


def is_worth_asking(candidate: Candidate, stakes: Stakes, thresholds: Thresholds) -> bool:
    """Whether a question's expected gain, less its price, is over the threshold.

    In safety points where a policy was planned, with some of their uncertainty counted for asking: what may matter is worth
    a question where a wrong answer can hurt. By its share of the answer's safety where nothing was planned.
    """
    if candidate.points is None:
        return candidate.gain >= thresholds.least_gain[stakes]
    hoped = candidate.points + thresholds.doubt[stakes] * candidate.sd
    return hoped - candidate.price >= thresholds.least_points[stakes]


def decide(
    assessment: Assessment,
    profile: Profile,
    *,
    at: datetime,
    thresholds: Thresholds,
    asked: int,
    asks: int,
    candidate: Candidate | None,
    wants_answer: bool,
    asks_at_all: bool,
    risk: RiskState,
    is_minor: bool,
    questions_left: int | None = None,
    may_withhold: bool = True,
) -> Decision:
    """Ask while a further answer is expected to make the reply safer; answer when enough; abstain otherwise.

    Where an outside model has judged whether enough is known, the mean of its judgement and ours decides on asking;
    withholding an answer for want of knowledge hangs on ours alone.

    Args:
        assessment: of the question.
        profile: what is known.
        at: now.
        thresholds: of the policy.
        asked: attributes asked for this topic.
        asks: questions put for it, repeats in other words included.
        candidate: the best further question, if any.
        wants_answer: the person said "just answer", or follows up.
        asks_at_all: whether the arm asks.
        risk: what sticks.
        is_minor: an age under the minimum was said.
        questions_left: what the person still lets themselves be asked; None where they set no limit.
        may_withhold: an answer may be withheld for want of knowledge; the benchmark's arm without that answers all the same.
            Handing over to people for danger hangs on nothing.
    """
    level = sufficiency(assessment, profile, at=at)
    heard = level if assessment.sufficiency is None else (level + assessment.sufficiency) / 2
    raised = risk.level is RiskLevel.ELEVATED and assessment.stakes is not Stakes.LOW
    one_more = 1 if is_troubled(profile) and assessment.stakes is Stakes.MODERATE else 0
    stakes = Stakes.HIGH if raised else assessment.stakes

    def made(outcome: Outcome, reason: Reason | None, basis: str) -> Decision:
        return Decision(outcome=outcome, reason=reason, basis=basis, sufficiency=level)

    if stakes is not Stakes.LOW and must_hand_over(risk, assessment, profile, is_minor=is_minor):
        return made(Outcome.ABSTAIN, Reason.ELEVATED_RISK, "hand_over")
    if not asks_at_all:
        return made(Outcome.ANSWER, None, "arm_never_asks")
    if stakes is Stakes.LOW:
        return made(Outcome.ANSWER, None, "low_stakes")
    if not wants_answer:
        may_ask = (
            asked < thresholds.budget[stakes] + one_more
            and asks < thresholds.most_questions
            and candidate is not None
            and is_worth_asking(candidate, stakes, thresholds)
            and (questions_left is None or questions_left > 0)
        )
        if may_ask and heard < thresholds.enough[stakes]:
            return made(Outcome.ASK, Reason.INSUFFICIENT_CONTEXT, "gain_expected")
    if may_withhold and stakes is Stakes.HIGH and level < thresholds.floor[stakes]:
        if profile.with_standing(Standing.DECLINED) or questions_left == 0:
            return made(Outcome.ABSTAIN, Reason.DECLINED, "too_little_may_be_asked")
        return made(Outcome.ABSTAIN, Reason.INSUFFICIENT_CONTEXT, "too_little_known")
    if wants_answer:
        return made(Outcome.ANSWER, None, "asked_to_answer")
    basis = "enough" if heard >= thresholds.enough[stakes] else "budget" if asked else "nothing_worth_asking"
    return made(Outcome.ANSWER, None, basis)
