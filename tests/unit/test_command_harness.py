"""The harness `command`: what a declaration may say, and what becomes of a program that does as it likes."""

from __future__ import annotations

import asyncio
import json
import os
import sys

import pytest
from pydantic import ValidationError

from proctor.errors import Fault
from proctor.harnesses import command_place
from proctor.harnesses.command import CommandHarness, CommandOptions, ProgramHarness
from proctor.harnesses.command_declaration import Declaration
from proctor.harnesses.command_place import Kept
from proctor.harnesses.programs.codex import read_codex
from proctor.model.attempt import NO_USAGE, Usage
from proctor.plugins.api import Message
from support.atif_rules import checked
from support.programs import Context, model_at, sandbox_of

PYTHON = sys.executable
ODD_PROMPTS = [
    'it\'s a "test" with $HOME, `id` and $(id); rm -rf * & \\ | > <',
    "{model} {key} {prompt_file} {{braces}} %s",
    "-p --help",
    "\n\nlines\r\n\ttabs\x1b[31m\n",
    "ünïcödé \N{GRINNING FACE} \u2028",
    "'" * 50,
]


def options(**fields):
    return CommandOptions.model_validate(fields)


def made(tmp_path, work, *, spec=None, **fields):
    """Run `work(session, context, sandbox)` with a session of a declared program."""

    async def run():
        async with sandbox_of(tmp_path / "base") as sandbox:
            context = Context(sandbox, spec)
            session = await CommandHarness(options(**fields)).start(context)
            try:
                return context, await work(session, context, sandbox)
            finally:
                await session.close()

    return asyncio.run(run())


def one_turn(tmp_path, prompt="Do it.", **fields):
    async def work(session, context, sandbox):
        turn = await session.send(Message(prompt))
        return turn, await session.collect()

    context, (turn, collected) = made(tmp_path, work, **fields)
    return context, turn, collected


def failed_turn(tmp_path, **fields):
    async def work(session, context, sandbox):
        with pytest.raises(Fault) as caught:
            await session.send(Message("Do it."))
        return caught.value, await session.collect()

    context, (fault, collected) = made(tmp_path, work, **fields)
    return context, fault, collected


# ------------------------------------------------------------------------------------------------ the declaration


