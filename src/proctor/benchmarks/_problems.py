"""What is wrong with rows of data: collected, so that all of it is said at once."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from proctor.data.rows import Row, RowError, Rows
from proctor.errors import UsageError
from proctor.model.spec import Task

SHOWN = 5


def tasks_of(rows: Rows, make: Callable[[Row], Task]) -> list[Task]:
    """Return the task that `make` makes of each row, in their order.

    Raises `UsageError`, which lists the rows of which it raised `RowError`, and those with the id of another.
    """
    problems = RowProblems()
    tasks: list[Task] = []
    for row in rows.rows:
        with problems.gather(row):
            task = make(row)
            problems.claim(task.id, row)
            tasks.append(task)
    problems.raise_any()
    return tasks


class RowProblems:
    """Collects what is wrong with rows, ids that are there twice among it."""

    def __init__(self) -> None:
        self._said: list[str] = []
        self._more = 0
        self._first: dict[str, str] = {}

    @contextmanager
    def gather(self, row: Row) -> Generator[None]:
        """Keep a `RowError` that is raised inside, with the place of the row, and go on."""
        try:
            yield
        except RowError as error:
            if len(self._said) < SHOWN:
                self._said.append(f"{row.place}: {error}")
            else:
                self._more += 1

    def claim(self, task_id: str, row: Row) -> None:
        """Raise `RowError` where another row has the id already."""
        first = self._first.setdefault(task_id, row.place)
        if first != row.place:
            raise RowError(f"the id `{task_id:.80}` is that of {first} as well")

    def raise_any(self) -> None:
        """Raise one `UsageError` that lists what was kept, if anything was."""
        if not self._said:
            return
        more = [f"and {self._more:,} more rows"] if self._more else []
        hint = "mend the file, or say which fields are what: `--set benchmark.params.NAME=FIELD`"
        raise UsageError("\n".join([*self._said, *more]), hint=hint)
