"""Watches assertions, so that a failure can tell what was compared. Runs in the sandbox, as the runner does."""

from __future__ import annotations

import ast
import collections
import reprlib
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

TEXT_LENGTH = 300
LEFT, RIGHT, PLAIN = "__proctor_left__", "__proctor_right__", "__proctor_plain__"
LOOKED_INTO_AT_MOST = 10_000
"""Collections in a value that is compared."""
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "", ast.NotEq: "!= ", ast.Lt: "< ", ast.LtE: "<= ", ast.Gt: "> ", ast.GtE: ">= ", ast.Is: "is ",
    ast.IsNot: "is not ", ast.In: "in ", ast.NotIn: "not in ",
}  # fmt: skip


class AssertNoter(ast.NodeTransformer):
    """Makes each assertion keep what it compares in variables. It stays the interpreter that compares and judges."""

    def __init__(self) -> None:
        self.places: list[tuple[int, int, str]] = []
        """First and last line of each assertion, and what it expects."""

    def visit_Assert(self, node: ast.Assert) -> ast.Assert:
        """Replace `assert a == b` by `assert (left := a) == (right := b)`."""
        self.generic_visit(node)
        test = node.test
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            expected = _COMPARISONS[type(test.ops[0])]
            test.left, test.comparators = _kept(LEFT, test.left), [_kept(RIGHT, test.comparators[0])]
        elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            expected, test.operand = "something false", _kept(LEFT, test.operand)
        else:
            expected, node.test = "something true", _kept(LEFT, test)
        self.places.append((node.lineno, node.end_lineno or node.lineno, expected))
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.Compare:
        """Replace `a == b` by `plain(a) == plain(b)`, for values that say themselves what they are equal to."""
        self.generic_visit(node)
        if any(isinstance(operator, (ast.Eq, ast.NotEq, ast.In, ast.NotIn)) for operator in node.ops):
            node.left, node.comparators = _plain(node.left), [_plain(each) for each in node.comparators]
        return node


def _plain(value: ast.expr) -> ast.expr:
    call = ast.Call(ast.Name(PLAIN, ast.Load()), [value], [])
    return ast.fix_missing_locations(ast.copy_location(call, value))


class OwnEquality(Exception):
    """A value is compared that says itself what it is equal to."""


def plain_values(space: Mapping[str, object], named: Sequence[str]) -> Callable[[object], object]:
    """Return a function that returns its value as it is, and raises `OwnEquality` for one that can equal anything.

    That is an object, or a collection of such, whose class defines `__eq__` in the answer's code, unless it is among
    those that `named` say in `space`, of which the tests or the prompt speak; or what `unittest.mock` has for that.
    """
    # All that is used is held by variables: the answer's code can change every name that it can reach.
    kind, identity, any_of, function, refusal, text = type, id, any, types.FunctionType, OwnEquality, str
    bases_of, content_of = type.__dict__["__mro__"].__get__, type.__dict__["__dict__"].__get__
    simple = frozenset(map(id, (int, float, complex, bool, str, bytes, type(None))))
    table: type = dict
    collections_known: tuple[type, ...] = (list, tuple, set, frozenset, collections.deque, table)
    walks = [(each, each.__dict__["__iter__"]) for each in collections_known] + [(table, table.__dict__["values"])]
    names, left_at_most = ("__eq__", "__ne__", "__contains__"), LOOKED_INTO_AT_MOST

    def check(value: object) -> object:
        if identity(kind(value)) in simple:
            return value
        pending, left = [value], left_at_most
        while pending and left:
            item, left = pending.pop(), left - 1
            bases = bases_of(kind(item))
            if any_of(name in space and space[name] is base for name in named for base in bases):
                continue
            for base in bases:
                content = content_of(base)
                for name in names:
                    method = content.get(name)
                    if kind(method) is function and method.__code__.co_filename in ("candidate", "helpers"):
                        raise refusal("the code's object says itself what it is equal to")
                module = content.get("__module__")
                if kind(module) is text and module == "unittest.mock":
                    raise refusal("the code's object is equal to anything")
                for collection, walk in walks:
                    if collection is base:
                        inside: list[object] = [*walk(item)]
                        pending += [each for each in inside if identity(kind(each)) not in simple]
        return value

    return check


def _kept(name: str, value: ast.expr) -> ast.expr:
    return ast.fix_missing_locations(ast.copy_location(ast.NamedExpr(ast.Name(name, ast.Store()), value), value))


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


def failed(label: str, actual: str | None, source: str | None, expected: str | None = None) -> dict[str, Any]:
    """Return what is told of a wrong answer."""
    return {"state": "failed", "label": label, "actual": actual, "source": source, "expected": expected}


def explain(
    error: BaseException, places: Sequence[tuple[int, int, str]], texts: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """Return what failed where: the line of the tests, and what it compared if it was one of their assertions.

    `texts` holds the lines of all that ran, by the name under which it was compiled; `test` is that of the tests.
    """
    frames: list[tuple[str, int, Any]] = []
    trace = error.__traceback__
    while trace is not None:
        frames.append((trace.tb_frame.f_code.co_filename, trace.tb_lineno, trace.tb_frame))
        trace = trace.tb_next
    ours = [frame for frame in frames if frame[0] in texts and frame[1] <= len(texts[frame[0]])]
    in_tests = [frame for frame in ours if frame[0] == "test"]
    if not ours:
        return failed("the tests run", describe(error), None)
    name, line, frame = (in_tests or ours)[-1]
    label = texts[name][line - 1].strip()[:TEXT_LENGTH] or "the tests run"
    if isinstance(error, AssertionError) and ours[-1][2] is frame:
        for first, last, expected in places if name == "test" else ():
            if first <= line <= last and LEFT in frame.f_locals:
                values = frame.f_locals
                wanted = expected if expected.startswith("something") else expected + show(values.get(RIGHT))
                return failed(label, show(values[LEFT]), f"test:{first}", wanted)
    return failed(label, describe(error), f"{name}:{line}")
