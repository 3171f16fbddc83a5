"""Thoughts that an endpoint counts in its total only are paid for all the same (case COST 141)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from proctor.model.attempt import Usage
from proctor.model.spec import ModelSpec
from proctor.models.openai import open_model
from proctor.plugins.api import ChatMessage
from proctor.testing.model_server import ModelServer
from proctor.testing.replies import Answer


def used(usage: dict[str, Any]) -> Usage | None:
    async def ask() -> Usage | None:
        async with ModelServer([Answer("42", usage)]) as server:
            model = open_model(ModelSpec("openai/m", base_url=server.base_url))
            try:
                return (await model.complete([ChatMessage("user", "6 x 7?")])).usage
            finally:
                await model.close()

    return asyncio.run(ask())


def reported(total: int, **more: Any) -> dict[str, Any]:
    return {"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": total, **more}


THOUGHTS = {"completion_tokens_details": {"reasoning_tokens": 94}}


@pytest.mark.parametrize(
    ("usage", "output", "reasoning"),
    [
        (reported(135, **THOUGHTS), 103, 94),
        (reported(135), 103, 0),
        (reported(41), 9, 0),
        (reported(0), 9, 0),
        (reported(135, prompt_tokens_details={"cached_tokens": 20}), 9, 0),
        (reported(135, cache_read_input_tokens=94), 9, 0),
        (reported(500_041, **THOUGHTS), 9, 94),
    ],
    ids=["beside the output", "not told apart", "none", "no total", "cached", "cached elsewhere", "another sum"],
)
def test_case_cost_141_thoughts_outside_of_the_output_are_output(
    usage: dict[str, Any], output: int, reasoning: int
) -> None:
    found = used(usage)
    assert found is not None
    assert (found.output_tokens, found.reasoning_tokens) == (output, reasoning)
    assert found.input_tokens + found.cache_read_tokens == 32
