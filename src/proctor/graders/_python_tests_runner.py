"""Runs an answer's code and the task's tests, in the sandbox's own interpreter (3.9 or later).

Standard input holds ten digits, so many bytes of a JSON object (`nonce`, `answer`, `prompt`, `test`, `entry_point`) and
a word. What is found is told on standard output, in lines that begin with the nonce: `ready` before any of the code
runs, then how it ended. That the tests passed is told by the word alone, which stays in the pipe until they have.

The answer's code can change whatever it can name: builtins, modules, hooks of the interpreter. So nothing that it can
name is used between its first line and the word: only what local variables held before, and namespaces of our own.
"""

from __future__ import annotations

import ast
import builtins
import errno
import fcntl
import gc
import json
import linecache
import os
import sys
import types
from contextlib import suppress

from proctor.graders import _answer_code
from proctor.graders._assertions import PLAIN, AssertNoter, describe, explain, failed, plain_values, show

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

LENGTH_DIGITS = 10
WORD_BYTES = 32
SPARE_BYTES = 4 << 20
"""Set aside, so that there is room to say that memory has run out."""
REFUSED = ("sys.settrace", "sys.setprofile", "sys.addaudithook", "sys.monitoring.register_callback")
"""What would let code see and steer other code than its own."""
TARGET, SETTLE = "__proctor_target__", "__proctor_settle__"


class Broken(Exception):
    """The tests themselves cannot be run."""


# ---------------------------------------------------------------------------------------------- preparing the tests


class Tests:
    """Tests that are ready to run, in a namespace that is theirs alone."""

    def __init__(self, source: str) -> None:
        self.lines = source.split("\n")
        self.places: list[tuple[int, int, str]] = []
        self.wanted: list[str] = []
        """Names that they take from the answer's code where it has them."""
        self.builtins: dict[str, Any] = dict(vars(builtins))
        self.space: dict[str, Any] = {"__builtins__": self.builtins, "__name__": "candidate"}
        self.code: types.CodeType


def load_tests(source: str, prompt: str, entry_point: str, settle: Callable[[], object] = int) -> Tests:
    """Make the tests ready before any of the answer's code runs; raises `Broken`.

    They see what stands in the prompt before the entry point, by a copy of their own, and builtins as they are now. All
    else that they name they get from the answer, and classes of the prompt too, for the answer may define them anew.
    `settle` is called when all is defined, just before `check`.
    """
    tests, noter = Tests(source), AssertNoter()
    try:
        tree = noter.visit(ast.parse(source, "test"))
        if not any(isinstance(statement, ast.FunctionDef) and statement.name == "check" for statement in tree.body):
            raise Broken("the tests define no function `check(candidate)`")
        ending = ast.parse(f"{SETTLE}()\ncheck({TARGET})")
        tree.body += ast.increment_lineno(ending, len(tests.lines)).body
        tests.code = compile(tree, "test", "exec")
    except (SyntaxError, ValueError) as error:
        raise Broken(f"the tests do not compile: {describe(error)}") from error
    tests.places = noter.places
    own, space = tests.builtins, tests.space
    start = _parsed(_answer_code.preamble(prompt, entry_point))
    own["__import__"], recall = importers(shared_modules([start, tree]))
    with suppress(Exception):  # what fails here fails again, and is told, where the answer's code or the tests use it
        exec(compile(start, "prompt", "exec"), space)  # noqa: S102 - it is the task's own
    for name, names, level in asked_for(tree):
        with suppress(Exception):  # likewise
            own["__import__"](name, space, None, names, level)
    own["__import__"] = recall
    classes = {name for name, it in space.items() if isinstance(it, type) and it.__module__ == "candidate"}
    space[SETTLE], space[PLAIN] = settle, plain_values(space, tests.wanted)
    tests.wanted += sorted({name for name in _names(tests.code) if name not in own and name not in space} | classes)
    return tests


def _parsed(source: str) -> ast.Module:
    try:
        return ast.parse(source, "prompt")
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # it fails with the answer's code, and is told there
        return ast.Module([], [])


def _names(code: types.CodeType) -> set[str]:
    """Return all names that code speaks of, those of attributes among them."""
    return set(code.co_names).union(*(_names(part) for part in code.co_consts if isinstance(part, types.CodeType)))


