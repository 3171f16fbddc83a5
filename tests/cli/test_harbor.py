"""Benchmark `harbor` and grader `command` through the program, on real sandboxes (spec 11; cases 130, 137, 177)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import engines
import pytest
from bwrap import needs_bwrap, why_not
from program import Ended

Proctor = Callable[..., Ended]

TASKS = Path(__file__).parent.parent / "data/harbor"
PLAIN = sorted(one.name for one in (TASKS / "plain").iterdir())


def path(folder: Path | str) -> tuple[str, str]:
    return "--set", f"benchmark.params.path={folder}"


def check(proctor: Proctor, folder: str, provider: str) -> Ended:
    return proctor("check", "harbor", *path(TASKS / folder), "--env", provider)


def verdicts(ended: Ended) -> dict[str, str]:
    assert ended.code in (0, 1, 3), ended.err
    rows = [event for event in ended.events if event["type"] == "AttemptSealed"]
    return {row["task"]: row["verdict"] for row in rows}


def task(folder: Path, name: str, test: str, *, solve: str = "exit 0", toml: str = "") -> None:
    """Write a task; `solve` stands for what an agent does."""
    for place, text in (
        ("task.toml", toml),
        ("instruction.md", "Do it.\n"),
        ("tests/test.sh", f"#!/bin/sh\n{test}\n"),
        ("solution/solve.sh", f"#!/bin/sh\n{solve}\n"),
    ):
        file = folder / name / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def run(proctor: Proctor, folder: Path, *more: str) -> Ended:
    return proctor("run", "harbor", "oracle", *path(folder), "--env", "bwrap", "--json", "--progress", "none", *more)


def results(ended: Ended) -> dict[str, dict[str, Any]]:
    """Return the result of the last try of each task."""
    names = {event["attempt"]: event["task"] for event in ended.events if event["type"] == "AttemptSealed"}
    tries = [event for event in ended.events if event["type"] == "TryEnded"]
    return {names[event["attempt"]]: event["result"] for event in tries}


def issues(ended: Ended) -> dict[str, tuple[str, str]]:
    """Return code and message of the first issue of each task that has any."""
    found = {name: result["issues"][0] for name, result in results(ended).items() if result.get("issues")}
    return {name: (first["code"], first["message"]) for name, first in found.items()}


@needs_bwrap
@pytest.mark.parametrize(("folder", "count"), [("plain", len(PLAIN)), ("separate", 1)])
def test_every_task_is_solved_by_its_solution_and_none_by_doing_nothing(
    proctor: Proctor, folder: str, count: int
) -> None:
    ended = check(proctor, folder, "bwrap")
    assert ended.code == 0, ended.out + ended.err
    assert f"all {count} task" in ended.out


@pytest.mark.parametrize(("folder", "count"), [("engine", 3), ("services", 1), ("verifier", 1)])
def test_tasks_with_an_image_a_dockerfile_users_or_services_are_solved_on_docker(
    proctor: Proctor, folder: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", engines.docker())
    ended = check(proctor, folder, "docker")
    assert ended.code == 0, ended.out + ended.err
    assert f"all {count} task" in ended.out


REWARD = "/logs/verifier/reward"
BAD_REWARDS = {
    "absent": ("exit 0", "grader.no_reward", "left no reward file"),
    "empty": (f": > {REWARD}.txt", "grader.invalid_score", "is empty"),
    "cut": (f"printf '{{' > {REWARD}.json", "grader.invalid_score", "is no JSON"),
    "folder": (f"mkdir {REWARD}.txt", "grader.invalid_score", "is a directory"),
    "garbage": (f"echo passed > {REWARD}.txt", "grader.invalid_score", "holds no number: passed"),
    "nan": (f"echo nan > {REWARD}.txt", "grader.invalid_score", "is not finite"),
    "infinite": (f"echo '{{\"reward\": 1e999}}' > {REWARD}.json", "grader.invalid_score", "is not finite"),
    "high": (f"echo 1.5 > {REWARD}.txt", "grader.invalid_score", "from 0 to 1, not 1.5"),
    "several": (f'echo \'{{"a": 1, "b": 0}}\' > {REWARD}.json', "grader.invalid_score", "it has a, b"),
    "words": (f'echo \'{{"reward": "1"}}\' > {REWARD}.json', "grader.invalid_score", "is no number: '1'"),
    "large": (f"head -c 1100000 /dev/zero > {REWARD}.txt", "grader.invalid_score", "is larger than"),
    "late": ("sleep 100", "time.grade", "did not end within 1 s"),
}
"""What the tests do, and what becomes of it."""


@needs_bwrap
def test_cases_130_137_a_reward_that_is_none_is_never_a_0_and_each_says_its_own_reason(
    proctor: Proctor, tmp_path: Path
) -> None:
    for name, (test, _, _) in BAD_REWARDS.items():
        task(tmp_path / "tasks", name, test, toml="[verifier]\ntimeout_sec = 1\n" if name == "late" else "")
    task(tmp_path / "tasks", "right", f"echo 1 > {REWARD}.txt")
    task(tmp_path / "tasks", "wrong", f"echo 0 > {REWARD}.txt")
    ended = run(proctor, tmp_path / "tasks")
    assert verdicts(ended) == {**dict.fromkeys(BAD_REWARDS, "errored"), "right": "passed", "wrong": "failed"}
    found = issues(ended)
    assert {name: code for name, (code, _) in found.items()} == {name: one[1] for name, one in BAD_REWARDS.items()}
    for name, (_, message) in found.items():
        assert BAD_REWARDS[name][2] in message
    [receipt] = ended.receipt["runs"]
    assert receipt["counts"]["errored"] == len(BAD_REWARDS)
    assert ended.code == 3


@needs_bwrap
def test_the_status_of_the_tests_decides_nothing_and_json_wins(proctor: Proctor, tmp_path: Path) -> None:
    task(tmp_path / "tasks", "fails", f"echo 1 > {REWARD}.txt; exit 1")
    task(tmp_path / "tasks", "both", f'echo 1 > {REWARD}.txt; echo \'{{"reward": 0.5, "x": 3}}\' > {REWARD}.json')
    ended = run(proctor, tmp_path / "tasks", "--set", "benchmark.params.solved_at=0.5")
    assert verdicts(ended) == {"both": "passed", "fails": "passed"}
    grade = results(ended)["both"]["grade"]
    assert (grade["score"], grade["sub_scores"]) == (0.5, {"x": 3.0})


@needs_bwrap
def test_case_177_what_the_agent_plants_decides_nothing(proctor: Proctor, tmp_path: Path) -> None:
    tasks = tmp_path / "tasks"
    honest = f'[ "$(find /tests | wc -l)" = 2 ] && echo 0 > {REWARD}.txt || echo 1 > {REWARD}.txt'
    task(tasks, "text", "exit 0", solve=f"echo 1 > {REWARD}.txt")
    task(tasks, "json", f"echo 0 > {REWARD}.txt", solve=f"echo '{{\"reward\": 1}}' > {REWARD}.json")
    task(tasks, "link", f"echo 0 > {REWARD}.txt", solve=f"echo 1 > mine; ln -s /app/mine {REWARD}.json")
    task(tasks, "test", honest, solve="echo 'exit 0 # planted' > /tests/conftest.py; echo planted > /tests/.hidden")
    task(tasks, "tree", honest, solve="mkdir -p /tests/a/b; echo planted > /tests/a/b/c; chmod 0 /tests/a/b")
    ended = run(proctor, tasks)
    assert verdicts(ended) == {
        "json": "failed",
        "link": "failed",
        "test": "failed",
        "text": "errored",
        "tree": "failed",
    }
    assert issues(ended)["text"][0] == "grader.no_reward"


@needs_bwrap
def test_case_178_neither_tests_nor_solution_are_in_the_sandbox_of_an_agent(proctor: Proctor, tmp_path: Path) -> None:
    task(tmp_path / "tasks", "one", f"echo 1 > {REWARD}.txt")
    seen = "ls -A /tests /solution > seen"
    ended = proctor(
        "run", "harbor", "plugins:Sleeper", *path(tmp_path / "tasks"), "--env", "bwrap", "--set",
        f"harness.params.command={seen}", "--set", 'artifacts=[{"path": "seen"}]', "--json", "--progress", "none",
    )  # fmt: skip
    assert verdicts(ended) == {"one": "passed"}
    [copy] = [one for one in tmp_path.rglob("seen*") if one.is_file()]
    assert copy.read_text().split() == ["/solution:", "/tests:"]


@needs_bwrap
def test_tests_with_an_environment_of_their_own_run_in_that(proctor: Proctor, tmp_path: Path) -> None:
    own = "[verifier.environment]\nworkdir = '/elsewhere'\nenv = {PLACE = 'of the tests'}\n"
    said = f'[ "$PWD, $PLACE" = "/elsewhere, of the tests" ] && grep -q done /app/out && echo 1 > {REWARD}.txt'
    task(tmp_path / "tasks", "one", said, solve="echo done > out", toml=f"artifacts = ['/app/out']\n{own}")
    assert verdicts(run(proctor, tmp_path / "tasks")) == {"one": "passed"}


@pytest.mark.parametrize("provider", ["bwrap", "docker"])
def test_a_sandbox_that_is_used_again_shows_nothing_of_the_attempt_before(
    proctor: Proctor, tmp_path: Path, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if provider == "docker":
        monkeypatch.setenv("DOCKER_HOST", engines.docker())
    elif bwrap_reason := why_not():
        pytest.skip(f"bubblewrap does not work here: {bwrap_reason}")
    clean = '[ -z "$(ls -A /tests /logs/artifacts /logs/verifier 2>/dev/null | grep -v :)" ] && echo 1 > clean'
    left = "echo x > /logs/artifacts/left"
    image = f"docker_image = '{engines.IMAGE}'\n" if provider == "docker" else ""
    toml = f"[environment]\nworkdir = '/app'\n{image}"
    test = f"[ -s clean ] && echo 1 > {REWARD}.txt || echo 0 > {REWARD}.txt"
    task(tmp_path / "tasks", "one", test, solve=f"{clean}; {left}", toml=toml)
    more = ("--attempts", "3", "--set", "sandbox_reuse=true", "--task-concurrency", "1", "--env", provider)
    ended = proctor("run", "harbor", "oracle", *path(tmp_path / "tasks"), "--json", "--progress", "none", *more)
    assert ended.code == 0, ended.err
    [receipt] = ended.receipt["runs"]
    assert receipt["counts"]["passed"] == 3


@needs_bwrap
def test_what_the_tests_print_is_in_the_log_and_artifacts_are_kept(proctor: Proctor, tmp_path: Path) -> None:
    task(
        tmp_path / "tasks", "one", f"echo seen by all; echo trouble >&2; echo 0 > {REWARD}.txt",
        solve="echo noted > /logs/artifacts/note",
    )  # fmt: skip
    run(proctor, tmp_path / "tasks")
    [log] = tmp_path.rglob("try.log")
    assert "seen by all" in log.read_text()
    assert "trouble" in log.read_text()
    assert [one.read_text() for one in tmp_path.rglob("note")] == ["noted\n"]


@needs_bwrap
def test_a_health_check_that_never_succeeds_and_storage_that_is_not_there_are_said(
    proctor: Proctor, tmp_path: Path
) -> None:
    sick = '[environment.healthcheck]\ncommand = "echo sick >&2; exit 4"\nretries = 2\ninterval_sec = 0\n'
    task(tmp_path / "tasks", "sick", "exit 0", toml=sick)
    task(tmp_path / "tasks", "vast", "exit 0", toml="[environment]\nstorage_mb = 1000000000\n")
    ended = run(proctor, tmp_path / "tasks")
    found = issues(ended)
    assert found["sick"] == ("task.setup_failed", "the health check failed 2 times; the last: status 4: sick")
    assert found["vast"][0] == "environment.too_large"
    assert "needs 1000000000 MB of storage" in found["vast"][1]


def test_a_task_made_from_nothing_takes_the_image_of_its_experiment(
    proctor: Proctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", engines.docker())
    image = ("--set", f"environment.image={engines.IMAGE}")
    ended = proctor("check", "harbor", *path(TASKS / "plain/many-files"), "--env", "docker", *image)
    assert ended.code == 0, ended.out + ended.err


def test_a_provider_without_a_file_tree_is_refused_when_the_run_is_planned(proctor: Proctor) -> None:
    ended = proctor("run", "harbor", "oracle", *path(TASKS / "plain/hello"), "--env", "local")
    assert ended.code == 2
    assert (
        "provider local has no file tree of its own for `/logs`, `/tests`, `/solution`: use bwrap or docker"
        in ended.err
    )
    assert not list(ended.folder.rglob("journal.jsonl"))


def test_all_that_is_wrong_with_all_tasks_is_said_at_once(proctor: Proctor, tmp_path: Path) -> None:
    task(tmp_path / "tasks", "gpu", "exit 0", toml="[environment]\ngpus = 1\n")
    task(tmp_path / "tasks", "typo", "exit 0", toml="[verifier]\ntimeout = 3\n")
    ended = proctor("plan", "harbor", "oracle", *path(tmp_path / "tasks"), "--env", "bwrap")
    assert ended.code == 2
    assert "task `gpu`: `environment.gpus` is not supported: sandboxes have no GPUs" in ended.err
    assert "task `typo`: task.toml: `verifier.timeout`: unknown field" in ended.err


def test_a_directory_without_tasks_is_nothing_to_run(proctor: Proctor, tmp_path: Path) -> None:
    (tmp_path / "empty/docs").mkdir(parents=True)
    assert proctor("plan", "harbor", "oracle", *path(tmp_path / "empty"), "--env", "bwrap").code == 4


def identities(proctor: Proctor, folder: Path, harness: str) -> dict[str, str]:
    ended = proctor("plan", "harbor", harness, *path(folder), "--env", "bwrap", "--json")
    assert ended.code == 0, ended.err
    return {event["task"]: event["identity"] for event in ended.events if event["type"] == "slot"}


def test_P2_the_identity_has_what_is_used_and_not_where_it_lies(proctor: Proctor, tmp_path: Path) -> None:
    first, moved = tmp_path / "first", tmp_path / "moved"
    shutil.copytree(TASKS / "plain", first)
    shutil.copytree(TASKS / "plain", moved)
    before = {harness: identities(proctor, first, harness) for harness in ("oracle", "nop")}
    assert identities(proctor, moved, "oracle") == before["oracle"]
    with (moved / "hello/solution/solve.sh").open("a") as file:
        file.write("# changed\n")
    with (moved / "canary/tests/test.sh").open("a") as file:
        file.write("# changed\n")
    with (moved / "metrics/instruction.md").open("a") as file:
        file.write("Changed.\n")
    changed = {
        harness: {name for name, one in identities(proctor, moved, harness).items() if before[harness][name] != one}
        for harness in ("oracle", "nop")
    }
    assert changed == {"oracle": {"hello", "canary", "metrics"}, "nop": {"canary", "metrics"}}
