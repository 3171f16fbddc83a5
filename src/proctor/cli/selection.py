"""Which experiments and tasks of a project a command is about: by beginnings of ids, or by paths as they are typed."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from proctor.authoring.discover_tasks import found_tasks
from proctor.authoring.project_files import files_below
from proctor.cli.closing import ClosingOnce
from proctor.cli.interrupts import Interrupts
from proctor.cli.listing import declared_of
from proctor.cli.planning import tasks_of
from proctor.cli.resolve import Resolved
from proctor.config.declared import Declared
from proctor.config.discover import FOLDER, discover
from proctor.config.in_python import matching
from proctor.config.problems import Collected
from proctor.config.project import Project
from proctor.errors import NothingToRun, ProctorError, UsageError, nearest
from proctor.model.spec import Task

EVALS = "evals"
IDS_SHOWN = 5

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Beginning:
    """How ids begin, as it was typed: text, or the path of a file (`exact`: that id, or ids below it) or directory."""

    typed: str
    text: str
    exact: bool = False

    def fits(self, wanted: str) -> bool:
        """Say whether an id begins so."""
        if self.exact:
            return wanted == self.text or wanted.startswith(f"{self.text}/")
        return wanted.startswith(self.text)

    def may_hold(self, file_id: str) -> bool:
        """Say whether a file may hold something whose id begins so; ids in a file begin with that of the file."""
        return self.fits(file_id) or self.text.startswith(f"{file_id}/")


def beginning(typed: str, folder: str, project: Path) -> Beginning:
    """Return what was typed as the beginning of ids: `sub/na`, `experiments/sub/naps.py`, `experiments/sub/`."""
    root = (project / folder).resolve()
    path = (Path.cwd() / typed).resolve()
    if path == project.resolve():
        return Beginning(typed, "")
    if path.is_relative_to(root) and path.exists():
        inside = path.relative_to(root).as_posix()
        if path.is_dir():
            return Beginning(typed, "" if inside == "." else f"{inside}/")
        return Beginning(typed, inside.removesuffix(".py"), exact=True)
    text = typed.removeprefix("./").removeprefix(f"{folder}/")
    if text == folder:
        text = ""
    return Beginning(typed, text.removesuffix(".py"), exact=text.endswith(".py"))


def select_experiments(typed: str | None, project: Project) -> list[Declared]:
    """Import and declare the experiments of a project whose ids begin as typed; None is all.

    Only files that may hold one of them are imported. Raises `UsageError`, which lists all that is wrong, and
    `NothingToRun` where none begins so.
    """
    directory = project.directory
    if not (directory / FOLDER).is_dir():
        raise UsageError(
            f"there is no directory `{FOLDER}` in {directory}",
            hint="`proctor init` makes a project with one; or change to the directory of yours",
        )
    wanted = beginning(typed or "", FOLDER, directory)
    discovered = discover(directory, wanted.may_hold)
    found = [one for one in discovered.found if wanted.fits(one.id)]
    if not found and not discovered.errors:
        raise _no_experiment(wanted, directory)
    declared: list[Declared] = []
    wrong = Collected()
    for error in discovered.errors:
        with wrong.gather():
            raise error
    for one in found:
        with wrong.gather():
            declared.append(declared_of(one, project))
    wrong.raise_any()
    return declared


def _no_experiment(wanted: Beginning, directory: Path) -> NothingToRun:
    if not files_below(directory, FOLDER):
        return NothingToRun(
            f"there are no experiments in `{directory / FOLDER}`",
            hint="write `experiment = Experiment(...)` into a file there, or see what `proctor init` makes",
        )
    ids = [one.id for one in discover(directory).found]
    hint = _near(wanted.text, ids, "experiments")
    as_task = beginning(wanted.typed, EVALS, directory)
    if any(as_task.fits(one.id) for one in found_tasks(directory).tasks):
        words = shlex.join(["proctor", "exp", ids[0] if ids else "EXPERIMENT", wanted.typed])
        hint = f"tasks are named behind the experiment: `{words}`"
    return NothingToRun(f"no experiment begins with `{wanted.typed}`", hint=hint)


def _near(name: str, ids: Sequence[str], what: str) -> str:
    near = nearest(name, ids)
    shown = ", ".join(f"`{one}`" for one in ids[:IDS_SHOWN]) + (" ..." if len(ids) > IDS_SHOWN else "")
    found = f"did you mean `{near}`? " if near else f"there are {shown}; " if ids else ""
    return f"{found}`proctor list {what}` lists all"


async def narrow(resolved: Sequence[Resolved], typed: Sequence[str], project: Path, grace_seconds: float) -> None:
    """Leave in experiments only tasks whose ids begin as typed, which may leave none in some of them.

    Raises `NothingToRun` where a beginning matches no task of any of them; then what they hold open is closed, within
    the grace.
    """
    if not typed:
        return
    try:
        await _narrow(resolved, [beginning(one, EVALS, project) for one in typed])
    except ProctorError:
        await ClosingOnce(resolved, Interrupts(signals=False), grace_seconds).close(log.warning)
        raise


async def _narrow(resolved: Sequence[Resolved], beginnings: Sequence[Beginning]) -> None:
    ids: dict[str, None] = {}
    for one in resolved:
        tasks = await tasks_of(one)
        ids |= dict.fromkeys(task.id for task in tasks)
        one.choose = _always(_fitting(tasks, beginnings))
    for each in beginnings:
        if not any(map(each.fits, ids)):
            raise NothingToRun(
                f"no task of the chosen experiments begins with `{each.typed}`", hint=_near(each.text, [*ids], "tasks")
            )


def _fitting(tasks: Sequence[Task], beginnings: Iterable[Beginning]) -> list[Task]:
    """Return the tasks that are meant: a whole id is that task alone, whatever else begins with it."""
    whole = {task.id for task in tasks}
    found: set[str] = set()
    for each in beginnings:
        if each.text in whole:
            found.add(each.text)
        else:
            found |= {task.id for task in tasks if each.fits(task.id)}
    return matching(tasks, sorted(found)) if found else []


def _always(tasks: Sequence[Task]) -> Callable[[Sequence[Task]], Sequence[Task]]:
    return lambda _: tasks
