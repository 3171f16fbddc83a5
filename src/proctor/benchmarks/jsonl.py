"""Benchmark `jsonl`: questions of the user's own, in JSONL, CSV, TSV or Parquet files (docs/question-files.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from string import ascii_uppercase
from typing import Annotated, Any, Literal, Self, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

from proctor.benchmarks._problems import tasks_of
from proctor.data.numbers import expected_number
from proctor.data.row_files import find_files, read_rows
from proctor.data.rows import Row, RowError, Rows
from proctor.data.templates import fill, places_in
from proctor.model.attempt import GradingMode
from proctor.model.project import project_directory
from proctor.model.spec import Component, Json, Reference, Task
from proctor.plugins.api import AttemptContext

Kind = Literal["exact", "numeric", "regex", "choice", "model"]

GRADERS: Mapping[str, str] = {"exact": "text"}
"""The grader of a kind, where it is called otherwise."""
OURS = ("expected", "choices")
"""Parameters of graders that the rows say."""
CHOICES = "choices"
"""The place in a template that stands for the choices, one line for each."""
AFTER_CHOICES = "Answer with the letter of the right choice, on a last line that says `Answer: LETTER`."

Field_ = Annotated[str, Field(min_length=1)]


class GraderOptions(BaseModel):
    """How answers are graded; what else is given are the parameters of that grader."""

    model_config = ConfigDict(extra="allow")

    kind: Kind
    answer_as: Literal["auto", "letter", "index", "number", "text"] = "auto"
    """How the field `answer` names the right choice: by letter, counted from 0 or from 1, or by its text."""

    @property
    def params(self) -> dict[str, Json]:
        """The parameters of the grader."""
        return dict(self.model_extra or {})


class JsonlOptions(BaseModel):
    """Where the rows are, and which of their fields are what; fields are named as `question`, or `meta.level`."""

    model_config = ConfigDict(extra="forbid")

    path: Annotated[str, Field(min_length=1)]
    """A file, or files as `data/*.jsonl`; relative to the directory of proctor.yaml, else to the current one."""
    prompt: Field_ = "question"
    """A field, or a text with `{field}` in it."""
    answer: Field_ | None = "answer"
    """The right answer; a list holds several that are as good."""
    id: Field_ | None = None
    """Default: made of the content of the row."""
    choices: Field_ | Annotated[list[Field_], Field(min_length=2, max_length=26)] | None = None
    """A field that holds a list of choices, or one field for each choice."""
    tags: Field_ | list[Field_] = []
    """Fields whose values are tags of the task."""
    reference: Field_ | None = None
    """What `oracle` answers: a field, or a text with `{field}` in it. Default: the right answer."""
    grader: GraderOptions | None = None
    """Default: kind `choice` where there are choices, else `exact`."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for template in (self.prompt, self.reference or ""):
            if "{" in template:
                places_in(template)
        kind, params = self.kind, self.grader.params if self.grader else {}
        if taken := [name for name in OURS if name in params]:
            raise ValueError(f"`grader.{taken[0]}` comes from the rows: name the field in `answer` or `choices`")
        if (kind == "choice") != (self.choices is not None):
            raise ValueError("`choices` and a grader of kind `choice` go together: give both or none")
        if self.answer is None and kind not in ("model", "regex"):
            raise ValueError(f"a grader of kind `{kind}` needs the field of the right answer: give `answer`")
        return self

    @property
    def kind(self) -> Kind:
        """How answers are graded."""
        if self.grader is not None:
            return self.grader.kind
        return "exact" if self.choices is None else "choice"


