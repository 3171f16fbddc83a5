"""Writes the pages of docs/ that repeat facts of the code, so that nobody has to keep them by hand.

usage: python docs/generate.py            write them
       python docs/generate.py --check    change nothing; fail, and name the pages, if they are out of date
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from proctor.cli.exits import Exit
from proctor.core.failure import STOP_RULES
from proctor.model import bounds
from proctor.model.codes import CODES, CodeRow, Owner, Severity
from proctor.models._http_errors import MESSAGE_CHARACTERS
from proctor.plugins.api import OUTPUT_LIMIT_BYTES

DOCS = Path(__file__).parent

INTRODUCTION = """\
# Issue codes

Every problem that proctor records has one of these codes, each with a page of its own. Decisions (retry, stop, verdict)
go by the code, never by the text of the message. `proctor show @ATTEMPT` prints the issues of an attempt with what to
do about them.

- **FATAL**: there is no valid result. If it stays, the attempt is `errored` and has no score.
- **ERROR**: something went wrong and a result exists. It stands, and the issue is shown with it.
- **WARNING**: worth knowing; changes nothing.

These pages are written by `docs/generate.py` from `src/proctor/model/codes.py` and the rules of
`src/proctor/core/failure.py`.
"""

OUTPUT_BEFORE = """\
# How much output is kept

An agent, a model or a plugin may say as much as it likes: proctor's memory stays flat, and so do its files. What is
beyond a limit is cut out of the middle, so that beginning and end stay. What is missing is counted, and said in its
place and as a warning of the attempt ([`output.truncated`](codes/output.truncated.md)). It changes no verdict and ends
no run. This page is written by `docs/generate.py` from `src/proctor/model/bounds.py`.
"""

OUTPUT_AFTER = """
## Bytes that are no text, and text that a terminal would obey

Output is bytes: what is not UTF-8 is shown with replacement characters. Half of a surrogate pair, for which UTF-8 has
no form, is written to JSON as the six characters `\\udXXX`, and to `answer.txt` as the three bytes that stand for it,
which Python reads with `errors="surrogatepass"`.

