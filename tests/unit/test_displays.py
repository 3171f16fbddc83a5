"""A display that fails neither fails nor holds the run (spec 10 I4)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from proctor.cli.main import run
from proctor.report.ndjson import Ndjson
from proctor.report.plain import PlainText


@pytest.mark.parametrize(("display", "code"), [(PlainText, 0), (Ndjson, 3)])
def test_10_I4_a_display_that_raises_is_left_out_and_said(
    display: type, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    honest, calls = display.show, 0

    def breaks(self: object, experiment: str, event: object, at: float) -> None:
        nonlocal calls
        calls += 1
        if calls == 5:
            raise ZeroDivisionError("no display")
        honest(self, experiment, event, at)

    monkeypatch.setattr(display, "show", breaks)
    monkeypatch.chdir(tmp_path)
    assert run(["run", "trivial", "oracle", "--json"]) == code
    assert calls == 5, "it is not asked again"
    said = capsys.readouterr()
    assert "the run goes on (ZeroDivisionError: no display)" in said.err
    assert "100.0% (10/10 passed)" in said.err
    receipt = json.loads(said.out.splitlines()[-1])
    assert receipt["type"] == "receipt"
    assert receipt["runs"][0]["counts"]["passed"] == 10
    [log] = tmp_path.rglob("run.log")
    assert "a display failed" in log.read_text()
