"""What is configured, in runs from Python: variables, proxies, tags, directories, shared benchmarks (spec 02)."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import click.testing
import pytest

import proctor
from proctor.cli.commands import show
from proctor.config.yaml_file import BYTES_AT_MOST
from proctor.errors import NothingToRun, UsageError

SECRET = "hidden-value-8841"


@pytest.fixture(autouse=True)
def project(environment: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))  # type: ignore[no-untyped-call]
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    return tmp_path


def texts_below(directory: Path) -> str:
    files = [path for path in directory.rglob("*") if path.is_file()]
    assert files
    assert all(path.stat().st_size <= BYTES_AT_MOST for path in files)
    return "\n".join(path.read_bytes().decode(errors="replace") for path in files)


def launch_of(text: str, **arguments: Any) -> proctor.LaunchResult:
    Path("launch.yaml").write_text(text)
    return proctor.launch("launch.yaml", **arguments)


# --------------------------------------------------------------------------------------------------------- proxies

LOOKS = """\
from proctor import task

@task
async def looks(t):
    done = await t.sandbox.exec("env | grep -i _proxy | sort > {seen}")
    t.check("looked", True)
    print("the proxy is", (await t.sandbox.exec("echo $http_proxy")).stdout)
"""


def seen_by(project: Path, **fields: Any) -> dict[str, str]:
    seen = project / "seen.txt"
    (project / "evals").mkdir(exist_ok=True)
    (project / "evals" / "naps.py").write_text(LOOKS.format(seen=seen))
    result = proctor.run("evals", "chat", "mock/echo", **fields)
    assert result.exit_code == 0
    return dict(line.split("=", 1) for line in seen.read_text().splitlines())


def test_conf_157_sandboxes_get_the_proxy_variables_in_both_spellings_and_nobody_reads_their_credentials(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"http://bob:{SECRET}@proxy.example:3128"
    monkeypatch.setenv("http_proxy", address)
    monkeypatch.setenv("NO_PROXY", "localhost,.corp")
    found = seen_by(project, environment={"provider": "local", "proxy": True})
    assert found == {
        "http_proxy": address, "HTTP_PROXY": address, "NO_PROXY": "localhost,.corp", "no_proxy": "localhost,.corp",
    }  # fmt: skip
    written = texts_below(project / "results")
    assert SECRET not in written
    assert '"proxy":true' in written
    assert "http_proxy=http://[redacted]@proxy.example:3128, no_proxy=localhost,.corp" in written


def test_conf_157_without_the_setting_they_get_none(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    assert seen_by(project) == {}
    assert '"proxy":false' in texts_below(project / "results")


def test_conf_157_what_the_experiment_says_itself_is_stronger(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    found = seen_by(project, environment={"provider": "local", "proxy": True, "env": {"HTTP_PROXY": "http://own:1"}})
    assert found == {
        "HTTP_PROXY": "http://own:1",
        "https_proxy": "http://proxy.example:3128",
        "HTTPS_PROXY": "http://proxy.example:3128",
    }


def test_conf_157_it_is_said_where_there_is_nothing_to_pass() -> None:
    plan = proctor.plan("trivial", "oracle", environment={"provider": "local", "proxy": True})
    assert any("no proxy variable is set here" in note for note in plan.notes)


# ------------------------------------------------------------------------------------------------ variables, names


def test_02_what_a_hook_says_last_is_without_the_values_of_variables(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_VALUE", SECRET)
    (project / "hooks.py").write_text(
        "import os\ndef breaks():\n    raise RuntimeError('no luck with ' + os.environ['SOME_VALUE'])\n"
    )
    result = launch_of(
        "defaults: {benchmark: {id: trivial, params: {tasks: 1}}, harness: oracle}\n"
        "requests: [{name: a, setup: 'hooks.py:breaks', flags: {x: '${SOME_VALUE}'}}, {name: b}]\n"
    )
    assert [run.exit_code for run in result.values()] == [3, 0]
    written = texts_below(project / "results")
    assert "no luck with [redacted" in written
    assert SECRET not in written


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("requests: [{name: 'a-${V}'}]", "the name holds the value of a variable"),
        ("requests: [{name: a, shared_state: {key: 'k-${V}'}}]", "`shared_state.key` holds the value of a variable"),
        ("matrix: {name: '{flags.x}', flags: [{x: '${V}'}]}", "`flags.x` holds the value of a variable"),
    ],
)
def test_02_names_that_are_written_down_hold_no_values_of_variables(
    text: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("V", SECRET)
    with pytest.raises(UsageError) as error:
        launch_of(f"defaults: {{benchmark: trivial, harness: oracle}}\n{text}\n")
    assert said in error.value.message
    assert error.value.message.startswith("launch.yaml:2: ")
    assert SECRET not in f"{error.value.message}{error.value.hint}"


def test_02_ids_and_the_directory_of_results_may_come_from_variables_and_are_shown(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODEL_ID", "mock/echo")
    monkeypatch.setenv("WHERE", str(project / "somewhere"))
    [run] = launch_of(
        "runtime: {results_dir: '${WHERE}'}\n"
        "requests: [{name: a, benchmark: trivial, harness: chat, model: '${MODEL_ID}'}]\n",
        limit=1,
    ).values()
    assert run.directory.is_relative_to(project / "somewhere")
    assert json.loads((run.directory / "plan.json").read_text())["experiment"]["model"]["id"] == "mock/echo"
    assert "redacted" not in texts_below(run.directory)


def test_02_a_variable_that_is_not_set_is_the_only_thing_that_is_said_of_its_value() -> None:
    Path("proctor.yaml").write_text("models: {m: {id: mock/echo, api_key: '${NOT_SET_HERE}'}}\n")
    with pytest.raises(UsageError) as error:
        proctor.plan("trivial", "chat", "m")
    assert error.value.message.count("\n") == 0
    assert "`NOT_SET_HERE` is not set" in error.value.message


# ----------------------------------------------------------------------------------------------------- directories


@pytest.mark.parametrize("file", ["proctor.yaml", "more.yaml"])
def test_02_the_directory_of_results_is_relative_to_the_file_that_names_it(
    file: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("proctor.yaml").write_text("{}")
    Path(file).write_text("runtime: {results_dir: kept}\n")
    (project / "deep" / "down").mkdir(parents=True)
    monkeypatch.chdir(project / "deep" / "down")
    config = "../../more.yaml" if file == "more.yaml" else ()
    result = proctor.run("trivial", "oracle", limit=1, config=config)
    assert result.directory.resolve().is_relative_to(project / "kept")
    here = proctor.run("trivial", "oracle", limit=1, config=config, results_dir="mine")
    assert here.directory.resolve().is_relative_to(project / "deep" / "down" / "mine")


# ------------------------------------------------------------------------------------------------- tags and labels


def test_02_tags_and_labels_of_a_request_reach_its_plan_and_are_shown() -> None:
    result = launch_of(
        "defaults: {benchmark: {id: trivial, params: {tasks: 1}}, harness: oracle, labels: {team: blue}}\n"
        "requests: [{name: a, tags: [smoke], labels: {try: 7e10}}, {name: b}]\n",
        tag="smoke",
    )
    assert list(result) == ["a"]
    experiment = json.loads((result["a"].directory / "plan.json").read_text())["experiment"]
    assert (experiment["tags"], experiment["labels"]) == (["smoke"], {"team": "blue", "try": "7e10"})
    shown = click.testing.CliRunner().invoke(show.command, [str(result["a"].directory)])
    assert "tags: smoke\nlabels: team=blue, try=7e10\n" in shown.output


# ----------------------------------------------------------------------------------------------------- many requests

COUNTED = """\
from proctor.benchmarks.trivial import Trivial
READ = []

