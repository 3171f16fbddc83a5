from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.core.plan import ExperimentPlan, PlannedInput, PluginFacts, check_tasks, plan, select
from proctor.core.reuse import NEW
from proctor.errors import InternalError, NothingToRun, UsageError
from proctor.model.attempt import GradingMode
from proctor.model.environment import EnvironmentSpec
from proctor.model.ids import SlotKey
from proctor.model.spec import Component, Experiment, ModelSpec, Reference, Task

FACTS = PluginFacts(benchmark_version="1", harness_version="2", harness_name="chat", grader_versions={"text": "3"})


def task(task_id: str, **fields) -> Task:
    return Task(id=task_id, grader=Component("text"), **fields)


def tasks(*ids: str) -> list[Task]:
    return [task(task_id) for task_id in ids]


def experiment(name: str = "e", **fields) -> Experiment:
    return Experiment(name=name, benchmark=Component("trivial"), harness=Component("chat"), **fields)


def facts(**changed) -> PluginFacts:
    values = {name: getattr(FACTS, name) for name in FACTS.__slots__}
    return PluginFacts(**{**values, **changed})


def one(made: Experiment, given_tasks: list[Task], **changed):
    return plan([PlannedInput(made, given_tasks, facts(**changed))])[0]


# ---------------------------------------------------------------------------------------------------- planning


def test_P1_a_plan_lists_every_slot_by_task_and_ordinal_before_anything_starts():
    run = one(experiment(attempts=2), tasks("b", "a"))
    assert len(run) == 4
    assert [entry.slot for entry in run.entries()] == [
        SlotKey("e", "b", 0), SlotKey("e", "b", 1), SlotKey("e", "a", 0), SlotKey("e", "a", 1),
    ]  # fmt: skip
    assert {entry.decision for entry in run.entries()} == {NEW}


def test_P2_every_slot_has_an_identity_of_its_own_and_the_parts_of_its_task():
    run = one(experiment(attempts=3), tasks("a", "b"))
    entries = list(run.entries())
    assert len({entry.identity for entry in entries}) == 6
    assert entries[0].task_parts == entries[1].task_parts == run.task_parts(run.tasks[0])
    assert [entry.identity for entry in run.entries()] == [entry.identity for entry in entries]


def test_P2_the_reference_counts_only_for_oracle():
    plain, solved = [task("a")], [task("a", reference=Reference(answer="42"))]
    for harness, equal in (("chat", True), ("oracle", False)):
        first, second = (next(one(experiment(), given, harness_name=harness).entries()) for given in (plain, solved))
        assert (first.identity == second.identity) is equal


def test_an_experiment_with_more_attempts_keeps_the_identities_of_the_old_ordinals():
    few, many = (
        {entry.slot: entry.identity for entry in one(experiment(attempts=n), tasks("a", "b")).entries()} for n in (2, 5)
    )
    assert few.items() <= many.items()


def test_the_order_and_the_choice_of_tasks_change_no_identity():
    whole = {entry.slot: entry.identity for entry in one(experiment(), tasks("a", "b", "c")).entries()}
    part = {entry.slot: entry.identity for entry in one(experiment(), tasks("c", "a")).entries()}
    assert part.items() <= whole.items()


def test_the_scheduler_is_told_what_it_needs():
    made = experiment(attempts=2, max_concurrency=3, environment=EnvironmentSpec(provider="docker"),
                      grading=GradingMode.FRESH)  # fmt: skip
    run = one(made, [task("a"), task("b", needs_sandbox=True)], benchmark_isolated=True, harness_isolated=True)
    assert run.schedule == ExperimentPlan(
        name="e", task_ids=("a", "b"), attempts=2, provider="docker", agent_sandbox=(False, True),
        grading=GradingMode.FRESH, isolated=True, max_concurrency=3,
    )  # fmt: skip


@pytest.mark.parametrize(("harness", "mode"), [(True, GradingMode.NONE), (False, GradingMode.REUSE)])
def test_a_harness_that_needs_a_sandbox_and_grading_in_it_give_one_to_every_task(harness, mode):
    run = one(experiment(grading=mode), tasks("a", "b"), harness_needs_sandbox=harness)
    assert run.schedule.agent_sandbox == (True, True)


