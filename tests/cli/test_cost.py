"""What calls cost is known, or it is said to be unknown: never $0 for want of knowledge (spec 09)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from program import Ended

from proctor.testing.model_server import serve
from proctor.testing.replies import Answer, Failure, Hang

Proctor = Callable[..., Ended]


def run(proctor: Proctor, replies: list[Any], *options: str) -> tuple[Ended, dict[str, Any]]:
    with serve(replies) as server:
        address = f"model.base_url={server.base_url}"
        ended = proctor("run", "trivial", "chat", "openai/any", "--limit", "1", "--set", address, *options)
    return ended, json.loads((ended.run_dir / "summary.json").read_text())


@pytest.mark.parametrize(
    ("reply", "options", "code"),
    [
        (Answer("ok", usage=None), [], "usage.missing"),
        (Hang(), ["--timeout", "0.5"], "time.agent"),
        (Hang(), ["--set", "model.params.timeout_seconds=0.5"], "model.timeout"),
        (Failure(500, "down"), [], "model.server"),
    ],
    ids=["no usage", "cut off by the limit of the agent", "cut off by the limit of the call", "failed"],
)
def test_09_a_call_of_unknown_cost_is_counted_and_the_cost_is_unknown(
    proctor: Proctor, reply: Any, options: list[str], code: str
) -> None:
    ended, summary = run(proctor, [reply], *options)
    assert code in {issue["code"] for issue in summary["issues"]}
    assert summary["usage"]["calls"] == 1
    assert summary["cost_usd"] is None
    assert "cost unknown" in ended.err
    assert "$0" not in ended.err


def test_09_no_call_costs_nothing(proctor: Proctor) -> None:
    summary = json.loads((proctor("run", "trivial", "nop", "--limit", "1").run_dir / "summary.json").read_text())
    assert (summary["usage"], summary["cost_usd"]) == (None, 0)


def test_02_an_address_with_a_password_is_written_nowhere(proctor: Proctor) -> None:
    secret = "pw-0123456789abcdef"
    ended = proctor(
        "run", "trivial", "chat", "openai/any", "--set", f"model.base_url=http://user:{secret}@127.0.0.1:1/v1"
    )  # fmt: skip
    assert ended.code == 2
    assert secret not in ended.out + ended.err
    assert "model.api_key" in ended.err
    assert not list(ended.folder.iterdir())
