"""What is read from the logs of agent programs: recorded from the real ones, and as others would have it.

The recordings are of `tests/integration/test_agent_programs.py`: two calls in the first turn, one in the second.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.harnesses.command_output import ProgramRun, TurnOutput, distinct
from proctor.harnesses.programs.claude_code_log import read_claude_code
from proctor.harnesses.programs.codex import read_codex
from proctor.harnesses.programs.mini_swe_agent import read_mini_swe_agent
from proctor.harnesses.programs.opencode import read_opencode
from proctor.model.attempt import NO_USAGE, Usage
from proctor.plugins.api import ToolCall
from support.atif_rules import checked

RECORDED = Path(__file__).parents[1] / "support/recorded"
FIRST = Usage(calls=1, input_tokens=1000, output_tokens=50, cache_read_tokens=300, cache_write_tokens=200)
SECOND = Usage(
    calls=1, input_tokens=1100, output_tokens=70, cache_read_tokens=1300, cache_write_tokens=20, reasoning_tokens=10
)
READERS = {
    "claude-code": read_claude_code,
    "codex": read_codex,
    "mini-swe-agent": read_mini_swe_agent,
    "opencode": read_opencode,
}


def recorded(name):
    return json.loads((RECORDED / f"{name}.json").read_text(encoding="utf-8"))


def run_of(record, turns=None):
    """Return the run that a recording is of, or that of its first turns."""

    def lines(values):
        return b"".join(json.dumps(value).encode() + b"\n" for value in values)

    outputs = [
        TurnOutput(turn["prompt"], lines(turn["lines"]), b"", lines(turn["lines"]), turn["exit_code"])
        for turn in record["turns"][:turns]
    ]
    files = {path: lines(values) for path, values in record["files"].items()}
    return ProgramRun(outputs, files, "session", "agent", record["version"], "vendor/m")


@pytest.mark.parametrize("name", READERS)
def test_recorded_usage_is_right_to_the_token(name):
    report = READERS[name](run_of(recorded(name)))
    one_turn = name == "mini-swe-agent"
    assert report.answer == "All done."
    assert report.usage == FIRST + SECOND + (NO_USAGE if one_turn else SECOND)
    assert report.steps == (2 if one_turn else 3)
    assert not report.problems
    assert not report.partial
    agent = [step for step in report.trajectory["steps"] if step["source"] == "agent"]
    assert [step["metrics"]["completion_tokens"] for step in agent][:2] == [50, 70]
    assert agent[0]["tool_calls"][0]["arguments"]
    assert agent[0]["observation"]["results"][0]["source_call_id"] == agent[0]["tool_calls"][0]["tool_call_id"]
    checked(report.trajectory)
    users = [step["message"] for step in report.trajectory["steps"] if step["source"] == "user"]
    assert any("Make hello.txt." in message for message in users)


@pytest.mark.parametrize("name", READERS)
@given(data=st.data())
def test_a_log_that_is_cut_anywhere_is_read_as_far_as_it_goes(name, data):
    """Case 129 and its like: nothing in a log is vouched for."""
    run = run_of(recorded(name))
    whole = READERS[name](run).usage

    def cut(content):
        return content[: data.draw(st.integers(0, len(content)))] + data.draw(
            st.sampled_from([b"", b"\xff\0", b'{"a":'])
        )

    turns = [TurnOutput(turn.prompt, cut(turn.stdout), b"", cut(turn.output)) for turn in run.turns]
    files = {path: cut(content) for path, content in run.files.items()}
    report = READERS[name](ProgramRun(turns, files, "session", "agent"))
    checked(report.trajectory)
    if report.usage is not None:
        assert report.usage.input_tokens <= whole.input_tokens
        assert report.usage.calls <= max(whole.calls, 3)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(
    "line",
    [
        {"type": "assistant", "message": 3},
        {"type": "result", "modelUsage": {"m": {"inputTokens": -5, "outputTokens": "many", "costUSD": "free"}}},
        {"type": "response_item", "payload": {"type": "function_call", "arguments": None, "call_id": []}},
        {"type": "token_usage_record", "payload": {"response_id": {}, "usage": {"input_tokens": 1e300}}},
        {"type": "step_finish", "part": {"tokens": {"input": True, "cache": []}, "cost": "NaN"}},
        {"type": "tool_use", "part": {"state": "x", "callID": 7}},
        {"messages": [{"role": "assistant", "content": [1, {"text": None}], "tool_calls": {"a": 1}, "extra": []}]},
        {"messages": "none", "info": {"exit_status": ["LimitsExceeded"]}},
        {"type": "error", "error": "x"},
        {"type": "turn.failed", "error": None},
    ],
)
def test_lines_that_no_program_should_write_are_no_crash(name, line):
    data = json.dumps(line).encode()
    run = ProgramRun([TurnOutput("x", data, b"", data, 0)], {"/state/log.jsonl": data, "/state/t.json": data})
    report = READERS[name](run)
    assert report.usage is None or report.usage.input_tokens == 0
    if report.trajectory is not None:
        checked(report.trajectory)


def test_calls_with_one_id_are_told_apart():
    calls = [ToolCall("a", "x", "{}"), ToolCall("a", "y", "{}"), ToolCall("", "z", "{}"), ToolCall("", "z", "{}")]
    assert [call.id for call in distinct(calls)] == ["a", "a#2", "call#3", "call#4"]


# ---------------------------------------------------------------------------------------------------- claude-code


def test_claude_code_repeats_the_usage_of_a_message_with_each_block():
    record = recorded("claude-code")
    blocks = [line for line in record["turns"][0]["lines"] if line["type"] == "assistant"]
    assert len({line["message"]["id"] for line in blocks}) < len(blocks), "the recording has such a message"
    record["turns"][0]["lines"] = [line for line in record["turns"][0]["lines"] if line["type"] != "result"]
    report = read_claude_code(run_of(record, turns=1))
    assert report.usage == FIRST + SECOND, "what the transcript says of whole messages"
    assert report.partial, "calls that no line shows are only in the line that is not there"


def test_claude_code_without_a_transcript_knows_no_more_than_the_beginning_of_messages():
    record = recorded("claude-code")
    record["turns"][0]["lines"] = [line for line in record["turns"][0]["lines"] if line["type"] != "result"]
    record["files"] = {}
    report = read_claude_code(run_of(record, turns=1))
    assert report.usage.input_tokens == 2100
    assert report.usage.output_tokens < 120
    assert report.partial


def result_of(record, turn=0):
    return next(line for line in record["turns"][turn]["lines"] if line["type"] == "result")


def test_claude_code_counts_models_that_help_beside_the_one_that_was_asked_for():
    record = recorded("claude-code")
    result = result_of(record)
    helper = {"inputTokens": 7, "outputTokens": 3, "cacheReadInputTokens": 0, "cacheCreationInputTokens": 0}
    result["model_usage_since_last_result"]["small"] = helper
    report = read_claude_code(run_of(record, turns=1))
    assert report.usage.input_tokens == 2107
    assert report.usage.output_tokens == 123


def test_older_claude_code_has_sums_of_the_session_only():
    record = recorded("claude-code")
    for turn in (0, 1):
        del result_of(record, turn)["model_usage_since_last_result"]
    assert read_claude_code(run_of(record)).usage == FIRST + SECOND + SECOND


@pytest.mark.parametrize(("basis", "cost"), [("list", 0.01222), ("managed", 0.01222), ("unknown", None)])
def test_claude_code_has_a_cost_where_it_has_a_price(basis, cost):
    record = recorded("claude-code")
    result_of(record)["model_usage_since_last_result"]["scripted"]["costBasis"] = basis
    assert read_claude_code(run_of(record, turns=1)).usage.cost_usd == cost


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"api_error_status": 401, "result": "API Error: 401"}, "model.refused_auth"),
        ({"api_error_status": 429, "result": "API Error: 429"}, "model.rate_limited"),
        ({"api_error_status": 529, "result": "API Error: 529"}, "model.overloaded"),
        ({"api_error_status": 400, "result": "prompt is too long"}, "model.invalid_request"),
        ({"terminal_reason": "api_error", "api_error": "connection_failed"}, "model.connection"),
        ({"terminal_reason": "api_error", "api_error": "max_output_tokens"}, "model.malformed"),
        ({"terminal_reason": "api_error", "api_error": "something new"}, "model.server"),
        ({"terminal_reason": "api_error", "stop_reason": "refusal"}, "model.refusal"),
        ({"subtype": "error_max_turns"}, "harness.limit"),
        ({"subtype": "error_max_budget_usd"}, "harness.limit"),
    ],
)
def test_claude_code_says_why_it_ended(fields, problem):
    record = recorded("claude-code")
    result_of(record).update(fields)
    assert [code for code, _ in read_claude_code(run_of(record, turns=1)).problems] == [problem]


# ---------------------------------------------------------------------------------------------------------- codex


def test_older_codex_says_sums_and_says_some_of_them_twice():
    record = recorded("codex")
    [(path, lines)] = record["files"].items()
    older = [line for line in lines if line["type"] != "token_usage_record"]
    place = next(place for place, line in enumerate(older) if line["payload"].get("type") == "token_count")
    older.insert(place, copy.deepcopy(older[place]))
    record["files"] = {path: older}
    assert read_codex(run_of(record)).usage == FIRST + SECOND + SECOND


def test_codex_counts_what_its_helpers_used():
    record = recorded("codex")
    [lines] = record["files"].values()
    record["files"]["/state/codex/sessions/2026/12/01/rollout-2.jsonl"] = copy.deepcopy(lines)
    assert read_codex(run_of(record)).usage.output_tokens == 2 * 190


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ("unexpected status 401 Unauthorized: no", "model.refused_auth"),
        ("exceeded retry limit, last status: 429 Too Many Requests", "model.rate_limited"),
        ("unexpected status 503 Service Unavailable: no", "model.overloaded"),
        ('{"error": {"message": "no", "type": "invalid_request_error"}}', "model.invalid_request"),
        ("We're currently experiencing high demand, which may cause temporary errors.", "model.server"),
        ("Selected model is at capacity. Please try a different model.", "model.overloaded"),
        ("stream disconnected before completion: UTF8 error: invalid utf-8 sequence", "model.server"),
        ("stream disconnected before completion: Incomplete response, reason: content_filter", "model.refusal"),
        ("Incomplete response returned, reason: max_output_tokens", "model.malformed"),
        ("stream disconnected before completion: error sending request", "model.connection"),
    ],
)
def test_codex_says_why_it_ended(message, problem):
    line = json.dumps({"type": "turn.failed", "error": {"message": message}}).encode()
    report = read_codex(ProgramRun([TurnOutput("x", line, b"", line, 1)]))
    assert [code for code, _ in report.problems] == [problem]


# ------------------------------------------------------------------------------------------------------ the others


def test_mini_swe_agent_says_that_a_model_without_a_price_costs_0_and_that_is_unknown():
    record = recorded("mini-swe-agent")
    assert read_mini_swe_agent(run_of(record)).usage.cost_usd is None
    [trajectory] = record["files"].values()
    for message in trajectory[0]["messages"]:
        if message["role"] == "assistant":
            message["extra"]["cost"] = 0.25
    assert read_mini_swe_agent(run_of(record)).usage.cost_usd == 0.5


@pytest.mark.parametrize(
    ("ended", "said", "problem"),
    [
        ("LimitsExceeded", "LimitsExceeded", "harness.limit"),
        ("RepeatedFormatError", "RepeatedFormatError", "model.malformed"),
        ("AuthenticationError", "litellm.AuthenticationError: no", "model.refused_auth"),
        ("InternalServerError", "litellm.InternalServerError: OpenAIException - oops", "model.server"),
        ("InternalServerError", "litellm.InternalServerError: OpenAIException - Connection error.", "model.connection"),
        ("IndexError", "list index out of range", "harness.crashed"),
    ],
)
def test_mini_swe_agent_says_why_it_ended(ended, said, problem):
    record = recorded("mini-swe-agent")
    [trajectory] = record["files"].values()
    trajectory[0]["info"]["exit_status"] = ended
    trajectory[0]["messages"].append({"role": "exit", "content": said})
    [(code, message)] = read_mini_swe_agent(run_of(record)).problems
    assert (code, said in message) == (problem, True)


def test_mini_swe_agent_counts_answers_that_it_could_not_use():
    """It keeps them in what it says to them: what they used was paid for all the same."""
    record = recorded("mini-swe-agent")
    [[trajectory]] = record["files"].values()
    answered = next(message for message in trajectory["messages"] if message["role"] == "assistant")
    extra = {"interrupt_type": "FormatError", "response": copy.deepcopy(answered["extra"]["response"])}
    extra["response"]["choices"][0]["message"] = {"role": "assistant", "content": "I would rather talk."}
    trajectory["messages"].append({"role": "user", "content": "No tool calls found.", "extra": extra})
    trajectory["info"]["model_stats"]["api_calls"] = 3
    report = read_mini_swe_agent(run_of(record))
    assert report.usage == FIRST + SECOND + FIRST
    assert not report.partial
    *_, step, reply = checked(report.trajectory)["steps"]
    assert (step["source"], step["message"], reply["message"]) == (
        "agent", "I would rather talk.", "No tool calls found."
    )  # fmt: skip


def test_mini_swe_agent_lost_an_answer():
    """It counts the calls, so that one of which it kept nothing is known to be missing."""
    record = recorded("mini-swe-agent")
    [[trajectory]] = record["files"].values()
    trajectory["info"] |= {"exit_status": "IndexError", "model_stats": {"api_calls": 3}}
    assert read_mini_swe_agent(run_of(record)).partial


def test_mini_swe_agent_has_an_answer_without_usage():
    record = recorded("mini-swe-agent")
    [[trajectory]] = record["files"].values()
    first = next(message for message in trajectory["messages"] if message["role"] == "assistant")
    del first["extra"]["response"]["usage"]
    report = read_mini_swe_agent(run_of(record))
    assert (report.usage, report.partial) == (SECOND, True)


@pytest.mark.parametrize("name", ["claude-code", "codex", "opencode"])
def test_a_program_that_ends_well_before_its_turn_does_is_no_answer_of_the_model(name):
    """Status 0 alone says nothing: none of the lines that end a turn came."""
    line = b'{"type": "system"}\n'
    report = READERS[name](ProgramRun([TurnOutput("x", line, b"", line, 0)], name=name))
    assert [code for code, _ in report.problems] == ["harness.crashed"]


def test_claude_code_shows_no_answer_that_has_nothing_in_it():
    """It asks once more then: both were paid for, and neither has a line of its own."""
    record = recorded("claude-code")
    result = result_of(record) | {"is_error": False}
    asked = {"type": "user", "isSynthetic": True, "message": {"content": [{"type": "text", "text": "Go on."}]}}
    lines = b"".join(json.dumps(line).encode() + b"\n" for line in (asked, result))
    report = read_claude_code(ProgramRun([TurnOutput("x", lines, b"", lines, 0)]))
    assert report.usage.calls == 2


def test_opencode_counts_reasoning_beside_the_output():
    record = recorded("opencode")
    finished = [line for turn in record["turns"] for line in turn["lines"] if line["type"] == "step_finish"]
    assert finished[1]["part"]["tokens"]["output"] == 60
    assert read_opencode(run_of(record, turns=1)).usage == FIRST + SECOND


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("APIError", {"message": "no", "statusCode": 401}, "model.refused_auth"),
        ("APIError", {"message": "no", "statusCode": 404}, "model.not_found"),
        ("APIError", {"message": "Cannot connect to API: it was closed"}, "model.connection"),
        ("APIError", {"message": "no"}, "model.server"),
        ("ContentFilterError", {"message": "no"}, "model.refusal"),
        ("SomethingNew", {}, "harness.crashed"),
    ],
)
@pytest.mark.parametrize("exit_code", [0, 1])
def test_opencode_says_why_it_ended(name, data, problem, exit_code):
    error = {"name": name, "data": data}
    line = json.dumps({"type": "error", "error": error}).encode()
    report = read_opencode(ProgramRun([TurnOutput("x", line, b"", line, exit_code)]))
    assert [code for code, _ in report.problems] == [problem]


# --------------------------------------------------------------------------------------- before any call was answered


@pytest.mark.parametrize(
    ("name", "lines", "code"),
    [
        ("claude-code", [{"type": "system", "subtype": "api_retry", "error_status": 429}], "model.rate_limited"),
        ("claude-code", [{"type": "system", "subtype": "api_retry", "error_status": None}], "model.connection"),
        ("claude-code", [{"type": "system", "subtype": "init"}], "model.timeout"),
        ("codex", [{"type": "error", "message": "Reconnecting... 1/5 (unexpected status 502: no)"}], "model.server"),
        ("codex", [{"type": "turn.started"}], "model.timeout"),
        ("opencode", [], "model.timeout"),
        ("mini-swe-agent", [], "model.timeout"),
    ],
)
def test_05_a_program_that_is_ended_before_any_answer_waited_for_the_model(name, lines, code):
    output = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    report = READERS[name](ProgramRun([TurnOutput("x", output, b"", output)], name=name))
    assert report.waiting[0] == code
    assert report.problems == [] or report.problems == ()


@pytest.mark.parametrize("name", READERS)
def test_05_a_program_that_got_an_answer_did_something(name):
    assert READERS[name](run_of(recorded(name))).waiting is None


def test_codex_without_any_usage_of_an_answer_knows_none():
    record = recorded("codex")
    for path, lines in record["files"].items():
        kept = [line for line in lines if line["type"] != "token_usage_record"]
        record["files"][path] = [line for line in kept if line["payload"].get("type") != "token_count"]
    assert read_codex(run_of(record)).usage is None
