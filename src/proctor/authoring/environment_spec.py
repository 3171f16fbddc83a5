"""What a declared environment comes to, and how one that came to something was declared."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, cast

from proctor.authoring.environment_fields import BuildConfig, ComposeConfig, EnvironmentFields, NetworkConfig
from proctor.authoring.environment_values import is_path
from proctor.errors import UsageError
from proctor.model.environment import DEFAULT_ENVIRONMENT, Build, Compose, EnvironmentSpec, Network, Resources

At = Callable[[tuple[str, ...]], AbstractContextManager[Path]]
"""By the path of a field: gives the directory that it is relative to, and says of errors where it was written."""


_digests: ContextVar[dict[tuple[str, str], str] | None] = ContextVar("digests", default=None)


@contextmanager
def digests_shared() -> Generator[None]:
    """Look only once, inside of this, at what is built from one directory, or stands beside one compose file."""
    token = _digests.set({})
    try:
        yield
    finally:
        _digests.reset(token)


def _digest(path: Path, dockerfile: str | None = None) -> str:
    known = _digests.get()
    key = (str(path), dockerfile or "")
    if known is not None and key in known:
        return known[key]
    from proctor.data.build_context import compose_digest, context_digest  # noqa: PLC0415 - few build anything

    found = compose_digest(path) if dockerfile is None else context_digest(path, dockerfile)
    if known is not None:
        known[key] = found
    return found


def spec_of(config: EnvironmentFields, provider: str, at: At) -> EnvironmentSpec:
    """Return what an environment comes to; its paths are absolute. Raises `UsageError` for paths that are not there."""
    network = config.network or NetworkConfig.model_validate("full")
    phases = {
        name: policy.network for name in ("setup", "agent", "grade") if (policy := getattr(network, name)) is not None
    }
    agent = phases.get("agent", network.network)
    setup, grade = phases.get("setup", agent), phases.get("grade", agent)
    resources = config.resources
    return EnvironmentSpec(
        provider=str(provider),
        image=_image(config, at),
        build=_build(config.build, at),
        compose=_compose(config.compose, at),
        env=config.env,
        resources=Resources(
            resources.cpus, None if resources.memory is None else int(resources.memory), resources.processes
        ),
        network=agent,
        setup_network=None if setup == agent else setup,
        grade_network=None if grade == agent else grade,
        user=config.user and str(config.user),
        workdir=config.workdir,
        proxy=config.proxy,
    )


def _absolute(base: Path, path: str) -> str:
    return os.path.abspath(base / Path(path).expanduser())


def _image(config: EnvironmentFields, at: At) -> str | None:
    if config.image is None or not is_path(config.image):
        return config.image and str(config.image)
    with at(("image",)) as base:
        path = _absolute(base, config.image)
        if not os.path.exists(path):
            raise UsageError(f"`environment.image`: there is no `{path}`", hint="a name must not begin with `.` or `/`")
        return path


def _build(config: BuildConfig | None, at: At) -> Build | None:
    if config is None:
        return None
    with at(("build", "context")) as base:
        context = Path(_absolute(base, config.context))
        if not context.is_dir():
            raise UsageError(f"`environment.build.context`: there is no directory `{context}`", hint="mend the path")
    with at(("build", "dockerfile")):
        if not (context / config.dockerfile).is_file():
            raise UsageError(
                f"`environment.build.dockerfile`: there is no file `{config.dockerfile}` in `{context}`",
                hint="it is a path in the directory that is built from",
            )
        digest = _digest(context, str(config.dockerfile))
    return Build(str(context), digest, str(config.dockerfile), tuple(sorted(config.args.items())), config.target)


def _compose(config: ComposeConfig | None, at: At) -> Compose | None:
    if config is None:
        return None
    with at(("compose", "file")) as base:
        file = Path(_absolute(base, config.file))
        if not file.is_file():
            raise UsageError(f"`environment.compose.file`: there is no file `{file}`", hint="mend the path")
        return Compose(str(file), _digest(file), str(config.service))


# --------------------------------------------------------------------------------------------------- and back again


def declared_as(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return how an environment is declared that is there as plain JSON; what says nothing is left out.

    Digests are left out: they are made anew of what is there today.
    """
    tree: dict[str, Any] = {name: plain.get(name) for name in ("provider", "image", "env", "user", "workdir", "proxy")}
    for name, declared in (
        ("build", _declared_build),
        ("compose", _declared_compose),
        ("resources", _declared_amounts),
    ):
        tree[name] = declared(_mapping(plain, name))
    agent = _policy(_mapping(plain, "network"))
    setup, grade = (_policy(_mapping(plain, f"{phase}_network")) for phase in ("setup", "grade"))
    if setup is not None or grade is not None:
        tree["network"] = _said({"setup": setup, "agent": agent, "grade": grade})
    else:
        tree["network"] = None if agent == "full" else agent
    return _said(tree)


def declaration_of(value: Any) -> Any:
    """Return how an environment that is made in Python, or a part of one, is declared; anything else as it is.

    The provider that an `EnvironmentSpec` has by itself is none that anybody named.
    """
    if not isinstance(value, EnvironmentSpec | Network | Resources | Build | Compose):
        return value
    plain = _plain(value)
    if isinstance(value, EnvironmentSpec):
        named = {} if value.provider == DEFAULT_ENVIRONMENT.provider else {"provider": value.provider}
        return {**declared_as({**plain, "provider": None}), **named}
    if isinstance(value, Network):
        return _policy(plain)
    if isinstance(value, Resources):
        return _declared_amounts(plain)
    return _declared_build(plain) if isinstance(value, Build) else _declared_compose(plain)


def _plain(value: EnvironmentSpec | Network | Resources | Build | Compose) -> dict[str, Any]:
    parts = {one.name: getattr(value, one.name) for one in fields(value)}
    return {name: _plain(part) if is_dataclass(part) else part for name, part in parts.items()}  # pyright: ignore[reportArgumentType] - its parts are of these types


def _mapping(plain: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value: Any = plain.get(name)
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _declared_build(build: Mapping[str, Any]) -> dict[str, Any]:
    args = dict(cast("list[tuple[str, str]]", build.get("args") or ()))
    return _said({**build, "digest": None, "args": args})


def _declared_compose(compose: Mapping[str, Any]) -> dict[str, Any]:
    return _said({**compose, "digest": None})


def _declared_amounts(resources: Mapping[str, Any]) -> dict[str, Any]:
    own = {"cpus": "cpus", "memory": "memory_bytes", "processes": "processes"}
    return _said({name: resources.get(field) for name, field in own.items()})


def _policy(network: Mapping[str, Any]) -> Any:
    mode = network.get("mode")
    return {"allow": [*network.get("hosts", ())]} if mode == "allow" else mode


def _said(tree: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in tree.items() if value not in (None, {}, [], False)}


__all__ = ["At", "declaration_of", "declared_as", "digests_shared", "spec_of"]
