"""Lists what is below a directory of a container, and chooses what of it is downloaded."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from proctor.plugins.api import LeftOut

HOLE_BYTES = 1 << 30
"""A file with more than this in holes does not come: engines send holes as zeros, which takes for ever."""
BLOCK_BYTES = 512
MOST_ENTRIES = 1_000_000
"""So many directories and files are downloaded at most; each takes memory here."""

LIST = r"""
exec 2>/dev/null
[ -e "$1" ] || exit 44
if [ ! -d "$1" ]; then
    [ -f "$1" ] || exit 45
    stat -L -c 'f %s %b' -- "$1"
    exit
fi
cd -P -- "$1" || exit 46
printf 'd\n'
pwd -P
find . -type d -print0
printf '\000'
find . -type f -print0
printf '\000'
find . -type f -exec stat -c '%s %b' {} +
"""
"""Prints the directories and files below $1, each in a record of its own, then size and blocks of each file."""

MISSING, NO_FILE = 44, 45
MOST_DIGITS = 19
"""What the size of a file has at most."""


class Entry(NamedTuple):
    """A file, and how large it is said to be."""

    name: str
    size_bytes: int
    has_holes: bool


@dataclass(frozen=True, slots=True)
class Listing:
    """What is at a path: one file (`single`), or a directory at `root` with all that is below it."""

    root: str
    folders: tuple[str, ...] = ()
    files: tuple[Entry, ...] = ()
    single: bool = False


class ListingChanged(Exception):
    """The directory changed while it was listed."""


def parse(path: str, printed: bytes) -> Listing:
    """Read what `LIST` prints. Raises `ListingChanged` where its parts do not belong together.

    Whoever is root in the container can have replaced the programs that print it: nothing of it is believed.
    """
    if printed.count(b"\0") > MOST_ENTRIES:
        raise ListingChanged(f"it has more than {MOST_ENTRIES:,} directories and files")
    if printed.startswith(b"f "):
        return Listing(path, files=(_entry(posixpath.basename(path), printed[2:]),), single=True)
    # A path may contain line breaks, so the first record begins at "./" or ".", after the last break before a NUL.
    head, _, rest = printed.partition(b"\n")
    first, _, _ = rest.partition(b"\0")
    root = first.rpartition(b"\n")[0]
    if head != b"d" or not root.startswith(b"/"):
        raise ListingChanged("what was printed is no listing")
    folders, _, rest = rest[len(root) + 1 :].partition(b"\0\0")
    files, separator, sizes = rest.rpartition(b"\0\0") if not rest.startswith(b"\0") else (b"", b"\0", rest[1:])
    names = [name for name in files.split(b"\0") if name]
    lines = sizes.splitlines()
    if not separator or len(names) != len(lines):
        raise ListingChanged("it changed while it was listed")
    return Listing(
        root.decode("utf-8", "surrogateescape"),
        folders=tuple(_name(folder) for folder in folders.split(b"\0") if folder != b"."),
        files=tuple(_entry(_name(name), line) for name, line in zip(names, lines, strict=True)),
    )


def _name(printed: bytes) -> str:
    """Return a name below the directory; raises `ListingChanged` for one that leads anywhere else."""
    first, *parts = printed.split(b"/")
    if first != b"." or not parts or any(part in (b"", b".", b"..") for part in parts):
        raise ListingChanged("a name in it leads out of the directory")
    return b"/".join(parts).decode("utf-8", "surrogateescape")


def _entry(name: str, printed: bytes) -> Entry:
    numbers = printed.split()
    if len(numbers) != 2 or not all(one.isdigit() and len(one) <= MOST_DIGITS for one in numbers):
        raise ListingChanged("a size in it is no number")
    size_bytes, blocks = map(int, numbers)
    return Entry(name, size_bytes, has_holes=size_bytes - blocks * BLOCK_BYTES > HOLE_BYTES)


def _order(entry: Entry) -> list[tuple[int, str]]:
    """Sort the files of a directory before those of the directories in it."""
    *folders, name = entry.name.split("/")
    return [*((1, folder) for folder in folders), (0, name)]


def choose(files: Iterable[Entry], max_bytes: int | None, max_files: int | None) -> tuple[dict[str, int], LeftOut]:
    """Return the files that fit the limits, in the order of their names, with their sizes; and what does not."""
    chosen: dict[str, int] = {}
    left_files = left_bytes = 0
    room = max_bytes
    for entry in sorted(files, key=_order):
        full = max_files is not None and len(chosen) >= max_files
        if entry.has_holes or full or (room is not None and entry.size_bytes > room):
            left_files, left_bytes = left_files + 1, left_bytes + entry.size_bytes
            continue
        chosen[entry.name] = entry.size_bytes
        room = None if room is None else room - entry.size_bytes
    return chosen, LeftOut(left_files, left_bytes)


def requests(listing: Listing, chosen: Mapping[str, int], generous_bytes: int) -> Iterator[str]:
    """Return what to ask for so that all that is chosen comes, and little else: names of directories and files.

    A directory is asked for as a whole where what is not wanted of it is at most `generous_bytes`, or not more than
    what is wanted. The empty name is that of all.
    """
    wanted, unwanted = {"": 0}, {"": 0}
    for entry in listing.files:
        sums = wanted if entry.name in chosen else unwanted
        for folder in _folders_of(entry.name):
            sums[folder] = sums.get(folder, 0) + entry.size_bytes + BLOCK_BYTES
    whole: set[str] = set()
    for name in chosen:
        for folder in _folders_of(name):
            if folder in whole:
                break
            surplus = unwanted.get(folder, 0)
            if surplus <= max(generous_bytes, wanted.get(folder, 0)):
                whole.add(folder)
                yield folder
                break
        else:
            yield name


def _folders_of(name: str) -> Iterator[str]:
    """Return the directories above a file, the outermost first."""
    yield ""
    at = name.find("/")
    while at >= 0:
        yield name[:at]
        at = name.find("/", at + 1)
