"""The limits of an invocation: as the scheduler takes them, and in words for `proctor plan`, each with its scope."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from proctor.cli.controls import Controls
from proctor.cli.task_environments import named
from proctor.core.host_room import binding, too_large
from proctor.core.limits import GateLimits
from proctor.core.schedule import ExperimentPlan
from proctor.errors import UsageError
from proctor.model.attempt import GradingMode
from proctor.report.plan_page import GateInForce
from proctor.report.wording import money, plural


def limits_of(controls: Controls) -> GateLimits:
    """Return the limits as the scheduler takes them. Raises `UsageError` for what is no limit."""
    return GateLimits(
        task_concurrency=controls.task_concurrency,
        providers=controls.provider_limits,
        open_per_second=controls.open_per_second,
        exclusive=controls.exclusive,
        models=controls.models,
        host_cpus=controls.host_cpus,
        host_memory_bytes=controls.host_memory_bytes,
        host_providers=controls.host_providers,
    )


def gates_in_force(
    schedules: Sequence[ExperimentPlan],
    limits: GateLimits,
    *,
    concurrency: Sequence[int],
    concurrency_source: str,
    sources: Mapping[str, str],
    host_sources: Mapping[str, str] | None = None,
) -> list[GateInForce]:
    """Return every limit that plans are under, the invocation's first; `sources` are of limits of providers, by name.

    `concurrency` are the settings of the global limit that are compared, mostly one.
    """
    words = ", ".join(f"{number:,}" for number in concurrency)
    one = concurrency[0] if len(concurrency) == 1 else None
    gates = [GateInForce("global", words, one, "attempts executing, over all experiments", concurrency_source)]
    gates += _of_providers(schedules, limits, sources)
    gates += _of_host(schedules, limits, host_sources or {})
    gates += _of_models(schedules, limits)
    for schedule in schedules:
        gates += _of_experiment(schedule)
    return gates


def _of_providers(
    schedules: Sequence[ExperimentPlan], limits: GateLimits, sources: Mapping[str, str]
) -> Iterator[GateInForce]:
    used = {one.provider for one in schedules if any(one.agent_sandbox) or one.sandbox_reuse or one.groups}
    used |= {one.graded_at for one in schedules if one.grading is GradingMode.FRESH}
    for name in dict.fromkeys([one.provider for one in schedules] + [one.graded_at for one in schedules]):
        idle = "" if name in used else "; none is opened here"
        limit, source = limits.of_provider(name), sources.get(name)
        if limit is not None:
            scope = f"sandboxes at {name}, over all experiments{idle}"
            yield GateInForce(f"provider {name}", f"{limit:,}", limit, scope, source)
        if name in limits.exclusive:
            yield GateInForce(f"provider {name}", "1", 1, f"sandboxes: {name} is right only one at a time{idle}")
        rate = limits.open_per_second.get(name)
        if rate:
            yield GateInForce(f"open rate {name}", f"{rate:g}/s", rate, f"sandboxes opened at {name}, one by one{idle}")


def _of_host(
    schedules: Sequence[ExperimentPlan], limits: GateLimits, sources: Mapping[str, str]
) -> Iterator[GateInForce]:
    here = [one for one in schedules if {one.provider, one.graded_at} & limits.host_providers]
    for what, declared in (
        ("cpus", any(any(one.cpus) for one in here)),
        ("memory", any(any(one.memory_bytes) for one in here)),
    ):
        whole = _host(limits)[what]
        if declared and whole is not None:
            scope = f"{'CPUs' if what == 'cpus' else 'memory'} that sandboxes on this machine declare"
            yield GateInForce("host", host_words(what, whole), whole, scope, sources.get(what))


def _host(limits: GateLimits) -> Mapping[str, float | None]:
    return {"cpus": limits.host_cpus, "memory": limits.host_memory_bytes}


def host_words(what: str, amount: float) -> str:
    """Return an amount of `cpus` or `memory` of this machine, as plans say it."""
    if what == "cpus":
        return f"{amount:g} cpu" if amount == 1 else f"{amount:g} cpus"
    return f"{amount / 2**30:.1f} GiB" if amount >= 2**30 else f"{amount / 2**20:.1f} MiB"


def host_parts(schedules: Sequence[ExperimentPlan], controls: Controls) -> list[str]:
    """Return what the PLAN line says of this machine: what of it keeps attempts waiting."""
    limits = limits_of(controls)
    short = binding(schedules, limits)
    return [f"host {host_words(what, whole)}" for what, whole in _host(limits).items() if what in short and whole]


def refuse_too_large(schedules: Sequence[ExperimentPlan], controls: Controls) -> None:
    """Raise one `UsageError` that names the tasks whose sandboxes this machine never has room for."""
    limits = limits_of(controls)
    refused: dict[str, list[str]] = {}
    for one in too_large(schedules, limits):
        times = f"{one.sandboxes} sandboxes at once, each with " if one.sandboxes > 1 else ""
        why = f"{times}{host_words(one.what, one.need)}, and this host has {host_words(one.what, one.whole)}"
        refused.setdefault(why, []).append(one.task)
    if not refused:
        return
    lines = [f"{named(ids)} {'needs' if len(ids) == 1 else 'need'} {why}" for why, ids in refused.items()]
    raise UsageError(
        lines[0]
        if len(lines) == 1
        else "\n".join(["tasks are larger than this host:", *(f"  {one}" for one in lines)]),
        hint="declare less in `environment.resources`, leave the tasks out, or say what the host has by `--host-cpus` "
        "and `--host-memory`",
    )


def _of_models(schedules: Sequence[ExperimentPlan], limits: GateLimits) -> Iterator[GateInForce]:
    endpoints = [name for one in schedules for name in (one.model, one.judge) if name is not None]
    for name in dict.fromkeys(endpoints):
        of_model = limits.of_model(name)
        if of_model.max_connections is not None:
            scope = f"attempts that use {name}, over all experiments"
            yield GateInForce(
                "model", f"{of_model.max_connections:,}", of_model.max_connections, scope, "from model.max_connections"
            )
        if of_model.requests_per_minute is not None:
            rate = of_model.requests_per_minute
            words = f"{rate:g}/min"
            yield GateInForce(
                "model", words, rate, f"starts of attempts that use {name}", "from model.requests_per_minute"
            )


def _of_experiment(one: ExperimentPlan) -> Iterator[GateInForce]:
    if one.max_concurrency is not None:
        scope = f"attempts of {one.name}, from dispatch to the end"
        yield GateInForce("experiment", f"{one.max_concurrency:,}", one.max_concurrency, scope, "from max_concurrency")
    if not one.isolated:
        scope = f"attempts of one task of {one.name}: its benchmark and its harness do not both isolate them"
        yield GateInForce("same task", "1", 1, scope)
    if one.sandbox_reuse:
        yield GateInForce("lane", "1", 1, f"attempts in one sandbox of {one.name}, one after another (sandbox_reuse)")
    if one.groups:
        groups = plural(len(one.groups), "task group")
        yield GateInForce("lane", "1", 1, f"attempts of one task group of {one.name}, which has {groups}")
    if one.has_setup:
        yield GateInForce("setup", "first", None, f"all attempts of {one.name} wait for its setup")
    if one.shared_state_key is not None:
        scope = f"runs with the shared state `{one.shared_state_key}`, this one {one.name}"
        yield GateInForce("lease", "1", 1, scope, "from shared_state.key")
    if one.budget_usd is not None:
        yield GateInForce(
            "budget", money(one.budget_usd), one.budget_usd, f"what the attempts of {one.name} may cost", "from budget"
        )
