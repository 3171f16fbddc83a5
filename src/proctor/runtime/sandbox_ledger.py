"""Which sandboxes of an invocation are not known to be gone."""

from __future__ import annotations

from proctor.model.events import Event, Interrupted, LaneClosed, SandboxDisposed, SandboxKept, SandboxOpened


class SandboxLedger:
    """The sandboxes that were opened and whose end was not seen, in the order of their opening."""

    def __init__(self) -> None:
        self._experiment_of: dict[str, str] = {}
        self._interrupted = False
        self.kept: list[SandboxKept] = []
        """Those that were kept for a person, in the order in which that was done; they are not among `left`."""
        self.removed = 0
        """How many of those that were there at an interrupt are gone since."""

    def note(self, event: Event, experiment: str = "") -> None:
        """Take an event of an experiment into account, or an interruption of all."""
        match event:
            case SandboxOpened(sandbox=sandbox):
                self._experiment_of[sandbox] = experiment
            case SandboxDisposed(sandbox=sandbox) | LaneClosed(sandbox=str(sandbox)):
                gone = self._experiment_of.pop(sandbox, None)
                self.removed += self._interrupted and gone is not None
            case SandboxKept(sandbox=sandbox):
                self._experiment_of.pop(sandbox, None)
                self.kept.append(event)
            case Interrupted():
                self._interrupted = True
            case _:
                pass

    @property
    def left(self) -> list[tuple[str, str]]:
        """The sandboxes that may be there, each with its experiment."""
        return list(self._experiment_of.items())
