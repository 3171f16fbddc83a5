"""In which environment a task is worked on."""

from __future__ import annotations

import dataclasses

import pytest

from proctor.core.environments import environment_of, for_grading
from proctor.model.attempt import Phase
from proctor.model.environment import FULL_NETWORK, Build, Compose, EnvironmentSpec, Network, Resources
from proctor.model.spec import Component, Task

OWN = EnvironmentSpec(
    "docker", "python:3.12", "sha256:1", env={"A": "1", "B": "1"}, resources=Resources(1.0), network=Network("none"),
    setup_network=Network("full"), user="agent", workdir="/app",
)  # fmt: skip


def task(environment: EnvironmentSpec | None) -> Task:
    return Task("t", Component("text"), environment=environment)


def test_a_task_that_declares_none_has_that_of_its_experiment() -> None:
    assert environment_of(task(None), OWN) is OWN


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("provider", "bwrap"),
        ("resources", Resources(2.0)),
        ("setup_network", Network("none")),
        ("grade_network", Network("none")),
        ("user", "root"),
        ("workdir", "/work"),
    ],
)
def test_what_a_task_declares_is_stronger_and_the_rest_is_the_experiments(field: str, value: object) -> None:
    declared = dataclasses.replace(EnvironmentSpec(), **{field: value})
    assert environment_of(task(declared), OWN) == dataclasses.replace(OWN, **{field: value})


@pytest.mark.parametrize(
    "own_image",
    [{"image": "debian"}, {"build": Build("/c", "d")}, {"compose": Compose("/c.yaml", "d")}],
    ids=["image", "build", "compose"],
)
def test_what_the_file_system_is_comes_from_one_of_the_two(own_image: dict[str, object]) -> None:
    nothing = {"image": None, "image_digest": None, "build": None, "compose": None}
    found = environment_of(task(EnvironmentSpec(**own_image)), OWN)
    assert found == dataclasses.replace(OWN, **{**nothing, **own_image})


def test_V3_a_network_of_a_task_holds_in_every_phase_of_which_it_says_nothing_else() -> None:
    # OWN opens the network in setup: a task that is to have none must not get it there.
    found = environment_of(
        task(EnvironmentSpec(network=Network("none"))), dataclasses.replace(OWN, network=FULL_NETWORK)
    )
    assert {found.network_of(phase).mode for phase in Phase} == {"none"}
    found = environment_of(task(EnvironmentSpec(network=Network("none"), grade_network=FULL_NETWORK)), OWN)
    assert [found.network_of(phase).mode for phase in (Phase.SETUP, Phase.AGENT, Phase.GRADE)] == [
        "none",
        "none",
        "full",
    ]


def test_resources_are_put_together() -> None:
    own = dataclasses.replace(OWN, resources=Resources(1.0, 2**30, 64))
    assert environment_of(task(EnvironmentSpec(resources=Resources(2.0))), own).resources == Resources(2.0, 2**30, 64)


def test_variables_are_put_together() -> None:
    assert environment_of(task(EnvironmentSpec(env={"B": "2", "C": "2"})), OWN).env == {"A": "1", "B": "2", "C": "2"}
    assert environment_of(task(EnvironmentSpec(proxy=True)), OWN).proxy
    assert environment_of(task(EnvironmentSpec(env={"C": "2"})), dataclasses.replace(OWN, proxy=True)).proxy


def test_V3_each_phase_has_a_network_policy() -> None:
    assert [OWN.network_of(phase).mode for phase in (Phase.SETUP, Phase.AGENT, Phase.GRADE)] == ["full", "none", "none"]
    grading = for_grading(dataclasses.replace(OWN, grade_network=Network("allow", ("a",))))
    assert {grading.network_of(phase) for phase in Phase} == {Network("allow", ("a",))}
