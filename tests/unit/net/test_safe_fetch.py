"""Fetches in a small internet of real servers: each verdict, and each connection that they saw."""

import gzip
import zlib
from pathlib import Path

import anyio
import anyio.abc
import pytest

from skerry.net.safe_fetch import MAX_BYTES, SECONDS, Fetched, FetchRequest, Outcome
from skerry.policy.network import NetworkRules
from tests.support.net_lab import (
    OTHER,
    PUBLIC,
    Lab,
    RecordedRequest,
    certificate,
    lab,
    redirect,
    reply,
)

SECRETS = {"authorization": "Bearer s", "cookie": "s=1", "x-api-key": "s", "accept": "text/*"}


async def fetch(world: Lab, url: str, rules: NetworkRules | None = None) -> Fetched:
    async with world.client(rules) as client:
        return await client.fetch(FetchRequest(url))


@pytest.mark.requirement("ssrf-dns-pinning")
async def test_a_page_is_fetched_from_the_address_that_was_checked() -> None:
    async with lab(a_example=[[PUBLIC], ["10.0.0.1"]]) as world:
        await world.serve(PUBLIC, 8080, reply(b"hello", content_type="text/plain"))
        await world.serve("10.0.0.1", 8080, reply())
        fetched = await fetch(world, "http://A.example:8080/x")
    assert (fetched.outcome, fetched.rule, fetched.status) == (Outcome.ALLOW, "public", 200)
    assert (fetched.body, fetched.truncated) == (b"hello", False)
    assert fetched.final_url == "http://a.example:8080/x"
    assert fetched.headers["content-type"] == "text/plain"
    assert (world.connections, world.resolved) == ([(PUBLIC, 8080)], ["a.example"])
    assert world.asked[0].headers["host"] == "a.example:8080"


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("/api/recall?limit=5&cursor=a%20b", "/api/recall?limit=5&cursor=a%20b"),
        ("/a/./b/../c.html?q=../x", "/a/c.html?q=../x"),
        ("/caf\u00e9/[1]", "/caf%C3%A9/[1]"),
        ("", "/"),
    ],
)
async def test_a_path_is_sent_in_one_spelling(given: str, sent: str) -> None:
    async with lab(a_example=PUBLIC) as world:
        await world.serve(PUBLIC, 80, reply())
        await fetch(world, f"http://a.example{given}")
    assert world.asked[0].path == sent


async def test_a_request_names_the_length_of_its_body_and_a_post_always() -> None:
    async with lab(a_example=PUBLIC) as world:
        await world.serve(PUBLIC, 80, reply())
        async with world.client() as client:
            for method, body in (("GET", b""), ("POST", b""), ("POST", b"two"), ("DELETE", b"")):
                await client.fetch(FetchRequest("http://a.example/", method, body=body))
    lengths = [request.headers.get("content-length") for request in world.asked]
    assert lengths == [None, "0", "3", None]


@pytest.mark.abuse(96)
@pytest.mark.requirement("ssrf-dns-pinning")
@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("http://127.0.0.1/", "address-loopback"),
        ("http://inner.example/", "address-private"),
        ("http://mixed.example/", "address-private"),
        ("http://nowhere.example/", "name-unresolved"),
        ("http://slow.example/", "name-timeout"),
        ("http://intranet/", "single-label"),
        ("http://a.example:22/", "port"),
        ("http://u@a.example/", "userinfo"),
        ("ftp://a.example/", "scheme"),
    ],
)
async def test_what_is_refused_connects_to_nothing(url: str, rule: str) -> None:
    names = {
        "inner_example": "10.0.0.1",
        "mixed_example": [[PUBLIC, "10.0.0.1"]],
        "slow_example": [],
    }
    async with lab(a_example=PUBLIC, **names) as world:  # type: ignore[arg-type] # as lab takes it
        for address in ("127.0.0.1", "10.0.0.1", PUBLIC):
            await world.serve(address, 80, reply())
        fetched = await fetch(world, url)
    assert (fetched.outcome, fetched.rule) == (Outcome.BLOCK, rule)
    assert world.connections == []
    assert set(world.resolved) <= {"inner.example", "mixed.example", "nowhere.example"} | {
        "slow.example"
    }


