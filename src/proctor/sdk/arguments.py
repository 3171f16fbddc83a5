"""What calls take by name; the fields are those of files and `--set`, under the same names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, TypedDict, cast

from proctor.errors import UsageError
from proctor.model.environment import EnvironmentSpec

Path = str | PathLike[str]

Named = str | Mapping[str, Any]
"""A plugin by its id, or with its parameters as `{"id": ..., "params": {...}}`."""

Launch = Path | Mapping[str, Any]
"""A launch file, or a mapping like one."""


class CallArguments(TypedDict, total=False):
    """What a call asks for beside its experiments."""

    config: Path | Sequence[Path]
    """Files like proctor.yaml, over that of the project; a later one wins."""
    results_dir: Path | None
    task_concurrency: int | None
    """Attempts executing at once, over everything in this call."""
    provider_limits: Mapping[str, int] | None
    env_open_qps: Mapping[str, float] | None
    execution: Mapping[str, Any] | None
    """The section of that name."""
    runtime: Mapping[str, Any] | None
    """The section of that name."""
    tasks: str | Sequence[str] | None
    """Only these tasks: whole ids, or last parts of ids where they are unique."""
    tag: str | Sequence[str] | None
    """Only tasks, and experiments, that have one of these tags, as `--tag`."""
    limit: int | None
    """Only the first so many tasks of each experiment."""
    run_name: str | None
    run_id: str | None
    progress: Literal["auto", "plain", "none"]
    """What standard error shows; default: none."""
    fail_under: float | None
    """The share of slots that has to pass for exit code 0."""
    missing: Literal["zero", "exclude", "fail"] | None
    """What the rate makes of slots without a score; default: they widen its range."""
    reuse: bool | str | None
    """Fill slots with attempts of earlier runs: of the one with that id or, with True, the newest of each slot."""
    rerun: Literal["failed", "all"] | None
    """What is executed again although it could be reused."""


class RunArguments(CallArguments, total=False):
    """What a call asks for, and the fields of its experiment."""

    environment: Named | EnvironmentSpec
    """A provider by its name, `{"provider": ..., "image": ...}`, or an `EnvironmentSpec`."""
    judge: Named
    """The model that graders ask, where they need one."""
    attempts: int
    max_concurrency: int | None
    grading: Literal["none", "fresh", "reuse"] | None
    artifacts: Sequence[Mapping[str, Any]]
    open_timeout_seconds: float
    setup_timeout_seconds: float
    agent_timeout_seconds: float | None
    agent_idle_timeout_seconds: float | None
    collect_timeout_seconds: float
    grade_timeout_seconds: float
    dispose_timeout_seconds: float
    timeout_seconds: float | None
    max_retries: int | None
    retry_pattern_list: Sequence[str]
    early_exit: bool
    budget: float | None
    expected_cost_per_attempt: float | None
    stop_on_repeated: int
    setup: str | None
    teardown: str | None
    sandbox_setup: str | None
    sandbox_teardown: str | None
    shared_state: Mapping[str, Any] | None
    sandbox_reuse: bool
    flags: Mapping[str, Any]
    tags: Sequence[str]
    """Those of the experiment."""
    labels: Mapping[str, str]


class Asked(TypedDict):
    """The arguments of a call as they are resolved: the fields, the sections, and everything else."""

    fields: Mapping[str, Any]
    execution: Mapping[str, Any]
    runtime: Mapping[str, Any]
    more: Mapping[str, Any]


_EXECUTION = ("task_concurrency",)
_RUNTIME = ("results_dir", "provider_limits", "env_open_qps")
_SECTIONS = ("execution", "runtime")


def asked(arguments: Mapping[str, Any]) -> Asked:
    """Return the arguments of a call put in their places; None stands for what was not given. Raises `UsageError`."""
    known = {*CallArguments.__annotations__, *_SECTIONS}
    given = dict(arguments)
    for name in ("tasks", "tag"):
        value: Any = given.get(name)
        if value is not None:
            given[name] = (value,) if isinstance(value, str) else _texts(name, value)
    placed = {*_EXECUTION, *_RUNTIME, *_SECTIONS}
    return Asked(
        fields={name: value for name, value in given.items() if name not in known},
        execution=_section(given, "execution", _EXECUTION),
        runtime=_section(given, "runtime", _RUNTIME),
        more={
            name: value
            for name, value in given.items()
            if name in known and name not in placed and (value is not None or name not in ("progress", "config"))
        },
    )


def _texts(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, Mapping) or not isinstance(value, Iterable):
        raise UsageError(f"`{name}` must be a text or a list of texts, not {value!r:.80}", hint=f'such as {name}=["a"]')
    return tuple(cast("Iterable[str]", value))


def _section(given: Mapping[str, Any], name: str, shorts: Sequence[str]) -> dict[str, Any]:
    """Return what a call says of a section, with what has an argument of its own. Raises `UsageError`."""
    section: Any = given.get(name) or {}
    if not isinstance(section, Mapping):
        raise UsageError(f"`{name}` must be a mapping, not {section!r:.80}", hint=f"such as {name}={{}}")
    own = {short: given[short] for short in shorts if given.get(short) is not None}
    return {**cast("Mapping[str, Any]", section), **own}