def asked_for(tree: ast.AST) -> Iterable[tuple[str, tuple[str, ...], int]]:
    """Yield what the statements of imports ask `__import__` for: the name, the names in it, the level."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, (), 0
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "", tuple(alias.name for alias in node.names), node.level


def shared_modules(trees: Sequence[ast.AST]) -> set[str]:
    """Return the modules of which no copy does: those with which more is done than to read their attributes.

    Tests that set an attribute of a module, or hand it on, want the answer's code to see what comes of it.
    """
    nodes = [node for tree in trees for node in ast.walk(tree)]
    read = {id(node.value) for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)}
    loose = {node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in read}
    found = {"sys"}  # what it holds changes: the standard streams
    for alias in (alias for node in nodes if isinstance(node, ast.Import) for alias in node.names):
        top = alias.name.partition(".")[0]
        if (alias.asname or top) in loose:
            found.add(top)
    return found


def importers(shared: set[str]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return two functions for `__import__`: one that copies modules and keeps the copies, one that brings them back.

    So what the answer's code does to the attributes of a module is not seen by tests that use it.
    """
    load = builtins.__import__
    copies: dict[tuple[str, Any, int], Any] = {}

    def bring(name: str, outer: Any = None, inner: Any = None, names: Any = (), level: int = 0) -> Any:
        found = load(name, outer, inner, names, level)
        if type(found) is types.ModuleType and found.__name__ not in shared:
            copy = types.ModuleType(found.__name__)
            copy.__dict__.update(found.__dict__)
            copies[name, names or (), level] = found = copy
        return found

    def recall(name: str, outer: Any = None, inner: Any = None, names: Any = (), level: int = 0) -> Any:
        asked = (name, names or (), level)
        return copies[asked] if asked in copies else load(name, outer, inner, names, level)

    return bring, recall


# -------------------------------------------------------------------------------------------------------- running


def run_tests(sources: Sequence[tuple[str, str]], tests: Tests, entry_point: str, passed: object) -> object:
    """Run the answer's code, then the tests: return `passed` itself if they came to their end, else how they ended.

    Raises what is no `Exception`.
    """
    run, ordinary, target = exec, Exception, TARGET
    codes: list[types.CodeType] = []
    own, wanted, code = tests.space, tests.wanted, tests.code
    module = types.ModuleType("candidate")
    sys.modules["candidate"] = module
    space = module.__dict__
    for name, source in sources:
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        try:
            codes.append(compile(source, name, "exec"))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            return failed("the code compiles", describe(error), f"{name}:{getattr(error, 'lineno', None) or 1}")
    try:
        for each in codes:
            run(each, space)
        if entry_point not in space:
            return failed(f"the code defines {entry_point}", "it does not", None)
        for name in wanted:
            if name in space:
                own[name] = space[name]
        own[target] = space[entry_point]
        run(code, own)
    except ordinary as error:
        texts = {"test": tests.lines, **{name: source.split("\n") for name, source in sources}}
        return why_incomplete(error) or explain(error, tests.places, texts)
    return passed


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


def hide() -> None:
    """Take away what leads code to this program by name, and keep it from watching or changing what runs besides it.

    The frames of the stack still lead here, and so does a search of the memory.
    """
    refused = frozenset(REFUSED)

    def refuse(event: str, arguments: object) -> None:
        if event in refused:
            raise RuntimeError(f"{event} is not for code that is tested")

    sys.modules["__main__"] = types.ModuleType("__main__")
    sys.addaudithook(refuse)  # for good: unlike functions of `sys`, it cannot be replaced
    gc.freeze()  # hides all that there is from `gc.get_objects`
    del gc.unfreeze


def receive(count: int) -> bytes:
    """Read so many bytes of standard input, and no more; fewer if it ends."""
    data = bytearray()
    while len(data) < count and (part := os.read(0, min(count - len(data), 1 << 16))):
        data += part
    return bytes(data)


def aside(descriptor: int) -> int:
    """Return a copy of a descriptor, by a number that cannot be guessed."""
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 100 + int.from_bytes(os.urandom(2), "big") % 800)
    except OSError:  # so many are not allowed here
        return os.dup(descriptor)


def main() -> None:
    """Read the request, run, tell, and end at once, whatever threads the code has started."""
    request: dict[str, str] = json.loads(receive(int(receive(LENGTH_DIGITS))))
    secret, output, null = aside(0), aside(1), os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    nonce, answer, prompt, entry_point = (request.pop(name) for name in ("nonce", "answer", "prompt", "entry_point"))
    read, write, end, dump, own_id, size, word, left = (
        os.read, os.write, os._exit, json.dumps, os.getpid, len, b"\n", WORD_BYTES,
    )  # fmt: skip
    process, passed, everything = own_id(), object(), BaseException

    def tell(found: object) -> None:
        write(output, f"\n{nonce} {dump(found)}\n".encode())

    try:
        tests = load_tests(request.pop("test"), prompt, entry_point, gc.freeze)
        tell({"state": "ready"})
        spare = [bytearray(SPARE_BYTES)]
        try:
            sources = _answer_code.candidate_sources(answer, prompt, entry_point)
            hide()
            found = run_tests(sources, tests, entry_point, passed)
        except everything as error:  # what ends the code must not end us unheard
            spare.clear()
            error.__traceback__ = None  # with all that the frames hold
            found = why_incomplete(error) or failed("the code runs", describe(error), None)
        spare.clear()
        if found is not passed:
            tell(found)
        elif own_id() == process:  # not a copy of us that the code made
            while left and (part := read(secret, left)):
                word, left = word + part, left - size(part)
            write(output, word + b"\n")
    except Broken as broken:
        tell({"state": "broken", "why": str(broken)})
    except everything:
        end(1)
    end(0)
