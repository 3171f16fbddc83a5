"""Files that are derived from the journal: the same bytes live and rebuilt, small, whole (spec 08 D2, D5, D8)."""

from __future__ import annotations

import errno
import json
import math
import os
import re
import subprocess
import sys
from datetime import date
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_cases import AT, FaultyFiles, PowerCutFiles, every_fault, noop_attempt, rich_attempt, rich_run, tree

from proctor.errors import StoreError
from proctor.model.attempt import NO_USAGE, Grade, Outcome, Phase, TryResult, Usage, Verdict, issue_of
from proctor.model.events import (
    AttemptSealed,
    Event,
    IssueRaised,
    PhaseEnded,
    PhaseStarted,
    RunEnded,
    SandboxDisposed,
    SavedFile,
    TryEnded,
    TryStarted,
    WorkCheckpointed,
)
from proctor.model.spec import ModelSpec
from proctor.store.codec import NotEncodable, decode, encode
from proctor.store.folded_try import SavedWork
from proctor.store.journal import Journal
from proctor.store.layout import RunLayout
from proctor.store.plain import DEPTH_LIMIT, encode_json
from proctor.store.reader import read_journal
from proctor.store.results import (
    AttemptFold,
    fold_attempts,
    rebuild_results,
    write_attempt,
    write_json,
)

A = "k3mabcdefghi"


def _timed(events: Any) -> list[tuple[Event, float]]:
    return [(event, AT + index / 7) for index, event in enumerate(events)]


def _fold(events: Any) -> AttemptFold:
    fold = AttemptFold(A)
    for event, at in _timed(events):
        fold.add(event, at)
    return fold


def test_05_a_try_that_only_grades_is_marked_and_the_newest_checkpoint_is_known() -> None:
    limit, warning = issue_of("time.agent", "5 s", Phase.AGENT), issue_of("output.truncated", "cut", Phase.AGENT)
    broken = issue_of("grader.crashed", "boom", Phase.GRADE)
    files = (SavedFile("checkpoint/manifest.json", "2" * 64, 2), SavedFile("artifacts/out", "1" * 64, 3))
    fold = _fold(
        [
            TryStarted(A, "t", 0, 1),
            IssueRaised(A, limit),
            IssueRaised(A, warning),
            WorkCheckpointed(A, 1, "0" * 64, Usage(calls=1), files),
            IssueRaised(A, broken),
            TryEnded(A, 1, TryResult(Outcome.BROKEN, usage=Usage(calls=1), issues=(limit, warning, broken))),
            TryStarted(A, "t", 0, 2, grading_only=True),
        ]
    )
    assert fold.saved_work == SavedWork(1, "0" * 64, files, (limit,)), "of its issues, the errors of the agent's part"
    fold.add(TryEnded(A, 2, TryResult(Outcome.GRADED, Grade(True, 1.0), issues=(limit,))), AT)
    fold.add(AttemptSealed(A, "t", 0, Verdict.PASSED, 1.0, 2), AT)
    first, second = json.loads(fold.encoded())["tries"]
    assert "grading_only" not in first
    assert first["files"] == [{"name": file.name, "sha256": file.sha256, "size": file.size} for file in files]
    assert second["grading_only"] is True
    assert "files" not in second
    assert [issue["code"] for issue in second["issues"]] == ["time.agent"]


def test_08_D8_a_checkpoint_of_an_answer_alone_says_so_by_its_digest() -> None:
    events: list[Event] = [TryStarted(A, "t", 0, 1), WorkCheckpointed(A, 1, "0" * 64, NO_USAGE)]
    events += [TryEnded(A, 1, TryResult(Outcome.CANCELLED)), AttemptSealed(A, "t", 0, Verdict.CANCELLED, None, 1)]
    [only] = json.loads(_fold(events).encoded())["tries"]
    assert (only["answer_sha256"], only.get("files")) == ("0" * 64, None)


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    return RunLayout.create(tmp_path / "results", "e", default_id="r")


