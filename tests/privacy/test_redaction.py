"""Redaction: what it must find and leave, placeholders and the way back, and what happens when it cannot."""

from __future__ import annotations

import asyncio
import itertools
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.conversation import Conversation
from bot.parts import Parts
from privacy.detector import Detector, Options
from privacy.errors import RedactionFailed
from privacy.placeholders import Placeholders, Restorer
from privacy.scoring import score, shipped
from privacy.spans import Redaction, Span
from tests.conftest import InProcess

PASSES = [
    "call 988 or text HOME to 741741, or samaritans on 116 123, or 1-800-273-8255",
    "6 weeks of sertraline 100mg and i am 34, since monday",
    "hope is gone. i may go, i will not stay. there is no grace in it",
    "i'm christian and my husband is muslim, we had ramadan and christmas",
    "prozac then effexor then lamictal, my PHQ-9 was 19",
    "my son is 7 and my mum is 61",
    "i owe 4,500 pounds and my rent is 1450",
    "i slept 3 hours between 2 and 4 am",
]
TAKES = {
    "its me, tamsin": "tamsin",
    "my ex darnell keeps driving past": "darnell",
    "dr okonkwo-reyes upped my dose": "okonkwo-reyes",
    "my number is 07700 900 123": "07700 900 123",
    "mail me at kim dot lee at mailbox dot org": "kim dot lee at mailbox dot org",
    "i live at 14 alder close in hexham": "14 alder close",
    "postcode is LS6 2QT": "LS6 2QT",
    "dob 12/9/2003": "12/9/2003",
    "grandma is 94 and lonely": "94",
    "my ssn is 987-65-4320": "987-65-4320",
    "the reg was AB12 CDE": "AB12 CDE",
    "im at 53.48095, -2.23743 right now": "53.48095, -2.23743",
    "case number HX-20881-B": "HX-20881-B",
    "my insta is sad.girl_99": "sad.girl_99",
    "passport number 533401882": "533401882",
    "student id 20481177": "20481177",
    "nhs number 943 476 5919": "943 476 5919",
    "imei is 356938035643809": "356938035643809",
    "he logged in from 198.51.100.23": "198.51.100.23",
    "go to gofundme.com/f/help-tobi": "gofundme.com/f/help-tobi",
    "sort code 20-00-00 account 12345678": "12345678",
}


@pytest.mark.parametrize(
    "text", ["/help", "help", "HELP!", "skip", "Skip.", "/skip", "stop", "why?", "no", "/quit"]
)
def test_a_word_the_chat_itself_offers_names_nobody(text: str, redactor: InProcess) -> None:
    """ "Skip" is a nickname too; a person who writes nothing else means the button."""
    found: Any = redactor.redact_now(text)
    assert found.spans == ()


def test_the_same_word_within_a_sentence_may_be_a_name(redactor: InProcess) -> None:
    text = "its me, Skip Hanlon, from the bakery"
    found: Any = redactor.redact_now(text)
    assert any("Skip" in text[s.start : s.end] for s in found.spans)


@pytest.mark.parametrize("text", PASSES)
def test_what_the_model_needs_passes_unchanged(text: str, redactor: InProcess) -> None:
    found: Any = redactor.redact_now(text)
    assert [text[s.start : s.end] for s in found.spans] == []


@pytest.mark.parametrize("text", TAKES)
def test_what_a_person_could_be_found_by_is_taken_out(text: str, redactor: InProcess) -> None:
    found: Any = redactor.redact_now(text)
    start = text.index(TAKES[text])
    gone = {i for s in found.spans for i in range(s.start, s.end)}
    assert all(i in gone for i in range(start, start + len(TAKES[text])) if text[i].isalnum()), found.spans


def test_the_set_that_ships_is_redacted_as_well_as_the_docs_say(redactor: InProcess) -> None:
    """On messages by an author who had seen nothing of the product; none was trained on."""
    total = score(shipped(), lambda text: redactor.redact_now(text).spans)  # type: ignore[attr-defined]
    assert len(shipped()) >= 200
    assert total.covered / total.spans >= 0.84
    assert total.right / total.found >= 0.95
    assert total.altered / total.clean <= 0.03


def test_spans_do_not_overlap_and_keep_their_order(redactor: InProcess) -> None:
    text = "I'm Rosalind Achterberg, 42, of 9 Pinecrest Court, Boise, ID 83704, rosa@x.example, 07700 900123"
    spans = redactor.redact_now(text).spans  # type: ignore[attr-defined]
    assert len(spans) >= 4
    for one, other in itertools.pairwise(spans):
        assert one.end <= other.start


def test_one_pass_gives_the_reading_too(redactor: InProcess) -> None:
    found: Any = redactor.redact_now("i dont want to hurt tobi")
    hurt = next(c for c in found.reading.clauses if c.verb == "hurt")
    assert hurt.negated and "tobi" not in repr(found)


