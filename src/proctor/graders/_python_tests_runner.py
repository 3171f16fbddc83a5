"""Runs an answer's code and the task's tests; this text is handed to the sandbox's own interpreter (3.9 or later).

Standard input holds one JSON object: `nonce`, `answer`, `prompt`, `test`, `entry_point`. What is found is told on
standard output, in lines that begin with the nonce: `ready` before any of the code runs, then how it ended. Whoever
reads them believes nothing else, so nothing that the code prints, no status and no early end can look like success.
"""

from __future__ import annotations

import ast
import errno
import json
import linecache
import os
import re
import reprlib
import sys
import textwrap
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PYTHON_LABELS = ("", "python", "py", "python3")
TEXT_LENGTH = 300
NOTE = "__proctor_note__"
SPARE_BYTES = 4 << 20
"""Set aside, so that there is room to say that memory has run out."""

_FENCE = re.compile(r"([ \t]*)(`{3,}|~{3,})[ \t]*([^\s`]*)[^`]*")
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "", ast.NotEq: "!= ", ast.Lt: "< ", ast.LtE: "<= ", ast.Gt: "> ", ast.GtE: ">= ", ast.Is: "is ",
    ast.IsNot: "is not ", ast.In: "in ", ast.NotIn: "not in ",
}  # fmt: skip


# ---------------------------------------------------------------------------------- taking code out of an answer


def fenced_blocks(text: str) -> list[tuple[str, str]]:
    """Return label (lower case) and content of each fenced block; a last one that is not closed reaches to the end."""
    blocks: list[tuple[str, str]] = []
    fence: tuple[str, str, str] | None = None
    lines: list[str] = []
    for line in text.split("\n"):
        if fence is None:
            match = _FENCE.fullmatch(line)
            if match:
                fence, lines = (match[1], match[2], match[3].lower()), []
            continue
        indent, mark, label = fence
        bare = line.strip()
        if len(bare) >= len(mark) and not bare.strip(mark[0]):
            blocks.append((label, "\n".join(lines) + "\n"))
            fence = None
        else:
            lines.append(line[len(indent) :] if line.startswith(indent) else line)
    if fence is not None:
        blocks.append((fence[2], "\n".join(lines) + "\n"))
    return blocks


def defines(code: str, name: str) -> bool:
    """Say whether `code` binds `name` at its top level."""
    try:
        statements = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return re.search(rf"^(?:(?:async[ \t]+)?def|class)[ \t]+{re.escape(name)}\b", code, re.MULTILINE) is not None
    return any(name in _bound(statement) for statement in statements)


def _bound(statement: ast.stmt) -> set[str]:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {statement.name}
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return {alias.asname or alias.name for alias in statement.names}
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        targets = [statement.target]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def code_of(answer: str, entry_point: str) -> str:
    """Return the code of an answer: its last block of Python, rather one that defines the entry point; or all of it."""
    text = answer.replace("\r\n", "\n").replace("\r", "\n").lstrip("\ufeff")
    blocks = fenced_blocks(text)
    if not blocks:
        return text
    codes = [code for label, code in blocks if label in PYTHON_LABELS] or [code for _, code in blocks]
    defining = [code for code in codes if defines(textwrap.dedent(code), entry_point)]
    return (defining or codes)[-1]


def preamble(prompt: str, entry_point: str) -> str:
    """Return what stands in the prompt before the definition of the entry point: imports, helpers."""
    match = re.search(rf"^(?:async[ \t]+)?def[ \t]+{re.escape(entry_point)}\b", prompt, re.MULTILINE)
    if match is None:
        return prompt
    lines = prompt[: match.start()].split("\n")
    while lines and (not lines[-1] or lines[-1].startswith("@")):
        lines.pop()
    return "\n".join(lines) + "\n"


