"""A study in Chromium: two participants in two arms, one operator watching; nothing lost, nothing doubled, nothing told that must stay hidden."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from privacy.vault import new_master_key
from tests.e2e.conftest import command, enrolled, running, sign_in
from tests.e2e.test_chat_in_browser import WORRY
from tests.e2e.test_data_in_browser import answer, say, skip_questions
from tests.models.server import ModelServer
from tests.models.test_speaking import LONG

pytestmark = pytest.mark.browser

STUDY = """
version: "7"
title: A study of zebras
contact: desk@study.example
ethics_reference: E-1
country: GB
closes: 2099-01-01
on_call: {contact: the desk, response: within an hour}
stop_rule: {imminent_a_day: 1}
arms:
  zebra: {kind: raise}
  koala: {kind: vanilla}
  okapi: {kind: context-rich}
questionnaires:
  - name: how-are-you
    title: How you are
    when: [before, after]
    items:
      - {id: now, text: How upset are you right now?, kind: likert, points: 5, low: not at all, high: extremely}
      - {id: words, text: Anything to add?, kind: text}
"""
HIDDEN = re.compile(
    r"zebra|koala|okapi|vanilla|context-rich|arm_never_asks|imminent|elevated|risk_level|\"arm\"|sufficiency",
    re.IGNORECASE,
)


class Recorded:
    """Everything that reaches or stays in one participant's browser."""

    def __init__(self, context: BrowserContext) -> None:
        self.context, self.texts = context, []
        self.page = self.open()

    def open(self) -> Page:
        page = self.context.new_page()
        page.on("websocket", self._socket)
        page.on("response", self._response)
        return page

    def _socket(self, socket: Any) -> None:
        socket.on("framereceived", lambda data: self.texts.append(("frame in", str(data))))
        socket.on("framesent", lambda data: self.texts.append(("frame out", str(data))))

    def _response(self, response: Any) -> None:
        if "/assets/" in response.url or "/public/" in response.url:
            return
        self.texts.append(("headers", response.url + json.dumps(response.headers)))
        try:
            self.texts.append((response.url, response.text()))
        except Exception:  # a redirect has no body
            return

    def everything(self) -> list[tuple[str, str]]:
        stored = self.page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")
        found = [*self.texts, ("storage", stored), ("page", self.page.content())]
        for cookie in self.context.cookies():
            value = cookie["value"]
            parts = value.split(".")
            found.append(("cookie", value))
            if len(parts) == 3:
                import base64

                found.append(("token", base64.urlsafe_b64decode(parts[1] + "===").decode("utf-8", "replace")))
        return found


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[[], Recorded]]:
    contexts = []

    def made() -> Recorded:
        context = browser.new_context(viewport={"width": 1000, "height": 900}, reduced_motion="reduce")
        contexts.append(context)
        return Recorded(context)

    yield made
    for context in contexts:
        context.close()


def deployment(folder: Path, **more: str) -> dict[str, str]:
    path = folder / "study.yaml"
    path.write_text(STUDY)
    return {
        "RAISE_MODE": "study", "RAISE_MASTER_KEYS": new_master_key(), "RAISE_STUDY_FILE": str(path), **more,
    }  # fmt: skip


def enter(page: Page, url: str, person: tuple[str, str]) -> None:
    """Sign in, agree to everything that is asked, skip the questionnaire, and see the chat open."""
    sign_in(page, url, *person)
    answer(page, url, yes={"chat", "keep", "research", "send"})
    page.goto(url + "/", wait_until="domcontentloaded")
    skip_questions(page)
    expect(page.locator(".ai-message").first).to_be_visible(timeout=30_000)


def mine(page: Page) -> list[str]:
    return page.locator("[data-step-type=user_message]").all_inner_texts()


def steps(page: Page) -> list[str]:
    return page.evaluate("[...document.querySelectorAll('[data-step-type]')].map(s => s.innerText.trim())")


