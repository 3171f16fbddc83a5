"""The viewer in a real browser: what a person sees and does, and how it looks (cases 163, 166)."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
from browser_window import Open, Window
from viewer_rig import attempt_id

pytestmark = (
    pytest.mark.long
)  # what of it others have to prove as well, tests without a browser do (`tests/unit/viewer`)


@pytest.fixture
def window(opened: Open, viewer: str) -> Window:
    return opened(viewer)


def rows(page: Any, body: str = "runs") -> list[str]:
    return page.locator(f"#{body} th").all_inner_texts()


def test_runs_are_filtered_and_sorted(window: Window, viewer: str) -> None:
    page = window.page
    page.goto(viewer)
    assert sorted(rows(page)) == ["high", "hostile", "low"]
    window.shoot("runs")
    page.get_by_role("searchbox").fill("model-low")
    page.get_by_role("searchbox").press("Enter")
    page.wait_for_url("**q=model-low**")
    assert rows(page) == ["low"]
    page.goto(viewer)
    page.get_by_role("link", name="passed").click()
    assert rows(page)[:2] == ["low", "high"]
    page.get_by_role("link", name="passed").click()
    assert rows(page).index("high") < rows(page).index("low")
    assert page.locator("th[aria-sort=descending]").inner_text().startswith("passed")
    page.goto(f"{viewer}/?q=nothing-has-this-name")
    assert "no run is here that fits" in page.inner_text("main")


def test_a_run_leads_to_its_attempts_and_back(window: Window, viewer: str) -> None:
    page = window.page
    page.goto(viewer)
    page.get_by_role("link", name="low", exact=True).click()
    assert "incomplete (3/12 passed, 1 errored)" in page.locator(".headline").inner_text()  # spec 09 M1
    window.shoot("run")
    page.locator(".counts").get_by_role("link").filter(has_text="failed").click()
    assert len(rows(page, "grid")) == 8
    page.get_by_role("link", name="attempt 0: failed").first.click()
    assert page.locator("h1").inner_text().startswith("sort/03")
    window.shoot("attempt")
    page.go_back()
    assert len(rows(page, "grid")) == 8, "where the reader was"
    page.goto(f"{viewer}/run/m_b_h/low")
    page.get_by_role("link", name=re.compile("lanes")).first.click()
    page.wait_for_selector("svg")
    window.shoot("lanes")


def test_M4_two_runs_are_chosen_and_compared(window: Window, viewer: str) -> None:
    page = window.page
    page.goto(viewer)
    page.get_by_role("checkbox", name="compare low").check()
    page.get_by_role("checkbox", name="compare high").check()
    page.get_by_role("button", name="compare the chosen runs").click()
    text = page.inner_text("main")
    assert "B against A" in text
    assert "identities differ in: model." in text
    window.shoot("compare")


@pytest.mark.parametrize(
    "address", ["/", "/run/m_b_h/low", "/lanes/m_b_h/low", "/compare?run=m_b_h/low&run=m_b_h/high"]
)
def test_pages_have_the_names_and_roles_that_readers_of_screens_need(
    window: Window, viewer: str, address: str, results: tuple[Path, str]
) -> None:
    page = window.page
    page.goto(viewer + address)
    assert page.get_by_role("main").count() == 1
    assert page.get_by_role("heading", level=1).count() == 1
    levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3,h4')].map(one => +one.tagName[1])")
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels)), "none is left out"
    tables = page.get_by_role("table")
    for n in range(tables.count()):
        assert tables.nth(n).locator("caption").inner_text().strip()
        assert tables.nth(n).locator("th:not([scope])").count() == 0
    nameless = [line for line in page.locator("body").aria_snapshot().splitlines() if NAMELESS.match(line)]
    assert nameless == []
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(one => one.id)")
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_in_light_and_dark(opened: Open, viewer: str, results: tuple[Path, str], scheme: str) -> None:
    """Of the text in the pages none has a contrast below 4.5, as WCAG AA asks."""
    window = opened(viewer, color_scheme=scheme)
    places = {
        "runs": "/", "run": "/run/m_b_h/low", "lanes": "/lanes/m_b_h/low",
        "attempt": f"/attempt/{attempt_id(4, 'l')}/m_b_h/low", "hostile": f"/attempt/{results[1]}/m_b_h/hostile",
        "compare": "/compare?run=m_b_h/low&run=m_b_h/high",
    }  # fmt: skip
    faint: list[str] = []
    for name, address in places.items():
        window.page.goto(viewer + address)
        faint += [f"{name}: {one}" for one in window.page.evaluate(CONTRAST)]
        window.shoot(f"{name}-{scheme}")
    assert faint == []


NAMELESS = re.compile(r"\s*- (link|button|checkbox|combobox|searchbox|img|navigation|table)(:|$| \[)")
"""What has a role and no name, as the tree of accessibility is written down."""

CONTRAST = """() => {
  const parts = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const linear = (v) => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => [r, g, b].map((v) => linear(v / 255))
    .reduce((sum, v, n) => sum + v * [.2126, .7152, .0722][n], 0);
  const behind = (one) => { for (; one; one = one.parentElement) {
    const found = parts(getComputedStyle(one).backgroundColor);
    if (found.length === 3 || found[3] === 1) return found; } return [255, 255, 255]; };
  const found = [];
  for (const one of document.querySelectorAll('body *:not(svg *)')) {
    if (![...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim())) continue;
    const [a, b] = [light(parts(getComputedStyle(one).color)), light(behind(one))].sort((x, y) => y - x);
    const contrast = (a + .05) / (b + .05);
    if (contrast < 4.5) found.push(one.className + ' ' + one.textContent.slice(0, 40) + ' ' + contrast.toFixed(2));
  }
  return found;
}"""


def test_the_language_is_chosen_and_kept(window: Window, viewer: str) -> None:
    page = window.page
    page.goto(viewer)
    page.get_by_role("link", name="中文").click()
    assert page.locator("html").get_attribute("lang") == "zh"
    assert page.locator("h1").inner_text() == "运行"
    page.goto(f"{viewer}/run/m_b_h/low")
    assert page.locator("html").get_attribute("lang") == "zh"
    window.shoot("run-chinese")


def test_the_language_of_the_browser_is_taken(opened: Open, viewer: str) -> None:
    window = opened(viewer, locale="zh-CN")
    window.page.goto(viewer)
    assert window.page.locator("h1").inner_text() == "运行"


def test_a_narrow_window_scrolls_tables_and_not_the_page(opened: Open, viewer: str, results: tuple[Path, str]) -> None:
    window = opened(viewer, viewport={"width": 390, "height": 800})
    for name, address in {
        "runs": "/",
        "run": "/run/m_b_h/low",
        "hostile": f"/attempt/{results[1]}/m_b_h/hostile",
    }.items():
        window.page.goto(viewer + address)
        assert window.page.evaluate("document.documentElement.scrollWidth") <= 390, name
        window.shoot(f"narrow-{name}")


def test_case_166_what_is_not_there_leads_back(window: Window, viewer: str) -> None:
    page = window.page
    page.goto(f"{viewer}/run/m_b_h/gone")
    window.faults.clear()  # the browser notes on its console that the answer was 404
    assert "not found" in page.locator("h1").inner_text()
    page.get_by_role("link", name="back to the list of runs").click()
    assert page.url == f"{viewer}/"
