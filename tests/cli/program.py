"""What the tests of the program share."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SUPPORT = Path(__file__).parent.parent / "support"
sys.path.append(str(SUPPORT))  # tests look at what the plugins there say
HANG_SECONDS = 100
"""Only a hang takes so long."""


@dataclass(frozen=True)
class Ended:
    """What a call left behind."""

    code: int
    out: str
    err: str
    folder: Path

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def receipt(self) -> dict[str, Any]:
        [receipt] = [event for event in self.events if event["type"] == "receipt"]
        return receipt

    @property
    def run_dirs(self) -> list[Path]:
        return sorted(path.parent for path in self.folder.rglob("journal.jsonl"))

    @property
    def run_dir(self) -> Path:
        [found] = self.run_dirs
        return found
