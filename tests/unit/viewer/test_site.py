"""The static site: every link leads to a file that is there, whatever runs, tasks and files are called (spec 02)."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.append(str(Path(__file__).parents[2] / "support"))
from viewer_runs import START, evidence, good_try, make_run, sealed, started

from proctor.errors import StoreError, UsageError
from proctor.viewer import site as site_module
from proctor.viewer.journal_lines import JournalLines
from proctor.viewer.results import Results
from proctor.viewer.run_list import RunEntry
from proctor.viewer.site import MARK, write_site
from proctor.viewer.site_links import SiteMap, StaticLinks, Target

A = "abcdefghijkl"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*")
ODD_NAMES = [
    "../../x",
    "/etc/passwd",
    "a b#c?d%2e%2e",
    "<script>",
    "con",
    "ünï çødé 运行",
    "x" * 5000,
    "\x1b[2J",
    ".",
    "a\\..\\b",
]


class Page(HTMLParser):
    """The addresses in a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.scripts = 0
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        self.addresses += [value or "" for name, value in attrs if name in ("href", "src", "action", "xlink:href")]


def pages(out: Path) -> Iterator[tuple[Path, Page]]:
    for path in sorted(out.rglob("*.html")):
        yield path, Page(path)


def all_links_lead_to_files_inside(out: Path) -> int:
    """Follow every address of every page; return how many there were."""
    count = 0
    for path, page in pages(out):
        assert page.scripts == 1
        for address in page.addresses:
            parts = urlsplit(address)
            if address == "data:,":
                continue
            assert (parts.scheme, parts.netloc, parts.query) == ("", "", ""), f"{path}: {address}"
            target = path if not parts.path else Path(os.path.normpath(path.parent / unquote(parts.path)))
            assert target.is_relative_to(out), f"{path}: {address}"
            assert target.is_file(), f"{path}: {address}"
            if parts.fragment:
                assert f'id="{parts.fragment}"' in target.read_text("utf-8"), f"{path}: {address}"
            count += 1
    return count


def names_are_safe(out: Path) -> None:
    names = [path.relative_to(out).as_posix() for path in out.rglob("*") if path.name != MARK]
    assert all(NAME.fullmatch(part) and len(part) < 100 for name in names for part in name.split("/"))
    assert len({name.lower() for name in names}) == len(names), "also where upper and lower case are one"


def hostile_root(root: Path) -> Path:
    for n, name in enumerate(ODD_NAMES):
        run = "m_b_h/" + re.sub(r"[/\x00]", "_", name)[:80] + str(n)
        layout = make_run(root, [started(name), *good_try(A, name, START), sealed(A, name, START + 10)], run)
        evidence(layout, name, "try.log", name.encode())
        evidence(layout, name, "artifacts/page.html", b"<script>alert(1)</script>")
        evidence(
            layout, name, "artifacts/" + (re.sub(r"[/\x00]", "_", name)[:80] + ".svg"), b"<svg onload='alert(1)'/>"
        )
    return root


