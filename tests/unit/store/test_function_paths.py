"""How hooks are named: functions of modules, and of files inside the project (spec 03 S6)."""

from __future__ import annotations

import pytest

from proctor.errors import UsageError
from proctor.store.lease_info import Teardown, names_function


@pytest.mark.parametrize(
    "path",
    [
        "hooks:clear", "a.b.c:d", "a:B.c", "hooks.py:clear", "hooks/all.py:clear", "with space/a-b.py:B.c", "é/ü.py:f",
        "a/..b.py:f",
    ],
)  # fmt: skip
def test_a_function_of_a_module_or_of_a_file(path: str) -> None:
    assert names_function(path)
    assert Teardown(path).path == path


@pytest.mark.parametrize(
    "path",
    [
        "", "hooks", "hooks.py", "hooks:", ":clear", "hooks.py:", "/hooks.py:clear", "../hooks.py:clear",
        "a/../hooks.py:clear", "a\nb.py:clear", "hooks.py:clear()", "hooks.py:<lambda>", "a:b:c",
        "C:/hooks.py:clear", ".py:f", "hooks.py:1f",
    ],
)  # fmt: skip
def test_anything_else_is_refused(path: str) -> None:
    assert not names_function(path)
    with pytest.raises(UsageError, match="is not of the form"):
        Teardown(path)