def test_the_result_of_a_rich_attempt() -> None:
    result = json.loads(_fold(rich_attempt(A, "日本")).encoded())
    limit = {
        "code": "time.agent",
        "message": "limit of 5 s reached",
        "severity": "ERROR",
        "owner": "agent",
        "phase": "agent",
    }
    usage = {"calls": 3, "input_tokens": 100, "output_tokens": 20, "cost_usd": 0.25}
    assert result == {
        "format": 1,
        "attempt": A,
        "task": "日本",
        "ordinal": 2,
        "verdict": "passed",
        "score": 1.0,
        "sub_scores": {"style": 1.0, "speed": 0.125},
        "checks": [
            {"label": "all tests", "ok": True, "source": "tests/a.py:3"},
            {"label": "half a pair \\udc00", "ok": False, "expected": "é", "actual": "日本"},
        ],
        "started": "2026-11-30T16:30:35.123456Z",
        "ended": "2026-11-30T16:30:39.409170Z",
        "tries": [
            {
                "number": 1,
                "outcome": "graded",
                "solved": False,
                "score": 0.0,
                "phases": dict.fromkeys(["open", "setup", "agent", "collect", "dispose"], 0.333333),
                "issues": [limit],
                "usage": usage,
                "sandboxes": [{"sandbox": "box-1", "purpose": "agent"}],
            },
            {
                "number": 2,
                "outcome": "graded",
                "phases": {"agent": 2.0, "dispose": 0.75, "grade": 1.0},
                "issues": [
                    {
                        "code": "usage.missing",
                        "message": "no usage: \\ud83d\x00\u2028",
                        "severity": "WARNING",
                        "owner": "runner",
                    },
                    limit,
                ],
                "usage": usage,
                "grader_usage": {"calls": 1},
                "answer_sha256": "0" * 64,
                "sandboxes": [
                    {"sandbox": "box-2", "purpose": "agent"},
                    {"sandbox": "box-3", "purpose": "grade", "disposed": False},
                ],
            },
        ],
    }


def test_result_json_is_one_line_for_each_member() -> None:
    lines = _fold(noop_attempt(A, "t")).encoded().decode().splitlines()
    assert lines[0] == '{"format":1,'
    assert '"verdict":"passed",' in lines
    assert lines[-1].endswith('"grade":0.000012}}]}')


def test_D2_files_written_live_and_rebuilt_from_the_journal_are_the_same_bytes(layout: RunLayout) -> None:
    """Also where the live values are of other types, not rounded, or hold half a surrogate pair."""
    folds: dict[str, AttemptFold] = {}
    with Journal.create(layout.journal, at=AT) as journal:
        for event, at in rich_run():
            journal.append(event, at + 1e-7)
            if attempt := getattr(event, "attempt", None):
                fold = folds.setdefault(attempt, AttemptFold(attempt))
                fold.add(event, at + 1e-7)
                if fold.sealed:
                    write_attempt(layout, fold)
    live = tree(layout.attempts)
    assert len(live) == 4
    for path in layout.attempts.rglob("result.json"):
        path.unlink()
    assert rebuild_results(layout) == 4
    assert tree(layout.attempts) == live


@settings(max_examples=100)
@given(
    at=st.floats(0, 2.0**32),
    seconds=st.floats(0, 1e6),
    text=st.text(st.characters(exclude_categories=()), max_size=20),
    score=st.none() | st.floats(0, 1) | st.integers(0, 1),
)
def test_D2_any_live_value_gives_the_bytes_of_the_journal(
    at: float, seconds: float, text: str, score: float | None
) -> None:
    events = list(noop_attempt(A, text, seconds=seconds))
    events.insert(3, IssueRaised(A, issue_of("time.agent", text, Phase.AGENT)))
    events[-1] = AttemptSealed(A, text, 0, Verdict.ERRORED, score, 1)
    live, rebuilt = AttemptFold(A), AttemptFold(A)
    for event in events:
        live.add(event, at)
        rebuilt.add(*decode(encode(event, at)))
    assert live.encoded() == rebuilt.encoded()


def test_an_attempt_that_broke_off_says_where() -> None:
    lost = issue_of("worker.lost", "killed by signal 9", Phase.AGENT)
    result = _fold(
        [
            TryStarted(A, "t", 0, 1),
            PhaseStarted(A, Phase.AGENT),
            TryEnded(A, 1, TryResult(Outcome.BROKEN, issues=(lost,))),
            AttemptSealed(A, "t", 0, Verdict.ERRORED, None, 1),
        ]
    ).result()
    assert result["verdict"] == "errored"
    assert "score" not in result
    assert result["tries"][0]["phases"] == {"agent": None}
    assert result["tries"][0]["issues"][0]["code"] == "worker.lost"


def test_an_attempt_without_a_try_keeps_its_issue(layout: RunLayout) -> None:
    large = issue_of("environment.too_large", "needs 512 GiB")
    fold = _fold([IssueRaised(A, large), AttemptSealed(A, "t", 0, Verdict.ERRORED, None, 0)])
    assert fold.result()["issues"][0]["code"] == "environment.too_large"
    assert "tries" not in fold.result()
    write_attempt(layout, fold)
    assert layout.result("t", 0).exists()


