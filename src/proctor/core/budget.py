"""The budget of an experiment (spec 03 E4): what was spent, what is reserved for what is in flight, what is left.

Money is counted in whole nanodollars, so that sums are exact in any order.
"""

from __future__ import annotations

from proctor.core.schedule import ExperimentPlan
from proctor.model.attempt import NO_USAGE, Outcome, TryResult

_NANO = 1_000_000_000


def nanodollars(usd: float) -> int:
    """Return an amount in whole nanodollars."""
    return round(usd * _NANO)


def least_cost_of(result: TryResult) -> int:
    """Return what a try cost at least, in nanodollars, grading included: all of it, where all is known."""
    used, more = result.usage, result.grader_usage
    if more is not NO_USAGE:
        used = used + more
    return nanodollars(used.cost_at_least_usd)


class Budget:
    """The books of one budget, which begin with what earlier runs paid for the same slots.

    A cost of which not all is known counts as what is known of it: then more may be spent than the books say, but
    never less, and what is known to be spent is never beyond the limit for it.
    """

    __slots__ = ("_expected", "_largest", "limit", "reserving", "spent")

    def __init__(self, plan: ExperimentPlan) -> None:
        self.limit = None if plan.budget_usd is None else nanodollars(plan.budget_usd)
        self._expected = None if plan.expected_cost_usd is None else nanodollars(plan.expected_cost_usd)
        before = plan.largest_before_usd
        self._largest = None if before is None else nanodollars(before)
        self.spent = nanodollars(plan.spent_before_usd)
        self.reserving = 0
        """Tries in flight, and retries that were let through and wait for their permits."""

    @property
    def reserve(self) -> int | None:
        """What one attempt is expected to cost at most: the largest seen, else what was declared, else not known."""
        return self._expected if self._largest is None else self._largest

    def allows(self) -> bool:
        """Say whether another attempt or retry may start."""
        if self.limit is None:
            return True
        reserve = self.reserve
        if reserve is None:
            return not self.reserving and self.spent < self.limit
        return self.spent + reserve * (self.reserving + 1) <= self.limit

    def still_allows(self) -> bool:
        """Say whether a retry that was let through may start now, when others have spent meanwhile."""
        if self.limit is None:
            return True
        return self.spent + (self.reserve or 0) * self.reserving <= self.limit

    def hopeless(self) -> bool:
        """Say whether there is no room for a retry, however little what is in flight may cost."""
        if self.limit is None:
            return False
        return self.spent + (self.reserve or 0) > self.limit

    def ended(self, result: TryResult, spent_before: int) -> int:
        """Take the end of a try into account; return what its attempt has cost so far, `spent_before` included.

        One that broke before anything was paid for tells nothing of what attempts cost.
        """
        self.reserving -= 1
        cost = least_cost_of(result)
        self.spent += cost
        total = spent_before + cost
        if total or self._largest is not None or (self.reserve is None and result.outcome is Outcome.GRADED):
            self._largest = max(self._largest or 0, total)
        return total
