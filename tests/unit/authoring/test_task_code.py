"""Which edit runs which task again (spec 04 P3)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from proctor.authoring.discover_tasks import found_tasks

FILES = {
    "evals/naps.py": """
        from proctor import task
        from lib.words import WORD
        from ._local import twice
        import lib.registry
        import json, ruamel.yaml

        LIMIT = 3
        UNUSED = 4
        ROWS = [{"id": "one", "n": 1}, {"id": "two", "n": 2}]
        LOOPED = []

        def short(text):
            return len(text) < LIMIT

        class Shape:
            sides = LIMIT

        @task
        async def plain(t):
            "Says something."
            t.check("said", t.answer)

        @task(tags=["a"])
        async def uses(t):
            t.check("short", short(WORD))

        @task
        async def deep(t):
            from lib.deep import depth
            t.check("deep", depth() and Shape.sides)

        @task.each(ROWS, id="id")
        async def rows(t, row):
            t.check("n", twice(row["n"]))

        for number in (1, 2):
            @task(name=f"loop-{number}")
            async def looped(t, number=number):
                t.check("n", number)
            LOOPED.append(looped)

        def made(word):
            @task(name=f"made-{word}")
            async def inner(t):
                t.check("word", word)
            return inner

        MADE = [made("x"), made("y")]

        @task(identity="v3")
        async def pinned(t):
            t.check("pinned", short("x"))

        @task
        async def unfollowed(t):
            t.check("all", globals()["LIMIT"])

        @task
        async def installed(t):
            t.check("yaml", ruamel.yaml.YAML and json)

        if __name__ == "__main__":
            print("never")
    """,
    "evals/_local.py": """
        from .sub import helper
        def twice(n):
            return helper(n) * 2
    """,
    "evals/sub/__init__.py": """
        from evals.sub._inner import helper
    """,
    "evals/sub/_inner.py": """
        def helper(n):
            import evals._local  # they import each other
            return n
    """,
    "lib/__init__.py": "VERSION = 1\n",
    "lib/words.py": "WORD = 'w'\n",
    "lib/deep.py": "def depth():\n    return 1\n",
    "lib/registry.py": "REGISTERED = 1\n",
    "lib/unused.py": "A = 1\n",
}

EVERY = {
    "plain", "uses", "deep", "rows/one", "rows/two", "loop-1", "loop-2", "made-x", "made-y", "pinned", "unfollowed",
    "installed",
}  # fmt: skip

EDITS: dict[str, tuple[str, str, str, set[str]]] = {
    "the function itself": (
        "evals/naps.py", 't.check("said", t.answer)', 't.check("said", 1)', {"plain", "unfollowed"},
    ),
    "a comment": ("evals/naps.py", "LIMIT = 3", "LIMIT = 3  # few", set()),
    "an empty line": ("evals/naps.py", "UNUSED = 4", "\n\nUNUSED = 4", set()),
    "a constant": ("evals/naps.py", "LIMIT = 3", "LIMIT = 5", {"uses", "deep", "unfollowed"}),
    "a constant that nobody uses": ("evals/naps.py", "UNUSED = 4", "UNUSED = 5", {"unfollowed"}),
    "a helper in the file": ("evals/naps.py", "len(text) < LIMIT", "len(text) <= LIMIT", {"uses", "unfollowed"}),
    "a class": ("evals/naps.py", "sides = LIMIT", "sides = 1", {"deep", "unfollowed"}),
    "tags": ("evals/naps.py", 'tags=["a"]', 'tags=["b"]', {"unfollowed"}),
    "one row": ("evals/naps.py", '"n": 2', '"n": 3', {"rows/two", "unfollowed"}),
    "a further row": ("evals/naps.py", '"n": 2}', '"n": 2}, {"id": "three", "n": 3}', {"unfollowed"}),
    "the order of rows": (
        "evals/naps.py", '[{"id": "one", "n": 1}, {"id": "two", "n": 2}]',
        '[{"id": "two", "n": 2}, {"id": "one", "n": 1}]', {"unfollowed"},
    ),
    "the function of the rows": (
        "evals/naps.py", 'twice(row["n"])', 'twice(row["n"]) > 0', {"rows/one", "rows/two", "unfollowed"},
    ),
    "the function of a loop": (
        "evals/naps.py", 't.check("n", number)', 't.check("m", number)', {"loop-1", "loop-2", "unfollowed"},
    ),
    "what a loop goes over": ("evals/naps.py", "in (1, 2)", "in (1, 2, 3)", {"unfollowed"}),
    "what a closure holds": ("evals/naps.py", 'made("y")', 'made("y" + "")', {"unfollowed"}),
    "the function of a closure": (
        "evals/naps.py", 't.check("word", word)', 't.check("w", word)', {"made-x", "made-y", "unfollowed"},
    ),
    "a pinned function": ("evals/naps.py", 't.check("pinned"', 't.check("p"', {"unfollowed"}),
    "a pin": ("evals/naps.py", '"v3"', '"v4"', {"pinned", "unfollowed"}),
    "what runs as a program only": ("evals/naps.py", '"never"', '"ever"', {"unfollowed"}),
    "a module of the project": ("lib/words.py", "'w'", "'v'", {"uses", "unfollowed"}),
    "a comment in a module": ("lib/words.py", "'w'", "'w'  # a word", set()),
    "a package": ("lib/__init__.py", "1", "2", EVERY - {"pinned"}),  # by lib.registry, whose import nobody uses
    "a module imported in a function": ("lib/deep.py", "return 1", "return 2", {"deep", "unfollowed"}),
    "a module imported for what it does": ("lib/registry.py", "1", "2", EVERY - {"pinned"}),
    "a module that nobody imports": ("lib/unused.py", "1", "2", set()),
    "a relative import": ("evals/_local.py", "* 2", "* 3", {"rows/one", "rows/two", "unfollowed"}),
    "what that imports": ("evals/sub/_inner.py", "return n", "return n + 0", {"rows/one", "rows/two", "unfollowed"}),
    "the package on the way": ("evals/sub/__init__.py", "import helper", "import helper\nX = 1",
        {"rows/one", "rows/two", "unfollowed"}),
}  # fmt: skip


def write(project: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text).lstrip("\n"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "proctor.yaml").touch()
    write(tmp_path, FILES)
    return tmp_path


def codes(project: Path) -> dict[str, dict[str, str]]:
    found = found_tasks(project)
    assert not found.errors, found.errors
    return {one.id.removeprefix("naps/"): dict(one.task.code) for one in found.tasks}


@pytest.mark.parametrize("edit", EDITS)
def test_P3_an_edit_runs_again_the_tasks_whose_code_it_is_in(project: Path, edit: str) -> None:
    name, old, new, expected = EDITS[edit]
    before = codes(project)
    assert set(before) == EVERY
    text = (project / name).read_text()
    assert old in text
    (project / name).write_text(text.replace(old, new, 1))
    after = codes(project)
    assert {task for task in EVERY if before[task] != after.get(task)} == expected


def test_P3_the_parts_name_files_below_the_project_and_packages_with_their_versions(project: Path) -> None:
    found = codes(project)
    everywhere = {"evals/naps.py", "lib/__init__.py", "lib/registry.py"}
    assert set(found["plain"]) == everywhere
    assert set(found["uses"]) == everywhere | {"lib/words.py"}
    rows = {"row", "evals/_local.py", "evals/sub/__init__.py", "evals/sub/_inner.py"}
    assert set(found["rows/one"]) == everywhere | rows
    assert set(found["installed"]) == everywhere | {"ruamel.yaml"}
    assert found["installed"]["ruamel.yaml"][0].isdigit()
    assert found["pinned"] == {"identity": "v3"}


def test_P3_the_same_project_elsewhere_and_in_another_process_has_the_same_code(project: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere" / "deep"
    write(elsewhere, FILES)
    program = (
        "import sys, json; from pathlib import Path; from proctor.authoring.discover_tasks import found_tasks\n"
        "found = found_tasks(Path(sys.argv[1]))\n"
        "print(json.dumps({one.id.removeprefix('naps/'): dict(one.task.code) for one in found.tasks}))"
    )
    done = subprocess.run([sys.executable, "-c", program, str(elsewhere)], check=True, capture_output=True, text=True)
    assert json.loads(done.stdout) == codes(project)


def test_P3_what_a_value_is_counts_where_it_is_handed_over(tmp_path: Path) -> None:
    """A list that is built from a file of data, a function as a value, and a path of the project."""
    write(
        tmp_path,
        {
            "evals/values.py": """
                import json
                from functools import partial
                from pathlib import Path
                from proctor import task

                HERE = Path(__file__).parent
                DATA = json.loads((HERE / "data.json").read_text())

                def plus(a, b):
                    return a + b

                def other(a):
                    return a

                def make(name, function, where):
                    @task(name=name)
                    async def inner(t):
                        t.check("x", function(1) and where)
                    return inner

                TASKS = [make("plus", partial(plus, 1), HERE), make("other", other, HERE)]

                @task.each(DATA)
                async def row(t, row):
                    t.check("row", row)
            """,
            "evals/data.json": '{"a": 1, "b": [2]}',
        },
    )
    found = lambda: {one.id: one.task.code for one in found_tasks(tmp_path).tasks}  # noqa: E731
    before = found()
    changed = lambda: {task for task in before if found()[task] != before[task]}  # noqa: E731
    source = tmp_path / "evals/values.py"
    (tmp_path / "evals/data.json").write_text('{"a": 1, "b": [3]}')
    source.write_text(source.read_text() + "\n")  # data that is read is noticed when the file is imported again
    assert changed() == {"values/row/b"}
    before = found()
    source.write_text(source.read_text().replace("return a + b", "return b + a"))
    assert changed() == {"values/plus"}


def test_P3_a_helper_that_is_shared_names_the_file(project: Path) -> None:
    before = codes(project)
    (project / "evals/_local.py").write_text("def twice(n):\n    return n\n")
    after = codes(project)
    differing = {
        name
        for name in before["rows/one"].keys() | after["rows/one"].keys()
        if before["rows/one"].get(name) != after["rows/one"].get(name)
    }
    assert differing == {"evals/_local.py", "evals/sub/__init__.py", "evals/sub/_inner.py"}


def test_P3_the_same_function_on_the_same_line_of_two_files_is_two(tmp_path: Path) -> None:
    same = """
        from proctor import task
        LIMIT = {limit}
        @task
        async def f(t):
            t.check("x", LIMIT)
    """
    write(tmp_path, {"evals/a.py": same.format(limit=10), "evals/b.py": same.format(limit=20)})
    before = codes(tmp_path)
    assert {task: set(parts) for task, parts in before.items()} == {"a/f": {"evals/a.py"}, "b/f": {"evals/b.py"}}
    assert before["a/f"]["evals/a.py"] != before["b/f"]["evals/b.py"]
    write(tmp_path, {"evals/b.py": same.format(limit=30)})
    after = codes(tmp_path)
    assert {task for task in before if before[task] != after[task]} == {"b/f"}
