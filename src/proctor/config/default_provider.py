"""Which provider makes sandboxes where nobody names one: `bwrap` where it works, else `local`."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, NamedTuple

from proctor.errors import ProctorError, UnknownName, describe
from proctor.plugins.registry import Kind, load, names

VARIABLE = "PROCTOR_PROVIDER"
"""The environment variable that names another default."""

PREFERRED, FALLBACK = "bwrap", "local"

PROBE_SECONDS = 10.0
"""It takes milliseconds; what hangs is no default."""


class DefaultProvider(NamedTuple):
    """The default provider, and why it is not the preferred one, where it is not."""

    name: str
    why_not: str | None = None


def default_provider() -> str:
    """Return the provider of environments that name none. Raises `UnknownName` for what the variable says."""
    return _default().name


def why_not_preferred() -> str | None:
    """Return why the default is not `bwrap`, in words for people; None where it is, or where a variable says so."""
    return _default().why_not


def why_default() -> str:
    """Return why the default is what it is, in words for people."""
    found = _default()
    if os.environ.get(VARIABLE):
        return f"{VARIABLE} says so"
    return f"{PREFERRED} works here" if found.why_not is None else f"{PREFERRED} does not work here: {found.why_not}"


def found_working(name: str) -> bool:
    """Say whether a provider was tried as the default in this process, and works: it need not be tried again."""
    return bool(_found.cache_info().currsize) and _found() == DefaultProvider(name)


def forget_default() -> None:
    """Find out anew, when it is asked for next, whether the preferred one works."""
    _found.cache_clear()


def _default() -> DefaultProvider:
    named = os.environ.get(VARIABLE)
    if not named:
        return _found()
    if named not in names(Kind.PROVIDER) and ":" not in named:
        error = UnknownName("provider", named, names(Kind.PROVIDER), list_with=Kind.PROVIDER.list_with)
        error.message = f"{VARIABLE}: {error.message}"
        error.args = (error.message,)
        raise error
    return DefaultProvider(named)


@cache
def _found() -> DefaultProvider:
    """Try the preferred one, once in a process: it starts a program."""
    if PREFERRED not in names(Kind.PROVIDER):
        return DefaultProvider(FALLBACK, "it is not installed")
    # In a thread of its own: the caller may be inside of an event loop, which must not be run again.
    with ThreadPoolExecutor(1) as thread:
        why = thread.submit(asyncio.run, _unavailable()).result()
    return DefaultProvider(PREFERRED) if why is None else DefaultProvider(FALLBACK, why)


async def _unavailable() -> str | None:
    try:
        provider: Any = load(Kind.PROVIDER, PREFERRED)()
        async with asyncio.timeout(PROBE_SECONDS):
            return await provider.unavailable()
    except ProctorError as error:
        return error.message
    except Exception as error:  # whatever it is, the other provider works
        return describe(error)


__all__ = [
    "VARIABLE",
    "DefaultProvider",
    "default_provider",
    "forget_default",
    "found_working",
    "why_default",
    "why_not_preferred",
]
