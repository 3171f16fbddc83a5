"""One experiment of 5,000 slots: executed, carried whole, looked at, accepted (spec 04, 12)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from program import Ended

TASKS, ATTEMPTS = 250, 20
SLOTS = TASKS * ATTEMPTS
EXPERIMENT = ["trivial", "nop", "--set", f"benchmark.params.tasks={TASKS}", "--attempts", str(ATTEMPTS)]


@pytest.mark.long
def test_04_five_thousand_slots_are_carried_whole(proctor: Callable[..., Ended], tmp_path: Path) -> None:
    quiet = ("--progress", "none", "--no-attempt-files")
    assert proctor("run", *EXPERIMENT, *quiet, "--run-id", "one").code == 0
    assert proctor("run", *EXPERIMENT, *quiet, "--run-id", "two", "--reuse").code == 0
    [summary] = tmp_path.glob("results/*/two/summary.json")
    counts = json.loads(summary.read_text())["counts"]
    assert counts["total"] == counts["reused_passed"] + counts["reused_failed"] == SLOTS
    journal = (summary.parent / "journal.jsonl").read_text()
    assert journal.count('"SlotFilled"') == SLOTS
    assert "TryStarted" not in journal
    changed = [*EXPERIMENT, "--set", "flags.x=1"]
    page = proctor("plan", *changed, "--reuse")
    assert f"{SLOTS:,} slots: {SLOTS:,} execute: flags changed (" in page.out
    rows = json.loads(proctor("show", "two", "--json").out)["attempts"]
    chosen = [f"@{row['attempt']}" for row in rows[:: SLOTS // 500]]
    assert proctor("accept", *chosen, "--set", "flags.x=1").code == 0
    page = proctor("plan", *changed, "--reuse", "--json")
    slots = (one for one in map(json.loads, page.out.splitlines()) if one["type"] == "slot")
    kinds = Counter(one["decision"].partition(" ")[0] for one in slots)
    assert kinds == {"accept": len(chosen), "execute:": SLOTS - len(chosen)}
