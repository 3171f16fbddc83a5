"""What the files of a project hold, `proctor.yaml` and those of `--config`, as pydantic models."""

from __future__ import annotations

from pydantic import BaseModel, Field

from proctor.authoring.environment_fields import EnvironmentFields
from proctor.authoring.field_values import Config
from proctor.config.schema import EndpointConfig, ExecutionConfig, ExperimentConfig, RuntimeConfig
from proctor.config.values import Params


class ModelAlias(EndpointConfig):
    """What a name stands for where a model is named."""

    id: str | None = None
    """The id of the model. Default: the name itself."""


class ComponentDefaults(Config):
    """What every experiment with this benchmark or harness begins with."""

    params: Params = Field(default={})
    """Parameters, over which those of an experiment lie."""


class EnvironmentDefaults(EnvironmentFields):
    """What every experiment with this provider begins with."""


class ProjectConfig(Config):
    """What `proctor.yaml` and the files of `--config` hold."""

    execution: ExecutionConfig = ExecutionConfig()
    """How much runs at once, and what holds for experiments that say nothing."""
    runtime: RuntimeConfig = RuntimeConfig()
    """Where and how it runs."""
    models: dict[str, ModelAlias] = Field(default={})
    """Models by the names that experiments use for them."""
    benchmarks: dict[str, ComponentDefaults] = Field(default={})
    """Defaults by the id of the benchmark."""
    harnesses: dict[str, ComponentDefaults] = Field(default={})
    """Defaults by the id of the harness."""
    environments: dict[str, EnvironmentDefaults] = Field(default={})
    """Defaults by the name of the provider."""


PROJECT_PLACES: dict[str, type[BaseModel]] = {
    "execution": ExecutionConfig,
    "runtime": RuntimeConfig,
    "models.NAME": ModelAlias,
    "an experiment": ExperimentConfig,
}
"""Where fields stand that are looked for in the wrong section of a project's file."""
