"""Origin of a connection: its effective address, and whether it is this machine."""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

from msgspec import Struct
from starlette.datastructures import Headers
from starlette.types import Scope

_FORWARDING: Final = (
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
    "via",
    "cf-connecting-ip",
    "true-client-ip",
)
_HOPS: Final = 32
HIDDEN: Final = "through a proxy (unknown)"
"""The origin of a connection through an untrusted proxy."""
_IPv6_SITE: Final = 64


class ClientPeer(Struct, frozen=True):
    """Remote end of a connection."""

    address: str
    """Effective address: that of the peer, or of the client of a trusted proxy."""
    local: bool
    """True for this machine, unless a proxy header names another client."""
    hidden: bool = False
    """True when `address` is that of an untrusted proxy, whose headers are ignored."""
    host: str = ""
    """The header `Host`: the name by which the client reached this gateway."""

    @property
    def display_address(self) -> str:
        """Returns the origin for people: the address, or a text for an untrusted proxy."""
        return HIDDEN if self.hidden else self.address

    @property
    def bucket(self) -> str:
        """Returns the key under which failures are counted; one per network of IPv6 addresses."""
        parsed = _parsed(self.address)
        name = self.address if parsed is None else str(parsed)
        if isinstance(parsed, IPv6Address) and not parsed.is_loopback:
            name = str(ip_network((parsed, _IPv6_SITE), strict=False))
        return name if self.local else f"remote {name}"


def peer(scope: Scope, trusted: Sequence[str]) -> ClientPeer:
    """Returns the remote end of the request in an ASGI scope.

    `X-Forwarded-For` is trusted only from the networks in `trusted`: its last address that is no
    trusted proxy is used. Any forwarding header makes the connection a remote one.
    """
    direct = str(scope["client"][0]) if scope.get("client") else ""
    headers = Headers(scope=scope)
    forwarded = any(name in headers for name in _FORWARDING)
    address, hidden = direct, forwarded
    if forwarded and _within(direct, trusted):
        hops = ",".join(headers.getlist("x-forwarded-for")).split(",")[-_HOPS:]
        for hop in reversed(hops):
            hidden = _parsed(hop.strip()) is None
            if hidden:
                break  # the hops before it cannot be trusted either
            address = hop.strip()
            if not _within(address, trusted):
                break
    parsed = _parsed(address)
    local = bool(parsed and parsed.is_loopback) and not forwarded
    return ClientPeer(str(parsed or address), local, hidden, headers.get("host", ""))


def _within(address: str, networks: Sequence[str]) -> bool:
    parsed = _parsed(address)
    return parsed is not None and any(parsed in ip_network(network) for network in networks)


def _parsed(text: str) -> IPv4Address | IPv6Address | None:
    """Returns the parsed address; `::ffff:127.0.0.1` becomes `127.0.0.1`."""
    try:
        parsed = ip_address(text)
    except ValueError:
        return None
    return getattr(parsed, "ipv4_mapped", None) or parsed