def test_every_link_of_every_page_leads_to_a_file(tmp_path: Path) -> None:
    results, out = hostile_root(tmp_path / "results"), tmp_path / "site"
    found = write_site(Results(results), out)
    assert all_links_lead_to_files_inside(out) > 100
    names_are_safe(out)
    assert found.pages == sum(1 for _ in pages(out))
    assert found.pages >= 1 + 3 * len(ODD_NAMES), "the list; of each run its page, its lanes and its attempt"
    assert (found.attempts_left_out, found.files_left_out) == (0, 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["results", "site"], "nothing is left beside it"
    written = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    assert set(json.loads((out / MARK).read_text())["files"]) == written
    shown = {path.suffix for path in out.rglob("*") if path.is_file() and "files" in path.parts}
    assert shown <= {".json", ".txt"}, "no file of a run is a page or a drawing to a browser"


def test_addresses_stay_when_a_site_is_written_again(tmp_path: Path) -> None:
    results, out = hostile_root(tmp_path / "results"), tmp_path / "site"
    write_site(Results(results), out)
    first = {path for path in out.rglob("*") if path.is_file() and not path.name.startswith("compare-")}
    make_run(results, [started(), *good_try(A, "t", START), sealed(A, "t", START + 10)], "m_b_h/new")
    write_site(Results(results), out)
    again = {path for path in out.rglob("*") if path.is_file()}
    assert first < again, "addresses stay, new ones come"
    assert "m_b_h" not in " ".join(str(path.relative_to(out)) for path in again)


def one_run(root: Path) -> Path:
    layout = make_run(root, [started(), *good_try(A, "t", START), sealed(A, "t", START + 10)])
    evidence(layout, "t", "try.log", b"it said so")
    return layout.directory


def test_an_attempt_without_a_page_is_said_to_have_none(tmp_path: Path) -> None:
    one_run(tmp_path / "results")
    found = write_site(Results(tmp_path / "results"), tmp_path / "site", most_attempts=0)
    assert found.attempts_left_out == 1
    all_links_lead_to_files_inside(tmp_path / "site")
    assert "proctor show" in (tmp_path / "site/no-page.html").read_text("utf-8")
    assert not list((tmp_path / "site").rglob("attempt-*"))


def test_a_large_file_and_a_link_are_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = one_run(tmp_path / "results")
    (tmp_path / "secret").write_text("secret")
    (run / "run.log").symlink_to(tmp_path / "secret")
    monkeypatch.setattr(site_module, "FILE_BYTES", 5)
    found = write_site(Results(tmp_path / "results"), tmp_path / "site")
    assert found.files_left_out >= 2
    assert found.copied_bytes <= 5
    texts = [path.read_text("utf-8") for path in (tmp_path / "site").rglob("*") if path.is_file()]
    assert any("this file is not in the site" in text for text in texts)
    assert not any("it said so" in text for text in texts if "<html" not in text)
    assert not any(text.startswith("secret") for text in texts)
    all_links_lead_to_files_inside(tmp_path / "site")


def test_only_the_runs_that_were_named_are_in_it(tmp_path: Path) -> None:
    run = one_run(tmp_path / "results")
    make_run(tmp_path / "results", [started()], "m_b_h/other")
    write_site(Results(tmp_path / "results", (run,)), tmp_path / "site")
    assert "other" not in (tmp_path / "site/index.html").read_text("utf-8")
    assert not list((tmp_path / "site").glob("other*"))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_language_is_that_which_was_asked_for(tmp_path: Path, language: str) -> None:
    one_run(tmp_path / "results")
    write_site(Results(tmp_path / "results"), tmp_path / "site", language=language)
    assert all(f'<html lang="{language}">' in path.read_text("utf-8") for path, _ in pages(tmp_path / "site"))


def test_what_others_put_there_is_never_replaced(tmp_path: Path) -> None:
    one_run(tmp_path / "results")
    results, out = Results(tmp_path / "results"), tmp_path / "site"
    out.mkdir()
    write_site(results, out)  # an empty directory is taken
    (out / "CNAME").write_text("example.org")
    with pytest.raises(UsageError, match="holds `CNAME`"):
        write_site(results, out)
    (out / "CNAME").unlink()
    (out / "link").symlink_to(tmp_path / "results")
    with pytest.raises(UsageError, match="holds `link`"):
        write_site(results, out)
    with pytest.raises(UsageError, match="holds"):
        write_site(results, tmp_path / "results")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="is not a directory"):
        write_site(results, tmp_path / "file")
    (tmp_path / "to").symlink_to(out)
    with pytest.raises(UsageError, match="is not a directory"):
        write_site(results, tmp_path / "to")
    assert (tmp_path / "file").read_text() == "mine"
    assert (tmp_path / "results/m_b_h/r1/journal.jsonl").is_file()


