"""Calls of the model count whether or not the harness reports them, and once (spec 09 M6; case COST 143)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from test_try_runner import Bench, codes

from proctor.errors import Fault
from proctor.model.attempt import Usage
from proctor.model.events import WorkCheckpointed
from proctor.plugins.api import ChatMessage, Collected, Completion, Turn
from proctor.plugins.asking import ask
from proctor.testing.fakes import FakeHarness
from support.answering import Answering

USED = Usage(calls=1, input_tokens=10, output_tokens=2, cost_usd=0.5)
ASKED = [ChatMessage("user", "well?")]


Work = Callable[[Any], Awaitable[object]]


class Calling(FakeHarness):
    """Does something with its context, and answers."""

    needs_model = True

    def __init__(self, work: Work) -> None:
        super().__init__()
        self.work = work

    async def start(self, ctx: Any) -> Any:
        work = self.work

        class Session:
            async def send(self, prompt: str) -> Turn:
                await work(ctx)
                return Turn(answer="yes")

            async def collect(self) -> Collected:
                return Collected()

            async def close(self) -> None:
                """Do nothing."""

        return Session()


def run(work: Work, *replies: Completion | Fault) -> tuple[Bench, Any]:
    bench = Bench(harness=Calling(work), model=Answering(*replies))
    return bench, bench.run()


async def silent(ctx: Any) -> None:
    for _ in range(3):
        await ctx.model.complete(ASKED)
    assert ctx.used.calls == 3


async def twice(ctx: Any) -> None:
    for _ in range(2):
        await ask(ctx, ASKED)


async def summed_up(ctx: Any) -> None:
    found = [(await ctx.model.complete(ASKED)).usage for _ in range(3)]
    ctx.usage(sum(found, Usage()))


async def now_and_then(ctx: Any) -> None:
    await ask(ctx, ASKED)
    await ctx.model.complete(ASKED)
    await ask(ctx, ASKED)


async def summed_up_without_calls(ctx: Any) -> None:
    for _ in range(3):
        await ctx.model.complete(ASKED)
    ctx.usage(Usage(input_tokens=30, cost_usd=1.5))


@pytest.mark.parametrize(("work", "calls"), [(silent, 3), (twice, 2), (summed_up, 3), (now_and_then, 3)])
def test_09_M6_what_is_called_is_counted_once_however_the_harness_reports_it(work: Work, calls: int) -> None:
    bench, result = run(work, *[Completion("yes", USED)] * calls)
    assert codes(result) == []
    assert (result.usage.calls, result.usage.input_tokens, result.usage.cost_usd) == (calls, 10 * calls, 0.5 * calls)
    [saved] = [event for event in bench.events if isinstance(event, WorkCheckpointed)]
    assert saved.usage == result.usage


def test_09_M6_a_cost_that_is_reported_without_a_number_of_calls_is_believed() -> None:
    _, result = run(summed_up_without_calls, *[Completion("yes", replace(USED, cost_usd=0.1))] * 3)
    assert (result.usage.input_tokens, result.usage.cost_usd) == (30, 1.5)


def test_09_M6_calls_without_usage_and_calls_that_fail_are_not_free_where_nobody_reports_them() -> None:
    async def careless(ctx: Any) -> None:
        await ctx.model.complete(ASKED)
        await ctx.model.complete(ASKED)
        for _ in range(2):
            with pytest.raises(Fault):
                await ctx.model.complete(ASKED)

    failed, refused = Fault("model.server", "status 500"), Fault("model.refused_auth", "status 401")
    _, result = run(careless, Completion("yes", USED), Completion("yes", None), failed, refused)
    assert (result.usage.calls, result.usage.unpriced_calls, result.usage.cost_at_least_usd) == (3, 2, 0.5)
