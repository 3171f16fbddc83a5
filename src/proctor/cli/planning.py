"""From resolved experiments to plans: tasks are read and chosen."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

from proctor.cli.judging import settle_judge
from proctor.cli.keeping import refuse_keeping
from proctor.cli.model_inside import refuse_out_of_reach
from proctor.cli.plan_gates import refuse_too_large
from proctor.cli.plan_images import with_digests
from proctor.cli.resolve import Resolved
from proctor.cli.rooms import Options
from proctor.cli.sandbox_hooks import groups_of
from proctor.cli.task_environments import check_environments
from proctor.config.problems import Collected, ConfigErrors, reword
from proctor.core.plan import PlannedInput, PluginFacts, RunPlan, check_tasks, plan, select
from proctor.core.schedule import OnUnavailable
from proctor.errors import NothingToRun, PluginLoadError, UsageError, describe, nearest
from proctor.model.attempt import GradingMode
from proctor.model.secrets import secrets_in
from proctor.model.spec import Task
from proctor.report.wording import plural

NAMES_SHOWN = 3
TAGS_SHOWN = 8


class Planned(NamedTuple):
    """The experiments that are run, the plan of each, and what the user should know of the others."""

    resolved: list[Resolved]
    plans: list[RunPlan]
    notes: list[str]


async def plan_all(resolved: Sequence[Resolved], options: Options) -> Planned:
    """Read the tasks, choose among them and plan every experiment. Raises `UsageError` or `NothingToRun`.

    Of several experiments those are left out that have none of the tasks that `--tasks` and `--tag` name; what is wrong
    with several of them is said at once.
    """
    chosen = await _chosen(resolved, options)
    inputs: list[PlannedInput] = []
    with _each_said(named=len(chosen) > 1) as say_of:
        for one, tasks in chosen:
            with say_of(one):
                one.make_graders(tasks)
                in_place = one.experiment.grading is GradingMode.REUSE
                check_environments(one.provider, tasks, one.experiment.environment, graded_in_place=in_place)
                refuse_out_of_reach(one, tasks)
                facts = _facts(one, tasks)
                inputs.append(PlannedInput(one.experiment, tasks, facts, groups=_groups(one)))
    kept = [one for one, _ in chosen]
    out = [one.experiment.name for one in resolved if not any(one is other for other in kept)]
    notes: list[str] = []
    if out:
        more = f" and {len(out) - NAMES_SHOWN} more" if len(out) > NAMES_SHOWN else ""
        names = ", ".join(out[:NAMES_SHOWN])
        notes.append(f"{plural(len(out), 'experiment')} left out that have none of the tasks asked for: {names}{more}")
    plans, unknown = await with_digests(kept, plan(inputs))
    refuse_keeping(kept, plans, options)
    refuse_too_large([one.schedule for one in plans], options.controls)
    return Planned(kept, plans, [*notes, *unknown])


def _facts(one: Resolved, tasks: Sequence[Task]) -> PluginFacts:
    return PluginFacts(
        benchmark_version=one.benchmark.version,
        harness_version=one.harness.version,
        harness_name=one.harness.name,
        grader_versions={task.grader.id: one.grader(task).version for task in tasks},
        judging=settle_judge(one, tasks),
        benchmark_isolated=one.benchmark.isolated_attempts,
        harness_isolated=one.harness.isolated_attempts,
        harness_needs_sandbox=one.harness.needs_sandbox,
        gradable_without_sandbox=GradingMode.NONE in one.benchmark.gradings,
        provider_reuses=one.provider.capabilities.reuse,
        sandbox_lifetime_seconds=one.provider.lifetime_seconds,
        credentials=frozenset({*one.secrets, *secrets_in(os.environ)}),
    )


def _groups(one: Resolved) -> dict[str, OnUnavailable]:
    """Return what is done when the sandbox of a task group is of no use, by the name of the group."""
    return {name: group.on_unavailable for name, group in one.groups.items()}


async def tasks_of(one: Resolved) -> list[Task]:
    """Return the tasks that an experiment is about, of which `--tasks` and `--limit` choose; they are read once.

    Whatever its benchmark raises is said as its trouble. Raises `UsageError` or `NothingToRun`.
    """
    if one.tasks is None:
        first = one.like or one
        if first.tasks is None:
            await _read(first)
        one.tasks, one.groups = first.tasks, first.groups
    tasks = one.tasks or []
    return list(tasks if one.choose is None else one.choose(tasks))


async def _read(one: Resolved) -> None:
    """Read what the benchmark of an experiment has."""
    try:
        one.tasks = list(await one.benchmark.tasks())
        one.groups = groups_of(one.benchmark)
    except (UsageError, NothingToRun):
        raise
    except Exception as error:
        name = one.experiment.benchmark.id
        raise PluginLoadError(
            f"benchmark `{name}` cannot tell its tasks: {describe(error)}",
            hint="the benchmark, or its data, is at fault",
        ) from error


async def _chosen(resolved: Sequence[Resolved], options: Options) -> list[tuple[Resolved, list[Task]]]:
    """Return the experiments with the tasks chosen for each."""
    read: list[tuple[Resolved, list[Task]]] = []
    with _each_said(named=len(resolved) > 1) as say_of:
        for one in resolved:
            with say_of(one):
                tasks = await tasks_of(one)
                if tasks or one.choose is None:
                    check_tasks(tasks, one.experiment.benchmark.id)
                    read.append((one, tasks))
    if not read:
        raise NothingToRun("no experiment has a task left", hint="`proctor list tasks` lists all")
    if options.tags:
        read = _tagged(read, frozenset(options.tags))
    names: Sequence[str] | None = options.task_ids or None
    if names is None or len(read) == 1:
        return [(one, _select(one, tasks, names, options, limit=options.limit)) for one, tasks in read]
    found: list[tuple[Resolved, list[Task]]] = []
    matched: set[str] = set()
    for one, tasks in read:
        there = _names(tasks)
        own = [name for name in names if name in there]
        matched.update(own)
        if own:
            found.append((one, _select(one, tasks, own, options, limit=options.limit)))
    unknown = [name for name in names if name not in matched]
    if unknown:
        # An experiment says what is near, one with a match if there is one: else nothing is to run at all.
        one, _ = found[0] if found else read[0]
        tasks = next(own for each, own in read if each is one)
        there = _names(tasks)
        _select(one, tasks, [*(name for name in names if name in there), *unknown], options)
    return found


def _tagged(read: list[tuple[Resolved, list[Task]]], tags: frozenset[str]) -> list[tuple[Resolved, list[Task]]]:
    """Return what has one of the tags: whole experiments, and of others the tasks. Raises `NothingToRun`."""
    found = [
        (one, tasks if tags.intersection(one.experiment.tags) else [each for each in tasks if tags & {*each.tags}])
        for one, tasks in read
    ]
    kept = [(one, tasks) for one, tasks in found if tasks]
    if not kept:
        there = {tag for one, _ in read for tag in one.experiment.tags}
        there.update(tag for _, tasks in read for task in tasks for tag in task.tags)
        raise NothingToRun(f"no task and no experiment has the tag {_words(tags)}", hint=_tags_there(there, tags))
    return kept


def _tags_there(there: set[str], wanted: Iterable[str]) -> str:
    """Return a hint at the tags that there are: the nearest, or some of them."""
    near = {found for tag in wanted if (found := nearest(tag, there))}
    shown = sorted(near or there)[:TAGS_SHOWN]
    more = "" if near or len(there) <= TAGS_SHOWN else f", and {len(there) - TAGS_SHOWN} more"
    if not shown:
        return "nothing here has a tag"
    return f"did you mean {_words(shown)}?" if near else f"tags there: {_words(shown)}{more}"


def _words(tags: Iterable[str]) -> str:
    return ", ".join(f"`{tag}`" for tag in sorted(tags))


@contextmanager
def _each_said(*, named: bool) -> Generator[Callable[[Resolved], AbstractContextManager[None]]]:
    """Let what is wrong with one experiment wait until all were looked at; then it is raised, all of it at once.

    With `named` it is said which experiment it is about.
    """
    found = Collected()
    nothing: list[NothingToRun] = []

    @contextmanager
    def say_of(one: Resolved) -> Generator[None]:
        try:
            with found.gather():
                try:
                    yield
                except UsageError as error:
                    if named and not isinstance(error, ConfigErrors):
                        reword(error, lambda text: f"{one.experiment.name}: {text}")
                    raise
        except NothingToRun as error:
            if named:
                reword(error, lambda text: f"{one.experiment.name}: {text}")
            nothing.append(error)

    yield say_of
    found.raise_any()
    if nothing:
        raise nothing[0]


def _select(
    one: Resolved, tasks: Sequence[Task], names: Sequence[str] | None, options: Options, *, limit: int | None = None
) -> list[Task]:
    try:
        return select(tasks, benchmark=one.experiment.benchmark.id, ids=names, limit=limit)
    except (UsageError, NothingToRun) as error:
        if names is not None and options.tags:  # a task of that name may be there, without the tag
            reword(error, lambda text: f"{text}; only what has the tag {_words(options.tags)} counts")
        raise


def _names(tasks: Sequence[Task]) -> set[str]:
    """Return the names that tasks can be chosen by: whole ids, and their last parts."""
    return {name for task in tasks for name in (task.id, task.id.rpartition("/")[2])}
