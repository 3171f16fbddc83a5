"""Results to numbers: counts whose parts add up, and a rate that says what it does not know (spec 09 M1).

A slot that is errored, cancelled or not dispatched has no score: it is neither a 0 nor left out in silence. Rates are
rounded from whole numbers, half up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from proctor.model.events import StopReason


class Missing(StrEnum):
    """What becomes of slots without a score in a rate (spec 09 M1). Without any of these they widen its range."""

    ZERO = "zero"
    """They count as not passed."""
    EXCLUDE = "exclude"
    """They are left out, and the rate is of the scored ones."""
    FAIL = "fail"
    """Where there are any, there is no rate."""


SAID_OF_MISSING = {
    Missing.ZERO: "counted as not passed",
    Missing.EXCLUDE: "left out",
    Missing.FAIL: "none may be missing",
}


@dataclass(frozen=True, slots=True)
class Counts:
    """Where the slots of one experiment, or of several, stand.

    `not_dispatched` is by reason (the text of a `StopReason`). `reused_passed` and `reused_failed` are filled by saved
    attempts; `passed` and the rest are of this run. The parts add up to `total`, always: raises `ValueError` where they
    do not, or where one is negative.
    """

    total: int
    running: int = 0
    queued: int = 0
    passed: int = 0
    failed: int = 0
    errored: int = 0
    skipped: int = 0
    cancelled: int = 0
    not_dispatched: Mapping[str, int] = field(default_factory=dict[str, int])
    reused_passed: int = 0
    reused_failed: int = 0

    def __post_init__(self) -> None:
        sealed = (self.passed, self.failed, self.errored, self.skipped, self.cancelled)
        parts = (self.running, self.queued, *sealed, *self.not_dispatched.values(), *self._reused)
        if sum(parts) != self.total or min(parts) < 0:
            raise ValueError(f"counts that do not add up: {self}")

    @property
    def scored(self) -> int:
        """Slots with a score."""
        return self.passed + self.failed + self.reused

    @property
    def reused(self) -> int:
        """Slots that are filled by saved attempts; all of them have a score."""
        return sum(self._reused)

    @property
    def _reused(self) -> tuple[int, int]:
        return self.reused_passed, self.reused_failed

    @property
    def stopped(self) -> int:
        """Slots that are not dispatched, for whatever reason."""
        return sum(self.not_dispatched.values())

    def __add__(self, other: Counts) -> Counts:
        reasons = [reason for reason in StopReason if reason in self.not_dispatched or reason in other.not_dispatched]
        return Counts(
            total=self.total + other.total,
            running=self.running + other.running,
            queued=self.queued + other.queued,
            passed=self.passed + other.passed,
            failed=self.failed + other.failed,
            errored=self.errored + other.errored,
            skipped=self.skipped + other.skipped,
            cancelled=self.cancelled + other.cancelled,
            not_dispatched={
                reason.value: self.not_dispatched.get(reason, 0) + other.not_dispatched.get(reason, 0)
                for reason in reasons
            },
            reused_passed=self.reused_passed + other.reused_passed,
            reused_failed=self.reused_failed + other.reused_failed,
        )


class Rate(NamedTuple):
    """The pass rate of some slots, as far as it is known.

    `base` is the number of slots that are not skipped, `scored` those of them with a score. The rate over the base lies
    between `low` and `high`, and is `rate` where nothing is missing; all three are None where nothing was scored.
    """

    passed: int
    scored: int
    base: int
    low: float | None
    high: float | None
    rate: float | None

    @property
    def complete(self) -> bool:
        """Whether every slot that is not skipped has a score."""
        return self.scored == self.base


def pass_rate(counts: Counts, missing: Missing | None = None) -> Rate:
    """Return the pass rate; it never divides by zero, and slots without a score do what `missing` says."""
    return rate_of(counts.passed + counts.reused_passed, counts.scored, counts.total - counts.skipped, missing)


def rate_of(passed: int, scored: int, base: int, missing: Missing | None = None) -> Rate:
    """Return the rate of `passed` over `base`, of which `scored` have a score.

    With `Missing.EXCLUDE` the base is what was scored. Where nothing was scored there is no rate, whatever `missing`
    says.
    """
    if not scored:
        return Rate(passed, scored, base, None, None, None)
    low, high = passed / base, (passed + base - scored) / base
    if missing is Missing.EXCLUDE:
        low = high = passed / scored
        base = scored
    elif missing is Missing.ZERO:
        high = low
    complete = scored == base or missing is Missing.ZERO
    return Rate(passed, scored, base, low, high, low if complete else None)


def headline(counts: Counts, missing: Missing | None = None) -> str:
    """Say the pass rate, what it is based on, and what is missing from it, and what `missing` makes of that.

    Forms: `62.2% (102/164 passed)`; with a range and `incomplete` before the bracket where slots have no score, each
    kind of them named behind (`3 errored`); `no score (164 errored)`. With a policy the range is gone, and the policy
    is named behind what is missing: `61.0% (100/164 passed, 3 errored: counted as not passed)`.
    """
    rate = pass_rate(counts, missing)
    lacking = ", ".join(_missing(counts))
    if lacking and rate.scored and missing is not None:
        lacking += f": {SAID_OF_MISSING[missing]}"
    named = ", ".join(filter(None, (lacking, f"{counts.skipped} skipped" if counts.skipped else "")))
    if not rate.scored:
        return f"no score ({named})" if named else "no score"
    base = f"({rate.passed}/{rate.base} passed{', ' if named else ''}{named})"
    if missing is Missing.FAIL and lacking:
        return f"no rate {base}"
    if rate.rate is not None:
        return f"{percent(rate.passed, rate.base)}% {base}"
    highest = percent(rate.passed + rate.base - rate.scored, rate.base)
    return f"{percent(rate.passed, rate.base)}\u2013{highest}% incomplete {base}"  # an en dash


def _missing(counts: Counts) -> Iterable[str]:
    """Yield what has no score, in the order in which it is told."""
    named = (
        ("errored", counts.errored),
        ("cancelled", counts.cancelled),
        ("not dispatched", counts.stopped),
        ("running", counts.running),
        ("queued", counts.queued),
    )
    return (f"{number} {name}" for name, number in named if number)


def percent(part: int, whole: int) -> str:
    """Return `part` of `whole` in percent with one decimal, rounded half up from whole numbers, without the sign.

    Raises `ValueError` unless 0 <= part <= whole and whole > 0.
    """
    if not 0 <= part <= whole or not whole:
        raise ValueError(f"{part} of {whole} has no percentage")
    tenths = (2 * 1000 * part + whole) // (2 * whole)
    return f"{tenths // 10}.{tenths % 10}"


def mean_score(scores: Iterable[float]) -> float | None:
    """Return the mean of the scores of scored slots, or None without any; the order of them does not matter.

    Raises `ValueError` for NaN and infinity.
    """
    values = list(scores)
    if not all(math.isfinite(value) for value in values):
        raise ValueError("a score is not a finite number")
    return math.fsum(values) / len(values) if values else None
