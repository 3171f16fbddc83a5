"""Takes the code out of an answer. Like `_python_tests_runner.py`, it runs in the sandbox (Python 3.9 or later)."""

from __future__ import annotations

import ast
import re
import textwrap

PYTHON_LABELS = ("", "python", "py", "python3")

_BEGINNING = re.compile(r"(?:(?:async[ \t]+)?def|class|import|from)[ \t]+\w|@\w")
BEGINNINGS_AT_MOST = 20
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
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
    codes = _codes(answer)
    if codes == [_plain(answer)] and defines(codes[0], entry_point):
        return _without_words(codes[0])
    defining = [code for code in codes if defines(textwrap.dedent(code), entry_point)]
    # What only imports it shows how it is used, as long as there is another.
    own = [code for code in defining if not _imports(textwrap.dedent(code), entry_point)]
    return (own or defining or codes)[-1]


def _without_words(code: str) -> str:
    """Return code without the sentences before and after it that keep it from being read."""
    if _statements(code) or not code.strip():
        return code
    lines = code.split("\n")
    begins = [number for number, line in enumerate(lines) if _BEGINNING.match(line)]
    for begin in begins[:BEGINNINGS_AT_MOST]:
        part, error = lines[begin:], _error_in(lines[begin:])
        if error is not None:
            part = part[: error - 1]
        if part and _error_in(part) is None:
            return "\n".join(part) + "\n"
    return code


def _error_in(lines: list[str]) -> int | None:
    """Return the first line that keeps lines from being Python, counted from 1."""
    try:
        ast.parse("\n".join(lines))
    except SyntaxError as error:
        return error.lineno or 1
    except (ValueError, RecursionError, MemoryError):
        return 1
    return None


def _imports(code: str, name: str) -> bool:
    """Say whether the last that binds `name` in `code` is an import."""
    binding = [statement for statement in _statements(code) if name in _bound(statement)]
    return bool(binding) and isinstance(binding[-1], (ast.Import, ast.ImportFrom))


def _codes(answer: str) -> list[str]:
    """Return the blocks of Python of an answer, else all its blocks, else all of it; at least one."""
    text = _plain(answer)
    blocks = fenced_blocks(text)
    return [code for label, code in blocks if label in PYTHON_LABELS] or [code for _, code in blocks] or [text]


def _plain(answer: str) -> str:
    return answer.replace("\r\n", "\n").replace("\r", "\n").lstrip("\ufeff")


def helpers(answer: str, code: str) -> str:
    """Return the functions, classes and imports of other blocks that the chosen code needs and does not have.

    Nothing else of them is run: they show how it is used, or are drafts.
    """
    there: dict[str, ast.stmt] = {}
    for block in _codes(answer):
        for statement in _statements(textwrap.dedent(block)):
            if isinstance(statement, _DEFINITIONS):
                there.update(dict.fromkeys(_bound(statement), statement))
    own = _statements(code)
    have = {name for statement in own for name in _bound(statement)} | _own_names(own)
    wanted, found = _loaded(own) - have, set[str]()
    while wanted := {name for name in wanted if name in there} - found:
        found |= wanted
        wanted = _loaded([there[name] for name in wanted]) - have
    needed = dict.fromkeys(statement for name, statement in there.items() if name in found)
    return "\n".join(map(ast.unparse, needed))


def _statements(code: str) -> list[ast.stmt]:
    try:
        return ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _loaded(statements: list[ast.stmt]) -> set[str]:
    """Return the names that are read anywhere."""
    nodes = (node for statement in statements for node in ast.walk(statement) if isinstance(node, ast.Name))
    return {node.id for node in nodes if isinstance(node.ctx, ast.Load)}


def _own_names(statements: list[ast.stmt]) -> set[str]:
    """Return the names of variables and parameters."""
    nodes = [node for statement in statements for node in ast.walk(statement)]
    stored = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return stored | {node.arg for node in nodes if isinstance(node, ast.arg)}


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
    """Return the sources to run, as name and text: what the prompt brings, helpers of other blocks, the answer's code.

    Code that does not define the entry point is the rest of the prompt: the body of the function that it begins.
    """
    code = code_of(answer, entry_point)
    for whole in (code, textwrap.dedent(code)):
        if defines(whole, entry_point):
            brought = [("prompt", preamble(prompt, entry_point)), ("helpers", helpers(answer, whole))]
            return [*brought, ("candidate", whole)]
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