@pytest.mark.parametrize(("benchmark", "harness"), [(False, False), (True, False), (False, True), (True, True)])
def test_G6_attempts_are_isolated_only_if_benchmark_and_harness_both_say_so(benchmark, harness):
    run = one(experiment(), tasks("a"), benchmark_isolated=benchmark, harness_isolated=harness)
    assert run.schedule.isolated is (benchmark and harness)


def test_experiments_are_planned_in_the_order_given():
    runs = plan([PlannedInput(experiment(name), tasks("t"), FACTS) for name in ("z", "a", "10", "2")])
    assert [run.schedule.name for run in runs] == ["z", "a", "10", "2"]


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ({"attempts": 0}, "attempts of experiment `e` must be an integer of at least 1, not 0"),
        ({"attempts": True}, "attempts of experiment `e` must be an integer of at least 1, not True"),
        ({"attempts": 1.5}, "not 1.5"),
        ({"max_concurrency": 0}, "max_concurrency of experiment `e` must be"),
        ({"max_concurrency": "2"}, "max_concurrency of experiment `e` must be"),
        ({"name": ""}, "has no name"),
    ],
)
def test_numbers_and_names_that_make_no_plan_are_refused(made, message):
    with pytest.raises(UsageError) as caught:
        one(experiment(**{"name": "e", **made}), tasks("a"))
    assert message in caught.value.message
    assert caught.value.hint


def test_two_experiments_of_one_name_are_refused():
    with pytest.raises(UsageError, match="two experiments are called `e`"):
        plan([PlannedInput(experiment(), tasks("a"), FACTS)] * 2)


def test_a_grader_that_was_not_resolved_is_a_bug():
    with pytest.raises(InternalError, match="`text` of task `a` was not resolved"):
        one(experiment(), tasks("a"), grader_versions={})


def test_a_plan_that_does_not_fit_together_is_a_bug():
    with pytest.raises(InternalError, match="does not fit together"):
        ExperimentPlan("e", ("a",), 1, "local", (True, False))


def test_P1_an_empty_benchmark_is_nothing_to_run():
    with pytest.raises(NothingToRun, match="benchmark `trivial` has no tasks"):
        one(experiment(), [])


def test_a_plan_holds_no_object_for_a_slot():
    many = tasks(*(f"t{i}" for i in range(2000)))
    tracemalloc.start()
    run = one(experiment(attempts=1000), many)
    assert len(run) == 2_000_000
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used < 400_000


# ------------------------------------------------------------------------------------------------------- task ids


@pytest.mark.parametrize("ids", [("1", "2", "2"), ("2", "1", "2")])
def test_duplicate_task_ids_are_refused_with_both_positions(ids):
    first = ids.index("2") + 1
    with pytest.raises(UsageError, match=rf"two tasks with the id `2`, at positions {first} and 3"):
        check_tasks(tasks(*ids), "trivial")


@pytest.mark.parametrize(
    ("task_id", "fault"),
    [
        (1, "is not a text but int"),
        (None, "is not a text but NoneType"),
        ("", "is empty"),
        ("a ", "has white space around it"),
        ("\ta", "has white space around it"),
        ("\u00a0a", "has white space around it"),
        ("a\nb", "has control characters"),
        ("a\x1b[31m", "has control characters"),
        ("a\u2028b", "has control characters"),
        ("a\ud800b", "has control characters"),
    ],
)
def test_ids_that_are_not_usable_are_refused_with_their_position(task_id, fault):
    with pytest.raises(UsageError) as caught:
        check_tasks([task("first"), task(task_id)], "trivial")
    assert caught.value.message.startswith(f"task 2 of benchmark `trivial` has the id {task_id!r}")
    assert fault in caught.value.message


def test_ids_of_every_script_case_and_composition_are_distinct():
    check_tasks(
        tasks("Task", "task", "é", "e\u0301", "straße", "STRASSE", "a b", "任务/1", "CON", "🦀\u200d"), "trivial"
    )


# ------------------------------------------------------------------------------------------------------ selecting


def chosen(given_tasks: list[Task], **options) -> list[str]:
    return [one.id for one in select(given_tasks, benchmark="HumanEval", **options)]


HUMANEVAL = tasks(*(f"HumanEval/{i}" for i in range(12)))


def test_without_a_filter_all_tasks_are_chosen_in_order():
    assert chosen(tasks("b", "a")) == ["b", "a"]


