"""Sizes, hosts, users and paths of environments: what each spelling means, and what is refused (spec 06 V3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from proctor.authoring.environment_fields import EnvironmentConfig
from proctor.authoring.environment_values import host, is_path, memory_bytes
from proctor.errors import UsageError

MIB = 1024**2


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("512MiB", 512 * MIB),
        ("512mib", 512 * MIB),
        ("512Mi", 512 * MIB),
        ("512m", 512 * MIB),
        ("512M", 512 * MIB),
        ("2GB", 2 * 10**9),
        ("2gb", 2 * 10**9),
        ("2g", 2 * 1024**3),
        ("1.5 GiB", 3 * 512 * MIB),
        ("1TB", 10**12),
        ("1t", 1024**4),
        ("2048KiB", 2 * MIB),
        ("2097152", 2 * MIB),
        ("2097152B", 2 * MIB),
        (2 * MIB, 2 * MIB),
        ("1.0000001g", 1073741931),
    ],
)
def test_a_size_of_memory_is_bytes(written: object, size: int) -> None:
    assert memory_bytes(written) == size


@pytest.mark.parametrize(
    "written",
    [
        "",
        "g",
        "1x",
        "1gigabyte",
        "-1g",
        "0",
        "0g",
        "1e9g",
        "nan",
        "inf",
        "1,5g",
        "½g",
        "512",
        512,
        0,
        -1,
        True,
        None,
        1.5,
        1e9,
        [1],
        "9" * 40 + "g",
        "1.5.5g",
        "1ig",
        "1bb",
    ],
)
def test_what_is_no_size_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match=r"^must be "):
        memory_bytes(written)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("api.example.com", "api.example.com"),
        ("API.Example.COM.", "api.example.com"),
        ("localhost", "localhost"),
        ("*.example.com", "*.example.com"),
        ("*.example.com:8443", "*.example.com:8443"),
        ("a_b.example", "a_b.example"),
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1:8000", "127.0.0.1:8000"),
        ("::1", "::1"),
        ("[::1]", "::1"),
        ("[2001:DB8:0::1]:443", "[2001:db8::1]:443"),
        ("host:080", "host:80"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
    ],
)
def test_V3_a_host_has_one_spelling(written: str, meant: str) -> None:
    assert host(written) == meant
    assert host(meant) == meant


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("https://api.example.com", "without a scheme"),
        ("api.example.com/v1", "no path"),
        ("u@host", "no user"),
        ("10.0.0.0/8", "no path"),
        ("a b", "no blanks"),
        (" a", "no blanks"),
        ("", "no blanks"),
        ("a\n", "no blanks"),
        ("*", "network: full"),
        ("a.*", "must be a name"),
        ("*a.example", "must be a name"),
        ("a..b", "must be a name"),
        ("-a.example", "must be a name"),
        ("a" * 64, "must be a name"),
        (".".join(["a" * 60] * 5), "must be a name"),
        ("host:", "a port"),
        ("host:0", "a port"),
        ("host:65536", "a port"),
        ("host:http", "a port"),
        ("host:-1", "a port"),
        ("host:" + "9" * 5000, "a port"),
        ("::1:zz", "a name or an address"),
        ("[::1", "in brackets"),
        ("[a]:1", "in brackets"),
        ("[::1]x", "in brackets"),
        ("1.2.3", "a whole address"),
        ("1.2.3.400", "a whole address"),
        ("127.1", "a whole address"),
        ("2130706433", "a whole address"),
        ("0x7f000001", "a whole address"),
        ("bücher.example", "in ASCII"),
        ("*.", "network: full"),
        ("a?b", "no path"),
    ],
)
def test_V3_what_is_no_host_is_refused_with_the_reason(written: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        host(written)


@given(st.text(max_size=40))
def test_V3_any_text_is_a_host_or_refused(written: str) -> None:
    try:
        meant = host(written)
    except ValueError:
        return
    assert host(meant) == meant
    assert not set(meant) & set("/@? \t\n\\")


@pytest.mark.parametrize("path", ["./a", "../a", "/a", "~/a", "~", ".", ".."])
def test_an_image_that_begins_as_a_path_is_one(path: str) -> None:
    assert is_path(path)


@pytest.mark.parametrize("name", ["alpine", "a/b:1", "registry.example.com:5000/a@sha256:00", ".a", "a.tar"])
def test_any_other_image_is_a_name(name: str) -> None:
    assert not is_path(name)


@pytest.mark.parametrize(
    "fields",
    [
        {"image": ""},
        {"image": "a b"},
        {"image": "a\n"},
        {"user": ""},
        {"user": "a b"},
        {"user": "-x"},
        {"user": "a:b:c"},
        {"workdir": "work"},
        {"workdir": "/a/../b"},
        {"workdir": ""},
        {"resources": {"cpus": 0}},
        {"resources": {"cpus": True}},
        {"resources": {"cpus": float("inf")}},
        {"resources": {"cpus": float("nan")}},
        {"resources": {"processes": 0}},
        {"resources": {"processes": 1.5}},
        {"network": "some"},
        {"network": {}},
        {"network": []},
        {"network": {"allow": None}},
        {"network": {"allow": "a.example.com"}},
        {"network": {"allow": ["a"], "grade": "none"}},
        {"network": {"agent": {}}},
        {"network": {"agent": ["a"]}},
        {"build": {}},
        {"build": {"target": "x"}},
        {"build": ""},
        {"compose": {"service": "x"}},
        {"image": "a", "build": "."},
        {"build": ".", "compose": "c.yaml"},
        {"kind": "x"},
    ],
)
def test_what_an_environment_cannot_say_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises((ValueError, UsageError)):
        EnvironmentConfig.model_validate(fields)


@pytest.mark.parametrize("env", [{"": "x"}, {"A=B": "x"}, {"A\0": "x"}, {"A": "x\0"}])
def test_what_no_variable_can_be_called_or_hold_is_refused(env: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="must have n"):
        EnvironmentConfig.model_validate({"env": env})
