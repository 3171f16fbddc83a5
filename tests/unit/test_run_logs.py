"""Several invocations in one process log apart from each other, and leave logging as it was (spec 10 I5)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pytest

from proctor.cli.run_logs import OfInvocation, logging_of

LOG = logging.getLogger("proctor.some.module")


class Kept(logging.Handler):
    """Keeps messages."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


@pytest.fixture
def around() -> Iterator[Kept]:
    """The handler of the program around proctor."""
    kept = Kept()
    logging.getLogger().addHandler(kept)
    yield kept
    logging.getLogger().removeHandler(kept)


def test_10_I5_each_invocation_keeps_its_own_lines_and_the_program_gets_what_it_asked_for(around: Kept) -> None:
    root = logging.getLogger("proctor")
    before = root.level, root.propagate, list(root.handlers)
    kept = {name: Kept() for name in ("a", "b")}

    async def invocation(name: str, started: asyncio.Event, other: asyncio.Event) -> None:
        with logging_of(name):
            kept[name].addFilter(OfInvocation(name))
            root.addHandler(kept[name])
            started.set()
            await other.wait()
            LOG.debug("detail of %s", name)
            LOG.warning("warning of %s", name)
            await asyncio.get_running_loop().run_in_executor(None, LOG.info, "of a thread")
            root.removeHandler(kept[name])

    async def drive() -> None:
        first, second = asyncio.Event(), asyncio.Event()
        await asyncio.gather(invocation("a", first, second), invocation("b", second, first))

    asyncio.run(drive())
    for name, own in kept.items():
        mine = [line for line in own.said if line != "of a thread"]
        assert mine == [f"detail of {name}", f"warning of {name}"]
    assert sorted(around.said) == ["warning of a", "warning of b"]
    assert (root.level, root.propagate, list(root.handlers)) == before


def test_10_I5_a_level_that_the_program_set_is_obeyed(around: Kept) -> None:
    root = logging.getLogger("proctor")
    root.setLevel(logging.INFO)
    try:
        with logging_of("a"):
            LOG.debug("no")
            LOG.info("yes")
        assert root.level == logging.INFO
    finally:
        root.setLevel(logging.NOTSET)
    assert around.said == ["yes"]


def test_a_program_without_handlers_sees_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    handlers, logging.root.handlers = logging.root.handlers, []
    try:
        with logging_of("a"):
            LOG.error("not here")
    finally:
        logging.root.handlers = handlers
    assert capsys.readouterr().err == ""
