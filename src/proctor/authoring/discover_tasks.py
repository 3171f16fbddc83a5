"""Finds the tasks of a project: functions under `@task` in `evals/**/NAME.py`, and the groups that they are in."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, cast
from weakref import WeakKeyDictionary

from proctor.authoring.groups import FILE as GROUP_FILE
from proctor.authoring.groups import FoundGroup, groups_of, in_groups
from proctor.authoring.project_files import ProjectFile, files_below, import_file
from proctor.authoring.recorded_checks import GRADER_NAME
from proctor.authoring.stale_modules import drop_stale_modules, note_modules, version_of
from proctor.authoring.task_code import TaskCodes
from proctor.authoring.task_files import paths_of, read_files
from proctor.authoring.task_options import environment_in
from proctor.authoring.tasks import PythonTask, made_during_import
from proctor.errors import UsageError
from proctor.model.spec import Artifact, Component, Reference, Task

FOLDER = "evals"
GRADER = Component(GRADER_NAME)
"""One for all tasks, so that they share the grader."""

_made: WeakKeyDictionary[ModuleType, tuple[PythonTask, ...]] = WeakKeyDictionary()
"""The tasks that were made while a module was imported, also those that no name of it is bound to."""

_found: dict[Path, tuple[dict[Path, tuple[int, int]], FoundTasks]] = {}
"""What was found last in each project, with the versions of all files that it depends on."""


@dataclass(frozen=True, slots=True)
class FoundTask:
    """A task of a project: as it is planned, and as it is declared."""

    task: Task
    declared: PythonTask
    mentioned: frozenset[str]
    """What is mentioned in its code."""

    @property
    def id(self) -> str:
        """The id of the task."""
        return self.task.id

    @property
    def place(self) -> str:
        """Where it was made: `evals/naps.py:12`."""
        return str(self.declared.place)

    @property
    def tags(self) -> tuple[str, ...]:
        """Its tags."""
        return self.task.tags

    @property
    def description(self) -> str:
        """What it is about, in the words of its author."""
        return self.declared.description

    @property
    def group(self) -> str | None:
        """The group that it is a member of."""
        return self.task.group


@dataclass(frozen=True)
class FoundTasks:
    """All tasks and groups of a project, in the order of files and lines, and what is wrong with the others."""

    tasks: Sequence[FoundTask]
    groups: Sequence[FoundGroup] = ()
    errors: Sequence[UsageError] = ()

    @cached_property
    def by_id(self) -> Mapping[str, FoundTask]:
        """The tasks by their ids."""
        return {one.id: one for one in self.tasks}


def found_tasks(project: Path) -> FoundTasks:
    """Import the task files of a project, each once, and return what is in them. Raises nothing.

    What was found is found again at once as long as no file has changed.
    """
    project = project.resolve()
    versions, known = _found.get(project) or (dict[Path, tuple[int, int]](), None)
    changed = {path for path, version in _versions(versions).items() if version != versions[path]}
    stale = drop_stale_modules(project, changed)
    if known is not None and not stale and not changed and versions.keys() >= set(files_below(project, FOLDER)):
        return known
    _found.pop(project, None)
    codes = TaskCodes(project)
    found = _find(project, codes)
    if not found.errors:
        read = {path for one in found.tasks if "files" in one.declared.options for path in paths_of(one.declared)}
        _found[project] = (_versions(codes.files | read | frozenset(files_below(project, FOLDER))), found)
    return found


def _versions(paths: Iterable[Path]) -> dict[Path, tuple[int, int]]:
    """Return what tells whether a file has changed, or which files a directory has."""
    return {path: (path.stat().st_mtime_ns, 0) if path.is_dir() else version_of(path) for path in paths}


def _find(project: Path, codes: TaskCodes) -> FoundTasks:
    before = frozenset(sys.modules)
    files: list[ProjectFile] = []
    errors: list[UsageError] = []
    declared: list[tuple[str, PythonTask]] = []
    paths = frozenset(files_below(project, FOLDER))
    for path in sorted(paths, key=lambda path: path.relative_to(project).parts):
        try:
            files.append(_imported(path, project))
        except UsageError as error:
            errors.append(error)
    note_modules(project, before)
    made = _made_in(files)
    names = frozenset(map(str, paths))
    for file in files:
        found = list(_tasks_of(file, made, names))
        declared += [(f"{file.id_below(FOLDER)}/{one.name}", one) for one in found]
        if not found and file.path.stem != GROUP_FILE:  # what a group lacks is said with the groups
            errors.append(_no_task(file))
    unique = _unique(declared, errors)
    tasks = _planned(unique, codes, errors)
    groups, wrong = groups_of(files, [one.id for one in tasks], FOLDER)
    members = in_groups([one.task for one in tasks], groups)
    tasks = [replace(one, task=task) for one, task in zip(tasks, members, strict=True)]
    return FoundTasks(tuple(tasks), tuple(groups), (*errors, *(wrong if not errors else ())))


def _imported(path: Path, project: Path) -> ProjectFile:
    made: list[PythonTask] = []
    token = made_during_import.set(made)
    try:
        file = import_file(path, project)
    finally:
        made_during_import.reset(token)
    if file.module not in _made:  # else it was imported before, and has not changed since
        _made[file.module] = tuple(made)
    return file


def _tasks_of(
    file: ProjectFile, made: Mapping[str, Sequence[PythonTask]], task_files: frozenset[str]
) -> Iterator[PythonTask]:
    """Yield the tasks that were made in a file, in this order, and those made elsewhere that a name of it is bound to.

    One that was made in another task file belongs to that one, whoever imports it.
    """
    seen: set[int] = set()
    own = str(file.path)
    for one in made.get(own, ()):
        seen.add(id(one))
        yield one
    for one in _bound(file.module):
        if id(one) not in seen and (one.place.file == own or one.place.file not in task_files):
            seen.add(id(one))
            yield one


def _made_in(files: Iterable[ProjectFile]) -> dict[str, list[PythonTask]]:
    """Return the tasks by the file that they were made in; it may have been imported by another one first."""
    found: dict[str, list[PythonTask]] = {}
    for file in files:
        for one in _made.get(file.module, ()):
            found.setdefault(one.place.file, []).append(one)
    return found


def _bound(module: ModuleType) -> Iterator[PythonTask]:
    for value in vars(module).values():
        if isinstance(value, PythonTask):
            yield value
        elif isinstance(value, list | tuple):
            items = cast("Sequence[Any]", value)
            yield from (item for item in items if isinstance(item, PythonTask))


def _no_task(file: ProjectFile) -> UsageError:
    return UsageError(
        f"{file.name}: there is no task in it",
        hint="write `@task` above an `async def name(t)`; a file with something else gets a name that begins with `_`",
    )


def _unique(declared: Sequence[tuple[str, PythonTask]], errors: list[UsageError]) -> dict[str, PythonTask]:
    found: dict[str, PythonTask] = {}
    for task_id, one in declared:
        other = found.setdefault(task_id, one)
        if other is not one:
            errors.append(
                UsageError(
                    f"{one.place}: the task has the id `{task_id}`, as that of {other.place} has",
                    hint='give one of them a name of its own, `@task(name="...")`',
                )
            )
    return found


def _planned(declared: Mapping[str, PythonTask], codes: TaskCodes, errors: list[UsageError]) -> list[FoundTask]:
    found: list[FoundTask] = []
    for task_id, one in declared.items():
        try:
            code = codes.of(one)
            files = read_files(one)
        except UsageError as error:
            errors.append(error)
            continue
        options, reference = one.options, one.options.get("reference")
        task = Task(
            id=task_id,
            grader=GRADER,
            files=files,
            reference=Reference(answer=reference) if isinstance(reference, str) else reference,
            tags=tuple(options.get("tags", ())),
            environment=environment_in(options),
            needs_sandbox=options.get("sandbox", True),
            artifacts=tuple(
                Artifact(artifact) if isinstance(artifact, str) else artifact
                for artifact in options.get("artifacts", ())
            ),
            agent_timeout_seconds=options.get("agent_timeout_seconds"),
            timeout_seconds=options.get("timeout_seconds"),
            code=code.parts,
        )
        found.append(FoundTask(task, one, code.mentioned))
    return found


__all__ = ["FOLDER", "FoundTask", "FoundTasks", "found_tasks"]
