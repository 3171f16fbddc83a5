"""What spec 05 says of every fault, as data: written down here, taken from nothing that is tested."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from fault_plugins import Hangs, Misuses, Raises, Returns, Site, Until, When

from proctor.errors import Fault
from proctor.model.attempt import Grade, GradingMode
from proctor.plugins.api import Collected, Turn

NONE, FRESH, REUSE = GradingMode.NONE, GradingMode.FRESH, GradingMode.REUSE
ALL = (NONE, FRESH, REUSE)


class Row(NamedTuple):
    """A method, where it is called, and what becomes of an exception in it and of a limit that it reaches.

    `lanes`: only in lanes, only outside of them, or (None) in both.
    """

    site: Site
    modes: tuple[GradingMode, ...]
    lanes: bool | None
    phase: str
    crash: str
    limit: str
    seconds: str


ROWS = (
    Row(Site.OPEN, ALL, None, "open", "provider.open_failed", "provider.open_timeout", "open_seconds"),
    Row(Site.MARK, ALL, True, "setup", "task.setup_failed", "time.setup", "setup_seconds"),
    Row(Site.SETUP, ALL, None, "setup", "task.setup_failed", "time.setup", "setup_seconds"),
    Row(Site.START, ALL, None, "setup", "harness.crashed", "time.setup", "setup_seconds"),
    Row(Site.SEND, ALL, None, "agent", "harness.crashed", "time.agent", "agent_seconds"),
    Row(Site.COLLECT, ALL, None, "collect", "collect.failed", "time.collect", "collect_seconds"),
    Row(Site.DOWNLOAD, ALL, None, "collect", "collect.failed", "time.collect", "collect_seconds"),
    Row(Site.OPEN_GRADE, (FRESH,), None, "open", "provider.open_failed", "provider.open_timeout", "open_seconds"),
    Row(Site.UPLOAD, (FRESH,), None, "grade", "provider.open_failed", "time.grade", "grade_seconds"),
    Row(Site.EXEC, (FRESH, REUSE), None, "grade", "grader.crashed", "time.grade", "grade_seconds"),
    Row(Site.CHECK, (FRESH, REUSE), None, "grade", "grader.crashed", "time.grade", "grade_seconds"),
    Row(Site.GRADE, ALL, None, "grade", "grader.crashed", "time.grade", "grade_seconds"),
    Row(Site.DISPOSE, ALL, False, "dispose", "dispose.failed", "dispose.failed", "dispose_seconds"),
    Row(Site.DISPOSE_GRADE, (FRESH,), None, "dispose", "dispose.failed", "dispose.failed", "dispose_seconds"),
    Row(Site.CLOSE, ALL, None, "*", "dispose.failed", "dispose.failed", "dispose_seconds"),
    Row(Site.RESET, ALL, True, "*", "dispose.failed", "dispose.failed", "dispose_seconds"),
)

WITHOUT_RESULT = frozenset({
    Site.OPEN, Site.MARK, Site.SETUP, Site.START, Site.OPEN_GRADE, Site.UPLOAD, Site.EXEC, Site.CHECK, Site.GRADE,
})  # fmt: skip
"""Where whatever is raised leaves nothing that could be a result."""

CLEANING = frozenset({Site.DISPOSE, Site.DISPOSE_GRADE, Site.CLOSE, Site.RESET})
"""Where trouble is recorded beside the outcome, never instead of it."""

RETIRING = frozenset({Site.OPEN, Site.MARK, Site.SETUP, Site.START, Site.SEND, Site.COLLECT, Site.RESET})
"""After a crash or a timeout here the sandbox of a lane is of no use any more (spec 03 L2)."""


class Code(NamedTuple):
    """A line of the table of codes."""

    owner: str
    severity: str
    permanent: bool
    scope: str


def _lines(owner: str, severity: str, permanent: bool, scope: str, codes: str) -> dict[str, Code]:
    return dict.fromkeys(codes.split(), Code(owner, severity, permanent, scope))


CODES: dict[str, Code] = {
    **_lines("provider", "FATAL", False, "attempt", "provider.open_failed provider.open_timeout provider.lost"),
    **_lines("provider", "FATAL", True, "provider", "provider.unavailable"),
    **_lines("provider", "FATAL", True, "image", "image.missing image.build_failed image.build_stalled"),
    **_lines("user", "FATAL", True, "experiment", "experiment.setup_failed experiment.fatal"),
    **_lines("user", "FATAL", True, "task", "task.fatal"),
    **_lines("user", "FATAL", False, "attempt", "sandbox.setup_failed task.crashed"),
    **_lines("runner", "FATAL", True, "attempt", "environment.too_large"),
    **_lines("benchmark", "FATAL", False, "attempt", "task.setup_failed tool.crashed"),
    **_lines("harness", "FATAL", False, "attempt", "harness.crashed harness.out_of_memory"),
    **_lines("harness", "ERROR", False, "attempt", "harness.exit_nonzero"),
    **_lines("agent", "ERROR", False, "attempt", "harness.limit model.refusal model.malformed"),
    **_lines("model", "FATAL", True, "model", "model.refused_auth model.payment model.not_found"),
    **_lines("model", "FATAL", False, "attempt", "model.rate_limited model.overloaded model.server"),
    **_lines("model", "FATAL", False, "attempt", "model.timeout model.connection"),
    **_lines("model", "FATAL", True, "attempt", "model.invalid_request"),
    **_lines("agent", "ERROR", False, "attempt", "time.agent time.attempt time.idle collect.required_missing"),
    **_lines("benchmark", "FATAL", False, "attempt", "time.setup time.collect time.grade"),
    **_lines("provider", "FATAL", False, "attempt", "collect.failed"),
    **_lines("provider", "WARNING", False, "attempt", "artifact.too_large dispose.failed output.truncated"),
    **_lines("agent", "ERROR", True, "attempt", "grade.time grade.memory grade.output grade.incomplete"),
    **_lines("grader", "FATAL", False, "attempt", "grader.crashed grader.invalid_score"),
    **_lines("grader", "FATAL", False, "attempt", "grader.judge_failed grader.no_reward"),
    **_lines("runner", "FATAL", False, "attempt", "worker.lost engine.lost checkpoint.damaged"),
    **_lines("user", "WARNING", False, "attempt", "experiment.teardown_failed sandbox.teardown_failed"),
    **_lines("runner", "WARNING", False, "attempt", "usage.missing price.unknown budget.no_retry"),
    **_lines("runner", "FATAL", True, "invocation", "store.full internal"),
}

FAR_REACHING = ("image", "experiment", "invocation")
"""Scopes that stop others at once; a task stops only itself where each has one attempt."""


# ------------------------------------------------------------------------------------------------------- exceptions


class Unpicklable(Exception):
    def __init__(self, first: object, second: object) -> None:
        super().__init__()
        self.keeps = (first, second, lambda: None)


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__


class ExitsWhenPrinted(Exception):
    def __str__(self) -> str:
        raise SystemExit(4)

    __repr__ = __str__


class PrintsNoText(Exception):
    def __str__(self) -> Any:
        return 5  # noqa: PLE0307 - that is the point


class EvilNotes(Exception):
    @property
    def __notes__(self) -> list[str]:
        raise RuntimeError("no notes")


class Base(BaseException):
    pass


class Unmade(Fault):
    """A fault whose constructor was never called."""

    def __init__(self) -> None:
        pass


def _caused() -> BaseException:
    error = RuntimeError("the last")
    error.__cause__ = error.__context__ = Unprintable()
    return error


def _circular() -> BaseException:
    first, second = RuntimeError("first"), RuntimeError("second")
    first.__cause__, second.__cause__ = second, first
    return first


ERRORS: dict[str, Callable[[], BaseException]] = {
    "an error": lambda: RuntimeError("boom"),
    "no pickle": lambda: Unpicklable(1, 2),
    "no text": Unprintable,
    "exits as text": ExitsWhenPrinted,
    "a number as text": PrintsNoText,
    "evil notes": EvilNotes,
    "a bad cause": _caused,
    "a circle of causes": _circular,
    "half a character": lambda: RuntimeError("half \ud800 of one, \0 and \x1b[2J"),
    "a long text": lambda: RuntimeError("x" * 100_000),
    "a base exception": lambda: Base("base"),
    "SystemExit": lambda: SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt,
    "GeneratorExit": GeneratorExit,
    "StopIteration": StopIteration,
    "a group": lambda: ExceptionGroup("several", [ValueError("a"), KeyError("b")]),
    "a base group": lambda: BaseExceptionGroup("several", [KeyboardInterrupt(), SystemExit(1)]),
    "CancelledError": lambda: asyncio.CancelledError("its own"),
    "TimeoutError": lambda: TimeoutError("its own"),
    "MemoryError": MemoryError,
    "a fault that was never made": Unmade,
}

CRASHES = [Raises(f"{name} {when.value}", make, when) for name, make in ERRORS.items() for when in When]

HANGS = [Hangs(until) for until in Until]


# ---------------------------------------------------------------------------------------------------------- garbage


class Nameless:
    """A sandbox that cannot say what it is called."""

    workdir = "/work"

    @property
    def id(self) -> str:
        raise RuntimeError("no name")

    async def dispose(self) -> None:
        pass


def _spoilt(**fields: Any) -> Grade:
    """Return a grade that was changed after it was made."""
    grade = Grade(True, 1.0)
    for name, value in fields.items():
        object.__setattr__(grade, name, value)
    return grade


NAN = float("nan")

GARBAGE: dict[Site, dict[str, Callable[[], Any]]] = {
    Site.OPEN: {"None": lambda: None, "no sandbox": object, "a nameless sandbox": Nameless},
    Site.OPEN_GRADE: {"None": lambda: None, "no sandbox": object, "a nameless sandbox": Nameless},
    Site.START: {"None": lambda: None, "no session": object},
    Site.SEND: {
        "None": lambda: None,
        "a text": lambda: "ok",
        "a turn of a number": lambda: Turn(5),  # type: ignore[arg-type]
        "a turn of bytes": lambda: Turn(b"ok"),  # type: ignore[arg-type]
    },
    Site.COLLECT: {
        "None": lambda: None,
        "a mapping": dict,
        "no JSON": lambda: Collected({"x": object()}),  # type: ignore[dict-item]
        "NaN": lambda: Collected({"x": NAN}),
        "no files": lambda: Collected(files=None),  # type: ignore[arg-type]
        "a file of text": lambda: Collected(files={"a": "text"}),  # type: ignore[dict-item]
        "a file without a name": lambda: Collected(files={5: b""}),  # type: ignore[dict-item]
    },
    Site.DOWNLOAD: {"None": lambda: None, "something": object},
    Site.EXEC: {"None": lambda: None, "something": object},
    Site.CHECK: {"None": lambda: None, "something": object},
    Site.GRADE: {
        "None": lambda: None,
        "a number": lambda: 1.0,
        "a text": lambda: "passed",
        "NaN": lambda: Grade(True, NAN),
        "infinity": lambda: Grade(True, float("inf")),
        "no number": lambda: Grade(True, "1"),  # type: ignore[arg-type]
        "no boolean": lambda: Grade(1, 1.0),  # type: ignore[arg-type]
        "a sub-score of NaN": lambda: Grade(True, 1.0, {"a": NAN}),
        "NaN later": lambda: _spoilt(score=NAN),
        "no boolean later": lambda: _spoilt(solved="yes"),
        "a sub-score of NaN later": lambda: _spoilt(sub_scores={"a": NAN}),
        "no checks later": lambda: _spoilt(checks=(object(),)),
        "a loose type": type("Loose", (), {"solved": True, "score": 1.0}),
    },
}
"""What must not be returned; of everything that is not named here what is returned does not matter."""

GARBAGE_CODES = {
    Site.OPEN: "provider.open_failed",
    Site.OPEN_GRADE: "provider.open_failed",
    Site.START: "harness.crashed",
    Site.SEND: "harness.crashed",
    Site.COLLECT: "harness.crashed",
    Site.DOWNLOAD: "collect.failed",
    Site.EXEC: "grader.crashed",
    Site.CHECK: "grader.crashed",
    Site.GRADE: "grader.invalid_score",
}

RETURNS = {site: [Returns(f"returns {name}", make) for name, make in made.items()] for site, made in GARBAGE.items()}
NOT_AWAITED = Returns("is no coroutine function", lambda: None, awaited=False)
IGNORED = Returns("returns something", object, works=True)


# ----------------------------------------------------------------------------------------------------------- misuse


class Evil:
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


MISUSES = {
    "an unknown code": lambda context: context.issue("no.such", "x"),
    "a code that is no text": lambda context: context.issue([], "x"),
    "usage that is none": lambda context: context.usage({"calls": 1}),
    "a wait that is none": lambda context: context.backoff(NAN, "model.rate_limited"),
    "a wait for an unknown code": lambda context: context.backoff(1.0, "no.such"),
    "a wait for no text": lambda context: context.backoff("1", "model.rate_limited"),
    "no model": lambda context: context.model,
}
"""What a harness must not ask of its context: it gets an exception for it."""

CLUMSY = {
    "progress without a text": lambda context: context.progress(Evil()),
    "a log line that cannot be formatted": lambda context: context.log.info("%d %s", "x"),  # noqa: PLE1206
    "a log line without a text": lambda context: context.log.info(Evil()),
    "a log line with an evil exception": lambda context: context.log.error("x", exc_info=Unprintable()),
    "half a character": lambda context: context.progress("\ud800"),
    "a long line": lambda context: context.log.info("x" * 100_000),
}
"""What is no fault of the agent's work."""


def misuses(uses: dict[str, Callable[[Any], Any]]) -> list[Misuses]:
    return [Misuses(name, use) for name, use in uses.items()]