def test_two_arms_a_restart_a_lost_network_a_second_device_and_an_operator(
    visit: Callable[[], Recorded], tmp_path: Path
) -> None:
    settings = deployment(tmp_path)
    first, second, device, operator = visit(), visit(), visit(), visit()
    with running(tmp_path, **settings) as made:
        port = int(made.url.rsplit(":", 1)[1])
        one = enrolled(tmp_path, 1, arms="zebra", **settings)[0]
        other = enrolled(tmp_path, 1, arms="koala", **settings)[0]
        staff = json.loads(
            command(tmp_path, "staff", "create", "anna", "--role", "operator", "--json", **settings)
        )
        operator.page.goto(made.url + "/operator")
        operator.page.get_by_label("Name").fill("anna")
        operator.page.get_by_label("Password").fill(staff["password"])
        with operator.page.expect_navigation():
            operator.page.get_by_role("button", name="Sign in").click()
        assert "NOT WELL" not in operator.page.inner_text("main")

        enter(first.page, made.url, one)
        enter(second.page, made.url, other)
        say(first.page, WORRY)
        say(second.page, WORRY)
        assert first.page.locator(".ai-message button[id]").count() > 2, "it asks"
        assert not second.page.get_by_role("button", name="Why do you ask?").count(), "it never asks"
        question = first.page.locator(".ai-message").last.inner_text().split("\n")[0]

        first.page.reload(wait_until="domcontentloaded")
        expect(first.page.get_by_text(question[:40]).first).to_be_visible(timeout=30_000)
        first.page.wait_for_timeout(1_000)
        assert (
            mine(first.page) == [WORRY]
            and first.page.locator(".ai-message", has_text=question[:40]).count() == 1
        )

        operator.page.goto(made.url + "/operator")
        shown = operator.page.inner_text("main")
        assert "Pages open\n2" in shown and "Enrolled\n2" in shown and WORRY not in shown
        assert not re.search(r"zebra\b(?! ?s)|koala", shown.replace("A study of zebras", ""))

    with running(tmp_path, port=port, **settings) as made:
        before = steps(second.page)
        first.page.wait_for_timeout(6_000)  # the open pages find the server again by themselves
        assert mine(first.page) == [WORRY], "nothing is lost or doubled on the page that stayed open"
        assert first.page.locator(".ai-message", has_text=question[:40]).count() == 1
        assert steps(second.page) == before
        say(first.page, "never, that is not me")
        assert first.page.locator(".ai-message").last.inner_text() != question

        enter_again(device.page, made.url, one)
        expect(device.page.get_by_text("never, that is not me").first).to_be_visible(timeout=30_000)
        device.page.wait_for_timeout(1_000)
        assert mine(device.page) == [WORRY, "never, that is not me"]
        here = first.page.locator(".ai-message").last.inner_text()
        assert device.page.locator(".ai-message").last.inner_text() == here, (
            "the same question, with its quick replies"
        )
        say(device.page, "I'd rather not say")
        expect(first.page.locator("[data-step-type=user_message]", has_text="rather not say")).to_have_count(
            1, timeout=15_000
        )
        first.page.wait_for_timeout(1_000)
        assert steps(first.page)[-1] == steps(device.page)[-1], "the other page follows"

        stolen = device.context.cookies()
        device.page.goto(made.url + "/logout")
        with device.page.expect_navigation():
            device.page.get_by_role("button", name="Sign out").click()
        assert device.page.url.endswith("/login")
        device.context.add_cookies(stolen)
        device.page.goto(made.url + "/my-data")
        assert one[0] not in device.page.content(), "a copy of the cookie opens nothing"
        assert device.page.request.get(made.url + "/user").status == 401
        expect(first.page.locator(".ai-message").first).to_be_visible()

        say(second.page, "I am going to kill myself tonight")
        assert "999" in second.page.locator(".ai-message").last.inner_text()
        say(first.page, "I am going to kill myself tonight")
        operator.page.wait_for_timeout(6_500)  # the desk looks every five seconds
        operator.page.goto(made.url + "/operator")
        shown = operator.page.inner_text("main")
        assert other[0] in shown and "NOT ACKNOWLEDGED" in shown and "kill" not in shown
        assert "Enrolment is paused" in shown, "two within a day, and the stop rule allows one"
        operator.page.get_by_role("button", name="Acknowledge").first.click()
        operator.page.wait_for_load_state()
        assert "taken on by anna" in operator.page.inner_text("main")

        operator.page.get_by_label("Code:").first.fill(other[0])
        operator.page.get_by_role("button", name="Sign them out everywhere").click()
        command(tmp_path, "participants", "deactivate", one[0], **settings)
        for person in (second, first):
            person.page.wait_for_timeout(3_000)
            assert "999" in person.page.locator(".ai-message").last.inner_text(), (
                "the card is not taken from anybody"
            )
            assert person.page.request.get(made.url + "/user").status == 401, "and the cookie opens nothing"
            person.page.reload()
            expect(person.page.get_by_label("Study code")).to_be_visible(timeout=15_000)

        new = enrolled(tmp_path, 1, arms="koala", **settings)[0]
        sign_in(device.page, made.url, *new)
        assert "takes nobody new" in device.page.inner_text("main")

    for person, others in ((first, other[0]), (second, one[0])):
        for where, text in person.everything():
            told = text.replace("A study of zebras", "")
            found = HIDDEN.search(told)
            assert not found, (where, told[max(0, found.start() - 80) : found.end() + 80])
            assert others not in text, where


