"""What comes of a model that misbehaves, for each ready agent program: as the table in docs/command-harness.md says.

The real programs, real HTTP. The table is the expectation: a cell is a verdict, codes of issues, and calls. Whatever a
program makes of it, what proctor says was used is what the server said, or is said to be unknown.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from program import Ended

from proctor.model.attempt import NO_USAGE, Usage
from proctor.plugins.api import ToolCall
from proctor.testing.model_server import serve
from proctor.testing.replies import Answer, Cut, Failure, Reply, Request, failing_first, not_utf_8
from proctor.testing.shell_script import shell_script
from support import agents
from support.atif_rules import checked

PAGE = Path(__file__).parents[2] / "docs" / "command-harness.md"
Script = Callable[[Request], Reply]

FAMILIES = {"claude-code": "anthropic", "codex": "openai", "mini-swe-agent": "openai", "opencode": "openai"}
ONE_RETRY: dict[str, dict[str, Any]] = {
    "claude-code": {"env": {"CLAUDE_CODE_MAX_RETRIES": "1"}},
    "codex": {
        "args": [
            "-c", "model_providers.endpoint.request_max_retries=1",
            "-c", "model_providers.endpoint.stream_max_retries=1",
        ]
    },
    "mini-swe-agent": {"env": {"MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "1"}},
    "opencode": {},
}  # fmt: skip
"""Parameters with which programs try less often, as far as they can be told."""
SLOW = ("mini-swe-agent", "opencode")
OF_SLOW = ("400 after the first command", "empty answers", "no usage reported")
"""What the programs that start slowly do unless all is asked for."""
ALL = os.environ.get("PROCTOR_AGENT_TESTS") == "all"
TIME_LIMIT = "`time.agent`"
LIMIT_SECONDS = 60

USED = Usage(calls=1, input_tokens=100, output_tokens=10)
CUT_SHORT = Answer("half of an answer", usage=USED)

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]


def right(request: Request, times: int = 1) -> Reply:
    """Let it make a file, so many times, then say or hand in the answer."""
    said = shell_script(["echo hi > hello.txt"] * times, answer="ok", usage=USED)(request)
    assert isinstance(said, Answer)
    handed_in = [
        replace(call, arguments=call.arguments.replace('_FINAL_OUTPUT"', '_FINAL_OUTPUT && echo ok"'))
        for call in said.tool_calls
    ]
    return replace(said, tool_calls=tuple(handed_in))


def ever(reply: Reply) -> Callable[[], Script]:
    return lambda: lambda request: reply


def later(reply: Reply) -> Callable[[], Script]:
    """Reply so after one command."""
    return lambda: (
        lambda request: reply if any(message.role == "tool" for message in request.messages) else right(request)
    )


def first_calls(*calls: str | None) -> Callable[[], Script]:
    """Call the shell with these arguments at first, None for good ones, all under one id; then answer rightly."""

    def script() -> Script:
        waiting = [True]

        def reply(request: Request) -> Reply:
            if not (waiting and request.tools):
                return right(request, len(calls))
            waiting.clear()
            good = right(request)
            assert isinstance(good, Answer)
            [call] = good.tool_calls
            made = [ToolCall("c1", call.name, call.arguments if given is None else given) for given in calls]
            return replace(good, tool_calls=tuple(made))

        return reply

    return script


def says(text: str, **more: Any) -> Answer:
    return Answer(text, **{"usage": USED, **more})


CASES: dict[str, Callable[[], Script]] = {
    "nothing is wrong": lambda: right,
    "500 to the first call, then right answers": lambda: failing_first(right, Failure(500), 1),
    "429 without end": ever(Failure(429, retry_after="0")),
    "500 without end": ever(Failure(500)),
    "500 after the first command": later(Failure(500)),
    "401 to the first call": ever(Failure(401, "no such key")),
    "400 to the first call": ever(Failure(400, "no such parameter")),
    "400 after the first command": later(Failure(400, "too long")),
    "the connection breaks in the middle of an answer": ever(Cut("half", answer=CUT_SHORT)),
    "a call with arguments that are no JSON, then right answers": first_calls('{"command": "ls'),
    "two calls with the same id, then right answers": first_calls(None, None),
    "an answer without choices": ever(Answer(empty=True, usage=USED)),
    "empty answers": ever(says("")),
    "answers in text, no tools": ever(says("ok")),
    "refusals": ever(says("", refusal="I will not")),
    "a content filter": ever(says("I", finish_reason="content_filter")),
    "an answer that is cut off at its limit of tokens": ever(says("o", finish_reason="length")),
    "answers of 1 MB": ever(says("x" * 1_000_000)),
    "half of a character pair in an answer": ever(says("ok \ud83d")),
    "bytes that are no UTF-8": ever(replace(not_utf_8(), answer=says("caf\N{LATIN SMALL LETTER E WITH ACUTE}"))),
    "no usage reported": ever(says("ok", usage=None)),
}


def table() -> dict[str, dict[str, str]]:
    """Return the cells of the page by behaviour and program."""
    rows = re.findall(r"^\| (.+) \|$", PAGE.read_text().partition("## When a model misbehaves")[2], re.M)
    cells = [[cell.strip() for cell in row.split(" | ")] for row in rows]
    names = [head.strip("`") for head in cells[0][1:]]
    return {row[0]: dict(zip(names, row[1:], strict=True)) for row in cells[1:] if not row[0].startswith("-")}


def cell_of(result: Mapping[str, Any]) -> str:
    """Return what came of an attempt, as the page writes it."""
    (tried,) = result["tries"]
    usage = tried.get("usage", {})
    calls = usage.get("calls", 0)
    codes = dict.fromkeys(issue["code"] for issue in tried.get("issues", ()))
    unknown = codes.pop("usage.missing", 0) is None
    codes.pop("price.unknown", None)
    said = [result["verdict"], *(f"`{code}`" for code in codes)]
    if TIME_LIMIT in said:  # how often it calls until then is a matter of the machine
        return ", ".join(said)
    return ", ".join([*said, f"{calls} call{'s' * (calls != 1)}{' and more' if unknown else ''}"])


def settled(cell: str) -> str:
    """Return a cell without a number of calls that is not all: how many a program made by then is a matter of time."""
    return re.sub(r"\d+ calls? and more$", "calls and more", cell)


def test_the_table_of_the_page_has_these_cases() -> None:
    assert list(table()) == list(CASES)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("program", FAMILIES)
def test_what_comes_of_it(case: str, program: str, proctor: Callable[..., Ended], tmp_path: Path) -> None:
    if program in SLOW and case not in OF_SLOW and not ALL:
        pytest.skip(f"{program} takes long to start: PROCTOR_AGENT_TESTS=all runs this as well")
    path = agents.search_path(program)
    expected = table()[case][program]
    (tmp_path / "proctor.yaml").write_text("")
    script, served = CASES[case](), []

    def keeping(request: Request) -> Reply:
        reply = script(request)
        answer = reply if isinstance(reply, Answer) else getattr(reply, "answer", None)
        served.append(answer.usage if answer is not None else NO_USAGE)
        return reply

    family = FAMILIES[program]
    with serve(keeping) as server:
        ended = proctor(
            "run", "trivial", program, f"{family}/m", "--limit", "1",
            *(f"--set=harness.params.{name}={json.dumps(value)}" for name, value in ONE_RETRY[program].items()),
            f"--set=model.base_url={server.root_url if family == 'anthropic' else server.base_url}",
            "--set=model.api_key=sk-0123456789abcdef", f"--set=environment.env.PATH={path}",
            *(["--timeout", str(LIMIT_SECONDS)] if TIME_LIMIT in expected else []),
        )  # fmt: skip
    attempt = ended.run_dir / "attempts/t0000/0"
    result = json.loads((attempt / "result.json").read_text())
    checked(json.loads((attempt / "tries/1/trajectory.json").read_text()))
    assert settled(cell_of(result)) == settled(expected)
    (tried,) = result["tries"]
    told = any(issue["code"] == "usage.missing" for issue in tried["issues"])
    used = {name: tried.get("usage", {}).get(name, 0) for name in ("input_tokens", "output_tokens")}
    said = sum((usage for usage in served if usage is not None), NO_USAGE)
    if None in served or not told:
        assert told == (None in served)
        assert used == {"input_tokens": said.input_tokens, "output_tokens": said.output_tokens}
    assert used["output_tokens"] <= said.output_tokens
