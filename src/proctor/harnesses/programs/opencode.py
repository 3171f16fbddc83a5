"""The harness `opencode`: an agent that speaks chat completions, or Anthropic's messages for models of that family.

Read is what it prints as lines of JSON: texts, tool calls with their results, and at the end of each step its tokens.
"""

from __future__ import annotations

import json
from dataclasses import replace

from pydantic import BaseModel

from proctor.harnesses.command import ProgramHarness, ProgramOptions
from proctor.harnesses.command_declaration import Declaration
from proctor.harnesses.command_output import (
    JsonObject,
    Parser,
    ProgramReport,
    ProgramRun,
    at,
    cost,
    count,
    distinct,
    json_lines,
    mapping,
    no_end,
    text_of,
    unanswered,
)
from proctor.harnesses.programs import _npm
from proctor.model.attempt import NO_USAGE, Usage
from proctor.model.codes import code_of_status
from proctor.model.spec import Json
from proctor.plugins.api import ToolCall
from proctor.plugins.atif import Trajectory

PACKAGE = "opencode-ai"
CONFIG = "{state}/opencode.json"
_CLIENTS = {"anthropic": "@ai-sdk/anthropic", "openai": "@ai-sdk/openai-compatible"}
_FLAGS = ("--format", "json", "--auto", "--model", "endpoint/{model}")
_SWITCHED_OFF = (
    "OPENCODE_DISABLE_AUTOUPDATE", "OPENCODE_DISABLE_MODELS_FETCH", "OPENCODE_DISABLE_LSP_DOWNLOAD",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS", "OPENCODE_DISABLE_SHARE",
)  # fmt: skip
_ENDS = {
    "APIError": "model.server",
    "ProviderAuthError": "model.refused_auth",
    "ContentFilterError": "model.refusal",
    "ContextOverflowError": "model.invalid_request",
    "MessageOutputLengthError": "model.malformed",
}
"""What the errors mean that it gives no status of, by name; any other is one that it did not expect."""


class OpencodeOptions(ProgramOptions):
    """Parameters of `opencode`."""

    version: str | None = "1.18.33"


class OpencodeHarness(ProgramHarness):
    """Runs opencode in the sandbox."""

    name = "opencode"
    options: type[BaseModel] = OpencodeOptions

    def __init__(self, options: OpencodeOptions) -> None:
        self._options = options

    def declared(self, family: str) -> Declaration:
        """Return how it is installed and started."""
        return Declaration(
            name=self.name,
            command=("opencode", "run", *_FLAGS, "--title", "task", *self._options.args),
            resume=("opencode", "run", *_FLAGS, "--continue", *self._options.args),
            stdin="{prompt}",
            env={
                "OPENCODE_CONFIG": CONFIG,
                "OPENCODE_ENDPOINT_KEY": "{key}",
                "XDG_CONFIG_HOME": "{state}/config",
                "XDG_DATA_HOME": "{state}/data",
                "XDG_STATE_HOME": "{state}/state",
                "XDG_CACHE_HOME": "{state}/cache",
                **dict.fromkeys(_SWITCHED_OFF, "1"),
                **self._options.env,
            },
            files={CONFIG: _config(family)},
            version=self._options.version,
            version_command=("opencode", "--version"),
            installed=_npm.installed_script("opencode"),
            install=_npm.install_script(PACKAGE),
            path=_npm.PATH,
        )

    def parser(self) -> Parser:
        """Return what reads its lines."""
        return read_opencode


def _config(family: str) -> str:
    address = "{root_url}/v1" if family == "anthropic" else "{base_url}"
    settings: Json = {
        "autoupdate": False,
        "share": "disabled",
        "permission": {"*": "allow"},
        "provider": {
            "endpoint": {
                "npm": _CLIENTS[family],
                "name": "endpoint",
                "options": {"baseURL": address, "apiKey": "{env:OPENCODE_ENDPOINT_KEY}"},  # it fills that in itself
                "models": {"{model}": {}},
            }
        },
    }
    return json.dumps(settings)


