"""How a comparison is said: lines for a terminal, and Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from proctor.core.compare import Paired
from proctor.report.columns import table
from proctor.report.compare import Side, Versus
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
        money(side.cost_usd),
    )


def _passed(side: Side) -> str:
    rate = side.rate
    if rate.low is None or rate.high is None:
        return "no score"
    ends = f"{100 * rate.low:.1f}" + ("" if rate.complete else f"{EN_DASH}{100 * rate.high:.1f}")
    missing = "" if rate.complete else f", {rate.base - rate.scored:,} without score"
    what = " tasks at least once" if side.early_exit else ""
    return f"{ends}% ({rate.passed:,}/{rate.base:,}{what}{missing})"


def _score(side: Side) -> str:
    score = side.metrics.score
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
    yield from _differences(one)
    for what, tasks in (
        (f"  only in {first}", one.only_first),
        (f"  only in {second}", one.only_second),
        ("  without a score in one of them", one.unscored),
        ("  left out, as the task or its grading is not the same", one.left_out),
    ):
        if tasks:
            yield from _tasks(what, tasks)
    if one.first.early_exit or one.second.early_exit:
        yield "  with early exit a task counts as solved at least once: that is no estimate of one attempt"


def _result(one: Versus) -> str:
    found = one.paired
    if found is None:
        return "no task has a score in both"
    by = f"{found.difference:+.3f}"
    if found.interval is not None:
        by += f" [{found.interval.low:+.3f} to {found.interval.high:+.3f}]"
    return f"{plural(found.tasks, 'task')}: {by}{_test(found, one.corrected_p_value)}"


def _test(found: Paired, corrected: float | None) -> str:
    if found.test is None or found.p_value is None:
        return ", no difference on any task"
    said = f", p = {found.p_value:.3g}"
    if corrected is not None:
        said += f", {corrected:.3g} with Holm's correction"
    return f"{said} ({found.test})"


def _differences(one: Versus) -> Iterator[str]:
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