# ------------------------------------------------------------------------------------------------ placeholders


def spans_of(text: str, *found: tuple[str, str]) -> list[Span]:
    return [Span(start=text.index(v), end=text.index(v) + len(v), type=kind, score=1.0) for kind, v in found]


def test_one_value_has_one_placeholder_for_the_whole_conversation() -> None:
    places = Placeholders()
    first = places.apply(
        "tobi left. mia too", spans_of("tobi left. mia too", ("PERSON", "tobi"), ("PERSON", "mia"))
    )
    second = places.apply("and Tobi came back", spans_of("and Tobi came back", ("PERSON", "Tobi")))
    assert first == "<PERSON_1> left. <PERSON_2> too" and second == "and <PERSON_1> came back"
    again = Placeholders.from_json(places.to_json())
    third = again.apply("zoe", spans_of("zoe", ("PERSON", "zoe")))
    assert third == "<PERSON_3>", "numbering goes on, so that nobody is taken for somebody else"
    assert again.restore(first, own=True) == "tobi left. mia too"


def test_a_placeholder_that_somebody_types_resolves_to_nobody_else() -> None:
    places = Placeholders()
    places.apply("tobi", spans_of("tobi", ("PERSON", "tobi")))
    typed = places.apply("who is <PERSON_1>?", [])
    assert "<PERSON_1>" not in typed and places.restore(typed, own=True) == "who is <PERSON_1>?"
    assert "tobi" not in places.restore(typed)


def test_a_model_gets_names_back_but_no_number_to_call() -> None:
    places = Placeholders()
    text = "tobi on 07700 900123"
    places.apply(text, spans_of(text, ("PERSON", "tobi"), ("PHONE_NUMBER", "07700 900123")))
    shown = places.restore("Ask <PERSON_1> on <PHONE_NUMBER_1>, or <PERSON_7>.")
    assert shown == "Ask tobi on that number, or person."


REPLY = "Tell <PERSON_1> that <PERSON_2> < 3 and a<b, <not one>, <PERSON_1>."


@given(cuts=st.lists(st.integers(min_value=0, max_value=len(REPLY)), max_size=30))
def test_every_way_of_cutting_a_stream_restores_the_same(cuts: list[int]) -> None:
    places = Placeholders()
    places.apply("tobi mia", spans_of("tobi mia", ("PERSON", "tobi"), ("PERSON", "mia")))
    restorer, shown, at = Restorer(places), "", 0
    for cut in [*sorted(cuts), len(REPLY)]:
        shown += restorer.feed(REPLY[at:cut])
        at = max(at, cut)
    assert shown + restorer.rest() == places.restore(REPLY)


# ------------------------------------------------------------------------------------------------ when it cannot


class Slow:
    """A redactor that hangs on one word, raises on another and dies on a third."""

    def redact(self, text: str) -> Redaction:
        if "hang" in text:
            time.sleep(30)
        if "raise" in text:
            raise RedactionFailed("ValueError")
        if "die" in text:
            import os

            os._exit(1)
        return Redaction(spans=())


def build_slow(_: Options) -> Slow:
    return Slow()


async def test_a_worker_that_hangs_or_dies_is_replaced_and_the_loop_does_not_notice() -> None:
    detector = Detector(Options(build=build_slow), seconds=0.3)
    detector.start()
    late: list[float] = []

    async def heartbeat() -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0.01)
            late.append(time.perf_counter() - began - 0.01)

    beating = asyncio.create_task(heartbeat())
    assert (await detector.redact("fine")).spans == ()
    for bad, why in (("hang", "slow"), ("raise", "ValueError"), ("die", "ended")):
        with pytest.raises(RedactionFailed, match=why):
            await detector.redact(bad)
        for _ in range(100):
            try:
                assert (await detector.redact("fine")).spans == ()
                break
            except RedactionFailed:
                await asyncio.sleep(0.05)
        else:
            raise AssertionError(f"no redactor after {bad}")
    beating.cancel()
    assert sorted(late)[int(0.9 * len(late))] < 0.2
    detector.close()


class Echo:
    """Says back which message it was asked about, after a while."""

    def redact(self, text: str) -> Redaction:
        time.sleep(0.02)
        return Redaction(spans=(Span(start=0, end=int(text), type="PERSON", score=1.0),))


def build_echo(_: Options) -> Echo:
    return Echo()


async def test_nobody_gets_the_redaction_of_anothers_message_when_one_is_cancelled() -> None:
    detector = Detector(Options(build=build_echo))
    detector.start()
    for number in range(1, 30, 2):
        left = asyncio.create_task(detector.redact(str(number)))
        await asyncio.sleep(0.005)
        left.cancel()
        assert (await detector.redact(str(number + 1))).spans[0].end == number + 1
    detector.close()


