"""The page of an attempt: what came of it, try by try, and the evidence that each try left behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from proctor.model.attempt import Check, Issue
from proctor.model.bounds import shortened
from proctor.model.codes import CODES
from proctor.report.attempt import MESSAGE_SHOWN
from proctor.report.cost_words import cost_of, cost_words, usage_data
from proctor.report.lanes import BACKOFF, LETTERS, WAITS, Span
from proctor.store.layout import RunLayout
from proctor.viewer.attempt_evidence import Evidence, evidence_of
from proctor.viewer.attempt_read import AttemptRead, TryRead, read_attempt
from proctor.viewer.lanes_drawing import TOP, Piece, Stretch, Tick, parts_in_words, piece_of, time_ticks
from proctor.viewer.page import Asked, NotFound, Page
from proctor.viewer.plan_slot import read_rows
from proctor.viewer.results import Results
from proctor.viewer.run_list import object_in

CHECKS_SHOWN = 300
CHECK_CHARACTERS = 2_000
ISSUES_SHOWN = 20
"""Of each try; the journal has all."""
TRIES_SHOWN = 50
STATIC_TRIES = 10
"""So many tries have their evidence on a page that is a file; on a server each has its own address."""
ROW_HEIGHT = 22


class ShownIssue(NamedTuple):
    """An issue, and what can be done about it where its code is known."""

    severity: str
    code: str
    phase: str | None
    message: str
    action: str | None


class TimeRow(NamedTuple):
    """The row of a try in the drawing of time."""

    label: str
    y: float
    x: float
    width: float
    pieces: Sequence[Piece]
    title: str


@dataclass(frozen=True, slots=True)
class ShownTry:
    """A try as it is shown."""

    number: int
    outcome: str
    grading_only: bool
    seconds: float | None
    parts: str
    issues: Sequence[ShownIssue]
    more_issues: int
    usages: Sequence[tuple[str, Mapping[str, Any], str]]
    sandboxes: Sequence[Any]
    image: str | None


def attempt_page(results: Results, asked: Asked, run: str, attempt: str) -> Page:
    """Return the page of an attempt. Raises `NotFound`, `StoreError`."""
    layout, entry = results.layout(run), results.entry(run)
    # A site of files has the pages of all attempts, one after the other.
    read = read_attempt(layout.journal, attempt, results.attempt_lines(run) if asked.links.static else None)
    story = read.story
    task, ordinal = (read.filled.task, read.filled.ordinal) if read.filled else (story.task, story.ordinal)
    verdict = read.filled.verdict if read.filled and story.verdict is None else story.verdict
    tries = read.tries[-TRIES_SHOWN:]
    shown = [_try(each, asked, read.last_at) for each in tries]
    chosen = _chosen(tries, asked)
    evidence = [_evidence(each, layout, read, asked, run) for each in chosen]
    plan = read_rows(layout.plan)
    values = {
        "run": run,
        "entry": entry,
        "attempt": attempt,
        "task": task,
        "ordinal": ordinal,
        "state": verdict.value if verdict is not None else "running" if entry.state == "running" else "unfinished",
        "score": read.filled.score if read.filled and story.verdict is None else story.score,
        "source": _source(results, asked, read),
        "grade": read.grade,
        "checks": _checks(read),
        "issues": [_issue(issue) for issue in story.issues[-ISSUES_SHOWN:]],
        "tries": shown,
        "tries_left_out": len(read.tries) - len(tries),
        "cost": asked.phrased(cost_words(read.usage)) if read.usage.calls else None,
        "calls": [(each.number, *row) for each in shown for row in each.usages],
        "usage": usage_data(read.usage),
        "retried_usd": _retried(read),
        "time": _time(tries, asked, read),
        "kinds": list(LETTERS.items()),
        "waits": WAITS,
        "evidence": evidence,
        "chosen": [each.story.number for each in chosen],
        "plan": plan.slot(task, ordinal) if plan else None,
        "image": _image(plan.experiment if plan else {}),
        "damaged": read.damaged,
        "top": TOP,
    }
    title = f"{task[:200]} #{ordinal} · @{attempt}"
    return Page("attempt.html", title, values, live=verdict is None and entry.state == "running")


def _chosen(tries: Sequence[TryRead], asked: Asked) -> Sequence[TryRead]:
    """Return the tries whose evidence is shown: the one that was asked for, or the last."""
    if asked.links.static:
        return tries[-STATIC_TRIES:]
    wanted = asked.query.get("try", "")
    return [each for each in tries if str(each.story.number) == wanted][:1] or tries[-1:]


def _evidence(each: TryRead, layout: RunLayout, read: AttemptRead, asked: Asked, run: str) -> Evidence:
    story = read.story
    directory = layout.try_dir(story.task, story.ordinal, each.story.number)
    below = directory.relative_to(layout.directory).as_posix()
    return evidence_of(each, directory, asked, lambda name: asked.links.file(run, f"{below}/{name}"))


def _checks(read: AttemptRead) -> tuple[Sequence[Check], int]:
    """Return the checks that are shown, failed ones first, and how many are not."""
    checks = sorted(read.grade.checks, key=lambda check: check.ok) if read.grade else []
    return [_short(check) for check in checks[:CHECKS_SHOWN]], max(0, len(checks) - CHECKS_SHOWN)


def _short(check: Check) -> Check:
    names = ("label", "expected", "actual", "source")
    long = {name: shortened(text, CHECK_CHARACTERS) for name in names if (text := getattr(check, name)) is not None}
    return replace(check, **long)


def _source(results: Results, asked: Asked, read: AttemptRead) -> Mapping[str, Any] | None:
    """Return where a reused attempt was made, with a link where that run is there."""
    if read.filled is None:
        return None
    try:
        results.layout(read.filled.run)
        link = asked.links.attempt(read.filled.run, read.story.attempt)
    except NotFound:
        link = None
    return {"run": read.filled.run, "link": link, "accepted": read.filled.accepted, "cost_usd": read.filled.cost_usd}


def _issue(issue: Issue) -> ShownIssue:
    row = CODES.get(issue.code)
    phase = issue.phase.value if issue.phase is not None else None
    message = shortened(issue.message, MESSAGE_SHOWN)
    return ShownIssue(issue.severity.value, issue.code, phase, message, row.action if row else None)


def _try(each: TryRead, asked: Asked, last_at: float | None) -> ShownTry:
    story = each.story
    usages = [
        (asked.say(name), data, asked.phrased(cost_words(used)))
        for name, used in (("model calls", story.usage), ("model calls of grading", story.grader_usage))
        if (data := usage_data(used)) is not None
    ]
    until = story.ended_at or last_at or story.started_at
    return ShownTry(
        story.number,
        story.outcome.value if story.outcome is not None else "unfinished",
        story.grading_only,
        story.seconds,
        parts_in_words(asked, each.spans.spans, until),
        [_issue(issue) for issue in story.issues[-ISSUES_SHOWN:]],
        max(0, len(story.issues) - ISSUES_SHOWN),
        usages,
        list(each.sandboxes.values()),
        each.image,
    )


def _retried(read: AttemptRead) -> float | None:
    """Return what the tries before the last cost; None where there are none, or that is unknown."""
    costs = [cost_of(each.story.all_usage) for each in read.tries[:-1]]
    return None if not costs or None in costs else sum(cost for cost in costs if cost is not None)


def _time(tries: Sequence[TryRead], asked: Asked, read: AttemptRead) -> Mapping[str, Any] | None:
    """Return the drawing of when the tries ran and what they waited for; None where none was begun."""
    if not tries:
        return None
    start = tries[0].story.started_at
    ends = [each.story.ended_at or read.last_at or each.story.started_at for each in tries]
    stretch = Stretch(start, max(*ends, start + 0.001))
    rows: list[TimeRow] = []
    waited_from = start
    for place, (each, end) in enumerate(zip(tries, ends, strict=True)):
        label = asked.say("try {number}", number=each.story.number)
        spans = _ended(each.spans.spans, end)
        if each.story.started_at > waited_from:  # for the time after which it is tried again, and for its permits
            spans.insert(0, Span(BACKOFF, waited_from, each.story.started_at))
        waited_from = end
        begin = stretch.x(each.story.started_at)
        pieces = [piece for span in spans if (piece := piece_of(span, stretch))]
        title = f"{label}: {parts_in_words(asked, spans, end)}"
        rows.append(TimeRow(label, TOP + place * ROW_HEIGHT, begin, max(1.0, stretch.x(end) - begin), pieces, title))
    ticks: Sequence[Tick] = time_ticks(stretch, start)
    return {"rows": rows, "ticks": ticks, "height": TOP + len(rows) * ROW_HEIGHT + 6, "row_height": ROW_HEIGHT - 4}


def _ended(spans: Sequence[Span], end: float) -> list[Span]:
    return [span if span.end is not None else Span(span.kind, span.start, end, span.note) for span in spans]


def _image(experiment: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the image of the experiment and the digest that it had at planning; tasks may have their own."""
    environment = object_in(experiment, "environment")
    image, digest = environment.get("image"), environment.get("image_digest")
    return (image if isinstance(image, str) else None), (digest if isinstance(digest, str) else None)
