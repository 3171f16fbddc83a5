"""Runs side by side: what is compared, what is left out, and how it is said (spec 09 M4)."""

from __future__ import annotations

import json

import pytest

from proctor.core.compare import mcnemar
from proctor.model.attempt import Verdict
from proctor.model.events import AttemptSealed, Completion, DispatchStopped, RunEnded, StopReason
from proctor.report.compare import all_versus, side_data, side_of, versus, versus_data
from proctor.report.compare_text import compare_lines, compare_markdown
from proctor.report.view import RunView


def made(scores, *, name="base", early_exit=False, missing=0, run=None, parts=None, task_parts=None, tasks=None):
    """A run that ended, with the scores of each task's attempts; None is an errored one."""
    view = RunView(name)
    view.tasks = len(scores) + missing
    view.total = sum(map(len, scores.values())) + missing
    view.early_exit = early_exit
    number = 0
    for task, own in scores.items():
        for ordinal, score in enumerate(own):
            verdict = Verdict.ERRORED if score is None else Verdict.PASSED if score == 1 else Verdict.FAILED
            number += 1
            view.add(AttemptSealed(f"a{number:011}", task, ordinal, verdict, score, 1), float(number))
    if missing:
        view.add(DispatchStopped(name, StopReason.BUDGET, missing), 1e3)
    view.add(RunEnded(name, Completion.COMPLETE), 1e3)
    return side_of(
        view, run=run or name, directory=f"/results/{run or name}", tasks=tasks or list(scores),
        about={"model": "m", "harness": "h", "benchmark": "b"}, parts=parts or {}, task_parts=task_parts or {},
    )  # fmt: skip


def coins(passed, total):
    return {f"t{n}": [1.0 if n in passed else 0.0] for n in range(total)}


def test_M4_tasks_are_paired_and_both_directions_are_listed():
    first, second = made(coins({0, 1, 2}, 10), name="a"), made(coins({2, 3, 4, 5, 6, 7, 8}, 10), name="b")
    one = versus(first, second)
    assert one.paired is not None
    assert one.paired.won == ("t3", "t4", "t5", "t6", "t7", "t8")
    assert one.paired.lost == ("t0", "t1")
    assert one.ties == 2
    assert one.paired.difference == pytest.approx(0.4)
    assert one.paired.p_value == mcnemar(6, 2) == pytest.approx(0.2890625)
    data = versus_data(one)
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert (data["first"], data["second"]) == ("/results/a", "/results/b")


def test_M4_a_task_without_a_score_is_named_and_no_failure():
    first = made({"x": [1.0], "y": [None], "z": [0.0]}, name="a")
    second = made({"x": [1.0], "y": [1.0], "w": [1.0]}, name="b", missing=2, tasks=["x", "y", "w", "z"])
    one = versus(first, second)
    assert one.paired is not None
    assert one.paired.tasks == 1
    assert one.unscored == ("y", "z")
    assert (one.only_first, one.only_second) == ((), ("w",))
    text = "\n".join(compare_lines([first, second], [one]))
    assert "1 without score" in text
    assert "without a score in one of them: 2 tasks: y, z" in text


def test_M4_what_differs_is_named_and_two_things_at_once_are_warned_of():
    same = {"harness": "1", "environment": "2"}
    first = made(coins({0}, 2), name="a", parts={**same, "model": "3"})
    second = made(coins({1}, 2), name="b", parts={**same, "model": "4"})
    third = made(coins({1}, 2), name="c", parts={"harness": "9", "environment": "2", "model": "4"})
    assert versus(first, second).differs == ("model",)
    assert versus(second, second).differs == ()
    both = versus(first, third)
    assert both.differs == ("harness", "model")
    said = ["\n".join(compare_lines([first, other], [versus(first, other)])) for other in (second, third)]
    assert "cannot be put down to any one of them" not in said[0]
    assert "cannot be put down to any one of them" in said[1]


def test_M4_a_task_with_other_content_is_another_task():
    first = made(coins({0}, 3), name="a", task_parts={"t0": {"task": "1"}, "t1": {"grader": "1"}, "t2": {"group": "1"}})
    second = made(
        coins({1}, 3), name="b", task_parts={"t0": {"task": "2"}, "t1": {"grader": "2"}, "t2": {"group": "2"}}
    )
    one = versus(first, second)
    assert one.left_out == ("t0", "t1")
    assert one.changed == {"grader": 1, "group": 1, "task": 1}
    assert one.paired is not None
    assert one.paired.tasks == 1
    whole = versus(first, second, include_changed=True)
    assert whole.left_out == ()
    assert whole.paired is not None
    assert whole.paired.tasks == 3


def test_M3_with_early_exit_tasks_are_compared_by_whether_they_were_solved():
    first = made({"x": [0.0, 1.0], "y": [0.0, 0.0], "z": [0.0, None]}, name="a", early_exit=True)
    second = made({"x": [1.0, 1.0], "y": [0.0, 1.0], "z": [1.0, 0.0]}, name="b")
    assert first.scores == {"x": [1.0], "y": [0.0]}
    one = versus(first, second)
    assert "solved at least once" in "\n".join(compare_lines([first, second], [one]))


def test_M4_several_comparisons_are_corrected_for_their_number():
    sides = [made(coins(set(range(passed)), 20), name=f"r{passed}") for passed in (5, 10, 14)]
    with_first = all_versus(sides)
    assert [(one.first.run, one.second.run) for one in with_first] == [("r5", "r10"), ("r5", "r14")]
    # 5 and 9 wins without a loss: 2 / 2**5 and 2 / 2**9; Holm: the smaller twice, the larger once.
    assert [one.paired.p_value for one in with_first if one.paired] == [0.0625, 0.00390625]
    assert [one.corrected_p_value for one in with_first] == [0.0625, 0.0078125]
    assert len(all_versus(sides, every_pair=True)) == 3
    assert all_versus(sides[:2])[0].corrected_p_value is None


def test_M5_runs_without_scores_are_compared_without_numbers():
    first, second = made({"x": [None]}, name="a"), made({"x": [None]}, name="b")
    one = versus(first, second)
    assert one.paired is None
    assert versus_data(one)["difference"] is None
    assert side_data(first)["rate"] is None
    assert "no task has a score in both" in "\n".join(compare_lines([first, second], [one]))


def test_markdown_keeps_its_table_whatever_names_hold():
    first, second = made(coins({0}, 2), name="a|b", run="x|y"), made(coins({1}, 2), name="c")
    text = compare_markdown([first, second], all_versus([first, second]))
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len({line.replace("\\|", "").count("|") for line in rows}) == 1
    assert "x\\|y" in text


def test_many_tasks_are_cut_in_text_and_whole_in_json():
    first, second = made(coins(set(), 100), name="a"), made(coins(set(range(100)), 100), name="b")
    one = versus(first, second)
    assert "and 80 more" in "\n".join(compare_lines([first, second], [one]))
    assert len(versus_data(one)["won"]) == 100
