"""The environment of a task in Python that is declared as a mapping, with the fields that files have for it."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from proctor.authoring.environment_fields import EnvironmentConfig
from proctor.authoring.environment_spec import declaration_of, spec_of
from proctor.errors import UsageError, nearest
from proctor.model.environment import DEFAULT_ENVIRONMENT, EnvironmentSpec


def environment_of_task(given: Mapping[str, Any], directory: Path, place: str) -> EnvironmentSpec:
    """Return what a mapping declares; its paths are relative to `directory`. Raises `UsageError`, naming `place`."""
    try:
        config = EnvironmentConfig.model_validate(_plain(given))
    except ValidationError as error:
        said = [_reason(problem["loc"], problem["type"], problem["msg"]) for problem in error.errors(include_url=False)]
        raise UsageError(
            f"{place}: {'; '.join(dict.fromkeys(said))}",
            hint=f"fields there: {', '.join(EnvironmentConfig.model_fields)}",
        ) from None

    @contextmanager
    def at(path: tuple[str, ...]) -> Generator[Path]:
        del path
        yield directory

    provider = config.provider or DEFAULT_ENVIRONMENT.provider
    try:
        return spec_of(config, provider, at)
    except UsageError as error:
        raise UsageError(f"{place}: {error.message}", hint=error.hint) from error


def _plain(value: Any) -> Any:
    """Return a mapping with mappings and lists in it, in which parts may be made in Python."""
    value = declaration_of(value)
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in cast("list[Any]", value)]
    return str(value) if isinstance(value, Path) else value


def _reason(path: tuple[str | int, ...], kind: str, message: str) -> str:
    """Return what is wrong with a field; values are not repeated, as one may be a credential."""
    where = ".".join(map(str, ("environment", *path)))
    if kind == "extra_forbidden":
        near = nearest(str(path[-1]), EnvironmentConfig.model_fields) if len(path) == 1 else None
        return f"unknown field `{where}`" + (f"; did you mean `{near}`?" if near else "")
    said = "it is missing" if kind == "missing" else message.removeprefix("Value error, ")
    return f"`{where}`: {said[:1].lower()}{said[1:]}"


__all__ = ["environment_of_task"]
