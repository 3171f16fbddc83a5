"""The harness `claude-code`: Anthropic's Claude Code, without a person. It speaks Anthropic's messages."""

from __future__ import annotations

from pydantic import BaseModel

from proctor.harnesses.command import ProgramHarness, ProgramOptions
from proctor.harnesses.command_declaration import Declaration, Failure
from proctor.harnesses.command_output import Parser
from proctor.harnesses.programs import _npm
from proctor.harnesses.programs.claude_code_log import read_claude_code

PACKAGE = "@anthropic-ai/claude-code"
TRANSCRIPTS = "{state}/claude/projects/*/*.jsonl"
_FLAGS = ("--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions", "--strict-mcp-config")


class ClaudeCodeOptions(ProgramOptions):
    """Parameters of `claude-code`."""

    version: str | None = "2.1.332"


class ClaudeCodeHarness(ProgramHarness):
    """Runs Claude Code in the sandbox."""

    name = "claude-code"
    options: type[BaseModel] = ClaudeCodeOptions

    def __init__(self, options: ClaudeCodeOptions) -> None:
        self._options = options

    def declared(self, family: str) -> Declaration:
        """Return how it is installed and started."""
        start = ("claude", "-p", "--model", "{model}", *_FLAGS)
        return Declaration(
            name=self.name,
            command=(*start, "--session-id", "{session}", *self._options.args),
            resume=(*start, "--resume", "{session}", *self._options.args),
            stdin="\n{prompt}",  # at the very beginning `/compact` and its like are taken for commands
            env={
                "ANTHROPIC_BASE_URL": "{root_url}",
                "ANTHROPIC_API_KEY": "{key}",
                "CLAUDE_CONFIG_DIR": "{state}/claude",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "DISABLE_AUTOUPDATER": "1",
                "DISABLE_TELEMETRY": "1",
                "DISABLE_ERROR_REPORTING": "1",
                "IS_SANDBOX": "1",  # without it nothing is allowed to root unasked
                **self._options.env,
            },
            version=self._options.version,
            version_command=("claude", "--version"),
            installed=_npm.installed_script("claude"),
            install=_npm.install_script(PACKAGE),
            path=_npm.PATH,
            keep=(TRANSCRIPTS,),
            failures=(Failure(code="model.refused_auth", pattern="Invalid API key|Not logged in"),),
        )

    def parser(self) -> Parser:
        """Return what reads its lines."""
        return read_claude_code
