"""The harness `bash-agent`: a loop that ends, whatever a model does, and that tells the model what it has to know."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from proctor.errors import Fault
from proctor.harnesses.bash_agent import CALLS_AT_MOST, MISTAKES_AT_MOST, SYSTEM, BashAgentHarness, BashAgentOptions
from proctor.model.attempt import Usage
from proctor.plugins.api import ExecResult, Tool, ToolCall, arguments_of
from support.agent_world import ScriptedModel, ScriptedSandbox, World, bash, says, submit, tell


def work(*answers, sandbox=None, texts=("Do it.",), **options):
    """Let the model work; return what came of it, the context, the model and the sandbox."""
    model, sandbox = ScriptedModel(*answers), sandbox or ScriptedSandbox()
    world = World(model, sandbox)
    told = tell(BashAgentHarness(BashAgentOptions(**options)), world, *texts)
    return told, world, model, sandbox


def shown(result, **options):
    """Return what the model is shown of a result."""
    _, _, model, _ = work(says("", bash("x")), says("", submit("y")), sandbox=ScriptedSandbox(lambda _: result))
    return model.results()[0]


def roles(model):
    return [message.role for message in model.asked[-1]]


def test_spec_11_commands_run_until_an_answer_is_submitted():
    told, world, model, sandbox = work(
        says("look", bash("ls", "a")), says("", bash("pwd", "b")), says("", submit("42"))
    )
    assert (told.answers, told.steps, told.fault, world.issues) == (["42"], [3], None, [])
    assert sandbox.commands == ["ls", "pwd"]
    assert sandbox.timeouts == [120.0, 120.0]
    assert roles(model) == ["system", "user", "assistant", "tool", "assistant", "tool"]
    assert model.results() == ["ran ls\n", "ran pwd\n"]
    assert world.used == Usage(calls=3, input_tokens=30, output_tokens=15)
    assert {tool.name for tool in model.offered[0]} == {"bash", "submit"}


def test_the_prompt_is_that_of_the_task_with_instructions_after_it():
    _, _, model, _ = work(says("", submit("x")), instructions="Be quick.", texts=("A", "B"))
    assert [(one.role, one.text) for one in model.asked[0]] == [("system", SYSTEM), ("user", "A\n\nBe quick.")]
    assert model.asked[1][-1].text == "B"


def test_a_system_prompt_of_ones_own_or_none():
    assert work(says("", submit("x")), system="Mine.")[2].asked[0][0].text == "Mine."
    assert [one.role for one in work(says("", submit("x")), system="")[2].asked[0]] == ["user"]


def test_the_trajectory_has_every_call_with_its_result():
    told, _, _, _ = work(says("look", bash("ls", "a"), reasoning="hm"), says("", submit("42", "b")))
    steps = told.trajectory["steps"]
    assert [step["source"] for step in steps] == ["system", "user", "agent", "agent"]
    assert steps[2]["reasoning_content"] == "hm"
    assert steps[2]["observation"]["results"] == [{"source_call_id": "a", "content": "ran ls\n"}]
    assert steps[3]["tool_calls"][0]["arguments"] == {"answer": "42"}
    names = [one["function"]["name"] for one in told.trajectory["agent"]["tool_definitions"]]
    assert names == ["bash", "submit"]
    assert told.trajectory["final_metrics"]["total_prompt_tokens"] == 20


def test_several_calls_of_one_message_run_in_order_and_none_after_the_answer():
    told, _, model, sandbox = work(says("", bash("one"), bash("two"), submit("done"), bash("three")), texts=("A", "B"))
    assert told.answers[0] == "done"
    assert sandbox.commands[:2] == ["one", "two"]
    assert "three" not in sandbox.commands
    assert model.results() == ["ran one\n", "ran two\n", "submitted", "not run: the answer was submitted before"]


def test_a_message_with_thousands_of_calls_is_not_followed():
    _, _, model, sandbox = work(says("", *(bash(str(number)) for number in range(2_000))), says("", submit("x")))
    assert len(sandbox.commands) == CALLS_AT_MOST
    assert len(model.results()) == 2_000
    assert model.results()[-1].startswith("not run: at most")


def test_every_call_has_an_id_of_its_own_whatever_the_model_wrote():
    told, _, model, _ = work(
        says("", bash("one"), bash("two", "x"), bash("three", "x")), says("", bash("four", "x")), says("", submit("z"))
    )
    made = [call.id for message in model.asked[-1] for call in message.tool_calls]
    answered = [message.tool_call_id for message in model.asked[-1] if message.role == "tool"]
    assert made == answered
    assert len(set(made)) == 4
    assert told.answers == ["z"]


# ------------------------------------------------------------------------------------------- messages without calls


def test_a_message_without_a_call_is_asked_about_once_and_then_taken_as_the_answer():
    told, world, model, _ = work(says("I think it is 41."), says("42"))
    assert (told.answers, told.steps, world.issues) == (["42"], [2], [])
    assert "your next message is taken as the answer" in model.asked[1][-1].text


def test_a_call_in_between_counts_the_messages_anew():
    told, _, _, _ = work(says("hm"), says("", bash("ls")), says("well"), says("", bash("ls")), says("", submit("42")))
    assert (told.answers, told.steps) == (["42"], [5])


def test_empty_messages_end_it_and_are_not_sent_back():
    told, _, model, _ = work(says(""))
    assert (told.answers, told.steps) == ([""], [2])
    assert roles(model) == ["system", "user", "user"]


def test_a_message_that_is_empty_the_second_time_leaves_the_first_as_the_answer():
    assert work(says("42"), says(""))[0].answers == ["42"]


def test_a_text_is_the_answer_where_the_endpoint_refuses_to_be_asked_once_more():
    told, world, _, _ = work(says("42"), Fault("model.invalid_request", "the context is too long"))
    assert (told.answers, told.steps, world.codes) == (["42"], [1], ["model.invalid_request"])
    assert work(says("", bash("ls")), Fault("model.invalid_request", "no"))[0].fault.code == "model.invalid_request"
    assert work(says("42"), Fault("model.server", "down"))[0].fault.code == "model.server"


def test_a_model_whose_message_was_cut_off_is_told_so():
    _, _, model, _ = work(says("I beg", stop_reason="length"), says("", submit("x")))
    assert model.asked[1][-1].text.startswith("Your message was cut off at its limit of tokens")


def test_refusals_are_issues_and_end_it():
    told, world, _, _ = work(says("I cannot", stop_reason="content_filter"))
    assert (told.answers, told.steps, world.codes) == (["I cannot"], [2], ["model.refusal", "model.refusal"])


# ---------------------------------------------------------------------------------------------------- wrong calls


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (ToolCall("c", "bash", '{"command": "ls'), 'the arguments are not a JSON object: \'{"command": "ls\''),
        (ToolCall("c", "bash", "[]"), "the arguments are not a JSON object: '[]'"),
        (ToolCall("c", "bash", "{}"), "`command` must be a text, and is missing"),
        (bash(["ls"]), "`command` must be a text, not ['ls']"),
        (bash("ls", timeout_seconds="long"), "`timeout_seconds` must be a number above 0, not 'long'"),
        (bash("ls", timeout_seconds=0), "`timeout_seconds` must be a number above 0, not 0"),
        (bash("ls", timeout_seconds=True), "`timeout_seconds` must be a number above 0, not True"),
        (bash("a\0b"), "the command has a NUL character in it"),
        (bash("echo \ud800"), "the command is no valid Unicode text"),
        (bash("x" * 100_001), "the command has 100,001 bytes; at most 100,000 are possible: do it in parts"),
        (ToolCall("c", "python", "{}"), "there is no tool 'python'; there are `bash` and `submit`"),
        (submit(42), "`answer` must be a text, not 42"),
        (ToolCall("c", "submit", "{}"), "`answer` must be a text, and is missing"),
    ],
)
def test_a_wrong_call_is_told_to_the_model_and_nothing_runs(call, said):
    told, world, model, sandbox = work(says("", call), says("", submit("42")))
    assert (told.answers, world.issues, sandbox.commands) == (["42"], [], [])
    assert model.results() == [f"not run: {said}"]
    # Endpoints refuse a conversation in which arguments are no JSON.
    assert all(arguments_of(one) is not None for message in model.asked[-1] for one in message.tool_calls)


def test_wrong_calls_without_end_are_bounded_and_one_right_call_is_a_new_start():
    wrong = says("", ToolCall("", "python", "{}"))
    told, world, _, _ = work(wrong, wrong, says("", bash("ls")), wrong)
    assert (told.answers, told.steps) == ([None], [3 + MISTAKES_AT_MOST])
    assert world.codes == ["model.malformed"]


# --------------------------------------------------------------------------------------------- what came of commands


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (ExecResult(0, b"out\n"), "out\n"),
        (ExecResult(0), "[it printed nothing, exit status 0]"),
        (ExecResult(1, b" \n\n"), "[it printed nothing, exit status 1]"),
        (ExecResult(2, b"no such file\n"), "no such file\n[exit status 2]"),
        (ExecResult(1, b"no line break"), "no line break\n[exit status 1]"),
        (ExecResult(None, b"", signal=9), "[it printed nothing, it was ended by signal 9 (SIGKILL)]"),
        (ExecResult(None, b"x\n", signal=9, out_of_memory=True), "x\n[it was ended for want of memory]"),
        (
            ExecResult(None, b"half\n", timed_out=True),
            "half\n[it did not end within 120 seconds, and was ended with all that it had started]",
        ),
        (ExecResult(None, lost="the supervisor died"), "[it printed nothing, it was lost: the supervisor died]"),
        (ExecResult(0, b"a\xff\x00b\n"), "a\ufffd\0b\n"),
        (ExecResult(0, b"ab" + b"yz", stdout_dropped=1_000), "ab\n[... 1,000 bytes left out ...]\nyz\n"),
    ],
)
def test_how_a_command_ended_is_told_to_the_model(result, text):
    assert shown(result).rstrip("\n") == text.rstrip("\n")


def test_a_character_that_was_cut_in_two_spoils_nothing_else():
    whole = "ä".encode()
    assert shown(ExecResult(0, b"a" + whole[:1] + b"b" + whole[:1], stdout_dropped=7)).startswith("a\ufffd\n[")


def test_a_command_may_ask_for_more_time_up_to_a_limit():
    _, _, _, sandbox = work(
        says("", bash("a", timeout_seconds=0.5), bash("b", timeout_seconds=600), bash("c", timeout_seconds=1e12)),
        says("", submit("x")),
        longest_command_timeout_seconds=700,
    )
    assert sandbox.timeouts == [0.5, 600, 700]


def test_a_sandbox_that_is_gone_ends_it():
    def gone(command):
        raise Fault("provider.lost", "the supervisor was killed")

    told, _, _, _ = work(says("", bash("ls", "a")), sandbox=ScriptedSandbox(gone))
    assert told.fault.code == "provider.lost"
    assert told.trajectory["steps"][-1]["tool_calls"][0]["arguments"] == {"command": "ls"}


def test_a_turn_that_broke_off_leaves_a_conversation_that_can_go_on():
    failing = iter([Fault("provider.lost", "gone"), None])

    def once(command):
        fault = next(failing)
        if fault is not None:
            raise fault
        return ExecResult(0, b"ok\n")

    model = ScriptedModel(says("", bash("ls")), says("", bash("ls")), says("", submit("x")))
    world = World(model, ScriptedSandbox(once))

    class Again(BashAgentHarness):
        async def start(self, ctx):
            session = await super().start(ctx)
            send = session.send

            async def twice(message):
                with pytest.raises(Fault):
                    await send(message)
                return await send(message)

            session.send = twice
            return session

    assert tell(Again(BashAgentOptions()), world, "go").answers == ["x"]
    assert roles(model) == ["system", "user", "user", "assistant", "tool"]


# ------------------------------------------------------------------------------------------------------------ limits


GOING_ON = says("", bash("ls"))


def test_the_limit_of_steps_is_an_issue_and_what_is_there_is_graded():
    told, world, _, sandbox = work(GOING_ON, max_steps=3)
    assert (told.answers, told.steps, len(sandbox.commands)) == ([None], [3], 3)
    assert world.issues == [("harness.limit", "the limit of 3 steps was reached, with 3")]


def test_50_steps_are_the_limit_unless_said_otherwise():
    assert work(GOING_ON)[0].steps == [50]


def test_an_answer_within_the_last_step_counts():
    told, world, _, _ = work(GOING_ON, says("", submit("42")), max_steps=2)
    assert (told.answers, world.issues) == (["42"], [])


def test_a_text_at_the_limit_is_the_answer():
    told, world, _, _ = work(says("42"), max_steps=1)
    assert (told.answers, world.codes) == (["42"], ["harness.limit"])


def test_limits_of_calls_and_tokens_are_on_the_whole_try_and_steps_on_a_turn():
    told, world, _, _ = work(GOING_ON, max_steps=2, max_calls=3, texts=("A", "B"))
    assert told.steps == [2, 1]
    assert world.issues[1] == ("harness.limit", "the limit of 3 calls was reached, with 3")
    told, world, _, _ = work(GOING_ON, max_tokens=40)
    assert (told.steps, world.issues) == ([3], [("harness.limit", "the limit of 40 tokens was reached, with 45")])


COST = {"calls": 1, "input_tokens": 10, "output_tokens": 5}
REPORTED = says("", bash("ls"), usage=Usage(**COST, cost_usd=0.6))
"""(a), and (b): when usage comes at the end of a long stream, it is there with the completion all the same."""
UNPRICED = says("", bash("ls"), usage=Usage(**COST))
"""(c): tokens are known, the cost is in a field that nobody knows."""
SILENT = says("", bash("ls"), usage=None)
"""(d)"""


def test_141_a_b_a_limit_of_cost_ends_it_after_the_call_that_reaches_it():
    told, world, _, _ = work(REPORTED, max_cost_usd=1.0)
    assert (told.steps, world.issues) == ([2], [("harness.limit", "the limit of 1 USD was reached, with 1.2")])
    assert world.used.cost_usd == 1.2


@pytest.mark.parametrize("answer", [UNPRICED, SILENT], ids=["c", "d"])
def test_141_c_d_a_limit_of_cost_that_nobody_can_hold_ends_it_with_that_reason(answer):
    told, world, _, _ = work(answer, max_cost_usd=1.0)
    assert told.steps == [1]
    assert world.issues[-1] == (
        "harness.limit",
        "the limit of 1 USD cannot be held: the cost of a call is unknown",
    )


@pytest.mark.parametrize("answer", [UNPRICED, SILENT], ids=["c", "d"])
def test_141_c_d_unless_an_unknown_cost_is_allowed(answer):
    told, world, _, _ = work(answer, max_cost_usd=1.0, allow_unknown_cost=True, max_steps=7)
    assert (told.steps, world.issues[-1][1]) == ([7], "the limit of 7 steps was reached, with 7")


def test_141_the_known_part_of_a_cost_counts_all_the_same():
    told, world, _, _ = work(REPORTED, UNPRICED, REPORTED, max_cost_usd=1.0, allow_unknown_cost=True)
    assert (told.steps, world.issues[-1][1]) == ([3], "the limit of 1 USD was reached, with 1.2")


@pytest.mark.parametrize("answer", [REPORTED, UNPRICED, SILENT], ids=["ab", "c", "d"])
@pytest.mark.parametrize("limit", [{"max_calls": 2}, {"max_tokens": 30}])
def test_141_a_cap_on_calls_and_tokens_holds_in_all_four(answer, limit):
    told, world, _, _ = work(answer, max_cost_usd=100.0, allow_unknown_cost=True, **limit)
    silent = answer is SILENT and "max_tokens" in limit
    assert told.steps == [1 if silent else 2]
    if silent:
        assert world.issues[-1][1] == "the limit of 30 tokens cannot be held: a call reported no usage"


def test_usage_is_reported_call_by_call_and_a_call_that_failed_counts():
    told, world, _, _ = work(GOING_ON, GOING_ON, Fault("model.server", "down"))
    assert (told.fault.code, world.used.calls, world.used.input_tokens) == ("model.server", 3, 20)
    assert told.trajectory["final_metrics"] == {"total_steps": 4}


def test_a_call_that_was_not_taken_on_does_not_count():
    told, world, _, _ = work(GOING_ON, Fault("model.invalid_request", "the context is too long"))
    assert (told.fault.code, world.used.calls) == ("model.invalid_request", 1)
    assert told.trajectory["final_metrics"]["total_prompt_tokens"] == 10


def test_what_the_harness_needs_and_takes():
    harness = BashAgentHarness
    assert (harness.needs_model, harness.needs_sandbox, harness.isolated_attempts) == (True, True, True)
    for wrong in ({"max_step": 1}, {"max_steps": 0}, {"max_cost_usd": float("nan")}, {"command_timeout_seconds": 0}):
        with pytest.raises(ValidationError):
            BashAgentOptions(**wrong)


# ------------------------------------------------------------------------------------------ tools of a benchmark


class Mails:
    """Tools of a benchmark."""

    offered = (Tool("send_mail", "Send a mail.", {"type": "object", "properties": {}}),)

    def __init__(self):
        self.calls = []

    async def call(self, name, arguments):
        self.calls.append((name, arguments))
        return "" if arguments.get("to") == "nobody" else f"sent to {arguments.get('to')}"


def with_mails(*answers, **options):
    model = ScriptedModel(*answers)
    world = World(model, ScriptedSandbox() if options.get("bash", True) else None)
    world.tools = Mails()
    return tell(BashAgentHarness(BashAgentOptions(**options)), world, "Do it."), world.tools, model


def mail(to, call_id=""):
    return ToolCall(call_id, "send_mail", json.dumps({"to": to}))


def test_11_tools_of_the_benchmark_are_offered_beside_the_shell():
    answers = says("", mail("ann"), bash("ls")), says("", mail("nobody")), says("", submit("done"))
    told, mails, model = with_mails(*answers)
    assert [tool.name for tool in model.offered[0]] == ["bash", "submit", "send_mail"]
    assert mails.calls == [("send_mail", {"to": "ann"}), ("send_mail", {"to": "nobody"})]
    assert model.results() == ["sent to ann", "ran ls\n", "it returned nothing"]
    assert told.answers == ["done"]
    assert "tools, of its own" in model.asked[0][0].text


def test_11_tools_of_the_benchmark_in_place_of_the_shell():
    broken = ToolCall("", "send_mail", "[]")
    _, mails, model = with_mails(says("", bash("ls"), broken), says("hm"), says("", submit("done")), bash=False)
    assert [tool.name for tool in model.offered[0]] == ["submit", "send_mail"]
    assert "not run: there is no tool 'bash'; there are `submit` and `send_mail`" in model.results()
    assert any("not a JSON object" in text for text in model.results())
    assert mails.calls == []
    assert "bash" not in model.asked[0][0].text + model.asked[-1][-1].text
    assert not BashAgentHarness(BashAgentOptions(bash=False)).needs_sandbox


def test_11_a_tool_with_a_name_of_ours_is_refused(monkeypatch):
    monkeypatch.setattr(Mails, "offered", (Tool("submit", "", {}),))
    with pytest.raises(Fault, match="has a tool `submit`"):
        with_mails(says("", submit("x")))
