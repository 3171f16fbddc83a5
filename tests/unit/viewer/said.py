"""The texts that the viewer says: all that stand in templates and code, and those that are named by a value."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from importlib.resources import files
from pathlib import Path

from proctor.core.aggregate import Counts
from proctor.core.reuse import Kind
from proctor.model.attempt import Outcome, Phase, Verdict
from proctor.model.codes import Severity
from proctor.model.reasons import Purpose
from proctor.report.lanes import LETTERS
from proctor.viewer import run_list, run_page, runs_page, trajectory, words_values

VIEWER = Path(str(files("proctor.viewer")))

TOKENS = ("calls", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")

_IN_TEMPLATE = re.compile(r"""\bsay\(\s*(?:"([^"]*)"|'([^']*)')""")


def of_values() -> set[str]:
    """Return the texts that templates take from a value: `say(state)`."""
    return {
        *run_list.STATES,
        *(field.name for field in fields(Counts) if field.name != "not_dispatched"),
        *run_page.STATES,
        *runs_page.COLUMNS,
        *map(str, (*Verdict, *Outcome, *Phase, *Purpose, *Severity, *Kind)),
        *words_values.CHINESE,
        *LETTERS,
        *TOKENS,
        *("system", "user", "agent", "unfinished", "open", "gone", "kept", "source"),
        *("model calls", "model calls of grading"),
        *(trajectory.EMPTY, trajectory.UNREADABLE, trajectory.TOO_LARGE, trajectory.NONE),
    }


def of_templates() -> set[str]:
    return {
        found[1] or found[2]
        for path in VIEWER.glob("templates/*.html")
        for found in _IN_TEMPLATE.finditer(path.read_text("utf-8"))
    }


def of_code() -> set[str]:
    return {text for path in VIEWER.glob("*.py") for text in _said(ast.parse(path.read_text("utf-8")))}


def _said(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        said = isinstance(node.func, ast.Attribute) and node.func.attr == "say"
        if said or (isinstance(node.func, ast.Name) and node.func.id == "NotFound" and node.keywords):
            for given in node.args[:1]:
                yield from (one.value for one in ast.walk(given) if isinstance(one, ast.Constant))
