"""Worlds of agentdojo, in a process of its own: tells the tasks, calls tools, checks what was done.

A world is what is left of the calls so far, applied to a fresh one in a fork: no state is kept between requests.
"""

from __future__ import annotations

import importlib
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

    def prepare(self, asked: dict[str, Any]) -> dict[str, Any] | None:
        """Load the fresh world of a suite, which takes a second with some. Nothing of an agent is looked at here."""
        key = asked["version"], asked["suite"]
        suite = self._suites.get_suites(key[0]).get(key[1])
        if suite is None:
            return {"state": "unknown"}
        if key not in self._fresh:
            self._fresh[key] = suite.load_and_inject_default_environment({})
        asked["of"] = suite, self._fresh[key]
        return None

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Tell the tasks of a suite, or what came of calls; in a fork."""
        suite, world = asked["of"]
        if asked["do"] == "describe":
            return self._described(suite, world)
        task = suite.user_tasks[asked["task"]]
        limit(asked["seconds"])
        try:
            return self._replayed(suite, task, task.init_environment(world), asked)
        except MemoryError:
            return {"state": "memory"}

    def _described(self, suite: Any, world: Any) -> dict[str, Any]:
        tools = [
            {"name": one.name, "description": one.description, "parameters": one.parameters.model_json_schema()}
            for one in suite.tools
        ]
        tasks: dict[str, Any] = {}
        for name, task in suite.user_tasks.items():
            solution = task.ground_truth(task.init_environment(world.model_copy(deep=True)))
            tasks[name] = {
                "prompt": task.PROMPT,
                "answer": task.GROUND_TRUTH_OUTPUT,
                "calls": [{"name": one.function, "arguments": one.model_dump(mode="json")["args"]} for one in solution],
            }
        return {"state": "described", "tools": tools, "tasks": tasks}

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
        solved = task.utility_from_traces(asked["answer"], before, world, traces)
        if solved is None:
            solved = task.utility(asked["answer"], before, world)
        return {"state": "checked", "solved": bool(solved)}


if __name__ == "__main__":
    serve(Worlds)