def test_a_filter_keeps_benchmark_order_and_takes_each_task_once():
    assert chosen(HUMANEVAL, ids=["HumanEval/3", "HumanEval/1", "3"]) == ["HumanEval/1", "HumanEval/3"]


def test_a_short_name_is_the_last_part_of_exactly_one_id():
    assert chosen(HUMANEVAL, ids=["0"]) == ["HumanEval/0"]


def test_a_whole_id_wins_over_a_short_name():
    assert chosen(tasks("a/x", "x"), ids=["x"]) == ["x"]


def test_an_ambiguous_short_name_lists_at_most_five_candidates():
    with pytest.raises(UsageError) as caught:
        chosen(tasks("A/task1", "B/task1"), ids=["task1"])
    assert caught.value.message == "`task1` names 2 tasks of benchmark `HumanEval`: `A/task1`, `B/task1`"
    with pytest.raises(UsageError) as caught:
        chosen(tasks(*(f"{letter}/x" for letter in "ABCDEFGH")), ids=["x"])
    assert caught.value.message.endswith("`A/x`, `B/x`, `C/x`, `D/x`, `E/x` and 3 more")


def test_some_unknown_ids_are_a_usage_error_that_names_the_nearest():
    with pytest.raises(UsageError) as caught:
        chosen(HUMANEVAL, ids=["HumanEval/1", "HumanEvil/2", "nothing", "like it"])
    assert caught.value.message == "benchmark `HumanEval` has no task `HumanEvil/2` and 2 more"
    assert caught.value.hint == "did you mean `HumanEval/2`?"


def test_P1_a_filter_that_matches_nothing_is_nothing_to_run():
    for ids in (["zzz"], ["zzz", "yyy"], []):
        with pytest.raises(NothingToRun) as caught:
            chosen(HUMANEVAL, ids=ids)
        assert caught.value.hint
    with pytest.raises(NothingToRun) as caught:
        chosen(HUMANEVAL, ids=["zzz"])
    assert caught.value.hint == "`HumanEval/0` is one that it has"


def test_a_limit_takes_the_first_after_the_filter():
    assert chosen(HUMANEVAL, ids=["5", "2", "9"], limit=2) == ["HumanEval/2", "HumanEval/5"]
    assert len(chosen(HUMANEVAL, limit=100)) == 12


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "2"])
def test_a_limit_is_an_integer_of_at_least_1(limit):
    with pytest.raises(UsageError, match="at least 1"):
        chosen(HUMANEVAL, limit=limit)


def test_selecting_from_an_empty_benchmark_is_nothing_to_run_and_duplicates_are_refused_first():
    with pytest.raises(NothingToRun, match="has no tasks"):
        chosen([], ids=["x"])
    with pytest.raises(UsageError, match="positions 1 and 2"):
        chosen(tasks("a", "a"), ids=["a"], limit=1)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text("ab/", min_size=1, max_size=4), min_size=1, max_size=8, unique=True), st.data())
def test_what_is_selected_by_whole_ids_is_exactly_that_in_order(ids, data):
    wanted = data.draw(st.lists(st.sampled_from(ids), min_size=1))
    assert chosen(tasks(*ids), ids=wanted) == [one for one in ids if one in wanted]


def test_03_G11_a_judge_has_a_gate_and_a_part_only_where_a_grader_asks_it():
    judge = ModelSpec("openai/j", "http://host/v1", "secret")
    given = [task("a"), Task(id="b", grader=Component("model"))]
    versions = {"text": "3", "model": "1"}
    judged = one(experiment(judge=judge), given, grader_versions=versions, judging=frozenset({"model"}))
    assert judged.schedule.judge == "openai/j at http://host/v1"
    assert ["judge" in judged.task_parts(each) for each in given] == [False, True]
    assert "judge" not in judged.shared_identity.parts
    unasked = one(experiment(judge=judge), given, grader_versions=versions)
    assert unasked.schedule.judge is None
    assert not any("judge" in unasked.task_parts(each) for each in given)
    other = one(experiment(judge=ModelSpec("openai/k")), given, grader_versions=versions, judging=frozenset({"model"}))
    same = [judged.task_parts(each) == other.task_parts(each) for each in given]
    assert same == [True, False]