class Counted(Trivial):
    async def tasks(self):
        READ.append(self)
        return await super().tasks()
"""


def test_a_benchmark_is_read_once_for_all_requests_that_have_the_same(project: Path) -> None:
    (project / "counted_benchmark.py").write_text(COUNTED)
    result = launch_of(
        "defaults: {benchmark: {id: 'counted_benchmark:Counted', params: {tasks: 2}}, harness: oracle}\n"
        "requests: [{name: a}, {name: b, attempts: 2}, {name: c, benchmark: {params: {tasks: 1}}}]\n"
    )
    assert len(sys.modules["counted_benchmark"].READ) == 2
    assert [run.counts["passed"] for run in result.values()] == [2, 4, 1]


def test_the_log_of_a_run_says_nothing_of_the_start_of_others() -> None:
    result = launch_of(
        "defaults: {benchmark: {id: trivial, params: {tasks: 1}}, harness: oracle}\n"
        "requests: [{name: first-one}, {name: second-one}]\n"
    )
    for name, run in result.items():
        log = (run.directory / "run.log").read_text()
        assert f"run {run.run_id} of {name}: 1 slots" in log
        assert ("second-one" if name == "first-one" else "first-one") not in log.partition("ended")[0]


def test_02_an_empty_benchmark_is_said_with_the_request_that_has_it(project: Path) -> None:
    (project / "evals").mkdir()
    with pytest.raises(NothingToRun, match=r"^two: there are no tasks in "):
        launch_of(
            "requests: [{name: one, benchmark: trivial, harness: oracle},"
            " {name: two, benchmark: evals, harness: chat, model: mock/echo}]"
        )


# --------------------------------------------------------------------------------------------------- wrong values


@pytest.mark.parametrize("door", ["call", "launch"])
@pytest.mark.parametrize("value", [object(), {1, 2}, b"a", float("nan"), [float("inf")], {1: 2}, 10**5000], ids=type)
def test_02_flags_that_no_file_could_hold_are_refused(value: Any, door: str) -> None:
    fields: Any = {"benchmark": "trivial", "harness": "oracle", "flags": {"x": value}}
    with pytest.raises(UsageError, match="flags") as error:
        proctor.plan(**fields if door == "call" else {"launch": {"requests": [{"name": "a", **fields}]}})
    assert error.value.hint


@pytest.mark.parametrize(
    "arguments",
    [
        {"benchmark": 3, "harness": "oracle"},
        *({"benchmark": "trivial", "harness": "oracle", name: 3} for name in ("tasks", "tag", "runtime", "config")),
        {"launch": 3},
        {"launch": {"requests": [3]}},
        {"launch": {}},
    ],
    ids=str,
)
def test_02_arguments_of_a_wrong_type_are_errors_of_usage_with_a_hint(arguments: Any) -> None:
    with pytest.raises(proctor.UsageError) as error:
        proctor.plan(**arguments)
    assert error.value.hint


def test_02_a_line_of_env_without_a_value_is_an_error_with_its_line() -> None:
    Path(".env").write_text("A=1\nB\n")
    with pytest.raises(UsageError, match=r"^\.env:2: not of the form NAME=value$"):
        proctor.plan("trivial", "oracle")
