"""The result of one attempt, folded from its events.

An `AttemptFold` takes the events of one attempt as they happen, or as a reader finds them in a journal; both ways give
the same bytes. result.json, one line for each member:

```json
{"format":1,
"attempt":"k3mabcdefghi",
"task":"HumanEval/0",
"ordinal":1,
"verdict":"passed",
"score":1.0,
"sub_scores":{"style":0.5},
"checks":[{"label":"tests pass","ok":true}],
"started":"2026-11-30T16:30:35.123456Z",
"ended":"2026-11-30T16:30:36.123456Z",
"tries":[{"number":1,"outcome":"graded","phases":{"setup":0.01,"agent":0.8}}]}
```

What is empty or unknown is left out. Score, sub-scores and checks are those of the last try, the one that counts.
`issues` at the top are those of no try. Of each try: `number`, `outcome` (absent when it never ended), `phases` in
seconds to the microsecond (the sum where a phase came twice; null where it began and did not end), `issues`, `usage` of
the agent and `grader_usage`, `answer_sha256`, `files` (those of its checkpoint beside the answer, with digest and
size), `"grading_only":true` where the agent's part is that of an earlier try, `sandboxes` (each with
`purpose`, `"kept":true` where it lives on, and `"disposed":false` where no end of it was seen), and for a graded try
that was replaced by a later one its `solved` and `score`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar

import msgspec

from proctor.model.attempt import Issue
from proctor.model.events import (
    AttemptSealed,
    BackoffEnded,
    BackoffStarted,
    Event,
    GradingQueued,
    GradingStarted,
    ImageWaitEnded,
    ImageWaitStarted,
    IssueRaised,
    PhaseEnded,
    PhaseStarted,
    SandboxDisposed,
    SandboxKept,
    SandboxOpened,
    TryEnded,
    TryEvent,
    TryResumed,
    TryStarted,
    WorkCheckpointed,
)
from proctor.model.ids import AttemptId
from proctor.store.codec import plain_part, stamp
from proctor.store.folded_try import FoldedTry, SavedWork
from proctor.store.plain import plain_json

RESULT_FORMAT = 1
"""The version of result.json."""

_WAITS = (GradingQueued, GradingStarted, BackoffStarted, BackoffEnded, TryResumed, ImageWaitStarted, ImageWaitEnded)

AttemptEvent = TryEvent | TryStarted | GradingStarted | TryResumed | AttemptSealed
"""The events that belong to one attempt."""

_ENCODER = msgspec.json.Encoder()


class AttemptFold:
    """The state of one attempt, from its events in order; `result` and `encoded` are final once it is `sealed`."""

    __slots__ = ("_early", "_sealed", "_tries", "attempt", "ended_at", "ordinal", "started_at", "task")

    def __init__(self, attempt: AttemptId) -> None:
        self.attempt = attempt
        self.task: str | None = None
        self.ordinal: int | None = None
        self.started_at: float | None = None
        self.ended_at: float | None = None
        self._tries: list[FoldedTry] = []
        self._early: list[Issue] = []
        self._sealed: AttemptSealed | None = None

    @property
    def sealed(self) -> bool:
        """Whether `AttemptSealed` was seen; later events change nothing."""
        return self._sealed is not None

    @property
    def saved_work(self) -> SavedWork | None:
        """The newest checkpoint, if there is one."""
        return next((each.work for each in reversed(self._tries) if each.work is not None), None)

    def add(self, event: Event, at: float) -> None:
        """Take the next event of this attempt, which happened `at` seconds after the epoch.

        Raises `ValueError` for an event of another attempt, of no attempt, or of a try that never started.
        """
        if not isinstance(event, AttemptEvent) or event.attempt != self.attempt:
            raise ValueError(f"not an event of attempt {self.attempt}: {event!r}")
        if self._sealed is None:
            self._STEPS[type(event)](self, event, at)

    def result(self) -> dict[str, Any]:
        """Return the content of result.json; raises `ValueError` before the attempt is sealed."""
        sealed = self._sealed
        if sealed is None or self.ended_at is None:
            raise ValueError(f"attempt {self.attempt} is not sealed")
        result: dict[str, Any] = {
            "format": RESULT_FORMAT,
            "attempt": self.attempt,
            "task": sealed.task,
            "ordinal": sealed.ordinal,
            "verdict": sealed.verdict.value,
        }
        if sealed.score is not None:
            result["score"] = float(sealed.score)
        grade = self._tries[-1].grade if self._tries else None
        if grade is not None:
            plain = plain_part(grade, "grade")
            result.update((name, plain[name]) for name in ("sub_scores", "checks") if name in plain)
        if self.started_at is not None:
            result["started"] = stamp(self.started_at)
        result["ended"] = stamp(self.ended_at)
        if self._early:
            result["issues"] = [plain_part(issue, "issue") for issue in self._early]
        if self._tries:
            last = self._tries[-1]
            result["tries"] = [each.plain(counted=each is last) for each in self._tries]
        return result

    def encoded(self) -> bytes:
        """Return the bytes of result.json; raises `ValueError` before the end, `NotEncodable` for a bad value."""
        return _encode_members(self.result())

    def _try(self) -> FoldedTry:
        if not self._tries:
            raise ValueError(f"attempt {self.attempt} has an event before its first try")
        return self._tries[-1]

    def _try_started(self, event: TryStarted, at: float) -> None:
        self.task, self.ordinal = event.task, event.ordinal
        if self.started_at is None:
            self.started_at = at
        self._tries.append(FoldedTry(event.try_number, grading_only=event.grading_only))

    def _sandbox_opened(self, event: SandboxOpened, at: float) -> None:
        self._try().sandboxes[event.sandbox] = {
            "sandbox": event.sandbox,
            "purpose": event.purpose.value,
            "disposed": False,
        }

    def _sandbox_disposed(self, event: SandboxDisposed, at: float) -> None:
        for each in reversed(self._tries):  # a sandbox that is slow to go may go while the next try runs
            if event.sandbox in each.sandboxes:
                each.sandboxes[event.sandbox].pop("disposed", None)
                return

    def _sandbox_kept(self, event: SandboxKept, at: float) -> None:
        for each in reversed(self._tries):
            if event.sandbox in each.sandboxes:
                each.sandboxes[event.sandbox].pop("disposed", None)
                each.sandboxes[event.sandbox]["kept"] = True
                return

    def _phase_started(self, event: PhaseStarted, at: float) -> None:
        self._try().phases.setdefault(event.phase, None)

    def _phase_ended(self, event: PhaseEnded, at: float) -> None:
        phases = self._try().phases
        phases[event.phase] = (phases.get(event.phase) or 0.0) + event.seconds

    def _work_checkpointed(self, event: WorkCheckpointed, at: float) -> None:
        self._try().checkpointed(event)

    def _issue_raised(self, event: IssueRaised, at: float) -> None:
        (self._tries[-1].raised if self._tries else self._early).append(event.issue)

    def _try_ended(self, event: TryEnded, at: float) -> None:
        self._try().ended = event

    def _attempt_sealed(self, event: AttemptSealed, at: float) -> None:
        self.task, self.ordinal = event.task, event.ordinal
        self._sealed, self.ended_at = event, at

    def _nothing(self, event: TryEvent | GradingStarted | TryResumed, at: float) -> None:
        """Waiting leaves no trace in the result."""

    _STEPS: ClassVar[Mapping[type, Callable[..., None]]] = {
        TryStarted: _try_started,
        SandboxOpened: _sandbox_opened,
        SandboxDisposed: _sandbox_disposed,
        SandboxKept: _sandbox_kept,
        PhaseStarted: _phase_started,
        PhaseEnded: _phase_ended,
        WorkCheckpointed: _work_checkpointed,
        **dict.fromkeys(_WAITS, _nothing),
        IssueRaised: _issue_raised,
        TryEnded: _try_ended,
        AttemptSealed: _attempt_sealed,
    }


def fold_attempts(events: Iterable[tuple[Event, float]]) -> Iterator[AttemptFold]:
    """Yield the fold of each attempt when it is sealed; keeps only those that are not."""
    open_folds: dict[AttemptId, AttemptFold] = {}
    for event, at in events:
        if not isinstance(event, AttemptEvent):
            continue
        fold = open_folds.get(event.attempt)
        if fold is None:
            if isinstance(event, SandboxDisposed):
                continue  # a sandbox that went after its attempt was sealed
            fold = open_folds[event.attempt] = AttemptFold(event.attempt)
        fold.add(event, at)
        if fold.sealed:
            yield open_folds.pop(event.attempt)


def _encode_members(members: dict[str, Any]) -> bytes:
    """Return an object with one line for each member."""
    try:
        data = _joined(members)
    except (UnicodeEncodeError, TypeError):
        return _joined(plain_json(members, "result"))
    if b"null" in data:
        plain_json(members, "result")  # raises where the null stands for a number that is not finite
    return data


def _joined(members: dict[str, Any]) -> bytes:
    lines = [b'"' + name.encode() + b'":' + _ENCODER.encode(value) for name, value in members.items()]
    return b"{" + b",\n".join(lines) + b"}\n"
