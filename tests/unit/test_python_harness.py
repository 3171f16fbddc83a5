"""The harness `python`: a function of the project is called, its source counts, and what is wrong is named by line."""

from __future__ import annotations

import asyncio
import sys
import textwrap

import pytest

from proctor.errors import Fault, UsageError
from proctor.harnesses.python import PythonHarness, PythonOptions
from proctor.model.attempt import Usage
from proctor.plugins.api import ExecResult, Message
from support.agent_world import ScriptedModel, ScriptedSandbox, World, says, tell


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project directory, which is the current one; return what writes a file in it."""
    (tmp_path / "proctor.yaml").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def write(name, source):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source))
        return path

    return write


def made(path="agents.py:solve"):
    return PythonHarness(PythonOptions(path=path))


WHOLE = """
    from proctor.plugins.api import ChatMessage, Tool

    async def solve(task, sandbox, model):
        found = await sandbox.exec("ls")
        asked = [ChatMessage("system", "brief"), ChatMessage("user", task.prompt + found.out)]
        first = await model.complete(asked)
        asked += [ChatMessage("assistant", first.text), ChatMessage("user", "sure?")]
        return (await model.complete(asked)).text
"""


def test_spec_11_the_function_is_called_with_task_sandbox_and_model(project):
    project("agents.py", WHOLE)
    model = ScriptedModel(says("41"), says("42"))
    world = World(model, ScriptedSandbox(lambda _: ExecResult(0, b" a.txt")))
    told = tell(made(), world, "Do it.")
    assert (told.answers, told.steps, told.fault, world.issues) == (["42"], [2], None, [])
    assert model.asked[0][1].text == "Do it. a.txt"
    assert world.used == Usage(calls=2, input_tokens=20, output_tokens=10)
    steps = [(step["source"], step["message"]) for step in told.trajectory["steps"]]
    assert steps == [
        ("system", "brief"), ("user", "Do it. a.txt"), ("agent", "41"), ("user", "sure?"), ("agent", "42"),
    ]  # fmt: skip
    assert told.trajectory["final_metrics"]["total_prompt_tokens"] == 20


def test_words_that_a_function_puts_into_the_models_mouth_are_no_call(project):
    project(
        "agents.py",
        """
        from proctor.plugins.api import ChatMessage, ToolCall

        async def solve(task, model):
            call = ToolCall("c1", "ls", "{}")
            asked = [ChatMessage("user", "2+2"), ChatMessage("assistant", "4", (call,)),
                     ChatMessage("tool", "a.txt", tool_call_id="c1"), ChatMessage("user", task.prompt)]
            return (await model.complete(asked)).text
        """,
    )
    told = tell(made(), World(ScriptedModel(says("42"))), "6*7")
    assert [step["source"] for step in told.trajectory["steps"]] == ["user", "agent", "user", "agent"]
    assert told.trajectory["steps"][1]["observation"]["results"][0]["content"] == "a.txt"
    assert told.trajectory["final_metrics"]["total_prompt_tokens"] == 10


@pytest.mark.parametrize(
    ("header", "model", "sandbox"),
    [("task, sandbox, model", True, True), ("task", False, False), ("model, *, task", True, False), ("", False, False)],
)
def test_a_function_gets_what_it_asks_for_and_only_that_is_needed(project, header, model, sandbox):
    project("agents.py", f"async def solve({header}):\n    return 'x'\n")
    harness = made()
    assert (harness.needs_model, harness.needs_sandbox) == (model, sandbox)
    world = World(ScriptedModel(says("")) if model else None, ScriptedSandbox() if sandbox else None)
    told = tell(harness, world, "go")
    assert (told.answers, told.fault, told.trajectory) == (["x"], None, None)


def test_what_a_task_is_graded_by_is_hidden_from_the_function(project):
    project("agents.py", "async def solve(task):\n    return repr((task.grader, task.reference, task.prompt))\n")
    assert "secret" not in tell(made(), World(), "asked").answers[0]


@pytest.mark.parametrize(
    ("path", "source", "said"),
    [
        ("agents", "", "path `agents` does not name a function"),
        ("agents.py:other", "async def solve(task): ...", "there is no `other` in `agents.py`"),
        ("missing.py:solve", "", "missing.py: cannot be read: No such file or directory"),
        ("no_such_package.x:solve", "", "path `no_such_package.x:solve` cannot be imported"),
        ("agents.py:solve", "def solve(task): ...", "`agents.py:solve` is no `async def`"),
        ("agents.py:solve", "solve = 3", "`agents.py:solve` is no `async def`"),
        ("agents.py:solve", "async def solve(task, tools): ...", "has parameters that nobody can give it: tools"),
        ("agents.py:solve", "async def solve(task, /): ...", "has parameters that nobody can give it: task"),
        ("agents.py:solve", "import os\n\n1/0", "agents.py:3: cannot be imported: ZeroDivisionError"),
        ("agents.py:solve", "async def solve(:", "agents.py:1: cannot be imported: SyntaxError"),
        ("agents:solve", "\nraise ValueError('no')", "agents.py:2: ValueError: no"),
    ],
)
def test_a_wrong_path_or_file_is_an_error_before_anything_starts(project, path, source, said, monkeypatch):
    monkeypatch.delitem(sys.modules, "agents", raising=False)
    project("agents.py", source)
    with pytest.raises(UsageError) as caught:
        made(path)
    assert said in caught.value.message
    assert caught.value.hint


def test_a_module_is_found_from_the_directory_of_the_project(project):
    project("my_agents_package/__init__.py", "")
    project("my_agents_package/mine.py", "async def solve(task):\n    return 'x'\n")
    assert tell(made("my_agents_package.mine:solve"), World(), "go").answers == ["x"]


def test_an_object_that_is_called_and_defaults_of_parameters(project):
    project(
        "agents.py",
        """
        class Solver:
            async def __call__(self, task, tries=3, **more):
                return str(tries)

        solve = Solver()
        """,
    )
    assert tell(made(), World(), "go").answers == ["3"]


CRASH = """
    from proctor import SkipTask
    from proctor.errors import Fault
    import asyncio

    async def inner():
        raise ValueError("bad")

    async def solve(task):
        await inner()

    async def number(task):
        return 42

    async def fault(task):
        raise Fault("model.malformed", "mine")

    async def left(task):
        asyncio.create_task(asyncio.sleep(0))
        asyncio.create_task(forever())

    async def forever():
        await asyncio.Event().wait()
