"""Checks of `write`, `read`, `upload` and `download`, for `conformance.check_provider`."""

from __future__ import annotations

import os
from pathlib import Path

from proctor.testing.conformance import Stage, require, require_equal

NAMES = ("plain", "with blank", "-dash", "line\nbreak", "quote'\"", "back\\slash", "é", "*", "x" * 255)
"""Names that break careless commands."""


async def files_are_written_and_read(stage: Stage) -> None:
    """Text and bytes, parents made, old content replaced."""
    sandbox = stage.sandbox
    await sandbox.write("deep/er/file", "first, and longer")
    await sandbox.write("deep/er/file", "é\n")
    require_equal("text read back", await sandbox.read("deep/er/file"), "é\n".encode())
    await sandbox.write("bytes", bytes(range(256)))
    require_equal("bytes read back", await sandbox.read("bytes"), bytes(range(256)))
    require_equal("what a command sees", (await sandbox.exec("cat deep/er/file")).out, "é\n")
    absolute = f"{sandbox.workdir}/bytes"
    require_equal("read by its absolute path", await sandbox.read(absolute), bytes(range(256)))


async def what_a_command_wrote_is_read(stage: Stage) -> None:
    """Also a file in a name that commands would misread."""
    for name in NAMES:
        await stage.sandbox.exec(["sh", "-c", 'printf %s "$1" > "./$1"', "sh", name])
        require_equal(f"content of {name!r}", await stage.sandbox.read(name), name.encode())


async def reading_what_is_not_there_fails(stage: Stage) -> None:
    """`FileNotFoundError`, for a file and for its directory."""
    for path in ("missing", "missing/file"):
        try:
            await stage.sandbox.read(path)
        except FileNotFoundError:  # as it should be
            continue
        require(False, f"reading {path} should raise FileNotFoundError")


async def reading_what_is_no_file_fails(stage: Stage) -> None:
    """A directory, and a pipe that nobody writes to: an error, and no wait."""
    await stage.sandbox.exec("mkdir folder; mkfifo pipe")
    for path in ("folder", "pipe"):
        try:
            await stage.sandbox.read(path)
        except OSError:  # as it should be
            continue
        require(False, f"reading {path} should raise OSError")


async def directories_go_in_and_out(stage: Stage) -> None:
    """Every file comes back equal, empty directories and the permission to execute included."""
    source, back = stage.folder / "source", stage.folder / "back"
    for folder in ("", "sub/deeper", "empty"):
        (source / folder).mkdir(parents=True)
    for name in NAMES:
        (source / "sub" / name).write_bytes(name.encode() * 3)
    script = source / "sub/deeper/run"
    script.write_text("#!/bin/sh\necho ran\n")
    script.chmod(0o755)
    await stage.sandbox.upload(source, "target/of it")
    require_equal("an uploaded program", (await stage.sandbox.exec(["target/of it/sub/deeper/run"])).out, "ran\n")
    await stage.sandbox.download("target/of it", back)
    require_equal("the tree that came back", _tree(back), _tree(source))


async def single_files_go_in_and_out(stage: Stage) -> None:
    """Their target is the name that they get, parents made."""
    source, back = stage.folder / "source", stage.folder / "new/back"
    source.write_bytes(b"content")
    await stage.sandbox.upload(source, "new/place")
    await stage.sandbox.download("new/place", back)
    require_equal("the file that came back", back.read_bytes(), b"content")


async def downloading_what_is_not_there_fails(stage: Stage) -> None:
    """`FileNotFoundError`, and nothing is made."""
    try:
        await stage.sandbox.download("missing", stage.folder / "back")
    except FileNotFoundError:
        require(not (stage.folder / "back").exists(), "a failed download should make nothing")
        return
    require(False, "downloading what is missing should raise FileNotFoundError")


async def links_and_devices_are_left_out_of_downloads(stage: Stage) -> None:
    """What an agent plants does not reach out, and does not hold the download."""
    await stage.sandbox.exec(
        "mkdir -p out/sub; echo kept > out/sub/kept; ln -s /etc/passwd out/link; ln -s /etc out/folder;"
        "ln -s ../.. out/up; ln -s nowhere out/dangling; ln -s . out/loop; mkfifo out/pipe"
    )
    await stage.sandbox.download("out", stage.folder / "back")
    require_equal("what came", sorted(_tree(stage.folder / "back")), ["sub", "sub/kept"])


