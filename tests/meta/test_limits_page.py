"""docs/limits.md lists every time limit with the default and the code that it has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from proctor.cli.resolve_try import LIMIT_FIELDS
from proctor.config.schema import ExperimentConfig, RuntimeConfig
from proctor.model.codes import CODES
from proctor.runtime import phases, process, watchdog


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    return (root / "docs/limits.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def rows(page: str) -> dict[str, tuple[str, str]]:
    """Default and code by field."""
    section = page.partition("## Time limits\n")[2].partition("\n## ")[0]
    cells = [
        [cell.strip(" `") for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:3] == "| `"
    ]
    return {row[0]: (row[2], row[3]) for row in cells}


def test_every_limit_is_there_and_no_other(rows: dict[str, tuple[str, str]]) -> None:
    of_the_invocation = ["timeout_seconds", "cleanup_grace_seconds"]
    assert set(rows) == set(LIMIT_FIELDS) | {f"runtime.{field}" for field in of_the_invocation}


def test_a_field_of_seconds_is_a_limit_of_this_page_or_no_limit_of_a_try() -> None:
    fields = {field for field in ExperimentConfig.model_fields if field.endswith("seconds")}
    assert fields == set(LIMIT_FIELDS)


def test_defaults_are_those_of_the_fields(rows: dict[str, tuple[str, str]]) -> None:
    for field, (default, _) in rows.items():
        section = RuntimeConfig if field.startswith("runtime.") else ExperimentConfig
        found = section.model_fields[field.removeprefix("runtime.")].default
        assert default == ("none" if found is None else f"{found:g}"), field


def test_codes_exist(rows: dict[str, tuple[str, str]]) -> None:
    assert {code for _, code in rows.values()} - {""} <= set(CODES)


def test_numbers_of_the_text_are_those_of_the_code(page: str) -> None:
    text = " ".join(page.split())
    assert f"get SIGTERM, {process.GRACE_SECONDS:g} seconds later SIGKILL" in text
    assert f"left behind after {phases.PHASE_GRACE_SECONDS:g} seconds" in text
    assert f"after {watchdog.SAID_FROM_SECONDS:g} second it says so once" in text
    assert f"after {watchdog.BLOCKED_AT_MOST_SECONDS:g} seconds where there is no earlier one" in text
    assert f"it waits for {watchdog.HURRIED_SECONDS:g} second only" in text
    assert re.search(rf"the signal {watchdog.SIGNAL.name}\b", text)
