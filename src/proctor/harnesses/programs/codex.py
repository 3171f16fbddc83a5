"""The harness `codex`: OpenAI's Codex, without a person. It speaks OpenAI's responses.

Read is the record of its session (`rollout-*.jsonl`), which it appends to in each turn. The counts at the end of a turn
are of the whole session; the record has those of each call, some of them twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pydantic import BaseModel

from proctor.harnesses.command import ProgramHarness, ProgramOptions
from proctor.harnesses.command_declaration import Declaration
from proctor.harnesses.command_output import (
    JsonObject,
    Parser,
    ProgramReport,
    ProgramRun,
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
from proctor.plugins.api import ToolCall
from proctor.plugins.atif import Trajectory

PACKAGE = "@openai/codex"
RECORDS = "{state}/codex/sessions/*/*/*/*.jsonl"
_CONFIG = """\
model_provider = "endpoint"
check_for_update_on_startup = false

[analytics]
enabled = false

[otel]
exporter = "none"

[model_providers.endpoint]
name = "endpoint"
base_url = "{base_url}"
env_key = "CODEX_ENDPOINT_KEY"
wire_api = "responses"
"""
_FLAGS = ("--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "--model", "{model}")
_STATUS = re.compile(r"(?:unexpected|last) status:? (\d{3})")
_OTHERS = (
    (re.compile(r'"type": ?"invalid_request_error"'), "model.invalid_request"),
    (re.compile("reason: max_output_tokens"), "model.malformed"),
    (re.compile("reason: content_filter"), "model.refusal"),
    (re.compile("high demand|UTF8 error"), "model.server"),  # the first is what it makes of status 500
    (re.compile("at capacity"), "model.overloaded"),
    (re.compile("stream disconnected|error sending request"), "model.connection"),
)
"""What it says where it does not tell the status."""


class CodexOptions(ProgramOptions):
    """Parameters of `codex`."""

    version: str | None = "0.171.0"


class CodexHarness(ProgramHarness):
    """Runs Codex in the sandbox."""

    name = "codex"
    options: type[BaseModel] = CodexOptions

    def __init__(self, options: CodexOptions) -> None:
        self._options = options

    def declared(self, family: str) -> Declaration:
        """Return how it is installed and started."""
        return Declaration(
            name=self.name,
            command=("codex", "exec", *_FLAGS, *self._options.args, "-"),
            resume=("codex", "exec", "resume", "--last", *_FLAGS, *self._options.args, "-"),
            stdin="{prompt}",
            env={"CODEX_HOME": "{state}/codex", "CODEX_ENDPOINT_KEY": "{key}", **self._options.env},
            files={"{state}/codex/config.toml": _CONFIG},
            version=self._options.version,
            version_command=("codex", "--version"),
            installed=_npm.installed_script("codex"),
            install=_npm.install_script(PACKAGE),
            path=_npm.PATH,
            keep=(RECORDS,),
        )

    def parser(self) -> Parser:
        """Return what reads its record."""
        return read_codex


def read_codex(run: ProgramRun) -> ProgramReport:
    """Return what the record and the last lines say."""
    lines = list(json_lines(run.turns[-1].output))
    said = [item for line in lines if (item := mapping(line.get("item"))).get("type") == "agent_message"]
    answer = text_of(said[-1].get("text")) if said else None
    records = [record for content in _records(run) if (record := list(json_lines(content)))]
    trajectory = run.trajectory()
    total: Usage | None = None
    for record in records:
        calls = list(_calls(record))
        total = sum(calls, total or NO_USAGE)
    if not records:
        for turn in run.turns:
            trajectory.say("user", turn.prompt)
    else:
        _Reader(trajectory).read(records[0])
    if total is not None:
        trajectory.total(total)
    known = None if total is None or total == NO_USAGE else total
    completed = any(line.get("type") == "turn.completed" for line in lines)
    retried = [text_of(line.get("message")) for line in lines if line.get("type") == "error"]
    problems = _end(lines) or ([no_end(run)] if run.turns[-1].exit_code == 0 and not completed else [])
    return ProgramReport(
        answer,
        known if completed or answer else total,  # the endpoint said nothing of an answer that came
        trajectory.value(),
        known.calls if known else None,
        problems,
        partial=any(code == "model.refusal" for code, _ in problems),  # it does not say what it did not take
        waiting=None if known else unanswered(run, _problems(retried[-1]) if retried else ()),
    )


def _records(run: ProgramRun) -> list[bytes]:
    """Return the records of the session and of helpers that it started, itself first: names begin with the time."""
    return [content for path, content in sorted(run.files.items()) if path.endswith(".jsonl")]


def _calls(record: list[JsonObject]) -> Iterator[Usage]:
    """Yield what each call used: by the lines that are there for it, else by how the sums grow."""
    seen = set[str]()
    for line in record:
        payload = mapping(line.get("payload"))
        if line.get("type") == "token_usage_record" and (name := text_of(payload.get("response_id"))) not in seen:
            seen.add(name)
            yield _usage_of(mapping(payload.get("usage")))
    if not seen:
        yield from _steps_of_sums(record)


def _steps_of_sums(record: list[JsonObject]) -> Iterator[Usage]:
    """Older versions say after each call, and at times once more, the sum so far and what the last call used."""
    before: JsonObject | None = None
    for line in record:
        info = mapping(mapping(line.get("payload")).get("info"))
        total = mapping(info.get("total_token_usage"))
        if total and total != before:
            before = total
            yield _usage_of(mapping(info.get("last_token_usage")))


def _usage_of(reported: JsonObject) -> Usage:
    read, write = count(reported.get("cached_input_tokens")), count(reported.get("cache_write_input_tokens"))
    return Usage(
        calls=1,
        input_tokens=max(0, count(reported.get("input_tokens")) - read - write),
        output_tokens=count(reported.get("output_tokens")),
        cache_read_tokens=read,
        cache_write_tokens=write,
        reasoning_tokens=count(reported.get("reasoning_output_tokens")),
    )


class _Reader:
    """Reads the items of a record into a trajectory: what one call of the model gave is one step."""

    def __init__(self, trajectory: Trajectory) -> None:
        self._trajectory = trajectory
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[ToolCall] = []

    def read(self, record: list[JsonObject]) -> None:
        """Take all lines."""
        precise = any(line.get("type") == "token_usage_record" for line in record)
        for line in record:
            payload = mapping(line.get("payload"))
            match line.get("type"):
                case "session_meta":
                    if text := text_of(mapping(payload.get("base_instructions")).get("text")):
                        self._trajectory.say("system", text)
                case "token_usage_record":
                    self._act(_usage_of(mapping(payload.get("usage"))))
                case "event_msg" if payload.get("type") == "token_count" and not precise and self._any:
                    self._act(_usage_of(mapping(mapping(payload.get("info")).get("last_token_usage"))))
                case "response_item":
                    self._item(payload, text_of(line.get("timestamp")) or None)
                case _:
                    pass
        if self._any:
            self._act(None)

    @property
    def _any(self) -> bool:
        return bool(self._text or self._reasoning or self._calls)

    def _item(self, item: JsonObject, stamp: str | None) -> None:
        kind, role = str(item.get("type")), item.get("role")
        if kind == "message" and role == "assistant":
            self._text.append(text_of(item.get("content")))
        elif kind == "message":
            self._trajectory.say("user" if role == "user" else "system", text_of(item.get("content")), timestamp=stamp)
        elif kind == "reasoning":
            self._reasoning.append(text_of(item.get("summary")) or text_of(item.get("content")))
        elif kind.endswith("_call_output"):
            if self._any:
                self._act(None)
            self._trajectory.observe(text_of(item.get("output")), text_of(item.get("call_id")))
        elif kind.endswith("_call"):
            arguments = item.get("arguments") or item.get("action") or {"input": item.get("input")}
            name = text_of(item.get("name")) or kind
            self._calls.append(ToolCall(text_of(item.get("call_id") or item.get("id")), name, text_of(arguments)))

    def _act(self, usage: Usage | None) -> None:
        self._trajectory.act(
            "\n".join(self._text),
            usage=usage,
            calls=distinct(self._calls),
            reasoning="\n".join(self._reasoning) or None,
        )
        self._text, self._reasoning, self._calls = [], [], []


def _end(lines: list[JsonObject]) -> list[tuple[str, str]]:
    failed = [line for line in lines if line.get("type") == "turn.failed"]
    return _problems(text_of(mapping(failed[-1].get("error")).get("message"))) if failed else []


def _problems(said: str) -> list[tuple[str, str]]:
    """Return why a turn failed, where that was the endpoint's doing."""
    if found := _STATUS.search(said):
        return [(code_of_status(int(found.group(1))), f"codex: {said}")]
    return [(code, f"codex: {said}") for pattern, code in _OTHERS if pattern.search(said)][:1]