async def test_a_name_that_changes_is_checked_at_each_new_connection() -> None:
    async def once(stream: anyio.abc.ByteStream, request: RecordedRequest) -> None:
        await reply(connection="close")(stream, request)

    async with lab(a_example=[[PUBLIC], ["10.0.0.1"]]) as world:
        await world.serve(PUBLIC, 80, once)
        await world.serve("10.0.0.1", 80, reply())
        async with world.client() as client:
            first = await client.fetch(FetchRequest("http://a.example/"))
            second = await client.fetch(FetchRequest("http://a.example/"))
    assert (first.outcome, second.outcome) == (Outcome.ALLOW, Outcome.BLOCK)
    assert world.connections == [(PUBLIC, 80)]


async def test_a_kept_connection_carries_the_next_fetch() -> None:
    async with lab(a_example=PUBLIC) as world:
        await world.serve(PUBLIC, 80, reply())
        async with world.client() as client:
            for _ in range(3):
                assert (await client.fetch(FetchRequest("http://a.example/"))).status == 200
    assert (len(world.connections), len(world.asked)) == (1, 3)


@pytest.mark.abuse(99)
@pytest.mark.requirement("ssrf-redirects")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_another_origin_gets_neither_secrets_nor_the_body(status: int) -> None:
    async with lab(a_example=PUBLIC, b_example=OTHER) as world:
        await world.serve(PUBLIC, 80, redirect("http://b.example/next", status))
        await world.serve(OTHER, 80, redirect("http://a.example/back", 307))
        async with world.client() as client:
            request = FetchRequest("http://a.example/", "POST", SECRETS, b"secret")
            fetched = await client.fetch(request)
    assert fetched.rule == "redirect-loop"
    first, second, third = world.asked
    assert (first.body, first.headers["authorization"]) == (b"secret", "Bearer s")
    for asked in (second, third):
        assert (asked.method, asked.body) == ("GET", b"")
        assert asked.headers.keys() == {"host", "accept", "accept-encoding"}


async def test_the_same_origin_gets_a_repeated_request_whole() -> None:
    async def answer(stream: anyio.abc.ByteStream, request: RecordedRequest) -> None:
        kind = redirect("/b", 308) if request.path == "/a" else reply()
        await kind(stream, request)

    async with lab(a_example=PUBLIC) as world:
        await world.serve(PUBLIC, 80, answer)
        async with world.client() as client:
            await client.fetch(FetchRequest("http://a.example/a", "POST", SECRETS, b"body"))
    assert [(request.method, request.body) for request in world.asked] == [("POST", b"body")] * 2
    assert world.asked[1].headers["cookie"] == "s=1"


@pytest.mark.parametrize(
    ("location", "rule"),
    [
        ("http://127.0.0.1/", "address-loopback"),
        ("http://[::ffff:127.0.0.1]/", "address-embedded-ipv4"),
        ("http://inner.example/", "address-private"),
        ("http://localhost./", "single-label"),
        ("file:///etc/passwd", "scheme"),
        ("//user:pw@a.example/", "userinfo"),
        ("\\\\127.0.0.1\\", "url-character"),
        ("", "redirect-location"),
        ("/", "redirect-loop"),
    ],
)
async def test_a_redirect_is_checked_before_it_is_followed(location: str, rule: str) -> None:
    async with lab(a_example=PUBLIC, inner_example="10.0.0.1") as world:
        await world.serve(PUBLIC, 80, redirect(location))
        for address in ("127.0.0.1", "10.0.0.1"):
            await world.serve(address, 80, reply())
        fetched = await fetch(world, "http://a.example/")
    assert (fetched.outcome, fetched.rule, fetched.status) == (Outcome.BLOCK, rule, 302)
    assert world.connections == [(PUBLIC, 80)]


async def test_three_redirects_are_followed_and_not_a_fourth() -> None:
    async def answer(stream: anyio.abc.ByteStream, request: RecordedRequest) -> None:
        number = int(request.path[1:])
        kind = redirect(f"/{number - 1}") if number else reply()
        await kind(stream, request)

    async with lab(a_example=PUBLIC) as world:
        await world.serve(PUBLIC, 80, answer)
        assert (await fetch(world, "http://a.example/3")).final_url == "http://a.example/0"
        assert (await fetch(world, "http://a.example/4")).rule == "redirect-limit"
    assert len(world.asked) == 8


