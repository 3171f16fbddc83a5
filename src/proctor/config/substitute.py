"""`${NAME}` in the values of configuration files."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from proctor.config.scalars import Substituted

_REFERENCE = re.compile(
    r"""\$\$\{                                             # written for a plain ${
      | \$\{ (?P<name>[A-Za-z_][A-Za-z0-9_]*) (?: :- (?P<default>[^{}]*) )? \}
      | \$\{                                               # the beginning of anything else""",
    re.VERBOSE,
)


def substitute(text: str, environ: Mapping[str, str], complain: Callable[[str, str], None]) -> str:
    """Return a value with the variables that it refers to put in, as `Substituted` where there are any.

    `${NAME}` is the variable of that name, `${NAME:-text}` the text where it is unset or empty, and `$${` is written
    for `${`. What is put in is text and is looked at no further. `complain(message, hint)` is told of everything that
    is wrong: no message holds a value.
    """
    values: list[str] = []

    def put_in(found: re.Match[str]) -> str:
        name = found["name"]
        if found.group() == "$${":
            return "${"
        if name is None:
            complain(
                "`${` begins no reference to a variable",
                "write `${NAME}` or `${NAME:-default}`, and `$${` where a plain `${` is meant",
            )
            return ""
        value = environ.get(name)
        if value and not _is_text(value):
            complain(f"the environment variable `{name}` is not in UTF-8", "set it to a text")
            return ""
        if value:
            values.append(value)
            return value
        if found["default"] is not None:
            return found["default"]
        state = "is not set" if value is None else "is set, and empty"
        complain(
            f"the environment variable `{name}` {state}",
            f"set it, or write a default: `${{{name}:-...}}`",
        )
        return ""

    done = _REFERENCE.sub(put_in, text)
    return Substituted(done, tuple(values)) if done != text else text


def _is_text(value: str) -> bool:
    """Say whether a variable is text: bytes that are none come as lone surrogates."""
    return not any("\ud800" <= sign <= "\udfff" for sign in value)
