"""proctor from Python: runs, launches, plans and streams of events."""

from proctor.sdk.arguments import CallArguments, RunArguments
from proctor.sdk.calls import alaunch, aplan, arun, launch, plan, run, stream
from proctor.sdk.plans import Plan
from proctor.sdk.results import LaunchResult, RunResult
from proctor.sdk.streams import StreamEvent

__all__ = [
    "CallArguments",
    "LaunchResult",
    "Plan",
    "RunArguments",
    "RunResult",
    "StreamEvent",
    "alaunch",
    "aplan",
    "arun",
    "launch",
    "plan",
    "run",
    "stream",
]
