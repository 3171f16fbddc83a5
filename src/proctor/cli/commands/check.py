"""`proctor check`: is a benchmark gradeable?"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUntypedFunctionDecorator=false
# (the types of click's decorators are partly unknown)

from __future__ import annotations

from typing import Any

import rich_click as click

from proctor.cli.command import Command
from proctor.cli.commands.run import declared
from proctor.cli.entry import enter
from proctor.cli.exits import Exit
from proctor.cli.options import shared_options
from proctor.cli.outcome import Outcome
from proctor.cli.output import say
from proctor.cli.session import execute
from proctor.model.attempt import Verdict
from proctor.model.events import Completion
from proctor.report.wording import plural, printable
from proctor.runtime.running import run_to_end

SHOWN = 10


@click.command("check", cls=Command)
@click.argument("benchmark")
@shared_options
def command(benchmark: str, **shared: Any) -> int:
    """Say whether BENCHMARK is gradeable.

    Runs `oracle`, which must pass every task with its own reference solution, and `nop`, which does nothing and must
    pass none. Exits 1 and lists the tasks when one of them is not so.
    """
    names = {harness: f"{benchmark}/{harness}" for harness in ("oracle", "nop")}
    resolved, options = enter(
        shared, lambda project: [one for harness in names for one in declared(benchmark, harness, None, project)]
    )
    if shared["dry"]:
        from proctor.cli.dry_run import dry_run  # noqa: PLC0415 - a run needs none of what only forecasts

        return dry_run(resolved, options)
    outcome = run_to_end(execute(resolved, options))
    interrupted = any(view.completion is Completion.INTERRUPTED for view in outcome.views.values())
    if interrupted or outcome.store_error is not None:
        return outcome.exit
    unsolved = _tasks(outcome, names["oracle"], unwanted=set(Verdict) - {Verdict.PASSED})
    free = _tasks(outcome, names["nop"], unwanted=set(Verdict) - {Verdict.FAILED})
    for task, verdict in unsolved[:SHOWN]:
        say(f"{printable(task)}: {verdict} with its own reference solution", err=True)
    for task, verdict in free[:SHOWN]:
        say(f"{printable(task)}: {verdict} with nothing done", err=True)
    hidden = max(0, len(unsolved) - SHOWN) + max(0, len(free) - SHOWN)
    if hidden:
        say(f"and {hidden} more; `proctor show` on the directories above lists all", err=True)
    total = len({task for task, _, _ in outcome.writers[names["oracle"]].verdicts})
    bad = len({task for task, _ in unsolved} | {task for task, _ in free})
    if bad:
        say(f"{benchmark} is not gradeable: {bad} of {plural(total, 'task')} at fault", err=shared["as_json"])
        return Exit.GATE_NOT_MET
    say(
        f"{benchmark} is gradeable: all {plural(total, 'task')} solved by the reference solutions, "
        "none by doing nothing",
        err=shared["as_json"],
    )
    return Exit.OK


def _tasks(outcome: Outcome, name: str, *, unwanted: set[Verdict]) -> list[tuple[str, Verdict]]:
    return [(task, verdict) for task, _, verdict in outcome.writers[name].verdicts if verdict in unwanted]
