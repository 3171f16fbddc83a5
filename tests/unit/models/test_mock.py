"""Mock models: deterministic, without a network, and strict about names and parameters."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from proctor.errors import Fault, UnknownName, UsageError
from proctor.model.attempt import Usage
from proctor.model.spec import ModelSpec
from proctor.models.mock import open_model, tokens_of, usage_of
from proctor.plugins.api import ChatMessage, Completion


def ask(spec, *texts, system=None):
    """Ask one question in a conversation whose turns are `texts`."""
    messages = [ChatMessage("system", system)] if system else []
    messages += [ChatMessage(("user", "assistant")[i % 2], text) for i, text in enumerate(texts)]

    async def run():
        model = open_model(spec)
        try:
            return await model.complete(messages)
        finally:
            await model.close()

    return asyncio.run(run())


def mock(name, **params):
    return ModelSpec(id=f"mock/{name}", params=params)


def test_echo_answers_the_last_message_of_the_user():
    said = ask(mock("echo"), "first", "answer", "second", system="be brief")
    assert said == Completion(
        text="second",
        usage=Usage(calls=1, input_tokens=2 + 2 + 2 + 2, output_tokens=2),
        model="mock/echo",
        stop_reason="stop",
    )


def test_echo_without_a_user_has_no_answer():
    with pytest.raises(Fault) as caught:
        asyncio.run(open_model(mock("echo")).complete([ChatMessage("system", "x")]))
    assert caught.value.code == "model.invalid_request"


def test_fixed_answers_its_text_even_if_it_is_empty():
    assert ask(mock("fixed", text="42"), "q").text == "42"
    assert ask(mock("fixed", text=""), "q").text == ""


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("é" * 4, 2), ("\ud800", 1)]
)
def test_tokens_are_a_quarter_of_the_bytes_rounded_up(text, tokens):
    assert tokens_of(text) == tokens


def test_usage_is_of_one_call_without_a_price():
    assert usage_of([ChatMessage("user", "12345")], "1") == Usage(calls=1, input_tokens=2, output_tokens=1)


def test_an_unknown_mock_names_the_nearest_and_all():
    with pytest.raises(UnknownName) as caught:
        open_model(mock("humanevil"))
    assert "`mock/humaneval`" in caught.value.message
    assert all(
        f"`mock/{name}`" in caught.value.hint for name in ("agent", "answers", "echo", "fixed", "humaneval", "script")
    )


def test_an_unknown_parameter_names_the_nearest():
    with pytest.raises(UsageError, match=r"has no parameter `shar`; did you mean `share`\?"):
        open_model(mock("humaneval", shar=0.5))
    with pytest.raises(UsageError, match="has no parameter `text`") as caught:
        open_model(mock("echo", text="x"))
    assert caught.value.hint == "it has no parameters"


@pytest.mark.parametrize("params", [{}, {"text": 1}, {"text": None}])
def test_a_parameter_of_a_wrong_type_is_refused_and_nothing_is_converted(params):
    with pytest.raises(UsageError, match="parameter `text` is not valid"):
        open_model(mock("fixed", **params))


def test_a_text_that_looks_like_a_number_is_given_in_quotes():
    with pytest.raises(UsageError) as caught:
        open_model(mock("fixed", text=41))
    assert """`--set model.params.text='"41"'`""" in caught.value.hint


@pytest.mark.parametrize("share", [2, -0.1, "half", "1/0", float("nan")])
def test_a_share_is_from_0_to_1(share):
    with pytest.raises(UsageError, match="a share must be a number from 0 to 1"):
        open_model(mock("humaneval", share=share))
    with pytest.raises(UsageError, match="`share` is not valid"):
        open_model(mock("humaneval", share=True))


def scripted(messages):
    return f"{len(messages)} messages"


def scripted_whole(messages):
    return Completion(text="no", usage=None, stop_reason="content_filter")


def scripted_number(messages):
    return 7


def scripted_broken(messages):
    return {}["missing"]


NOT_A_FUNCTION = 3


def test_script_calls_a_function_by_its_dotted_path():
    assert ask(mock("script", script=f"{__name__}:scripted"), "a", "b", "c").text == "3 messages"


def test_script_may_return_a_whole_completion():
    said = ask(mock("script", script=f"{__name__}:scripted_whole"), "a")
    assert (said.text, said.usage, said.stop_reason) == ("no", None, "content_filter")


def test_a_bug_of_a_script_stays_what_it_is():
    with pytest.raises(KeyError):
        ask(mock("script", script=f"{__name__}:scripted_broken"), "a")
    with pytest.raises(TypeError, match="returned int, not a text"):
        ask(mock("script", script=f"{__name__}:scripted_number"), "a")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("no_colon", "does not name a function"),
        (":f", "does not name a function"),
        ("no_such_module_at_all:f", "cannot be loaded: ModuleNotFoundError"),
        (f"{__name__}:nothing", "cannot be loaded: AttributeError"),
        (f"{__name__}:NOT_A_FUNCTION", "is not a function"),
    ],
)
def test_a_script_that_cannot_be_loaded_is_said_before_anything_starts(path, said):
    with pytest.raises(UsageError, match=said):
        open_model(mock("script", script=path))


def test_answers_come_from_the_file(tmp_path):
    file = tmp_path / "answers.jsonl"
    file.write_text('{"match": "capital of France", "answer": "Paris"}\n{"answer": "I do not know"}\n')
    spec = mock("answers", file=str(file))
    assert ask(spec, "What is the capital of France?").text == "Paris"
    assert ask(spec, "What is the capital of Mars?").text == "I do not know"


def test_answers_without_a_fitting_line_have_no_answer(tmp_path):
    file = tmp_path / "answers.jsonl"
    file.write_text('{"match": "x", "answer": "y"}\n')
    with pytest.raises(Fault, match=r"no line of .* fits the message") as caught:
        ask(mock("answers", file=str(file)), "z")
    assert caught.value.code == "model.invalid_request"


def test_spec_11_a_mock_model_imports_no_client_and_no_server():
    code = (
        "import sys; from proctor.models.mock import open_model; from proctor.model.spec import ModelSpec;"
        "open_model(ModelSpec(id='mock/echo'));"
        "print([m for m in ('pydantic_ai', 'openai', 'aiohttp', 'proctor.testing') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