def test_a_fold_refuses_what_is_not_its_own() -> None:
    fold = AttemptFold(A)
    with pytest.raises(ValueError, match="not an event of attempt"):
        fold.add(TryStarted("another", "t", 0, 1), AT)
    with pytest.raises(ValueError, match="not an event of attempt"):
        fold.add(RunEnded("e", "complete"), AT)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="before its first try"):
        fold.add(PhaseStarted(A, Phase.AGENT), AT)
    with pytest.raises(ValueError, match="is not sealed"):
        fold.result()


def test_a_number_that_is_not_finite_is_never_written_to_a_result() -> None:
    fold = _fold([TryStarted(A, "t", 0, 1), PhaseEnded(A, Phase.AGENT, math.nan)])
    fold.add(AttemptSealed(A, "t", 0, Verdict.ERRORED, None, 1), AT)
    with pytest.raises(NotEncodable, match=r"\['phases'\]\['agent'\]` is nan"):
        fold.encoded()


def test_D4_nothing_changes_after_an_attempt_is_sealed() -> None:
    fold = _fold(rich_attempt(A, "t"))
    before = fold.encoded()
    fold.add(SandboxDisposed(A, "box-3"), AT)
    assert fold.encoded() == before
    events = [*_timed(rich_attempt(A, "t")), (SandboxDisposed(A, "box-3"), AT)]
    assert [each.encoded() for each in fold_attempts(events)] == [before]


def test_folding_a_journal_keeps_only_what_is_not_sealed(layout: RunLayout) -> None:
    """Interleaved attempts come out in the order in which they are sealed, also the one that never is."""
    first, second = noop_attempt("a" * 12, "a"), noop_attempt("b" * 12, "b")
    events: list[Event] = [TryStarted("c" * 12, "c", 0, 1)]
    for one, other in zip(first, second, strict=True):
        events += [other, one]
    assert [fold.task for fold in fold_attempts(_timed(events))] == ["b", "a"]


# ---------------------------------------------------------------------------------------------------------- small


@pytest.mark.parametrize(
    ("seconds", "without", "limit"),
    [
        # What a try in mode none without an answer emits, here with durations of all digits.
        (1.2345678901234e-05, ("WorkCheckpointed", "GradingQueued", "GradingStarted"), 1900),
        # The same with every event that a try without a sandbox can have.
        (1.2345678901234e-05, (), 2048),
    ],
)
def test_D8_a_trivial_attempt_is_small(layout: RunLayout, seconds: float, without: tuple[str, ...], limit: int) -> None:
    events = [event for event in noop_attempt(A, "task-00042", seconds=seconds) if type(event).__name__ not in without]
    with Journal.create(layout.journal, at=AT) as journal:
        for event in events:
            journal.append(event, AT)
    write_attempt(layout, _fold(events))
    size = layout.journal.stat().st_size + layout.result("task-00042", 0).stat().st_size
    assert size <= limit
    assert [path.name for path in layout.attempts.rglob("*") if path.is_file()] == ["result.json"]


# ------------------------------------------------------------------------------------------------- writing files


def test_D5_whichever_call_fails_while_a_result_is_written_nothing_is_half_there(tmp_path: Path) -> None:
    numbers = iter(range(10**6))
    fold = _fold(noop_attempt(A, "t"))

    def scenario(files: FaultyFiles) -> None:
        layout = RunLayout(tmp_path / str(next(numbers)))
        layout.directory.mkdir()
        try:
            write_attempt(layout, fold, files=files)
        except StoreError:
            if not files.failed:
                raise
        result = layout.result("t", 0)
        assert not result.exists() or result.read_bytes() == fold.encoded()
        if not files.failed:
            assert result.exists()
            assert len(tree(layout.directory)) == 1, "no temporary file is left"

    assert every_fault(scenario) > 50


def test_D5_whichever_call_fails_while_a_file_is_replaced_the_old_or_the_new_one_is_there(tmp_path: Path) -> None:
    path = tmp_path / "progress.json"

    def scenario(files: FaultyFiles) -> None:
        write_json(path, {"version": "old"})
        try:
            write_json(path, {"version": "new"}, durable=True, files=files)
        except StoreError:
            if not files.failed:
                raise
        assert json.loads(path.read_bytes())["version"] in ("old", "new")

    assert every_fault(scenario) > 50


