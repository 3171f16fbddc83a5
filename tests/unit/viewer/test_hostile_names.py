"""Names of tasks, models, experiments, tags and runs come from anywhere: pages make nothing of them but text."""

import json
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

sys.path.append(str(Path(__file__).parents[2] / "support"))
from viewer_client import ask
from viewer_runs import START, evidence, good_try, make_run, sealed, started

from proctor.model.events import SlotFilled, Verdict
from proctor.store.plan_file import PlanFile, PlannedSlot, write_plan
from proctor.viewer.app import make_app
from proctor.viewer.results import Results

A = "abcdefghijkl"
PLAIN = "plain"
HOSTILE = [
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "' autofocus onfocus='alert(1)",
    "</title><svg onload=x>", "javascript:alert(1)", "--><!--", "]]>", "{{ 7*7 }}{% raw %}{0}{name}%s",
    "&lt;b&gt;&#x3c;i&#x3e;", "\x1b[31mred\x1b[0m", "\u202etxt.exe\u2066", "a\x00b\x07", "half \ud800",
    "%2e%2e/%00", "?lang=zh&run=x#y", "line\nend\ttab", "x" * 5000,
]  # fmt: skip
VOID = {"meta", "link", "input", "br", "circle", "line", "rect", "path", "img", "hr"}
CONTROLS = {*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0))} - {"\n", "\t"}
UNSEEN = CONTROLS | set("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2069")


class Strict(HTMLParser):
    """Takes a page apart and holds it to the rules: elements are closed in order, ids are there once."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.shape: Counter[tuple[str, tuple[str, ...]]] = Counter()
        self.values: list[tuple[str, str, str]] = []
        self.text = ""
        self.ids: Counter[str] = Counter()
        self.odd: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = tuple(sorted(name for name, _ in attrs))
        assert len(set(names)) == len(names), (tag, names)
        self.shape[tag, names] += 1
        self.values += [(tag, name, value or "") for name, value in attrs]
        self.ids.update(value or "" for name, value in attrs if name == "id")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1:] == [tag], self.open[-3:]
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        self.odd.append(data)

    def handle_pi(self, data: str) -> None:
        self.odd.append(data)

    def unknown_decl(self, data: str) -> None:
        self.odd.append(data)


def results_of(root: Path, name: str) -> Results:
    """Two runs in which everything that has a name has this one."""
    for number, run in enumerate(("e/r1", "e/r2")):
        events = [
            started(name), *good_try(A, f"task {name}", START), sealed(A, f"task {name}", START + 10),
            (SlotFilled("bbcdefghijkl", f"reused {name}", 0, f"elsewhere/{name}", Verdict.FAILED, 0.0), START),
        ]  # fmt: skip
        layout = make_run(root, events, run)
        evidence(layout, f"task {name}", "try.log", name.encode("utf-8", "surrogatepass"))
        tasks = [f"task {name}", f"reused {name}"]
        said = {key: {"id": name} for key in ("benchmark", "harness", "model")}
        slots = [PlannedSlot(task, 0, "0" * 16, reason=name) for task in tasks]
        parts = {task: {"task": f"{number}{task}"} for task in tasks}
        plan = PlanFile({"name": name, **said, "attempts": 1}, slots, {name: "1", "model": str(number)}, parts, {})
        text = name.encode("utf-8", "replace").decode()
        try:
            write_plan(layout.plan, plan)
        except Exception:
            layout.plan.unlink(missing_ok=True)
        summary: dict[str, Any] = {
            "completion": "complete", "headline": text, "experiment": text, "cost_usd": number + 0.5,
            "issues": [{"severity": text, "code": text, "count": 1}], "usage": {"calls": 1}, "counts": {text: 1},
            "metrics": {
                "score": {"mean": 0.5, "low": 0.25, "high": 0.75}, "by_tag": {text: {"passed": 1, "scored": 1}},
                "pass_at_k": [{"k": 1, "pass_at_k": {"mean": 0.5}}],
            },
        }  # fmt: skip
        layout.summary_json.write_text(json.dumps(summary))
    return Results(root)


PATHS = [
    "/", "/?q=NAME&state=NAME&sort=NAME", "/run/e/r1", "/run/e/r1?q=NAME&state=NAME&tag=NAME", f"/attempt/{A}/e/r1",
    "/attempt/bbcdefghijkl/e/r1", "/lanes/e/r1", "/lanes/e/r1?view=tries", "/compare?run=e/r1&run=e/r2", "/run/NAME",
    "/compare?run=e/r1&run=NAME", "/file/e/r1?path=NAME", "/NAME",
]  # fmt: skip


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_a_name_changes_the_text_of_a_page_and_nothing_else(tmp_path: Path, name: str, language: str) -> None:
    pages: list[dict[str, Strict]] = []
    for number, said in enumerate((PLAIN, name)):
        app = make_app(results_of(tmp_path / str(number), said), None)
        pages.append({})
        for path in PATHS:
            address = path.replace("NAME", _quoted(said)) + ("&" if "?" in path else "?") + f"lang={language}"
            answer = ask(app, address)
            assert answer.status in (200, 404), path
            pages[-1][path] = Strict(answer.text)
    for path in PATHS:
        plain, hostile = (one[path] for one in pages)
        if "q=NAME" not in path:  # what is found by a text differs
            assert set(hostile.shape) == set(plain.shape), path
        assert hostile.odd == [], path
        assert max(hostile.ids.values()) == 1, path
        for tag, attribute, value in hostile.values:
            assert not attribute.startswith("on")
            assert attribute not in ("style", "srcdoc", "formaction")
            if attribute in ("href", "src", "action"):
                assert value.startswith(("/", "?", "#", "data:,")), (path, value)
                assert not value.startswith("//"), (path, value)
            if attribute in ("href", "src", "class", "id", "aria-label", "title"):
                assert not UNSEEN & set(value), (path, tag, attribute)
        assert not UNSEEN & set(hostile.text), path


def _quoted(name: str) -> str:

    return quote(name.encode("utf-8", "replace"), safe="")


def test_the_names_are_there_to_be_read(tmp_path: Path) -> None:
    app = make_app(results_of(tmp_path, "<b>\u202ename</b>"), None)
    for path in ("/", "/run/e/r1", f"/attempt/{A}/e/r1", "/lanes/e/r1", "/compare?run=e/r1&run=e/r2"):
        assert "<b><U+202E>name</b>" in Strict(ask(app, path).text).text.replace("\ufffd", "<U+202E>"), path
