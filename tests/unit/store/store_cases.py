"""What the tests of the store share: events of every type, attempts as they happen, and files that fail on demand."""

from __future__ import annotations

import dataclasses
import errno
import os
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from proctor.model.attempt import NO_USAGE, Check, Grade, Issue, Outcome, Phase, TryResult, Usage, Verdict, issue_of
from proctor.model.events import (
    EVENT_TYPES,
    AttemptSealed,
    Completion,
    Event,
    GradingQueued,
    GradingStarted,
    IssueRaised,
    PhaseEnded,
    PhaseStarted,
    Purpose,
    RunEnded,
    RunStarted,
    SandboxDisposed,
    SandboxOpened,
    SlotFilled,
    TryEnded,
    TryStarted,
    WorkCheckpointed,
)
from proctor.store.codec import FORMAT_VERSION
from proctor.store.files import Files

AT = 1796056235.123456
"""2026-11-30T16:30:35.123456Z."""

# ------------------------------------------------------------------------------------------------------ strategies

_FINITE = st.floats(allow_nan=False, allow_infinity=False)
_COUNT = st.integers(0, 2**63)


def _of(hint: Any) -> st.SearchStrategy[Any]:
    """Return a strategy for a type hint of the model."""
    if hint in _SPECIAL:
        return _SPECIAL[hint]
    if dataclasses.is_dataclass(hint):
        return _of_dataclass(hint)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (types.UnionType, Union):
        return st.one_of([st.none() if argument is type(None) else _of(argument) for argument in arguments])
    if origin is tuple:
        return st.lists(_of(arguments[0]), max_size=3).map(tuple)
    if origin is Mapping:
        return st.dictionaries(_of(arguments[0]), _of(arguments[1]), max_size=3)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(hint)
    raise TypeError(f"no strategy for {hint!r}")


