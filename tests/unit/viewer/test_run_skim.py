"""What a comparison skims of a journal is what the whole fold says of it; what is out of the ordinary is left to it."""

from __future__ import annotations

import random
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "support"))
from journals import Invocation

from proctor.model.attempt import Grade, Outcome, TryResult, Usage, Verdict
from proctor.model.events import (
    EVENT_TYPES,
    AttemptSealed,
    Completion,
    Event,
    Phase,
    PhaseEnded,
    PhaseStarted,
    RunEnded,
    RunStarted,
    SlotFilled,
    TryEnded,
    TryStarted,
)
from proctor.report.compare import Side, side_of
from proctor.report.view import RunView
from proctor.store.codec import encode
from proctor.store.reader import read_journal
from proctor.testing.worlds import world_of
from proctor.viewer.run_read import RunFold
from proctor.viewer.run_skim import compared, skimmed

Journal = list[tuple[Event, float]]


def journals(seed: int) -> list[Journal]:
    """Return the journals of an invocation, whose tries have all used something."""
    rng = random.Random(seed)
    found: defaultdict[str, Journal] = defaultdict(list)
    for step in Invocation(world_of(seed)).steps():
        for name, event, at in step:
            one = event
            if isinstance(one, TryEnded):
                used = [Usage(1, 10, cost_usd=rng.choice([0.25, 1.0, None] if seed % 2 else [0.5])) for _ in range(2)]
                grade = one.result.grade
                if grade is not None:
                    grade = replace(grade, sub_scores=rng.choice([{}, {"a": rng.uniform(-3, 3)}, {"a": 1.0, "b": 0.0}]))
                one = replace(one, result=replace(one.result, grade=grade, usage=used[0], grader_usage=used[1]))
            found[name].append((one, at))
    return list(found.values())


def written(path: Path, journal: Journal) -> Path:
    path.write_bytes(b"".join(encode(event, at) for event, at in journal))
    return path


def side(view: RunView) -> Side:
    return side_of(view, run="r", directory="d")


@pytest.mark.parametrize("seed", range(16))
def test_M4_a_skimmed_run_is_the_folded_one_at_its_end_and_in_the_middle(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    for journal in journals(seed):
        for end in (len(journal), rng.randint(1, len(journal))):
            path = written(tmp_path / "journal.jsonl", journal[:end])
            fold = RunFold(None)
            assert fold.follow(read_journal(path)) is None
            skim = skimmed(path, "")
            assert skim is not None
            assert skim.counts == fold.settled().counts
            assert side(skim) == side(fold.settled())


def ordinary() -> Journal:
    result = TryResult(Outcome.GRADED, Grade(True, 1.0, {"style": 0.5}), Usage(1, 10, cost_usd=0.5))
    events: list[Event] = [
        RunStarted(1, "i", "r", "e", "0", "h", 1, slots=3, tasks=3),
        SlotFilled("r00000000000", "z", 0, "e/r0", Verdict.FAILED, 0.25, cost_usd=2.0, sub_scores={"style": 0.75}),
    ]
    for attempt, task in (("a00000000000", "x"), ("b00000000000", "y")):
        events += [
            TryStarted(attempt, task, 0, 1),
            PhaseStarted(attempt, Phase.AGENT),
            PhaseEnded(attempt, Phase.AGENT, 1.0),
            TryEnded(attempt, 1, result),
            AttemptSealed(attempt, task, 0, Verdict.PASSED, 1.0, 1),
        ]
    return [(event, 100.0 + n) for n, event in enumerate([*events, RunEnded("e", Completion.COMPLETE)])]


def test_a_torn_end_is_no_event(tmp_path: Path) -> None:
    path = written(tmp_path / "journal.jsonl", ordinary())
    whole = skimmed(path, "")
    assert whole is not None
    assert (whole.counts.passed, whole.counts.reused, whole.seconds) == (2, 1, 12.0)
    assert side(whole).sub_scores == {"style": {"z": [0.75], "x": [0.5], "y": [0.5]}}
    with path.open("ab") as file:
        file.write(b'{"type":"PhaseEnded","at":')
    torn = skimmed(path, "")
    assert torn is not None
    assert side(torn) == side(whole)


BROKEN = {
    "no start": lambda lines: lines[1:],
    "two starts": lambda lines: [lines[0], *lines],
    "a line of zeros": lambda lines: [*lines[:4], b"\0" * 80 + b"\n", *lines[4:]],
    "a line cut in two": lambda lines: [*lines[:4], lines[4][:30] + b"\n", *lines[5:]],
    "a try without a start": lambda lines: [line for line in lines if not line.startswith(b'{"type":"TryStarted"')],
    "an attempt that ends twice": lambda lines: [*lines[:7], lines[6], *lines[7:]],
    "an attempt that goes on": lambda lines: [*lines[:7], lines[2], *lines[7:]],
    "more slots than there are": lambda lines: [lines[0].replace(b'"slots":3', b'"slots":2'), *lines[1:]],
    "no number": lambda lines: [line.replace(b'"score":1.0', b'"score":"1"') for line in lines],
    "a cost without an end": lambda lines: [line.replace(b'"cost_usd":0.5', b'"cost_usd":1e308') for line in lines],
    "an event of another day": lambda lines: [*lines[:4], b'{"type":"Unheard","at":"x"}\n', *lines[4:]],
    "a newer format": lambda lines: [lines[0].replace(b'"format":1', b'"format":99'), *lines[1:]],
}


@pytest.mark.parametrize("broken", BROKEN)
def test_what_is_out_of_the_ordinary_is_left_to_the_whole_fold(broken: str, tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    lines = [encode(event, at) for event, at in ordinary()]
    damaged = BROKEN[broken](lines)
    assert damaged != lines
    path.write_bytes(b"".join(damaged))
    assert skimmed(path, "") is None


def test_a_damaged_run_is_compared_with_what_the_whole_fold_says_of_it(tmp_path: Path) -> None:
    lines = [encode(event, at) for event, at in ordinary()]
    (tmp_path / "journal.jsonl").write_bytes(b"".join([*lines[:7], lines[6], *lines[7:]]))
    found, wrong = compared(tmp_path)
    assert (found.scores["x"], found.parts, len(wrong)) == ([1.0], None, 2)
    assert "is damaged at line 8" in wrong[0]
    assert "cannot be said" in wrong[1]


@pytest.mark.parametrize("score", ["5.0", "-0.25", "1e308"])
def test_M5_a_score_that_cannot_be_is_damage(score: str, tmp_path: Path) -> None:
    lines = [encode(event, at) for event, at in ordinary()]
    lines[6] = lines[6].replace(b'"score":1.0', f'"score":{score}'.encode())
    (tmp_path / "journal.jsonl").write_bytes(b"".join(lines))
    found, wrong = compared(tmp_path)
    assert found.scores == {"z": [0.25]}, "what was before it"
    assert "a score is from 0 to 1" in wrong[0]


def test_the_first_bytes_of_a_line_tell_the_events_apart_that_are_read() -> None:
    read = {one.__name__[:8] for one in (TryStarted, TryEnded, AttemptSealed, SlotFilled)}
    for event in EVENT_TYPES:
        assert event.__name__ in {"TryStarted", "TryEnded", "AttemptSealed", "SlotFilled"} or (
            event.__name__[:8] not in read
        )
