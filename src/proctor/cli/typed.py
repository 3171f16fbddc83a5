"""What was typed on a command line, as layers: `--set`, and each option with its own name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proctor.cli.optional_values import LEFT_OUT
from proctor.config.assignments import split_assignments
from proctor.config.layers import Layer, Level, Source
from proctor.config.schema import SECTIONS

FIELD_OPTIONS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "provider": ("--env", ("environment", "provider")),
    "judge": ("--judge", ("judge", "id")),
    "timeout": ("--timeout", ("agent_timeout_seconds",)),
    "max_retries": ("--max-retries", ("max_retries",)),
    "retry_patterns": ("--retry-pattern", ("retry_pattern_list",)),
    "attempts": ("--attempts", ("attempts",)),
    "early_exit": ("--early-exit", ("early_exit",)),
    "budget": ("--budget", ("budget",)),
}
"""Options that set a field of every experiment, by the name of their parameter."""

SECTION_OPTIONS: Mapping[str, tuple[str, tuple[str, str]]] = {
    "task_concurrency": ("--task-concurrency", ("execution", "task_concurrency")),
    "timeout_multiplier": ("--timeout-multiplier", ("execution", "timeout_multiplier")),
    "results_dir": ("--results-dir", ("runtime", "results_dir")),
    "provider_limit": ("--provider-limit", ("runtime", "provider_limits")),
    "env_open_qps": ("--env-open-qps", ("runtime", "env_open_qps")),
    "lease_wait": ("--lease-wait", ("runtime", "lease_wait_seconds")),
    "host_cpus": ("--host-cpus", ("runtime", "host_cpus")),
    "host_memory": ("--host-memory", ("runtime", "host_memory")),
    "max_build_concurrency": ("--max-build-concurrency", ("runtime", "max_build_concurrency")),
    "keep_environment": ("--keep-environment", ("runtime", "keep_environment")),
}
"""Options that set a field of a section."""

LIST_OPTIONS = ("retry_patterns",)
"""Options that may be repeated."""

STANDING_ALONE: Mapping[str, str] = {"keep_environment": "failed"}
"""What options mean whose value is left out."""

TABLE_OPTIONS = ("provider_limit", "env_open_qps")
"""Options that may be repeated, each time with a name and a value."""


def typed_layers(shared: Mapping[str, Any]) -> tuple[list[Layer], dict[str, list[Layer]]]:
    """Return layers of the fields of every experiment, and layers by section; `shared` are the options of a command.

    Raises `UsageError` for an assignment that names no field.
    """
    tree, trees = split_assignments(shared.get("assignments") or ())
    typed = Source(Level.SET, "--set")
    fields = [Layer(typed, tree)] if tree else []
    sections = {name: [Layer(typed, trees[name])] if trees[name] else [] for name in SECTIONS}
    for parameter, (option, path) in FIELD_OPTIONS.items():
        value = shared.get(parameter)
        if value is not None and value != ():
            fields.append(_layer(option, path, [*value] if parameter in LIST_OPTIONS else value))
    for parameter, (option, (section, field)) in SECTION_OPTIONS.items():
        value: Any = shared.get(parameter)
        value = STANDING_ALONE[parameter] if value == LEFT_OUT else value
        if value is not None and value != ():
            sections[section].append(_layer(option, (field,), dict(value) if parameter in TABLE_OPTIONS else value))
    return fields, sections


def argument_layer(**named: str | None) -> Layer:
    """Return a layer of what stands on the command line without an option: benchmark, harness, model."""
    tree = {part: {"id": name} for part, name in named.items() if name is not None}
    return Layer(Source(Level.FLAG, "the command line"), tree)


def _layer(option: str, path: Sequence[str], value: Any) -> Layer:
    tree: Any = value
    for key in reversed(path):
        tree = {key: tree}
    return Layer(Source(Level.FLAG, option), tree)
