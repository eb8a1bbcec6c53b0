"""Kinds of IP addresses, and the kinds that a fetch may reach (pure).

`ipaddress.is_global` is not used: it differs between versions of Python, and it is true for
addresses without web servers: multicast, ISATAP, translated and compatible addresses.
"""

import ipaddress
import re
from bisect import bisect_right
from enum import StrEnum
from typing import Final

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_DOTTED: Final = re.compile(rf"{_OCTET}(?:\.{_OCTET}){{3}}")
_V6_CHARACTERS: Final = re.compile(r"[0-9A-Fa-f:.]{2,45}")


class AddressKind(StrEnum):
    """Kind of an address; the value is part of the rule name of a verdict."""

    PUBLIC = "public"
    PRIVATE = "private"
    LOOPBACK = "loopback"
    SHARED = "shared"
    UNIQUE_LOCAL = "unique-local"
    BENCHMARK = "benchmark"
    METADATA = "metadata"
    LINK_LOCAL = "link-local"
    UNSPECIFIED = "unspecified"
    PROTOCOL = "protocol"
    DOCUMENTATION = "documentation"
    MULTICAST = "multicast"
    RESERVED = "reserved"
    EMBEDDED = "embedded-ipv4"


LOCAL: Final = frozenset(
    {
        AddressKind.PRIVATE,
        AddressKind.LOOPBACK,
        AddressKind.SHARED,
        AddressKind.UNIQUE_LOCAL,
        AddressKind.BENCHMARK,
    }
)
"""Kinds that the owner can permit; all other kinds except `PUBLIC` are always refused."""

_V4: Final = (
    ("0.0.0.0/8", AddressKind.UNSPECIFIED),
    ("10.0.0.0/8", AddressKind.PRIVATE),
    ("100.64.0.0/10", AddressKind.SHARED),
    ("127.0.0.0/8", AddressKind.LOOPBACK),
    ("169.254.0.0/16", AddressKind.LINK_LOCAL),
    ("172.16.0.0/12", AddressKind.PRIVATE),
    ("192.0.0.0/24", AddressKind.PROTOCOL),
    ("192.0.2.0/24", AddressKind.DOCUMENTATION),
    ("192.88.99.0/24", AddressKind.PROTOCOL),
    ("192.168.0.0/16", AddressKind.PRIVATE),
    ("198.18.0.0/15", AddressKind.BENCHMARK),
    ("198.51.100.0/24", AddressKind.DOCUMENTATION),
    ("203.0.113.0/24", AddressKind.DOCUMENTATION),
    ("224.0.0.0/4", AddressKind.MULTICAST),
    ("240.0.0.0/4", AddressKind.RESERVED),
)
"""Special IPv4 networks, in order and without overlap (IANA registry, and RFC 7526)."""

METADATA: Final = frozenset(
    {
        "169.254.169.254",  # most clouds
        "169.254.170.2",  # credentials of ECS tasks
        "169.254.170.23",  # credentials of EKS pods
        "100.100.100.200",  # Alibaba
        "192.0.0.192",  # Oracle
        "168.63.129.16",  # Azure, an address that looks public
        "fd00:ec2::254",  # AWS
        "fd00:ec2::23",  # credentials of EKS pods
        "fd20:ce::254",  # Google
    }
)
"""Addresses of services that give a machine's credentials to any client; always refused."""

_V6: Final = (
    ("::1/128", AddressKind.LOOPBACK),
    ("::/128", AddressKind.UNSPECIFIED),
    ("::/96", AddressKind.EMBEDDED),  # compatible
    ("::ffff:0:0/96", AddressKind.EMBEDDED),  # mapped
    ("::ffff:0:0:0/96", AddressKind.EMBEDDED),  # translated, SIIT
    ("64:ff9b:1::/48", AddressKind.EMBEDDED),  # NAT64 of one network
    ("fc00::/7", AddressKind.UNIQUE_LOCAL),
    ("fe80::/10", AddressKind.LINK_LOCAL),
    ("fec0::/10", AddressKind.LINK_LOCAL),  # site-local, deprecated
    ("ff00::/8", AddressKind.MULTICAST),
    ("2001::/32", AddressKind.EMBEDDED),  # Teredo
    ("2001::/23", AddressKind.PROTOCOL),
    ("2001:db8::/32", AddressKind.DOCUMENTATION),
    ("2002::/16", AddressKind.EMBEDDED),  # 6to4
    ("3fff::/20", AddressKind.DOCUMENTATION),
)
"""Special IPv6 networks; the first that contains an address decides."""


def _ranges() -> tuple[list[int], list[tuple[int, AddressKind]]]:
    networks = [(ipaddress.IPv4Network(text), kind) for text, kind in _V4]
    starts = [int(network.network_address) for network, _ in networks]
    return starts, [(int(network.broadcast_address), kind) for network, kind in networks]


_V4_STARTS, _V4_ENDS = _ranges()
_V6_NETWORKS: Final = tuple(
    (int(network.network_address), int(network.netmask), kind)
    for network, kind in ((ipaddress.IPv6Network(text), kind) for text, kind in _V6)
)
_METADATA: Final = frozenset(map(ipaddress.ip_address, METADATA))
_NAT64: Final = int(ipaddress.IPv6Address("64:ff9b::")) >> 32
_SHOWN_THROUGH: Final = frozenset({AddressKind.PUBLIC, AddressKind.METADATA})
_GLOBAL_UNICAST: Final = 0b001  # 2000::/3
_ISATAP: Final = 0x00005EFE
_ISATAP_MASK: Final = 0xFCFFFFFF  # without the bits for universal and group


def parse_address(text: str) -> Address | None:
    """Returns the address of a canonical text; None for any other text.

    IPv4 is four decimal numbers without leading zeros: C libraries read `0177.1` as 127.0.0.1,
    other programs as a name. IPv6 has no brackets and no zone.
    """
    if _DOTTED.fullmatch(text):
        return ipaddress.IPv4Address(text)
    if ":" in text and _V6_CHARACTERS.fullmatch(text):
        try:
            return ipaddress.IPv6Address(text)
        except ValueError:
            return None
    return None


def kind_of(address: Address) -> AddressKind:
    """Returns the kind of an address.

    An address of NAT64 (64:ff9b::/96) has the kind of the IPv4 address in it. All other addresses
    that contain an IPv4 address are `EMBEDDED`.
    """
    if address in _METADATA:
        return AddressKind.METADATA
    if isinstance(address, ipaddress.IPv4Address):
        return _kind_of_v4(int(address))
    return _kind_of_v6(int(address))


def _kind_of_v4(number: int) -> AddressKind:
    index = bisect_right(_V4_STARTS, number) - 1
    last, kind = _V4_ENDS[index]
    return kind if number <= last else AddressKind.PUBLIC


def _kind_of_v6(number: int) -> AddressKind:
    if number >> 32 == _NAT64:
        inner = kind_of(ipaddress.IPv4Address(number & 0xFFFFFFFF))
        return inner if inner in _SHOWN_THROUGH else AddressKind.EMBEDDED
    if (number >> 32) & _ISATAP_MASK == _ISATAP:
        return AddressKind.EMBEDDED
    for start, mask, kind in _V6_NETWORKS:
        if number & mask == start:
            return kind
    return AddressKind.PUBLIC if number >> 125 == _GLOBAL_UNICAST else AddressKind.RESERVED
