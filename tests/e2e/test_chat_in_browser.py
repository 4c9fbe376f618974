"""A person at the page: what they see, tap and type, in a real Chromium."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import Server

pytestmark = pytest.mark.browser
NAME = re.compile(r"computer program \(an AI\)")
WORRY = "my wife left and I've stopped going to work, what do I do?"


class Visit:
    """One visitor's page, with what it asked for and complained of."""

    def __init__(self, page: Page, server: Server) -> None:
        self.page, self.server = page, server
        self.outside: list[str] = []
        self.errors: list[str] = []
        page.on("request", lambda r: self._note(r.url))
        page.on("pageerror", lambda e: self.errors.append(str(e)))
        page.goto(server.url, wait_until="domcontentloaded")
        expect(page.get_by_text(NAME).first).to_be_visible(timeout=30_000)

    def _note(self, url: str) -> None:
        if not url.startswith((self.server.url, self.server.url.replace("http", "ws"), "data:", "blob:")):
            self.outside.append(url)

    def say(self, text: str) -> None:
        before = self.answers()
        self.page.locator("#chat-input").fill(text)
        expect(self.page.locator("#chat-submit")).to_be_enabled(timeout=20_000)  # not while it still connects
        self.page.keyboard.press("Enter")
        self.page.wait_for_function(
            "n => document.querySelectorAll('.ai-message').length > n", arg=before, timeout=20_000
        )
        self.page.wait_for_timeout(700)

    def answers(self) -> int:
        return self.page.locator(".ai-message").count()

    def last(self) -> str:
        return self.page.locator(".ai-message").last.inner_text()

    def all(self) -> str:
        return "\n".join(self.page.locator(".ai-message").all_inner_texts())

    def tap(self, label: str) -> None:
        before = self.answers()
        self.page.get_by_role("button", name=label, exact=True).last.click()
        self.page.wait_for_function(
            "n => document.querySelectorAll('.ai-message').length > n", arg=before, timeout=20_000
        )
        self.page.wait_for_timeout(700)

    def choices(self) -> list[str]:
        texts = self.page.locator(".ai-message button[id]").all_inner_texts()
        return [t.strip() for t in texts if t.strip()]

    def interview(self, limit: int = 6) -> None:
        """Tap the first quick reply until no question is open."""
        for _ in range(limit):
            choices = self.choices()
            if not choices:
                return
            self.tap(choices[0])


@pytest.fixture
def visit(browser: Any, server: Server) -> Iterator[Callable[..., Visit]]:
    contexts = []

    def open_page(**options: Any) -> Visit:
        context = browser.new_context(
            **{"viewport": {"width": 1200, "height": 900}, "reduced_motion": "reduce", **options}
        )
        contexts.append(context)
        return Visit(context.new_page(), server)

    yield open_page
    for context in contexts:
        context.close()


def test_question_to_personal_answer_with_quick_replies(visit: Callable[..., Visit]) -> None:
    person = visit()
    person.say(WORRY)
    assert "Prefer not to say" in person.choices() and "Why do you ask?" in person.choices()
    person.interview()
    assert "no clinician has reviewed it" in person.last()
    assert not person.outside and not person.errors


def test_question_to_personal_answer_in_own_words(visit: Callable[..., Visit]) -> None:
    person = visit()
    person.say(WORRY)
    for words in ("not great, low and not sleeping", "no, never", "ashamed mostly", "34, two kids, in debt"):
        if person.choices():
            person.say(words)
    assert "no clinician has reviewed it" in person.all()


def test_declining_is_one_tap_and_kind(visit: Callable[..., Visit]) -> None:
    person = visit()
    person.say(WORRY)
    before = person.answers()
    person.tap("Prefer not to say")
    said = "\n".join(person.page.locator(".ai-message").all_inner_texts()[before:])
    assert re.search(r"fine|all right|no problem", said, re.IGNORECASE)


def test_why_do_you_ask_is_answered_and_the_question_put_again(visit: Callable[..., Visit]) -> None:
    person = visit()
    person.say(WORRY)
    person.tap("Why do you ask?")
    assert "You don't have to answer" in person.all()
    assert "Prefer not to say" in person.choices()


def test_a_correction_is_taken(visit: Callable[..., Visit]) -> None:
    person = visit()
    person.say("I'm 43 and I failed my nursing exam for the third time, what now?")
    person.say("actually I'm 34, not 43")
    assert "changed that" in person.all() and "34" in person.all()


