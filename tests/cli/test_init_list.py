"""`proctor init` makes a project that works at once; `proctor list` says what a project holds (spec 02)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from program import HANG_SECONDS, Ended

from proctor.cli.commands.init import FILES

Proctor = Callable[..., Ended]


@pytest.fixture(autouse=True)
def _own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    sys.modules.pop("mock_model", None)  # of another project


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# -------------------------------------------------------------------------------------------------------------- init


def test_a_new_project_passes_at_once(program: Callable[..., Ended], tmp_path: Path) -> None:
    """As a user does it: in processes of their own, with nothing importable but what is installed."""
    assert program("init").code == 0
    assert contents(tmp_path).keys() == FILES.keys()
    ended = program("exp", "--json")
    assert ended.code == 0, ended.err
    assert ended.receipt["exit_code"] == 0
    [run_dir] = ended.run_dirs
    counts = json.loads((run_dir / "summary.json").read_text())["counts"]
    assert (counts["passed"], counts["total"]) == (2, 2)


@pytest.mark.long
def test_modules_of_the_project_are_found_by_the_installed_command(proctor: Proctor, tmp_path: Path) -> None:
    """It starts without the directory of the project in its path; proctor.yaml names `mock_model:answer` there."""
    proctor("init", "project")
    command = [str(Path(sys.executable).with_name("proctor")), "run", "evals", "chat", "main", "--results-dir", "out"]
    folder = tmp_path / "project/evals"
    ended = subprocess.run(command, check=False, cwd=folder, capture_output=True, text=True, timeout=HANG_SECONDS)
    assert ended.returncode == 0, ended.stderr
    assert "100.0% (2/2 passed)" in ended.stderr


def test_every_command_works_in_a_new_project(proctor: Proctor, tmp_path: Path) -> None:
    proctor("init")
    assert proctor("config", "show").code == 0
    assert "execute: new" in proctor("exp", "--dry").out
    assert proctor("exp").code == 0
    assert "reuse @" in proctor("exp", "--dry").out
    tasks = json.loads(proctor("list", "tasks", "--json").out)["tasks"]
    assert [task["id"] for task in tasks] == ["hello/names_the_capital", "hello/writes_a_function"]
    [experiment] = json.loads(proctor("list", "experiments", "--json").out)["experiments"]
    assert (experiment["id"], experiment["tasks"]) == ("first", 2)
    assert proctor("run", "evals", "chat", "main").code == 0


def test_init_says_what_to_do_next(proctor: Proctor, tmp_path: Path) -> None:
    ended = proctor("init", "my project")
    assert ended.code == 0
    assert "cd 'my project'" in ended.out
    assert "proctor exp" in ended.out
    assert ".env.example" in ended.out
    assert "models: main:" in ended.out
    assert contents(tmp_path / "my project").keys() == FILES.keys()


def test_init_twice_changes_nothing(proctor: Proctor, tmp_path: Path) -> None:
    proctor("init")
    before = contents(tmp_path)
    ended = proctor("init")
    assert (ended.code, contents(tmp_path)) == (0, before)
    assert ended.out.count("it is the same") == len(FILES)


def test_init_never_overwrites_and_names_what_is_in_the_way(proctor: Proctor, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals/mine.py").write_text("")
    (tmp_path / ".gitignore").write_text("results/\n")
    ended = proctor("init")
    assert ended.code == 0
    assert "kept README.md: it was there, and differs" in ended.out
    assert "kept .gitignore: add these lines to it: .env, .proctor/, __pycache__/" in ended.out
    found = contents(tmp_path)
    assert (found["README.md"], found[".gitignore"]) == (b"mine", b"results/\n")
    assert found.keys() == {*FILES, "evals/mine.py"}


def test_a_directory_in_the_place_of_a_file_is_kept(proctor: Proctor, tmp_path: Path) -> None:
    (tmp_path / "README.md").mkdir()
    assert "kept README.md: it is there, and is no file that can be read" in proctor("init").out


def test_init_where_a_file_is_in_the_place_of_a_directory(proctor: Proctor, tmp_path: Path) -> None:
    (tmp_path / "evals").write_text("")
    ended = proctor("init")
    assert ended.code == 2
    assert "cannot make `evals/hello.py`: `evals` is no directory" in ended.err
    (tmp_path / "file").write_text("")
    assert proctor("init", "file").code == 2


def test_the_files_of_a_project_are_well_formed(proctor: Proctor, tmp_path: Path) -> None:
    proctor("init")
    for path in tmp_path.rglob("*.py"):
        compile(path.read_text(), str(path), "exec")
    assert max(len(line) for text in contents(tmp_path).values() for line in text.decode().splitlines()) <= 125


# -------------------------------------------------------------------------------------------------------------- list


def write(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("from proctor import Experiment, task\n" + text, encoding="utf-8")


def test_tasks_are_listed_with_where_they_are(proctor: Proctor, tmp_path: Path) -> None:
    write(tmp_path, "evals/naps.py", "@task(tags=['smoke'])\nasync def nap(t):\n    'It sleeps.\\n\\n    Long.'\n")
    [row] = json.loads(proctor("list", "tasks", "--json").out)["tasks"]
    assert {name: row[name] for name in ("id", "tags", "file", "group")} == {
        "id": "naps/nap",
        "tags": ["smoke"],
        "file": "evals/naps.py:2",
        "group": None,
    }
    assert row["description"].startswith("It sleeps.")
    ended = proctor("list", "tasks")
    assert ended.out.splitlines()[1].split(maxsplit=3) == ["naps/nap", "smoke", "evals/naps.py:2", "It sleeps."]


def test_experiments_are_listed_with_what_they_are_made_of(proctor: Proctor, tmp_path: Path) -> None:
    write(
        tmp_path,
        "experiments/x.py",
        "experiment = Experiment(benchmark='trivial', harness='chat', model='mock/echo', tasks=['t0'], tags=['a'])",
    )
    [row] = json.loads(proctor("list", "experiments", "--json").out)["experiments"]
    assert row == {
        "id": "x",
        "file": "experiments/x.py:2",
        "tasks": 10,
        "attempts": 1,
        "benchmark": "trivial",
        "harness": "chat",
        "model": "mock/echo",
        "tags": ["a"],
    }
    assert not (tmp_path / "results").exists()


def test_a_listing_needs_no_credential(proctor: Proctor, tmp_path: Path) -> None:
    write(
        tmp_path,
        "experiments/x.py",
        "experiment = Experiment(benchmark='trivial', harness='chat', model='openai/gpt-x')",
    )
    ended = proctor("list", "experiments", "--json")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["experiments"][0]["model"] == "openai/gpt-x"


def test_broken_files_are_said_and_the_others_are_listed(proctor: Proctor, tmp_path: Path) -> None:
    write(tmp_path, "evals/good.py", "@task\nasync def works(t): ...\n")
    write(tmp_path, "evals/broken.py", "\n1 / 0\n")
    write(tmp_path, "experiments/good.py", "experiment = Experiment(benchmark='trivial', harness='nop')\n")
    write(tmp_path, "experiments/broken.py", "import no_such_module\n")
    write(tmp_path, "experiments/wrong.py", "experiment = Experiment(benchmark='trivial', harness='nop', attempts=0)\n")
    write(tmp_path, "experiments/unfinished.py", "experiment = Experiment(benchmark='trivial')\n")
    tasks = proctor("list", "tasks")
    assert tasks.code == 2
    assert "good/works" in tasks.out
    assert "error: evals/broken.py:3: " in tasks.err
    found = proctor("list", "experiments", "--json")
    assert found.code == 2
    rows = {row["id"]: row for row in json.loads(found.out)["experiments"]}
    assert rows.keys() == {"good", "unfinished", "wrong"}
    assert "error: experiments/unfinished.py:2: `harness` is required" in found.err
    assert (rows["good"]["tasks"], rows["wrong"]["tasks"], rows["wrong"]["harness"]) == (10, None, "nop")
    assert "error: experiments/broken.py:2: " in found.err
    assert "error: experiments/wrong.py:2: `attempts`: " in found.err


def test_a_project_without_tasks_says_so(proctor: Proctor) -> None:
    for what in ("tasks", "experiments"):
        ended = proctor("list", what)
        assert (ended.code, ended.out) == (0, "")
        assert f"there are no {what} here; `proctor init` makes a project with some" in ended.err
        assert json.loads(proctor("list", what, "--json").out) == {what: []}


def test_tasks_of_a_benchmark_are_listed(proctor: Proctor) -> None:
    rows = json.loads(proctor("list", "tasks", "trivial", "--json").out)["tasks"]
    assert [row["id"] for row in rows[:2]] == ["t0000", "t0001"]
    assert proctor("list", "tasks", "trvial").code == 2
    assert proctor("list", "harnesses", "trivial").code == 2


def test_models_of_the_project_are_listed_beside_the_families(proctor: Proctor, tmp_path: Path) -> None:
    (tmp_path / "proctor.yaml").write_text("models:\n  main: {id: mock/echo}\n")
    models = json.loads(proctor("list", "models", "--json").out)["models"]
    assert models["main"] == "mock/echo (proctor.yaml:2)"
    assert models["mock"].startswith("proctor ")
