"""The log of a run: a disk that is full costs its lines, and nothing else (spec 08 D5)."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from proctor.store.log_file import LogFile


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    """A logger of its own, which ends with its handlers closed."""
    made = logging.Logger("log-file-test")
    yield made
    for handler in made.handlers:
        handler.close()


def test_lines_are_appended_and_nothing_makes_no_file(tmp_path: Path, logger: logging.Logger) -> None:
    path = tmp_path / "run.log"
    logger.addHandler(LogFile(path))
    assert not path.exists()
    logger.info("日本 %s", "\udcff")
    assert path.read_text() == "日本 \\udcff\n"


def test_a_full_disk_costs_lines_and_is_never_an_error(
    logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    handler = LogFile(Path("/dev/full"))
    logger.addHandler(handler)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(100):
        logger.info("x" * 10_000)
    assert len(os.listdir("/proc/self/fd")) == before
    handler.close()
    assert capsys.readouterr() == ("", "")


def test_a_file_that_cannot_be_made_costs_lines_until_it_can(tmp_path: Path, logger: logging.Logger) -> None:
    path = tmp_path / "not/there/run.log"
    logger.addHandler(LogFile(path))
    logger.info("lost")
    path.parent.mkdir(parents=True)
    logger.info("kept")
    assert path.read_text() == "kept\n"


def test_a_bug_in_a_call_is_still_said(
    tmp_path: Path, logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    logger.addHandler(LogFile(tmp_path / "run.log"))
    logger.info("%d", "no number")
    assert "--- Logging error ---" in capsys.readouterr().err