def test_a_line_is_split_into_words_and_no_shell_sees_it():
    assert options(command="agent --flag 'two words' {prompt}").command == ("agent", "--flag", "two words", "{prompt}")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"command": "cat {promt}"}, "unknown placeholder {promt}"),
        ({"command": "agent --key {key}"}, "{key} may stand in `env` only"),
        ({"command": "agent", "files": {"{state}/c": "{key}"}}, "{key} may stand in `env` only"),
        ({"command": "agent", "env": {"P": "{prompt}"}}, "{prompt} may stand in commands"),
        ({"command": ""}, "at least 1"),
        ({"command": "agent", "output": {"parser": "xml"}}, "unknown parser `xml`"),
        ({"command": "agent", "output": {"parser": "no.such:thing"}}, "cannot be loaded"),
        ({"command": "agent", "output": {"parser": "json", "usage": {"tokens": "t"}}}, "usage has no field `tokens`"),
        ({"command": "agent", "failures": [{"code": "no.such"}]}, "unknown issue code `no.such`"),
        ({"command": "agent", "failures": [{"code": "harness.limit", "pattern": "("}]}, "no regular expression"),
        ({"file": "/no/such/file.yaml"}, "`file` cannot be read: /no/such/file.yaml: no such file or directory"),
        ({"file": 7}, "`file` must be a path"),
        ({"commnd": "agent"}, "command"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(fields, said):
    with pytest.raises(ValidationError) as caught:
        options(**fields)
    assert said in str(caught.value)


def test_a_file_says_what_is_not_given(tmp_path):
    (tmp_path / "agent.yaml").write_text("name: mine\ncommand: [agent, '{prompt}']\nenv: {A: '1'}\n")
    read = options(file=str(tmp_path / "agent.yaml"), name="other")
    assert (read.name, read.command, read.env) == ("other", ("agent", "{prompt}"), {"A": "1"})
    assert read == options(**read.model_dump(mode="json")), "what counts for reuse is what it says"


def test_a_program_that_is_told_of_no_model_needs_none():
    alone = CommandHarness(options(command="cat {prompt_file}"))
    told = CommandHarness(options(command="agent", env={"KEY": "{key}"}))
    assert (alone.needs_model, alone.calls_model_inside) == (False, False)
    assert (told.needs_model, told.calls_model_inside) == (True, True)


def test_turns_are_one_without_a_command_to_resume():
    assert CommandHarness(options(command="agent")).turns == 1
    assert CommandHarness(options(command="agent", resume="agent -c")).turns is None


# -------------------------------------------------------------------------------------------------------- prompts


@pytest.mark.parametrize("prompt", ODD_PROMPTS)
@pytest.mark.parametrize("way", ["argument", "file", "stdin", "shell"])
def test_any_prompt_comes_as_it_is(prompt, way, tmp_path):
    echo = "import sys; sys.stdout.buffer.write({}.encode('utf-8', 'surrogateescape'))"
    ways = {
        "argument": {"command": [PYTHON, "-c", echo.format("sys.argv[1]"), "{prompt}"]},
        "file": {"command": ["cat", "{prompt_file}"]},
        "stdin": {"command": "cat", "stdin": "{prompt}"},
        "shell": {"command": ["sh", "-c", 'printf %s "$1"', "sh", "{prompt}"]},
    }
    _, turn, collected = one_turn(tmp_path, prompt, **ways[way])
    assert collected.files["stdout.txt"].decode() == prompt
    assert turn.answer == prompt.strip()


def test_lone_surrogates_and_nul_come_by_file_and_stdin(tmp_path):
    """Case 126."""
    prompt = "half \ud800 and NUL \0 end"
    for number, fields in enumerate(({"command": ["cat", "{prompt_file}"]}, {"command": "cat", "stdin": "{prompt}"})):
        _, _, collected = one_turn(tmp_path / str(number), prompt, **fields)
        assert collected.files["stdout.txt"] == prompt.encode("utf-8", "surrogatepass")
        assert json.dumps(collected.trajectory).encode("ascii")


@pytest.mark.parametrize("prompt", ["NUL \0 end", "x" * 200_000])
def test_a_prompt_that_no_word_can_hold_is_said_so(prompt, tmp_path):
    async def work(session, context, sandbox):
        with pytest.raises(Fault, match=r"pass the prompt by `\{prompt_file\}`"):
            await session.send(Message(prompt))

    made(tmp_path, work, command=["echo", "{prompt}"])


# -------------------------------------------------------------------------------------- installation and version


def test_it_is_installed_where_it_is_not_there_and_what_that_printed_is_kept(tmp_path):
    install = (
        'mkdir -p bin; printf "#!/bin/sh\\necho v\\$1\\n" > bin/mine; chmod +x bin/mine; echo done $PROCTOR_VERSION'
    )
    context, turn, collected = one_turn(
        tmp_path, name="mine", version="7", installed="command -v mine", install=install, path=["{tools}/bin"],
        version_command="mine 7.0", command="mine {prompt}",
    )  # fmt: skip
    assert turn.answer == "vDo it."
    assert b"done 7" in collected.files["install.txt"]
    assert collected.trajectory["agent"] == {"name": "mine", "version": "v7.0"}
    assert "installing mine 7" in context.said


def test_it_is_not_installed_where_it_is_there(tmp_path):
    _, _, collected = one_turn(tmp_path, command="echo hi", installed="command -v echo", install="exit 1")
    assert "install.txt" not in collected.files


def test_an_installation_that_fails_is_said_with_its_last_line(tmp_path):
    async def start():
        async with sandbox_of(tmp_path / "base") as sandbox:
            with pytest.raises(Fault, match="could not be installed: status 3: no room") as caught:
                await CommandHarness(options(command="x", install="echo no room >&2; exit 3")).start(Context(sandbox))
            assert caught.value.code == "harness.crashed"

    asyncio.run(start())


@pytest.mark.parametrize(
    ("script", "version"),
    [
        ("printf '\\261\\276 2.1\\n'", "\ufffd\ufffd 2.1"),
        ("exec 2>&-; echo 3.0", "3.0"),
        ("echo oops >&2; exit 1", "unknown"),
        ("exit 0", "unknown"),
        ("kill -9 $$", "unknown"),
    ],
)
def test_case_124_a_version_in_odd_bytes_is_no_trouble(script, version, tmp_path):
    context, turn, collected = one_turn(tmp_path, command="echo ok", version_command=["sh", "-c", script])
    assert turn.answer == "ok"
    assert context.issues == []
    assert collected.trajectory["agent"]["version"] == version


# ------------------------------------------------------------------------------------------ credentials, variables


def test_the_key_is_in_variables_only_and_nowhere_else(tmp_path):
    spec = model_at("http://127.0.0.1:9/v1")
    script = 'test "${#KEY}" -eq 18 && cat /proc/$$/cmdline | tr "\\0" " "; echo "$URL|$NAME"'
    context, turn, collected = one_turn(
        tmp_path, spec=spec, command=["sh", "-c", script], env={"KEY": "{key}", "URL": "{root_url}", "NAME": "{model}"},
        version_command=["sh", "-c", "echo v$KEY"],
    )  # fmt: skip
    assert turn.answer.endswith("http://127.0.0.1:9|scripted")
    everything = repr([turn, collected, context.said, context.issues])
    assert "sk-test-0123456789" not in everything
    assert collected.trajectory["agent"]["version"] == "v", "what asks for the version gets no credential"


def test_files_are_written_where_they_are_to_be(tmp_path):
    _, turn, _ = one_turn(
        tmp_path, command=["cat", "{state}/deep/config"], files={"{state}/deep/config": "at {workdir}\n"}
    )
    assert turn.answer.startswith("at ")
    assert turn.answer.endswith("/work")


def test_what_the_session_wrote_outside_of_the_work_directory_is_removed(tmp_path):
    async def work(session, context, sandbox):
        await session.send(Message("x"))
        state = session._place.values["state"]
        assert os.path.isdir(state)
        await session.close()
        assert not os.path.exists(state)

    made(tmp_path, work, command="cat {prompt_file}")


# --------------------------------------------------------------------------------------------------- how it ended


def test_a_status_is_reported_and_the_work_is_graded(tmp_path):
    context, turn, _ = one_turn(tmp_path, command=["sh", "-c", "echo partly; echo why >&2; exit 3"])
    assert turn.answer == "partly"
    assert context.issues == [("harness.exit_nonzero", "command: status 3: why")]


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("echo 'Error: 401 Unauthorized' >&2; exit 1", "model.refused_auth"),
        ("exit 42", "model.payment"),
        ("kill -9 $$", "harness.crashed"),
        ("exit 127", "harness.crashed"),
    ],
)
def test_a_declaration_says_what_a_failure_means(script, code, tmp_path):
    failures = [{"pattern": "401 Unauthorized", "code": "model.refused_auth"}, {"exit": 42, "code": "model.payment"}]
    _, fault, collected = failed_turn(tmp_path, command=["sh", "-c", script], failures=failures)
    assert fault.code == code
    assert "stdout.txt" in collected.files


