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


async def resetting_brings_the_work_directory_back(stage: Stage) -> None:
    """Files are those at `mark`, twice; what runs has ended. Only where the provider supports reuse."""
    if not stage.provider.capabilities.reuse:
        return
    sandbox = stage.sandbox
    await sandbox.exec("mkdir -p kept/empty; echo before > kept/file; ln -s kept/file link; chmod 750 kept")
    await sandbox.mark()
    for _ in range(2):
        await sandbox.exec("rm -rf kept link; echo left > answer; (setsid sleep 3000 > /dev/null 2>&1 &)")
        await sandbox.reset()
        seen = await sandbox.exec("ls -A . kept; cat link; test -d kept/empty && echo empty")
        require_equal("what is there after reset", seen.out, ".:\nkept\nlink\n\nkept:\nempty\nfile\nbefore\nempty\n")
    require(not (await sandbox.exec("test -e answer")).ok, "what was made after mark is still there after reset")


async def resetting_can_leave_what_is_outside_alone(stage: Stage) -> None:
    """What the members of a group share stays. Only where the provider supports reuse."""
    if not stage.provider.capabilities.reuse:
        return
    sandbox = stage.sandbox
    await sandbox.mark(keep_outside=True)
    place = (await sandbox.exec("mktemp -d")).out.strip()
    await sandbox.exec(f"echo stock > {place}/shared; echo left > answer")
    await sandbox.reset()
    require_equal("what is outside after reset", (await sandbox.exec(["cat", f"{place}/shared"])).out, "stock\n")
    require(not (await sandbox.exec("test -e answer")).ok, "what was made after mark is still there after reset")
    await sandbox.exec(["rm", "-r", place])


async def without_network_there_is_nothing_to_reach(stage: Stage) -> None:
    """No device but the loopback. Only where the environment has network `none`."""
    if stage.environment.network.mode != "none":
        return
    found = await stage.sandbox.exec("cat /proc/net/dev")
    devices = [line.partition(":")[0].strip() for line in found.out.splitlines()[2:]]
    require_equal("network devices", devices, ["lo"])


def _ordered(listed: Iterable[Mapping[str, str]]) -> list[dict[str, str]]:
    return sorted((dict(labels) for labels in listed), key=lambda labels: labels["sandbox"])


CHECKS = (
    sandboxes_are_fresh_and_apart,
    sandboxes_are_listed_by_their_labels,
    disposing_twice_is_harmless,
    disposing_ends_what_runs,
    a_sandbox_that_is_gone_says_so,
    what_runs_without_end_does_not_hold_dispose,
    resetting_brings_the_work_directory_back,
    resetting_can_leave_what_is_outside_alone,
    without_network_there_is_nothing_to_reach,
)
