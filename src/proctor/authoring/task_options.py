"""What a task may say about itself, beside its function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, TypedDict, cast

from proctor.authoring.project_files import shown
from proctor.errors import UsageError, nearest
from proctor.model.environment import EnvironmentSpec
from proctor.model.spec import Artifact, Reference

Files = Mapping[str, str | bytes | Path]


class TaskOptions(TypedDict, total=False):
    """What a task may say about itself; every option may be left out."""

    tags: Sequence[str]
    """Free words to choose tasks by."""
    timeout_seconds: float
    """Limit of a whole try, where the experiment sets none."""
    agent_timeout_seconds: float
    """Limit of the function, where the experiment sets none."""
    environment: EnvironmentSpec | Mapping[str, Any]
    """What its sandbox is made from, over the environment of the experiment: with the fields that files have for it, or
    as an `EnvironmentSpec`. Paths in a mapping are relative to the file of the task."""
    files: Files
    """What is put into the sandbox before the harness starts: path there, and content; a `Path` is read from disk, from
    the directory of the file of the task."""
    artifacts: Sequence[str | Artifact]
    """What is taken out of the sandbox when the agent is done, and kept."""
    sandbox: bool
    """Whether the task needs a sandbox (default: it does)."""
    identity: str
    """Stands for the code of the task in its identity: as long as it stays, results stay comparable."""
    description: str
    """For people; default: the docstring of the function."""
    reference: Reference | str
    """What the harness `oracle` does in each turn: an answer, or a script."""
    diff: bool
    """Whether `t.diff` is used; default: whether the code of the task mentions it."""


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a file."""

    file: str
    line: int

    @classmethod
    def of(cls, frame: FrameType) -> Place:
        """Return what a frame is executing."""
        return cls(frame.f_code.co_filename, frame.f_lineno)

    def __str__(self) -> str:
        """Return it as people write it: `evals/naps.py:12`."""
        return f"{shown(Path(self.file))}:{self.line}"


def check_options(options: TaskOptions, name: str | None, place: Place) -> None:
    """Refuse what is no option, or has no sense; an environment that is a mapping becomes what it stands for."""
    for option, value in options.items():
        wrong = _wrong_option(option, value)
        if wrong is not None:
            raise UsageError(
                f"{place}: {wrong}", hint=f"options there are name, {', '.join(TaskOptions.__annotations__)}"
            )
    environment = options.get("environment")
    if environment is not None and not isinstance(environment, EnvironmentSpec):
        from proctor.authoring.task_environment import environment_of_task  # noqa: PLC0415 - few tasks have one

        options["environment"] = environment_of_task(environment, Path(place.file).parent, str(place))
    usable: Any = name
    if usable is not None and not (
        isinstance(usable, str) and usable and usable == usable.strip().strip("/") and usable.isprintable()
    ):
        raise UsageError(
            f"{place}: the name of a task must be a text without white space or `/` around it, not {name!r}",
            hint='for example `@task(name="nap-00")`',
        )


def environment_in(options: TaskOptions) -> EnvironmentSpec | None:
    """Return the environment that checked options name, or None."""
    environment = options.get("environment")
    return environment if isinstance(environment, EnvironmentSpec) else None


def _wrong_option(option: str, value: Any) -> str | None:  # noqa: PLR0911 - one for each kind of option
    if option not in TaskOptions.__annotations__:
        near = nearest(option, TaskOptions.__annotations__)
        return f"a task has no option `{option}`" + (f"; did you mean `{near}`?" if near else "")
    if option.endswith("_seconds") and not _is_limit(value):
        return f"`{option}` must be a number of seconds above 0, not {value!r}"
    if option in ("identity", "description") and not (isinstance(value, str) and value.strip()):
        return f"`{option}` must be a text that is not empty, not {value!r}"
    if option in ("sandbox", "diff") and not isinstance(value, bool):
        return f"`{option}` must be True or False, not {value!r}"
    if option == "environment" and not _is_environment(value):
        return f"`environment` must be a mapping or a proctor.EnvironmentSpec, not {type(value).__name__}"
    if option == "reference" and not isinstance(value, str | Reference):
        return f"`reference` must be an answer or a proctor.model.spec.Reference, not {type(value).__name__}"
    if option in ("tags", "artifacts") and (isinstance(value, str) or not all(_is_word(one) for one in _items(value))):
        return f"`{option}` must be a list of texts, not {value!r}"
    if option == "files" and not isinstance(value, Mapping):
        return f"`files` must map paths in the sandbox to contents, not {type(value).__name__}"
    return None


def _is_word(value: Any) -> bool:
    return isinstance(value, str | Artifact) and bool(value)


def _is_environment(value: Any) -> bool:
    return isinstance(value, EnvironmentSpec | Mapping)


def _items(value: Any) -> Iterable[Any]:
    return cast("Iterable[Any]", value) if isinstance(value, Iterable) else [None]


def _is_limit(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e9


__all__ = ["Files", "Place", "TaskOptions", "check_options", "environment_in"]
