"""The door: hosts, origins, the page's files, health over HTTP."""

import socket
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from skerry.gateway import protocol
from tests.support.gateway import Rig, running_gateway
from tests.support.wire import connected

UPGRADE = (
    "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
    "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    folder = tmp_path / "web"
    (folder / "img").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html><p>page")
    (folder / "app.js").write_text("export {};")
    (folder / "img" / "a.svg").write_text("<svg/>")
    (folder / "notes.txt").write_text("of no served type")
    (tmp_path / "secret.js").write_text("secret")
    (folder / "link.js").symlink_to(tmp_path / "secret.js")
    return folder


@pytest.fixture
async def rig(tmp_path: Path, pages: Path) -> AsyncIterator[Rig]:
    async with running_gateway(tmp_path, pages=pages) as rig:
        yield rig


class Answer:
    def __init__(self, raw: bytes) -> None:
        head, _, self.body = raw.partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        self.status = int(status.split()[1])
        self.headers = dict(line.lower().split(": ", 1) for line in lines)


async def ask(rig: Rig, path: str = "/", headers: str = "", *, method: str = "GET") -> Answer:
    """Send a request written by hand; `headers` may lack a host, then ours is added."""
    if not headers.lower().startswith("host:"):
        headers = f"host: 127.0.0.1:{rig.port}\r\n{headers}"
    with anyio.fail_after(10):
        async with await anyio.connect_tcp("127.0.0.1", rig.port) as stream:
            await stream.send(f"{method} {path} HTTP/1.1\r\n{headers}\r\n".encode())
            raw = b""
            while True:
                try:
                    raw += await stream.receive()
                except (anyio.EndOfStream, anyio.BrokenResourceError):
                    return Answer(raw)
                if raw.startswith(b"HTTP/1.1 101"):
                    return Answer(raw)


HOSTS = [
    ("127.0.0.1:{port}", True),
    ("localhost:{port}", True),
    ("LOCALHOST:{port}", True),
    ("[::1]:{port}", True),
    ("127.0.0.1", False),
    ("127.0.0.1:1", False),
    ("evil.example:{port}", False),
    ("127.0.0.1.evil.example:{port}", False),
    ("localhost.:{port}", False),
    ("127.1:{port}", False),
    ("0.0.0.0:{port}", False),
    ("user@127.0.0.1:{port}", False),
    ("", False),
]


@pytest.mark.parametrize(("host", "good"), HOSTS)
async def test_only_our_own_names_are_hosts(rig: Rig, *, host: str, good: bool) -> None:
    line = f"Host: {host.format(port=rig.port)}\r\n"
    assert (await ask(rig, "/healthz", line)).status == (200 if good else 421)
    assert (await ask(rig, "/", line + UPGRADE)).status == (101 if good else 403)


ORIGINS = [
    ("http://127.0.0.1:{port}", True),
    ("http://localhost:{port}", True),
    ("https://127.0.0.1:{port}", False),
    ("http://127.0.0.1", False),
    ("http://127.0.0.1:1", False),
    ("http://evil.example", False),
    ("http://evil.example:{port}", False),
    ("http://http://127.0.0.1:{port}", False),
    ("127.0.0.1:{port}", False),
    ("null", False),
    ("", False),
]


@pytest.mark.parametrize(("origin", "good"), ORIGINS)
async def test_other_pages_are_refused_before_anything_is_asked(
    rig: Rig, *, origin: str, good: bool
) -> None:
    line = f"origin: {origin.format(port=rig.port)}\r\n"
    assert (await ask(rig, "/healthz", line)).status == (200 if good else 403)
    assert (await ask(rig, "/", line + UPGRADE)).status == (101 if good else 403)


async def test_of_two_origins_both_must_be_ours(rig: Rig) -> None:
    ours = f"origin: http://127.0.0.1:{rig.port}\r\n"
    both = ours + "origin: http://evil.example\r\n"
    assert (await ask(rig, "/", both + UPGRADE)).status in {400, 403}


async def test_there_is_a_websocket_at_the_root_only(rig: Rig) -> None:
    assert (await ask(rig, "/other", UPGRADE)).status == 403


async def test_health_over_http(rig: Rig) -> None:
    answer = await ask(rig, "/healthz")
    assert answer.body == b'{"ok":true,"status":"live"}'
    assert answer.headers["content-type"] == "application/json"


async def test_readiness_names_what_fails(rig: Rig) -> None:
    answer = await ask(rig, "/readyz")
    assert answer.status == 200
    assert answer.body.startswith(b'{"ready":true,"failing":[],"uptimeMs":')
    rig.context.health.fail("draining")
    answer = await ask(rig, "/readyz")
    assert answer.status == 503
    assert answer.body.startswith(b'{"ready":false,"failing":["draining"],"uptimeMs":')


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html; charset=utf-8"),
        ("/index.html", "text/html; charset=utf-8"),
        ("/app.js", "text/javascript; charset=utf-8"),
        ("/img/a.svg", "image/svg+xml"),
        ("/app.js?v=1", "text/javascript; charset=utf-8"),
    ],
)
async def test_the_page_is_served_with_a_strict_policy(rig: Rig, path: str, kind: str) -> None:
    answer = await ask(rig, path)
    assert (answer.status, answer.headers["content-type"]) == (200, kind)
    assert answer.headers["content-security-policy"] == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
        f" connect-src 'self' ws://127.0.0.1:{rig.port}; frame-ancestors 'none';"
        " base-uri 'none'; form-action 'none'; require-trusted-types-for 'script';"
        " trusted-types 'none'"
    )
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"


