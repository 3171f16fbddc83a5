"""What a reward file says: one number, or several by name; and what is wrong with one that says nothing usable."""

from __future__ import annotations

import asyncio
import errno
import json
import math
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from proctor.errors import Fault
from proctor.model.attempt import InvalidGrade
from proctor.model.bounds import shortened
from proctor.plugins.api import LeftOut, Sandbox

LIMIT_BYTES = 1024 * 1024
"""How large a reward file may be."""
NAME = "reward"
"""The name of the number that is the score, where a file has several."""
SHOWN = 80

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
"""A number as every language reads it: `float` takes `1_0`, digits of other scripts and `nan` as well."""


@dataclass(frozen=True, slots=True)
class Reward:
    """The score, from 0 to 1, and the other numbers of the same file by name."""

    score: float
    others: Mapping[str, float]


async def read_reward(sandbox: Sandbox, path: str) -> bytes | None:
    """Return what a reward file holds, or None where there is none.

    Raises `InvalidGrade` for what is no file, or too large, and `Fault` (grader.crashed) for what cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="proctor-") as folder:
        copy = Path(folder, "reward")
        try:
            left_out = await sandbox.download(path, copy, max_bytes=LIMIT_BYTES, max_files=1)
        except FileNotFoundError:
            return None
        except OSError as error:
            why = "no permission" if error.errno in (errno.EACCES, errno.EPERM) else error.strerror or str(error)
            raise Fault("grader.crashed", f"the reward file `{path}` cannot be read: {why}") from error
        return await asyncio.to_thread(_content, copy, path, left_out)


def _content(copy: Path, path: str, left_out: LeftOut) -> bytes:
    if copy.is_dir():
        raise InvalidGrade(f"the reward file `{path}` is a directory")
    if left_out:
        raise InvalidGrade(f"the reward file `{path}` is larger than {LIMIT_BYTES} bytes")
    if not copy.is_file():  # links, pipes and devices do not come along
        raise InvalidGrade(f"the reward file `{path}` is no plain file")
    return copy.read_bytes()


def rewards_of(path: str, content: bytes) -> dict[str, float]:
    """Return the numbers of a reward file by name: JSON where its name ends so, else one number.

    Raises `InvalidGrade`; `{}` is what an empty object says.
    """
    if not content.strip():
        raise InvalidGrade(f"the reward file `{path}` is empty")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidGrade(f"the reward file `{path}` is no text") from error
    if not path.endswith(".json"):
        return {NAME: _number(path, text)}
    try:
        found: Any = json.loads(text, object_pairs_hook=_each_once)
    except (ValueError, RecursionError) as error:
        why = str(error) if isinstance(error, _Twice) else f"is no JSON: {_shown(text)}"
        raise InvalidGrade(f"the reward file `{path}` {why}") from error
    if not isinstance(found, dict):
        raise InvalidGrade(f"the reward file `{path}` must hold a JSON object, not {_shown(text)}")
    return {key: _finite(path, key, value) for key, value in cast("dict[str, Any]", found).items()}


def reward_in(path: str, rewards: Mapping[str, float], name: str = NAME) -> Reward:
    """Return the score of a reward file, and its other numbers. Raises `InvalidGrade`.

    Of several numbers `name` is the score; one that stands alone is the score whatever its name.
    """
    others = dict(rewards)
    if len(others) == 1:
        return Reward(_score(path, others.popitem()[1]), {})
    if name not in others:
        said = ", ".join(sorted(others)) if others else "nothing"
        raise InvalidGrade(f"the reward file `{path}` has no `{name}`, and no single number: it has {_shown(said)}")
    return Reward(_score(path, others.pop(name)), others)


class _Twice(ValueError):
    """Something is said twice: which of the two holds is anybody's guess."""


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise _Twice(f"names `{_shown(next(name for name in names if names.count(name) > 1))}` twice")
    return found


def _number(path: str, text: str) -> float:
    word = text.strip(" \t\r\n")
    if not _NUMBER.fullmatch(word):
        raise InvalidGrade(f"the reward file `{path}` holds no number: {_shown(text)}")
    return _finite(path, NAME, float(word))


def _finite(path: str, name: str, value: Any) -> float:
    """Return a number as a float; true and false count as 1 and 0, as those who publish the format have it."""
    if not isinstance(value, int | float):
        raise InvalidGrade(f"the reward file `{path}`: `{_shown(name)}` is no number: {_shown(repr(value))}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InvalidGrade(f"the reward file `{path}`: `{_shown(name)}` is not finite: {number}")
    return number


def _score(path: str, value: float) -> float:
    if not 0.0 <= value <= 1.0:
        raise InvalidGrade(f"the reward file `{path}`: the score must be from 0 to 1, not {value:g}")
    return value + 0.0  # no -0


def _shown(text: str) -> str:
    return shortened(" ".join(text.split()), SHOWN)


__all__ = ["LIMIT_BYTES", "NAME", "Reward", "read_reward", "reward_in", "rewards_of"]
