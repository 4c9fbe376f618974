"""What stands on the page: once each, the newest where there are many, the person's own words only for their eyes."""

from __future__ import annotations

from bot.keeping import Line
from bot.page import MOST_SHOWN, Page, line_of
from bot.responding import Words
from privacy.placeholders import Placeholders


def line(number: int, text: str = "hello", *, theirs: bool = True, own: bool = False) -> Line:
    return Line(id=f"m-{number}", is_theirs=theirs, move="" if theirs else "say", text=text, is_own=own)


def test_a_message_stands_on_it_once_and_where_it_stood() -> None:
    page = Page("session", Placeholders(), [line(1), line(2)])
    page.put([line(1, "said again"), line(3)])
    assert [(m.id, m.text) for m in page.lines] == [("m-1", "hello"), ("m-2", "hello"), ("m-3", "hello")]
    assert page.holds("m-3") and not page.holds("m-4")


def test_what_will_stand_on_it_is_what_does_afterwards() -> None:
    page = Page("session", Placeholders(), [line(n) for n in range(MOST_SHOWN)])
    will = page.with_these([line(3, "again"), line(MOST_SHOWN), line(MOST_SHOWN + 1)])
    assert len(will) == MOST_SHOWN and will[0].id == "m-2", "the oldest go"
    page.put([line(3, "again"), line(MOST_SHOWN), line(MOST_SHOWN + 1)])
    assert list(page.lines) == list(will)


def test_ids_are_the_same_when_a_turn_is_done_again_and_no_others() -> None:
    page, again, another = (Page(s, Placeholders()) for s in ("one", "one", "two"))
    assert page.id_of(3, "answer") == again.id_of(3, "answer")
    ids = {p.id_of(turn, which) for p in (page, another) for turn in (3, 4) for which in ("answer", "you")}
    assert len(ids) == 8


def test_only_their_own_words_come_back_and_what_is_kept_has_placeholders() -> None:
    places = Placeholders(values={"<PERSON_1>": "Zebulonia"})
    page = Page("session", places)
    page.put([line(1, "<PERSON_1> left"), line(2, "I noted: <PERSON_1> left", theirs=False, own=True)])
    assert [m.text for m in page.as_seen()] == ["Zebulonia left", "I noted: Zebulonia left"]
    assert "Zebulonia" not in str([m.text for m in page.lines])
    last = page.last_of_ours()
    assert last is not None and last.id == "m-2"


def test_a_message_of_ours_stands_as_it_was_said() -> None:
    words = Words(id="m-9", move="say", text="See <PERSON_1>.", resources=({"name": "help"},), is_own=True)
    kept = line_of(words)
    assert (kept.id, kept.move, kept.text, kept.is_theirs, kept.is_own) == (
        "m-9",
        "say",
        words.text,
        False,
        True,
    )
    assert kept.resources == words.resources
    seen = Page("session", Placeholders(values={"<PERSON_1>": "Zebulonia"})).restored(words)
    assert seen.text == "See Zebulonia." and words.text == "See <PERSON_1>."
