"""The audit of the books: everything is counted anew from the attempts in flight, and has to agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from proctor.core.books import Books
from proctor.core.held import HELD, Moment
from proctor.core.lifecycle import State
from proctor.core.run import Run, Stage
from proctor.errors import InternalError


def audit(books: Books) -> None:
    """Check the books against a recount; raises `InternalError` where they differ."""
    for disagreement in (*_gates(books), *_runs(books), *_attempts(books), *_lanes(books), *_ranks(books)):
        raise InternalError(f"the books of the scheduler do not agree: {disagreement}")


def _gates(books: Books) -> Iterator[str]:
    held: Counter[int] = Counter()
    for attempt in books.in_flight.values():
        for demand in attempt.held.values():
            for index, weight in demand:
                held[index] += weight
    for lane in books.lanes.values():
        for index, weight in lane.held:
            held[index] += weight
    for index, gate in enumerate(books.gates.snapshot()):
        if gate.held != held[index]:
            yield f"gate `{gate.name}` counts {gate.held} permits, in use are {held[index]}"
        if gate.limit is not None and gate.held > gate.limit:
            yield f"gate `{gate.name}` holds {gate.held} permits, above its limit of {gate.limit}"


def _runs(books: Books) -> Iterator[str]:
    tasks: dict[int, list[int]] = {run.index: [] for run in books.runs}
    for attempt in books.in_flight.values():
        tasks[attempt.run.index].append(attempt.task)
    for run in books.runs:
        name, mine, queued = run.plan.name, tasks[run.index], run.queued
        if len(mine) != run.in_flight:
            yield f"`{name}` counts {run.in_flight} in flight, there are {len(mine)}"
        total = queued + run.in_flight + run.sealed + sum(run.stopped.values())
        if total != run.to_execute:
            yield f"the parts of `{name}` add up to {total} of {run.to_execute} slots"
        if not run.plan.isolated and len(set(mine)) != len(mine):
            yield f"attempts of one task of `{name}` overlap"
        if run.completion is not None and (queued or run.in_flight):
            yield f"`{name}` is finished, with something left to do"
        if mine and run.stage is not Stage.OPEN:
            yield f"`{name}` is `{run.stage}` with attempts in flight"
        for part in run.parts:
            for line in part.lines:
                if run.can_start(line) and run.index not in line:
                    yield f"`{name}` could start something and is not in line for {line.ask.demand}"


def _attempts(books: Books) -> Iterator[str]:
    gradings, resumes, retries = set(books.gradings), set(books.resumes), set(books.retries)
    backing_off: Counter[str] = Counter()
    reserving: Counter[int] = Counter()
    for attempt in books.in_flight.values():
        name = f"@{attempt.id} (`{attempt.state}`, {attempt.moment})"
        if (attempt.id in gradings) != (attempt.state is State.GRADING_QUEUED):
            yield f"{name} is {'' if attempt.id in gradings else 'not '}waiting for grading"
        if attempt.id in resumes and attempt.moment is not Moment.BACKING_OFF:
            yield f"{name} waits to resume"
        between = attempt.moment is Moment.BETWEEN_TRIES
        waits = (attempt.id in retries) + (attempt.id in books.dues) + attempt.awaits_lane
        if waits != between:
            yield f"{name} waits for another try in {waits} places"
        if extra := set(attempt.held) - HELD[attempt.moment]:
            yield f"{name} holds {sorted(extra)}, which the table does not give it"
        if attempt.backing_off is not None:
            backing_off[attempt.backing_off.name] += 1
        reserving[attempt.run.index] += not between or attempt.let_through
    if not gradings | resumes | retries <= books.in_flight.keys():
        yield "something waits and is not in flight"
    for endpoint in books.built.endpoints.values():
        if endpoint.backing_off != backing_off[endpoint.name]:
            yield f"{endpoint.backing_off} back off on {endpoint.name}, there are {backing_off[endpoint.name]}"
    for run in books.runs:
        if run.budget.reserving != reserving[run.index]:
            yield f"`{run.plan.name}` reserves for {run.budget.reserving}, there are {reserving[run.index]}"


def _lanes(books: Books) -> Iterator[str]:
    for lane in books.lanes.values():
        if lane.attempt is not None and lane.attempt.lane is not lane:
            yield f"lane {lane.id} has an attempt that is not in it"
        idle = lane in lane.pool.idle
        if idle != (lane.attempt is None and not lane.closing):
            yield f"lane {lane.id} is {'' if idle else 'not '}idle"
        if lane.pool.lanes.get(lane.id) is not lane:
            yield f"lane {lane.id} is not where it belongs"
    for run in books.runs:
        for part in run.parts:
            if part.lanes is not None and len(part.lanes.lanes) > part.lanes.width:
                yield f"`{run.plan.name}` has {len(part.lanes.lanes)} lanes, above {part.lanes.width}"


def _ranks(books: Books) -> Iterator[str]:
    """Recount what is expected of queued slots from the table of tasks."""
    for run in books.runs:
        for part in run.parts:
            slots, table = part.slots, part.table
            known = unknown = 0
            for task in slots.tasks:
                left = table.attempts - table.next[task]
                if table.expected[task]:
                    known += left * table.expected[task]
                else:
                    unknown += left
            where = Counter(table.where[task] for task in slots.tasks)
            if slots.count != [where[place] for place in range(len(slots.count))]:
                yield f"`{run.plan.name}` has tasks at {slots.count}, not {dict(where)}"
            if (slots.known, slots.unknown) != (known, unknown):
                yield f"`{run.plan.name}` expects {slots.known} and {slots.unknown} slots, not {known} and {unknown}"
        yield from _need(run)


def _need(run: Run) -> Iterator[str]:
    before = run.need
    run.rerank()
    if run.need != before:
        yield f"the need of `{run.plan.name}` is {before}, not {run.need}"
