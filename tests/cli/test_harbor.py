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


def stepped(folder: Path, name: str, toml: str, *steps: dict[str, str]) -> None:
    """Write a task of steps `a`, `b`, ...; each has its files by name, `test` and `solve` as `task` has them."""
    for letter, given in zip("abc", steps, strict=False):
        files = {"instruction.md": "Do it.\n", **given}
        for short, place in (("test", "tests/test.sh"), ("solve", "solution/solve.sh")):
            files[place] = f"#!/bin/sh\n{files.pop(short, f'echo 1 > {REWARD}.txt')}\n"
        for place, text in files.items():
            file = folder / name / "steps" / letter / place
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    (folder / name / "task.toml").write_text(toml)


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


@pytest.mark.sampled
@needs_bwrap
@pytest.mark.parametrize(("folder", "count"), [("plain", len(PLAIN)), ("separate", 1)])
def test_every_task_is_solved_by_its_solution_and_none_by_doing_nothing(
    proctor: Proctor, folder: str, count: int
) -> None:
    ended = check(proctor, folder, "bwrap")
    assert ended.code == 0, ended.out + ended.err
    assert f"all {count} task" in ended.out


@pytest.mark.parametrize(
    ("folder", "count"),
    [("engine", 3), *(pytest.param(name, 1, marks=pytest.mark.long) for name in ("services", "verifier"))],
)
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
    "nowhere": (f"ln -s /nowhere {REWARD}.txt", "grader.no_reward", "left no reward file"),
    "pipe": (f"mkfifo {REWARD}.txt", "grader.no_reward", "left no reward file"),
    "huge": (f"truncate -s 100M {REWARD}.json", "grader.invalid_score", "is larger than"),
    "nan": (f"echo nan > {REWARD}.txt", "grader.invalid_score", "holds no number: nan"),
    "high": (f"echo 1.5 > {REWARD}.txt", "grader.invalid_score", "from 0 to 1, not 1.5"),
    "late": ("sleep 100", "time.grade", "did not end within 1 s"),
}
"""What the tests do, and what becomes of it."""


@pytest.mark.long
@needs_bwrap
def test_cases_130_137_a_reward_that_is_none_is_never_a_0_and_each_says_its_own_reason(
    proctor: Proctor, tmp_path: Path
) -> None:
    for name, (test, _, _) in BAD_REWARDS.items():
        task(tmp_path / "tasks", name, test, toml="[verifier]\ntimeout_sec = 1\n" if name == "late" else "")
    task(tmp_path / "tasks", "right", f"echo 1 > {REWARD}.txt")
    task(tmp_path / "tasks", "wrong", f"echo 0 > {REWARD}.txt")
    task(tmp_path / "tasks", "fails", f"echo 1 > {REWARD}.txt; exit 1")  # the status decides nothing
    task(tmp_path / "tasks", "both", f'echo 1 > {REWARD}.txt; echo \'{{"reward": 0.5, "x": 3}}\' > {REWARD}.json')
    ended = run(proctor, tmp_path / "tasks")
    right = {"right": "passed", "wrong": "failed", "fails": "passed", "both": "failed"}
    assert verdicts(ended) == {**dict.fromkeys(BAD_REWARDS, "errored"), **right}
    grade = results(ended)["both"]["grade"]
    assert (grade["score"], grade["sub_scores"]) == (0.5, {"x": 3.0})
    found = issues(ended)
    assert {name: code for name, (code, _) in found.items()} == {name: one[1] for name, one in BAD_REWARDS.items()}
    for name, (_, message) in found.items():
        assert BAD_REWARDS[name][2] in message
    [receipt] = ended.receipt["runs"]
    assert receipt["counts"]["errored"] == len(BAD_REWARDS)
    assert ended.code == 3


