"""Packages that proctor never imports itself: they are asked in processes of their own, one JSON object a line."""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

from proctor.errors import Fault, UsageError

_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH", "LD_LIBRARY_PATH", "MPLCONFIGDIR")
"""Variables that a worker gets: keys of accounts are not among them."""


class Workers:
    """Processes that run a module of proctor (`proctor.data._..._worker`) in which a package is imported."""

    def __init__(
        self,
        package: str,
        module: str,
        *,
        version: Callable[[], str],
        install: str,
        env: Mapping[str, str],
        at_most: int,
    ) -> None:
        self._package = package
        self._module = module
        self._version = version
        self._install = install
        self._env = env
        self._at_most = at_most
        self._here = threading.local()
        self._lock = threading.Lock()
        self._workers: list[subprocess.Popen[bytes]] = []
        atexit.register(self.close)

    async def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a worker answers.

        Raises `UsageError` where the package cannot be imported, `Fault` (grader.crashed) where the worker dies.
        """
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._ask, request)

    @property
    def pids(self) -> list[int]:
        """The processes that were started, and not closed."""
        return [worker.pid for worker in self._workers]

    def close(self) -> None:
        """End all workers; the next request starts one again."""
        with self._lock:
            for worker in self._workers:
                worker.kill()
                worker.communicate()
            self._workers.clear()

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        """Threads of which each has a worker."""
        count = min(self._at_most, len(os.sched_getaffinity(0)))
        return ThreadPoolExecutor(count, thread_name_prefix=self._package)

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        worker: subprocess.Popen[bytes] | None = getattr(self._here, "worker", None)
        if worker is None or worker.poll() is not None:
            worker = self._here.worker = self._start()
        assert worker.stdin is not None
        assert worker.stdout is not None
        try:
            worker.stdin.write(json.dumps(request).encode() + b"\n")
            worker.stdin.flush()
            line = worker.stdout.readline()
        except BrokenPipeError:
            line = b""
        what = f"{self._package} {self._version()}"
        if not line:
            raise Fault("grader.crashed", f"a process of {what} ended with status {worker.wait()}")
        told = json.loads(line)
        if told["state"] == "broken":
            self._here.worker = None  # it ends now, and so the next request would only learn that
            hint = f"run `{self._install} --force-reinstall`"
            raise UsageError(f"package {what} cannot be used: {told['why']}", hint=hint)
        return told

    def _start(self) -> subprocess.Popen[bytes]:
        self._version()
        env = {name: os.environ[name] for name in _PASSED_ON if name in os.environ} | dict(self._env)
        with self._lock:
            # A session of its own: what is typed at the terminal is not meant for it.
            worker = subprocess.Popen(
                [sys.executable, "-P", "-m", self._module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=env,
                start_new_session=True,
            )
            self._workers.append(worker)
        return worker


__all__ = ["Workers"]
