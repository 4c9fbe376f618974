"""Which attribute to ask next (paper, section 5.3: the acquisition module)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from bot.understanding import Assessment
from policies.attributes import PSYCHOLOGICAL, Attribute, Profile

FIXED_ORDER = (Attribute.EMOTION, Attribute.MENTAL_STATE, Attribute.SELF_HARM_HISTORY, Attribute.HEALTH)
"""The arm that asks everyone the same: the paper's three strongest, then health (its Figure 4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An attribute worth asking.

    Attributes:
        attribute: which.
        gain: the share of the answer's safety expected to hang on it, 0 to 1.
    """

    attribute: Attribute
    gain: float


def next_attribute(
    assessment: Assessment,
    profile: Profile,
    *,
    at: datetime,
    arm: str,
    seed: int,
    asked: Sequence[Attribute],
    allowed: frozenset[Attribute],
    is_elevated: bool,
) -> Candidate | None:
    """The best attribute that is neither known, declined, unknown, nor outside the study's list.

    Args:
        assessment: of the question; its weights are the planned paths' votes.
        profile: what is known.
        at: now.
        arm: "raise", "fixed-order" or "random-order"; others ask nothing.
        seed: of the session, for the random order.
        asked: asked already for this topic.
        allowed: the study's list.
        is_elevated: only what serves safety is asked.
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
    if arm != "raise":
        return None
    weights = dict(assessment.weights)
    if is_elevated:
        for attribute in PSYCHOLOGICAL[:2]:
            weights[attribute] = weights.get(attribute, 0.0) + 0.5
        left = [a for a in left if a in (*PSYCHOLOGICAL, Attribute.HEALTH, Attribute.AGE, Attribute.MARITAL_STATUS)]
    best = max(left, key=lambda a: weights.get(a, 0.0), default=None)
    if best is None or weights.get(best, 0.0) <= 0.0:
        return None
    return Candidate(attribute=best, gain=weights[best])
