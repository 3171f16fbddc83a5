"""The configuration as people meet it: files, precedence, what is shown, and credentials (spec 02)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from program import Ended

Proctor = Callable[..., Ended]
SECRET = "hunter2-very-secret"

PROJECT = """\
execution:
  task_concurrency: 3
  attempts: 2
runtime:
  provider_limits: {local: 0o7}
models:
  gpt:
    id: mock/fixed
    api_key: ${GPT_KEY}
    params: {text: ok}
benchmarks:
  trivial: {params: {tasks: 2}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "proctor.yaml").write_text(PROJECT)
    (tmp_path / ".env").write_text(f"GPT_KEY={SECRET}\n")
    return tmp_path


@pytest.fixture(autouse=True)
def no_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `.env` adds to the environment is gone afterwards."""
    before = dict(os.environ)
    yield
    for name in set(os.environ) - set(before):
        monkeypatch.delenv(name, raising=False)
        os.environ.pop(name, None)


def rows(ended: Ended) -> dict[str, tuple[Any, str, int | None]]:
    assert ended.code == 0, ended.err
    return {row["field"]: (row["value"], row["from"], row["line"]) for row in json.loads(ended.out)}


# --------------------------------------------------------------------------------------------------- precedence


def test_02_run_check_and_plan_use_the_project(folder: Path, proctor: Proctor) -> None:
    planned = proctor("plan", "trivial", "chat", "gpt")
    assert planned.out.startswith("PLAN  4 attempts · 2 tasks · concurrency 3 (from proctor.yaml) · local 7")
    assert "experiment trivial/chat/gpt" in planned.out
    ran = proctor("run", "trivial", "chat", "gpt", "--json")
    assert ran.receipt["runs"][0]["counts"]["passed"] == 4
    checked = proctor("check", "trivial")
    assert (checked.code, "all 2 tasks solved" in checked.out) == (0, True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "concurrency 3 (from proctor.yaml)"),
        (["--config", "a.yaml"], "concurrency 4 (from a.yaml)"),
        (["--config", "a.yaml", "--config", "b.yaml"], "concurrency 5 (from b.yaml)"),
        (["--config", "b.yaml", "--config", "a.yaml"], "concurrency 4 (from a.yaml)"),
        (["--config", "a.yaml", "--set", "execution.task_concurrency=6"], "concurrency 6 (from --set)"),
        (["--set", "execution.task_concurrency=6", "--task-concurrency", "7"], "concurrency 7 (from flag)"),
    ],
)
@pytest.mark.parametrize("command", [["plan"], ["run", "--dry"], ["run", "--dry-run"]])
def test_02_the_stronger_one_wins_and_the_plan_says_which(
    folder: Path, proctor: Proctor, command: list[str], options: list[str], said: str
) -> None:
    (folder / "a.yaml").write_text("execution: {task_concurrency: 4}")
    (folder / "b.yaml").write_text("execution: {task_concurrency: 5}")
    before = sorted(folder.rglob("*"))
    ended = proctor(command[0], "trivial", "chat", "gpt", *command[1:], *options)
    assert said in ended.out.splitlines()[0]
    assert sorted(folder.rglob("*")) == before, "nothing is written"


def test_159_the_project_is_found_from_below_and_the_results_stay_here(
    folder: Path, proctor: Proctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "sub").mkdir()
    monkeypatch.chdir(folder / "sub")
    ended = proctor("run", "trivial", "chat", "gpt", "--limit", "1", "--json")
    assert ended.code == 0
    assert ended.run_dirs[0].is_relative_to(folder / "sub" / "results")
    assert proctor("plan", "trivial", "nop").out.splitlines()[0].count("(from ../proctor.yaml)") == 1


def test_02_every_error_of_all_files_is_said_at_once_and_nothing_starts(folder: Path, proctor: Proctor) -> None:
    (folder / "a.yaml").write_text("task_concurrency: 3\nexecution: {attempts: none}\n")
    (folder / "b.yaml").write_text("models: {gpt: {api_key: '${NO_SUCH}'}}\n")
    ended = proctor("run", "trivial", "chat", "gpt", "--config", "a.yaml", "--config", "b.yaml")
    assert ended.code == 2
    assert ended.err.splitlines()[:4] == [
        "error: 3 things are wrong with the configuration:",
        "  a.yaml:1: unknown field `task_concurrency`; it belongs to `execution.task_concurrency`",
        "  a.yaml:2: `execution.attempts`: must be a number, not 'none'",
        "  b.yaml:1: `models.gpt.api_key`: the environment variable `NO_SUCH` is not set (set it, or write a default: "
        "`${NO_SUCH:-...}`)",
    ]
    assert not (folder / "results").exists()


def test_02_errors_of_an_experiment_and_of_limits_are_said_at_once(folder: Path, proctor: Proctor) -> None:
    (folder / "a.yaml").write_text(
        "benchmarks:\n  trivial: {params: {tasks: many}}\nmodels:\n  gpt: {params: {txt: x}}\n"
        "runtime: {provider_limits: {dokcer: 3}}\n"
    )
    ended = proctor("run", "trivial", "chta", "gpt", "--config", "a.yaml", "--env", "locl", "--set", "attempts=0")
    assert ended.code == 2
    for said in (
        "unknown harness `chta`; did you mean `chat`?",
        "a.yaml:5: unknown provider `dokcer`",
        "`attempts`: input should be greater than or equal to 1",
    ):
        assert said in ended.err
    again = proctor("run", "trivial", "chat", "gpt", "--config", "a.yaml", "--env", "locl")
    assert "a.yaml:2: parameters of benchmark `trivial`: `tasks`" in again.err
    assert "unknown provider `locl`" in again.err
    model = proctor("run", "humaneval", "chat", "gpt", "--config", "a.yaml", "--set", "runtime.provider_limits={}")
    assert "a.yaml:4: model `mock/fixed` has no parameter `txt`" in model.err


# ------------------------------------------------------------------------------------------------- credentials


def test_02_the_value_of_a_variable_is_written_nowhere(folder: Path, proctor: Proctor) -> None:
    (folder / "a.yaml").write_text(
        "harnesses: {chat: {params: {system: 'say ${GPT_KEY}'}}}\nenvironments: {local: {env: {PLACE: '${GPT_KEY}'}}}\n"
    )
    ended = proctor("run", "trivial", "chat", "gpt", "--json", "--config", "a.yaml", "--set", "flags.a=1")
    assert ended.code == 0, ended.err
    shown = proctor("config", "show", "--config", "a.yaml")
    explained = proctor("config", "explain", "models.gpt.api_key")
    planned = proctor("plan", "trivial", "chat", "gpt", "--config", "a.yaml", "--json")
    for text in (ended.out, ended.err, shown.out, explained.out, planned.out, planned.err):
        assert SECRET not in text
    written = [path for path in (folder / "results").rglob("*") if path.is_file()]
    assert len(written) > 5
    assert not [path for path in written if SECRET.encode() in path.read_bytes()]


@pytest.mark.parametrize(
    "text",
    [
        "models: {gpt: {base_url: 'http://u:${GPT_KEY}@h'}}",
        "models: {gpt: {params: {text: ok, '${GPT_KEY}': 1}}}",
        "models: {gpt: {params: {text: [ '${GPT_KEY}' ]}}}",
        "models: {gpt: {max_connections: '${GPT_KEY}'}}",
        "models: {gpt: '${GPT_KEY}'}",
        "models: {gpt: {id: '${GPT_KEY}'}}",
        "models: {gpt: {id: 'mock/${GPT_KEY}'}}",
        "models: ${GPT_KEY}",
        "runtime: {provider_limits: {local: '${GPT_KEY}'}}",
        "execution: {retry_pattern_list: ['(${GPT_KEY}']}",
        "benchmarks: {trivial: {params: {tasks: '${GPT_KEY}'}}}",
        "harnesses: {chat: {params: {system: ['${GPT_KEY}']}}}",
        "environments: {local: {env: {A: ['${GPT_KEY}']}}}",
        "execution: ['${GPT_KEY}']",
    ],
)
def test_02_no_error_repeats_the_value_of_a_variable(folder: Path, proctor: Proctor, text: str) -> None:
    (folder / "a.yaml").write_text(text)
    ended = proctor("run", "trivial", "chat", "gpt", "--config", "a.yaml")
    assert ended.code == 2, ended.err
    assert SECRET not in ended.out + ended.err


# ---------------------------------------------------------------------------------------- show, explain, schema


def test_02_show_prints_every_value_with_where_it_came_from(folder: Path, proctor: Proctor) -> None:
    found = rows(proctor("config", "show", "--json", "--set", "timeout_seconds=5", "--set", "execution.max_retries=3"))
    assert found["execution.task_concurrency"] == (3, "proctor.yaml", 2)
    assert found["execution.max_retries"] == (3, "--set", None)
    assert found["execution.timeout_multiplier"] == (1.0, "default", None)
    assert found["runtime.provider_limits.local"] == (7, "proctor.yaml", 5)
    assert found["models.gpt.id"] == ("mock/fixed", "proctor.yaml", 8)
    assert found["models.gpt.api_key"] == ("[redacted]", "proctor.yaml", 9)
    assert found["benchmarks.trivial.params.tasks"] == (2, "proctor.yaml", 12)
    assert found["experiment.attempts"] == (2, "proctor.yaml", 3), "what experiments get that say nothing of it"
    assert found["experiment.max_retries"] == (3, "--set", None)
    assert found["experiment.timeout_seconds"] == (5, "--set", None)
    assert found["experiment.early_exit"] == (False, "default", None)


def test_153_an_override_by_another_file_is_shown(folder: Path, proctor: Proctor) -> None:
    (folder / "a.yaml").write_text("models: {gpt: {params: {text: no}}}")
    found = rows(proctor("config", "show", "--json", "--config", "a.yaml"))
    assert found["models.gpt.params.text"] == ("no", "a.yaml", 1)
    assert found["models.gpt.id"] == ("mock/fixed", "proctor.yaml", 8)


def test_02_show_leaves_out_credentials_by_their_names_and_in_addresses(folder: Path, proctor: Proctor) -> None:
    (folder / "a.yaml").write_text(
        "runtime: {record_url: 'postgresql://me:hunter2@host/db'}\n"
        "models: {gpt: {api_key: hunter2, params: {headers: {Authorization: Bearer hunter2}, my_token: hunter2}}}\n"
        "environments: {local: {env: {DB_PASSWORD: hunter2}}}\n"
    )
    ended = proctor("config", "show", "--config", "a.yaml", "--set", "model.api_key=hunter2")
    assert ended.code == 0
    assert "hunter2" not in ended.out
    assert "postgresql://[redacted]@host/db" in ended.out


def test_02_show_says_that_a_variable_is_not_set(tmp_path: Path, proctor: Proctor) -> None:
    (tmp_path / "proctor.yaml").write_text("models: {gpt: {api_key: '${NO_SUCH_KEY}', params: {a: '${NO_SUCH_KEY}'}}}")
    found = rows(proctor("config", "show", "--json"))
    assert found["models.gpt.api_key"][0] == "[refers to a variable that is not set]"
    assert proctor("plan", "trivial", "nop").code == 0
    assert (
        "`models.gpt.params.a`: the environment variable `NO_SUCH_KEY`" in proctor("plan", "trivial", "chat", "gpt").err
    )


def test_02_show_without_a_project_lists_the_defaults(tmp_path: Path, proctor: Proctor) -> None:
    lines = proctor("config", "show").out.splitlines()
    assert all(line.endswith("default") for line in lines)
    assert any(line.split() == ["runtime.results_dir", '"results"', "default"] for line in lines)


@pytest.mark.parametrize(
    "arguments", [["--set", "attempts=0"], ["--set", "execution.attempts=0"], ["--config", "none"]]
)
def test_02_show_says_what_is_wrong(folder: Path, proctor: Proctor, arguments: list[str]) -> None:
    ended = proctor("config", "show", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: ")


def test_02_explain_says_what_a_field_is_and_what_sets_it(folder: Path, proctor: Proctor) -> None:
    ended = proctor("config", "explain", "attempts")
    assert ended.out.splitlines() == [
        "attempts",
        "  Attempts per task.",
        "  takes    a whole number of at least 1",
        "  default  1",
        "  set by   --attempts",
        "           --set attempts=...",
        "           a launch request or its defaults: attempts",
        "           Python: `attempts` of a call or an `Experiment`",
        "           execution.attempts, where nothing else says it",
        "  here     2 (proctor.yaml:3)",
    ]
    assert "  here     local = 7 (proctor.yaml:5)" in proctor("config", "explain", "provider_limits").out


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("results_dir", ["runtime.results_dir"]),
        ("runtime.results_dir", ["runtime.results_dir"]),
        ("base_url", ["model.base_url", "judge.base_url", "models.NAME.base_url"]),
        ("models.gpt.base_url", ["models.NAME.base_url"]),
        ("benchmark.params.tasks", ["benchmark.params"]),
        ("runtime.provider_limits.local", ["runtime.provider_limits"]),
        ("shared_state", ["shared_state"]),
    ],
)
def test_02_explain_finds_fields_by_their_path_or_their_name(
    folder: Path, proctor: Proctor, asked: str, found: list[str]
) -> None:
    ended = proctor("config", "explain", asked, "--json")
    assert [one["field"] for one in json.loads(ended.out)] == found


@pytest.mark.parametrize("asked", ["timout_second", "model.base_ulr", "models.gpt.base_ulr", "attempts.x", "x", ""])
def test_02_explain_names_the_nearest_field(folder: Path, proctor: Proctor, asked: str) -> None:
    ended = proctor("config", "explain", asked)
    assert ended.code == 2
    assert f"unknown field `{asked}`" in ended.err


def test_every_field_is_explained() -> None:
    from proctor.config.explain import fields

    assert not [one.path for one in fields() if not one.words]
    assert not [one.path for one in fields() if one.takes == "any value"]


def test_02_the_schemas_are_json_schemas_that_accept_the_files_of_the_documents(proctor: Proctor) -> None:
    for name in ("project", "launch"):
        ended = proctor("config", "schema", name)
        schema = json.loads(ended.out)
        assert schema["$schema"].startswith("https://json-schema.org/")
        assert schema["additionalProperties"] is False
        assert "^x-" in schema["patternProperties"]
    assert proctor("config", "schema").out == proctor("config", "schema", "project").out


# ---------------------------------------------------------------------------------------------------------- 159


def test_159_help_costs_no_configuration(program: Callable[..., Ended]) -> None:
    ended = program("--help", env={**os.environ, "PYTHONPROFILEIMPORTTIME": "1"})
    imported = {line.rpartition("|")[2].strip() for line in ended.err.splitlines() if "import time:" in line}
    assert not {"ruamel.yaml", "dotenv", "pydantic", "proctor.config.schema"} & imported
