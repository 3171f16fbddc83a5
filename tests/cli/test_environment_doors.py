"""Environments through the command line: paths, images, capabilities, room on this machine (spec 06, 03 G10)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import plugins_provider
import pytest
from program import Ended

from proctor.config import default_provider
from proctor.model.environment import EnvironmentSpec, Network
from proctor.plugins.capabilities import refusals

Proctor = Callable[..., Ended]

ABLE = "plugins_provider:Able"
RUN = ("run", "trivial", "plugins:Sleeper", "--progress", "none", "--json", "--set", "harness.params.command=true")
"""An experiment whose attempts each open a sandbox."""


@pytest.fixture(autouse=True)
def able(environment: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROCTOR_PROVIDER", ABLE)
    monkeypatch.setattr(plugins_provider.Able, "IMAGES", {})
    monkeypatch.setattr(plugins_provider.Able, "asked", [])


def planned(ended: Ended) -> dict[str, Any]:
    assert ended.code == 0, ended.err
    [page] = [event for event in ended.events if event["type"] == "plan"]
    return page


def identities(ended: Ended) -> set[str]:
    assert ended.code == 0, ended.err
    return {event["identity"] for event in ended.events if event["type"] == "slot"}


def plan_of_run(ended: Ended) -> dict[str, Any]:
    assert ended.code in (0, 1), ended.err
    return json.loads((ended.run_dir / "plan.json").read_text())["experiment"]["environment"]


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


# ----------------------------------------------------------------------------------------------------------- fields


def test_paths_are_relative_to_the_file_that_says_them(proctor: Proctor, tmp_path: Path) -> None:
    write(tmp_path / "sub/ctx/Dockerfile", "FROM scratch\n")
    (tmp_path / "own").mkdir()
    request = {"name": "e", "benchmark": "trivial", "harness": "nop", "environment": {"build": "ctx"}}
    file = write(tmp_path / "sub/launch.yaml", json.dumps({"requests": [request]}))
    ended = proctor("launch", str(file), "--progress", "none", "--json")
    build = plan_of_run(ended)["build"]
    assert (build["context"], build["dockerfile"]) == (str(tmp_path / "sub/ctx"), "Dockerfile")
    over = proctor(
        "launch", str(file), "--progress", "none", "--json", "--results-dir", "more", "--set", "environment.image=./own"
    )
    assert over.code == 0, over.err
    [plan] = (tmp_path / "more").rglob("plan.json")
    environment = json.loads(plan.read_text())["experiment"]["environment"]
    assert (environment["image"], environment["build"]) == (str(tmp_path / "own"), None)


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        ("{image: ./nope}", "launch.yaml:6: `environment.image`: there is no `HERE/nope`"),
        ("{build: nope}", "launch.yaml:6: `environment.build.context`: there is no directory `HERE/nope`"),
        (
            "{build: {context: ., dockerfile: D}}",
            "launch.yaml:6: `environment.build.dockerfile`: there is no file `D` in `HERE`",
        ),
        ("{compose: nope.yaml}", "launch.yaml:6: `environment.compose.file`: there is no file `HERE/nope.yaml`"),
        (
            "{image: a, build: .}",
            "launch.yaml:6: `environment`: `image` and `build` both say what the file system is",
        ),
        (
            "{network: {allow: ['https://a.example.com']}}",
            "launch.yaml:6: `environment.network.allow.0`: must be a host without a scheme",
        ),
        ("{network: off}", "launch.yaml:6: `environment.network`: must be `none`, `full` or {allow: [HOST, ...]}"),
        ("{resources: {memory: 5}}", "launch.yaml:6: `environment.resources.memory`: must be at least 1 MiB"),
        ("{resources: {cpus: -1}}", "launch.yaml:6: `environment.resources.cpus`: must be a finite number above 0"),
        ("{env: {'A=B': x}}", "launch.yaml:6: `environment.env`: must have names of variables, not empty and"),
        ("{workdir: here}", "launch.yaml:6: `environment.workdir`: must be an absolute path"),
        ("{netwrok: none}", "launch.yaml:6: unknown field `environment.netwrok`; did you mean `network`?"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_field_file_and_line(
    proctor: Proctor, tmp_path: Path, declared: str, says: str
) -> None:
    write(
        tmp_path / "launch.yaml",
        "requests:\n  - name: e\n    benchmark: trivial\n    harness: nop\n    attempts: 1\n"
        f"    environment: {declared}\n",
    )
    ended = proctor("launch", "launch.yaml", "--dry")
    assert ended.code == 2
    assert says.replace("HERE", str(tmp_path)) in ended.err, ended.err


@pytest.mark.parametrize(
    ("field", "says"),
    [
        ("image=alpine", "has no images: cannot use `alpine`"),
        ("network=none", "cannot enforce `none`"),
        ("network.setup=none", "cannot change the network of a live sandbox"),
        ("resources.cpus=2", "cannot limit cpus to 2.0"),
        ("resources.memory=1g", "cannot limit memory to 1073741824 bytes"),
        ("resources.processes=9", "cannot limit processes to 9"),
        ("user=agent", "cannot run them as `agent`"),
        ("workdir=/work", "chooses the work directory itself"),
    ],
)
def test_what_a_provider_cannot_do_is_refused_at_planning(proctor: Proctor, field: str, says: str) -> None:
    ended = proctor("plan", "trivial", "nop", "--env", "local", "--set", f"environment.{field}")
    assert ended.code == 2
    assert says in ended.err


IN_PLACE = "agent and grade must have the same, as the sandbox of the agent is graded (grading mode reuse)"
FIXED = "plugins_provider:Fixed"


@pytest.mark.parametrize(("env", "code"), [(FIXED, 2), (ABLE, 0)])
def test_V3_a_network_for_grading_alone_is_refused_where_it_cannot_be_switched(
    proctor: Proctor, tmp_path: Path, env: str, code: int
) -> None:
    write(tmp_path / "evals/a.py", "from proctor import task\n@task()\nasync def one(t): ...\n")
    grade = ("--set", "environment.network.grade=none")
    ended = proctor("plan", "evals", "chat", "mock/echo", "--env", env, *grade)
    assert ended.code == code, ended.err
    assert (IN_PLACE in ended.err) is (code == 2)
    fresh = EnvironmentSpec(grade_network=Network("none"))
    assert refusals(plugins_provider.Fixed(), fresh) == [], "a sandbox of its own is opened with its own network"
    declared = '@task(environment={"network": {"grade": "none"}})'
    write(tmp_path / "evals/a.py", f"from proctor import task\n{declared}\nasync def one(t): ...\n")
    ended = proctor("plan", "evals", "chat", "mock/echo", "--env", env)
    assert ended.code == code, ended.err
    assert (IN_PLACE in ended.err and "task `a/one`" in ended.err) is (code == 2)


@pytest.mark.parametrize(
    ("network", "says"),
    [
        ("none", "setup has `none`, agent has `none`, grade has `none`"),
        ('{"agent": {"allow": ["a.example.com"]}, "setup": "full"}', "agent has `allow`, grade has `allow`"),
    ],
)
def test_V3_proxy_variables_of_this_machine_are_not_for_a_limited_sandbox(
    proctor: Proctor, tmp_path: Path, network: str, says: str
) -> None:
    limited = ("--set", f"environment.network={network}")
    ended = proctor("plan", "trivial", "nop", *limited, "--set", "environment.proxy=true")
    assert ended.code == 2
    assert f"only for network `full` in all phases: {says}" in ended.err
    write(
        tmp_path / "evals/a.py", "from proctor import task\n@task(environment={'proxy': True})\nasync def one(t): ...\n"
    )
    ended = proctor("plan", "evals", "chat", "mock/echo", *limited)
    assert ended.code == 2, "also where the two are declared in different places"
    assert says in ended.err


def test_proxy_variables_that_a_task_alone_asks_for_are_said_before_the_run(
    proctor: Proctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(
        tmp_path / "evals/a.py",
        "from proctor import task\n@task(environment={'proxy': True})\nasync def one(t):\n    t.check('yes', True)\n",
    )
    monkeypatch.setenv("http_proxy", "http://bob:word@proxy.example:3128")
    for door in (("plan",), ("run", "--progress", "plain")):
        ended = proctor(*door, "evals", "chat", "mock/echo")
        assert ended.code == 0, ended.err
        assert "note: sandboxes get the proxy variables of this machine" in ended.err
        assert "word" not in ended.err


def test_a_refusal_names_the_request(proctor: Proctor, tmp_path: Path) -> None:
    own = {"benchmark": "trivial", "harness": "nop"}
    requests = [{"name": "a", **own}, {"name": "b", **own, "environment": {"resources": {"memory": "2g"}}}]
    write(tmp_path / "l.yaml", json.dumps({"requests": requests}))
    ended = proctor("launch", "l.yaml", "--env", "local", "--dry")
    assert ended.code == 2
    assert "provider `local` cannot make the environment of experiment `b`: " in ended.err


def test_an_environment_counts_in_the_identity(proctor: Proctor) -> None:
    sets = [
        [], ["image=a"], ["image=b"], ["resources.cpus=1"], ["resources.memory=1g"], ["resources.processes=9"],
        ["network=none"], ["network.setup=none"], ["network.grade=none"],
        ['network.agent={"allow": ["a.example.com"]}'],
        ["user=a"], ["workdir=/a"],
    ]  # fmt: skip
    found = [
        identities(
            proctor("plan", "trivial", "nop", "--limit", "1", "--json", *(f"--set=environment.{one}" for one in each))
        )
        for each in sets
    ]
    assert len(set(map(frozenset, found))) == len(sets)
    assert (
        identities(proctor("plan", "trivial", "nop", "--limit", "1", "--json", "--set=environment.network=full"))
        == found[0]
    )


def test_what_a_project_says_of_a_provider_holds_for_experiments_that_say_nothing(
    proctor: Proctor, tmp_path: Path
) -> None:
    write(
        tmp_path / "proctor.yaml",
        json.dumps(
            {"environments": {ABLE: {"network": "none", "image": "alpine", "resources": {"cpus": 1, "memory": "1g"}}}}
        ),
    )
    ended = proctor("run", "trivial", "nop", "--progress", "none", "--json", "--set", "environment.network.setup=full")
    found = plan_of_run(ended)
    assert (found["image"], found["resources"]["cpus"], found["resources"]["memory_bytes"]) == ("alpine", 1.0, 1024**3)
    assert (found["network"]["mode"], found["setup_network"]["mode"], found["grade_network"]) == ("none", "full", None)


def test_a_task_in_python_declares_its_own_with_the_same_fields(proctor: Proctor, tmp_path: Path) -> None:
    write(tmp_path / "evals/box/Dockerfile", "FROM scratch\n")
    write(
        tmp_path / "evals/naps.py",
        "from proctor import EnvironmentSpec, Network, task\n"
        "@task(environment={'build': 'box', 'network': {'allow': ['a.example.com']}, 'resources': {'memory': '1g'}})\n"
        "async def one(t): ...\n"
        "@task(environment={'network': Network('none'), 'env': {'A': '1'}})\n"
        "async def two(t): ...\n"
        "@task(environment=EnvironmentSpec(image='alpine'))\n"
        "async def three(t): ...\n",
    )
    ended = proctor("plan", "evals", "chat", "mock/echo")
    assert ended.code == 0, ended.err
    by_name = {one.image or (one.build and one.build.context) or "none": one for one in plugins_provider.Able.asked}
    build, named = by_name[str(tmp_path / "evals/box")], by_name["alpine"]
    assert (build.network.hosts, build.resources.memory_bytes) == (("a.example.com",), 1024**3)
    assert named.provider == ABLE


def test_an_image_may_be_named_by_each_task_alone(proctor: Proctor, tmp_path: Path) -> None:
    images = "@task(environment={'image': 'alpine'})\nasync def one(t): ...\n"
    write(tmp_path / "evals/naps.py", f"from proctor import task\n{images}")
    needing = ("plan", "evals", "chat", "mock/echo", "--env", "plugins_provider:Imaged")
    assert proctor(*needing).code == 0
    write(tmp_path / "evals/more.py", "from proctor import task\n@task\nasync def bare(t): ...\n")
    ended = proctor(*needing)
    assert ended.code == 2
    assert "of task `more/bare`: provider plugins_provider:Imaged needs an image: set `image`, `build` or" in ended.err
    assert proctor(*needing, "--set", "environment.image=debian").code == 0


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        ("{'netwrok': 'none'}", "evals/naps.py:2: unknown field `environment.netwrok`; did you mean `network`?"),
        ("{'resources': {'memory': 'much'}}", "evals/naps.py:2: `environment.resources.memory`: must be a size"),
        ("{'build': 'nope'}", "evals/naps.py:2: `environment.build.context`: there is no directory"),
        ("7", "evals/naps.py:2: `environment` must be a mapping or a proctor.EnvironmentSpec, not int"),
    ],
)
def test_what_is_wrong_with_that_of_a_task_is_said_with_its_line(
    proctor: Proctor, tmp_path: Path, declared: str, says: str
) -> None:
    write(
        tmp_path / "evals/naps.py", f"from proctor import task\n@task(environment={declared})\nasync def one(t): ...\n"
    )
    ended = proctor("plan", "evals", "chat", "mock/echo")
    assert ended.code == 2
    assert says in ended.err


def test_an_experiment_in_python_may_be_given_what_its_names_stand_for(proctor: Proctor, tmp_path: Path) -> None:
    write(
        tmp_path / "experiments/naps.py",
        "from proctor import EnvironmentSpec, Experiment, Network, Resources\n"
        "experiment = Experiment(benchmark='trivial', harness='nop', environment=EnvironmentSpec(\n"
        "    image='alpine', resources=Resources(1.5, 2**30), network=Network('none')))\n",
    )
    ended = proctor("exp", "--progress", "none", "--json")
    found = plan_of_run(ended)
    assert (found["provider"], found["image"], found["network"]["mode"]) == (ABLE, "alpine", "none")
    assert (found["resources"]["cpus"], found["resources"]["memory_bytes"]) == (1.5, 2**30)


def test_a_credential_among_build_arguments_is_written_nowhere(proctor: Proctor, tmp_path: Path) -> None:
    write(tmp_path / "ctx/Dockerfile", "FROM scratch\n")
    build = json.dumps({"context": "ctx", "args": {"API_TOKEN": "hunter2-hunter2", "VERSION": "3"}})
    ended = proctor("run", "trivial", "nop", "--progress", "none", "--json", "--set", f"environment.build={build}")
    assert dict(plan_of_run(ended)["build"]["args"])["VERSION"] == "3"
    texts = [path.read_bytes() for path in (tmp_path / "results").rglob("*") if path.is_file()]
    assert not any(b"hunter2" in text for text in [*texts, ended.out.encode(), ended.err.encode()])


# ----------------------------------------------------------------------------------------------------------- images


def test_04_P2_what_an_image_is_counts_and_not_its_name(proctor: Proctor) -> None:
    def slots(image: str) -> set[str]:
        return identities(proctor("plan", *RUN[1:], "--limit", "2", "--set", f"environment.image={image}"))

    unknown = slots("alpine")
    plugins_provider.Able.IMAGES.update({"alpine": "sha256:1", "debian": "sha256:1"})
    first = slots("alpine")
    assert first != unknown
    assert slots("debian") == first
    plugins_provider.Able.IMAGES["alpine"] = "sha256:2"
    assert slots("alpine") != first
    assert len(plugins_provider.Able.asked) == 4, "each image is asked for once, however many tasks share it"


def test_a_run_keeps_what_the_image_was(proctor: Proctor) -> None:
    plugins_provider.Able.IMAGES["alpine"] = "sha256:1"
    ended = proctor(*RUN, "--limit", "2", "--set", "environment.image=alpine")
    assert plan_of_run(ended)["image_digest"] == "sha256:1"
    assert "is not known" not in ended.err


def test_nobody_is_asked_what_an_image_is_where_no_sandbox_is_made_of_it(proctor: Proctor) -> None:
    ended = proctor("plan", "trivial", "nop", "--set", "environment.image=alpine")
    assert ended.code == 0
    assert plugins_provider.Able.asked == []


@pytest.mark.parametrize(
    ("image", "down", "why"),
    [
        (
            "alpine",
            None,
            "it is not known what image `alpine` is (it is not here yet): results are compared by its name",
        ),
        ("broken", None, "it is not known what image `broken` is (the registry says no)"),
        ("alpine", "no daemon", f"`alpine` is (provider {ABLE} cannot be used: no daemon)"),
    ],
)
def test_a_plan_says_what_it_does_not_know_of_images(
    proctor: Proctor, monkeypatch: pytest.MonkeyPatch, image: str, down: str | None, why: str
) -> None:
    if down is not None:
        monkeypatch.setenv("DOWN", down)
    ended = proctor("plan", *RUN[1:], "--limit", "1", "--set", f"environment.image={image}")
    assert ended.code == 0
    assert why in ended.err
    assert any(why in note for note in planned(ended)["notes"]), "the plan that programs read says it as well"


def test_accept_says_what_it_does_not_know_of_images(proctor: Proctor) -> None:
    image = ("--set", "environment.image=who")
    ran = proctor(*RUN, *image, "--limit", "1")
    [attempt] = {event["attempt"] for event in ran.events if event["type"] == "TryStarted"}
    ended = proctor("accept", f"@{attempt}", "--set", "harness.params.seconds=0.02", "--dry")
    assert ended.code == 0, ended.err
    assert "note: it is not known what image `who` is (it is not here yet)" in ended.err


def test_a_provider_that_cannot_be_used_is_said_before_anything_is_started(
    proctor: Proctor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done = proctor(*RUN, "--limit", "1")
    assert done.code == 0, done.err
    monkeypatch.setenv("DOWN", "the daemon does not answer")
    ended = proctor(*RUN, "--limit", "1")
    assert ended.code == 2
    assert f"provider `{ABLE}` cannot be used here: the daemon does not answer" in ended.err
    assert "`proctor doctor`" in ended.err
    assert len(ended.run_dirs) == 1
    assert proctor("run", "trivial", "nop", "--progress", "none").code in (0, 1), "no sandbox is opened there"
    assert proctor(*RUN, "--limit", "1", "--reuse").code == 0, "all of it is reused"


# ------------------------------------------------------------------------------------------------- room on this host


def peak(trace: Path) -> int:
    running = most = 0
    for line in trace.read_text().splitlines():
        running += 1 if line.startswith("start") else -1
        most = max(most, running)
    return most


@pytest.mark.parametrize(
    ("options", "most"),
    [
        (["--set", "environment.resources.cpus=1", "--host-cpus", "2"], 2),
        (["--set", "environment.resources.memory=1g", "--host-memory", "3g"], 3),
        (["--set", "environment.resources.cpus=2", "--set", "runtime.host_cpus=3"], 1),
    ],
)
def test_03_G10_no_more_sandboxes_than_this_host_has_room_for(
    proctor: Proctor, tmp_path: Path, options: list[str], most: int
) -> None:
    trace = tmp_path / "trace"
    ended = proctor(
        *RUN, "--set", "benchmark.params.tasks=8", "--set", f"harness.params.trace={trace}",
        "--set", "harness.params.seconds=0.02", *options,
    )  # fmt: skip
    assert ended.code == 0, ended.err
    assert peak(trace) == most


def test_03_G10_sandboxes_that_are_elsewhere_take_none_of_it(proctor: Proctor) -> None:
    many = ("--limit", "4", "--set", "environment.resources.cpus=9", "--host-cpus", "2")
    assert proctor(*RUN, *many, "--env", "plugins_provider:Away").code == 0
    ended = proctor(*RUN, *many)
    assert ended.code == 2


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["resources.cpus=2.5", "--host-cpus=2"], "task `t0000` needs 2.5 cpus, and this host has 2 cpus"),
        (["resources.memory=3g", "--host-memory=2GiB"], "task `t0000` needs 3.0 GiB, and this host has 2.0 GiB"),
        (
            ["resources.cpus=2", "--host-cpus=2", "--set=grading=fresh", "--set=sandbox_reuse=true"],
            "task `HumanEval/0` needs 2 sandboxes at once, each with 2 cpus, and this host has 2 cpus",
        ),
    ],
)
@pytest.mark.parametrize("command", ["run", "plan"])
def test_03_G10_a_task_larger_than_the_host_is_refused_at_planning(
    proctor: Proctor, command: str, options: list[str], says: str
) -> None:
    resources, *more = options
    ended = proctor(
        command, "humaneval" if "fresh" in str(more) else "trivial", *RUN[2:], "--limit", "1",
        f"--set=environment.{resources}", *more,
    )  # fmt: skip
    assert ended.code == 2
    assert says in ended.err, ended.err
    assert "--host-cpus" in ended.err
    assert ended.run_dirs == []


def test_03_G10_the_plan_names_the_host_where_it_keeps_attempts_waiting(proctor: Proctor) -> None:
    def plan(*options: str) -> str:
        return proctor("plan", "trivial", "plugins:Sleeper", "--limit", "4", *RUN[-2:], *options).out

    one = "--set=environment.resources.cpus=1"
    text = plan(one, "--host-cpus=2")
    assert "\N{MIDDLE DOT} host 2 cpus" in text.splitlines()[0]
    assert "CPUs that sandboxes on this machine declare (from flag)" in text
    assert "host" not in plan(one, "--host-cpus=4").splitlines()[0]
    assert "host" not in plan("--host-cpus=1")


@pytest.mark.parametrize(
    "option",
    [
        "--host-cpus=0", "--host-cpus=-1", "--host-cpus=nan", "--host-memory=0", "--host-memory=-1g",
        "--host-memory=1x", "--max-build-concurrency=0", "--keep-environment=some", "--set=runtime.host_cpus=0",
        "--set=runtime.host_memory=0", "--set=runtime.max_build_concurrency=0", "--set=runtime.keep_environment=none",
    ],
)  # fmt: skip
def test_numbers_that_are_none_are_refused(proctor: Proctor, option: str) -> None:
    ended = proctor("plan", "trivial", "nop", option)
    assert ended.code == 2


# ---------------------------------------------------------------------------------------------------- what is kept


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--set=sandbox_reuse=true"], "reuses its sandboxes (`sandbox_reuse`)"),
        (["--reuse"], "live sandboxes are wanted, and reused attempts have none (`reuse`)"),
        (
            ["--env=plugins_provider:Alone"],
            "provider `plugins_provider:Alone` is right only with one sandbox at a time",
        ),
        (["--env=plugins_provider:Forgetful"], "provider `plugins_provider:Forgetful` cannot keep sandboxes"),
    ],
)
@pytest.mark.parametrize(
    "keep", ["--keep-environment", "--keep-environment=all", "--set=runtime.keep_environment=failed"]
)
def test_V2_what_cannot_be_had_with_kept_sandboxes_is_refused_at_planning(
    proctor: Proctor, keep: str, options: list[str], says: str
) -> None:
    ended = proctor("plan", "trivial", "nop", keep, *options)
    assert ended.code == 2
    assert says in ended.err


def test_V2_task_groups_share_a_sandbox_which_is_not_kept(proctor: Proctor, tmp_path: Path) -> None:
    write(
        tmp_path / "evals/box/group.py",
        "from proctor import TaskGroup\ngroup = TaskGroup(members=['tasks/one'], on_unavailable='stop-group')\n",
    )
    write(tmp_path / "evals/box/tasks.py", "from proctor import task\n@task\nasync def one(t): ...\n")
    ended = proctor("plan", "evals", "chat", "mock/echo", "--keep-environment")
    assert ended.code == 2
    assert "has task groups, such as `box`" in ended.err


def test_C4_exp_executes_every_slot_where_sandboxes_are_kept(proctor: Proctor, tmp_path: Path) -> None:
    write(
        tmp_path / "experiments/e.py",
        "from proctor import Experiment\nexperiment = Experiment(benchmark='trivial', harness='nop')\n",
    )
    proctor("exp", "--progress", "none", "--limit", "1")
    again = planned(proctor("plan", "exp", "--json", "--limit", "1"))
    assert list(again["decisions"]) != ["execute: new"]
    kept = planned(proctor("plan", "exp", "--json", "--limit", "1", "--keep-environment"))
    assert list(kept["decisions"]) == ["execute: sandbox wanted"]  # spec 04 P4
    ran = proctor("exp", "--progress", "none", "--limit", "1", "--keep-environment", "--json")
    assert ran.code == 1, "nothing passed, which is none of a reused attempt"
    assert [one["type"] for one in ran.events].count("TryStarted") == 1
    assert proctor("plan", "exp", "--limit", "1", "--keep-environment", "--reuse=20260101_000000").code == 2


# ------------------------------------------------------------------------------------------------ the default provider


def test_the_default_provider_is_that_of_the_identity_and_its_tables(
    proctor: Proctor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write(
        tmp_path / "proctor.yaml",
        json.dumps({"environments": {"local": {"env": {"A": "1"}}, ABLE: {"env": {"B": "1"}}}}),
    )
    able = proctor("plan", "trivial", "nop", "--limit", "1", "--json")
    monkeypatch.setenv("PROCTOR_PROVIDER", "local")
    here = proctor("plan", "trivial", "nop", "--limit", "1", "--json")
    assert identities(able) != identities(here)
    assert identities(proctor("plan", "trivial", "nop", "--limit", "1", "--json", "--env", ABLE)) == identities(able)


def test_where_bwrap_does_not_work_the_warning_says_why(proctor: Proctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PROCTOR_PROVIDER")
    why = default_provider.DefaultProvider("local", "no user namespaces here")
    monkeypatch.setattr(default_provider, "_found", cache(lambda: why))
    ended = proctor("plan", "trivial", "plugins:Sleeper", "--limit", "1", *RUN[-2:])
    [warning] = [line for line in ended.err.splitlines() if line.startswith("warning")]
    assert "isolates nothing" in warning
    assert "bwrap does not work here: no user namespaces here" in warning
    named = proctor("plan", "trivial", "plugins:Sleeper", "--limit", "1", *RUN[-2:], "--env", "local")
    assert "bwrap" not in named.err


def test_an_unknown_default_is_said_with_its_variable(proctor: Proctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROCTOR_PROVIDER", "dokcer")
    ended = proctor("plan", "trivial", "nop")
    assert ended.code == 2
    assert "PROCTOR_PROVIDER: unknown provider `dokcer`" in ended.err


def test_help_starts_no_sandbox_and_imports_no_provider(program: Proctor) -> None:
    ended = program("run", "--help", env={**os.environ, "PYTHONPROFILEIMPORTTIME": "1"})
    assert ended.code == 0
    assert "proctor.cli.options" in ended.err, "what was imported is said"
    assert "proctor.providers." not in ended.err
