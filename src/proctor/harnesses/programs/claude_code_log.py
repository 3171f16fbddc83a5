"""What Claude Code says of its work: the lines of JSON that it prints, and its transcript.

With each block of a message it repeats the usage of the message as it was when that began; the transcript has the usage
of the whole. The line at the end of a turn has the sums of all calls, those included that no other line shows:
`modelUsage` of the whole session, which counts a turn again in each later one, and `model_usage_since_last_result` of
the turn alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from proctor.harnesses.command_output import (
    JsonObject,
    ProgramReport,
    ProgramRun,
    cost,
    count,
    distinct,
    json_lines,
    mapping,
    no_end,
    objects,
    text_of,
    unanswered,
)
from proctor.model.attempt import NO_USAGE, Usage
from proctor.model.codes import code_of_status
from proctor.plugins.api import ToolCall
from proctor.plugins.atif import Trajectory

SYNTHETIC = "<synthetic>"
"""Stands for the model in messages that Claude Code made up."""
_WITHOUT_STATUS = {
    "connection": "model.connection",
    "timeout": "model.timeout",
    "timed_out": "model.timeout",
    "max_output_tokens": "model.malformed",
}
"""What an error is, by what it is called, where there was no answer with a status."""


@dataclass(slots=True)
class _Message:
    """One answer of the model, whose blocks come one by one."""

    name: str
    usage: Usage
    line: JsonObject
    text: list[str] = field(default_factory=list[str])
    reasoning: list[str] = field(default_factory=list[str])
    calls: list[ToolCall] = field(default_factory=list[ToolCall])


def read_claude_code(run: ProgramRun) -> ProgramReport:
    """Return what the lines of all turns say."""
    trajectory = run.trajectory()
    whole = dict(_whole_messages(run))
    report = ProgramReport()
    usage: Usage | None = None
    steps = 0
    for number, turn in enumerate(run.turns):
        trajectory.say("user", turn.prompt)
        reader = _Turn(trajectory, whole, first=number == 0)
        for line in json_lines(turn.output):
            reader.read(line)
        reader.flush()
        steps += len(reader.seen)
        if reader.results or reader.seen:
            usage = (usage or NO_USAGE) + reader.usage
        last = reader.results[-1] if reader.results else {}
        answer = text_of(last.get("result")) or reader.last_text
        problems = _problems(last) if last or turn.exit_code != 0 else [no_end(run)]
        report = ProgramReport(answer, problems=problems, partial=not reader.results)
    if usage is not None:
        trajectory.total(usage)
    waiting = unanswered(run, _retried(run)) if usage is None else None
    return replace(report, usage=usage, trajectory=trajectory.value(), steps=steps, waiting=waiting)


def _whole_messages(run: ProgramRun) -> Iterator[tuple[str, Usage]]:
    """Yield the usage of each message of the transcript, the last word on it last."""
    for path, content in run.files.items():
        if path.endswith(".jsonl"):
            for line in json_lines(content):
                message = mapping(line.get("message"))
                if line.get("type") == "assistant" and message.get("model") != SYNTHETIC:
                    yield str(message.get("id")), _usage_of(mapping(message.get("usage")))


class _Turn:
    """Reads the lines of one turn into a trajectory; `whole` is what is known of messages that came to their end."""

    def __init__(self, trajectory: Trajectory, whole: Mapping[str, Usage], *, first: bool) -> None:
        self._trajectory = trajectory
        self._whole = whole
        self._first = first
        self._message: _Message | None = None
        self.seen: dict[str, Usage] = {}
        self.results: list[JsonObject] = []
        self.last_text: str | None = None
        self._waiting = True  # for an answer
        self._unseen = 0

    def read(self, line: JsonObject) -> None:
        """Take a line."""
        message = mapping(line.get("message"))
        match line.get("type"):
            case "assistant" if message.get("model") != SYNTHETIC:
                self._waiting = False
                self._said(str(message.get("id")), message, line)
            case "user":
                self.flush()
                if line.get("isSynthetic") is True:
                    self._end_waiting()
                self._waiting = True
                for block in objects(message.get("content")):
                    if block.get("type") == "tool_result":
                        self._trajectory.observe(text_of(block.get("content")), str(block.get("tool_use_id")))
            case "result":
                if line.get("is_error") is False:
                    self._end_waiting()
                self.results.append(line)
            case _:
                pass

    def _end_waiting(self) -> None:
        """Count an answer that no line shows, as there was nothing in it."""
        self._unseen += self._waiting
        self._waiting = False

    def _said(self, name: str, message: JsonObject, line: JsonObject) -> None:
        if self._message is None or self._message.name != name:
            self.flush()
            usage = self._whole.get(name) or _usage_of(mapping(message.get("usage")))
            self._message = _Message(name, usage, line)
            self.seen[name] = usage
        for block in objects(message.get("content")):
            match block.get("type"):
                case "text":
                    self._message.text.append(text_of(block.get("text")))
                case "thinking":
                    self._message.reasoning.append(text_of(block.get("thinking")))
                case "tool_use":
                    call = ToolCall(str(block.get("id")), str(block.get("name")), text_of(block.get("input")))
                    self._message.calls.append(call)
                case _:
                    pass

    def flush(self) -> None:
        """Add the message of which all blocks came."""
        if self._message is None:
            return
        message, self._message = self._message, None
        text = "\n".join(message.text)
        self.last_text = text or self.last_text
        self._trajectory.act(
            text,
            usage=message.usage,
            calls=distinct(message.calls),
            reasoning="\n".join(message.reasoning) or None,
            model=text_of(mapping(message.line.get("message")).get("model")) or None,
            timestamp=text_of(message.line.get("timestamp")) or None,
        )

    @property
    def usage(self) -> Usage:
        """What the turn used: by the lines at its end, else by its messages."""
        if not self.results:
            return sum(self.seen.values(), NO_USAGE)
        used = sum((self._of_result(result) for result in self.results), NO_USAGE)
        calls = len(self.seen) + self._unseen
        return replace(used, calls=calls) if calls else used

    def _of_result(self, result: JsonObject) -> Usage:
        since = result.get("model_usage_since_last_result")
        models = mapping(result.get("modelUsage") if since is None and self._first else since)
        if not models:
            return _usage_of(mapping(result.get("usage"))) if since is None and self.seen else NO_USAGE
        total = sum((_of_model(mapping(one)) for one in models.values()), NO_USAGE)
        return replace(total, cost_usd=_cost_of([mapping(one) for one in models.values()]))


def _usage_of(reported: JsonObject) -> Usage:
    return Usage(
        calls=1,
        input_tokens=count(reported.get("input_tokens")),
        output_tokens=count(reported.get("output_tokens")),
        cache_read_tokens=count(reported.get("cache_read_input_tokens")),
        cache_write_tokens=count(reported.get("cache_creation_input_tokens")),
        reasoning_tokens=count(mapping(reported.get("output_tokens_details")).get("thinking_tokens")),
    )


def _of_model(reported: JsonObject) -> Usage:
    return Usage(
        calls=1,
        input_tokens=count(reported.get("inputTokens")),
        output_tokens=count(reported.get("outputTokens")),
        cache_read_tokens=count(reported.get("cacheReadInputTokens")),
        cache_write_tokens=count(reported.get("cacheCreationInputTokens")),
        reasoning_tokens=count(reported.get("thinkingTokens")),
    )


def _cost_of(models: Sequence[JsonObject]) -> float | None:
    """Return the cost; None where a model is none that Claude Code has a price of: it takes one of another then."""
    costs = [cost(one.get("costUSD")) for one in models if one.get("costBasis", "list") != "unknown"]
    known = [one for one in costs if one is not None]
    return sum(known) if len(known) == len(models) else None


def _retried(run: ProgramRun) -> list[tuple[str, str]]:
    """Return why it made a call again, the last time that it did."""
    lines = [line for line in json_lines(run.turns[-1].output) if line.get("subtype") == "api_retry"]
    if not lines:
        return []
    status = count(lines[-1].get("error_status"))
    code, why = (code_of_status(status), f"status {status}") if status >= 400 else ("model.connection", "no answer")
    return [(code, f"claude-code: was calling again after {why}")]


def _problems(result: JsonObject) -> list[tuple[str, str]]:
    status, ended = result.get("api_error_status"), str(result.get("subtype"))
    if type(status) is int and status >= 400:
        return [(code_of_status(status), f"claude-code: {text_of(result.get('result'))}")]
    if result.get("stop_reason") == "refusal":
        return [("model.refusal", f"claude-code: {text_of(result.get('result'))}")]
    if result.get("terminal_reason") == "api_error":
        kind = text_of(result.get("api_error"))
        code = next((code for word, code in _WITHOUT_STATUS.items() if word in kind), "model.server")
        return [(code, f"claude-code: {text_of(result.get('result'))}")]
    return [("harness.limit", f"claude-code: {ended}")] if ended.startswith("error_max_") else []
