r"""Events to and from journal lines.

A line is one JSON object in UTF-8, without spaces, ended by a newline:

    {"type":"TryStarted","at":"2026-11-30T16:30:35.123456Z","attempt":"k3m...","task":"a","ordinal":1,"try_number":1}

`type` is the name of the event, `at` its moment in UTC to the microsecond, and the rest are its fields, named as in
`proctor.model`. What equals its default is left out: None, an empty list or object, usage of no calls. The defaults
are therefore part of the format. Non-finite numbers are never written, nor scores outside of 0 to 1. Half of a
surrogate pair in a text is written as the six characters `\udXXX` and stays so.

`RunStarted.format` is the version of the journal; a newer one, or an event that is not known here, is `NewerFormat`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

from proctor.errors import JournalDamaged, StoreError
from proctor.model.events import EVENT_TYPES, AttemptSealed, Event, RunStarted, SlotFilled
from proctor.store.plain import NotEncodable, plain_json
from proctor.store.shapes import EMPTY_USAGE, Shape, event_union, shape_of

FORMAT_VERSION = 1
"""The version of journals that this proctor writes; it reads all up to it."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SHAPES: dict[type, Shape] = {event: shape_of(event) for event in EVENT_TYPES}
_EVENT_OF: dict[type, type[Event]] = {_SHAPES[event].struct: event for event in EVENT_TYPES}
_NAMES = frozenset(event.__name__ for event in EVENT_TYPES)
_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[Any] = msgspec.json.Decoder(event_union(_SHAPES.values()))


class NewerFormat(StoreError):
    """A file, named in `what`, was written by a newer proctor."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"{what}: written by a newer proctor", hint="upgrade proctor to read it")


def encode(event: Event, at: float) -> bytes:
    """Return the line of an event that happened `at` seconds after the epoch.

    Raises `NotEncodable` with the place of a value that has the wrong type or is not finite.
    """
    shape = _SHAPES[type(event)]
    moment = stamp(at)
    try:
        line = _encode(event, shape, moment)
    except (msgspec.ValidationError, TypeError, UnicodeEncodeError):
        return _encode_slowly(event, shape, moment)
    if isinstance(event, AttemptSealed | SlotFilled) and (wrong := impossible_in(event)):
        raise NotEncodable(f"cannot be written to the journal: {type(event).__name__}: {wrong}")
    # None is left out, so a null is a number that is not finite, or the word in a text.
    return line if b"null" not in line else _encode_slowly(event, shape, moment)


def impossible_in(event: Any) -> str | None:
    """Return what no attempt has, of the score and the cost of an `AttemptSealed` or a `SlotFilled` (spec 09 M5)."""
    if event.score is not None and not 0 <= event.score <= 1:
        return f"a score is from 0 to 1, not {event.score:g}"
    cost: float | None = getattr(event, "cost_usd", None)
    return f"a cost is at least 0, not {cost:g}" if cost is not None and cost < 0 else None


def _encode(event: object, shape: Shape, moment: str) -> bytes:
    struct = msgspec.convert(event, shape.struct, from_attributes=True)
    struct.at = moment
    shape.drop_empty_usage(struct)
    return _ENCODER.encode(struct) + b"\n"


def _encode_slowly(event: Event, shape: Shape, moment: str) -> bytes:
    name = type(event).__name__
    plain = plain_json(event, name)
    try:
        struct = msgspec.convert({"type": name, "at": moment, **plain}, shape.struct)
    except msgspec.ValidationError as error:
        raise NotEncodable(
            f"cannot be written to the journal: {name}: {error}", hint="mend the plugin that made this value"
        ) from error
    shape.drop_empty_usage(struct)
    return _ENCODER.encode(struct) + b"\n"


def decode(line: bytes) -> tuple[Event, float]:
    """Return the event of a line and its moment in seconds after the epoch.

    Raises `NewerFormat` when a newer proctor wrote it, `JournalDamaged` when it is not a line of a journal.
    """
    try:
        struct = _DECODER.decode(line)
        kind = _EVENT_OF[type(struct)]
        _SHAPES[kind].fill_usage(struct)
        event = msgspec.convert(struct, kind, from_attributes=True)
        at = seconds_of(struct.at)
        if isinstance(event, AttemptSealed | SlotFilled) and (wrong := impossible_in(event)):
            raise ValueError(wrong)
    except (ValueError, RecursionError) as error:  # every error of msgspec is a ValueError
        raise _explained(line, error) from error
    if isinstance(event, RunStarted) and event.format > FORMAT_VERSION:
        raise NewerFormat(f"journal of format {event.format}")
    return event, at


def _explained(line: bytes, error: Exception) -> StoreError:
    """Tell a line of a newer proctor from a damaged one, after it was refused."""
    try:
        raw: Any = msgspec.json.decode(line)
    except (ValueError, RecursionError):
        raw = None
    if isinstance(raw, dict) and isinstance(kind := raw.get("type"), str):  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        version: Any = raw.get("format")  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        if kind == RunStarted.__name__ and isinstance(version, int) and version > FORMAT_VERSION:
            return NewerFormat(f"journal of format {version}")
        if kind not in _NAMES:
            return NewerFormat(f"event `{kind[:80]}` is not known here")
    return JournalDamaged(f"not an event: {error}")


def stamp(at: float) -> str:
    """Return a moment in seconds after the epoch as `YYYY-MM-DDTHH:MM:SS.ffffffZ`, UTC, to the microsecond.

    Raises `NotEncodable` for a moment that is not finite or outside the years 1970 to 9999.
    """
    try:
        second = int(at)
        micros = round((at - second) * 1e6)
        if micros == 1_000_000:
            second, micros = second + 1, 0
        if at < 0:
            raise ValueError("before 1970")
        return f"{_stamp_of_second(second)}.{micros:06d}Z"
    except (ValueError, OverflowError, OSError) as error:
        raise NotEncodable(f"cannot be written to the journal: `at` is {at!r}, which is no moment: {error}") from error


@lru_cache(maxsize=8)
def _stamp_of_second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).isoformat(timespec="seconds")[:19]


def seconds_of(text: str) -> float:
    """Return the moment of a stamp in seconds after the epoch; raises `ValueError` for any other text."""
    if not text.endswith("Z"):
        raise ValueError(f"not a moment in UTC: {text[:40]!r}")
    return (datetime.fromisoformat(text) - _EPOCH).total_seconds()


def plain_part(value: object, name: str = "value") -> Any:
    """Return an issue, usage, check or grade as the plain value that a line holds, defaults left out.

    Raises `NotEncodable`.
    """
    shape = shape_of(type(value))
    try:
        return msgspec.to_builtins(msgspec.convert(value, shape.struct, from_attributes=True))
    except (msgspec.ValidationError, TypeError):
        plain = plain_json(value, name)
    try:
        return msgspec.to_builtins(msgspec.convert(plain, shape.struct))
    except msgspec.ValidationError as error:
        raise NotEncodable(f"cannot be written as JSON: {name}: {error}") from error


__all__ = [
    "EMPTY_USAGE", "FORMAT_VERSION", "NewerFormat", "NotEncodable", "decode", "encode", "impossible_in", "plain_part",
    "seconds_of", "stamp",
]  # fmt: skip
