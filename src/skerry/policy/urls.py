"""Parses URLs of fetches strictly, and refuses URLs that parsers interpret differently (pure).

A fetch connects to the host that this parser returns; no other parser is used.
"""

import re
import unicodedata
from typing import Final
from urllib.parse import quote, urljoin

from msgspec import Struct

from skerry.policy.addresses import Address, parse_address

MAX_URL: Final = 8192
"""Maximum characters of a URL."""
_MAX_HOST: Final = 253
_MAX_PORT: Final = 65535
_SCHEMES: Final = {"http": 80, "https": 443}
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\\\ufffd\ud800-\udfff\u2028\u2029]")
_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_DOTS: Final = frozenset(".\u3002\uff0e\uff61")
"""Characters that programs accept as the dot between labels."""
_UNESCAPED: Final = "!#$%&'()*+,/:;=?@[]~"


class Refusal(Struct, frozen=True):
    """Refusal of a fetch: the name of the rule, and the reason in a sentence."""

    rule: str
    reason: str


class Target(Struct, frozen=True):
    """A parsed URL: the host and port of the connection, and the requested path."""

    scheme: str
    host: str
    """A lower-case name without a trailing dot, or an address without brackets."""
    port: int
    path: str
    """Path and query, in ASCII; begins with a slash."""
    address: Address | None = None
    """The address, if the URL has one instead of a name."""

    @property
    def origin(self) -> tuple[str, str, int]:
        """Returns scheme, host and port."""
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """Returns the host, with the port if it is not the default of the scheme."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _SCHEMES[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """Returns the requested URL, without a fragment."""
        return f"{self.scheme}://{self.authority}{self.path}"


def parse_url(text: str) -> Target | Refusal:
    """Returns the target of a URL, or the rule that refuses it.

    It refuses schemes other than http and https, user names, percent signs and backslashes in the
    authority, hosts that are not ASCII, addresses that are not canonical, and ports that are not
    decimal.
    """
    if len(text) > MAX_URL:
        return Refusal("url-length", f"The URL has more than {MAX_URL} characters.")
    if match := _CONTROL.search(text):
        return Refusal("url-character", f"The URL has the character U+{ord(match[0]):04X}.")
    split = _split_scheme(text)
    if isinstance(split, Refusal):
        return split
    name, address_text = split
    authority = re.split("[/?#]", address_text, maxsplit=1)[0]
    parsed = _authority(authority, _SCHEMES[name])
    if isinstance(parsed, Refusal):
        return parsed
    host, port, address = parsed
    return Target(name, host, port, _path(address_text[len(authority) :]), address)


def _split_scheme(text: str) -> tuple[str, str] | Refusal:
    """Returns the scheme and the text after `//`."""
    scheme = _SCHEME.match(text)
    if scheme is None:
        return Refusal("scheme", "The URL has no scheme: begin it with https://.")
    name = scheme[1].lower()
    if name not in _SCHEMES:
        return Refusal("scheme", f"The scheme {name[:20]} is not http or https.")
    after = text[scheme.end() :]
    if not after.startswith("//"):
        return Refusal("url-syntax", f"The URL has no // after {name}:.")
    return name, after[2:]


def _authority(text: str, default_port: int) -> tuple[str, int, Address | None] | Refusal:
    if "@" in text:
        return Refusal("userinfo", "The URL has a user name or password.")
    if "%" in text:
        return Refusal("host-escape", "The host has a percent sign.")
    host, colon, port = text.rpartition(":")
    if not colon or (port.endswith("]") and text.startswith("[")):
        host, port, colon = text, "", ""
    if colon and (_PORT.fullmatch(port) is None or int(port) > _MAX_PORT):
        return Refusal("port-syntax", f"The port {port[:20]!r} is not a number up to {_MAX_PORT}.")
    number = int(port) if colon else default_port
    if host.startswith("["):
        address = parse_address(host[1:-1]) if host.endswith("]") and ":" in host else None
        if address is None:
            return Refusal("ipv6-syntax", f"{host[:60]!r} is not an IPv6 address.")
        return str(address), number, address
    named = parse_host(host)
    return named if isinstance(named, Refusal) else (named, number, parse_address(named))


def parse_host(text: str) -> str | Refusal:
    """Returns a lower-case name without its trailing dot, or an IPv4 address unchanged.

    Many programs parse a name whose last label is a number as an address: only a canonical address
    is accepted.
    """
    if not text:
        return Refusal("host-empty", "The URL has no host.")
    if not text.isascii():
        return Refusal("host-not-ascii", "The host is not ASCII: encode it (IDNA, xn--) first.")
    if ":" not in text and parse_address(text) is not None:
        return text
    return _parse_name(text)


def _parse_name(text: str) -> str | Refusal:
    host = text.lower().removesuffix(".")
    labels = host.split(".")
    if len(host) > _MAX_HOST or not all(map(_LABEL.fullmatch, labels)):
        return Refusal("host-syntax", f"{text[:60]!r} is not the name of a host.")
    if _NUMBER.fullmatch(labels[-1]):
        return Refusal("ipv4-form", f"{text[:60]!r} is not an IPv4 address of four numbers.")
    if any(label.startswith("xn--") and not _is_idna(label) for label in labels):
        return Refusal("host-syntax", f"{text[:60]!r} has an xn-- label that is not valid.")
    return host


def _is_idna(label: str) -> bool:
    """Returns whether an `xn--` label is the canonical encoding of a name that needs encoding."""
    try:
        name = label[4:].encode().decode("punycode")
        encoded = name.encode("punycode").decode()
    except (UnicodeError, ValueError):
        return False
    return (
        not name.isascii()
        and encoded == label[4:]
        and name == unicodedata.normalize("NFKC", name).lower()
        and not any(unicodedata.category(character)[0] in "CZ" for character in name)
        and not any(character in _DOTS for character in name)
    )


def _path(text: str) -> str:
    """Returns path and query in ASCII, without the fragment."""
    text = text.partition("#")[0]
    text = _ESCAPE.sub("%25", text)
    path = quote(text, safe=_UNESCAPED)
    return path if path.startswith("/") else f"/{path}"


def join_location(base: Target, location: str) -> Target | Refusal:
    """Returns the target of a `Location` header, which may be relative to `base`."""
    if not location or location.isspace():
        return Refusal("redirect-location", "The redirect has an empty Location.")
    if len(location) > MAX_URL or _CONTROL.search(location) or _SCHEME.match(location):
        return parse_url(location)
    if location.startswith((" ", "\u3000")):
        return Refusal("redirect-location", "The Location of the redirect begins with a space.")
    if location.startswith("///"):
        return Refusal(
            "redirect-location", "The Location of the redirect has no host after its //."
        )
    return parse_url(urljoin(base.url, location))
