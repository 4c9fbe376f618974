"""The benchmark's report, looked at in Chromium: one file, readable in light and dark, on a phone and on paper."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from policies.attributes import Attribute
from policies.penguin.judging import HeuristicJudge
from policies.penguin.page import page as report_page
from policies.penguin.reporting import result
from tests.policies.penguin.test_running import AskingChat, FussyJudge, ran

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs: one that a model judged, with failures, and one of the heuristic."""
    folder = tmp_path_factory.mktemp("penguin")

    async def both() -> None:
        chat = AskingChat([Attribute.EMOTION, Attribute.AGE])
        await ran(
            folder / "judged",
            ["raise", "vanilla", "context-rich"],
            chat=chat,
            judge=FussyJudge(["health-01"]),
        )
        await ran(folder / "demo", ["raise", "no-abstention"], judge=HeuristicJudge())

    with ThreadPoolExecutor(1) as aside:  # Playwright's loop runs in this thread
        aside.submit(lambda: asyncio.run(both())).result()
    page = folder / "report.html"
    page.write_text(report_page([result(folder / "judged"), result(folder / "demo")]))
    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_is_one_file_and_without_violation(scheme: Any, report: Path, browser: Any) -> None:
    from axe_playwright_python.sync_playwright import Axe

    context = browser.new_context(color_scheme=scheme, viewport={"width": 1000, "height": 900})
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda r: asked.append(r.url))
    page.goto(report.as_uri())
    assert asked == [report.as_uri()], "one file and nothing else"
    assert page.locator("[role=note]", has_text="Not evidence").count() == 1
    assert page.locator("svg").count() == 9 and page.locator("details[open]").count() == 2
    assert "not decisive" in page.inner_text("main") and "rate limited" in page.inner_text("main")
    page.locator("details").nth(1).locator("summary").click()
    assert page.locator("details").nth(1).locator(".case").count() == 3
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    context.close()


def test_the_report_fits_a_phone_and_prints(report: Path, browser: Any, tmp_path: Path) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.goto(report.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.pdf(path=tmp_path / "report.pdf", format="A4")
    assert (tmp_path / "report.pdf").stat().st_size > 10_000
    context.close()
