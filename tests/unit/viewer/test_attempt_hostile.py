"""Whatever a model, a sandbox or a task wrote: the page of an attempt opens, nothing acts, its size is bounded."""

import json
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.append(str(Path(__file__).parents[2] / "support"))
from page_content import Content, asked
from viewer_runs import START, evidence, good_try, make_run, sealed, started

from proctor.model.attempt import Check
from proctor.viewer.attempt_page import attempt_page
from proctor.viewer.lanes_page import lanes_page
from proctor.viewer.page import render
from proctor.viewer.results import Results

A = "abcdefghijkl"
RUN = "m_b_h/r1"
MOST_CHARACTERS = 15_000_000

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</pre></details></main><script src=//evil.example.org/x.js></script>",
    "</title></textarea></style></svg><svg onload=alert(1)>",
    "javascript:alert(1)",
    "[x](javascript:alert(1)) https://evil.example.org",
    "{{ 7*7 }} {% include '/etc/passwd' %} {links} {0} {}",
    "\x1b]8;;http://evil.example.org\x07click\x1b]8;;\x07",
    "\x1b[2J\x1b[1;1H\x1b[31mred\x1b[0m\x1bP\x9b31m",
    "right \u202etfel ot\u202c \u2066isolated\u2069 \u200f\u200b\ufeff",
    "NUL \x00 bell \x07 back\x08 CR\rLF\r\n",
    "half \ud800 pair \udfff",
    "<!-- --><![CDATA[ ]]>&lt;b&gt;&#60;script&#62;",
]


def page_of(root: Path) -> Content:
    return Content(render(attempt_page(Results(root), asked(), RUN, A), asked()))


def nothing_acts(page: Content) -> None:
    assert page.acts == []
    assert page.elements["script"] == 1, "that of the viewer"
    assert page.elements["main"] == 1
    assert all(not link.startswith("//") for link in page.links)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_nothing_that_was_said_acts(tmp_path: Path, text: str) -> None:
    task = f"task {text}"
    check = Check(text, False, text, text, text)
    events = [started(text), *good_try(A, task, START, checks=(check,)), sealed(A, task, START + 10)]
    layout = make_run(tmp_path, events)
    step = {
        "step_id": text, "source": text, "model_name": text, "timestamp": text, "message": text,
        "reasoning_content": text,
        "tool_calls": [{"tool_call_id": text, "function_name": text, "arguments": {text: text}}],
        "observation": {"results": [{"source_call_id": text, "content": text}, {"content": text}]},
        "metrics": {text: 1}, "extra": {text: text},
    }  # fmt: skip
    evidence(layout, task, "trajectory.json", json.dumps({"steps": [step, step]}, indent=2).encode())
    raw = text.encode("utf-8", "surrogatepass")
    for name in ("try.log", "artifacts/x.diff", "artifacts/stdout.txt"):
        evidence(layout, task, name, raw * 3)
    safe_name = os.fsencode("artifacts/") + raw.replace(b"/", b"_").replace(b"\0", b"_")[:100]
    (layout.try_dir(task, 0, 1) / os.fsdecode(safe_name)).write_bytes(raw)
    nothing_acts(page_of(tmp_path))
    nothing_acts(Content(render(lanes_page(Results(tmp_path), asked(), RUN), asked())))


@settings(max_examples=40)
@given(text=st.text(max_size=200), markup=st.sampled_from(HOSTILE))
def test_any_text_of_a_step_is_text(tmp_path_factory: pytest.TempPathFactory, text: str, markup: str) -> None:
    root = tmp_path_factory.mktemp("run")
    layout = make_run(root, [started(), *good_try(A, "t", START), sealed(A, "t", START + 10)])
    message = text + markup + text
    evidence(layout, "t", "trajectory.json", json.dumps({"steps": [{"message": message}]}).encode())
    evidence(layout, "t", "try.log", message.encode("utf-8", "replace"))
    nothing_acts(page_of(root))


def test_a_line_of_50_megabytes_is_cut_with_a_link_to_the_file(tmp_path: Path) -> None:
    """Case 163: a huge line is cut with a link to the raw file."""
    layout = make_run(tmp_path, [started(), *good_try(A, "t", START), sealed(A, "t", START + 10)])
    long = "<b>" * 17_000_000
    evidence(layout, "t", "trajectory.json", json.dumps({"steps": [{"source": "user", "message": long}]}).encode())
    evidence(layout, "t", "try.log", long.encode())
    page = page_of(tmp_path)
    nothing_acts(page)
    assert len(page.html) < 500_000
    assert "too large to be shown" in page.text
    assert sum("trajectory.json" in link for link in page.links) >= 2


