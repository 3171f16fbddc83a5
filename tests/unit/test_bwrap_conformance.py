"""Provider `bwrap` does what every provider must (spec 06)."""

from __future__ import annotations

import asyncio

import pytest

from proctor.model.environment import EnvironmentSpec, Network
from proctor.providers.bwrap.provider import BwrapProvider
from proctor.testing.conformance import ProviderCheck, check_provider
from support.bwrap import needs_bwrap

pytestmark = needs_bwrap

NO_NETWORK = EnvironmentSpec(provider="bwrap", network=Network("none"))


@pytest.mark.parametrize("check", check_provider(BwrapProvider, NO_NETWORK), ids=str)
def test_bwrap_conforms(check: ProviderCheck) -> None:
    asyncio.run(check())
