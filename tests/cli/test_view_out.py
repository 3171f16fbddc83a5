"""`proctor view --out` as a user runs it (spec 02 `view`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from program import Ended

from proctor.viewer.results import Results

Proctor = Callable[..., Ended]


@pytest.fixture
def runs(proctor: Proctor) -> None:
    for name in ("first", "second"):
        assert proctor("run", "trivial", "nop", "--limit", "2", "--run-id", name).code in (0, 1)


def test_a_site_of_all_results_and_of_one_run(proctor: Proctor, runs: None, tmp_path: Path) -> None:
    ended = proctor("view", "--out", str(tmp_path / "all"))
    assert ended.code == 0
    assert ended.err == ""
    assert f"{tmp_path}/all/index.html" in ended.out
    # The list and the comparison; of two runs each its page, its lanes, one row for each try, and its attempts.
    assert "12 pages" in ended.out
    index = (tmp_path / "all/index.html").read_text("utf-8")
    assert "first" in index
    assert "second" in index
    assert proctor("view", "second", "--out", str(tmp_path / "one"), "--language", "zh").code == 0
    one = (tmp_path / "one/index.html").read_text("utf-8")
    assert "first" not in one
    assert '<html lang="zh">' in one


def test_it_says_what_is_left_out(proctor: Proctor, runs: None, tmp_path: Path) -> None:
    ended = proctor("view", "--out", str(tmp_path / "site"), "--attempt-pages", "1")
    assert ended.code == 0
    assert "3 attempts have no page of their own (--attempt-pages 1)" in ended.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--out", "mine"], "holds `notes.txt`"),
        (["--language", "zh"], "--attempt-pages and --language are about pages that are written"),
        (["--attempt-pages", "0"], "--attempt-pages and --language are about pages that are written"),
        (["nowhere", "--out", "new"], "nowhere"),
    ],
)
def test_what_cannot_be_written(
    proctor: Proctor, runs: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], says: str
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("mine")
    given = [str(tmp_path / each) if each in ("mine", "new") else each for each in arguments]
    ended = proctor("view", *given)
    assert ended.code == 2
    assert says in ended.err
    assert (tmp_path / "mine/notes.txt").read_text() == "mine"
    assert not (tmp_path / "new").exists()


def test_a_page_that_a_bug_of_ours_prevents_is_said_and_the_exit_code_is_70(
    proctor: Proctor, runs: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(Results, "attempt_lines", broken)
    ended = proctor("view", "--out", str(tmp_path / "site"))
    assert ended.code == 70
    assert "ZeroDivisionError: a bug" in ended.err
    assert "12 pages" in ended.out, "the others are there, and these say that they are not"


def test_results_that_cannot_be_read_are_said_on_their_pages_and_in_the_terminal(
    proctor: Proctor, runs: None, tmp_path: Path
) -> None:
    [run, *_] = sorted((tmp_path / "results").rglob("journal.jsonl"))
    lines = run.read_bytes().splitlines(keepends=True)
    run.write_bytes(lines[0].replace(b'"slots":2', b'"slots":' + b"9" * 400) + b"".join(lines[1:]))
    run.with_name("summary.json").unlink()
    ended = proctor("view", "--out", str(tmp_path / "site"))
    assert ended.code == 0
    assert "could not be filled" in ended.err
    assert "Traceback" not in ended.err
    assert (tmp_path / "site/index.html").is_file()
