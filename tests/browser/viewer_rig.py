"""Results with what a browser must cope with: two runs of the same tasks, a hostile one, a live one."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "support"))
from viewer_runs import START, broken_try, evidence, good_try, make_run, sealed, started

from proctor.model.attempt import Check, Grade, Verdict
from proctor.model.events import RunEnded
from proctor.model.reasons import Completion
from proctor.store.journal import Journal
from proctor.store.layout import RunLayout
from proctor.store.plan_file import PlanFile, PlannedSlot, write_plan
from proctor.viewer.results import Results

TASKS = [f"sort/{n:02}" for n in range(12)]
FLAG = "hostile"
"""What hostile text tries to set on the window of the page."""
HOSTILE = [
    f"<script>window.{FLAG}=1</script>",
    f'"><img src=x onerror=window.{FLAG}=1>',
    f"' onfocus='window.{FLAG}=1' autofocus='",
    f"</pre></details></main><svg onload=window.{FLAG}=1><script src=http://elsewhere.example.org/x.js></script>",
    "<iframe src=http://elsewhere.example.org/></iframe><link rel=stylesheet href=http://elsewhere.example.org/x.css>",
    f"<body onload=alert(1)><a href='javascript:window.{FLAG}=1'>x</a>",
    "<meta http-equiv=refresh content=0;url=about:blank>",
    "<style>*{display:none}</style><base href=http://elsewhere.example.org/>",
    "\x1b]8;;http://elsewhere.example.org\x07click\x1b]8;;\x07 \x1b[31mred\x1b[0m \u202etfel ot\u202c",
]


def attempt_id(number: int, letter: str = "a") -> str:
    return letter * 11 + "abcdefghijklmnopqrstuvwxyz"[number]


def ended_run(root: Path, run: str, solved: int, letter: str, model: str) -> RunLayout:
    """Write a run of all tasks, of which the first `solved` pass."""
    events = [started("sorting")]
    for n, task in enumerate(TASKS):
        verdict = Verdict.PASSED if n < solved else Verdict.ERRORED if n == 11 else Verdict.FAILED
        own = attempt_id(n, letter)
        if verdict is Verdict.ERRORED:
            events += broken_try(own, task, START + n, "the harness ended with status 1: out of memory")
        else:
            events += good_try(own, task, START + n)
        if verdict is Verdict.FAILED:
            ended, at = events[-1]
            events[-1] = replace(ended, result=replace(ended.result, grade=Grade(False, 0.0))), at
        events.append(sealed(own, task, START + n + 10, verdict=verdict))
        if verdict is Verdict.FAILED:
            last, at = events[-1]
            events[-1] = replace(last, score=0.0), at
    events.append((RunEnded("sorting", Completion.COMPLETE), START + 30))
    layout = make_run(root, events, run)
    plan_of(layout, model)
    (layout.summary_json).write_text(json.dumps(Results(root).summary(run)))
    return layout


def plan_of(layout: RunLayout, model: str) -> None:
    named = {"benchmark": {"id": "sort"}, "harness": {"id": "chat"}, "model": {"id": model}}
    slots = [PlannedSlot(task, 0, f"{model}-{task}") for task in TASKS]
    write_plan(layout.plan, PlanFile({"name": "sorting", **named}, slots, {"model": model, "harness": "chat"}))


def hostile_run(root: Path) -> str:
    """Write a run in which everything that a model, a task or a sandbox names is markup; return its attempt."""
    attempt = attempt_id(0, "h")
    events = [started(HOSTILE[1])]
    everything = "\n".join(HOSTILE)
    for n, text in enumerate(HOSTILE):
        task, own = f"task {text}", attempt_id(n, "h")
        check = Check(text, False, text, everything, text)
        events += [*good_try(own, task, START + n, checks=(check,)), sealed(own, task, START + n + 10)]
    layout = make_run(root, events, "m_b_h/hostile")
    step = {
        "step_id": 1, "source": "agent", "message": everything, "reasoning_content": everything,
        "tool_calls": [
            {"tool_call_id": everything, "function_name": HOSTILE[1], "arguments": {HOSTILE[0]: everything}}
        ],
        "observation": {"results": [{"source_call_id": HOSTILE[2], "content": everything}]},
    }  # fmt: skip
    task = f"task {HOSTILE[0]}"
    evidence(layout, task, "trajectory.json", json.dumps({"steps": [step]}).encode())
    evidence(layout, task, "try.log", everything.encode())
    evidence(layout, task, "artifacts/page.html", f"<script>window.{FLAG}=1</script>".encode())
    evidence(layout, task, "artifacts/" + HOSTILE[1].replace("/", "_"), everything.encode())
    return attempt


def make_results(root: Path) -> str:
    """Write all of them but the live one; return the hostile attempt."""
    ended_run(root, "m_b_h/low", 3, "l", "model-low")
    ended_run(root, "m_b_h/high", 9, "m", "model-high")
    return hostile_run(root)


class LiveRun:
    """A run that this process writes, as far as a test lets it."""

    def __init__(self, root: Path) -> None:
        layout = RunLayout(root / "m_b_h/live")
        layout.directory.mkdir(parents=True)
        plan_of(layout, "model-live")
        self._journal = Journal.create(layout.journal, at=START)
        self._journal.append(*started("sorting"))
        self._journal.flush()
        self._done = 0

    def finish_attempt(self, verdict: Verdict = Verdict.PASSED) -> None:
        n, self._done = self._done, self._done + 1
        own = attempt_id(n, "v")
        for told in [*good_try(own, TASKS[n], START + n), sealed(own, TASKS[n], START + n + 10, verdict=verdict)]:
            self._journal.append(*told)
        self._journal.flush()

    def end(self) -> None:
        self._journal.append(RunEnded("sorting", Completion.COMPLETE), START + 60)
        self._journal.flush()
        self._journal.close()

    def close(self) -> None:
        self._journal.close()
