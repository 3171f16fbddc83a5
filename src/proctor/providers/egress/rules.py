"""Which hosts a network policy lets through, and where they may lead: rules and targets.

Pure: nothing is resolved or connected here. `docs/network.md` says the rules to users.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from proctor.model.environment import Network
from proctor.providers.egress.addresses import Address, Kind, kind_of, plain

WEB_PORTS = (80, 443)
"""What an entry without a port stands for."""

MOST_FORWARDS = 100
"""Ports of loopback hosts in one list: each takes a listening socket, and they come in one message."""

NAMED_RULES = 10
"""How many entries a refusal names."""

_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PORT = re.compile(r"[0-9]{1,5}")


@dataclass(frozen=True, slots=True)
class Target:
    """Where a client wants to go: a name in lower case without a trailing dot, or an address."""

    host: str | Address
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if isinstance(self.host, IPv6Address) else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry of an allow-list. `below` is for `*.name`; `port` is None where the entry names none."""

    text: str
    host: str | Address
    below: bool
    port: int | None

    def covers_host(self, host: str | Address) -> bool:
        """Whether the entry is about this host."""
        if self.below:
            return isinstance(host, str) and host.endswith(f".{self.host}")
        return host == self.host

    def covers(self, target: Target) -> bool:
        """Whether the entry allows this host with this port."""
        return self.covers_host(target.host) and target.port in self.ports

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports that the entry allows."""
        return WEB_PORTS if self.port is None else (self.port,)


class Policy:
    """A network policy, ready to be asked. Raises `ValueError` for an entry that cannot be understood."""

    def __init__(self, network: Network) -> None:
        self.mode = network.mode
        self.rules = tuple(parse_rule(one) for one in network.hosts) if network.mode == "allow" else ()
        if len(self.forwards()) > MOST_FORWARDS:
            raise ValueError(f"there are more than {MOST_FORWARDS} ports of loopback hosts")

    def refusal(self, target: Target) -> str | None:
        """Return why a client must not go there, or None. What a name leads to is asked later."""
        if self.mode == "full":
            return None
        if self.mode == "none":
            return f"{target} is refused: the network policy of this sandbox is none"
        if any(rule.covers(target) for rule in self.rules):
            return None
        for rule in self.rules:
            if rule.covers_host(target.host):
                ports = " and ".join(map(str, rule.ports))
                return f"{target} is refused: the entry {rule.text} allows port {ports}; list {target} if it is meant"
        return f"{target} is refused: it is not among the allowed hosts of this sandbox ({self._listed()})"

    def address_refusal(self, target: Target, address: Address, *, own: bool = False) -> str | None:
        """Return why an allowed name must not lead to this address, or None. `own`: it is one of this machine."""
        address = plain(address)
        if self.mode == "full" or target.host == address:
            return None
        if target.host == "localhost" and address.is_loopback:
            return None
        kind = max(kind_of(address), Kind.PRIVATE if own else Kind.PUBLIC)
        if kind is Kind.PUBLIC or any(rule.covers(Target(address, target.port)) for rule in self.rules):
            return None
        meant = [str(Target(address, target.port))]
        if kind is Kind.PRIVATE:
            if any(rule.covers(target) and rule.port is not None and not rule.below for rule in self.rules):
                return None
            meant.append(str(target))
        what = (
            "a private address" if kind is Kind.PRIVATE else "an address of the machine itself or of its surroundings"
        )
        return f"{target} is refused: it leads to {address}, {what}; list {' or '.join(meant)} if it is meant"

    def forwards(self) -> dict[tuple[str, int], Target]:
        """Return what is listened on inside the sandbox for its listed loopback hosts: (address, port) -> target."""
        found: dict[tuple[str, int], Target] = {}
        for rule in self.rules:
            inside = "127.0.0.1" if rule.host == "localhost" and not rule.below else rule.host
            if inside == "127.0.0.1" or (not isinstance(inside, str) and inside.is_loopback):
                for port in rule.ports:
                    found.setdefault((str(inside), port), Target(rule.host, port))
        return found

    def _listed(self) -> str:
        named = [rule.text for rule in self.rules[:NAMED_RULES]]
        more = len(self.rules) - len(named)
        return ", ".join([*named, *([f"{more} more"] if more else [])]) or "there are none"


def parse_rule(text: str) -> Rule:
    """Read `name`, `*.name` or an address, each with or without `:port`; raises `ValueError`."""
    if "/" in text:
        raise ValueError(f"{text!r} is no host: write it without scheme and path")
    host, port = text, None
    if not _is_bare_ipv6(text):
        host, port = split_port(text)
    below = host.startswith("*.")
    parsed = parse_host(f"[{host}]" if _is_bare_ipv6(host) else host.removeprefix("*."))
    if below and not isinstance(parsed, str):
        raise ValueError(f"{text!r} has a wildcard before an address")
    return Rule(text, parsed, below, port)


def parse_target(text: str, default_port: int | None = None) -> Target:
    """Read `host:port` as it comes from a client; raises `ValueError`, also where there is no port and no default."""
    host, port = split_port(text)
    if port is None:
        port = default_port
    if port is None:
        raise ValueError(f"{text!r} has no port")
    return Target(parse_host(host), port)


def split_port(text: str) -> tuple[str, int | None]:
    """Split `host:port`; the port is None where there is no colon. Raises `ValueError` for a port that is none."""
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        return text, None
    if not _PORT.fullmatch(port) or not 0 < int(port) < 65536:
        raise ValueError(f"{text!r} has no port from 1 to 65535 after its colon")
    return host, int(port)


def parse_host(text: str) -> str | Address:
    """Read a name or an address ([IPv6] in brackets); raises `ValueError`.

    Names come out in lower case, without a trailing dot. What resolvers take for an address in some other writing
    (`127.1`, `0x7f000001`, `2130706433`) is refused.
    """
    if text.startswith("["):
        if not text.endswith("]") or "%" in text:
            raise ValueError(f"{text!r} is no host")
        return plain(IPv6Address(text[1:-1]))
    if not text.isascii():
        raise ValueError(f"{text!r} is not plain ASCII: write an international name in its form with `xn--`")
    name = text.lower().removesuffix(".")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return IPv4Address(name)
    if len(name) > 253 or not all(_LABEL.fullmatch(one) for one in labels):
        raise ValueError(f"{text!r} is no host")
    return name


def _is_bare_ipv6(text: str) -> bool:
    return text.count(":") > 1 and not text.startswith("[")


def refusal(network: Network) -> str | None:
    """Return why a policy cannot be understood, or None."""
    try:
        Policy(network)
    except ValueError as error:
        return f"the allowed hosts cannot be understood: {error}"
    return None


__all__ = ["WEB_PORTS", "Policy", "Rule", "Target", "parse_host", "parse_rule", "parse_target", "refusal"]
