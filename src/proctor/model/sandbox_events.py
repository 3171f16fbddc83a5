"""What becomes of the sandboxes of a try: gone, kept for a person, waiting for an image.

`model.events` has all of this as well.
"""

from __future__ import annotations

from proctor.model.frozen import frozen
from proctor.model.ids import AttemptId
from proctor.model.reasons import Purpose


@frozen
class SandboxDisposed:
    """A sandbox is gone."""

    attempt: AttemptId
    sandbox: str


@frozen
class SandboxKept:
    """A sandbox lives on for a person, under the id that it had; nothing of the run uses it any more."""

    attempt: AttemptId
    try_number: int
    sandbox: str
    purpose: Purpose
    provider: str


@frozen
class ImageWaitStarted:
    """A try waits until the image of its sandbox is there: nothing of it executes, and no limit of it runs."""

    attempt: AttemptId
    image: str


@frozen
class ImageWaitEnded:
    """That wait is over, after `seconds`; whether the image can be used is seen by what follows."""

    attempt: AttemptId
    seconds: float


__all__ = ["ImageWaitEnded", "ImageWaitStarted", "SandboxDisposed", "SandboxKept"]
