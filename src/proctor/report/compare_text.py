"""How a comparison is said: lines for a terminal, and Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from proctor.core.aggregate import SAID_OF_MISSING, Missing
from proctor.core.compare import Paired
from proctor.core.statistics import Interval
from proctor.report.columns import table
from proctor.report.compare import Side, Versus
from proctor.report.metrics_text import SUB_SCORES_SHOWN, number_text
from proctor.report.wording import duration, money, plural, printable

TASKS_SHOWN = 20
"""So many tasks of each kind are named; the JSON has all."""

EN_DASH = "\u2013"

_HEAD = ("", "run", "passed", "mean score [95%]", "time", "cost")


def letters() -> Iterator[str]:
    """Yield what runs are called in a comparison: A, B, ..., Z, R27, R28, ..."""
    number = 0
    while True:
        yield chr(ord("A") + number) if number < 26 else f"R{number + 1}"
        number += 1


def compare_lines(sides: Sequence[Side], found: Sequence[Versus]) -> list[str]:
    """Return a comparison for a terminal: the runs, then each pair."""
    names = dict(zip(map(id, sides), letters(), strict=False))
    lines = [*table([_HEAD, *(_row(names[id(side)], side) for side in sides)]), ""]
    for one in found:
        lines += [*_versus_lines(one, names[id(one.first)], names[id(one.second)]), ""]
    return [line.rstrip() for line in lines[:-1]]


def compare_markdown(sides: Sequence[Side], found: Sequence[Versus]) -> str:
    """Return a comparison as Markdown."""
    names = dict(zip(map(id, sides), letters(), strict=False))
    rows = [_HEAD, ("---",) * len(_HEAD), *(_row(names[id(side)], side) for side in sides)]
    lines = [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    for one in found:
        head, *rest = _versus_lines(one, names[id(one.first)], names[id(one.second)])
        lines += ["", f"**{head}**", "", *(f"- {line.strip()}" for line in rest)]
    return "\n".join([*lines, ""])


def _row(name: str, side: Side) -> tuple[str, ...]:
    about = " ".join(value for value in (side.about.get("model"), side.about.get("harness")) if value)
    state = "" if side.ended else " (not ended)"
    return (
        name,
        printable(f"{side.run} {about or side.experiment}") + state,
        _passed(side),
        _score(side),
        duration(side.seconds),
        money(side.cost_usd) + _reused(side.reused_cost_usd),
    )


def _reused(cost_usd: float | None) -> str:
    return "" if cost_usd == 0 else f", reused: {money(cost_usd)}"


def _passed(side: Side) -> str:
    rate = side.rate
    if rate.low is None or rate.high is None:
        return "no score"
    ends = f"{100 * rate.low:.1f}" + ("" if rate.high == rate.low else f"{EN_DASH}{100 * rate.high:.1f}")
    missing = "" if rate.complete else f", {rate.base - rate.scored:,} without score"
    what = " tasks at least once" if side.early_exit else ""
    share = "no rate" if side.missing is Missing.FAIL and not rate.complete else f"{ends}%"
    return f"{share} ({rate.passed:,}/{rate.base:,}{what}{missing})"


def _score(side: Side) -> str:
    score = side.score
    if score is None:
        return "-"
    ends = "" if score.interval is None else f" [{score.interval.low:.3f}{EN_DASH}{score.interval.high:.3f}]"
    return f"{score.mean:.3f}{ends}"


def _versus_lines(one: Versus, first: str, second: str) -> Iterator[str]:
    yield f"{second} against {first}, {_result(one)}"
    if one.paired is not None:
        yield from _tasks(f"  {second} wins", one.paired.won)
        yield from _tasks(f"  {second} loses", one.paired.lost)
        yield f"  no difference: {plural(one.ties, 'task')}"
    for name, difference in list(one.sub_scores.items())[:SUB_SCORES_SHOWN]:
        by = difference_text(difference.mean, difference.interval)
        yield f"  sub-score {printable(name)}, {plural(difference.clusters, 'task')}: {by}"
    if len(one.sub_scores) > SUB_SCORES_SHOWN:
        yield f"  {plural(len(one.sub_scores) - SUB_SCORES_SHOWN, 'sub-score')} more: see --json"
    yield from _differences(one)
    if one.settings:
        both = (f"{name} ({printable(own)}, {printable(other)})" for name, (own, other) in one.settings.items())
        yield f"  limits and retries differ, which no identity has: {', '.join(both)}"
    yield from _lacking(one, first, second)
    for what, tasks in (
        (f"  only in {first}", one.only_first),
        (f"  only in {second}", one.only_second),
        ("  without a score in one of them", one.unscored),
        ("  left out, as the task or its grading is not the same (--include-changed compares them)", one.left_out),
    ):
        if tasks:
            yield from _tasks(what, tasks)
    yield from _attempts(one, first, second)


def _lacking(one: Versus, first: str, second: str) -> Iterator[str]:
    if not any(one.lacking):
        return
    policies = [SAID_OF_MISSING[side.missing] for side in (one.first, one.second) if side.missing]
    what = f": {policies[0]}" if policies else ""
    yield f"  slots without a score: {one.lacking[0]:,} in {first}, {one.lacking[1]:,} in {second}{what}"
    if one.possible is not None and not policies:
        low, high = one.possible
        yield f"  whatever those would score, the difference over all these tasks is from {low:+.3f} to {high:+.3f}"


def _attempts(one: Versus, first: str, second: str) -> Iterator[str]:
    """Yield what of the numbers is due to how often a task was tried."""
    sides = ((one.first, first), (one.second, second))
    said = [f"{plural(side.attempts, 'attempt')} a task in {name}" for side, name in sides]
    if one.first.early_exit and one.second.early_exit and one.first.attempts == one.second.attempts:
        yield "  with early exit a task counts as solved at least once: that is no estimate of one attempt"
    elif one.first.early_exit or one.second.early_exit:
        once = ["solved at least once" if side.early_exit else "the mean" for side, _ in sides]
        both = ", ".join(f"{how} of {what}" for how, what in zip(once, said, strict=True))
        yield f"  not the same quantity, so no fair comparison: {both}"
    elif one.first.attempts != one.second.attempts:
        yield f"  not the same number: {', '.join(said)}"


def _result(one: Versus) -> str:
    found = one.paired
    if found is None:
        return _nothing(one)
    by = difference_text(found.difference, found.interval)
    return f"{plural(found.tasks, 'task')}: {by}{_test(found, one.corrected_p_value)}"


def difference_text(difference: float, interval: Interval | None) -> str:
    """Say a difference, with its interval behind it in brackets where there is one."""
    ends = "" if interval is None else f" [{_signed(interval.low)} to {_signed(interval.high)}]"
    return f"{_signed(difference)}{ends}"


def _signed(number: float) -> str:
    return f"{'' if number < 0 else '+'}{number_text(number)}"


def _nothing(one: Versus) -> str:
    if any(one.lacking) and any(side.missing is Missing.FAIL for side in (one.first, one.second)):
        return f"no difference is said: {plural(sum(one.lacking), 'slot')} without a score, and none may be missing"
    shared = len(one.first.tasks) - len(one.only_first)
    return "no task is the same in both" if shared == len(one.left_out) else "no task has a score in both"


def _test(found: Paired, corrected: float | None) -> str:
    if found.test is None or found.p_value is None:
        return ", no difference on any task"
    said = f", p {_chance(found.p_value)}"
    if corrected is not None:
        said += f", p {_chance(corrected)} with Holm's correction"
    return f"{said} ({found.test})"


def _chance(p_value: float) -> str:
    return f"= {p_value:.3g}" if p_value else "< 1e-300"  # smaller numbers are 0 here, which no chance is


def _differences(one: Versus) -> Iterator[str]:
    if one.differs is None:
        yield "  identities: not known; what differs in them, and whether tasks are the same, cannot be said"
        return
    if not one.differs:
        yield "  identities: the same"
        return
    named = [f"{name} ({plural(one.changed[name], 'task')})" if name in one.changed else name for name in one.differs]
    yield f"  identities differ in: {', '.join(named)}"
    if len(one.differs) > 1:
        yield "  more than one thing differs: the difference cannot be put down to any one of them"


def _tasks(what: str, tasks: Sequence[str], show: Callable[[str], str] = printable) -> Iterator[str]:
    names = ", ".join(map(show, tasks[:TASKS_SHOWN]))
    more = f", and {len(tasks) - TASKS_SHOWN:,} more" if len(tasks) > TASKS_SHOWN else ""
    yield f"{what}: {plural(len(tasks), 'task')}{': ' if tasks else ''}{names}{more}"
