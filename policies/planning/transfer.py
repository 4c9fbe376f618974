"""Learning across the queries of a domain: what was found for some is where the search for the others begins.

One step of expectation-maximisation on the hierarchical model: a query's facts are drawn around its domain's mean, and that
mean and spread are re-estimated from the posteriors so far, weighed against the paper's figures.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from policies.attributes import Attribute
from policies.planning.evidence import Evidence
from policies.planning.utility import PAPER, Beliefs

WEIGHS = 6.0
"""How many queries the beliefs held before weigh."""
LEAST_SD = 0.08
"""However alike the queries seen so far, the next one may differ by this much."""


def learned(made: Sequence[Evidence], *, before: Beliefs = PAPER, name: str) -> Beliefs:
    """Beliefs after these queries, which were all planned from `before`.

    Args:
        made: plans with their posteriors; those over other attributes than all ten add what they have.
        before: what was believed.
        name: for the record, such as "career after 40 queries".
    """
    if not made:
        return before
    alone, spread = dict(before.alone), dict(before.alone_sd)
    for attribute in Attribute:
        own, variance = [], []
        for one in made:
            if attribute in one.own:
                own.append(one.own[attribute][0])
                variance.append(one.own[attribute][1])
        if not own:
            continue
        n = len(own)
        shift = sum(own) / (n + WEIGHS)
        square = sum((e - shift) ** 2 + v for e, v in zip(own, variance, strict=True))
        square += WEIGHS * (before.alone_sd[attribute] ** 2 + shift**2)
        alone[attribute] = before.alone[attribute] + shift
        spread[attribute] = max(LEAST_SD, float(np.sqrt(square / (n + WEIGHS))))
    n = len(made)
    base = sum(one.base[0] for one in made) / n
    base = (n * base + WEIGHS * before.base[0]) / (n + WEIGHS)
    square = sum((one.base[0] - base) ** 2 + one.base[1] for one in made)
    base_sd = float(np.sqrt((square + WEIGHS * before.base[1] ** 2) / (n + WEIGHS)))
    trust = (sum(one.trust[0] for one in made) + WEIGHS * before.trust[0]) / (n + WEIGHS)
    square = sum((one.trust[0] - trust) ** 2 + one.trust[1] ** 2 for one in made)
    trust_sd = float(np.sqrt((square + WEIGHS * before.trust[1] ** 2) / (n + WEIGHS)))
    noise = (sum(one.noise for one in made) + WEIGHS * before.noise[0]) / (n + WEIGHS)
    return Beliefs(
        name=name,
        base=(base, max(0.1, base_sd)),
        alone=alone,
        alone_sd=spread,
        trust=(trust, max(0.03, trust_sd)),
        pair_sd=before.pair_sd,
        rest_sd=before.rest_sd,
        headroom=before.headroom,
        noise=(noise, 20.0),
    )