def enter_again(page: Page, url: str, person: tuple[str, str]) -> None:
    sign_in(page, url, *person)
    page.goto(url + "/", wait_until="domcontentloaded")


def test_an_answer_goes_on_when_the_network_is_lost_in_the_middle_of_it(
    visit: Callable[[], Recorded], tmp_path: Path
) -> None:
    model = ModelServer()
    settings = deployment(
        tmp_path, RAISE_MODEL_BASE_URL=model.url, RAISE_MODEL="m", RAISE_MODEL_TURN_SECONDS="60"
    )
    (tmp_path / "study.yaml").write_text(STUDY.replace("{kind: raise}", "{kind: raise, model: m}"))
    text = "That is a lot to carry, and you do it alone. Start with one box. Pack the kitchen last. Ask a friend for an hour."
    with running(tmp_path, **settings) as made:
        person = visit()
        enter(person.page, made.url, enrolled(tmp_path, 1, arms="zebra", **settings)[0])
        model.mode, model.pause, model.answers["answer"] = {"answer": "slowly"}, 0.8, text
        person.page.locator("#chat-input").fill("what goes in the first box on moving day?")
        person.page.keyboard.press("Enter")
        expect(person.page.get_by_text("That is a lot to carry").first).to_be_visible(timeout=30_000)
        person.context.set_offline(True)
        person.page.wait_for_timeout(4_000)
        person.context.set_offline(False)
        expect(person.page.get_by_text("Ask a friend for an hour").first).to_be_visible(timeout=40_000)
        person.page.wait_for_timeout(1_500)
        assert person.page.locator(".ai-message", has_text="That is a lot to carry").count() == 1
        assert len(mine(person.page)) == 1
        sent = json.dumps(model.said)
        assert model.said and "zebra" not in sent and "raise" not in sent.lower(), "no model learns the arm"
    model.close()


def test_a_message_that_was_being_answered_when_the_program_ended_is_answered_after_it(
    visit: Callable[[], Recorded], tmp_path: Path
) -> None:
    model = ModelServer()
    settings = deployment(
        tmp_path, RAISE_MODEL_BASE_URL=model.url, RAISE_MODEL="m", RAISE_MODEL_TURN_SECONDS="60"
    )
    (tmp_path / "study.yaml").write_text(STUDY.replace("{kind: raise}", "{kind: raise, model: m}"))
    person = visit()
    with running(tmp_path, **settings) as made:
        port = int(made.url.rsplit(":", 1)[1])
        enter(person.page, made.url, enrolled(tmp_path, 1, arms="zebra", **settings)[0])
        model.mode, model.pause = {"answer": "slowly"}, 30.0
        model.answers["answer"] = LONG
        person.page.locator("#chat-input").fill("what goes in the first box on moving day?")
        person.page.keyboard.press("Enter")
        person.page.wait_for_timeout(4_000)
        made.kill()
    model.mode, model.pause = {}, 0.0
    with running(tmp_path, port=port, **settings) as made:
        person.page.goto(made.url + "/", wait_until="domcontentloaded")
        answered = person.page.locator(".ai-message", has_text="That is a lot to carry")
        expect(answered.first).to_be_visible(timeout=40_000)
        person.page.wait_for_timeout(1_000)
        assert answered.count() == 1
        assert mine(person.page) == ["what goes in the first box on moving day?"]
    model.close()


