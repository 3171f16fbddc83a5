"""The comparison of runs as a page (spec 09 M4)."""

import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

sys.path.append(str(Path(__file__).parents[2] / "support"))
from page_content import Content
from viewer_client import ask
from viewer_runs import START, good_try, make_run, sealed, started

from proctor.model.attempt import Verdict
from proctor.store.plan_file import PlanFile, PlannedSlot, write_plan
from proctor.viewer.app import make_app
from proctor.viewer.compare_page import MOST_RUNS
from proctor.viewer.results import Results
from proctor.viewer.security import App

TASKS = [f"task-{letter}" for letter in "abcdef"]


def run_of(root: Path, name: str, passed: str, tasks: list[str] = TASKS) -> None:
    events = [started()]
    for place, task in enumerate(tasks):
        attempt = f"bbcdefghijk{'abcdefgh'[place]}"
        verdict = Verdict.PASSED if task[-1] in passed else Verdict.FAILED
        seal, at = sealed(attempt, task, START + 10, verdict=verdict)
        scored = type(seal)(seal.attempt, seal.task, 0, verdict, float(verdict is Verdict.PASSED), 1)
        events += [*good_try(attempt, task, START), (scored, at)]
    make_run(root, events, f"e/{name}")


@pytest.fixture
def app(tmp_path: Path) -> App:
    for number in range(MOST_RUNS + 1):
        run_of(tmp_path, f"r{number:02}", "abcdef"[: number % 7])
    run_of(tmp_path, "other", "xy", ["task-x", "task-y"])
    return make_app(Results(tmp_path), None)


def compared(app: App, *runs: str, status: int = 200) -> Content:
    answer = ask(app, "/compare?" + "&".join(f"run=e/{run}" for run in runs))
    assert answer.status == status
    return Content(answer.text)


def test_it_says_which_tasks_are_better_and_which_worse(app: App) -> None:
    page = compared(app, "r02", "r04")
    words = " ".join(page.text.split())
    assert "B against A" in words
    assert "+33.3%" in words
    assert "B is better: 2 tasks" in words
    assert "B is worse" not in words
    assert "The identity of one of them is not known" in words, "they have no plan"
    assert page.elements["svg"] >= 1
    assert "style6+0.000" in words, "every attempt has 0.5 of this sub-score"


def test_M2_the_page_of_a_run_has_its_sub_scores(app: App) -> None:
    page = Content(ask(app, "/run/e/r02").text)
    assert "sub-scoremeanattempts style0.5006" in " ".join(page.text.split())


def test_M4_what_limits_a_comparison_is_said(app: App, tmp_path: Path) -> None:
    """Slots without a score, and another number of attempts: as `proctor compare` says it."""
    for name, count, limit in (("r02", 1, 60), ("r04", 2, 90)):
        slots = [PlannedSlot(task, ordinal, "0" * 16) for task in TASKS for ordinal in range(count)]
        about = {"name": "e", "limits": {"timeout_seconds": limit}}
        write_plan(tmp_path / f"e/{name}/plan.json", PlanFile(about, slots, {"model": name}, {}, {}))
    words = " ".join(compared(app, "r02", "r04").text.split())
    assert "identities differ in: model." in words
    assert "slots without a score: 0 in A, 6 in B" in words
    assert "not the same number of attempts of a task: 1 in A, 2 in B" in words
    assert "limits and retries differ, which no identity has: timeout_seconds (60, 90)" in words
    assert "whatever they would score, the difference is from +0.0% to +50.0%" in words


@pytest.mark.parametrize("runs", [[], ["r01"], ["r01", "r01"]])
def test_fewer_than_two_runs_are_no_comparison(app: App, runs: list[str]) -> None:
    assert "two runs or more" in compared(app, *runs, status=404).text


def test_so_many_runs_as_fit_are_compared_and_more_are_not(app: App) -> None:
    names = [f"r{number:02}" for number in range(MOST_RUNS + 1)]
    page = compared(app, *names[:MOST_RUNS])
    assert page.text.count(" against A") == MOST_RUNS - 1
    assert "with Holm's correction" in page.text
    assert "proctor compare" in compared(app, *names, status=404).text


def test_runs_without_a_task_in_common_say_so(app: App) -> None:
    words = compared(app, "r02", "other").text
    assert "no task has a score in both" in words
    assert "only in A" in words


def test_another_language_compares_the_same_runs(app: App) -> None:
    page = compared(app, "r02", "r04")
    [link] = [link for link in page.links if "lang=zh" in link]
    assert parse_qs(urlsplit(link).query) == {"run": ["e/r02", "e/r04"], "lang": ["zh"]}
    assert ask(app, f"/compare{link}").status == 200


def test_the_form_of_the_list_leads_here(app: App) -> None:
    html = ask(app, "/").text
    assert '<form method="get" action="/compare">' in html
    assert '<input type="checkbox" name="run" value="e/r02"' in html
