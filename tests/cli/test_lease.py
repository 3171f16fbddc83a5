"""`proctor lease`: what it shows, and that a recovery is asked for in every word before it changes anything."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import FileIO
from pathlib import Path
from typing import Any

import pytest
from program import HANG_SECONDS, SUPPORT, Ended

import proctor as package
from proctor.cli.teardown import run_teardown
from proctor.store.coordination import coordination_path
from proctor.store.lease_info import Granted, Teardown
from proctor.store.leases import Leases
from proctor.store.owner import Owner, this_owner

Proctor = Callable[..., Ended]
Start = Callable[..., "subprocess.Popen[str]"]

AT = 1_796_056_235.0
TOKEN = "0123456789abcdef"
CONFIRM = ["--confirm-owner-terminated", "--confirm-remote-quiesced"]

HOOKS = """
import asyncio, os, signal, sys, time
from pathlib import Path

def note(word):
    with open("hooks.log", "a") as file:
        file.write(word + "\\n")

def clean():
    note(f"clean {os.environ['PROCTOR_LEASE_KEY']} of {os.environ['PROCTOR_EXPERIMENT']}")
    print("swept the floor")

async def clean_async():
    await asyncio.sleep(0)
    note("async")

def broken():
    note("broken")
    raise RuntimeError("no route to the server")

def leaves():
    sys.exit(0)

def vanishes():
    os._exit(0)

def killed():
    os.kill(os.getpid(), signal.SIGKILL)

def orphan():
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(1000)

def hangs():
    while True:
        time.sleep(60)

def waits():
    note("began")
    open("began").read()  # a pipe: this returns when the test has opened its other end, and closed it
    note("ended")
"""


class StillClock:
    def wall(self) -> float:
        return AT


@pytest.fixture(autouse=True)
def project(environment: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with hooks; programs that are started use the package that is tested."""
    source = Path(package.__file__).parents[1]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (SUPPORT, source))))
    (tmp_path / "proctor.yaml").touch()
    (tmp_path / "hooks.py").write_text(HOOKS)
    return tmp_path


def dead() -> Owner:
    owner = this_owner()
    return replace(owner, pid=2**22 + 1)


def lease(
    project: Path, owner: Owner | None = None, *, key: str = "k", teardown: Teardown | None = None, token: str = TOKEN
) -> Leases:
    leases = Leases(coordination_path(project), owner or dead(), StillClock())
    answer = leases.try_acquire(key, "bench/harness", run="results/x/1", teardown=teardown, token=token)
    assert isinstance(answer, Granted)
    return leases


def log(project: Path) -> list[str]:
    path = project / "hooks.log"
    return path.read_text().splitlines() if path.exists() else []


def recover(key: str = "k", token: str = TOKEN) -> list[str]:
    return ["lease", "recover", key, "--owner-token", token, *CONFIRM]


# ------------------------------------------------------------------------------------------------------------ showing


def test_nothing_is_held(proctor: Proctor, project: Path) -> None:
    ended = proctor("lease", "list")
    assert (ended.code, ended.out) == (0, "")
    assert "no lease is held" in ended.err
    assert proctor("lease", "list", "--json").out == "[]\n"
    assert not (project / ".proctor").exists()


