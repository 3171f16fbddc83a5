"""`proctor accept`: fills slots with attempts whose identity is another one by now, after a person has looked."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUntypedFunctionDecorator=false
# (the types of click's decorators are partly unknown)

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import rich_click as click

from proctor.cli.accept_checks import Acceptable, Checked, check_sources
from proctor.cli.accepted_run import AcceptedRun, write_accepted
from proctor.cli.accepting import Problems, Sources, find_sources
from proctor.cli.closing import ClosingOnce
from proctor.cli.command import Command
from proctor.cli.commands.run import command as run_command
from proctor.cli.declared_again import declared_again, of_launch
from proctor.cli.earlier_runs import open_record
from proctor.cli.entry import Declarations, enter
from proctor.cli.exits import Exit
from proctor.cli.interrupts import Interrupts
from proctor.cli.launching import of_file
from proctor.cli.output import say
from proctor.cli.planning import plan_all
from proctor.cli.resolve import Resolved
from proctor.cli.rooms import Options
from proctor.cli.run_writer import experiment_dir_of
from proctor.config.load import validate
from proctor.config.project import Project, record_url_of, results_dir_of
from proctor.config.schema import RuntimeConfig
from proctor.core.plan import RunPlan
from proctor.errors import UsageError
from proctor.report.wording import plural, printable
from proctor.runtime.clock import SystemClock
from proctor.runtime.running import run_to_end
from proctor.store.record import Record
from proctor.store.record_errors import RecordError

OPTIONS = (
    "attempts", "provider", "timeout", "timeout_multiplier", "retry_patterns", "results_dir", "run_id", "assignments",
    "config", "dry",
)  # fmt: skip
"""Those of `run` that mean something here, by their parameters."""

_OTHERS: dict[str, Any] = {
    "task_ids": (), "limit": None, "run_name": None, "progress": "none", "no_attempt_files": True,
    "file_log_level": "DEBUG",
}  # fmt: skip
"""What a session is asked for beside them."""

SAME_AS_THEN = (
    "this is the experiment as its run had it; if options or `proctor.yaml` say something else today, name it as for "
    "`run`: `proctor accept @ATTEMPT ... BENCHMARK HARNESS MODEL`"
)

log = logging.getLogger(__name__)


@click.command("accept", cls=Command)
@click.argument("what", metavar="@ATTEMPT... [BENCHMARK HARNESS [MODEL]|FILE.yaml]", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print one receipt as JSON.")
def command(what: tuple[str, ...], **given: Any) -> int:
    """Fill slots with attempts whose identity is not that of today, after you have looked at what has changed.

    @ATTEMPT is the id of an attempt, or its beginning; `proctor show` lists them. All are checked before any is
    accepted. A new run refers to them, and from then on `--reuse` takes them.

    The experiment is that of their run, with the plugins and tasks of today; of an experiment in Python, what its file
    says today. BENCHMARK, HARNESS and MODEL say what it is with the options of `run`, FILE.yaml is a launch file.
    """
    attempts = [each for each in what if each.startswith("@")]
    names = [each for each in what if not each.startswith("@")]
    if not attempts:
        raise UsageError("no attempt is named", hint="write `proctor accept @ATTEMPT ...`; `proctor show` lists them")
    launched = len(names) == 1 and Path(names[0]).suffix in (".yaml", ".yml")
    if len(names) not in (0, 2, 3) and not launched:
        raise UsageError(
            f"`{names[0]}` is neither an attempt nor an experiment",
            hint="write `@` before the id of an attempt; an experiment is BENCHMARK HARNESS [MODEL], or FILE.yaml",
        )
    with ExitStack() as stack:
        work = _Accepting(attempts, names, stack, dry=given["dry"])
        [resolved], options = enter({**_OTHERS, **given}, work.declares)
        run_plan = run_to_end(_planned(resolved, options))
        checked = work.check(run_plan)
        if not checked.acceptable or given["dry"]:
            code = _say(run_plan, checked, None, as_json=options.as_json)
            if not checked.acceptable and not names:
                say(f"hint: {SAME_AS_THEN}", err=True)
            return code
        made = write_accepted(
            resolved,
            run_plan,
            checked.acceptable,
            results_dir=Path(options.controls.results_dir),
            group=work.group_of(run_plan),
            run_id=options.run_id,
            at=SystemClock().wall(),
        )
        work.index(made)
        return _say(run_plan, checked, made, as_json=options.as_json)


_WHAT, *_OWN = command.params
command.params = [_WHAT, *(each for each in run_command.params if each.name in OPTIONS), *_OWN]


@dataclass(slots=True)
class _Accepting:
    """What is known of the attempts, from what was typed to what is written."""

    attempts: Sequence[str]
    names: Sequence[str]
    stack: ExitStack
    dry: bool
    problems: Problems = field(init=False)
    record: Record = field(init=False)
    sources: Sources = field(init=False)

    def declares(self, project: Project) -> Declarations:
        """Find the attempts, and return the experiment that they are accepted for."""
        self.problems = Problems(len(self.attempts))
        launched = of_file(Path(self.names[0]), project) if len(self.names) == 1 else Declarations([])
        settings = project.section("runtime", launched.runtime)
        runtime = validate(RuntimeConfig, settings.tree, what="runtime", at=settings.source_of)
        results_dir = Path(results_dir_of(settings, runtime.results_dir))
        record_url = record_url_of(settings, runtime.record_url)
        record = open_record(results_dir, record_url, look=self.dry, tell=_warn)
        self.record = self.stack.enter_context(record)
        self.sources = find_sources(record, self.attempts, self.problems)
        plans = self.sources.newest_plans(record)
        if len(self.names) == 1:
            return replace(launched, declared=[of_launch(launched, self.names[0], plans)])
        return Declarations([declared_again(project, plans, self.names)])

    def group_of(self, run_plan: RunPlan) -> Path:
        """Return the directory of the new run: beside those of its experiment, where `--reuse` looks."""
        return self.sources.group.parent / experiment_dir_of(run_plan.experiment)

    def check(self, run_plan: RunPlan) -> Checked:
        """Check all attempts against the plan of today. Raises `UsageError` with everything that is wrong."""
        return check_sources(run_plan, self.record, self.group_of(run_plan), self.sources, self.problems)

    def index(self, made: AcceptedRun) -> None:
        """Make the run known to the record; where that fails, the next start does it."""
        try:
            self.record.index_run(made.layout.directory)
        except RecordError as error:
            _warn(f"{error.message}; the next start does it")


def _warn(text: str) -> None:
    say(f"warning: {text}", err=True)


async def _planned(resolved: Resolved, options: Options) -> RunPlan:
    closing = ClosingOnce([resolved], Interrupts(signals=False), options.controls.cleanup_grace_seconds)
    try:
        _, [run_plan], notes = await plan_all([resolved], options)
    finally:
        await closing.close(log.warning)
    for note in notes:
        say(f"note: {printable(note)}", err=True)
    return run_plan


def _say(run_plan: RunPlan, checked: Checked, made: AcceptedRun | None, *, as_json: bool) -> int:
    if as_json:
        receipt = {
            "type": "receipt",
            "exit_code": int(Exit.OK),
            "experiment": run_plan.experiment.name,
            "accepted": [_row(run_plan, one) for one in checked.acceptable],
            "unchanged": [one.attempt_id for one in checked.unchanged],
            "written": made is not None,
            "run": made.summary if made else None,
        }
        say(json.dumps(receipt, allow_nan=False, indent=1))
        return Exit.OK
    for line in _lines(run_plan, checked, made):
        say(line)
    return Exit.OK


def _row(run_plan: RunPlan, one: Acceptable) -> dict[str, Any]:
    return {
        "attempt": one.source.attempt_id,
        "task": run_plan.tasks[one.place].id,
        "ordinal": one.ordinal,
        "verdict": one.source.verdict,
        "score": one.source.score,
        "reason": one.changed.reason,
        "from": str(one.source.run_dir),
    }


def _lines(run_plan: RunPlan, checked: Checked, made: AcceptedRun | None) -> list[str]:
    lines = [
        f"@{one.attempt_id}: nothing to accept, it fills {printable(str(one.task))} #{one.ordinal} as it is"
        for one in checked.unchanged
    ]
    rows = [_row(run_plan, one) for one in checked.acceptable]
    width = max((len(f"{printable(row['task'])} #{row['ordinal']}") for row in rows), default=0)
    for row in rows:
        name = f"{printable(row['task'])} #{row['ordinal']}"
        lines.append(f"{name:<{width}}  {row['verdict']:<6}  accept @{row['attempt']}: {row['reason']}")
    count = plural(len(rows), "attempt")
    name = printable(run_plan.experiment.name)
    if not rows:
        lines.append(f"{name}: nothing needs accepting")
    elif made is None:
        lines.append(f"{name}: {count} would be accepted; nothing was written")
    else:
        lines.append(f"{name}: {count} accepted; runs that reuse take them from now on")
        lines.append(f"results: {printable(str(made.layout.directory))}")
    return lines
