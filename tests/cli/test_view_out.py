"""`proctor view --out` as a user runs it (spec 02 `view`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from program import Ended

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
