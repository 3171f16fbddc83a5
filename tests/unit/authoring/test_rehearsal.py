"""Tasks are tried without a run (spec 02): what they see there is what they see in one."""

from __future__ import annotations

import asyncio
from typing import Any

from proctor import task
from proctor.testing.rehearsal import rehearse


def test_02_what_is_left_in_the_state_of_the_sandbox_is_found_again() -> None:
    @task
    async def function(t: Any) -> None:
        assert t.sandbox.state == {}
        t.sandbox.state["port"] = 80
        await t.send("x")
        t.check("port", t.sandbox.state.get("port"))

    for _ in range(2):  # the second rehearsal has a sandbox of its own
        rehearsal = asyncio.run(rehearse(function, ["a"]))
        assert rehearsal.error is None
        assert rehearsal.grade is not None
        assert [(check.ok, check.actual) for check in rehearsal.grade.checks] == [(True, "80")]
