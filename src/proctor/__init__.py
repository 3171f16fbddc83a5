"""proctor runs agent evaluations and accounts for every slot of them.

From Python: `await proctor.arun(...)`, or `proctor.run(...)` where no event loop runs; likewise `alaunch` and `launch`,
`aplan` and `plan`; `stream` yields what happens. They, and what projects are written with (`task`, `Experiment`, ...),
are imported when they are first used: importing `proctor` has no side effect and costs nothing.
"""

TYPE_CHECKING = False  # `typing` alone would cost more than the rest
if TYPE_CHECKING:
    from typing import Any

    from proctor.authoring.experiments import Experiment
    from proctor.authoring.groups import TaskGroup
    from proctor.authoring.hooks import hook
    from proctor.authoring.task_try import TaskTry
    from proctor.authoring.tasks import task
    from proctor.errors import ExperimentFatal, NothingToRun, ProctorError, SkipTask, StoreError, TaskFatal, UsageError
    from proctor.model.environment import Build, Compose, EnvironmentSpec, Network, Resources
    from proctor.sdk import (
        LaunchResult,
        Plan,
        RunResult,
        StreamEvent,
        alaunch,
        aplan,
        arun,
        launch,
        plan,
        run,
        stream,
    )

__version__ = "0.1.0"

__all__ = [
    "Build", "Compose", "EnvironmentSpec", "Experiment", "ExperimentFatal", "LaunchResult", "Network", "NothingToRun",
    "Plan", "ProctorError", "Resources", "RunResult", "SkipTask", "StoreError", "StreamEvent", "TaskFatal",
    "TaskGroup", "TaskTry", "UsageError", "__version__", "alaunch", "aplan", "arun", "hook", "launch", "plan", "run",
    "stream", "task",
]  # fmt: skip

_HOMES = {
    "Experiment": "proctor.authoring.experiments",
    "ExperimentFatal": "proctor.errors",
    "NothingToRun": "proctor.errors",
    "ProctorError": "proctor.errors",
    "SkipTask": "proctor.errors",
    "StoreError": "proctor.errors",
    "TaskFatal": "proctor.errors",
    "UsageError": "proctor.errors",
    "Build": "proctor.model.environment",
    "Compose": "proctor.model.environment",
    "EnvironmentSpec": "proctor.model.environment",
    "Network": "proctor.model.environment",
    "Resources": "proctor.model.environment",
    "TaskGroup": "proctor.authoring.groups",
    "TaskTry": "proctor.authoring.task_try",
    "hook": "proctor.authoring.hooks",
    "task": "proctor.authoring.tasks",
}
"""Where names are that are not in `proctor.sdk`."""


def __getattr__(name: str) -> "Any":
    """Import what is used first; raises `AttributeError` for a name that is not there."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - importing proctor costs nothing

    return getattr(import_module(_HOMES.get(name, "proctor.sdk")), name)


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
