"""The engine: a retry may begin in the very moment in which its attempt's last try has reported its end."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from test_try_runner import Bench

from proctor.errors import InternalError
from proctor.model.events import TryEnded
from proctor.runtime.engine_local import LocalEngine
from proctor.runtime.redact import Redactor
from proctor.testing.fakes import FakeClock


def test_a_retry_starts_before_the_task_of_the_last_try_is_gone() -> None:
    bench = Bench()
    ended: list[int] = []

    async def drive() -> None:
        def emit(event: Any) -> None:
            if isinstance(event, TryEnded):
                ended.append(event.try_number)
                if event.try_number == 1:
                    engine.start(replace(bench.job, try_number=2), lambda *_: None)

        engine = LocalEngine(emit=emit, clock=FakeClock(), redactor=Redactor())
        engine.start(bench.job, lambda *_: None)
        with pytest.raises(InternalError, match="started twice"):
            engine.start(bench.job, lambda *_: None)
        await engine.wait()

    asyncio.run(drive())
    assert ended == [1, 2]
