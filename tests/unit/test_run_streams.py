"""Streams of a run whose reader is slow, gone, or reads nothing: nobody waits for it for ever (spec 10 I4)."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import sys
import threading
from collections.abc import Iterator
from typing import TextIO

import pytest

from proctor.cli import streams
from proctor.cli.streams import Patient, write_at_once
from proctor.runtime.clock import SystemClock

LINE = "x" * 999 + "\n"


class Pipe:
    """A pipe whose writing end is the standard output of the process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reads, writes = os.pipe()
        self.stream: TextIO = os.fdopen(writes, "w", encoding="utf-8")
        monkeypatch.setattr(sys, "__stdout__", self.stream)

    def close_reader(self) -> None:
        os.close(self.reads)
        self.reads = -1

    def read_all(self) -> str:
        """Read to the end; all writing ends have to be closed."""
        with os.fdopen(self.reads, "rb") as file:
            self.reads = -1
            return file.read().decode()


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipe]:
    made = Pipe(monkeypatch)
    yield made
    if made.reads >= 0:
        os.close(made.reads)
    made.stream.close()


def drain(stream: Patient, patience: float = 60.0) -> None:
    asyncio.run(stream.drain(SystemClock(), lambda: patience))


def test_what_is_written_arrives_whole_and_in_order(pipe: Pipe) -> None:
    stream = Patient(pipe.stream)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_all()))
    reader.start()
    for number in range(2000):
        stream.write(f"{number} ")
        stream.write(LINE)
        stream.flush()
    drain(stream)
    pipe.stream.close()
    reader.join()
    assert got == ["".join(f"{number} {LINE}" for number in range(2000))]
    assert stream.lost is None


def test_10_I4_a_reader_that_reads_nothing_holds_neither_the_run_nor_its_end(pipe: Pipe) -> None:
    stream = Patient(pipe.stream)
    for _ in range(1000):  # many times what a pipe holds
        stream.write(LINE)
        stream.flush()
    drain(stream, patience=0.05)
    assert stream.lost is not None
    assert "nobody reads it" in stream.lost
    stream.write("quiet")
    stream.flush()
    pipe.stream.write("nor does anything else that is written there wait\n" * 10_000)
    pipe.stream.flush()


def test_10_I4_the_stream_of_a_program_around_us_is_left_as_it_is(pipe: Pipe) -> None:
    stream = Patient(pipe.stream, replace=False)
    for _ in range(1000):
        stream.write(LINE)
        stream.flush()
    before = os.fstat(pipe.stream.fileno())
    drain(stream, patience=0.0)
    assert os.fstat(pipe.stream.fileno()) == before


def test_10_I4_a_slow_reader_is_waited_for_while_it_reads(pipe: Pipe) -> None:
    stream = Patient(pipe.stream)
    for _ in range(300):
        stream.write(LINE)
    stream.flush()
    clock = SystemClock()
    read = 0

    async def drive() -> None:
        nonlocal read
        draining = asyncio.create_task(stream.drain(clock, lambda: 60.0))
        while not draining.done():
            read += len(os.read(pipe.reads, 4096))
            await asyncio.sleep(0)
            if read == 300 * len(LINE):
                break
        await draining

    asyncio.run(drive())
    assert stream.lost is None
    assert read == 300 * len(LINE)


def test_10_I4_a_reader_that_goes_away_is_no_trouble(pipe: Pipe) -> None:
    stream = Patient(pipe.stream)
    pipe.close_reader()
    stream.write(LINE)
    stream.flush()
    drain(stream)
    stream.write(LINE)
    stream.flush()
    assert stream.lost is None


def test_10_I4_what_is_too_much_for_a_reader_is_left_out_and_said(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MOST_HELD_BYTES", 100_000)
    stream = Patient(pipe.stream)
    for _ in range(1000):
        stream.write(LINE)
        stream.flush()
    assert stream.lost is not None
    assert "left out" in stream.lost
    drain(stream, patience=0.0)


def test_a_file_that_gets_the_number_of_a_closed_stream_gets_nothing_of_it(
    pipe: Pipe, tmp_path: os.PathLike[str]
) -> None:
    stream = Patient(pipe.stream)
    number = pipe.stream.fileno()
    stream.write("first\n")
    stream.flush()
    pipe.stream.close()
    journal = os.open(os.path.join(tmp_path, "journal"), os.O_RDWR | os.O_CREAT)
    if journal != number:
        os.dup2(journal, number)
    stream.write("second\n")
    stream.flush()
    drain(stream)
    assert os.fstat(journal).st_size == 0
    for descriptor in {journal, number}:
        os.close(descriptor)
    assert pipe.read_all() == "first\nsecond\n"


@pytest.mark.parametrize("stream", [None, io.StringIO()])
def test_what_is_no_stream_of_the_process_is_written_to_directly(stream: io.StringIO | None) -> None:
    patient = Patient(stream)
    patient.write("text\n")
    patient.flush()
    drain(patient)
    assert stream is None or stream.getvalue() == "text\n"


def test_what_has_no_form_in_the_encoding_is_written_as_an_escape(pipe: Pipe) -> None:
    stream = Patient(pipe.stream)
    stream.write("half \ud800\n")
    stream.flush()
    drain(stream)
    pipe.stream.close()
    assert pipe.read_all() == "half \\ud800\n"


def test_10_I1_last_words_wait_for_nobody(pipe: Pipe) -> None:
    text = "".join(f"{number}\n" for number in range(100_000))
    write_at_once(pipe.stream.fileno(), text)  # returns
    write_at_once(pipe.stream.fileno(), text)
    pipe.stream.close()
    got = pipe.read_all()
    assert text.startswith(got)
    assert len(got) >= 60_000


def test_10_I4_that_nobody_reads_is_logged_once_even_where_the_log_is_shown_there(
    pipe: Pipe, caplog: pytest.LogCaptureFixture
) -> None:
    stream = Patient(pipe.stream)

    class Shows(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            stream.write(record.getMessage())
            stream.flush()

    logger, handler = logging.getLogger("proctor.cli.streams"), Shows()
    logger.addHandler(handler)
    try:
        pipe.close_reader()
        stream.write(LINE)
        stream.flush()
        drain(stream)
    finally:
        logger.removeHandler(handler)
    assert len(caplog.records) == 1
