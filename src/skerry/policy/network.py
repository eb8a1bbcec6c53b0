"""Decides which ports, names, addresses and redirects a fetch may use (pure).

`safe_fetch` calls `check_target` before it resolves a name, `check_answers` before it connects, and
`next_target` at each redirect. `check_fetch` makes the same steps with given addresses.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec import Struct

from skerry.policy.addresses import LOCAL, AddressKind, kind_of, parse_address
from skerry.policy.urls import Refusal, Target, join_location, parse_url

PORTS: Final = frozenset({80, 443, 8080, 8443})
MAX_REDIRECTS: Final = 3
METADATA_NAMES: Final = frozenset(
    {
        "instance-data",
        "instance-data.ec2.internal",
        "metadata",
        "metadata.azure.com",
        "metadata.azure.internal",
        "metadata.goog",
        "metadata.google.internal",
        "metadata.packet.net",
        "metadata.platformequinix.com",
        "metadata.tencentyun.com",
        "api.metadata.cloud.ibm.com",
        "rancher-metadata",
    }
)
"""Names of services that give a machine's credentials to any client; always refused."""
LOCAL_SUFFIXES: Final = frozenset(
    {
        "alt",
        "arpa",
        "bit",
        "cluster",
        "consul",
        "corp",
        "dhcp",
        "docker",
        "domain",
        "exit",
        "gnu",
        "home",
        "i2p",
        "internal",
        "intranet",
        "invalid",
        "kubernetes",
        "lan",
        "local",
        "localdomain",
        "localhost",
        "localnet",
        "mail",
        "onion",
        "private",
        "svc",
        "test",
        "workgroup",
        "zkey",
    }
)
"""Last labels that no public name has: special-use names (RFC 6761, 6762, 7686, 9476), names that
are reserved from delegation, and those of clusters and home networks. `example` is not one of them:
it never resolves to a private host."""


class NetworkRules(Struct, frozen=True):
    """Settings of the owner: exceptions for local hosts, and an allowlist of hosts."""

    allow_private: bool = False
    """Permits local names and addresses, on the usual ports."""
    allowed_hosts: frozenset[tuple[str, int]] = frozenset()
    """Host and port of permitted local hosts; the port may be any."""
    only_hosts: tuple[str, ...] = ()
    """The only permitted hosts; `*.example.com` is every subdomain. Empty permits all."""


class NetworkVerdict(Struct, frozen=True):
    """Outcome of `check_fetch`."""

    allowed: bool
    rule: str
    reason: str


Answers = Callable[[str], Sequence[str] | None]
"""Returns the addresses of a name; None if they are unknown."""


def matches_host(pattern: str, host: str) -> bool:
    """Returns whether a host is equal to the pattern, or a subdomain for `*.example.com`."""
    pattern = pattern.lower().removesuffix(".")
    if pattern.startswith("*."):
        return host.endswith(pattern[1:]) and len(host) > len(pattern) - 1
    return host == pattern


def is_host_pattern(text: str) -> bool:
    """Returns whether a text is a host name, or `*.` and a host name."""
    name = text.removeprefix("*.")
    parsed = parse_url(f"http://{name}/")
    return isinstance(parsed, Target) and parsed.authority == name.lower().rstrip(".")


def check_target(target: Target, rules: NetworkRules) -> Refusal | None:
    """Returns the rule that refuses a target by its URL only, or None; resolves no name."""
    host = target.host
    named = is_allowed_host(target, rules)
    if host in METADATA_NAMES:
        return Refusal("metadata-name", f"{host} provides credentials; it is always refused.")
    if rules.only_hosts and not named and not any(matches_host(p, host) for p in rules.only_hosts):
        return Refusal("host-allowlist", f"{host} is not in tools.web.fetch.hostnameAllowlist.")
    if not named and target.port not in PORTS:
        ports = ", ".join(map(str, sorted(PORTS)))
        return Refusal("port", f"The port {target.port} is not one of {ports}.")
    if target.address is not None:
        return check_answers(target, [host], rules)
    return None if named or rules.allow_private else _local_name(host)