def test_a_form_comes_first_in_the_arm_that_has_one_and_danger_in_it_is_answered(
    visit: Callable[[], Recorded], tmp_path: Path
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    settings = deployment(tmp_path)
    with running(tmp_path, **settings) as made:
        calm, hurt = enrolled(tmp_path, 2, arms="okapi", **settings)
        for code, told in ((calm, "34"), (hurt, "I am going to kill myself tonight")):
            page = visit().page
            sign_in(page, made.url, *code)
            answer(page, made.url, yes={"chat", "keep"})
            page.goto(made.url + "/")
            assert Axe().run(page).violations_count == 0, "the questionnaire"
            page.get_by_role("radio", name="5, extremely").check()
            page.get_by_role("button", name="Send").click()
            page.wait_for_load_state()
            assert page.url.endswith("/about-you") and Axe().run(page).violations_count == 0
            page.locator("#age" if told == "34" else "#mental_state").fill(told)
            page.get_by_role("button", name="Go on").click()
            expect(page.locator(".ai-message").first).to_be_visible(timeout=30_000)
            page.wait_for_timeout(1_500)
            last = page.locator(".ai-message").last.inner_text()
            assert ("999" in last) is (told != "34"), last
        told = command(tmp_path, "study", "flow", "--json", **settings)
        assert {(r["step"], r["people"]) for r in json.loads(told)} >= {
            ("allocated", 2),
            ("agreed to keep", 2),
        }


def test_wrong_pins_are_slowed_down_and_nobody_else_is(visit: Callable[[], Recorded], tmp_path: Path) -> None:
    settings = deployment(tmp_path)
    with running(tmp_path, **settings) as made:
        guessed, other = enrolled(tmp_path, 2, arms="zebra", **settings)
        page = visit().page
        for _ in range(5):
            sign_in(page, made.url, guessed[0], "0000 0000")
            assert "don't go together" in page.inner_text("main")
        sign_in(page, made.url, *guessed)
        assert "too many wrong tries" in page.inner_text("main"), "the right PIN too, for half a minute"
        sign_in(page, made.url, other[0].upper().replace("-", " "), other[1].replace(" ", ""))
        assert page.url.endswith("/consent"), "the same address, another person, however they type it"


def test_forms_answer_danger_whoever_sends_them_and_let_in_only_who_may(
    visit: Callable[[], Recorded], tmp_path: Path
) -> None:
    settings = deployment(tmp_path)
    danger = {
        "how-are-you.words": "I am going to kill myself tonight",
        "mental_state": "I am going to kill myself tonight",
    }
    with running(tmp_path, **settings) as made:
        page, origin = visit().page, {"origin": made.url}
        for path in ("/questions/after", "/questions/before", "/about-you"):
            told = page.request.post(made.url + path, form=danger, headers=origin)
            assert told.ok and "999" in told.text(), "nobody is signed in, and it is heard all the same"
        assert page.request.get(made.url + "/thread/x").url.endswith("/login"), (
            "no other path to the chat's page"
        )

        form, chats = (
            enrolled(tmp_path, 1, arms="okapi", **settings)[0],
            enrolled(tmp_path, 1, arms="zebra", **settings)[0],
        )
        sign_in(page, made.url, *form)
        early = {"age": "34", "profession": "lighthouse keeper"}
        page.request.post(made.url + "/about-you", form=early, headers=origin)
        assert "lighthouse" not in page.request.get(made.url + "/my-data/export.json").text(), (
            "nothing before consent"
        )
        answer(page, made.url, yes={"chat"})
        page.goto(made.url + "/")
        assert page.url.endswith("/about-you"), "it is still to be asked"

        page = visit().page
        enter(page, made.url, chats)
        say(page, WORRY)
        with closing(sqlite3.connect(tmp_path / "data" / "study.db", timeout=20)) as db, db:
            db.execute("UPDATE logins SET expires_at = '2026-01-01' WHERE person = ?", [chats[0]])
        expect(page.get_by_label("Study code")).to_be_visible(timeout=15_000)


def test_signing_in_and_the_operators_page_can_be_used_by_everybody(
    visit: Callable[[], Recorded], tmp_path: Path
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    settings = deployment(tmp_path)
    with running(tmp_path, **settings) as made:
        page = visit().page
        page.goto(made.url + "/login")
        assert Axe().run(page).violations_count == 0
        page.set_viewport_size({"width": 390, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.set_viewport_size({"width": 1000, "height": 900})
        for name, role in (("anna", "operator"), ("bea", "auditor"), ("cem", "researcher")):
            staff = json.loads(
                command(tmp_path, "staff", "create", name, "--role", role, "--json", **settings)
            )
            page.context.clear_cookies()
            page.goto(made.url + "/operator")
            page.get_by_label("Name").fill(name)
            page.get_by_label("Password").fill(staff["password"])
            with page.expect_navigation():
                page.get_by_role("button", name="Sign in").click()
            assert Axe().run(page).violations_count == 0, role
            assert bool(page.get_by_role("button", name="Pause enrolment").count()) is (role == "operator")
            told = page.request.post(
                made.url + "/operator/read",
                form={"person": "aaaa-bbbb", "why": "safety"},
                headers={"origin": made.url},
            )
            assert (told.status == 403) is (role != "operator"), "nobody else reads"
        command(tmp_path, "staff", "remove", "cem", **settings)
        page.goto(made.url + "/operator")
        assert page.get_by_label("Password").count(), "an account that is gone sees nothing"
