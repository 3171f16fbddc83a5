"""Output is bounded: head and tail are kept, the rest is counted (spec 06; case 121)."""

from __future__ import annotations

import asyncio
import os

from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.runtime.output import CHUNK_BYTES, HeadTail, InputPipe, OutputPipe


def model(pieces: list[bytes], keep: int) -> tuple[bytes, int]:
    """Head and tail of the whole, the plain way."""
    whole = b"".join(pieces)
    if len(whole) <= keep:
        return whole, 0
    head, tail = (keep + 1) // 2, keep // 2
    return whole[:head] + (whole[-tail:] if tail else b""), len(whole) - keep


@settings(deadline=None, max_examples=300)
@given(st.lists(st.binary(max_size=20), max_size=30), st.integers(0, 40))
def test_head_and_tail_are_kept_and_the_rest_is_counted(pieces: list[bytes], keep: int) -> None:
    kept = HeadTail(keep)
    for piece in pieces:
        kept.add(piece)
    assert (kept.kept, kept.dropped) == model(pieces, keep)
    assert kept.total == sum(map(len, pieces))


def test_memory_stays_flat_however_much_comes() -> None:
    kept = HeadTail(1000)
    for number in range(20_000):
        kept.add(b"%d\n" % number)
    assert len(kept.kept) == 1000
    assert kept.kept.endswith(b"19998\n19999\n")
    assert kept.kept.startswith(b"0\n1\n2\n")


def test_a_pipe_held_open_by_another_process_does_not_hold_drain() -> None:
    async def scenario() -> tuple[bytes, bool]:
        reading, writing = os.pipe()
        got = bytearray()
        pipe = OutputPipe(reading, got.extend)
        os.write(writing, b"before the end")
        pipe.drain()
        pipe.discard()
        os.write(writing, b"dropped")
        pipe.drain()
        still_open = not pipe.closed
        os.close(writing)
        pipe.drain()
        return bytes(got), still_open and pipe.closed

    assert asyncio.run(scenario()) == (b"before the end", True)


def test_input_larger_than_the_pipe_arrives_whole_and_then_ends() -> None:
    data = os.urandom(CHUNK_BYTES * 20)

    async def scenario() -> bytes:
        reading, writing = os.pipe()
        InputPipe(writing, data)
        got = bytearray()
        pipe = OutputPipe(reading, got.extend)
        while not pipe.closed:
            await asyncio.sleep(0)
        return bytes(got)

    assert asyncio.run(scenario()) == data


def test_input_that_nobody_reads_is_given_up() -> None:
    async def scenario() -> bool:
        reading, writing = os.pipe()
        pipe = InputPipe(writing, b"x" * CHUNK_BYTES * 20)
        assert not pipe.closed
        os.close(reading)
        while not pipe.closed:
            await asyncio.sleep(0)
        return True

    assert asyncio.run(scenario())
