"""The command `python -m proctor.testing.model_server`, in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from proctor.testing._model_command import main
from proctor.testing.model_server import serve

COMMAND = [sys.executable, "-m", "proctor.testing.model_server"]


class Served:
    """The command in a process of its own, ended by a signal."""

    def __init__(self, *arguments, end_with=signal.SIGTERM):
        self._arguments = arguments
        self._end_with = end_with

    def __enter__(self):
        environment = {**os.environ, "PYTHONUNBUFFERED": ""}
        self.process = subprocess.Popen(
            [*COMMAND, *self._arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        self.base_url = self.process.stdout.readline().strip()
        return self

    def ask(self, text="hi"):
        body = {"model": "m", "messages": [{"role": "user", "content": text}]}
        data = json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.base_url}/chat/completions", data, {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request) as response:
                return response.status, json.load(response)["choices"][0]["message"]["content"]
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers["Retry-After"]

    def __exit__(self, *details):
        self.process.send_signal(self._end_with)
        # Generous: only a server that does not end at all fails here.
        self.rest = self.process.communicate(timeout=60)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_prints_its_address_answers_and_ends_cleanly_on_a_signal(number):
    with Served("--text", "forty-two", end_with=number) as served:
        assert served.base_url.startswith("http://127.0.0.1:")
        assert served.base_url.endswith("/v1")
        assert served.ask() == (200, "forty-two")
    assert (served.process.returncode, served.rest) == (0, ("", ""))


def test_the_command_fails_so_many_times_as_told_and_then_answers():
    with Served("--script", "echo", "--status", "429", "--retry-after", "2", "--times", "2") as served:
        assert [served.ask() for _ in range(3)] == [(429, "2"), (429, "2"), (200, "hi")]


def test_the_command_answers_from_a_file(tmp_path):
    (tmp_path / "answers.jsonl").write_text('{"match": "cat", "answer": "meow"}\n')
    with Served("--answers", str(tmp_path / "answers.jsonl"), "--delay-seconds", "0.01") as served:
        assert served.ask("a cat") == (200, "meow")
        assert served.ask("a dog") == (400, None)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--script", "humanevil"], "error: unknown model `mock/humanevil`; did you mean `mock/humaneval`?"),
        (["--script", "echo", "--share", "0.5"], "error: model `mock/echo` has no parameter `share`"),
        (["--script", "humaneval", "--share", "2"], "error: a share must be a number from 0 to 1"),
        (["--answers", "/nonexistent"], "error: cannot read the answers in /nonexistent"),
        (["--retry-after", "2"], "error: --times and --retry-after say something of --status"),
        (["--status", "200"], "200 is not in the range"),
        (["--nonsense"], "No such option"),
    ],
)
def test_the_command_refuses_what_it_does_not_understand(arguments, said, capsys):
    code = main(arguments)
    shown = capsys.readouterr()
    assert (code, shown.out) == (2, "")
    assert said in shown.err
    assert "Traceback" not in shown.err


def test_the_command_says_that_a_port_is_taken(capsys):
    with serve([]) as server:
        port = server.base_url.rsplit(":", 1)[1].removesuffix("/v1")
        code = main(["--port", port])
    assert code == 2
    assert capsys.readouterr().err.startswith("error: cannot listen")


def test_the_agent_of_the_command_line_runs_its_commands_and_ends_with_its_text():
    function = {"name": "bash", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}}
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "go"}],
        "tools": [{"type": "function", "function": function}],
    }

    def post(served):
        request = urllib.request.Request(
            f"{served.base_url}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request) as response:
            return json.load(response)["choices"][0]["message"]

    with Served("--script", "agent", "--command", "echo 1", "--command", "echo 2", "--text", "42") as served:
        for wanted in ("echo 1", "echo 2"):
            said = post(served)
            (call,) = said["tool_calls"]
            assert json.loads(call["function"]["arguments"]) == {"command": wanted}
            body["messages"] += [said, {"role": "tool", "tool_call_id": call["id"], "content": ""}]
        assert post(served)["content"] == "42"
