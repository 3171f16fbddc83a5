"""Where a page is found: under an address of the server, or in a file of a static site."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol
from urllib.parse import quote, urlencode


class Links(Protocol):
    """Addresses of pages, as they are written into another page. `run` is the directory of a run below the root."""

    static: bool
    """Whether the pages are files: nothing asks a server then, and a page is the same for every query."""

    def runs(self, query: Mapping[str, str] | None = None) -> str:
        """Return the address of the list of runs."""
        ...

    def run(self, run: str, query: Mapping[str, str] | None = None) -> str:
        """Return the address of a run."""
        ...

    def lanes(self, run: str, query: Mapping[str, str] | None = None) -> str:
        """Return the address of the lanes of a run."""
        ...

    def attempt(self, run: str, attempt: str) -> str:
        """Return the address of an attempt."""
        ...

    def compare(self, runs: list[str]) -> str:
        """Return the address of the comparison of runs."""
        ...

    def file(self, run: str, path: str) -> str:
        """Return the address of a file of a run, `path` below its directory."""
        ...

    def asset(self, name: str) -> str:
        """Return the address of a style sheet or script."""
        ...


class ServerLinks:
    """Addresses below the root of the server."""

    static = False

    def runs(self, query: Mapping[str, str] | None = None) -> str:
        """Return the address of the list of runs."""
        return _with("/", query)

    def run(self, run: str, query: Mapping[str, str] | None = None) -> str:
        """Return the address of a run."""
        return _with(f"/run/{quote(run)}", query)

    def lanes(self, run: str, query: Mapping[str, str] | None = None) -> str:
        """Return the address of the lanes of a run."""
        return _with(f"/lanes/{quote(run)}", query)

    def attempt(self, run: str, attempt: str) -> str:
        """Return the address of an attempt."""
        return f"/attempt/{quote(attempt, safe='')}/{quote(run)}"

    def compare(self, runs: list[str]) -> str:
        """Return the address of the comparison of runs."""
        return "/compare?" + urlencode([("run", run) for run in runs])

    def file(self, run: str, path: str) -> str:
        """Return the address of a file of a run."""
        return f"/file/{quote(run)}?" + urlencode({"path": path})

    def asset(self, name: str) -> str:
        """Return the address of a style sheet or script."""
        return f"/static/{name}"


def _with(address: str, query: Mapping[str, str] | None) -> str:
    return f"{address}?{urlencode(query)}" if query else address
