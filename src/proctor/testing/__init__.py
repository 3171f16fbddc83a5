"""For tests of proctor and of its plugins: conformance suites, fakes, a scripted model server, a simulated scheduler.

The suites are here by name, and imported when they are first used; all else is imported from the modules.
"""

TYPE_CHECKING = False  # mock models import from here: what they do not need is to cost nothing
if TYPE_CHECKING:
    from typing import Any

    from proctor.testing.check_benchmarks import check_benchmark
    from proctor.testing.check_graders import Work, check_grader
    from proctor.testing.check_harnesses import check_harness
    from proctor.testing.check_plugin import PluginCheck
    from proctor.testing.conformance import NotConforming, ProviderCheck, check_provider

__all__ = [
    "NotConforming", "PluginCheck", "ProviderCheck", "Work", "check_benchmark", "check_grader", "check_harness",
    "check_provider",
]  # fmt: skip

_HOMES = {
    "NotConforming": "conformance",
    "PluginCheck": "check_plugin",
    "ProviderCheck": "conformance",
    "Work": "check_graders",
    "check_benchmark": "check_benchmarks",
    "check_grader": "check_graders",
    "check_harness": "check_harnesses",
    "check_provider": "conformance",
}
"""The modules that the names come from."""


def __getattr__(name: str) -> "Any":
    """Import what is used first; raises `AttributeError` for a name that is not there."""
    from importlib import import_module  # noqa: PLC0415 - on use

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
