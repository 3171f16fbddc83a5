"""Only runtime/clock.py reads a clock: everything else is told the time, so that tests can say what time it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

MAY_READ = {
    "runtime/clock.py",
    "runtime/_supervisor.py",  # a program of its own, in the process that it runs in nothing of ours can be imported
}

READERS = {
    "time": {
        "ctime", "gmtime", "localtime", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time",
        "process_time_ns", "sleep", "thread_time", "thread_time_ns", "time", "time_ns",
    },
    "datetime": {"now", "today", "utcnow"},
}  # fmt: skip
"""What reads a clock or waits, by module."""

CONVERT = {"ctime", "gmtime", "localtime"}
"""Read the clock only when they are called without an argument."""


def test_nothing_else_reads_a_clock(sources) -> None:
    found = [
        f"{source.at(node)} reads {what}"
        for source in sources
        if source.name not in MAY_READ
        for node, what in readings(source.tree)
    ]
    assert not found, "\n".join(found)


def test_the_time_of_an_event_loop_is_read_in_runtime_only(sources) -> None:
    found = [
        f"{source.at(node)} {ast.unparse(node)}"
        for source in sources
        if not source.name.startswith("runtime/")
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "time"
        if not node.args and "loop" in ast.unparse(node.func.value).lower()
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "line",
    [
        "import time; now = time.monotonic()",
        "import time as t; clock = t.perf_counter",
        "from time import sleep",
        "from time import time as now",
        "import datetime; datetime.datetime.now(datetime.UTC)",
        "from datetime import datetime as dt; dt.utcnow()",
        "from datetime import date; date.today()",
        "import time; time.gmtime()",
    ],
)
def test_the_search_finds(line: str) -> None:
    assert list(readings(ast.parse(line)))


@pytest.mark.parametrize(
    "line",
    [
        "import time; time.gmtime(0)",
        "from datetime import datetime, UTC; datetime.fromtimestamp(0, UTC)",
        "clock.now()",
    ],
)
def test_the_search_leaves_alone(line: str) -> None:
    assert not list(readings(ast.parse(line)))


def readings(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Yield each place that reads a clock: a name imported from, or an attribute of, what one of READERS names."""
    modules: dict[str, str] = {}  # what a name in this file stands for: `time`, or `datetime` and its classes
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.asname or alias.name: alias.name for alias in node.names if alias.name in READERS}
        elif isinstance(node, ast.ImportFrom) and node.module == "datetime":
            modules |= {a.asname or a.name: "datetime" for a in node.names if a.name in {"date", "datetime"}}
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            for alias in node.names:
                if alias.name in READERS["time"]:
                    yield node, f"time.{alias.name}"
    # Without a call they are handed to somebody who has a time to convert, such as a logging formatter.
    asked_for_now = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call) and not node.args}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (node.attr not in CONVERT or id(node) in asked_for_now):
            base = ast.unparse(node.value).partition(".")[0]
            if node.attr in READERS.get(modules.get(base, ""), set()):
                yield node, ast.unparse(node)