def test_a_limit_of_the_program_is_no_failure(tmp_path):
    context, turn, _ = one_turn(
        tmp_path, command=["sh", "-c", "echo 6 x 7; exit 9"], failures=[{"exit": 9, "code": "harness.limit"}]
    )
    assert turn.answer == "6 x 7"
    assert [code for code, _ in context.issues] == ["harness.limit"]


def test_a_program_that_is_not_there_is_a_crash(tmp_path):
    _, fault, _ = failed_turn(tmp_path, command="no-such-program-at-all")
    assert fault.code == "harness.crashed"
    assert "no-such-program-at-all" in str(fault)


def test_a_turn_that_is_cut_off_keeps_what_it_printed_and_what_it_used(tmp_path):
    line = json.dumps({"answer": "half", "usage": {"in": 10, "out": 5}})
    script = f"echo '{line}'; echo log > log.txt; echo started > flag; sleep 600"

    async def work(session, context, sandbox):
        turn = asyncio.create_task(session.send(Message("x")))
        while not (await sandbox.exec("test -e flag")).ok:
            await asyncio.sleep(0.01)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        return await session.collect()

    context, collected = made(
        tmp_path, work, spec=model_at("http://127.0.0.1:9/v1"), command=["sh", "-c", script], env={"M": "{model}"},
        keep=["log.txt"],
        output={"parser": "jsonl", "usage": {"input_tokens": "usage.in", "output_tokens": "usage.out"}},
    )  # fmt: skip
    assert collected.files["log.txt"] == b"log\n"
    assert collected.files["stdout.txt"].decode() == line + "\n"
    assert context.used == Usage(calls=1, input_tokens=10, output_tokens=5) + Usage(calls=1)
    assert "usage.missing" in dict(context.issues)


