"""Checks of harnesses: what they declare, and turns that go well."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from proctor.model.attempt import NO_USAGE, Usage
from proctor.plugins.api import Collected, Harness, Message, Session, Turn
from proctor.testing.check_context import HarnessWorld
from proctor.testing.check_harnesses import HarnessBench
from proctor.testing.check_plugin import INJECTED, INJECTIONS, refusing
from proctor.testing.check_trajectory import require_trajectory
from proctor.testing.conformance import require

SHORTEST_SECRET = 8
"""What is shorter may stand anywhere."""
PROMPTS = {
    "an empty one": "",
    "one of several lines": "one\n\n  two\r\n\tthree\n",
    **INJECTIONS,
    "one with braces and percent signs": "{} {0} {prompt} {{model}} %s %(x)d ${HOME} \\n \\",
    "one that is not English": "na\u00efve \u65e5\u672c\u8a9e \U0001f642 \u202etxet",
    "one of 20,000 characters": "word " * 4_000,
}


async def started(harness: Harness, world: HarnessWorld) -> Session:
    """Start a session that has what a session must have."""
    with refusing("`start`"):
        session: Any = await harness.start(world)
    missing = [name for name in ("send", "collect", "close") if not callable(getattr(session, name, None))]
    require(not missing, f"what `start` returns is no session: it has no {', '.join(missing)}")
    return session


async def sent(session: Session, text: str, which: str = "`send`") -> Turn:
    """Make a turn that is one."""
    with refusing(which):
        turn: Any = await session.send(Message(text))
    require(isinstance(turn, Turn), f"{which} must return a Turn, not {type(turn).__name__}")
    answer, usage, steps = turn.answer, turn.usage, turn.steps
    require(answer is None or isinstance(answer, str), f"the answer of {which} must be a text or None, not {answer!r}")
    require(usage is None or type(usage) is Usage, f"the usage of {which} must be a Usage or None, not {usage!r}")
    known = steps is None or (type(steps) is int and steps >= 0)
    require(known, f"the steps of {which} must be a whole number of at least 0, or None, not {steps!r}")
    return turn


async def ended(session: Session, when: str) -> Collected:
    """Collect and close, in this order; return what is kept."""
    with refusing(f"`collect` {when}"):
        found: Any = await session.collect()
    require(isinstance(found, Collected), f"`collect` {when} must return a Collected, not {type(found).__name__}")
    files: Any = found.files
    sound = isinstance(files, Mapping) and all(
        isinstance(name, str) and name and isinstance(content, bytes)
        for name, content in cast("Mapping[Any, Any]", files).items()
    )
    require(sound, f"the files that `collect` returns {when} must be bytes by name, not {files!r:.200}")
    if found.trajectory is not None:
        require_trajectory(found.trajectory)
    with refusing(f"`close` {when}"):
        await session.close()
    return found


async def declares_what_it_is(bench: HarnessBench) -> None:
    """Name, version and flags; `turns`, where there is one, is a number of turns."""
    harness = bench.making.check_declared(("isolated_attempts", "needs_model", "needs_sandbox"))
    turns: Any = getattr(harness, "turns", None)
    fits = turns is None or (type(turns) is int and turns >= 1)
    require(fits, f"`turns` must be a whole number of at least 1, or None for any number, not {turns!r}")


async def refuses_parameters_that_there_are_not(bench: HarnessBench) -> None:
    """At planning, not in the middle of a run."""
    bench.making.check_options()


async def a_turn_is_made_and_collected(bench: HarnessBench) -> None:
    """Start, send, collect, close; the trajectory is one of the format."""
    harness = bench.made()
    async with bench.world(harness) as world:
        session = await started(harness, world)
        await sent(session, world.task.prompt)
        await ended(session, "after a turn")


async def a_session_without_a_turn_is_collected_and_closed(bench: HarnessBench) -> None:
    """As where setup fails after the start."""
    harness = bench.made()
    async with bench.world(harness) as world:
        session = await started(harness, world)
        await ended(session, "of a session without a turn")


async def a_further_turn_is_made(bench: HarnessBench) -> None:
    """Unless `turns` says that there is one only."""
    harness = bench.made()
    turns: Any = getattr(harness, "turns", None)
    if turns == 1:
        return
    async with bench.world(harness) as world:
        session = await started(harness, world)
        await sent(session, world.task.prompt)
        await sent(session, "Are you sure?", "the second `send` (set `turns = 1` where a session takes one turn)")
        await ended(session, "after two turns")


async def usage_of_every_call_is_reported(bench: HarnessBench) -> None:
    """By `ctx.usage`, as soon as it is known; where a program does the calls, usage or an issue `usage.missing`."""
    harness = bench.made()
    async with bench.world(harness) as world:
        session = await started(harness, world)
        await sent(session, world.task.prompt)
        used = world.used
        await ended(session, "after a turn")
    if world.watched is None:
        return
    if not world.calls:
        told = used != NO_USAGE or "usage.missing" in world.issues
        require(told, "a harness that needs a model reported neither usage (`ctx.usage`) nor an issue `usage.missing`")
        return
    require(used.calls == world.calls, f"{world.calls} calls were made, and `ctx.usage` was told of {used.calls}")
    for name in ("input_tokens", "output_tokens"):
        there, told = getattr(world.watched.used, name), getattr(used, name)
        require(told == there, f"the calls used {there} {name}, and `ctx.usage` was told of {told}")


async def a_call_without_usage_is_counted(bench: HarnessBench) -> None:
    """As a call of which nothing else is known, and as an issue: unknown is not free."""
    harness = bench.made()
    async with bench.world(harness) as world:
        if world.watched is not None:
            world.watched.silent = True
        session = await started(harness, world)
        await sent(session, world.task.prompt)
        await ended(session, "after a turn")
    if not world.calls:
        return
    missed = f"{world.calls} calls reported no usage, and"
    require(world.used.calls == world.calls, f"{missed} `ctx.usage` was told of {world.used.calls} calls")
    require("usage.missing" in world.issues, f"{missed} there was no issue `usage.missing`")


async def prompts_are_text_and_nothing_else(bench: HarnessBench) -> None:
    """Whatever stands in them: no shell reads them, no template fills them, no length ends them."""
    for kind, prompt in PROMPTS.items():
        harness = bench.made()
        async with bench.world(harness, prompt) as world:
            session = await started(harness, world)
            await sent(session, prompt, f"`send` of a prompt ({kind})")
            await ended(session, f"after a prompt ({kind})")
            if world.box is not None:
                ran = (await world.box.exec(["test", "-e", INJECTED])).ok
                require(not ran, f"a prompt ({kind}) was read by a shell, which ran what it says")


async def attempts_do_not_mix(bench: HarnessBench) -> None:
    """At once where `isolated_attempts` says that they may overlap, else one after the other."""
    harness = bench.made()
    tokens = ("first-9f2ab1", "second-73c0de")

    async def attempt(token: str) -> str:
        async with bench.world(harness, f"Remember {token}.") as world:
            session = await started(harness, world)
            turn = await sent(session, world.task.prompt)
            found = await ended(session, "after a turn")
            return json.dumps([turn.answer, found.trajectory, [repr(one) for one in found.files.values()]])

    if harness.isolated_attempts:
        said = await asyncio.gather(*map(attempt, tokens))
    else:
        said = [await attempt(token) for token in tokens]
    for own, other in ((0, 1), (1, 0)):
        require(
            tokens[other] not in said[own],
            "what was sent to one attempt turned up in another: keep what belongs to an attempt in its session",
        )


async def the_solution_is_not_shown_to_the_model(bench: HarnessBench) -> None:
    """Neither the reference nor what the grader compares with."""
    harness = bench.made()
    async with bench.world(harness) as world:
        session = await started(harness, world)
        await sent(session, world.task.prompt)
        await ended(session, "after a turn")
    if world.watched is None:
        return
    reference = world.task.reference
    hidden = [*_texts(dict(world.task.grader.params)), (reference and reference.answer) or ""]
    hidden = [text for text in hidden if len(text) >= SHORTEST_SECRET and text not in world.task.prompt]
    asked = [message.text for messages in world.watched.asked for message in messages]
    shown = any(text in message for text in hidden for message in asked)
    require(
        not shown, "the model was shown the solution of the task: `task.reference` and `task.grader` are not for it"
    )


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in cast("Mapping[str, Any]", value).values():
            yield from _texts(one)
    elif isinstance(value, list | tuple):
        for one in cast("list[Any]", value):
            yield from _texts(one)


CHECKS = (
    declares_what_it_is,
    refuses_parameters_that_there_are_not,
    a_turn_is_made_and_collected,
    a_session_without_a_turn_is_collected_and_closed,
    a_further_turn_is_made,
    usage_of_every_call_is_reported,
    a_call_without_usage_is_counted,
    prompts_are_text_and_nothing_else,
    attempts_do_not_mix,
    the_solution_is_not_shown_to_the_model,
)
