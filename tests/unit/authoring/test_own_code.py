"""What of its file a task can use, construct by construct (spec 04 P3): what it can see counts, and nothing else."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from proctor.authoring.discover_tasks import found_tasks
from proctor.authoring.source_text import normal

TASK = """
@task
async def f(t):
    t.check("x", {uses})
"""

COUNTS = {
    "a name that is bound twice": ("X = 1\nX = 2", "X = 0\nX = 2", "X"),
    "a conditional": ("if True:\n    X = 1\nelse:\n    X = 2", "if True:\n    X = 1\nelse:\n    X = 3", "X"),
    "a try": (
        "try:\n    import json as J\nexcept ImportError:\n    J = 1",
        "try:\n    import json as J\nexcept ImportError:\n    J = 2",
        "J",
    ),
    "a loop": ("for X in (1, 2):\n    pass", "for X in (1, 3):\n    pass", "X"),
    "a with": ("with open(__file__) as X:\n    pass", "with open(__file__, 'rb') as X:\n    pass", "X"),
    "unpacking": ("X, (Y, *Z) = 1, (2, 3)", "X, (Y, *Z) = 1, (2, 4)", "Z"),
    "a walrus": ("print(X := 1)", "print(X := 2)", "X"),
    "an annotated name": ("X: int = 1", "X: int = 2", "X"),
    "an addition": ("X = [1]\nX += [2]", "X = [1]\nX += [3]", "X"),
    "an item": ("X = {}\nX['a'] = 1", "X = {}\nX['a'] = 2", "X"),
    "an attribute": ("class X: pass\nX.a = 1", "class X: pass\nX.a = 2", "X"),
    "a method that changes it": ("X = []\nX.append(1)", "X = []\nX.append(2)", "X"),
    "a function that changes it": (
        "import random\nX = [1]\nrandom.seed(1)\nrandom.shuffle(X)",
        "import random\nX = [1]\nrandom.seed(1)\nrandom.shuffle(X[:])",
        "X",
    ),
    "a plain call": ("def g(): pass\ng()", "def g(): print()\ng()", "1"),
    "a deletion": ("X = {1: 2}\ndel X[1]", "X = {1: 2, 3: 4}\ndel X[1]", "X"),
    "a lambda": ("X = lambda: 1", "X = lambda: 2", "X()"),
    "what a lambda names": ("Y = 1\nX = lambda: Y", "Y = 2\nX = lambda: Y", "X()"),
    "a default of a helper": ("Y = 1\ndef X(a=Y): return a", "Y = 2\ndef X(a=Y): return a", "X()"),
    "a base class": ("class A:\n    x = 1\nclass B(A): pass", "class A:\n    x = 2\nclass B(A): pass", "B.x"),
    "a decorator of a helper": (
        "def d(g): return g\n@d\ndef X(): pass",
        "def d(g): return [g][0]\n@d\ndef X(): pass",
        "X()",
    ),
    "a global": ("def X():\n    global Y\n    Y = 1\nY = 2", "def X():\n    global Y\n    Y = 1\nY = 3", "X()"),
    "a comprehension": ("Y = [1]\nX = [y for y in Y]", "Y = [2]\nX = [y for y in Y]", "X"),
    "an f-string": ("Y = 1\nX = f'{Y}'", "Y = 2\nX = f'{Y}'", "X"),
    "a match": ("match 1:\n    case X: pass", "match 2:\n    case X: pass", "X"),
    "the rest of a match": ("match {}:\n    case {**X}: pass", "match {1: 2}:\n    case {**X}: pass", "X"),
    "the end of a match": ("match [1]:\n    case [*X]: pass", "match [2]:\n    case [*X]: pass", "X"),
    "a star import": ("from ._star import *", "from ._star import *\nfrom ._other import *", "1"),
    "recursion": ("def X(n): return n and X(n - 1)", "def X(n): return n and X(n - 2)", "X(1)"),
    "exec": ("X = 1\nexec('Z = 1')", "X = 2\nexec('Z = 1')", "1 if True else eval('X')"),
    "a text of several lines": ("X = '''a\n\nb  \n# c'''", "X = '''a\nb  \n# c'''", "X"),
    "a dynamic import": (
        "import importlib\nX = importlib.import_module('json')",
        "import importlib\nX = importlib.import_module('re')",
        "X",
    ),
}  # fmt: skip

MATCHES = "def g(a):\n    match a:\n        case {**X}: return X"
LEFT_OUT = {
    "a local of the same name": ("X = 1", "X = 2", "[X for X in (1,)]"),
    "the rest of a match in a helper": (f"X = 1\n{MATCHES}", f"X = 2\n{MATCHES}", "g({})"),
    "another task": ("@task\nasync def g(t): pass", "@task\nasync def g(t): return", "1"),
    "the order of what is not named": ("X = 1\nY = 2", "Y = 2\nX = 1", "1"),
    "a docstring of the file": ("'a'", "'b'", "1"),
    "a comment that looks like code": ("# X = 1", "# X = 2", "1"),
    "trailing white space": ("X = 1", "X = 1   ", "X"),
    "annotations from the future": ("", "X = 1", "1"),
}


def code_of(folder: Path, above: str, uses: str) -> dict[str, str]:
    path = folder / "evals/a.py"
    path.parent.mkdir(exist_ok=True)
    for name in ("_star", "_other"):
        (folder / f"evals/{name}.py").write_text(f"{name} = 1\n")
    source = "from __future__ import annotations\nfrom proctor import task\n" + above + "\n" + TASK.format(uses=uses)
    path.write_text(source)
    found = found_tasks(folder)
    assert not found.errors, found.errors
    return dict(found.by_id["a/f"].task.code)


@pytest.mark.parametrize("what", COUNTS)
def test_P3_what_a_task_can_use_counts(tmp_path: Path, what: str) -> None:
    before, after, uses = COUNTS[what]
    assert code_of(tmp_path, before, uses) != code_of(tmp_path, after, uses)


@pytest.mark.parametrize("what", LEFT_OUT)
def test_P3_what_a_task_cannot_use_does_not_count(tmp_path: Path, what: str) -> None:
    before, after, uses = LEFT_OUT[what]
    assert code_of(tmp_path, before, uses) == code_of(tmp_path, after, uses)


def test_P3_an_argument_that_is_called_as_the_variable_of_a_loop_does_not_name_it(tmp_path: Path) -> None:
    loop = (
        "for row in ({rows}):\n    @task(name=f'r{{row}}')\n    async def r(t, row=row):\n        t.check('x', row)\n"
    )
    found = []
    for rows in ("1, 2", "1, 3"):
        code_of(tmp_path, loop.format(rows=rows), "1")
        found.append({one.id: one.task.code for one in found_tasks(tmp_path).tasks})
    assert found[0]["a/r1"] == found[1]["a/r1"]
    assert found[0]["a/f"] == found[1]["a/f"]


def test_P3_the_variable_of_a_loop_itself_counts(tmp_path: Path) -> None:
    """A function that uses it instead of an argument sees whatever it is last."""
    loop = "for row in ({rows}):\n    @task(name=f'r{{row}}')\n    async def r(t):\n        t.check('x', row)\n"
    found = []
    for rows in ("1, 2", "1, 3"):
        code_of(tmp_path, loop.format(rows=rows), "1")
        found.append({one.id: one.task.code for one in found_tasks(tmp_path).tasks})
    assert found[0]["a/r1"] != found[1]["a/r1"]


def test_P3_a_decorator_between_the_task_and_its_function_counts(tmp_path: Path) -> None:
    source = """
        import functools
        from proctor import task
        TIMES = 1
        def twice(function):
            @functools.wraps(function)
            async def wrapper(t):
                for _ in range(TIMES):
                    await function(t)
            return wrapper
        @task
        @twice
        async def f(t):
            t.check("x", True)
    """
    (tmp_path / "evals").mkdir()
    found = []
    for times in ("1", "2"):
        (tmp_path / "evals/a.py").write_text(dedent(source).replace("TIMES = 1", f"TIMES = {times}"))
        found.append(found_tasks(tmp_path).by_id["a/f"].task.code)
    assert found[0] != found[1]


def test_normal_source_keeps_what_is_in_texts() -> None:
    assert normal("a = 1  # b\n\n\nc = '# d'  \n") == "a = 1\nc = '# d'"
    assert normal("a = '''\n\n b \n'''\n") == "a = '''\n\n b \n'''"
    assert normal("a = (\n") == "a = (\n", "what is no Python stays as it is"
    assert normal("x = f'{a!r:>{w}} # no'  # yes\n") == "x = f'{a!r:>{w}} # no'"


def test_P3_the_docstring_of_a_task_is_for_people_unless_code_looks_at_it(tmp_path: Path) -> None:
    def code(docstring: str, uses: str) -> dict[str, str]:
        folder = tmp_path / "evals"
        folder.mkdir(exist_ok=True)
        text = f'from proctor import task\n\n@task\nasync def f(t):\n    """{docstring}"""\n    t.check("x", {uses})\n'
        (folder / "a.py").write_text(text)
        return dict(found_tasks(tmp_path).by_id["a/f"].task.code)

    assert code("one", "1") == code("another,\n    of two lines.", "1")
    assert code("one", "f.function.__doc__") != code("another", "f.function.__doc__")


def test_12_a_file_with_many_tasks_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes as long as the file is long is done once, and not again for each of its tasks."""
    from proctor.authoring import own_code, source_text

    read: list[int] = []
    walked: list[type] = []
    monkeypatch.setattr(own_code, "normal", lambda text: read.append(len(text)) or source_text.normal(text))
    walk = own_code.ast.walk
    monkeypatch.setattr(own_code.ast, "walk", lambda node: walked.append(type(node)) or walk(node))
    (tmp_path / "evals").mkdir()
    many = [f"@task\nasync def f{number}(t):\n    t.check('x', {number})\n" for number in range(200)]
    source = "from proctor import task\n" + "".join(many)
    (tmp_path / "evals" / "a.py").write_text(source)
    assert len(found_tasks(tmp_path).tasks) == 200
    assert sum(read) < 3 * len(source)
    assert walked.count(own_code.ast.Module) <= 4


def test_12_only_a_file_that_is_imported_is_read_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from proctor.authoring import project_modules, source_text

    read: list[str] = []
    monkeypatch.setattr(project_modules, "normal", lambda text: read.append(text) or source_text.normal(text))
    (tmp_path / "evals").mkdir()
    for name in "abc":
        source = f"from proctor import task\nfrom ._lib import X\n@task\nasync def f(t):\n    t.check('{name}', X)\n"
        (tmp_path / "evals" / f"{name}.py").write_text(source)
    (tmp_path / "evals" / "_lib.py").write_text("X = 1\n")
    assert len(found_tasks(tmp_path).tasks) == 3
    assert read == ["X = 1\n"]
