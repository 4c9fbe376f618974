"""How suicide, illness and violence may be spoken of in any text we ship.

Sources: WHO, Preventing suicide: a resource for media professionals, update 2023; Recommendations for Reporting on
Suicide (reportingonsuicide.org); review of 24 media guidelines, Journal of Affective Disorders 2019; APA Style,
bias-free language. A text may carry the words a person is likely to use; these rules are for our own voice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WordingRule:
    """One rule of wording.

    Attributes:
        name: what a finding is called.
        pattern: what must not be in a text.
        why: what to write instead.
    """

    name: str
    pattern: re.Pattern[str]
    why: str


@dataclass(frozen=True, slots=True)
class WordingFinding:
    """A rule that a text breaks; the words themselves are in the text at `at`."""

    rule: str
    why: str
    at: int


def _rule(name: str, pattern: str, why: str) -> WordingRule:
    return WordingRule(name, re.compile(pattern, re.IGNORECASE), why)


RULES = (
    _rule("committed", r"\bcommit(?:s|ted|ting)?\s+suicide\b", "suicide is no crime: write 'died by suicide'"),
    _rule(
        "success_or_failure",
        r"\b(?:successful|unsuccessful|failed|completed)\s+(?:suicide|attempt(?:ed suicide)?s?\b(?! to (?!die|end)))|\bsuicid\w+[^.]{0,20}\b(?:succeeded|failed)\b",
        "no success, no failure: write 'died by suicide' or 'tried to end their life'",
    ),
    _rule(
        "single_cause",
        r"\b(?:died by suicide|killed (?:him|her|them)sel(?:f|ves)|took (?:his|her|their) own li(?:fe|ves)|suicide)\s+(?:because of|because (?:he|she|they|it|of)|due to|over (?:a|an|the|his|her)|was caused by)\b",
        "no single cause: suicide has several",
    ),
    _rule(
        "romance",
        r"\b(?:suicide|ending (?:it|your life)|death|dying)\b[^.]{0,40}\b(?:peaceful|beautiful|freedom|release|escape|solution|way out|at peace|better place)\b"
        r"|\b(?:way out|release|escape) (?:is|through|by) (?:death|suicide)\b",
        "death is no solution, peace or escape in our words",
    ),
    _rule(
        "sensation",
        r"\bsuicide (?:epidemic|wave|craze|hot ?spot|capital)\b|\bskyrocket\w*\b[^.]{0,30}\bsuicid",
        "no sensation, no places",
    ),
    _rule("victim", r"\bsuicide victims?\b|\ba suicide\b(?!\s+(?:line|prevention|attempt|note|risk|hotline|plan|helpline|crisis|loss))", "a person who died by suicide"),
    _rule(
        "belittling",
        r"\b(?:just|only)\s+(?:a cry for (?:help|attention)|attention[- ]seeking|a phase)\b|\battention[- ]seek\w+\b|\bsuicide threat\b|\bthreaten(?:s|ed|ing)? suicide\b",
        "a disclosure is never attention-seeking or a threat",
    ),
    _rule(
        "blame",
        r"\b(?:you should(?: have|'ve) (?:known|left|told|said no)|you brought this|you asked for (?:it|this))\b"
        r"|(?<!not )(?<!n't )(?<!never )(?<!nor )(?<!isnt )(?<!as if )(?<!that it's )(?<!none of it is )(?<!n't )\byour (?:own )?fault\b(?! (?:or|if|either))",
        "no blame",
    ),
    _rule(
        "slur",
        r"\b(?:junkies?|crackhead|psycho|lunatic|nutter|madman|the mentally ill|wheelchair[- ]bound|retard\w*|illegals)\b",
        "a person first, never a label",
    ),
    _rule(
        "false_promise",
        r"\b(?:everything will be (?:fine|ok(?:ay)?|all right)|you will be fine|you'll be fine|i promise|it will all work out|this will pass soon)\b",
        "promise nothing that nobody can keep",
    ),
    _rule(
        "false_self",
        r"\bas (?:your|a) (?:therapist|doctor|psychologist|counsellor|counselor|nurse|friend),? i\b|\bi(?:'m| am) (?:a (?:real )?(?:human|person|therapist|doctor|nurse|counsell?or))\b|\bi (?:have|'ve) (?:called|alerted|informed) (?:the |an )?(?:police|ambulance|someone)\b|\bi feel your pain\b",
        "a program, not a person; it calls nobody",
    ),
    _rule(
        "method",
        r"\b(?:overdos(?:e|ed|ing) (?:on|with|by)|hang(?:ing)? (?:yourself|himself|herself|themself)|jump(?:ed|ing)? (?:off|from) (?:a |the )?(?:bridge|building|roof|cliff)|slit(?:ting)? (?:your|his|her) wrists?|carbon monoxide poisoning (?:by|from) )\b",
        "no method, in no frame",
    ),
)  # fmt: skip


def lint(text: str) -> list[WordingFinding]:
    """Every rule that a text breaks, in order of the rules."""
    plain = text.replace("’", "'")
    return [
        WordingFinding(rule.name, rule.why, found.start())
        for rule in RULES
        if (found := rule.pattern.search(plain))
    ]
