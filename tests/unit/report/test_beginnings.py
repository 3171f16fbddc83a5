"""Plain text: gates that start to block, preparations with their age, a heartbeat with counts (07; cases 160, 168)."""

from __future__ import annotations

import io

from proctor.model.attempt import Grade, Outcome, Phase, TryResult, Usage, Verdict
from proctor.model.events import AttemptSealed, Event, PhaseStarted, RunStarted, TryEnded, TryStarted
from proctor.model.waiting import Gate, Waiting
from proctor.report.beginnings import QUIET_SECONDS
from proctor.report.plain import HEARTBEAT_SECONDS, PlainText
from proctor.report.view import RunView

DOCKER = Waiting("e", Gate.PROVIDER, "docker", 4, 8, 8)


class Talk:
    """Plain text of one experiment with 5 slots, with a clock of its own."""

    def __init__(self, *names: str) -> None:
        self.stream = io.StringIO()
        self.views = {name: RunView(name) for name in names or ("e",)}
        self.text = PlainText(self.stream, self.views)
        for name in self.views:
            self.tell(0.0, RunStarted(1, "i", "r", name, "0", "h", 1, 5, 5), name)

    def tell(self, at: float, event: Event, name: str = "e") -> None:
        self.views[name].add(event, at)
        self.text.show(name, event, at)

    def beat(self, at: float, *waiting: Waiting) -> list[str]:
        self.stream.seek(0)
        self.stream.truncate()
        self.text.beat(at, waiting)
        return self.stream.getvalue().splitlines()


def test_07_a_gate_that_starts_to_block_is_said_once() -> None:
    talk = Talk()
    talk.tell(0.0, TryStarted("a", "t", 0, 1))
    talk.tell(0.0, PhaseStarted("a", Phase.AGENT))
    assert talk.beat(1.0, DOCKER) == ["waiting: 4 docker 8/8"]
    assert talk.beat(2.0, DOCKER) == []
    assert talk.beat(3.0, DOCKER._replace(slots=3), Waiting("e", Gate.SAME_TASK, "", 1)) == ["waiting: 1 same task"]


def test_07_a_gate_that_blocks_now_and_then_is_not_said_each_time() -> None:
    talk = Talk()
    assert talk.beat(1.0, DOCKER._replace(slots=5)) != []
    assert talk.beat(2.0) == []
    assert talk.beat(3.0, DOCKER._replace(slots=5)) == []
    assert talk.beat(4.0) == []
    assert talk.beat(1.0 + QUIET_SECONDS, DOCKER._replace(slots=5)) == ["waiting: 5 docker 8/8"]


def test_168_a_slow_setup_is_said_within_the_second_with_its_age() -> None:
    talk = Talk()
    assert talk.beat(1.0, Waiting("e", Gate.SETUP, "e", 5)) == ["waiting: 5 setup of e 00:01"]


def test_168_what_is_prepared_before_any_work_is_said_once_for_each_phase() -> None:
    talk = Talk()
    for name in ("a", "b"):
        talk.tell(0.5, TryStarted(name, f"task-{name}", 0, 1))
        talk.tell(0.5, PhaseStarted(name, Phase.OPEN))
    assert talk.beat(1.0) == ["preparing: open for 0.5s: task-a #0 and 1 more"]
    assert talk.beat(2.0) == []
    talk.tell(9.0, PhaseStarted("a", Phase.SETUP))
    assert talk.beat(9.5) == ["preparing: setup for 0.5s: task-a #0"]
    talk.tell(12.0, PhaseStarted("a", Phase.AGENT))
    talk.tell(12.0, TryStarted("c", "task-c", 0, 1))
    talk.tell(12.0, PhaseStarted("c", Phase.OPEN))
    assert talk.beat(13.0) == [], "work has begun: from here on opening is business as usual"


def test_07_the_heartbeat_says_the_counts_and_what_is_waited_for() -> None:
    talk = Talk("e", "f")
    waiting = [DOCKER._replace(slots=5), DOCKER._replace(experiment="f", slots=5)]
    assert talk.beat(1.0, *waiting) == ["waiting: 10 docker 8/8"]
    assert talk.beat(HEARTBEAT_SECONDS, *waiting) == []
    assert talk.beat(1.0 + HEARTBEAT_SECONDS, *waiting) == [
        "e 5 total | 0 running | 5 queued | 0 passed | 0 failed | 0 errored | 0 skipped",
        "f 5 total | 0 running | 5 queued | 0 passed | 0 failed | 0 errored | 0 skipped",
        "waiting: 10 docker 8/8",
    ]


def test_07_the_line_of_a_finished_attempt_has_its_duration_and_its_cost() -> None:
    talk = Talk()
    talk.tell(10.0, TryStarted("a", "terminal/fix-git", 0, 1))
    used = Usage(calls=2, input_tokens=5, cost_usd=0.04)
    talk.tell(202.0, TryEnded("a", 1, TryResult(Outcome.GRADED, Grade(True, 1.0), used)))
    talk.tell(202.0, AttemptSealed("a", "terminal/fix-git", 0, Verdict.PASSED, 1.0, 1))
    assert talk.stream.getvalue() == "[1/5] passed    terminal/fix-git #0  3m12s $0.04\n"
