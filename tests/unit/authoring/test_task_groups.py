"""Task groups of projects: how their files are read, and what can be wrong with them (spec 03 L3)."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from proctor.authoring.groups import FoundGroup, TaskGroup, groups_of, in_groups
from proctor.authoring.project_files import import_below
from proctor.errors import UsageError
from proctor.model.spec import Component, Task
from proctor.plugins.groups import OnUnavailable

TASKS = ("naps/first/a", "naps/first/b", "naps/second/a", "other/c")
HEAD = "from proctor.authoring.groups import TaskGroup\n"


def groups(tmp_path: Path, tasks: tuple[str, ...] = TASKS, **files: str) -> tuple[list[FoundGroup], list[UsageError]]:
    """Write files below `evals/`, named as `naps__group` for `naps/group.py`, and return what is found."""
    for name, text in files.items():
        path = tmp_path / "evals" / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(HEAD + text)
    found, errors = import_below(tmp_path, "evals")
    assert not errors
    return groups_of(found, tasks)


def only_error(tmp_path: Path, **files: str) -> str:
    found, [error] = groups(tmp_path, **files)
    assert error.hint
    assert not found or "two groups" in error.message
    return error.message


def test_L3_members_are_named_from_the_directory_of_the_group_or_whole(tmp_path: Path) -> None:
    text = 'group = TaskGroup(members=["second/a", "naps/first/b", "other/c"], on_unavailable="stop-group")\n'
    [found], errors = groups(tmp_path, naps__group=text)
    assert not errors
    assert found.group.name == "naps"
    assert found.group.on_unavailable is OnUnavailable.STOP_GROUP
    assert found.members == ("naps/first/b", "naps/second/a", "other/c"), "in the order of the tasks"
    assert not found.code


def test_a_group_deep_in_the_tree_is_called_by_its_path(tmp_path: Path) -> None:
    text = 'group = TaskGroup(members=["a"], on_unavailable="replace-sandbox")\n'
    [found], errors = groups(tmp_path, naps__first__group=text)
    assert not errors
    assert (found.group.name, found.members) == ("naps/first", ("naps/first/a",))


@pytest.mark.parametrize(
    ("arguments", "line", "words"),
    [
        ('members=["first/a"]', 2, "does not say what is done when its sandbox is of no use"),
        ('members=["first/a"],\n on_unavailable="stop"', 3, 'must be one of "stop-group", "replace-sandbox", not'),
        ('members=[], on_unavailable="stop-group"', 2, "has no members"),
        ('on_unavailable="stop-group"', 2, "must be a list of task ids, not NoneType"),
        ('members="first/a", on_unavailable="stop-group"', 2, "must be a list of task ids, not str"),
        ('members=["first/a",\n "frist/b"], on_unavailable="stop-group"', 3, "`frist/b`, and there is no such task"),
        ('members=["first/a", 3], on_unavailable="stop-group"', 2, "member 3 is no task id"),
        ('members=["first/a",\n\n "naps/first/a"], on_unavailable="stop-group"', 4, "is twice in group `naps`"),
        ('members=["first/a"], on_unavailable="stop-group",\n member=[]', 3, "unknown field `member`"),
        ('members=["first/a"], on_unavailable="stop-group",\n sandbox_setup=3', 3, "is no function but int"),
        (
            'members=["first/a"], on_unavailable="stop-group",\n sandbox_setup=lambda: None', 3,
            "is called with one argument, the sandbox",
        ),
    ],
)  # fmt: skip
def test_L3_what_is_wrong_with_a_group_is_said_with_its_line(
    tmp_path: Path, arguments: str, line: int, words: str
) -> None:
    message = only_error(tmp_path, naps__group=f"group = TaskGroup({arguments})\n")
    assert message.startswith(f"evals/naps/group.py:{line}: ")
    assert words in message


def test_a_member_that_is_nearly_there_is_suggested(tmp_path: Path) -> None:
    text = 'group = TaskGroup(members=["frist/b"], on_unavailable="stop-group")\n'
    _, [error] = groups(tmp_path, naps__group=text)
    assert error.hint == "did you mean `first/b`?"


def test_L3_a_task_is_in_one_group_at_most(tmp_path: Path) -> None:
    text = 'group = TaskGroup(members=["naps/first/a"], on_unavailable="stop-group")\n'
    message = only_error(tmp_path, naps__group=text, other__group="\n" + text)
    assert message == "evals/other/group.py:3: task `naps/first/a` is in two groups, here and at evals/naps/group.py:2"


def test_a_member_that_may_be_two_tasks_is_refused(tmp_path: Path) -> None:
    text = 'group = TaskGroup(members=["x"], on_unavailable="stop-group")\n'
    found, [error] = groups(tmp_path, ("x", "naps/x"), naps__group=text)
    assert not found
    assert error.message == "evals/naps/group.py:2: member `x` may be `naps/x` and `x`"


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("group", "group", "a group is called by its directory, and this one is in none"),
        ("naps__group", "naps", "is bound to `naps`, where nobody looks for it"),
        ("naps__tasks", "group", "is bound to `group`, where nobody looks for it"),
    ],
)
def test_a_group_that_would_not_be_found_is_said(tmp_path: Path, name: str, text: str, words: str) -> None:
    call = 'TaskGroup(members=["first/a", "naps/first/a"][1:], on_unavailable="stop-group")'
    _, errors = groups(tmp_path, **{name: f"{text} = {call}\n"})
    assert words in errors[0].message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "there is no task group in it"),
        ("group = 'cyclic'\n", "`group` is no TaskGroup but str"),
        ("group = [TaskGroup(members=['first/a'], on_unavailable='stop-group')]\n", "`group` is no TaskGroup but list"),
    ],
)
def test_a_file_called_group_holds_a_group_or_tasks(tmp_path: Path, text: str, words: str) -> None:
    assert only_error(tmp_path, naps__group=text) == f"evals/naps/group.py: {words}"
    assert groups(tmp_path, (*TASKS, "naps/group/order"), naps__group=text) == ([], [])


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    text = 'group = TaskGroup(members=["nope", "neither"])\n'
    _, errors = groups(
        tmp_path, naps__group=text, other__group='group = TaskGroup(members=["c", "d"], on_unavailable=1)\n'
    )
    assert len(errors) == 2, "members are looked at once the rest is right"
    _, errors = groups(tmp_path, naps__group=text.replace(")", ', on_unavailable="stop-group")'))
    assert len(errors) == 3


def test_L3_tasks_know_their_group_and_others_stay_as_they_are(tmp_path: Path) -> None:
    text = 'group = TaskGroup(members=["first/a"], on_unavailable="stop-group")\n'
    found, _ = groups(tmp_path, naps__group=text)
    tasks = [Task(task, Component("g")) for task in TASKS]
    grouped = in_groups(tasks, found)
    assert [task.group for task in grouped] == ["naps", None, None, None]
    assert grouped[1:] == tasks[1:]


SETUP = """
def prepare(sandbox):
    sandbox.state["x"] = 1

