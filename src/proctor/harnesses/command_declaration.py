"""How a program is declared that works on tasks, validated before anything starts. See docs/command-harness.md.

Commands are lists of words, never lines for a shell: a placeholder is a part of one word, whatever its value holds.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from proctor.model.codes import CODES

PLACEHOLDERS = {
    "prompt": "the text of the turn, as it is",
    "prompt_file": "the path of a file that holds it",
    "model": "what the endpoint calls the model",
    "base_url": "the address of the endpoint, as the experiment says it",
    "root_url": "the same without the `/v1` at its end",
    "key": "the credential; in `env` only",
    "workdir": "the work directory",
    "state": "a new directory of this session, outside of the work directory",
    "tools": "the directory that the program is installed in, below HOME",
    "version": "the version that is asked for; empty where none is",
    "session": "an id of this session that is new each time, a UUID",
}
"""What can stand in braces, and what it becomes."""

OF_THE_MODEL = frozenset({"model", "base_url", "root_url", "key"})
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


def _words(value: Any) -> Any:
    return tuple(shlex.split(value)) if isinstance(value, str) else value


def _known(text: str) -> str:
    unknown = next((name for name in _PLACEHOLDER.findall(text) if name not in PLACEHOLDERS), None)
    if unknown is not None:
        raise ValueError(f"unknown placeholder {{{unknown}}}: known are {', '.join(PLACEHOLDERS)}")
    return text


def _code(code: str) -> str:
    if code not in CODES:
        raise ValueError(f"unknown issue code `{code}`: docs/codes.md lists all")
    return code


def _pattern(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"no regular expression: {error}") from error
    return pattern


Text = Annotated[str, AfterValidator(_known)]
"""A text in which placeholders may stand."""
Words = Annotated[tuple[Text, ...], BeforeValidator(_words), Field(min_length=1)]
"""The words of a command; a single text is split into words as a shell would split it, and no shell sees it."""
Code = Annotated[str, AfterValidator(_code)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Failure(_Part):
    """What a failure of the program means: the code of an issue. It counts where all that it says applies."""

    code: Code
    exit: int | None = None
    """The status that the program returned."""
    pattern: Annotated[str, AfterValidator(_pattern)] | None = None
    """A regular expression for what it printed last."""


class Output(_Part):
    """Where the answer is, what was used, and what was done."""

    parser: str = "text"
    """`text`, `json`, `jsonl`, `atif`, or a function of one's own as `package.module:function`."""
    file: Text | None = None
    """The file that is read; default: standard output."""
    answer: str | None = None
    """For `json` and `jsonl`: the field of the answer, such as `result.text`."""
    usage: dict[str, str] = {}
    """For `json` and `jsonl`: the field of each count of `Usage`, such as `{input_tokens: usage.prompt_tokens}`."""


class Declaration(_Part):
    """A program that works on tasks."""

    name: str = "command"
    """What it is called in trajectories and messages."""
    command: Words
    """What makes the first turn."""
    resume: Words | None = None
    """What makes each further turn; without it there is one turn."""
    stdin: Text | None = None
    """What it reads; default: nothing."""
    env: dict[str, Text] = {}
    """Its environment variables, beside those of the sandbox."""
    files: dict[Text, Text] = {}
    """Files that are written before the first turn: absolute paths, such as `{state}/config.toml`."""
    version: str | None = None
    """The version that `install` is to install."""
    version_command: Words | None = None
    """What prints which version there is."""
    installed: str | None = None
    """A script for `sh` that returns 0 where the program is there and need not be installed."""
    install: str | None = None
    """A script for `sh` that installs it, in phase setup."""
    path: tuple[Text, ...] = ()
    """Directories that come before those of PATH."""
    output: Output = Output()
    keep: tuple[Text, ...] = ()
    """Files to keep with the try, and to read by `output`: paths, in which `*` may stand."""
    failures: tuple[Failure, ...] = ()
    """What its failures mean; the first that applies counts. Any other status but 0 is `harness.exit_nonzero`."""

    @model_validator(mode="after")
    def _key_is_in_variables_only(self) -> Declaration:
        if "key" in set(_named_in([*self._texts(), *self.files, *self.files.values()])):
            raise ValueError("{key} may stand in `env` only: everybody sees the words of a command, and files are kept")
        if "prompt" in set(_named_in([*self.env.values(), *self.files.values()])):
            raise ValueError(
                "{prompt} may stand in commands and `stdin` only; {prompt_file} is the path of a file with it"
            )
        return self

    @property
    def uses_model(self) -> bool:
        """Whether it is told of a model."""
        texts = [*self._texts(), *self.env.values(), *self.files.values()]
        return not OF_THE_MODEL.isdisjoint(_named_in(texts))

    def names(self, placeholder: str) -> bool:
        """Say whether a placeholder is used."""
        return placeholder in set(_named_in([*self._texts(), *self.env.values()]))

    def _texts(self) -> list[str]:
        commands = (self.command, self.resume or (), self.version_command or (), self.path, self.keep)
        return [*(word for words in commands for word in words), self.stdin or "", self.output.file or ""]


def _named_in(texts: list[str]) -> Iterator[str]:
    for text in texts:
        yield from _PLACEHOLDER.findall(text)


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return a text with values in place of placeholders; what stands in a value is not looked at again."""
    return _PLACEHOLDER.sub(lambda found: values[found.group(1)], text)