async def test_a_redirect_without_a_location_is_an_answer() -> None:
    async with lab(a_example=PUBLIC) as world:
        await world.serve(PUBLIC, 80, reply(b"choose", "300 Multiple"))
        assert (await fetch(world, "http://a.example/")).body == b"choose"


async def test_tls_is_for_the_name_and_a_redirect_to_plain_http_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls, file = certificate(tmp_path, "a.example")
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    async with lab(a_example=PUBLIC, b_example=PUBLIC) as world:
        await world.serve(PUBLIC, 443, redirect("http://b.example/"), tls)
        await world.serve(PUBLIC, 80, reply())
        fetched = await fetch(world, "https://a.example/")
        other = await fetch(world, "https://b.example/")
        bare = await fetch(world, f"https://{PUBLIC}/")
    assert (fetched.outcome, fetched.rule) == (Outcome.BLOCK, "redirect-downgrade")
    assert (other.outcome, other.rule) == (Outcome.ABORT, "tls")
    assert (bare.outcome, bare.rule) == (Outcome.ABORT, "tls")
    assert world.sni[:2] == ["a.example", "b.example"]
    assert [request.port for request in world.asked] == [443]


async def test_no_cookie_of_a_fetch_is_sent_with_the_next() -> None:
    async with lab(a_example=PUBLIC) as world:
        await world.serve(PUBLIC, 80, reply(set_cookie="a=b"))
        async with world.client() as client:
            await client.fetch(FetchRequest("http://a.example/"))
            await client.fetch(FetchRequest("http://a.example/"))
    assert all("cookie" not in request.headers for request in world.asked)


@pytest.mark.abuse(98)
async def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with lab(a_example=PUBLIC) as world:
        await world.serve(PUBLIC, 80, reply())
        assert (await fetch(world, "http://a.example/")).status == 200


@pytest.mark.requirement("ssrf-size-limits")
async def test_a_body_over_the_limit_ends_the_fetch_with_its_beginning() -> None:
    sent: list[int] = []

    async def endless(stream: anyio.abc.ByteStream, _: RecordedRequest) -> None:
        await stream.send(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            await stream.send(b"x" * 65536)
            sent.append(65536)

    async with lab(a_example=PUBLIC) as world:
        await world.serve(PUBLIC, 80, endless)
        fetched = await fetch(world, "http://a.example/")
        async with world.client() as client:
            short = await client.fetch(FetchRequest("http://a.example/", max_bytes=10))
            more = await client.fetch(FetchRequest("http://a.example/", max_bytes=10**9))
    for ended, length in ((fetched, MAX_BYTES), (short, 10), (more, MAX_BYTES)):
        assert (ended.outcome, ended.rule, ended.truncated) == (Outcome.ABORT, "body-limit", True)
        assert len(ended.body) == length


async def test_a_body_of_exactly_the_limit_is_whole() -> None:
    async with lab(a_example=PUBLIC) as world:
        await world.serve(PUBLIC, 80, reply(b"0123456789"))
        async with world.client() as client:
            fetched = await client.fetch(FetchRequest("http://a.example/", max_bytes=10))
    assert (fetched.outcome, fetched.body, fetched.truncated) == (
        Outcome.ALLOW,
        b"0123456789",
        False,
    )


RAW = zlib.compressobj(wbits=-15)
BARE = RAW.compress(b"text") + RAW.flush()


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(b"text", mtime=0)),
        ("deflate", zlib.compress(b"text")),
        ("deflate", BARE),
        ("identity", b"text"),
    ],
)
async def test_a_body_is_decoded(encoding: str, body: bytes) -> None:
    async with lab(a_example=PUBLIC) as world:
        await world.serve(PUBLIC, 80, reply(body, content_encoding=encoding))
        assert (await fetch(world, "http://a.example/")).body == b"text"
    assert world.asked[0].headers["accept-encoding"] == "gzip, deflate"


