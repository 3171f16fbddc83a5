"""Everything that happened to one attempt, try by try: as text, and as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from proctor.model.attempt import NO_USAGE, Issue, Outcome, Phase, Usage, Verdict
from proctor.model.codes import CODES
from proctor.model.events import (
    AttemptSealed,
    BackoffEnded,
    BackoffStarted,
    Event,
    ImageWaitEnded,
    IssueRaised,
    PhaseEnded,
    SandboxKept,
    TryEnded,
    TryStarted,
)
from proctor.model.ids import AttemptId
from proctor.report.cost_words import cost_of, cost_words, together, token_words, usage_data
from proctor.report.kept import kept_line
from proctor.report.wording import SEPARATOR, duration, plural, printable

MESSAGE_SHOWN = 1_000
"""Characters of a message that the text shows; JSON and result.json have all that was kept."""


@dataclass(slots=True)
class TryStory:
    """One try; `outcome` is None where it has not ended. Moments are in seconds after the epoch."""

    number: int
    grading_only: bool
    started_at: float
    ended_at: float | None = None
    outcome: Outcome | None = None
    phases: dict[Phase, float] = field(default_factory=dict[Phase, float])
    issues: list[Issue] = field(default_factory=list[Issue])
    usage: Usage = NO_USAGE
    """Of the work."""
    grader_usage: Usage = NO_USAGE
    waits: dict[str, float] = field(default_factory=dict[str, float])
    """Seconds that were waited inside the try, by the code of what refused."""
    waits_for: str | None = None
    image_seconds: float | None = None
    """How long it waited for an image; None where it did not."""
    kept: list[SandboxKept] = field(default_factory=list[SandboxKept])
    """Its sandboxes that were kept for a person to look at; whether they are still there is not known."""

    @property
    def all_usage(self) -> Usage:
        """Of the work and of grading."""
        return self.usage + self.grader_usage

    @property
    def seconds(self) -> float | None:
        """How long it took by the clock, waits included."""
        return None if self.ended_at is None else max(0.0, self.ended_at - self.started_at)


@dataclass(slots=True)
class AttemptStory:
    """One attempt, from its events in order; events of others change nothing."""

    attempt: AttemptId
    task: str = ""
    ordinal: int = 0
    verdict: Verdict | None = None
    score: float | None = None
    tries: list[TryStory] = field(default_factory=list[TryStory])
    issues: list[Issue] = field(default_factory=list[Issue])
    """Those of no try."""

    def add(self, event: Event, at: float) -> None:
        """Take the next event."""
        if getattr(event, "attempt", None) != self.attempt:
            return
        if isinstance(event, TryStarted):
            self.task, self.ordinal = event.task, event.ordinal
            self.tries.append(TryStory(event.try_number, event.grading_only, at))
        elif isinstance(event, AttemptSealed):
            self.task, self.ordinal = event.task, event.ordinal
            self.verdict, self.score = event.verdict, event.score
        elif self.tries:
            _add_to_try(self.tries[-1], event, at)
        elif isinstance(event, IssueRaised):
            self.issues.append(event.issue)


def _add_to_try(story: TryStory, event: Event, at: float) -> None:
    match event:
        case PhaseEnded(_, phase, seconds):
            story.phases[phase] = story.phases.get(phase, 0.0) + seconds
        case IssueRaised(_, issue):
            story.issues.append(issue)
        case BackoffStarted(_, code, _):
            story.waits_for = code
        case BackoffEnded(_, seconds) if story.waits_for is not None:
            story.waits[story.waits_for] = story.waits.get(story.waits_for, 0.0) + seconds
            story.waits_for = None
        case ImageWaitEnded(_, seconds):
            story.image_seconds = (story.image_seconds or 0.0) + seconds
        case SandboxKept():
            story.kept.append(event)
        case TryEnded(_, _, result):
            story.ended_at, story.outcome = at, result.outcome
            final = list(result.issues)
            story.issues = [issue for issue in story.issues if issue not in final] + final
            story.usage, story.grader_usage = result.usage, result.grader_usage
        case _:
            pass


@dataclass(frozen=True, slots=True)
class TryFiles:
    """Where the files of a try are: the directory, names below it, and how many more there are."""

    directory: str
    names: tuple[str, ...]
    more: int = 0


def attempt_lines(story: AttemptStory, *, experiment: str, run: str, files: list[TryFiles]) -> list[str]:
    """Return an attempt as text, with the files of each of its tries; what to do is said once for each code."""
    state = story.verdict.value if story.verdict is not None else "unfinished"
    facts = [state] + ([f"score {story.score:.3g}"] if story.score is not None else [])
    facts.append(plural(len(story.tries), "try", "tries"))
    name = f"{printable(story.task)} #{story.ordinal}"
    lines = [f"@{story.attempt}  {name} of {printable(experiment)}: {', '.join(facts)}", f"run: {run}"]
    explained: set[str] = set()
    for issue in story.issues:
        lines += _issue_lines(issue, explained)
    for each, where in zip(story.tries, files, strict=True):
        lines.append(_try_line(each))
        for issue in each.issues:
            lines += [f"  {line}" for line in _issue_lines(issue, explained)]
        lines += (f"  kept: {kept_line(one)}" for one in each.kept)
        names = ", ".join(printable(name) for name in where.names) or "none"
        more = f" and {where.more:,} more" if where.more else ""
        lines.append(f"  files: {names}{more} in {where.directory}" if where.names else "  files: none")
    return lines


def _try_line(story: TryStory) -> str:
    outcome = story.outcome.value if story.outcome is not None else "unfinished"
    what = f"{outcome}, grading only" if story.grading_only else outcome
    parts = [f"{phase} {duration(seconds)}" for phase, seconds in story.phases.items()]
    parts += [f"waited {duration(seconds)} because of {code}" for code, seconds in story.waits.items()]
    if story.image_seconds is not None:
        parts.append(f"waited {duration(story.image_seconds)} for an image")
    for call, used in (("model call", story.usage), ("call for grading", story.grader_usage)):
        if used.calls:
            calls = plural(used.calls, call, call.replace("call", "calls"))
            parts += [calls, token_words(used), f"{cost_words(used)}{_sources(used)}"]
    took = duration(story.seconds) if story.seconds is not None else "-"
    return f"try {story.number}  {what}  {took}" + (f"  ({SEPARATOR.join(parts)})" if parts else "")


def _sources(used: Usage) -> str:
    return f" ({', '.join(map(printable, used.price_sources))})" if used.price_sources else ""


def _issue_lines(issue: Issue, explained: set[str]) -> list[str]:
    phase = f" in {issue.phase}" if issue.phase is not None else ""
    lines = [f"{issue.severity} {issue.code}{phase}: {printable(issue.message, most=MESSAGE_SHOWN)}"]
    row = CODES.get(issue.code)
    if row is not None and issue.code not in explained:
        explained.add(issue.code)
        lines.append(f"hint: {row.action} (docs/codes/{row.code}.md)")
    return lines


def attempt_data(story: AttemptStory, *, experiment: str, run: str, files: list[TryFiles]) -> dict[str, Any]:
    """Return an attempt as JSON; what is unknown is null."""
    used = together(each.all_usage for each in story.tries)
    return {
        "attempt": story.attempt,
        "experiment": experiment,
        "run": run,
        "task": story.task,
        "ordinal": story.ordinal,
        "verdict": story.verdict.value if story.verdict is not None else None,
        "score": story.score,
        **_cost_data(used, known=all(each.ended_at is not None for each in story.tries)),
        "issues": [_issue_data(issue) for issue in story.issues],
        "tries": [_try_data(each, where) for each, where in zip(story.tries, files, strict=True)],
    }


def _cost_data(used: Usage, *, known: bool) -> dict[str, Any]:
    """Return a cost as JSON; that of work that has not ended is not `known`."""
    return {
        "cost_usd": cost_of(used) if known else None,
        "cost_at_least_usd": used.cost_at_least_usd,
        "unpriced_calls": used.unpriced_calls,
    }


def _try_data(story: TryStory, files: TryFiles) -> dict[str, Any]:
    return {
        "number": story.number,
        "grading_only": story.grading_only,
        "outcome": story.outcome.value if story.outcome is not None else None,
        "seconds": None if story.seconds is None else round(story.seconds, 6),
        "phases": {phase.value: round(seconds, 6) for phase, seconds in story.phases.items()},
        "image_wait_seconds": None if story.image_seconds is None else round(story.image_seconds, 6),
        "kept": [
            {"sandbox": one.sandbox, "purpose": one.purpose.value, "provider": one.provider} for one in story.kept
        ],
        "waits": {code: round(seconds, 6) for code, seconds in story.waits.items()},
        "issues": [_issue_data(issue) for issue in story.issues],
        "usage": usage_data(story.usage),
        "grader_usage": usage_data(story.grader_usage),
        **_cost_data(story.all_usage, known=story.ended_at is not None),
        "directory": files.directory,
        "files": list(files.names),
        "files_left_out": files.more,
    }


def _issue_data(issue: Issue) -> dict[str, Any]:
    row = CODES.get(issue.code)
    known = {"action": row.action, "page": f"docs/codes/{row.code}.md"} if row is not None else {}
    return {**asdict(issue), **known}