def _of_dataclass(cls: Any, **fixed: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    hints = get_type_hints(cls)
    names = [field.name for field in dataclasses.fields(cls)]
    return st.builds(cls, **{name: fixed[name] if name in fixed else _of(hints[name]) for name in names})


_SPECIAL: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(max_size=40),
    int: _COUNT,
    float: _FINITE,
    bool: st.booleans(),
}
_SPECIAL[Usage] = st.one_of(
    st.just(NO_USAGE),
    _of_dataclass(
        Usage,
        cost_usd=st.none() | st.floats(0, 1e12, allow_infinity=False),
        known_cost_usd=st.none(),
        priced_calls=st.just(0),
    ),
    st.builds(
        lambda used, part: replace(used, cost_usd=None, known_cost_usd=part, priced_calls=used.calls // 2),
        _of_dataclass(Usage, cost_usd=st.none(), known_cost_usd=st.none(), priced_calls=st.just(0)),
        st.none() | st.floats(0, 1e12, allow_infinity=False),
    ),
)
_SPECIAL[Grade] = _of_dataclass(Grade, score=st.floats(0, 1))
_SPECIAL[TryResult] = st.one_of(
    _of_dataclass(TryResult, outcome=st.just(Outcome.GRADED), grade=_SPECIAL[Grade]),
    _of_dataclass(TryResult, outcome=st.sampled_from([o for o in Outcome if o is not Outcome.GRADED]), grade=st.none()),
)
_SPECIAL[AttemptSealed] = _of_dataclass(AttemptSealed, score=st.none() | st.floats(0, 1))
_SPECIAL[SlotFilled] = _of_dataclass(
    SlotFilled, score=st.none() | st.floats(0, 1), cost_usd=st.none() | st.floats(0, 1e12)
)
_SPECIAL[RunStarted] = _of_dataclass(RunStarted, format=st.integers(0, FORMAT_VERSION))

EVENT_STRATEGIES: dict[type, st.SearchStrategy[Any]] = {event: _of(event) for event in EVENT_TYPES}
moments = st.floats(0, 2.0**32).map(lambda at: round(at, 6))
events = st.one_of(list(EVENT_STRATEGIES.values()))

# ------------------------------------------------------------------------------------------------------- attempts


def noop_attempt(attempt: str, task: str, *, seconds: float = 1.2e-05) -> Iterator[Event]:
    """An attempt that does nothing and is solved: grading mode none, no sandbox, no usage, no issue."""
    yield TryStarted(attempt, task, 0, 1)
    for phase in (Phase.SETUP, Phase.AGENT, Phase.COLLECT):
        yield PhaseStarted(attempt, phase)
        yield PhaseEnded(attempt, phase, seconds)
    yield WorkCheckpointed(attempt, 1, None, NO_USAGE)
    yield GradingQueued(attempt)
    yield GradingStarted(attempt)
    yield PhaseStarted(attempt, Phase.GRADE)
    yield PhaseEnded(attempt, Phase.GRADE, seconds)
    yield TryEnded(attempt, 1, TryResult(Outcome.GRADED, Grade(True, 1.0)))
    yield AttemptSealed(attempt, task, 0, Verdict.PASSED, 1.0, 1)


def rich_attempt(attempt: str, task: str) -> Iterator[Event]:
    """An attempt with everything: two tries, sandboxes of which one leaks, issues, usage, checks, hostile texts."""
    used = Usage(calls=3, input_tokens=100, output_tokens=20, cost_usd=0.25)
    limit = issue_of("time.agent", "limit of 5 s reached", Phase.AGENT)
    yield TryStarted(attempt, task, 2, 1)
    yield SandboxOpened(attempt, 1, "box-1", Purpose.AGENT)
    for phase in (Phase.OPEN, Phase.SETUP, Phase.AGENT, Phase.COLLECT, Phase.DISPOSE):
        yield PhaseStarted(attempt, phase)
        yield PhaseEnded(attempt, phase, 1 / 3)
    yield SandboxDisposed(attempt, "box-1")
    yield IssueRaised(attempt, limit)
    yield TryEnded(attempt, 1, TryResult(Outcome.GRADED, Grade(False, 0), used, issues=(limit,)))
    yield TryStarted(attempt, task, 2, 2)
    yield SandboxOpened(attempt, 2, "box-2", Purpose.AGENT)
    yield PhaseStarted(attempt, Phase.AGENT)
    yield PhaseEnded(attempt, Phase.AGENT, 2.0)
    yield IssueRaised(attempt, issue_of("usage.missing", "no usage: \ud83d\x00\u2028"))
    yield WorkCheckpointed(attempt, 2, "0" * 64, used)
    yield PhaseStarted(attempt, Phase.DISPOSE)
    yield PhaseEnded(attempt, Phase.DISPOSE, 0.5)
    yield SandboxOpened(attempt, 2, "box-3", Purpose.GRADE)
    yield PhaseStarted(attempt, Phase.GRADE)
    yield PhaseEnded(attempt, Phase.GRADE, 1)
    yield PhaseStarted(attempt, Phase.DISPOSE)
    yield PhaseEnded(attempt, Phase.DISPOSE, 0.25)
    yield SandboxDisposed(attempt, "box-2")
    checks = (Check("all tests", True, source="tests/a.py:3"), Check("half a pair \udc00", False, "é", "日本"))
    grade = Grade(True, 1, {"style": 1, "speed": 0.125}, checks)
    yield TryEnded(attempt, 2, TryResult(Outcome.GRADED, grade, used, Usage(calls=1), (limit,)))
    yield AttemptSealed(attempt, task, 2, Verdict.PASSED, 1, 2)


def rich_run() -> list[tuple[Event, float]]:
    """A whole run with every kind of verdict that is easy to mistake for another word."""
    attempts = [*rich_attempt("aaaaaaaaaaaa", "rich/日本 \ud800"), *noop_attempt("bbbbbbbbbbbb", "noop")]
    lost = Issue("worker.lost", "killed by signal 9", *_fatal(), Phase.AGENT)
    attempts += [
        TryStarted("cccccccccccc", "broken", 0, 1),
        PhaseStarted("cccccccccccc", Phase.AGENT),
        TryEnded("cccccccccccc", 1, TryResult(Outcome.BROKEN, issues=(lost,))),
        AttemptSealed("cccccccccccc", "broken", 0, Verdict.ERRORED, None, 1),
        TryStarted("dddddddddddd", "wrong", 0, 1),
        TryEnded("dddddddddddd", 1, TryResult(Outcome.GRADED, Grade(False, 0.0))),
        AttemptSealed("dddddddddddd", "wrong", 0, Verdict.FAILED, 0.0, 1),
    ]
    begin = RunStarted(FORMAT_VERSION, "inv", "run", "experiment", "0.1.0", "host", 1, 4)
    every = [begin, *attempts, RunEnded("experiment", Completion.COMPLETE)]
    return [(event, AT + index / 7) for index, event in enumerate(every)]


def _fatal() -> tuple[Any, Any]:
    issue = issue_of("worker.lost", "")
    return issue.severity, issue.owner


# --------------------------------------------------------------------------------------------------- faulty files


class FaultyFiles(Files):
    """Real files whose `fail_at`-th call (from 1) fails, once or from then on; counts calls when there is none.

    `fault` is an errno. A write that is to fail writes half of its data first when `short` is set: as a short write
    that the next call goes on from with `fault`, which is how a full disk looks.
    """

    def __init__(self, fail_at: int = 0, fault: int = errno.ENOSPC, *, forever: bool = False, short: bool = False):
        self.fail_at, self.fault, self.forever, self.short = fail_at, fault, forever, short
        self.calls = 0
        self.failed: list[str] = []

    def _fails(self, name: str) -> bool:
        self.calls += 1
        due = self.calls == self.fail_at or (self.forever and 0 < self.fail_at < self.calls)
        if due:
            self.failed.append(name)
        return due

    def _call(self, name: str, *arguments: Any) -> Any:
        if self._fails(name):
            raise OSError(self.fault, os.strerror(self.fault))
        return getattr(super(), name)(*arguments)

    def open(self, path: Any, flags: int) -> int:
        return self._call("open", path, flags)

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        if not self._fails("write"):
            return super().write(descriptor, data)
        if self.short and len(data) > 1:
            self.fail_at = self.calls + 1
            return super().write(descriptor, data[: len(data) // 2])
        raise OSError(self.fault, os.strerror(self.fault))

    def fsync(self, descriptor: int) -> None:
        self._call("fsync", descriptor)

    def truncate(self, descriptor: int, size_bytes: int) -> None:
        self._call("truncate", descriptor, size_bytes)

    def close(self, descriptor: int) -> None:
        fails = self._fails("close")
        super().close(descriptor)  # as the system does: closed even if it fails
        if fails:
            raise OSError(self.fault, os.strerror(self.fault))

    def replace(self, source: Any, target: Any) -> None:
        self._call("replace", source, target)

    def unlink(self, path: Any) -> None:
        self._call("unlink", path)

    def mkdir(self, path: Any) -> None:
        self._call("mkdir", path)

    def rmdir(self, path: Any) -> None:
        self._call("rmdir", path)

    def lock(self, descriptor: int) -> None:
        self._call("lock", descriptor)


class PowerCutFiles(Files):
    """Real files that know what a power cut would leave: synced content under synced names, and nothing else."""

    def __init__(self) -> None:
        self._paths: dict[int, Path] = {}
        self._content: dict[int, bytes] = {}
        self._names: dict[Path, dict[str, int]] = {}

    def open(self, path: Any, flags: int) -> int:
        descriptor = super().open(path, flags)
        self._paths[descriptor] = Path(path)
        return descriptor

    def fsync(self, descriptor: int) -> None:
        super().fsync(descriptor)
        path, inode = self._paths[descriptor], os.fstat(descriptor).st_ino
        if path.is_dir():
            self._names[path] = {entry.name: entry.inode() for entry in os.scandir(path)}
        else:
            self._content[inode] = Path(f"/proc/self/fd/{descriptor}").read_bytes()

    def survivors(self, directory: Path) -> dict[str, bytes | None]:
        """Return what is left below a directory that existed before: files with their content, directories as None."""
        left: dict[str, bytes | None] = {}
        for name, inode in self._names.get(directory, {}).items():
            path = directory / name
            if path.is_dir():
                left[name] = None
                left |= {f"{name}/{below}": content for below, content in self.survivors(path).items()}
            else:
                left[name] = self._content.get(inode, b"")
        return left


FAULTS = [
    (fault, forever, short)
    for fault in (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS)
    for forever in (False, True)
    for short in (False, True)
]


def every_fault(scenario: Callable[[FaultyFiles], None]) -> int:
    """Run a scenario with its first call failing, then its second, and so on until nothing fails; for each fault.

    Returns how many runs there were. Descriptors must not leak in any of them.
    """
    runs = 0
    for fault, forever, short in FAULTS:
        fail_at = 1
        while True:
            files = FaultyFiles(fail_at, fault, forever=forever, short=short)
            before = len(os.listdir("/proc/self/fd"))
            scenario(files)
            assert len(os.listdir("/proc/self/fd")) == before, f"call {fail_at} left a descriptor open"
            runs += 1
            if not files.failed:
                break
            fail_at += 1
    return runs


def tree(directory: Path) -> dict[str, bytes]:
    """Return every file below a directory with its content."""
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
