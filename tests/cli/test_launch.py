"""`proctor launch`, as a user meets it: several experiments, one invocation (spec 02 Launch file)."""

from __future__ import annotations

import json
import re
import resource
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import launch_plugins
import pytest
from program import HANG_SECONDS, Ended
from test_interrupts import wait_until

Proctor = Callable[..., Ended]
Process = Callable[..., "subprocess.Popen[str]"]

TWO = """\
defaults: {benchmark: trivial}
requests:
  - {name: gold, harness: oracle}
  - {name: nothing done, harness: nop}
"""


@pytest.fixture(autouse=True)
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "trace.txt"
    monkeypatch.setenv(launch_plugins.TRACE, str(path))
    return path


@pytest.fixture
def launch(proctor: Proctor, tmp_path: Path) -> Proctor:
    """Launch a file of that content."""

    def call(text: str, *more: str) -> Ended:
        (tmp_path / "launch.yaml").write_text(text)
        return proctor("launch", "launch.yaml", *more)

    return call


def summary(ended: Ended, name: str) -> dict[str, Any]:
    [run] = [run for run in ended.receipt["runs"] if run["experiment"] == name]
    return run


def decisions(ended: Ended) -> dict[str, int]:
    [plan] = [event for event in ended.events if event["type"] == "plan"]
    return plan["decisions"]


# ------------------------------------------------------------------------------------------------- one invocation


def test_02_each_request_has_its_directory_and_all_have_one_run_id_and_one_receipt(launch: Proctor) -> None:
    ended = launch(TWO, "--limit", "2", "--json")
    assert ended.code == 0
    assert {run["experiment"] for run in ended.receipt["runs"]} == {"gold", "nothing done"}
    assert [event["type"] for event in ended.events].count("receipt") == 1
    assert (summary(ended, "gold")["rate"], summary(ended, "nothing done")["rate"]) == (1.0, 0.0)
    names = [path.parent.name for path in ended.run_dirs]
    assert names[0] == "gold"
    assert re.fullmatch(r"nothing-done-[0-9a-f]{8}", names[1]), "a name that is no directory name is made one"
    assert len({path.name for path in ended.run_dirs}) == 1
    plans = [json.loads((path / "plan.json").read_text()) for path in ended.run_dirs]
    assert [plan["experiment"]["name"] for plan in plans] == ["gold", "nothing done"]


