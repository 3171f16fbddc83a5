"""How the findings of `proctor doctor` are shown to a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from proctor.report.columns import table
from proctor.report.wording import printable

GIBIBYTE = 1024**3
_INDENT = "  "


def doctor_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the whole report."""
    said = found["versions"]
    yield f"proctor {said['proctor']}, Python {said['python']} ({said['executable']}), {said['system']}"
    yield from _section("providers", _providers(found["providers"], found["default_provider"]["provider"]))
    default = found["default_provider"]
    yield f"{_INDENT}* the default: {default['provider'] or 'unknown'} ({printable(default['why'])})"
    yield from _section("engines", [_engine(one) for one in found["engines"]] or [["none found"]])
    if found["engines"]:
        yield f"{_INDENT}* the one that provider docker uses"
    yield from _section("programs", [_program(one) for one in found["programs"]] or [["none found"]])
    yield from _section("limits", [_cgroups(found["cgroups"]), _files(found["open_files"])])
    yield from _section("space", [_space(one) for one in found["disk"]])
    yield from _section("credentials", [_credential(one) for one in found["credentials"]])
    yield from _section("optional packages", [_extra(one) for one in found["extras"]])


def _section(title: str, rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield ""
    yield f"{title}:"
    yield from table([[printable(cell) for cell in row] for row in rows], _INDENT)


def _providers(rows: Sequence[Mapping[str, Any]], default: str | None) -> list[list[str]]:
    shown: list[list[str]] = []
    for row in rows:
        name = row["provider"] + (" *" if row["provider"] == default else "")
        if not row["works"]:
            why = f"{row['why_not']} (hint: {row['hint']})" if row["hint"] else row["why_not"]
            shown.append([name, "no answer" if row["works"] is None else "does not work", why])
            continue
        shown.append([name, "works", f"isolates: {row['isolates'] or 'it does not say'}"])
        shown.append(["", "", f"can: {', '.join(row['can'])}"])
        facts = [f"{key} {value}" for key, value in row["facts"].items()]
        shown += [["", "", ", ".join(facts)]] if facts else []
        shown += [["", "", f"problem: {row['problem']}"]] if row["problem"] else []
    return shown or [["none installed", "", ""]]


def _engine(one: Mapping[str, Any]) -> list[str]:
    address = one["address"] + (" *" if one["used"] else "")
    if one["why_not"] is not None:
        return [address, one["why_not"]]
    cgroups = f", control groups v{one['cgroup_version']}" if one["cgroup_version"] else ""
    return [address, f"{one['engine']} {one['version'] or 'of an unknown version'}{cgroups}"]


def _program(one: Mapping[str, Any]) -> list[str]:
    path = one["path"] if one["used"] else f"{one['path']} (not used)"
    return [one["program"], one["version"] or "version unknown", path]


def _cgroups(found: Mapping[str, Any]) -> list[str]:
    if not found["limits"]:
        return ["control groups", "none can be made here: what a whole sandbox uses is not limited without an engine"]
    return ["control groups", f"{', '.join(found['limits'])} ({found['version']})"]


def _files(found: Mapping[str, Any]) -> list[str]:
    limit, most = ("no limit" if found[key] is None else f"{found[key]:,}" for key in ("limit", "most"))
    return ["open files", f"{limit}, at most {most}{_problem(found)}"]


def _space(one: Mapping[str, Any]) -> list[str]:
    if one["free_bytes"] is None:
        return [one["use"], f"unknown{_problem(one)}", one["path"]]
    return [one["use"], f"{one['free_bytes'] / GIBIBYTE:,.1f} GiB free{_problem(one)}", one["path"]]


def _problem(found: Mapping[str, Any]) -> str:
    return f" - {found['problem']}" if found.get("problem") else ""


def _credential(one: Mapping[str, Any]) -> list[str]:
    state = f"present ({one['set_in']})" if one["set_in"] else "absent"
    return [one["variable"], state, f"for {one['used_by']}"]


def _extra(one: Mapping[str, Any]) -> list[str]:
    if one["installed"]:
        there = ", ".join(f"{name} {version}" for name, version in one["packages"].items())
        return [one["extra"], "installed", there]
    return [one["extra"], "not installed", one["install"]]


__all__ = ["doctor_lines"]
