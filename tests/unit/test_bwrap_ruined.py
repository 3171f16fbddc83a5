"""What an agent makes of the file system of an image is its own doing, and never a fault of the provider."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path

import pytest

from proctor.model.environment import EnvironmentSpec, Network
from proctor.providers.bwrap.provider import BwrapProvider
from support.bwrap import needs_bwrap

BUSYBOX = shutil.which("busybox")

pytestmark = [needs_bwrap, pytest.mark.skipif(BUSYBOX is None, reason="there is no busybox to make an image of")]


def test_a_sandbox_that_was_ruined_fails_its_commands(tmp_path: Path) -> None:
    """Its work directory cannot be made any more: tried again as a lost sandbox, a failure would get another try."""
    image = tmp_path / "image"
    (image / "bin").mkdir(parents=True)
    assert BUSYBOX is not None
    shutil.copy(BUSYBOX, image / "bin/busybox")
    if subprocess.run([BUSYBOX, "ldd", BUSYBOX], capture_output=True, check=False).returncode == 0:
        pytest.skip("the busybox here needs libraries")
    for name in ("sh", "rm", "cat", "kill"):
        (image / "bin" / name).symlink_to("busybox")

    async def scenario() -> None:
        provider = BwrapProvider(tmp_path / "base")
        spec = EnvironmentSpec(provider="bwrap", image=str(image), network=Network("none"))
        sandbox = await provider.open(spec, {})
        try:
            assert (await sandbox.exec("echo fine > file; cat file")).out == "fine\n"
            await sandbox.exec("rm -rf /work; echo > /work; kill -9 -1")
            result = await sandbox.exec("true")
            assert (result.exit_code, result.lost) == (126, None)
            with pytest.raises(OSError, match="no namespaces could be made"):
                await sandbox.read("file")
        finally:
            await sandbox.dispose()
            await provider.finalize()

    asyncio.run(scenario())
    assert sorted(path.name for path in (image / "bin").iterdir()) == ["busybox", "cat", "kill", "rm", "sh"]
