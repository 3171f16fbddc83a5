"""The estimate that displays show while an invocation goes on: kept from its events, worked out every few seconds.

It costs at most about one percent of a processor: the more an estimate costs, the later the next one is made. What was
estimated before counts down until then.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping, Sequence

from proctor.cli.expected_durations import Histories
from proctor.cli.plan_forecast import samples_of
from proctor.cli.plan_gates import limits_of
from proctor.cli.rooms import Options, Room
from proctor.core.expectations import Samples
from proctor.core.limits import GateLimits
from proctor.core.remaining import Cost, remaining_cost, roughly_seconds, simulable, simulated_seconds
from proctor.core.schedule import ExperimentPlan
from proctor.core.whats_left import Rest, WhatsLeft
from proctor.report.cost_words import cost_of, together
from proctor.report.estimate import Estimate
from proctor.report.view import RunView
from proctor.runtime.clock import Clock
from proctor.runtime.publisher import Shown

EVERY_SECONDS = 3.0
COMPUTING_SHARE = 0.01
AT_MOST_SECONDS = 120.0

log = logging.getLogger(__name__)


class Estimator:
    """Keeps what is left of all experiments of an invocation, and estimates what that comes to."""

    def __init__(
        self,
        schedules: Sequence[ExperimentPlan],
        limits: GateLimits,
        history: Mapping[str, Samples],
        views: Mapping[str, RunView],
        clock: Clock,
    ) -> None:
        self._lefts = {plan.name: WhatsLeft(plan, history.get(plan.name, {})) for plan in schedules}
        self._limits = limits
        self._views = views
        self._clock = clock
        self._started_at = clock.monotonic()
        self._ends_at: float | None = None
        self._cost: Cost | None = None
        self._spent_seconds = 0.0
        """What the newest estimate took to make."""
        self._broken = False

    @classmethod
    def of(
        cls,
        rooms: Mapping[str, Room],
        options: Options,
        histories: Histories,
        views: Mapping[str, RunView],
        clock: Clock,
    ) -> Estimator:
        """Return the estimator of an invocation that is about to start, which has estimated once.

        It knows how the runs begin: what is filled from earlier runs is not to be done.
        """
        schedules = [room.plan.schedule for room in rooms.values()]
        known = {name: samples_of(history) for name, history in histories.items()}
        one = cls(schedules, limits_of(options.controls), known, views, clock)
        one.take([(name, *event) for name, room in rooms.items() for event in room.writer.opening])
        one.estimate_now()
        return one

    def take(self, batch: Sequence[Shown]) -> None:
        """Take events that are on disk; whatever happens here, the run goes on."""
        if self._broken:
            return
        try:
            for experiment, event, at in batch:
                self._lefts[experiment].add(event, at)
        except Exception:
            self._give_up()

    def _give_up(self) -> None:
        log.exception("a bug of proctor: it is not estimated any more when the run ends")
        self._broken = True
        self._ends_at = self._cost = None

    def estimate(self) -> Estimate:
        """Return the newest estimate, as of now."""
        now = self._clock.monotonic()
        used = together(view.all_usage for view in self._views.values())
        spent = cost_of(used)
        known = self._cost is not None and spent is not None
        return Estimate(
            seconds_left=None if self._ends_at is None else max(0.0, self._ends_at - now),
            seconds_total=None if self._ends_at is None else max(now, self._ends_at) - self._started_at,
            cost_usd=spent + self._cost.usd if known and self._cost is not None and spent is not None else None,
            cost_spread_usd=self._cost.spread_usd if known and self._cost is not None else None,
            cost_at_least_usd=None if known else used.cost_at_least_usd or None,
        )

    async def estimate_forever(self) -> None:
        """Estimate again and again, a while after the last estimate, until it is cancelled."""
        while not self._broken:
            await asyncio.sleep(min(AT_MOST_SECONDS, max(EVERY_SECONDS, self._spent_seconds / COMPUTING_SHARE)))
            if self._broken:
                return
            began = self._clock.monotonic()
            try:
                work = self._prepared()
                self._note(await asyncio.to_thread(work))
            except Exception:
                self._give_up()
            self._spent_seconds = self._clock.monotonic() - began

    def estimate_now(self) -> Estimate:
        """Estimate at once, and return it."""
        began = self._clock.monotonic()
        try:
            self._note(self._prepared()())
        except Exception:
            self._give_up()
        self._spent_seconds = self._clock.monotonic() - began
        return self.estimate()

    def _prepared(self) -> Callable[[], float | None]:
        """Return what works out the seconds: all that it reads was copied, so that a thread may do it."""
        lefts = list(self._lefts.values())
        now = self._clock.wall()
        self._cost = remaining_cost(lefts)
        if not simulable(lefts):
            seconds = roughly_seconds(lefts, self._limits, now)
            return lambda: seconds
        rests: list[Rest] = [rest for left in lefts if (rest := left.rest(now)) is not None]
        if not rests:
            return lambda: 0.0
        limits = self._limits
        return lambda: simulated_seconds(rests, limits, _chance)

    def _note(self, seconds: float | None) -> None:
        self._ends_at = None if seconds is None else self._clock.monotonic() + seconds


def _chance(draw: int) -> random.Random:
    return random.Random(f"estimate {draw}")  # noqa: S311 - it draws durations, no secrets