class _Deaf(ProgramHarness):
    """A program that calls a model which never answers, and says so as a ready program does."""

    options = CommandOptions

    def declared(self, family):
        said = json.dumps({"type": "error", "message": "Reconnecting... 2/5 (unexpected status 503: no)"})
        script = f"echo '{said}'; echo started > flag; sleep 600"
        return Declaration(name="deaf", command=["sh", "-c", script], env={"M": "{model}"})

    def parser(self):
        return read_codex


def test_05_a_limit_that_ends_a_program_without_any_answer_of_the_model_is_the_models_doing(tmp_path):
    async def run():
        async with sandbox_of(tmp_path / "base") as sandbox:
            context = Context(sandbox, model_at("http://127.0.0.1:9/v1"))
            session = await _Deaf().start(context)
            turn = asyncio.create_task(session.send(Message("x")))
            while not (await sandbox.exec("test -e flag")).ok:
                await asyncio.sleep(0.01)
            turn.cancel()
            with pytest.raises(asyncio.CancelledError):
                await turn
            await session.collect()
            await session.close()
            return context

    context = asyncio.run(run())
    assert [code for code, _ in context.issues] == ["usage.missing", "model.overloaded"]
    assert context.used == Usage(calls=1)


def test_05_a_call_that_may_have_been_answered_makes_the_usage_unknown(tmp_path):
    """What the endpoint sent before it failed may have been paid for, and the program cannot know."""
    script = """echo '{"usage": {"in": 10, "out": 5}}'; echo connection lost >&2; exit 1"""

    async def work(session, context, sandbox):
        with pytest.raises(Fault) as caught:
            await session.send(Message("x"))
        return caught.value.code

    context, code = made(
        tmp_path, work, spec=model_at("http://127.0.0.1:9/v1"), command=["sh", "-c", script], env={"M": "{model}"},
        output={"parser": "jsonl", "usage": {"input_tokens": "usage.in", "output_tokens": "usage.out"}},
        failures=[{"pattern": "connection lost", "code": "model.connection"}],
    )  # fmt: skip
    assert code == "model.connection"
    assert context.used == Usage(calls=1, input_tokens=10, output_tokens=5) + Usage(calls=1)
    assert "usage.missing" in dict(context.issues)


# -------------------------------------------------------------------------------------------------------- outputs


def test_json_lines_have_an_answer_and_usage_of_every_line(tmp_path):
    lines = [
        {"usage": {"prompt": 100, "cached": 40, "completion": 7}},
        "no json",
        {"usage": {"prompt": 1, "cached": 2, "completion": 3, "cost": 0.5}, "say": {"text": ["no", "a"]}},
        {"say": {"text": [{"text": "yes"}, {"text": "really"}]}},
    ]
    text = "\n".join(json.dumps(line) if isinstance(line, dict) else line for line in lines)
    usage = {"input_tokens": "usage.prompt", "cache_read_tokens": "usage.cached", "output_tokens": "usage.completion"}
    _, turn, collected = one_turn(
        tmp_path, text, command="cat", stdin="{prompt}",
        output={"parser": "jsonl", "answer": "say.text", "usage": usage},
    )  # fmt: skip
    assert turn.answer == "yes\nreally"
    assert turn.usage == Usage(calls=2, input_tokens=101, output_tokens=10, cache_read_tokens=42)
    assert collected.trajectory["final_metrics"]["total_prompt_tokens"] == 143


