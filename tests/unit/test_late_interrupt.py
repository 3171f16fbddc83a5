"""What is said of an interrupt that nothing is there to take (spec 10 I1)."""

from __future__ import annotations

import pytest

from proctor.cli import main
from proctor.cli.exits import Exit
from proctor.cli.interrupts import Interrupts


@pytest.mark.parametrize(
    ("begun", "says"), [(False, "before anything was started"), (True, "what was finished is kept")]
)
def test_10_I1_an_interrupt_that_comes_when_all_is_over_is_not_said_to_have_come_before(
    begun: bool, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Interrupts, "begun_here", begun)
    assert main._end_with(KeyboardInterrupt()) is Exit.SIGINT
    assert says in capsys.readouterr().err