def test_S3_list_shows_every_lease_from_anywhere_in_the_project(
    proctor: Proctor, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease(project, key="b")
    lease(project, this_owner(), key="a", token="a" * 16)
    (project / "deep").mkdir()
    monkeypatch.chdir(project / "deep")
    ended = proctor("lease", "list")
    assert ended.code == 0
    header, first, second = ended.out.splitlines()
    assert header.split() == ["KEY", "STATE", "HOLDER", "HOST", "PID", "STARTED", "HEARTBEAT", "TOKEN", "EXPERIMENT"]
    host, moment = os.uname().nodename, "2026-11-30T16:30:35Z"
    assert first.split() == ["a", "held", "alive", host, str(os.getpid()), moment, moment, "a" * 16, "bench/harness"]
    assert second.split() == ["b", "held", "dead", host, str(2**22 + 1), moment, moment, TOKEN, "bench/harness"]
    assert ended.err.splitlines() == [
        "hint: lease `b` is held by a process that is dead; `proctor lease inspect b` says what to do"
    ]


def test_S3_inspect_shows_a_lease_and_what_to_do(proctor: Proctor, project: Path) -> None:
    lease(project, key="a key", teardown=Teardown("hooks:clean", 90)).mark_failed_teardown("a key", TOKEN, "\x1b[2J no")
    ended = proctor("lease", "inspect", "a key")
    assert ended.code == 0
    shown = {line[:16].strip(): line[16:] for line in ended.out.splitlines()}
    assert shown.pop("started").startswith("2026-11-30T16:30:35Z (")
    assert shown.pop("last heartbeat").startswith("2026-11-30T16:30:35Z (")
    assert shown == {
        "key": "a key",
        "experiment": "bench/harness",
        "run": "results/x/1",
        "state": "teardown failed",
        "problem": "\N{REPLACEMENT CHARACTER}[2J no",
        "owner token": TOKEN,
        "host": os.uname().nodename,
        "pid": str(2**22 + 1),
        "teardown": "hooks:clean, within 1m30s",
        "holder": f"dead (there is no process {2**22 + 1} any more)",
    }
    command = f"proctor lease recover 'a key' --owner-token {TOKEN} {' '.join(CONFIRM)}"
    assert command in ended.err


def test_S3_json_has_it_all(proctor: Proctor, project: Path) -> None:
    leases = lease(project, replace(dead(), host="elsewhere"), teardown=Teardown("hooks:clean"))
    info = Leases(leases.path, dead(), StillClock()).begin_recovery("k", TOKEN)
    [listed] = json.loads(proctor("lease", "list", "--json").out)
    shown: dict[str, Any] = json.loads(proctor("lease", "inspect", "k", "--json").out)
    assert shown == listed
    assert shown["key"] == "k"
    assert shown["owner_token"] == TOKEN
    assert (shown["host"], shown["pid"]) == ("elsewhere", 2**22 + 1)
    assert shown["started_at"] == shown["heartbeat_at"] == "2026-11-30T16:30:35.000000Z"
    assert shown["state"] == "recovering"
    assert shown["teardown"] == {"path": "hooks:clean", "timeout_seconds": 30.0}
    assert shown["recovery"]["owner"]["host"] == os.uname().nodename
    assert shown["holder"] == {
        "token": info.holder_token, "living": "dead", "why": f"there is no process {2**22 + 1} any more",
    }  # fmt: skip
    assert info.holder_token in shown["advice"]
    text = proctor("lease", "inspect", "k").out
    assert f"its token       {info.holder_token}" in text


@pytest.mark.parametrize(
    ("arguments", "said", "hint"),
    [
        (["inspect", "team/cohort-b"], "unknown lease `team/cohort-b`; did you mean `team/cohort-a`?", "lists all"),
        (["inspect", ""], "'' cannot be the key of shared state", "printable"),
        (recover("team/cohort-b")[1:], "unknown lease `team/cohort-b`", "proctor lease list"),
        (["recover", "team/cohort-a", *CONFIRM], "missing option", "--help"),
        (["inspct", "k"], "unknown command `lease inspct`; did you mean `lease inspect`?", "proctor lease --help"),
        (["list", "k"], "unexpected extra argument", "--help"),
    ],
)
def test_02_what_is_wrong_is_said_and_exits_2(
    proctor: Proctor, project: Path, arguments: list[str], said: str, hint: str
) -> None:
    lease(project, key="team/cohort-a")
    ended = proctor("lease", *arguments)
    assert ended.code == 2
    assert ended.out == ""
    first, *_, last = ended.err.splitlines()
    assert said in first
    assert last.startswith("hint: ")
    assert hint in last


def test_a_damaged_database_is_said_and_exits_3(proctor: Proctor, project: Path) -> None:
    (project / ".proctor").mkdir()
    coordination_path(project).write_text("no database " * 1000)
    for arguments in (["list"], ["inspect", "k"], recover()[1:]):
        ended = proctor("lease", *arguments)
        assert ended.code == 3
        assert "error: cannot read the coordination database" in ended.err
        assert "hint: make sure that no run with shared state is alive" in ended.err
        assert "Traceback" not in ended.err


# --------------------------------------------------------------------------------------------------------- recovering


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--owner-token", TOKEN], "needs `--confirm-owner-terminated` and `--confirm-remote-quiesced`"),
        (["--owner-token", TOKEN, CONFIRM[0]], "needs `--confirm-remote-quiesced`:"),
        (["--owner-token", TOKEN, CONFIRM[1]], "needs `--confirm-owner-terminated`:"),
        (["--owner-token", "f" * 16, *CONFIRM], f"token `{'f' * 16}` does not hold lease `k`"),
        (["--owner-token", "", *CONFIRM], "token `` does not hold lease `k`"),
    ],
)
def test_S3_without_token_and_both_confirmations_nothing_changes(
    proctor: Proctor, project: Path, arguments: list[str], said: str
) -> None:
    leases = lease(project, teardown=Teardown("hooks:clean"))
    before = leases.list()
    ended = proctor("lease", "recover", "k", *arguments)
    assert ended.code == 2
    assert said in ended.err
    assert "hint: " in ended.err
    assert leases.list() == before
    assert log(project) == []


