"""The tools of the harness `bash-agent`: a shell in the sandbox, and the way to hand in an answer."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from proctor.model.bounds import mark, shortened
from proctor.plugins.api import ExecResult, Sandbox, Tool, ToolCall, Tools, arguments_of

if TYPE_CHECKING:
    from proctor.harnesses.bash_agent import BashAgentOptions

COMMAND_BYTES = 100_000
"""Of one command: the kernel takes no argument of more than 128 KiB."""
SHOWN_CHARACTERS = 200
"""Of what a model wrote, where a message to it or to people quotes it."""

# The order in which both streams were written is what a reader needs, so they are one. Alpine has no bash.
_RUN = 'exec 2>&1; if command -v bash >/dev/null; then exec bash -c "$1"; else exec sh -c "$1"; fi'

SUBMIT = Tool(
    "submit",
    "Hand in your answer. This ends the task: nothing can be done after it.",
    {
        "type": "object",
        "properties": {
            "answer": {
                "type": "string",
                "description": "The whole answer, exactly as the task asks for it. Where the task asks for files or "
                "changes only: one sentence on what was done.",
            }
        },
        "required": ["answer"],
    },
)


class Mistake(Exception):
    """A call that cannot be done; the message is for the model."""


class BashTool:
    """Runs commands of a model in a sandbox, each in a shell of its own in the work directory; `say` hears of each."""

    def __init__(self, sandbox: Sandbox, say: Callable[[str], None], options: BashAgentOptions) -> None:
        self._sandbox = sandbox
        self._say = say
        self._timeout_seconds = options.command_timeout_seconds
        self._longest_seconds = max(self._timeout_seconds, options.longest_command_timeout_seconds)
        self._limit = options.output_limit_bytes

    @property
    def tool(self) -> Tool:
        """What the model is told of it."""
        return Tool(
            "bash",
            f"Run a command in a new shell in {self._sandbox.workdir}. You get what it printed (standard output and "
            f"errors in one; of more than {self._limit:,} bytes the beginning and the end) and how it ended.",
            {
                "type": "object",
                "properties": {
                    "command": {"type": "string", "description": "The command, or a script of several lines."},
                    "timeout_seconds": {
                        "type": "number",
                        "description": f"When the command is ended; {self._timeout_seconds:g} unless given, at most "
                        f"{self._longest_seconds:g}.",
                    },
                },
                "required": ["command"],
            },
        )

    async def run(self, call: ToolCall) -> str:
        """Run the command of a call and return what the model is shown. Raises `Mistake`, and `Fault` (provider.*)."""
        arguments = _parsed(call)
        command = _text_argument(arguments, "command")
        seconds: Any = arguments.get("timeout_seconds")
        if seconds is None:
            seconds = self._timeout_seconds
        if type(seconds) not in (int, float) or not seconds > 0:
            raise Mistake(f"`timeout_seconds` must be a number above 0, not {quoted(seconds)}")
        seconds = min(seconds, self._longest_seconds)
        if command != sound(command):
            raise Mistake("the command is no valid Unicode text")
        if "\0" in command:
            raise Mistake("the command has a NUL character in it")
        if (size := len(command.encode())) > COMMAND_BYTES:
            raise Mistake(f"the command has {size:,} bytes; at most {COMMAND_BYTES:,} are possible: do it in parts")
        self._say(f"$ {shortened(command, SHOWN_CHARACTERS)}")
        result = await self._sandbox.exec(
            ["sh", "-c", _RUN, "sh", command], timeout_seconds=seconds, keep_bytes=self._limit
        )
        return f"{_printed(result)}{_ended(result, seconds)}"


def submitted(call: ToolCall) -> str:
    """Return the answer that a call of `submit` hands in; raises `Mistake`."""
    return _text_argument(_parsed(call), "answer")


async def call_of_benchmark(tools: Tools, call: ToolCall) -> str:
    """Call a tool of the benchmark and return what the model is shown. Raises `Mistake`, and `Fault`."""
    shown = await tools.call(call.name, _parsed(call))
    return shown if shown.strip() else "it returned nothing"  # some endpoints refuse a blank result


def _parsed(call: ToolCall) -> dict[str, Any]:
    """Return the arguments of a call; raises `Mistake`."""
    arguments = arguments_of(call)
    if arguments is None:
        raise Mistake(f"the arguments are not a JSON object: {quoted(call.arguments)}")
    return arguments


def _text_argument(arguments: dict[str, Any], name: str) -> str:
    """Return an argument that is a text; raises `Mistake`."""
    value = arguments.get(name)
    if not isinstance(value, str):
        given = f"not {quoted(value)}" if name in arguments else "and is missing"
        raise Mistake(f"`{name}` must be a text, {given}")
    return value


def quoted(value: Any) -> str:
    """Return a value as a message quotes it."""
    return shortened(repr(value), SHOWN_CHARACTERS)


def sound(text: str) -> str:
    """Return a text as it can be sent back: half of a character pair is no UTF-8."""
    return text.encode("utf-8", "replace").decode()


def sound_call(call: ToolCall) -> ToolCall:
    """Return a call as endpoints take it back: they refuse odd names, and arguments that are no JSON."""
    name = call.name if re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", call.name) else "unknown"
    arguments = "{}" if arguments_of(call) is None else sound(call.arguments)
    return replace(call, id=sound(call.id), name=name, arguments=arguments)


def _printed(result: ExecResult) -> str:
    """Return output as text. Head and tail are decoded apart: what was between them may have split a character."""
    if not result.stdout.strip():  # some endpoints refuse a result of nothing but blanks
        return ""
    if not result.stdout_dropped:
        return result.out
    seam = (len(result.stdout) + 1) // 2
    head, tail = (part.decode("utf-8", "replace") for part in (result.stdout[:seam], result.stdout[seam:]))
    return f"{head}\n{mark(result.stdout_dropped, 'bytes')}\n{tail}"


def _ended(result: ExecResult, seconds: float) -> str:
    """Return how a command ended, as a line after its output; nothing for one that printed something and went well."""
    said = "" if result.stdout.strip() else "it printed nothing"
    if result.out_of_memory:
        how = "it was ended for want of memory"
    elif result.timed_out:
        how = f"it did not end within {seconds:g} seconds, and was ended with all that it had started"
    elif result.lost is not None:
        how = f"it was lost: {result.lost}"
    elif result.signal is not None:
        how = f"it was ended by signal {_signal_name(result.signal)}"
    elif result.exit_code != 0 or said:
        how = f"exit status {result.exit_code}"
    else:
        return ""
    line_break = "" if said or result.stdout.endswith(b"\n") else "\n"
    return f"{line_break}[{', '.join(filter(None, (said, how)))}]"


def _signal_name(number: int) -> str:
    try:
        return f"{number} ({signal.Signals(number).name})"
    except ValueError:
        return str(number)
