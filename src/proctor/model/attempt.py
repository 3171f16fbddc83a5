"""What happens to an attempt: phases, issues, verdicts, usage, grades and results."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from proctor.model.codes import Owner, Severity, code_row


class Phase(StrEnum):
    """A bounded stage of a try, in this order (`dispose` comes before `grade` where grading is none or fresh)."""

    OPEN = "open"
    SETUP = "setup"
    AGENT = "agent"
    COLLECT = "collect"
    GRADE = "grade"
    DISPOSE = "dispose"


class Verdict(StrEnum):
    """What an attempt came to: `failed` is the agent's doing, `errored` ours or a vendor's."""

    PASSED = "passed"
    FAILED = "failed"
    ERRORED = "errored"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


class GradingMode(StrEnum):
    """Where grading happens: without a sandbox, in a new one, or in the agent's."""

    NONE = "none"
    FRESH = "fresh"
    REUSE = "reuse"


@dataclass(frozen=True, slots=True)
class Issue:
    """A recorded problem. Decisions go by `code`; `message` is for people and for the user's own patterns."""

    code: str
    message: str
    severity: Severity
    owner: Owner
    phase: Phase | None = None

    @property
    def fatal(self) -> bool:
        """Whether there is no valid result because of it."""
        return self.severity is Severity.FATAL


def issue_of(code: str, message: str, phase: Phase | None = None) -> Issue:
    """Make an issue with the severity and owner that the table of codes gives to `code`.

    Raises `KeyError` for a code that is not in the table.
    """
    row = code_row(code)
    return Issue(code=code, message=message, severity=row.severity, owner=row.owner, phase=phase)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of model calls by kind, disjoint except where said; `None` in `cost_usd` is unknown, never free.

    `input_tokens` counts what was neither read from nor written to a cache. `reasoning_tokens` are part of
    `output_tokens`. A call that was made and of which nothing else is known is `Usage(calls=1)`: its cost is unknown,
    and the tokens are what is known at least.

    `price_sources` says where the cost comes from, as far as it is known: "reported" by the endpoint or program,
    "given" in the configuration, or the table of prices with its version. Where a part of the cost is unknown,
    `known_cost_usd` is the other part (None is none), and `priced_calls` are the calls whose whole cost is in it.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float | None = None
    known_cost_usd: float | None = None
    priced_calls: int = 0
    price_sources: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what is not a count, or not a cost: usage comes from plugins and endpoints."""
        counts = (self.calls, self.input_tokens, self.output_tokens, self.cache_read_tokens, self.cache_write_tokens,
                  self.reasoning_tokens, self.priced_calls)  # fmt: skip
        if any(type(count) is not int or count < 0 for count in counts):
            raise ValueError(f"token counts must be whole numbers of at least 0: {self!r}")
        costs: tuple[Any, Any] = (self.cost_usd, self.known_cost_usd)
        if any(cost is not None and (type(cost) not in (int, float) or not 0 <= cost < math.inf) for cost in costs):
            raise ValueError(f"a cost must be a finite number of at least 0, or None: {self!r}")
        partly = self.known_cost_usd is not None or self.priced_calls
        if self.priced_calls > self.calls or (self.cost_usd is not None and partly):
            raise ValueError(f"a part of a cost is known only where the cost is not, and of no more calls: {self!r}")
        if type(self.price_sources) is not tuple or any(type(source) is not str for source in self.price_sources):
            raise ValueError(f"sources of a price must be a tuple of texts: {self!r}")

    @property
    def cost_at_least_usd(self) -> float:
        """What it cost at least: all of it, or the part that is known."""
        return (self.known_cost_usd or 0.0) if self.cost_usd is None else self.cost_usd

    @property
    def unpriced_calls(self) -> int:
        """How many of the calls have a cost of which not all is known."""
        return self.calls - self.priced_calls if self.cost_usd is None else 0

    def __add__(self, other: Usage) -> Usage:
        """Sum of both; a cost is known only if the cost of each side that says something is, and they can be added."""
        if other == NO_USAGE:
            return self
        if self == NO_USAGE:
            return other
        known = self.cost_usd is not None and other.cost_usd is not None
        cost = self.cost_at_least_usd + other.cost_at_least_usd
        calls = self.calls + other.calls
        priced = calls - self.unpriced_calls - other.unpriced_calls
        if cost == math.inf:  # endpoints and programs may report any number
            known, cost, priced = False, 0.0, 0
        return Usage(
            calls=calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            cost_usd=cost if known else None,
            known_cost_usd=None if known else cost or None,
            priced_calls=0 if known else priced,
            price_sources=_together(self.price_sources, other.price_sources),
        )


def _together(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    return one if one == other or not other else tuple(sorted({*one, *other}))


NO_USAGE = Usage()


class InvalidGrade(ValueError):
    """A grade that is not one: a score that is no finite number in its range, a verdict that is no boolean."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing a grader looked at."""

    label: str
    ok: bool
    expected: str | None = None
    actual: str | None = None
    source: str | None = None
    """Source line, as `path:line`, where there is one."""


