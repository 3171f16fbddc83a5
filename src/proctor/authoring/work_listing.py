"""The files of a work directory with their digests, listed by one command in any sandbox with `sh`, within bounds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from proctor.plugins.api import ExecResult, Sandbox

FILES_AT_MOST = 50_000
UNREADABLE = "unreadable"
"""In place of the digest of a file that cannot be read."""
LISTING_SECONDS = 120.0

LIST = r"""
[ -d "$1" ] || exit 4
cd "$1" || exit 2
count=$(find . -name .git -prune -o \( -type f -o -type l \) -print | wc -l)
if [ "$count" -gt "$2" ]; then echo "$count" >&2; exit 3; fi
if command -v sha256sum >/dev/null 2>&1; then sum=sha256sum; else sum=cksum; fi
echo "$sum"
printf "%s\0\n" "$(pwd -P)"
find . -name .git -prune -o -type f -exec "$sum" {} + 2>/dev/null
echo names
find . -name .git -prune -o \( -type f -o -type l \) -exec sh -c 'for f do
    if [ -L "$f" ]; then printf "%s\0>%s\0" "$f" "$(readlink "$f")"; else printf "%s\0-\0" "$f"; fi
done' sh {} +
"""
"""Lists `$1`, of at most `$2` files; what is in directories called `.git` is left out."""

_LINE = {
    "sha256sum": re.compile(rb"(\\?)([0-9a-f]{64}) [ *](\./.*)"),
    "cksum": re.compile(rb"()([0-9]+ [0-9]+) (\./.*)"),
}
_ESCAPED = {rb"\n": b"\n", rb"\r": b"\r", rb"\\": b"\\"}


class CannotList(Exception):
    """The files of a work directory cannot be listed; says why."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A digest of the content of each file, and the target of each link, by path below the work directory."""

    digests: Mapping[str, str]
    place: bytes | None = None
    """Where the directory really is; None where it is gone."""


async def list_work(sandbox: Sandbox) -> Listing:
    """Return what is in the work directory of a sandbox. Raises `CannotList`."""
    command = ["sh", "-c", LIST, "sh", sandbox.workdir, str(FILES_AT_MOST)]
    result = await sandbox.exec(command, timeout_seconds=LISTING_SECONDS)
    if result.exit_code == 4:
        return Listing({})
    if result.exit_code == 3:
        raise CannotList(f"it has {result.err.strip()} files, and at most {FILES_AT_MOST:,} are compared")
    if result.timed_out:
        raise CannotList(f"reading it took more than {LISTING_SECONDS:g} s")
    if not result.ok or result.truncated:
        raise CannotList(_why(result))
    program, _, rest = result.stdout.partition(b"\n")
    place, mark, rest = rest.partition(b"\0\n")
    if not mark:
        raise CannotList("its listing cannot be read")
    return Listing(_read(program, rest), place)


def _why(result: ExecResult) -> str:
    if result.truncated:
        return "the list of its files is too long"
    last = (result.lost or result.err.strip() or f"status {result.exit_code}").splitlines()[-1]
    return f"its files cannot be read: {last}"


def _read(program: bytes, rest: bytes) -> dict[str, str]:
    """Return digests by path. Raises `CannotList` for an output that does not say for sure what is there."""
    sums, mark, names = rest.partition(b"names\n") if rest.startswith(b"names\n") else rest.rpartition(b"\nnames\n")
    line_of = _LINE.get(program.decode("ascii", "replace"))
    if line_of is None or not mark:
        raise CannotList("its listing cannot be read")
    digests: dict[bytes, str] = {}
    for line in filter(None, sums.split(b"\n")):
        match = line_of.fullmatch(line)
        if match is None:
            raise CannotList("the name of a file in it cannot be read")
        escaped, digest, path = match.groups()
        digests[_unescaped(path) if escaped else path] = digest.decode("ascii")
    found: dict[str, str] = {}
    words = names.split(b"\0")[:-1]
    for path, target in zip(words[::2], words[1::2], strict=True):
        name = path.removeprefix(b"./").decode("utf-8", "surrogateescape")
        if target.startswith(b">"):
            found[name] = f"link to {target[1:].decode('utf-8', 'surrogateescape')}"
        else:
            found[name] = digests.get(path, UNREADABLE)
    return found


def _unescaped(path: bytes) -> bytes:
    return re.sub(rb"\\[nr\\]", lambda match: _ESCAPED[match[0]], path)


__all__ = ["CannotList", "Listing", "list_work"]
