"""docs/metrics.md is true: its example, its table of `--missing`, and every key of summary.json that it defines."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from proctor.core.aggregate import Counts, Missing, headline
from proctor.model.attempt import Grade, Outcome, Phase, TryResult, Usage, Verdict, issue_of
from proctor.model.events import (
    AttemptSealed,
    Completion,
    PhaseEnded,
    PhaseStarted,
    RunEnded,
    RunStarted,
    TryEnded,
    TryStarted,
)
from proctor.report.summary import summary_data, summary_lines
from proctor.report.view import RunView

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "metrics.md").read_text(encoding="utf-8")
BLOCKS = [re.sub(r"(?m)^    ", "", block).strip() for block in re.findall(r"(?:(?:    .*)?\n)+", PAGE) if block.strip()]
EXAMPLE, JSON = BLOCKS


def example() -> RunView:
    """Return 164 attempts: 100 passed, 61 failed, 3 that a lost sandbox ended, of 1.5 to 6 seconds and 2 to 3 cents."""
    view = RunView("humaneval/chat/gpt-x")
    view.add(RunStarted(1, "i", "r", view.experiment, "0", "h", 1, slots=164, tasks=164), 0.0)
    for place in range(164):
        attempt, task = f"a{place:011}", f"HumanEval/{place}"
        usage = Usage(1, 300 + 30 * (place % 10), 100 + 40 * (place % 8), cost_usd=0.002 + 0.0001 * (place % 11))
        verdict = Verdict.PASSED if place < 100 else Verdict.FAILED if place < 161 else Verdict.ERRORED
        solved = verdict is Verdict.PASSED
        result = TryResult(Outcome.GRADED, Grade(solved, float(solved)), usage)
        if verdict is Verdict.ERRORED:
            result = TryResult(Outcome.BROKEN, usage=usage, issues=(issue_of("provider.lost", "gone", Phase.AGENT),))
        view.add(TryStarted(attempt, task, 0, 1), 1.0)
        view.add(PhaseStarted(attempt, Phase.AGENT), 1.0)
        if verdict is not Verdict.ERRORED:
            view.add(PhaseEnded(attempt, Phase.AGENT, 1.5 + 0.5 * (place % 10)), 7.0)
        view.add(TryEnded(attempt, 1, result), 7.0)
        view.add(AttemptSealed(attempt, task, 0, verdict, float(solved) if result.grade else None, 1), 7.0)
    view.add(RunEnded(view.experiment, Completion.COMPLETE), 41.2)
    return view


def test_the_example_is_what_such_a_run_says() -> None:
    assert EXAMPLE.splitlines() == summary_lines(example(), directory="d", time=False)[:5]


@pytest.mark.parametrize("missing", [None, *Missing])
def test_M1_the_table_of_policies_is_true(missing: Missing | None) -> None:
    counts = Counts(total=164, passed=100, failed=61, errored=3)
    [said] = re.findall(rf"^\| {f'`{missing}`' if missing else 'not given'} \|.*\| `(.*)` \|$", PAGE, re.MULTILINE)
    assert said == headline(counts, missing)


def test_the_example_of_metrics_is_that_of_the_run() -> None:
    data = summary_data(example(), run="r", directory="d")["metrics"]
    shown = json.loads("{" + JSON + "}")["metrics"]
    assert shown.keys() == data.keys()
    for name, value in shown.items():
        if name in ("pass_at_k", "by_tag", "sub_scores"):
            continue  # of a run with several attempts, with tags and sub-scores
        wanted = data[name]
        assert value == pytest.approx(wanted, rel=0.02), name


def test_the_keys_of_pass_at_k_and_tags_are_those_of_the_page() -> None:
    view = example()
    view.tags, view.tasks = {"HumanEval/0": ["easy"]}, 82
    data = summary_data(view, run="r", directory="d")["metrics"]
    shown = json.loads("{" + JSON + "}")["metrics"]
    assert shown["pass_at_k"][0].keys() == data["pass_at_k"][0].keys()
    assert shown["by_tag"]["easy"].keys() == data["by_tag"]["easy"].keys()


def test_case_169_every_key_of_summary_json_is_defined_once() -> None:
    data = summary_data(example(), run="r", directory="d")
    section = PAGE.split("\n## summary.json\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]*`) \|", section, re.MULTILINE)
    assert [name for row in rows for name in re.findall(r"`(\w+)`", row)] == list(data)


def test_case_169_every_part_of_the_counts_is_defined_once() -> None:
    section = (DOCS / "progress.md").read_text(encoding="utf-8").split("\n## The count line\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `([^`|]*)` \|", section, re.MULTILINE)
    parts = [name.replace("_", " ").removesuffix(" passed").removesuffix(" failed") for name in Counts.__slots__]
    assert len(rows) == len(set(rows))
    assert set(parts) <= set(rows)
