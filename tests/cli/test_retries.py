"""What is tried again, how long is waited for it, and how it is told (spec 05 T1 to T6; cases 33, 38, 40, 42)."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from program import Ended

from proctor.testing.model_server import serve
from proctor.testing.replies import Answer, Failure

Proctor = Callable[..., Ended]
QUICK = ["--set", "execution.retry_min_delay_seconds=0.01", "--set", "execution.retry_max_delay_seconds=0.02"]


def lines(ended: Ended, kind: str) -> list[dict[str, Any]]:
    found = map(json.loads, (ended.run_dir / "journal.jsonl").read_text().splitlines())
    return [line for line in found if line["type"] == kind]


def summary(ended: Ended) -> dict[str, Any]:
    return json.loads((ended.run_dir / "summary.json").read_text())


def result(ended: Ended, task: str) -> dict[str, Any]:
    return json.loads((ended.run_dir / "attempts" / task / "0/result.json").read_text())


def story(proctor: Proctor, tries: dict[str, str], *options: str, limit: int = 3) -> Ended:
    return proctor(
        "run", "trivial", "flaky:Story", "--set", f"harness.params.tries={json.dumps(tries)}", "--limit", limit,
        *QUICK, *options,
    )  # fmt: skip


def test_T1_a_sandbox_that_fails_twice_and_then_works_is_one_sample_with_two_retries(
    proctor: Proctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNSTEADY_OPENS", "2")
    ended = proctor(
        "run", "trivial", "nop", "--env", "flaky:Unsteady", "--set", "benchmark.params.sandbox=true",
        "--limit", "1", "--max-retries", "2", *QUICK,
    )  # fmt: skip
    assert ended.code == 0, ended.err
    said = summary(ended)
    assert (said["counts"]["total"], said["scored"], said["tries"], said["retries"]) == (1, 1, 3, 2)
    tries = result(ended, "t0000")["tries"]
    assert [each["outcome"] for each in tries] == ["broken", "broken", "graded"]
    assert [each["issues"][0]["message"] for each in tries[:2]] == [f"OSError: no room for sandbox {n}" for n in (1, 2)]
    assert all(each["issues"][0]["code"] == "provider.open_failed" for each in tries[:2])


def test_T1_one_retry_too_few_leaves_the_slot_errored(proctor: Proctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSTEADY_OPENS", "2")
    ended = proctor(
        "run", "trivial", "nop", "--env", "flaky:Unsteady", "--set", "benchmark.params.sandbox=true",
        "--limit", "1", "--max-retries", "1", *QUICK,
    )  # fmt: skip
    assert ended.code == 3
    assert "no score (1 errored)" in ended.err


def test_38_a_wrong_answer_is_final_and_what_was_retried_is_told_apart(proctor: Proctor) -> None:
    ended = story(
        proctor, {"t0000": "wrong", "t0001": "crash,ok"}, "--max-retries", "2", "--set", "harness.params.cost_usd=0.5"
    )
    assert ended.code == 0, ended.err
    assert [len(result(ended, f"t000{n}")["tries"]) for n in range(3)] == [1, 2, 1], "siblings are untouched"
    both = result(ended, "t0001")["tries"]
    assert [each["usage"]["cost_usd"] for each in both] == [0.5, 0.5]
    assert both[0]["issues"][0]["message"].startswith("RuntimeError: E1")
    said = summary(ended)
    assert said["headline"] == "66.7% (2/3 passed)"
    assert said["without_retried"]["headline"] == "50.0% (1/2 passed)"
    assert said["without_retried"]["rate"] == 0.5
    assert (said["retried_attempts"], said["passed_after_retry"], said["grading_only_tries"]) == (1, 1, 0)
    assert (said["cost_usd"], said["retried_cost_usd"]) == (2.0, 0.5)
    assert "passed after retry: 1 · without the 1 retried attempt: 50.0% (1/2 passed)" in ended.err
    assert "1 retry (what they replaced cost $0.50)" in ended.err
    assert "passed after retry: 1" in (ended.run_dir / "summary.md").read_text()


def test_38_without_retries_nothing_is_said_of_them(proctor: Proctor) -> None:
    ended = story(proctor, {"t0000": "wrong"})
    said = summary(ended)
    assert (said["passed_after_retry"], said["retried_cost_usd"]) == (0, 0)
    assert said["without_retried"]["headline"] == said["headline"]
    assert "retr" not in ended.err


def test_09_M6_what_retried_work_cost_is_unknown_where_its_price_is(proctor: Proctor) -> None:
    with serve([Failure(500), Answer("ok")]) as server:
        ended = proctor(
            "run", "trivial", "chat", "m", "--set", f"model.base_url={server.base_url}", "--limit", "1",
            "--max-retries", "1", *QUICK,
        )  # fmt: skip
    said = summary(ended)
    assert (said["cost_usd"], said["retried_cost_usd"]) == (None, None)
    assert "cost of what they replaced unknown" in ended.err


def test_40_show_lists_every_try_with_what_went_wrong_and_where_its_files_are(proctor: Proctor) -> None:
    ended = story(proctor, {"t0000": "crash,ok"}, "--max-retries", "1", limit=1)
    assert "passed after retry: 1" in ended.err
    attempt = lines(ended, "AttemptSealed")[0]["attempt"]
    shown = proctor("show", f"@{attempt[:6]}", "--results-dir", ended.folder / "results")
    assert shown.code == 0, shown.err
    folder = ended.run_dir / "attempts/t0000/0/tries"
    assert [line for line in shown.out.splitlines() if line.startswith("try ")] == [
        line for line in shown.out.splitlines() if line.startswith(("try 1  broken", "try 2  graded"))
    ]
    assert "FATAL harness.crashed in agent: RuntimeError: E1: no reason" in shown.out
    assert "hint: read the traceback in try.log" in shown.out
    assert "docs/codes/harness.crashed.md" in shown.out
    for number in (1, 2):
        assert f"try.log in {folder / str(number)}" in shown.out.replace("checkpoint/answer.txt, ", "")
        assert (folder / f"{number}/try.log").read_text().count(f"try {number}, line") == 10, "no log is overwritten"
    data = json.loads(proctor("show", ended.run_dir, f"@{attempt}", "--json").out)
    assert [each["outcome"] for each in data["tries"]] == ["broken", "graded"]
    assert [each["number"] for each in data["tries"]] == [1, 2]
    assert all(each["seconds"] >= 0 and "try.log" in each["files"] for each in data["tries"])
    assert data["tries"][0]["issues"][0]["page"] == "docs/codes/harness.crashed.md"
    assert (data["verdict"], data["score"]) == ("passed", 1.0)


def test_show_says_which_attempt_it_cannot_find(proctor: Proctor) -> None:
    ended = story(proctor, {}, limit=1)
    for given, says in [("@ab", "not the id"), ("@abc!e", "not the id"), ("@aaaaaaaaaaaa", "no attempt")]:
        shown = proctor("show", given)
        assert shown.code == 2
        assert says in shown.err
        assert "hint:" in shown.err
    assert proctor("show", ended.run_dir, ended.run_dir).code == 2
    assert proctor("show").code == 2


def test_show_of_two_attempts_that_begin_alike_asks_for_more(proctor: Proctor) -> None:
    ended = story(proctor, {}, limit=2)
    journal = ended.run_dir / "journal.jsonl"
    ids = [line["attempt"] for line in lines(ended, "AttemptSealed")]
    text = journal.read_text()
    for old, new in zip(ids, ("aaaabbbbcccc", "aaaaddddeeee"), strict=True):
        text = text.replace(old, new)
    journal.write_text(text)
    shown = proctor("show", "@aaaa")
    assert shown.code == 2
    assert "2 attempts begin with `@aaaa`" in shown.err
    assert proctor("show", "@aaaad").out.startswith("@aaaaddddeeee  ")


@pytest.mark.parametrize(
    ("step", "pattern", "again"),
    [
        ("exit", "exit_nonzero", True),
        ("exit", "(?i)TEMPORARILY", True),
        ("exit", "^harness", True),
        ("exit", "Traceback|RuntimeError|flaky.py", False),
        ("exit", "^temporarily$", False),
        ("warn", "output", False),
        ("slow", "grade", False),
        ("wrong", ".*", False),
        ("fatal", ".*", False),
    ],
)
def test_T6_a_pattern_is_searched_in_code_and_message_of_errors_that_are_not_permanent(
    proctor: Proctor, step: str, pattern: str, again: bool
) -> None:
    ended = story(
        proctor, {"t0000": f"{step},ok"}, "--max-retries", "2", "--retry-pattern", "no such thing",
        "--retry-pattern", pattern, "--set", "harness.params.message=the service is temporarily gone", limit=1,
    )  # fmt: skip
    assert [line["try_number"] for line in lines(ended, "TryStarted")] == ([1, 2] if again else [1])


def test_T2_the_last_try_counts_also_where_it_is_the_worse_one(proctor: Proctor) -> None:
    ended = story(proctor, {"t0000": "exit,wrong"}, "--max-retries", "2", "--retry-pattern", "exit", limit=1)
    assert "1 failed" in ended.err
    assert result(ended, "t0000")["tries"][0]["solved"] is True


@pytest.mark.parametrize("step", ["exit", "warn"])
def test_without_a_pattern_only_what_left_no_result_is_tried_again(proctor: Proctor, step: str) -> None:
    ended = story(proctor, {"t0000": f"{step},ok"}, "--max-retries", "2", limit=1)
    assert ended.code == 0
    assert len(lines(ended, "TryStarted")) == 1


@pytest.mark.parametrize("key", ["retry_pattern_list", "execution.retry_pattern_list"])
def test_T6_omitted_null_and_an_empty_list_are_equal(proctor: Proctor, key: str) -> None:
    for number, options in enumerate(([], ["--set", f"{key}=null"], ["--set", f"{key}=[]"])):
        ended = story(
            proctor, {"t0000": "exit,ok"}, "--max-retries", "1", "--run-id", f"run{number}", *options, limit=1
        )
        assert ended.code == 0, ended.err
    plans: list[Any] = []
    for run_dir in ended.run_dirs:
        assert (run_dir / "journal.jsonl").read_text().count('"type":"TryStarted"') == 1
        plan = json.loads((run_dir / "plan.json").read_text())
        plans.append({name: value for name, value in plan.items() if name != "about"})
    assert plans[0] == plans[1] == plans[2]


def test_retries_and_patterns_can_be_set_for_all_experiments(proctor: Proctor) -> None:
    both = ["--set", "execution.max_retries=2", "--set", 'execution.retry_pattern_list=["exit"]']
    ended = story(proctor, {"t0000": "exit,exit,exit"}, *both, limit=1)
    assert len(lines(ended, "TryStarted")) == 3


@pytest.mark.parametrize("where", [["--max-retries", "0"], ["--set", "max_retries=0"]])
def test_what_an_experiment_says_itself_of_retries_goes_before(proctor: Proctor, where: list[str]) -> None:
    ended = story(proctor, {"t0000": "crash,ok"}, "--set", "execution.max_retries=2", *where, limit=1)
    assert ended.code == 3
    assert len(lines(ended, "TryStarted")) == 1


@pytest.mark.parametrize("pattern", ["", "(", "[", "*"])
@pytest.mark.parametrize("key", ["--retry-pattern", "retry_pattern_list", "execution.retry_pattern_list"])
def test_T6_a_pattern_that_is_none_is_refused_and_named(proctor: Proctor, key: str, pattern: str) -> None:
    given = [key, pattern] if key.startswith("--") else ["--set", f"{key}={json.dumps([pattern])}"]
    ended = proctor("run", "trivial", "nop", *given)
    assert ended.code == 2
    assert "pattern" in ended.err
    assert repr(pattern) in ended.err
    assert "hint:" in ended.err
    assert not list(ended.folder.iterdir())


def test_T3_only_grading_is_tried_again_where_the_work_is_saved(proctor: Proctor) -> None:
    ended = proctor(
        "run", "flaky:Twice", "flaky:Story", "--max-retries", "1", "--set", "harness.params.cost_usd=1", *QUICK
    )
    assert ended.code == 0, ended.err
    said = summary(ended)
    assert (said["retries"], said["grading_only_tries"], said["passed_after_retry"]) == (2, 2, 2)
    assert (said["cost_usd"], said["retried_cost_usd"]) == (2.0, 0), "what was paid for still counts"
    assert "2 retries (2 of grading only)" in ended.err


def moment(seconds: float) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


CAP = 0.2
COMPUTED = 0.02
"""The longest wait that is not asked for by a server, here."""


@pytest.mark.parametrize(
    ("header", "asked", "waits"),
    [
        ("7", 7.0, CAP),
        ("0.1", 0.1, 0.1),
        (lambda: moment(3600), 3600.0, CAP),
        (lambda: moment(-3600), None, COMPUTED),
        ("0", None, COMPUTED),
        ("-7", None, COMPUTED),
        ("abc", None, COMPUTED),
        ("9" * 400, 1e9, CAP),
        (None, None, COMPUTED),
        ("86400", 86400.0, CAP),
    ],
    ids=["seconds", "a part", "a date", "past", "zero", "negative", "garbage", "endless", "absent", "a day"],
)
def test_33_what_a_server_asks_for_is_waited_for_up_to_the_cap(
    proctor: Proctor, header: str | Callable[[], str] | None, asked: float | None, waits: float
) -> None:
    value = header() if callable(header) else header
    with serve([*[Failure(429, retry_after=value)] * 5, Answer("ok")]) as server:
        ended = proctor(
            "run", "trivial", "chat", "m", "--set", f"model.base_url={server.base_url}", "--limit", "1",
            "--max-retries", "1", "--set", f"execution.retry_after_cap_seconds={CAP}", *QUICK,
        )  # fmt: skip
        assert len(server.requests) == 6
    assert ended.code == 0, ended.err
    inside = [line["seconds"] for line in lines(ended, "BackoffStarted")]
    assert len(inside) == 4, "the repeats of one call"
    if waits == COMPUTED:
        assert all(0 < seconds <= COMPUTED for seconds in inside)
    else:
        assert inside == pytest.approx([waits] * 4, rel=0.3)
    first, second = lines(ended, "TryEnded")
    if asked is not None:
        assert first["retry_after_seconds"] == pytest.approx(asked, rel=0.01)
    assert "retry_after_seconds" not in second
    began = datetime.fromisoformat(lines(ended, "TryStarted")[1]["at"])
    assert (began - datetime.fromisoformat(first["at"])).total_seconds() >= (waits if waits != COMPUTED else 0) * 0.95
    assert summary(ended)["passed_after_retry"] == 1


def test_42_the_log_and_the_display_name_the_cause_of_each_wait(proctor: Proctor, tmp_path: Path) -> None:
    ended = story(proctor, {"t0000": "crash,crash,ok"}, "--max-retries", "2", limit=1)
    log = (ended.run_dir / "run.log").read_text()
    assert "wait: t0000 #0  before try 2, because of harness.crashed" in log
    assert "wait: t0000 #0  before try 3, because of harness.crashed" in log
    assert ended.err.count("because of harness.crashed") == 1, "a display says it once in a while"


def test_42_a_wait_inside_a_try_is_named_as_well(proctor: Proctor) -> None:
    with serve([Failure(503), Answer("ok")]) as server:
        ended = proctor(
            "run", "trivial", "chat", "m", "--set", f"model.base_url={server.base_url}", "--limit", "1", *QUICK
        )
    assert ended.code == 0
    assert "because of model.overloaded" in (ended.run_dir / "run.log").read_text()
    assert "because of model.overloaded" in ended.err
