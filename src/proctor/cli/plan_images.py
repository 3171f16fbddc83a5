"""Asks providers, at planning, what the images are that sandboxes are made from: that counts in identities (04 P2)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from proctor.cli.resolve import Resolved
from proctor.cli.sandbox_providers import within
from proctor.config.default_provider import found_working
from proctor.core.environments import as_graded, environment_of
from proctor.core.plan import RunPlan
from proctor.core.schedule import ExperimentPlan
from proctor.errors import Fault, ProctorError, describe
from proctor.model.attempt import GradingMode
from proctor.model.environment import Build, Compose, EnvironmentSpec
from proctor.model.spec import Task
from proctor.plugins.api import Provider
from proctor.report.wording import plural

PROBE_SECONDS = 10.0
"""How long a provider may take to say whether it can be used."""
RESOLVE_SECONDS = 60.0
"""How long it may take to say what one image is: it may ask a registry."""
AT_ONCE = 8
IMAGES_NAMED = 3

_Image = tuple[str, str | None, Build | None, Compose | None]
"""The name of a provider, and what says what the file system is."""


@dataclass(frozen=True, slots=True)
class _Found:
    """What an image is, or why that is not known."""

    digest: str | None = None
    why: str | None = None


async def with_digests(resolved: Sequence[Resolved], plans: Sequence[RunPlan]) -> tuple[list[RunPlan], list[str]]:
    """Return plans whose environments say what their images are, and notes on those of which nobody knows it.

    Each distinct image is asked for once, and only where a sandbox is made from it. The experiments get the same.
    """
    asked: dict[_Image, tuple[Provider, EnvironmentSpec]] = {}
    for one, run_plan in zip(resolved, plans, strict=True):
        for environment in _environments(run_plan):
            asked.setdefault(_key(one.provider, environment), (one.provider, environment))
    if not asked:
        return list(plans), []
    found = await _resolved(asked)
    made = [_with(one, run_plan, found) for one, run_plan in zip(resolved, plans, strict=True)]
    for one, run_plan in zip(resolved, made, strict=True):
        one.experiment = run_plan.experiment
    return made, _notes(found)


def _opens_sandbox(schedule: ExperimentPlan, place: int) -> bool:
    """Say whether an attempt of a task opens a sandbox, for the agent or to grade in."""
    return schedule.agent_sandbox[place] or schedule.grading is GradingMode.FRESH


def _environments(run_plan: RunPlan) -> Iterator[EnvironmentSpec]:
    """Yield the environments with an image of the tasks that open a sandbox, some of them more than once."""
    own = run_plan.experiment.environment
    seen: set[int] = set()  # many tasks share one object, which is looked at once
    for place, task in enumerate(run_plan.tasks):
        for one in (task, as_graded(task)):
            if id(one.environment) not in seen and _opens_sandbox(run_plan.schedule, place):
                seen.add(id(one.environment))
                environment = environment_of(one, own)
                if _has_image(environment):
                    yield replace(environment, provider=own.provider)


def _has_image(environment: EnvironmentSpec) -> bool:
    return any(one is not None for one in (environment.image, environment.build, environment.compose))


def _key(provider: Provider, environment: EnvironmentSpec) -> _Image:
    return provider.name, environment.image, environment.build, environment.compose


async def _resolved(asked: dict[_Image, tuple[Provider, EnvironmentSpec]]) -> dict[_Image, _Found]:
    providers = {provider.name: provider for provider, _ in asked.values()}
    reasons = await asyncio.gather(*(why_unavailable(one) for one in providers.values()))
    unavailable = dict(zip(providers, reasons, strict=True))
    gate = asyncio.Semaphore(AT_ONCE)

    async def ask(provider: Provider, environment: EnvironmentSpec) -> _Found:
        why = unavailable[provider.name]
        if why is not None:
            return _Found(why=f"provider {provider.name} cannot be used: {why}")
        async with gate:
            return await _ask(provider, environment)

    found = await asyncio.gather(*(ask(*one) for one in asked.values()))
    return dict(zip(asked, found, strict=True))


async def _ask(provider: Provider, environment: EnvironmentSpec) -> _Found:
    try:
        return _Found((await within(RESOLVE_SECONDS, provider.resolve(environment))).image_digest)
    except TimeoutError:
        return _Found(why=f"provider {provider.name} did not say it within {RESOLVE_SECONDS:.0f} s")
    except (Fault, ProctorError) as error:
        return _Found(why=str(error))
    except Exception as error:  # planning goes on: whatever it is, the sandbox itself will tell
        return _Found(why=f"provider {provider.name}: {describe(error)}")


async def why_unavailable(provider: Provider) -> str | None:
    """Return why a provider cannot be used on this machine now, or None; what it raises is a reason as well."""
    if found_working(provider.name):
        return None
    try:
        return await within(PROBE_SECONDS, provider.unavailable())
    except TimeoutError:
        return f"it did not answer within {PROBE_SECONDS:.0f} s"
    except Exception as error:  # a plugin's, which is said to the user in place of an answer
        return describe(error)


def _with(one: Resolved, run_plan: RunPlan, found: dict[_Image, _Found]) -> RunPlan:
    """Return a plan in which every environment with a known image says what that is."""
    made: dict[int, EnvironmentSpec] = {}

    def known(environment: EnvironmentSpec) -> EnvironmentSpec:
        key = id(environment)
        if key not in made:
            there = found.get(_key(one.provider, environment))
            digest = there.digest if there is not None else None
            made[key] = environment if digest is None else replace(environment, image_digest=digest)
        return made[key]

    def named(task: Task) -> Task:
        own, graded = (None if one is None else known(one) for one in (task.environment, task.grade_environment))
        same = own is task.environment and graded is task.grade_environment
        return task if same else replace(task, environment=own, grade_environment=graded)

    tasks = tuple(map(named, run_plan.tasks))
    experiment = replace(run_plan.experiment, environment=known(run_plan.experiment.environment))
    return replace(run_plan, experiment=experiment, tasks=tasks)


def _notes(found: dict[_Image, _Found]) -> list[str]:
    """Return one note for each reason; an image that is built counts by what it is built from."""
    images: dict[str, list[str]] = {}
    for (_, image, build, compose), one in found.items():
        if one.digest is None and (one.why is not None or image is not None):
            name = image or (build and build.context) or (compose and compose.file) or ""
            images.setdefault(one.why or "it is not here yet", []).append(name)
    return [
        f"it is not known what {_named(names)} {'is' if len(names) == 1 else 'are'} ({why}): "
        f"results are compared by {'its name' if len(names) == 1 else 'their names'}"
        for why, names in images.items()
    ]


def _named(names: Sequence[str]) -> str:
    more = f" and {plural(len(names) - IMAGES_NAMED, 'other image')}" if len(names) > IMAGES_NAMED else ""
    return ("image " if len(names) == 1 else "images ") + ", ".join(f"`{one}`" for one in names[:IMAGES_NAMED]) + more


__all__ = ["why_unavailable", "with_digests"]
