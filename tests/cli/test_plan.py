"""`proctor plan`, as a user meets it (spec 02, 03 G1.1, 04 P4)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from program import Ended

Proctor = Callable[..., Ended]


def tree(folder: Path) -> dict[str, str]:
    """Return every path below a folder with the digest of its content and its moment."""
    return {
        str(path.relative_to(folder)): f"{path.stat().st_mtime_ns} "
        + (hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder")
        for path in folder.rglob("*")
    }


def records(ended: Ended, kind: str) -> list[dict[str, Any]]:
    return [event for event in ended.events if event["type"] == kind]


def seconds(ended: Ended) -> list[float]:
    return [one["seconds"]["p50"] for one in records(ended, "forecast")]


# --------------------------------------------------------------------------------------------- nothing is started


@pytest.mark.parametrize("more", [[], ["--all"], ["--json"], ["--task-concurrency", "4,8"], ["--run-name", "a/b"]])
def test_04_P4_nothing_is_created(proctor: Proctor, more: list[str]) -> None:
    ended = proctor("plan", "trivial", "oracle", *more)
    assert ended.code == 0
    assert list(ended.folder.iterdir()) == []


def test_04_P4_nothing_is_changed_where_runs_are(proctor: Proctor, tmp_path: Path) -> None:
    assert proctor("run", "trivial", "plugins:Sleeper", "--limit", "3").code == 0
    torn = proctor("run", "trivial", "plugins:Sleeper", "--limit", "2", "--run-id", "torn").folder.rglob("torn")
    [run_dir] = torn
    with (run_dir / "journal.jsonl").open("ab") as journal:
        journal.write(b'{"type":"Try')
    before = tree(tmp_path)
    for more in ([], ["--json"], ["--task-concurrency", "1,2,4"], ["--results-dir", "elsewhere"]):
        assert proctor("plan", "trivial", "plugins:Sleeper", *more).code == 0
        assert tree(tmp_path) == before


def test_no_attempt_is_started(proctor: Proctor, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    ended = proctor("plan", "trivial", "plugins:Sleeper", "--set", f"harness.params.trace={trace}")
    assert ended.code == 0
    assert not trace.exists()


# ------------------------------------------------------------------------------------------------- what is printed


def test_04_P4_every_slot_with_its_decision_and_reason(proctor: Proctor) -> None:
    ended = proctor("plan", "trivial", "nop", "--limit", "3", "--k", "2")
    assert ended.err == ""
    lines = ended.out.splitlines()
    assert lines[0] == "PLAN  6 attempts · 3 tasks · concurrency 32 (default) · local 128"
    slots = [line.split() for line in lines if "execute: new" in line and "#" in line]
    assert slots == [[f"t000{task}", f"#{ordinal}", "execute:", "new"] for task in range(3) for ordinal in range(2)]
    assert "6 slots: 6 execute: new" in lines
    assert "experiment trivial/nop" in lines
    assert "  3 tasks × 2 attempts = 6 slots" in lines  # noqa: RUF001


def test_only_the_first_40_slots_are_listed_unless_all_are_asked_for(proctor: Proctor) -> None:
    many = ["plan", "trivial", "nop", "--set", "benchmark.params.tasks=45"]
    ended = proctor(*many)
    assert ended.out.count("#0  execute: new") == 40
    assert "  and 5 more; `--all` lists every one" in ended.out
    assert "45 slots: 45 execute: new" in ended.out
    every = proctor(*many, "--all")
    assert every.out.count("#0  execute: new") == 45
    assert "more; `--all`" not in every.out


def test_03_the_limits_in_force_with_scope_and_source(proctor: Proctor) -> None:
    ended = proctor(
        "plan", "trivial", "plugins:Sleeper", "--task-concurrency", "8", "--provider-limit", "local=3",
        "--set", "max_concurrency=2", "--set", "harness.params.command=true",
    )  # fmt: skip
    limits = {line.split("  ")[1]: line for line in ended.out.splitlines() if line.startswith("  ")}
    assert limits["global"].split(maxsplit=2)[1:] == ["8", "attempts executing, over all experiments (from flag)"]
    assert "3" in limits["provider local"].split()
    assert "sandboxes at local, over all experiments (from flag)" in limits["provider local"]
    assert (
        "attempts of trivial/plugins:Sleeper, from dispatch to the end (from max_concurrency)" in limits["experiment"]
    )
    assert "warning: " in ended.err  # what the provider warns of, as `run` does


def test_a_limit_where_no_sandbox_is_opened_says_so(proctor: Proctor) -> None:
    ended = proctor("plan", "trivial", "nop", "--set", "runtime.provider_limits.local=3")
    assert "sandboxes at local, over all experiments; none is opened here (from --set)" in ended.out


def test_json_has_everything(proctor: Proctor) -> None:
    ended = proctor("plan", "trivial", "nop", "--k", "5", "--json")
    [plan] = records(ended, "plan")
    assert [event["type"] for event in ended.events] == ["plan", *["slot"] * 50, "forecast"]
    assert plan["slots"] == 50
    assert plan["decisions"] == {"execute: new": 50}
    assert plan["concurrency_source"] == "default"
    assert [limit["value"] for limit in plan["limits"]] == [32, 128]
    [experiment] = plan["experiments"]
    assert experiment["tasks_known"] == experiment["samples"] == 0
    slots = records(ended, "slot")
    assert len({slot["identity"] for slot in slots}) == 50
    assert slots[1] == {
        "type": "slot", "experiment": "trivial/nop", "task": "t0000", "ordinal": 1, "decision": "execute: new",
        "identity": slots[1]["identity"], "group": None,
    }  # fmt: skip
    [forecast] = records(ended, "forecast")
    assert (forecast["seconds"], forecast["cost_usd"], forecast["rounds"]) == (None, None, 2)


def test_the_identity_in_a_plan_is_that_of_the_run(proctor: Proctor) -> None:
    slots = records(proctor("plan", "trivial", "nop", "--limit", "2", "--json"), "slot")
    run_dir = proctor("run", "trivial", "nop", "--limit", "2").run_dir
    plan = json.loads((run_dir / "plan.json").read_text())
    assert [slot["identity"] for slot in slots] == [row[1] for row in plan["tasks"]]


# ----------------------------------------------------------------------------------------- expected time and cost


def test_04_P4_without_history_time_is_in_rounds_and_cost_unknown(proctor: Proctor) -> None:
    ended = proctor("plan", "trivial", "nop", "--k", "2", "--task-concurrency", "8")
    assert (
        "expected wall time  unknown: nothing was run before; 3 rounds of 8 if all attempts last equally long"
        in ended.out
    )
    assert "expected cost       unknown: nothing was run before" in ended.out


def test_04_P4_with_history_time_and_cost_are_expected(proctor: Proctor) -> None:
    slow = ["--set", "harness.params.seconds=0.2", "--limit", "4"]
    assert proctor("run", "trivial", "plugins:Sleeper", *slow, "--k", "3", "--progress", "none").code == 0
    ended = proctor("plan", "trivial", "plugins:Sleeper", *slow, "--task-concurrency", "1", "--json")
    [expected] = seconds(ended)
    assert expected >= 4 * 0.2
    [forecast] = records(ended, "forecast")
    assert forecast["seconds"]["p10"] <= forecast["seconds"]["p50"] <= forecast["seconds"]["p90"]
    assert forecast["cost_usd"] == {"p10": 0.0, "p50": 0.0, "p90": 0.0}
    assert forecast["rounds"] is None
    text = proctor("plan", "trivial", "plugins:Sleeper", *slow).out
    assert "expected cost       $0.00" in text
    assert "the durations of 12 earlier attempts of 1 run" in text
    assert "unknown" not in text


def test_tasks_that_were_never_run_are_said(proctor: Proctor) -> None:
    proctor("run", "trivial", "nop", "--limit", "3")
    out = proctor("plan", "trivial", "nop").out
    assert "7 of 10 tasks were never run and are taken to be like the others" in out


def test_a_cost_that_is_not_known_is_never_0(proctor: Proctor) -> None:
    chat = ["trivial", "chat", "mock/echo", "--limit", "2"]
    proctor("run", *chat)
    ended = proctor("plan", *chat)
    assert "expected cost       unknown: what earlier attempts cost is not known" in ended.out
    [forecast] = records(proctor("plan", *chat, "--json"), "forecast")
    assert forecast["cost_usd"] is None


def test_a_declared_cost_is_expected(proctor: Proctor) -> None:
    chat = ["trivial", "chat", "mock/echo", "--limit", "2"]
    proctor("run", *chat)
    ended = proctor("plan", *chat, "--set", "expected_cost_per_attempt=0.5", "--budget", "10")
    assert "expected cost       $1.00" in ended.out
    assert "budget $10.00" in ended.out


def test_damaged_runs_are_named_and_left_out(proctor: Proctor) -> None:
    run_dir = proctor("run", "trivial", "nop", "--limit", "2").run_dir
    journal = run_dir / "journal.jsonl"
    journal.write_bytes(journal.read_bytes() + b"garbage\n")
    ended = proctor("plan", "trivial", "nop")
    assert ended.code == 0
    assert str(journal.relative_to(ended.folder)) in ended.err
    assert "is damaged at line" in ended.err
    assert "it is left out of the forecast" in ended.err
    assert "unknown: nothing was run before" in ended.out


def test_history_is_of_the_same_run_name_and_results_directory(proctor: Proctor) -> None:
    proctor("run", "trivial", "nop", "--limit", "2", "--run-name", "nightly", "--results-dir", "out")
    for more, known in (
        ([], 0),
        (["--run-name", "nightly"], 0),
        (["--run-name", "nightly", "--results-dir", "out"], 2),
    ):
        [plan] = records(proctor("plan", "trivial", "nop", "--json", *more), "plan")
        assert plan["experiments"][0]["samples"] == known


def test_the_same_plan_is_the_same_forecast(proctor: Proctor) -> None:
    proctor("run", "trivial", "nop", "--k", "2")
    assert proctor("plan", "trivial", "nop", "--json").out == proctor("plan", "trivial", "nop", "--json").out


# ------------------------------------------------------------------------------------------------ several settings


def test_02_predicted_times_by_setting(proctor: Proctor) -> None:
    slow = ["--set", "harness.params.seconds=0.1", "--limit", "4", "--k", "2"]
    proctor("run", "trivial", "plugins:Sleeper", *slow)
    plan = ["plan", "trivial", "plugins:Sleeper", *slow, "--task-concurrency", "1,2,4,8"]
    ended = proctor(*plan)
    assert ended.out.startswith("PLAN  8 attempts · 4 tasks · concurrency 1 (from flag, compared with 2, 4, 8)")
    table = ended.out.split("expected wall time and cost by task concurrency\n")[1].splitlines()
    assert table[0].split("  ")[1] == "task concurrency"
    assert [row.split()[0] for row in table[1:5]] == ["1", "2", "4", "8"]
    assert [row.split()[-1] for row in table[1:5]] == ["1", "2", "4", "8"]
    times = seconds(proctor(*plan, "--json"))
    assert times == sorted(times, reverse=True)
    assert times[0] > 4 * times[-1]


def test_rounds_by_setting_where_nothing_was_run(proctor: Proctor) -> None:
    ended = proctor("plan", "trivial", "nop", "--max-concurrency", "2,4, 32 ,4")
    rows = [line.split() for line in ended.out.splitlines()[-3:]]
    assert rows == [["2", "5", "2"], ["4", "3", "4"], ["32", "1", "10"]]


def test_only_plan_takes_several_settings(proctor: Proctor) -> None:
    assert proctor("run", "trivial", "nop", "--task-concurrency", "4,8").code == 2
    assert proctor("check", "trivial", "--task-concurrency", "4,8").code == 2


# ---------------------------------------------------------------------------------------------- what can be wrong


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["trivial", "orcale"], 2, "did you mean `oracle`?"),
        (["humanevl", "nop"], 2, "unknown benchmark `humanevl`"),
        (["trivial", "chat"], 2, "harness `chat` needs a model"),
        (["trivial", "nop", "--task-concurrency", "4,0"], 2, "`0` is not a whole number of at least 1"),
        (["trivial", "nop", "--task-concurrency", "4,,8"], 2, "`` is not a whole number of at least 1"),
        (["trivial", "nop", "--task-concurrency", ",".join("1" * 21)], 2, "21 settings are more than the 20"),
        (["trivial", "nop", "--provider-limit", "dokcer=4"], 2, "unknown provider `dokcer`"),
        (["trivial", "nop", "--tasks", "t9999"], 4, "matches `t9999`"),
        (["trivial", "nop", "--run-name", "../up"], 2, "run name `../up` has the level `..`"),
        (["trivial", "nop", "--run-id", "a/b"], 2, "run id `a/b`"),
        (["trivial", "nop", "--set", "benchmark.params.tasks=many"], 2, "benchmark"),
    ],
)
def test_02_what_run_refuses_is_refused(proctor: Proctor, arguments: list[str], code: int, says: str) -> None:
    ended = proctor("plan", *arguments)
    assert ended.code == code
    assert ended.out == ""
    assert says in ended.err
    assert "hint: " in ended.err
    assert not list(ended.folder.iterdir())


def test_02_a_run_id_that_is_taken_is_refused(proctor: Proctor) -> None:
    proctor("run", "trivial", "nop", "--run-id", "one", "--limit", "1")
    ended = proctor("plan", "trivial", "nop", "--run-id", "one")
    assert ended.code == 2
    assert "run id `one` is taken" in ended.err


def test_plan_takes_every_option_of_run(proctor: Proctor) -> None:
    from proctor.cli.commands.plan import command as plan
    from proctor.cli.commands.run import command as run

    assert {param.name for param in run.params} <= {param.name for param in plan.params}


def test_text_of_others_cannot_draw_on_the_screen(proctor: Proctor) -> None:
    ended = proctor("plan", "trivial", "chat", "mock/echo", "--set", "shared_state.key=a\x1b[31mb")
    assert "\x1b" not in ended.out + ended.err
