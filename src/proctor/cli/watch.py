"""What displays look at beside events: what queued attempts wait for, what tries show of themselves, how things do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median

from proctor.model.ids import AttemptId
from proctor.model.waiting import Waiting
from proctor.report.health import CallStats, Health, HostLoad, health_of
from proctor.report.sign import Sign
from proctor.report.tallies import Tallies
from proctor.runtime.calls import METER, RATE_LIMITED, CallMeter
from proctor.runtime.clock import Clock
from proctor.runtime.countdown import Limit, Sight
from proctor.runtime.host import HostMeter
from proctor.runtime.wait_meter import WaitMeter

HOST_SECONDS = 1.0
"""The machine is looked at so often."""

_LIMITS = {Limit.IDLE: "idle", Limit.TRY: "attempt"}


class Watch:
    """Looks, and changes nothing."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.calls = CallMeter()
        self.waits: WaitMeter | None = None
        """There once there is a scheduler."""
        self.sight: Callable[[AttemptId], Sight | None] = lambda _: None
        self.retry_at: Callable[[AttemptId], float | None] = lambda _: None
        """When the wait of an attempt between two tries is over, by the monotonic clock."""
        self.holders: Mapping[str, str] = {}
        """Who holds the leases that are waited for."""
        self._meter, self._whole = HostMeter(), HostMeter()
        self._host: HostLoad | None = None
        self._looked_at = clock.monotonic()

    def begin(self, look: Callable[[float], Sequence[Waiting]]) -> WaitMeter:
        """Look from now on at what a scheduler says of what waits, and at the calls that are made on its behalf.

        To be called in the task that runs it.
        """
        self.waits = WaitMeter(look)
        self._whole = HostMeter()
        METER.set(self.calls)
        return self.waits

    def waiting(self) -> Sequence[Waiting] | None:
        """Return what every queued attempt waits for, as the scheduler sees it now; None before there is one."""
        return None if self.waits is None else self.waits.look(self._clock.monotonic())

    def waiting_by_experiment(self) -> dict[str, dict[str, int]] | None:
        """Return how many queued attempts of each experiment wait for what; looked at once for all of them."""
        waiting = self.waiting()
        if waiting is None:
            return None
        found: dict[str, dict[str, int]] = {}
        for each in waiting:
            of = found.setdefault(each.experiment, {})
            of[each.key] = of.get(each.key, 0) + each.slots
        return found

    def sign(self, attempt: AttemptId) -> Sign | None:
        """Return what a try shows of itself."""
        sight = self.sight(attempt)
        if sight is None:
            return None
        named = None if sight.limit is None else sight.limit_seconds
        return Sign(sight.silent_seconds, named, _LIMITS.get(sight.limit, "") if sight.limit is not None else "")

    def retry_in(self, attempt: AttemptId) -> float | None:
        """Return how long an attempt still waits between two tries, in seconds; None where it does not."""
        at = self.retry_at(attempt)
        return None if at is None else max(0.0, at - self._clock.monotonic())

    def health(self, views: Iterable[Tallies]) -> Health:
        """Return how endpoints, providers and this machine are doing."""
        return health_of(views, call_stats(self.calls), self._load())

    def cpu(self) -> float | None:
        """Return the share of this machine's CPUs that was in use since it began; to be called once."""
        return self._whole.cpu()

    def _load(self) -> HostLoad | None:
        now = self._clock.monotonic()
        if now - self._looked_at >= HOST_SECONDS:
            self._looked_at = now
            self._host = HostLoad(self._meter.cpu(), self._meter.memory())
        return self._host


def call_stats(meter: CallMeter) -> CallStats:
    """Sum up the calls that ended last."""
    calls = list(meter.last)
    answered = [call.seconds for call in calls if call.code is None]
    limited = sum(call.code == RATE_LIMITED for call in calls)
    return CallStats(len(calls), median(answered) if answered else None, limited, len(calls) - len(answered) - limited)
