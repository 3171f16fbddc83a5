"""A results root that others made: any file of a run may be huge, deep, a link, a pipe, or of a wrong shape (case 174).

No page fails with a trace, waits for ever, grows without bound, or shows what is outside of the root.
"""

import json
import logging
import os
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

sys.path.append(str(Path(__file__).parents[2] / "support"))
from viewer_client import ask
from viewer_runs import START, evidence, good_try, make_run, sealed, started

from proctor.store.layout import RunLayout
from proctor.store.plan_file import PlanFile, PlannedSlot, write_plan
from proctor.viewer import journal_lines
from proctor.viewer.app import make_app
from proctor.viewer.results import Results
from proctor.viewer.site import write_site
from proctor.viewer.slot_index import SlotIndex

A = "abcdefghijkl"
RUN = "e/r1"
SECRET = "nobody-may-read-this"
PATHS = (
    "/", f"/run/{RUN}", f"/run/{RUN}?state=passed&q=a&tag=t", f"/attempt/{A}/{RUN}", f"/lanes/{RUN}",
    f"/lanes/{RUN}?view=tries", f"/compare?run={RUN}&run=e/r2", f"/file/{RUN}?path=plan.json",
    f"/file/{RUN}?path=journal.jsonl", f"/file/{RUN}?path=summary.json",
)  # fmt: skip
NUMBERS = ["NaN", "Infinity", "-Infinity", "1e308", "-1", "9" * 400, "1e-320", "true"]
VALUES = [
    "", "null", "[]", "{}", '""', "0", "[[]]", '{"": null}', '"\\ud800\\u0000"', "\xff\xfe", "{", '{"a":1}{',
    "[" * 100_000, '{"a":' * 900 + "1" + "}" * 900, *NUMBERS,
]  # fmt: skip


def two_runs(root: Path) -> RunLayout:
    for run in ("e/r2", RUN):
        layout = make_run(root, [started(), *good_try(A, "a", START), sealed(A, "a", START + 10)], run)
        slots = [PlannedSlot(task, 0, "0" * 16) for task in ("a", "b")]
        named = {name: {"id": name} for name in ("benchmark", "harness", "model")}
        plan = PlanFile({"name": "e", **named}, slots, {"model": "1"}, {"a": {"task": "1"}}, {"tags": {"t": [0, 1]}})
        write_plan(layout.plan, plan)
        layout.summary_json.write_text(json.dumps(Results(root).summary(run)))
        evidence(layout, "a", "try.log", b"said")
        evidence(layout, "a", "trajectory.json", b'{\n  "steps": [\n    {\n      "source": "agent"\n    }\n  ]\n}')
    return layout


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    (tmp_path / "outside").write_text(f'{{"headline":"{SECRET}"}}')
    return two_runs(tmp_path / "results")


