"""What plugins log, print and warn: where it goes, at which level, without credentials (spec 07)."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from program import Ended
from watched_plugins import LEVELS

Proctor = Callable[..., Ended]

SECRET = "sk-verysecret-one\nline-two-of-the-secret"
CHATTY = ["run", "trivial", "watched_plugins:Chatty", "--limit", "2"]


@pytest.fixture
def chatty(program: Proctor, monkeypatch: pytest.MonkeyPatch) -> Proctor:
    """Run the harness that says everything everywhere, knowing a secret; warnings are no errors there."""
    monkeypatch.setenv("CHATTY_API_KEY", SECRET)
    return lambda *more: program(*CHATTY, *more)


def logs(ended: Ended) -> tuple[str, dict[str, str]]:
    """Return run.log, and try.log by task."""
    tries = {path.parents[3].name: path.read_text() for path in ended.run_dir.rglob("try.log")}
    return (ended.run_dir / "run.log").read_text(), tries


@pytest.mark.long
def test_07_each_way_of_saying_something_goes_where_it_belongs(chatty: Proctor) -> None:
    ended = chatty()
    run_log, tries = logs(ended)
    assert set(tries) == {"t0000", "t0001"}
    for task in tries:
        own, other = tries[task], "t0001" if task == "t0000" else "t0000"
        assert other not in own
        for level in LEVELS:
            assert f"{level.upper()} own {level} of {task}\n" in own
            assert f"own {level}" not in run_log, "the log of a try is that of the try"
            assert f"own {level}" not in ended.err
            foreign = f"foreign {level} of {task}"
            assert (foreign in run_log) == (foreign in own) == (level != "debug")
            assert (f"{level}: x: {foreign}\n" in ended.err) == (level in ("warning", "error", "critical"))
        for line in (f"printed by {task}, ", "in parts", f"to stderr by {task}", f"by a thread of {task}"):
            assert f"INFO {line}" in run_log
            assert f"INFO {line}" in own
            assert f"\n{line}" in ended.err
        for text in (run_log, own, ended.err):
            assert f"RuntimeWarning: warned by {task}" in text
            assert f"caught in {task}" in text
    [line] = [line for line in run_log.splitlines() if "foreign info of t0000" in line]
    fields = line.partition(" [")[2]
    assert fields.startswith("experiment=trivial/watched_plugins:Chatty task=t0000 attempt=")
    assert fields.endswith(" try=1 number=7 logger=x]")


@pytest.mark.long
def test_07_no_line_anywhere_has_a_credential(chatty: Proctor) -> None:
    ended = chatty("--json", "--log-level", "debug")
    everything = [ended.out, ended.err]
    everything += [path.read_text("utf-8", "replace") for path in ended.run_dir.rglob("*") if path.is_file()]
    for text in everything:
        for line in SECRET.splitlines():
            assert line not in text
    assert "ValueError: an error with [redacted" in ended.err
    assert "ValueError: an error with [redacted" in (ended.run_dir / "run.log").read_text()


@pytest.mark.long
def test_07_standard_output_carries_data_only(chatty: Proctor) -> None:
    ended = chatty("--json")
    assert [json.loads(line)["type"] for line in ended.out.splitlines()][-1] == "receipt"


@pytest.mark.long
def test_07_without_json_nothing_is_on_standard_output(chatty: Proctor) -> None:
    assert chatty().out == ""


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("console", "file"), [("INFO", "DEBUG"), ("ERROR", "DEBUG"), ("DEBUG", "ERROR"), ("CRITICAL", "CRITICAL")]
)
def test_07_the_two_levels_are_independent(chatty: Proctor, console: str, file: str) -> None:
    ended = chatty("--log-level", console, "--file-log-level", file)
    run_log, tries = logs(ended)
    order = [level.upper() for level in LEVELS]

    def passes(level: str, least: str) -> bool:
        return order.index(level) >= order.index(least)

    for level in order:
        foreign = f"foreign {level.lower()} of t0000"
        assert (foreign in ended.err) == (passes(level, console) and passes(level, "WARNING"))
        assert (foreign in run_log) == (passes(level, file) and passes(level, "INFO"))
        assert (f"own {level.lower()} of t0000" in tries["t0000"]) == passes(level, file)
    assert ("printed by t0000" in ended.err) == passes("INFO", console)
    assert "100.0% (2/2 passed)" in ended.err, "the result is no line of the log"


@pytest.mark.long
def test_07_with_progress_none_nothing_is_on_the_terminal_and_the_files_have_it_all(chatty: Proctor) -> None:
    ended = chatty("--progress", "none")
    assert (ended.out, ended.err) == ("", "")
    run_log, tries = logs(ended)
    assert "foreign error of t0000" in run_log
    assert "printed by t0000" in tries["t0000"]


def test_07_a_level_that_is_none_is_refused(proctor: Proctor) -> None:
    ended = proctor(*CHATTY, "--log-level", "loud")
    assert ended.code == 2
    assert "loud" in ended.err


def test_08_D8_a_try_that_says_nothing_has_no_log(proctor: Proctor) -> None:
    ended = proctor("run", "trivial", "oracle")
    assert list(ended.run_dir.rglob("try.log")) == []