def test_S3_the_token_of_an_earlier_owner_is_stale(proctor: Proctor, project: Path) -> None:
    leases = lease(project)
    leases.release("k", TOKEN)
    lease(project, token="b" * 16)
    before = leases.list()
    assert proctor(*recover()).code == 2
    assert leases.list() == before


@pytest.mark.integration
@pytest.mark.parametrize("stopped", [False, True])
def test_S3_an_owner_that_is_alive_on_this_host_is_not_recovered(
    proctor: Proctor, project: Path, stopped: bool
) -> None:
    script = (
        "import sys; from pathlib import Path; from proctor.runtime.clock import SystemClock\n"
        "from proctor.store.leases import Leases; from proctor.store.owner import this_owner\n"
        "leases = Leases(Path(sys.argv[1]), this_owner(), SystemClock())\n"
        "print(leases.try_acquire('k', 'e').token, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, coordination_path(project)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as owner:  # fmt: skip
        assert owner.stdout is not None
        token = owner.stdout.readline().strip()
        if stopped:
            owner.send_signal(signal.SIGSTOP)
            os.waitpid(owner.pid, os.WUNTRACED)
        leases = Leases(coordination_path(project), this_owner(), StillClock())
        before = leases.list()
        ended = proctor(*recover(token=token))
        assert ended.code == 2
        assert f"its holder is alive: process {owner.pid} {'is stopped' if stopped else 'runs'}" in ended.err
        assert "hint: wait for process" in ended.err
        assert leases.list() == before
        owner.kill()
        owner.wait(HANG_SECONDS)
        assert proctor(*recover(token=token)).code == 0
    assert leases.list() == []


@pytest.mark.parametrize("owner", [dead(), replace(dead(), host="elsewhere")], ids=["dead", "elsewhere"])
def test_S3_a_lease_without_a_teardown_is_freed(proctor: Proctor, project: Path, owner: Owner) -> None:
    leases = lease(project, owner)
    ended = proctor(*recover())
    assert (ended.code, ended.out) == (0, "")
    assert ended.err == "lease `k` is free: it had no teardown\n"
    assert leases.list() == []


@pytest.mark.integration
def test_S3_the_teardown_runs_in_the_project_and_then_the_lease_is_free(
    proctor: Proctor, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases = lease(project, teardown=Teardown("hooks:clean"))
    (project / "deep").mkdir()
    monkeypatch.chdir(project / "deep")
    ended = proctor(*recover())
    assert ended.code == 0
    assert ended.err.splitlines() == ["  swept the floor", "lease `k` is free: teardown `hooks:clean` succeeded"]
    assert log(project) == ["clean k of bench/harness"]
    assert leases.list() == []
    lease(project, teardown=Teardown("hooks:clean_async"))
    assert proctor(*recover()).code == 0
    assert log(project) == ["clean k of bench/harness", "async"]


@pytest.mark.integration
@pytest.mark.parametrize(
    ("hook", "said"),
    [
        ("hooks:broken", "it ended with status 1"),
        ("hooks:leaves", "it ended with status 1"),
        ("hooks:vanishes", "it ended with status 0"),
        ("hooks:killed", "it was ended by signal 9"),
        ("hooks:missing", "it ended with status 1"),
        ("no_such_module:clean", "it ended with status 1"),
    ],
)
def test_S3_a_failing_teardown_changes_nothing(proctor: Proctor, project: Path, hook: str, said: str) -> None:
    leases = lease(project, teardown=Teardown(hook))
    before = leases.list()
    ended = proctor(*recover())
    assert ended.code == 3
    assert f"error: teardown `{hook}` of lease `k` failed: {said}; the lease is held as before" in ended.err
    assert "hint: " in ended.err
    assert leases.list() == before
    if hook == "hooks:broken":
        assert "RuntimeError: no route to the server" in ended.err
        (project / "hooks.py").write_text(HOOKS.replace("raise RuntimeError", "str"))
        assert proctor(*recover()).code == 0, "mended, the same command works"


@pytest.mark.integration
def test_S6_a_teardown_that_hangs_is_ended_at_its_limit(proctor: Proctor, project: Path) -> None:
    leases = lease(project, teardown=Teardown("hooks:hangs", 0.5))
    before = leases.list()
    ended = proctor(*recover())
    assert ended.code == 3
    assert "it did not end within 0.5 s, and was ended" in ended.err
    assert leases.list() == before


# -------------------------------------------------------------------------------------------------- several at a time


@pytest.fixture
def began(project: Path) -> Iterator[Callable[[], FileIO]]:
    """Called, it returns when the teardown `waits` has begun, with what that waits for to be closed."""
    os.mkfifo(project / "began")
    gates: list[FileIO] = []

    def wait() -> FileIO:
        gates.append(FileIO(project / "began", "w"))  # opened when the teardown has opened its own end
        return gates[-1]

    yield wait
    for gate in gates:
        gate.close()


@pytest.mark.integration
def test_S3_of_two_recoveries_at_once_one_wins(
    process: Start, proctor: Proctor, project: Path, began: Callable[[], FileIO]
) -> None:
    leases = lease(project, teardown=Teardown("hooks:waits"))
    with process(*recover()) as first:
        gate = began()
        late = proctor(*recover())
        assert late.code == 2
        assert f"token `{TOKEN}` does not hold lease `k` any more: it is being recovered" in late.err
        [info] = leases.list()
        assert proctor(*recover(token=info.holder_token)).code == 2, "the first one is alive"
        gate.close()
        out, err = first.communicate(timeout=HANG_SECONDS)
    assert (first.returncode, out) == (0, "")
    assert "lease `k` is free" in err
    assert log(project) == ["began", "ended"]
    assert leases.list() == []


@pytest.mark.integration
def test_S3_recoveries_that_start_together_run_one_teardown(process: Start, project: Path) -> None:
    leases = lease(project, teardown=Teardown("hooks:clean"))
    racers = [process(*recover()) for _ in range(3)]
    for racer in racers:
        racer.communicate(timeout=HANG_SECONDS)
    assert sorted(racer.returncode for racer in racers) == [0, 2, 2]
    assert log(project) == ["clean k of bench/harness"]
    assert leases.list() == []


@pytest.mark.integration
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_S3_an_interrupted_recovery_changes_nothing(
    process: Start, project: Path, began: Callable[[], FileIO], number: int, code: int
) -> None:
    leases = lease(project, teardown=Teardown("hooks:waits"))
    before = leases.list()
    with process(*recover()) as started:
        began()
        started.send_signal(number)
        _, err = started.communicate(timeout=HANG_SECONDS)
    assert started.returncode == code
    assert "interrupted; lease `k` is held as before" in err
    assert leases.list() == before
    assert log(project) == ["began"]


@pytest.mark.integration
def test_S3_a_killed_recovery_is_recovered_with_its_own_token(
    process: Start, proctor: Proctor, project: Path, began: Callable[[], FileIO]
) -> None:
    leases = lease(project, teardown=Teardown("hooks:waits"))
    with process(*recover()) as started:
        gate = began()
        started.kill()
        started.communicate(timeout=HANG_SECONDS)
    poll = select.poll()
    poll.register(gate, select.POLLERR)
    assert poll.poll(HANG_SECONDS * 1000), "the teardown does not outlive the recovery"
    [info] = leases.list()
    assert info.state == "recovering"
    (project / "hooks.py").write_text(HOOKS.replace("def waits", "def unused").replace("def clean()", "def waits()"))
    assert proctor(*recover()).code == 2
    assert info.holder_token in proctor("lease", "inspect", "k").err
    assert proctor(*recover(token=info.holder_token)).code == 0
    assert log(project) == ["began", "clean k of bench/harness"]
    assert leases.list() == []


@pytest.mark.integration
def test_teardowns_that_run_side_by_side_do_not_end_each_other(project: Path, began: Callable[[], FileIO]) -> None:
    async def both() -> list[str | None]:
        names = {"PROCTOR_LEASE_KEY": "k", "PROCTOR_EXPERIMENT": "e"}
        slow = asyncio.create_task(run_teardown(Teardown("hooks:waits", HANG_SECONDS), project, names))
        gate = await asyncio.to_thread(began)
        quick = await run_teardown(Teardown("hooks:clean", HANG_SECONDS), project, names)
        lost = await run_teardown(Teardown("hooks:orphan", HANG_SECONDS), project, names)
        gate.close()
        return [quick.problem, lost.problem, (await slow).problem]

    assert asyncio.run(both()) == [None, "supervisor was killed by signal 9", None]
    assert log(project) == ["began", "clean k of e", "ended"]
