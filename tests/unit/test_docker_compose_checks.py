"""What a compose file may not ask for, and what a sandbox is made from instead (spec 06)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from proctor.model.environment import Compose, EnvironmentSpec, Network, Resources
from proctor.providers.docker import compose as docker_compose
from proctor.providers.docker.compose import refuse_compose
from proctor.providers.docker.compose_checks import health_conditions, problems
from proctor.providers.docker.compose_file import builds, pulled, sandbox_file


def found(folder: Path, service: dict[str, Any], **rest: Any) -> list[str]:
    return problems({"services": {"main": {"image": "a", **service}}, **rest}, folder, "main")


@pytest.mark.parametrize(
    "service",
    [
        {},
        {"command": "sh", "environment": {"A": "1"}, "ports": ["80:80"], "container_name": "x"},
        {"volumes": ["./data:/data:ro", "store:/store", "/anonymous", "data/x:/y"]},
        {"volumes": [{"type": "bind", "source": "./data", "target": "/d", "read_only": True}, {"type": "tmpfs"}]},
        {"network_mode": "none"},
        {"network_mode": "service:db", "privileged": False, "pid": "", "ipc": "shareable"},
        {"cap_add": ["SYS_PTRACE", "CAP_CHOWN"], "cap_drop": ["ALL"], "security_opt": ["no-new-privileges:true"]},
        {"build": "."},
        {"build": {"context": "sub", "dockerfile": "D", "args": ["A=1"], "target": "t", "cache_from": ["x"]}},
        {"env_file": "./data/env", "extends": {"service": "other"}},
    ],
)
def test_what_stays_inside_is_allowed(tmp_path: Path, service: dict[str, Any]) -> None:
    (tmp_path / "data").mkdir()
    assert found(tmp_path, service) == []


@pytest.mark.parametrize(
    ("service", "named"),
    [
        ({"privileged": True}, "`privileged`"),
        ({"network_mode": "host"}, "`network_mode: host`"),
        ({"network_mode": "container:other"}, "`network_mode: container:other`"),
        ({"pid": "host"}, "`pid: host`"),
        ({"ipc": "host"}, "`ipc: host`"),
        ({"userns_mode": "host"}, "`userns_mode`"),
        ({"uts": "host"}, "`uts`"),
        ({"cgroup": "host"}, "`cgroup`"),
        ({"devices": ["/dev/kvm"]}, "`devices`"),
        ({"use_api_socket": True}, "`use_api_socket`"),
        ({"provider": {"type": "x"}}, "`provider`"),
        ({"post_start": [{"command": "x", "privileged": True}]}, "`post_start`"),
        ({"cap_add": ["SYS_ADMIN"]}, "`SYS_ADMIN`"),
        ({"cap_add": ["all"]}, "`all`"),
        ({"cap_add": ["CAP_NET_ADMIN"]}, "`CAP_NET_ADMIN`"),
        ({"security_opt": ["seccomp:unconfined"]}, "seccomp:unconfined"),
        ({"volumes": ["/var/run/docker.sock:/s"]}, "socket of the engine"),
        ({"volumes": ["${DOCKER_SOCKET:-/run/podman/podman.sock}:/s:ro"]}, "writable|socket|outside"),
        ({"volumes": ["/etc:/host:ro"]}, "`/etc`, which is outside"),
        ({"volumes": ["../up:/up:ro"]}, "`../up`, which is outside"),
        ({"volumes": ["~/.ssh:/keys:ro"]}, "`~/.ssh`, which is outside"),
        ({"volumes": ["./link:/keys:ro"]}, "`./link`, which is outside"),
        ({"volumes": [{"type": "bind", "source": "/etc", "target": "/h", "read_only": True}]}, "`/etc`"),
        ({"volumes": ["./data:/data"]}, "read-only"),
        ({"volumes": ["./data:/data:rw"]}, "read-only"),
        ({"volumes_from": ["container:other"]}, "volumes of a container"),
        ({"build": "../other"}, "builds from `../other`"),
        ({"build": "https://example.org/a.git"}, "builds from `https://example.org/a.git`"),
        ({"build": {"context": ".", "privileged": True}}, "`build.privileged`"),
        ({"build": {"context": ".", "ssh": ["default"]}}, "`build.ssh`"),
        ({"build": {"context": ".", "network": "host"}}, "`build.network`"),
        ({"env_file": ["/etc/environment"]}, "`/etc/environment`"),
        ({"env_file": [{"path": "../env"}]}, "`../env`"),
        ({"extends": {"file": "../base.yaml", "service": "x"}}, "`../base.yaml`"),
    ],
)
def test_what_reaches_out_is_named(tmp_path: Path, service: dict[str, Any], named: str) -> None:
    import re

    (tmp_path / "link").symlink_to("/etc")
    lines = found(tmp_path, service)
    assert len(lines) == 1
    assert re.search(named, lines[0])


@pytest.mark.parametrize(
    ("rest", "named"),
    [
        ({"networks": {"n": {"external": True}}}, "networks `n` is external"),
        ({"volumes": {"v": {"external": True}}}, "volumes `v` is external"),
        ({"volumes": {"v": {"driver_opts": {"o": "bind", "device": "/"}}}}, "driver_opts"),
        ({"secrets": {"s": {"file": "/etc/shadow"}}}, "`/etc/shadow`"),
        ({"configs": {"s": {"file": "../c"}}}, "`../c`"),
        ({"include": ["../other.yaml"]}, "`../other.yaml`"),
        ({"include": [{"path": ["a.yaml", "/b.yaml"]}]}, "`/b.yaml`"),
    ],
)
def test_what_is_shared_or_read_from_elsewhere_is_named(tmp_path: Path, rest: dict[str, Any], named: str) -> None:
    lines = found(tmp_path, {}, **rest)
    assert len(lines) == 1
    assert named in lines[0]


@pytest.mark.parametrize("content", [None, [], "text", {}, {"services": None}, {"services": []}])
def test_a_file_without_services_is_none(tmp_path: Path, content: Any) -> None:
    assert problems(content, tmp_path, "main") == ["it has no services"]


def test_the_service_of_the_environment_has_to_be_there(tmp_path: Path) -> None:
    assert problems({"services": {"db": {}}}, tmp_path, "main") == ["it has no service `main` (it has db)"]


# ---------------------------------------------------------------------------------------------------- at planning


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker_compose, "find_program", lambda: "docker-compose")


def environment(file: Path, **more: Any) -> EnvironmentSpec:
    return EnvironmentSpec(compose=Compose(str(file), "d"), **more)


@pytest.mark.usefixtures("program")
def test_a_file_is_refused_at_planning_with_all_that_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "compose.yaml"
    file.write_text("services: {main: {image: a, privileged: true, pid: host}}\n")
    refusal = refuse_compose(environment(file))
    assert refusal is not None
    assert str(file) in refusal
    assert "`privileged`; service `main` asks for `pid: host`" in refusal
    file.write_text("services: {main: {image: a}}\n")
    assert refuse_compose(environment(file)) is None
    assert refuse_compose(EnvironmentSpec()) is None


@pytest.mark.usefixtures("program")
@pytest.mark.parametrize("text", ["a: [", "{{ x }}", None])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "compose.yaml"
    if text is not None:
        file.write_text(text)
    assert refuse_compose(environment(file)) is not None


@pytest.mark.usefixtures("program")
def test_V3_what_services_cannot_enforce_of_a_network_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "compose.yaml"
    file.write_text("services: {main: {image: a}}\n")
    for refused in (
        environment(file, network=Network("allow", ("http://example.org",))),
        environment(file, network=Network("none"), setup_network=Network("full")),
        environment(file, grade_network=Network("none")),
    ):
        assert "network" in (refuse_compose(refused) or "") or "hosts" in (refuse_compose(refused) or "")
    assert refuse_compose(environment(file, network=Network("none"))) is None
    listed = Network("allow", ("example.org",))
    assert refuse_compose(environment(file, network=listed, grade_network=Network("none"))) is None


def test_without_the_program_only_compose_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker_compose, "find_program", lambda: None)
    assert "install the package" in (refuse_compose(environment(tmp_path / "compose.yaml")) or "")
    assert refuse_compose(EnvironmentSpec(image="a")) is None


# ------------------------------------------------------------------------------------------ the file of a sandbox

IMAGES = {
    "main": {"Id": "sha256:m", "Config": {"Entrypoint": ["/entry$"], "Cmd": ["a b"]}},
    "db": {"Id": "sha256:d", "Config": {}},
}


def made(content: Any, *, podman: bool = False, **more: Any) -> dict[str, Any]:
    one = environment(Path("compose.yaml"), **more)
    return sandbox_file(content, one, "proctor-1", {"proctor.run": "$r"}, IMAGES, podman=podman)


def two(main: dict[str, Any] | None = None, db: dict[str, Any] | None = None, **rest: Any) -> dict[str, Any]:
    return {"services": {"main": {"image": "m", **(main or {})}, "db": {"image": "d", **(db or {})}}, **rest}


def test_nothing_of_a_sandbox_is_shared_with_another() -> None:
    file = made(
        two(
            {"container_name": "fixed", "ports": ["80:80"], "build": {"context": "."}},
            {"container_name": "db", "network_mode": "bridge"},
            networks={"n": {"name": "fixed"}},
            volumes={"v": {"name": "fixed"}},
        )
    )
    assert "fixed" not in str(file)
    assert file["services"]["main"]["container_name"] == "proctor-1"
    assert "container_name" not in file["services"]["db"]
    assert all("ports" not in one and "build" not in one and "network_mode" not in one for one in services(file))
    assert [one["image"] for one in services(file)] == ["sha256:m", "sha256:d"]


def services(file: dict[str, Any]) -> list[dict[str, Any]]:
    return list(file["services"].values())


def test_V1_all_of_it_is_labelled() -> None:
    file = made(two({"labels": ["a=b"]}, networks={"n": None}, volumes={"v": {"labels": {"c": "d"}}}))
    everything = [*services(file), *file["networks"].values(), *file["volumes"].values()]
    assert len(everything) == 5
    assert all(one["labels"]["proctor.run"] == "$$r" for one in everything), "`$` is doubled in a compose file"
    assert file["services"]["main"]["labels"]["a"] == "b"
    assert [one["labels"]["proctor.service"] for one in services(file)] == ["main", "db"]


def test_V3_without_network_services_reach_each_other_only() -> None:
    file = made(two(networks={"n": {"driver": "bridge"}}), network=Network("none"))
    assert all(one["internal"] for one in file["networks"].values())
    assert set(file["networks"]) == {"n", "default"}
    assert all(one["dns"] for one in services(file)), "an old engine asks the name servers of the machine otherwise"
    assert not any(one.get("internal") for one in made(two())["networks"].values())


@pytest.mark.parametrize(
    ("main", "runs"),
    [
        ({}, ["/entry$$", "a b"]),
        ({"command": "x 'y z'"}, ["/entry$$", "x", "y z"]),
        ({"entrypoint": ["e"]}, ["e"]),
        ({"entrypoint": "e f", "command": ["$$g"]}, ["e", "f", "$$g"]),
    ],
)
def test_the_main_service_runs_what_it_would_run_and_lives_on(main: dict[str, Any], runs: list[str]) -> None:
    service = made(two(main))["services"]["main"]
    assert service["entrypoint"][:2] == ["sh", "-c"]
    assert service["entrypoint"][4:] == runs
    assert service["command"] == []
    assert "$$#" in service["entrypoint"][2]


def test_what_the_environment_says_of_the_main_service_holds() -> None:
    content = two({"environment": ["A=1", "B"], "deploy": {"resources": {"limits": {"cpus": "9"}}}, "user": "x"})
    limits = Resources(cpus=0.5, memory_bytes=100, processes=7)
    service = made(content, env={"A": "$2"}, resources=limits, user="me", workdir="/w")["services"]["main"]
    assert service["environment"] == {"A": "$$2", "B": None}
    assert (service["cpus"], service["mem_limit"], service["memswap_limit"]) == (0.5, 100, 100)
    assert (service["pids_limit"], service["user"], service["working_dir"]) == (7, "me", "/w")
    assert "deploy" not in service


def test_no_service_gains_privileges_or_fills_the_process_table() -> None:
    for service in services(made(two({"cap_drop": ["ALL"]}))):
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert "NET_RAW" in service["cap_drop"]
        assert service["pids_limit"] == 4096


def test_what_is_built_and_what_is_pulled(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    content = two({"build": {"context": str(tmp_path), "args": {"A": "$$x"}, "target": "t"}}, {})
    built = builds(content, Compose(str(tmp_path / "compose.yaml"), "d"))
    assert list(built) == ["main"]
    assert (built["main"].args, built["main"].target) == ((("A", "$x"),), "t")
    assert pulled(content) == ["d"]


def test_conditions_of_health_are_seen() -> None:
    assert health_conditions(two({"depends_on": {"db": {"condition": "service_healthy"}}}))
    assert not health_conditions(two({"depends_on": ["db"]}))
    assert not health_conditions(two({"depends_on": {"db": {"condition": "service_started"}}}))
