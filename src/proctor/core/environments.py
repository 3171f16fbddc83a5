"""Which environment a task is worked on in: what it declares itself, and for the rest what its experiment says."""

from __future__ import annotations

from dataclasses import fields, replace

from proctor.model.attempt import Phase
from proctor.model.environment import DEFAULT_ENVIRONMENT, EnvironmentSpec, Resources
from proctor.model.spec import Task

_UNSAID = DEFAULT_ENVIRONMENT
_IMAGE = ("image", "image_digest", "build", "compose")
"""What says together what the file system is."""
_NETWORKS = ("network", "setup_network", "grade_network")
_MERGED = ("env", "proxy", *_IMAGE)


def environment_of(task: Task, own: EnvironmentSpec) -> EnvironmentSpec:
    """Return the environment of a task in an experiment with the environment `own`.

    A field that the task leaves as it is has the experiment's value. Variables and resources are put together, the
    task's being stronger; image, build and compose file come from one of the two. A network for the agent is one for
    setup and grade as well, unless the task says another of them.
    """
    declared = task.environment
    if declared is None or declared == own:
        return own
    said = {
        one.name: getattr(declared, one.name)
        for one in fields(EnvironmentSpec)
        if one.name not in _MERGED and getattr(declared, one.name) != getattr(_UNSAID, one.name)
    }
    if any(getattr(declared, name) is not None for name in _IMAGE):
        said |= {name: getattr(declared, name) for name in _IMAGE}
    if "network" in said:
        said |= {name: getattr(declared, name) for name in _NETWORKS}
    if "resources" in said:
        own_amounts = {one.name: getattr(declared.resources, one.name) for one in fields(Resources)}
        said["resources"] = replace(own.resources, **{name: n for name, n in own_amounts.items() if n is not None})
    return replace(own, **said, env={**own.env, **declared.env}, proxy=own.proxy or declared.proxy)


def as_graded(task: Task) -> Task:
    """Return a task with the environment of a sandbox that is opened to grade it, where it has one of its own."""
    return task if task.grade_environment is None else replace(task, environment=task.grade_environment)


def for_grading(environment: EnvironmentSpec) -> EnvironmentSpec:
    """Return the environment of a sandbox that is opened for grading only."""
    network = environment.network_of(Phase.GRADE)
    return replace(environment, network=network, setup_network=None, grade_network=None)


__all__ = ["as_graded", "environment_of", "for_grading"]
