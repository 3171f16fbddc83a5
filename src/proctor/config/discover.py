"""Finds the experiments of a project: `experiments/**/NAME.py` with `experiment = Experiment(...)`, or a list of them.

The id of an experiment is the path of its file below `experiments/`, without the ending; in a list its own part comes
behind it: its `name`, or else what distinguishes it from the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from proctor.authoring.experiments import OWN_FIELDS, Experiment
from proctor.authoring.project_files import ProjectFile, import_below
from proctor.config.layers import NAME_FIELDS
from proctor.errors import UsageError
from proctor.model.secrets import is_secret_name

FOLDER = "experiments"

_SEPARATORS = frozenset('/\\:*?"<>|')


@dataclass(frozen=True, slots=True)
class Found:
    """An experiment of a project, with its id."""

    id: str
    experiment: Experiment
    file: ProjectFile


@dataclass(frozen=True, slots=True)
class Discovered:
    """All experiments of a project, in the order of their files, and what is wrong with those that are left out."""

    found: Sequence[Found]
    errors: Sequence[UsageError]


def discover(project: Path, wanted: Callable[[str], bool] | None = None) -> Discovered:
    """Import the experiments of a project. What is wrong is returned, file by file, and nothing is raised.

    `wanted` says of the id of a file, its path without ending, whether it is to be imported; default: all are.
    """
    files, errors = import_below(project, FOLDER, wanted)
    found: list[Found] = []
    for file in files:
        try:
            found += _experiments_of(file)
        except UsageError as error:
            errors.append(error)
    by_id: dict[str, Found] = {}
    for one in found:
        other = by_id.setdefault(one.id, one)
        if other is not one:
            errors.append(_duplicate(other, one))
    return Discovered(tuple(by_id.values()), tuple(errors))


def _duplicate(first: Found, second: Found) -> UsageError:
    return second.experiment.error(
        f"the experiment has the id `{second.id}`, as that of {first.experiment.place()} has",
        hint="give each a `name` of its own",
    )


def _experiments_of(file: ProjectFile) -> list[Found]:
    module, own = file.module, file.id_below(FOLDER)
    one: Any = getattr(module, "experiment", None)
    several: Any = getattr(module, "experiments", None)
    if one is not None and several is not None:
        raise UsageError(f"{file.name}: both `experiment` and `experiments` are there", hint="keep one of them")
    if isinstance(one, Experiment):
        if "name" in one.fields:
            raise one.error(
                f"`name` is for experiments of a list: this one is called `{own}`, by its file",
                "name",
                hint="leave it out, or write `experiments = [Experiment(...)]`",
            )
        return [Found(own, one, file)]
    if isinstance(one, list | tuple):  # the plural is no more than the better word
        return _listed(cast("Any", one), file, own, "experiment")
    if one is not None:
        raise _wrong_type(file, "experiment", one)
    if several is None:
        raise UsageError(
            f"{file.name}: there is no experiment in it",
            hint="write `experiment = Experiment(...)`; files whose names begin with `_` are left alone",
        )
    return _listed(several, file, own, "experiments")


def _wrong_type(file: ProjectFile, name: str, value: object) -> UsageError:
    wanted, example = {
        "experiment": ("Experiment", "Experiment(...)"),
        "experiments": ("list", "[Experiment(...), ...]"),
    }[name]
    return UsageError(
        f"{file.name}: `{name}` is no {wanted} but {type(value).__name__}", hint=f"write `{name} = {example}`"
    )


def _listed(several: object, file: ProjectFile, own: str, called: str) -> list[Found]:
    """Return the experiments of a list; one that stands alone in it needs no part of its own."""
    if not isinstance(several, list | tuple):
        raise _wrong_type(file, "experiments", several)
    items = list(cast("Iterable[Any]", several))
    if not items:
        raise UsageError(f"{file.name}: `{called}` is empty", hint="remove the file, or begin its name with `_`")
    for place, item in enumerate(items, 1):
        if not isinstance(item, Experiment):
            raise UsageError(
                f"{file.name}: item {place} of `{called}` is no Experiment but {type(item).__name__}",
                hint=f"write `{called} = [Experiment(...), ...]`",
            )
    experiments = cast("list[Experiment]", items)
    unnamed = [one for one in experiments if "name" not in one.fields]
    words = dict(zip(map(id, unnamed), _distinctions([one.fields for one in unnamed]), strict=True))
    found: list[Found] = []
    for one in experiments:
        name = _checked_name(one) if "name" in one.fields else words[id(one)]
        if not name and len(experiments) > 1:
            raise one.error("nothing distinguishes it from the others of its list", hint="give it a `name`")
        found.append(Found(f"{own}/{name}" if name else own, one, file))
    return found


def _checked_name(experiment: Experiment) -> str:
    name = experiment.fields["name"]
    if not isinstance(name, str) or not name.strip("/") or name != name.strip().strip("/") or not name.isprintable():
        raise experiment.error(
            f"`name` must be a text without white space or `/` around it, not {name!r}",
            "name",
            hint='for example `name="large"`',
        )
    return name


# ------------------------------------------------------------------------------------------- what distinguishes them


def _distinctions(experiments: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return for each experiment the values of the fields in which they differ, as one word."""
    leaves = [dict(_leaves(one)) for one in experiments]
    paths = list(dict.fromkeys(path for one in leaves for path in one))
    differing = [path for path in paths if any(one.get(path, ...) != leaves[0].get(path, ...) for one in leaves)]
    return ["-".join(_word(path, one[path]) for path in differing if path in one) for one in leaves]


def _leaves(fields: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the plain values of an experiment with the way to each; credentials, functions and lists are none."""
    for name, value in fields.items():
        if name in (*OWN_FIELDS, "tags", "labels"):
            continue
        if name in NAME_FIELDS and isinstance(value, str):
            yield (name, NAME_FIELDS[name]), value
        else:
            yield from _inside((name,), value)


def _inside(path: tuple[str, ...], value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, Mapping):
        for key, inner in cast("Mapping[Any, Any]", value).items():
            if not is_secret_name(str(key)):
                yield from _inside((*path, str(key)), inner)
    elif isinstance(value, str | int | float | None):
        yield path, value


def _word(path: tuple[str, ...], value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool | None) else str(value)
    text = "".join("-" if char in _SEPARATORS or char.isspace() or not char.isprintable() else char for char in text)
    return text if NAME_FIELDS.get(path[0]) == path[-1] else f"{path[-1]}={text}"
