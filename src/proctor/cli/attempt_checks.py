"""What a grader looked at, for `proctor show @ATTEMPT`: what was not met, with what was expected and what was there."""

from __future__ import annotations

from typing import Any

from proctor.model.attempt import Check, Grade
from proctor.report.wording import plural, printable

CHECKS_SHOWN = 20
VALUE_SHOWN = 300
"""So many characters of what was expected, and of what was there; `--json` and the viewer have more."""


def check_lines(grade: Grade | None) -> list[str]:
    """Return the sub-scores and what was not met, as text; nothing where nothing was graded."""
    if grade is None:
        return []
    lines = [f"sub-score {printable(name, most=VALUE_SHOWN)}: {score:.3g}" for name, score in grade.sub_scores.items()]
    wrong = [check for check in grade.checks if not check.ok]
    if grade.checks:
        lines.append(f"{plural(len(grade.checks), 'check')}, {len(wrong)} not met")
    lines += map(_line, wrong[:CHECKS_SHOWN])
    if len(wrong) > CHECKS_SHOWN:
        lines.append(f"  and {len(wrong) - CHECKS_SHOWN:,} more")
    return lines


def check_data(grade: Grade | None) -> dict[str, Any]:
    """Return sub-scores and checks as JSON; null where nothing was graded."""
    if grade is None:
        return {"sub_scores": None, "checks": None}
    return {
        "sub_scores": dict(grade.sub_scores),
        "checks": [{name: getattr(check, name) for name in Check.__dataclass_fields__} for check in grade.checks],
    }


def _line(check: Check) -> str:
    parts = [
        (word, value) for word, value in (("expected", check.expected), ("got", check.actual)) if value is not None
    ]
    compared = ", ".join(f"{word} {printable(value, most=VALUE_SHOWN)}" for word, value in parts)
    where = f" ({printable(check.source, most=VALUE_SHOWN)})" if check.source else ""
    return f"  not met: {printable(check.label, most=VALUE_SHOWN)}{f': {compared}' if compared else ''}{where}"
