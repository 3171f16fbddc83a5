"""Benchmark `code`: functions to write, with their tests, in JSONL files like those of MBPP and HumanEval.

A row has `test_list`, assertions that are shown to the agent (MBPP), or `test` and `entry_point`, a function
`check(candidate)` that is not (HumanEval). docs/question-files.md has all fields.
"""

from __future__ import annotations

import ast
import builtins
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from proctor.benchmarks._problems import tasks_of
from proctor.benchmarks.humaneval import PROMPT as COMPLETE
from proctor.benchmarks.humaneval import TAGS
from proctor.data.row_files import find_files, read_rows
from proctor.data.rows import Row, RowError, Rows
from proctor.model.attempt import GradingMode
from proctor.model.project import project_directory
from proctor.model.spec import Component, Reference, Task
from proctor.plugins.api import AttemptContext

WRITE = """\
{text}

Answer with one Python code block that holds everything your code needs. It has to pass these tests:

```python
{tests}
```
"""


class CodeTasksOptions(BaseModel):
    """Where the rows are, how long the code of one answer may run, and which assertions count and are shown."""

    model_config = ConfigDict(extra="forbid")

    path: Annotated[str, Field(min_length=1)]
    """A file, or files as `data/*.jsonl`; relative to the directory of proctor.yaml, else to the current one."""
    timeout_seconds: float = Field(default=10.0, gt=0, allow_inf_nan=False)
    shown_tests: int | None = Field(default=None, ge=1)
    """How many assertions of `test_list` the prompt shows; default: all, as the authors of MBPP do."""
    challenge_tests: bool = False
    """Whether `challenge_test_list`, which is never shown, has to pass as well."""


class CodeTasks:
    """One task for each row. Raises `UsageError`, with file and line, for whatever cannot be read."""

    name = "code"
    isolated_attempts = True
    grading = GradingMode.FRESH
    gradings = (GradingMode.FRESH,)
    options: type[BaseModel] = CodeTasksOptions

    def __init__(self, options: CodeTasksOptions) -> None:
        self._options = options
        self._rows: Rows = read_rows(find_files(options.path, project_directory(Path.cwd())))
        self.version = f"1-{self._rows.sha256[:12]}"

    async def tasks(self) -> Iterable[Task]:
        """Return the tasks in the order of the rows. Raises `UsageError`, which lists what is wrong with rows."""
        return tasks_of(self._rows, self._task)

    async def setup(self, ctx: AttemptContext) -> None:
        """Put nothing into the sandbox: the prompt is all that an agent needs."""

    def _task(self, row: Row) -> Task:
        return self._with_assertions(row) if "test_list" in row.values else self._with_check(row)

    def _with_check(self, row: Row) -> Task:
        prompt, entry_point, test = row.text("prompt"), row.text("entry_point").strip(), row.text("test")
        if not any(isinstance(each, ast.FunctionDef) and each.name == "check" for each in _parsed(test).body):
            raise RowError("field `test` defines no function `check(candidate)`")
        solution = _optional(row, "canonical_solution")
        return Task(
            id=row.text("task_id").strip(),
            prompt=COMPLETE.format(prompt=prompt.rstrip("\n")),
            grader=self._grader(test, entry_point, prompt),
            reference=Reference(answer=_block(prompt + solution)) if solution else None,
            tags=TAGS,
        )

    def _with_assertions(self, row: Row) -> Task:
        options = self._options
        shown = row.texts("test_list")
        hidden = (
            row.texts("challenge_test_list")
            if options.challenge_tests and row.values.get("challenge_test_list")
            else []
        )
        imports = row.texts("test_imports") if row.values.get("test_imports") else []
        setup = "\n".join([*imports, _optional(row, "test_setup_code")])
        code = _optional(row, "code")
        text = row.text("text" if "text" in row.values else "prompt").strip()
        return Task(
            id=row.text("task_id").strip(),
            prompt=WRITE.format(text=text, tests="\n".join(shown[: options.shown_tests])),
            grader=self._grader(_check(setup, shown + hidden), _entry_point(setup, shown + hidden, code)),
            reference=Reference(answer=_block(code)) if code else None,
            tags=TAGS,
        )

    def _grader(self, test: str, entry_point: str, prompt: str = "") -> Component:
        return Component(
            "python-tests",
            {
                "prompt": prompt,
                "test": test,
                "entry_point": entry_point,
                "timeout_seconds": self._options.timeout_seconds,
            },
        )


def _optional(row: Row, name: str) -> str:
    """Return a text that may be missing, null or empty."""
    return row.text(name) if row.values.get(name) else ""


def _block(code: str) -> str:
    return f"```python\n{code.strip(chr(10))}\n```\n"


def _check(setup: str, assertions: list[str]) -> str:
    """Return the source of tests that define `check(candidate)`, as `python-tests` wants them. Raises `RowError`."""
    body = "".join(_indented(one) for one in assertions)
    return f"{setup}\n\ndef check(candidate):\n{body}"


def _indented(source: str) -> str:
    """Return statements as the body of a function; what stands inside of a text over several lines stays as it is."""
    source = textwrap.dedent(source).strip("\n")
    tree = _parsed(source)
    if any(not isinstance(statement, ast.Assert | ast.Expr | ast.Assign | ast.Import) for statement in tree.body):
        return textwrap.indent(source, "    ") + "\n"
    begins = {statement.lineno for statement in tree.body}
    lines = source.split("\n")
    return "".join(f"    {line}\n" if number in begins else f"{line}\n" for number, line in enumerate(lines, start=1))


def _entry_point(setup: str, assertions: list[str], code: str) -> str:
    """Return the name that an answer has to define: the first that the tests call and the reference defines.

    Without a reference it is the first that they call and nobody defines. Raises `RowError` where there is none.
    """
    tests, own = [_parsed(one) for one in assertions], _parsed(setup)
    defined = set(_bound(own)).union(*(_bound(tree) for tree in tests))
    called = [name for tree in (*tests, own) for name in _called(tree) if name not in defined]
    if code:
        ours = set(_bound(_parsed(code)))
        called = [name for name in called if name in ours]
    found = next((name for name in called if not hasattr(builtins, name)), None)
    if found is None:
        what = "that field `code` defines" if code else "that an answer could define"
        raise RowError(f"the tests call nothing {what}")
    return found


def _parsed(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = source.strip().partition("\n")[0]
        raise RowError(f"this is no Python: `{line:.60}`: {error}") from error


def _called(tree: ast.Module) -> Iterator[str]:
    """Yield the names that are called, or else spoken of, from left to right."""
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    names.sort(key=lambda node: (id(node) not in called, node.lineno, node.col_offset))
    yield from (node.id for node in names)


def _bound(tree: ast.Module) -> Iterator[str]:
    """Yield the names that statements bind at the top level."""
    for statement in tree.body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                yield from ((alias.asname or alias.name).partition(".")[0] for alias in names)
            case ast.Assign(targets=targets):
                yield from (target.id for target in targets if isinstance(target, ast.Name))
            case _:
                pass
