"""Refuses, before anything starts, a program in a sandbox that could not call its model from there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from proctor.cli.resolve import Resolved
from proctor.cli.task_environments import named
from proctor.config.problems import placed
from proctor.core.environments import environment_of
from proctor.errors import UsageError
from proctor.harnesses.command_endpoint import endpoint_of
from proctor.model.environment import EnvironmentSpec
from proctor.model.spec import Task

if TYPE_CHECKING:
    from proctor.providers.egress.rules import Target

LOOPBACK = ("localhost", "127.0.0.1", "::1")
IN_CONTAINERS = ("docker",)
"""Providers whose sandboxes have a loopback of their own also where the network is `full`."""


def refuse_out_of_reach(one: Resolved, tasks: Sequence[Task]) -> None:
    """Raise `UsageError` where a harness calls the model from inside, and the network of a task does not let it.

    What is behind a name is not asked: only what the policy says of it.
    """
    spec = one.experiment.model
    if spec is None or not getattr(one.harness, "calls_model_inside", False):
        return
    target = _target(endpoint_of(spec).base_url)
    own, reasons, refused = one.experiment.environment, dict[int, str | None](), dict[str, list[str]]()
    for task in tasks:
        key = id(task.environment)  # many tasks share one object, or have none
        if key not in reasons:
            reasons[key] = _why_not(environment_of(task, own), one.provider.name, target)
        if (why := reasons[key]) is not None:
            refused.setdefault(why, []).append(task.id)
    for why, ids in refused.items():
        with placed(one.fields.source_of(("environment", "network"))):
            raise UsageError(
                f"harness `{one.harness.name}` calls the model from inside of the sandbox, and {named(ids)}: {why}",
                hint=f"let the agent reach it: `network: {{allow: ['{target}']}}`, or `full`",
            )


def _target(address: str) -> Target:
    from proctor.providers.egress.rules import Target, parse_host  # noqa: PLC0415 - only such harnesses need it

    parts = urlsplit(address)
    host = parts.hostname or ""
    port = parts.port or (80 if parts.scheme == "http" else 443)
    return Target(parse_host(f"[{host}]" if ":" in host else host), port)


def _why_not(environment: EnvironmentSpec, provider: str, target: Target) -> str | None:
    if environment.network.mode != "full":
        from proctor.providers.egress.rules import Policy  # noqa: PLC0415 - likewise

        return Policy(environment.network).refusal(target)
    if provider in IN_CONTAINERS and str(target.host) in LOOPBACK:
        return f"{target} is the container itself there, not this machine, while its network is `full`"
    return None


__all__ = ["refuse_out_of_reach"]
