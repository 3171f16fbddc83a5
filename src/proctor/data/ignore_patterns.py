"""What a `.dockerignore` leaves out of a build context."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IgnorePatterns:
    """The patterns of a `.dockerignore`, in order: the last that matches a path, or a directory above it, decides."""

    rules: tuple[tuple[re.Pattern[str], bool], ...] = ()
    """Each with whether it leaves out (or, with `!`, takes in again)."""

    @property
    def takes_in_again(self) -> bool:
        """Whether something in a directory that is left out may have to come along nevertheless."""
        return any(not leaves_out for _, leaves_out in self.rules)

    def leaves_out(self, path: str) -> bool:
        """Return whether a path of the context, with `/` between its parts, is left out."""
        parts = path.split("/")
        above = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
        decided = False
        for pattern, leaves_out in self.rules:
            if leaves_out != decided and any(pattern.fullmatch(one) for one in above):
                decided = leaves_out
        return decided


def parse_ignore(text: str) -> IgnorePatterns:
    """Read the text of a `.dockerignore`; raises `ValueError` for a pattern that is none."""
    return IgnorePatterns(tuple(_rules(text.removeprefix("\ufeff").splitlines())))


def _rules(lines: Iterable[str]) -> Iterable[tuple[re.Pattern[str], bool]]:
    for line in lines:
        if line.startswith("#"):
            continue
        pattern = line.strip()
        leaves_out = not pattern.startswith("!")
        parts = [part for part in pattern.removeprefix("!").strip().split("/") if part not in ("", ".")]
        clean: list[str] = []
        for part in parts:
            if part == ".." and clean:
                clean.pop()
            elif part != "..":
                clean.append(part)
        if clean:
            try:
                yield re.compile(_expression("/".join(clean)), re.DOTALL), leaves_out
            except re.error as error:
                raise ValueError(f"`{pattern}` is no pattern: {error}") from error


def _expression(pattern: str) -> str:
    """Return a glob as a regular expression: `*` and `?` stay within a part, `**` is any number of parts."""
    found: list[str] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char == "*" and pattern.startswith("*", at):
            at += 1
            if pattern.startswith("/", at):
                at += 1
                found.append("(?:.*/)?")
            else:
                found.append(".*")
        elif char == "*":
            found.append("[^/]*")
        elif char == "?":
            found.append("[^/]")
        elif char == "[" and (end := pattern.find("]", at + 1)) > 0:
            inside = pattern[at:end].replace("\\", "\\\\").replace("[", "\\[")
            found.append(f"[{inside}]")
            at = end + 1
        elif char == "\\" and at < len(pattern):
            found.append(re.escape(pattern[at]))
            at += 1
        else:
            found.append(re.escape(char))
    return "".join(found)


__all__ = ["IgnorePatterns", "parse_ignore"]
