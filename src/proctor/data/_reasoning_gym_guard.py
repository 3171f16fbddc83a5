"""Keeps answers from being run as code by the checkers of reasoning_gym, and from using more than a check needs.

Checkers call `eval` on answers, and have sympy read them, which does so too. After `load`, `eval` takes literals and
arithmetic there, and sympy takes expressions only. What is not thought of here meets `limit`.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import keyword
import math
import os
import re
import resource
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

MEMORY_BYTES = 2 << 30
"""What a check may use beyond what is loaded."""
LITERALS = (
    ast.Expression, ast.Constant, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.UnaryOp, ast.BinOp, ast.operator,
    ast.unaryop, ast.expr_context,
)  # fmt: skip
FUNCTIONS = {
    "C", "sin", "cos", "tan", "cot", "sec", "csc", "asin", "acos", "atan", "acot", "asec", "acsc", "atan2",
    "sinh", "cosh", "tanh", "coth", "sech", "csch", "asinh", "acosh", "atanh", "acoth", "asech", "acsch", "exp",
    "log", "ln", "sqrt", "cbrt", "root", "Abs", "abs", "sign", "floor", "ceiling", "gamma", "loggamma", "erf",
    "erfc", "erfi", "Ei", "Si", "Ci", "li", "Max", "Min", "pi", "E", "I", "oo", "GoldenRatio", "EulerGamma",
    "Rational", "Integer", "Float", "Integral", "Piecewise", "Ne", "Eq", "True", "lowergamma", "uppergamma",
    "fresnels", "fresnelc", "polylog",
}  # fmt: skip
"""What of sympy an expression may name."""
_EXPRESSION = re.compile(r"[A-Za-z0-9_+\-*/^().,!\s]*")
_ATTRIBUTE = re.compile(r"[A-Za-z_)]\s*\.|\.\s*[A-Za-z_]")
_WORD = re.compile(r"[A-Za-z_]\w*")
REFUSED = (
    "ctypes.", "ftplib.", "os.chmod", "os.chown", "os.exec", "os.fork", "os.kill", "os.link", "os.mkdir",
    "os.posix_spawn", "os.putenv", "os.remove", "os.rename", "os.rmdir", "os.spawn", "os.symlink", "os.system",
    "os.truncate", "os.utime", "pty.", "shutil.", "signal.", "smtplib.", "socket.", "subprocess.", "urllib.",
)  # fmt: skip
"""Events of the interpreter that no check has to do with."""


def calculate(text: Any, *_: Any) -> Any:
    """Do what `eval` does with literals and arithmetic; raises `ValueError` for anything else."""
    tree = ast.parse(str(text).strip(), mode="eval")
    if not all(isinstance(node, LITERALS) for node in ast.walk(tree)):
        raise ValueError("this is no value")
    return eval(compile(tree, "value", "eval"), {"__builtins__": {}})  # noqa: S307 - no name, call or attribute is in it


def require_expression(text: str, names: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Raise `ValueError` unless `text` is of numbers, symbols, operators and plain functions.

    `names` are symbols. `known` are the names of sympy: most of them are programs to run, not functions of a number.
    """
    if not _EXPRESSION.fullmatch(text) or _ATTRIBUTE.search(text):
        raise ValueError("this is no expression")
    for word in _WORD.findall(text):
        free = not (word in known or keyword.iskeyword(word) or "__" in word)
        if not (free or word in names or word in FUNCTIONS):
            raise ValueError(f"{word} is no function of an expression")


def load() -> Any:
    """Return the package, with its ways to run an answer as code closed."""
    package: Any = importlib.import_module("reasoning_gym")
    parser: Any = importlib.import_module("sympy.parsing.sympy_parser")
    sympy: Any = importlib.import_module("sympy")
    known: dict[str, Any] = {**vars(sympy), **vars(builtins)}
    parse: Any = parser.parse_expr

    def parse_expr(s: str, local_dict: dict[str, Any] | None = None, *args: Any, **kwargs: Any) -> Any:
        require_expression(s, local_dict or {}, known)
        return parse(s, local_dict, *args, **kwargs)

    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("reasoning_gym", "sympy"):
            for key, value in list(vars(module).items()):
                if value is parse:
                    setattr(module, key, parse_expr)
        if name.partition(".")[0] == "reasoning_gym":
            vars(module)["eval"] = calculate
    return package


def limit(seconds: int) -> None:
    """Bound what this process may use from now on, and refuse it what no check needs."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu_seconds = math.ceil(used.ru_utime + used.ru_stime) + seconds
    with open("/proc/self/statm", encoding="ascii") as file:
        loaded_bytes = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
    memory_bytes = loaded_bytes + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    sys.addaudithook(_refuse)


def _refuse(event: str, given: tuple[Any, ...]) -> None:
    writing = event == "open" and isinstance(given[2], int) and given[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    if writing or event.startswith(REFUSED):
        raise PermissionError(f"a check does not need {event}")
