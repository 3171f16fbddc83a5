"""What of the Harbor task format proctor does not do: each is refused by the name of its field, never left out."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

from proctor.benchmarks._harbor_toml import ArtifactEntry, Environment, TaskToml

COMPOSE_FILE = "docker-compose.yaml"
_FILLED_IN = re.compile(r"\$\{?(PREBUILT_IMAGE_NAME|EGRESS_CONTROL_\w+|(?:HOST|ENV)_\w+_LOGS_PATH)\b")
"""Variables of a compose file that only Harbor itself has values for."""
_USER = re.compile(r"^\s*USER\s+(\S+)", re.IGNORECASE | re.MULTILINE)

_FIELDS: tuple[tuple[str, Callable[[TaskToml], object], str], ...] = (
    (
        "multi_step_reward_strategy",
        lambda toml: toml.multi_step_reward_strategy is not None and not toml.steps,
        "there are no `steps`",
    ),
    ("verifier.collect", lambda toml: toml.verifier.collect, "let tests/test.sh do it"),
)

_OF_ENVIRONMENT: tuple[tuple[str, Callable[[Environment], object], str], ...] = (
    ("os", lambda one: one.os != "linux", "sandboxes are Linux"),
    ("gpus", lambda one: one.gpus, "sandboxes have no GPUs"),
    ("gpu_types", lambda one: one.gpu_types, "sandboxes have no GPUs"),
    ("tpu", lambda one: one.tpu, "sandboxes have no TPUs"),
    ("mcp_servers", lambda one: one.mcp_servers, "no harness is told of them"),
    ("skills_dir", lambda one: one.skills_dir, "no harness is told of it"),
)

_FILES = (
    ("trajectory.json", "an agent begins without a past"),
    ("tests/.harborignore", "remove what is not to be put into the sandbox"),
    ("solution/.harborignore", "remove what is not to be put into the sandbox"),
)


def refusals(toml: TaskToml, folder: Path) -> Iterator[str]:
    """Yield what a task asks for that proctor does not do, each with the reason."""
    for name, asks, why in _FIELDS:
        if asks(toml):
            yield f"`{name}` is not supported: {why}"
    yield from _of_environments(toml)
    yield from _of_steps(toml, folder)
    if toml.agent.user is not None and toml.verifier.user is None and _user_of_image(folder) not in (None, "root", "0"):
        yield "`agent.user` without `verifier.user` is not supported for an image with a USER: say whom tests run as"
    for number, one in enumerate(toml.artifacts):
        yield from (f"`artifacts.{number}{reason}" for reason in _of_artifact(one))
    for name, why in _FILES:
        if os.path.lexists(folder / name):
            yield f"file `{name}` is not supported: {why}"


def _of_steps(toml: TaskToml, folder: Path) -> Iterator[str]:
    """Yield what steps ask for: they share one sandbox, whose user and network stay, and their tests run in it."""
    if not toml.steps:
        return
    if toml.verifier.separate:
        yield "`verifier.environment_mode` is not supported with `steps`: their tests run in the sandbox of the agent"
    base = (toml.environment.network, toml.environment.allowed_hosts)
    for section, one in (("agent", toml.agent), ("verifier", toml.verifier)):
        if one.network_mode is not None and (one.network_mode, one.allowed_hosts) != base:
            yield f"`{section}.network_mode` is not supported with `steps`: their network is that of `environment`"
    for step in toml.steps:
        place = f"steps.{step.name}"
        own = step.verifier
        for name, asks, why in (
            ("agent.user", step.agent.user not in (None, toml.agent.user), "all steps have the user of the task"),
            ("agent.network_mode", step.agent.network_mode, "all steps have the network of the task"),
            ("verifier.network_mode", own.network_mode, "all steps have the network of the task"),
            ("verifier.environment_mode", own.separate, "the tests of steps run in the sandbox of the agent"),
            ("verifier.collect", own.collect, "let the tests do it"),
        ):
            if asks:
                yield f"`{place}.{name}` is not supported: {why}"
        for number, artifact in enumerate(step.artifacts):
            yield from (f"`{place}.artifacts.{number}{reason}" for reason in _of_artifact(artifact))
        for name, why in _FILES:
            if os.path.lexists(folder / "steps" / step.name / name):
                yield f"file `steps/{step.name}/{name}` is not supported: {why}"


def _of_environments(toml: TaskToml) -> Iterator[str]:
    own = toml.verifier.environment
    for name, of_environment, why in _OF_ENVIRONMENT:
        if of_environment(toml.environment):
            yield f"`environment.{name}` is not supported: {why}"
        if own is not None and of_environment(own):
            yield f"`verifier.environment.{name}` is not supported: {why}"
    for name in ("healthcheck", "storage_mb"):
        if own is not None and getattr(own, name) is not None:
            yield f"`verifier.environment.{name}` is not supported: only that of `environment` is looked at"
    for one in (toml.environment, toml.agent, toml.verifier, own):
        for host in (one.allowed_hosts if one is not None else None) or ():
            if "/" in host:
                yield f"`allowed_hosts` with the range `{host}` is not supported: name hosts or addresses"


def _of_artifact(one: str | ArtifactEntry) -> Iterator[str]:
    if not isinstance(one, str):
        for name in ("destination", "exclude"):
            if getattr(one, name):
                yield f".{name}` is not supported: an artifact is kept whole, by its path"
        if one.service not in (None, "main"):
            yield ".service` is not supported: artifacts come from service `main`"
    if ".." in (one if isinstance(one, str) else one.source).split("/"):
        yield "`: a path with `..` in it"


def _user_of_image(folder: Path) -> str | None:
    """Return whom an image runs commands as, by the last word of its Dockerfile; None where that says nothing."""
    try:
        named = _USER.findall((folder / "environment" / "Dockerfile").read_text("utf-8", "replace"))
    except OSError:
        return None
    return named[-1] if named else None


def refusals_of_compose(file: Path) -> Iterator[str]:
    """Yield what is missing in a compose file that Harbor puts together with one of its own."""
    from ruamel.yaml import YAML, YAMLError  # noqa: PLC0415 - on use

    try:
        text = file.read_text("utf-8")
        content: Any = YAML(typ="safe", pure=True).load(text)  # pyright: ignore[reportUnknownMemberType] - no types
    except (OSError, ValueError, YAMLError) as error:
        yield f"environment/{COMPOSE_FILE} cannot be read: {' '.join(str(error).split())}"
        return
    for name in sorted(set(_FILLED_IN.findall(text))):
        yield f"environment/{COMPOSE_FILE}: the variable `{name}` is not supported: only Harbor has a value for it"
    main = _section(_section(_section(content).get("services")).get("main"))
    if not main.get("image") and not main.get("build"):
        yield f"environment/{COMPOSE_FILE}: service `main` has neither `image` nor `build`: write `build: .`"


def refusals_of_links(folder: Path) -> Iterator[str]:
    """Yield the links of a folder that lead out of it: in a sandbox they would lead elsewhere."""
    root = folder.resolve()
    for place, folders, files in os.walk(folder):
        for path in (Path(place, name) for name in (*folders, *files)):
            if path.is_symlink() and not _stays(path, root):
                yield f"`{folder.name}/{path.relative_to(folder)}` is a link that leads out of `{folder.name}`"


def _stays(link: Path, root: Path) -> bool:
    try:
        return not os.path.isabs(os.readlink(link)) and link.resolve().is_relative_to(root)
    except (OSError, RuntimeError):  # a loop leads nowhere
        return False


def _section(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


__all__ = ["COMPOSE_FILE", "refusals", "refusals_of_compose", "refusals_of_links"]
