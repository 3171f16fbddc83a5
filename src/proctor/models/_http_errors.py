"""What an endpoint's refusal means, and how it is said: one table of statuses, redaction, shortening."""

from __future__ import annotations

from collections.abc import Iterable

from proctor.errors import Fault
from proctor.model.codes import code_of_status

MESSAGE_CHARACTERS = 300
"""How much of a provider's message a fault carries."""

SHORTEST_SECRET = 4

_SPENT_QUOTA = frozenset({"insufficient_quota", "billing_hard_limit_reached"})


def code_of_refusal(status: int, error_code: str | None) -> str:
    """Return the issue code of a status together with the `error.code` of the body.

    A quota that is used up comes as a 429 like a short limit, and only the provider's own code tells them apart: no
    waiting helps, so it is a matter of payment.
    """
    if status == 429 and error_code in _SPENT_QUOTA:
        return "model.payment"
    return code_of_status(status)


class ModelFault(Fault):
    """A model call that failed; `status` is the HTTP status, where there was one."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: int | None = None,
        retry_after: str | None = None,
        refused: bool = False,
    ) -> None:
        super().__init__(code, message, refused=refused, retry_after=retry_after)
        self.status = status


REFUSED_STATUSES = frozenset({429, 503, 529})
"""Statuses that say that the call was not taken on."""


def redacted(text: str, secrets: Iterable[str]) -> str:
    """Return `text` with every occurrence of a secret replaced, on one line, and cut to `MESSAGE_CHARACTERS`.

    Redaction comes first: a cut could leave a part of a secret that no longer matches. What is shorter than
    `SHORTEST_SECRET` stands for a key at an endpoint that wants none, and would match inside of words.
    """
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= SHORTEST_SECRET:
            text = text.replace(secret, "[redacted]")
    text = " ".join(text.split())
    return text if len(text) <= MESSAGE_CHARACTERS else text[: MESSAGE_CHARACTERS - 1] + "…"
