"""How a run stands and how that is shown: ages of the moment of the answer, the end that comes next (spec 07)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from proctor.cli.status_view import State, standing_of, status_data, status_lines
from proctor.store.active_runs import Seen
from proctor.store.lock import Writer
from proctor.store.owner import Life, Living, Owner
from proctor.store.progress_file import FORMAT, Flight, Left, Progress

HERE = Path("results/e/run")
WRITER = Writer(7, "host", "then")
ALIVE = Life(Living.ALIVE, "process 7 runs on this host")
STOPPED = Life(Living.ALIVE, "process 7 is stopped", stopped=True)
DEAD = Life(Living.DEAD, "there is no process 7 any more")
UNKNOWN = Life(Living.UNKNOWN, "it runs or ran on host other")

COUNTS = {
    "total": 9, "running": 2, "queued": 3, "passed": 3, "failed": 1, "errored": 0, "skipped": 0, "cancelled": 0,
    "not_dispatched": {}, "reused_passed": 0, "reused_failed": 0,
}  # fmt: skip


def told(**more: object) -> Progress:
    given = {
        "format": FORMAT, "proctor": "1", "invocation": "i", "run": "run", "experiment": "exp",
        "owner": Owner("host", "b", "n", 7, 1), "started_at": 1000.0, "written_at": 1100.0, "every_seconds": 1.0,
        "ended": False, "completion": None, "counts": COUNTS, "backing_off": 1, "waiting_for_grading": 0,
        "between_tries": 0, "cost_usd": 1.42,
    }  # fmt: skip
    return Progress(**{**given, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seen", "now", "state", "why"),
    [
        (Seen(HERE, told(), WRITER, ALIVE), 1101.0, State.RUNNING, None),
        (Seen(HERE, told(), WRITER, ALIVE), 1105.9, State.RUNNING, None),
        (Seen(HERE, told(), WRITER, ALIVE), 1106.1, State.NOT_ANSWERING, "its event loop is held"),
        (Seen(HERE, told(every_seconds=15.0), WRITER, ALIVE), 1119.0, State.RUNNING, None),
        (Seen(HERE, told(), WRITER, STOPPED), 1101.0, State.NOT_ANSWERING, "process 7 is stopped"),
        (Seen(HERE, told(), WRITER, UNKNOWN), 1101.0, State.RUNNING, None),
        (Seen(HERE, told(), WRITER, UNKNOWN), 1200.0, State.NOT_ANSWERING, "on host other"),
        (Seen(HERE, told(), WRITER, DEAD), 1101.0, State.LOST, "no process 7"),
        (Seen(HERE, None, WRITER, DEAD, "`p` is damaged"), 1101.0, State.LOST, "`p` is damaged"),
        (Seen(HERE, None, WRITER, ALIVE, "`p` is damaged"), 1101.0, State.NOT_ANSWERING, "`p` is damaged"),
        (Seen(HERE, None, WRITER, ALIVE), 1101.0, State.RUNNING, "no progress yet"),
        (Seen(HERE, told(ended=True, completion="complete")), 9e9, State.ENDED, None),
        (Seen(HERE, told(ended=True), WRITER, DEAD), 9e9, State.ENDED, None),
        (Seen(HERE, told()), 1101.0, State.ENDED, "proctor show"),
    ],
)  # fmt: skip
def test_07_how_a_run_stands(seen: Seen, now: float, state: State, why: str | None) -> None:
    one = standing_of(seen, now)
    assert one.state is state
    assert (one.why is None) if why is None else (why in (one.why or ""))
    data = status_data(one)
    assert data["state"] == state.value
    assert (data["since"] is not None) == (state in (State.LOST, State.NOT_ANSWERING) and seen.progress is not None)


FLIGHTS = [
    Flight("a", "quick", 0, 1, "running", 1090.0, "agent", 1092.0, 1100.0, "agent_timeout_seconds", 1200.0, 2292.0),
    Flight("b", "silent", 1, 2, "running", 1000.0, "grade", 1030.0, 1040.0, "grade_timeout_seconds", 90.0, 1120.0),
    Flight(
        "c", "waits", 0, 1, "backing off", 1050.0, "agent", 1051.0, 1095.0, "agent_timeout_seconds", 60.0,
        left_seconds=16.0, backing_off="model.rate_limited", waits_until=1118.0,
    ),
    Flight("d", "again", 0, 1, "between tries", 1001.0, backing_off="provider.open_failed"),
]  # fmt: skip


def test_07_the_lines_of_a_run_with_ages_of_now() -> None:
    progress = told(in_flight=FLIGHTS, estimate=Left(600.0, 700.0, 3.1, 0.6), waiting={"provider docker": 3})
    lines = status_lines(standing_of(Seen(HERE, progress, WRITER, ALIVE), 1104.0))
    assert [re.sub("(?<=[^ ]) {2,}", "  ", line) for line in lines] == [
        "results/e/run · exp · running · for 1m44s, process 7 on host",
        "  9 total · 2 running (1 backing off) · 3 queued · 3 passed · 1 failed · 0 errored · 0 skipped · $1.42"
        " · eta 9m56s · $3.10 ±0.60 expected in all",
        "  waiting: 3 provider docker",
        "  TASK  TRY  PHASE  FOR  LAST OUTPUT  LIMIT  ENDS",
        "  silent #1  2  grade  1m14s  1m04s  grade_timeout_seconds 1m30s  in 16s, 00:18:40Z",
        "  waits #0  1  agent, backing off 14s (model.rate_limited)  53s  9.0s  agent_timeout_seconds 1m00s  16s left, it waits",  # noqa: E501
        "  quick #0  1  agent  12s  4.0s  agent_timeout_seconds 20m00s  in 19m48s, 00:38:12Z",
        "  again #0  1  between tries (provider.open_failed)  -  -  none  -",
    ]  # fmt: skip


def test_07_few_rows_are_shown_and_all_are_counted() -> None:
    flights = [Flight(str(n), f"t{n}", 0, 1, "running", 1.0, "agent", 1.0, float(n)) for n in range(1000)]
    one = standing_of(Seen(HERE, told(in_flight=flights), WRITER, ALIVE), 1101.0)
    shown = status_lines(one)
    assert "t0 #0" in shown[3], "the longest silent one comes first"
    assert shown[-1] == "  and 980 more attempts in flight (--all)"
    assert len(status_lines(one, rows=None)) == 3 + 1000


def test_07_json_has_moments_and_ages() -> None:
    data = status_data(standing_of(Seen(HERE, told(in_flight=FLIGHTS), WRITER, ALIVE), 1104.0))
    flights = {each["task"]: each for each in data["progress"]["in_flight"]}
    assert flights["silent"]["seconds_in_phase"] == 74.0
    assert flights["silent"]["seconds_since_output"] == 64.0
    assert flights["silent"]["ends_in_seconds"] == 16.0
    assert flights["waits"]["ends_in_seconds"] is None
    assert flights["waits"]["left_seconds"] == 16.0
    assert data["progress"]["counts"] == COUNTS
    assert data["process"] == {"living": "alive", "why": ALIVE.why, "stopped": False}


def test_07_of_what_is_gone_nothing_grows_older() -> None:
    progress = told(in_flight=FLIGHTS, estimate=Left(600.0))
    one = standing_of(Seen(HERE, progress, WRITER, DEAD), 9999.0)
    assert status_data(one)["progress"]["in_flight"][0]["seconds_in_phase"] == 8.0
    lines = status_lines(one)
    assert lines[0].startswith("results/e/run · exp · lost since 00:18:20Z (2h28m ago) · there is no process 7")
    assert not any("eta" in line for line in lines)
    assert "  in flight when it was seen last:" in lines


def test_names_that_others_gave_do_nothing_to_a_terminal() -> None:
    flight = Flight("a", "t\x1b[31m\nx", 0, 1, "running", 1.0, "agent", 1.0)
    progress = told(in_flight=[flight], experiment="e\rvil", waiting={"g\x1b": 1})
    text = "".join(status_lines(standing_of(Seen(HERE, progress, WRITER, ALIVE), 1101.0)))
    assert not set(text) & {"\x1b", "\n", "\r"}
