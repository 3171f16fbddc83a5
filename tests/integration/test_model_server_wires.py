"""Each wire of the model server as the official client libraries read it: what was scripted is what they get."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.model.attempt import Usage
from proctor.plugins.api import ToolCall
from proctor.testing.replies import Answer
from support.wire_lines import CONVERSATION, LINES, TOOLS, MessagesLine, opened


@pytest.fixture(params=[(name, stream) for name in LINES for stream in (False, True)], scope="module", ids=str)
def line(request):
    with opened(*request.param) as line:
        yield line


COUNTS = st.integers(0, 2**31)
VALUES = st.recursive(st.none() | st.booleans() | st.integers(-(2**31), 2**31) | st.text(), st.lists, max_leaves=5)
CALLS = st.builds(
    lambda number, name, arguments: ToolCall(f"call_{number}", name, json.dumps(arguments)),
    st.integers(0, 9),
    st.sampled_from(["bash", "submit"]),
    st.dictionaries(st.text(), VALUES, max_size=3),
)
# Half of a pair is what a model's tokens can come to, and JSON can carry it.
TEXTS = st.text(st.characters(codec="utf-8") | st.sampled_from("\ud83d\ude00\u2028\x00\r\n"), max_size=80)
USAGES = st.builds(
    lambda inputs, outputs, read, written, thought: Usage(1, inputs, outputs, read, written, min(thought, outputs)),
    *[COUNTS] * 5,
)
ANSWERS = st.builds(
    lambda text, usage, calls, reasoning, reason: Answer(
        text, usage, reason if not calls else "tool_calls", "scripted-1", tuple(calls), reasoning
    ),
    TEXTS,
    USAGES,
    st.lists(CALLS, max_size=3, unique_by=lambda call: call.id),
    st.none() | TEXTS.filter(bool),
    st.sampled_from(["stop", "length", "content_filter"]),
)


@settings(max_examples=8, deadline=None)
@given(answer=ANSWERS)
def test_what_is_scripted_is_what_the_client_reads(line, answer):
    line.next = answer
    assert line.read(line.ask()) == answer


def test_a_script_sees_the_same_messages_and_tools_on_any_wire(line):
    line.ask()
    seen = line.server.requests[-1]
    assert seen.messages == CONVERSATION
    assert seen.tools == TOOLS
    assert seen.stream is line.stream
    assert seen.api_key == "k"


def test_a_refusal_is_told_in_the_words_of_the_wire(line):
    line.next = Answer(refusal="I will not", usage=Usage(1, 3, 4))
    read = line.read(line.ask())
    if isinstance(line, MessagesLine):
        assert (read.text, read.finish_reason) == ("I will not", "content_filter")  # stop_reason: refusal
    else:
        assert (read.text, read.refusal) == ("", "I will not")


def test_an_empty_answer_has_nothing_in_it_but_its_usage(line):
    line.next = Answer(empty=True, usage=Usage(1, 3, 0))
    got = line.ask()
    assert (
        not {"chat": got, "responses": got, "messages": got}[line.server.requests[-1].wire]
        .model_dump()
        .get({"chat": "choices", "responses": "output", "messages": "content"}[line.server.requests[-1].wire])
    )
    assert got.usage is not None


def test_an_answer_of_a_megabyte_comes_whole(line):
    line.next = Answer("0123456789abcdef" * 65_536, usage=Usage(1, 1, 1))
    assert line.read(line.ask()).text == line.next.text
