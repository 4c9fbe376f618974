"""The auditor's page, looked at in Chromium; and the audit of a chat that is running and being used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from bot.observing import observed
from bot.posturing import examined
from bot.settings import read_settings
from bot.web.audit_page import audit_page
from privacy.retention import RetentionSweep
from privacy.vault import new_master_key
from tests.conftest import Clock, keeping_in
from tests.e2e.conftest import ROOT, enrolled, running, sign_in
from tests.e2e.test_data_in_browser import answer, chat
from tests.privacy.test_retention import HOST, fill

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with something in every section, and one finding."""
    folder = tmp_path_factory.mktemp("audit")
    environment = pytest.MonkeyPatch()
    for name in [name for name in os.environ if name.startswith("RAISE_")]:
        environment.delenv(name)
    environment.setenv("RAISE_DATA_DIR", str(folder / "data"))
    clock = Clock()
    keeping: Any = keeping_in(folder / "data", clock=clock, send_to=HOST)
    for day in range(12):
        keeping.call(lambda _, d=day: fill(keeping, clock, f"visitor-{d}"))
        keeping.call(lambda _, d=day: keeping.note_escalation("imminent", True, 40 + d))
        keeping.call(lambda _: RetentionSweep(keeping.swept(), clock().isoformat()).run())
        clock.move(days=1)
    keeping.close()
    (folder / "data" / "keys.db").chmod(0o644)
    settings = read_settings()
    environment.undo()
    with observed(settings) as found:
        posture = examined(settings, found, at=clock(), measures=False)
    page = folder / "report.html"
    page.write_text(audit_page(posture, about={"title": "A pilot", "mode": "study", "release": "0"}))
    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_is_readable_self_contained_and_without_violation(
    scheme: Any, report: Path, browser: Any
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    context = browser.new_context(color_scheme=scheme, viewport={"width": 1000, "height": 900})
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda r: asked.append(r.url))
    page.goto(report.as_uri())
    assert asked == [report.as_uri()], "one file and nothing else"
    assert page.locator("h2").first.inner_text().startswith("Verdict: 1 of")
    assert page.locator(".finding").count() == 1 and "chmod 600" in page.locator(".finding").inner_text()
    assert page.locator("svg").count() == 3 and page.locator("svg rect.good").count() > 15
    assert "built-in" not in page.inner_text("main") and "None" not in page.inner_text("main")
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    context.close()


def test_the_report_prints_and_fits_a_phone(report: Path, browser: Any, tmp_path: Path) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.goto(report.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.pdf(path=tmp_path / "report.pdf", format="A4")
    assert (tmp_path / "report.pdf").stat().st_size > 10_000
    context.close()


def ran(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("RAISE_", "CHAINLIT_"))}
    env |= {"RAISE_DATA_DIR": str(folder / "data")}
    return subprocess.run(
        [sys.executable, "-c", "from bot.cli import main; main()", "privacy", *words], cwd=ROOT, env=env,
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_chat_that_is_running_sweeps_hands_out_its_head_and_passes_the_audit(
    browser: Any, tmp_path: Path
) -> None:
    settings = {
        "RAISE_MODE": "study", "RAISE_MASTER_KEYS": new_master_key(), "RAISE_COUNTRY": "GB",
        "RAISE_STUDY_TITLE": "A pilot", "RAISE_STUDY_CONTACT": "Dr Example", "RAISE_ETHICS_REFERENCE": "EC 1",
    }  # fmt: skip
    context = browser.new_context(viewport={"width": 1000, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    with running(tmp_path, **settings) as made:
        sign_in(page, made.url, *enrolled(tmp_path, 1, **settings)[0])
        answer(page, made.url, yes={"chat", "keep", "research"})
        chat(page, made, "how do I ask for a day off?")
        heads = tmp_path / "data" / "audit-heads.txt"
        for _ in range(50):
            if heads.exists():
                break
            time.sleep(0.2)
        assert heads.exists(), "swept at start"
        done = ran(tmp_path, "audit", "--json", "--quick")
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr
        raw = json.loads(done.stdout)
        assert raw["sweeps"][0]["finished_at"] and raw["log"]["heads"] >= 1
        assert raw["log"]["kinds"].keys() >= {
            "consent",
            "session",
            "decision",
            "purge",
            "policy",
            "configuration",
        }
        assert ran(tmp_path, "verify-log").returncode == 0
        assert ran(tmp_path, "due").returncode == 0
        assert json.loads(ran(tmp_path, "purge", "--dry-run", "--json").stdout)["due"] == []
    context.close()