"""


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("solve", "harness.crashed", "agents.py:7: ValueError: bad"),
        ("number", "harness.crashed", "`number` returned int: return the answer, or None"),
        ("fault", "model.malformed", "mine"),
        ("left", "harness.crashed", "agents.py:22: `forever` was still going on when the function ended"),
    ],
)
def test_what_a_function_raises_names_file_and_line(project, name, code, said):
    project("agents.py", CRASH)
    fault = tell(made(f"agents.py:{name}"), World(), "go").fault
    assert fault.code == code
    assert said in str(fault)


def test_a_failed_call_of_the_model_passes_and_what_was_said_is_kept(project):
    project("agents.py", WHOLE)
    model = ScriptedModel(says("41"), Fault("model.timeout", "no answer"))
    world = World(model, ScriptedSandbox())
    told = tell(made(), world, "go")
    assert (told.fault.code, world.used.calls) == ("model.timeout", 2)
    assert [step["source"] for step in told.trajectory["steps"]] == ["system", "user", "agent", "user"]
    assert "total_prompt_tokens" not in told.trajectory["final_metrics"]


def test_what_a_model_starts_is_not_ended_with_the_function(project):
    project("agents.py", "async def solve(task, model):\n    return (await model.complete([])).text\n")
    started = []

    class Starting(ScriptedModel):
        async def complete(self, messages, tools=()):
            started.append(asyncio.ensure_future(asyncio.sleep(0, "loaded")))
            return await super().complete(messages, tools)

    async def run():
        session = await made().start(World(Starting(says("x"))))
        await session.send(Message("go"))
        return await started[0]

    assert asyncio.run(run()) == "loaded"


def test_04_the_source_counts_with_all_of_the_project_that_it_imports(project):
    project("agents.py", "from _prompts import TEXT\n\nasync def solve(task):\n    return TEXT\n")
    shared = project("_prompts.py", "TEXT = 'a'\n")
    first = made().version
    assert made().version == first
    shared.write_text("TEXT = 'b'\n")
    second = made().version
    assert second != first
    project("other.py", "x = 1\n")
    assert made().version == second


def test_04_an_identity_stands_for_the_source(project):
    source = "from proctor import hook\n\n@hook(identity='v{}')\nasync def solve(task):\n    return '{}'\n"
    path = project("agents.py", source.format(1, "a"))
    first = made().version
    path.write_text(source.format(1, "b -- changed"))
    assert made().version == first
    path.write_text(source.format(2, "b -- changed again"))
    assert made().version != first


def test_05_it_takes_one_turn(project):
    project("agents.py", "async def solve(task): ...\n")
    assert made().turns == 1
