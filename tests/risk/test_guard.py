"""Nothing harmful and no invented number leaves; everything we ship does."""

from __future__ import annotations

import pytest

from bot.messages import crisis_texts, messages
from bot.risk.guard import Guard
from bot.risk.screen import Screen
from policies import crisis, guidance, questions

GUARD = Guard(Screen(), crisis.shipped())


def test_every_shipped_sentence_passes() -> None:
    shipped = guidance.shipped()
    texts = [b.text for b in shipped.all_blocks()]
    texts += [t for g in shipped.groups.values() for t in (*g.acknowledge, g.would_change)]
    texts += [h.how for h in shipped.humans.values()]
    texts += [line for t in (*messages().values(), *crisis_texts().values()) for line in t.split("\n")]
    texts += [t for q in questions.shipped().by_place.values() for t in (*q.phrasings, q.why, q.declined)]
    refused = [(t, GUARD.refuse(t)) for t in texts if GUARD.refuse(t)]
    assert not refused


@pytest.mark.parametrize(
    ("sentence", "rule"),
    [
        ("Call the national line on 0800 555 01999.", "unknown_number"),
        ("Text 55123 for help.", "unknown_number"),
        ("See www.madeuphelp.org for more.", "unknown_link"),
        ("Write to help@madeuphelp.org today.", "unknown_address"),
        ("A lethal dose would be {N} tablets.", "harmful_content"),
        ("20 tablets are enough to die.", "harmful_content"),
        ("The quickest way to die is this.", "harmful_content"),
        (
            "You can hide the cuts with a long sleeve, so hide your scars from your parents.",
            "harmful_content",
        ),
        (
            "Your family would be better off without you, they would be better off without you.",
            "harmful_content",
        ),
        ("Make him pay: follow him until he listens.", "harmful_content"),
        ("I am going to kill myself tonight, said the helper in me.", "risk_screen"),
        ("He committed suicide last year.", "harmful_content"),
    ],
)
def test_what_may_not_leave(sentence: str, rule: str) -> None:
    refusal = GUARD.refuse(sentence)
    assert refusal is not None and refusal.rule == rule


@pytest.mark.parametrize(
    "sentence",
    [
        "Call 116 123 (Samaritans) or text 85258.",
        "In danger now? Call 112.",
        "Between 2019 and 2024 rents rose by 12 %.",
        "Budget 1,200 a month for rent.",
        "You can find a line at findahelpline.com.",
        "Ask your GP about the 150 mg you take.",
    ],
)
def test_what_may(sentence: str) -> None:
    assert GUARD.refuse(sentence) is None
