"""`t.diff`: what the agent changed in its work directory (spec 02)."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from proctor.authoring import work_listing
from proctor.authoring.work_diff import Diff, DiffWatch
from proctor.authoring.work_listing import CannotList, list_work
from proctor.model.environment import EnvironmentSpec
from proctor.providers.local import LocalProvider

Step = Callable[[Any], Awaitable[Any]]


def sh(command: str) -> Step:
    async def step(sandbox: Any) -> None:
        result = await sandbox.exec(command)
        assert result.ok, result.err

    return step


def diff_of(*steps: Step, before: Step | None = None, **options: Any) -> Diff:
    """Return what differs after the last of some steps, each in a turn of its own."""

    async def run() -> Diff:
        provider = LocalProvider()
        sandbox = await provider.open(EnvironmentSpec(), {})
        try:
            if before is not None:
                await before(sandbox)
            watch = DiffWatch(sandbox, **{"wanted": True, **options})
            assert options or not watch.diff()
            for step in steps:
                await watch.before_turn()
                await step(sandbox)
                await watch.after_turn()
            return watch.diff()
        finally:
            await sandbox.dispose()
            await provider.finalize()

    return asyncio.run(run())


SETUP = sh("mkdir -p src .git && echo 1 | tee same src/changed gone && ln -s same link && echo x > .git/y")
CHANGE = sh("echo 2 > src/changed && rm gone && echo 1 > src/new && ln -sf gone link && echo z > .git/y && touch same")


def test_02_added_changed_and_removed_files() -> None:
    diff = diff_of(CHANGE, before=SETUP)
    assert diff.paths == ["gone", "link", "src/changed", "src/new"]
    assert (diff.added, diff.changed, diff.removed) == (["src/new"], ["link", "src/changed"], ["gone"])
    assert bool(diff)


def test_02_the_patch_has_the_changed_lines() -> None:
    diff = diff_of(CHANGE, before=SETUP)
    assert (
        diff.patch
        == diff.text
        == (
            "--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n"
            "changed: link\n"
            "--- a/src/changed\n+++ b/src/changed\n@@ -1 +1 @@\n-1\n+2\n"
            "--- /dev/null\n+++ b/src/new\n@@ -0,0 +1 @@\n+1\n"
        )
    )


def test_02_a_sandbox_that_has_cksum_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_listing, "LIST", work_listing.LIST.replace("command -v sha256sum", "false"))
    diff = diff_of(CHANGE, before=SETUP)
    assert (diff.added, diff.changed, diff.removed) == (["src/new"], ["link", "src/changed"], ["gone"])


def test_02_it_is_against_the_state_before_the_first_turn() -> None:
    diff = diff_of(sh("echo 1 > a"), sh("echo 2 > a; echo 1 > b"), sh("rm b"))
    assert diff.paths == ["a"]
    assert diff.patch == "--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+2\n"


def test_02_what_is_undone_does_not_differ() -> None:
    assert not diff_of(sh("rm same"), sh("echo 1 > same; touch -d 2001-01-01 same"), before=SETUP)


def test_02_names_of_every_kind() -> None:
    names = ["a b", "-x", "a\nb", "ü", "back\\slash", "links", "names", "names\n", "'q'", "*", ".hidden"]

    async def write(sandbox: Any) -> None:
        for name in names:
            (Path(sandbox.workdir) / name).write_text("1")

    assert diff_of(write).added == sorted(names)


def test_02_what_cannot_be_read_counts_as_changed_once() -> None:
    diff = diff_of(sh("chmod 0 same; mkfifo pipe; mkdir empty"), before=SETUP)
    root = os.geteuid() == 0
    assert diff.paths == ([] if root else ["same"]), "pipes and directories are no files"


def test_02_what_is_no_text_or_too_long_has_a_line_that_says_so() -> None:
    diff = diff_of(sh(r"printf '\377' > bytes; head -c 2000000 /dev/zero > long"))
    assert diff.patch == "added: bytes\nadded: long\n"


def test_02_a_file_without_a_last_line_break() -> None:
    assert diff_of(sh("printf x > a")).patch.endswith("+x\n\\ No newline at end of file\n")


def test_02_too_many_files_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_listing, "FILES_AT_MOST", 3)
    with pytest.raises(RuntimeError, match="it has 5 files, and at most 3 are compared"):
        diff_of(sh("echo 1 > a"), before=sh("touch 1 2 3 4 5"))


def test_02_a_listing_that_says_nothing_for_sure_is_refused() -> None:
    class Broken:
        workdir = "/"

        def __init__(self, output: bytes) -> None:
            self.output = output

        async def exec(self, command: Any, **options: Any) -> Any:
            from proctor.plugins.api import ExecResult

            return ExecResult(0, stdout=self.output)

    for output in (b"", b"sha256sum\n", b"md5sum\n/\0\nnames\n", b"sha256sum\n/\0\nrubbish\nnames\n"):
        with pytest.raises(CannotList):
            asyncio.run(list_work(Broken(output)))  # type: ignore[arg-type]


def test_02_a_work_directory_that_is_gone_has_no_files_any_more(tmp_path: Path) -> None:
    """Also one in whose place another is: what is in that one was not made here, and is not read."""

    class Moved:
        workdir = str(tmp_path / "work")

        async def exec(self, command: Any, **options: Any) -> Any:
            return await sandbox.exec(command, **options)

        async def download(self, path: str, *arguments: Any, **options: Any) -> Any:
            if "/" in path:
                raise FileNotFoundError(path)
            raise PermissionError(path)

    async def removed_by(change: Callable[[], object]) -> list[str]:
        work = tmp_path / "work"
        work.mkdir(exist_ok=True)
        (work / "a").write_text("1")
        watch = DiffWatch(Moved(), wanted=True)  # type: ignore[arg-type]
        await watch.before_turn()
        change()
        await watch.after_turn()
        assert not watch.diff().added
        return watch.diff().removed

    async def run() -> list[list[str]]:
        nonlocal sandbox
        provider = LocalProvider()
        sandbox = await provider.open(EnvironmentSpec(), {})
        try:
            gone = await removed_by(lambda: shutil.rmtree(link))
            return [gone, await removed_by(lambda: (link.rename(tmp_path / "old"), link.symlink_to("/etc")))]
        finally:
            await sandbox.dispose()
            await provider.finalize()

    sandbox: Any = None
    link = tmp_path / "work"
    assert asyncio.run(run()) == [["a"], ["a"]]


def test_02_where_nobody_asks_nothing_is_looked_at() -> None:
    class Untouched:
        workdir = "/"

    async def run() -> None:
        watch = DiffWatch(Untouched(), wanted=False)  # type: ignore[arg-type]
        await watch.before_turn()
        await watch.after_turn()
        with pytest.raises(RuntimeError, match="diff=True"):
            watch.diff()
        with pytest.raises(RuntimeError, match="this task has none"):
            DiffWatch(None, wanted=True).diff()

    asyncio.run(run())


def reads_over_turns(*steps: Step, before: Step) -> tuple[list[list[str]], Diff]:
    """Return which files were read from the sandbox after each of some turns, and what differs after the last."""
    read: list[list[str]] = []

    class Counted:
        def __init__(self, sandbox: Any) -> None:
            self._sandbox = sandbox
            self.workdir = sandbox.workdir

        async def exec(self, command: Any, **options: Any) -> Any:
            return await self._sandbox.exec(command, **options)

        async def download(self, path: str, *arguments: Any, **options: Any) -> Any:
            read[-1].append(path)
            return await self._sandbox.download(path, *arguments, **options)

    async def run() -> Diff:
        provider = LocalProvider()
        sandbox = await provider.open(EnvironmentSpec(), {})
        try:
            await before(sandbox)
            watch = DiffWatch(Counted(sandbox), wanted=True)  # type: ignore[arg-type]
            read.append([])
            await watch.before_turn()
            for step in steps:
                await step(sandbox)
                read.append([])
                await watch.after_turn()
            return watch.diff()
        finally:
            await sandbox.dispose()
            await provider.finalize()

    diff = asyncio.run(run())
    return read[1:], diff


def test_12_a_changed_file_is_read_again_only_where_it_has_changed_since() -> None:
    read, diff = reads_over_turns(
        sh("echo 2 > a; echo 2 > b; echo 1 > new; rm gone"),
        sh("touch a b"),
        sh("echo 3 > b; echo 1 > more; echo 1 > gone"),
        sh("echo 2 > b; rm more"),
        before=sh("echo 1 | tee a b; echo 0 > gone"),
    )
    assert read == [["a", "b", "new"], [], ["b", "gone", "more"], ["b"]]
    patch = "--- a/{0}\n+++ b/{0}\n@@ -1 +1 @@\n-{1}\n+{2}\n"
    assert diff.patch == (
        patch.format("a", 1, 2)
        + patch.format("b", 1, 2)
        + patch.format("gone", 0, 1)
        + "--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+1\n"
    )


def test_12_what_could_not_be_compared_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = sh("true")
    read, diff = reads_over_turns(sh(r"printf '\377' > bytes; echo 1 > a"), nothing, before=nothing)
    assert read == [["a", "bytes"], ["bytes"]]
    assert diff.patch == "--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+1\nadded: bytes\n"
    monkeypatch.setattr(work_listing, "LIST", work_listing.LIST.replace("command -v sha256sum", "false"))
    read, _ = reads_over_turns(sh("echo 1 > a"), nothing, before=nothing)
    assert read == [["a"], ["a"]], "a short sum does not say for sure that a file is as it was"