def test_a_digression_is_met_and_the_question_comes_back(visit: Callable[..., Visit]) -> None:
    person = visit()
    person.say(WORRY)
    person.say("are you human?")
    assert "I'm a computer program" in person.all()
    assert "Prefer not to say" in person.choices()


def test_just_answer_is_obeyed(visit: Callable[..., Visit]) -> None:
    person = visit()
    person.say("My landlord put the rent up 30 percent, can I refuse? I'm 40 and money is tight.")
    if person.choices():
        person.say("just answer me")
    assert not person.choices()


OFFERS = ["I'm safe now", "They didn't pick up", "I can't talk right now", "I don't want to call"]
FILLER = "I have been at this firm for nine years and I know every cupboard in it. "
POINTS = {
    "first message": ([], "I have the pills in my hand, I'm going to kill myself tonight"),
    "planned answer": ([WORRY], "I have the pills in my hand, I'm going to kill myself tonight"),
    "beside a quick reply": (
        [WORRY, ("tap", 0)],
        "what does it matter, I'm standing on the edge of the roof",
    ),
    "after an answer": ([WORRY, ("interview",)], "thanks. I took all the pills an hour ago anyway"),
    "another language": ([], "no puedo mas, esta noche me voy a matar"),
    "inside a long text": ([], FILLER * 9 + "I have the tablets counted out for tonight. " + FILLER * 9),
    "over the length cap": ([], FILLER * 70 + "I'm going to kill myself tonight."),
}


@pytest.mark.parametrize("point", POINTS)
def test_imminent_risk_interrupts_at_every_point(visit: Callable[..., Visit], point: str) -> None:
    person = visit()
    before, danger = POINTS[point]
    for step in before:
        if step == ("interview",):
            person.interview()
        elif isinstance(step, tuple):
            person.tap(person.choices()[step[1]])
        else:
            person.say(step)
    person.say(danger)
    card = person.last()
    assert "112" in card and "findahelpline" in card
    assert "a salvo" in card if point == "another language" else "everything else waits" in card
    assert person.choices() == OFFERS
    person.say("UK")
    assert "999" in person.last() and "116 123" in person.last()
    person.say("just kidding")
    assert "999" in person.last() and person.choices() == OFFERS


def test_numbers_can_be_dialled_from_the_card(visit: Callable[..., Visit]) -> None:
    person = visit()
    person.say("I'm in the UK and I am going to kill myself tonight")
    card = person.page.locator(".ai-message").last
    for href, name in (("tel:999", "Call 999"), ("tel:116123", "Call 116 123"), ("sms:85258", "Text 85258")):
        link = card.locator(f"a[href='{href}']")
        expect(link.first).to_have_attribute("aria-label", name)
        assert link.first.get_attribute("target") is None
    assert not person.outside and not person.errors


def test_one_tap_goes_on_from_a_card(visit: Callable[..., Visit]) -> None:
    person = visit()
    person.say("I am going to kill myself tonight")
    for label, words in (
        ("They didn't pick up", "lines get busy"),
        ("I can't talk right now", "don't have to speak"),
        ("I don't want to call", "isn't the only way"),
        ("I'm safe now", "glad about that"),
    ):
        person.tap(label)
        assert words in person.last()


def test_silence_after_a_card_is_answered(visit: Callable[..., Visit]) -> None:
    person = visit()
    person.say("I am going to kill myself tonight")
    before = person.answers()
    person.page.wait_for_function(
        "n => document.querySelectorAll('.ai-message').length > n", arg=before, timeout=60_000
    )
    assert "You don't have to write anything" in person.last() and person.choices() == OFFERS


def test_a_new_chat_lowers_nothing(visit: Callable[..., Visit]) -> None:
    person = visit()
    person.say("I am going to kill myself tonight")
    person.page.locator("#new-chat-button").click()
    person.page.get_by_role("button", name="Confirm").click()
    expect(person.page.get_by_text("Welcome back").first).to_be_visible(timeout=20_000)
    assert "findahelpline" in person.last()
    person.say("how do I cite a website?")
    assert "still comes before anything else" in person.last()


def test_a_safety_plan_with_taps_and_words(visit: Callable[..., Visit]) -> None:
    person = visit()
    person.say("I keep thinking everyone would be better off without me")
    person.page.get_by_role("button", name="Make a safety plan").last.click()
    expect(person.page.get_by_text("1 of 6").first).to_be_visible(timeout=20_000)
    person.page.wait_for_timeout(700)
    person.say("I stop answering messages")
    assert "2 of 6" in person.last()
    person.tap("Skip this step")
    assert "3 of 6" in person.last()
    person.tap("Stop here")
    assert "I stop answering messages" in person.last()


