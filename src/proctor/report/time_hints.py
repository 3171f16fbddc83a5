"""Where the time went, in words, and the one thing to do about the largest part of it."""

from __future__ import annotations

from collections.abc import Mapping

from proctor.model.attempt import Phase
from proctor.model.waiting import Gate, gate_of
from proctor.report.time_spent import BACKOFF, GRADING_PERMITS, IMAGES, OTHER, WAITING
from proctor.report.wording import SEPARATOR, duration, printable

PARTS_SHOWN = 6
SMALLEST_SHARE = 0.005
"""Parts below are said together, as the rest."""

LONG_SHARE = 0.5
"""An attempt that took this share of the run is what the run waited for."""

AGENT = Phase.AGENT.value

PAGE = "docs/find-your-concurrency.md"

_WAITS: Mapping[Gate, str] = {
    Gate.CONCURRENCY: f"raise `--task-concurrency` step by step while HEALTH stays good ({PAGE})",
    Gate.EXPERIMENT: "raise `max_concurrency` of the experiment, if what it uses allows more at a time",
    Gate.PROVIDER: "raise the provider's limit, such as `--provider-limit docker=16`, if the machine has room for it",
    Gate.OPEN_RATE: "raise the open rate, such as `--env-open-qps modal=20`, or reuse sandboxes: `sandbox_reuse: true`",
    Gate.EXCLUSIVE: "the provider is right only one at a time: use another one, or split the run over machines",
    Gate.SAME_TASK: "attempts of one task may not overlap: let benchmark and harness declare `isolated_attempts`",
    Gate.LANE: "lanes run one attempt at a time: raise the limits that say how many lanes there are, or do without",
    Gate.SETUP: "make the setup of the experiment quicker, or do its work once, before the run",
    Gate.LEASE: "one run at a time has the shared state: give experiments keys of their own if they need not share it",
    Gate.HOST: "declare smaller `resources`, or move the sandboxes to a provider on other machines",
    Gate.MODEL: "raise `model.max_connections`, while the share of 429s in HEALTH stays low",
    Gate.MODEL_RATE: "raise `model.requests_per_minute` if the endpoint allows more",
    Gate.BUDGET: "raise the budget, or say `expected_cost_per_attempt`, so that more attempts fit in at a time",
    Gate.BACKOFF: "the endpoint is overloaded: set `model.max_connections` below what it allows",
    Gate.EARLY_EXIT: "early exit makes attempts of one task wait for each other: add tasks, or do without",
    Gate.RESERVED: "a large attempt waited for room: raise the limit that it waits for",
}

_HINTS: Mapping[str, str] = {
    "grade": "a quicker grader; with grading `none` or `reuse` no second sandbox is opened",
    "open": "reuse sandboxes (`sandbox_reuse: true`), or use a smaller or prepared image",
    "setup": "put what setup installs into the image, or reuse sandboxes (`sandbox_reuse: true`)",
    "collect": "collect fewer or smaller artifacts",
    "dispose": "reuse sandboxes (`sandbox_reuse: true`)",
    BACKOFF: "calls were made again: see the issues; where the endpoint refuses, lower `model.max_connections`",
    GRADING_PERMITS: "raise the limit of the provider that grading uses",
    IMAGES: "fetch or build the images before the run, or more at a time: `--max-build-concurrency`",
    OTHER: "proctor itself, and waiting for its turn: see CPU in HEALTH; where it is full, lower `--task-concurrency`",
}


BUSY = 0.9
"""From such a share of its CPUs on a machine has no room for more at a time."""

LOCAL = "local/"
"""How the ids of models begin that run on this machine, on one core of it."""

_MORE_AT_A_TIME = (Gate.CONCURRENCY, Gate.EXPERIMENT, Gate.PROVIDER)


def hint_of(part: str, cpu: float | None = None) -> str | None:
    """Return what to do where most of the time went into `part`; None where nothing is known to help.

    `cpu` is the share of this machine's CPUs that was in use: where they were full, more at a time helps nobody.
    """
    if not part.startswith(WAITING):
        return _HINTS.get(part)
    gate = gate_of(part.removeprefix(WAITING))
    if gate is Gate.MODEL and part.removeprefix(f"{WAITING}{gate} ").startswith(LOCAL):
        return "a local model answers one call after another, on one core: use a smaller one, or an endpoint"
    if gate in _MORE_AT_A_TIME and cpu is not None and cpu >= BUSY:
        return (
            f"the CPUs of this machine were {cpu:.0%} in use, so more at a time would not be quicker: "
            f"use a larger machine, or a provider on other machines ({PAGE})"
        )
    return None if gate is None else _WAITS.get(gate)


def hint_of_agent(longest: tuple[str, float] | None, wall_seconds: float, *, repeated: bool) -> str:
    """Return what to do where most of the time was the work itself.

    `longest` is the attempt that took longest and its seconds; `repeated`: tasks have attempts that early exit might
    leave out.
    """
    if longest is not None and longest[1] >= LONG_SHARE * wall_seconds:
        slot, seconds = longest
        return (
            f"{printable(slot)} alone took {duration(seconds)} of {duration(wall_seconds)}, whatever the limits are: "
            "make that task smaller, or limit it with `--timeout`"
        )
    early = "`--early-exit` leaves out needless attempts, " if repeated else ""
    return f"the work itself: {early}`--reuse` {'' if repeated else 'leaves out '}those that were made before"


def largest(parts: Mapping[str, float]) -> str | None:
    """Return the part that took most of the time; None where none took any."""
    return max(parts, key=lambda part: parts[part], default=None)


def time_lines(parts: Mapping[str, float], of_agent: str | None = None, cpu: float | None = None) -> list[str]:
    """Return where the time went, and one hint, `of_agent` for the work itself; nothing where no time passed.

    `cpu` is as for `hint_of`.
    """
    total = sum(parts.values())
    first = largest(parts)
    if first is None or total <= 0:
        return []
    ordered = sorted(parts.items(), key=lambda each: -each[1])
    shown = [each for each in ordered[:PARTS_SHOWN] if each[1] / total >= SMALLEST_SHARE]
    words = [f"{printable(part)} {_share(seconds / total)}" for part, seconds in shown]
    rest = total - sum(seconds for _, seconds in shown)
    if rest / total >= SMALLEST_SHARE:
        words.append(f"the rest {_share(rest / total)}")
    lines = [f"where the time went: {duration(total)} of slots: {SEPARATOR.join(words)}"]
    hint = of_agent if first == AGENT else hint_of(first, cpu)
    if hint is not None:
        lines.append(f"most went into {printable(first)}: {hint}")
    return lines


def _share(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 else f"{share:.1%}"
