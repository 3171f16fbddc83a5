"""Size is a design signal. A file above the usual size has a ceiling of its own here, which may only go down."""

from __future__ import annotations

import ast

USUAL_LINES = 250
MOST_LINES = 500
MOST_LINES_OF_A_FUNCTION = 70

CEILINGS: dict[str, int] = {
    "cli/experiment_hooks.py": 280,
    "core/scheduler.py": 283,
    "errors.py": 256,
    "graders/_python_tests_runner.py": 282,
    "model/events.py": 350,
    "runtime/command.py": 330,
    "testing/referee.py": 269,
    "testing/referee_ends.py": 323,
}
"""Files above the usual size: lower a ceiling when its file shrinks, remove it when the file is small enough."""

SLACK_LINES = 20
"""So much may a file stay below its ceiling before the ceiling has to follow."""


def sizes(sources) -> dict[str, int]:
    return {source.name: len(source.text.splitlines()) for source in sources}


def test_no_file_is_above_its_ceiling(sources) -> None:
    found = [
        f"src/proctor/{name}: {lines} lines, at most {CEILINGS.get(name, USUAL_LINES)}; split it"
        for name, lines in sizes(sources).items()
        if lines > CEILINGS.get(name, USUAL_LINES)
    ]
    assert not found, "\n".join(found)


def test_ceilings_only_go_down(sources) -> None:
    known = sizes(sources)
    found = [
        f"{name}: ceiling {ceiling}, has {known.get(name, 0)} lines"
        for name, ceiling in CEILINGS.items()
        if ceiling > MOST_LINES or known.get(name, 0) <= USUAL_LINES or ceiling - known[name] > SLACK_LINES
    ]
    assert not found, "\n".join(found)


def test_no_function_is_too_long(sources) -> None:
    found = [
        f"{source.at(node)} {node.name}: {lines} lines"
        for source in sources
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > MOST_LINES_OF_A_FUNCTION
    ]
    assert not found, "\n".join(found)
