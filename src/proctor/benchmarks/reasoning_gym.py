"""Benchmark `reasoning_gym`: generated puzzles with checkers, of the package of that name (docs/reasoning-gym.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from proctor.data import reasoning_gym
from proctor.errors import UsageError, nearest
from proctor.model.attempt import GradingMode
from proctor.model.spec import Component, Json, Reference, Task
from proctor.plugins.api import AttemptContext

ALL = "all"
LEFT_OUT: Mapping[str, str] = {
    "boxnet": "gives no answer of its own",
    "codeio": "runs code that a model wrote to make its tasks, some of which are others each time",
    "game_of_life_halting": "its checker takes any answer for right",
    "rush_hour": "gives no answer of its own",
}
"""What is not among `all`, and why; it can be asked for by name."""
REFUSED = {"composite": "it is made of others: name those"}

Name = Annotated[str, Field(min_length=1)]


class ReasoningGymOptions(BaseModel):
    """Which tasks there are, what is said before each, and when one is solved."""

    model_config = ConfigDict(extra="forbid")

    name: Name | Annotated[list[Name], Field(min_length=1)] = ALL
    """One or several datasets."""
    seed: int = Field(default=0, ge=0, lt=2**32, strict=True)
    size: int = Field(default=5, ge=1, le=reasoning_gym.TASKS_AT_MOST, strict=True)
    """Tasks of each dataset."""
    config: dict[str, dict[str, Json]] = {}
    """Parameters of generators, by dataset."""
    prompt: str = "default"
    """One of the instructions of the authors, or a text of your own, which has a blank in it."""
    solved_at: float = Field(default=1.0, gt=0, le=1)
    """The score from which on a task is solved."""
    check_seconds: int = Field(default=10, ge=1, strict=True)
    """Processor time that the check of one answer may take."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if odd := {"seed", "size"} & {key for config in self.config.values() for key in config}:
            raise ValueError(f"`{min(odd)}` of a generator comes from the parameter of that name")
        return self


class ReasoningGym:
    """Puzzles of many kinds. Raises `MissingPackage` where the package is missing."""

    name = "reasoning_gym"
    isolated_attempts = True
    grading = GradingMode.NONE
    gradings = (GradingMode.NONE,)
    options: type[BaseModel] = ReasoningGymOptions

    def __init__(self, options: ReasoningGymOptions) -> None:
        self._options = options
        self.version = f"1-{reasoning_gym.version()}"

    async def tasks(self) -> Iterable[Task]:
        """Return the first task of each dataset, then the second of each, and so on.

        Raises `UsageError` for names that are none, and for parameters that a generator refuses.
        """
        options = self._options
        groups, prompts = await reasoning_gym.describe()
        names = self._names(groups)
        before = prompts.get(options.prompt, options.prompt)
        if before == options.prompt and " " not in before:
            raise _unknown("instructions", options.prompt, prompts)
        made = await _all_made(names, options)
        return [
            self._task(name, groups[name], before, tasks[number])
            for number in range(options.size)
            for name, tasks in zip(names, made, strict=True)
        ]

    async def setup(self, ctx: AttemptContext) -> None:
        """Put nothing into the sandbox: the prompt is all that an agent needs."""

    def _names(self, groups: Mapping[str, str]) -> list[str]:
        asked = [self._options.name] if isinstance(self._options.name, str) else self._options.name
        for name in (*asked, *self._options.config):
            if name in REFUSED:
                raise UsageError(f"dataset `{name}` cannot be run: {REFUSED[name]}")
            if name != ALL and name not in groups:
                raise _unknown("dataset", name, [ALL, *groups])
        everything = [name for name in sorted(groups) if name not in LEFT_OUT and name not in REFUSED]
        names = list(dict.fromkeys(name for one in asked for name in (everything if one == ALL else [one])))
        if idle := [name for name in self._options.config if name not in names]:
            raise UsageError(f"`benchmark.params.config` is of `{idle[0]}`, which is not among the datasets that run")
        return names

    def _task(self, name: str, group: str, before: str, made: reasoning_gym.Made) -> Task:
        options = self._options
        return Task(
            id=f"{name}-{made.index:04d}",
            prompt=f"{before.strip()}\n\n{made.question}",
            grader=Component(
                "reasoning_gym",
                {
                    "name": name,
                    "seed": options.seed,
                    "index": made.index,
                    "config": options.config.get(name, {}),
                    "digest": made.digest,
                    "solved_at": options.solved_at,
                    "check_seconds": options.check_seconds,
                },
            ),
            reference=None if made.answer is None else Reference(answer=f"<answer>{made.answer}</answer>"),
            tags=(group,) if options.name == ALL else (group, name),
        )


async def _all_made(names: list[str], options: ReasoningGymOptions) -> list[list[reasoning_gym.Made]]:
    """Return the tasks of each dataset. The first that cannot be made is said, and no other is waited for."""
    wanted = range(options.size)
    try:
        async with asyncio.TaskGroup() as group:
            making = [
                group.create_task(reasoning_gym.make(name, options.seed, options.config.get(name, {}), wanted))
                for name in names
            ]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from errors
    return [one.result() for one in making]


def _unknown(what: str, name: str, known: Iterable[Any]) -> UsageError:
    listed = sorted(known)
    near = nearest(name, listed)
    hint = f"did you mean `{near}`?" if near else f"there are {', '.join(listed)}"
    return UsageError(f"{reasoning_gym.PACKAGE} {reasoning_gym.version()} has no {what} `{name}`", hint=hint)
