"""Where a connection comes from."""

import pytest

from skerry.gateway.peer import ClientPeer, peer

PROXIES = ["127.0.0.1/32", "10.0.0.0/8", "::1/128"]


@pytest.mark.parametrize(
    ("direct", "headers", "trusted", "expected"),
    [
        ("127.0.0.1", {}, [], ClientPeer("127.0.0.1", local=True)),
        ("127.0.0.2", {}, [], ClientPeer("127.0.0.2", local=True)),
        ("::1", {}, [], ClientPeer("::1", local=True)),
        ("::ffff:127.0.0.1", {}, [], ClientPeer("127.0.0.1", local=True)),
        ("192.0.2.7", {}, [], ClientPeer("192.0.2.7", local=False)),
        # Any word of forwarding makes it remote, believed or not.
        (
            "127.0.0.1",
            {"x-forwarded-for": "127.0.0.1"},
            [],
            ClientPeer("127.0.0.1", local=False, hidden=True),
        ),
        (
            "127.0.0.1",
            {"x-real-ip": "127.0.0.1"},
            [],
            ClientPeer("127.0.0.1", local=False, hidden=True),
        ),
        (
            "127.0.0.1",
            {"forwarded": "for=127.0.0.1"},
            [],
            ClientPeer("127.0.0.1", local=False, hidden=True),
        ),
        ("127.0.0.1", {"via": "1.1 x"}, [], ClientPeer("127.0.0.1", local=False, hidden=True)),
        (
            "127.0.0.1",
            {"x-forwarded-for": "127.0.0.1"},
            PROXIES,
            ClientPeer("127.0.0.1", local=False),
        ),
        # Only a trusted proxy is believed, and of what it says the last that is no proxy.
        (
            "192.0.2.7",
            {"x-forwarded-for": "9.9.9.9"},
            PROXIES,
            ClientPeer("192.0.2.7", local=False, hidden=True),
        ),
        ("127.0.0.1", {"x-forwarded-for": "9.9.9.9"}, PROXIES, ClientPeer("9.9.9.9", local=False)),
        (
            "127.0.0.1",
            {"x-forwarded-for": "1.1.1.1, 9.9.9.9, 10.0.0.4"},
            PROXIES,
            ClientPeer("9.9.9.9", local=False),
        ),
        (
            "127.0.0.1",
            {"x-forwarded-for": "9.9.9.9, junk"},
            PROXIES,
            ClientPeer("127.0.0.1", local=False, hidden=True),
        ),
        (
            "127.0.0.1",
            {"x-forwarded-for": "10.0.0.4"},
            PROXIES,
            ClientPeer("10.0.0.4", local=False),
        ),
        (
            "127.0.0.1",
            {"x-forwarded-for": "2001:db8::1"},
            PROXIES,
            ClientPeer("2001:db8::1", local=False),
        ),
    ],
)
def test_who_is_at_the_other_end(
    direct: str, headers: dict[str, str], trusted: list[str], expected: ClientPeer
) -> None:
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "websocket", "client": (direct, 1), "headers": raw}
    assert peer(scope, trusted) == expected
