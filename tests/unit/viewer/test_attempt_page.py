"""The page of an attempt: all that `proctor show @A` says, and the evidence (spec 05 "what an attempt records")."""

import hashlib
import json
import os
import sys
from pathlib import Path

import pytest
from starlette.testclient import TestClient

sys.path.append(str(Path(__file__).parents[2] / "support"))
from page_content import Content, asked
from viewer_runs import START, broken_try, evidence, good_try, make_run, sealed, started

from proctor.model.attempt import NO_USAGE, Check, Verdict
from proctor.model.codes import CODES
from proctor.model.events import SavedFile, SlotFilled, TryStarted, WorkCheckpointed
from proctor.store.plan_file import PlanFile, PlannedSlot, write_plan
from proctor.viewer.app import make_app
from proctor.viewer.attempt_page import attempt_page
from proctor.viewer.links import ServerLinks
from proctor.viewer.page import NotFound, render
from proctor.viewer.results import Results
from proctor.viewer.site_links import SiteMap, StaticLinks

A, B = "abcdefghijkl", "bbcdefghijkl"
RUN = "m_b_h/r1"


def shown(root: Path, attempt: str = A, run: str = RUN, **query: str) -> Content:
    reader = asked(**query)
    return Content(render(attempt_page(Results(root), reader, run, attempt), reader))


def two_tries(root: Path, checks: tuple[Check, ...] = ()):
    events = [
        started(), *broken_try(A, "task", START + 1, "it crashed"),
        *good_try(A, "task", START + 5, number=2, checks=checks), sealed(A, "task", START + 15, tries=2),
    ]  # fmt: skip
    return make_run(root, events)


def test_it_says_the_verdict_the_tries_their_times_and_what_to_do(tmp_path: Path) -> None:
    two_tries(tmp_path, (Check("two is two", False, "2", "3", "tests/test_x.py:7"), Check("fine", True)))
    page = shown(tmp_path)
    for words in ("passed", "score 1", "it crashed", "harness.crashed", "FATAL", CODES["harness.crashed"].action,
                  "open 1.00 s, agent 4.00 s, backoff 1.00 s, permits 2.00 s, grade 2.00 s", "tests/test_x.py:7",
                  f"box-{A}", "gone", "$0.30", "style"):  # fmt: skip
        assert words in page.text, words
    assert page.text.index("two is two") < page.text.index("fine"), "failed checks come first"
    assert {"h1", "h2", "caption", "svg", "title"} <= page.elements.keys()


def test_the_drawing_hatches_waits_also_between_tries(tmp_path: Path) -> None:
    two_tries(tmp_path)
    html = shown(tmp_path).html
    assert html.count('class="wait backoff" fill="url(#hatch)"') == 2, "one inside the second try, one before it"
    assert html.count('class="wait permits" fill="url(#hatch)"') == 1
    assert html.count('class="phase agent"') == 3


def test_each_try_has_its_own_evidence(tmp_path: Path) -> None:
    layout = two_tries(tmp_path)
    evidence(layout, "task", "try.log", b"of the first", 1)
    evidence(layout, "task", "try.log", b"of the second", 2)
    assert "of the second" in shown(tmp_path).text, "the last one counts"
    first = shown(tmp_path, **{"try": "1"})
    assert "of the first" in first.text
    assert "of the second" not in first.text
    assert "of the second" in shown(tmp_path, **{"try": "no number"}).text


def test_files_are_downloads_with_size_and_digest(tmp_path: Path) -> None:
    content = b"what was made"
    digest = hashlib.sha256(content).hexdigest()
    saved = WorkCheckpointed(A, 1, None, files=(SavedFile("artifacts/out.bin", digest, len(content)),), usage=NO_USAGE)
    events = [started(), *good_try(A, "task", START)]
    layout = make_run(tmp_path, [*events[:8], (saved, START + 6), *events[8:], sealed(A, "task", START + 10)])
    evidence(layout, "task", "artifacts/out.bin", content)
    page = shown(tmp_path)
    assert digest in page.text
    assert "/file/m_b_h/r1?path=attempts%2Ftask%2F0%2Ftries%2F1%2Fartifacts%2Fout.bin" in page.links
    evidence(layout, "task", "artifacts/out.bin", content + b" and changed")
    assert "changed since" in shown(tmp_path).text


