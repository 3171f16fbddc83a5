"""What comes of a model that misbehaves, for each harness that calls models: as the table in docs/harnesses.md says.

Real HTTP, by the `openai` models. The table is the expectation: a cell is a verdict, codes of issues, and calls.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from program import Ended

from proctor.harnesses.bash_agent import BashAgentOptions
from proctor.models.shell_agent import shell_agent
from proctor.plugins.api import ToolCall
from proctor.testing.model_server import serve
from proctor.testing.replies import Answer, Cut, Failure, Reply, Request, answering, failing_first, not_utf_8
from support.atif_rules import checked

PAGE = Path(__file__).parents[2] / "docs" / "harnesses.md"
HARNESSES = ("chat", "python", "bash-agent")

right = answering(shell_agent(["echo hi > hello.txt"], "ok"))
"""One command where there is a shell, then the right answer."""


def once(reply: Reply) -> Callable[[], Callable[[Request], Reply]]:
    """Reply so to the first request, and rightly to the others."""

    def script() -> Callable[[Request], Reply]:
        waiting = [reply]
        return lambda request: waiting.pop() if waiting else right(request)

    return script


def ever(reply: Reply) -> Callable[[], Callable[[Request], Reply]]:
    return lambda: lambda request: reply


def later(reply: Reply) -> Callable[[], Callable[[Request], Reply]]:
    """Reply so after one command: to the first request where there is no shell."""
    return lambda: lambda request: right(request) if request.tools and len(request.messages) < 3 else reply


def answers(text: str, **more: Any) -> Answer:
    return Answer(text, **more)


def called(*calls: tuple[str, str, str]) -> Answer:
    return Answer("", tool_calls=tuple(ToolCall(*call) for call in calls))


CASES: dict[str, Callable[[], Callable[[Request], Reply]]] = {
    "nothing is wrong": lambda: right,
    "429 twice, then right answers": lambda: failing_first(right, Failure(429, retry_after="0"), 2),
    "429 without end": ever(Failure(429, retry_after="0")),
    "500 to the first call": ever(Failure(500)),
    "500 after the first command": later(Failure(500)),
    "400 to the first call": ever(Failure(400, "no such parameter")),
    "400 after the first command, such as a context that is too long": later(Failure(400, "too long")),
    "the connection breaks in the middle of an answer": ever(Cut("half")),
    "a call with arguments that are no JSON, then right answers": once(called(("c1", "bash", '{"command": "ls'))),
    "calls of a tool that there is not, without end": ever(called(("c1", "browser", "{}"))),
    "two calls with the same id, then right answers": once(
        called(("c1", "bash", '{"command": "true"}'), ("c1", "bash", '{"command": "true"}'))
    ),
    "an answer without choices": ever(Answer(empty=True)),
    "empty answers": ever(answers("")),
    "answers in text, no tools": ever(answers("ok")),
    "refusals": ever(answers("", refusal="I will not")),
    "a content filter": ever(answers("I", finish_reason="content_filter")),
    "answers of 1 MB": ever(answers("x" * 1_000_000)),
    "half of a character pair in an answer": ever(answers("ok \ud83d")),
    "bytes that are no UTF-8": ever(not_utf_8()),
    "no usage reported": ever(answers("ok", usage=None)),
}


def table() -> dict[str, dict[str, str]]:
    """Return the cells of the page by behaviour and harness."""
    rows = re.findall(r"^\| (.+) \|$", PAGE.read_text().partition("## When a model misbehaves")[2], re.M)
    cells = [[cell.strip() for cell in row.split(" | ")] for row in rows]
    heads = [re.findall(r"`(.+?)`", head) for head in cells[0][1:]]
    return {
        row[0]: {name: cell for names, cell in zip(heads, row[1:], strict=True) for name in names} for row in cells[1:]
    }


def cell_of(result: dict[str, Any]) -> str:
    """Return what came of an attempt, as the page writes it."""
    (tried,) = result["tries"]
    usage = tried.get("usage", {})
    calls = usage.get("calls", 0)
    codes = dict.fromkeys(f"`{issue['code']}`" for issue in tried.get("issues", ()) if issue["code"] != "price.unknown")
    known = "" if usage.get("input_tokens") or not calls else ", tokens unknown"
    counted = f"{calls} call{'s' * (calls != 1)}{known}"
    return ", ".join([result["verdict"], *codes, counted])


def test_the_table_of_the_page_has_these_cases() -> None:
    assert list(table()) == list(CASES)


@pytest.mark.parametrize(("harness", "family"), [*((one, "openai") for one in HARNESSES), ("bash-agent", "anthropic")])
@pytest.mark.parametrize("case", CASES)
def test_what_comes_of_it(case: str, harness: str, family: str, proctor: Callable[..., Ended], tmp_path: Path) -> None:
    source = (
        "from proctor.plugins.api import ChatMessage\n\n"
        "async def solve(task, model):\n"
        "    return (await model.complete([ChatMessage('user', task.prompt)])).text\n"
    )
    (tmp_path / "agents.py").write_text(source)
    (tmp_path / "proctor.yaml").write_text("")
    settings = ["harness.params.path=agents.py:solve"] if harness == "python" else []
    if family == "anthropic":
        pytest.importorskip("anthropic")
        if case == "an answer without choices":
            pytest.skip("answers of Anthropic have no choices: one without content is empty")
    with serve(CASES[case]()) as server:
        ended = proctor(
            "run", "trivial", harness, f"{family}/m", "--limit", "1",
            *(f"--set={one}" for one in settings),
            f"--set=model.base_url={server.root_url if family == 'anthropic' else server.base_url}",
            "--set=model.api_key=k",
            "--set=execution.retry_min_delay_seconds=0.01", "--set=execution.retry_max_delay_seconds=0.02",
        )  # fmt: skip
    attempt = ended.run_dir / "attempts/t0000/0"
    result = json.loads((attempt / "result.json").read_text())
    trajectory = json.loads((attempt / "tries/1/trajectory.json").read_text())
    checked(trajectory)
    assert cell_of(result) == table()[case][harness]


def test_the_commands_of_the_page_work(proctor: Callable[..., Ended], tmp_path: Path) -> None:
    page = PAGE.read_text()
    (tmp_path / "agents.py").write_text(page.partition("```python\n")[2].partition("```")[0])
    commands = re.findall(r"^\$ proctor (.+)$", page, re.M)
    assert len(commands) == 5
    for command in commands:
        ended = proctor(*shlex.split(command))
        passed = 0 if " nop " in command else 2
        assert f"({passed}/2 passed)" in ended.err, (command, ended.err)


def test_the_parameters_of_bash_agent_are_those_of_the_page() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\S+) \| ", PAGE.read_text().partition("| parameter |")[2], re.M)
    said = {"none": None, "false": False, "true": True, '`""`': ""}
    fields = {name: field.default for name, field in BashAgentOptions.model_fields.items() if name != "system"}
    assert {name: said[value] if value in said else float(value) for name, value in rows[: len(fields)]} == fields
