"""What is left to do, as every display shows it: the time until the end and the cost, with its spread.

The one value `Estimate` is what the panel (`eta 9 min`), the PLAN line (`est. 14 min, $3.10 ±0.60`), `progress.json`
and `proctor status` read. It is worked out elsewhere, from what is still to be done and what is known about
durations and costs; here are only its shape and its reading from a file. What is not known is None, never 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from proctor.report.wording import briefly, money


@dataclass(frozen=True, slots=True)
class Estimate:
    """How long and how much, as far as it is known. All fields default to "not known"."""

    seconds_left: float | None = None
    """From the moment of the estimate to the end of the invocation."""
    seconds_total: float | None = None
    """From the start of the invocation to its end."""
    cost_usd: float | None = None
    """Of everything this invocation executes: what was spent plus what is expected for the rest."""
    cost_spread_usd: float | None = None
    """One standard deviation of `cost_usd`; None where there is nothing to tell it from."""
    cost_at_least_usd: float | None = None
    """What is known of `cost_usd` where that is not: what was spent that had a price; None where nothing had."""


def estimate_items(estimate: Estimate | None) -> list[str]:
    """Return `est. 14 min, $3.10 ±0.60`, as far as it is known; nothing where nothing is."""
    if estimate is None:
        return []
    words: list[str] = []
    if estimate.seconds_total is not None:
        words.append(briefly(estimate.seconds_total))
    if estimate.cost_usd:  # where nothing costs anything there is nothing to say
        spread = estimate.cost_spread_usd
        words.append(money(estimate.cost_usd) + (f" ±{spread:.2f}" if spread is not None else ""))
    elif estimate.cost_at_least_usd:
        words.append(f"at least {money(estimate.cost_at_least_usd)}")
    return [f"est. {', '.join(words)}"] if words else []
