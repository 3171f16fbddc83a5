"""Provider `docker` does what every provider must (spec 06), with Docker and with Podman."""

from __future__ import annotations

import asyncio

import pytest

from proctor.model.environment import EnvironmentSpec
from proctor.providers.docker.provider import DockerProvider
from proctor.testing.conformance import ProviderCheck, check_provider
from support import engines
from support.samples import sampled

ENVIRONMENT = EnvironmentSpec(provider="docker", image=engines.IMAGE)
GRACE_SECONDS = 2.0

OFTEN = {
    "exit_codes_are_the_commands_own",
    "a_signal_is_reported_as_a_signal",
    "standard_input_given_arrives_whole",
    "foreign_bytes_are_kept",
    "much_output_is_cut_and_counted",
    "a_time_limit_ends_daemons",
    "cancelling_ends_the_command",
    "processes_are_limited",
    "directories_go_in_and_out",
    "links_and_devices_are_left_out_of_downloads",
    "uploads_do_not_follow_planted_links",
    "sandboxes_are_fresh_and_apart",
    "sandboxes_are_listed_by_their_labels",
    "resetting_brings_the_work_directory_back",
    "without_network_there_is_nothing_to_reach",
}
"""What is most of a container's own; each check costs one, so the rest is for the long run."""
OF_PODMAN = {
    "a_signal_is_reported_as_a_signal",
    "much_output_is_cut_and_counted",
    "a_daemon_holds_nobody_and_lives_on",
    "directories_go_in_and_out",
    "sandboxes_are_listed_by_their_labels",
    "disposing_ends_what_runs",
}
"""What Podman does in another way than Docker; the rest is asked of it where all tests of engines are."""


def of_docker() -> DockerProvider:
    return DockerProvider(engines.docker(), grace_seconds=GRACE_SECONDS)


def of_podman() -> DockerProvider:
    return DockerProvider(engines.podman(), grace_seconds=GRACE_SECONDS)


@pytest.mark.parametrize("check", sampled(check_provider(of_docker, ENVIRONMENT), OFTEN))
def test_docker_conforms(check: ProviderCheck) -> None:
    asyncio.run(check())


@pytest.mark.parametrize(
    "check",
    sampled(
        [check for check in check_provider(of_podman, ENVIRONMENT) if engines.ALL or check.name in OF_PODMAN],
        {"a_signal_is_reported_as_a_signal", "directories_go_in_and_out"},
    ),
)
def test_podman_conforms(check: ProviderCheck) -> None:
    asyncio.run(check())
