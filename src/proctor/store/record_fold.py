"""The rows of one run in the record, from its journal line by line.

Given the same lines, the rows are the same, however often they are taken on the way: that is what lets an index that
grows with a run equal one that is made anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from proctor.model.events import (
    AttemptSealed,
    DispatchStopped,
    Interrupted,
    IssueRaised,
    LaneClosed,
    RunEnded,
    RunStarted,
    SetupEnded,
    SlotFilled,
    TeardownEnded,
    TryStarted,
)
from proctor.store.fold import AttemptEvent
from proctor.store.record_attempt import AttemptRows, issue_columns
from proctor.store.record_values import Row, text, whole

_OF_ATTEMPTS = frozenset(AttemptEvent.__args__)
_BEGIN_ATTEMPTS = frozenset({TryStarted, IssueRaised, AttemptSealed})


class RunFold:
    """What is known of one run. `run` are the columns of its row that come from the journal."""

    def __init__(self, run_key: int, *, run: Mapping[str, Any] | None = None, issues: int = 0) -> None:
        self.run_key = run_key
        self.run: dict[str, Any] = dict(run or {})
        self.run_changed = False
        self.attempts: dict[str, AttemptRows] = {}
        """Attempts that are not sealed, or were sealed since rows were taken last."""
        self._changed: dict[str, AttemptRows] = {}
        self._run_issues: list[Row] = []
        self._references: dict[Row, Row] = {}
        self._issues = issues
        """Issues of the whole run that were found so far."""

    def add(self, kind: type, event: Any, begins_at: int) -> None:
        """Take the next event; its line begins `begins_at` bytes into the journal."""
        if kind not in _OF_ATTEMPTS:
            self._add_to_run(kind, event)
            return
        name = text(event.attempt)
        attempt = self.attempts.get(name)
        if attempt is None:
            if kind not in _BEGIN_ATTEMPTS:
                return  # of an attempt that is over: a sandbox that was slow to go
            attempt = self.attempts[name] = AttemptRows(name, begins_at)
        if attempt.add(event, kind, event.at):
            self._changed[name] = attempt

    def replay(self, kind: type, event: Any, begins_at: int) -> None:
        """Take an event whose rows are in the record already, to know the attempts that it left unsealed."""
        if kind in _OF_ATTEMPTS:
            self.add(kind, event, begins_at)

    def end_replay(self, over: Iterable[str]) -> None:
        """End what `replay` began; the attempts `over` were sealed before, whatever was replayed of them."""
        self._changed.clear()
        for attempt in over:
            self.attempts.pop(attempt, None)
        for name in [name for name, attempt in self.attempts.items() if attempt.sealed is not None]:
            del self.attempts[name]
        for attempt in self.attempts.values():
            attempt.stored = True

    @property
    def references(self) -> list[Row]:
        """The keys of references of which more is known since rows were taken last than their plan says."""
        return list(self._references)

    @property
    def resume_bytes(self) -> int | None:
        """Where the first event of an attempt that is not sealed begins; None where all are."""
        return min((attempt.began_at for attempt in self.attempts.values() if attempt.sealed is None), default=None)

    def fresh(self) -> list[str]:
        """Return the changed attempts of which the record had nothing, so far as this fold knows."""
        return [name for name, attempt in self._changed.items() if not attempt.stored]

    def forget(self, over: Iterable[str]) -> None:
        """Leave out attempts that were sealed before: what comes after the end of an attempt changes nothing."""
        for name in set(over):
            self._changed.pop(name, None)
            self.attempts.pop(name, None)

    def take(self, rows: Mapping[str, list[Row]]) -> list[AttemptRows]:
        """Append the rows that changed since the last call; return the attempts whose older rows they replace."""
        replaced = [attempt for attempt in self._changed.values() if attempt.stored]
        for name, attempt in self._changed.items():
            attempt.append_to(rows, self.run_key)
            attempt.stored = True
            if attempt.sealed is not None:
                del self.attempts[name]
        self._changed.clear()
        rows["issue"].extend(self._run_issues)
        rows["member"].extend(self._references.values())
        self._run_issues, self._references = [], {}
        self.run_changed = False
        return replaced

    def _add_to_run(self, kind: type, event: Any) -> None:
        run = self.run
        if kind is RunStarted:
            run |= {
                "run_id": text(event.run),
                "invocation_id": text(event.invocation),
                "experiment": text(event.experiment),
                "slots": whole(event.slots),
                "tasks": whole(event.tasks) or None,
                "early_exit": event.early_exit,
                "proctor": text(event.proctor),
                "journal_format": whole(event.format),
                "host": text(event.host),
                "pid": whole(event.pid),
                "started_at": event.at,
                "not_dispatched": run.get("not_dispatched") or 0,
            }
        elif kind is RunEnded:
            run |= {"ended_at": event.at, "completion": event.completion.value}
        elif kind is DispatchStopped:
            run["not_dispatched"] = whole((run.get("not_dispatched") or 0) + event.slots)
        elif kind is Interrupted:
            run["signal"] = whole(event.signal)
        elif kind is SlotFilled:
            key = (self.run_key, text(event.task), whole(event.ordinal), text(event.attempt), "reference")
            self._references[key] = (*key, text(event.run))
            return
        else:
            if kind in (SetupEnded, TeardownEnded, LaneClosed) and event.issue is not None:
                self._run_issues.append((self.run_key, None, None, self._issues, *issue_columns(event.issue)))
                self._issues += 1
            return
        self.run_changed = True
