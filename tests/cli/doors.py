"""The doors through which a field can be set: each returns the experiment and the limits that come of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from proctor.cli.commands import exp, launch, run
from proctor.cli.controls import Controls
from proctor.cli.entry import enter
from proctor.cli.launching import of_file
from proctor.cli.python_arguments import prepare
from proctor.cli.python_launch import prepare_launch
from proctor.cli.typed import FIELD_OPTIONS, SECTION_OPTIONS, TABLE_OPTIONS
from proctor.model.spec import Experiment

Reached = tuple[Experiment, Controls]
Door = Callable[[str, Any], Reached]

BASE: dict[str, Any] = {"benchmark": "trivial", "harness": "chat", "model": "mock/script"}
SCRIPT = {"script": "doors_script:answer"}
"""The model of all experiments here; it takes nothing but a script."""


def tree_of(path: str, value: Any) -> dict[str, Any]:
    for key in reversed(path.split(".")):
        value = {key: value}
    return value


def over(base: dict[str, Any], tree: dict[str, Any]) -> dict[str, Any]:
    """Return the base with fields over it; a name stands for a part whose other fields are set."""
    merged = dict(base)
    for key, value in tree.items():
        below: Any = merged.get(key)
        if isinstance(value, dict) and isinstance(below, str):
            below = {"id": below}
        merged[key] = over(below, value) if isinstance(value, dict) and isinstance(below, dict) else value
    return merged


def beside(path: str) -> dict[str, Any]:
    """Return what a field needs beside it: those of a judge need a judge."""
    return {"judge": "mock/script"} if path.startswith("judge.") and path != "judge.id" else {}


def experiment_tree(path: str, value: Any) -> dict[str, Any]:
    return over({**over(BASE, {"model": {"params": SCRIPT}}), **beside(path)}, tree_of(path, value))


def write(name: str, tree: Any) -> str:
    """Write a file; JSON is YAML."""
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(json.dumps(tree, indent=1))
    return name


def command_line(*arguments: str) -> Reached:
    params = run.command.make_context("run", ["trivial", "chat", "mock/script", *arguments]).params
    names = [params.pop(name) for name in ("benchmark", "harness", "model")]
    params.pop("fail_under")
    script = [] if any("model.params" in each for each in arguments) else ["model.params.script=doors_script:answer"]
    params["assignments"] = (*script, *params["assignments"])
    [resolved], options = enter(params, partial(run.declared, *names))
    return resolved.experiment, options.controls


def launched(file: str) -> Reached:
    params = launch.command.make_context("launch", [file]).params
    params.pop("fail_under")
    [resolved], options = enter(params, partial(of_file, params.pop("file")))
    return resolved.experiment, options.controls


# ------------------------------------------------------------------------------------- fields of an experiment


def by_set(path: str, value: Any) -> Reached:
    named = [word for part, name in beside(path).items() for word in (f"--{part}", name)]
    return command_line(*named, "--set", f"{path}={value if isinstance(value, str) else json.dumps(value)}")


def by_request(path: str, value: Any) -> Reached:
    return launched(write("launch.yaml", {"requests": [{"name": "e", **experiment_tree(path, value)}]}))


def by_defaults(path: str, value: Any) -> Reached:
    file = write("launch.yaml", {"defaults": experiment_tree(path, value), "requests": [{"name": "e"}]})
    return launched(file)


def by_matrix(path: str, value: Any) -> Reached:
    tree = experiment_tree(path, value)
    return launched(
        write("launch.yaml", {"defaults": tree, "matrix": {"name": "e-{harness}", "harness": [tree["harness"]]}})
    )


def by_call(path: str, value: Any) -> Reached:
    fields = experiment_tree(path, value)
    named = [fields.pop(name) for name in ("benchmark", "harness", "model")]
    resolved, options = prepare(*named, fields, execution={}, runtime={})
    return resolved.experiment, options.controls


def by_call_of_launch(path: str, value: Any) -> Reached:
    requests = {"requests": [{"name": "e", **experiment_tree(path, value)}]}
    [resolved], options = prepare_launch(requests, {}, execution={}, runtime={})
    return resolved.experiment, options.controls


def by_python(path: str, value: Any) -> Reached:
    if not Path("proctor.yaml").exists():
        write("proctor.yaml", {})
    Path("experiments").mkdir(exist_ok=True)
    text = f"from proctor import Experiment\nexperiment = Experiment(**{experiment_tree(path, value)!r})\n"
    Path("experiments/e.py").write_text(text)
    params = exp.command.make_context("exp", []).params
    [resolved], options = exp.prepared(params.pop("path_prefix"), params.pop("task_prefixes"), **params)
    return resolved.experiment, options.controls


FIELD_DOORS: dict[str, Door] = {
    "set": by_set,
    "request": by_request,
    "defaults": by_defaults,
    "matrix": by_matrix,
    "call": by_call,
    "launch-call": by_call_of_launch,
    "python": by_python,
}


def flag_of(path: str, value: Any) -> list[str] | None:
    """Return the option for a field with its value as it is typed, or None where there is none."""
    for option, where in FIELD_OPTIONS.values():
        if ".".join(where) == path:
            if isinstance(value, bool):
                return [option if value else option.replace("--", "--no-", 1)]
            values = value if isinstance(value, list) else [value]
            return [word for each in values for word in (option, str(each))]
    for parameter, (option, where) in SECTION_OPTIONS.items():
        if ".".join(where) == path:
            if parameter in TABLE_OPTIONS:
                return [word for name, each in value.items() for word in (option, f"{name}={each}")]
            return [option, str(value)]
    return None


# ----------------------------------------------------------------------------------------- execution and runtime


def section_by_set(path: str, value: Any) -> Reached:
    values = [(f"{path}.{name}", each) for name, each in value.items()] if isinstance(value, dict) else [(path, value)]
    typed = [f"{name}={each if isinstance(each, str) else json.dumps(each)}" for name, each in values]
    return command_line(*(word for each in typed for word in ("--set", each)))


def section_by_project(path: str, value: Any) -> Reached:
    write("proctor.yaml", tree_of(path, value))
    return command_line()


def section_by_config(path: str, value: Any) -> Reached:
    return command_line("--config", write("more.yaml", tree_of(path, value)))


def section_by_launch(path: str, value: Any) -> Reached:
    request = {"name": "e", **over(BASE, {"model": {"params": SCRIPT}})}
    return launched(write("launch.yaml", {**tree_of(path, value), "requests": [request]}))


def section_by_call(path: str, value: Any) -> Reached:
    sections: dict[str, Any] = {"execution": {}, "runtime": {}, **tree_of(path, value)}
    resolved, options = prepare("trivial", "chat", {"id": "mock/script", "params": SCRIPT}, {}, **sections)
    return resolved.experiment, options.controls


SECTION_DOORS: dict[str, Door] = {
    "set": section_by_set,
    "project": section_by_project,
    "config": section_by_config,
    "launch": section_by_launch,
    "call": section_by_call,
}
