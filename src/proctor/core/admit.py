"""What starts next: resumes, gradings, retries, and undispatched attempts (spec 03 B1, B2, O1 to O4, E3)."""

from __future__ import annotations

from proctor.core.books import Books
from proctor.core.choose import Candidate, Chooser
from proctor.core.commands import CloseLane, Command, OpenLane, ResumeTry, StartGrading, StartTry
from proctor.core.flight import Attempt
from proctor.core.held import Kind, Moment
from proctor.core.lifecycle import Step
from proctor.core.order import READY, Place
from proctor.core.parts import Part
from proctor.core.rank import Line
from proctor.core.run import Run
from proctor.core.stops import Stops
from proctor.model.attempt import GradingMode

_EXPERIMENT = Kind.EXPERIMENT


class Admission:
    """Decides what starts, and starts it."""

    def __init__(self, books: Books, stops: Stops, patience: int) -> None:
        self._books = books
        self._stops = stops
        self._gates = books.gates
        self._retried_last = False
        self._now = 0.0
        self.chooser = Chooser(books, patience)

    def admit(self, now: float, commands: list[Command]) -> bool:
        """Start whatever fits, one after another; each choice is made anew, with what is left (O3).

        Returns whether an attempt passed meanwhile, by the refusal of another try, which decides its task (E2).
        """
        books = self._books
        chooser = self.chooser
        self._now = chooser.now = now
        chooser.wake = None
        free, slots = self._gates.free, books.global_permit[0][0]
        resumes, gradings, retries = books.resumes.rows, books.gradings.rows, books.retries.rows
        while free[slots] > 0:
            if not (resumes or gradings or retries) or not self._go_on(commands):
                chosen = chooser.choose()
                if chosen is None:
                    return False
                if self._start(chosen, commands):
                    self._retried_last = False
            elif self._stops.passed:
                return True
        chooser.wake = None
        return False

    def could_start(self) -> str | None:
        """Return what could have started at the last look and did not, or None; changes nothing that matters."""
        books, chooser = self._books, self.chooser
        if not self._gates.fits(books.global_permit):
            return None
        before = chooser.wake, chooser.claimant, [line.overtaken for line in books.lines]
        asked = (books.resumes, chooser.paced), (books.gradings, chooser.fits), (books.retries, chooser.fits)
        found = next((attempt for queue, fits in asked if (attempt := queue.first(fits)) is not None), None)
        chosen = chooser.choose()
        chooser.wake, chooser.claimant, overtaken = before
        for line, number in zip(books.lines, overtaken, strict=True):
            line.overtaken = number
        if found is not None:
            return f"@{found}"
        return None if chosen is None else f"a slot of `{chosen[0].plan.name}`"

    # --------------------------------------------------------------------------------------- what was dispatched

    def _go_on(self, commands: list[Command]) -> bool:
        """Start one attempt that was dispatched before, if there is one whose turn it is; say whether."""
        books = self._books
        if books.resumes.rows and (found := books.resumes.first(self.chooser.paced)) is not None:
            commands.append(self._resume(books.in_flight[found]))
            return True
        if books.gradings.rows and (found := books.gradings.first(self.chooser.fits)) is not None:
            commands.append(self._start_grading(books.in_flight[found]))
            return True
        if books.retries.rows and (found := books.retries.first(self.chooser.fits)) is not None:
            attempt = books.in_flight[found]
            if not self._retried_last or not self.chooser.another_could_start(attempt.run):
                if attempt.run.budget.still_allows():
                    self._retried_last = True
                    self._start_retry(attempt, commands)
                else:
                    self._stops.refuse_retry(attempt, commands)
                    books.offer(attempt.run)
                return True
        return False

    def _resume(self, attempt: Attempt) -> ResumeTry:
        books = self._books
        books.resumes.discard(attempt.id)
        books.take(attempt, attempt.resume, Moment.EXECUTING, self._now)
        assert attempt.backing_off is not None
        attempt.backing_off.backing_off -= 1
        books.backing_off -= 1
        attempt.backing_off = None
        attempt.tells(self._now, "resume")
        attempt.advance(Step.RESUME)
        return ResumeTry(attempt.id)

    def _start_grading(self, attempt: Attempt) -> StartGrading:
        books, plan = self._books, attempt.run.plan
        books.gradings.discard(attempt.id)
        assert attempt.part.grading is not None
        fresh = plan.grading is GradingMode.FRESH
        books.take(attempt, attempt.part.grading, Moment.GRADING_FRESH if fresh else Moment.GRADING_JUDGED, self._now)
        attempt.tells(self._now, "start grading")
        attempt.advance(Step.GRANT)
        return StartGrading(attempt.id)

    def _start_retry(self, attempt: Attempt, commands: list[Command]) -> None:
        books, part = self._books, attempt.part
        books.retries.discard(attempt.id)
        lane = attempt.lane
        reopens = lane is not None and lane.gone
        books.take(attempt, part.retry if lane is None or reopens else part.start, part.moment, self._now)
        attempt.let_through = False
        attempt.advance(Step.START_AGAIN)
        attempt.try_number += 1
        attempt.last = None
        attempt.seconds = 0.0
        attempt.tells(self._now, f"start try {attempt.try_number}")
        if lane is not None and reopens:  # its sandbox is gone; what it held goes over to the next
            lane = books.replace_lane(lane, self._now)
            lane.attempt, attempt.lane = attempt, lane
            group = lane.pool.group
            commands.append(OpenLane(lane.id, attempt.run.plan.name, group.name if group else None))
        lane_id = lane.id if lane else None
        commands.append(StartTry(attempt.id, attempt.slot, attempt.try_number, lane_id, part.kind.only))

    def _start(self, chosen: Candidate, commands: list[Command]) -> bool:
        """Start the first slot of a candidate; return False where an old lane was closed instead."""
        (run, line), now, books = chosen, self._now, self._books
        part = run.part_in[line]
        if part.lanes is not None and line.in_lane and self._retire_old(part, run, commands):
            return False
        line.overtaken = 0
        if line is self.chooser.claimant:
            self.chooser.claimant = None
        place = run.place(part, line.tier)
        assert place is not None
        ordinal = part.slots.pop(place.task)
        attempt = Attempt(books.mint(), part, place.task, ordinal)
        books.in_flight[attempt.id] = attempt
        attempt.story.append((now, "start try"))
        run.dispatched = True
        run.in_flight += 1
        run.budget.reserving += 1
        lane_id = self._take(attempt, line, commands)
        run.rerank()
        if run.offers_again:
            books.offer(run)
        commands.append(StartTry(attempt.id, attempt.slot, attempt.try_number, lane_id, part.kind.only))
        return True

    def _take(self, attempt: Attempt, line: Line, commands: list[Command]) -> str | None:
        books, run, part, now = self._books, attempt.run, attempt.part, self._now
        books.take(attempt, line.ask, part.moment, now)
        if run.own and not line.in_lane and not self._gates.take(run.own):
            raise books.impossible(f"gate `{self._gates.blocker(run.own)}` has no room for what was chosen", attempt)
        if part.lanes is None:
            if run.own:
                attempt.held[_EXPERIMENT] = run.own
            return None
        if line.in_lane:
            lane = part.lanes.idle.popleft()
        else:
            lane = books.begin_lane(part, now)
            group = part.lanes.group
            commands.append(OpenLane(lane.id, run.plan.name, group.name if group else None))
        lane.attempt, attempt.lane = attempt, lane
        return lane.id

    def _retire_old(self, part: Part, run: Run, commands: list[Command]) -> bool:
        """Close the idle lane that is next if it would not outlive the attempt; say whether (L4)."""
        pool = part.lanes
        assert pool is not None
        lane = pool.idle[0]
        place = run.place(part, READY) or Place(0, 0, 0)
        expected = -place.shortness if run.is_known else 0
        if not pool.outlived(lane, expected / 1e6, self._now):
            return False
        pool.leave(lane)
        commands.append(CloseLane(lane.id))
        self._books.offer(run)
        return True

    def close_lanes(self, commands: list[Command]) -> bool:
        """Close idle lanes that have nothing left to start, are held by the budget (L0), or hold what is claimed.

        Returns whether there were any of the last kind: then something else may start.
        """
        claimed, moved = self.chooser.claimed(), False
        for lane in [lane for lane in self._books.lanes.values() if lane in lane.pool.idle]:
            part = lane.pool.part
            in_the_way = bool(claimed) and any(gate in claimed for gate, _ in lane.held)
            if in_the_way or not part.slots.remaining or not part.run.budget.allows():
                lane.pool.leave(lane)
                self._books.offer(part.run)
                commands.append(CloseLane(lane.id))
                moved = moved or in_the_way
        return moved
