"""Which attribute to ask next (paper, section 5.3: the acquisition module)."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from bot.risk.verdict import Category, RiskLevel, RiskState, Subject
from bot.understanding import Assessment
from policies.attributes import PSYCHOLOGICAL, Attribute, Profile, band_of
from policies.domains import Stakes
from policies.planning.policy import Known, Policy

FIXED_ORDER = (Attribute.EMOTION, Attribute.MENTAL_STATE, Attribute.SELF_HARM_HISTORY, Attribute.HEALTH)
"""The arm that asks everyone the same: the paper's three strongest, then health (its Figure 4)."""


SERVES_SAFETY: Mapping[Category, tuple[Attribute, ...]] = {
    Category.SUICIDE: (Attribute.SELF_HARM_HISTORY, Attribute.EMOTION, Attribute.MENTAL_STATE),
    Category.SELF_INJURY: (Attribute.SELF_HARM_HISTORY, Attribute.MENTAL_STATE, Attribute.AGE),
    Category.HARM_TO_OTHERS: (Attribute.EMOTION, Attribute.MENTAL_STATE, Attribute.MARITAL_STATUS),
    Category.DOMESTIC_VIOLENCE: (Attribute.HEALTH, Attribute.AGE, Attribute.MARITAL_STATUS),
    Category.CHILD_ABUSE: (Attribute.AGE, Attribute.MARITAL_STATUS, Attribute.EMOTION),
    Category.SEXUAL_EXPLOITATION: (Attribute.AGE, Attribute.SELF_HARM_HISTORY, Attribute.EMOTION),
    Category.MEDICAL_EMERGENCY: (Attribute.HEALTH, Attribute.AGE),
    Category.EATING_DISORDER: (Attribute.HEALTH, Attribute.SELF_HARM_HISTORY, Attribute.MENTAL_STATE),
    Category.PSYCHOSIS: (Attribute.MENTAL_STATE, Attribute.HEALTH, Attribute.SELF_HARM_HISTORY),
    Category.SUBSTANCE: (Attribute.HEALTH, Attribute.MENTAL_STATE, Attribute.SELF_HARM_HISTORY),
}
"""What is worth knowing for safety, by the kind of danger, most telling first."""


WELL: Mapping[Attribute, frozenset[str]] = {
    Attribute.SELF_HARM_HISTORY: frozenset({"none"}),
    Attribute.MENTAL_STATE: frozenset({"well", "in_treatment", "stressed"}),
    Attribute.EMOTION: frozenset({"calm", "happy", "hopeful", "excited"}),
}
STILL_WORTH = {1: 0.6, 2: 0.35, 3: 0.0}
"""What the other psychological attributes are still worth once one, two or three of them are well, where no policy's gates
say it: they go together, so a steady mind makes a hidden history less likely."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An attribute worth asking.

    Attributes:
        attribute: which.
        gain: the share of the answer's safety expected to hang on it, 0 to 1.
        points: what the answer is expected to gain in safety, 1 to 5, given what is known; None where nothing was planned.
        sd: standard deviation of that.
        price: safety points that it must be worth, λ times its price.
    """

    attribute: Attribute
    gain: float
    points: float | None = None
    sd: float = 0.0
    price: float = 0.0


HEAVY_SHARE = 0.5
"""What the hardest question is worth where stakes are moderate and nothing said so far calls for it."""


def is_troubled(profile: Profile) -> bool:
    """Whether what is known of mood or feeling calls for the hardest question."""
    mood = profile.tags(Attribute.MENTAL_STATE) - WELL[Attribute.MENTAL_STATE] - {"anxious"}
    feeling = profile.tags(Attribute.EMOTION) & {
        "hopeless",
        "desperate",
        "trapped",
        "burden",
        "numb",
        "humiliated",
        "ashamed",
    }
    return bool(mood or feeling)