def test_a_json_file_is_read(tmp_path):
    _, turn, _ = one_turn(
        tmp_path, command=["sh", "-c", """echo noise; echo '{"out": [{"a": 1}, "yes"], "cost": 0.25}' > result.json"""],
        output={"parser": "json", "file": "result.json", "answer": "out.1", "usage": {"cost_usd": "cost"}},
    )  # fmt: skip
    assert turn.answer == "yes"
    assert turn.usage == Usage(calls=1, cost_usd=0.25)


def test_an_output_without_the_field_of_the_answer_is_said(tmp_path, caplog):
    said = one_turn(
        tmp_path, command=["echo", '{"text": "yes"}'], output={"parser": "json", "answer": "choices.0.text"}
    )
    assert said[1].answer is None
    assert "has no field `choices.0.text`: no answer" in caplog.text


def test_a_trajectory_of_its_own_is_taken_over(tmp_path):
    steps = [{"step_id": 1, "source": "user", "message": "x"}, {"step_id": 2, "source": "agent", "message": "done"}]
    totals = {
        "total_prompt_tokens": 100,
        "total_cached_tokens": 30,
        "total_completion_tokens": 9,
        "total_cost_usd": 0.1,
    }
    written = {"schema_version": "ATIF-v1.6", "steps": steps, "final_metrics": totals}
    _, turn, collected = one_turn(
        tmp_path, json.dumps(written), command=["cp", "{prompt_file}", "{state}/t.json"],
        output={"parser": "atif", "file": "{state}/t.json"},
    )  # fmt: skip
    assert turn.answer == "done"
    assert turn.usage == Usage(calls=1, input_tokens=70, output_tokens=9, cache_read_tokens=30, cost_usd=0.1)
    assert collected.trajectory == written


@pytest.mark.parametrize("parser", ["json", "jsonl", "atif"])
@pytest.mark.parametrize("text", ["", "[]", '{"a": ', "[" * 100_000, "null", '{"steps": 3, "final_metrics": []}'])
def test_output_that_is_not_what_was_declared_is_no_crash(parser, text, tmp_path):
    _, turn, _ = one_turn(tmp_path, text, command="cat", stdin="{prompt}", output={"parser": parser, "answer": "a"})
    assert turn.answer is None
    assert turn.usage == NO_USAGE


JSON_OUTPUT = {"parser": "json", "answer": "a", "usage": {"input_tokens": "i", "output_tokens": "o"}}
ATIF = '{"steps": [{"source": "agent", "message": "ok", "n": NaN}], "final_metrics": {"total_prompt_tokens": 7, %s}}'


@pytest.mark.parametrize(
    ("output", "text", "known"),
    [
        (JSON_OUTPUT, '{"a": "ok", "i": 7, "o": -5}', 7),
        (JSON_OUTPUT, '{"a": "ok", "i": 7, "o": NaN, "x": 1e999}', 7),
        (JSON_OUTPUT, '{"a": "ok", "i": 7, "o": 1.5}', 7),
        (JSON_OUTPUT, '{"a": "ok", "i": 7, "o": "12"}', 7),
        (JSON_OUTPUT, '{"a": "ok", "i": 7, "x": ' + "9" * 6000 + "}", 7),
        (JSON_OUTPUT, '{"a": "ok", "i": true}', 0),
        ({"parser": "atif"}, ATIF % '"total_completion_tokens": -3', 0),
        ({"parser": "atif"}, ATIF % '"total_cached_tokens": Infinity', 0),
    ],
)
def test_a_count_that_is_none_makes_the_usage_unknown_and_costs_nothing_else(output, text, known, tmp_path):
    file = tmp_path / "printed"
    file.write_text(text)
    context, turn, collected = one_turn(
        tmp_path,
        command=["cat", str(file)],
        env={"M": "{model}"},
        output=output,
        spec=model_at("http://127.0.0.1:9/v1"),
    )
    assert turn.answer == "ok"
    assert context.used.input_tokens == known
    assert json.dumps(collected.trajectory, allow_nan=False)
    assert ("usage.missing" in dict(context.issues)) is ('"x": 999' not in text)


