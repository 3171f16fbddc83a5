"""Tasks, tools and checks of the package `agentdojo`, in a process of its own: never does proctor import it."""

from __future__ import annotations

import importlib.metadata
from functools import cache

from proctor.data.workers import Workers
from proctor.errors import MissingPackage

PACKAGE = "agentdojo"
INSTALL = f"pip install {PACKAGE}"
"""No extra of proctor: it takes 290 MB, most of it clients of models that are not used here."""
SECONDS = 10
"""Processor time that a call, or the check of what was done, may take."""


@cache
def version() -> str:
    """Return the version of the package; raises `MissingPackage`."""
    try:
        return importlib.metadata.version(PACKAGE)
    except importlib.metadata.PackageNotFoundError as error:
        raise MissingPackage("benchmark agentdojo", PACKAGE, install=INSTALL) from error


# One, as it takes four seconds to start; then a request takes some hundredths.
_workers = Workers(
    PACKAGE,
    "proctor.data._agentdojo_worker",
    version=version,
    install=INSTALL,
    at_most=1,
    env={"PYTHONHASHSEED": "0"},
)
ask = _workers.ask
close = _workers.close
