"""What an address leads to: the world, an inner network, or the machine itself. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

Address = IPv4Address | IPv6Address


class Kind(IntEnum):
    """What an address leads to. The higher, the more has to be listed for a name to be allowed to lead there."""

    PUBLIC = 0
    PRIVATE = 1
    """Another machine of an inner network, or this one by an address that others know it by."""
    LOCAL = 2
    """This machine by its loopback, link-local addresses, metadata services, and what is no address of a machine."""


def _networks(text: str) -> tuple[IPv4Network | IPv6Network, ...]:
    return tuple(IPv6Network(one) if ":" in one else IPv4Network(one) for one in text.split())


_LOCAL = _networks(
    "0.0.0.0/8 127.0.0.0/8 169.254.0.0/16 192.0.0.0/24 224.0.0.0/4 240.0.0.0/4 "
    "100.100.100.200/32 168.63.129.16/32 fd00:ec2::/32 fd20:ce::/32"  # metadata services that are not link-local
)
_PRIVATE = _networks(
    "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 100.64.0.0/10 198.18.0.0/15 192.0.2.0/24 198.51.100.0/24 203.0.113.0/24 "
    "fc00::/7 fec0::/10 64:ff9b:1::/48 2001:db8::/32 3fff::/20"
)
_GLOBAL_6 = IPv6Network("2000::/3")
_SPECIAL_6 = IPv6Network("2001::/23")
"""What the protocols themselves need, tunnels among it."""
_6TO4 = IPv6Network("2002::/16")
_NAT64 = IPv6Network("64:ff9b::/96")


def plain(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address only writes in another way, else the address itself."""
    return (address.ipv4_mapped if isinstance(address, IPv6Address) else None) or address


def kind_of(address: Address) -> Kind:
    """Return what an address leads to."""
    address = plain(address)
    kind = Kind.LOCAL if any(address in one for one in _LOCAL) else Kind.PUBLIC
    if kind is Kind.PUBLIC and any(address in one for one in _PRIVATE):
        return Kind.PRIVATE
    if isinstance(address, IPv4Address) or kind is Kind.LOCAL:
        return kind
    carried = list(_carried(address))
    if carried:
        return max(map(kind_of, carried))
    return Kind.PUBLIC if address in _GLOBAL_6 and address not in _SPECIAL_6 else Kind.LOCAL


def _carried(address: IPv6Address) -> Iterator[IPv4Address]:
    """Yield the IPv4 address that a translator or tunnel would lead to."""
    if address in _NAT64:
        yield IPv4Address(int(address) & 0xFFFFFFFF)
    elif address in _6TO4:
        yield IPv4Address((int(address) >> 80) & 0xFFFFFFFF)


__all__ = ["Address", "Kind", "kind_of", "plain"]
