"""`proctor exp`: experiments that are checked in as Python files (spec 02, spec 04)."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from program import Ended

Proctor = Callable[..., Ended]

OK = "model={'id': 'mock/fixed', 'params': {'text': 'ok'}}"
WRONG = "model={'id': 'mock/fixed', 'params': {'text': 'no'}}"
TRIVIAL = "benchmark={'id': 'trivial', 'params': {'tasks': 3}}, harness='chat'"


@pytest.fixture(autouse=True)
def _own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])


def write(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("from proctor import Experiment\n" + text, encoding="utf-8")


def one(folder: Path, name: str = "smoke", model: str = OK, more: str = "") -> None:
    write(folder, f"experiments/{name}.py", f"experiment = Experiment({TRIVIAL}, {model}, {more})\n")


def experiments(ended: Ended) -> set[str]:
    return {event["experiment"] for event in ended.events if event["type"] == "RunStarted"}


def plans(ended: Ended) -> dict[str, dict[str, object]]:
    [plan] = [json.loads((path / "plan.json").read_text()) for path in ended.run_dirs][:1]
    return plan


def test_all_experiments_are_run_in_directories_of_their_own(proctor: Proctor, tmp_path: Path) -> None:
    one(tmp_path, "smoke")
    one(tmp_path, "nightly/deep")
    ended = proctor("exp")
    assert ended.code == 0, ended.err
    assert sorted(path.parent.relative_to(tmp_path / "results").as_posix()[:12] for path in ended.run_dirs) == [
        "nightly-deep",
        "smoke",
    ]
    assert len({path.name for path in ended.run_dirs}) == 1  # one invocation, one run id


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (["nightly"], {"nightly/deep", "nightly/wide"}),
        (["nightly/d"], {"nightly/deep"}),
        (["experiments/nightly/deep.py"], {"nightly/deep"}),
        (["./experiments/nightly/"], {"nightly/deep", "nightly/wide"}),
        (["experiments"], {"nightly/deep", "nightly/wide", "smoke"}),
        (["."], {"nightly/deep", "nightly/wide", "smoke"}),
        ([""], {"nightly/deep", "nightly/wide", "smoke"}),
    ],
)
def test_experiments_are_chosen_by_the_beginning_of_their_ids(
    proctor: Proctor, tmp_path: Path, typed: list[str], expected: set[str]
) -> None:
    for name in ("smoke", "nightly/deep", "nightly/wide"):
        one(tmp_path, name)
    ended = proctor("exp", *typed, "--dry", "--json")
    assert ended.code == 0, ended.err
    [plan] = [event for event in ended.events if event["type"] == "plan"]
    assert {each["name"] for each in plan["experiments"]} == expected


def test_a_path_that_is_typed_means_that_file_alone(proctor: Proctor, tmp_path: Path) -> None:
    one(tmp_path, "naps")
    one(tmp_path, "naps2")
    ended = proctor("exp", "experiments/naps.py", "--json")
    assert (ended.code, experiments(ended)) == (0, {"naps"})


def test_one_experiment_of_a_list(proctor: Proctor, tmp_path: Path) -> None:
    write(
        tmp_path,
        "experiments/compare.py",
        f"experiments = [Experiment({TRIVIAL}, name=n, {OK}) for n in ('low', 'high')]",
    )
    ended = proctor("exp", "compare/h", "--json")
    assert (ended.code, experiments(ended)) == (0, {"compare/high"})


def test_words_behind_narrow_the_tasks(proctor: Proctor, tmp_path: Path) -> None:
    one(tmp_path, "smoke")
    one(tmp_path, "wide")
    ended = proctor("exp", "smoke", "t0002", "t0000", "--json")
    assert ended.code == 0, ended.err
    assert [event["task"] for event in ended.events if event["type"] == "AttemptSealed"] == ["t0000", "t0002"]


def test_experiments_that_have_none_of_the_tasks_are_left_out(proctor: Proctor, tmp_path: Path) -> None:
    one(tmp_path, "few", more="tasks=['t0000']")
    one(tmp_path, "all")
    ended = proctor("exp", "", "t0001", "--json")
    assert (ended.code, experiments(ended)) == (0, {"all"})
    assert "1 experiment left out that have none of the tasks asked for: few" in ended.err


def test_a_task_that_nothing_matches_is_nothing_to_run(proctor: Proctor, tmp_path: Path) -> None:
    one(tmp_path)
    ended = proctor("exp", "smoke", "t0001", "u0001")
    assert (ended.code, ended.run_dirs) == (4, [])
    assert "no task of the chosen experiments begins with `u0001`" in ended.err
    assert "did you mean `t0001`?" in ended.err


def test_no_match_names_the_nearest(proctor: Proctor, tmp_path: Path) -> None:
    one(tmp_path, "smoke")
    one(tmp_path, "nightly/deep")
    ended = proctor("exp", "nigthly/deep")
    assert (ended.code, ended.run_dirs) == (4, [])
    assert "no experiment begins with `nigthly/deep`" in ended.err
    assert "did you mean `nightly/deep`?" in ended.err


def test_without_experiments_init_is_the_way(proctor: Proctor, tmp_path: Path) -> None:
    ended = proctor("exp")
    assert ended.code == 2
    assert "there is no directory `experiments`" in ended.err
    assert "`proctor init`" in ended.err
    (tmp_path / "experiments").mkdir()
    assert proctor("exp").code == 4


def test_a_broken_file_stops_before_anything_is_started(proctor: Proctor, tmp_path: Path) -> None:
    """Spec 02: an import error names file and line and stops before any cost."""
    one(tmp_path, "smoke")
    write(tmp_path, "experiments/broken.py", "\nimport no_such_module\n")
    write(tmp_path, "experiments/typo.py", "experiment = Experiment(harness='nop',\n  atempts=2)\n")
    ended = proctor("exp")
    assert (ended.code, ended.run_dirs) == (2, [])
    assert "experiments/broken.py:3: cannot be imported: ModuleNotFoundError" in ended.err
    assert "experiments/typo.py:3: unknown field `atempts` of Experiment; did you mean `attempts`?" in ended.err


def test_a_broken_file_holds_nobody_who_does_not_ask_for_it(proctor: Proctor, tmp_path: Path) -> None:
    one(tmp_path, "smoke")
    write(tmp_path, "experiments/broken.py", "1/0")
    assert proctor("exp", "smoke").code == 0


def test_wrong_values_are_said_with_file_and_line_all_at_once(proctor: Proctor, tmp_path: Path) -> None:
    write(tmp_path, "experiments/a.py", f"experiment = Experiment({TRIVIAL}, {OK},\n  attempts='many',\n  budget=-1)\n")
    write(tmp_path, "experiments/b.py", "experiment = Experiment(benchmark='trivial', harness='chta')\n")
    ended = proctor("exp")
    assert (ended.code, ended.run_dirs) == (2, [])
    assert "experiments/a.py:3: " in ended.err
    assert "experiments/a.py:4: " in ended.err
    assert "did you mean `chat`?" in ended.err


# ------------------------------------------------------------------------------------------------- gate and reuse


def test_broken_files_and_wrong_values_are_said_together(proctor: Proctor, tmp_path: Path) -> None:
    one(tmp_path, "values", more="tags='quick'")
    write(tmp_path, "experiments/broken.py", "experiment = Experiment(harnes='chat')\n")
    write(tmp_path, "experiments/nothing.py", "x = 1\n")
    ended = proctor("exp")
    assert ended.code == 2
    assert ended.err.startswith("error: 3 things are wrong")
    for place in ("experiments/broken.py:2", "experiments/nothing.py", "experiments/values.py:2"):
        assert place in ended.err


def test_a_task_in_the_place_of_an_experiment_is_told_apart(proctor: Proctor, tmp_path: Path) -> None:
    one(tmp_path)
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals" / "naps.py").write_text("from proctor import task\n@task\nasync def short(t): ...\n")
    ended = proctor("exp", "naps/sh")
    assert ended.code == 4
    assert "tasks are named behind the experiment: `proctor exp smoke naps/sh`" in ended.err


def test_the_gate_is_that_all_pass_unless_told_otherwise(proctor: Proctor, tmp_path: Path) -> None:
    one(tmp_path, model=WRONG)
    assert proctor("exp").code == 1
    assert proctor("exp", "--rerun", "all", "--fail-under", "0").code == 0


def test_each_experiment_has_to_meet_the_gate(proctor: Proctor, tmp_path: Path) -> None:
    one(tmp_path, "good")
    one(tmp_path, "bad", model=WRONG)
    assert proctor("exp").code == 1


def attempts_executed(ended: Ended) -> int:
    return sum(event["type"] == "AttemptSealed" for event in ended.events)


def test_what_is_saved_is_reused_from_the_whole_record(proctor: Proctor, tmp_path: Path) -> None:
    """Spec 04: candidates of `exp` are in the whole record, whatever they were run as."""
    one(tmp_path, "smoke")
    assert attempts_executed(proctor("exp", "--json")) == 3
    assert attempts_executed(proctor("exp", "--json")) == 0
    (tmp_path / "experiments/smoke.py").rename(tmp_path / "experiments/renamed.py")
    again = proctor("exp", "--json", "--run-name", "elsewhere")
    assert (again.code, attempts_executed(again)) == (0, 0)


def test_what_failed_is_run_again_when_asked(proctor: Proctor, tmp_path: Path) -> None:
    one(tmp_path, model=WRONG)
    one(tmp_path, "good")
    proctor("exp")
    assert attempts_executed(proctor("exp", "--json")) == 0
    assert attempts_executed(proctor("exp", "--json", "--rerun")) == 3
    assert attempts_executed(proctor("exp", "--json", "--rerun", "all")) == 6


def test_one_run_can_be_named(proctor: Proctor, tmp_path: Path) -> None:
    """Spec 02 Optional values: a word behind `--reuse` may be a positional argument here, and is one."""
    one(tmp_path)
    proctor("exp", "--run-id", "first", "--limit", "1")
    proctor("exp", "--run-id", "second", "--rerun", "all")
    assert attempts_executed(proctor("exp", "--json", "--reuse=first")) == 2
    assert attempts_executed(proctor("exp", "--json", "--reuse", "smoke")) == 0
    assert attempts_executed(proctor("exp", "--json", "--rerun", "smoke")) == 0
    ended = proctor("exp", "--reuse=third")
    assert ended.code == 2
    assert "there is no run `third`" in ended.err


def test_more_attempts_keep_those_there_are(proctor: Proctor, tmp_path: Path) -> None:
    one(tmp_path)
    proctor("exp")
    assert attempts_executed(proctor("exp", "--json", "--attempts", "2")) == 3


# ------------------------------------------------------------------------------------------------ tags, plan, set


def test_tags_choose_whole_experiments(proctor: Proctor, tmp_path: Path) -> None:
    one(tmp_path, "smoke", more="tags=['quick']")
    one(tmp_path, "deep")
    ended = proctor("exp", "--tag", "quick", "--json")
    assert (ended.code, experiments(ended)) == (0, {"smoke"})
    assert proctor("exp", "--tag", "slow").code == 4


def test_dry_starts_and_writes_nothing(proctor: Proctor, tmp_path: Path) -> None:
    one(tmp_path)
    ended = proctor("exp", "--dry")
    assert ended.code == 0, ended.err
    assert "execute: new" in ended.out
    assert not (tmp_path / "results").exists()


def test_the_command_line_is_stronger_than_the_file(proctor: Proctor, tmp_path: Path) -> None:
    """Spec 02 Precedence: command line > `--set` > experiment > `proctor.yaml`."""
    (tmp_path / "proctor.yaml").write_text("execution: {attempts: 7}\n")
    one(tmp_path, more="attempts=3")
    assert len(plan_slots(proctor("exp", "--dry", "--json"))) == 9
    assert len(plan_slots(proctor("exp", "--dry", "--json", "--set", "attempts=2"))) == 6
    assert len(plan_slots(proctor("exp", "--dry", "--json", "--set", "attempts=2", "--attempts", "1"))) == 3


def plan_slots(ended: Ended) -> list[object]:
    return [event for event in ended.events if event["type"] == "slot"]


def test_models_may_be_named_as_the_project_calls_them(proctor: Proctor, tmp_path: Path) -> None:
    (tmp_path / "proctor.yaml").write_text("models: {main: {id: mock/fixed, params: {text: ok}}}\n")
    one(tmp_path, model="model='main'")
    assert proctor("exp").code == 0


def test_the_project_is_found_from_a_directory_below(
    proctor: Proctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "proctor.yaml").write_text("{}\n")
    one(tmp_path)
    (tmp_path / "src").mkdir()
    monkeypatch.chdir(tmp_path / "src")
    ended = proctor("exp", "--dry")
    assert ended.code == 0, ended.err


@pytest.mark.long
def test_hooks_of_a_file_are_run_and_count_by_what_they_stand_for(proctor: Proctor, tmp_path: Path) -> None:
    def hooked(text: str, decorator: str = "") -> None:
        write(
            tmp_path,
            "experiments/hooked.py",
            f"from pathlib import Path\nfrom proctor import hook\n{decorator}\n"
            f"def prepare():\n    Path('prepared').write_text({text!r})\n"
            "def clean():\n    Path('cleaned').touch()\n"
            f"experiment = Experiment({TRIVIAL}, {OK}, setup=prepare, teardown=clean)\n",
        )

    hooked("one")
    ended = proctor("exp", "--json")
    assert (ended.code, attempts_executed(ended)) == (0, 3), ended.err
    assert (tmp_path / "prepared").read_text() == "one"
    assert (tmp_path / "cleaned").exists()
    assert attempts_executed(proctor("exp", "--json")) == 0
    hooked("two")
    assert attempts_executed(proctor("exp", "--json")) == 3
    hooked("three", "@hook(identity='v1')")
    assert attempts_executed(proctor("exp", "--json")) == 3
    hooked("four", "@hook(identity='v1')")
    assert attempts_executed(proctor("exp", "--json")) == 0