def test_08_a_start_time_that_is_taken_for_one_is_taken_for_all(
    launch: Proctor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("proctor.cli.opening.run_id_of", lambda _: "t")
    (tmp_path / "results/gold/t").mkdir(parents=True)
    ended = launch(TWO, "--limit", "1")
    assert {path.name for path in ended.run_dirs} == {"t_2"}
    assert {path.name for path in launch(TWO, "--limit", "1").run_dirs} == {"t_2", "t_3"}


def test_08_a_start_time_that_another_process_takes_in_between(
    launch: Proctor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    free = iter(["t", "t_3"])
    monkeypatch.setattr("proctor.cli.opening.free_run_id", lambda *_: next(free))
    (tmp_path / "results/gold/t").mkdir(parents=True)
    assert {path.name for path in launch(TWO, "--limit", "1").run_dirs} == {"t_3"}
    assert sorted(path.name for path in tmp_path.glob("results/*/t*")) == ["t", "t_3", "t_3"], "nothing is left of `t`"


def test_08_a_run_id_that_is_taken_for_one_leaves_nothing_of_the_others(launch: Proctor, tmp_path: Path) -> None:
    assert launch(TWO, "--limit", "1", "--run-id", "mine").code == 0
    gold = tmp_path / "results/gold/mine"
    gold.rename(tmp_path / "results/gold/elsewhere")
    ended = launch(TWO, "--limit", "1", "--run-id", "mine")
    assert ended.code == 2
    assert "run id `mine` is taken" in ended.err
    assert not gold.exists()


def test_02_invocation_wide_lines_are_in_every_log(launch: Proctor) -> None:
    ended = launch(TWO, "--limit", "1")
    for path in ended.run_dirs:
        log = (path / "run.log").read_text()
        assert "ended: exit code 0" in log
        assert re.search(r"run \S+ of ", log)


def test_02_limits_hold_over_all_requests(launch: Proctor, trace: Path) -> None:
    text = f"""
task_concurrency: 2
defaults:
  benchmark: trivial
  harness: {{id: "plugins:Sleeper", params: {{seconds: 0.02, trace: {trace}}}}}
requests: [{{name: a}}, {{name: b}}, {{name: c}}]
"""
    assert launch(text, "--limit", "3").code == 0
    running, most = 0, 0
    for line in trace.read_text().splitlines():
        running += 1 if line.startswith("start") else -1
        most = max(most, running)
    assert most == 2


def test_a_provider_is_one_object_for_all_and_is_finalized_once(launch: Proctor, trace: Path) -> None:
    text = """
defaults:
  benchmark: trivial
  harness: {id: "plugins:Sleeper", params: {command: "true"}}
  environment: "launch_plugins:Counting"
requests: [{name: a}, {name: b}]
"""
    assert launch(text, "--limit", "1").code == 0
    lines = trace.read_text().split("\n")[:-1]
    assert len({line for line in lines if line.startswith("open")}) == 1
    assert sum(line.startswith("open") for line in lines) == 2
    assert sum(line.startswith("finalize") for line in lines) == 1


def test_03_G11_limits_of_one_endpoint_that_differ_are_said_and_the_smallest_holds(launch: Proctor) -> None:
    text = """
defaults: {benchmark: trivial, harness: chat}
requests:
  - {name: a, model: {id: mock/echo, max_connections: 8}}
  - {name: b, model: {id: mock/echo, max_connections: 3}}
  - {name: c, model: mock/echo}
"""
    ended = launch(text, "--dry", "--json", "--limit", "1")
    [plan] = [event for event in ended.events if event["type"] == "plan"]
    assert [limit["value"] for limit in plan["limits"] if limit["name"] == "model"] == [3]
    said = "note: model mock/echo: max_connections is declared as 3, 8; the smallest holds for all that use it"
    assert ended.err.splitlines() == [said]
    assert said in launch(text, "--limit", "1").err


# ------------------------------------------------------------------------------------- one request's own failure


FAILING = """
defaults: {benchmark: trivial}
requests:
  - {name: broken, harness: oracle, setup: "launch_plugins:fails"}
  - {name: deaf, harness: chat, model: {id: nowhere, base_url: "http://127.0.0.1:9/v1", api_key: x}}
  - {name: gold, harness: oracle}
"""


def test_02_one_requests_failure_does_not_stop_the_others(launch: Proctor) -> None:
    quick = ("--set", "execution.retry_min_delay_seconds=0.01", "--set", "execution.retry_max_delay_seconds=0.02")
    ended = launch(FAILING, "--limit", "2", "--json", *quick)
    assert ended.code == 3
    assert summary(ended, "gold")["counts"]["passed"] == 2
    assert summary(ended, "broken")["counts"]["passed"] == 0
    assert summary(ended, "broken")["completion"] is not None
    assert summary(ended, "deaf")["counts"]["errored"] == 2
    assert len(ended.receipt["runs"]) == 3


def test_02_the_gate_is_of_each_experiment(launch: Proctor) -> None:
    assert launch(TWO, "--limit", "1", "--fail-under", "0.4").code == 1
    assert launch(TWO.replace("nop", "oracle"), "--limit", "1", "--fail-under", "1").code == 0


# ------------------------------------------------------------------------------------------------ nothing is spent


WRONG = """\
task_concurrency: 4
defaults: {benchmark: trivial, execution: {task_concurrency: 3}}
requests:
  - {name: a, harness: oracel}
  - {name: b, harness: oracle, atempts: 2}
  - {name: b, harness: oracle, benchmark: {id: trivial, params: {tasks: many}}}
"""


def test_02_all_errors_are_shown_at_once_and_nothing_is_started(launch: Proctor, tmp_path: Path) -> None:
    ended = launch(WRONG.replace(", execution: {task_concurrency: 3}", ""))
    assert ended.code == 2
    lines = [line.strip() for line in ended.err.splitlines()]
    assert any(line.startswith("launch.yaml:4: unknown harness `oracel`; did you mean `oracle`?") for line in lines)
    assert any(line.startswith("launch.yaml:5: unknown field `atempts`; did you mean `attempts`?") for line in lines)
    assert "launch.yaml:6: the name `b` is taken: launch.yaml:5 has it" in lines
    assert not (tmp_path / "results").exists()


def test_02_the_global_limit_in_the_defaults_names_its_place(launch: Proctor) -> None:
    ended = launch(WRONG)
    assert (
        "launch.yaml:2: `task_concurrency` is global: write it at the top of the file, not in the defaults" in ended.err
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("requests: [", "launch.yaml:"),
        ("a: 1\na: 2\n", "launch.yaml:2: the key `a` is there twice, first in line 1"),
        ("requests:\n\t- name: a\n", "launch.yaml:2:"),
        ("runtime: {record_url: \"${NOT_SET_ANYWHERE}\"}\nrequests: [{name: a, benchmark: trivial, harness: nop}]",
         "NOT_SET_ANYWHERE"),
        ("requests:\n- {name: a, harness: nop}", "launch.yaml:2: request `a` names no benchmark"),
        ("runtime: {provider_limits: {lokal: 3}}\nrequests: [{name: a, benchmark: trivial, harness: nop}]",
         "launch.yaml:1: unknown provider `lokal`; did you mean `local`?"),
    ],
)  # fmt: skip
def test_02_what_is_wrong_with_a_file(text: str, said: str, launch: Proctor, tmp_path: Path) -> None:
    ended = launch(text)
    assert ended.code == 2
    assert said in ended.err
    assert "Traceback" not in ended.err
    assert not (tmp_path / "results").exists()


def test_02_a_file_that_is_not_there(proctor: Proctor) -> None:
    ended = proctor("launch", "nowhere.yaml")
    assert ended.code == 2
    assert "cannot read `nowhere.yaml`: no such file or directory" in ended.err


def test_02_tasks_that_cannot_be_told_are_said_for_every_request(launch: Proctor) -> None:
    text = """
defaults: {harness: oracle, benchmark: {id: "plugins:Gradeable", params: {broken: tasks}}}
requests: [{name: a}, {name: b}]
"""
    ended = launch(text)
    assert ended.code == 2
    assert "a: benchmark `plugins:Gradeable` cannot tell its tasks" in ended.err
    assert "b: benchmark `plugins:Gradeable` cannot tell its tasks" in ended.err


# ------------------------------------------------------------------------------------------------ choosing tasks


MIXED = """
defaults: {harness: nop}
requests:
  - {name: a, benchmark: trivial}
  - {name: b, benchmark: "launch_plugins:OtherTasks"}
"""


@pytest.mark.parametrize(
    ("chosen", "slots", "note"),
    [
        (["--limit", "1"], {"a": 1, "b": 1}, None),
        (["--tasks", "t0001,other/a"], {"a": 1, "b": 1}, None),
        (["--tasks", "t0001,t0003"], {"a": 2}, "1 experiment left out that have none of the tasks asked for: b"),
        (["--tasks", "b"], {"b": 1}, "1 experiment left out that have none of the tasks asked for: a"),
        (["--tag", "a"], {"b": 1}, "left out"),
    ],
)
def test_02_tasks_are_chosen_over_all_requests(
    chosen: list[str], slots: dict[str, int], note: str | None, launch: Proctor
) -> None:
    ended = launch(MIXED, "--json", *chosen)
    assert ended.code == 0
    assert {run["experiment"]: run["counts"]["total"] for run in ended.receipt["runs"]} == slots
    assert (note or "") in ended.err
    assert ("left out" in ended.err) == (note is not None)


@pytest.mark.parametrize(
    ("chosen", "code", "said"),
    [
        (["--tasks", "nothing"], 4, "no task of benchmark `trivial` matches `nothing`"),
        (["--tasks", "other/a,othr/b"], 2, "has no task `othr/b`"),
        (["--tag", "nothing"], 4, "no task and no experiment has the tag `nothing`"),
    ],
)
def test_02_a_task_that_no_request_has(chosen: list[str], code: int, said: str, launch: Proctor) -> None:
    ended = launch(MIXED, *chosen)
    assert ended.code == code
    assert said in ended.err


# --------------------------------------------------------------------------------------------------------- reuse


def test_04_reuse_looks_in_each_requests_own_directory(launch: Proctor) -> None:
    launch(TWO, "--limit", "2", "--run-id", "first")
    assert decisions(launch(TWO, "--limit", "3", "--reuse", "--dry", "--json")) == {"reuse": 4, "execute: new": 2}
    renamed = TWO.replace("name: gold", "name: silver")
    assert decisions(launch(renamed, "--limit", "2", "--reuse", "--dry", "--json")) == {"execute: new": 2, "reuse": 2}
    ended = launch(TWO, "--limit", "3", "--reuse", "--json")
    assert (summary(ended, "gold")["rate"], summary(ended, "gold")["tries"]) == (1.0, 1)


def test_04_a_request_can_reuse_by_itself(launch: Proctor) -> None:
    launch(TWO, "--limit", "2")
    own = TWO.replace("harness: nop", "harness: nop, runtime: {reuse: true}")
    assert decisions(launch(own, "--limit", "2", "--dry", "--json")) == {"execute: new": 2, "reuse": 2}
    everyone = TWO.replace("benchmark: trivial}", "benchmark: trivial, runtime: {reuse: true}}")
    assert decisions(launch(everyone, "--limit", "2", "--dry", "--json")) == {"reuse": 4}
    again = launch(everyone, "--limit", "2", "--dry", "--json", "--rerun", "failed")
    assert decisions(again) == {"reuse": 2, "execute: rerun failed": 2}
    but_one = everyone.replace("harness: nop", "harness: nop, runtime: {reuse: false}")
    assert decisions(launch(but_one, "--limit", "2", "--dry", "--json")) == {"reuse": 2, "execute: new": 2}


def test_04_rerun_where_nothing_reuses_is_an_error(launch: Proctor) -> None:
    ended = launch(TWO, "--rerun", "all")
    assert ended.code == 2
    assert "`--rerun` needs a command that reuses" in ended.err


def test_04_R1_a_run_that_only_some_requests_have(launch: Proctor) -> None:
    launch(TWO, "--limit", "1", "--run-id", "first")
    three = TWO + "  - {name: new, harness: oracle}\n"
    assert decisions(launch(three, "--limit", "1", "--reuse=first", "--dry", "--json")) == {
        "reuse": 2,
        "execute: new": 1,
    }
    ended = launch(three, "--reuse=never")
    assert ended.code == 2
    assert "there is no run `never`" in ended.err
    assert "the runs there are first" in ended.err


# ---------------------------------------------------------------------------------------------------- precedence


@pytest.mark.parametrize(
    ("request_says", "more", "attempts", "concurrency"),
    [
        ("", [], 3, ("from launch.yaml", 5)),
        (", attempts: 4", [], 4, ("from launch.yaml", 5)),
        (", attempts: 4", ["--set", "attempts=5"], 5, ("from launch.yaml", 5)),
        (", attempts: 4", ["--set", "attempts=5", "--attempts", "6"], 6, ("from launch.yaml", 5)),
        ("", ["--config", "more.yaml", "--task-concurrency", "7"], 3, ("from flag", 7)),
    ],
)
def test_02_precedence(
    request_says: str, more: list[str], attempts: int, concurrency: tuple[str, int], launch: Proctor, tmp_path: Path
) -> None:
    (tmp_path / "proctor.yaml").write_text("execution: {attempts: 2, task_concurrency: 9}")
    (tmp_path / "more.yaml").write_text("execution: {attempts: 8, task_concurrency: 8}")
    text = f"""
task_concurrency: 5
defaults: {{benchmark: trivial, harness: nop, attempts: 3}}
requests: [{{name: a{request_says}}}]
"""
    ended = launch(text, "--dry", "--json", *more)
    [plan] = [event for event in ended.events if event["type"] == "plan"]
    assert plan["experiments"][0]["attempts"] == attempts
    assert (plan["concurrency_source"], plan["task_concurrency"][0]) == concurrency


def test_02_secrets_of_a_launch_file_are_written_nowhere(
    launch: Proctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_WORD", "verysecretvalue")
    text = """
defaults: {benchmark: trivial, harness: chat, flags: {word: "${A_WORD}"}}
requests: [{name: a, model: mock/echo}]
"""
    assert launch(text, "--limit", "1").code == 0
    for path in (tmp_path / "results").rglob("*"):
        if path.is_file():
            assert b"verysecretvalue" not in path.read_bytes(), path


# --------------------------------------------------------------------------------------------------- interrupted


@pytest.mark.long
@pytest.mark.integration
def test_10_I1_the_last_lines_say_how_to_launch_what_is_missing(
    process: Process, proctor: Proctor, tmp_path: Path
) -> None:
    text = """
task_concurrency: 2
defaults:
  benchmark: {id: trivial, params: {tasks: 20}}
  harness: {id: "plugins:Sleeper", params: {seconds: 0.1}}
requests: [{name: a}, {name: b}]
"""
    (tmp_path / "launch.yaml").write_text(text)
    started = process("launch", "launch.yaml")
    wait_until(lambda: sum(path.read_text().count('"AttemptSealed"') for path in tmp_path.rglob("journal.jsonl")) > 2,
               started)  # fmt: skip
    started.send_signal(signal.SIGINT)
    _, err = started.communicate(timeout=HANG_SECONDS)
    assert started.returncode == 130
    missing, hint = err.splitlines()[-2:]
    assert missing.startswith("missing: ")
    assert hint == "hint: to run what is missing: proctor launch launch.yaml --reuse"
    ended = proctor("launch", "launch.yaml", "--reuse", "--json", "--set", "harness.params.seconds=0.1")
    assert ended.code == 0
    assert [run["rate"] for run in ended.receipt["runs"]] == [1.0, 1.0]
    assert sum(run["tries"] for run in ended.receipt["runs"]) < 40


# ------------------------------------------------------------------------------------------------ very many of them


def many(count: int) -> str:
    names = ", ".join(f"{{name: r{number}}}" for number in range(count))
    return f"defaults: {{benchmark: trivial, harness: nop}}\nrequests: [{names}]\n"


def limited(files: int, hard: int | None = None) -> Callable[[], None]:
    return lambda: resource.setrlimit(
        resource.RLIMIT_NOFILE, (files, hard or resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    )


@pytest.mark.long
@pytest.mark.integration
def test_more_runs_than_files_may_be_open_so_far(program: Proctor, tmp_path: Path) -> None:
    (tmp_path / "launch.yaml").write_text(many(60))
    ended = program("launch", "launch.yaml", "--limit", "1", "--progress", "none", preexec_fn=limited(100))
    assert (ended.code, len(ended.run_dirs)) == (0, 60)


@pytest.mark.long
@pytest.mark.integration
def test_more_runs_than_files_may_ever_be_open(program: Proctor, tmp_path: Path) -> None:
    (tmp_path / "launch.yaml").write_text(many(60))
    ended = program("launch", "launch.yaml", "--limit", "1", preexec_fn=limited(100, 120))
    assert ended.code == 2
    assert "60 experiments at once need about 692 open files, and this process may have 120" in ended.err
    assert ended.run_dirs == []
