"""Choosing tasks of a benchmark, by id and number, and refusing ids that are of no use."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from proctor.errors import NothingToRun, UsageError, nearest
from proctor.model.spec import Task

CANDIDATES_SHOWN = 5

_REFUSED_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})  # control, surrogate, line and paragraph separators


def check_tasks(tasks: Sequence[Task], benchmark: str) -> None:
    """Refuse an empty benchmark (`NothingToRun`), and ids that are duplicate or not usable (`UsageError`).

    An id is a text that is not empty, without white space around it and without control characters. Ids that differ in
    case or composition of characters are different.
    """
    if not tasks:
        raise NothingToRun(f"benchmark `{benchmark}` has no tasks", hint="check its parameters")
    positions: dict[str, int] = {}
    for position, task in enumerate(tasks, 1):
        fault = _id_fault(task.id)
        if fault:
            raise UsageError(
                f"task {position} of benchmark `{benchmark}` has the id {task.id!r}, which {fault}",
                hint="ids are texts without white space around them and without control characters",
            )
        first = positions.setdefault(task.id, position)
        if first != position:
            raise UsageError(
                f"benchmark `{benchmark}` has two tasks with the id `{task.id}`, at positions {first} and {position}",
                hint="give each task an id of its own",
            )


def _id_fault(task_id: object) -> str | None:
    if not isinstance(task_id, str):
        return f"is not a text but {type(task_id).__name__}"
    if not task_id:
        return "is empty"
    if task_id != task_id.strip():
        return "has white space around it"
    if not task_id.isprintable() and any(unicodedata.category(char) in _REFUSED_CATEGORIES for char in task_id):
        return "has control characters"
    return None


def select(
    tasks: Sequence[Task], *, benchmark: str, ids: Sequence[str] | None = None, limit: int | None = None
) -> list[Task]:
    """Choose tasks: those named by `ids` (all without), of these the first `limit`, always in benchmark order.

    A name is a whole id, or the last `/` part of exactly one id (`0` for `HumanEval/0`); a whole id wins. Raises
    `UsageError` for a name that is unknown or ambiguous and for a limit below 1, `NothingToRun` when no name matches
    any task or the benchmark is empty, and what `check_tasks` raises.
    """
    check_tasks(tasks, benchmark)
    if limit is not None and (type(limit) is not int or limit < 1):
        raise UsageError(f"the limit of tasks must be an integer of at least 1, not {limit!r}", hint="pass `--limit 1`")
    chosen = list(tasks)
    if ids is not None:
        wanted = _resolve(tasks, ids, benchmark)
        chosen = [task for task in tasks if task.id in wanted]
    return chosen[:limit]


def _resolve(tasks: Sequence[Task], names: Sequence[str], benchmark: str) -> set[str]:
    whole = {task.id for task in tasks}
    by_last_part: dict[str, list[str]] = {}
    for task in tasks:
        by_last_part.setdefault(task.id.rpartition("/")[2], []).append(task.id)
    found: set[str] = set()
    unknown: list[str] = []
    for name in dict.fromkeys(names):
        candidates = [name] if name in whole else by_last_part.get(name, [])
        if len(candidates) > 1:
            raise _ambiguous(name, candidates, benchmark)
        if candidates:
            found.add(candidates[0])
        else:
            unknown.append(name)
    if not found:
        raise _no_match(unknown, whole, benchmark)
    if unknown:
        raise UsageError(
            f"benchmark `{benchmark}` has no task `{unknown[0]}`" + _others(len(unknown) - 1),
            hint=_suggestion(unknown[0], whole),
        )
    return found


def _ambiguous(name: str, candidates: Sequence[str], benchmark: str) -> UsageError:
    shown = ", ".join(f"`{candidate}`" for candidate in candidates[:CANDIDATES_SHOWN])
    return UsageError(
        f"`{name}` names {len(candidates)} tasks of benchmark `{benchmark}`: {shown}"
        + _others(len(candidates) - CANDIDATES_SHOWN),
        hint="use a whole id",
    )


def _no_match(unknown: Sequence[str], whole: set[str], benchmark: str) -> NothingToRun:
    if not unknown:
        return NothingToRun(f"no task of benchmark `{benchmark}` was asked for", hint="name at least one task id")
    return NothingToRun(
        f"no task of benchmark `{benchmark}` matches `{unknown[0]}`" + _others(len(unknown) - 1),
        hint=_suggestion(unknown[0], whole),
    )


def _others(number: int) -> str:
    return f" and {number} more" if number > 0 else ""


def _suggestion(name: str, whole: set[str]) -> str:
    near = nearest(name, sorted(whole))
    return f"did you mean `{near}`?" if near else f"`{min(whole)}` is one that it has"
