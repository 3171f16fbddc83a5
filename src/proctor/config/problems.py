"""What is wrong with a configuration: each thing with the place where it was written, and all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, replace

from proctor.config.layers import FieldPath, Source
from proctor.errors import ProctorError, UsageError

LISTED_FIELDS = "fields there: "
"""What a hint begins with that lists the fields of a section: one is enough where several things are wrong."""


SCHEMA_HINT = "`proctor config schema"
"""What a hint begins with that only says where all fields are listed: the same."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong; `source` is where it was written, if it can be pointed at."""

    message: str
    hint: str | None = None
    source: Source | None = None
    value_at: FieldPath = ()
    """Where in its file a value is that is wrong by itself, as one with a variable that is not set."""

    def __str__(self) -> str:
        """Return it with the file and the line, if there are any."""
        return self.message if self.source is None or self.source.line is None else f"{self.source}: {self.message}"


def line_of(problem: Problem) -> int:
    """Return the line that a problem is in, 0 for none: the order in which those of one file are listed."""
    return (problem.source.line or 0) if problem.source is not None else 0


class ConfigErrors(UsageError):
    """Everything that is wrong with a configuration; nothing was started."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple({str(problem): problem for problem in problems}.values())
        if len(self.problems) == 1:
            super().__init__(str(self.problems[0]), hint=self.problems[0].hint)
            return
        lines = [f"  {_with_hint(problem)}" for problem in self.problems]
        super().__init__(
            "\n".join([f"{len(lines)} things are wrong with the configuration:", *lines]),
            hint="`proctor config schema` lists all fields, `proctor config explain FIELD` says what one means",
        )


def _with_hint(problem: Problem) -> str:
    hint = None if problem.hint is None or problem.hint.startswith((LISTED_FIELDS, SCHEMA_HINT)) else problem.hint
    return f"{problem} ({hint})" if hint else str(problem)


def problems_of(error: UsageError) -> tuple[Problem, ...]:
    """Return what an error says as problems."""
    return error.problems if isinstance(error, ConfigErrors) else (Problem(error.message, error.hint),)


class Collected:
    """Gathers errors, so that all are said at once."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._errors: list[UsageError] = []

    @contextmanager
    def gather(self) -> Generator[None]:
        """Keep a `UsageError` that is raised inside."""
        try:
            yield
        except UsageError as error:
            self.problems += problems_of(error)
            self._errors.append(error)

    def add(self, problems: Iterable[Problem]) -> None:
        """Keep problems."""
        self.problems += problems

    def raise_any(self) -> None:
        """Raise what was gathered, if anything was: one error as it is, several as `ConfigErrors`."""
        if len(self.problems) == 1 and len(self._errors) == 1:
            raise self._errors[0]
        if self.problems:
            raise ConfigErrors(self.problems)


@contextmanager
def placed(source: Source) -> Generator[None]:
    """Say of a `UsageError` that is raised inside where the value was written, if that is a line of a file."""
    try:
        yield
    except ConfigErrors:
        raise
    except UsageError as error:
        if source.line is not None and not error.message.startswith(f"{source}: "):
            reword(error, lambda text: f"{source}: {text}")
        raise


def reword(error: ProctorError, change: Callable[[str], str]) -> None:
    """Change what an error says."""
    error.message = change(error.message)
    error.args = (error.message,)


def redact(error: UsageError, change: Callable[[str], str]) -> None:
    """Change every text of an error, its hints included: so that no credential is in it."""
    reword(error, change)
    error.hint = None if error.hint is None else change(error.hint)
    if isinstance(error, ConfigErrors):
        error.problems = tuple(
            replace(one, message=change(one.message), hint=None if one.hint is None else change(one.hint))
            for one in error.problems
        )
