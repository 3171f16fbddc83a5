"""Slow, silent, greedy and malformed clients: others are served, memory is bounded, and the end is at once.

Real sockets to a server in a thread. Nothing here waits for a time: each test waits for what comes of it.
"""

import logging
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "support"))
from viewer_runs import START, good_try, make_run, sealed, started

from proctor.viewer import clients
from proctor.viewer.page import NotFound
from proctor.viewer.results import Results
from proctor.viewer.serve import Server, listen, server_of

HANG_SECONDS = 90
"""What takes as long hangs."""
A = "abcdefghijkl"
RUN = "e/r1"
LARGE = 40 * 1024 * 1024
HALF = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "


@dataclass
class Served:
    server: Server
    thread: threading.Thread
    port: int
    sockets: ExitStack

    def connect(self, sent: bytes = b"") -> socket.socket:
        one = self.sockets.enter_context(socket.create_connection(("127.0.0.1", self.port), timeout=HANG_SECONDS))
        one.sendall(sent)
        return one

    def ask(self, path: str, more: bytes = b"") -> socket.socket:
        return self.connect(b"GET " + path.encode() + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n" + more + b"\r\n")

    def is_well(self) -> None:
        assert answer_of(self.ask(f"/run/{RUN}", b"Connection: close\r\n")).startswith(b"HTTP/1.1 200 ")

    def end(self) -> None:
        self.server.should_exit = True
        self.thread.join(HANG_SECONDS)
        assert not self.thread.is_alive()


@pytest.fixture
def served(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Served]:
    layout = make_run(tmp_path, [started(), *good_try(A, "task", START), sealed(A, "task", START + 10)], RUN)
    with layout.log.open("wb") as file:
        file.truncate(LARGE)
    listening = listen("127.0.0.1", 0)
    server = server_of(Results(tmp_path))
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    with ExitStack() as sockets:
        one = Served(server, thread, listening.getsockname()[1], sockets)
        yield one
        one.end()
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


def answer_of(one: socket.socket) -> bytes:
    """Return all that comes until the connection ends, however it ends."""
    found = bytearray()
    try:
        while part := one.recv(65536):
            found += part
    except ConnectionError:
        pass
    return bytes(found)


def test_others_are_served_while_very_many_send_no_request_or_read_no_answer(served: Served) -> None:
    for n in range(60):
        served.connect()
        served.connect(HALF)
        served.connect(b"G")
        if n % 10 == 0:
            served.ask(f"/file/{RUN}?path=run.log")  # and never read
    served.is_well()
    served.is_well()


def test_who_sends_no_whole_request_is_cut_off(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "LOOK_SECONDS", 0.1)
    found = [served.connect(), served.connect(HALF), served.connect(HALF)]
    feeding = threading.Thread(target=feed, args=(found[2],))
    feeding.start()
    try:
        assert [answer_of(one) for one in found] == [b"", b"", b""]
    finally:
        feeding.join(HANG_SECONDS)
    monkeypatch.undo()  # this one may be slow
    served.is_well()


def feed(one: socket.socket) -> None:
    """Send byte by byte, for as long as somebody takes it."""
    try:
        for _ in range(10_000):
            one.sendall(b"x")
            threading.Event().wait(0.05)
    except OSError:
        pass


def test_who_does_not_read_is_cut_off(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "LOOK_SECONDS", 0.1)
    one = served.ask(f"/file/{RUN}?path=run.log")
    wait_for(lambda: served.server.server_state.connections)
    wait_for(lambda: not served.server.server_state.connections)
    assert len(answer_of(one)) < LARGE
    monkeypatch.undo()  # this one may be slow
    served.is_well()


def wait_for(happened: Callable[[], object]) -> None:
    for _ in range(HANG_SECONDS * 100):
        if happened():
            return
        threading.Event().wait(0.01)
    pytest.fail("it never happens")


def test_too_many_clients_make_room_for_new_ones(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "MOST_CLIENTS", 8)
    found = [served.connect(HALF) for _ in range(20)]
    served.is_well()
    assert [answer_of(one) for one in found[:12]] == [b""] * 12, "those that were there for longest"


def test_answers_that_nobody_reads_do_not_fill_the_memory(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "MOST_UNREAD_BYTES", 1)
    found = [served.ask(f"/file/{RUN}?path=run.log") for _ in range(3)]
    # More of each answer waits than the system takes.
    state = served.server.server_state
    wait_for(lambda: sum(one.unread_bytes > 0 for one in clients.clients_of(list(state.connections))) == 3)
    served.is_well()
    assert all(len(answer_of(one)) < LARGE for one in found)


def test_a_large_header_is_refused_and_costs_nothing(served: Served) -> None:
    one = served.connect()
    with suppress(ConnectionError):
        one.sendall(HALF + b"x" * 1024 * 1024)
    assert answer_of(one)[:12] in (b"", b"HTTP/1.1 400")
    served.is_well()


def test_requests_in_a_row_are_answered_in_their_order(served: Served) -> None:
    paths = ["/static/style.css", "/gone", "/"] * 20
    requests = [f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode() for path in paths]
    requests[-1] = requests[-1].replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    text = answer_of(served.connect(b"".join(requests)))
    statuses = [part[:3] for part in text.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [b"200", b"404", b"200"] * 20


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\r\n\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\0" * 5000,
        b"GET http://evil.example.org/ HTTP/1.1\r\nHost: evil.example.org\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n" + b"x" * 300_000,
        b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n", b"HEAD / HTTP/1.0\r\nHost: localhost\r\n\r\n",
    ],
    ids=range(12),
)  # fmt: skip
def test_what_is_no_request_says_nothing_to_who_runs_the_viewer(served: Served, sent: bytes) -> None:
    one = served.connect()
    try:
        one.sendall(sent)
        one.shutdown(socket.SHUT_WR)
    except OSError:
        pass
    answer_of(one)
    served.is_well()  # and nothing was logged


def test_it_ends_at_once_whoever_is_connected(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    making, free = threading.Event(), threading.Event()

    def slow(*_: object) -> object:
        making.set()
        free.wait(HANG_SECONDS)
        raise NotFound("nobody waits for this")

    try:
        for _ in range(5):
            served.connect(HALF)
            served.connect()
            assert served.ask(f"/file/{RUN}?path=run.log").recv(1)
        monkeypatch.setattr(Results, "entry", slow)
        served.ask(f"/run/{RUN}")
        assert making.wait(HANG_SECONDS)
        served.end()
    finally:
        free.set()