group = TaskGroup(
    members=[{members}],
    on_unavailable="{on_unavailable}",
    sandbox_setup=prepare,
)
"""


def code(tmp_path: Path, text: str) -> dict[str, str]:
    [found], errors = groups(tmp_path, naps__group=text)
    assert not errors
    return dict(found.code)


def test_04_P2_what_prepares_the_sandbox_counts_and_the_order_of_the_members_does_not(tmp_path: Path) -> None:
    there = {"members": '"first/a", "first/b"', "on_unavailable": "stop-group"}
    before = code(tmp_path, SETUP.format(**there))
    assert list(before) == ["naps sandbox_setup"]
    assert code(tmp_path, SETUP.format(**{**there, "members": '"first/b", "first/a"'})) == before
    assert code(tmp_path, SETUP.format(**{**there, "on_unavailable": "replace-sandbox"})) == before
    assert code(tmp_path, SETUP.replace("= 1", "= 2").format(**there)) != before


def test_04_P2_a_declared_identity_stands_for_the_source(tmp_path: Path) -> None:
    marked = SETUP.replace("def prepare", '@hook(identity="v1")\ndef prepare')
    there = {"members": '"first/a"', "on_unavailable": "stop-group"}
    head = "from proctor.authoring.hooks import hook\n"
    assert code(tmp_path, head + marked.format(**there)) == {"naps sandbox_setup": "v1"}


def test_the_code_of_a_hook_of_another_file_is_that_file(tmp_path: Path) -> None:
    shared = tmp_path / "evals" / "_shared.py"
    shared.parent.mkdir()
    shared.write_text("def prepare(sandbox): pass\n")
    text = SETUP.replace('def prepare(sandbox):\n    sandbox.state["x"] = 1', "from evals._shared import prepare")
    found = code(tmp_path, text.format(members='"first/a"', on_unavailable="stop-group"))
    assert found == {"naps sandbox_setup": hashlib.sha256(shared.read_bytes()).hexdigest()}


def test_a_group_shows_where_it_is_written() -> None:
    group = TaskGroup(members=["a"], on_unavailable="stop-group")
    assert "test_task_groups.py:" in repr(group)
