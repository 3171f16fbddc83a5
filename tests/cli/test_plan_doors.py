"""The plan of every door: `plan` in front of a command, or `--dry` behind it (spec 02, 04 P4)."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from program import Ended

Proctor = Callable[..., Ended]

TWO = """\
task_concurrency: 4
defaults: {benchmark: trivial, harness: oracle}
requests: [{name: a}, {name: b, attempts: 2, max_concurrency: 3}]
"""

EXPERIMENT = """\
from proctor import Experiment

experiment = Experiment(benchmark="trivial", harness="oracle", attempts=2)
"""


def contents(folder: Path) -> set[str]:
    """Return what stands in a folder, without what Python makes of files that it imports."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if "__pycache__" not in path.parts}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "launch.yaml").write_text(TWO)
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments/gold.py").write_text(EXPERIMENT)
    (tmp_path / "proctor.yaml").write_text("runtime: {provider_limits: {local: 7}}\n")
    return tmp_path


@pytest.mark.parametrize(
    "forms",
    [
        ["plan trivial oracle", "plan run trivial oracle", "run trivial oracle --dry", "run --dry-run trivial oracle"],
        ["plan launch.yaml", "plan launch launch.yaml", "launch launch.yaml --dry", "launch --dry-run launch.yaml"],
        ["plan exp", "exp --dry", "exp --dry-run"],
        ["plan exp gold t0001", "exp gold t0001 --dry"],
    ],
)
def test_02_all_forms_say_the_same_and_create_nothing(forms: list[str], proctor: Proctor, project: Path) -> None:
    before = contents(project)
    for more in ("", " --limit 2 --json", " --attempts 3", " --task-concurrency 2"):
        ended = [proctor(*f"{form}{more}".split()) for form in forms]
        assert {one.code for one in ended} == {0}, ended
        assert len({(one.out, one.err) for one in ended}) == 1
        assert contents(project) == before


def test_02_words_before_the_command_and_settings_to_compare(proctor: Proctor, project: Path) -> None:
    ended = proctor("plan", "--limit", "2", "--reuse", "launch", "launch.yaml", "--task-concurrency", "1,2")
    assert ended.code == 0
    assert "concurrency 1 (from flag, compared with 2)" in ended.out
    assert [line.split()[:2] for line in ended.out.splitlines()[-2:]] == [["1", "6"], ["2", "3"]]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["plan"], 2, "missing argument 'BENCHMARK'"),
        (["plan", "launch"], 2, "missing argument 'FILE.yaml'"),
        (["plan", "nowhere.yaml"], 2, "cannot read `nowhere.yaml`"),
        (["plan", "exp", "nothing"], 4, "no experiment begins with `nothing`"),
        (["plan", "launch", "launch.yaml", "--fail-undr", "1"], 2, "unknown option `--fail-undr`"),
        (["launch", "launch.yaml", "--task-concurrency", "1,2"], 2, "is not a whole number"),
        (["plan", "launch.yaml", "--run-id", "../x"], 2, "run id"),
    ],
)
def test_02_what_is_wrong(words: list[str], code: int, said: str, proctor: Proctor, project: Path) -> None:
    ended = proctor(*words)
    assert ended.code == code
    assert said in ended.err


def test_04_P4_a_run_id_that_one_request_has_is_refused_as_the_launch_would(proctor: Proctor, project: Path) -> None:
    (project / "results/b/mine").mkdir(parents=True)
    assert "run id `mine` is taken" in proctor("plan", "launch.yaml", "--run-id", "mine").err


def test_04_P4_each_experiment_has_its_totals(proctor: Proctor, project: Path) -> None:
    assert proctor("launch", "launch.yaml", "--limit", "2").code == 0
    ended = proctor("plan", "launch.yaml", "--limit", "3", "--reuse")
    lines = ended.out.splitlines()
    assert lines[0].startswith("PLAN  9 attempts · 3 tasks · ")
    assert lines[0].endswith(" · concurrency 4 (from launch.yaml) · local 7 · b ≤3")
    assert lines[lines.index("experiment a") + 1] == "  3 tasks × 1 attempt = 3 slots: 2 reuse · 1 execute: new"  # noqa: RUF001
    assert lines[lines.index("experiment b") + 1] == "  3 tasks × 2 attempts = 6 slots: 4 reuse · 2 execute: new"  # noqa: RUF001
    assert "9 slots: 6 reuse · 3 execute: new" in lines
    slots = [line for line in lines if re.match("  [ab] t000", line)]
    assert len(slots) == 9
    assert slots[0].startswith("  a t0000 #0  reuse @")
    assert any(line.startswith("  experiment") and "attempts of b" in line for line in lines)
    assert any(line.startswith("  provider local") and "(from proctor.yaml)" in line for line in lines)


def test_04_P4_many_experiments_are_one_table_with_some_slots_of_each(proctor: Proctor, tmp_path: Path) -> None:
    (tmp_path / "many.yaml").write_text(
        "defaults: {benchmark: trivial}\n"
        "matrix: {name: 'k{attempts}-{harness}', attempts: [1, 2, 3, 4, 5], harness: [oracle, nop]}\n"
    )
    ended = proctor("plan", "many.yaml")
    lines = ended.out.splitlines()
    table = lines[lines.index("experiments") + 1 :][:11]
    assert table[0].split() == ["tasks", "slots", "benchmark", "harness", "model", "what", "is", "done"]
    assert table[1].split() == ["k1-oracle", "10", "10", "trivial", "1", "oracle", "1", "-", "10", "execute:", "new"]
    assert table[10].split()[:3] == ["k5-nop", "10", "50"]
    listed = [line.split()[0] for line in lines if "#" in line]
    assert {name: listed.count(name) for name in listed} == {
        f"k{k}-{harness}": 4 for k in range(1, 6) for harness in ("oracle", "nop")
    }
    assert "  and 260 more; `--all` lists every one" in lines
    assert sum("#" in line for line in proctor("plan", "many.yaml", "--all").out.splitlines()) == 300