def candidate_sources(answer: str, prompt: str, entry_point: str) -> list[tuple[str, str]]:
    """Return the sources to run, as name and text: what the prompt brings, and the answer's code.

    Code that does not define the entry point is the rest of the prompt: the body of the function that it begins.
    """
    code = code_of(answer, entry_point)
    for whole in (code, textwrap.dedent(code)):
        if defines(whole, entry_point):
            return [("prompt", preamble(prompt, entry_point)), ("candidate", whole)]
    start = prompt if prompt.endswith("\n") or not prompt else prompt + "\n"
    body = code.strip("\n") + "\n"
    bodies = [body, textwrap.indent(body, "    "), body.expandtabs(4), textwrap.indent(body.expandtabs(4), "    ")]
    fitting = [body for body in bodies if _compiles(start + body)]
    return [("candidate", start + (fitting or bodies)[0])]


def _compiles(source: str) -> bool:
    try:
        compile(source, "candidate", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


# ------------------------------------------------------------------------------------------- watching assertions


class AssertNoter(ast.NodeTransformer):
    """Makes each assertion note what it compares, so that a failure can tell."""

    def visit_Assert(self, node: ast.Assert) -> ast.Assert:
        """Replace `assert a == b` by `assert note(place, a, b, lambda left, right: left == right)`."""
        test = node.test
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            text, operands = _COMPARISONS[type(test.ops[0])], [test.left, *test.comparators]
            result: ast.expr = ast.Compare(_load("left"), test.ops, [_load("right")])
        elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            text, operands = "something false", [test.operand, ast.Constant(None)]
            result = ast.UnaryOp(ast.Not(), _load("left"))
        else:
            text, operands = "something true", [test, ast.Constant(None)]
            result = _load("left")
        names = [ast.arg("left"), ast.arg("right")]
        arguments = ast.arguments(posonlyargs=[], args=names, kwonlyargs=[], kw_defaults=[], defaults=[])
        place = ast.Tuple([ast.Constant(node.lineno), ast.Constant(node.end_lineno), ast.Constant(text)], ast.Load())
        call = ast.Call(_load(NOTE), [place, *operands, ast.Lambda(arguments, result)], [])
        node.test = ast.copy_location(call, test)
        return ast.fix_missing_locations(node)


def _load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def show(value: object) -> str:
    """Return a short text for a value, also for one that does not want to be shown."""
    shower = reprlib.Repr()
    shower.maxstring = shower.maxother = shower.maxlong = TEXT_LENGTH
    shower.maxlist = shower.maxtuple = shower.maxdict = shower.maxset = shower.maxfrozenset = shower.maxdeque = 40
    try:
        return shower.repr(value)[:TEXT_LENGTH]
    except BaseException as error:  # the value is the code's own object
        return f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"


def describe(error: BaseException) -> str:
    """Return type and text of an exception, shortened."""
    try:
        text = str(error)
    except BaseException:  # the exception is the code's own object
        text = "<its text cannot be shown>"
    return f"{type(error).__name__}: {text}"[:TEXT_LENGTH] if text else type(error).__name__


# -------------------------------------------------------------------------------------------------------- running


class Broken(Exception):
    """The tests themselves cannot be run."""


def compile_tests(source: str) -> types.CodeType:
    """Compile the tests, their assertions noted; raises `Broken`."""
    linecache.cache["test"] = (len(source), None, source.splitlines(keepends=True), "test")
    try:
        tree = ast.parse(source, "test")
        if not any(isinstance(statement, ast.FunctionDef) and statement.name == "check" for statement in tree.body):
            raise Broken("the tests define no function `check(candidate)`")
        return compile(AssertNoter().visit(tree), "test", "exec")
    except (SyntaxError, ValueError) as error:
        raise Broken(f"the tests do not compile: {describe(error)}") from error


def run_tests(sources: list[tuple[str, str]], tests: types.CodeType, entry_point: str) -> dict[str, Any]:
    """Run code and tests in one namespace; return how it ended, or raise what they raised."""
    noted: list[Any] = []

    def note(place: tuple[int, int, str], left: Any, right: Any, compare: Callable[[Any, Any], Any]) -> Any:
        noted[:] = place, left, right
        return compare(left, right)

    module = types.ModuleType("candidate")
    sys.modules["candidate"] = module
    space = module.__dict__
    space[NOTE] = note
    try:
        for name, source in sources:
            linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
            try:
                code = compile(source, name, "exec")
            except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
                return _failed("the code compiles", describe(error), f"{name}:{getattr(error, 'lineno', None) or 1}")
            exec(code, space)  # noqa: S102 - what this is for
        if entry_point not in space:
            return _failed(f"the code defines {entry_point}", "it does not", None)
        exec(tests, space)  # noqa: S102
        space["check"](space[entry_point])
    except Exception as error:
        cause = why_incomplete(error)
        if cause is not None:
            return cause
        return explain(error, noted)
    return {"state": "passed"}


def _failed(label: str, actual: str | None, source: str | None, expected: str | None = None) -> dict[str, Any]:
    return {"state": "failed", "label": label, "actual": actual, "source": source, "expected": expected}


def why_incomplete(error: BaseException) -> dict[str, Any] | None:
    """Return how the code broke a limit, or None for an ordinary exception, which is a wrong answer."""
    number = error.errno if isinstance(error, OSError) else None
    if isinstance(error, MemoryError) or number == errno.ENOMEM:
        return {"state": "memory"}
    why = None
    if isinstance(error, SystemExit):
        why = f"the code called exit with {show(error.code)}"
    elif isinstance(error, KeyboardInterrupt):
        why = "the code interrupted itself"
    elif isinstance(error, EOFError) and "reading a line" in str(error):
        why = "the code reads standard input, which is empty"
    elif number == errno.EAGAIN or (isinstance(error, RuntimeError) and "start new thread" in str(error)):
        why = "the code reached the limit of processes"
    elif number == errno.EFBIG:
        why = "the code reached the limit of the size of a file"
    return None if why is None else {"state": "incomplete", "why": why}


def explain(error: BaseException, noted: list[Any]) -> dict[str, Any]:
    """Return what failed where: the line of the tests, and what it compared if it was an assertion of theirs."""
    frames: list[tuple[str, int]] = []
    trace = error.__traceback__
    while trace is not None:
        frames.append((trace.tb_frame.f_code.co_filename, trace.tb_lineno))
        trace = trace.tb_next
    ours = [frame for frame in frames if frame[0] in ("test", "candidate", "prompt")]
    in_tests = [frame for frame in ours if frame[0] == "test"]
    if not ours:
        return _failed("the tests run", describe(error), None)
    name, line = (in_tests or ours)[-1]
    label = linecache.getline(name, line).strip()[:TEXT_LENGTH] or "the tests run"
    source = f"{name}:{line}"
    if isinstance(error, AssertionError) and ours[-1] == ("test", line) and noted:
        (first, last, text), left, right = noted
        if first <= line <= last:
            expected = text if text.startswith("something") else text + show(right)
            return _failed(label, show(left), f"test:{first}", expected)
    return _failed(label, describe(error), source)


def main() -> None:
    """Read the request, run, tell, and end at once, whatever threads the code has started."""
    request: dict[str, str] = json.loads(sys.stdin.buffer.read())
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    nonce, entry_point = request["nonce"], request["entry_point"]
    # A descriptor and functions of our own: the code may close and replace what it can reach by the usual names.
    descriptor, write, end, dump = os.dup(1), os.write, os._exit, json.dumps

    def tell(found: dict[str, Any]) -> None:
        write(descriptor, f"\n{nonce} {dump(found)}\n".encode())

    try:
        tests = compile_tests(request["test"])
        tell({"state": "ready"})
        spare = [bytearray(SPARE_BYTES)]
        try:
            sources = candidate_sources(request["answer"], request["prompt"], entry_point)
            found = run_tests(sources, tests, entry_point)
        except BaseException as error:  # what ends the code must not end us unheard
            spare.clear()
            error.__traceback__ = None  # with all that the frames hold
            found = why_incomplete(error) or _failed("the code runs", describe(error), None)
        spare.clear()
        tell(found)
    except Broken as broken:
        tell({"state": "broken", "why": str(broken)})
    except BaseException:
        end(1)
    end(0)


if __name__ == "__main__":
    main()
