"""Lanes: what ran when, in which place of concurrency, with waits and idle time; page by page for long runs."""

import re
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "support"))
from page_content import Content, asked
from viewer_runs import START, good_try, make_run, sealed, started

from proctor.model.attempt import Phase
from proctor.model.events import PhaseStarted, TryStarted
from proctor.viewer.lane_index import LaneIndex
from proctor.viewer.lanes_page import STATIC_TRIES, TRIES_ON_A_PAGE, lanes_page
from proctor.viewer.page import Asked, render
from proctor.viewer.results import Results
from proctor.viewer.site_links import SiteMap, StaticLinks

RUN = "m_b_h/r1"


def id_of(n: int) -> str:
    letters = "abcdefghijklmnopqrstuvwxyz"
    return "a" * 8 + "".join(letters[n // 26**place % 26] for place in range(4))


def events_of(count: int, width: int):
    """`count` attempts of 10 s each, `width` at once, one second after the other, two seconds idle between them."""
    events = [started()]
    for n in range(count):
        begin = START + 12 * (n // width) + n % width
        events += [*good_try(id_of(n), f"task-{n}", begin), sealed(id_of(n), f"task-{n}", begin + 10)]
    return sorted(events, key=lambda told: told[1])


def shown(root: Path, **query: str) -> Content:
    return Content(render(lanes_page(Results(root), asked(**query), RUN), asked(**query)))


def test_tries_that_run_at_once_have_lanes_of_their_own(tmp_path: Path) -> None:
    layout = make_run(tmp_path, events_of(6, 3))
    index = LaneIndex(layout.journal)
    index.follow()
    found = [(one.lane, one.start - START, (one.end or 0) - START) for one in index.tries(0, 99)]
    assert index.lanes == 3
    assert found == [(0, 0, 10), (1, 1, 11), (2, 2, 12), (0, 12, 22), (1, 13, 23), (2, 14, 24)]


def test_a_row_for_each_lane_with_its_idle_time_and_waits(tmp_path: Path) -> None:
    make_run(tmp_path, events_of(4, 2))
    page = shown(tmp_path)
    assert "4 tries in 2 lanes" in page.text
    assert page.html.count('class="idle"') == 2
    assert page.html.count('class="phase grade"') == 4
    assert page.html.count('class="wait backoff" fill="url(#hatch)"') == 4
    assert page.elements["table"] == 2, "for those who see no drawing"
    rows = re.findall(r"<tr>.*?</tr>", page.html, re.S)
    lane = next(row for row in rows if '<th scope="row">1</th>' in row)
    assert [*re.findall(r">([\d.]+)s<", lane)] == ["14", "6.0", "3.0"], "executing, waiting, idle, in 23 s"
    assert f"/attempt/{id_of(0)}/{RUN}" in page.links


def test_a_row_for_each_try_where_that_is_asked_for(tmp_path: Path) -> None:
    make_run(tmp_path, events_of(6, 2))
    page = shown(tmp_path, view="tries")
    assert [f"#{n}" in page.text for n in range(1, 7)] == [True] * 6
    assert f"/lanes/{RUN}?page=1" in page.links


def test_a_long_run_is_paged_by_time(tmp_path: Path) -> None:
    count = 2 * TRIES_ON_A_PAGE + 50
    make_run(tmp_path, events_of(count, 4))
    pages = [shown(tmp_path, page=str(n)) for n in (1, 2, 3)]
    for n, page in enumerate(pages):
        assert f"task-{n * TRIES_ON_A_PAGE + 10} " in page.text
        assert len(page.html) < 1_000_000
    assert "task-10 " not in pages[1].text
    between = re.search(r"shown: (\S+) to (\S+) after", pages[1].text)
    assert between
    assert f"to {between[1]} after" in pages[0].text, "one page goes on where the one before it ends"


def test_a_try_that_began_before_the_page_is_on_it_with_its_phase(tmp_path: Path) -> None:
    """One try of the whole run beside many short ones."""
    long = "z" * 12
    events = [(TryStarted(long, "long", 0, 1), START - 1), (PhaseStarted(long, Phase.AGENT), START - 0.5)]
    events += events_of(2 * TRIES_ON_A_PAGE, 4)[1:]
    make_run(tmp_path, [started(), *events])
    page = shown(tmp_path, page="2")
    assert "long #0" in page.text
    row = next(row for row in re.findall(r"<tr>.*?</tr>", page.html, re.S) if "long #0" in row)
    assert "agent" in row


def test_a_live_run_is_followed_from_where_it_was_left(tmp_path: Path) -> None:
    layout = make_run(tmp_path, events_of(2, 2))
    whole = layout.journal.read_bytes()
    layout.journal.write_bytes(b"")
    index = LaneIndex(layout.journal)
    for end in [*range(0, len(whole), 97), len(whole)]:
        layout.journal.write_bytes(whole[:end])
        index.follow()
    fresh = LaneIndex(layout.journal)
    fresh.follow()
    assert index.tries(0, 9) == fresh.tries(0, 9)
    assert index.insides(index.tries(0, 9), 9) == fresh.insides(fresh.tries(0, 9), 9)
    assert (index.offset, index.last_at) == (len(whole), fresh.last_at)


def test_a_run_that_was_begun_again_under_the_same_name_is_read_anew(tmp_path: Path) -> None:
    layout = make_run(tmp_path, events_of(40, 2))
    assert "40 tries" in shown(tmp_path).text
    layout.journal.unlink()
    layout.directory.rename(tmp_path / "old")
    make_run(tmp_path, events_of(3, 1))
    assert "3 tries" in shown(tmp_path).text


@pytest.mark.parametrize("content", [b"", b"\n\n\n", b"\xff\xfe\n", b'{"type":"TryStarted","at":"', b"x" * 100_000])
def test_a_journal_without_a_try_is_an_empty_page(tmp_path: Path, content: bytes) -> None:
    layout = make_run(tmp_path, [])
    layout.journal.write_bytes(content)
    assert "no try has begun" in shown(tmp_path).text


def test_a_moment_that_is_none_is_said_to_be_damage(tmp_path: Path) -> None:
    layout = make_run(tmp_path, events_of(2, 2))
    with layout.journal.open("ab") as file:
        file.write(b'{"type":"TryStarted","at":"2026-99-99T99:99:99.000000Z","attempt":"abcdefghijkl"}\n')
    page = shown(tmp_path)
    assert "damaged" in page.text
    assert "2 tries" in page.text


def test_a_run_of_one_moment_is_drawn(tmp_path: Path) -> None:
    make_run(tmp_path, [started(), (TryStarted(id_of(0), "t", 0, 1), START)])
    assert "1 try in 1 lane" in shown(tmp_path).text


@pytest.mark.long
def test_in_a_site_of_files_a_long_run_has_one_page_and_says_what_is_not_on_it(tmp_path: Path) -> None:
    make_run(tmp_path, events_of(STATIC_TRIES + 7, 4))
    reader = Asked(StaticLinks(SiteMap(10), "m/lanes.html"), "en", {"page": "2"})
    html = render(lanes_page(Results(tmp_path), reader, RUN), reader)
    assert "7 later tries are not shown" in html
    assert "task-10 #0" in html
    assert 'rel="next"' not in html
