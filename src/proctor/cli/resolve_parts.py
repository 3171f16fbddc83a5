"""Makes the plugins of an experiment with validated parameters, and turns what they raise into errors of usage."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qsl

from pydantic import BaseModel

from proctor.authoring.environment_spec import spec_of
from proctor.config.default_provider import default_provider
from proctor.config.layers import FieldPath, Layered, Source
from proctor.config.load import is_secret, validate
from proctor.config.problems import ConfigErrors, placed
from proctor.config.scalars import substituted_in
from proctor.config.schema import EnvironmentConfig, ExperimentConfig, ModelConfig, PriceConfig
from proctor.config.settle import settle, settled
from proctor.errors import PluginLoadError, ProctorError, UsageError, describe
from proctor.model.environment import EnvironmentSpec
from proctor.model.price import ModelPrice
from proctor.model.secrets import secrets_in
from proctor.model.spec import ModelSpec
from proctor.plugins.api import Harness, Model, Provider
from proctor.plugins.capabilities import refusals
from proctor.plugins.registry import Kind, check_made, load, names
from proctor.runtime.redact import Redactor

DEFAULT_MODEL_FAMILY = "openai"

INTEGER_BITS_AT_MOST = 1024
"""Longer whole numbers are none that anybody means, and cannot be written in decimal digits beyond some size."""

NO_FIELDS = Layered({}, ())


def make(
    kind: Kind, name: str, params: Mapping[str, Any], fields: Layered = NO_FIELDS, part: str = ""
) -> tuple[Any, Mapping[str, Any]]:
    """Return a plugin made with validated options, and the options as JSON with their defaults.

    `part` is the part of the experiment that it is, in whose fields its parameters were written.
    """
    with placed(fields.source_of((part, "id"))):
        make_plugin = load(kind, name)
    what = f"parameters of {kind.value} `{name}`"

    def at(path: FieldPath) -> Source:
        return fields.source_of((part, "params", *path))

    try:
        options: BaseModel = validate(make_plugin.options, params, what=what, at=at)
    except ConfigErrors as error:
        named = [replace(problem, message=f"{what}: {problem.message}") for problem in error.problems]
        raise ConfigErrors(named) from None
    if any(substituted_in(params)):  # a plugin gets plain text, which nobody tells from any other
        options = make_plugin.options.model_validate(_plain(settled(params, make_plugin.options)))
    with placed(fields.source_of((part, "id"))), making(kind, name, params):
        plugin = make_plugin(options)
        check_made(kind, name, plugin)
        values = options.model_dump(mode="json")
    check_json(values, what, at)
    return plugin, values


def environment_spec(config: EnvironmentConfig, fields: Layered) -> EnvironmentSpec:
    """Return what the environment of an experiment comes to. Raises `UsageError` for a path that is not there."""

    @contextmanager
    def at(path: FieldPath) -> Generator[Path]:
        source = fields.source_of(("environment", *path))
        with placed(source):
            yield Path() if source.line is None else Path(source.name).parent

    return spec_of(config, default_provider() if config.provider is None else config.provider, at)


def make_provider(
    environment: EnvironmentSpec, fields: Layered, what: str, *, graded_in_place: bool = False
) -> Provider:
    """Return the provider of the environment of `what`, which can make such. Raises `UsageError`."""
    name = environment.provider
    with placed(fields.source_of(("environment", "provider"))):
        make_one = load(Kind.PROVIDER, name)
        with making(Kind.PROVIDER, name, environment.env):
            provider: Provider = make_one()
            check_made(Kind.PROVIDER, name, provider)
            refused = refusals(provider, environment, graded_in_place=graded_in_place, whole=False)
        if refused:
            hidden = Redactor([*secrets_in(environment.env)]).text("; ".join(refused))
            raise UsageError(
                f"provider `{provider.name}` cannot make the environment of {what}: {hidden}",
                hint="change the environment, or take another provider: `--env PROVIDER`",
            )
    return provider


def model_specs(config: ExperimentConfig, harness: Harness, fields: Layered) -> dict[str, Any]:
    """Return the models of an experiment by the parts that they are, `model` and `judge`. Raises `UsageError`."""
    if config.model is None and harness.needs_model:
        with placed(fields.source_of(("harness", "id"))):
            raise UsageError(
                f"harness `{config.harness.id}` needs a model",
                hint=f"give one: `proctor run BENCHMARK {config.harness.id} MODEL`, such as `mock/echo`",
            )
    return {part: _model_spec(getattr(config, part), fields, part) for part in ("model", "judge")}


def _model_spec(config: ModelConfig | None, fields: Layered, part: str) -> ModelSpec | None:
    if config is None:
        return None
    if config.base_url is not None and _holds_credential(config.base_url):
        with placed(fields.source_of((part, "base_url"))):
            raise UsageError(
                f"{part} `{config.id}`: {part}.base_url holds a user name, password or key",
                hint=f"leave it out of the address and give it as {part}.api_key (an `@` of a path is written `%40`)",
            )
    params = free(config.params)
    check_json(params, f"{part}.params", lambda path: fields.source_of((part, "params", *path)))
    return ModelSpec(
        config.id,
        config.base_url,
        config.api_key,
        config.identity,
        params,
        config.max_connections or _connections(config.id),
        config.requests_per_minute,
        _price(config.price),
    )


def _connections(model: str) -> int | None:
    """Return how many calls at once a model's family takes where nobody says more (`max_connections`), if it says."""
    family, slash, _ = model.partition("/")
    return getattr(load(Kind.MODEL, family), "max_connections", None) if slash and family in names(Kind.MODEL) else None


