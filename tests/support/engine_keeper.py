"""Runs Docker and Podman for the tests that need them, and stops them when the last process that uses them has ended.

usage: engine_keeper.py FOLDER

    FOLDER/users.lock    whoever uses the engines holds it shared; when nobody does any more, we go
    FOLDER/state.json    the addresses of the engines, or why there is none; written when both were tried
    FOLDER/run/          all that the engines write

Both get an image `proctor-test:1`: BusyBox, and nothing else.
"""

from __future__ import annotations

import fcntl
import http.client
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import time
from pathlib import Path

IMAGE = "proctor-test"
BUSYBOX = Path("/bin/busybox")
START_SECONDS = 60.0
STOP_SECONDS = 20.0
PASSWD = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n"
GROUP = "root:x:0:\nnogroup:x:65534:\n"
CONTAINERS_CONF = """\
[containers]
default_ulimits=["nofile=16384:16384","nproc=32768:32768"]
[engine]
runtime="runc"
cgroup_manager="cgroupfs"
events_logger="file"
exit_command_delay=1
"""


class EngineConnection(http.client.HTTPConnection):
    """HTTP over a socket of this machine."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=START_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def ask(path: str, method: str, target: str, body: bytes | None = None) -> tuple[int, bytes]:
    """Ask an engine for something."""
    connection = EngineConnection(path)
    try:
        connection.request(method, target, body, {"Content-Type": "application/x-tar"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def busybox_image() -> bytes:
    """Return a file system with BusyBox in it, as a tar archive."""
    applets = subprocess.run([BUSYBOX, "--list"], capture_output=True, text=True, check=True).stdout.split()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, mode in (("bin", 0o755), ("etc", 0o755), ("root", 0o700), ("tmp", 0o1777)):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, mode
            archive.addfile(folder)
        for name, content, mode in (
            ("bin/busybox", BUSYBOX.read_bytes(), 0o755),
            ("etc/passwd", PASSWD.encode(), 0o644),
            ("etc/group", GROUP.encode(), 0o644),
        ):
            file = tarfile.TarInfo(name)
            file.size, file.mode = len(content), mode
            archive.addfile(file, io.BytesIO(content))
        for applet in applets:
            if applet != "busybox":
                link = tarfile.TarInfo(f"bin/{applet}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                archive.addfile(link)
    return buffer.getvalue()


def import_image(path: str) -> None:
    """Give an engine the image of the tests, where it has none."""
    if ask(path, "GET", f"/v1.41/images/{IMAGE}:1/json")[0] == 200:
        return
    target = f"/v1.41/images/create?fromSrc=-&repo={IMAGE}&tag=1"
    status, said = ask(path, "POST", target, busybox_image())
    if status != 200 or b'"error"' in said:
        raise RuntimeError(f"the image of the tests could not be imported: {said[-300:]!r}")
    if ask(path, "GET", f"/v1.41/images/{IMAGE}:1/json")[0] != 200:  # Podman takes no tag
        ask(path, "POST", f"/v1.41/images/{IMAGE}:latest/tag?repo={IMAGE}&tag=1")


def has_static_busybox() -> bool:
    """Whether BusyBox can run where there is no library."""
    if not BUSYBOX.exists():
        return False
    told = subprocess.run(["ldd", BUSYBOX], capture_output=True, text=True, check=False)
    return told.returncode != 0 or "statically linked" in told.stdout


class Engine:
    """One engine, with all its data in a folder of its own."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.socket = str(folder / f"{name}.sock")
        self._folder = folder
        self._log = folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> dict[str, str]:
        """Start it; return its address, or the reason why it cannot be used."""
        program = {"docker": "dockerd", "podman": "podman"}[self.name]
        needed = [one for one in (program, "runc", "iptables") if shutil.which(one) is None]
        if os.geteuid() != 0:
            return {"reason": f"{self.name} is started for tests by root only"}
        if needed or not has_static_busybox():
            return {"reason": f"{self.name} needs {', '.join([*needed, 'a static busybox'])}"}
        self._folder.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, "CONTAINERS_CONF": str(self._folder / "containers.conf")}
        (self._folder / "containers.conf").write_text(CONTAINERS_CONF)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command(), env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            self._wait()
            import_image(self.socket)
        except (OSError, RuntimeError, http.client.HTTPException) as error:
            tail = self._log.read_text(errors="replace")[-400:]
            return {"reason": f"{self.name} did not start: {error}; {tail}"}
        return {"address": f"unix://{self.socket}"}

    def _command(self) -> list[str]:
        own, address = self._folder, f"unix://{self.socket}"
        if self.name == "podman":
            return [
                "podman",
                "--root",
                f"{own}/data",
                "--runroot",
                f"{own}/exec",
                "system",
                "service",
                "--time=0",
                address,
            ]
        # In a network namespace of its own: the firewall of the machine is not touched, and does not matter.
        return [
            "unshare", "--net", "sh", "-c", 'ip link set lo up; exec "$@"', "sh",
            "dockerd", "--data-root", f"{own}/data", "--exec-root", f"{own}/exec", "--pidfile", f"{own}/docker.pid",
            "-H", address,
        ]  # fmt: skip

    def _wait(self) -> None:
        give_up = time.monotonic() + START_SECONDS
        while True:
            assert self._process is not None
            if self._process.poll() is not None:
                raise RuntimeError(f"it ended with {self._process.returncode}")
            try:
                if ask(self.socket, "GET", "/_ping")[0] == 200:
                    return
            except OSError:
                if time.monotonic() > give_up:
                    raise
            time.sleep(0.1)

    def stop(self) -> None:
        """Remove its containers, end it, and unmount what it leaves."""
        if self._process is not None and self._process.poll() is None:
            _, listed = ask(self.socket, "GET", "/v1.41/containers/json?all=1")
            for container in json.loads(listed):
                ask(self.socket, "DELETE", f"/v1.41/containers/{container['Id']}?force=1&v=1")
            self._process.terminate()
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def unmount_below(folder: Path) -> None:
    """Unmount everything below a folder, the innermost first."""
    places = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for place in sorted((one for one in places if one.startswith(f"{folder}/")), key=len, reverse=True):
        subprocess.run(["umount", "-l", place], capture_output=True, check=False)


def main(folder: Path) -> None:
    """Start the engines, wait until nobody uses them, stop them."""
    run, state = folder / "run", folder / "state.json"
    for signum in (signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)  # whoever uses us still needs us to clean up
    unmount_below(run)
    shutil.rmtree(run, ignore_errors=True)
    engines = [Engine(name, run / name) for name in ("docker", "podman")]
    found = {engine.name: engine.start() for engine in engines}
    written = folder / "state.new"
    written.write_text(json.dumps({"keeper": os.getpid(), **found}))
    written.replace(state)
    users = os.open(folder / "users.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(users, fcntl.LOCK_EX)
    state.unlink()
    for engine in engines:
        engine.stop()
    unmount_below(run)
    left = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if f" {run}/" in line]
    if not left:  # what is still mounted must not be emptied
        shutil.rmtree(run)


if __name__ == "__main__":
    if os.fork() == 0:
        os.setsid()
        main(Path(sys.argv[1]))