def next_attribute(
    assessment: Assessment,
    profile: Profile,
    *,
    at: datetime,
    arm: str,
    seed: int,
    asked: Sequence[Attribute],
    allowed: frozenset[Attribute],
    risk: RiskState,
    prices: Mapping[Attribute, float] | None = None,
) -> Candidate | None:
    """The best attribute that is neither known, declined, unknown, nor outside the study's list.

    Args:
        assessment: of the question; its weights are the planned paths' votes.
        profile: what is known.
        at: now.
        arm: "raise" and "no-abstention" (as planned), "agent" (the weights are the model's choice alone), "fixed-order" or
            "random-order"; others ask nothing.
        seed: of the session, for the random order.
        asked: asked already for this topic.
        allowed: the study's list.
        risk: when elevated, only what serves safety is asked, by the kind of danger; somebody who worries about
            another person is not asked for a history as if it were their own.
        prices: safety points that asking each attribute costs; free where None, and wherever danger is heard.
    """
    left = [a for a in Attribute if a in allowed and not profile.is_closed(a, at=at) and a not in asked]
    if not left:
        return None
    if arm == "fixed-order":
        return next((Candidate(attribute=a, gain=1.0) for a in FIXED_ORDER if a in left), None)
    if arm == "random-order":
        order = list(Attribute)
        random.Random(seed).shuffle(order)
        return next(Candidate(attribute=a, gain=1.0) for a in order if a in left)
    if arm not in ("raise", "agent", "no-abstention"):
        return None
    policy, known = None if arm == "agent" else assessment.policy, bands_known(profile, at=at)
    weights = dict(assessment.weights)
    if policy is not None and risk.level is RiskLevel.NONE:
        weights = {a: w * policy.factor(a, known) for a, w in weights.items()}
    if risk.level is RiskLevel.ELEVATED and risk.subject in (Subject.CHILD, Subject.OTHER_ADULT):
        left = [a for a in left if a not in (Attribute.SELF_HARM_HISTORY, Attribute.MENTAL_STATE)]
    elif risk.level is RiskLevel.ELEVATED:
        serving = [a for c in risk.categories for a in SERVES_SAFETY[c]] or list(PSYCHOLOGICAL)
        for place, attribute in enumerate(dict.fromkeys(serving)):
            weights[attribute] = weights.get(attribute, 0.0) + 0.6 / (1 + place)
        left = [
            a for a in left if a in serving or a in PSYCHOLOGICAL or a in (Attribute.HEALTH, Attribute.AGE)
        ]
    if assessment.stakes is Stakes.MODERATE and risk.level is RiskLevel.NONE and not is_troubled(profile):
        heavy = Attribute.SELF_HARM_HISTORY
        weights[heavy] = weights.get(heavy, 0.0) * HEAVY_SHARE
    well = sum(bool(profile.tags(a)) and profile.tags(a) <= WELL[a] for a in PSYCHOLOGICAL)
    if well and risk.level is RiskLevel.NONE and policy is None:
        for attribute in PSYCHOLOGICAL:
            weights[attribute] = weights.get(attribute, 0.0) * STILL_WORTH[well]
    cost = (prices or {}) if risk.level is RiskLevel.NONE else {}  # safe first, private second
    found = [
        _candidate(a, weights[a], assessment.weights.get(a, 0.0), policy, known, cost.get(a, 0.0))
        for a in left
        if weights.get(a, 0.0) > 0.0
    ]
    return max(found, key=lambda c: c.gain if c.points is None else c.points - c.price, default=None)


def bands_known(profile: Profile, *, at: datetime) -> Known:
    """What is known now, by attribute: the band of the answer, None where it is in none."""
    return {a: band_of(a, profile.tags(a)) for a in Attribute if profile.is_known(a, at=at)}


def _candidate(  # noqa: PLR0917
    attribute: Attribute, weight: float, planned: float, policy: Policy | None, known: Known, price: float
) -> Candidate:
    """What asking is expected to add: the policy's gain, scaled by what has changed its weight since it was planned."""
    if policy is None:
        return Candidate(attribute=attribute, gain=weight, price=price)
    total = sum(mean for mean, _ in policy.worth.values())
    worth = {**policy.worth, attribute: (total * weight, policy.worth.get(attribute, (0.0, 0.0))[1])}
    gain = replace(policy, worth=worth, gates={}).gain(attribute, known)
    sd = gain.sd * weight / planned if planned else gain.sd
    return Candidate(attribute=attribute, gain=weight, points=gain.mean, sd=sd, price=price)
