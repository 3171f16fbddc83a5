"""A project's own files: imported once, in order, and what breaks is named by file and line (spec 02)."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from proctor.authoring.project_files import files_below, import_below, import_file, joined
from proctor.errors import UsageError


@pytest.fixture(autouse=True)
def _own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])


def write(project: Path, **files: str) -> Path:
    for name, text in files.items():
        path = project / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return project


def test_files_are_found_in_the_order_of_their_paths_and_private_ones_are_left_alone(tmp_path: Path) -> None:
    write(tmp_path, evals__b="", evals__a__z="", evals__a="", evals___own="", evals___kept__x="")
    (tmp_path / "evals/.hidden.py").write_text("raise SystemExit")
    (tmp_path / "evals/notes.txt").write_text("no code")
    names = [path.relative_to(tmp_path).as_posix() for path in files_below(tmp_path, "evals")]
    assert names == ["evals/a/z.py", "evals/a.py", "evals/b.py"]


def test_a_folder_that_is_not_there_has_no_files(tmp_path: Path) -> None:
    assert import_below(tmp_path, "evals") == ([], [])


def test_a_file_is_imported_once_until_it_changes(tmp_path: Path) -> None:
    write(tmp_path, evals__a="value = []")
    first = import_file(tmp_path / "evals/a.py", tmp_path)
    assert import_file(tmp_path / "evals/a.py", tmp_path).module is first.module
    write(tmp_path, evals__a="value = {}")  # of the same length, perhaps within one second
    os.utime(tmp_path / "evals/a.py", ns=(1, 1))
    assert import_file(tmp_path / "evals/a.py", tmp_path).module.value == {}


def test_ids_and_names(tmp_path: Path) -> None:
    write(tmp_path, evals__sub__naps="")
    file = import_file(tmp_path / "evals/sub/naps.py", tmp_path)
    assert (file.name, file.id_below("evals")) == ("evals/sub/naps.py", "sub/naps")


def test_a_file_may_be_called_as_no_module_can_be(tmp_path: Path) -> None:
    write(tmp_path, evals__a="value = 1")
    (tmp_path / "evals/gpt-4.1.py").write_text("from .a import value")
    (tmp_path / "evals/gpt-4·1.py").write_text("value = 2")
    files, errors = import_below(tmp_path, "evals")
    assert errors == []
    assert {file.name: file.module.value for file in files} == {
        "evals/a.py": 1,
        "evals/gpt-4.1.py": 1,
        "evals/gpt-4·1.py": 2,
    }


def test_shared_modules_are_found_relative_and_from_the_project(tmp_path: Path) -> None:
    write(
        tmp_path,
        shared_by_both="VALUE = 3",
        evals___own="VALUE = 4",
        evals__sub___deep="VALUE = 5",
        evals__sub__a="from shared_by_both import VALUE as A\n"
        "from .._own import VALUE as B\nfrom ._deep import VALUE as C",
    )
    module = import_file(tmp_path / "evals/sub/a.py", tmp_path).module
    assert (module.A, module.B, module.C) == (3, 4, 5)


def test_the_init_file_of_a_folder_is_executed(tmp_path: Path) -> None:
    write(tmp_path, evals__a="from . import VALUE")
    (tmp_path / "evals/__init__.py").write_text("VALUE = 6")
    assert import_file(tmp_path / "evals/a.py", tmp_path).module.VALUE == 6


def test_two_projects_have_modules_of_their_own(tmp_path: Path) -> None:
    one, two = write(tmp_path / "one", evals__a="value = 1"), write(tmp_path / "two", evals__a="value = 2")
    values = [import_file(each / "evals/a.py", each).module.value for each in (one, two)]
    assert values == [1, 2]


def test_what_a_file_prints_is_no_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, evals__a="print('hello')")
    import_file(tmp_path / "evals/a.py", tmp_path)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "hello\n")


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("\n\nx = (", 3, "SyntaxError: '(' was never closed"),
        ("def f():\n    return 1 / 0\n\nf()\n", 2, "ZeroDivisionError: division by zero"),
        ("\nimport no_such_module", 2, "ModuleNotFoundError: No module named 'no_such_module'"),
        ("raise SystemExit(3)", 1, "SystemExit: 3"),
        ("import json\njson.loads('{')", 2, "JSONDecodeError"),
    ],
)
def test_an_import_error_names_file_and_line(tmp_path: Path, text: str, line: int, said: str) -> None:
    write(tmp_path, evals__a=text)
    with pytest.raises(UsageError) as caught:
        import_file(tmp_path / "evals/a.py", tmp_path)
    assert caught.value.message.startswith(f"evals/a.py:{line}: cannot be imported: {said}")
    assert caught.value.hint


def test_an_error_in_a_shared_module_names_it_and_who_imports_it(tmp_path: Path) -> None:
    write(tmp_path, evals___own="\nraise ValueError('no')", evals__a="from ._own import x")
    with pytest.raises(UsageError) as caught:
        import_file(tmp_path / "evals/a.py", tmp_path)
    expected = "evals/_own.py:2: cannot be imported (imported by evals/a.py): ValueError: no"
    assert caught.value.message == expected


def test_one_broken_file_hides_no_other(tmp_path: Path) -> None:
    write(tmp_path, evals__a="1/0", evals__b="value = 2", evals__c="x = ")
    files, errors = import_below(tmp_path, "evals")
    assert [file.name for file in files] == ["evals/b.py"]
    assert [error.message.partition(": ")[0] for error in errors] == ["evals/a.py:1", "evals/c.py:1"]
    message = joined(errors).message
    assert message.count("\n") == 2
    assert all(error.message in message for error in errors)


def test_a_broken_file_leaves_no_module_behind(tmp_path: Path) -> None:
    write(tmp_path, evals__a="1/0")
    import_below(tmp_path, "evals")
    write(tmp_path, evals__a="value = 7")
    assert import_file(tmp_path / "evals/a.py", tmp_path).module.value == 7


def test_an_interrupt_is_no_error_of_the_file(tmp_path: Path) -> None:
    write(tmp_path, evals__a="raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        import_file(tmp_path / "evals/a.py", tmp_path)


def test_a_file_that_changes_the_directory_changes_it_for_itself(tmp_path: Path) -> None:
    here = os.getcwd()
    write(tmp_path, evals__a="import os\nos.chdir('/')\nthere = os.getcwd()\n")
    [file], _ = import_below(tmp_path, "evals")
    assert (file.module.there, os.getcwd()) == ("/", here)


def test_a_file_is_one_module_by_whichever_name_it_is_imported(tmp_path: Path) -> None:
    write(
        tmp_path,
        evals__a="from . import _state, b\nfrom evals import _state as same\nimport evals.a as me\n"
        "import evals.b as b_too\nMINE = []\n_state.SEEN.append('a')",
        evals__b="from evals import _state\n_state.SEEN.append('b')",
        evals___state="from ._more import MORE\nSEEN = []",
        evals___more="MORE = []",
        evals__c="from evals._more import MORE\nfrom ._state import MORE as SAME",
    )
    files, errors = import_below(tmp_path, "evals")
    assert errors == []
    a, b, c = (file.module for file in files)
    assert (a.me, a.b, a.b_too, a.same) == (a, b, b, a._state)
    assert a._state.SEEN == ["b", "a"], "each is executed once"
    assert c.MORE is c.SAME
    assert a.__spec__.name == a.__name__


def test_an_installed_package_of_that_name_stays_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site" / "evals").mkdir(parents=True)
    (tmp_path / "site" / "evals" / "__init__.py").write_text("VALUE = 'installed'")
    project = write(tmp_path / "project", evals__a="from . import _x\nimport evals\nVALUE = evals.VALUE", evals___x="")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.delitem(sys.modules, "evals", raising=False)
    import_file(project / "evals/a.py", project)
    sys.path.remove(str(project))
    sys.path.append(str(project))
    monkeypatch.delitem(sys.modules, "evals", raising=False)
    (project / "evals/a.py").write_text("from . import _x\nimport evals\nVALUE = evals.VALUE  # again")
    assert import_file(project / "evals/a.py", project).module.VALUE == "installed"
