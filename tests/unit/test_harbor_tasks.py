"""Benchmark `harbor`: each field of the format is done, or refused by name (spec 11)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.benchmarks._harbor_reading import without_canary
from proctor.benchmarks._harbor_toml import Agent, Environment, Package, TaskToml, Unreadable, Verifier, parse
from proctor.benchmarks.harbor import Harbor, HarborOptions
from proctor.errors import NothingToRun, UsageError
from proctor.graders.command import CommandOptions
from proctor.model.attempt import GradingMode
from proctor.model.environment import Network, Resources
from proctor.model.spec import Artifact, Task

TASKS = Path(__file__).parent.parent / "data/harbor"
MIB = 1024 * 1024


def write(folder: Path, toml: str = "", **files: str) -> Path:
    """Write a task of one directory; `__` in a name stands for a slash."""
    for name, text in {"tests__test.sh": "exit 0\n", "instruction.md": "Do it.\n", "task.toml": toml, **files}.items():
        file = folder / name.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def loaded(path: Path, **options: Any) -> Harbor:
    return Harbor(HarborOptions(path=str(path), **options))


def only(path: Path, **options: Any) -> Task:
    [task] = asyncio.run(loaded(path, **options).tasks())
    return task


def environment(tmp_path: Path, toml: str, **files: str) -> Any:
    return only(write(tmp_path / "one", toml, **files)).environment


# ------------------------------------------------------------------------------------------------ what is done


def test_all_tasks_of_a_directory_in_the_order_of_their_names() -> None:
    benchmark = loaded(TASKS / "plain")
    ids = [task.id for task in asyncio.run(benchmark.tasks())]
    assert len(ids) >= 12
    assert ids == sorted(ids)
    assert (benchmark.grading, benchmark.gradings) == (GradingMode.REUSE, (GradingMode.REUSE,))


def test_one_task_by_its_own_path() -> None:
    task = only(TASKS / "plain/hello")
    assert task.id == "hello"
    assert task.prompt == "Create a file `hello.txt` in the current directory. Its only line is `Hello, world!`.\n"
    assert task.tags == ("trivial", "files", "easy", "programming")
    assert (task.agent_timeout_seconds, task.grade_timeout_seconds) == (120.0, 180.0)
    assert task.needs_sandbox
    assert task.files == {}
    options = CommandOptions(**task.grader.params)
    assert options.folders == {"/tests": "tests"}
    assert options.reward_files == ("/logs/verifier/reward.json", "/logs/verifier/reward.txt")
    assert options.timeout_seconds == 120.0


def test_where_the_defaults_of_the_format_are(tmp_path: Path) -> None:
    task = only(write(tmp_path / "one"))
    assert task.agent_timeout_seconds is None
    assert task.grader.params["timeout_seconds"] == 600.0
    assert task.reference is None
    assert task.artifacts == (Artifact("/logs/artifacts"),)
    assert task.environment is not None
    assert task.environment.resources == Resources()
    assert task.environment.image_timeout_seconds is None
    assert task.environment.network == Network()


def test_resources_by_their_names_of_today_and_of_old(tmp_path: Path) -> None:
    new = environment(tmp_path / "a", "[environment]\ncpus = 1.5\nmemory_mb = 512\nbuild_timeout_sec = 30\n")
    assert (new.resources, new.image_timeout_seconds) == (Resources(cpus=1.5, memory_bytes=512 * MIB), 30.0)
    old = environment(tmp_path / "b", "[environment]\nmemory = '2G'\nstorage = '10g'\n")
    assert old.resources == Resources(memory_bytes=2048 * MIB)
    same = environment(tmp_path / "c", "[environment]\nmemory = '512M'\nmemory_mb = 512\n")
    assert same.resources == Resources(memory_bytes=512 * MIB)


@pytest.mark.parametrize(
    ("toml", "agent", "setup", "grade"),
    [
        ("[environment]\nallow_internet = false\n", Network("none"), None, None),
        ("[environment]\nallow_internet = true\n", Network(), None, None),
        ("[environment]\nallow_internet = true\nnetwork_mode = 'no-network'\n", Network("none"), None, None),
        (
            "[environment]\nnetwork_mode = 'allowlist'\nallowed_hosts = ['example.org', '*.example.com']\n",
            Network("allow", ("example.org", "*.example.com")), None, None,
        ),
        ("[agent]\nnetwork_mode = 'no-network'\n", Network("none"), Network(), Network()),
        ("[verifier]\nnetwork_mode = 'no-network'\n", Network(), None, Network("none")),
    ],
)  # fmt: skip
def test_the_network_of_each_phase(
    tmp_path: Path, toml: str, agent: Network, setup: Network | None, grade: Network | None
) -> None:
    found = environment(tmp_path, toml)
    assert (found.network, found.setup_network, found.grade_network) == (agent, setup, grade)


def test_what_a_sandbox_is_made_from(tmp_path: Path) -> None:
    plain = environment(tmp_path / "a", "")
    assert (plain.image, plain.build, plain.compose) == (None, None, None)
    assert (plain.workdir, plain.places) == ("/app", ("/logs", "/tests", "/solution"))
    image = environment(tmp_path / "b", "[environment]\ndocker_image = 'x:1'\n", environment__Dockerfile="FROM y\n")
    assert (image.image, image.build, image.workdir, image.places) == ("x:1", None, None, ())
    built = environment(tmp_path / "c", "[environment]\nworkdir = '/w'\n", environment__Dockerfile="FROM y\n")
    assert built.build.context == str(tmp_path / "c/one/environment")
    assert (built.image, built.workdir) == (None, "/w")
    compose = "services: {main: {build: {context: '${CONTEXT_DIR}'}, cpus: '${CPUS}'}}\n"
    made = environment(tmp_path / "d", "[environment]\ncpus = 2\n", **{"environment__docker-compose.yaml": compose})
    assert made.compose.file == str(tmp_path / "d/one/environment/docker-compose.yaml")
    assert (made.compose.service, made.env) == ("main", {"CONTEXT_DIR": ".", "CPUS": "2"})


def test_the_digest_of_the_environment_follows_its_files(tmp_path: Path) -> None:
    first = environment(tmp_path / "a", "", environment__Dockerfile="FROM y\n", environment__data="1")
    same = environment(tmp_path / "b", "", environment__Dockerfile="FROM y\n", environment__data="1")
    other = environment(tmp_path / "c", "", environment__Dockerfile="FROM y\n", environment__data="2")
    assert first.build.digest == same.build.digest != other.build.digest


def test_users_of_agent_and_tests(tmp_path: Path) -> None:
    both = only(write(tmp_path / "a", "[agent]\nuser = 'ada'\n[verifier]\nuser = 0\n"))
    assert both.environment is not None
    assert (both.environment.user, both.grader.params["user"]) == ("ada", "0")
    one = only(write(tmp_path / "b", "[agent]\nuser = 1000\n"))
    assert one.environment is not None
    assert (one.environment.user, one.grader.params["user"]) == ("1000", "root")
    none = only(write(tmp_path / "c"))
    assert none.environment is not None
    assert (none.environment.user, none.grader.params["user"]) == (None, None)


def test_variables_are_taken_from_this_machine_and_credentials_are_left_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_NAME", "value")
    monkeypatch.setenv("SOME_API_KEY", "sk-very-secret")
    toml = """
    [environment]
    env = {A = "${SOME_NAME}", B = "${SOME_UNSET:-other}", C = "as ${SOME_NAME}", SOME_API_KEY = "${SOME_API_KEY}"}
    [verifier]
    env = {A = "${SOME_NAME}", SOME_API_KEY = "${SOME_API_KEY}"}
    [solution]
    env = {A = "${SOME_NAME}"}
    """
    task = only(write(tmp_path / "one", toml, **{"solution__solve.sh": "exit 0\n"}))
    assert task.environment is not None
    assert task.environment.env == {
        "A": "value", "B": "other", "C": "as ${SOME_NAME}", "SOME_API_KEY": "sk-very-secret",
    }  # fmt: skip
    assert task.grader.params["env"] == {"A": "value", "SOME_API_KEY": "${SOME_API_KEY}"}
    assert task.reference is not None
    assert task.reference.env == {"DEBIAN_FRONTEND": "noninteractive", "A": "${SOME_NAME}"}


def test_the_solution_and_the_tests_are_known_by_what_is_in_them(tmp_path: Path) -> None:
    one = only(write(tmp_path / "a", solution__x="", **{"solution__solve.sh": "exit 0\n"}))
    moved = only(write(tmp_path / "b", solution__x="", **{"solution__solve.sh": "exit 0\n"}))
    assert one.reference is not None
    assert moved.reference is not None
    assert one.reference.command == "[ -x /solution/solve.sh ] || chmod +x /solution/solve.sh; exec /solution/solve.sh"
    assert one.reference.folders["/solution"].digest == moved.reference.folders["/solution"].digest
    assert one.hidden["tests"].digest == moved.hidden["tests"].digest
    changed = only(write(tmp_path / "c", tests__extra="", **{"solution__solve.sh": "exit 0\n"}))
    assert changed.hidden["tests"].digest != one.hidden["tests"].digest


def test_artifacts_by_path_and_as_tables(tmp_path: Path) -> None:
    toml = "artifacts = ['/a', {source = 'b', service = 'main'}, '/a', '/logs/artifacts']\n"
    task = only(write(tmp_path / "one", toml))
    assert [one.path for one in task.artifacts] == ["/logs/artifacts", "/a", "b"]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<!-- a canary string -->\n# CANARY xyz\n\n\nDo it.\n", "Do it.\n"),
        ("# Title\ncanary\n", "# Title\ncanary\n"),
        ("", ""),
    ],
)
def test_marks_of_benchmark_data_are_not_shown_to_agents(text: str, left: str) -> None:
    assert without_canary(text) == left


def test_tests_in_a_sandbox_of_their_own_are_graded_fresh() -> None:
    assert loaded(TASKS / "separate").grading is GradingMode.FRESH


@pytest.mark.parametrize(
    ("toml", "files", "made_from", "network"),
    [
        ("[verifier]\nenvironment_mode = 'separate'\n", {}, None, Network()),
        ("[verifier.environment]\ndocker_image = 'v:1'\n", {"tests__Dockerfile": "FROM x\n"}, "v:1", Network()),
        ("[verifier.environment]\nallow_internet = false\n", {}, "task:1", Network("none")),
        (
            "[verifier]\nenvironment_mode = 'separate'\nnetwork_mode = 'no-network'\n",
            {"tests__Dockerfile": "FROM x\n"}, "tests", Network("none"),
        ),
    ],
)  # fmt: skip
def test_what_the_tests_that_have_a_sandbox_of_their_own_run_in(
    tmp_path: Path, toml: str, files: dict[str, str], made_from: str | None, network: Network
) -> None:
    task = only(write(tmp_path / "one", f"{toml}\n[environment]\ndocker_image = 'task:1'\n", **files))
    apart = task.grade_environment
    if made_from is None or apart is None:
        assert apart is made_from is None
        return
    assert (Path(apart.build.context).name if apart.build else apart.image) == made_from
    assert apart.network == network
    in_image = bool(files)
    assert (task.grader.params["folders"], list(task.hidden)) == (
        ({}, []) if in_image else ({"/tests": "tests"}, ["tests"])
    )


def test_tests_that_are_in_their_image_need_no_script_beside_it(tmp_path: Path) -> None:
    folder = write(tmp_path / "one", "[verifier.environment]\ndocker_image = 'v:1'\nenv = {A = '1'}\nmemory_mb = 3\n")
    (folder / "tests/test.sh").unlink()
    apart = only(folder).grade_environment
    assert apart is not None
    assert (apart.env, apart.resources) == ({"A": "1"}, Resources(memory_bytes=3 * MIB))


def test_how_a_reward_is_read_can_be_said(tmp_path: Path) -> None:
    task = only(write(tmp_path / "one"), reward="accuracy", solved_at=0.8)
    assert (task.grader.params["reward"], task.grader.params["solved_at"]) == ("accuracy", 0.8)


# --------------------------------------------------------------------------------------------- what is refused

NOT_SUPPORTED = {
    "multi_step_reward_strategy = 'mean'\n": "`multi_step_reward_strategy` is not supported: there are no `steps`",
    "[verifier.environment]\ngpus = 1\n": "`verifier.environment.gpus` is not supported",
    "[verifier.environment]\nstorage_mb = 1\n": "`verifier.environment.storage_mb` is not supported",
    "[verifier.environment.healthcheck]\ncommand = 'x'\n": "`verifier.environment.healthcheck` is not supported",
    "[[verifier.collect]]\ncommand = 'x'\n": "`verifier.collect` is not supported",
    "[environment]\nos = 'Windows'\n": "`environment.os` is not supported",
    "[environment]\ngpus = 1\n": "`environment.gpus` is not supported",
    "[environment]\ngpu_types = ['H100']\n": "`environment.gpu_types` is not supported",
    "[environment]\ntpu = {type = 'v6e', topology = '2x4'}\n": "`environment.tpu` is not supported",
    "[[environment.mcp_servers]]\nname = 'x'\n": "`environment.mcp_servers` is not supported",
    "[environment]\nskills_dir = '/skills'\n": "`environment.skills_dir` is not supported",
    "[agent]\nnetwork_mode = 'allowlist'\nallowed_hosts = ['192.0.2.0/24']\n": "the range `192.0.2.0/24`",
    "artifacts = [{source = '/a', destination = 'b'}]\n": "`artifacts.0.destination` is not supported",
    "artifacts = ['/b', {source = '/a', exclude = ['*.o']}]\n": "`artifacts.1.exclude` is not supported",
    "artifacts = [{source = '/a', service = 'db'}]\n": "`artifacts.0.service` is not supported",
    "artifacts = ['/a/../b']\n": "`artifacts.0`: a path with `..`",
}
WRONG = {
    "nonsense = 1\n": "task.toml: `nonsense`: unknown field",
    "[environment]\nmemory_gb = 1\n": "`environment.memory_gb`: unknown field",
    "[environment.healthcheck]\ncommand = 'x'\ntries = 1\n": "`environment.healthcheck.tries`: unknown field",
    "[agent.kwargs]\nmax_turns = 60\n": "`agent.kwargs`: unknown field",
    "schema_version = '9.0'\n": "`schema_version`",
    "[task]\nname = 'no slash'\n": "`task.name`",
    "[environment]\nmemory = 'much'\n": "memory must be a size such as '4G'",
    "[environment]\nmemory = '1G'\nmemory_mb = 1\n": "memory and memory_mb contradict each other",
    "[environment]\nallowed_hosts = ['example.org']\n": "allowed_hosts is only for network_mode = 'allowlist'",
    "[environment]\nworkdir = 'app'\n": "`environment.workdir`",
    "[verifier]\ntimeout_sec = 0\n": "`verifier.timeout_sec`",
    "[agent]\ntimeout_sec = inf\n": "`agent.timeout_sec`",
    "[environment]\nenv = {A = '${SURELY_UNSET}'}\n": "SURELY_UNSET is not set on this machine",
    "[verifier]\nenv = {A = '${SURELY_UNSET}'}\n": "`verifier.env`: the variable SURELY_UNSET",
    "[verifier]\nenvironment_mode = 'shared'\n[verifier.environment]\n": "only for environment_mode = 'separate'",
    "= 1\n": "task.toml: it is no TOML",
}
FILES = {
    "trajectory.json": ("{}", "file `trajectory.json` is not supported"),
    "tests__.harborignore": ("*", "file `tests/.harborignore` is not supported"),
    "environment__notes.md": ("", "environment/ has neither Dockerfile nor docker-compose.yaml"),
    "environment__docker-compose.yaml": ("services: {main: {}}", "`main` has neither `image` nor `build`"),
    "solution__readme": ("", "there is a solution/ without solve.sh"),
}


@pytest.mark.parametrize("toml", [*NOT_SUPPORTED, *WRONG])
def test_what_is_not_done_or_wrong_is_an_error_that_names_task_and_field(tmp_path: Path, toml: str) -> None:
    with pytest.raises(UsageError) as caught:
        loaded(write(tmp_path / "one", toml))
    assert caught.value.message.startswith("task `one`: ")
    assert {**NOT_SUPPORTED, **WRONG}[toml] in caught.value.message


@pytest.mark.parametrize("name", FILES)
def test_files_that_would_be_left_out_are_errors(tmp_path: Path, name: str) -> None:
    text, says = FILES[name]
    with pytest.raises(UsageError) as caught:
        loaded(write(tmp_path / "one", **{name: text}))
    assert says in caught.value.message


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("services: {main: {image: '${PREBUILT_IMAGE_NAME}'}}", "the variable `PREBUILT_IMAGE_NAME` is not supported"),
        ("services: {main: {image: x, volumes: ['${HOST_VERIFIER_LOGS_PATH}:/x']}}", "`HOST_VERIFIER_LOGS_PATH`"),
        ("services: [", "docker-compose.yaml cannot be read"),
    ],
)
def test_a_compose_file_that_only_harbor_can_fill_in(tmp_path: Path, file: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        loaded(write(tmp_path / "one", **{"environment__docker-compose.yaml": file}))
    assert says in caught.value.message


def test_an_agent_that_is_nobody_needs_tests_that_are_somebody_where_the_image_has_a_user(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="say whom tests run as"):
        loaded(write(tmp_path / "one", "[agent]\nuser = 'a'\n", environment__Dockerfile="FROM x\nUSER build\n"))


def test_a_link_that_leads_out_of_the_tests_is_refused_and_one_inside_is_not(tmp_path: Path) -> None:
    folder = write(tmp_path / "one")
    (folder / "tests/inside").symlink_to("test.sh")
    only(folder)
    (folder / "tests/outside").symlink_to("../instruction.md")
    (folder / "tests/absolute").symlink_to("/etc/hostname")
    with pytest.raises(UsageError) as caught:
        loaded(folder)
    assert "`tests/outside` is a link that leads out of `tests`" in caught.value.message
    assert "`tests/absolute`" in caught.value.message


def test_all_errors_of_all_tasks_at_once(tmp_path: Path) -> None:
    write(tmp_path / "one", "[environment]\ngpus = 1\nos = 'windows'\n")
    write(tmp_path / "two", "x = 1\n")
    (tmp_path / "three").mkdir()
    (tmp_path / "three/instruction.md").write_text("No file of its own.\n")
    (tmp_path / "docs").mkdir()
    with pytest.raises(UsageError) as caught:
        loaded(tmp_path)
    lines = caught.value.message.splitlines()
    assert lines[0].startswith("5 things are wrong with the tasks in ")
    assert [line.split(":")[0].strip() for line in lines[1:]] == [
        "task `one`", "task `one`", "task `three`", "task `three`", "task `two`",
    ]  # fmt: skip


def test_tasks_with_tests_apart_and_others_cannot_be_mixed(tmp_path: Path) -> None:
    write(tmp_path / "one", "[verifier]\nenvironment_mode = 'separate'\n")
    write(tmp_path / "two")
    with pytest.raises(UsageError, match=r"task `one`: `verifier\.environment_mode` is separate, that of `two` is not"):
        loaded(tmp_path)


def test_no_directory_and_no_tasks(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no directory"):
        loaded(tmp_path / "nowhere")
    with pytest.raises(NothingToRun, match=r"no directory in it has a task\.toml"):
        loaded(tmp_path)


# ---------------------------------------------------------------------------------------------------- any input


@given(st.text(max_size=200))
def test_any_text_is_a_task_or_says_why_not(text: str) -> None:
    try:
        toml = parse(text)
    except Unreadable as error:
        assert error.reasons  # noqa: PT017 - either is right, and which one is what the text decides
        return
    assert isinstance(toml, TaskToml)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
SECTIONS = {"environment": Environment, "verifier": Verifier, "agent": Agent, "task": Package}
OWN = [*TaskToml.model_fields, "version", "nonsense"]


@st.composite
def files(draw: st.DrawFn) -> dict[str, Any]:
    """Make what a file could say: any values under names that are known, and some that are not."""
    data = draw(st.dictionaries(st.sampled_from(OWN), VALUES, max_size=3))
    for name, section in SECTIONS.items():
        if draw(st.booleans()):
            names = [*section.model_fields, "memory", "storage", "nonsense"]
            data[name] = draw(st.dictionaries(st.sampled_from(names), VALUES, max_size=3))
    return data


@given(files())
def test_any_values_are_taken_or_refused_and_no_unknown_name_is_taken(data: dict[str, Any]) -> None:
    unknown = "nonsense" in data or any(
        isinstance(one := data.get(name), dict) and "nonsense" in one for name in SECTIONS
    )
    try:
        TaskToml.model_validate(data)
    except ValueError:
        return
    assert not unknown