def read_opencode(run: ProgramRun) -> ProgramReport:
    """Return what the lines of all turns say."""
    trajectory = run.trajectory()
    usage, report = None, ProgramReport()
    for turn in run.turns:
        trajectory.say("user", turn.prompt)
        step = _Step(trajectory)
        errors: list[JsonObject] = []
        for line in json_lines(turn.output):
            if line.get("type") == "error":
                errors.append(mapping(line.get("error")))
            else:
                step.read(str(line.get("type")), mapping(line.get("part")))
        step.end(None)
        if step.usage != NO_USAGE:
            usage = (usage or NO_USAGE) + step.usage
        quiet = turn.exit_code == 0 and not errors and step.usage == NO_USAGE
        report = ProgramReport(step.last_text, problems=[no_end(run)] if quiet else _problems(errors))
    if usage is not None:
        trajectory.total(usage)
    steps, waiting = (usage.calls, None) if usage else (None, unanswered(run))
    if any(code != "harness.crashed" for code, _ in report.problems):  # it said so itself: there was no more than that
        usage = usage or NO_USAGE
    return replace(report, usage=usage, trajectory=trajectory.value(), steps=steps, waiting=waiting)


class _Step:
    """What one call of the model gave, until its tokens are known."""

    def __init__(self, trajectory: Trajectory) -> None:
        self._trajectory = trajectory
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[tuple[ToolCall, str]] = []
        self.usage = NO_USAGE
        self.last_text: str | None = None

    def read(self, kind: str, part: JsonObject) -> None:
        """Take a line."""
        match kind:
            case "text":
                self._text.append(text_of(part.get("text")))
            case "reasoning":
                self._reasoning.append(text_of(part.get("text")))
            case "tool_use":
                state = mapping(part.get("state"))
                name, arguments = text_of(part.get("tool")), text_of(state.get("input"))
                result = text_of(state.get("output") or state.get("error"))
                self._calls.append((ToolCall(text_of(part.get("callID")), name, arguments), result))
            case "step_finish":
                self.end(_usage_of(part))
            case _:
                pass

    def end(self, usage: Usage | None) -> None:
        """Add the step, of which no more comes."""
        if usage is None and not (self._text or self._reasoning or self._calls):
            return
        self.usage += usage or Usage(calls=1)
        text = "\n".join(self._text)
        self.last_text = text or self.last_text
        reasoning = "\n".join(self._reasoning) or None
        calls = distinct([call for call, _ in self._calls])
        self._trajectory.act(text, usage=usage, calls=calls, reasoning=reasoning)
        for call, (_, result) in zip(calls, self._calls, strict=True):
            self._trajectory.observe(result, call.id)
        self._text, self._reasoning, self._calls = [], [], []


def _usage_of(part: JsonObject) -> Usage:
    """Return its tokens as ours: it counts reasoning beside the output, and we in it."""
    tokens = mapping(part.get("tokens"))
    thought = count(tokens.get("reasoning"))
    return Usage(
        calls=1,
        input_tokens=count(tokens.get("input")),
        output_tokens=count(tokens.get("output")) + thought,
        cache_read_tokens=count(at(tokens, "cache.read")),
        cache_write_tokens=count(at(tokens, "cache.write")),
        reasoning_tokens=thought,
        cost_usd=cost(part.get("cost")) or None,  # 0 is what it says of a model without a price
    )


def _problems(errors: list[JsonObject]) -> list[tuple[str, str]]:
    if not errors:
        return []
    data, name = mapping(errors[-1].get("data")), text_of(errors[-1].get("name"))
    status, said = data.get("statusCode"), text_of(data.get("message")) or name
    code = _ENDS.get(name, "harness.crashed")
    if type(status) is int and status >= 400:
        code = code_of_status(status)
    elif code == "model.server" and "connect" in said.lower():
        code = "model.connection"
    return [(code, f"opencode: {said}")]
