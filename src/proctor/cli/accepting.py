"""The attempts that are to be accepted, and what is wrong with any of them: it is said of all at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from proctor.cli.attempt_page import SHORTEST, is_attempt_prefix
from proctor.errors import StoreError, UsageError
from proctor.model.ids import ID_LENGTH
from proctor.report.wording import plural
from proctor.store.layout import RunLayout
from proctor.store.plan_file import PlanFile, read_plan

if TYPE_CHECKING:
    from proctor.store.record import FoundAttempt, Record

PROBLEMS_SHOWN = 50


@dataclass(slots=True)
class Problems:
    """What keeps attempts from being accepted; `given` is how many there are."""

    given: int
    found: dict[str, str] = field(default_factory=dict[str, str])
    hints: dict[str, None] = field(default_factory=dict[str, None])

    def add(self, attempt: str, why: str, hint: str) -> None:
        """Say what is wrong with an attempt; the first thing is enough."""
        if attempt not in self.found:
            self.found[attempt] = why
            self.hints[hint] = None

    def raise_any(self) -> None:
        """Raise all of them as one `UsageError`, if there are any."""
        if not self.found:
            return
        lines = [f"`@{attempt}` {why}" for attempt, why in self.found.items()]
        more = len(lines) - PROBLEMS_SHOWN
        lines = lines[:PROBLEMS_SHOWN] + ([f"and {more:,} more"] if more > 0 else [])
        if self.given == 1:
            message = f"{lines[0]}; nothing was accepted"
        else:
            head = f"{len(self.found)} of {plural(self.given, 'attempt')} cannot be accepted, so none was:"
            message = "\n".join([head, *(f"  {line}" for line in lines)])
        raise UsageError(message, hint="; ".join(self.hints))


@dataclass(slots=True)
class Sources:
    """The attempts that are meant, and the plans of the runs that made them."""

    attempts: list[FoundAttempt]
    plans: Mapping[Path, PlanFile]

    @property
    def group(self) -> Path:
        """The directory of the runs that made them."""
        return self.attempts[0].run_dir.parent

    def newest_plans(self, record: Record) -> list[PlanFile]:
        """Return the plans of the runs in that directory, newest first."""
        from proctor.store.record import Scope  # noqa: PLC0415 - slow to import, and not in every start

        made_by = {one.run_dir for one in self.attempts}
        runs = record.runs(Scope(group=self.group))
        return [self.plans[info.directory] for info in runs if info.directory in made_by]


def find_sources(record: Record, given: Iterable[str], problems: Problems) -> Sources:
    """Find the attempts that are meant by the beginnings of their ids. Raises `UsageError` where there are none."""
    found: dict[str, FoundAttempt] = {}
    plans: dict[Path, PlanFile] = {}
    for each in given:
        prefix = each.removeprefix("@")
        one = _find(record, prefix, problems)
        if one is None:
            continue
        if one.attempt_id in found:
            problems.add(prefix, "is given twice", "name each attempt once")
        elif _is_whole(record, one, plans, problems):
            found[one.attempt_id] = one
    attempts = list(found.values())
    if not attempts:
        problems.raise_any()
        raise UsageError("no attempt is named", hint="write `proctor accept @ATTEMPT ...`")
    group = attempts[0].run_dir.parent
    for one in attempts:
        if one.run_dir.parent != group:
            why = f"is of another experiment: its run is in `{one.run_dir.parent}`, not in `{group}`"
            problems.add(one.attempt_id, why, "accept the attempts of each experiment by themselves")
    return Sources(attempts, plans)


def _find(record: Record, prefix: str, problems: Problems) -> FoundAttempt | None:
    """Return the attempt whose id begins with a prefix; of a run that was copied, the first."""
    if not is_attempt_prefix(prefix):
        hint = f"write `@` and at least {SHORTEST} of its {ID_LENGTH} characters; `proctor show RUN` lists them"
        problems.add(prefix, "is not the id of an attempt, nor its beginning", hint)
        return None
    found = record.attempts(prefix)
    ids = list(dict.fromkeys(one.attempt_id for one in found))
    if len(ids) > 1:
        shown = ", ".join(f"`@{each}`" for each in ids[:5])
        problems.add(prefix, f"is the beginning of {len(ids)} attempts: {shown}", "give more of the id")
        return None
    there = [one for one in found if RunLayout(one.run_dir).journal.is_file()]
    if there:
        return there[0]
    if found:
        why = f"was made by the run `{found[0].run_dir}`, which is not there any more"
        problems.add(prefix, why, "put the run back, or execute the slot")
    else:
        unread = f"; {plural(len(record.problems), 'run')} cannot be read to the end" if record.problems else ""
        problems.add(prefix, f"is not in `{record.root}`{unread}", "`proctor show RUN` lists the attempts of a run")
    return None


def _is_whole(record: Record, one: FoundAttempt, plans: dict[Path, PlanFile], problems: Problems) -> bool:
    """Say whether the run of an attempt can be read, its plan included."""
    hint = "accept nothing of a damaged run: execute the slot"
    damage = record.problems.get(record.directory_of(one.run_dir))
    if damage is not None:
        problems.add(one.attempt_id, f"is of a run that is damaged: {damage}", hint)
        return False
    if one.run_dir not in plans:
        try:
            plans[one.run_dir] = read_plan(RunLayout(one.run_dir).plan)
        except StoreError as error:
            problems.add(one.attempt_id, f"is of a run that is damaged: {error.message}", hint)
            return False
    return True
