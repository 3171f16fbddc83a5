"""What docs/command-harness.md shows works as it stands there."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from program import Ended

from proctor.harnesses.command_declaration import PLACEHOLDERS, Declaration
from proctor.harnesses.command_parsers import USAGE_FIELDS
from proctor.testing.model_server import serve
from proctor.testing.replies import Answer
from proctor.testing.shell_script import shell_script
from support import agents

PAGE = (Path(__file__).parents[2] / "docs/command-harness.md").read_text(encoding="utf-8")
YAML = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = re.findall(r"^\$ proctor (run trivial .*)$", PAGE, re.MULTILINE)


def command_with(text: str) -> list[str]:
    [found] = [command for command in COMMANDS if text in command]
    return shlex.split(found)


@pytest.fixture
def answer_file(tmp_path: Path) -> Callable[[Ended], dict[str, str]]:
    def read(ended: Ended) -> dict[str, str]:
        tries = [path.parent for path in ended.run_dir.rglob("trajectory.json")]
        return {path.parent.parent.parent.name: json.loads((path / "trajectory.json").read_text()) for path in tries}

    return read


def test_the_first_example_passes(proctor: Callable[..., Ended], tmp_path: Path, answer_file) -> None:
    (tmp_path / "ask.yaml").write_text(YAML[0])
    with serve(lambda request: Answer("ok")) as server:
        words = [word.replace("http://127.0.0.1:8000/v1", server.base_url) for word in command_with("ask.yaml")]
        ended = proctor(*words, "--json")
        asked = [request for request in server.requests if request.messages]
    assert ended.code == 0, ended.err
    assert ended.receipt["runs"][0]["counts"]["passed"] == 2
    assert len(asked) == 2
    trajectories = answer_file(ended)
    assert {one["agent"]["name"] for one in trajectories.values()} == {"ask"}
    assert all(one["final_metrics"]["total_completion_tokens"] == 1 for one in trajectories.values())


def test_the_example_in_python_passes(proctor: Callable[..., Ended], tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "my_agents.py").write_text(PYTHON[0])
    monkeypatch.syspath_prepend(str(tmp_path))
    ended = proctor(*command_with("my_agents:Echo"), "--json")
    assert ended.receipt["runs"][0]["counts"]["failed"] == 1, ended.err  # its answer is the prompt in capitals


def test_the_page_has_every_field_and_placeholder() -> None:
    rows = re.findall(r"^\| `([a-z_]+)` \|", PAGE, re.MULTILINE)
    assert set(Declaration.model_fields) <= set(rows)
    assert {name for name in PLACEHOLDERS if f"`{{{name}}}`" in PAGE} == set(PLACEHOLDERS)
    assert all(f"`{name}`" in PAGE for name in USAGE_FIELDS)


def test_the_page_names_the_versions_that_are_installed() -> None:
    for name in agents.HARNESSES:
        version = agents.harness(name).declared("openai").version
        assert re.search(rf"^\| `{name}` \| .* \| {re.escape(str(version))} \|", PAGE, re.MULTILINE), name


def test_a_ready_program_works_from_the_command_line(proctor: Callable[..., Ended], answer_file) -> None:
    path = agents.search_path("codex")
    with serve(shell_script(["echo hi > hello.txt"], answer="ok")) as server:
        ended = proctor(
            "run", "trivial", "codex", "openai/scripted", "--limit", "1", "--json",
            "--set", f"model.base_url={server.base_url}", "--set", "model.api_key=sk-secret-0123456789",
            "--set", f"environment.env.PATH={path}", "--set", 'artifacts=[{"path": "hello.txt"}]',
        )  # fmt: skip
    assert ended.code == 0, ended.err
    assert ended.receipt["runs"][0]["counts"]["passed"] == 1
    [trajectory] = answer_file(ended).values()
    assert trajectory["agent"]["name"] == "codex"
    [hello] = ended.run_dir.rglob("hello.txt*")
    assert hello.read_text() == "hi\n"
    kept = [path for path in ended.run_dir.rglob("*") if path.is_file()]
    assert any("rollout" in path.name for path in kept)
    assert not [path for path in kept if b"sk-secret-0123456789" in path.read_bytes()]
    usage = json.loads(next(ended.run_dir.rglob("result.json")).read_text())["tries"][0]["usage"]
    assert usage["calls"] == 2
    assert usage["output_tokens"] == trajectory["final_metrics"]["total_completion_tokens"]


def test_a_program_that_takes_too_long_is_graded_on_what_it_left(proctor: Callable[..., Ended]) -> None:
    """Spec 05: the limit fires in agent, and output so far is kept."""
    ended = proctor(
        "run", "trivial", "command", "--limit", "1", "--json", "--set", "agent_timeout_seconds=1",
        "--set", 'harness.params.command=["sh", "-c", "echo partly; sleep 600"]',
    )  # fmt: skip
    assert ended.receipt["runs"][0]["counts"]["failed"] == 1, ended.err
    [result] = ended.run_dir.rglob("result.json")
    assert [issue["code"] for issue in json.loads(result.read_text())["tries"][0]["issues"]] == ["time.agent"]
    [stdout] = ended.run_dir.rglob("stdout.txt")
    assert stdout.read_text() == "partly\n"


# ------------------------------------------------------------------------------------ refused before anything starts


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["codex", "mock/echo"], "lives inside of proctor"),
        (["claude-code", "local/smollm2"], "lives inside of proctor"),
        (["codex", "openai/m", "--set", "model.params.temperature=0"], "does not know of model.params"),
        (["codex", "openai/m", "--set", 'environment.network="none"'], "model.example.org:443 is refused"),
        (
            ["codex", "openai/m", "--set", 'environment.network={"allow": ["example.org"]}'],
            "model.example.org:443 is refused: it is not among the allowed hosts",
        ),
    ],
)
def test_what_could_not_be_called_is_refused(proctor: Callable[..., Ended], words: list[str], said: str) -> None:
    ended = proctor(
        "run", "trivial", *words, "--env", "bwrap", "--set", "model.base_url=https://model.example.org/v1", "--dry"
    )
    assert ended.code == 2
    assert said in ended.err
    assert "hint:" in ended.err


def test_an_endpoint_that_is_listed_is_not_refused(proctor: Callable[..., Ended]) -> None:
    network = '{"setup": "full", "agent": {"allow": ["model.example.org"]}}'
    ended = proctor(
        "run", "trivial", "codex", "openai/m", "--env", "bwrap", "--limit", "1", "--dry",
        "--set", "model.base_url=https://model.example.org/v1", "--set", f"environment.network={network}",
    )  # fmt: skip
    assert ended.code == 0, ended.err


def test_this_machine_is_not_the_container(proctor: Callable[..., Ended]) -> None:
    ended = proctor(
        "run", "trivial", "codex", "openai/m", "--env", "docker", "--set", "environment.image=debian:12", "--dry",
        "--set", "model.base_url=http://127.0.0.1:8000/v1",
    )  # fmt: skip
    assert ended.code == 2
    assert "is the container itself" in ended.err
    assert "127.0.0.1:8000" in ended.err
