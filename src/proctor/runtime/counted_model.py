"""The model as a harness sees it: what its calls use comes back with its cost, and counts even if nobody reports it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from proctor.plugins.api import ChatMessage, Completion, Model, Tool
from proctor.plugins.asking import costs_nothing
from proctor.plugins.atif import A_CALL
from proctor.runtime.notes import Notes


class CountedModel:
    """A model whose calls are noted.

    A harness reports what it used. Where it reports fewer calls than it made, what was noted here counts: no call is
    free because a harness forgot to say so.
    """

    def __init__(self, model: Model, notes: Notes) -> None:
        self.spec = model.spec
        self._model = model
        self._notes = notes

    async def complete(self, messages: Sequence[ChatMessage], tools: Sequence[Tool] = ()) -> Completion:
        """Make one call. Raises what the model raises."""
        notes = self._notes
        try:
            completion = await self._model.complete(messages, tools)
        except BaseException as error:
            if not costs_nothing(error):
                notes.made += notes.priced(self.spec, A_CALL)
            raise
        used = notes.priced(self.spec, A_CALL if completion.usage is None else completion.usage)
        notes.made += used
        return completion if completion.usage is None else replace(completion, usage=used)

    async def close(self) -> None:
        """Do nothing: the model belongs to all attempts of the run."""
