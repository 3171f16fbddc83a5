"""How much of what plugins, agents, models and hooks say is kept: in memory, in files, in the journal.

What is beyond a bound is cut out of the middle, so that the beginning and the end stay, and what is missing is counted
and said. docs/output-limits.md lists the bounds.
"""

from __future__ import annotations

MEBI = 1024 * 1024

MESSAGE_CHARACTERS = 4_000
"""Of the message of an issue."""
DESCRIPTION_CHARACTERS = 16 * MESSAGE_CHARACTERS
"""Of the text of an exception, before credentials are taken out of it and it becomes a message."""
ISSUES_AT_MOST = 100
"""Issues of one try; of each further code the first is kept as well, so that no decision depends on how many came."""
ANSWER_CHARACTERS = 16 * MEBI
"""Of an answer; grading sees what is kept."""
LOG_LINE_CHARACTERS = 64 * 1024
"""Of one line of try.log or run.log, a traceback that belongs to it included."""
TRY_LOG_BYTES = 4 * MEBI
"""Of try.log."""
CHECKS_AT_MOST = 1_000
"""Checks of one grade; failed ones are kept first."""
CHECK_CHARACTERS = 2_000
"""Of each text of a check, less where all of them together would be more than `CHECKS_CHARACTERS`."""
CHECKS_CHARACTERS = MEBI
SUB_SCORES_AT_MOST = 1_000
SUB_SCORE_NAME_CHARACTERS = 200
TREE_CHARACTERS = 64 * MEBI
"""Of all texts of one trajectory."""
TREE_TEXT_CHARACTERS = 16 * MEBI
"""Of one text of a trajectory."""
TREE_KEY_CHARACTERS = 1_000
TREE_NODES = 1_000_000
"""Values in one trajectory."""
TREE_DEPTH = 200
"""Nesting of a trajectory."""
ANSWER_BYTES = 64 * MEBI
"""Of the body of an endpoint's answer, decompressed; a longer one is refused."""
ERROR_BYTES = MEBI
"""Of the body of an endpoint's error; the rest says nothing that would be shown."""
TOKENS_AT_MOST = 10**15
"""Tokens, or calls, of one try."""
COST_USD_AT_MOST = 10**9
"""Of one try."""

_ROOM_FOR_MARK = 60


def mark(count: int, what: str = "characters") -> str:
    """Return what stands in the place of something that was left out."""
    return f"[... {count:,} {what} left out ...]"


def shortened(text: str, most: int) -> str:
    """Return the beginning and the end of a text with a mark between them: at most `most` characters in all."""
    if len(text) <= most:
        return text
    room = most - _ROOM_FOR_MARK
    if room <= 0:  # no place for a mark
        return text[:most]
    tail = room // 2
    head = room - tail
    return f"{text[:head]} {mark(len(text) - room)} {text[len(text) - tail :]}"


def with_gap(kept: bytes, dropped: int) -> bytes:
    """Return the head and the tail of a stream with a mark between them, as `ExecResult` and `HeadTail` keep them.

    They are equally long where something was dropped, the head by one byte longer where the number is odd.
    """
    if not dropped:
        return kept
    seam = (len(kept) + 1) // 2
    return kept[:seam] + b"\n" + mark(dropped, "bytes").encode() + b"\n" + kept[seam:]


__all__ = [
    "ANSWER_BYTES", "ANSWER_CHARACTERS", "CHECKS_AT_MOST", "CHECKS_CHARACTERS", "CHECK_CHARACTERS",
    "COST_USD_AT_MOST", "DESCRIPTION_CHARACTERS", "ERROR_BYTES",
    "ISSUES_AT_MOST", "LOG_LINE_CHARACTERS", "MEBI", "MESSAGE_CHARACTERS", "SUB_SCORES_AT_MOST",
    "SUB_SCORE_NAME_CHARACTERS", "TOKENS_AT_MOST", "TREE_CHARACTERS", "TREE_DEPTH", "TREE_KEY_CHARACTERS",
    "TREE_NODES", "TREE_TEXT_CHARACTERS", "TRY_LOG_BYTES", "mark", "shortened", "with_gap",
]  # fmt: skip
