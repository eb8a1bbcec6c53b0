"""Only the owner's mail server vouches for a sender, whatever else a mail has in its head."""

import pytest

from skerry.channels.email.verification import is_verified

MINE = ("mx.agents.example",)


def verified(*headers: str, domain: str = "people.example") -> bool:
    return is_verified(headers, MINE, domain)


@pytest.mark.parametrize(
    "header",
    [
        "mx.agents.example; dmarc=pass header.from=people.example",
        "MX.Agents.Example 1;\r\n dmarc=pass (p=REJECT sp=none) header.from=People.Example",
        "mx.agents.example; spf=pass smtp.mailfrom=alice@people.example",
        "mx.agents.example; spf=pass (said \\) x) smtp.mailfrom=people.example; dkim=fail",
        "mx.agents.example; dkim=pass header.d=people.example header.s=k header.b=aB/3",
        "mx.agents.example; dkim=pass header.i=@people.example",
        "mx.agents.example; dmarc=none header.from=x.example; dkim=pass header.d=people.example",
        "mx.agents.example; spf=pass smtp.mailfrom=prvs=1=alice@people.example",
        'mx.agents.example; spf=pass smtp.mailfrom="a b;dmarc=fail"@people.example',
        '"mx.agents.example" ; dmarc = pass header.from = people.example',
    ],
)
def test_what_the_own_server_vouches_for_is_verified(header: str) -> None:
    assert verified(header)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "mx.agents.example",
        "mx.agents.example; none",
        "mx.elsewhere.example; dmarc=pass header.from=people.example",
        "mx.agents.example.evil.example; dmarc=pass header.from=people.example",
        (
            "mx.agents.example; dmarc=fail header.from=people.example; spf=pass"
            " smtp.mailfrom=people.example"
        ),
        "mx.agents.example; dmarc=pass header.from=other.example",
        "mx.agents.example; dmarc=pass",
        "mx.agents.example; spf=pass smtp.mailfrom=people.example@evil.example",
        "mx.agents.example; spf=softfail smtp.mailfrom=people.example",
        "mx.agents.example; spf=pass smtp.helo=people.example",
        "mx.agents.example; dkim=pass header.d=evil.example header.i=@people.example",
        "mx.agents.example; dkim=pass header.d=example",
        "mx.agents.example; arc=pass header.d=people.example",
        (
            "mx.agents.example; spf=fail (dmarc=pass header.from=people.example)"
            " smtp.mailfrom=evil.example"
        ),
        "mx.agents.example; spf=fail (a (b) ; dmarc=pass header.from=people.example ;)",
        'mx.agents.example; spf=fail smtp.mailfrom="; dmarc=pass header.from=people.example"@x',
        'mx.agents.example; spf=fail reason="\\"; dmarc=pass header.from=people.example"',
        "mx.agents.example; spf=fail (unclosed ; dmarc=pass header.from=people.example",
        "mx.agents.example; dmarc=pass header.from=evil.example header.from=people.example",
        "mx.agents.example; dmarc=pass header.from=people.example" + " " * 20_000,
    ],
)
def test_anything_else_is_not(header: str) -> None:
    assert not verified(header)


def test_of_the_trusted_headers_the_uppermost_counts() -> None:
    forged = "mx.agents.example; dmarc=pass header.from=people.example"
    own = "mx.agents.example; dmarc=fail header.from=people.example"
    assert not verified(own, forged)
    assert verified("mx.relay.example; dmarc=fail", "mx.relay.example; (((", forged, own)


@pytest.mark.abuse(110)
@pytest.mark.parametrize(
    "own",
    [
        'mx.agents.example; spf=pass (domain of "a(b"@evil.example) smtp.mailfrom=evil.example',
        'mx.agents.example; dmarc=fail smtp.mailfrom="a"b"c@evil.example',
        "mx.agents.example 1; spf=fail" + " dkim=fail" * 2000,
        "(((",
    ],
    ids=["comment", "quote", "long", "no name"],
)
def test_a_line_that_cannot_be_read_gives_none_below_it_a_say(own: str) -> None:
    forged = "mx.agents.example; dmarc=pass header.from=people.example"
    assert verified(forged)
    assert not verified(own, forged)


def test_without_a_trusted_name_or_a_domain_nobody_is_verified() -> None:
    header = "mx.agents.example; dmarc=pass header.from=people.example"
    assert not is_verified([header], (), "people.example")
    assert not is_verified(["mx.agents.example; dmarc=pass header.from="], MINE, "")
