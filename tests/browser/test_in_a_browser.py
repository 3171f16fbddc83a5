"""What only a browser can prove: what hostile text does in one, how a page follows a run, keys, files (case 174).

All that a run of the tests asks of a browser by default is in this module, so that one is started; more is `long`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from browser_window import Open, Window, serving
from viewer_rig import FLAG, LiveRun

from proctor.model.attempt import Verdict
from proctor.viewer.results import Results
from proctor.viewer.site import write_site


@pytest.fixture
def window(opened: Open, viewer: str) -> Window:
    return opened(viewer)


def test_case_174_a_hostile_attempt_is_only_text(window: Window, viewer: str, results: tuple[Path, str]) -> None:
    page = window.page
    for address in ("", "/run/m_b_h/hostile", "/lanes/m_b_h/hostile", f"/attempt/{results[1]}/m_b_h/hostile"):
        page.goto(viewer + address)
        # All that opens is opened, and the mouse and the focus are on everything once: what waits for that acts now.
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        page.evaluate("document.querySelectorAll('*').forEach(one => one.focus && one.focus())")
        assert page.locator("main iframe, main img, main script, main style, main base").count() == 0
        window.is_clean()
    assert f"<script>window.{FLAG}=1</script>" in page.inner_text("main")
    assert "<U+202E>" in page.inner_text("main")
    window.shoot("hostile")
    with page.expect_download() as download:
        page.locator("a[href*='page.html']").first.click()
    assert download.value.suggested_filename == "page.html", "it is saved, never shown"


def test_a_live_run_is_followed_without_losing_the_place(opened: Open, tmp_path: Path) -> None:
    """Case 166: new results appear, and the page stays where it is."""
    live = LiveRun(tmp_path)
    served = serving(tmp_path)
    try:
        window = opened(served.address)
        page = window.page
        page.set_viewport_size({"width": 900, "height": 400})
        page.goto(f"{served.address}/run/m_b_h/live")
        page.locator(".cell.passed").wait_for(state="detached")
        page.evaluate("window.scrollTo(0, 200)")
        live.finish_attempt()
        page.locator(".cell.passed").wait_for()
        assert page.evaluate("window.scrollY") == 200
        live.finish_attempt(Verdict.FAILED)
        page.locator(".cell.failed").wait_for()
        window.shoot("live")
        live.end()
        page.locator("body:not([data-live])").wait_for()
        assert "running" not in page.locator("[data-part=head]").inner_text()
    finally:
        served.end()
        live.close()


def test_everything_is_reached_by_the_keyboard_and_the_focus_is_seen(window: Window, viewer: str) -> None:
    page = window.page
    page.goto(viewer)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.locator(".skip").bounding_box()["x"] >= 0, "it is seen while it has the focus"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    wanted = page.locator("main :is(a, button, input, select)").count()
    reached: list[int] = []
    for _ in range(wanted):
        page.keyboard.press("Tab")
        place, outline = page.evaluate(
            "() => { const all = [...document.querySelectorAll('main :is(a, button, input, select)')];"
            " const style = getComputedStyle(document.activeElement);"
            " return [all.indexOf(document.activeElement), style.outlineStyle + style.outlineWidth]; }"
        )
        reached.append(place)
        assert outline == "solid3px"
    assert reached == list(range(wanted)), "in the order in which they are read"
    page.locator("#runs a").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/run/**")


def test_a_site_is_read_from_its_directory(opened: Open, results: tuple[Path, str], tmp_path: Path) -> None:
    runs = tuple(results[0] / f"m_b_h/{name}" for name in ("low", "high"))
    write_site(Results(results[0], runs), tmp_path / "out")
    site = (tmp_path / "out").as_uri()
    window = opened(site)
    page = window.page
    page.goto(f"{site}/index.html")
    assert page.evaluate("getComputedStyle(document.querySelector('header')).display") == "flex", "its style is there"
    window.shoot("site-runs")
    page.get_by_role("searchbox").press_sequentially("model-high")
    assert page.locator("#runs tr:visible").count() == 1, "its script is there"
    page.locator("#runs a").locator("visible=true").click()
    assert "75.0" in page.locator(".headline").inner_text()
    page.get_by_role("link", name="attempt 0: failed").first.click()
    assert page.locator("h1").inner_text().startswith("sort/09")
    page.get_by_role("link", name="runs").click()
    page.get_by_role("link", name="compare these runs").click()
    assert "against A" in page.inner_text("main")
    window.shoot("site-compare")
