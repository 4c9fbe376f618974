"""Consent, refusal, *My data*, correction, export, erasure, withdrawal in mid-answer, restart in mid-question: in a browser."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from privacy.vault import new_master_key
from tests.e2e.conftest import ROOT, Server, enrolled, running, sign_in
from tests.e2e.test_chat_in_browser import WORRY, Visit
from tests.models.server import ModelServer
from tests.models.test_speaking import LONG

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("study")
    path = folder / "study.yaml"
    ours = (ROOT / "policies" / "study.yaml").read_text()
    path.write_text(
        ours.replace("imminent_a_day: 3", "imminent_a_day: 500")
    )  # these tests say worse in a minute
    settings = {
        "RAISE_MODE": "study", "RAISE_MASTER_KEYS": new_master_key(), "RAISE_COUNTRY": "GB",
        "RAISE_STUDY_FILE": str(path),
    }  # fmt: skip
    with running(folder, **settings) as made:
        made.people = enrolled(folder, 60, **settings)
        yield made


@pytest.fixture
def page(browser: Any, study: Server) -> Iterator[Page]:
    """A participant who has just signed in, for the first time."""
    context = browser.new_context(viewport={"width": 1000, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    sign_in(page, study.url, *study.people.pop())
    assert not page.url.endswith("/login"), page.inner_text("main")
    yield page
    context.close()


def answer(page: Page, url: str, *, yes: set[str]) -> list[str]:
    """Go through the consent dialogue; the questions in order."""
    asked = []
    page.goto(url + "/")
    for _ in range(8):
        if not page.locator("form.choice").count():
            break
        scope = str(page.locator("form.choice input[name=scope]").get_attribute("value"))
        asked.append(scope)
        page.locator("form.choice").get_by_role(
            "button", name="Yes" if scope in yes else "No", exact=True
        ).click()
        page.wait_for_load_state()
    return asked


def skip_questions(page: Page) -> None:
    """The questionnaire of the example study, which comes after a yes to keeping."""
    if page.get_by_role("button", name="Skip", exact=True).count():
        page.get_by_role("button", name="Skip", exact=True).click()
        page.wait_for_load_state()


def chat(page: Page, study: Server, text: str) -> None:
    page.goto(study.url + "/", wait_until="domcontentloaded")
    skip_questions(page)
    expect(page.locator(".ai-message").first).to_be_visible(timeout=30_000)
    say(page, text)


def say(page: Page, text: str) -> None:
    before = page.locator(".ai-message").count()
    page.locator("#chat-input").fill(text)
    page.keyboard.press("Enter")
    page.wait_for_function(
        "n => document.querySelectorAll('.ai-message').length > n", arg=before, timeout=20_000
    )
    page.wait_for_timeout(900)


def test_a_study_asks_scope_by_scope_before_the_chat_opens(page: Page, study: Server) -> None:
    page.goto(study.url + "/")
    assert page.url.endswith("/consent")
    asked = answer(page, study.url, yes={"chat", "keep"})
    assert asked == ["chat", "keep", "research", "contact"], "no outside model, no question about sending"
    expect(page.get_by_text("Keep my answers: yes")).to_be_visible()
    page.get_by_role("link", name="Go to the chat").click()
    page.wait_for_load_state()
    skip_questions(page)
    expect(page.locator(".ai-message").first).to_be_visible(timeout=30_000)


@pytest.mark.parametrize("refused", ["keep", "research", "contact"])
def test_saying_no_to_a_scope_changes_nothing_else(refused: str, page: Page, study: Server) -> None:
    answer(page, study.url, yes={"chat", "keep", "research", "contact"} - {refused})
    chat(page, study, WORRY)
    assert page.locator(".ai-message button[id]").count() > 2
    page.goto(study.url + "/my-data")
    held = page.inner_text("main")
    assert ("A conversation, so that it can go on" in held) is (refused != "keep")


def test_who_refuses_to_chat_is_shown_help_and_can_come_back(page: Page, study: Server) -> None:
    assert answer(page, study.url, yes=set()) == ["chat"]
    assert "We don't start a chat" in page.inner_text("main")
    assert page.get_by_role("link", name="Get help now").count() >= 1
    page.goto(study.url + "/")
    assert page.url.endswith("/consent")


def test_my_data_shows_corrects_exports_and_erases_with_a_receipt(
    page: Page, study: Server, tmp_path: Path
) -> None:
    answer(page, study.url, yes={"chat", "keep", "research"})
    chat(page, study, "my wife Zebulonia left and I've stopped going to work, what do I do?")
    say(page, "low most days, not sleeping")
    page.goto(study.url + "/my-data")
    held = page.inner_text("main")
    assert "Zebulonia" in held, "their own words, back in the place of the placeholder"
    assert "It goes on" in held and "You" in held
    form = page.locator("form[action='/my-data/correct']").first
    attribute = form.locator("input[name=attribute]").get_attribute("value")
    form.locator("input[name=value]").fill("much better since spring")
    form.get_by_role("button").click()
    assert "much better since spring" in page.inner_text("main") and attribute
    with page.expect_download() as download:
        page.get_by_role("link", name="For a program (JSON)").click()
    download.value.save_as(tmp_path / "mine.json")
    mine = json.loads((tmp_path / "mine.json").read_text())
    assert {row["kind"] for row in mine["held"]} >= {
        "sessions",
        "attributes",
        "turns",
        "decisions",
        "consents",
    }
    page.goto(study.url + "/my-data/export.html")
    assert "What is held about you" in page.inner_text("main")
    page.goto(study.url + "/my-data")
    page.get_by_role("button", name="Erase everything").click()
    page.get_by_role("button", name="Yes, erase everything").click()
    shown = page.inner_text("main")
    assert "Erased" in shown and "nothing of it is left" in shown and "Copies we cannot reach" in shown
    receipt = json.loads(page.inner_text("#receipt"))
    assert receipt["counts"]["turns"] >= 2 and receipt["residue"]["found"] == 0
    data = study.log.parent / "data"
    raw = b"".join(p.read_bytes() for p in data.rglob("*") if p.is_file())
    assert b"Zebulonia" not in raw
    page.goto(study.url + "/my-data")
    assert "Nothing is held of you here" in page.inner_text("main")


def test_refusing_to_send_keeps_every_word_here_and_the_chat_answers(browser: Any, tmp_path: Path) -> None:
    settings = {
        "RAISE_MODE": "study", "RAISE_MASTER_KEYS": new_master_key(), "RAISE_COUNTRY": "GB",
        "RAISE_MODEL_BASE_URL": "https://model.invalid/v1", "RAISE_MODEL": "m", "RAISE_MODEL_API_KEY": "k",
    }  # fmt: skip
    context = browser.new_context(viewport={"width": 1000, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    with running(tmp_path, **settings) as made:
        sign_in(page, made.url, *enrolled(tmp_path, 1, **settings)[0])
        page.goto(made.url + "/")
        asked = answer(page, made.url, yes={"chat", "keep"})
        assert asked[:2] == ["chat", "send"], asked
        chat(page, made, "how do I ask for a day off?")
        assert "small built-in model" in page.locator(".ai-message").last.inner_text()
        page.goto(made.url + "/my-data")
        held = page.inner_text("main")
        assert "A conversation, so that it can go on" in held
        assert "Text that was sent to a model" not in held
        assert "model.invalid" not in made.log.read_text(), "nobody tried to reach it"
    context.close()


def test_an_answer_is_rated_with_a_tap_and_a_sentence_and_can_be_erased(page: Page, study: Server) -> None:
    from axe_playwright_python.sync_playwright import Axe

    answer(page, study.url, yes={"chat", "keep"})
    chat(page, study, "how do I ask for a day off?")
    page.get_by_role("button", name="This didn't help", exact=True).click()
    more = page.get_by_role("link", name="say more").last
    expect(more).to_be_visible(timeout=10_000)
    assert not page.get_by_role("button", name="This helped", exact=True).count(), "one tap, then it is done"
    page.goto(study.url + str(more.get_attribute("href")))
    assert Axe().run(page).violations_count == 0
    page.get_by_label("What was good").fill("Brunhilda Oakenshaw would have known")
    page.get_by_role("button", name="Send").click()
    assert "noted" in page.inner_text("main")
    page.goto(study.url + "/my-data")
    card = page.locator("article", has_text="What you said of an answer")
    assert "it didn't help" in card.inner_text() and "Brunhilda" in card.inner_text()
    card.get_by_role("button", name="Erase this").click()
    page.goto(study.url + "/my-data")
    assert "What you said of an answer" not in page.inner_text("main")


def test_a_note_that_tells_of_danger_is_answered_with_help(page: Page, study: Server) -> None:
    answer(page, study.url, yes={"chat", "keep"})
    chat(page, study, "how do I ask for a day off?")
    page.get_by_role("button", name="This helped", exact=True).click()
    more = page.get_by_role("link", name="say more").last
    expect(more).to_be_visible(timeout=10_000)
    page.goto(study.url + str(more.get_attribute("href")))
    page.get_by_label("What was good").fill("doesn't matter, I am going to kill myself tonight")
    page.get_by_role("button", name="Send").click()
    shown = page.inner_text("main")
    assert "999" in shown and page.locator("main a[href^='tel:']").count() >= 1
    assert page.locator("main strong").count() or "**" not in shown


@pytest.mark.parametrize(
    "form",
    [
        {"turn": "1", "rate": "helped"}, {"turn": "99", "rate": "helped"}, {"turn": "1", "rate": "maybe"}, {"turn": "1"}, {},
        {"turn": "one", "rate": "not"}, {"turn": "9" * 5000, "rate": "not"}, {"turn": "-1", "rate": "not", "other": "x"},
    ],
)  # fmt: skip
@pytest.mark.parametrize("known", [True, False])
def test_whatever_is_wrong_with_the_form_a_note_is_screened(
    form: dict[str, str], known: bool, page: Page, study: Server
) -> None:
    if known:
        answer(page, study.url, yes={"chat", "keep"})
    for note in ("I am going to kill myself tonight", "x " * 3000 + " I am going to kill myself tonight"):
        told = page.request.post(study.url + "/feedback", form={**form, "note": note})
        assert told.ok and "999" in told.text() and "/help" in told.text()
    told = page.request.post(study.url + "/feedback", form={**form, "note": "all fine"})
    assert told.ok and "/help" in told.text()


def test_a_page_of_feedback_of_nothing_shows_help(page: Page, study: Server) -> None:
    for query in ("", "?turn=0", "?turn=" + "9" * 5000, "?turn=x&rate=y"):
        told = page.request.get(study.url + "/feedback" + query)
        assert told.ok and "Get help now" in told.text()


def test_who_agreed_to_nothing_but_chatting_is_not_asked_to_rate(page: Page, study: Server) -> None:
    answer(page, study.url, yes={"chat"})
    chat(page, study, "how do I ask for a day off?")
    assert not page.get_by_role("button", name="This helped", exact=True).count()


def test_one_answer_can_be_erased(page: Page, study: Server) -> None:
    answer(page, study.url, yes={"chat", "keep"})
    chat(page, study, WORRY)
    say(page, "low most days, not sleeping")
    page.goto(study.url + "/my-data")
    card = page.locator("article", has_text="An answer of yours").first
    label = card.locator("h3").inner_text()
    card.get_by_role("button", name="Erase this").click()
    assert "One of attributes" in page.inner_text("main")
    page.goto(study.url + "/my-data")
    assert label not in page.inner_text("main")


def test_a_person_comes_back_in_mid_question_after_a_restart(browser: Any, tmp_path: Path) -> None:
    key = new_master_key()
    context = browser.new_context(viewport={"width": 1000, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    settings = {"RAISE_MODE": "study", "RAISE_MASTER_KEYS": key, "RAISE_COUNTRY": "GB"}
    with running(tmp_path, **settings) as first:
        port = first.url.rsplit(":", 1)[1]
        sign_in(page, first.url, *enrolled(tmp_path, 1, **settings)[0])
        answer(page, first.url, yes={"chat", "keep"})
        chat(page, first, WORRY)
        question = page.locator(".ai-message").last.inner_text().split("\n")[0]
    with running(tmp_path, port=int(port), **settings) as second:
        page.goto(second.url + "/", wait_until="domcontentloaded")
        expect(page.get_by_text(question[:40]).first).to_be_visible(timeout=30_000)
        page.wait_for_timeout(900)
        assert question[:40] in page.locator(".ai-message").last.inner_text()
        assert page.locator(".ai-message", has_text=question[:40]).count() == 1, "nothing is doubled"
        assert page.locator("[data-step-type=user_message]").all_inner_texts() == [WORRY], "nothing is lost"
        say(page, "I'd rather not say")
        assert page.locator(".ai-message").last.inner_text()
    context.close()


def test_a_reload_goes_on_where_it_was(visit_demo: Callable[[], Visit]) -> None:
    person = visit_demo()
    person.say(WORRY)
    question = person.last().split("\n")[0]
    person.page.reload(wait_until="domcontentloaded")
    expect(person.page.get_by_text(question[:40]).first).to_be_visible(timeout=20_000)
    person.page.wait_for_timeout(900)
    assert question[:40] in person.last() and person.choices()
    assert person.page.locator(".ai-message", has_text=question[:40]).count() == 1
    assert len(person.choices()) == len(set(person.choices()))


@pytest.fixture
def visit_demo(browser: Any, server: Server) -> Iterator[Callable[[], Visit]]:
    contexts = []

    def open_page() -> Visit:
        context = browser.new_context(viewport={"width": 1000, "height": 900}, reduced_motion="reduce")
        contexts.append(context)
        return Visit(context.new_page(), server)

    yield open_page
    for context in contexts:
        context.close()


def test_withdrawing_in_mid_answer_cancels_the_call_and_keeps_nothing_of_it(
    browser: Any, tmp_path: Path
) -> None:
    model = ModelServer()
    settings = {
        "RAISE_MODE": "study", "RAISE_MASTER_KEYS": new_master_key(), "RAISE_MODEL_BASE_URL": model.url,
        "RAISE_MODEL": "m", "RAISE_COUNTRY": "GB", "RAISE_MODEL_TURN_SECONDS": "60",
    }  # fmt: skip
    context = browser.new_context(viewport={"width": 1000, "height": 900}, reduced_motion="reduce")
    page, other = context.new_page(), context.new_page()
    with running(tmp_path, **settings) as made:
        sign_in(page, made.url, *enrolled(tmp_path, 1, **settings)[0])
        answer(page, made.url, yes={"chat", "keep", "research"})
        page.goto(made.url + "/")
        skip_questions(page)
        model.mode, model.pause, model.answers["answer"] = {"answer": "slowly"}, 2.0, LONG * 3
        page.goto(made.url + "/", wait_until="domcontentloaded")
        expect(page.locator(".ai-message").first).to_be_visible(timeout=30_000)
        page.locator("#chat-input").fill("what goes in the first box on moving day?")
        page.keyboard.press("Enter")
        expect(page.get_by_text("That is a lot to carry").first).to_be_visible(timeout=30_000)
        other.goto(made.url + "/my-data")
        other.get_by_role("button", name="Take back every yes").click()
        for _ in range(60):
            if model.hung_up:
                break
            page.wait_for_timeout(200)
        assert model.hung_up, "the call was cancelled"
        page.wait_for_timeout(800)
        other.goto(made.url + "/my-data")
        shown = other.inner_text("main")
        assert "Keep my answers: no" in shown and "A message and what came of it" not in shown
    context.close()
    model.close()


@pytest.mark.parametrize("path", ["/consent", "/my-data"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation_and_nothing_leaves_the_origin(
    path: str, scheme: Any, browser: Any, study: Server
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    context = browser.new_context(color_scheme=scheme, java_script_enabled=True)
    page = context.new_page()
    outside: list[str] = []
    page.on("request", lambda r: outside.append(r.url) if not r.url.startswith(study.url) else None)
    if path == "/my-data":
        answer(page, study.url, yes={"chat", "keep"})
    page.goto(study.url + path)
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    assert outside == []
    context.close()
