"""What hooks declare of themselves, and how they can be called (spec 03 S6, 04 P2)."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import Any

import pytest

from proctor.authoring.hook_code import code_of, wrong_call
from proctor.authoring.hooks import declared_identity, declared_timeout, hook
from proctor.errors import UsageError


def plain() -> None:
    pass


def with_sandbox(sandbox: Any, more: int = 1) -> None:
    pass


def test_a_hook_declares_its_limit_and_what_it_stands_for() -> None:
    @hook(identity="v1", timeout_seconds=90)
    def marked() -> None:
        pass

    assert (declared_identity(marked), declared_timeout(marked)) == ("v1", 90.0)
    assert code_of(marked) == "v1"
    assert (declared_identity(plain), declared_timeout(plain)) == (None, None)


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan"), True, "5"])
def test_a_limit_that_is_none_is_refused(seconds: Any) -> None:
    with pytest.raises(UsageError, match="not a finite number of seconds above 0") as raised:
        hook(timeout_seconds=seconds)
    assert raised.value.hint


def test_a_hook_counts_as_its_file_where_it_declares_nothing() -> None:
    assert code_of(plain) == hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    assert code_of(functools.wraps(plain)(lambda: None)) == code_of(plain)
    assert code_of(len) is None, "it has no file"


def test_the_statement_that_only_names_a_hook_does_not_count() -> None:
    line = plain.__code__.co_firstlineno
    without = code_of(with_sandbox, without_statement_at=(__file__, line))
    source = Path(__file__).read_bytes()
    assert without == hashlib.sha256(source.replace(b"def plain() -> None:\n    pass\n", b"", 1)).hexdigest()
    assert code_of(with_sandbox, without_statement_at=("/elsewhere.py", line)) == code_of(plain)


def test_how_hooks_are_called() -> None:
    assert wrong_call(plain, sandbox=False) is None
    assert wrong_call(with_sandbox, sandbox=True) is None
    assert "is called with one argument, the sandbox" in (wrong_call(plain, sandbox=True) or "")
    assert "is called with no argument" in (wrong_call(with_sandbox, sandbox=False) or "")
