"""`proctor run`: one experiment, ad hoc."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUntypedFunctionDecorator=false
# (the types of click's decorators are partly unknown)

from __future__ import annotations

from typing import Any

import rich_click as click

from proctor.cli.command import Command
from proctor.cli.options import COUNT, Rate, shared_options
from proctor.cli.resolve import Resolved, Typed, resolve_controls, resolve_experiment
from proctor.cli.rooms import Options
from proctor.cli.session import execute
from proctor.runtime.running import run_to_end


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
@shared_options
def command(
    benchmark: str, harness: str, model: str | None, attempts: int | None, fail_under: float | None, **shared: Any
) -> int:
    """Run one experiment: BENCHMARK with HARNESS and MODEL.

    MODEL may be left out where the harness needs none, as in `proctor run humaneval oracle`.
    """
    name = "/".join(filter(None, [benchmark, harness, model]))
    typed = typed_of(shared, benchmark, harness, model, attempts=attempts)
    resolved = [resolve_experiment(typed, name)]
    options = options_of(shared, resolved, fail_under=fail_under)
    return run_to_end(execute(resolved, options)).exit


def typed_of(
    shared: dict[str, Any], benchmark: str, harness: str, model: str | None, *, attempts: int | None = None
) -> Typed:
    """Return what the command line says about one experiment."""
    flags: dict[str, Any] = {}
    if attempts is not None:
        flags["attempts"] = attempts
    if shared["timeout"] is not None:
        flags["agent_timeout_seconds"] = shared["timeout"]
    if shared["provider"] is not None:
        flags["environment"] = {"provider": shared["provider"]}
    return Typed(benchmark, harness, model, flags, shared["assignments"])


def options_of(shared: dict[str, Any], resolved: list[Resolved], *, fail_under: float | None = None) -> Options:
    """Return what the command line asks of the session. Raises `UsageError`."""
    controls = resolve_controls(
        shared["assignments"],
        task_concurrency=shared["task_concurrency"],
        provider_limits=shared["provider_limit"],
        results_dir=shared["results_dir"],
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
    )
