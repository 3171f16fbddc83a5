"""How busy this machine is, where it says so (Linux)."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

_STAT = Path("/proc/stat")
_MEMORY = Path("/proc/meminfo")
_IDLE = slice(3, 5)
"""Among the times of a CPU: idle, and waiting for input and output."""


class HostMeter:
    """Reads how much of the CPUs and of the memory of this machine is in use."""

    def __init__(self, stat: Path = _STAT, memory: Path = _MEMORY) -> None:
        self._stat = stat
        self._memory = memory
        self._before: tuple[int, int] | None = self._times()

    def cpu(self) -> float | None:
        """Return the share of all CPUs that was in use since the last call; None where that is not known."""
        before, now = self._before, self._times()
        self._before = now
        if before is None or now is None or now[0] <= before[0]:
            return None
        return min(1.0, max(0.0, 1.0 - (now[1] - before[1]) / (now[0] - before[0])))

    def memory(self) -> float | None:
        """Return the share of the memory that is not available any more; None where that is not known."""
        values: dict[str, int] = {}
        with suppress(OSError, ValueError, IndexError):
            for line in self._memory.read_text().splitlines()[:5]:
                name, _, rest = line.partition(":")
                values[name] = int(rest.split()[0])
        total, available = values.get("MemTotal", 0), values.get("MemAvailable")
        return None if not total or available is None else 1.0 - available / total

    def _times(self) -> tuple[int, int] | None:
        """Return (all, idle) time of all CPUs in ticks."""
        with suppress(OSError, ValueError, IndexError):
            with self._stat.open() as file:
                times = [int(word) for word in file.readline().split()[1:9]]
            return sum(times), sum(times[_IDLE])
        return None
