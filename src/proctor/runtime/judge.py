"""The judge as a grader sees it: patient, and everything that its calls use is noted, whatever comes of the grading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from proctor.errors import Fault
from proctor.model.attempt import Phase, issue_of
from proctor.model.codes import Owner, code_row
from proctor.plugins.api import ChatMessage, Completion, Model, Tool
from proctor.plugins.asking import CONTENT_FILTER, costs_nothing
from proctor.plugins.atif import A_CALL
from proctor.runtime.contexts import Patience, PatientModel
from proctor.runtime.notes import Notes

JUDGE_FAILED = "grader.judge_failed"


class JudgeModel:
    """A model that judges: refused calls are repeated, and used is what the grader used.

    What a model's answer is at fault for in an agent's call (`model.malformed`, `model.refusal`) is the judge's fault
    here, and never the agent's: `grader.judge_failed`.
    """

    def __init__(self, model: Model, patience: Patience, notes: Notes) -> None:
        self.spec = model.spec
        self._model = PatientModel(model, patience)
        self._notes = notes

    async def complete(self, messages: Sequence[ChatMessage], tools: Sequence[Tool] = ()) -> Completion:
        """Make one call that is taken on. Raises `Fault`."""
        notes = self._notes
        try:
            completion = await self._model.complete(messages, tools)
        except BaseException as error:
            if not costs_nothing(error):  # one that was cut off is paid for as well, nobody knows how much
                notes.grader_usage += notes.priced(self.spec, A_CALL)
            if isinstance(error, Fault) and code_row(error.code).owner is Owner.AGENT:
                raise Fault(JUDGE_FAILED, f"{error.code}: {error}", phase=Phase.GRADE) from error
            raise
        if completion.usage is None:
            notes.add(issue_of("usage.missing", f"judge {self.spec.id} reported no usage for a call", Phase.GRADE))
        used = completion.usage or A_CALL
        notes.grader_usage += notes.priced(self.spec, used if used.calls else replace(used, calls=1))
        if completion.stop_reason == CONTENT_FILTER:
            raise Fault(JUDGE_FAILED, f"a content filter stopped the answer of {self.spec.id}", phase=Phase.GRADE)
        return completion

    async def close(self) -> None:
        """Do nothing: the model belongs to all attempts of the run."""