VERIFIER = "/logs/verifier"
HONEST = f'[ "$(find /tests | wc -l)" = 2 ] && echo 0 > {REWARD}.txt || echo 1 > {REWARD}.txt'
PLANTED = {
    "text": (f"echo 1 > {REWARD}.txt", "exit 0"),
    "json": (f"echo '{{\"reward\": 1}}' > {REWARD}.json", f"echo 0 > {REWARD}.txt"),
    "link": (f"echo 1 > mine; ln -s /app/mine {REWARD}.json", f"echo 0 > {REWARD}.txt"),
    "folder": (f"mkdir -p {REWARD}.json/x", f"echo 0 > {REWARD}.txt"),
    "own-place": (
        f"rm -rf {VERIFIER}; mkdir mine; echo '{{\"reward\": 1}}' > mine/reward.json; ln -s /app/mine {VERIFIER}",
        f"echo 0 > {REWARD}.txt; [ ! -e mine/reward.txt ] || echo 1 > {REWARD}.txt",
    ),
    "no-place": (f"rm -rf {VERIFIER}; echo 1 > {VERIFIER}", f"echo 0 > {REWARD}.txt"),
    "closed": (f"mkdir {VERIFIER}/x; chmod 0 {VERIFIER}/x {VERIFIER}", f"echo 0 > {REWARD}.txt"),
    "test": ("echo 'exit 0 # planted' > /tests/conftest.py; echo planted > /tests/.hidden", HONEST),
    "tree": ("mkdir -p /tests/a/b; echo planted > /tests/a/b/c; chmod 0 /tests/a/b", HONEST),
    "shell": (
        "mkdir -p ~/bin; for one in rm sh bash chmod test.sh; do printf '#!/bin/sh\\nexit 0\\n' > ~/bin/$one; done; "
        "chmod +x ~/bin/*; echo 'export PATH=~/bin:$PATH LD_PRELOAD=/app/mine.so BASH_ENV=/app/mine' | "
        "tee ~/.profile ~/.bashrc ~/.bash_profile > ~/.shrc",
        f'[ -z "$LD_PRELOAD$BASH_ENV" ] && [ "$(command -v sh)" != ~/bin/sh ] && echo 0 > {REWARD}.txt',
    ),
}  # fmt: skip
"""What an agent does, and the tests that come after it, which all but `text` say 0."""


@needs_bwrap
def test_case_177_what_the_agent_plants_decides_nothing(proctor: Proctor, tmp_path: Path) -> None:
    for name, (solve, test) in PLANTED.items():
        task(tmp_path / "tasks", name, test, solve=solve)
    ended = run(proctor, tmp_path / "tasks")
    assert verdicts(ended) == {**dict.fromkeys(PLANTED, "failed"), "text": "errored"}
    assert issues(ended)["text"][0] == "grader.no_reward"


FIRST = "[[steps]]\nname = 'a'\n"
SECOND = "[[steps]]\nname = 'b'\n"
FOREVER = f"(while :; do cp /tests/* /app; echo 1 > {REWARD}.txt; done) > /dev/null 2>&1 &"


@pytest.mark.long
@needs_bwrap
def test_tasks_of_several_steps_end_where_a_step_says_so_and_never_with_a_wrong_number(
    proctor: Proctor, tmp_path: Path
) -> None:
    tasks = tmp_path / "tasks"
    half, none = {"test": f"echo 0.5 > {REWARD}.txt"}, {"test": "exit 0"}
    unsafe = {"test": f'echo \'{{"reward": 1, "safety": 0}}\' > {REWARD}.json'}
    both = FIRST + SECOND
    stepped(tasks, "too-low", f"{FIRST}min_reward = 0.6\n{SECOND}", half, {})
    stepped(tasks, "unsafe", f"{FIRST}min_reward = {{safety = 1}}\n{SECOND}", unsafe, {})
    stepped(tasks, "averaged", both, half, {})
    stepped(tasks, "final", f"multi_step_reward_strategy = 'final'\n{both}", half, {})
    stepped(tasks, "slow", f"{FIRST}[steps.agent]\ntimeout_sec = 1\n{SECOND}", {"solve": "sleep 1000"}, {})
    stepped(tasks, "unsaid", both, none, {})
    stepped(tasks, "unsaid-last", both, {}, none)
    stepped(tasks, "no-number", both, {"test": f"echo nan > {REWARD}.txt"}, {})
    stepped(tasks, "late", f"{FIRST}[steps.verifier]\ntimeout_sec = 1\n{SECOND}", {"test": "sleep 1000"}, {})
    stepped(tasks, "not-set-up", both, {}, {"workdir/setup.sh": "echo broken >&2; exit 3\n"})
    stepped(tasks, "sick", f"{both}healthcheck = {{command = 'exit 4', retries = 1}}\n", {}, {})
    planted = {"solve": FOREVER, "test": f"echo 0 > {REWARD}.txt"}
    spied = {"solve": f"ls /app {VERIFIER} /tests | grep -q '^[rt]e' && touch seen; true", **half}
    stepped(tasks, "planted", both, planted, {**spied, "test": f"[ -e seen ] || echo 0 > {REWARD}.txt"})
    ended = run(proctor, tasks, "--set", "benchmark.params.end_processes=true")
    found = results(ended)
    assert {name: one["grade"]["score"] for name, one in found.items() if one.get("grade")} == {
        "too-low": 0.5, "unsafe": 1.0, "averaged": 0.75, "final": 1.0, "slow": 1.0, "planted": 0.0,
    }  # fmt: skip
    assert {name for name, verdict in verdicts(ended).items() if verdict == "passed"} == {"final", "slow"}
    reached = {name: [one["actual"] for one in found[name]["grade"]["checks"]] for name in ("too-low", "averaged")}
    assert reached == {
        "too-low": ["0.5", "not reached", "0.5, the mean of 1 steps"],
        "averaged": ["0.5", "1", "0.75, the mean of 2 steps"],
    }
    said = {name: one for name, one in issues(ended).items() if name != "slow"}
    assert said.pop("not-set-up") == ("task.setup_failed", "setup.sh of step `b` failed: status 3: broken")
    assert said.pop("sick") == ("task.setup_failed", "the health check failed 1 times; the last: status 4: ")
    assert {name: (code, message.split(":")[0]) for name, (code, message) in said.items()} == {
        "unsaid": ("grader.no_reward", "step `a`"),
        "unsaid-last": ("grader.no_reward", "step `b`"),
        "no-number": ("grader.invalid_score", "step `a`"),
        "late": ("time.grade", "step `a`"),
    }  # fmt: skip
    assert issues(ended)["slow"][0] == "time.agent"


