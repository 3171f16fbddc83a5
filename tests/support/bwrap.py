"""Tests that make sandboxes by bubblewrap: skipped, with the reason, where it does not work."""

from __future__ import annotations

import asyncio
import tempfile
from functools import cache
from pathlib import Path

import pytest

from proctor.providers.bwrap.provider import BwrapProvider


@cache
def why_not() -> str | None:
    """Return why no sandbox can be made here, or None."""

    async def ask() -> str | None:
        with tempfile.TemporaryDirectory() as base:
            return await BwrapProvider(Path(base, "base")).unavailable()

    return asyncio.run(ask())


needs_bwrap = pytest.mark.skipif(why_not() is not None, reason=f"bubblewrap does not work here: {why_not()}")
