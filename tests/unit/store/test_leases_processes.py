"""Leases between real processes: races, and owners that are killed, stopped, or zombies (spec 03 S3)."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from leases_rig import HANG_SECONDS, Worker, leases_at, workers

from proctor.errors import StoreError
from proctor.store.lease_info import Held, LeaseError
from proctor.store.owner import Living, ProcessStat, life_of, owner_of, parse_stat, this_owner

pytestmark = pytest.mark.integration


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".proctor" / "coordination.sqlite"


def holding(worker: Worker, key: str = "k") -> str:
    word, token = worker.ask("acquire", key)
    assert word == "granted"
    return token


def test_S1_of_two_that_race_exactly_one_gets_it(path: Path) -> None:
    with workers(path, 2) as racers:
        for number in range(60):
            key = f"round-{number}"
            for racer in racers:
                racer.order("acquire", key)
            answers = [racer.answer() for racer in racers]
            assert sorted(answer[0] for answer in answers) == ["granted", "held"]
            winner = [answer[0] for answer in answers].index("granted")
            assert int(answers[1 - winner][1]) == racers[winner].pid
            if number % 2:
                assert racers[winner].ask("release", key, answers[winner][1]) == ["released"]
    assert [info.key for info in leases_at(path).list()] == sorted(f"round-{number}" for number in range(0, 60, 2))


def test_S1_nobody_is_inside_with_another(path: Path) -> None:
    with workers(path, 3) as racers:
        for racer in racers:
            racer.order("rounds", "k", "25")
        assert [racer.answer() for racer in racers] == [["done", "25"]] * 3
    assert leases_at(path).list() == []


@pytest.mark.long
def test_S1_twenty_processes_on_ten_keys_and_two_on_one(path: Path) -> None:
    """All start at once with no database there: one of them makes it."""
    with workers(path, 22) as crowd:
        keys = [f"k{number % 10}" for number in range(20)] + ["shared"] * 2
        for worker, key in zip(crowd, keys, strict=True):
            worker.order("acquire", key)
        answers = [worker.answer() for worker in crowd]
        granted = [key for key, answer in zip(keys, answers, strict=True) if answer[0] == "granted"]
        assert sorted(granted) == sorted(set(keys)), "each key went to exactly one, and none waits for another key"
        first, second = (20, 21) if answers[20][0] == "granted" else (21, 20)
        assert crowd[second].ask("acquire", "shared")[0] == "held"
        assert crowd[first].ask("release", "shared", answers[first][1]) == ["released"]
        assert crowd[second].ask("acquire", "shared")[0] == "granted"


def test_S3_the_lease_of_a_killed_owner_stays_held_and_says_so(path: Path) -> None:
    with workers(path, 1) as [owner]:
        token = holding(owner)
        owner.end()
        leases = leases_at(path)
        answer = leases.try_acquire("k", "another")
        assert isinstance(answer, Held)
        assert (answer.info.owner_token, answer.life.living) == (token, Living.DEAD)
        leases.finish_recovery("k", leases.begin_recovery("k", token).holder_token)
        assert leases.list() == []


def test_S3_a_stopped_owner_is_alive(path: Path) -> None:
    with workers(path, 1) as [owner]:
        token = holding(owner)
        os.kill(owner.pid, signal.SIGSTOP)
        os.waitpid(owner.pid, os.WUNTRACED)
        leases = leases_at(path)
        [info] = leases.list()
        assert leases.held(info).life.living is Living.ALIVE
        assert f"kill -CONT {owner.pid}" in leases.held(info).life.why
        with pytest.raises(LeaseError, match="is stopped"):
            leases.begin_recovery("k", token)
        assert leases.list() == [info]
        os.kill(owner.pid, signal.SIGCONT)
        assert owner.ask("release", "k", token) == ["released"]


def test_S3_a_zombie_is_dead(path: Path) -> None:
    with workers(path, 1) as [owner]:
        token = holding(owner)
        os.kill(owner.pid, signal.SIGKILL)
        os.waitid(os.P_PID, owner.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and stays a zombie
        leases = leases_at(path)
        [info] = leases.list()
        assert leases.held(info).life.living is Living.DEAD
        assert "zombie" in leases.held(info).life.why
        assert leases.begin_recovery("k", token).owner_token == token


def test_S3_of_racing_recoveries_one_wins(path: Path) -> None:
    with workers(path, 5) as [owner, *racers]:
        tokens = {key: holding(owner, key) for key in map(str, range(10))}
        owner.end()
        for key, token in tokens.items():
            for racer in racers:
                racer.order("recover", key, token)
            assert sorted(racer.answer()[0] for racer in racers) == ["recovering", *["refused"] * 3]


def test_S3_a_process_is_told_from_one_that_gets_its_id(path: Path) -> None:
    with workers(path, 2) as [one, other]:
        mixed = owner_of(one.pid)
        assert owner_of(other.pid).process_start_ticks >= mixed.process_start_ticks
        assert life_of(mixed, this_owner()).living is Living.ALIVE
        one.end()
        assert life_of(mixed, this_owner()).living is Living.DEAD
        with pytest.raises(StoreError, match=f"cannot tell process {one.pid}"):
            owner_of(one.pid)


def test_the_database_may_be_used_from_threads(path: Path) -> None:
    leases = leases_at(path)
    answers: list[object] = []
    threads = [threading.Thread(target=lambda: answers.append(leases.try_acquire("k", "e"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_SECONDS)
    assert sorted(type(answer).__name__ for answer in answers) == ["Granted"] + ["Held"] * 7


# ------------------------------------------------------------------------------------------------------------- /proc


@given(st.binary(max_size=16), st.sampled_from("RSDZTtXI"), st.integers(1, 1000), st.integers(0, 2**40))
@settings(max_examples=200)
def test_any_name_of_a_process_is_read(name: bytes, state: str, threads: int, start: int) -> None:
    """A program chooses its name: blanks, parentheses, line breaks."""
    fields = [state, *["0"] * 16, str(threads), "0", str(start), *["0"] * 30]
    line = b"12 (" + name + b") " + " ".join(fields).encode() + b"\n"
    assert parse_stat(line) == ProcessStat(state, threads, start)


@pytest.mark.parametrize("line", [b"", b"12 (a) S 1 2", b"12 a S" + b" 1" * 40])
def test_what_is_no_line_of_a_process_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match="no line"):
        parse_stat(line)


def test_a_process_whose_first_thread_ended_is_alive() -> None:
    assert ProcessStat("Z", threads=1, start_ticks=1).ended
    assert not ProcessStat("Z", threads=2, start_ticks=1).ended
