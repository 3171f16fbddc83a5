"""Takes the code out of an answer. Like `_python_tests_runner.py`, it runs in the sandbox (Python 3.9 or later)."""

from __future__ import annotations

import ast
import re
import textwrap

PYTHON_LABELS = ("", "python", "py", "python3")

_FENCE = re.compile(r"([ \t]*)(`{3,}|~{3,})[ \t]*([^\s`]*)[^`]*")


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
    match = re.search(rf"^(?:(?:async[ \t]+)?def|class)[ \t]+{re.escape(entry_point)}\b", prompt, re.MULTILINE)
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
