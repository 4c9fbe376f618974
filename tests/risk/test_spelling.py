"""Misspelled words are mended for the later stages, and nothing else is."""

import pytest

from bot.parts import Parts
from bot.risk import spelling
from bot.risk.screen import Screen
from bot.risk.spelling import Speller
from bot.risk.stages import Stages

SPELLER = spelling.shipped()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("all my tabelts", "all my tablets"),  # two letters swapped
        ("on the trakcs", "on the tracks"),
        ("the knfe", "the knife"),  # one too few
        ("my brotherr", "my brother"),  # one too many
        ("the bladw", "the blade"),  # the neighbouring key
    ],
)
def test_a_single_slip_is_mended(written: str, meant: str) -> None:
    assert SPELLER.mended(written) == meant


@pytest.mark.parametrize(
    "text",
    [
        "I took the kilt and the hank of wool to the diet shop",
        "Deepak and Oyinkan met Kniff",
        "see www.hangng.example or write to me@hangng.example",
        "ths tks",
        "",
        "I'm fine, don't worry; it's nothing",
    ],
)
def test_words_that_are_known_names_links_and_short_ones_stay(text: str) -> None:
    assert SPELLER.mended(text) == text


def test_another_language_is_left_alone(parts: Parts) -> None:
    text = "quiero morir esta noche, no puedo más con esta vida"
    assert SPELLER.mended(text) != text
    assert parts.stages.mended(text) == text


def test_only_the_words_it_was_given_are_mended_to() -> None:
    speller = Speller({"bridge": 3}, frozenset({"fridge"}))
    assert (
        speller.mended("the brigde and the fridge and the frigde")
        == "the bridge and the fridge and the frigde"
    )


def test_the_text_stage_looks_again_at_what_was_meant() -> None:
    text = "im gogin to hagn mysefl tonihgt in the garaeg"
    plain, mending = Stages(Screen()), Stages(Screen(), spelling=SPELLER)
    assert plain.judge(text).level.value != "imminent"
    assert mending.judge(text).level.value == "imminent"


def test_what_the_raw_text_said_stands_whatever_is_mended() -> None:
    class Garbles(Speller):
        def mended(self, text: str) -> str:
            return "nice weather"

    stages = Stages(Screen(), spelling=Garbles({}, frozenset()))
    assert stages.judge("I am going to kill myself tonight").level.value == "imminent"


def test_a_classifier_that_fails_leaves_the_text_and_the_verdict(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> str:
        raise RuntimeError

    monkeypatch.setattr("bot.risk.semantic.SemanticStage.language", fails)
    assert parts.stages.mended("im on teh trakcs") == "im on teh trakcs"
    assert parts.stages.judge("I am going to kill myself tonihgt").level.value != "none"


def test_a_speller_that_fails_leaves_the_text(caplog: pytest.LogCaptureFixture) -> None:
    class Fails(Speller):
        def mended(self, text: str) -> str:
            raise RuntimeError(text)

    stages = Stages(Screen(), spelling=Fails({}, frozenset()))
    assert stages.judge("I am going to kill myself tonihgt").level.value != "none"
    assert "tonihgt" not in caplog.text and "RuntimeError" in caplog.text
