"""The frozen reading: who, when, how surely, denied, quoted; nothing of spaCy left behind; never anybody kept waiting."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
from dataclasses import fields
from typing import Any

import pytest

from privacy.reading import (
    Clause,
    Modality,
    Parser,
    Person,
    Reading,
    ReadingError,
    Tense,
    TimedParser,
)


@pytest.fixture(scope="module")
def parser() -> Parser:
    made = Parser()
    made.warm()
    return made


def clause(parser: Parser, text: str, verb: str) -> Clause:
    return next(c for c in parser.read(text).clauses if c.verb == verb)


@pytest.mark.parametrize(
    ("text", "verb", "expected"),
    [
        (
            "I am going to leave tomorrow",
            "leave",
            {"person": Person.FIRST, "tense": Tense.FUTURE, "negated": False},
        ),
        ("i dont want to go there", "go", {"negated": True, "modality": Modality.WISHED}),
        ("He hit me when he was drunk", "hit", {"person": Person.THIRD, "tense": Tense.PAST}),
        ("I was going to quit last year", "quit", {"tense": Tense.PAST}),
        ('She said "I will leave you" and went out', "leave", {"quoted": True}),
        ("If I left him, would they cope?", "leave", {"modality": Modality.SUPPOSED}),
        ("I've never hit anyone", "hit", {"negated": True, "tense": Tense.PAST}),
        ("My sister says she wants to move", "move", {"person": Person.THIRD}),
        ("You should call them", "call", {"person": Person.SECOND, "modality": Modality.SUPPOSED}),
    ],
)
def test_grammar(parser: Parser, text: str, verb: str, expected: dict[str, Any]) -> None:
    found = clause(parser, text, verb)
    assert {key: getattr(found, key) for key in expected} == expected


def test_a_reading_holds_no_sentence_and_prints_no_word(parser: Parser) -> None:
    found = parser.read("My uncle Bartholomew locked the shed yesterday.")
    assert "bartholomew" not in repr(found).lower() and "shed" not in repr(found)
    assert {f.name for f in fields(found)} == {"words", "sentences", "clauses"}


def test_spacy_forgets_the_names_it_saw(parser: Parser) -> None:
    from privacy.reading import spacy_language

    parser.read("Zebulonia Quarrington came by and Zebulonia stayed.")
    gc.collect()
    assert "Zebulonia" not in spacy_language().vocab.strings


def test_a_failing_model_is_named_by_its_kind_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> Any:
        raise OSError("my secret words")

    monkeypatch.setattr("privacy.reading.spacy_language", fails)
    with pytest.raises(ReadingError) as failed:
        Parser().read("my secret words")
    assert str(failed.value) == "OSError"


class Hangs(Parser):
    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()

    def read(self, text: str) -> Reading:
        self.go_on.wait(20)
        return super().read(text)


async def test_a_hanging_parser_keeps_nobody_waiting_and_is_left_alone() -> None:
    hanging = Hangs()
    timed = TimedParser(hanging)
    start = time.monotonic()
    for _ in range(6):
        assert await timed.read("I am here.", within=0.05) is None
    assert time.monotonic() - start < 2
    assert sum(t.name == "parse" for t in threading.enumerate()) <= 4
    hanging.go_on.set()
    for _ in range(100):
        if (found := await timed.read("I am here.", within=2)) is not None:
            break
        await asyncio.sleep(0.05)
    assert found is not None and found.clauses


async def test_a_parser_that_raises_anything_gives_no_reading_and_logs_no_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Raises(Parser):
        def read(self, text: str) -> Reading:
            raise RuntimeError(text)

    with caplog.at_level(logging.DEBUG):
        assert await TimedParser(Raises()).read("secret words", within=1) is None
    assert "RuntimeError" in caplog.text and "secret" not in caplog.text


def test_long_and_odd_texts_are_bounded(parser: Parser) -> None:
    start = time.monotonic()
    assert parser.read("").clauses == ()
    assert parser.read("a" * 100_000).words
    assert parser.read("no. " * 30_000).words
    assert time.monotonic() - start < 10