def _local_name(host: str) -> Refusal | None:
    """Returns the rule that refuses a name that is not public, regardless of its addresses."""
    labels = host.split(".")
    if len(labels) == 1:
        return Refusal("single-label", f"{host} is a name of the local network.")
    if labels[-1] in LOCAL_SUFFIXES:
        return Refusal("special-name", f"Names that end in .{labels[-1]} are not public.")
    return None


def check_answers(target: Target, answers: Iterable[str], rules: NetworkRules) -> Refusal | None:
    """Returns the rule that refuses a target because of any of its addresses, or None."""
    opened = LOCAL if rules.allow_private or is_allowed_host(target, rules) else frozenset()
    empty = True
    for text in answers:
        empty = False
        address = parse_address(text)
        if address is None:
            return Refusal("address-syntax", f"{text[:60]!r} is not an address.")
        kind = kind_of(address)
        if kind is not AddressKind.PUBLIC and kind not in opened:
            of_host = "" if target.address is not None else f" of {target.host}"
            return Refusal(
                f"address-{kind}", f"The address {text}{of_host} is not public ({kind})."
            )
    return Refusal("name-unresolved", f"{target.host} has no address.") if empty else None


def is_allowed_host(target: Target, rules: NetworkRules) -> bool:
    """Returns whether the owner permitted this host with this port."""
    return (target.host, target.port) in rules.allowed_hosts


def allowing_rule(target: Target, rules: NetworkRules) -> str:
    """Returns the name of the rule that allows a target that no rule refuses."""
    if is_allowed_host(target, rules):
        return "allowed-host"
    return "private-allowed" if rules.allow_private else "public"


def next_target(visited: Sequence[Target], location: str) -> Target | Refusal:
    """Returns the target of a redirect after the visited ones, or the rule that ends the fetch."""
    if len(visited) > MAX_REDIRECTS:
        return Refusal("redirect-limit", f"There are more than {MAX_REDIRECTS} redirects.")
    target = join_location(visited[-1], location)
    if isinstance(target, Refusal):
        return target
    if visited[-1].scheme == "https" and target.scheme == "http":
        return Refusal("redirect-downgrade", "A redirect leads from https to http.")
    if target in visited:
        return Refusal("redirect-loop", f"The redirects return to {target.url[:200]}.")
    return target


def check_fetch(
    url: str, answers: Answers, redirects: Iterable[str], rules: NetworkRules
) -> NetworkVerdict:
    """Returns the verdict on a URL and its redirects; resolves no name and opens no connection.

    A name without given addresses is refused, unless the owner permitted the host.
    """
    target = parse_url(url)
    visited: list[Target] = []
    for location in (*redirects, None):
        refusal = target if isinstance(target, Refusal) else _refusal(target, answers, rules)
        if refusal is not None or isinstance(target, Refusal):
            refusal = refusal or Refusal("url-syntax", "The URL is not valid.")
            prefix = f"Redirect {len(visited)}: " if visited else ""
            return NetworkVerdict(allowed=False, rule=refusal.rule, reason=prefix + refusal.reason)
        visited.append(target)
        if location is not None:
            target = next_target(visited, location)
    last = visited[-1]
    reason = f"{last.host} may be fetched."
    return NetworkVerdict(allowed=True, rule=allowing_rule(last, rules), reason=reason)


def _refusal(target: Target, answers: Answers, rules: NetworkRules) -> Refusal | None:
    refusal = check_target(target, rules)
    if refusal is not None or target.address is not None:
        return refusal
    addresses = answers(target.host)
    if addresses is not None:
        return check_answers(target, addresses, rules)
    if is_allowed_host(target, rules):
        return None
    return Refusal("name-unresolved", f"The address of {target.host} is not known here.")