async def a_link_that_is_asked_for_is_followed_inside_of_the_sandbox_only(stage: Stage) -> None:
    """What it leads to comes under the name that was asked for; nothing comes from this machine."""
    back, secret = stage.folder / "back", stage.folder / "secret"
    secret.mkdir()
    (secret / "file").write_bytes(b"of this machine")
    links = "ln -s real/kept file; ln -s real folder; ln -s nowhere dangling; ln -s loop loop"
    away = 'ln -s "$1" out; ln -s "$1/file" out-file'
    await stage.sandbox.exec(["sh", "-c", f"mkdir real; echo kept > real/kept; {links}; {away}", "sh", str(secret)])
    await stage.sandbox.download("file", back / "file")
    await stage.sandbox.download("folder", back / "folder")
    found = {name: content for name, (_, content) in _tree(back).items()}
    require_equal("what came", found, {"file": b"kept\n", "folder": None, "folder/kept": b"kept\n"})
    for name in ("dangling", "loop", "out", "out-file"):
        try:
            await stage.sandbox.download(name, back / name)
        except (FileNotFoundError, PermissionError):
            require(name not in _tree(back), f"a failed download of `{name}` should make nothing")
            continue
        require(False, f"downloading the link `{name}` should raise FileNotFoundError or PermissionError")


async def what_is_beyond_a_limit_is_left_out_and_counted(stage: Stage) -> None:
    """Files come whole, in the order of their names, those of a directory first; what is small still fits later."""
    await stage.sandbox.exec(
        "mkdir -p out/sub; printf 12345 > out/a; printf 1234567890 > out/b; printf 12 > out/c; printf 123 > out/sub/d"
    )
    back = stage.folder
    left_out = await stage.sandbox.download("out", back / "few bytes", max_bytes=8)
    require_equal("what was left out by bytes", (left_out.files, left_out.size_bytes), (2, 13))
    require_equal("what came", sorted(_tree(back / "few bytes")), ["a", "c", "sub"])
    left_out = await stage.sandbox.download("out", back / "few files", max_files=2)
    require_equal("what was left out by number", (left_out.files, left_out.size_bytes), (2, 5))
    require_equal("what came", sorted(_tree(back / "few files")), ["a", "b", "sub"])
    left_out = await stage.sandbox.download("out/b", back / "one file", max_bytes=9)
    require_equal("a single file that is too large", (left_out.files, left_out.size_bytes), (1, 10))
    require(not (back / "one file").exists(), "a file that is too large should not come in part")
    left_out = await stage.sandbox.download("out", back / "all", max_bytes=20, max_files=4)
    require(not left_out, "what fits exactly should come")


async def a_hidden_file_is_found(stage: Stage) -> None:
    """Modes do not hide what an agent left, from whoever may change them."""
    await stage.sandbox.exec("mkdir -p out/sub; echo kept > out/sub/kept; chmod 0 out/sub/kept out/sub")
    await stage.sandbox.download("out", stage.folder / "back")
    require_equal("content", (stage.folder / "back/sub/kept").read_bytes(), b"kept\n")


async def holes_do_not_fill_the_disk(stage: Stage) -> None:
    """A file that is a terabyte of nothing is downloaded as a file that takes no room."""
    made = await stage.sandbox.exec("mkdir out; truncate -s 1T out/huge && printf end >> out/huge")
    if not made.ok:
        return  # this sandbox has no such files
    await stage.sandbox.download("out", stage.folder / "back")
    used = (stage.folder / "back/huge").stat().st_blocks * 512
    require(used < 1_000_000, f"the download of an almost empty file takes {used} bytes")


async def uploads_do_not_follow_planted_links(stage: Stage) -> None:
    """A link in the place of a file is replaced, not written through."""
    await stage.sandbox.exec("echo untouched > victim; mkdir place; ln -s ../victim place/file")
    source = stage.folder / "source"
    source.mkdir()
    (source / "file").write_bytes(b"uploaded")
    await stage.sandbox.upload(source, "place")
    require_equal("the uploaded file", await stage.sandbox.read("place/file"), b"uploaded")
    require_equal("the target of the link", await stage.sandbox.read("victim"), b"untouched\n")


def _tree(root: Path) -> dict[str, tuple[bool, bytes | None]]:
    """Return every path below `root` with whether it can be executed and its content, None for a directory."""
    found: dict[str, tuple[bool, bytes | None]] = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder, name)
            is_file = path.is_file()
            content = path.read_bytes() if is_file else None
            found[str(path.relative_to(root))] = (is_file and bool(path.stat().st_mode & 0o100), content)
    return found


CHECKS = (
    files_are_written_and_read,
    what_a_command_wrote_is_read,
    reading_what_is_not_there_fails,
    reading_what_is_no_file_fails,
    directories_go_in_and_out,
    single_files_go_in_and_out,
    downloading_what_is_not_there_fails,
    links_and_devices_are_left_out_of_downloads,
    a_link_that_is_asked_for_is_followed_inside_of_the_sandbox_only,
    what_is_beyond_a_limit_is_left_out_and_counted,
    a_hidden_file_is_found,
    holes_do_not_fill_the_disk,
    uploads_do_not_follow_planted_links,
)
