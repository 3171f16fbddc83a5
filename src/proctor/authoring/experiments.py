"""Experiments that are checked in as Python files: `experiment = Experiment(...)` in `experiments/**/NAME.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from proctor.authoring.call_sites import CallSite, call_site
from proctor.authoring.places import caller
from proctor.errors import UsageError, nearest
from proctor.model.environment import EnvironmentSpec
from proctor.model.spec import Task

if TYPE_CHECKING:
    from typing import Unpack

    from proctor.plugins.sandboxes import AgentSandbox

Named = str | Mapping[str, Any]
"""A component by its id, or with its parameters: `{"id": ..., "params": {...}}`."""

Hook = str | Callable[[], object]
SandboxHook = str | Callable[["AgentSandbox"], object]


class ExperimentFields(TypedDict, total=False):
    """What an experiment may say; the names are those of configuration files. All are optional but `harness`."""

    name: str
    """In a list of experiments: the last part of its id. Default: what distinguishes it from the others."""
    tasks: str | Sequence[str] | Callable[[Task], object]
    """Which tasks: ids, beginnings of ids, or a predicate. Default: all of the benchmark."""
    tags: Sequence[str]
    """Free words to choose experiments by (`--tag`)."""
    labels: Mapping[str, str]
    """Free values for people, kept with the run."""
    benchmark: Named
    """Default: `evals`, the project's own tasks."""
    harness: Named
    model: Named
    judge: Named
    """The model that graders ask, where they need one."""
    environment: Named | EnvironmentSpec
    """A provider by its name, a mapping of fields, or an `EnvironmentSpec`."""
    attempts: int
    max_concurrency: int
    grading: Literal["none", "fresh", "reuse"]
    artifacts: Sequence[Mapping[str, Any]]
    open_timeout_seconds: float
    setup_timeout_seconds: float
    agent_timeout_seconds: float | None
    agent_idle_timeout_seconds: float | None
    collect_timeout_seconds: float
    grade_timeout_seconds: float
    dispose_timeout_seconds: float
    timeout_seconds: float | None
    max_retries: int
    retry_pattern_list: Sequence[str]
    early_exit: bool
    budget: float
    expected_cost_per_attempt: float
    stop_on_repeated: int
    setup: Hook
    """Called before the first attempt: a function of a file, or the path of one. It runs in a process of its own."""
    teardown: Hook
    """Called after the last attempt, whenever setup began; must be repeatable."""
    sandbox_setup: SandboxHook
    """Called once with each physical sandbox of an agent, before anything else is done in it."""
    sandbox_teardown: SandboxHook
    shared_state: Mapping[str, Any]
    sandbox_reuse: bool
    flags: Mapping[str, Any]


FIELDS = tuple(ExperimentFields.__annotations__)

OWN_FIELDS = ("name", "tasks")
"""Fields that only an experiment in Python has; every other is a field of configuration files, by the same name."""

HOOKS = ("setup", "teardown", "sandbox_setup", "sandbox_teardown")


class Experiment:
    """One declared experiment. Values are checked when it is planned, like those of every file.

    Raises `UsageError`, with file and line, for a field that there is not.
    """

    def __init__(self, **fields: Unpack[ExperimentFields]) -> None:
        self.site: CallSite = call_site(caller(1))
        self.fields: Mapping[str, Any] = dict(fields)
        unknown = [name for name in fields if name not in FIELDS]
        if unknown:
            raise UsageError("; ".join(map(self._unknown, unknown)), hint=f"fields there: {', '.join(FIELDS)}")

    def __repr__(self) -> str:
        """Return where it is written: its fields may hold a credential."""
        return f"<Experiment of {self.place()}>"

    def _unknown(self, name: str) -> str:
        near = nearest(name, FIELDS)
        middle = f"; did you mean `{near}`?" if near else ""
        return f"{self.place(name)}: unknown field `{name}` of Experiment{middle}"

    def place(self, *path: str | int) -> str:
        """Return where the value at a path is written, as `experiments/x.py:12`; without one, the experiment itself."""
        return self.site.place(path)

    def line(self, *path: str | int) -> int:
        """Return the line of the value at a path, or of what it is in."""
        return self.site.line_of(path)

    def error(self, what: str, *path: str | int, hint: str | None = None) -> UsageError:
        """Return an error about the value at a path, with file and line."""
        return UsageError(f"{self.place(*path)}: {what}", hint=hint)
