"""What the sandbox of a Harbor task is made from, and what it may reach."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from proctor.benchmarks._harbor_refusals import COMPOSE_FILE, refusals_of_compose
from proctor.benchmarks._harbor_toml import Environment, TaskToml
from proctor.data.build_context import compose_digest, context_digest
from proctor.errors import UsageError
from proctor.model.environment import FULL_NETWORK, Build, Compose, EnvironmentSpec, Network, Resources
from proctor.plugins.api import MEBIBYTE

LOGS, TESTS, SOLUTION = "/logs", "/tests", "/solution"
DEFAULT_WORKDIR = "/app"
"""The work directory of a task that is made from nothing."""

_VARIABLE = re.compile(r"\$\{?([A-Z_]+)")
_MODES = {"public": FULL_NETWORK, "no-network": Network("none")}


def made_from(declared: Environment, folder: Path, reasons: list[str]) -> EnvironmentSpec:
    """Return what a sandbox is made from: the compose file of `folder`, an image, its Dockerfile, or nothing.

    What is wrong with it is added to `reasons`.
    """
    image, build, compose = declared.docker_image, None, None
    file = folder / COMPOSE_FILE
    try:
        if file.is_file():
            reasons += refusals_of_compose(file)
            image, compose = None, Compose(str(file), compose_digest(file))
        elif image is None and (folder / "Dockerfile").is_file():
            build = Build(str(folder), context_digest(folder))
        elif image is None and folder.is_dir() and any(folder.iterdir()):
            reasons.append(f"{folder.name}/ has neither Dockerfile nor {COMPOSE_FILE}")
    except (UsageError, OSError) as error:
        reasons.append(f"{folder.name}/: {error}")
    plain = (image, build, compose) == (None, None, None)
    memory = declared.memory_mb
    return EnvironmentSpec(
        image=image,
        build=build,
        compose=compose,
        env={} if compose is None else _filled_in(Path(compose.file), declared),
        image_timeout_seconds=declared.build_timeout_sec,
        resources=Resources(cpus=declared.cpus, memory_bytes=None if memory is None else memory * MEBIBYTE),
        workdir=declared.workdir or (DEFAULT_WORKDIR if plain else None),
        places=(LOGS, TESTS, SOLUTION) if plain else (),
    )


def made_for_tests(toml: TaskToml, folder: Path, reasons: list[str]) -> tuple[EnvironmentSpec | None, bool]:
    """Return what tests that have a sandbox of their own run in, and whether they are in its image already.

    The first is None where it is like the agent's.
    """
    own, tests = toml.verifier.environment, folder / "tests"
    named = own is not None and own.docker_image is not None
    built = any((tests / name).is_file() for name in ("Dockerfile", COMPOSE_FILE))
    if own is None and not built:
        return None, False
    declared = own or toml.environment
    if named:
        made = made_from(declared, tests / "nothing of it", reasons)
    elif built:
        made = made_from(declared.model_copy(update={"docker_image": None}), tests, reasons)
    else:
        image = toml.environment.docker_image
        made = made_from(declared.model_copy(update={"docker_image": image}), folder / "environment", reasons)
    place = toml.environment.workdir or DEFAULT_WORKDIR
    if made.places and place != made.workdir:  # artifacts come to where the agent made them
        made = replace(made, places=(*made.places, place))
    network = _network(declared.network, declared.allowed_hosts)
    if toml.verifier.network_mode is not None:
        network = _network(toml.verifier.network_mode, toml.verifier.allowed_hosts)
    return replace(made, network=network), named or built


def _filled_in(file: Path, declared: Environment) -> dict[str, str]:
    """Return the variables that a compose file is filled in with, as far as it names them."""
    values = {"CONTEXT_DIR": ".", "MAIN_IMAGE_NAME": "main", "TEST_DIR": TESTS, "LOGS_DIR": LOGS}
    if declared.cpus is not None:
        values["CPUS"] = f"{declared.cpus:g}"
    if declared.memory_mb is not None:
        values["MEMORY"] = f"{declared.memory_mb}M"
    named = set(_VARIABLE.findall(file.read_text("utf-8", "replace")))
    return {name: value for name, value in values.items() if name in named}


def networks(toml: TaskToml) -> tuple[Network, Network | None, Network | None]:
    """Return the policies of agent, setup and grade; None where it is that of the agent."""
    base = _network(toml.environment.network, toml.environment.allowed_hosts)
    agent, verifier = (
        base if one.network_mode is None else _network(one.network_mode, one.allowed_hosts)
        for one in (toml.agent, toml.verifier)
    )
    return agent, (base if base != agent else None), (verifier if verifier != agent else None)


def _network(mode: str, hosts: Iterable[str] | None) -> Network:
    return _MODES[mode] if mode in _MODES else Network("allow", tuple(hosts or ()))


__all__ = ["LOGS", "SOLUTION", "TESTS", "made_for_tests", "made_from", "networks"]