@dataclass(frozen=True, slots=True)
class Grade:
    """What a grader says: whether the task is solved, a score in [0, 1], sub-scores, checks.

    Raises `InvalidGrade` when a score is not a finite number in its range (spec 09 M5). `True` and `False` are not
    numbers here.
    """

    solved: bool
    score: float
    sub_scores: Mapping[str, float] = field(default_factory=dict[str, float])
    checks: tuple[Check, ...] = ()

    def __post_init__(self) -> None:
        if type(self.solved) is not bool:
            raise InvalidGrade(f"solved must be true or false, not {self.solved!r}")
        _require_number("score", self.score, low=0.0, high=1.0)
        for name, value in self.sub_scores.items():
            _require_text("the name of a sub-score", name)
            _require_number(f"sub-score {name!r}", value)
        for check in self.checks:
            if type(check) is not Check or type(check.ok) is not bool:
                raise InvalidGrade(f"a check must be a Check that is ok or not, not {check!r}")
            for value in (check.label, check.expected or "", check.actual or "", check.source or ""):
                _require_text("the text of a check", value)


def _require_text(what: str, value: Any) -> None:
    if not isinstance(value, str):
        raise InvalidGrade(f"{what} must be a text, not {value!r}")


def _require_number(name: str, value: Any, *, low: float = -math.inf, high: float = math.inf) -> None:
    if type(value) not in (int, float) or not math.isfinite(value) or not low <= value <= high:
        allowed = "a finite number" if low == -math.inf else f"a finite number from {low:g} to {high:g}"
        raise InvalidGrade(f"{name} must be {allowed}, not {value!r}")


class Outcome(StrEnum):
    """How a try ended, whatever the grade says."""

    GRADED = "graded"
    BROKEN = "broken"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class TryResult:
    """The end of one try: its outcome, its grade if it has one, what it used and what went wrong."""

    outcome: Outcome
    grade: Grade | None = None
    usage: Usage = NO_USAGE
    grader_usage: Usage = NO_USAGE
    issues: tuple[Issue, ...] = ()

    def __post_init__(self) -> None:
        if (self.outcome is Outcome.GRADED) != (self.grade is not None):
            raise ValueError(f"a try that ended {self.outcome} with grade {self.grade!r}")

    @property
    def fatal(self) -> Issue | None:
        """The first issue that leaves the try without a valid result."""
        return next((issue for issue in self.issues if issue.fatal), None)


def verdict_of(result: TryResult) -> Verdict:
    """Return the verdict that an attempt has if `result` is its counted try."""
    if result.outcome is Outcome.CANCELLED:
        return Verdict.CANCELLED
    if result.outcome is Outcome.SKIPPED:
        return Verdict.SKIPPED
    if result.grade is None or result.fatal is not None:
        return Verdict.ERRORED
    return Verdict.PASSED if result.grade.solved else Verdict.FAILED
