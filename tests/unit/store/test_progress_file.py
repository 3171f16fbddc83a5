"""progress.json: whole or not there, read with care, never the reason that something fails (spec 07)."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.errors import StoreError
from proctor.store.files import Files
from proctor.store.owner import Owner
from proctor.store.progress_file import (
    FORMAT,
    Flight,
    Left,
    Progress,
    ProgressFile,
    decode_progress,
    encode_progress,
    read_progress,
)

COUNTS = {"total": 3, "running": 1, "queued": 2, "not_dispatched": {}}


def progress(**more: object) -> Progress:
    given = {
        "format": FORMAT, "proctor": "1", "invocation": "i", "run": "r", "experiment": "e",
        "owner": Owner("host", "boot", "pid:[1]", 7, 9), "started_at": 1.0, "written_at": 2.0, "every_seconds": 1.0,
        "ended": False, "completion": None, "counts": COUNTS, "backing_off": 0, "waiting_for_grading": 0,
        "between_tries": 0, "cost_usd": None,
    }  # fmt: skip
    return Progress(**{**given, **more})  # type: ignore[arg-type]


def test_07_what_is_written_is_read(tmp_path: Path) -> None:
    flight = Flight("a", "täsk", 0, 2, "running", 1.0, "agent", 1.5, 1.9, "agent_timeout_seconds", 60.0, 61.5)
    one = progress(in_flight=[flight], estimate=Left(3.0, 5.0, 1.25, None), waiting={"global": 2}, time_limit_at=9.0)
    file = ProgressFile(tmp_path / "progress.json")
    for written in (progress(), one):
        file.write(encode_progress(written))
        assert read_progress(file.path) == written
    assert os.listdir(tmp_path) == ["progress.json"]


def test_07_where_there_is_none_none_is_read(tmp_path: Path) -> None:
    assert read_progress(tmp_path / "progress.json") is None


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b'{"format":1}', b"\xff", b'{"format":"1"}', b"[" * 9999]
)
def test_165_what_is_damaged_is_said_to_be(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "progress.json"
    path.write_bytes(content)
    with pytest.raises(StoreError) as raised:
        read_progress(path)
    assert f"`{path}` is damaged" in raised.value.message
    assert raised.value.hint is not None


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60), st.integers(0, 400))
def test_165_any_content_is_progress_or_an_error(noise: bytes, place: int) -> None:
    whole = encode_progress(progress())
    content = whole[:place] + noise + whole[place + len(noise) :]
    with suppress(StoreError):
        assert isinstance(decode_progress(content, Path("p")), Progress)


def test_08_D4_a_newer_format_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "progress.json"
    path.write_bytes(encode_progress(progress(format=FORMAT + 1)))
    with pytest.raises(StoreError, match=f"format {FORMAT + 1}, and this proctor knows {FORMAT}"):
        read_progress(path)


def test_165_a_pipe_in_its_place_holds_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "progress.json")
    with pytest.raises(StoreError, match="not a file that proctor wrote"):
        read_progress(tmp_path / "progress.json")


class Failing(Files):
    """Fails at one of its calls."""

    def __init__(self, call: str) -> None:
        self.call = call

    def _may(self, call: str) -> None:
        if call == self.call:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def open(self, path: str | Path, flags: int) -> int:
        self._may("open")
        return super().open(path, flags)

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        self._may("write")
        return super().write(descriptor, data)

    def fsync(self, descriptor: int) -> None:
        self._may("fsync")
        super().fsync(descriptor)

    def replace(self, source: str | Path, target: str | Path) -> None:
        self._may("replace")
        super().replace(source, target)


@pytest.mark.parametrize("call", ["open", "write", "fsync", "replace"])
def test_08_D5_a_write_that_fails_leaves_the_old_one_and_nothing_else(call: str, tmp_path: Path) -> None:
    path = tmp_path / "progress.json"
    ProgressFile(path).write(encode_progress(progress()))
    with pytest.raises(StoreError, match="no space left"):
        ProgressFile(path, files=Failing(call)).write(encode_progress(progress(run="other")))
    assert read_progress(path) == progress()
    assert os.listdir(tmp_path) == ["progress.json"]
