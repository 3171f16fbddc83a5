"""Directory names from ids: pure functions of the ids alone (spec 08 D6).

The name of an id is the id itself where that is safe on every file system, else a safe form of it followed by `-` and
the first eight hexadecimal digits of the SHA-256 of the id. It gets this hash when

- normalising changed it: Unicode NFC; `/ \\ : * ? " < > |`, `_`, white space, control and invisible characters become
  `-`; so do a leading and trailing dots (hidden on POSIX, dropped by Windows); Windows' device names lose their dots;
- it was cut, to at most 80 bytes in all, between characters;
- it differs from its own case-folded and compatibility-normalised form. That is our choice: with it, two ids that a
  file system would take for one name (`Task` and `task`, two spellings of an accented letter, `ß` and `ss`) never share
  a directory, although each name is made without looking at the other ids. The price is that names with capital letters
  carry a hash;
- it looks like a name with a hash already.

So different ids have different names, on file systems that fold case or composition too, unless eight digits of SHA-256
meet. Half of a surrogate pair in an id counts as the escape that stands for it in every file (`store.plain`), so that
an id that is read back leads to the same directory. Names themselves are never read back: ids stand in `plan.json` and
in every `result.json`.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from functools import lru_cache

from proctor.errors import UsageError
from proctor.store.plain import escape_surrogates

NAME_BYTES_MAX = 80
NO_MODEL = "none"
"""Stands in a directory name for the model of an experiment that has none."""

ENDING_CHARACTERS_MAX = 16
"""So long may an ending such as `.json` be that stays at the end of a file's name whatever is done to the rest."""

_HASH_DIGITS = 8
_SAFE = re.compile(r"[a-z0-9+=@,-][a-z0-9+=@,.-]*")
_LIKE_HASHED = re.compile(r"-[0-9a-f]{8}\Z")
_ENDING = re.compile(rf"\.[0-9A-Za-z]{{1,{ENDING_CHARACTERS_MAX - 1}}}\Z")
_REPLACED = frozenset('/\\:*?"<>|_')
_DEVICES = frozenset(
    ["con", "prn", "aux", "nul", "conin$", "conout$", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))]
)


@lru_cache(maxsize=1024)
def component_name(text: str) -> str:
    """Return the directory name of an id: one path component, at most 80 bytes, valid and distinct everywhere."""
    return _component_name(text)


def _component_name(text: str, *, taken: str | None = None) -> str:
    """Do the work of `component_name`; `taken` is a name that the id must not get."""
    text = escape_surrogates(text)
    if _is_its_own_name(text) and text != taken:
        return text
    digest = hashlib.sha256(text.encode("utf-8")).hexdigest()[:_HASH_DIGITS]
    room = NAME_BYTES_MAX - 1 - _HASH_DIGITS
    kept = _normalised(text).encode("utf-8")[:room].decode("utf-8", "ignore")
    return f"{kept}-{digest}"


def file_name(text: str) -> str:
    """Return the name of a file for a path or name that came from elsewhere: one path component, as `component_name`.

    `_` stays, and so does the ending, so that programs know what the file is.
    """
    text = escape_surrogates(text)
    found = _ENDING.search(text)
    stem, ending = (text[: found.start()], found.group().lower()) if found and found.start() else (text, "")
    fits = len(text.encode("utf-8")) <= NAME_BYTES_MAX and not _LIKE_HASHED.search(stem)
    if text and fits and _normalised(text, keep="_") == text == _folded(text) and not _is_device(text):
        return text
    digest = hashlib.sha256(text.encode("utf-8")).hexdigest()[:_HASH_DIGITS]
    room = NAME_BYTES_MAX - 1 - _HASH_DIGITS - len(ending)
    kept = _normalised(stem, keep="_").strip("-.").encode("utf-8")[:room].decode("utf-8", "ignore")
    kept = kept.replace(".", "-") if _is_device(kept) else kept
    return f"{kept or 'file'}-{digest}{ending}"


