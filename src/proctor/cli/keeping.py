"""What cannot be had together with sandboxes that are kept (spec 06 V2, 04 C4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from proctor.cli.resolve import Resolved
from proctor.cli.rooms import Options
from proctor.config.problems import ConfigErrors, Problem
from proctor.core.plan import RunPlan


def refuse_keeping(resolved: Sequence[Resolved], plans: Sequence[RunPlan], options: Options) -> None:
    """Raise one `UsageError` that lists why sandboxes cannot be kept, where they are to be."""
    if options.controls.keep_environment is None:
        return
    found: dict[str, Problem] = {}
    for one, run_plan in zip(resolved, plans, strict=True):
        for message, hint in _refused(one, run_plan, options):
            found.setdefault(message, Problem(f"keep_environment: {message}", hint))
    if found:
        raise ConfigErrors(found.values())


def _refused(one: Resolved, run_plan: RunPlan, options: Options) -> Iterator[tuple[str, str]]:
    name, provider, schedule = run_plan.experiment.name, one.provider, run_plan.schedule
    other = "take another provider: `--env PROVIDER`, or keep nothing"
    if schedule.sandbox_reuse:
        yield f"experiment `{name}` reuses its sandboxes (`sandbox_reuse`)", "leave one of the two out"
    if schedule.groups:
        group = schedule.groups[0].name
        yield (
            f"experiment `{name}` has task groups, such as `{group}`, whose members share a sandbox",
            "leave the tasks of groups out, or keep nothing",
        )
    reusing = options.reusing_of(name)
    if reusing is not None and not reusing.sandbox_wanted:
        yield "live sandboxes are wanted, and reused attempts have none (`reuse`)", "leave one of the two out"
    if provider.exclusive:
        yield f"provider `{provider.name}` is right only with one sandbox at a time", other
    elif not provider.capabilities.keep:
        yield f"provider `{provider.name}` cannot keep sandboxes", other


__all__ = ["refuse_keeping"]
