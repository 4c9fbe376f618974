"""Texts that everybody says: what is found in one is found once, and the same as if it were looked for each time."""

from __future__ import annotations

import pytest

from bot.parts import Parts
from bot.risk.semantic import SemanticStage
from bot.risk.stages import Stages
from bot.risk.verdict import RiskLevel
from policies import classifiers, questions
from policies.attributes import Attribute
from policies.encoder import MiniLM, built_in
from policies.everyday import everyday, tell_of_nothing
from privacy.detector import Detector, Options
from privacy.errors import RedactionFailed
from privacy.spans import Redaction

BEFORE = ("i gave my records away and cleaned the flat", "everyone is sorted now, nothing left to do")


class Counted:
    """The encoder that ships, and how often it was asked."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def encode(self, sentences):  # type: ignore[no-untyped-def]
        self.texts += sentences
        return built_in().encode(sentences)

    def pieces(self, text: str) -> int:
        return built_in().pieces(text)


def test_it_holds_what_is_tapped_and_what_everybody_writes_and_nobodys_own_words() -> None:
    assert {"hello", "Hello", "thanks", "why do you ask"} <= everyday()
    for attribute in Attribute:
        for question in questions.shipped().every(attribute):
            assert {choice.label for choice in question.choices} <= everyday()
    assert not {"my wife left and I've stopped going to work", "call me on 0161 496 0000", ""} & everyday()
    assert tell_of_nothing() < everyday()
    assert not {"thanks", "bye", "goodbye", "yes", "no", "help"} & tell_of_nothing()


def test_what_tells_of_nothing_raises_nothing_in_any_stage(parts: Parts) -> None:
    raised = [t for t in sorted(tell_of_nothing()) if parts.stages.judge(t).level is not RiskLevel.NONE]
    assert raised == []


@pytest.mark.parametrize("before", [(), BEFORE])
def test_a_verdict_is_the_same_the_second_time_and_as_without_the_list(
    parts: Parts, before: tuple[str, ...]
) -> None:
    plain = Stages(parts.stages._text, semantic=SemanticStage(built_in(), classifiers.shipped()))
    listed = Stages(
        parts.stages._text, semantic=SemanticStage(built_in(), classifiers.shipped(), known=everyday())
    )
    for text in sorted(everyday())[::7]:
        first, second = listed.judge(text, history=before), listed.judge(text, history=before)
        assert first == second == plain.judge(text, history=before), text


def test_it_is_encoded_once_and_with_what_came_before_unless_it_tells_of_nothing() -> None:
    encoder = Counted()
    stage = SemanticStage(encoder, classifiers.shipped(), known=everyday(), tell_of_nothing=tell_of_nothing())
    stages = Stages(Screenless(), semantic=stage)  # type: ignore[arg-type]
    for text, before, asked in (
        ("hello", (), 1),
        ("hello", BEFORE, 0),
        ("I owe about 400 pounds", (), 1),
        ("I owe about 400 pounds", (), 1),
        ("no, never", (), None),
        ("no, never", BEFORE, 1),
        ("thanks", BEFORE, None),
        ("thanks", BEFORE, 1),
    ):
        encoder.texts.clear()
        stages.deepened(text, Screenless.verdict(), reading=None, recent=before)
        if asked is not None:
            assert len(encoder.texts) == asked, (text, before)


class Screenless:
    """A text stage that has heard nothing."""

    @staticmethod
    def verdict():  # type: ignore[no-untyped-def]
        from bot.risk.screen import Screen

        return Screen().screen("fine")


def test_the_encoder_keeps_the_vectors_of_known_texts_only() -> None:
    encoder = built_in()
    assert isinstance(encoder, MiniLM)
    most = encoder._most
    try:
        encoder.remember(0)
        encoder.know(["hello"])
        one, other = encoder.encode(["hello", "my name is Ivo"])
        assert encoder._known.keys() == {"hello"}
        kept = encoder._known["hello"]
        assert kept is not None
        assert (kept == one).all()
        assert (encoder.encode(["hello", "my name is Ivo"]) == [one, other]).all()
        assert not encoder._remembered
        assert not encoder._held
    finally:
        encoder.know(everyday())
        encoder.remember(most)


class Once:
    """Finds nothing, once."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def redact(self, text: str) -> Redaction:
        if text in self.seen:
            raise RedactionFailed("ValueError")
        self.seen.add(text)
        return Redaction(spans=())


def build_once(_: Options) -> Once:
    return Once()


async def test_the_detector_asks_once_for_a_known_text_and_each_time_for_any_other() -> None:
    detector = Detector(Options(build=build_once), known=["hello"])
    detector.start()
    try:
        for _ in range(3):
            assert (await detector.redact("hello")).spans == ()
            assert detector.redact_now("hello").spans == ()
        assert (await detector.redact("my name is Ivo")).spans == ()
        with pytest.raises(RedactionFailed):
            await detector.redact("my name is Ivo")
        assert list(detector._known) == ["hello"]
    finally:
        detector.close()