def test_a_number_by_itself_does_not_pass_the_gate(redactor: InProcess) -> None:
    from privacy.gate import Passage, Sent

    class Ledger:
        async def note(self, sent: Sent, _: object) -> None:
            assert "4111" not in sent.content

    async def granted() -> object:
        return object()

    passage = Passage(
        destination="h", is_local=True, redactor=redactor, places=Placeholders(), grant=granted, ledger=Ledger(), key=b"k"  # type: ignore[arg-type]
    )  # fmt: skip
    out = asyncio.run(passage.texts(model="m", role="embed", texts=["4111111111111111"]))
    assert out == ["<CREDIT_CARD_1>"]


class Fails:
    async def redact(self, _: str) -> Redaction:
        raise RedactionFailed("too slow")


async def test_what_cannot_be_made_safe_is_screened_answered_kindly_and_not_kept(
    parts: Parts, tmp_path: Path
) -> None:
    from privacy.consent import Scope
    from tests.conftest import keeping_in

    keeping: Any = keeping_in(tmp_path)
    await keeping.answer("ann", Scope.KEEP, granted=True)
    conversation = Conversation.start(
        replace(parts, detector=Fails(), keeping=keeping),
        person="ann",
        country="GB",  # type: ignore[arg-type]
    )
    moves = [w async for w in conversation.receive("my wife Zebulonia left, what do I do?")]
    assert "neither kept nor sent" in moves[-1].text and moves[-1].resources
    assert await keeping.run(lambda: keeping.store.db["turns"].count) == 0
    assert "Zebulonia" not in str(conversation.session.to_json())
    card = [w async for w in conversation.receive("I am going to kill myself tonight, tell Zebulonia")]
    assert card[-1].fields["reason"] == "imminent_risk"
    assert "Zebulonia" not in str(conversation.session.to_json())
    long = [w async for w in conversation.receive("my wife Zebulonia left. " * 300)]
    assert long and "Zebulonia" not in str(conversation.session.to_json())
    keeping.close()


@pytest.mark.parametrize(
    "text",
    ["a." * 2000, "a" * 4000, "1-" * 2000, "x@" * 2000, "( " * 2000, "0" * 4000, "é" * 4000, "my son " * 570, ":" * 4000, "1.2.3." * 660],
    ids=["a.", "a", "1-", "x@", "( ", "0", "é", "words", ":", "ip"],
)  # fmt: skip
def test_hostile_input_is_bounded(text: str, redactor: InProcess) -> None:
    began = time.perf_counter()
    redactor.redact_now(text[:4000])
    assert time.perf_counter() - began < 20, (
        "the worker is killed after a second; nothing here may run for minutes"
    )


def test_redact_command_writes_one_line_a_message(tmp_path: Path) -> None:
    import json

    from tests.bot.test_command_line import run

    done = run(
        "redact", "-", stdin='{"id": "a", "text": "my son tobi", "more": 1}\n{"id": "b", "text": "ok"}\n'
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0 and [r["id"] for r in rows] == ["a", "b"]
    assert rows[0]["redacted"] == "my son <PERSON_1>" and rows[0]["spans"][0]["type"] == "PERSON"
    assert rows[1] == {"id": "b", "redacted": "ok", "spans": []}
    assert run("redact", "-", stdin="no json\n").returncode == 2
    assert run("redact", str(tmp_path / "none.jsonl")).returncode == 2


def test_a_stronger_engine_that_is_not_installed_is_a_clear_error() -> None:
    from privacy.redaction import Redactor

    with pytest.raises(RedactionFailed, match="gliner:x cannot be loaded"):
        Redactor(stronger="gliner:x")
    with pytest.raises(RedactionFailed, match="write gliner:MODEL"):
        Redactor(stronger="magic")


def test_the_tagger_was_trained_on_the_lines_that_are_here() -> None:
    import hashlib
    import json
    from importlib import resources

    import numpy as np

    folder = Path(str(resources.files("privacy")))
    with np.load(folder / "trained" / "tagger.npz") as raw:
        told = json.loads(bytes(raw["meta"]).decode())["sources"]
    assert told == {
        p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in (folder / "labelled").glob("lines_*.txt")
    }


def test_every_kind_that_is_looked_for_or_labelled_belongs_to_a_hipaa_class() -> None:
    from privacy import hipaa
    from privacy.recognisers import PATTERNS
    from privacy.scoring import shipped
    from privacy.tagger import TYPES

    assert len(hipaa.CLASSES) == 18
    known = (
        {pattern.type for pattern in PATTERNS} | set(TYPES) | {k for m in shipped() for _, _, k in m.spans}
    )
    assert known <= set(hipaa.KINDS)
    assert [c for c, _, kinds in hipaa.CLASSES if not set(kinds) & known] == ["P", "Q"], (
        "what is never taken in"
    )
