"""All interleavings of a small world: every order in which its events can come, until nothing can happen any more.

A try is a short script; whatever could happen next is a move, and every move is tried in every state. States that look
the same, by what each script has done and by the books of the scheduler, are followed once. A state without moves in
which the scheduler has not finished is a deadlock. In each state the scheduler validates itself and a referee judges.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from proctor.core.commands import (
    AcquireLease,
    CancelTry,
    CloseLane,
    Command,
    Finish,
    ReleaseLease,
    ResumeTry,
    RunSetup,
    RunTeardown,
    Seal,
    StartGrading,
    StartTry,
    WakeAt,
)
from proctor.core.scheduler import Scheduler
from proctor.model.attempt import issue_of
from proctor.model.events import (
    Event,
    Interrupted,
    LaneClosed,
    LeaseGranted,
    LeaseRefused,
    LeaseReleased,
    Notice,
    SetupEnded,
    TeardownEnded,
    TimerFired,
    TryEnded,
)
from proctor.testing.explore_scripts import Script
from proctor.testing.referee import Referee, Violation
from proctor.testing.worlds import World

_FAILED = issue_of("experiment.setup_failed", "explored")


class Move(NamedTuple):
    """Something that can happen next: whose move it is, and which of several ways it goes."""

    who: str
    how: str


class _Play:
    """One way through a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._ids = 0
        self._scheduler = Scheduler(world.plans, world.limits, self._mint, patience=world.patience)
        self._referee = Referee(world.plans, world.limits, patience=world.patience)
        self._scripts: dict[str, Script] = {}
        self._ends: dict[str, str] = {}
        """How the last try of those ended that may get another."""
        self._boxes: set[str] = set()
        """Lanes in which a sandbox was opened."""
        self._others: dict[str, list[str]] = {}
        """What else can happen, by whose move it is."""
        self._wake: float | None = None
        self._interrupted = not world.interrupts
        self._now = 0.0
        self.finished = False
        self._obey(None, self._scheduler.start(now=0.0))

    def _mint(self) -> str:
        self._ids += 1
        return f"a{self._ids}"

    def moves(self) -> list[Move]:
        """Return everything that can happen next."""
        found = [Move(who, how) for who, script in self._scripts.items() for how in script.moves()]
        found += [Move(who, how) for who, ways in self._others.items() for how in ways]
        if self._wake is not None:
            found.append(Move("timer", ""))
        if not self._interrupted and not self.finished:
            found.append(Move("interrupt", ""))
        return found

    def make(self, move: Move) -> None:
        """Let something happen."""
        self._now += 0.001
        event = self._event(move)
        self._obey(event, self._scheduler.handle(event, now=self._now))

    def state(self) -> object:
        """Return what tells this state from others."""
        scripts = tuple(
            (who, *_same(script.start), tuple(script.steps), script.waits, script.cancelled)
            for who, script in self._scripts.items()
        )
        others = tuple((who, tuple(ways)) for who, ways in self._others.items())
        ends = tuple(self._ends.items())
        books = repr(self._scheduler.snapshot()), tuple(self._scheduler.waiting(now=self._now))
        return scripts, ends, others, self._wake is None, self._interrupted, books

    def _event(self, move: Move) -> Event | Notice:
        who, how = move
        if who in self._scripts:
            event = self._scripts[who].event(how)
            if isinstance(event, TryEnded):
                self._ends[who] = how
                del self._scripts[who]
            return event
        if who == "timer":
            assert self._wake is not None
            self._now, self._wake = max(self._now, self._wake), None
            return TimerFired()
        if who == "interrupt":
            self._interrupted = True
            return Interrupted(2)
        del self._others[who]
        return self._event_of_run(who.partition(" ")[2], how)

    def _event_of_run(self, name: str, how: str) -> Event:
        answers: dict[str, Event] = {
            "closed": LaneClosed(name, name.partition("/")[0]),
            "granted": LeaseGranted(name),
            "refused": LeaseRefused(name, "explored"),
            "released": LeaseReleased(name),
            "torn down": TeardownEnded(name),
            "done": SetupEnded(name),
            "failed": SetupEnded(name, _FAILED),
        }
        if how == "released":
            self._others.pop(f"lease {name}", None)
        return answers[how]

    def _obey(self, event: Event | Notice | None, commands: Sequence[Command]) -> None:
        for command in commands:
            match command:
                case StartTry(attempt, _, _, lane, grading_only):
                    self._ends.pop(attempt, None)
                    if lane is not None and not grading_only:
                        self._boxes.add(lane)
                    self._scripts[attempt] = Script(self.world, command, in_box=lane in self._boxes)
                case Seal(attempt):
                    self._ends.pop(attempt, None)
                case StartGrading(attempt) | ResumeTry(attempt):
                    self._scripts[attempt].waits = False
                case CancelTry(attempt):
                    self._scripts[attempt].cancelled = True
                case CloseLane(lane):
                    self._others[f"lane {lane}"] = ["closed"]
                case WakeAt(at):
                    self._wake = at
                case Finish():
                    self.finished = True
                case _:
                    self._obey_stage(command)
        self._scheduler.validate()
        self._referee.see(event, commands, self._now)

    def _obey_stage(self, command: Command) -> None:
        fails = self.world.refuse_rate > 0
        match command:
            case AcquireLease(name):
                self._others[f"lease {name}"] = ["granted", "refused"] if fails else ["granted"]
            case ReleaseLease(name):
                self._others[f"release {name}"] = ["released"]
            case RunSetup(name):
                self._others[f"setup {name}"] = ["done", "failed"] if fails else ["done"]
            case RunTeardown(name):
                self._others[f"teardown {name}"] = ["torn down"]
            case _:
                pass

    def judge_end(self) -> None:
        """Judge a state in which nothing can happen any more."""
        if not self.finished:
            raise Violation("deadlock: nothing can happen, and the scheduler has not finished")
        self._referee.end()


def _same(start: StartTry) -> tuple[object, ...]:
    return start.try_number, start.lane, start.grading_only


def explore(world: World, *, most: int = 200_000) -> int:
    """Follow every order of events of a world; return how many states it has.

    Raises `Violation`, with the moves that lead there, where a rule is broken or nothing can happen before the end; and
    where there are more than `most` states.
    """
    seen: set[object] = set()
    todo: list[tuple[Move, ...]] = [()]
    while todo:
        path = todo.pop()
        try:
            play = _Play(world)
            for move in path:
                play.make(move)
            state = play.state()
            if state in seen:
                continue
            seen.add(state)
            moves = play.moves()
            if not moves:
                play.judge_end()
        except Exception as error:
            moves_so_far = "\n".join(f"  {who} {how}" for who, how in path)
            raise Violation(f"{type(error).__name__}: {error}\n{world}\n{moves_so_far}") from error
        if len(seen) > most:
            raise Violation(f"more than {most} states")
        todo += [(*path, move) for move in reversed(moves)]
    return len(seen)
