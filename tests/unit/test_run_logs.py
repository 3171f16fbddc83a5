"""Several invocations in one process log apart from each other, and leave logging as it was (spec 10 I5)."""

from __future__ import annotations

import asyncio
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from threading import Barrier, get_ident

import pytest

from proctor.cli import main
from proctor.cli.printed import printed_lines
from proctor.cli.run_logs import OfInvocation, console_of, logging_of
from proctor.runtime.log_scope import SCOPE, SHOWN, LogScope
from proctor.runtime.notes import TryLog
from proctor.runtime.redact import Redactor

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


# ------------------------------------------------------------------------------------------------------------- console


SECRET = "verysecretvalue"


def shown(log: Callable[[], object], level: str = "INFO", invocation: str = "a") -> list[str]:
    """Return what the console shows of what is logged."""
    said: list[str] = []

    async def drive() -> None:
        with logging_of("a", owns_process=True), console_of(invocation, level, Redactor([SECRET]), said.append):
            log()
            await asyncio.sleep(0)

    asyncio.run(drive())
    return said


def test_07_the_console_shows_ours_from_its_level_on_and_others_from_warning_on() -> None:
    def log() -> None:
        for logger in (LOG, logging.getLogger("x.y")):
            for level in ("debug", "info", "warning", "error"):
                getattr(logger, level)("%s", level)

    ours = ["debug: debug", "info: info", "warning: warning", "error: error"]
    others = ["warning: x.y: warning", "error: x.y: error"]
    assert shown(log, "DEBUG") == ours + others
    assert shown(log) == ours[1:] + others
    assert shown(log, "ERROR") == ours[3:] + others[1:]


def test_07_what_a_display_says_itself_is_not_said_twice() -> None:
    assert shown(lambda: LOG.error("told", extra=SHOWN)) == []


def test_07_nothing_that_is_shown_has_a_credential() -> None:
    def log() -> None:
        logging.getLogger("x").warning("the key is %s", SECRET)
        try:
            raise ValueError(f"no {SECRET}")
        except ValueError:
            LOG.exception("it failed")

    assert shown(log) == [
        "warning: x: the key is [redacted …alue]",
        "error: it failed: ValueError: no [redacted …alue]",
    ]


def test_07_what_cannot_be_formatted_or_is_huge_breaks_nothing() -> None:
    said = shown(lambda: (LOG.info("%d", "no number"), LOG.info("x" * 100_000)))
    assert said[0].startswith("info: a line that cannot be formatted: TypeError")
    assert len(said[1]) < 3_000


def test_10_I4_a_display_that_fails_is_not_asked_to_show_that_it_failed() -> None:
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        LOG.error("the display failed")

    async def drive() -> None:
        with logging_of("a"), console_of("a", "INFO", Redactor(), say):
            LOG.info("one")
            LOG.info("two")

    asyncio.run(drive())
    assert said == ["info: one", "info: two"]


def test_07_lines_of_another_thread_are_shown_on_the_event_loop() -> None:
    said: list[tuple[str, int]] = []

    async def drive() -> None:
        with logging_of("a"), console_of("a", "INFO", Redactor(), lambda text: said.append((text, get_ident()))):
            await asyncio.to_thread(LOG.info, "of a thread")
            await asyncio.sleep(0)

    asyncio.run(drive())
    assert said == [("info: of a thread", get_ident())]


def test_07_lines_of_another_invocation_are_not_shown() -> None:
    assert shown(lambda: LOG.info("one"), invocation="b") == []


def test_07_other_packages_reach_the_files_from_info_on_and_warnings_too() -> None:
    root = logging.getLogger()
    before = root.level, list(root.handlers), warnings.showwarning
    kept = Kept()
    foreign = logging.getLogger("another.package")
    with logging_of("a", owns_process=True):
        logging.getLogger("proctor").addHandler(kept)
        foreign.debug("debug")
        foreign.info("info")
        foreign.setLevel(logging.DEBUG)
        foreign.debug("asked for")
        foreign.setLevel(logging.NOTSET)
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("careful", RuntimeWarning, stacklevel=1)
        logging.getLogger("proctor").removeHandler(kept)
    assert kept.said[:2] == ["info", "asked for"]
    assert "RuntimeWarning: careful" in kept.said[2]
    assert (root.level, list(root.handlers), warnings.showwarning) == before


