"""Launch files that were typed wrong: an error with a line, or experiments; never anything else (spec 02)."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from proctor.cli.entry import open_project, resolve_declared
from proctor.cli.launching import of_file
from proctor.errors import UsageError

WHOLE = """\
task_concurrency: 32
runtime: {provider_limits: {local: 8}, env_open_qps: {local: 4}}
execution: {timeout_multiplier: 2, max_retries: 3}
x-shared: &shared {id: chat, params: {system: "..."}}
defaults:
  environment: local
  execution: {max_retries: 2}
  runtime: {reuse: true, checkpoint_resume: true}
requests:
  - name: base
    benchmark: trivial
    harness: *shared
    model: mock/echo
    max_concurrency: 4
  - name: again
    benchmark: {id: trivial, params: {tasks: 4}}
    harness: nop
    agent_timeout_seconds: 1e3
    flags: {a: [1, 2]}
matrix:
  name: "{benchmark}-{model}"
  benchmark: [trivial]
  harness: chat
  model: [mock/echo, {id: mock/fixed, params: {text: "a"}}]
"""

PIECES = [
    "{", "}", "[", "]", ": ", "- ", "\n", "  ", "*shared", "&a", "'", '"', "#", "null", "true", "0x1F", "!!str ", "|\n",
    "<<: *shared", "${HOME}", "${", "%", "@", "\t", "?", "task_concurrency", "x-a: 1\n", "name", "é", "---\n", ",", "~",
    ".nan", "-1", "9" * 20,
]  # fmt: skip


def mutated(chance: random.Random) -> str:
    """Return the file with some of its letters, words or lines lost, doubled, moved, or in the place of others."""
    text = WHOLE
    for _ in range(chance.choice([1, 1, 2, 5])):
        lines = text.split("\n")
        line, other, place = chance.randrange(len(lines)), chance.randrange(len(lines)), chance.randrange(len(text))
        match chance.randrange(6):
            case 0:
                text = text[:place] + text[place + chance.randrange(1, 6) :]
            case 1:
                text = text[:place] + chance.choice(PIECES) + text[place:]
            case 2:
                lines[line], lines[other] = lines[other], lines[line]
                text = "\n".join(lines)
            case 3:
                text = "\n".join([*lines[:other], lines[line], *lines[other:]])
            case 4:
                words = re.findall(r"\w+", text)
                text = text.replace(chance.choice(words), chance.choice([*words, *PIECES]), 1)
            case _:
                lines[line] = " " * chance.randrange(8) + lines[line].strip()
                text = "\n".join(lines)
    return text


@pytest.mark.parametrize("seed", range(8))
def test_02_a_file_with_slips_is_an_error_with_a_line_or_experiments(
    seed: int, environment: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for number in range(25):
        text = mutated(random.Random(25 * seed + number))
        (tmp_path / "launch.yaml").write_text(text)
        said = ""
        try:
            resolved, _ = resolve_declared(open_project({}), lambda project: of_file(Path("launch.yaml"), project))
        except UsageError as error:
            resolved, said = [], error.message
        assert resolved or re.search(r"launch\.yaml:\d+: ", said), (said, text)


def test_the_file_itself_is_right(environment: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "launch.yaml").write_text(WHOLE)
    resolved, _ = resolve_declared(open_project({}), lambda project: of_file(Path("launch.yaml"), project))
    assert [one.experiment.name for one in resolved] == ["base", "again", "trivial-mock/echo", "trivial-mock/fixed"]