def is_plain_file_name(name: str) -> bool:
    """Say whether the name of a file that came from elsewhere can stay as it is, on every file system.

    Capital letters, `_`, spaces and a leading dot are fine: whoever keeps the name keeps its neighbours' as well.
    """
    bare = name.removeprefix(".").replace(" ", "-")
    return (
        bare not in ("", ".")
        and not name.endswith((" ", "."))
        and len(name.encode("utf-8", "surrogatepass")) <= 3 * NAME_BYTES_MAX
        and _normalised(bare, keep="_") == bare
        and not _is_device(name)
    )


def experiment_dir_name(model: str | None, benchmark: str, harness: str) -> str:
    """Return `<model>_<benchmark>_<harness>`, with `none` where there is no model; a model of that name gets a hash."""
    first = NO_MODEL if model is None else _component_name(model, taken=NO_MODEL)
    return "_".join((first, component_name(benchmark), component_name(harness)))


def run_name_levels(run_name: str) -> tuple[str, ...]:
    """Return the directory names of `--run-name`, which may hold `/` levels.

    Raises `UsageError` for an absolute path, `.` or `..`, and an empty level.
    """
    levels = run_name.split("/")
    hint = "write it as words, with `/` between levels: `nightly/main`"
    if run_name.startswith("/"):
        raise UsageError(f"run name `{run_name}` is an absolute path", hint=hint)
    if "" in levels:
        raise UsageError(f"run name `{run_name}` has an empty level", hint=hint)
    for level in levels:
        if level in (".", ".."):
            raise UsageError(f"run name `{run_name}` has the level `{level}`", hint=hint)
    return tuple(component_name(level) for level in levels)


def checked_run_id(run_id: str) -> str:
    """Return a run id that a user chose, if it is a plain directory name; `_` and capital letters are allowed.

    Raises `UsageError` otherwise; its hint is a run id like it that can be had.
    """
    allowed = _normalised(run_id, keep="_")
    if run_id and allowed == run_id and len(run_id.encode("utf-8")) <= NAME_BYTES_MAX and not _is_device(run_id):
        return run_id
    near = allowed.encode("utf-8")[:NAME_BYTES_MAX].decode("utf-8", "ignore").strip("-.")
    near = f"run-{near}" if _is_device(near) else near
    raise UsageError(
        f"run id `{run_id}` is not a plain directory name of at most {NAME_BYTES_MAX} bytes",
        hint=f"use letters, digits, `-`, `_` and dots{f', such as `{near}`' if near else ''}",
    )


def _is_its_own_name(text: str) -> bool:
    if len(text) > NAME_BYTES_MAX or _LIKE_HASHED.search(text):
        return False
    if _SAFE.fullmatch(text):
        return not text.endswith(".") and not _is_device(text)
    return (
        bool(text)
        and _normalised(text) == text
        and _folded(text) == text
        and len(text.encode("utf-8")) <= NAME_BYTES_MAX
        and not _is_device(text)
    )


def _normalised(text: str, *, keep: str = "") -> str:
    """Return a valid name that may be too long, may be a device without a dot, and may be empty."""
    plain = "".join("-" if _is_replaced(c) and c not in keep else c for c in unicodedata.normalize("NFC", text))
    if plain.startswith("."):
        plain = f"-{plain[1:]}"
    bare = plain.rstrip(".")
    plain = bare + "-" * (len(plain) - len(bare))
    return plain.replace(".", "-") if _is_device(plain) else plain


def _is_replaced(character: str) -> bool:
    # Z: spaces and separators; C: controls, invisible formatting, surrogates, private and unassigned.
    return character in _REPLACED or unicodedata.category(character)[0] in "ZC"


def _folded(text: str) -> str:
    """Return what a file system that folds case and composition might make of a name, at its worst."""
    upper = unicodedata.normalize("NFKC", text).upper()
    return unicodedata.normalize("NFKC", upper.casefold())


def _is_device(name: str) -> bool:
    """Say whether Windows takes a name for a device: the part before the first dot decides."""
    stem = name.partition(".")[0].rstrip(" ")
    return unicodedata.normalize("NFKC", stem).casefold() in _DEVICES
