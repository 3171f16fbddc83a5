"""Whatever a file holds: a valid configuration, or errors with a line; never anything else (spec 02).

`PROCTOR_FUZZ_FILES` is how many files are tried; 10,000 is the long form.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proctor.cli.entry import Declarations, resolve_declared
from proctor.cli.launching import of_file
from proctor.cli.typed import argument_layer
from proctor.config.declare import declare
from proctor.config.effective import effective
from proctor.config.layers import Level
from proctor.config.project import Project, load_project
from proctor.config.yaml_file import read_yaml
from proctor.errors import UsageError

FILES = int(os.environ.get("PROCTOR_FUZZ_FILES", "300")) // 2
SECRET = "hunter2-secret"
ENVIRON = {"SECRET": SECRET, "NUMBER": "12", "EMPTY": ""}

PROJECT = """\
# What holds here.
execution:
  task_concurrency: 4
  attempts: 2
  max_retries: 1
  retry_pattern_list: ["(?i)connection.*reset", "temporar"]
  agent_timeout_seconds: 1e3
  timeout_seconds: null
runtime:
  provider_limits: {local: 0o10}
  env_open_qps: {local: 4.5}
  checkpoint_resume: true
  results_dir: "results"
x-shared: &shared
  params: {text: ok}
models:
  one: {<<: *shared, id: mock/fixed, params: {text: ok}}
  two:
    <<: [*shared]
    id: mock/fixed
    api_key: ${SECRET}
    max_connections: ${NUMBER}
  three: mock/echo
benchmarks:
  trivial: {params: {tasks: 3, sandbox: false}}
environments:
  local:
    env:
      A: |
        text
      B: "${UNSET:-default} $${NOT}"
"""

LAUNCH = """\
task_concurrency: 4
runtime: {provider_limits: {local: 8}}
defaults:
  benchmark: trivial
  execution: {max_retries: 2}
  runtime: {reuse: false, checkpoint_resume: true}
requests:
  - name: one
    harness: oracle
    attempts: 2
    budget: 1e3
    flags: {a: 1, b: [x, ~]}
  - &two
    name: two
    harness: {id: chat, params: {system: "short ${SECRET}"}}
    model: {id: mock/fixed, params: {text: ok}}
    artifacts: [{path: a/b, required: true}]
matrix:
  name: "{benchmark}-{harness}"
  harness: [oracle, nop]
