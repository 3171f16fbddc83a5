"""`proctor run`: one experiment, ad hoc."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUntypedFunctionDecorator=false
# (the types of click's decorators are partly unknown)

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import rich_click as click

from proctor.cli.command import Command
from proctor.cli.controls import resolve_controls
from proctor.cli.optional_values import LEFT_OUT
from proctor.cli.options import AMOUNT, COUNT, Rate, reuse_options, shared_options
from proctor.cli.resolve import Resolved, Typed, resolve_experiment
from proctor.cli.rooms import Options
from proctor.cli.saved_work import Reusing, reusing_of
from proctor.cli.session import execute
from proctor.core.reuse import Rerun
from proctor.errors import UsageError
from proctor.runtime.running import run_to_end

OWN_FIELDS = ("attempts", "early_exit", "budget")
"""Fields of the experiment that `run` has options for, beside those that it shares."""


@click.command("run", cls=Command)
@click.argument("benchmark")
@click.argument("harness")
@click.argument("model", required=False)
@click.option("--attempts", "--k", type=COUNT, metavar="N", help="Attempts per task (default: 1).")
@click.option(
    "--fail-under",
    type=Rate(),
    metavar="RATE",
    help="Exit 1 when fewer than this share of the slots passed (default: no gate).",
)
@click.option(
    "--early-exit/--no-early-exit",
    default=None,
    help="Whether a task is done with its first passed attempt (default: no).",
)
@click.option(
    "--budget", type=AMOUNT, metavar="USD", help="US dollars that the experiment may spend (default: no limit)."
)
@reuse_options
@shared_options
def command(benchmark: str, harness: str, model: str | None, fail_under: float | None, **given: Any) -> int:
    """Run one experiment: BENCHMARK with HARNESS and MODEL.

    MODEL may be left out where the harness needs none, as in `proctor run humaneval oracle`.
    """
    name = "/".join(filter(None, [benchmark, harness, model]))
    typed = typed_of(given, benchmark, harness, model, **{field: given[field] for field in OWN_FIELDS})
    resolved = [resolve_experiment(typed, name)]
    options = options_of(given, resolved, fail_under=fail_under)
    return run_to_end(execute(resolved, options)).exit


def typed_of(shared: dict[str, Any], benchmark: str, harness: str, model: str | None, **own: Any) -> Typed:
    """Return what the command line says about one experiment; `own` are fields that only some commands set."""
    own |= {"agent_timeout_seconds": shared["timeout"], "max_retries": shared["max_retries"]}
    own["retry_pattern_list"] = shared["retry_patterns"] or None
    flags = {name: value for name, value in own.items() if value is not None}
    if shared["provider"] is not None:
        flags["environment"] = {"provider": shared["provider"]}
    return Typed(benchmark, harness, model, flags, shared["assignments"], shared["timeout_multiplier"])


def options_of(shared: dict[str, Any], resolved: list[Resolved], *, fail_under: float | None = None) -> Options:
    """Return what the command line asks of the session. Raises `UsageError`."""
    controls = resolve_controls(
        shared["assignments"],
        task_concurrency=shared["task_concurrency"],
        provider_limits=shared["provider_limit"],
        results_dir=shared["results_dir"],
        env_open_qps=shared["env_open_qps"],
        lease_wait_seconds=shared["lease_wait"],
        models=[one.experiment.model for one in resolved if one.experiment.model],
        providers={one.provider.name: one.provider for one in resolved}.values(),
    )
    return Options(
        controls=controls,
        task_ids=shared["task_ids"],
        limit=shared["limit"],
        run_name=shared["run_name"],
        run_id=shared["run_id"],
        progress=shared["progress"],
        as_json=shared["as_json"],
        attempt_files=not shared["no_attempt_files"],
        file_log_level=shared["file_log_level"],
        fail_under=fail_under,
        reusing=reusing_typed(shared, checkpoint_resume=controls.checkpoint_resume),
    )


def reusing_typed(shared: Mapping[str, Any], *, checkpoint_resume: bool) -> Reusing | None:
    """Return what the command line says about earlier runs. Raises `UsageError`."""
    reuse, rerun = shared.get("reuse"), shared.get("rerun")
    for option, value in (("--reuse", reuse), ("--rerun", rerun)):
        if value == "":
            raise UsageError(f"the value of `{option}=` is empty", hint=f"leave the `=` out, or write `{option}=VALUE`")
    if reuse is None:
        for option in ("rerun", "no_checkpoint_resume"):
            if shared.get(option):
                name = "--" + option.replace("_", "-")
                raise UsageError(
                    f"`{name}` needs a command that reuses what is saved, and this one executes everything",
                    hint=f"add `--reuse`, or leave `{name}` out",
                )
        return None
    if rerun not in (None, LEFT_OUT, *Rerun):
        raise UsageError(f"`{rerun}` is nothing to run again", hint="write `--rerun failed` or `--rerun all`")
    again = None if rerun is None else Rerun.FAILED if rerun == LEFT_OUT else Rerun(rerun)
    resume = checkpoint_resume and not shared["no_checkpoint_resume"]
    return reusing_of(True if reuse == LEFT_OUT else reuse, again, checkpoint_resume=resume)
