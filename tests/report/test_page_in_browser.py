"""The page in a real browser: it draws, switches, reads out and sorts, fetches nothing and complains about nothing.

Skipped where playwright or a Chromium is not installed; neither is downloaded.
"""

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from report_cases import EVIL, write_all
from sureprox.report.page import gather, page

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PATIENCE = 120_000  # milliseconds; on a busy machine nothing is as quick as playwright expects


@dataclass
class Opened:
    page: Any
    complaints: list[str] = field(default_factory=list)  # of the console, and of scripts that failed
    requests: list[str] = field(default_factory=list)

    def figure(self, number: int) -> Any:
        return self.page.locator(f"section[id^=fig{number}-]")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip(f"no browser is installed (looked for {', '.join(BROWSERS)})")
    root = hasattr(os, "geteuid") and os.geteuid() == 0  # as root Chromium starts only without its sandbox
    with api.sync_playwright() as playwright:
        options = {"executable_path": path, "args": ["--no-sandbox"] if root else [], "timeout": PATIENCE}
        started = playwright.chromium.launch(**options)
        yield started
        started.close()


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Opened]:
    """A page whose records have names that try to be markup."""
    write_all(tmp_path / "records", EVIL)
    target = tmp_path / "report.html"
    target.write_text(page(gather([tmp_path / "records"])), encoding="utf-8")
    context = browser.new_context(viewport={"width": 1300, "height": 900})
    context.set_default_timeout(PATIENCE)
    seen = Opened(context.new_page())
    seen.page.on("console", lambda message: seen.complaints.append(message.text))
    seen.page.on("pageerror", lambda error: seen.complaints.append(str(error)))
    seen.page.on("dialog", lambda dialog: seen.complaints.append(f"dialog {dialog.message}"))
    seen.page.on("request", lambda request: seen.requests.append(request.url))
    seen.page.goto(target.as_uri())
    yield seen
    context.close()
    assert seen.complaints == []
    assert seen.requests == [target.as_uri()]


def curves(place: Any) -> int:
    return place.locator("path.curve").count()


def test_every_curve_is_drawn_and_divergence_is_marked(opened: Opened) -> None:
    assert curves(opened.figure(1)) == 10
    assert curves(opened.figure(3)) == 4 * 3 * 2
    assert opened.page.locator("figure.chart svg.plot").count() == 1 + 4 + 2 + 1 + 1 + 1
    drawn = opened.page.locator("path.curve").evaluate_all("paths => paths.map(p => p.getAttribute('d'))")
    assert all(re.fullmatch(r"(?:[MLHV][-\d. ]+)+", path) for path in drawn)  # numbers, no NaN
    note = opened.figure(1).locator(".escapes li").all_inner_texts()
    assert note == ["▲ L2O-PA: leaves at k = 4: diverges, 4 of 4 not finite"]  # 100 * 2^4 > 1e3
    assert opened.figure(1).locator(".escape").count() == 1
    triangle, plot = (opened.figure(1).locator(name).bounding_box() for name in (".escape", "svg.plot"))
    assert triangle["y"] - plot["y"] < 20  # at the upper edge
    assert opened.figure(3).locator(".escapes li").count() == 4 * 2


def test_curves_can_be_switched_off_and_on(opened: Opened) -> None:
    figure = opened.figure(1)
    button = figure.locator(".legend button", has_text="L2O-PA")
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert curves(figure) == 9
    assert figure.locator(".escape").count() == 0
    button.press("Enter")  # by keyboard as well
    assert curves(figure) == 10
    figure.get_by_role("button", name="none").click()
    assert curves(figure) == 0
    figure.get_by_role("button", name="all", exact=True).click()
    assert curves(figure) == 10
    opened.figure(3).locator(".legend button", has_text="GO-Math-L2O").click()
    assert curves(opened.figure(3)) == 4 * 2 * 2  # both signs, in every panel


def test_axes_statistic_and_band_can_be_chosen(opened: Opened) -> None:
    figure = opened.figure(1)
    path = figure.locator("path.curve").nth(1)
    before = path.get_attribute("d")
    assert "10⁻⁸" in figure.locator("svg.plot text").all_text_contents()
    figure.locator("[data-control=y] button", has_text="linear").click()
    assert path.get_attribute("d") != before
    assert "10⁻⁸" not in figure.locator("svg.plot text").all_text_contents()
    figure.locator("[data-control=y] button", has_text="log").click()
    assert path.get_attribute("d") == before
    figure.locator("[data-control=x] button", has_text="linear").click()
    assert path.get_attribute("d") != before
    assert figure.locator("path.band").count() == 0
    figure.locator("[data-control=band] button").click()
    assert figure.locator("path.band").count() == 10
    median = figure.locator("[data-control=statistic] button", has_text="median")
    median.click()
    assert median.get_attribute("aria-pressed") == "true"


def test_values_are_read_out_by_pointer_and_keys(opened: Opened) -> None:
    figure = opened.figure(1)
    figure.locator("[data-control=x] button", has_text="linear").click()  # a logarithmic axis begins at 1
    plot = figure.locator("svg.plot")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    opened.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert figure.locator(".readout div").count() == 10
    opened.page.mouse.move(2, 2)
    assert figure.locator(".readout").count() == 0
    plot.focus()
    plot.press("Home")
    assert figure.locator(".readout b").inner_text() == "k = 0"
    plot.press("ArrowRight")
    assert figure.locator(".readout b").inner_text() == "k = 1"
    rows = dict(row.rsplit("\n", 1) for row in figure.locator(".readout div").all_inner_texts())
    assert rows["● L2O-PA"] == "200"  # 100 * 2
    assert "L2O-PA 200" in figure.locator("[aria-live]").inner_text()
    plot.press("Escape")
    assert figure.locator(".readout").count() == 0


def test_tables_can_be_sorted(opened: Opened) -> None:
    table = opened.page.locator("#battery table").first
    opened.page.locator("#battery details summary").first.click()
    kinds = opened.page.locator("#battery details table").first

    def column(place: Any, number: int) -> list[str]:
        return place.locator(f"tbody td:nth-child({number})").all_inner_texts()

    heading = kinds.locator("th", has_text="1e-6")
    heading.locator("button").click()
    assert column(kinds, 7) == ["20", "30", "50", "100"]
    assert heading.get_attribute("aria-sort") == "ascending"
    heading.locator("button").click()
    assert column(kinds, 7) == ["100", "50", "30", "20"]
    assert column(table, 4) == ["2.00", "1.50"]  # 100 over 50, 30 over 20


def test_small_and_dark_screens(opened: Opened) -> None:
    opened.page.emulate_media(color_scheme="dark")
    opened.page.set_viewport_size({"width": 380, "height": 800})
    opened.page.wait_for_function("document.querySelector('svg.plot').viewBox.baseVal.width < 380")
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 380
    assert curves(opened.figure(3)) == 24
    ink = opened.figure(1).locator("path.curve").last.evaluate("path => getComputedStyle(path).stroke")
    assert ink == "rgb(232, 235, 238)"  # black curves are light on a dark page