def _price(config: PriceConfig | None) -> ModelPrice | None:
    """Return a price; one that says nothing is none."""
    price = ModelPrice() if config is None else ModelPrice(**config.model_dump())
    return None if price == ModelPrice() else price


def open_model(spec: ModelSpec, fields: Layered = NO_FIELDS, part: str = "model") -> Model:
    """Make a model: by its family where the id has a known one in front (`mock/...`), else OpenAI-compatible."""
    try:
        return _opened(spec)
    except UsageError as error:
        # A family says of its parameters only their names.
        named = sorted((name for name in spec.params if f"`{name}`" in error.message), key=error.message.index)
        with placed(fields.source_of((part, "params", named[0]) if named else (part, "id"))):
            raise


def _opened(spec: ModelSpec) -> Model:
    family = spec.id.partition("/")[0]
    kind = family if family in names(Kind.MODEL) and "/" in spec.id else DEFAULT_MODEL_FAMILY
    make_model = load(Kind.MODEL, kind)
    with making(Kind.MODEL, kind, {"api_key": spec.api_key, **spec.params}):
        model: Model = make_model(spec)
        check_made(Kind.MODEL, kind, model)
        return model


def free(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values of no known types as plain JSON values."""
    return {name: _plain(settle(value)) for name, value in values.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, dict):
        return {_plain(name): _plain(inner) for name, inner in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in cast("list[Any]", value)]
    return value


def check_json(values: Any, what: str, at: Callable[[FieldPath], Source]) -> None:
    """Refuse what is no JSON value, infinite numbers and NaN among it. Raises `UsageError`."""
    odd = next(_odd(values), None)
    if odd is not None:
        path, why, hint = odd
        with placed(at(path)):
            raise UsageError(f"{what}: `{'.'.join(map(str, path))}` {why}", hint=hint)


_NOT_COMPARABLE = "no result could be compared by it"
_JSON_VALUES = "give texts, numbers, true and false, lists, and mappings of them"


def _odd(value: Any, path: FieldPath = ()) -> Iterator[tuple[FieldPath, str, str]]:
    """Yield what in a value is no JSON value: where, why, and what to do."""
    if isinstance(value, float) and not math.isfinite(value):
        yield path, "is not a finite number", _NOT_COMPARABLE
    elif isinstance(value, int) and value.bit_length() > INTEGER_BITS_AT_MOST:
        yield path, f"is a number of more than {INTEGER_BITS_AT_MOST} bits", "write it as a text"
    elif isinstance(value, Mapping):
        for key, inner in cast("Mapping[Any, Any]", value).items():
            if not isinstance(key, str):
                yield path, f"has the name {key!r:.80}, which is no text", _JSON_VALUES
            yield from _odd(inner, (*path, str(key)))
    elif isinstance(value, list):
        for place, inner in enumerate(cast("list[Any]", value)):
            yield from _odd(inner, (*path, place))
    elif not isinstance(value, str | int | float | None):
        yield path, f"is of type {type(value).__name__}, which no file could hold", _JSON_VALUES


def _holds_credential(address: str) -> bool:
    """Whether an address, which is written to plan.json, holds what must not be: `user:password@`, or `?key=...`."""
    queried = [name for name, _ in parse_qsl(address.partition("?")[2], keep_blank_values=True)]
    return "@" in address or any(map(is_secret, queried))


@contextmanager
def making(kind: Kind, name: str, given: Mapping[str, Any]) -> Generator[None]:
    """Turn what a plugin raises while it is made into a `PluginLoadError`, without the credentials in `given`."""
    try:
        yield
    except ProctorError:
        raise
    except (Exception, SystemExit) as error:
        said = Redactor([*secrets_in(given), *substituted_in(given)]).text(describe(error))
        raise PluginLoadError(
            f"{kind.value} `{name}` cannot be made: {said}", hint="look at its parameters, or mend the plugin"
        ) from error
