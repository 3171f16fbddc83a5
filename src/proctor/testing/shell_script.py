"""A server's script that acts as the model of a real agent program: runs commands by its shell tool, then ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from proctor.model.attempt import Usage
from proctor.models.shell_agent import shell_agent
from proctor.testing.replies import Answer, Reply, Request, answering

SUBMIT_MARK = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""What mini-swe-agent's prompt demands as the output of a last command, which then ends the work."""


def shell_script(
    commands: Sequence[str], *, answer: str = "done", usage: Usage | None = None, reasoning: str | None = None
) -> Callable[[Request], Reply]:
    """Make the model run `commands` one by one by the agent's shell tool, and then end with `answer`.

    The tool is found among those offered, on any wire, and its arguments fit its JSON schema. The end is a call of a
    tool that submits where there is one, a last command that submits where the prompt demands that, else a text. A
    request that offers no shell is a side question (for a title, say) and gets the text. `usage` and
    `reasoning` are those of each answer; usage that is not given is counted.
    """
    plain = answering(shell_agent(commands, answer))
    submitting = answering(shell_agent([*commands, f"echo {SUBMIT_MARK}"], answer))

    def reply(request: Request) -> Reply:
        by_command = any(SUBMIT_MARK in message.text for message in request.messages)
        said = (submitting if by_command else plain)(request)
        if not isinstance(said, Answer):
            return said
        return replace(said, usage=said.usage if usage is None else usage, reasoning=reasoning)

    return reply
