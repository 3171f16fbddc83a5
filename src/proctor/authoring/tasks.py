"""`@task`: tasks that are written as Python functions, in files below `evals/`.

@task(tags=["smoke"], timeout_seconds=600)
async def fixes_the_button(t):
    "The button can be reached by keyboard."
    turn = await t.send("Fix the keyboard focus of the button.")
    t.check("answered", turn.answer)

@task.each(ROWS, id="name")                  # one task for each row: `naps/adds/small`, ...
async def adds(t, row): ...
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

from proctor.authoring.places import caller
from proctor.authoring.task_options import Place, TaskOptions, check_options
from proctor.authoring.task_rows import rows_by_id
from proctor.errors import UsageError

if TYPE_CHECKING:
    from typing import Unpack

    from proctor.authoring.task_try import TaskTry

Function = Callable[..., Awaitable[object]]
"""The function of a task: `async def name(t)`, or `async def name(t, row)` where there is one task for each row."""

NO_ROW: Any = object()
"""The row of a task that has none."""

made_during_import: ContextVar[list[PythonTask] | None] = ContextVar("made_during_import", default=None)
"""Where tasks are noted that are made while a file is imported."""


@dataclass(frozen=True, eq=False)
class PythonTask:
    """A task as its function declares it; calling it calls the function."""

    function: Function
    name: str
    """The last part of its id."""
    place: Place
    """Where it was made: the line of the decorator."""
    options: TaskOptions = field(default_factory=TaskOptions)
    row: Any = NO_ROW

    def __call__(self, t: TaskTry, *arguments: Any, **named: Any) -> Awaitable[object]:
        """Call the function with `t`, and with the row where there is one for each task."""
        if self.row is not NO_ROW and not arguments and not named:
            return self.function(t, self.row)
        return self.function(t, *arguments, **named)

    @property
    def description(self) -> str:
        """What it is about, in the words of its author."""
        return self.options.get("description") or inspect.getdoc(self.function) or ""

    def __repr__(self) -> str:
        """Return its name and place."""
        return f"<task `{self.name}` of {self.place}>"


class TaskDecorator:
    """`task`: makes a task of a function."""

    @overload
    def __call__(self, function: Function, /) -> PythonTask: ...
    @overload
    def __call__(
        self, function: None = None, /, *, name: str | None = None, **options: Unpack[TaskOptions]
    ) -> Callable[[Function], PythonTask]: ...
    def __call__(
        self, function: Function | None = None, /, *, name: str | None = None, **options: Unpack[TaskOptions]
    ) -> PythonTask | Callable[[Function], PythonTask]:
        """Make a task of `async def name(t)`: `@task`, or `@task(tags=["smoke"])`.

        `name` is the last part of its id, in place of the name of the function. Raises `UsageError` for a function that
        is none for a task, and for an option that there is not.
        """
        place = Place.of(caller(1))
        check_options(options, name, place)
        if function is not None:
            return _made(function, name, place, options)
        return lambda function: _made(function, name, place, options)

    def each(
        self, rows: Iterable[Any] | Mapping[str, Any], /, *,
        id: str | Callable[[Any], object] | None = None,  # noqa: A002 - it is what people call it
        name: str | None = None, **options: Unpack[TaskOptions],
    ) -> Callable[[Function], list[PythonTask]]:  # fmt: skip
        """Make one task for each row of a data set, of `async def name(t, row)`; its id ends with that of the row.

        `id` is a function of a row, or the name of a key or attribute that every row has; rows that are texts or whole
        numbers, and those of a mapping by their keys, need none. A change of one row changes one task. Raises
        `UsageError` for rows without an id, and for two with the same one.
        """
        place = Place.of(caller(1))
        check_options(options, name, place)
        by_id = rows_by_id(rows, id, str(place))

        def make(function: Function) -> list[PythonTask]:
            _check_function(function, place, with_row=True)
            own = name or function.__name__
            return [_made(function, f"{own}/{row_id}", place, options, row) for row_id, row in by_id.items()]

        return make


task = TaskDecorator()


def _made(function: Any, name: str | None, place: Place, options: TaskOptions, row: Any = NO_ROW) -> PythonTask:
    if row is NO_ROW:
        _check_function(function, place, with_row=False)
    made = PythonTask(function, name or function.__name__, place, options, row)
    noted = made_during_import.get()
    if noted is not None:
        noted.append(made)
    return made


def _check_function(function: Any, where: Place, *, with_row: bool) -> None:
    arguments = "t, row" if with_row else "t"
    hint = f"write `async def name({arguments}):`"
    if isinstance(function, PythonTask) or not inspect.isfunction(function):
        kind = "a task already" if isinstance(function, PythonTask) else f"{type(function).__name__}"
        raise UsageError(f"{where}: a task is made of a function, and this is {kind}", hint=hint)
    name = function.__name__
    if not inspect.iscoroutinefunction(function):
        what = "an async generator: it has a `yield`" if inspect.isasyncgenfunction(function) else "not async"
        raise UsageError(f"{where}: the function of task `{name}` is {what}", hint=hint)
    try:
        inspect.signature(function).bind(*arguments.split(", "))
    except TypeError:
        takes = str(inspect.signature(function))
        raise UsageError(
            f"{where}: the function of task `{name}` takes {takes}, and is called with `{arguments}`", hint=hint
        ) from None


__all__ = ["NO_ROW", "Function", "Place", "PythonTask", "TaskOptions", "made_during_import", "task"]
