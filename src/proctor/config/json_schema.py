"""The schemas of the files, for editors that check and complete them (JSON Schema, draft 2020-12)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from proctor.config.layers import NAME_FIELDS
from proctor.config.project_schema import ProjectConfig
from proctor.config.schema import ExecutionConfig, ExperimentConfig, RuntimeConfig

DRAFT = "https://json-schema.org/draft/2020-12/schema"

_REFERENCE = {"type": "string", "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^{}]*)?\}"}
"""A value that refers to a variable, where a number or a switch belongs."""

_NAME = {"type": "string", "minLength": 1}

_NOTES = {"^x-": True}


def project_schema() -> dict[str, Any]:
    """Return the schema of `proctor.yaml` and of the files of `--config`."""
    schema: dict[str, Any] = ProjectConfig.model_json_schema()
    aliases: dict[str, Any] = schema["properties"]["models"]["additionalProperties"]
    schema["properties"]["models"]["additionalProperties"] = {"anyOf": [{"type": "string"}, aliases]}
    return _finished(schema, "proctor.yaml")


def launch_schema() -> dict[str, Any]:
    """Return the schema of launch files."""
    experiment: dict[str, Any] = ExperimentConfig.model_json_schema()
    definitions: dict[str, Any] = {**experiment.pop("$defs", {})}
    for section in (ExecutionConfig, RuntimeConfig):
        definitions[section.__name__] = section.model_json_schema()
    parts = {"execution": {"$ref": "#/$defs/ExecutionOfRequest"}, "runtime": {"$ref": "#/$defs/RuntimeOfRequest"}}
    fields = {name: _short(name, field) for name, field in experiment["properties"].items()} | parts
    execution = dict(definitions["ExecutionConfig"]["properties"])
    execution.pop("task_concurrency")
    definitions |= {
        "ExecutionOfRequest": {"type": "object", "properties": execution, "additionalProperties": False},
        "RuntimeOfRequest": {
            "type": "object",
            "properties": {"reuse": {"type": ["boolean", "string"]}, "checkpoint_resume": {"type": "boolean"}},
            "additionalProperties": False,
        },
        "Defaults": _object(fields),
        "Request": _object({"name": _NAME, **fields}),
        "Matrix": _object({"name": _NAME, **{name: _or_list(field) for name, field in fields.items()}}),
    }
    matrix = {"$ref": "#/$defs/Matrix"}
    schema = _object(
        {
            "task_concurrency": execution_field("task_concurrency"),
            "execution": {"$ref": "#/$defs/ExecutionConfig"},
            "runtime": {"$ref": "#/$defs/RuntimeConfig"},
            "defaults": {"$ref": "#/$defs/Defaults"},
            "requests": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/Request"}},
            "matrix": {"anyOf": [matrix, {"type": "array", "minItems": 1, "items": matrix}]},
        }
    )
    done = _finished({**schema, "$defs": definitions}, "a launch file")
    for named in ("Request", "Matrix"):
        done["$defs"][named]["required"] = ["name"]
    return {**done, "anyOf": [{"required": ["requests"]}, {"required": ["matrix"]}]}


def execution_field(name: str) -> dict[str, Any]:
    """Return the schema of one field of `execution`."""
    properties: dict[str, Any] = ExecutionConfig.model_json_schema()["properties"]
    return properties[name]


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "patternProperties": _NOTES,
        "additionalProperties": False,
    }


def _short(name: str, field: Mapping[str, Any]) -> dict[str, Any]:
    """Return a part of an experiment, which may be given by name alone, and may lack its name over defaults."""
    if name not in NAME_FIELDS:
        return dict(field)
    return {"anyOf": [{"type": "string"}, {key: value for key, value in field.items() if key != "default"}]}


def _or_list(field: Mapping[str, Any]) -> dict[str, Any]:
    return {"anyOf": [field, {"type": "array", "items": field}]}


def _finished(schema: dict[str, Any], title: str) -> dict[str, Any]:
    done = _with_references(schema)
    for definition in done.get("$defs", {}).values():
        definition.pop("required", None)  # a layer beneath may have it
    return {"$schema": DRAFT, **done, "title": title, "patternProperties": _NOTES}


def _with_references(value: Any) -> Any:
    """Return a schema in which a variable may stand wherever a number or a switch may, and these where a text may."""
    if isinstance(value, list):
        return [_with_references(one) for one in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    node = {key: _with_references(inner) for key, inner in cast("dict[str, Any]", value).items()}
    if node.get("type") == "string" and node.keys().isdisjoint(("enum", "const", "pattern", "minLength")):
        node["type"] = ["string", "number", "boolean"]  # a field of text keeps what is written: `PORT: 8080`
    if node.get("type") in ("integer", "number", "boolean"):
        kept = {key: node.pop(key) for key in ("title", "description", "default") if key in node}
        return {**kept, "anyOf": [node, _REFERENCE]}
    return node
