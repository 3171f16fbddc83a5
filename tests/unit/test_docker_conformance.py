"""Provider `docker` does what every provider must (spec 06), with Docker and with Podman."""

from __future__ import annotations

import asyncio

import pytest

from proctor.model.environment import EnvironmentSpec
from proctor.providers.docker.provider import DockerProvider
from proctor.testing.conformance import ProviderCheck, check_provider
from support import engines

ENVIRONMENT = EnvironmentSpec(provider="docker", image=engines.IMAGE)
GRACE_SECONDS = 2.0

OF_PODMAN = {
    "a_signal_is_reported_as_a_signal",
    "much_output_is_cut_and_counted",
    "a_daemon_holds_nobody_and_lives_on",
    "directories_go_in_and_out",
    "sandboxes_are_listed_by_their_labels",
    "disposing_ends_what_runs",
}
"""What Podman does in another way than Docker; each check costs a container, so the rest is for the long form."""


def of_docker() -> DockerProvider:
    return DockerProvider(engines.docker(), grace_seconds=GRACE_SECONDS)


def of_podman() -> DockerProvider:
    return DockerProvider(engines.podman(), grace_seconds=GRACE_SECONDS)


@pytest.mark.parametrize("check", check_provider(of_docker, ENVIRONMENT), ids=str)
def test_docker_conforms(check: ProviderCheck) -> None:
    asyncio.run(check())


@pytest.mark.parametrize(
    "check",
    [check for check in check_provider(of_podman, ENVIRONMENT) if engines.ALL or check.name in OF_PODMAN],
    ids=str,
)
def test_podman_conforms(check: ProviderCheck) -> None:
    asyncio.run(check())
