"""Parsers for programs that have none of their own: plain text, JSON, lines of JSON, a trajectory."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from proctor.errors import Fault, describe
from proctor.harnesses.command_declaration import Output
from proctor.harnesses.command_output import (
    JsonObject,
    Parser,
    ProgramReport,
    ProgramRun,
    at,
    cost,
    count,
    json_lines,
    json_or_none,
    mapping,
    no_count,
    objects,
    text_of,
)
from proctor.model.attempt import NO_USAGE, Usage
from proctor.model.spec import Json

USAGE_FIELDS = (
    "calls", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens", "cost_usd",
)  # fmt: skip
"""The names that `Output.usage` may have."""


def parser_of(output: Output) -> Parser:
    """Return the parser that a declaration names.

    Raises `ValueError` for one that does not exist, and for a field of usage that is none.
    """
    unknown = next((name for name in output.usage if name not in USAGE_FIELDS), None)
    if unknown is not None:
        raise ValueError(f"usage has no field `{unknown}`: known are {', '.join(USAGE_FIELDS)}")
    kinds: Mapping[str, Parser] = {
        "text": _from_text,
        "json": lambda run: _from_json(run, ([mapping(json_or_none(turn.output))] for turn in run.turns), output),
        "jsonl": lambda run: _from_json(run, (list(json_lines(turn.output)) for turn in run.turns), output),
        "atif": _from_atif,
    }
    return kinds.get(output.parser) or _imported(output.parser, known=[*kinds])


def _imported(path: str, known: list[str]) -> Parser:
    module, colon, name = path.partition(":")
    if not colon:
        raise ValueError(f"unknown parser `{path}`: known are {', '.join(known)}, and `package.module:function`")
    try:
        found: Any = getattr(importlib.import_module(module), name)
    except Exception as error:
        raise ValueError(f"parser `{path}` cannot be loaded: {describe(error)}") from error

    def parse(run: ProgramRun) -> ProgramReport:
        report: Any = found(run)
        if not isinstance(report, ProgramReport):
            raise Fault("harness.crashed", f"parser `{path}` returned {type(report).__name__}, not a ProgramReport")
        return report

    return parse


def _from_text(run: ProgramRun) -> ProgramReport:
    answers = [turn.output.decode("utf-8", "replace").strip() or None for turn in run.turns]
    return _spoken(run, answers, None)


def _from_json(run: ProgramRun, found: Iterable[list[JsonObject]], output: Output) -> ProgramReport:
    """Take the last answer of each turn, and add up what each object says was used."""
    answers: list[str | None] = []
    used, odd = NO_USAGE, False
    for turn in found:
        said = [answer for one in turn if output.answer and (answer := at(one, output.answer)) is not None]
        answers.append(text_of(said[-1]) if said else None)
        used = sum((_usage_in(one, output.usage) for one in turn), used)
        odd = odd or any(
            no_count(at(one, path)) for one in turn for name, path in output.usage.items() if name != "cost_usd"
        )
    return replace(_spoken(run, answers, used if used != NO_USAGE else None), partial=odd)


def _spoken(run: ProgramRun, answers: list[str | None], usage: Usage | None) -> ProgramReport:
    """Return a report of a program of which no more is known than what it was told and what it said."""
    trajectory = run.trajectory()
    for turn, answer in zip(run.turns, answers, strict=True):
        trajectory.say("user", turn.prompt)
        if answer is not None:
            trajectory.act(answer)
    if usage is not None:
        trajectory.total(usage)
    return ProgramReport(answers[-1] if answers else None, usage, trajectory.value())


def _usage_in(value: JsonObject, names: Mapping[str, str]) -> Usage:
    said = {name: found for name, path in names.items() if (found := at(value, path)) is not None}
    if not said:
        return NO_USAGE
    return Usage(
        calls=count(said.get("calls", 1)),
        input_tokens=count(said.get("input_tokens")),
        output_tokens=count(said.get("output_tokens")),
        cache_read_tokens=count(said.get("cache_read_tokens")),
        cache_write_tokens=count(said.get("cache_write_tokens")),
        reasoning_tokens=count(said.get("reasoning_tokens")),
        cost_usd=cost(said.get("cost_usd")),
    )


def _from_atif(run: ProgramRun) -> ProgramReport:
    """Take a trajectory that the program wrote itself, of all its turns, and the sums in it."""
    trajectory = mapping(json_or_none(run.turns[-1].output)) if run.turns else {}
    steps = [step for step in objects(trajectory.get("steps")) if step.get("source") == "agent"]
    answer = text_of(steps[-1].get("message")) if steps else None
    return ProgramReport(answer or None, _atif_usage(trajectory, len(steps)), trajectory or None)


def _atif_usage(trajectory: Json, calls: int) -> Usage | None:
    total = mapping(mapping(trajectory).get("final_metrics"))
    named = ("total_prompt_tokens", "total_completion_tokens", "total_cached_tokens")
    if "total_prompt_tokens" not in total or any(no_count(total.get(name)) for name in named):
        return None
    read = count(total.get("total_cached_tokens"))
    return Usage(
        calls=calls,
        input_tokens=max(0, count(total.get("total_prompt_tokens")) - read),
        output_tokens=count(total.get("total_completion_tokens")),
        cache_read_tokens=read,
        cost_usd=cost(total.get("total_cost_usd")),
    )
