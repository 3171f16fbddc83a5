"""Task groups of a project: `group = TaskGroup(...)` in `evals/<group>/group.py` (spec 03 L3).

The members of a group share one sandbox, one after another, and other tasks run beside it. A group is called by its
directory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Required, TypedDict, cast

from proctor.authoring.call_sites import CallSite, call_site
from proctor.authoring.hook_code import code_of, wrong_call
from proctor.authoring.places import caller
from proctor.authoring.project_files import ProjectFile
from proctor.errors import UsageError, nearest
from proctor.model.spec import Task
from proctor.plugins.groups import Group, OnUnavailable

if TYPE_CHECKING:
    from typing import Unpack

    from proctor.plugins.sandboxes import AgentSandbox

FILE = "group"
"""The last part of the id of a file that holds a group."""

_CHOICES = ", ".join(f'"{choice}"' for choice in OnUnavailable)


class GroupFields(TypedDict, total=False):
    """What a task group says of itself."""

    members: Required[Sequence[str]]
    """Ids of tasks, whole or from the directory of the group on. Their order says nothing: the plan's order counts."""
    on_unavailable: Required[Literal["stop-group", "replace-sandbox"]]
    """What is done when the sandbox is of no use any more, after a crash for example: the rest of the group is given
    up, or it goes on in a new sandbox."""
    sandbox_setup: Callable[[AgentSandbox], object]
    """Called once with each sandbox of the group, before its first task."""
    sandbox_teardown: Callable[[AgentSandbox], object]


class TaskGroup:
    """Tasks that share one sandbox, one after another. What is wrong with it is said when it is planned."""

    def __init__(self, **fields: Unpack[GroupFields]) -> None:
        self.site: CallSite = call_site(caller(1))
        self.fields: Mapping[str, Any] = dict(fields)

    def __repr__(self) -> str:
        """Return where it is written."""
        return f"<TaskGroup of {self.place()}>"

    def place(self, *path: str | int) -> str:
        """Return where the value at a path is written, or what it is in, as `evals/naps/group.py:3`."""
        return self.site.place(path)

    def error(self, what: str, *path: str | int, hint: str | None = None) -> UsageError:
        """Return an error about the value at a path, with file and line."""
        return UsageError(f"{self.place(*path)}: {what}", hint=hint)


@dataclass(frozen=True, slots=True)
class FoundGroup:
    """A group of a project that is as it should be, with the ids of its members in the order of the tasks."""

    group: Group
    members: tuple[str, ...]
    code: Mapping[str, str] = field(default_factory=dict[str, str])
    """What its setup stands for in the identity of its members."""


def groups_of(
    files: Iterable[ProjectFile], task_ids: Collection[str], folder: str = "evals"
) -> tuple[list[FoundGroup], list[UsageError]]:
    """Return the groups that the files of a folder declare, and what is wrong with the others.

    `task_ids` are those of all tasks of the project, in their order.
    """
    order = {task: place for place, task in enumerate(task_ids)}
    found: list[FoundGroup] = []
    errors: list[UsageError] = []
    group_of: dict[str, TaskGroup] = {}
    for file in files:
        misplaced = list(_misplaced(file))
        errors += misplaced
        declared: Any = getattr(file.module, "group", None) if file.path.stem == FILE else None
        if not isinstance(declared, TaskGroup):
            own = f"{file.id_below(folder)}/"  # with which the ids of its tasks begin
            if file.path.stem == FILE and not misplaced and not any(task.startswith(own) for task in order):
                errors.append(_no_group(file, declared))
            continue
        name = file.id_below(folder).removesuffix(FILE).removesuffix("/")
        wrong = list(_wrong(declared, name))
        members: list[str] = []
        if not wrong:
            members, wrong = _members(declared, name, order)
        wrong += list(_in_two(declared, members, group_of))
        errors += wrong
        if not wrong:
            found.append(_found(declared, name, sorted(members, key=order.__getitem__)))
    return found, errors


def in_groups(tasks: Iterable[Task], groups: Sequence[FoundGroup]) -> list[Task]:
    """Return tasks as members of their groups."""
    group_of = {member: one for one in groups for member in one.members}
    return [
        task
        if (one := group_of.get(task.id)) is None
        else replace(task, group=one.group.name, code={**task.code, **one.code})
        for task in tasks
    ]


def _found(declared: TaskGroup, name: str, members: list[str]) -> FoundGroup:
    fields = declared.fields
    setup = fields.get("sandbox_setup")
    # Reordering the members changes nothing of what the setup does.
    code = None if setup is None else code_of(setup, without_statement_at=(declared.site.file, declared.site.line))
    return FoundGroup(
        Group(name, OnUnavailable(fields["on_unavailable"]), setup, fields.get("sandbox_teardown")),
        tuple(members),
        {} if code is None else {f"{name} sandbox_setup": code},
    )


