"""URLs are read in one way, and a URL that programs read in different ways is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.policy.urls import Refusal, Target, join_location, parse_host, parse_url


def parsed(text: str) -> Target:
    target = parse_url(text)
    assert isinstance(target, Target), target
    return target


def rule(text: str) -> str:
    refusal = parse_url(text)
    assert isinstance(refusal, Refusal), refusal
    return refusal.rule


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://example.com", "http://example.com/"),
        ("HTTPS://EXAMPLE.com.:443/a?b#c", "https://example.com/a?b"),
        ("http://example.com#@127.0.0.1/", "http://example.com/"),
        ("http://example.com?@127.0.0.1/", "http://example.com/?@127.0.0.1/"),
        (
            "http://example.com:8080/ä b?ö=%zz%2F",
            "http://example.com:8080/%C3%A4%20b?%C3%B6=%25zz%2F",
        ),
        ("http://[2001:4860:4860:0:0:0:0:8888]:80/", "http://[2001:4860:4860::8888]/"),
        ("https://xn--bcher-kva.example:8443", "https://xn--bcher-kva.example:8443/"),
    ],
)
def test_a_url_becomes_its_canonical_form(text: str, url: str) -> None:
    assert parsed(text).url == url
    assert parsed(url) == parsed(text)


@pytest.mark.requirement("ssrf-protocols")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("file:///etc/passwd", "scheme"),
        ("//example.com/", "scheme"),
        ("example.com", "scheme"),
        ("http:/example.com/", "url-syntax"),
        ("http:///example.com/", "host-empty"),
        ("http://user@example.com/", "userinfo"),
        ("http://example.com%2f@evil.example/", "userinfo"),
        ("http://exa%6dple.com/", "host-escape"),
        ("http://example.com\\@evil.example/", "url-character"),
        ("http://example.com/\r\nHost: x", "url-character"),
        ("http://ex ample.com/", "host-syntax"),
        ("http://bücher.example/", "host-not-ascii"),
        ("http://xn--localhost-/", "host-syntax"),
        ("http://xn--a.example/", "host-syntax"),
        ("http://a..b/", "host-syntax"),
        ("http://-a.example/", "host-syntax"),
        ("http://example.com:/", "port-syntax"),
        ("http://example.com:080/", "port-syntax"),
        ("http://example.com:65536/", "port-syntax"),
        ("http://example.com:\uff18\uff10/", "port-syntax"),
        ("http://127.0.0.1:80:80/", "host-syntax"),
        ("http://2130706433/", "ipv4-form"),
        ("http://1.2.3.4.5/", "ipv4-form"),
        ("http://1.1.1.1./", "ipv4-form"),
        ("http://example.0x7f/", "ipv4-form"),
        ("http://[::1%25lo]/", "host-escape"),
        ("http://[v1.a]/", "ipv6-syntax"),
        ("http://[1.1.1.1]/", "ipv6-syntax"),
        ("http://[::1]x/", "port-syntax"),
        ("http://a.example/" + "a" * 8192, "url-length"),
    ],
)
def test_what_programs_read_in_different_ways_is_refused(text: str, expected: str) -> None:
    assert rule(text) == expected


@pytest.mark.parametrize(
    ("location", "url"),
    [
        ("/b", "https://a.example:8443/b"),
        ("c?d", "https://a.example:8443/x/c?d"),
        ("?q", "https://a.example:8443/x/y?q"),
        ("//b.example", "https://b.example/"),
        ("http://b.example", "http://b.example/"),
    ],
)
def test_a_location_may_be_relative(location: str, url: str) -> None:
    target = join_location(parsed("https://a.example:8443/x/y?z"), location)
    assert isinstance(target, Target)
    assert target.url == url


@pytest.mark.parametrize(
    "location", ["", " ", "\\\\127.0.0.1\\", "https:b", "//u@b.example", " /a"]
)
def test_a_location_that_leads_nowhere_certain_is_refused(location: str) -> None:
    assert isinstance(join_location(parsed("https://a.example/"), location), Refusal)


@given(st.text(alphabet="ahtp:/.@[]%\\0x7 \t#?ä。1", max_size=40))
def test_what_was_read_is_read_alike_again(text: str) -> None:
    target = parse_url("http://" + text)
    if isinstance(target, Target):
        assert parse_url(target.url) == target
        assert target.url.isascii()


@given(st.text(max_size=60))
def test_any_text_has_an_answer(text: str) -> None:
    parse_url(text)
    parse_host(text)
    join_location(parsed("https://a.example/b"), text)
