"""From an experiment in Python to what every door declares: a layer of fields, hooks, and a choice of tasks."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from proctor.authoring.experiments import HOOKS, OWN_FIELDS, Experiment
from proctor.authoring.hooks import hook_path
from proctor.config.layers import Layer, Level, Source, plain_value
from proctor.config.problems import Collected
from proctor.errors import NothingToRun, UsageError, describe, nearest
from proctor.model.secrets import is_secret_name
from proctor.model.spec import Task

EVALS = "evals"
"""The benchmark of an experiment that names none: the project's own tasks."""

_REFERENCE = re.compile(r"\$\{\w+\}")

Choose = Callable[[Sequence[Task]], Sequence[Task]]


@dataclass(frozen=True, slots=True)
class InPython:
    """What an experiment in Python says."""

    layer: Layer
    hooks: Mapping[str, Callable[..., Any]]
    """The functions among its hooks, by their paths, which stand in the layer."""
    choose: Choose | None


def in_python(experiment: Experiment, project: Path) -> InPython:
    """Return what an experiment says. Raises `UsageError`, which lists all that is wrong, with file and line."""
    wrong = Collected()
    tree: dict[str, Any] = {"benchmark": EVALS}
    hooks: dict[str, Callable[..., Any]] = {}
    for name, value in experiment.fields.items():
        with wrong.gather():
            if name in HOOKS and callable(value):
                tree[name] = _path_of(experiment, name, value, project)
                hooks[tree[name]] = value
            elif name == "tags":
                tree[name] = list(_texts(experiment, name, value))
            elif name == "labels":
                tree[name] = _labels(experiment, value)
            elif name not in OWN_FIELDS:
                tree[name] = plain_value(value)
                _check_plain(experiment, tree[name], (name,))
    if isinstance(tree["benchmark"], dict):
        tree["benchmark"] = {"id": EVALS, **tree["benchmark"]}
    choose: Choose | None = None
    with wrong.gather():
        choose = _choice(experiment)
    wrong.raise_any()
    file = experiment.place().rpartition(":")[0]
    line = experiment.site.line
    layer = Layer(Source(Level.DECLARED, file, line), tree, {(): line, **experiment.site.lines})
    return InPython(layer, hooks, choose)


def _path_of(experiment: Experiment, name: str, function: Callable[..., Any], project: Path) -> str:
    try:
        return hook_path(function, project)
    except UsageError as error:
        raise experiment.error(f"{name}: {error.message}", name, hint=error.hint) from None


def _check_plain(experiment: Experiment, value: Any, path: tuple[str | int, ...]) -> None:
    """Refuse what no file could hold: it could not be written down, and no result be compared by it."""
    if isinstance(value, dict):
        for key, inner in cast("dict[Any, Any]", value).items():
            if isinstance(inner, str) and _REFERENCE.fullmatch(inner) and is_secret_name(str(key)):
                raise experiment.error(
                    f"`{_dotted((*path, key))}` is `{inner}`, which stands for a variable in YAML only",
                    *path, key,
                    hint=f"write `os.environ[\"{inner[2:-1]}\"]`, or name the model in proctor.yaml",
                )  # fmt: skip
            if not isinstance(key, str):
                raise experiment.error(f"`{_dotted(path)}`: the name {key!r:.80} must be a text", *path)
            _check_plain(experiment, inner, (*path, key))
    elif isinstance(value, list):
        for place, inner in enumerate(cast("list[Any]", value)):
            _check_plain(experiment, inner, (*path, place))
    elif not isinstance(value, str | bool | int | float | None):
        raise experiment.error(
            f"`{_dotted(path)}` is of type {type(value).__name__}, which no file could hold",
            *path,
            hint="give texts, numbers, true and false, lists, and mappings of them",
        )
    elif isinstance(value, float) and not math.isfinite(value) and "flags" in path:
        raise experiment.error(
            f"`{_dotted(path)}` is not a finite number", *path, hint="no result can be compared by it"
        )


def _dotted(path: tuple[str | int, ...]) -> str:
    return ".".join(map(str, path))


def _texts(experiment: Experiment, name: str, given: Any) -> tuple[str, ...]:
    if not isinstance(given, list | tuple | set | frozenset):
        raise experiment.error(f"`{name}` must be a list of texts, not {type(given).__name__}", name)
    for place, one in enumerate(values := list(cast("Sequence[Any]", given))):
        if not isinstance(one, str) or not one.strip():
            raise experiment.error(f"`{name}`: must be a text, not {one!r:.80}", name, place)
    return tuple(values)


def _labels(experiment: Experiment, given: Any) -> dict[str, str]:
    if not isinstance(given, Mapping):
        raise experiment.error(f"`labels` must be texts by name, not {type(given).__name__}", "labels")
    labels = dict(cast("Mapping[Any, Any]", given))
    for name, value in labels.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise experiment.error(f"`labels`: {name!r} must be a text with a text as its value", "labels", str(name))
    return labels


# ------------------------------------------------------------------------------------------------------------ tasks


def _choice(experiment: Experiment) -> Choose | None:
    """Return which tasks of its benchmark an experiment is made of; None where it says nothing of it."""
    wanted: Any = experiment.fields.get("tasks")
    if wanted is None:
        return None
    if callable(wanted):
        predicate = cast("Callable[[Task], object]", wanted)
        return lambda tasks: _fitting(experiment, predicate, tasks)
    names = _texts(experiment, "tasks", (wanted,) if isinstance(wanted, str) else wanted)
    if not names:
        raise experiment.error("`tasks` is empty: no task was named", "tasks", hint="leave it out for all of them")
    return lambda tasks: _named(experiment, names, tasks)


def _fitting(experiment: Experiment, predicate: Callable[[Task], object], tasks: Sequence[Task]) -> Sequence[Task]:
    try:
        chosen = [task for task in tasks if predicate(task)]
    except Exception as error:
        raise experiment.error(
            f"`tasks`: the predicate fails: {describe(error)}",
            "tasks",
            hint="it is called with each task, as `lambda task: ...`",
        ) from error
    if not chosen:
        raise NothingToRun(f"{experiment.place('tasks')}: no task fits the predicate", hint="`proctor list tasks`")
    return chosen


def _named(experiment: Experiment, names: Sequence[str], tasks: Sequence[Task]) -> Sequence[Task]:
    for place, name in enumerate(names):
        if not matching(tasks, [name]):
            near = nearest(name, [task.id for task in tasks])
            raise experiment.error(
                f"`tasks`: no task is called or begins with `{name}`" + (f"; did you mean `{near}`?" if near else ""),
                "tasks",
                place,
                hint="`proctor list tasks` lists all",
            )
    return matching(tasks, names)


def matching(tasks: Sequence[Task], names: Sequence[str]) -> list[Task]:
    """Return the tasks that are named, in their order: a name is a whole id, or else the beginning of ids."""
    whole = {task.id for task in tasks}
    ids = {name for name in names if name in whole}
    prefixes = tuple(name for name in names if name not in whole)
    return [task for task in tasks if task.id in ids or (prefixes and task.id.startswith(prefixes))]