@pytest.fixture
def opens(layout: RunLayout, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Callable[..., None]:
    """Asks for every page: each answers, none is a bug of ours, none is large, none has what is outside."""

    def opening(what: object = "", most_bytes: int = 2_000_000) -> None:
        app = make_app(Results(tmp_path / "results"), None)
        for path in PATHS:
            answer = ask(app, path, "HEAD" if path.startswith("/file/") else "GET")
            assert answer.status in (200, 404, 500), (what, path)
            assert [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR] == [], (what, path)
            assert SECRET.encode() not in answer.body, (what, path)
            assert len(answer.body) < most_bytes, (what, path)

    return opening


SMALL_FILES = ("plan.json", "summary.json", "progress.json")


def test_small_files_that_hold_anything(layout: RunLayout, opens: Callable[..., None]) -> None:
    for value in VALUES:
        for name in SMALL_FILES:
            (layout.directory / name).write_bytes(value.encode("latin-1"))
        opens(value[:40])


def places_in(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield above
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in cast("Any", items):
        yield from places_in(inner, (*above, key))


def with_value(text: str, place: tuple[Any, ...], value: str) -> str:
    """Return a JSON text in which another text stands at a place."""
    whole: Any = json.loads(text)
    inner = whole
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = "here"
    return json.dumps(whole, separators=(",", ":")).replace('"here"', value, 1)


ODD = [
    "null", "[]", "{}", '""', "-1", "1e308", "9" * 400, '"\\ud800"', "[[1]]", '{"a":{"b":[1]}}', "true", "1e-300",
    f'"{"y" * 300_000}"', "[" * 400 + "]" * 400, "9223372036854775807", "-9223372036854775808", "123456789012345678",
    '"9999-12-31T23:59:59.999999Z"', '"0001-01-01T00:00:00.000000Z"', "NaN",
]  # fmt: skip


@pytest.mark.parametrize("changes", [5, pytest.param(80, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", ["plan.json", "summary.json", "journal.jsonl"])
def test_a_value_of_any_kind_in_any_place(
    layout: RunLayout, opens: Callable[..., None], name: str, changes: int
) -> None:
    path = layout.directory / name
    lines = path.read_text().splitlines() if name == "journal.jsonl" else [path.read_text()]
    if name == "journal.jsonl":
        layout.summary_json.unlink()  # it is made of the journal then
    places = [(n, place) for n, line in enumerate(lines) for place in places_in(json.loads(line)) if place]
    chance = random.Random(name)
    known = (
        [(0, ("ordinals", 1), one) for one in ("9" * 400, "9223372036854775807", "100000000")]
        if name == "plan.json"
        else []
    )
    known += [(0, ("slots",), "9" * 400), (1, ("try_number",), "9" * 400)] if name == "journal.jsonl" else []
    for n, place, value in [*known, *((*chance.choice(places), chance.choice(ODD)) for _ in range(changes))]:
        changed = [with_value(line, place, value) if n == at else line for at, line in enumerate(lines)]
        path.write_text("\n".join(changed) + "\n")
        opens((n, place, value[:40]))


def test_a_journal_that_is_cut_anywhere_or_has_foreign_lines(layout: RunLayout, opens: Callable[..., None]) -> None:
    whole = layout.journal.read_bytes()
    chance = random.Random(7)
    layout.summary_json.unlink()
    for _ in range(6):
        begin, end = sorted(chance.sample(range(len(whole)), 2))
        layout.journal.write_bytes(whole[begin:end])
        opens((begin, end))
    foreign = [
        b"",
        b"\0" * 300,
        b"{}",
        b"[1]",
        b"\xff\xfe",
        b'{"type":"TryStarted",',
        b'{"type":"AttemptSealed","attempt":"',
    ]
    for one in foreign:
        lines = whole.splitlines()
        lines.insert(chance.randrange(len(lines)), one)
        layout.journal.write_bytes(b"\n".join(lines) + b"\n")
        opens(one)


def not_a_file(path: Path, kind: str, outside: Path) -> None:
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "link to itself":
        path.symlink_to(path.name)
    elif kind == "huge":
        with path.open("wb") as file:
            file.truncate(1 << 40)
    else:
        path.symlink_to(outside if kind == "link" else "/dev/zero")


KINDS = ["link", "link to a device", "link to itself", "pipe", "directory", "huge"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_file_of_its_own_is_not_read(
    layout: RunLayout, opens: Callable[..., None], tmp_path: Path, kind: str
) -> None:
    """A page that reads a pipe waits for ever, one that reads a device never ends: then this test does not end."""
    for name in (*SMALL_FILES, "run.log", "attempts", "journal.lock", "journal.jsonl"):
        path = layout.directory / name
        if path.is_dir():
            path.rename(tmp_path / "moved")
        not_a_file(path, kind, tmp_path / "outside")
        opens((name, kind))
        runs = list(Results(tmp_path / "results").runs())
        assert runs == (
            ["e/r2"] if name.startswith("journal") and (kind, name) != ("huge", "journal.jsonl") else [RUN, "e/r2"]
        ), name
        if name == "journal.lock":
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_try_left_is_not_read_where_it_is_no_file(
    layout: RunLayout, opens: Callable[..., None], tmp_path: Path, kind: str
) -> None:
    directory = layout.try_dir("a", 0, 1)
    for name in ("trajectory.json", "try.log", "stdout.txt", "a.diff", "summary.html"):
        not_a_file(directory / name, kind, tmp_path / "outside")
    opens(kind, most_bytes=8_000_000)


def test_file_names_of_every_kind(layout: RunLayout, opens: Callable[..., None], tmp_path: Path) -> None:
    directory = os.fsencode(layout.try_dir("a", 0, 1))
    names = [
        b"\xff\xfe.log", b"a\nb.log", b" ", b"...", b"~", b"-rf", b"\xe2\x80\xaetxt.log", b"%2e%2e", b"a&b=c?d#e.diff",
        b"<svg onload=x>.log", b'"quote\'s".log', b"\\..\\x", b"x" * 255, b"\x1b[2J.log", b"{{7*7}}.log",
    ]  # fmt: skip
    for name in names:
        with open(os.path.join(directory, name), "wb") as file:
            file.write(b"said\n")
    opens()
    app = make_app(Results(tmp_path / "results"), None)
    page = ask(app, f"/attempt/{A}/{RUN}").text
    assert page.count("/file/") >= len(names), "each that can have an address has one"
    write_site(Results(tmp_path / "results"), tmp_path / "site")


def test_a_plan_of_very_many_tags_and_a_run_of_very_many_tries_at_once(
    layout: RunLayout, opens: Callable[..., None], tmp_path: Path
) -> None:
    plan = json.loads(layout.plan.read_text())
    plan["about"]["tags"] = {f"tag-{n}": [0] for n in range(5_000)}
    layout.plan.write_text(json.dumps(plan))
    begun = layout.journal.read_text().splitlines()[1]
    ids = ("".join(chr(97 + n // 26**place % 26) for place in range(12)) for n in range(5_000))
    with layout.journal.open("a") as file:
        file.writelines(begun.replace(A, one) + "\n" for one in ids)
    opens(most_bytes=12_000_000)


def test_a_line_that_is_too_long_is_passed_over(
    layout: RunLayout, opens: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_lines, "CHUNK_BYTES", 100)
    monkeypatch.setattr(journal_lines, "LONGEST_LINE_BYTES", 3_000)
    whole = layout.journal.read_bytes()
    first, rest = whole.split(b"\n", 1)
    for length in (3_101, 5_000, 10_000):
        layout.journal.write_bytes(first + b"\n" + b"x" * length + b"\n" + rest)
        index = SlotIndex(layout.journal)
        index.follow()
        assert index.damaged
        assert [(one.task, one.score) for one in index] == [("a", 1.0)], "what is behind it is read"
        assert index.offset == layout.journal.stat().st_size
        opens(length)
    layout.journal.write_bytes(first + b"\n" + b"x" * 10_000)
    index = SlotIndex(layout.journal)
    index.follow()
    with layout.journal.open("ab") as file:
        file.write(b"x\n" + rest)
    index.follow()
    assert [one.task for one in index] == ["a"], "also where it goes on later"
    monkeypatch.setattr(journal_lines, "JOURNAL_BYTES", 100)
    opens("too large")