def test_usage_that_nobody_reported_is_unknown_and_not_nothing(tmp_path):
    context, _, _ = one_turn(tmp_path, spec=model_at("http://127.0.0.1:9/v1"), command="echo hi", env={"M": "{model}"})
    assert context.used == Usage(calls=1)
    assert [code for code, _ in context.issues] == ["usage.missing"]


def test_links_and_pipes_that_the_agent_left_are_not_read(tmp_path):
    script = "ln -s /etc/passwd a.log; mkfifo b.log; mkdir c.log; echo real > d.log; echo 'x y' > 'e f.log'"
    _, _, collected = one_turn(tmp_path, command=["sh", "-c", script], keep=["*.log"])
    assert {name: content for name, content in collected.files.items() if name.endswith(".log")} == {
        "d.log": b"real\n",
        "e f.log": b"x y\n",
    }


def test_further_turns_resume_and_each_counts_once(tmp_path):
    async def work(session, context, sandbox):
        turns = [await session.send(Message(text)) for text in ("one", "two", "three")]
        return turns, await session.collect()

    say = """echo '{"answer": "'"$1 $2"'", "tokens": 5}'"""
    context, (turns, collected) = made(
        tmp_path, work, command=["sh", "-c", say, "sh", "first", "{prompt}"],
        resume=["sh", "-c", say, "sh", "again", "{prompt}"],
        output={"parser": "json", "answer": "answer", "usage": {"output_tokens": "tokens"}},
    )  # fmt: skip
    assert [turn.answer for turn in turns] == ["first one", "again two", "again three"]
    assert [turn.usage for turn in turns] == [Usage(calls=1, output_tokens=5)] * 3
    assert context.used == Usage(calls=3, output_tokens=15)
    assert {"stdout.txt", "stdout-2.txt", "stdout-3.txt"} <= set(collected.files)
    said = [step["message"] for step in collected.trajectory["steps"]]
    checked(collected.trajectory)
    assert said == ["one", "first one", "two", "again two", "three", "again three"]


@pytest.mark.long
def test_case_121_what_is_printed_without_end_is_bounded(tmp_path):
    script = "import sys\nfor _ in range(80): sys.stdout.write('x' * 1_000_000)\nprint('\\nthe end')"
    context, turn, collected = one_turn(tmp_path, command=[PYTHON, "-c", script])
    assert len(collected.files["stdout.txt"]) < 33 * 1024 * 1024
    assert turn.answer.endswith("the end")
    assert "left out" in turn.answer
    assert [code for code, _ in context.issues] == ["output.truncated"]


def test_usage_from_a_file_that_was_cut_is_a_part_of_it(tmp_path, monkeypatch):
    monkeypatch.setattr(command_place, "FILE_BYTES", 100)
    line = json.dumps({"tokens": 5}) + "\\n"
    context, _, collected = one_turn(
        tmp_path, spec=model_at("http://127.0.0.1:9/v1"), env={"M": "{model}"},
        command=["sh", "-c", f"for i in 1 2 3 4 5 6 7 8 9 10; do printf '{line}' >> log; done"], keep=["log"],
        output={"parser": "jsonl", "file": "log", "usage": {"output_tokens": "tokens"}},
    )  # fmt: skip
    assert [code for code, _ in context.issues] == ["output.truncated", "usage.missing"]
    assert context.used.unpriced_calls
    assert 0 < context.used.output_tokens < 50
    assert b"left out" in collected.files["log"]


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_what_is_kept_of_a_stream_is_its_beginning_and_its_end(size):
    data = bytes(range(256)) * 4
    kept = Kept(100)
    for start in range(0, len(data), size):
        kept.add(data[start : start + size])
    assert kept.dropped == len(data) - 100
    assert kept.content.startswith(data[:50] + b"\n[... ")
    assert kept.content.endswith(data[-50:])


def test_case_123_bytes_that_are_no_text_are_kept_as_they_are(tmp_path):
    _, turn, collected = one_turn(tmp_path, command=["sh", "-c", "printf 'a\\377\\0\\200b'"])
    assert collected.files["stdout.txt"] == b"a\xff\0\x80b"
    assert turn.answer == "a\ufffd\0\ufffdb"
