"""Runs side by side: what is compared, what is left out, and how it is said (spec 09 M4)."""

from __future__ import annotations

import json

import pytest

from proctor.core.aggregate import Missing
from proctor.core.compare import mcnemar
from proctor.model.attempt import Verdict
from proctor.model.events import AttemptSealed, Completion, DispatchStopped, RunEnded, StopReason
from proctor.report.compare import all_versus, side_data, side_of, versus, versus_data
from proctor.report.compare_text import compare_lines, compare_markdown
from proctor.report.view import RunView

VERDICTS = {None: Verdict.ERRORED, "skip": Verdict.SKIPPED, 1.0: Verdict.PASSED}


def made(
    scores, *, name="base", early_exit=False, missing=0, run=None, parts=None, task_parts=None, slots=None, policy=None,
    known=True, reused_usd=0.0,
):  # fmt: skip
    """A run that ended, with the scores of each task's attempts; None is an errored one, "skip" a skipped one."""
    view = RunView(name)
    view.tasks = len(scores) + missing
    view.total = sum(map(len, scores.values())) + missing
    view.early_exit = early_exit
    number = 0
    for task, own in scores.items():
        for ordinal, said in enumerate(own):
            verdict = VERDICTS.get(said, Verdict.FAILED)
            score = None if said == "skip" else said
            number += 1
            view.add(AttemptSealed(f"a{number:011}", task, ordinal, verdict, score, 1), float(number))
    if missing:
        view.add(DispatchStopped(name, StopReason.BUDGET, missing), 1e3)
    view.add(RunEnded(name, Completion.COMPLETE), 1e3)
    view.missing, view.reused_cost_usd = policy, reused_usd
    return side_of(
        view, run=run or name, directory=f"/results/{run or name}",
        slots=slots or {task: len(own) for task, own in scores.items()},
        about={"model": "m", "harness": "h", "benchmark": "b"},
        parts=(parts or {}) if known else None, task_parts=task_parts or {},
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
    second = made({"x": [1.0], "y": [1.0], "w": [1.0]}, name="b", missing=2, slots=dict.fromkeys("xywz", 1))
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


def said(first, second, **how):
    return "\n".join(compare_lines([first, second], [versus(first, second, **how)]))


def test_M4_tasks_that_another_model_judged_or_other_code_graded_are_other_tasks():
    first = made(coins({0}, 4), name="a", task_parts={"t0": {"judge": "1"}, "t1": {"code rules.py": "1"}, "t3": {}})
    second = made(coins({1}, 4), name="b", task_parts={"t0": {"judge": "2"}, "t1": {"code rules.py": "2"}})
    one = versus(first, second)
    assert one.differs == ("code rules.py", "judge")
    assert one.left_out == ("t0", "t1")
    assert one.paired is not None
    assert one.paired.tasks == 2
    assert "--include-changed compares them" in said(first, second)
    every = {f"t{n}": {"judge": "3"} for n in range(4)}
    assert "no task is the same in both" in said(first, made(coins({1}, 4), name="c", task_parts=every))


def test_M4_an_identity_that_is_not_known_is_neither_the_same_nor_another_one():
    first, second = made(coins({0}, 2), name="a", parts={"model": "1"}), made(coins({1}, 2), name="b", known=False)
    one = versus(first, second)
    assert (one.differs, one.left_out, versus_data(one)["differs"]) == (None, (), None)
    assert "identities: not known" in said(first, second)
    assert "more than one thing differs" not in said(first, second)


# x lacks one of two in A, y both in B, z one of two in both; s is skipped in A and so in neither.
RAGGED_A = {"x": [1.0, None], "y": [0.0, 0.0], "z": [1.0, None], "s": ["skip", "skip"], "u": [0.0, "skip"]}
RAGGED_B = {"x": [1.0, 0.0], "y": [None, None], "z": [0.0, None], "s": [1.0, 1.0], "u": [1.0, 1.0]}


def test_M1_what_slots_without_a_score_leave_open_is_said_of_the_difference():
    first, second = made(RAGGED_A, name="a"), made(RAGGED_B, name="b")
    one = versus(first, second)
    assert one.paired is not None
    assert (one.paired.tasks, one.unscored, one.lacking) == (3, ("y", "s"), (2, 3))
    assert one.paired.difference == pytest.approx((-0.5 - 1.0 + 1.0) / 3)
    # Of x, y, z, u, by hand: A is 1/2..1, 0, 1/2..1, 0; B is 1/2, 0..1, 0..1/2, 1.
    assert one.possible == pytest.approx(((-0.5 + 0 - 1 + 1) / 4, (0 + 1 + 0 + 1) / 4))
    text = said(first, second)
    assert "slots without a score: 2 in A, 3 in B" in text
    assert "the difference over all these tasks is from -0.125 to +0.500" in text
    data = versus_data(one)
    assert (data["lacking"], data["possible_low"], data["possible_high"]) == ([2, 3], -0.125, 0.5)


@pytest.mark.parametrize(
    ("policy", "tasks", "difference", "says"),
    [
        (Missing.EXCLUDE, 3, -0.5 / 3, "slots without a score: 2 in A, 3 in B: left out"),
        # x 1/2 -> 1/2, y 0 -> 0, z 1/2 -> 0, u 0 -> 1
        (Missing.ZERO, 4, 0.5 / 4, "slots without a score: 2 in A, 3 in B: counted as not passed"),
        (Missing.FAIL, None, None, "no difference is said: 5 slots without a score, and none may be missing"),
    ],
)
def test_M1_what_becomes_of_missing_slots_is_chosen_and_said(policy, tasks, difference, says):
    first, second = made(RAGGED_A, name="a", policy=policy), made(RAGGED_B, name="b", policy=policy)
    one = versus(first, second)
    assert (one.paired and one.paired.tasks) == tasks
    assert versus_data(one)["difference"] == (None if difference is None else pytest.approx(difference))
    assert says in said(first, second)
    assert "whatever those would score" not in said(first, second)
    assert side_data(first)["missing"] == policy.value
    whole = [made(coins({n}, 3), name=str(n), policy=policy) for n in (0, 1)]
    assert "without a score" not in said(*whole)
    assert versus(*whole).paired == versus(made(coins({0}, 3)), made(coins({1}, 3))).paired


def test_M3_solved_at_least_once_is_not_compared_with_another_quantity_in_silence():
    once = made({"x": [0.0, 1.0], "y": [0.0, 0.0], "z": [0.0, None]}, name="a", early_exit=True)
    mean = made({"x": [1.0, 1.0], "y": [0.0, 1.0], "z": [1.0, 0.0]}, name="b")
    single = made(coins({0}, 2), name="c")
    assert "no fair comparison: solved at least once of 2 attempts a task in A, the mean of 2 attempts a task in B" in (
        said(once, mean)
    )
    assert "that is no estimate of one attempt" in said(once, once)
    assert "not the same number: 1 attempt a task in A, 2 attempts a task in B" in said(single, mean)
    assert "attempt" not in said(mean, mean)
    assert versus(once, mean).lacking == (1, 0)


def test_M6_what_reused_attempts_cost_is_said_apart():
    first, second = made(coins({0}, 2), name="a", reused_usd=5.0), made(coins({1}, 2), name="b", reused_usd=None)
    lines = said(first, second).splitlines()
    assert lines[1].endswith("$0.00, reused: $5.00")
    assert lines[2].endswith("reused: cost unknown")
    assert side_data(first)["reused_cost_usd"] == 5.0


def test_no_chance_is_0():
    first, second = made(coins(set(), 1_500), name="a"), made(coins(set(range(1_500)), 1_500), name="b")
    assert "p < 1e-300 (McNemar's, exact)" in said(first, second)


class Hashed(str):
    """A task that counts how often it is looked up."""

    __slots__ = ()
    lookups = 0

    def __hash__(self):
        Hashed.lookups += 1
        return super().__hash__()


def test_comparing_looks_a_task_up_a_few_times_however_many_there_are():
    sides = [made({Hashed(f"t{n}"): [float(n % 2)] for n in range(400)}, name=name) for name in "ab"]
    Hashed.lookups = 0
    versus(*sides)
    assert 0 < Hashed.lookups < 40 * 400  # of each with each it would be 160,000
