"""Benchmark `jsonl`: from rows to tasks (spec 11)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from proctor.benchmarks.jsonl import Jsonl, JsonlOptions
from proctor.errors import UsageError
from proctor.model.spec import Task
from proctor.plugins.registry import Kind, load


def tasks_of(folder: Path, rows: list[Any], **params: Any) -> list[Task]:
    path = folder / "q.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return list(asyncio.run(Jsonl(JsonlOptions(path=str(path), **params)).tasks()))


def one(folder: Path, row: dict[str, Any], **params: Any) -> Task:
    [task] = tasks_of(folder, [row], **params)
    return task


def solves(task: Task, answer: str | None) -> bool:
    """Grade as a run does, with the grader that the registry has."""
    make = load(Kind.GRADER, task.grader.id)
    grader: Any = make(make.options.model_validate(task.grader.params))
    return asyncio.run(grader.grade(SimpleNamespace(answer=answer))).solved


Q = {"question": "6 x 7?", "answer": "42"}
CHOICE = {"question": "Fruit?", "choices": ["dog", "apple"], "answer": "B"}
GRADED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (Q, {}),
    (Q, {"grader": {"kind": "exact", "take": "marked"}}),
    (Q, {"grader": {"kind": "exact", "take": "boxed", "ignore_case": True}}),
    ({**Q, "answer": ["42", "forty-two"]}, {}),
    ({**Q, "answer": 42}, {"grader": {"kind": "numeric"}}),
    ({**Q, "answer": "$1,200.50"}, {"grader": {"kind": "numeric", "tolerance": 0.1}}),
    ({**Q, "answer": ["1/3", "0.33"]}, {"grader": {"kind": "numeric"}}),
    (CHOICE, {"choices": "choices"}),
    ({**Q, "answer": "^4.$", "solution": "42"}, {"grader": {"kind": "regex"}, "reference": "solution"}),
    (Q, {"grader": {"kind": "regex", "pattern": r"is (\d+)"}, "reference": "It is {answer}"}),
    (Q, {"answer": None, "grader": {"kind": "regex", "pattern": r"\d"}, "reference": "answer"}),
]


@pytest.mark.integration
@pytest.mark.parametrize(("row", "params"), GRADED)
def test_11_the_reference_passes_and_nothing_does_not(
    tmp_path: Path, row: dict[str, Any], params: dict[str, Any]
) -> None:
    task = one(tmp_path, row, **params)
    assert task.reference is not None
    assert solves(task, task.reference.answer)
    assert not solves(task, None)
    assert not solves(task, "no idea")
    assert task.reference.answer not in task.prompt or "choices" in params


def test_11_a_model_grader_gets_the_answer_and_what_else_it_is_told(tmp_path: Path) -> None:
    task = one(tmp_path, Q, grader={"kind": "model", "instructions": "Be kind."})
    assert (task.grader.id, task.grader.params) == ("model", {"expected": "42", "instructions": "Be kind."})


def test_11_prompts_are_fields_or_templates(tmp_path: Path) -> None:
    row = {**Q, "meta": {"text": "a {b}"}, "more": ["x", 1]}
    assert one(tmp_path, row).prompt == "6 x 7?"
    assert one(tmp_path, row, prompt="meta.text").prompt == "a {b}"
    assert one(tmp_path, row, prompt="{{Q}} {question}\n{meta.text} {more}").prompt == '{Q} 6 x 7?\na {b} ["x", 1]'
    listed = "A) dog\nB) apple"
    assert one(tmp_path, CHOICE, choices="choices").prompt.startswith(f"Fruit?\n\n{listed}\n\nAnswer with the letter")
    assert one(tmp_path, CHOICE, choices="choices", prompt="{choices}|{question}").prompt == f"{listed}|Fruit?"


@pytest.mark.parametrize(
    ("answer", "answer_as", "letter"),
    [
        ("B", "auto", "B"),
        ("b", "letter", "B"),
        ("apple", "auto", "B"),
        ("apple", "text", "B"),
        (1, "index", "B"),
        ("1", "index", "B"),
        (1, "number", "A"),
        (0, "index", "A"),
    ],
)
def test_11_the_right_choice_is_named_in_many_ways(tmp_path: Path, answer: Any, answer_as: str, letter: str) -> None:
    task = one(
        tmp_path, {**CHOICE, "answer": answer}, choices="choices", grader={"kind": "choice", "answer_as": answer_as}
    )
    assert task.grader.params["expected"] == letter


def test_11_choices_may_be_one_field_each(tmp_path: Path) -> None:
    row = {"question": "?", "c1": "x", "c2": "y", "answer": "y"}
    assert one(tmp_path, row, choices=["c1", "c2"]).grader.params == {"choices": ["x", "y"], "expected": "B"}


def test_11_a_number_of_json_has_a_point_whatever_texts_have(tmp_path: Path) -> None:
    task = one(tmp_path, {**Q, "answer": [1.234, "2,5"]}, grader={"kind": "numeric", "decimal_comma": True})
    assert [solves(task, answer) for answer in ("1,234", "1.234", "2,5")] == [True, False, True]


def test_11_a_worked_solution_is_a_right_number(tmp_path: Path) -> None:  # as GSM8K is published
    task = one(tmp_path, {**Q, "answer": "6 x 7 = <<6*7=42>>42.\n#### 42"}, grader={"kind": "numeric"})
    assert task.reference is not None
    assert [solves(task, answer) for answer in (task.reference.answer, "42", "7")] == [True, True, False]


ROWS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"q": "x", "answer": "1"}, {}, "q.jsonl:1: there is no field `question`; there are `q`, `answer`"),
    ({**Q, "answer": None}, {}, "q.jsonl:1: field `answer` is null"),
    ({**Q, "answer": ""}, {}, "q.jsonl:1: field `answer` is empty"),
    ({**Q, "question": "\n"}, {}, "q.jsonl:1: field `question` is empty"),
    ({**Q, "answer": []}, {}, "q.jsonl:1: field `answer` is an empty list"),
    (Q, {"id": "key"}, "q.jsonl:1: there is no field `key`"),
    (Q, {"prompt": "{question} {context}"}, "q.jsonl:1: there is no field `context`"),
    (Q, {"answer": None, "grader": {"kind": "regex"}}, "q.jsonl:1: there is no pattern"),
    ({**CHOICE, "answer": 1}, {"choices": "choices"}, "q.jsonl:1: the answer 1 could count from 0 or from 1"),
    ({**CHOICE, "answer": "C"}, {"choices": "choices"}, "q.jsonl:1: the answer 'C' names none of the 2 choices"),
    ({**CHOICE, "choices": ["B", "x"]}, {"choices": "choices"}, "names more than one"),
    ({**Q, "answer": "x"}, {"grader": {"kind": "numeric"}}, "q.jsonl:1: the answer 'x' is no number, or more than one"),
    ({**CHOICE, "choices": "dog, apple"}, {"choices": "choices"}, "`choices` is no list of choices, but str"),
    ({**CHOICE, "choices": ["x"]}, {"choices": "choices"}, "has 1 choices"),
]


@pytest.mark.parametrize(("row", "params", "why"), ROWS)
def test_11_what_is_wrong_with_a_row_is_said_with_its_line(
    tmp_path: Path, row: dict[str, Any], params: dict[str, Any], why: str
) -> None:
    with pytest.raises(UsageError) as found:
        tasks_of(tmp_path, [row], **params)
    assert why in found.value.message


def test_11_all_rows_that_are_wrong_are_counted(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as found:
        tasks_of(tmp_path, [Q, *({"x": number} for number in range(8))])
    assert found.value.message.count("q.jsonl:") == 5
    assert found.value.message.endswith("and 3 more rows")


def test_11_ids_are_a_field_or_made_of_the_content(tmp_path: Path) -> None:
    other = {**Q, "question": "6 x 8?"}
    first, second = tasks_of(tmp_path, [Q, other])
    again, moved = tasks_of(tmp_path, [{"answer": "1", "question": "new"}, dict(reversed(list(Q.items())))])
    assert first.id == moved.id != second.id
    assert len(first.id) == 12
    assert again.id != first.id
    assert [task.id for task in tasks_of(tmp_path, [{**Q, "n": 7}, {**Q, "n": "a/b"}], id="n")] == ["7", "a/b"]


def test_11_two_rows_with_one_id_are_an_error_that_names_both(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"q.jsonl:2: the id `7` is that of q.jsonl:1 as well"):
        tasks_of(tmp_path, [{**Q, "n": 7}, {**Q, "n": "7"}], id="n")
    with pytest.raises(UsageError, match=r"q.jsonl:2: the id `\w{12}` is that of q.jsonl:1 as well"):
        tasks_of(tmp_path, [Q, Q])


def test_11_tags_are_the_values_of_fields(tmp_path: Path) -> None:
    row = {**Q, "level": 3, "topics": ["a", "b", "a"]}
    assert one(tmp_path, row, tags="level").tags == ("3",)
    assert one(tmp_path, row, tags=["level", "topics"]).tags == ("3", "a", "b")


def test_11_the_version_is_that_of_the_content(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    versions: list[str] = []
    for text in ('{"question": "a", "answer": "b"}', '{"question": "a", "answer": "c"}'):
        path.write_text(text)
        versions.append(Jsonl(JsonlOptions(path=str(path))).version)
    path.rename(tmp_path / "other.jsonl")
    versions.append(Jsonl(JsonlOptions(path=str(tmp_path / "other.jsonl"))).version)
    assert versions[0] != versions[1] == versions[2]


def test_11_a_relative_path_is_below_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks_of(tmp_path, [Q])
    (tmp_path / "proctor.yaml").write_text("")
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    assert len(list(asyncio.run(Jsonl(JsonlOptions(path="q.jsonl")).tasks()))) == 1
    with pytest.raises(UsageError, match="cannot read"):
        Jsonl(JsonlOptions(path="sub/q.jsonl"))


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({"grader": {"kind": "fuzzy"}}, "exact"),
        ({"grader": {"kind": "exact", "expected": "x"}}, "comes from the rows"),
        ({"grader": {"kind": "choice"}}, "go together"),
        ({"choices": "c", "grader": {"kind": "exact"}}, "go together"),
        ({"choices": [f"c{number}" for number in range(27)]}, "at most 26"),
        ({"answer": None}, "needs the field of the right answer"),
        ({"prompt": "{question} }"}, "names nothing"),
        ({"questions": "x"}, "Extra inputs"),
    ],
)
def test_11_parameters_that_make_no_sense_are_refused(params: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        JsonlOptions(path="q.jsonl", **params)
