"""A real Chromium over the viewer. Tests are skipped where it is not there, each with the reason."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parent))
from browser_window import Open, Window, serving
from viewer_rig import make_results

SCREENSHOTS = "PROCTOR_SCREENSHOTS"
"""A directory for what the pages look like; where it is not set they are in pytest's own."""
CHROMIUM = os.environ.get("PROCTOR_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = (one for some in terminalreporter.stats.values() for one in some)
    found = [
        value
        for one in reports
        if getattr(one, "when", None) == "call"
        for name, value in one.user_properties
        if name == "screenshot"
    ]
    if found:
        terminalreporter.write_line("screenshots: " + " ".join(sorted(found)))


@pytest.fixture(scope="module")  # no longer: while it is open no other test of the process can have an event loop
def browser() -> Iterator[Any]:
    driving = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no Chromium: .ci/browser installs it, PROCTOR_CHROMIUM names one")
    with driving.sync_playwright() as driver:
        root = ["--no-sandbox"] if os.getuid() == 0 else []
        launched = driver.chromium.launch(executable_path=CHROMIUM, args=[*root, "--disable-dev-shm-usage"])
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A results root with ended runs, and the hostile attempt in it. Nobody writes to it."""
    root = tmp_path_factory.mktemp("results")
    return root, make_results(root)


@pytest.fixture(scope="module")
def viewer(results: tuple[Path, str]) -> Iterator[str]:
    served = serving(results[0])
    yield served.address
    served.end()


@pytest.fixture(scope="session")
def screenshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    given = os.environ.get(SCREENSHOTS)
    place = Path(given) if given else tmp_path_factory.mktemp("screenshots")
    place.mkdir(parents=True, exist_ok=True)
    return place


@pytest.fixture
def opened(browser: Any, screenshots: Path, request: pytest.FixtureRequest) -> Iterator[Open]:
    contexts: list[Any] = []
    windows: list[Window] = []

    def taken(path: Path) -> None:
        request.node.user_properties.append(("screenshot", str(path)))

    def opening(own: str, **given: Any) -> Window:
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 850}, **given})
        contexts.append(context)
        window = Window(context.new_page(), own, screenshots, taken)
        window.watch()
        windows.append(window)
        return window

    yield opening
    try:
        for window in windows:
            window.is_clean()
    finally:
        for context in contexts:
            context.close()
