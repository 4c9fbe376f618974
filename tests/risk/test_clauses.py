"""The reading stage: each rule fires on its examples, and the only lowering is by one step and for a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.risk.clauses import ClauseRule, ReadingStage, load, shipped
from bot.risk.screen import Screen
from bot.risk.verdict import Category, RiskLevel, Verdict
from policies.errors import PolicyFileError
from privacy.reading import Parser

PARSER, STAGE, SCREEN = Parser(), ReadingStage(), Screen()


def raised(text: str) -> Verdict:
    return STAGE.deepen(PARSER.read(text), Verdict(), not_real=False)


@pytest.mark.parametrize("rule", shipped(), ids=lambda r: r.name)
def test_every_rule_has_a_reason_and_fires_on_its_examples(rule: ClauseRule) -> None:
    assert len(rule.reason) > 5
    assert rule.examples or rule.level is RiskLevel.NONE
    for example in rule.examples:
        found = raised(example)
        assert rule.name in found.rules and found.level.rank >= rule.level.rank, example
        assert rule.idea in found.flags


@pytest.mark.parametrize(
    "text",
    [
        "I would never hang myself",
        "My mum cut my hair and it looks awful",
        "The neighbour's dog bit the postman",
        'In the film he says "I will kill you" and laughs',
        "He hit the ball over the fence to me",
        "I can't wake up early on Mondays",
        "I burned the rice again",
        "She beat me at chess",
    ],
)
def test_harmless_clauses_raise_nothing(text: str) -> None:
    assert raised(text).level is RiskLevel.NONE, raised(text).rules


def imminent(idea: str) -> Verdict:
    return Verdict(
        level=RiskLevel.IMMINENT, categories=(Category.SUICIDE,), rules=("a-rule",), flags=frozenset({idea})
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("I am not going to kill myself", "will not"),
        ('My brother wrote "I will kill myself"', "quotation"),
        ("I was going to kill myself back then", "past"),
    ],
)
def test_imminent_falls_by_one_step_where_the_grammar_says_so(text: str, why: str) -> None:
    found = STAGE.deepen(PARSER.read(text), imminent("intent"), not_real=False)
    assert found.level is RiskLevel.ELEVATED and why in found.why


@pytest.mark.parametrize(
    "text",
    [
        "I am going to kill myself",
        "I am not going to kill myself tonight, tomorrow I will",
        "I was going to kill myself and I still am",
        "I never wanted to kill myself but I will kill myself",
    ],
)
def test_imminent_stays_where_any_clause_stands(text: str) -> None:
    assert STAGE.deepen(PARSER.read(text), imminent("intent"), not_real=False).level is RiskLevel.IMMINENT


def test_two_reasons_for_danger_are_never_lowered() -> None:
    verdict = Verdict(level=RiskLevel.IMMINENT, rules=("a", "b"), flags=frozenset({"intent"}))
    reading = PARSER.read("I am not going to kill myself")
    assert STAGE.deepen(reading, verdict, not_real=False) == verdict


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("verb: [kill, hang", "verbs: [kill, hang"),
        ("not_around: [PLAYFUL, career]", "not_around: [NOWHERE]"),
        ("category: suicide, level: imminent", "category: sadness, level: imminent"),
        ("around: [alive, live", "around: [no, live"),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path: Path, change: str, named: str) -> None:
    text = (Path(__file__).parents[2] / "policies" / "crisis" / "clauses.yaml").read_text()
    assert change in text
    broken = tmp_path / "clauses.yaml"
    broken.write_text(text.replace(change, named, 1))
    with pytest.raises(PolicyFileError, match="rule read-"):
        load(broken)
