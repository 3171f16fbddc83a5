"""A run that is killed at any instant loses nothing that it had shown, and buys nothing twice (spec 04 R1-R5, 10 I2).

A seed that fails can be tried alone: `pytest tests/integration/test_kill.py -k "seed7]"`, and more of them with
`PROCTOR_KILL_SEEDS=50`.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from kill_rig import SLOTS, Invocation, Moment, nothing_is_left

from proctor.store.record_check import check_record

SEEDS = range(int(os.environ.get("PROCTOR_KILL_SEEDS", "1")))
LINES = {True: 2000, False: 250}
"""About so many lines an invocation shows, as JSON and as plain text."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Invocation:
    """A run that nobody interrupts."""
    run = Invocation(tmp_path_factory.mktemp("whole"))
    assert run.wait() == 0, run.said
    assert sum(run.turns.values()) > SLOTS, "some attempts took a second turn"
    assert run.summary["grading_only_tries"] > 0
    assert len(run.sealed) == SLOTS
    return run


def never_again(earlier: Sequence[Invocation], later: Invocation) -> None:
    """What was shown as done, or has its work saved, is not made again; everything else at most once more."""
    for one in earlier:
        assert one.shown <= one.sealed.keys() | one.filled.keys(), "what was shown is on the disk"
    over = set[str]().union(*(one.sealed.keys() | one.checkpointed for one in earlier))
    assert not later.turns.keys() & over
    assert all(len(attempts) == 1 for attempts in later.attempts.values())


def completes(earlier: Sequence[Invocation], whole: Invocation) -> None:
    """Let `--reuse` make what the earlier invocations of a folder left; check that the end is that of a whole run."""
    folder = earlier[0].folder
    assert not (check_record(folder / "results").differences if (folder / "results").is_dir() else ())
    last = Invocation(folder, "--reuse")
    assert last.wait() == 0, last.said
    never_again(earlier, last)
    sealed = set[str]().union(*(one.sealed for one in earlier))
    assert last.filled.keys() == sealed, "each finished attempt is reused"
    assert last.filled | last.sealed == whole.sealed
    missing = whole.sealed.keys() - sealed - set[str]().union(*(one.checkpointed for one in earlier))
    assert last.turns.keys() == missing, "each of the others is made"
    for name in ("rate", "mean_score", "headline", "scored", "base", "completion"):
        assert last.summary[name] == whole.summary[name]
    nothing_is_left(folder)
    checked = check_record(folder / "results")
    assert checked.right, checked


def tear(run: Invocation, die: random.Random) -> None:
    """Leave the beginning of another line at the end of a journal, as a kill in the middle of a write does."""
    if run.directory is not None:
        journal = run.directory / "journal.jsonl"
        line = die.choice(journal.read_bytes().splitlines() or [b"{}"])
        with journal.open("ab") as file:
            file.write(line[: die.randrange(1, len(line) + 1)])


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"seed{seed}")
def test_10_I2_nothing_is_lost_and_nothing_is_bought_twice(seed: int, whole: Invocation, tmp_path: Path) -> None:
    die = random.Random(f"kill {seed}")
    as_json = seed % 4 != 1
    moment = Moment.drawn(die, LINES[as_json])
    killed = Invocation(tmp_path, as_json=as_json)
    died = killed.kill(moment)
    print(f"{moment}, killed: {died}; {len(killed.shown)} shown, {len(killed.sealed)} sealed")
    if die.random() < 0.5:  # 04 R5
        tear(killed, die)
    nothing_is_left(tmp_path)
    earlier = [killed]
    if seed % 3 == 0:  # the one that reuses is killed as well: what a killed run refers to counts
        again = Invocation(tmp_path, "--reuse")
        again.kill(Moment.drawn(die, LINES[True]))
        never_again(earlier, again)
        earlier.append(again)
    completes(earlier, whole)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(max(1, len(SEEDS) // 10)), ids=lambda seed: f"seed{seed}")
def test_10_I2_two_invocations_at_once_that_are_killed(seed: int, whole: Invocation, tmp_path: Path) -> None:
    die = random.Random(f"two {seed}")
    both = [Invocation(tmp_path), Invocation(tmp_path)]
    for one in both:
        one.kill(Moment.drawn(die, LINES[True]))
    nothing_is_left(tmp_path)
    completes(both, whole)


@pytest.mark.long
def test_04_what_a_killed_run_refers_to_counts(whole: Invocation, tmp_path: Path) -> None:
    """`--reuse=RUN_ID` takes what that run had reused of others as well, and nothing else (spec 04)."""
    first = Invocation(tmp_path)
    assert first.kill(Moment(800, 0.0))
    second = Invocation(tmp_path, "--reuse")
    assert second.kill(Moment(len(first.sealed) + 4, 0.0)), "soon after it took over what is finished"
    assert second.filled.keys() == first.sealed.keys() != set()
    last = Invocation(tmp_path, f"--reuse={second.name}")
    assert last.wait() == 0, last.said
    never_again([second], last)
    assert last.filled.keys() == first.sealed.keys() | second.sealed.keys()
    assert last.filled | last.sealed == whole.sealed
    assert check_record(tmp_path / "results").right
