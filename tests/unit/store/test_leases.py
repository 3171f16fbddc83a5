"""Leases in one process: who gets one, how it ends, and what changes nothing (spec 03 S1-S5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from leases_rig import StillClock, elsewhere, gone, leases_at

from proctor.errors import StoreError, UsageError
from proctor.store import owner as owner_of_this
from proctor.store.lease_info import (
    POLL_SECONDS_MAX,
    Granted,
    Held,
    LeaseError,
    LeaseState,
    LeaseWait,
    Teardown,
    advice,
    checked_key,
    recover_command,
)
from proctor.store.leases import Leases, new_token
from proctor.store.owner import Living, Owner, owner_if_known, this_owner

KEY = "team/cohort-a"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".proctor" / "coordination.sqlite"


def taken(leases: Leases, key: str = KEY, **more: object) -> str:
    answer = leases.try_acquire(key, "bench/harness", **more)  # type: ignore[arg-type]
    assert isinstance(answer, Granted)
    return answer.token


# ------------------------------------------------------------------------------------------------------- the owner


def test_S1_a_key_is_held_once(path: Path) -> None:
    clock = StillClock(1000.0)
    leases = leases_at(path, clock=clock)
    token = taken(leases, run="20261130_163035", teardown=Teardown("hooks:clean", 5))
    clock.now = 1060.0
    answer = leases.try_acquire(KEY, "another")
    assert isinstance(answer, Held)
    info = answer.info
    assert (info.key, info.experiment, info.run, info.owner_token) == (KEY, "bench/harness", "20261130_163035", token)
    assert (info.owner, info.started_at, info.heartbeat_at) == (this_owner(), 1000.0, 1000.0)
    assert (info.state, info.teardown, info.recovery) == (LeaseState.HELD, Teardown("hooks:clean", 5), None)
    assert answer.life.living is Living.ALIVE


def test_S1_other_keys_are_free(path: Path) -> None:
    leases = leases_at(path)
    tokens = {key: taken(leases, key) for key in ("b", "a", "a/b", "A")}
    assert len(set(tokens.values())) == 4
    assert [info.key for info in leases.list()] == sorted(tokens)


def test_S2_released_it_is_free_for_the_next(path: Path) -> None:
    leases = leases_at(path)
    first = taken(leases)
    leases.release(KEY, first)
    assert leases.inspect(KEY) is None
    assert taken(leases) != first


def test_a_question_asked_again_with_its_token_is_granted_again(path: Path) -> None:
    """So a caller that was interrupted before it heard the answer knows what it has."""
    leases, token = leases_at(path), new_token()
    assert taken(leases, token=token) == token
    assert taken(leases, token=token) == token
    assert isinstance(leases.try_acquire(KEY, "another", token=new_token()), Held)


@pytest.mark.parametrize(
    "change",
    [
        lambda leases, token: leases.release(KEY, token),
        lambda leases, token: leases.mark_failed_teardown(KEY, token, "no route"),
        lambda leases, token: leases.begin_recovery(KEY, token),
        lambda leases, token: leases.finish_recovery(KEY, token),
        lambda leases, token: leases.abort_recovery(KEY, token),
    ],
    ids=["release", "mark", "begin", "finish", "abort"],
)
@pytest.mark.parametrize("recovering", [False, True])
def test_S3_a_wrong_token_changes_nothing(path: Path, change: Callable[[Leases, str], None], recovering: bool) -> None:
    owner_token = taken(leases_at(path, gone()))
    leases = leases_at(path)
    if recovering:
        leases.begin_recovery(KEY, owner_token)
    before = leases.list()
    for wrong in (new_token(), "", owner_token if recovering else owner_token.upper() + "x"):
        with pytest.raises(LeaseError) as raised:
            change(leases, wrong)
        assert raised.value.hint
        assert leases.list() == before


def test_a_key_that_nobody_holds_cannot_be_released(path: Path) -> None:
    leases = leases_at(path)
    with pytest.raises(LeaseError, match="nobody holds it"):
        leases.release(KEY, new_token())
    assert not path.exists(), "looking makes no database"
    token = taken(leases)
    leases.release(KEY, token)
    with pytest.raises(LeaseError, match="nobody holds it"):
        leases.release(KEY, token)


def test_S3_a_failed_teardown_keeps_the_lease(path: Path) -> None:
    leases = leases_at(path)
    token = taken(leases)
    leases.mark_failed_teardown(KEY, token, "the server said 500 \ud800")
    with pytest.raises(LeaseError, match="its teardown failed: the server said 500"):
        leases.release(KEY, token)
    answer = leases.try_acquire(KEY, "another")
    assert isinstance(answer, Held)
    assert answer.info.state is LeaseState.TEARDOWN_FAILED
    with pytest.raises(LeaseError, match="alive"):
        leases.begin_recovery(KEY, token)
    assert "then has to be recovered" in advice(answer.info, answer.life)


def test_S3_heartbeats_are_noted_and_mean_nothing(path: Path) -> None:
    clock = StillClock(1000.0)
    leases = leases_at(path, clock=clock)
    tokens = [taken(leases, key) for key in "ab"]
    clock.now = 9_000_000.0
    assert leases.heartbeat(tokens[:1]) == frozenset()
    assert [info.heartbeat_at for info in leases.list()] == [9_000_000.0, 1000.0]
    assert isinstance(leases.try_acquire("b", "another"), Held), "an old heartbeat frees nothing"
    assert leases.heartbeat([]) == frozenset()


def test_a_heartbeat_says_which_leases_are_lost(path: Path) -> None:
    there, here = leases_at(path, elsewhere()), leases_at(path)
    kept, lost, freed = (taken(there, key) for key in ("kept", "lost", "freed"))
    here.begin_recovery("lost", lost)
    here.finish_recovery("freed", here.begin_recovery("freed", freed).holder_token)
    assert there.heartbeat([kept, lost, freed, "never"]) == {lost, freed, "never"}


# ---------------------------------------------------------------------------------------------------- who is gone


def test_who_can_do_without_an_owner_is_told_that_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert owner_if_known() == this_owner()
    monkeypatch.setattr(owner_of_this, "_BOOT_ID", "/proc/not-there")
    assert owner_if_known() is None
    with pytest.raises(StoreError, match="cannot tell process"):
        this_owner()


@pytest.mark.parametrize(
    ("owner", "living", "why"),
    [
        (this_owner(), Living.ALIVE, "runs on this host"),
        (gone(), Living.DEAD, "is another one by now"),
        (elsewhere(), Living.UNKNOWN, "another-host"),
        (replace(this_owner(), boot_id="earlier"), Living.DEAD, "was started anew"),
        (replace(this_owner(), pid_namespace="pid:[1]"), Living.UNKNOWN, "another container"),
        (replace(this_owner(), pid=2**22 + 1), Living.DEAD, "no process"),
    ],
    ids=["alive", "pid-reused", "other-host", "rebooted", "container", "no-process"],
)
def test_S3_nobody_takes_over(path: Path, owner: Owner, living: Living, why: str) -> None:
    token = taken(leases_at(path, owner))
    answer = leases_at(path, clock=StillClock(1e12)).try_acquire(KEY, "another")
    assert isinstance(answer, Held)
    assert (answer.info.owner_token, answer.life.living) == (token, living)
    assert why in answer.life.why
    said = advice(answer.info, answer.life)
    assert (recover_command(answer.info) in said) == (living is not Living.ALIVE)


# ------------------------------------------------------------------------------------------------------ recovering


@pytest.mark.parametrize("owner", [gone(), elsewhere()], ids=["dead", "unknown"])
def test_S3_a_recovery_frees_the_lease(path: Path, owner: Owner) -> None:
    token = taken(leases_at(path, owner), teardown=Teardown("hooks:clean"))
    leases = leases_at(path)
    info = leases.begin_recovery(KEY, token)
    assert (info.state, info.holder, info.teardown) == (LeaseState.RECOVERING, this_owner(), Teardown("hooks:clean"))
    assert leases.inspect(KEY) == info
    assert isinstance(leases.try_acquire(KEY, "another"), Held)
    leases.finish_recovery(KEY, info.holder_token)
    assert leases.list() == []
    taken(leases)


def test_S3_an_owner_that_is_alive_is_not_recovered(path: Path) -> None:
    leases = leases_at(path)
    token = taken(leases)
    before = leases.list()
    with pytest.raises(LeaseError, match="its holder is alive") as raised:
        leases.begin_recovery(KEY, token)
    assert "wait for process" in (raised.value.hint or "")
    assert leases.list() == before


def test_S3_a_recovery_given_up_changes_nothing(path: Path) -> None:
    owner = leases_at(path, gone())
    token = taken(owner, teardown=Teardown("hooks:clean"))
    owner.mark_failed_teardown(KEY, token, "no route")
    leases = leases_at(path)
    before = leases.list()
    info = leases.begin_recovery(KEY, token)
    assert leases.list() != before
    leases.abort_recovery(KEY, info.holder_token)
    assert leases.list() == before
    leases.begin_recovery(KEY, token)


def test_S3_of_two_recoveries_one_wins(path: Path) -> None:
    token = taken(leases_at(path, gone()))
    first, second = leases_at(path), leases_at(path, elsewhere())
    won = first.begin_recovery(KEY, token)
    with pytest.raises(LeaseError, match="any more: it is being recovered"):
        second.begin_recovery(KEY, token)
    with pytest.raises(LeaseError, match="is alive"):
        leases_at(path).begin_recovery(KEY, won.holder_token)
    first.finish_recovery(KEY, won.holder_token)
    with pytest.raises(LeaseError, match="nobody holds"):
        second.begin_recovery(KEY, token)


def test_S3_the_recovery_of_a_process_that_died_is_recovered_with_its_own_token(path: Path) -> None:
    token = taken(leases_at(path, elsewhere()))
    dead = leases_at(path, gone()).begin_recovery(KEY, token)
    leases = leases_at(path)
    with pytest.raises(LeaseError):
        leases.begin_recovery(KEY, token)
    info = leases.begin_recovery(KEY, dead.holder_token)
    with pytest.raises(LeaseError, match="any more"):
        leases.finish_recovery(KEY, dead.holder_token)
    leases.finish_recovery(KEY, info.holder_token)
    assert leases.list() == []


def test_S3_an_abandoned_recovery_does_not_hide_that_the_owner_is_alive(path: Path) -> None:
    """Started on another host, where nobody could know."""
    token = taken(leases_at(path))
    abandoned = leases_at(path, elsewhere()).begin_recovery(KEY, token)
    with pytest.raises(LeaseError, match="is alive"):
        leases_at(path).begin_recovery(KEY, abandoned.holder_token)


def test_an_owner_cannot_release_what_is_being_recovered(path: Path) -> None:
    """It was believed dead; were it to release now, a third one could start while the teardown runs."""
    owner = leases_at(path, elsewhere())
    token = taken(owner)
    leases_at(path).begin_recovery(KEY, token)
    with pytest.raises(LeaseError, match="being recovered"):
        owner.release(KEY, token)
    assert isinstance(leases_at(path).try_acquire(KEY, "another"), Held)


# ------------------------------------------------------------------------------------------------- keys and waiting


@pytest.mark.parametrize("key", ["", " a", "a ", "a\nb", "a\x1b[2J", "-a", "\ud800", "a" * 201, "\u202ea"])
def test_a_key_that_cannot_be_read_is_refused(path: Path, key: str) -> None:
    with pytest.raises(UsageError, match="cannot be the key"):
        leases_at(path).try_acquire(key, "e")
    assert not path.exists()


def test_two_spellings_of_one_letter_are_one_key(path: Path) -> None:
    leases = leases_at(path)
    taken(leases, "caf\u00e9")
    assert isinstance(leases.try_acquire("cafe\u0301", "e"), Held)


@given(st.text(max_size=40))
@settings(max_examples=200)
def test_a_checked_key_stays_as_it_is(key: str) -> None:
    try:
        once = checked_key(key)
    except UsageError:
        return
    assert checked_key(once) == once


@pytest.mark.parametrize("path_", ["", "hooks", "hooks:", ":clean", "a b:c", "a:b()", "../a:b", "a:b;c"])
def test_a_teardown_that_is_no_dotted_path_is_refused(path_: str) -> None:
    with pytest.raises(UsageError, match="not of the form"):
        Teardown(path_)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_a_teardown_has_a_limit(seconds: float) -> None:
    with pytest.raises(UsageError, match="not a finite number"):
        Teardown("a:b", seconds)
    assert Teardown("a:b").timeout_seconds == 30  # spec 03 S6


@given(st.none() | st.floats(0, 5000), st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=50))
@settings(max_examples=200)
def test_S2_waiting_ends_at_its_limit_and_not_before(limit: float | None, draws: list[float]) -> None:
    wait, waited = LeaseWait(limit), 0.0
    for draw in draws:
        delay = wait.next_poll(waited, draw)
        if delay is None:
            assert limit is not None
            assert waited >= limit
            return
        assert 0 < delay <= POLL_SECONDS_MAX
        waited += delay
        assert limit is None or waited <= limit * (1 + 1e-9)


def test_S2_how_long_a_run_waits_that_was_not_told() -> None:
    assert LeaseWait.default(on_terminal=True).limit_seconds is None
    assert LeaseWait.default(on_terminal=False).limit_seconds == 600
    assert LeaseWait(0).next_poll(0.0, 0.5) is None
    assert LeaseWait(None).next_poll(1e9, 0.0) == POLL_SECONDS_MAX / 2
