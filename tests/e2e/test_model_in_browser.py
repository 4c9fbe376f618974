"""A model that speaks, seen from the page: streamed, guarded, interrupted. A real server plays it on loopback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.e2e.conftest import Server, running
from tests.e2e.test_chat_in_browser import WORRY, Visit
from tests.models.server import ModelServer
from tests.models.test_speaking import LONG

pytestmark = pytest.mark.browser
FIRST, LAST = "That is a lot to carry at once", "the advice would change"


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    made = ModelServer()
    yield made
    made.close()


@pytest.fixture(scope="module")
def speaking(model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("speaking")
    with running(
        folder, RAISE_MODEL_BASE_URL=model.url, RAISE_MODEL="m", RAISE_MODEL_TURN_SECONDS="60"
    ) as made:
        yield made


@pytest.fixture
def visit(browser: Any, speaking: Server, model: ModelServer) -> Iterator[Callable[..., Visit]]:
    contexts = []
    model.mode, model.answers, model.pause, model.hung_up = {}, {}, 0.3, 0

    def open_page() -> Visit:
        context = browser.new_context(viewport={"width": 1200, "height": 900}, reduced_motion="reduce")
        contexts.append(context)
        return Visit(context.new_page(), speaking)

    yield open_page
    for context in contexts:
        context.close()


def to_the_answer(visit: Visit) -> None:
    """As far as the reply that is being written."""
    visit.say(WORRY)
    for _ in range(6):
        if not visit.choices():
            return
        visit.page.get_by_role("button", name=visit.choices()[0], exact=True).last.click()
        visit.page.wait_for_timeout(1500)
        if FIRST in visit.all():
            return


def test_a_reply_appears_sentence_by_sentence(visit: Callable[..., Visit], model: ModelServer) -> None:
    model.mode, model.pause, model.answers["answer"] = {"answer": "slowly"}, 1.0, LONG
    page = visit()
    to_the_answer(page)
    expect(page.page.get_by_text(FIRST).first).to_be_visible(timeout=20_000)
    assert LAST not in page.all()
    expect(page.page.get_by_text(LAST)).to_be_visible(timeout=20_000)
    expect(page.page.get_by_text("A language model wrote this")).to_be_visible()
    assert page.all().count(FIRST) == 1 and not page.outside and not page.errors


def test_what_the_guard_refuses_is_taken_back(visit: Callable[..., Visit], model: ModelServer) -> None:
    model.mode, model.pause = {"answer": "slowly"}, 0.5
    model.answers["answer"] = LONG.replace("If it gets darker", "Call 0800 555 0199 now. If it gets darker")
    page = visit()
    to_the_answer(page)
    expect(page.page.get_by_text("didn't pass my safety check")).to_be_visible(timeout=20_000)
    assert FIRST not in page.all() and "0800 555 0199" not in page.all()


def test_danger_does_not_wait_for_the_reply(visit: Callable[..., Visit], model: ModelServer) -> None:
    model.mode, model.pause, model.answers["answer"] = {"answer": "slowly"}, 3.0, LONG * 2
    page = visit()
    to_the_answer(page)
    expect(page.page.get_by_text(FIRST).first).to_be_visible(timeout=20_000)
    page.page.locator("#chat-input").fill("I am going to kill myself tonight")
    page.page.keyboard.press("Enter")
    card = page.page.locator(".ai-message", has_text="your life may be in danger")
    expect(card).to_be_visible(timeout=8_000)  # the reply takes half a minute
    expect(card).to_contain_text("In danger now?")


def test_stop_ends_the_reply_and_the_call(visit: Callable[..., Visit], model: ModelServer) -> None:
    model.mode, model.pause, model.answers["answer"] = {"answer": "slowly"}, 1.5, LONG * 3
    page = visit()
    page.page.locator("#chat-input").fill("what goes in the first box on moving day?")
    page.page.keyboard.press("Enter")
    expect(page.page.get_by_text(FIRST).first).to_be_visible(timeout=20_000)
    page.page.locator("#stop-button").click()
    expect(page.page.get_by_text("I've stopped")).to_be_visible(timeout=10_000)
    for _ in range(60):
        if model.hung_up:
            break
        page.page.wait_for_timeout(200)
    assert model.hung_up, "the call to the model was closed"


def test_who_stops_a_message_with_signs_of_danger_sees_help(
    visit: Callable[..., Visit], model: ModelServer
) -> None:
    model.mode = {"assess": "hangs"}
    page = visit()
    page.page.locator("#chat-input").fill(
        "some days I don't want to live any more. what goes in the first box?"
    )
    page.page.keyboard.press("Enter")
    page.page.locator("#stop-button").click()
    told = page.page.locator(".ai-message", has_text="I've stopped")
    expect(told).to_be_visible(timeout=10_000)
    expect(told).to_contain_text("findahelpline.com")


def test_leaving_the_page_forgets_the_visitor_and_ends_the_call(
    visit: Callable[..., Visit], model: ModelServer, speaking: Server
) -> None:
    model.mode, model.pause, model.answers["answer"] = {"answer": "slowly"}, 1.5, LONG * 3
    page = visit()
    to_the_answer(page)
    expect(page.page.get_by_text(FIRST).first).to_be_visible(timeout=20_000)
    page.page.locator("#raise-exit").click()
    for _ in range(60):
        if model.hung_up:
            break
        page.page.wait_for_timeout(200)
    assert model.hung_up
    logged = Path(speaking.log).read_text()
    assert "wife" not in logged and FIRST not in logged
