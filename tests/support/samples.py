"""Which checks of a suite the default run makes of a provider, where another provider proves the same rules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from proctor.testing.conformance import ProviderCheck


def sampled(checks: Iterable[ProviderCheck], often: set[str]) -> list[Any]:
    """Return checks as parameters of a test: those that are not named in `often` are made in the long run only."""
    found = list(checks)
    assert often <= {check.name for check in found}, "a check has another name now"
    return [
        pytest.param(check, id=check.name, marks=[] if check.name in often else pytest.mark.long) for check in found
    ]