"""

PIECES = [
    *(
        "\n",
        " ",
        "  ",
        "\t",
        ":",
        ": ",
        "- ",
        "? ",
        "{",
        "}",
        "[",
        "]",
        ",",
        "#",
        "'",
        '"',
        "|",
        ">",
        "%",
        "@",
        "`",
        "~",
    ),
    *("&a ", "*a", "*shared", "!", "!!str ", "<<: ", "<<: *shared", "---\n", "...\n", "\r", "\r\n", "\\", "é", "x-"),
    *("${", "${SECRET}", "${NUMBER}", "${UNSET}", "$${", "null", "true", "no", "1e3", "0o17", ".inf", "-"),
    *("\u2028", "\x85", "\x07", "\ufeff", "\U0001f600", "id: ", "params: ", "name: ", "requests:", "matrix:"),
    *("models:", "attempts: 0", "timeout_seconds: -1"),
]


@st.composite
def mutated(draw: st.DrawFn, text: str) -> bytes:
    """A file in which a few places were changed: pieces put in, taken out, doubled, lines moved, bytes broken."""
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(text)))
        how = draw(st.sampled_from(["put", "put", "cut", "swap", "double", "line", "word", "indent"]))
        if how == "put":
            text = text[:at] + draw(st.sampled_from(PIECES)) + text[at:]
        elif how == "cut":
            text = text[:at] + text[at + draw(st.integers(1, 20)) :]
        elif how == "swap":
            other = draw(st.integers(0, len(text)))
            text = text[:at] + text[other : other + 10] + text[at:]
        elif how == "double":
            text = text[:at] + text[at : at + draw(st.integers(1, 40))] + text[at:]
        elif how == "line":
            lines = text.splitlines(keepends=True)
            if lines:
                lines.insert(draw(st.integers(0, len(lines))), lines.pop(draw(st.integers(0, len(lines) - 1))))
            text = "".join(lines)
        elif how == "word":
            words = re.split(r"(\w+)", text)
            words[draw(st.integers(0, len(words) - 1))] = draw(st.sampled_from(PIECES))
            text = "".join(words)
        else:
            lines = text.split("\n")
            place = draw(st.integers(0, len(lines) - 1))
            lines[place] = draw(st.sampled_from([" ", "  ", "\t", ""])) + lines[place].lstrip(" ")
            text = "\n".join(lines)
    content = text.encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 30)) == 0 and content:
        at = draw(st.integers(0, len(content) - 1))
        content = content[:at] + bytes([draw(st.integers(0, 255))]) + content[at + 1 :]
    return content


def check_error(error: UsageError, name: str, content: bytes) -> None:
    """An error says what is wrong in which line of which file, and holds no secret."""
    said = f"{error} {error.message} {error.hint}"
    assert "Traceback" not in said
    assert SECRET not in said or SECRET.encode() in content
    lines = (
        content.count(b"\n") + content.count(b"\r") + content.count(b"\xe2\x80\xa8") + content.count(b"\xc2\x85") + 1
    )
    placed = re.findall(rf"{re.escape(name)}:(\d+): ", error.message)
    assert placed, f"no line in: {error.message}"
    assert all(1 <= int(line) <= lines for line in placed), error.message


@settings(max_examples=FILES, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_02_any_project_file_is_valid_or_has_an_error_with_a_line(data: st.DataObject) -> None:
    content = data.draw(mutated(PROJECT))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        Path("proctor.yaml").write_bytes(content)
        try:
            project = load_project(Path(folder), [], ENVIRON)
        except UsageError as error:
            check_error(error, "proctor.yaml", content)
            return
        assert all(row.source.name in ("default", "proctor.yaml") for row in effective(project))
        given_layer = argument_layer(benchmark="trivial", harness="chat", model="mock/echo")
        try:
            resolve_declared(project, lambda found: [declare(found, "e", [given_layer])])
        except UsageError as error:
            check_error(error, "proctor.yaml", content)


@settings(max_examples=FILES, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_02_any_launch_file_is_valid_or_has_an_error_with_a_line(data: st.DataObject) -> None:
    content = data.draw(mutated(LAUNCH))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        path = Path("launch.yaml")
        path.write_bytes(content)

        def declares(project: Project) -> Declarations:
            return of_file(path, project)

        try:
            resolved, _ = resolve_declared(Project(Path(folder), (), ENVIRON), declares)
        except UsageError as error:
            check_error(error, "launch.yaml", content)
        else:
            assert resolved


@settings(max_examples=FILES, deadline=None)
@given(st.binary(max_size=200) | st.text(alphabet="".join(PIECES), max_size=200).map(lambda text: text.encode("utf-8")))
def test_02_any_bytes_at_all_are_read_or_have_an_error_with_a_line(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.yaml"
        path.write_bytes(content)
        file = read_yaml(path, Level.CONFIG, ENVIRON)
        for problem in file.problems:
            assert problem.source is not None
            assert problem.source.line is not None
            assert problem.source.line >= 1


def test_the_files_that_are_changed_are_sound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("proctor.yaml").write_text(PROJECT)
    project = load_project(tmp_path, [], ENVIRON)
    given_layer = argument_layer(benchmark="trivial", harness="chat", model="two")
    resolve_declared(project, lambda found: [declare(found, "e", [given_layer])])
    Path("launch.yaml").write_text(LAUNCH)
    resolved, _ = resolve_declared(project, lambda found: of_file(Path("launch.yaml"), found))
    assert [one.experiment.name for one in resolved] == ["one", "two", "trivial-oracle", "trivial-nop"]