def test_10_I5_in_the_process_of_somebody_else_levels_of_others_stay(around: Kept) -> None:
    before = logging.getLogger().level
    with logging_of("a"):
        assert logging.getLogger().level == before
        logging.getLogger("another.package").info("no")
        logging.getLogger("another.package").warning("yes")
    assert around.said == ["yes"]


def test_07_what_is_logged_inside_a_try_is_of_its_run_and_of_its_try_log() -> None:
    mine, other = Kept(), Kept()
    mine.addFilter(OfInvocation("a", "mine"))
    other.addFilter(OfInvocation("a", "other"))
    kept = TryLog(Redactor(), logging.DEBUG)
    root = logging.getLogger("proctor")
    with logging_of("a"):
        root.addHandler(mine)
        root.addHandler(other)
        token = SCOPE.set(LogScope({"experiment": "mine"}, kept))
        logging.getLogger("another.package").warning("inside")
        LOG.info("ours inside")
        SCOPE.reset(token)
        LOG.info("of all")
        root.removeHandler(mine)
        root.removeHandler(other)
    assert mine.said == ["inside", "ours inside", "of all"]
    assert other.said == ["of all"]
    assert "WARNING inside [logger=another.package]" in kept.content
    assert "ours inside" not in kept.content


# ------------------------------------------------------------------------------------------------------------- printed


def test_07_what_is_printed_is_logged_line_by_line(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        with printed_lines():
            print("one")
            print("two", "parts", end=" ")
            sys.stdout.flush()
            print("joined")
            print()
            print("several\nlines", file=sys.stderr)
            print("the rest", end="")

    assert shown(work) == ["one", "two parts joined", "several", "lines", "the rest"]
    assert capsys.readouterr() == ("", "")


def test_07_threads_print_lines_of_their_own() -> None:
    gate = Barrier(2)

    def say(name: str) -> None:
        for _ in range(50):
            gate.wait()
            print(name, end="")
            print(name)

    said: list[str] = []

    async def drive() -> None:
        with logging_of("a"), printed_lines(), console_of("a", "INFO", Redactor(), said.append):
            await asyncio.gather(asyncio.to_thread(say, "a"), asyncio.to_thread(say, "b"))
            await asyncio.sleep(0)

    asyncio.run(drive())
    assert sorted(said) == ["aa"] * 50 + ["bb"] * 50


def test_07_trouble_of_logging_itself_is_not_logged_again(capsys: pytest.CaptureFixture[str]) -> None:
    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            try:
                raise ZeroDivisionError("a handler")
            except ZeroDivisionError:
                self.handleError(record)

    broken = Broken()
    with logging_of("a"), printed_lines():
        logging.getLogger("proctor").addHandler(broken)
        print("one")
        logging.getLogger("proctor").removeHandler(broken)
    assert "ZeroDivisionError: a handler" in capsys.readouterr().err


def test_07_a_stream_without_ends_of_lines_is_cut() -> None:
    def work() -> None:
        with printed_lines():
            for _ in range(300):
                print("x" * 1000, end="")

    assert len(shown(work)) > 3


def test_07_a_bug_of_ours_is_told_without_credentials(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(name: str) -> object:
        raise ZeroDivisionError(f"no, {SECRET}")

    monkeypatch.setenv("SOME_API_KEY", SECRET)
    monkeypatch.setattr(main, "_import", fails)
    assert main.run(["show"]) == 70
    said = capsys.readouterr().err
    assert "ZeroDivisionError: no, [redacted" in said
    assert SECRET not in said