@pytest.mark.long
def test_on_docker_steps_are_taken_and_what_an_agent_leaves_running_cannot_write_what_tests_of_root_say(
    proctor: Proctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", engines.docker())
    tasks = tmp_path / "tasks"
    for name in ("steps-grows", "steps-prepared"):
        shutil.copytree(TASKS / "plain" / name, tasks / name)
    loop = f"while :; do echo 1 > {REWARD}.txt; mv {REWARD}.txt {REWARD}.json; done"
    loop = f"echo 'echo 1 > {REWARD}.txt' > /tests/test.sh; {loop}"
    writes = f"(until [ -e /tests/test.sh ]; do sleep 0.1; done; {loop}) > /dev/null 2>&1 &"
    says = f'echo 0 > {REWARD}.txt; sleep 1; [ "$(cat {VERIFIER}/*)" = 0 ] || echo 1 > {REWARD}.json'
    task(tasks, "nobody", says, solve=writes, toml="[agent]\nuser = 'nobody'\n")
    for name in ("json", "link", "own-place", "no-place", "test"):
        solve, test = PLANTED[name]
        task(tasks, f"planted-{name}", test, solve=solve)
    one_user = "[agent]\nuser = 'nobody'\n"
    left = {"test": f"echo noted > {VERIFIER}/note; mkdir -p /logs/agent/x; echo 1 > {REWARD}.txt"}
    sees = f'[ -z "$(ls -A {VERIFIER} /logs/agent | grep -v :)" ] && touch clean; true'
    clean = {"solve": sees, "test": f"[ -e clean ] && echo 1 > {REWARD}.txt"}
    users = f"{one_user}{FIRST}{SECOND}[steps.verifier]\nuser = '1234'\n"
    stepped(tasks, "users", users, left, clean)
    (tasks / "users/steps/b/tests/test.sh").chmod(0o755)  # this user cannot
    image = ("--set", f"environment.image={engines.IMAGE}", "--env", "docker")
    wanted = {"steps-grows": "passed", "steps-prepared": "passed", "users": "passed"}
    ended = run(proctor, tasks, *image)
    assert {name: one for name, one in verdicts(ended).items() if one != "failed"} == wanted, issues(ended)
    shutil.rmtree(tasks)
    task(tasks, "ended", says, solve=writes)
    assert verdicts(run(proctor, tasks, *image, "--set", "benchmark.params.end_processes=true")) == {"ended": "failed"}


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


@pytest.mark.parametrize("provider", ["bwrap", pytest.param("docker", marks=pytest.mark.long)])
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


@pytest.mark.long
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


def test_steps_as_turns_of_one_session_need_a_harness_that_can_go_on(proctor: Proctor, tmp_path: Path) -> None:
    stepped(tmp_path / "tasks", "one", FIRST + SECOND, {}, {})
    resume = ("--set", "benchmark.params.resume=true", "--set", "harness.params.command=true")
    ended = proctor("plan", "harbor", "command", *path(tmp_path / "tasks"), "--env", "bwrap", *resume)
    assert ended.code == 2
    says = "benchmark `harbor` has a task of 2 turns in one session, and harness `command` takes 1 turn"
    assert says in ended.err


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
