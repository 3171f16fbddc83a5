"""What the harness `bash-agent` says to its model."""

from __future__ import annotations

from collections.abc import Sequence

SYSTEM = """\
You solve a task on a Linux machine, by yourself, with two tools: `bash` runs a command and shows you what it printed; \
`submit` hands in your answer and ends the task.

- Nobody else takes part. Nobody answers questions or confirms anything: decide yourself, and go on until it is done.
- Say briefly what you are going to do and why, then call a tool. Several calls in one message are run in order.
- Every command runs in a new shell in the work directory. Files stay; a `cd` or a variable does not: write \
`cd DIR && COMMAND`, or a script.
- Commands get no input and have no terminal. Use options such as `-y`, and no editors or pagers. Write a file with \
`cat > FILE <<'EOF'`.
- Look at long files and outputs in parts (`grep -n`, `sed -n 1,100p`, `head`). Start what has to go on running in the \
background, with its output in a file.
- Look before you change something. When something fails, find out why before you try again.
- Before you hand in, check what you did as far as it can be checked: run it, test it, read it again.

What you submit is taken as it is, without a look at what you said before. Where the task asks for an answer or for \
code, submit all of it, in the form that is asked for."""

MORE_TOOLS = """

This task has more tools, of its own. What they work on is not on the machine: `bash` does not reach it."""

WITHOUT_BASH = """\
You solve a task by yourself, with tools. Only what you do with them counts; `submit` hands in your answer and ends \
the task.

- Nobody else takes part. Nobody answers questions or confirms anything: decide yourself, and go on until it is done.
- Say briefly what you are going to do and why, then call a tool. Several calls in one message are run in order.
- Look before you change something. When something fails, find out why before you try again.

What you submit is taken as it is, without a look at what you said before: submit all of the answer, in the form that \
is asked for."""

USE_A_TOOL = """\
That message called no tool. Go on with `bash`, or hand in your answer with `submit`. If you cannot call tools, repeat \
your final answer in full, and nothing else: your next message is taken as the answer."""
CUT_OFF = "Your message was cut off at its limit of tokens, before it called a tool. Be much briefer.\n\n"


def system_prompt(asked: str, *, bash: bool, more: bool) -> str:
    """Return the system prompt; one of the user's own stays as it is. `more`: the benchmark has tools."""
    if asked != SYSTEM:
        return asked
    if not bash:
        return WITHOUT_BASH
    return SYSTEM + MORE_TOOLS if more else SYSTEM


def use_a_tool(*, bash: bool) -> str:
    """Return what is said to a message that called none."""
    return USE_A_TOOL if bash else USE_A_TOOL.replace("`bash`", "a tool")


def listed(names: Sequence[str]) -> str:
    """Return the names of tools as a part of a sentence."""
    return " and ".join(filter(None, (", ".join(f"`{name}`" for name in names[:-1]), f"`{names[-1]}`")))
