"""The policy of fetches, over the cases of the field and over the owner's settings."""

import json
from pathlib import Path
from typing import Any

import pytest

from skerry.policy.network import NetworkRules, NetworkVerdict, check_fetch

CASES: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "data/net/ssrf_cases.jsonl").read_text().splitlines()
]
"""URLs with the expected verdict; scenarios need connections and are played in the lab."""
PUBLIC = {"a.example": ["93.184.216.34"], "b.example": ["1.1.1.1"]}


def verdict(
    url: str, *redirects: str, rules: NetworkRules | None = None, **dns: str
) -> NetworkVerdict:
    answers = PUBLIC | {name.replace("_", "."): [address] for name, address in dns.items()}
    return check_fetch(url, answers.get, redirects, rules or NetworkRules())


@pytest.mark.abuse(96)
@pytest.mark.abuse(97)
@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case["category"] != "scenario"],
    ids=lambda case: str(case["id"]),
)
def test_a_case_has_its_verdict(case: dict[str, Any]) -> None:
    found = check_fetch(
        case["url"], case.get("dns", {}).get, case.get("redirects", []), NetworkRules()
    )
    assert ("allow" if found.allowed else "block") == case["expect"], found


@pytest.mark.requirement("ssrf-hostnames-blocked")
@pytest.mark.parametrize(
    ("host", "rule"),
    [
        ("localhost", "single-label"),
        ("a.localhost.", "special-name"),
        ("printer.local", "special-name"),
        ("x.internal", "special-name"),
        ("metadata.google.internal", "metadata-name"),
        ("metadata.goog", "metadata-name"),
        ("nas.lan", "special-name"),
        ("1.0.0.127.in-addr.arpa", "special-name"),
    ],
)
def test_a_local_name_is_refused_whatever_its_address(host: str, rule: str) -> None:
    found = check_fetch(f"http://{host}/", lambda _: ["93.184.216.34"], [], NetworkRules())
    assert (found.allowed, found.rule) == (False, rule)


def test_one_closed_address_of_several_refuses_a_name() -> None:
    answers = {"a.example": ["93.184.216.34", "10.0.0.1"]}
    assert (
        check_fetch("http://a.example", answers.get, [], NetworkRules()).rule == "address-private"
    )


@pytest.mark.parametrize("answers", [[], None, ["fe80::1%eth0"], ["localhost"]])
def test_a_name_without_certain_addresses_is_refused(answers: list[str] | None) -> None:
    assert not check_fetch("http://a.example", lambda _: answers, [], NetworkRules()).allowed


@pytest.mark.requirement("ssrf-redirects")
@pytest.mark.parametrize(
    ("redirects", "rule"),
    [
        (["/1", "/2", "/3", "/4"], "redirect-limit"),
        (["/1", "/2", "/1"], "redirect-loop"),
        (["http://b.example", "https://a.example/start"], "redirect-downgrade"),
        (["https://127.0.0.1/"], "address-loopback"),
        (["//u:p@b.example/"], "userinfo"),
        ([""], "redirect-location"),
        (["https://a.example:22/"], "port"),
    ],
)
def test_each_redirect_is_checked(redirects: list[str], rule: str) -> None:
    assert verdict("https://a.example/start", *redirects).rule == rule
    assert verdict("https://a.example/start", "/1", "/2", "https://b.example/").allowed


NAS = NetworkRules(allowed_hosts=frozenset({("nas.lan", 8081), ("10.0.0.7", 80)}))


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("http://nas.lan:8081/", True),
        ("http://NAS.lan.:8081/", True),
        ("http://10.0.0.7/", True),
        ("http://nas.lan:8080/", False),
        ("http://nas.lan/", False),
        ("http://xnas.lan:8081/", False),
        ("http://nas.lan.evil.example:8081/", False),
        ("http://10.0.0.8/", False),
    ],
)
def test_the_owner_opens_one_host_on_one_port(url: str, *, allowed: bool) -> None:
    assert verdict(url, rules=NAS, nas_lan="192.168.1.9").allowed is allowed


@pytest.mark.parametrize("address", ["169.254.169.254", "::ffff:10.0.0.1", "224.0.0.1", "fe80::1"])
def test_a_named_host_leads_to_no_service_of_credentials(address: str) -> None:
    assert not verdict("http://nas.lan:8081/", rules=NAS, nas_lan=address).allowed


OPEN = NetworkRules(allow_private=True)


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("http://127.0.0.1/", "private-allowed"),
        ("http://nas.lan:8080/", "private-allowed"),
        ("http://[fd00::1]/", "private-allowed"),
        ("http://[fd00:ec2::254]/", "address-metadata"),
        ("http://169.254.169.254/", "address-metadata"),
        ("http://100.100.100.200/", "address-metadata"),
        ("http://169.254.1.1/", "address-link-local"),
        ("http://metadata/", "metadata-name"),
        ("http://[::ffff:127.0.0.1]/", "address-embedded-ipv4"),
        ("http://127.1/", "ipv4-form"),
        ("http://127.0.0.1:22/", "port"),
    ],
)
def test_an_open_private_network_opens_neither_metadata_nor_other_forms(
    url: str, rule: str
) -> None:
    assert verdict(url, rules=OPEN, nas_lan="192.168.1.9").rule == rule


def test_a_list_of_names_leaves_out_all_others() -> None:
    rules = NetworkRules(only_hosts=("*.example.com", "b.example"))
    answers = lambda _: ["93.184.216.34"]  # noqa: E731 - as short as what it says
    allowed = {
        host: check_fetch(f"https://{host}/", answers, [], rules).allowed
        for host in (
            *("a.example.com", "b.example", "example.com", "aexample.com"),
            *("example.com.evil.org", "a.b.example"),
        )
    }
    assert [host for host, is_allowed in allowed.items() if is_allowed] == [
        "a.example.com",
        "b.example",
    ]
