"""Providers for tests of `proctor sandbox` and `proctor doctor`: what they have, and how they fail."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from proctor.providers.local import LocalProvider


class Absent(LocalProvider):
    """One whose daemon is not there."""

    name = "absent"

    async def unavailable(self) -> str | None:
        return "its daemon does not answer"

    async def list(self, labels: Mapping[str, str]) -> Sequence[Mapping[str, str]]:
        raise ConnectionRefusedError(111, "Connection refused")


class Hangs(LocalProvider):
    """One that never answers, and does not let itself be stopped."""

    name = "hangs"

    async def list(self, labels: Mapping[str, str]) -> Sequence[Mapping[str, str]]:
        await self.unavailable()
        return []

    async def unavailable(self) -> str | None:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if _ended.is_set():
                    raise

    async def finalize(self) -> None:
        _ended.set()


_ended = asyncio.Event()


class ListFails(LocalProvider):
    """One that works, and cannot list what it has."""

    name = "list-fails"

    async def list(self, labels: Mapping[str, str]) -> Sequence[Mapping[str, str]]:
        raise ConnectionResetError("peer went away")


class RemoveFails(LocalProvider):
    """One that has two sandboxes of which one cannot be removed."""

    name = "remove-fails"

    async def list(self, labels: Mapping[str, str]) -> Sequence[Mapping[str, str]]:
        return [{"sandbox": name, "kept": "true", "attempt": "abcdefghijkl"} for name in ("good-1", "bad-1")]

    async def remove(self, sandbox: str) -> None:
        if sandbox == "bad-1":
            raise OSError(16, "Device or resource busy")

    async def enter(self, sandbox: str) -> Sequence[str]:
        if sandbox == "bad-1":
            raise NotImplementedError("it has no shell")
        return ("no-such-program-of-a-test", "-it", sandbox)


class Nameless(LocalProvider):
    """One whose list is against the contract."""

    name = "nameless"

    async def list(self, labels: Mapping[str, str]) -> Sequence[Mapping[str, str]]:
        return [{"kept": "true"}]


class KeepsLate(LocalProvider):
    """One whose owner keeps a sandbox just after it was listed, and ends."""

    name = "keeps-late"
    labels: ClassVar[Mapping[str, str]] = {}
    removed: ClassVar[list[str]] = []
    listed = 0

    async def list(self, labels: Mapping[str, str]) -> Sequence[Mapping[str, str]]:
        type(self).listed += 1
        kept = {"kept": "true"} if self.listed > 1 else {}
        return [{**self.labels, "sandbox": "late-1", **kept}, {**self.labels, "sandbox": "late-2"}]

    async def remove(self, sandbox: str) -> None:
        self.removed.append(sandbox)


class Facts(LocalProvider):
    """One that says what it uses."""

    name = "facts"

    async def facts(self) -> dict[str, Any]:
        return {"engine": "Engine 1.2", "cgroups": 2}
