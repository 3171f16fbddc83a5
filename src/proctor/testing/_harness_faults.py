"""Checks of harnesses: turns that fail, and turns that are cut off by a limit."""

from __future__ import annotations

import asyncio

from proctor.errors import Fault, describe
from proctor.plugins.api import Message, Session, Turn
from proctor.testing._harness_turns import ended, started
from proctor.testing.check_context import Gate
from proctor.testing.check_harnesses import HarnessBench
from proctor.testing.conformance import require

FAULT = "model.server"


async def a_failure_of_the_model_is_said(bench: HarnessBench) -> None:
    """The fault passes, or its code is an issue; what was begun is counted, and what there is can be collected."""
    harness = bench.made()
    async with bench.world(harness) as world:
        if world.watched is not None:
            world.watched.fault = Fault(FAULT, "status 500")
        session = await started(harness, world)
        raised: Exception | None = None
        try:
            await session.send(Message(world.task.prompt))
        except Exception as error:  # what kind it is of is what is looked at
            raised = error
        await ended(session, "after a turn that failed")
    if not world.calls:
        return
    if raised is None:
        require(
            FAULT in world.issues,
            f"the model failed ({FAULT}), and `send` returned as if the agent had done it: let the fault pass, or "
            "report its code by `ctx.issue`",
        )
    else:
        same = isinstance(raised, Fault) and raised.code == FAULT
        require(same, f"the model failed ({FAULT}), and `send` raised {describe(raised)} in its place")
    counted = world.used.calls >= world.calls
    require(
        counted, f"{world.calls} calls failed, and `ctx.usage` was told of {world.used.calls}: they may be paid for"
    )


async def a_turn_is_cut_off_in_a_call_of_the_model(bench: HarnessBench) -> None:
    """As by a time limit; what there is until then can be collected."""
    await _cut_off(bench, "a call of the model")


async def a_turn_is_cut_off_in_a_command(bench: HarnessBench) -> None:
    """Likewise."""
    await _cut_off(bench, "a command")


async def _cut_off(bench: HarnessBench, where: str) -> None:
    harness = bench.made()
    async with bench.world(harness) as world:
        session = await started(harness, world)
        holder = world.watched if where == "a call of the model" else world.box
        gate = Gate() if holder is None else holder.gate
        gate.closed = True
        turn = asyncio.get_running_loop().create_task(_turn(session, world.task.prompt))
        reached = asyncio.ensure_future(gate.reached.wait())
        await asyncio.wait({turn, reached}, return_when=asyncio.FIRST_COMPLETED)
        gate.closed = False  # what cleans up may run commands
        reached.cancel()
        await asyncio.wait({reached})
        cut = not turn.done()
        turn.cancel()
        await asyncio.wait({turn})
        if cut:
            require(turn.cancelled(), f"a turn that was cut off in {where} {_end(turn)}: let CancelledError pass")
        else:
            _end(turn)
        await ended(session, f"after a turn that was cut off in {where}")
    if cut and world.calls:
        counted = world.used.calls >= world.calls
        require(counted, f"a call was cut off, and `ctx.usage` was told of {world.used.calls} of {world.calls} calls")


async def _turn(session: Session, text: str) -> Turn:
    return await session.send(Message(text))


def _end(turn: asyncio.Task[Turn]) -> str:
    error = None if turn.cancelled() else turn.exception()
    return "returned all the same" if error is None else f"raised {describe(error)}"


CHECKS = (
    a_failure_of_the_model_is_said,
    a_turn_is_cut_off_in_a_call_of_the_model,
    a_turn_is_cut_off_in_a_command,
)
