"""Sandboxes that are there, whichever process opened them: found, chosen by what a person writes, and shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from proctor.cli.owners import Look, SandboxState, owner_life, sandbox_state
from proctor.cli.sandbox_providers import Asked
from proctor.errors import UsageError
from proctor.report.columns import table
from proctor.report.wording import briefly, plural, printable
from proctor.store.owner import Life, Owner, life_of

NAMED_AT_MOST = 5
"""So many sandboxes are named where several are meant."""


@dataclass(frozen=True, slots=True)
class FoundSandbox:
    """A sandbox that is there."""

    id: str
    provider: str
    labels: Mapping[str, str]
    state: SandboxState
    life: Life
    """Of the process that opened it."""

    @property
    def attempt(self) -> str | None:
        """The attempt that it was opened for; None where its labels do not say."""
        return self.labels.get("attempt")

    def age_seconds(self, now: float) -> float | None:
        """Return for how long it has been there; None where its labels do not say."""
        try:
            opened = datetime.fromisoformat(self.labels.get("opened", ""))
        except ValueError:
            return None
        # A label without an offset is in UTC, as all that we write.
        moment = opened if opened.tzinfo is not None else opened.replace(tzinfo=UTC)
        return max(0.0, now - moment.timestamp())


def found_in(asked: Asked, here: Owner | None, look: Look = life_of) -> list[FoundSandbox]:
    """Return the sandboxes of all providers, the oldest first; those of unknown age at the end."""
    found: list[FoundSandbox] = []
    for provider, listed in asked.labels.items():
        for labels in listed:
            life = owner_life(labels, here, look)
            found.append(FoundSandbox(labels["sandbox"], provider, labels, sandbox_state(labels, life), life))
    return sorted(found, key=lambda one: (one.labels.get("opened", "~"), one.provider, one.id))


def choose(found: Sequence[FoundSandbox], word: str) -> list[FoundSandbox]:
    """Return what a word means: a sandbox by its id or a beginning of it, or with `@` what was kept of an attempt.

    Raises `UsageError` where that is nothing, or not clear.
    """
    if word.startswith("@"):
        return _of_attempt(found, word)
    if not word:
        raise UsageError("the id of a sandbox is empty", hint="`proctor sandbox list` lists all")
    exact = [one for one in found if word in (one.id, one.labels.get("former"))]
    matching = exact or [one for one in found if one.id.startswith(word)]
    if not matching:
        raise UsageError(f"there is no sandbox `{word}`", hint="`proctor sandbox list` lists all")
    if len(matching) > 1:
        named = ", ".join(f"`{one.id}` ({one.provider})" for one in matching[:NAMED_AT_MOST])
        raise UsageError(
            f"`{word}` is the beginning of {len(matching)} sandboxes: {named}",
            hint="write more of the id, or say whose it is with `--env PROVIDER`",
        )
    return matching


def _of_attempt(found: Iterable[FoundSandbox], word: str) -> list[FoundSandbox]:
    """Return what was kept of the attempt that a word with `@` names, by the whole of its id or a beginning."""
    named = word.removeprefix("@")
    kept = [one for one in found if one.state is SandboxState.KEPT and named and (one.attempt or "").startswith(named)]
    exact = [one for one in kept if one.attempt == named]
    kept = exact or kept
    attempts = {one.attempt for one in kept}
    if not kept:
        raise UsageError(
            f"no sandbox was kept of attempt `{word}`", hint="`proctor sandbox list --kept` lists those that were"
        )
    if len(attempts) > 1:
        shown = ", ".join(f"@{each}" for each in sorted(map(str, attempts))[:NAMED_AT_MOST])
        raise UsageError(f"`{word}` is the beginning of {len(attempts)} attempts: {shown}", hint="write more of the id")
    return kept


def sandbox_table(found: Sequence[FoundSandbox], now: float) -> list[str]:
    """Return the lines of a table, one per sandbox; what is not known is a dash."""
    rows = [("ID", "PROVIDER", "STATE", "EXPERIMENT", "ATTEMPT", "TRY", "PURPOSE", "AGE", "OWNER")]
    for one in found:
        age = one.age_seconds(now)
        say = one.labels.get
        rows.append(
            (
                one.id, one.provider, one.state, say("experiment") or "-", f"@{one.attempt}" if one.attempt else "-",
                say("try") or "-", say("purpose") or "-", "-" if age is None else briefly(age), _owner(one.labels),
            )
        )  # fmt: skip
    return table([[printable(cell) for cell in row] for row in rows])


def _owner(labels: Mapping[str, str]) -> str:
    host, pid = labels.get("owner_host"), labels.get("owner_pid")
    return f"{host or '?'}:{pid or '?'}" if host or pid else "-"


def sandbox_data(one: FoundSandbox, now: float) -> dict[str, Any]:
    """Return a sandbox as JSON; what is not known is null."""
    say = one.labels.get
    age = one.age_seconds(now)
    return {
        "id": one.id,
        "provider": one.provider,
        "state": one.state,
        "experiment": say("experiment"),
        "run": say("run"),
        "invocation": say("invocation"),
        "attempt": one.attempt,
        "try": _number(say("try")),
        "purpose": say("purpose"),
        "opened": say("opened"),
        "age_seconds": None if age is None else round(age, 1),
        "project": say("project"),
        "owner": {
            "host": say("owner_host"),
            "pid": _number(say("owner_pid")),
            "living": one.life.living,
            "why": one.life.why,
        },
    }


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


def counted(found: Sequence[FoundSandbox]) -> str:
    """Return how many sandboxes these are, in words."""
    return plural(len(found), "sandbox", "sandboxes")


__all__ = ["FoundSandbox", "choose", "counted", "found_in", "sandbox_data", "sandbox_table"]