def test_a_step_of_20_megabytes_among_others_is_cut_out(tmp_path: Path) -> None:
    layout = make_run(tmp_path, [started(), *good_try(A, "t", START), sealed(A, "t", START + 10)])
    steps = [
        {"source": "user", "message": "before"},
        {"message": "x" * 20_000_000},
        {"source": "agent", "message": "after"},
    ]
    evidence(layout, "t", "trajectory.json", json.dumps({"steps": steps}, indent=2).encode())
    page = page_of(tmp_path)
    assert "before" in page.text
    assert "after" in page.text
    assert len(page.html) < 500_000


@pytest.mark.long
def test_many_steps_full_of_text_stay_within_the_page(tmp_path: Path) -> None:
    layout = make_run(tmp_path, [started(), *good_try(A, "t", START), sealed(A, "t", START + 10)])
    call = {"tool_call_id": "c", "function_name": "f", "arguments": {"x": "<" * 20_000}}
    result = {"source_call_id": "c", "content": "\x1b[31m<\x1b[0m" * 2_000}
    step = {"message": "&" * 30_000, "tool_calls": [call] * 60, "observation": {"results": [result] * 70}}
    evidence(layout, "t", "trajectory.json", json.dumps({"steps": [step] * 5}, indent=2).encode())
    page = page_of(tmp_path)
    nothing_acts(page)
    assert len(page.html) < MOST_CHARACTERS


@pytest.mark.long
def test_10000_files_are_counted_and_some_are_listed(tmp_path: Path) -> None:
    layout = make_run(tmp_path, [started(), *good_try(A, "t", START), sealed(A, "t", START + 10)])
    folder = layout.try_dir("t", 0, 1) / "artifacts"
    folder.mkdir(parents=True)
    for n in range(10_000):
        (folder / f"{n}.log").touch()
    page = page_of(tmp_path)
    assert "and 9,700 more" in page.text
    assert len(page.html) < 500_000


@pytest.mark.parametrize("indent", [None, 2])
def test_nesting_2000_deep_is_shown_as_text(tmp_path: Path, indent: int | None) -> None:
    layout = make_run(tmp_path, [started(), *good_try(A, "t", START), sealed(A, "t", START + 10)])
    content = json.dumps({"steps": [{"message": "flat"}, {"message": "DEEP"}]}, indent=indent)
    content = content.replace('"DEEP"', "[" * 2_000 + "]" * 2_000)
    evidence(layout, "t", "trajectory.json", content.encode())
    for name in ("a",):
        deep = layout.try_dir("t", 0, 1) / "/".join([name] * 300)
        deep.mkdir(parents=True)
        (deep / "file").touch()
    page = page_of(tmp_path)
    assert "[[[[" in page.text
    assert len(page.html) < 500_000


NO_TRAJECTORIES = [
    b"", b"[]", b"null", b'{"steps": 3}', b'{"steps":[]}', b"\xff\xfe\x00", b'{"steps":[1,"a"]}',
    b'{\n  "steps": [\n', b'{\n  "steps": [\n    {\n', b'{\n  "steps": [\n  ]\n}',
]  # fmt: skip


@pytest.mark.parametrize("content", NO_TRAJECTORIES)
def test_what_is_no_trajectory_is_said_to_be_none(tmp_path: Path, content: bytes) -> None:
    layout = make_run(tmp_path, [started(), *good_try(A, "t", START), sealed(A, "t", START + 10)])
    evidence(layout, "t", "trajectory.json", content)
    assert "trajectory.json" in page_of(tmp_path).text


def test_no_link_out_of_the_run_is_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.log"
    secret.write_text("THE SECRET")
    layout = make_run(tmp_path / "results", [started(), *good_try(A, "t", START), sealed(A, "t", START + 10)])
    folder = layout.try_dir("t", 0, 1)
    folder.mkdir(parents=True)
    for name in ("try.log", "trajectory.json", "x.diff"):
        (folder / name).symlink_to(secret)
    (folder / "artifacts").symlink_to(tmp_path)
    os.mkfifo(folder / "stdout.txt")
    page = page_of(tmp_path / "results")
    assert "THE SECRET" not in page.text
    assert "secret.log" not in page.text


def test_a_try_directory_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "try.log").write_text("THE SECRET")
    layout = make_run(tmp_path / "results", [started(), *good_try(A, "t", START), sealed(A, "t", START + 10)])
    folder = layout.try_dir("t", 0, 1)
    folder.parent.mkdir(parents=True)
    folder.symlink_to(outside)
    page = page_of(tmp_path / "results")
    assert "THE SECRET" not in page.text
    assert "try.log" not in page.text
