"""`proctor view`: what it shows, where it listens, and how it ends."""

import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from program import HANG_SECONDS, SUPPORT, Ended

sys.path.append(str(SUPPORT))
from viewer_runs import START, good_try, make_run, sealed, started

from proctor.cli.shown_results import results_to_show
from proctor.errors import UsageError
from proctor.store.layout import RunLayout
from proctor.viewer.serve import DEFAULT_PORT, address_of, is_reachable, listen, names_of

A = "abcdefghijkl"
Start = Callable[..., subprocess.Popen[str]]
Call = Callable[..., Ended]


def run_in(root: Path, name: str = "e/r1") -> RunLayout:
    return make_run(root, [started(), *good_try(A, "task", START), sealed(A, "task", START + 10)], name)


def ended(process: subprocess.Popen[str], number: int = signal.SIGINT) -> tuple[int, str, str]:
    os.kill(process.pid, number)
    out, err = process.communicate(timeout=HANG_SECONDS)
    return process.returncode, out, err


def address_in(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def read(address: str, **headers: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=HANG_SECONDS) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_it_prints_its_address_serves_and_ends_by_an_interrupt_without_a_word(process: Start, tmp_path: Path) -> None:
    run_in(tmp_path / "results")
    viewer = process("view", "--port", "0")
    address = address_in(viewer)
    assert address.startswith("http://127.0.0.1:")
    assert read(address)[0] == 200
    assert "task" in read(f"{address}run/e/r1")[1]
    assert read(f"{address}run/gone")[0] == 404
    assert read(address, Host="evil.example.org")[0] == 421
    assert ended(viewer) == (0, "", "")


def test_a_reader_that_stays_connected_does_not_keep_it(process: Start, tmp_path: Path) -> None:
    run_in(tmp_path / "results")
    viewer = process("view", "--port", "0")
    address = address_in(viewer)
    with socket.create_connection(("127.0.0.1", int(address.rstrip("/").rpartition(":")[2]))) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(12) == b"HTTP/1.1 200"
        assert ended(viewer)[0] == 0


def test_two_viewers_live_beside_each_other(process: Start, tmp_path: Path) -> None:
    run_in(tmp_path / "one", "e/first")
    run_in(tmp_path / "two", "e/second")
    viewers = [process("view", "--results-dir", name, "--port", "0") for name in ("one", "two")]
    pages = [read(address_in(viewer))[1] for viewer in viewers]
    assert "first" in pages[0]
    assert "second" not in pages[0]
    assert "second" in pages[1]
    assert "first" not in pages[1]
    assert [ended(viewer)[0] for viewer in viewers] == [0, 0]


def test_the_usual_port_or_a_free_one_where_it_is_taken() -> None:
    with listen("127.0.0.1", None) as first, listen("127.0.0.1", None) as second:
        ports = {one.getsockname()[1] for one in (first, second)}
        assert len(ports) == 2
        assert DEFAULT_PORT in ports or first.getsockname()[1] != DEFAULT_PORT  # somebody else may have it


def test_a_port_that_is_taken_is_an_error_with_a_hint(proctor: Call, tmp_path: Path) -> None:
    run_in(tmp_path / "results")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        found = proctor("view", "--port", taken.getsockname()[1])
    assert found.code == 2
    assert "address already in use" in found.err
    assert "--port" in found.err


@pytest.mark.parametrize("host", ["no.such.host.invalid", "", "a" * 300, "\u202e", "203.0.113.7"])
def test_a_host_that_is_none_of_this_machine_is_an_error_with_a_hint(host: str) -> None:
    with pytest.raises(UsageError) as error:
        listen(host, 0)
    assert "--host" in (error.value.hint or "")


def test_another_host_is_warned_of(process: Start, tmp_path: Path) -> None:
    run_in(tmp_path / "results")
    viewer = process("view", "--port", "0", "--host", "0.0.0.0", "--allow-host", "box.example.org")
    address = address_in(viewer)
    assert address.startswith("http://localhost:")
    port = address.rstrip("/").rpartition(":")[2]
    assert read(f"http://127.0.0.1:{port}/", Host="box.example.org:80")[0] == 200
    assert read(f"http://127.0.0.1:{port}/", Host=f"0.0.0.0:{port}")[0] == 421
    code, _, err = ended(viewer)
    assert code == 0
    assert err.startswith("warning: whoever reaches `0.0.0.0`")
    assert "box.example.org" in err


def test_names_that_are_answered() -> None:
    assert names_of("127.0.0.1") == ("127.0.0.1", "localhost", "::1")
    assert names_of("192.0.2.1", ["[2001:db8::1]", "box"])[-3:] == ("192.0.2.1", "2001:db8::1", "box")
    assert "0.0.0.0" not in names_of("0.0.0.0")
    for bad in ("", " ", "box:80", "http://box", "a/b"):
        with pytest.raises(UsageError):
            names_of("127.0.0.1", [bad])


def test_addresses_that_a_browser_understands() -> None:
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    try:
        listening = listen("::1", 0)
    except UsageError:
        pytest.skip("this machine has no IPv6")
    with listening:
        assert address_of(listening, "::1").startswith("http://[::1]:")
        assert not is_reachable(listening)


def test_results_that_are_not_there_and_runs_that_are_none_are_errors(proctor: Call, tmp_path: Path) -> None:
    found = proctor("view")
    assert (found.code, "there are no results in" in found.err) == (2, True)
    assert "--results-dir" in found.err
    (tmp_path / "empty").mkdir()
    for name in ("empty", "gone", "empty/gone"):
        found = proctor("view", name)
        assert (found.code, "is not the directory of a run" in found.err) == (2, True)


def test_runs_that_were_named_are_shown_and_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("results/e/r1", "results/e/r2", "elsewhere/a/r3", "elsewhere/r4"):
        run_in(tmp_path, name)
    assert list(results_to_show((), None).runs()) == ["e/r1", "e/r2"]
    assert list(results_to_show(("results/e/r2",), None).runs()) == ["e/r2"]
    assert list(results_to_show(("r2", "results/e/r1", "r2"), None).runs()) == ["e/r2", "e/r1"]
    assert list(results_to_show(("elsewhere/a/r3",), None).runs()) == ["r3"]
    assert list(results_to_show(("elsewhere/a/r3", "elsewhere/r4"), None).runs()) == ["a/r3", "r4"]
    mixed = results_to_show(("results/e/r1", "elsewhere/r4"), None)
    assert list(mixed.runs()) == ["results/e/r1", "elsewhere/r4"]
    assert mixed.entry("elsewhere/r4").name == "r4"
    monkeypatch.chdir(tmp_path / "elsewhere" / "r4")
    assert list(results_to_show((".",), None).runs()) == ["r4"]
    assert list(results_to_show((), ".").runs()) == ["r4"]


def test_help_and_other_commands_import_nothing_of_it(environment: None, tmp_path: Path) -> None:
    script = (
        "import sys, contextlib\nfrom proctor.cli.main import run\n"
        "run(sys.argv[1:])\n"
        "print([name for name in ('jinja2', 'starlette', 'uvicorn', 'proctor.viewer.app') if name in sys.modules])"
    )
    for arguments in (["--help"], ["view", "--help"], ["view", "gone"]):
        found = subprocess.run(
            [sys.executable, "-c", script, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert found.stdout.splitlines()[-1] == "[]", arguments


def test_a_signal_to_end_it_ends_it_without_a_word(process: Start, tmp_path: Path) -> None:
    run_in(tmp_path / "results")
    viewer = process("view", "--port", "0")
    address_in(viewer)
    assert ended(viewer, signal.SIGTERM) == (-signal.SIGTERM, "", "")
