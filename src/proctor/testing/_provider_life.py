"""Checks of opening, listing and disposing, for `conformance.check_provider`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping

from proctor.errors import Fault
from proctor.testing.conformance import Stage, require, require_equal


async def sandboxes_are_fresh_and_apart(stage: Stage) -> None:
    """Each has an id of its own and an empty work directory."""
    await stage.sandbox.write("file", "of the first")
    other = await stage.open()
    try:
        require(other.id != stage.sandbox.id, f"two sandboxes have the id {other.id}")
        require_equal("files in a fresh sandbox", (await other.exec("ls -A")).out, "")
    finally:
        await other.dispose()
    require_equal("a file after another was disposed of", await stage.sandbox.read("file"), b"of the first")


async def sandboxes_are_listed_by_their_labels(stage: Stage) -> None:
    """With all labels and the id; those that lack one asked for are not."""
    other = await stage.open()
    listed = await stage.provider.list(stage.labels)
    expected = [{**stage.labels, "sandbox": sandbox.id} for sandbox in (stage.sandbox, other)]
    require_equal("listed", _ordered(listed), _ordered(expected))
    require_equal("listed by a label of nobody", list(await stage.provider.list({**stage.labels, "no": "body"})), [])
    await other.dispose()
    require_equal("listed after one is gone", _ordered(await stage.provider.list(stage.labels)), _ordered(expected[:1]))


async def disposing_twice_is_harmless(stage: Stage) -> None:
    """In turn and at once."""
    await stage.sandbox.dispose()
    await asyncio.gather(stage.sandbox.dispose(), stage.sandbox.dispose())


async def disposing_ends_what_runs(stage: Stage) -> None:
    """Daemons in the background, and a command that is waited for: its call returns, or says provider.lost."""
    await stage.sandbox.exec("(setsid sh -c 'trap \"\" TERM HUP; sleep 3000' > /dev/null 2>&1 &)")
    begun = asyncio.Event()
    call = asyncio.ensure_future(stage.sandbox.exec("echo; sleep 3000", on_output=lambda stream, data: begun.set()))
    await begun.wait()
    await stage.sandbox.dispose()
    try:
        result = await call
    except Fault as fault:
        require_equal("code of the interrupted call", fault.code, "provider.lost")
    else:
        require(not result.ok, "a command that was cut off should not count as done")


async def a_sandbox_that_is_gone_says_so(stage: Stage) -> None:
    """Every method raises `Fault` with the code provider.lost after `dispose`."""
    await stage.sandbox.dispose()
    sandbox, file = stage.sandbox, stage.folder / "file"
    file.write_text("x")
    uses: dict[str, Callable[[], Awaitable[object]]] = {
        "exec": lambda: sandbox.exec("true"),
        "write": lambda: sandbox.write("file", "x"),
        "read": lambda: sandbox.read("file"),
        "upload": lambda: sandbox.upload(file, "file"),
        "download": lambda: sandbox.download("file", stage.folder / "back"),
    }
    for name, use in uses.items():
        try:
            await use()
        except Fault as fault:
            require_equal(f"code of {name}", fault.code, "provider.lost")
        else:
            require(False, f"{name} of a sandbox that is gone should raise Fault")


async def what_runs_without_end_does_not_hold_dispose(stage: Stage) -> None:
    """Processes that start others as fast as they can."""
    script = "f() { (sleep 0.01; f) & }; i=0; while [ $i -lt 10 ]; do f; i=$((i+1)); done; echo begun"
    result = await stage.sandbox.exec(script, timeout_seconds=60)
    require_equal("its output", result.out, "begun\n")


def _ordered(listed: Iterable[Mapping[str, str]]) -> list[dict[str, str]]:
    return sorted((dict(labels) for labels in listed), key=lambda labels: labels["sandbox"])


CHECKS = (
    sandboxes_are_fresh_and_apart,
    sandboxes_are_listed_by_their_labels,
    disposing_twice_is_harmless,
    disposing_ends_what_runs,
    a_sandbox_that_is_gone_says_so,
    what_runs_without_end_does_not_hold_dispose,
)