async def test_few_bytes_do_not_become_many() -> None:
    bomb = gzip.compress(b"\0" * 200_000_000, 9)
    async with lab(a_example=PUBLIC) as world:
        await world.serve(PUBLIC, 80, reply(bomb, content_encoding="gzip"))
        async with world.client() as client:
            fetched = await client.fetch(FetchRequest("http://a.example/", max_bytes=1_000_000))
    assert (fetched.rule, fetched.truncated, len(fetched.body)) == ("body-limit", True, 1_000_000)


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("br", b"x"),
        ("gzip, gzip", b"x"),
        ("gzip", b"no gzip"),
        ("gzip", gzip.compress(b"text", mtime=0)[:-4]),
    ],
)
async def test_a_body_that_cannot_be_decoded_ends_the_fetch(encoding: str, body: bytes) -> None:
    async with lab(a_example=PUBLIC) as world:
        await world.serve(PUBLIC, 80, reply(body, content_encoding=encoding))
        fetched = await fetch(world, "http://a.example/")
    assert (fetched.outcome, fetched.rule) == (Outcome.ABORT, "encoding")


@pytest.mark.requirement("ssrf-timeout-30s")
async def test_one_deadline_ends_a_server_that_answers_slowly() -> None:
    async def drip(stream: anyio.abc.ByteStream, _: RecordedRequest) -> None:
        await stream.send(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            await stream.send(b"x")
            await anyio.sleep(0.02)

    async with lab(a_example=PUBLIC) as world:
        await world.serve(PUBLIC, 80, drip)
        async with world.client() as client:
            fetched = await client.fetch(FetchRequest("http://a.example/", seconds=0.5))
    assert (fetched.outcome, fetched.rule) == (Outcome.ABORT, "timeout")
    assert SECONDS == 30


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("CONNECT", {}),
        ("G ET", {}),
        ("GET", {"x": "a\r\nb: c"}),
        ("GET", {"x y": "a"}),
        ("GET", {f"x-{number}": "a" for number in range(101)}),
    ],
)
async def test_what_no_request_can_have_is_not_sent(method: str, headers: dict[str, str]) -> None:
    async with lab(a_example=PUBLIC) as world:
        await world.serve(PUBLIC, 80, reply())
        async with world.client() as client:
            fetched = await client.fetch(FetchRequest("http://a.example/", method, headers))
    assert (fetched.rule, world.connections) == ("request", [])


async def test_headers_about_the_connection_are_the_clients_own() -> None:
    async with lab(a_example=PUBLIC) as world:
        await world.serve(PUBLIC, 80, reply())
        headers = {"Host": "b.example", "Content-Length": "9", "Accept-Encoding": "br", "X": "y"}
        async with world.client() as client:
            await client.fetch(FetchRequest("http://a.example/", headers=headers))
    assert world.asked[0].headers == {"host": "a.example", "accept-encoding": "gzip, deflate"} | {
        "x": "y"
    }


@pytest.mark.parametrize(
    ("answer", "rule"),
    [(reply(b"", "101 Switching"), "protocol"), (reply(b"x" * 9, content_length="99"), "timeout")],
)
async def test_a_broken_answer_ends_the_fetch(answer: object, rule: str) -> None:
    async with lab(a_example=PUBLIC) as world:
        await world.serve(PUBLIC, 80, answer)  # type: ignore[arg-type] # one of `reply`
        async with world.client() as client:
            fetched = await client.fetch(FetchRequest("http://a.example/", seconds=1.0))
    assert (fetched.outcome, fetched.rule) == (Outcome.ABORT, rule)


async def test_the_owner_opens_a_local_host_on_its_port_alone() -> None:
    rules = NetworkRules(allowed_hosts=frozenset({("nas.lan", 8081)}))
    async with lab(nas_lan="10.0.0.7") as world:
        await world.serve("10.0.0.7", 8081, reply())
        await world.serve("10.0.0.7", 80, reply())
        assert (await fetch(world, "http://nas.lan:8081/", rules)).rule == "allowed-host"
        assert (await fetch(world, "http://nas.lan/", rules)).outcome is Outcome.BLOCK
    assert world.connections == [("10.0.0.7", 8081)]


async def test_where_nobody_listens_is_the_end_of_the_fetch() -> None:
    async with lab(a_example=PUBLIC) as world:
        fetched = await fetch(world, "http://a.example/")
    assert (fetched.outcome, fetched.rule) == (Outcome.ABORT, "connect")
