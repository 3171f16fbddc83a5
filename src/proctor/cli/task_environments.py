"""Asks the provider of an experiment, before anything is started, whether it can make what tasks ask for themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from proctor.core.environments import as_graded, environment_of
from proctor.errors import UsageError
from proctor.model.environment import EnvironmentSpec
from proctor.model.secrets import secrets_in
from proctor.model.spec import Task
from proctor.plugins.api import Provider
from proctor.plugins.capabilities import refusals
from proctor.report.wording import plural
from proctor.runtime.redact import Redactor

TASKS_NAMED = 3
"""Of those that have the same trouble."""

UNNAMED_PROVIDER = EnvironmentSpec().provider
"""What a task has that names no provider: it is worked on at that of its experiment."""


def check_environments(
    provider: Provider, tasks: Sequence[Task], own: EnvironmentSpec, *, graded_in_place: bool = False
) -> None:
    """Raise one `UsageError` that lists every reason why tasks cannot have the environments that they are worked on in.

    `own` is the environment of their experiment, and `graded_in_place` as for `refusals`.
    """
    refused: dict[str, list[str]] = {}
    found: dict[int, str | None] = {}  # many tasks share one object, or have none, which is looked at once
    for one in tasks:
        for task in (one, as_graded(one)) if one.grade_environment is not None else (one,):
            key = id(task.environment)
            if key not in found:
                found[key] = _refused(provider, task, own, graded_in_place)
            if (why := found[key]) is not None:
                refused.setdefault(why, []).append(task.id)
    if not refused:
        return
    lines = [f"{named(ids)}: {why}" for why, ids in refused.items()]
    what = lines[0] if len(lines) == 1 else "".join(f"\n  {line}" for line in lines)
    raise UsageError(
        f"provider `{provider.name}` cannot make the environment of {what}",
        hint="change `environment` of the task or the experiment, or take another provider: `--env PROVIDER`",
    )


def _refused(provider: Provider, task: Task, own: EnvironmentSpec, graded_in_place: bool) -> str | None:
    named = task.environment.provider if task.environment else provider.name
    if named not in (provider.name, UNNAMED_PROVIDER):
        return f"it is for provider `{named}`"
    environment = environment_of(task, own)
    why = refusals(provider, replace(environment, provider=provider.name), graded_in_place=graded_in_place)
    return Redactor([*secrets_in(environment.env)]).text("; ".join(why)) or None


def named(ids: Sequence[str]) -> str:
    """Return tasks as a message names them: the first of them, and how many more there are."""
    more = f" and {plural(len(ids) - TASKS_NAMED, 'other task')}" if len(ids) > TASKS_NAMED else ""
    return ("task " if len(ids) == 1 else "tasks ") + ", ".join(f"`{one}`" for one in ids[:TASKS_NAMED]) + more


__all__ = ["check_environments", "named"]
