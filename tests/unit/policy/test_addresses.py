"""The tables of addresses: which kind each is, and which texts are addresses at all."""

import ipaddress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skerry.policy.addresses import LOCAL, METADATA, AddressKind, kind_of, parse_address


def kind(text: str) -> AddressKind:
    address = parse_address(text)
    assert address is not None, text
    return kind_of(address)


@pytest.mark.requirement("ssrf-ipv4-blocked")
@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        ("10.0.0.0", "10.255.255.255", AddressKind.PRIVATE),
        ("100.64.0.0", "100.127.255.255", AddressKind.SHARED),
        ("127.0.0.0", "127.255.255.255", AddressKind.LOOPBACK),
        ("169.254.0.0", "169.254.255.255", AddressKind.LINK_LOCAL),
        ("172.16.0.0", "172.31.255.255", AddressKind.PRIVATE),
        ("192.168.0.0", "192.168.255.255", AddressKind.PRIVATE),
        ("198.18.0.0", "198.19.255.255", AddressKind.BENCHMARK),
        ("192.0.0.0", "192.0.0.255", AddressKind.PROTOCOL),
        ("192.88.99.0", "192.88.99.255", AddressKind.PROTOCOL),
        ("224.0.0.0", "239.255.255.255", AddressKind.MULTICAST),
        ("240.0.0.0", "255.255.255.255", AddressKind.RESERVED),
    ],
)
def test_a_special_network_is_closed_from_its_first_address_to_its_last(
    first: str, last: str, expected: AddressKind
) -> None:
    assert (kind(first), kind(last)) == (expected, expected)
    for beside in (int(ipaddress.ip_address(first)) - 1, int(ipaddress.ip_address(last)) + 1):
        if beside <= 0xFFFFFFFF and first not in {"224.0.0.0", "240.0.0.0"}:
            assert kind_of(ipaddress.IPv4Address(beside)) is AddressKind.PUBLIC


@pytest.mark.requirement("ssrf-ipv6-blocked")
@pytest.mark.parametrize(
    "text",
    [
        "::",
        "::1",
        "fe80::1",
        "febf::1",
        "fc00::1",
        "fdff:ffff::1",
        "fec0::1",
        "ff02::1",
        "5f00::1",
        "2001:db8::1",
        "3fff::1",
        "2001:1::1",
        "2001:20::1",
        "100::1",
        "4000::1",
        "1fff::1",
    ],
)
def test_a_special_ipv6_address_is_not_public(text: str) -> None:
    assert kind(text) is not AddressKind.PUBLIC


@pytest.mark.abuse(97)
@pytest.mark.requirement("ssrf-embedded-ipv4")
@pytest.mark.parametrize("inner", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "8.8.8.8"])
def test_an_address_that_carries_an_ipv4_address_is_closed(inner: str) -> None:
    number = int(ipaddress.IPv4Address(inner))
    high, low = number >> 16, number & 0xFFFF
    hex_parts = f"{high:x}:{low:x}"
    for text in (
        f"::ffff:{inner}",
        f"::ffff:{hex_parts}",
        f"::{inner}",
        f"::ffff:0:{inner}",
        f"2002:{hex_parts}::1",
        f"2001:0:{hex_parts}::1",
        f"2001:0:1:1:0:0:{high ^ 0xFFFF:x}:{low ^ 0xFFFF:x}",
        f"2001:4860::5efe:{inner}",
        f"2001:4860::200:5efe:{inner}",
        f"2001:4860::100:5efe:{inner}",
        f"64:ff9b:1::{inner}",
    ):
        assert kind(text) is AddressKind.EMBEDDED, text


@pytest.mark.requirement("ssrf-embedded-ipv4")
def test_an_address_of_nat64_is_as_public_as_what_it_carries() -> None:
    assert kind("64:ff9b::8.8.8.8") is AddressKind.PUBLIC
    assert kind("64:ff9b::10.0.0.1") is AddressKind.EMBEDDED
    assert kind("64:ff9b::168.63.129.16") is AddressKind.METADATA


def test_services_of_credentials_are_no_local_addresses_that_could_be_opened() -> None:
    assert {kind(text) for text in METADATA} == {AddressKind.METADATA}
    assert not LOCAL & {AddressKind.METADATA, AddressKind.LINK_LOCAL, AddressKind.EMBEDDED}


@pytest.mark.parametrize(
    "text",
    [
        *[
            "0177.0.0.1",
            "127.1",
            "0x7f000001",
            "2130706433",
            "127.0.0.01",
            "256.1.1.1",
            "1.1.1.1.",
            "::1%lo",
        ],
        *("[::1]", "::ffff:127.1", "::ffff:0177.0.0.1", "\u0661.1.1.1", "1.1.1.1\n", ":", ""),
    ],
)
def test_another_spelling_is_no_address(text: str) -> None:
    assert parse_address(text) is None


@given(st.ip_addresses(v=4))
@example(ipaddress.IPv4Address(0))
def test_public_is_never_more_than_what_the_standard_library_calls_global(
    address: ipaddress.IPv4Address,
) -> None:
    if kind_of(address) is AddressKind.PUBLIC:
        assert address.is_global
        assert not address.is_multicast


@given(st.ip_addresses(v=6))
def test_a_public_ipv6_address_is_global_unicast(address: ipaddress.IPv6Address) -> None:
    if kind_of(address) is AddressKind.PUBLIC and int(address) >> 96 != 0x64FF9B:
        assert address in ipaddress.ip_network("2000::/3")
        assert address.sixtofour is None
        assert address.teredo is None
