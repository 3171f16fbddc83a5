"""How leases are shown: as a table, line by line, and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from proctor.report.columns import table
from proctor.report.wording import duration, printable
from proctor.runtime.clock import utc
from proctor.store.codec import stamp
from proctor.store.lease_info import Held, advice


def lease_table(held: list[Held]) -> list[str]:
    """Return the lines of a table, one per lease."""
    rows = [("KEY", "STATE", "HOLDER", "HOST", "PID", "STARTED", "HEARTBEAT", "TOKEN", "EXPERIMENT")]
    rows += [
        (
            info.key, info.state, one.life.living, info.holder.host, str(info.holder.pid), _moment(info.started_at),
            _moment(info.heartbeat_at), info.holder_token, info.experiment,
        )
        for one in held
        for info in [one.info]
    ]  # fmt: skip
    return table([[printable(cell) for cell in row] for row in rows])


def lease_lines(one: Held, now: float) -> list[tuple[str, str]]:
    """Return what `inspect` prints, as names and values."""
    info = one.info
    lines = [("key", info.key), ("experiment", info.experiment)]
    lines += [("run", info.run)] if info.run else []
    lines += [("state", info.state)]
    lines += [("problem", info.problem)] if info.problem else []
    lines += [
        ("owner token", info.owner_token),
        ("host", info.owner.host),
        ("pid", str(info.owner.pid)),
        ("started", _moment(info.started_at, now)),
        ("last heartbeat", _moment(info.heartbeat_at, now)),
    ]
    if info.teardown:
        lines.append(("teardown", f"{info.teardown.path}, within {duration(info.teardown.timeout_seconds)}"))
    if info.recovery:
        lines += [
            ("recovered by", str(info.recovery.owner)),
            ("since", _moment(info.recovery.started_at, now)),
            ("its token", info.recovery.token),
        ]
    return [*lines, ("holder", str(one.life))]


def _moment(at: float, now: float | None = None) -> str:
    text = utc(at).isoformat(timespec="seconds").removesuffix("+00:00") + "Z"
    return text if now is None else f"{text} ({duration(max(0.0, now - at))} ago)"


def lease_data(one: Held) -> dict[str, Any]:
    """Return a lease as JSON; moments in UTC."""
    info = one.info
    return {
        "key": info.key,
        "experiment": info.experiment,
        "run": info.run,
        "state": info.state,
        "problem": info.problem,
        "owner_token": info.owner_token,
        **asdict(info.owner),
        "started_at": stamp(info.started_at),
        "heartbeat_at": stamp(info.heartbeat_at),
        "teardown": asdict(info.teardown) if info.teardown else None,
        "recovery": info.recovery and {**asdict(info.recovery), "started_at": stamp(info.recovery.started_at)},
        "holder": {"token": info.holder_token, "living": one.life.living, "why": one.life.why},
        "advice": advice(info, one.life),
    }