async def test_what_the_browser_has_is_not_sent_again(rig: Rig) -> None:
    tag = (await ask(rig, "/app.js")).headers["etag"]
    again = await ask(rig, "/app.js", f"if-none-match: {tag}\r\n")
    assert (again.status, again.body) == (304, b"")
    assert (await ask(rig, "/app.js", 'if-none-match: "old"\r\n')).status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.js",
        "/%2e%2e/secret.js",
        "/..%2fsecret.js",
        "/img/../../secret.js",
        "//etc/passwd",
        "/img/..\\..\\secret.js",
        "/notes.txt",
        "/link.js",
        "/img",
        "/img/",
        "/app.js/",
        "/%00",
        "/%ff",
        "/nothing.js",
    ],
)
async def test_nothing_else_is_served(rig: Rig, path: str) -> None:
    answer = await ask(rig, path)
    assert answer.status == 404
    assert b"secret" not in answer.body


@pytest.mark.parametrize("path", ["/", "/app.js", "/healthz"])
async def test_only_reading_is_possible(rig: Rig, path: str) -> None:
    assert (await ask(rig, path, method="HEAD")).body == b""
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE"):
        assert (await ask(rig, path, method=method)).status == 405


async def test_the_page_comes_with_the_program(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as rig:
        assert (await ask(rig, "/")).status in {200, 404}


async def test_a_head_that_does_not_end_is_cut_off(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert protocol.HEAD_SECONDS == 10.0
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.1)
    with anyio.fail_after(10):
        async with await anyio.connect_tcp("127.0.0.1", rig.port) as stream:
            await stream.send(b"GET / HTTP/1.1\r\nx: ")
            with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                await stream.receive()


async def test_a_head_that_is_too_long_is_refused(rig: Rig) -> None:
    assert (await ask(rig, "/", f"x: {'x' * 200_000}\r\n")).status == 400


async def test_leaving_the_listener_closes_every_client_with_a_reason(
    tmp_path: Path,
) -> None:
    async with running_gateway(tmp_path) as rig:
        context = connected(rig.url)
        wire = await context.__aenter__()
    assert await wire.closed() == (1012, "service restart")
    await context.__aexit__(None, None, None)
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        free.bind(("127.0.0.1", rig.port))
