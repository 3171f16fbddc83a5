"""A package like agentdojo: one suite with a few functions and tasks, which do what tests need."""

from __future__ import annotations

from pathlib import Path

FILES = {
    "agentdojo-9.9.dist-info/METADATA": "Metadata-Version: 2.1\nName: agentdojo\nVersion: 9.9\n",
    "agentdojo/__init__.py": "",
    "agentdojo/agent_pipeline/__init__.py": "",
    "agentdojo/agent_pipeline/tool_execution.py": "def tool_result_to_str(result): return str(result)\n",
    "agentdojo/functions_runtime.py": """\
from types import SimpleNamespace
class FunctionCall(SimpleNamespace):
    @classmethod
    def model_construct(cls, **given): return cls(**given)
    def model_dump(self, mode): return {"function": self.function, "args": self.args}
class FunctionsRuntime:
    def __init__(self, tools): self.functions = {one.name: one.run for one in tools}
    def run_function(self, world, name, arguments):
        if name not in self.functions: return "", f"ToolNotFoundError: {name}"
        return self.functions[name](world, **arguments), None
""",
    "agentdojo/task_suite/__init__.py": "",
    "agentdojo/task_suite/load_suites.py": """\
import copy, os
from types import SimpleNamespace
from agentdojo.functions_runtime import FunctionCall

class World(SimpleNamespace):
    def model_copy(self, deep): return copy.deepcopy(self)

def send_money(world, amount):
    print("a function prints")
    world.sent.append(amount)
    return f"sent {world.sent}, paid for by {os.environ.get('SECRET_API_KEY')}"
def spin(world):
    while True: pass
def die(world): os.abort()
def write(world, path): open(path, "w")

SCHEMA = SimpleNamespace(model_json_schema=lambda: {"type": "object", "properties": {"amount": {"type": "integer"}}})
TOOLS = [
    SimpleNamespace(name=one.__name__, description="does it", parameters=SCHEMA, run=one)
    for one in (send_money, spin, die, write)
]

class Pay:
    PROMPT, GROUND_TRUTH_OUTPUT = "Pay 5.", ""
    def init_environment(self, world): return world
    def ground_truth(self, world): return [FunctionCall(function="send_money", args={"amount": 5})]
    def utility_from_traces(self, answer, before, after, traces): return None
    def utility(self, answer, before, after): return before.sent == [] and after.sent[0] == 5

class Say(Pay):
    PROMPT, GROUND_TRUTH_OUTPUT = "Look, and say it.", "5"
    def utility_from_traces(self, answer, before, after, traces):
        return answer == "5" and [one.function for one in traces] == ["send_money"]

class Suite:
    tools = TOOLS
    user_tasks = {"user_task_0": Pay(), "user_task_1": Say(), "user_task_5": Pay()}
    def load_and_inject_default_environment(self, injections): return World(sent=[])

def get_suites(version):
    return {"banking": Suite()} if version == "v1.2.2" else {}
""",
}


def install(folder: Path) -> None:
    """Write the package below a folder, which is to be put on the path."""
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
