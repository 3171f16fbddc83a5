"""The live panel: what a run looks like in one frame of a terminal, from what is known of it (spec 07).

Nothing here reads a clock, a terminal or a file, and nothing is kept between two frames.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from proctor.core.aggregate import Counts
from proctor.model.codes import Severity
from proctor.model.ids import AttemptId
from proctor.model.waiting import Waiting
from proctor.report.cost_words import cost_words, together
from proctor.report.estimate import Estimate, estimate_items
from proctor.report.health import Health, health_items
from proctor.report.panel_lines import Line, cut_line, wrapped
from proctor.report.panel_rows import running_lines
from proctor.report.plain import count_parts
from proctor.report.sign import Sign
from proctor.report.view import RunView
from proctor.report.waiting_text import settled, waiting_items, waits_since
from proctor.report.wording import SEPARATOR, briefly, for_encoding

FEWEST_ROWS = 3
"""RUNNING has at least so many lines where the terminal has room, and else half of it."""

ISSUE_KINDS_SHOWN = 6


def _nothing_to_see(attempt: AttemptId) -> Sign | None:
    return None


def _nobody_knows(attempt: AttemptId) -> float | None:
    return None


@dataclass(frozen=True, slots=True)
class Page:
    """Everything that a frame shows, at the moment `now`.

    `plan` are the parts of the PLAN line. `tries` says how many each attempt of an experiment may have, `sight` what is
    to be seen of a try, `retry_in` how long it is until an attempt is tried again, `holders` who holds a lease.
    """

    now: float
    views: Mapping[str, RunView]
    plan: Sequence[str] = ()
    waiting: Sequence[Waiting] | None = None
    """What queued attempts wait for; None where nobody knows."""
    health: Health = field(default_factory=Health)
    estimate: Estimate | None = None
    tries: Mapping[str, int] = field(default_factory=dict[str, int])
    holders: Mapping[str, str] = field(default_factory=dict[str, str])
    sight: Callable[[AttemptId], Sign | None] = _nothing_to_see
    retry_in: Callable[[AttemptId], float | None] = _nobody_knows

    @property
    def going(self) -> bool:
        """Whether there is anything left to wait for."""
        return any(view.queued or view.in_flight for view in self.views.values())

    @property
    def queued(self) -> int:
        """How many slots of all experiments are queued."""
        return sum(view.queued for view in self.views.values())

    @property
    def counts(self) -> Counts:
        """The parts of the total of all experiments."""
        found = [view.counts for view in self.views.values()]
        return sum(found[1:], found[0]) if found else Counts(0)


@dataclass(frozen=True, slots=True)
class Look:
    """How a frame is made: its size, and what the terminal can show. `encoding` is that of the stream."""

    width: int
    height: int
    encoding: str = "utf-8"

    def say(self, text: str) -> str:
        """Return a text with stand-ins for what the encoding has not."""
        return text if text.isascii() else for_encoding(text, self.encoding)


def frame(page: Page, look: Look) -> list[Line]:
    """Return the lines of the panel, at most `look.height` of them, none wider than `look.width`."""
    width, most = max(1, look.width), max(1, look.height)
    wrap = partial(wrapped, width=width, separator=look.say(SEPARATOR), ellipsis=look.say("…"))
    going, issues = page.going, _issues(page)
    health = health_items(page.health) if going else []
    right = _right(page, look, going=going)
    blocks: dict[str, list[Line]] = {
        "counts": wrap("", [((look.say(part), style),) for part, style in _counts(page)], right=right),
        "plan": wrap("PLAN", _items(_plan(page), look)) if page.plan else [],
        "waiting": wrap("WAITING", _items(_waiting(page), look)) if page.queued else [],
        "issues": wrap("ISSUES", _items(issues, look)) if issues else [],
        "health": wrap("HEALTH", _items(health, look)) if health else [],
    }
    reserved = min(FEWEST_ROWS, sum(len(view.in_flight) for view in page.views.values()), most // 2)
    left = most - reserved
    for name, lines in blocks.items():  # the first are the last to be given up
        if name == "counts":  # no number of theirs is lost while there is a line for it
            left, reserved = max(left, min(len(lines), most)), min(reserved, max(0, most - len(lines)))
        blocks[name] = _kept(lines, left, width, look)
        left -= len(blocks[name])
    rows = running_lines(
        page.views,
        now=page.now,
        most=min(left + reserved, max(FEWEST_ROWS, most // 2)),
        width=width,
        tries=page.tries,
        sight=page.sight,
        retry_in=page.retry_in,
        separator=look.say(SEPARATOR),
        ellipsis=look.say("…"),
        say=look.say,
    )
    lines = [*blocks["plan"], *blocks["counts"], *rows, *blocks["waiting"], *blocks["health"], *blocks["issues"]]
    return [cut_line(line, width, ellipsis=look.say("…")) for line in lines[:most]]


def _kept(lines: list[Line], most: int, width: int, look: Look) -> list[Line]:
    """Return as many lines as there is room for; that something is missing is marked."""
    if len(lines) <= most:
        return lines
    if most < 1:
        return []
    *first, last = lines[:most]
    mark = look.say("…")
    fitted = cut_line(last, width - len(mark), ellipsis=mark)  # where it had to be cut, the mark is there already
    return [*first, cut_line((*fitted, (mark, "faint")), width, ellipsis=mark) if fitted == last else fitted]


def _items(texts: Sequence[str], look: Look) -> list[Line]:
    return [((look.say(text), ""),) for text in texts]


def _counts(page: Page) -> list[tuple[str, str]]:
    """Return the parts of the total, each with its style."""
    views = page.views.values()
    parts = count_parts(
        page.counts,
        backing_off=sum(view.backing_off + view.between_tries for view in views),
        waiting_for_grading=sum(len(view.waiting_for_grading) for view in views),
    )
    return [(text, name if count else "faint") for name, count, text in parts]


def _right(page: Page, look: Look, *, going: bool) -> Line:
    """Return what stands at the right of the counts: the cost so far, and when it will end."""
    words: list[str] = []
    views = page.views.values()
    used = together(view.all_usage for view in views)
    if used.calls:
        words.append(cost_words(used))
    if going and page.estimate is not None and page.estimate.seconds_left is not None:
        words.append(f"eta {briefly(page.estimate.seconds_left)}")
    return ((look.say("   ".join(words)), "cost"),) if words else ()


def _plan(page: Page) -> list[str]:
    """Return the parts of the PLAN line, with what is expected of the whole."""
    return [*page.plan, *estimate_items(page.estimate)]


def _waiting(page: Page) -> list[str]:
    if page.waiting is None:
        return [f"{page.queued:,} queued"]
    waiting = settled(page.waiting, page.views)
    return waiting_items(waiting, since=waits_since(page.views), holders=page.holders, now=page.now)


def _issues(page: Page) -> list[str]:
    """Return how often each kind of issue was raised, the worst first, and what was tried again because of it."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for view in page.views.values():
        for kind, count in view.issues.items():
            known, again = found.get(kind, (0, 0))
            found[kind] = known + count, again + view.retried_issues[kind]
    order = list(Severity)
    ordered = sorted(found.items(), key=lambda each: (order.index(Severity(each[0][0])), -each[1][0]), reverse=False)
    shown = ordered if len(ordered) <= ISSUE_KINDS_SHOWN else ordered[: ISSUE_KINDS_SHOWN - 1]
    items = [f"{count:,} {severity} {code}{_retried(count, again)}" for (severity, code), (count, again) in shown]
    rest = ordered[len(shown) :]
    if rest:
        items.append(f"{sum(count for _, (count, _) in rest):,} of {len(rest)} other kinds")
    return items


def _retried(count: int, again: int) -> str:
    if not again:
        return ""
    return " (retried)" if again >= count else f" ({again:,} retried)"