class Jsonl:
    """One task for each row. Raises `UsageError`, with file and line, for whatever cannot be read."""

    name = "jsonl"
    isolated_attempts = True
    grading = GradingMode.NONE
    gradings = (GradingMode.NONE,)
    options: type[BaseModel] = JsonlOptions

    def __init__(self, options: JsonlOptions) -> None:
        self._options = options
        self._rows: Rows = read_rows(find_files(options.path, project_directory(Path.cwd())))
        self.version = f"1-{self._rows.sha256[:12]}"

    async def tasks(self) -> Iterable[Task]:
        """Return the tasks in the order of the rows. Raises `UsageError`, which lists what is wrong with rows."""
        return tasks_of(self._rows, self._task)

    async def setup(self, ctx: AttemptContext) -> None:
        """Put nothing into the sandbox: the prompt is all that an agent needs."""

    def _task(self, row: Row) -> Task:
        options = self._options
        choices = self._choices(row)
        grader, reference = self._graded(row, choices)
        if options.reference is not None:
            reference = self._filled(options.reference, row, [])
        return Task(
            id=row.digest if options.id is None else row.text(options.id).strip(),
            prompt=self._prompt(row, choices),
            grader=grader,
            reference=None if reference is None else Reference(answer=reference),
            tags=tuple(dict.fromkeys(tag for name in _names(options.tags) for tag in row.texts(name))),
        )

    def _prompt(self, row: Row, choices: list[str]) -> str:
        prompt = self._options.prompt
        lettered = [f"{letter}) {text}" for letter, text in zip(ascii_uppercase, choices, strict=False)]
        text = self._filled(prompt, row, lettered)
        if "{" in prompt or not choices:
            return text
        return "\n\n".join([text, "\n".join(lettered), AFTER_CHOICES])

    def _filled(self, given: str, row: Row, lettered: list[str]) -> str:
        """Return the text of a field, or a template with the texts of its fields."""
        if "{" not in given:
            return row.text(given)
        return fill(given, lambda name: "\n".join(lettered) if name == CHOICES and lettered else row.text(name))

    def _choices(self, row: Row) -> list[str]:
        named = self._options.choices
        if named is None:
            return []
        if isinstance(named, list):
            return [row.text(name) for name in named]
        if not isinstance(row.get(named), list):
            raise RowError(f"field `{named}` is no list of choices, but {type(row.get(named)).__name__}")
        choices = row.texts(named)
        if not 2 <= len(choices) <= len(ascii_uppercase):
            raise RowError(f"field `{named}` has {len(choices)} choices; there have to be 2 to {len(ascii_uppercase)}")
        return choices

    def _graded(self, row: Row, choices: list[str]) -> tuple[Component, str | None]:
        """Return the grader of a row, and the answer that it calls right, where it is known."""
        options = self._options
        kind, params = options.kind, options.grader.params if options.grader else {}
        answers = None if options.answer is None else row.texts(options.answer)
        if kind == "choice":
            assert options.answer is not None, "the options were validated"
            letter = _letter(row.get(options.answer), choices, options.grader.answer_as if options.grader else "auto")
            return Component("choice", {**params, "choices": choices, "expected": letter}), letter
        if kind == "regex" and "pattern" not in params:
            if answers is None or len(answers) != 1:
                raise RowError("there is no pattern: give `grader.pattern`, or one pattern in the field `answer`")
            return Component("regex", {**params, "pattern": answers[0]}), None
        if answers is not None and kind == "numeric":
            answers = _numbers(answers, row.get(options.answer or ""), params)
        if answers is not None:
            params["expected"] = answers if len(answers) > 1 else answers[0]
        reference = None if answers is None else _as_taken(answers[0], params.get("take"))
        return Component(GRADERS.get(kind, kind), params), reference


def _names(given: str | list[str]) -> list[str]:
    return [given] if isinstance(given, str) else given


def _numbers(texts: list[str], values: Any, params: Mapping[str, Any]) -> list[str]:
    """Return the right numbers as the grader reads them. Raises `RowError` where one is none.

    A number of JSON has a point, whatever the sign of the decimals is in texts.
    """
    comma = params.get("decimal_comma") is True
    given = cast("list[Any]", values) if isinstance(values, list) else [values]
    texts = [
        text if isinstance(value, str) or not comma else text.replace(".", ",")
        for text, value in zip(texts, given, strict=True)
    ]
    if odd := [text for text in texts if expected_number(text, decimal_comma=comma) is None]:
        raise RowError(f"the answer {odd[0]!r:.80} is no number, or more than one")
    return texts


def _letter(answer: Any, choices: list[str], answer_as: str) -> str:
    """Return the letter of the right choice. Raises `RowError` where the answer names none, or could name two."""
    letters = ascii_uppercase[: len(choices)]
    text = answer.strip() if isinstance(answer, str) else answer
    by_text = [letter for letter, choice in zip(letters, choices, strict=True) if choice.strip() == str(text)]
    is_letter = isinstance(text, str) and len(text) == 1 and text.upper() in letters
    digits = isinstance(text, int) or (isinstance(text, str) and text.isascii() and text.isdigit())
    match answer_as:
        case "letter":
            found = [str(text).upper()] if is_letter else []
        case "text":
            found = by_text
        case "index" | "number":
            place = int(text) - (answer_as == "number") if digits and not isinstance(text, bool) else -1
            found = [letters[place]] if 0 <= place < len(letters) else []
        case _:
            found = by_text + ([str(text).upper()] if is_letter else [])
            if digits and not found:
                raise RowError(
                    f"the answer {text!r} could count from 0 or from 1: set `grader.answer_as` to index or number"
                )
    if len(set(found)) == 1:
        return found[0]
    what = "more than one" if found else "none"
    raise RowError(
        f"the answer {text!r:.80} names {what} of the {len(choices)} choices (`grader.answer_as`: {answer_as})"
    )


def _as_taken(answer: str, take: Any) -> str:
    """Return the right answer as an agent would have to give it, where only a part of what it says counts."""
    return {"marked": f"Answer: {answer}", "boxed": f"\\boxed{{{answer}}}"}.get(str(take), answer)
