"""proctor runs agent evaluations and accounts for every slot of them.

From Python: `await proctor.arun(...)`, or `proctor.run(...)` where no event loop runs; both return a `RunResult`. They
are imported when they are first used: importing `proctor` has no side effect and costs nothing.
"""

TYPE_CHECKING = False  # `typing` alone would cost more than the rest
if TYPE_CHECKING:
    from typing import Any

    from proctor.sdk import RunResult, arun, run

__version__ = "0.1.0"

__all__ = ["RunResult", "__version__", "arun", "run"]


def __getattr__(name: str) -> "Any":
    """Import what is used first; raises `AttributeError` for a name that is not there."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from proctor import sdk  # noqa: PLC0415 - importing proctor costs nothing

    return getattr(sdk, name)


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