Files of a try hold what was said as it was, escape sequences included: look at a `try.log` that you do not trust with
`less`. Nothing that proctor itself prints, and no `summary.md`, makes a terminal do anything: in the place of control
characters, and of marks that turn the direction of writing, stands a sign. With `--json` they are written as JSON
escapes, which mean the same.
"""

OWNERS = {
    Owner.PROVIDER: "the provider of sandboxes",
    Owner.USER: "your own hook or code",
    Owner.RUNNER: "proctor, or the machine that it runs on",
    Owner.BENCHMARK: "the benchmark",
    Owner.HARNESS: "the harness, the program that drives the model",
    Owner.AGENT: "the agent: it is part of what is measured",
    Owner.MODEL: "the endpoint of the model",
    Owner.GRADER: "the grader",
}

MEANINGS = {
    Severity.FATAL: "there is no valid result",
    Severity.ERROR: "something went wrong, and a result exists",
    Severity.WARNING: "worth knowing",
}

REPEATED = {
    "provider.open_failed": "An opening that the provider refuses for now (a quota)",
    "model.rate_limited": "A call that is refused so",
    "model.overloaded": "A call that is refused with 503 or 529",
    "model.connection": "A call for which no connection could be made",
}
"""What is asked for again inside the try, before it becomes an issue (spec 05 T5)."""


def sentence(text: str) -> str:
    """Return `text` as a sentence: a capital letter, unless it starts with a name in code, and a full stop."""
    first = text.split(" ", 1)[0]
    start = text if "_" in first or any(letter.isupper() for letter in first) else text[0].upper() + text[1:]
    return f"{start}."


def tried_again(row: CodeRow) -> str:
    """Return whether another try is made, and under which conditions."""
    if row.severity is Severity.WARNING:
        return "never: nothing failed."
    if row.permanent:
        return "never: trying again cannot help."
    if row.severity is Severity.ERROR:
        return "only where a `--retry-pattern` is found in its code or message, and `--max-retries N` leaves a try."
    text = "yes, as long as `--max-retries N` leaves a try (default: 0) and no FATAL issue of the try is permanent."
    first = REPEATED.get(row.code)
    if first is None:
        return text
    return f"{text} {first} is first made again up to four times inside the try, whatever `--max-retries` says."


def in_short(row: CodeRow) -> str:
    """Return the same for a table."""
    if row.severity is Severity.WARNING or row.permanent:
        return "never"
    return "by pattern" if row.severity is Severity.ERROR else "yes"


def stops(row: CodeRow) -> str:
    """Return what else it stops."""
    rule = STOP_RULES[row.scope] if row.permanent and row.severity is Severity.FATAL else None
    if rule is None:
        return "nothing else: it concerns this attempt alone."
    if rule.repeated:
        return f"after three in a row with this code, everything that was not dispatched and uses the same {row.scope}."
    if rule.errored:
        return f"at once, what was not dispatched of the same {row.scope}: it is `errored` as well."
    return f"at once, everything that was not dispatched of this {row.scope}."


def stays(row: CodeRow) -> str:
    """Return what is left if no further try helps."""
    if row.severity is Severity.FATAL:
        return "the attempt is `errored`. It has no score: it counts neither as 0 nor is it left out in silence."
    if row.severity is Severity.ERROR:
        return "the result: the attempt is graded on what there is, and the issue is shown with it."
    return "the result, whatever it is; the warning is shown with it."


def codes_page() -> str:
    """Return docs/codes.md, the index."""
    lines = [INTRODUCTION, "| code | when | severity | tried again |", "|---|---|---|---|"]
    for row in CODES.values():
        lines.append(f"| [`{row.code}`](codes/{row.code}.md) | {row.when} | {row.severity} | {in_short(row)} |")
    return "\n".join(lines) + "\n"


def code_page(row: CodeRow) -> str:
    """Return the page of one code."""
    lines = [
        f"# {row.code}",
        "",
        sentence(row.when),
        "",
        f"- **What to do**: {row.action}.",
        f"- **Whose doing**: {OWNERS[row.owner]}.",
        f"- **Severity**: {row.severity}: {MEANINGS[row.severity]}.",
        f"- **Tried again**: {tried_again(row)}",
        f"- **What it stops**: {stops(row)}",
        f"- **What stays**: {stays(row)}",
    ]
    if row.example:
        lines += ["", "For example:", "", f"    {row.severity} {row.code}: {row.example}"]
    return "\n".join([*lines, "", "[All codes](../codes.md)", ""])


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
        "The rate of `--fail-under` is passed / slots that are not skipped; with early exit it is tasks solved /",
        "tasks, and slots that early exit left out do not count. A low score without a gate is data, not an error:",
        "exit 0. One attempt that errored, or one slot that was not dispatched for another reason, is exit 3 whatever",
        "the score; so is a `teardown` of an experiment that failed: something may be left that a person has to",
        "clear up.",
        "",
        "`show` exits 3 where the journal is damaged or of a newer proctor. A reader that goes away, or a stream that",
        "is closed, changes no exit code. What `show`, `list` and `check` cannot print for any other reason (a full",
        "disk) is exit 3; a run goes on and keeps its results all the same.",
        "",
        "`doctor` exits 1 where no provider of sandboxes works. `sandbox` exits 3 where a sandbox could not be",
        "removed, or a provider did not answer; `sandbox enter` ends as its shell does.",
    ]
    return "\n".join(lines) + "\n"


def output_page() -> str:
    """Return docs/output-limits.md."""
    mebibytes = OUTPUT_LIMIT_BYTES // bounds.MEBI
    rows = [
        ("output of a command", f"{mebibytes} MiB of each stream, unless the harness asks for more or less"),
        ("try.log", f"{bounds.TRY_LOG_BYTES // bounds.MEBI} MiB"),
        ("a line of try.log or run.log", f"{bounds.LOG_LINE_CHARACTERS:,} characters, a traceback included"),
        (
            "issues of a try",
            f"{bounds.ISSUES_AT_MOST}, and the first of each further code; the message of each has at most "
            f"{bounds.MESSAGE_CHARACTERS:,} characters",
        ),
        ("an answer", f"{bounds.ANSWER_CHARACTERS:,} characters; grading sees what is kept"),
        (
            "checks of a grade",
            f"{bounds.CHECKS_AT_MOST:,}, failed ones first; {bounds.CHECK_CHARACTERS:,} characters in each text, and "
            f"{bounds.CHECKS_CHARACTERS:,} in all of them together",
        ),
        (
            "sub-scores of a grade",
            f"{bounds.SUB_SCORES_AT_MOST:,}, with names of at most {bounds.SUB_SCORE_NAME_CHARACTERS} characters",
        ),
        (
            "a trajectory",
            f"{bounds.TREE_NODES:,} values, {bounds.TREE_DEPTH} levels deep, {bounds.TREE_CHARACTERS:,} characters",
        ),
        (
            "the answer of an endpoint",
            f"{bounds.ANSWER_BYTES:,} bytes, decompressed; a longer one is `model.malformed`. Of the body of an error "
            f"{bounds.ERROR_BYTES:,} bytes are read",
        ),
        ("what an endpoint says of an error", f"{MESSAGE_CHARACTERS} characters"),
    ]
    table = [f"| {what} | {much} |" for what, much in rows]
    return "\n".join([OUTPUT_BEFORE, "| what | how much is kept |", "|---|---|", *table, OUTPUT_AFTER])


PAGES: dict[str, Callable[[], str]] = {
    "codes.md": codes_page,
    "exit-codes.md": exits_page,
    "output-limits.md": output_page,
    **{f"codes/{row.code}.md": partial(code_page, row) for row in CODES.values()},
}
"""What writes each page."""


def left_over() -> list[str]:
    """Return the pages of codes that there are no more."""
    found = (path.relative_to(DOCS).as_posix() for path in DOCS.glob("codes/*"))
    return sorted(name for name in found if name not in PAGES)


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
            path.parent.mkdir(exist_ok=True)
            path.write_text(content, encoding="utf-8")
            print(f"wrote docs/{name}")
    for name in left_over():
        stale += 1
        print(f"remove docs/{name}: there is no such code", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
