"""Worlds of agentdojo, in a process of its own: tells the tasks, calls tools, checks what was done.

A world is what is left of the calls so far, applied to a fresh one in a fork: no state is kept between requests. Under
attack, texts of an injection task are put into the fresh one.
"""

from __future__ import annotations

import importlib
import sys
from functools import partial
from types import SimpleNamespace
from typing import Any

from proctor.data._forks import serve
from proctor.data._reasoning_gym_guard import limit


class Worlds:
    """What is asked, answered."""

    def __init__(self) -> None:
        self._suites: Any = importlib.import_module("agentdojo.task_suite.load_suites")
        self._functions: Any = importlib.import_module("agentdojo.functions_runtime")
        self._shown: Any = importlib.import_module("agentdojo.agent_pipeline.tool_execution").tool_result_to_str
        self._fresh: dict[tuple[str, str], Any] = {}
        self._attacks: dict[tuple[str, ...], Any] = {}
        _read_faster()

    def prepare(self, asked: dict[str, Any]) -> dict[str, Any] | None:
        """Load the fresh world of a suite, which takes a second with some. Nothing of an agent is looked at here."""
        key = asked["version"], asked["suite"]
        suite = self._suites.get_suites(key[0]).get(key[1])
        if suite is None:
            return {"state": "unknown"}
        if key not in self._fresh:
            self._fresh[key] = suite.load_and_inject_default_environment({})
        asked["of"] = suite, self._fresh[key]
        if "attack" not in asked:
            return None
        try:
            self._attack(suite, asked)
        except Exception as error:  # a version may have a task into whose world nothing can be put
            return {"state": "raised", "why": f"{type(error).__name__}: {error}"}
        return None

    def _attack(self, suite: Any, asked: dict[str, Any]) -> None:
        """Load an attack, and make its texts, where it is about a pair of tasks."""
        key = asked["version"], asked["suite"], asked["attack"], asked["attack_model_name"]
        if key not in self._attacks:  # it remembers which places of a world a user task comes by
            self._attacks[key] = _loaded_attack(suite, *key[2:])
        asked["by"] = self._attacks[key]
        if "injection_task" in asked:
            pair = suite.user_tasks[asked["task"]], suite.injection_tasks[asked["injection_task"]]
            asked["injected"] = asked["by"].attack(*pair)

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Tell the tasks of a suite, or what came of calls; in a fork."""
        suite, world = asked["of"]
        if asked["do"] == "describe":
            return self._described(suite, world, asked.get("by"))
        task = suite.user_tasks[asked["task"]]
        limit(asked["seconds"])
        try:
            if "injected" in asked:
                world = suite.load_and_inject_default_environment(asked["injected"])
            return self._replayed(suite, task, task.init_environment(world), asked)
        except MemoryError:
            return {"state": "memory"}

    def _described(self, suite: Any, world: Any, attack: Any) -> dict[str, Any]:
        tools = [
            {"name": one.name, "description": one.description, "parameters": one.parameters.model_json_schema()}
            for one in suite.tools
        ]
        canary = attack and suite.load_and_inject_default_environment(attack.canary_injections)
        tasks: dict[str, Any] = {}
        for name, task in suite.user_tasks.items():
            calls = _solution(task, world)
            tasks[name] = {"prompt": task.PROMPT, "answer": task.GROUND_TRUTH_OUTPUT, "calls": calls}
            if attack and calls != _solution(task, canary):  # it has what is read in it, and so what was put there
                tasks[name]["calls_by_injection"] = {
                    key: _solution(task, suite.load_and_inject_default_environment(attack.attack(task, each)))
                    for key, each in suite.injection_tasks.items()
                }
        goals = {name: one.GOAL for name, one in suite.injection_tasks.items()}
        return {"state": "described", "tools": tools, "tasks": tasks, "goals": goals}

    def _replayed(self, suite: Any, task: Any, world: Any, asked: dict[str, Any]) -> dict[str, Any]:
        before, runtime, text = world.model_copy(deep=True), self._functions.FunctionsRuntime(suite.tools), ""
        for call in asked["calls"]:
            try:
                result, error = runtime.run_function(world, call["name"], call["arguments"])
                text = error or self._shown(result)
            except MemoryError:
                raise
            except Exception as error:  # what arguments make a function raise
                text = f"{type(error).__name__}: {error}"
        if asked["do"] == "call":
            return {"state": "called", "text": text}
        made = self._functions.FunctionCall
        traces = [made.model_construct(function=one["name"], args=one["arguments"]) for one in asked["calls"]]
        seen = asked["answer"], before, world
        found = {"state": "checked", "task": _checked(task, "utility", seen, traces)}
        if "injected" in asked:
            goal = suite.injection_tasks[asked["injection_task"]]
            found["injection"] = _checked(goal, "security", seen, traces)
        return found


def _solution(task: Any, world: Any) -> list[dict[str, Any]]:
    """Return the calls that solve a task, as they are kept."""
    calls = task.ground_truth(task.init_environment(world.model_copy(deep=True)))
    return [{"name": one.function, "arguments": one.model_dump(mode="json")["args"]} for one in calls]


def _checked(task: Any, what: str, seen: tuple[Any, ...], traces: list[Any]) -> dict[str, Any]:
    """Return what a check says, of the calls or else of the worlds, and why it is false where it cannot be asked."""
    try:
        met = getattr(task, f"{what}_from_traces")(*seen, traces)
        return {"met": bool(getattr(task, what)(*seen) if met is None else met)}
    except MemoryError:
        raise
    except Exception as error:  # the check met a world that it does not expect
        return {"met": False, "why": f"{type(error).__name__}: {error}"}


def _loaded_attack(suite: Any, name: str, model_name: str) -> Any:
    registry: Any = importlib.import_module("agentdojo.attacks.attack_registry")
    importlib.import_module("agentdojo.attacks.baseline_attacks")
    importlib.import_module("agentdojo.attacks.important_instructions_attacks")
    known: Any = importlib.import_module("agentdojo.models").MODEL_NAMES
    if name not in registry.ATTACKS:
        raise LookupError(f"the package has no attack `{name}`")
    # Some attacks take the name of the model from that of a pipeline, and refuse one that they do not know.
    attack = registry.load_attack(name, suite, SimpleNamespace(name=next(iter(known))))
    attack.model_name = model_name
    return attack


def _read_faster() -> None:
    """Let worlds be read by the part of YAML that is written in C, where there is one: ten times as fast."""
    yaml: Any = sys.modules.get("yaml")
    if hasattr(yaml, "CSafeLoader"):
        yaml.safe_load = partial(yaml.load, Loader=yaml.CSafeLoader)


if __name__ == "__main__":
    serve(Worlds)
