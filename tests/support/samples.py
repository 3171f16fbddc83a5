"""Which cases of many the default run takes, where these prove the rule and the others are made in the long run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import pytest

from proctor.testing.conformance import ProviderCheck


def sample(cases: Mapping[str, Any], often: Collection[str]) -> list[Any]:
    """Return cases by name as parameters of a test, tuples as several; those that are not in `often` are `long`."""
    assert set(often) <= set(cases), "each of the sample is a case"
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)), id=name, marks=() if name in often else pytest.mark.long
        )
        for name, case in cases.items()
    ]


def sampled(checks: Iterable[ProviderCheck], often: Collection[str]) -> list[Any]:
    """Return the checks of a provider as parameters of a test, likewise."""
    return sample({check.name: (check,) for check in checks}, often)
