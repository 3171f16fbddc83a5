"""What earlier runs tell: samples of real journals, and of journals that are torn, damaged or none."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from proctor.cli.main import run
from proctor.errors import UsageError
from proctor.model.attempt import NO_USAGE, Grade, Outcome, Phase, TryResult, Usage, Verdict
from proctor.model.events import (
    AttemptSealed,
    Event,
    GradingQueued,
    GradingStarted,
    PhaseEnded,
    RunStarted,
    TryEnded,
    TryStarted,
)
from proctor.store.codec import FORMAT_VERSION, encode
from proctor.store.history import History, Sample, read_history
from proctor.store.journal import Journal

AT = 1796056235.0
STARTED = RunStarted(FORMAT_VERSION, "i", "r", "e", "0", "h", 1, 1)
DIRECTORY = "none_trivial_nop"


def graded(usage: Usage = NO_USAGE, grader_usage: Usage = NO_USAGE) -> TryResult:
    return TryResult(Outcome.GRADED, Grade(True, 1.0), usage, grader_usage)


def attempt(
    name: str,
    *phases: tuple[Phase, float] | type[GradingStarted],
    task: str = "t0",
    verdict: Verdict = Verdict.PASSED,
    result: TryResult | None = None,
) -> list[Event]:
    """Return the events of an attempt of one try."""
    events: list[Event] = [TryStarted(name, task, 0, 1)]
    for phase in phases:
        if isinstance(phase, tuple):
            events.append(PhaseEnded(name, *phase))
        else:
            events += [GradingQueued(name), phase(name)]
    score = 1.0 if verdict is Verdict.PASSED else None
    return [*events, TryEnded(name, 1, result or graded()), AttemptSealed(name, task, 0, verdict, score, 1)]


def journal(root: Path, run_id: str, events: Iterable[Event], *, age: int = 0, end: bytes = b"") -> Path:
    """Write the journal of a run that ended `age` seconds before the newest."""
    path = root / DIRECTORY / run_id / "journal.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"".join(encode(event, AT) for event in [STARTED, *events]) + end)
    os.utime(path, (AT - age, AT - age))
    return path


def read(root: Path, **bounds: int) -> History:
    return read_history(root, DIRECTORY, **bounds)


# ----------------------------------------------------------------------------------------------------- real runs


@pytest.fixture
def proctor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> None:
        assert run([*arguments, "--progress", "none"]) == 0

    return call


def test_samples_of_a_real_run(proctor: Callable[..., None], tmp_path: Path) -> None:
    proctor("run", "trivial", "oracle", "--limit", "3", "--k", "2", "--run-id", "a")
    history = read_history(tmp_path / "results", "none_trivial_oracle")
    assert not history.remarks
    assert history.runs == (tmp_path / "results/none_trivial_oracle/a",)
    assert len(history.all) == 6
    assert {sample.task for sample in history.all} == {"t0000", "t0001", "t0002"}
    for sample in history.all:
        assert sample.passed
        assert sample.cost_usd == 0.0  # it made no call
        assert sample.agent_seconds > 0
        assert sample.grade_seconds > 0
        assert sample.dispose_seconds == 0.0
    assert len(history.seconds("t0001")) == 2
    assert history.seconds("t0009") == ()
    assert history.samples("t0001") == tuple(sample for sample in history.all if sample.task == "t0001")


def test_runs_of_one_name_only_and_the_newest_first(proctor: Callable[..., None], tmp_path: Path) -> None:
    for run_id, limit in (("z-first", "1"), ("a-second", "2")):
        proctor("run", "trivial", "nop", "--limit", limit, "--run-id", run_id, "--run-name", "nightly/main")
    proctor("run", "trivial", "nop", "--limit", "3")
    root = tmp_path / "results"
    os.utime(root / "nightly/main" / DIRECTORY / "z-first/journal.jsonl", (AT, AT))
    history = read_history(root, DIRECTORY, run_name="nightly/main")
    assert [run.name for run in history.runs] == ["a-second", "z-first"]
    assert [sample.task for sample in history.all] == ["t0000", "t0001", "t0000"]
    assert not history.all[0].passed
    assert len(read_history(root, DIRECTORY).all) == 3


def test_reading_changes_nothing(proctor: Callable[..., None], tmp_path: Path) -> None:
    proctor("run", "trivial", "nop", "--limit", "1")
    files = {path: path.stat() for path in (tmp_path / "results").rglob("*")}
    read_history(tmp_path / "results", DIRECTORY)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "results").rglob("*")} == {
        path: status.st_mtime_ns for path, status in files.items()
    }


# ------------------------------------------------------------------------------------------------------ the parts


def test_the_parts_of_an_attempt(tmp_path: Path) -> None:
    journal(
        tmp_path,
        "r",
        attempt(
            "a", (Phase.OPEN, 1), (Phase.SETUP, 2), (Phase.AGENT, 4), (Phase.COLLECT, 8), (Phase.DISPOSE, 16),
            (Phase.GRADE, 32), verdict=Verdict.FAILED,
        ),
    )  # fmt: skip
    [sample] = read(tmp_path).all
    assert sample == Sample("t0", 15.0, 32.0, 16.0, 0.0, passed=False)
    assert sample.seconds == 63.0


def test_a_grading_sandbox_counts_as_grading(tmp_path: Path) -> None:
    phases = (
        (Phase.AGENT, 4),
        (Phase.DISPOSE, 1),
        GradingStarted,
        (Phase.OPEN, 8),
        (Phase.GRADE, 2),
        (Phase.DISPOSE, 16),
    )
    journal(tmp_path, "r", attempt("a", *phases))
    assert read(tmp_path).all == (Sample("t0", 4.0, 26.0, 1.0, 0.0, passed=True),)


def test_all_tries_of_an_attempt_count(tmp_path: Path) -> None:
    first = [TryStarted("a", "t0", 0, 1), PhaseEnded("a", Phase.AGENT, 5.0), GradingStarted("a")]
    broken = TryResult(Outcome.BROKEN, usage=Usage(calls=1, cost_usd=0.5))
    second = [TryStarted("a", "t0", 0, 2), PhaseEnded("a", Phase.AGENT, 7.0), PhaseEnded("a", Phase.GRADE, 1.0)]
    costs = graded(Usage(calls=1, cost_usd=0.25), Usage(calls=1, cost_usd=0.125))
    end = [TryEnded("a", 2, costs), AttemptSealed("a", "t0", 0, Verdict.PASSED, 1.0, 2)]
    journal(tmp_path, "r", [*first, TryEnded("a", 1, broken), *second, *end])
    assert read(tmp_path).all == (Sample("t0", 12.0, 1.0, 0.0, 0.875, passed=True),)


def test_an_unknown_cost_is_none_and_never_0(tmp_path: Path) -> None:
    known, unknown = Usage(calls=1, cost_usd=1.0), Usage(calls=1, cost_usd=None)
    journal(tmp_path, "r", [*attempt("a", result=graded(known, unknown)), *attempt("b", result=graded(known))])
    assert [sample.cost_usd for sample in read(tmp_path).all] == [None, 1.0]


def test_only_passed_and_failed_attempts_are_samples(tmp_path: Path) -> None:
    events = [event for verdict in Verdict for event in attempt(verdict.value, task=verdict.value, verdict=verdict)]
    unfinished = attempt("x", (Phase.AGENT, 1.0))[:-1]
    given_up = AttemptSealed("never started", "t", 0, Verdict.PASSED, 1.0, 0)
    journal(tmp_path, "r", [*events, *unfinished, given_up, PhaseEnded("passed", Phase.DISPOSE, 1.0)])
    assert [sample.task for sample in read(tmp_path).all] == ["passed", "failed"]


def test_expected_seconds_are_medians(tmp_path: Path) -> None:
    assert History().expected_seconds(["t0"]) == ()
    runs = [attempt(f"a{n}", (Phase.AGENT, float(n)), task="t1") for n in (1, 2, 9)]
    journal(tmp_path, "r", [event for events in runs for event in events])
    assert read(tmp_path).expected_seconds(["t0", "t1"]) == (None, 2.0)


# --------------------------------------------------------------------------------------------- what may be amiss


def test_nothing_there_is_no_history(tmp_path: Path) -> None:
    (tmp_path / DIRECTORY / "not-a-run").mkdir(parents=True)
    (tmp_path / DIRECTORY / "a-file").write_text("x")
    for history in (read(tmp_path), read_history(tmp_path / "nowhere", DIRECTORY)):
        assert (history.all, history.runs, history.remarks) == ((), (), ())


def test_04_R5_a_torn_journal_counts_up_to_its_tear_and_is_named(tmp_path: Path) -> None:
    path = journal(tmp_path, "torn", attempt("a", (Phase.AGENT, 1)), end=b'{"type":"TrySta')
    history = read(tmp_path)
    assert len(history.all) == 1
    [remark] = history.remarks
    assert remark.journal == path
    assert remark.used
    assert "ends in a torn line of 15 bytes" in remark.what


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"{" * 100 + b"\n", "does not begin with RunStarted"),
        (b"\x00\xff not a journal", "does not begin with RunStarted"),
        (b'{"type":"AttemptSealed"}\n', "does not begin with RunStarted"),
        (encode(STARTED, AT) + b'{"type":"RunEnded"\n', "is damaged at line 2"),
        (encode(STARTED, AT).replace(b'"format":1', b'"format":99'), "written by a newer proctor"),
        (encode(STARTED, AT) + b'{"type":"SomethingNew","at":"2026-11-30T16:30:35.123456Z"}\n', "not known here"),
    ],
)
def test_what_cannot_be_read_is_left_out_and_named(tmp_path: Path, content: bytes, says: str) -> None:
    journal(tmp_path, "good", attempt("a", (Phase.AGENT, 1)), age=60)
    bad = journal(tmp_path, "bad", ())
    bad.write_bytes(content)
    history = read(tmp_path)
    assert [run.name for run in history.runs] == ["good"]
    [remark] = history.remarks
    assert remark.journal == bad
    assert not remark.used
    assert says in remark.what


def test_samples_before_the_damage_are_not_trusted(tmp_path: Path) -> None:
    journal(tmp_path, "bad", attempt("a", (Phase.AGENT, 1)), end=b"garbage\n")
    assert read(tmp_path).all == ()


def test_what_is_no_file_is_named_and_never_opened(tmp_path: Path) -> None:
    for run_id in ("folder", "pipe"):
        (tmp_path / DIRECTORY / run_id).mkdir(parents=True)
    (tmp_path / DIRECTORY / "folder/journal.jsonl").mkdir()
    os.mkfifo(tmp_path / DIRECTORY / "pipe/journal.jsonl")  # opening it would wait for ever
    history = read(tmp_path)
    assert [(remark.journal.parent.name, remark.what) for remark in history.remarks] == [
        ("folder", "is not a file"),
        ("pipe", "is not a file"),
    ]


def test_a_directory_that_cannot_be_listed_is_named(tmp_path: Path) -> None:
    (tmp_path / DIRECTORY).write_text("a file in the way")
    [remark] = read(tmp_path).remarks
    assert "cannot be read" in remark.what


def test_an_empty_journal_says_nothing(tmp_path: Path) -> None:
    journal(tmp_path, "empty", ()).write_bytes(b"")
    history = read(tmp_path)
    assert (history.all, history.runs, history.remarks) == ((), (), ())


def test_a_run_that_goes_on_counts_as_far_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / DIRECTORY / "live" / "journal.jsonl"
    path.parent.mkdir(parents=True)
    writer = Journal.create(path, at=AT, pid=os.getpid(), host=os.uname().nodename)
    try:
        for event in (STARTED, *attempt("a", (Phase.AGENT, 3)), *attempt("b", (Phase.AGENT, 4))[:-1]):
            writer.append(event, AT)
        writer.flush()
        history = read(tmp_path)
    finally:
        writer.close()
    assert history.remarks == ()
    assert [sample.agent_seconds for sample in history.all] == [3.0]


# --------------------------------------------------------------------------------------------------------- bounds


def test_only_so_many_runs_are_read(tmp_path: Path) -> None:
    for number in range(5):
        journal(tmp_path, f"r{number}", attempt("a", (Phase.AGENT, number)), age=number)
    history = read(tmp_path, runs_at_most=2)
    assert [run.name for run in history.runs] == ["r0", "r1"]


def test_runs_without_samples_do_not_hide_those_before(tmp_path: Path) -> None:
    for number in range(5):
        journal(tmp_path, f"killed{number}", (), age=number)
    journal(tmp_path, "whole", attempt("a", (Phase.AGENT, 1)), age=99)
    assert [run.name for run in read(tmp_path, runs_at_most=2).runs] == ["whole"]


def test_only_so_many_bytes_are_read(tmp_path: Path) -> None:
    events = [event for number in range(100) for event in attempt(f"a{number}", (Phase.AGENT, number))]
    size = journal(tmp_path, "new", events).stat().st_size
    journal(tmp_path, "old", events, age=60)
    history = read(tmp_path, bytes_at_most=size // 2)
    assert 40 <= len(history.all) <= 60
    assert [run.name for run in history.runs] == ["new"]
    [remark] = history.remarks
    assert remark.used
    assert "only the first" in remark.what
    assert len(read(tmp_path, bytes_at_most=2 * size).all) == 200


def test_a_bad_run_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        read_history(tmp_path, DIRECTORY, run_name="../up")
