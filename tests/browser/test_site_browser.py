"""The static site in a real browser, opened from its directory, without a server."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urljoin

import pytest
from browser_window import Open, Window
from viewer_rig import FLAG

from proctor.viewer.results import Results
from proctor.viewer.site import write_site

pytestmark = pytest.mark.long  # `tests/unit/viewer/test_site.py` follows every link without a browser


@pytest.fixture(scope="session")
def site(results: tuple[Path, str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of the directory of a site."""
    out = tmp_path_factory.mktemp("site") / "out"
    write_site(Results(results[0]), out)
    return out.as_uri()


@pytest.fixture
def window(opened: Open, site: str) -> Window:
    return opened(site)


def test_every_page_of_a_site_opens_and_nothing_acts(window: Window, site: str, results: tuple[Path, str]) -> None:
    """Case 174: also the hostile attempt, and the file that a sandbox named `page.html`."""
    page = window.page
    seen: set[str] = set()
    waiting = [f"{site}/index.html"]
    while waiting:
        address = waiting.pop()
        if address in seen:
            continue
        seen.add(address)
        page.goto(address)
        window.is_clean()
        assert page.title().endswith("· proctor")
        links = page.evaluate("[...document.querySelectorAll('a')].map(one => one.getAttribute('href'))")
        found = [urljoin(address, link).partition("#")[0] for link in links]
        waiting += [link for link in found if link.endswith(".html")]
    assert len(seen) > 30
    page.goto(next(each for each in seen if results[1] in each))
    with page.expect_navigation():
        page.get_by_role("link", name="artifacts/page.html").evaluate("one => location.assign(one.href)")
    assert page.content().count("&lt;script&gt;") == 1, "it is shown as text"
    assert page.evaluate(f"window.{FLAG}") is None


def test_a_site_is_dark_where_the_reader_wants_it(opened: Open, site: str) -> None:
    window = opened(site, color_scheme="dark")
    window.page.goto(f"{site}/index.html")
    found = window.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(map(int, re.findall(r"\d+", found))) < 60
