"""Which hosts an allow-list lets through (spec 06 V3)."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proctor.model.environment import Network
from proctor.providers.egress.addresses import Kind, kind_of
from proctor.providers.egress.rules import (
    Policy,
    Target,
    parse_host,
    parse_rule,
    parse_target,
    refusal,
)

LABELS = st.text("abcxyz019-_", min_size=1, max_size=6).filter(lambda one: one[0] != "-" and one[-1] != "-")
NAMES = st.lists(LABELS, min_size=1, max_size=4).map(lambda one: ".".join([*one, "example"]))
PORTS = st.integers(1, 65535)


def allow(*hosts: str) -> Policy:
    return Policy(Network("allow", hosts))


@pytest.mark.parametrize(
    ("rule", "target", "allowed"),
    [
        ("a.example", "a.example:443", True),
        ("a.example", "a.example:80", True),
        ("a.example", "A.EXAMPLE:443", True),
        ("A.Example.", "a.example:443", True),
        ("a.example", "a.example.:443", True),
        ("a.example", "a.example:22", False),
        ("a.example", "a.example:8080", False),
        ("a.example", "b.a.example:443", False),
        ("a.example", "xa.example:443", False),
        ("a.example", "a.example.evil:443", False),
        ("a.example:8443", "a.example:8443", True),
        ("a.example:8443", "a.example:443", False),
        ("a.example:22", "a.example:22", True),
        ("*.a.example", "b.a.example:443", True),
        ("*.a.example", "c.b.a.example:443", True),
        ("*.a.example", "a.example:443", False),
        ("*.a.example", "xa.example:443", False),
        ("*.a.example:8000", "b.a.example:8000", True),
        ("*.a.example:8000", "b.a.example:443", False),
        ("192.0.2.1", "192.0.2.1:443", True),
        ("192.0.2.1", "192.0.2.2:443", False),
        ("192.0.2.1", "[::ffff:192.0.2.1]:443", True),
        ("127.0.0.1:8000", "127.0.0.1:8000", True),
        ("127.0.0.1:8000", "127.0.0.1:8001", False),
        ("127.0.0.1:8000", "localhost:8000", False),
        ("localhost:8000", "localhost:8000", True),
        ("localhost:8000", "127.0.0.1:8000", False),
        ("[2001:db8::1]:8000", "[2001:DB8:0::1]:8000", True),
        ("[2001:db8::1]", "[2001:db8::1]:443", True),
        ("2001:db8::1", "[2001:db8::1]:443", True),
        ("2001:db8::1", "[2001:db8::2]:443", False),
        ("xn--bcher-kva.example", "XN--bcher-kva.example:443", True),
    ],
)
def test_V3_what_an_entry_allows(rule: str, target: str, allowed: bool) -> None:
    assert (allow(rule).refusal(parse_target(target)) is None) is allowed


@pytest.mark.parametrize(
    "text",
    [
        "", ".", "..", "a..example", "a.example..", "-a.example", "a-.example", "a b.example", "a.example/",
        "a%2eexample", "user@a.example", "a.example#", "a.example?", "a.example\\", "*", "*.a.example", "a.*.example",
        "bücher.example", "\uff41.example", "a\u3002example",
        "a\x00.example", "a\n.example", "127.1", "0x7f000001", "0x7f.0.0.1", "2130706433",
        "017700000001", "127.0.0.01", "1.2.3.4.5", "256.1.1.1", "a.example.1", "a.0x1", "::1", "[::1", "[::1%eth0]",
        "[127.0.0.1]", "[a.example]", "a" * 64 + ".example", ".".join(["a" * 60] * 5),
    ],
)  # fmt: skip
def test_V3_what_is_no_host(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever it says
        parse_host(text)


@pytest.mark.parametrize(
    "text",
    [
        "http://a.example", "a.example/path", "a.example:", "a.example:0", "a.example:65536", "a.example:x", ":443",
        "*", "*.", "*a.example", "a.*", "*.*.example", "*.127.0.0.1", "*.[::1]", "10.0.0.0/8", "", "bücher.example",
        "a.example:-1", "a.example:+80", "a.example: 80", "a.example:\u0668\u0660", "user@a.example",
    ],
)  # fmt: skip
def test_V3_an_entry_that_cannot_be_understood_is_refused_before_anything_starts(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever it says
        parse_rule(text)
    said = refusal(Network("allow", ("a.example", text)))
    assert said is not None
    assert said.startswith("the allowed hosts cannot be understood: ")


def test_V3_modes() -> None:
    target = Target("a.example", 443)
    assert Policy(Network("full")).refusal(target) is None
    assert Policy(Network("full")).address_refusal(target, IPv4Address("127.0.0.1")) is None
    assert "policy of this sandbox is none" in (Policy(Network("none")).refusal(target) or "")
    assert "there are none" in (allow().refusal(target) or "")
    assert refusal(Network("none", ("is not looked at",))) is None


def test_V3_a_refusal_says_what_to_list() -> None:
    policy = allow("a.example", "*.b.example:8000")
    assert policy.refusal(Target("c.example", 443)) == (
        "c.example:443 is refused: it is not among the allowed hosts of this sandbox (a.example, *.b.example:8000)"
    )
    assert policy.refusal(Target("a.example", 22)) == (
        "a.example:22 is refused: the entry a.example allows port 80 and 443; list a.example:22 if it is meant"
    )
    many = allow(*(f"h{number}.example" for number in range(500))).refusal(Target("c.example", 443))
    assert many is not None
    assert "490 more" in many
    assert len(many) < 500


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("8.8.8.8", Kind.PUBLIC),
        ("2606:4700::1", Kind.PUBLIC),
        ("10.1.2.3", Kind.PRIVATE),
        ("172.16.0.1", Kind.PRIVATE),
        ("172.32.0.1", Kind.PUBLIC),
        ("192.168.1.1", Kind.PRIVATE),
        ("100.64.0.1", Kind.PRIVATE),
        ("fd12::1", Kind.PRIVATE),
        ("127.0.0.1", Kind.LOCAL),
        ("127.9.9.9", Kind.LOCAL),
        ("0.0.0.0", Kind.LOCAL),
        ("::", Kind.LOCAL),
        ("::1", Kind.LOCAL),
        ("::127.0.0.1", Kind.LOCAL),
        ("fe80::1", Kind.LOCAL),
        ("ff02::1", Kind.LOCAL),
        ("224.0.0.1", Kind.LOCAL),
        ("255.255.255.255", Kind.LOCAL),
        ("169.254.169.254", Kind.LOCAL),
        ("100.100.100.200", Kind.LOCAL),
        ("168.63.129.16", Kind.LOCAL),
        ("fd00:ec2::254", Kind.LOCAL),
        ("fd20:ce::254", Kind.LOCAL),
        ("::ffff:127.0.0.1", Kind.LOCAL),
        ("::ffff:10.0.0.1", Kind.PRIVATE),
        ("::ffff:8.8.8.8", Kind.PUBLIC),
        ("64:ff9b::7f00:1", Kind.LOCAL),
        ("64:ff9b::a9fe:a9fe", Kind.LOCAL),
        ("64:ff9b::808:808", Kind.PUBLIC),
        ("64:ff9b:1::808:808", Kind.PRIVATE),
        ("2002:7f00:1::1", Kind.LOCAL),
        ("2002:a00:1::1", Kind.PRIVATE),
        ("2001:0:4136:e378:8000:63bf:3fff:fdd2", Kind.LOCAL),
    ],
)
def test_V3_kinds_of_addresses(address: str, kind: Kind) -> None:
    assert kind_of(ip_address(address)) is kind


@pytest.mark.parametrize(
    ("hosts", "target", "address", "own", "allowed"),
    [
        # a name may lead to the world
        (("a.example",), "a.example:443", "8.8.8.8", False, True),
        (("*.a.example",), "b.a.example:443", "8.8.8.8", False, True),
        # to an inner network where name and port are listed, or the address
        (("a.example",), "a.example:443", "10.0.0.1", False, False),
        (("a.example:443",), "a.example:443", "10.0.0.1", False, True),
        (("*.a.example:443",), "b.a.example:443", "10.0.0.1", False, False),
        (("a.example", "10.0.0.1"), "a.example:443", "10.0.0.1", False, True),
        (("a.example", "10.0.0.1:8000"), "a.example:443", "10.0.0.1", False, False),
        (("*.a.example:443", "a.example"), "b.a.example:443", "10.0.0.1", False, False),
        # to this machine by an address that others know it by, likewise
        (("a.example",), "a.example:443", "8.8.8.8", True, False),
        (("a.example:443",), "a.example:443", "8.8.8.8", True, True),
        # to loopback and metadata only where the address is listed
        (("a.example:443",), "a.example:443", "127.0.0.1", False, False),
        (("a.example:443",), "a.example:443", "169.254.169.254", False, False),
        (("a.example:443",), "a.example:443", "::ffff:127.0.0.1", False, False),
        (("a.example", "127.0.0.1"), "a.example:443", "127.0.0.1", False, True),
        (("localhost:8000",), "localhost:8000", "127.0.0.1", True, True),
        (("localhost:8000",), "localhost:8000", "::1", True, True),
        (("localhost:8000",), "localhost:8000", "169.254.169.254", False, False),
        (("x.localhost:8000",), "x.localhost:8000", "127.0.0.1", True, False),
        # what is listed as an address is meant
        (("169.254.169.254",), "169.254.169.254:80", "169.254.169.254", False, True),
        (("127.0.0.1:8000",), "127.0.0.1:8000", "127.0.0.1", True, True),
        (("10.0.0.1",), "10.0.0.1:80", "10.0.0.1", False, True),
    ],
)
def test_V3_where_a_name_may_lead(hosts: tuple[str, ...], target: str, address: str, own: bool, allowed: bool) -> None:
    policy = allow(*hosts)
    assert policy.refusal(parse_target(target)) is None
    said = policy.address_refusal(parse_target(target), ip_address(address), own=own)
    assert (said is None) is allowed
    assert said is None or "if it is meant" in said


def test_V3_loopback_hosts_are_listened_on_inside() -> None:
    policy = allow(
        "localhost:8000", "127.0.0.1:8000", "[::1]:9", "127.0.0.2:7", "*.localhost:1", "10.0.0.1:5", "a.example"
    )
    assert policy.forwards() == {
        ("127.0.0.1", 8000): Target("localhost", 8000),
        ("::1", 9): Target(IPv6Address("::1"), 9),
        ("127.0.0.2", 7): Target(IPv4Address("127.0.0.2"), 7),
    }
    assert Policy(Network("none", ("localhost:8000",))).forwards() == {}
    assert refusal(Network("allow", tuple(f"localhost:{port}" for port in range(1, 200)))) is not None


@given(st.text(max_size=30))
@example("[::ffff:1.2.3.4]")
@example("1.2.3.4")
def test_V3_a_host_is_read_one_way_only(text: str) -> None:
    try:
        host = parse_host(text)
    except ValueError:
        return
    written = str(Target(host, 1)).removesuffix(":1")
    assert parse_host(written) == host
    assert parse_target(f"{written}:1") == Target(host, 1)
    assert not set(written) & set("/@?#\\% \t\r\n*,;")


@given(NAMES, PORTS, NAMES, st.sampled_from(["", "*."]), st.none() | PORTS)
def test_V3_only_what_is_listed(name: str, port: int, listed: str, wildcard: str, listed_port: int | None) -> None:
    rule = f"{wildcard}{listed}" + (f":{listed_port}" if listed_port else "")
    for asked in {name, listed, f"{name}.{listed}", f"{name}{listed}"}:
        same = asked.split(".")[-len(listed.split(".")) :] == listed.split(".")
        longer = len(asked.split(".")) > len(listed.split("."))
        wanted = same and longer == bool(wildcard) and (port == listed_port if listed_port else port in (80, 443))
        assert (allow(rule).refusal(Target(asked, port)) is None) is wanted


@given(st.ip_addresses(v=4))
def test_V3_an_address_in_disguise_is_the_same(address: IPv4Address) -> None:
    number = int(address)
    for other in (f"::ffff:{address}", f"64:ff9b::{number >> 16:x}:{number & 0xFFFF:x}"):
        assert kind_of(IPv6Address(other)) is kind_of(address)
    assert kind_of(IPv6Address(f"2002:{number >> 16:x}:{number & 0xFFFF:x}::1")) >= kind_of(address)


@given(st.ip_addresses())
def test_V3_what_the_standard_library_calls_inner_is_never_public(address: IPv4Address | IPv6Address) -> None:
    if address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified:
        assert kind_of(address) is Kind.LOCAL
    elif address.is_private:
        assert kind_of(address) is not Kind.PUBLIC