def test_a_diff_has_its_signs_and_its_colours(tmp_path: Path) -> None:
    layout = two_tries(tmp_path)
    evidence(layout, "task", "artifacts/work.patch", b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old <b>\n+new\n same\n", 2)
    html = shown(tmp_path).html
    for line in ('<span class="diff-removed">-old &lt;b&gt;</span>', '<span class="diff-added">+new</span>',
                 '<span class="diff-hunk">@@ -1 +1 @@</span>', '<span class="diff-file">--- a/x</span>'):  # fmt: skip
        assert line in html


def test_of_a_long_log_the_beginning_and_the_end_are_shown(tmp_path: Path) -> None:
    """Case 163: ranges, not the whole file."""
    layout = two_tries(tmp_path)
    path = evidence(layout, "task", "try.log", b"FIRST LINE\n", 2)
    with path.open("ab") as file:
        file.truncate(3_000_000_000)  # a hole: it takes no room on the disk, and none in memory
        file.seek(0, os.SEEK_END)
        file.write(b"\nLAST LINE")
    page = shown(tmp_path)
    assert "FIRST LINE" in page.text
    assert "LAST LINE" in page.text
    assert "bytes left out" in page.text
    assert len(page.html) < 500_000


def test_the_identity_by_its_parts(tmp_path: Path) -> None:
    layout = two_tries(tmp_path)
    slots = [PlannedSlot(task, 0, f"all-{task}", "reuse", "identity equal") for task in ("other", "task")]
    experiment = {"name": "e", "environment": {"image": "img:1", "image_digest": "sha256:77"}}
    parts = {"task": {"task": "t1", "grader": "g1"}, "other": {"task": "t2", "grader": "g1"}}
    write_plan(layout.plan, PlanFile(experiment, slots, {"harness": "h1"}, parts))
    page = shown(tmp_path)
    for words in ("all-task", "reuse", "identity equal", "h1", "t1", "g1", "img:1", "sha256:77"):
        assert words in page.text, words
    assert "t2" not in page.text
    assert "all-other" not in page.text


def test_an_attempt_that_goes_on_is_shown_up_to_now(tmp_path: Path) -> None:
    make_run(tmp_path, [started(), *good_try(A, "task", START + 1)[:5], *good_try(B, "x", START + 1)])
    page = shown(tmp_path)
    assert "unfinished" in page.text
    assert "agent 9.00 s" in page.text, "until the newest event of the run"


def test_a_reused_attempt_leads_to_the_run_that_made_it(tmp_path: Path) -> None:
    """Spec 08 D7: references are resolved, or shown as missing."""
    two_tries(tmp_path)
    filled = SlotFilled(A, "task", 0, RUN, Verdict.PASSED, 1.0, 0.3)
    gone = SlotFilled(B, "x", 0, "m_b_h/gone", Verdict.FAILED, 0.0)
    make_run(tmp_path, [started(), (filled, START), (gone, START)], "m_b_h/r2")
    page = shown(tmp_path, run="m_b_h/r2")
    assert f"/attempt/{A}/{RUN}" in page.links
    assert "reused from another run" in page.text
    missing = shown(tmp_path, B, run="m_b_h/r2")
    assert "it is not here" in missing.text
    assert "failed" in missing.text


@pytest.mark.parametrize("attempt", ["abcdefghijkm", "", "a", "ABCDEFGHIJKL", "abcdefghijk\n", "a" * 5000, '"},{"a":"'])
def test_an_attempt_that_is_not_there_is_not_found(tmp_path: Path, attempt: str) -> None:
    """Case 166."""
    two_tries(tmp_path)
    with pytest.raises(NotFound):
        shown(tmp_path, attempt)


def test_damaged_lines_are_said_and_the_rest_is_shown(tmp_path: Path) -> None:
    layout = two_tries(tmp_path)
    with layout.journal.open("ab") as file:
        file.write(b'{"type":"TryEnded","attempt":"' + A.encode() + b'", broken\n\xff\xfe\n')
    page = shown(tmp_path)
    assert "damaged" in page.text
    assert "it crashed" in page.text


def test_steps_are_paged_and_links_keep_the_try(tmp_path: Path) -> None:
    layout = two_tries(tmp_path)
    steps = [{"step_id": n + 1, "source": "agent", "message": f"step number {n + 1}."} for n in range(3_000)]
    evidence(layout, "task", "trajectory.json", json.dumps({"steps": steps}, indent=2).encode(), 2)
    last = shown(tmp_path, steps="60")
    assert "step number 3000." in last.text
    assert "step number 2950." not in last.text
    assert "?try=2&steps=59#steps-2" in last.links
    assert len(last.html) < 100_000


def test_the_same_page_as_a_file_has_all_tries_and_asks_no_server(tmp_path: Path) -> None:
    layout = two_tries(tmp_path)
    evidence(layout, "task", "try.log", b"of the first", 1)
    evidence(layout, "task", "try.log", b"of the second", 2)
    reader = asked()
    reader = type(reader)(StaticLinks(SiteMap(10), "m/attempt.html"))
    html = render(attempt_page(Results(tmp_path), reader, RUN, A), reader)
    assert "of the first" in html
    assert "of the second" in html
    assert 'href="/' not in html
    assert 'href="?' not in html


def test_every_part_of_the_page_has_one_id(tmp_path: Path) -> None:
    layout = two_tries(tmp_path)
    evidence(layout, "task", "trajectory.json", b'{"steps":[{"message":"x"}]}', 2)
    assert set(shown(tmp_path).ids.values()) == {1}


def test_a_try_of_which_only_the_start_is_known(tmp_path: Path) -> None:
    make_run(tmp_path, [started(), (TryStarted(A, "task", 0, 1), START)])
    assert "unfinished" in shown(tmp_path).text


def test_the_page_is_there_in_chinese(tmp_path: Path) -> None:
    two_tries(tmp_path)
    reader = asked("zh")
    page = Content(render(attempt_page(Results(tmp_path), reader, RUN, A), reader))
    assert "通过" in page.text
    assert page.acts == []


def test_the_server_answers_under_the_addresses_that_links_have(tmp_path: Path) -> None:
    two_tries(tmp_path)
    client = TestClient(make_app(Results(tmp_path), None))
    for address in (ServerLinks().attempt(RUN, A), ServerLinks().lanes(RUN)):
        answer = client.get(address)
        assert answer.status_code == 200
        assert Content(answer.text).acts == []
    gone = client.get(ServerLinks().attempt(RUN, B))
    assert gone.status_code == 404
    assert "/" in Content(gone.text).links, "a way back"