@pytest.mark.parametrize("mark", ["", "[]", "{}", '{"files": 3}', '{"files": [[1], null]}', "[" * 100_000, "\xff"])
def test_a_damaged_mark_lets_nothing_be_replaced(tmp_path: Path, mark: str) -> None:
    one_run(tmp_path / "results")
    out = tmp_path / "site"
    out.mkdir()
    (out / MARK).write_bytes(mark.encode("latin-1"))
    (out / "mine").write_text("mine")
    with pytest.raises(UsageError):
        write_site(Results(tmp_path / "results"), out)
    assert (out / "mine").read_text() == "mine"


def test_what_cannot_be_written_leaves_the_old_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one_run(tmp_path / "results")
    results, out = Results(tmp_path / "results"), tmp_path / "site"
    write_site(results, out)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(site_module._Writing, "_copy", full)
    with pytest.raises(StoreError, match="No space left"):
        write_site(results, out)
    monkeypatch.setattr(site_module._Writing, "_copy", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        write_site(results, out)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["results", "site"]


def test_a_page_that_cannot_be_made_is_said_and_the_others_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_run(tmp_path / "results")
    make_run(tmp_path / "results", [started(), *good_try(A, "u", START), sealed(A, "u", START + 10)], "m_b_h/r2")
    reading = site_module.Results.entry

    def broken(self: Results, run: str) -> RunEntry:
        if run == "m_b_h/r1":
            raise ZeroDivisionError("a bug")
        return reading(self, run)

    monkeypatch.setattr(site_module.Results, "entry", broken)
    found = write_site(Results(tmp_path / "results"), tmp_path / "site")
    assert len(found.broken) == 1, "the page of the run; nothing leads to its lanes and attempts then"
    assert "ZeroDivisionError: a bug" in found.broken[0]
    texts = [path.read_text("utf-8") for path, _ in pages(tmp_path / "site")]
    assert sum("this is a bug of proctor" in text for text in texts) == 1
    assert not any("ZeroDivisionError" in text for text in texts), "a reader is not told of it"
    assert any("@abcdefghijkl" in text for text in texts), "the other run has all of its pages"
    all_links_lead_to_files_inside(tmp_path / "site")


def test_a_journal_is_read_once_for_all_pages_of_attempts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = [started()]
    for n in range(26):
        own = A[:-1] + chr(ord("a") + n)
        events += [*good_try(own, f"t{n}", START + n), sealed(own, f"t{n}", START + n + 10)]
    size = make_run(tmp_path / "results", events).journal.stat().st_size
    read = 0
    pieces = JournalLines.pieces

    def counted(self: JournalLines) -> Iterator[tuple[int, bytes, int]]:
        nonlocal read
        for place, piece, end in pieces(self):
            read += len(piece)
            yield place, piece, end

    monkeypatch.setattr(JournalLines, "pieces", counted)
    found = write_site(Results(tmp_path / "results"), tmp_path / "site")
    assert found.pages > 26
    assert read < 4 * size, "once each for the slots, the lanes, and all attempts"


odd = st.one_of(
    st.sampled_from(ODD_NAMES), st.text(max_size=60), st.text(st.characters(categories=["Cs", "Cc", "Po"]), max_size=9)
)


@given(run=odd, other=odd, name=odd, page=st.text(max_size=5))
def test_names_are_safe_and_different_whatever_the_ids_are(run: str, other: str, name: str, page: str) -> None:
    site = SiteMap(most_attempts=10)
    links = StaticLinks(site, "x/y.html")
    made = [links.runs(), links.runs({"page": page}), links.compare([run, other]), links.asset("style.css")]
    made += [links.run(run), links.run(run, {"q": page}), links.lanes(run), links.attempt(run, name)]
    made += [links.file(run, name), links.run(other), links.file(other, name)]
    targets: list[Target] = []
    while (target := site.next()) is not None:
        targets.append(target)
    paths = [site.path(target) for target in targets]
    assert len({path.lower() for path in paths}) == len(paths), "each has a file of its own"
    for path in paths:
        assert len(path) < 200
        assert all(NAME.fullmatch(part) for part in path.split("/"))
    for address in made:
        assert os.path.normpath(f"x/{address}") in paths, "an address is a path, with nothing to be quoted"
