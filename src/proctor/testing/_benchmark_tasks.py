"""Checks of benchmarks: what they declare, and their tasks as data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from proctor.core.identity import task_parts
from proctor.core.select import check_tasks
from proctor.errors import ProctorError
from proctor.model.spec import Component, Task
from proctor.plugins.api import Grader
from proctor.plugins.registry import Kind, check_made, load
from proctor.testing.check_benchmarks import BenchmarkBench
from proctor.testing.check_plugin import refusing
from proctor.testing.conformance import NotConforming, require, require_equal


async def declares_what_it_is(bench: BenchmarkBench) -> None:
    """Name, version, `isolated_attempts`, and the grading modes."""
    bench.making.check_declared(("isolated_attempts",))


async def refuses_parameters_that_there_are_not(bench: BenchmarkBench) -> None:
    """At planning, not in the middle of a run."""
    bench.making.check_options()


async def ids_are_unique(bench: BenchmarkBench) -> None:
    """And texts that can be written anywhere; there is one task at least."""
    benchmark = bench.made()
    tasks = await bench.tasks(benchmark)
    try:
        check_tasks(tasks, benchmark.name)
    except ProctorError as error:
        raise NotConforming(error.message) from error


async def tasks_and_version_stay_the_same(bench: BenchmarkBench) -> None:
    """Asked twice, and of a benchmark that is made anew: a result is compared with others by them."""
    first, second = bench.made(), bench.made()
    tasks = await bench.tasks(first)
    for which, again in (("asked a second time", first), ("of a benchmark that is made anew", second)):
        others = await bench.tasks(again)
        require_equal(f"ids of the tasks, {which}", [task.id for task in others], [task.id for task in tasks])
        changed = next((one.id for one, other in zip(tasks, others, strict=True) if one != other), None)
        require(changed is None, f"task `{changed}` is another one, {which}")


async def tasks_are_plain_data(bench: BenchmarkBench) -> None:
    """Of the declared types, with parameters of graders that are JSON: their identity is made of them."""
    for task in await bench.tasks(bench.made()):
        kinds: Mapping[str, tuple[Any, bool]] = {
            "prompt": (task.prompt, isinstance(cast("Any", task.prompt), str)),
            "grader": (task.grader, isinstance(cast("Any", task.grader), Component)),
            "files": (task.files, all(isinstance(cast("Any", one), bytes) for one in dict(task.files).values())),
            "tags": (task.tags, _are_texts(task.tags)),
        }
        for name, (value, fits) in kinds.items():
            require(fits, f"`{name}` of task `{task.id}` is {value!r:.200}")
        with refusing(f"making the identity of task `{task.id}`"):
            task_parts(task, grader_version="1", with_reference=True)


async def graders_take_their_parameters(bench: BenchmarkBench) -> None:
    """Each is known, and validates what the tasks give it."""
    for task in await bench.tasks(bench.made()):
        grader_of(task)


def grader_of(task: Task) -> Grader:
    """Return the grader of a task, made. Raises `NotConforming`."""
    name = task.grader.id
    try:
        make = load(Kind.GRADER, name)
        options: BaseModel = make.options.model_validate(dict(task.grader.params))
        grader: Grader = make(options)
        check_made(Kind.GRADER, name, grader)
    except ProctorError as error:
        raise NotConforming(f"the grader of task `{task.id}`: {error.message}") from error
    except ValidationError as error:
        raise NotConforming(f"grader `{name}` does not take the parameters of task `{task.id}`: {error}") from error
    return grader


def _are_texts(values: Any) -> bool:
    return isinstance(values, tuple) and all(isinstance(one, str) for one in cast("Iterable[Any]", values))


CHECKS = (
    declares_what_it_is,
    refuses_parameters_that_there_are_not,
    ids_are_unique,
    tasks_and_version_stay_the_same,
    tasks_are_plain_data,
    graders_take_their_parameters,
)