# ------------------------------------------------------------------------------------------------- what can be wrong


def _no_group(file: ProjectFile, declared: object) -> UsageError:
    """Return the error of a file that is called as those of groups are, and holds none."""
    what = "there is no task group in it"
    if declared is not None:
        what = f"`group` is no TaskGroup but {type(declared).__name__}"
    return UsageError(f"{file.name}: {what}", hint="write `group = TaskGroup(...)`, or give the file another name")


def _misplaced(file: ProjectFile) -> Iterator[UsageError]:
    """Yield an error for each group that nobody would find."""
    for name, value in vars(file.module).items():
        here = isinstance(value, TaskGroup) and Path(value.site.file) == file.path
        if here and (name != "group" or file.path.stem != FILE):
            yield cast("TaskGroup", value).error(
                f"a task group is bound to `{name}`, where nobody looks for it",
                hint="bind it to `group` in a file `group.py` in the directory of the group",
            )


def _wrong(declared: TaskGroup, name: str) -> Iterator[UsageError]:
    """Yield what is wrong with a group by itself."""
    fields = declared.fields
    if not name:
        yield declared.error(
            "a group is called by its directory, and this one is in none", hint="move it to `evals/<group>/group.py`"
        )
    for field_name in fields:
        if field_name not in GroupFields.__annotations__:
            near = nearest(field_name, GroupFields.__annotations__)
            yield declared.error(
                f"unknown field `{field_name}` of TaskGroup" + (f"; did you mean `{near}`?" if near else ""),
                field_name,
                hint=f"fields there: {', '.join(GroupFields.__annotations__)}",
            )
    if "on_unavailable" not in fields:
        yield declared.error(
            f"group `{name}` does not say what is done when its sandbox is of no use any more",
            hint=f"set `on_unavailable` to one of {_CHOICES}",
        )
    elif fields["on_unavailable"] not in tuple(OnUnavailable):
        yield declared.error(
            f"`on_unavailable` of group `{name}` must be one of {_CHOICES}, not {fields['on_unavailable']!r}",
            "on_unavailable",
            hint="choose one of them",
        )
    for hook in ("sandbox_setup", "sandbox_teardown"):
        function = fields.get(hook)
        wrong = None
        if function is not None and not callable(function):
            wrong = f"is no function but {type(function).__name__}"
        elif function is not None:
            wrong = wrong_call(function, sandbox=True)
        if wrong is not None:
            yield declared.error(
                f"`{hook}` of group `{name}` {wrong}", hook, hint="name a function that takes the sandbox"
            )
    members: Any = fields.get("members")
    if isinstance(members, str) or not isinstance(members, Sequence):
        yield declared.error(
            f"`members` of group `{name}` must be a list of task ids, not {type(members).__name__}",
            "members",
            hint='for example `members=["naps/first", "naps/second"]`',
        )
    elif not members:
        yield declared.error(f"group `{name}` has no members", "members", hint="name at least one task")


def _members(declared: TaskGroup, name: str, order: Mapping[str, int]) -> tuple[list[str], list[UsageError]]:
    """Return the whole ids of the members of a group, and what is wrong with the others."""
    found: dict[str, int] = {}
    errors: list[UsageError] = []
    for place, member in enumerate(cast("Sequence[object]", declared.fields["members"])):
        at = ("members", place)
        if not isinstance(member, str):
            errors.append(declared.error(f"member {member!r} is no task id", *at, hint="name tasks by their ids"))
            continue
        candidates = [task for task in dict.fromkeys((f"{name}/{member}", member)) if task in order]
        if len(candidates) > 1:
            shown_ids = " and ".join(f"`{task}`" for task in candidates)
            errors.append(declared.error(f"member `{member}` may be {shown_ids}", *at, hint="use the longer id"))
        elif not candidates:
            below = [task.removeprefix(f"{name}/") for task in order]
            near = nearest(member, [*below, *order])
            errors.append(
                declared.error(
                    f"group `{name}` has the member `{member}`, and there is no such task",
                    *at,
                    hint=f"did you mean `{near}`?" if near else "`proctor list tasks` lists all",
                )
            )
        elif candidates[0] in found:
            errors.append(
                declared.error(f"task `{candidates[0]}` is twice in group `{name}`", *at, hint="name it once")
            )
        else:
            found[candidates[0]] = place
    return list(found), errors


def _in_two(declared: TaskGroup, members: Iterable[str], group_of: dict[str, TaskGroup]) -> Iterator[UsageError]:
    """Yield an error for each member that is in a group already, and note the others."""
    for member in members:
        other = group_of.setdefault(member, declared)
        if other is not declared:
            yield declared.error(
                f"task `{member}` is in two groups, here and at {other.place()}",
                "members",
                hint="a task is in one group at most",
            )
