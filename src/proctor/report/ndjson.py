"""`--json`: the plan, every event, and exactly one receipt, as one JSON object a line on standard output."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from proctor.model.events import Event
from proctor.report.plain import Writes
from proctor.report.wording import inactive_json


class Ndjson:
    """Writes lines of JSON; the line of an event is that of the journal, with the name of its experiment in front.

    What a terminal would obey is escaped in it, beyond what JSON itself asks for: the value stays the same.

    An event that names its experiment itself stays as it is: no key stands in a line twice.
    """

    def __init__(self, stream: Writes, encode: Callable[[Event, float], bytes]) -> None:
        self._stream = stream
        self._encode = encode

    def show(self, experiment: str, event: Event, at: float) -> None:
        """Write one event."""
        line = self._encode(event, at).decode().removesuffix("\n")
        named = hasattr(event, "experiment")
        self._put(line if named else '{"experiment":' + json.dumps(experiment) + "," + line[1:])

    def write(self, kind: str, data: dict[str, Any]) -> None:
        """Write a line that is no event: the plan or the receipt."""
        self._put(json.dumps({"type": kind, **data}, ensure_ascii=False, allow_nan=False, separators=(",", ":")))

    def _put(self, line: str) -> None:
        self._stream.write(inactive_json(line) + "\n")

    def flush(self) -> None:
        """Hand what was written to the reader."""
        self._stream.flush()