def test_risk_survives_a_reload(visit: Callable[..., Visit]) -> None:
    person = visit()
    person.say("I am going to kill myself tonight")
    person.page.reload(wait_until="domcontentloaded")
    expect(person.page.get_by_text("Welcome back").first).to_be_visible(timeout=20_000)
    person.say("how do I cite a website?")
    assert "still comes before anything else" in person.last()


def test_a_double_click_counts_once(visit: Callable[..., Visit]) -> None:
    person = visit()
    person.say(WORRY)
    label = person.choices()[0]
    asked = person.page.get_by_role("button", name=label, exact=True).last
    asked.dblclick()
    person.page.wait_for_timeout(2500)
    assert person.page.locator(".step", has_text=label).count() <= 3
    user_turns = [
        t for t in person.page.locator("[data-step-type=user_message]").all_inner_texts() if label in t
    ]
    assert len(user_turns) == 1


def test_phone_width_shows_help_and_does_not_scroll_sideways(visit: Callable[..., Visit]) -> None:
    person = visit(viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True)
    person.say("I am going to kill myself tonight")
    width = person.page.evaluate("document.documentElement.scrollWidth")
    assert width <= 390
    box = person.page.get_by_role("link", name="Get help now").first.bounding_box()
    assert box and box["y"] < 80 and box["height"] >= 44
    seen = person.page.locator(".ai-message").last.get_by_text("In danger now?").first.bounding_box()
    assert seen and seen["y"] < 844


def test_the_keyboard_reaches_quick_replies_and_help(visit: Callable[..., Visit]) -> None:
    person = visit()
    person.say(WORRY)
    names = []
    for _ in range(30):
        person.page.keyboard.press("Tab")
        names.append(
            person.page.evaluate(
                "(document.activeElement.innerText || document.activeElement.id || '').trim()"
            )
        )
    assert "Get help now" in names and "Prefer not to say" in names


def test_leave_this_page_leaves_nothing_to_go_back_to(visit: Callable[..., Visit]) -> None:
    person = visit()
    person.say(WORRY)
    person.page.get_by_role("button", name="Leave this page").click()
    person.page.wait_for_url("**/leave", timeout=10_000)
    assert person.page.inner_text("body").strip() == ""
    person.page.go_back()
    person.page.wait_for_timeout(1500)
    assert WORRY[:20] not in person.page.content()


@pytest.mark.parametrize("state", ["start", "question", "answer", "crisis"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_violation(visit: Callable[..., Visit], state: str, theme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    person = visit()
    person.page.evaluate(f"localStorage.setItem('vite-ui-theme', '{theme}')")
    person.page.reload(wait_until="domcontentloaded")
    expect(person.page.get_by_text(NAME).first).to_be_visible(timeout=20_000)
    if state in ("question", "answer"):
        person.say(WORRY)
    if state == "answer":
        person.interview()
    if state == "crisis":
        person.say("I am going to kill myself tonight")
    person.page.wait_for_timeout(1200)
    found = Axe().run(person.page)
    assert found.violations_count == 0, found.generate_report()


def test_our_own_pages_pass_axe_and_need_no_script(browser: Any, server: Server) -> None:
    from axe_playwright_python.sync_playwright import Axe

    for path in ("/help", "/help?country=GB", "/about", "/protocol", "/call/999", "/text/85258"):
        context = browser.new_context()
        page = context.new_page()
        page.goto(server.url + path)
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
        context.close()
        bare = browser.new_context(java_script_enabled=False)
        page = bare.new_page()
        page.goto(server.url + path)
        assert page.locator("h1").count() == 1
        bare.close()
    page = browser.new_page(java_script_enabled=False)
    page.goto(server.url + "/help?country=GB")
    assert (
        page.locator("a[href='tel:999']").count() == 1 and page.locator("a[href='tel:116123']").count() >= 1
    )
    page.goto(server.url + "/help")
    page.get_by_role("link", name="crisis protocol").click()
    assert "No clinician has reviewed" in page.inner_text("main")
    page.goto(server.url + "/call/5551234")
    assert page.locator("a[href^='tel:5551234']").count() == 0 and "Get help now" in page.inner_text("h1")
    page.close()


def test_nothing_a_person_wrote_is_in_the_log(visit: Callable[..., Visit]) -> None:
    person = visit()
    person.say("zanzibarquokka is what I call my fear of losing the flat")
    person.page.wait_for_timeout(500)
    assert "zanzibarquokka" not in person.server.log.read_text()