def test_a_durable_file_survives_a_power_cut_with_its_content(tmp_path: Path) -> None:
    files = PowerCutFiles()
    write_json(tmp_path / "old.json", 1, durable=True, files=files)
    write_json(tmp_path / "new.json", 2, files=files)
    assert files.survivors(tmp_path) == {"old.json": b"1\n"}
    write_json(tmp_path / "old.json", 3, durable=True, files=files)
    assert files.survivors(tmp_path)["old.json"] == b"3\n"


def test_D5_an_error_names_the_file_the_cause_and_what_to_do(tmp_path: Path) -> None:
    files = FaultyFiles(2, errno.ENOSPC)
    with pytest.raises(StoreError, match=r"cannot write `.*summary\.json`: no space left on device") as caught:
        write_json(tmp_path / "summary.json", {}, files=files)
    assert "free some space" in str(caught.value.hint)
    assert list(tmp_path.iterdir()) == []


def test_results_go_nowhere_when_the_run_directory_is_gone(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot make the directory"):
        write_attempt(RunLayout(tmp_path / "gone" / "run"), _fold(noop_attempt(A, "t")))
    assert not (tmp_path / "gone").exists()


def _recursive() -> dict[str, Any]:
    loop: dict[str, Any] = {}
    loop["again"] = loop
    return loop


def _nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"a": [1, {2}]}, r"`f\.json\['a'\]\[1\]` is of type `set`"),
        ({"a": b"x"}, r"`f\.json\['a'\]` is of type `bytes`"),
        ({"a": {"b": math.nan}}, r"`f\.json\['a'\]\['b'\]` is nan, not a finite number"),
        ([math.inf], r"`f\.json\[0\]` is inf"),
        ([date(2026, 11, 30)], r"of type `datetime\.date`"),
        ({1: 2}, r"key of type `int`"),
        ([object()], r"of type `object`"),
        (_recursive(), "nested deeper"),
        (_nested(2000), "nested deeper"),
    ],
)
def test_store_66_what_cannot_be_written_is_named_and_the_old_file_stays(
    tmp_path: Path, value: object, said: str
) -> None:
    path = tmp_path / "f.json"
    write_json(path, {"old": True})
    before = tree(tmp_path)
    with pytest.raises(NotEncodable, match=said):
        write_json(path, value)
    assert tree(tmp_path) == before


class _Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, None),
        ([True, 1, 1.5, "a", 2**80], [True, 1, 1.5, "a", 2**80]),
        ((1, (2,)), [1, [2]]),
        (MappingProxyType({"a": 1}), {"a": 1}),
        ([Phase.AGENT, errno.ENOSPC], ["agent", 28]),
        ([_Text("a")], ["a"]),
        ("\ud800\0\u2028", "\\ud800\0\u2028"),
        ({"\udc00": 1}, {"\\udc00": 1}),
        (_nested(DEPTH_LIMIT - 1), _nested(DEPTH_LIMIT - 1)),
    ],
)
def test_values_are_written_by_the_documented_rules(tmp_path: Path, value: object, written: object) -> None:
    write_json(tmp_path / "f.json", value)
    assert json.loads((tmp_path / "f.json").read_text("utf-8")) == written


def test_a_credential_is_never_written() -> None:
    """A field that a dataclass hides from its repr is one."""
    written = encode_json(ModelSpec("openai/x", api_key="sk-secret"))
    assert b"secret" not in written
    fields = json.loads(written)
    assert fields["id"] == "openai/x"
    assert "api_key" not in fields


def test_store_67_files_are_utf_8_whatever_the_locale(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from proctor.store.results import write_json; "
        "write_json(Path(sys.argv[1]), {'task': '\\u65e5\\u672c \\U0001f389'})"
    )
    environment = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "f.json")], check=True, env=environment)
    assert "日本 🎉" in (tmp_path / "f.json").read_text("utf-8")


def test_files_are_as_open_to_others_as_the_user_wants(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        write_json(tmp_path / "f.json", {})
    finally:
        os.umask(mask)
    assert (tmp_path / "f.json").stat().st_mode & 0o777 == 0o640


def test_the_words_of_verdicts_stand_only_as_verdicts_in_results(layout: RunLayout) -> None:
    with Journal.create(layout.journal, at=AT) as journal:
        for event, at in rich_run():
            journal.append(event, at)
    rebuild_results(layout)
    found = [path.read_text() for path in layout.attempts.rglob("result.json")]
    words = [re.findall(r'("verdict":)?"(?:passed|failed)"', text) for text in found]
    assert sorted(words) == [[], *[['"verdict":']] * 3]
    assert read_journal(layout.journal).torn is None
