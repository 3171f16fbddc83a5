"""What is looked at of hooks before they are called: how they can be called, and what they count as in identities."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from proctor.authoring.hooks import declared_identity


def wrong_call(function: Callable[..., Any], *, sandbox: bool) -> str | None:
    """Say why a function cannot be called as a hook is, with the sandbox or with nothing; None where it can be."""
    arguments = ("the sandbox",) if sandbox else ()
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        return f"is called with {'one argument, the sandbox' if sandbox else 'no argument'}: {error}"
    except ValueError:  # of a function that is not written in Python it may be unknown
        return None
    return None


def code_of(function: Callable[..., Any], *, without_statement_at: tuple[str, int] | None = None) -> str | None:
    """Return what a hook stands for: the identity that it declares, else the digest of its file, None for neither.

    The statement at a place (file and line) does not count: it only says what the hook is used for.
    """
    identity = declared_identity(function)
    if identity is not None:
        return identity
    module = sys.modules.get(getattr(inspect.unwrap(function), "__module__", None) or "")
    file = getattr(module, "__file__", None)
    if file is None:
        return None
    try:
        source = Path(file).read_bytes()
    except OSError:
        return None
    if without_statement_at is not None and Path(without_statement_at[0]) == Path(file):
        source = _without_statement(source, without_statement_at[1])
    return sha256(source).hexdigest()


def _without_statement(source: bytes, line: int) -> bytes:
    """Return a source without the lines of its statement at a line."""
    try:
        statements = ast.parse(source).body
    except (SyntaxError, ValueError):  # it was changed since it was imported
        return source
    lines = source.splitlines(keepends=True)
    for statement in statements:
        last = statement.end_lineno or statement.lineno
        if statement.lineno <= line <= last:
            return b"".join(lines[: statement.lineno - 1] + lines[last:])
    return source
