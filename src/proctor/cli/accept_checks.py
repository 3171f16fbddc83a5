"""Whether attempts can be accepted for the slots that there are today: everything is checked before any is accepted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from proctor.cli.accepting import Problems, Sources
from proctor.cli.saved_attempt import saved_attempt
from proctor.cli.saved_work import door_of
from proctor.cli.what_changed import Changes
from proctor.core.plan import RunPlan
from proctor.core.reuse import Decided, Door, Kind, decide
from proctor.core.task_limits import as_limited, door_of_task
from proctor.report.wording import plural, printable

if TYPE_CHECKING:
    from proctor.store.record import Candidate, FoundAttempt, Record


class Acceptable(NamedTuple):
    """One attempt that fills a slot from now on, and why it did not before; `place` is that of its task in the plan."""

    place: int
    ordinal: int
    identity: str
    source: Candidate
    changed: Decided


@dataclass(slots=True)
class Checked:
    """What accepting comes to: attempts to accept, in plan order, and those of which nothing has changed."""

    acceptable: list[Acceptable]
    unchanged: list[FoundAttempt]


def check_sources(run_plan: RunPlan, record: Record, group: Path, sources: Sources, problems: Problems) -> Checked:
    """Check all attempts against the plan of today. Raises one `UsageError` for everything that is wrong."""
    check = _Check(run_plan, sources, problems)
    wanted = [one for one in sources.attempts if check.has_slot(one)]
    taken: defaultdict[tuple[str, int], list[FoundAttempt]] = defaultdict(list)
    for one in wanted:
        taken[str(one.task), int(one.ordinal or 0)].append(one)
    for (task, ordinal), several in taken.items():
        if len(several) > 1:
            names = " and ".join(f"`@{one.attempt_id}`" for one in several)
            for one in several:
                why = f"is for task `{printable(task)}` #{ordinal}, as others are: {names}"
                problems.add(one.attempt_id, why, "choose one attempt for each slot")
    acceptable, unchanged = check.against(record, group, [several[0] for several in taken.values()])
    problems.raise_any()
    return Checked(sorted(acceptable, key=lambda one: (one.place, one.ordinal)), unchanged)


class _Check:
    """Looks at one attempt after another."""

    def __init__(self, run_plan: RunPlan, sources: Sources, problems: Problems) -> None:
        self._plan = run_plan
        self._sources = sources
        self._problems = problems
        self._tasks = {task.id: index for index, task in enumerate(run_plan.tasks)}
        self._changes = Changes(run_plan)

    def has_slot(self, one: FoundAttempt) -> bool:
        """Say whether an attempt has come to a score, and there still is a slot for it."""
        attempts = self._plan.schedule.attempts
        if one.verdict is None:
            why, hint = "is not finished: it still goes on, or was cut off", "accept only what has a score"
        elif one.verdict not in ("passed", "failed"):
            why, hint = f"has no score to accept: it is {one.verdict}", "accept only what has a score"
        elif one.task not in self._tasks:
            benchmark = self._plan.experiment.benchmark.id
            why = f"is for the task `{printable(str(one.task))}`, which benchmark `{benchmark}` does not have any more"
            hint = "accept only attempts for tasks that there are"
        elif one.ordinal is None or not 0 <= one.ordinal < attempts:
            why = f"has the ordinal {one.ordinal}, and a task has {plural(attempts, 'attempt')}"
            hint = "raise `--attempts`"
        else:
            return True
        self._problems.add(one.attempt_id, why, hint)
        return False

    def against(
        self, record: Record, group: Path, wanted: Sequence[FoundAttempt]
    ) -> tuple[list[Acceptable], list[FoundAttempt]]:
        """Return which of them are to be accepted, and which fill their slots anyway."""
        from proctor.store.record import Scope  # noqa: PLC0415 - slow to import, and not in every start

        identities = {one.attempt_id: self._identity(one) for one in wanted}
        own = record.candidates({one.identity for one in wanted if one.identity is not None})
        made = {(one.attempt_id, one.run_dir): one for several in own.values() for one in several}
        filling = record.candidates(set(identities.values()), Scope(group=group))
        of_experiment = door_of(self._plan.experiment)
        acceptable: list[Acceptable] = []
        unchanged: list[FoundAttempt] = []
        for one in wanted:
            identity, source = identities[one.attempt_id], made.get((one.attempt_id, one.run_dir))
            task, limits = self._plan.tasks[self._tasks[str(one.task)]], self._plan.experiment.limits
            door = door_of_task(of_experiment, task, limits)
            decided = self._decided(filling.get(identity, ()), door)
            if decided.source == one.attempt_id or one.identity == identity:
                unchanged.append(one)
            elif source is None:
                why = "has no slot in the plan of its run"
                self._problems.add(one.attempt_id, why, "accept nothing of a damaged run: execute the slot")
            elif self._is_of_use(one, source, decided, door):
                changed = self._changes.between(self._tasks[str(one.task)], self._parts(one), one.run_dir)
                place = (self._tasks[str(one.task)], int(one.ordinal or 0))
                acceptable.append(Acceptable(*place, identity, source, changed._replace(kind=Kind.ACCEPT)))
        return acceptable, unchanged

    def _identity(self, one: FoundAttempt) -> str:
        """Return the identity of the slot of an attempt as it is today."""
        own = self._plan.task_parts(self._plan.tasks[self._tasks[str(one.task)]])
        return self._plan.shared_identity.slot(own, int(one.ordinal or 0))

    def _parts(self, one: FoundAttempt) -> Mapping[str, str]:
        """Return the parts of the identity of an attempt as they were."""
        plan = self._sources.plans[one.run_dir]
        return {**plan.shared_parts, **plan.task_parts.get(str(one.task), {})}

    def _decided(self, candidates: Sequence[Candidate], door: Door) -> Decided:
        experiment = self._plan.experiment
        saved = [saved_attempt(each, experiment.grading) for each in candidates]
        return decide([as_limited(each, door) for each in saved], door)

    def _is_of_use(self, one: FoundAttempt, source: Candidate, decided: Decided, door: Door) -> bool:
        """Say whether accepting an attempt would make its slot a filled one, and that is not one already."""
        if decided.kind is Kind.REUSE:
            why = f"is not needed: `@{decided.source}` fills its slot, and its identity is that of today"
            self._problems.add(one.attempt_id, why, "leave out attempts whose slots are filled")
            return False
        alone = self._decided([source], door)
        if alone.kind is Kind.REUSE:
            return True
        why = f"would be executed again all the same: {alone.reason}"
        self._problems.add(one.attempt_id, why, "change the limits or patterns that say so, or execute the slot")
        return False
