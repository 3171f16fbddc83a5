"""`--json`: the plan, every event, and exactly one receipt, as one JSON object a line on standard output."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from proctor.model.events import Event
from proctor.report.plain import Writes


class Ndjson:
    """Writes lines of JSON; the line of an event is that of the journal, with the name of its experiment in front.

    An event that names its experiment itself stays as it is: no key stands in a line twice.
    """

    def __init__(self, stream: Writes, encode: Callable[[Event, float], bytes]) -> None:
        self._stream = stream
        self._encode = encode

    def show(self, experiment: str, event: Event, at: float) -> None:
        """Write one event."""
        line = self._encode(event, at).decode()
        named = hasattr(event, "experiment")
        self._stream.write(line if named else '{"experiment":' + json.dumps(experiment) + "," + line[1:])

    def write(self, kind: str, data: dict[str, Any]) -> None:
        """Write a line that is no event: the plan or the receipt."""
        line = json.dumps({"type": kind, **data}, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        self._stream.write(line + "\n")

    def flush(self) -> None:
        """Hand what was written to the reader."""
        self._stream.flush()
