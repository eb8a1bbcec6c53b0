"""The proxy of a browser, over raw sockets: its permitted clients and targets."""

import socket
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest

from skerry.features.browser import traffic as proxy
from skerry.features.browser.traffic import Traffic
from skerry.net.connect import CheckedConnect
from skerry.policy.network import NetworkRules
from tests.support.net_lab import PUBLIC, Lab, lab, reply


@asynccontextmanager
async def served(world: Lab, rules: list[NetworkRules] | None = None) -> AsyncIterator[Traffic]:
    """Runs the proxy in the lab; the last of `rules` holds."""
    present = rules if rules is not None else [NetworkRules()]
    traffic = Traffic(
        lambda rules: CheckedConnect(rules, world.resolve, world.dial), lambda: present[-1]
    )
    async with traffic.served():
        yield traffic


def basic(name: str, password: str) -> bytes:
    return b"Proxy-Authorization: Basic " + b64encode(f"{name}:{password}".encode()) + b"\r\n"


async def ask(traffic: Traffic, line: bytes, headers: bytes | None = None) -> bytes:
    """Sends a request with the credentials, or with these headers; returns the answer."""
    headers = basic(*traffic.credentials) if headers is None else headers
    received = b""
    async with await anyio.connect_tcp("127.0.0.1", traffic.port) as stream:
        await stream.send(line + b" HTTP/1.1\r\n" + headers + b"\r\n")
        with anyio.fail_after(60):
            try:
                while b"\r\n\r\n" not in received or b"200 Connection" not in received:
                    received += await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                pass
    return received


@pytest.mark.parametrize("line", [b"GET http://a.example/", b"CONNECT a.example:443"])
async def test_a_program_without_the_credentials_gets_no_connection(line: bytes) -> None:
    async with lab(a_example=PUBLIC) as world, served(world) as traffic:
        await world.serve(PUBLIC, 80, reply(b"hello"))
        await world.serve(PUBLIC, 443, reply(b"hello"))
        name, password = traffic.credentials
        right = basic(name, password)
        for headers in (
            b"",
            basic(name, ""),
            basic(name, password[:-1]),
            basic("other", password),
            right.replace(b"Basic", b"basic "),
            right + basic(name, "x"),
        ):
            answer = await ask(traffic, line, headers)
            assert answer.startswith(b"HTTP/1.1 407 "), headers
            assert b'Proxy-Authenticate: Basic realm="skerry"\r\n' in answer
        assert world.connections == []
        assert world.resolved == []


async def test_each_start_has_other_credentials() -> None:
    async with lab() as world, served(world) as one, served(world) as other:
        assert one.credentials != other.credentials
        assert len(one.credentials[1]) >= 40


async def test_the_credentials_are_not_sent_to_a_server() -> None:
    async with lab(a_example=PUBLIC) as world, served(world) as traffic:
        await world.serve(PUBLIC, 80, reply(b"hello", connection="close"))
        world.close_after = True
        assert (await ask(traffic, b"GET http://a.example/")).endswith(b"hello")
        (asked,) = world.asked
        assert "proxy-authorization" not in asked.headers


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        (b"CONNECT 127.0.0.1:443", "address-loopback"),
        (b"CONNECT [::1]:443", "address-loopback"),
        (b"CONNECT inner.example:443", "address-private"),
        (b"CONNECT localhost:443", "single-label"),
        (b"CONNECT a.example:22", "port"),
        (b"CONNECT 169.254.169.254:80", "address-"),
        (b"GET http://127.0.0.1/", "address-loopback"),
        (b"GET http://inner.example/", "address-private"),
    ],
)
async def test_private_hosts_are_refused_with_the_rule(line: bytes, rule: str) -> None:
    async with lab(a_example=PUBLIC, inner_example="10.0.0.5") as world, served(world) as traffic:
        for address in ("127.0.0.1", "10.0.0.5", "169.254.169.254"):
            for port in (80, 443):
                await world.serve(address, port, reply(b"secret"))
        answer = await ask(traffic, line)
        assert answer.startswith(b"HTTP/1.1 403 ")
        assert f"[{rule}".encode() in answer
        assert traffic.refused[-1].refusal.rule.startswith(rule)
        assert world.connections == []


@pytest.mark.requirement("ssrf-dns-pinning")
async def test_a_tunnel_goes_to_the_address_that_was_checked() -> None:
    names = {"turning_example": [[PUBLIC], ["127.0.0.1"]]}
    async with lab(**names) as world, served(world) as traffic:
        await world.serve(PUBLIC, 443, reply())
        await world.serve("127.0.0.1", 443, reply(b"secret"))
        line = b"CONNECT turning.example:443"
        assert b"200 Connection established" in await ask(traffic, line)
        assert b"address-loopback" in await ask(traffic, line)
        assert world.connections == [(PUBLIC, 443)]


async def test_changed_rules_hold_for_the_next_connection() -> None:
    rules = [NetworkRules()]
    async with lab(a_example=PUBLIC) as world, served(world, rules) as traffic:
        await world.serve(PUBLIC, 443, reply())
        assert b"200 Connection" in await ask(traffic, b"CONNECT a.example:443")
        assert traffic.refusal("http://a.example/") is None
        rules.append(NetworkRules(only_hosts=("b.example",)))
        assert b"host-allowlist" in await ask(traffic, b"CONNECT a.example:443")
        refusal = traffic.refusal("http://a.example/")
        assert refusal is not None
        assert refusal.rule == "host-allowlist"


async def test_a_fixed_number_of_refusals_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "MAX_REFUSALS", 2)
    async with lab() as world, served(world) as traffic:
        for _ in range(3):
            await ask(traffic, b"CONNECT 127.0.0.1:443")
        assert len(traffic.refused) == 2


async def test_a_service_of_the_vendor_is_reached_only_by_a_page() -> None:
    host = "connectivitycheck.gstatic.com"
    async with lab(**{host.replace(".", "_"): PUBLIC}) as world, served(world) as traffic:
        await world.serve(PUBLIC, 443, reply())
        line = f"CONNECT {host}:443".encode()
        assert b"[browser-service]" in await ask(traffic, line)
        assert world.resolved == []
        assert list(traffic.refused) == []
        assert traffic.request("http://127.0.0.1/") is not None
        assert traffic.request(f"https://{host}/x") is None
        assert b"200 Connection" in await ask(traffic, line)


async def test_hosts_of_pages_are_kept_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "MAX_HOSTS", 2)
    async with lab() as world, served(world) as traffic:
        for number in range(5):
            assert traffic.request(f"http://host{number}.example/") is None
        assert len(traffic._requested) <= 2


async def test_a_connection_that_arrives_at_the_end_is_not_lost_in_an_accept() -> None:
    async with lab() as world:
        async with served(world) as traffic:
            await anyio.wait_all_tasks_blocked()
            with socket.socket() as client:
                client.settimeout(0)
                client.connect_ex(("127.0.0.1", traffic.port))
                await (
                    anyio.lowlevel.checkpoint()
                )  # the block ends in the step in which the listener is ready
        await anyio.wait_all_tasks_blocked()  # an error in a callback fails the test
