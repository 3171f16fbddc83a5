"""Writes the pages of docs/ that repeat facts of the code, so that nobody has to keep them by hand.

usage: python docs/generate.py            write them
       python docs/generate.py --check    change nothing; fail, and name the pages, if they are out of date
"""

from __future__ import annotations

import sys
from pathlib import Path

from proctor.cli.exits import Exit
from proctor.core.failure import STOP_RULES
from proctor.model.codes import CODES, CodeRow, Severity

DOCS = Path(__file__).parent

INTRODUCTION = """\
# Issue codes

Every problem that proctor records has one of these codes. Decisions (retry, stop, verdict) go by the code, never by the
text of the message. This page is written by `docs/generate.py` from `src/proctor/model/codes.py` and the rules of
`src/proctor/core/failure.py`.

- **Owner**: whose doing it is. The agent and the model's answers are what is measured; everything else is not the
  agent's fault.
- **Severity**: `FATAL` means that there is no valid result, and the attempt is `errored`. `ERROR` means that something
  went wrong and a result exists. `WARNING` is worth knowing and changes nothing.
- **Again**: whether another try could end differently. proctor makes one try of an attempt: run it again.
- **Scope**: how far the problem reaches, and what is not dispatched any more because of it.
"""


def sentence(text: str) -> str:
    """Return `text` as a sentence: a capital letter, unless it starts with a name in code, and a full stop."""
    first = text.split(" ", 1)[0]
    start = text if "_" in first or any(letter.isupper() for letter in first) else text[0].upper() + text[1:]
    return f"{start}."


def again(row: CodeRow) -> str:
    """Return whether another try could end differently, and if not, why."""
    if row.severity is Severity.WARNING:
        return "no, nothing failed"
    if row.severity is Severity.ERROR:
        return "no, the result stands"
    return "no, trying again cannot help" if row.permanent else "may help"


def reach(row: CodeRow) -> str:
    """Return the scope, and what it stops."""
    rule = STOP_RULES[row.scope] if row.permanent and row.severity is Severity.FATAL else None
    if rule is None:
        return f"{row.scope}; stops nothing else"
    if rule.repeated:
        return f"{row.scope}; after three in a row with this code nothing more that uses this {row.scope} is dispatched"
    if rule.errored:
        return f"{row.scope}; what was not dispatched of this {row.scope} is errored at once"
    return f"{row.scope}; nothing more is dispatched"


def codes_page() -> str:
    """Return docs/codes.md: an index, then one section for each code."""
    rows = list(CODES.values())
    lines = [INTRODUCTION, "| code | owner | severity | again |", "|---|---|---|---|"]
    for row in rows:
        anchor = row.code.replace(".", "")
        lines.append(f"| [`{row.code}`](#{anchor}) | {row.owner} | {row.severity} | {again(row).split(',')[0]} |")
    for row in rows:
        lines += [
            "",
            f"## {row.code}",
            "",
            sentence(row.when),
            "",
            f"- Owner: {row.owner}",
            f"- Severity: {row.severity}",
            f"- Again: {again(row)}",
            f"- Scope: {reach(row)}",
            f"- What to do: {row.action}",
        ]
    return "\n".join(lines) + "\n"


def exits_page() -> str:
    """Return docs/exit-codes.md."""
    lines = [
        "# Exit codes",
        "",
        "Written by `docs/generate.py` from `src/proctor/cli/exits.py`. Where several apply, the first of these",
        "counts: 70, a signal, 3, 1.",
        "",
        "| code | name | meaning |",
        "|---|---|---|",
        *(f"| {code.value} | `{code.name}` | {code.meaning} |" for code in Exit),
        "",
        "The rate of `--fail-under` is passed / slots that are not skipped. A low score without a gate is data, not an",
        "error: exit 0. One attempt that errored, or one slot that was not dispatched, is exit 3 whatever the score.",
        "",
        "`show` exits 3 where the journal is damaged or of a newer proctor. A reader that goes away, or a stream that",
        "is closed, changes no exit code. What `show`, `list` and `check` cannot print for any other reason (a full",
        "disk) is exit 3; a run goes on and keeps its results all the same.",
    ]
    return "\n".join(lines) + "\n"


PAGES = {"codes.md": codes_page, "exit-codes.md": exits_page}
"""What writes each page."""


def main(arguments: list[str]) -> int:
    """Write the pages, or with `--check` compare them; return the exit status."""
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    stale = 0
    for name, page in PAGES.items():
        path, content = DOCS / name, page()
        if path.exists() and path.read_text(encoding="utf-8") == content:
            continue
        if arguments:
            stale += 1
            print(f"out of date: docs/{name}; run `python docs/generate.py`", file=sys.stderr)
        else:
            path.write_text(content, encoding="utf-8")
            print(f"wrote docs/{name}")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
