"""The door: hosts, origins, the page's files, health over HTTP."""

import gzip
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from starlette.routing import Route, WebSocketRoute

from skerry.gateway import protocol
from skerry.gateway.server import create_app
from skerry.model.errors import StoreFailedError
from skerry.store import Unit
from tests.support.gateway import TOKEN, Rig, running_gateway
from tests.support.wire import UPGRADE, connected


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
    """Sends a request written by hand; `headers` may lack a host, then ours is added."""
    if not headers.lower().startswith("host:"):
        headers = f"host: 127.0.0.1:{rig.port}\r\n{headers}"
    with anyio.fail_after(60):
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


async def test_a_gateway_on_a_full_disk_is_not_ready_until_there_is_room_again(rig: Rig) -> None:
    store = rig.context.store

    def fill(unit: Unit) -> None:
        unit.execute("CREATE TABLE filling AS SELECT zeroblob(1000000)")

    await store.write(lambda unit: unit.one("PRAGMA max_page_count = 1"))
    with pytest.raises(StoreFailedError):
        await store.write(fill)
    for _ in range(2):
        answer = await ask(rig, "/readyz")
        assert answer.status == 503
        assert answer.body.startswith(b'{"ready":false,"failing":["state"],"uptimeMs":')
    async with connected(rig.url) as wire:  # who wants to see to it is let in
        status = await wire.call("status")
        assert (status["ready"], status["failing"]) == (False, ["state"])
    await store.write(lambda unit: unit.one("PRAGMA max_page_count = 1000000"))
    assert (await ask(rig, "/readyz")).status == 200
    assert await store.read(lambda reader: reader.all("SELECT * FROM mirror")) == []


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
        f" connect-src 'self' ws://127.0.0.1:{rig.port} wss://127.0.0.1:{rig.port};"
        " frame-ancestors 'none';"
        " base-uri 'none'; form-action 'none'; require-trusted-types-for 'script';"
        " trusted-types skerry-markdown"
    )
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"


async def test_what_the_browser_has_is_not_sent_again(rig: Rig) -> None:
    tag = (await ask(rig, "/app.js")).headers["etag"]
    again = await ask(rig, "/app.js", f"if-none-match: {tag}\r\n")
    assert (again.status, again.body) == (304, b"")
    assert (await ask(rig, "/app.js", 'if-none-match: "old"\r\n')).status == 200


async def test_a_browser_that_takes_gzip_gets_it(rig: Rig) -> None:
    plain = await ask(rig, "/app.js")
    small = await ask(rig, "/app.js", "accept-encoding: gzip\r\n")
    assert "content-encoding" not in plain.headers
    assert small.headers["content-encoding"] == "gzip"
    assert gzip.decompress(small.body) == plain.body


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
    with anyio.fail_after(60):
        async with await anyio.connect_tcp("127.0.0.1", rig.port) as stream:
            await stream.send(b"GET / HTTP/1.1\r\nx: ")
            with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                await stream.receive()


async def answer_to(rig: Rig, *pieces: bytes) -> Answer:
    """Sends the pieces, each in a write of its own, and returns the first answer."""
    raw = b""
    with anyio.fail_after(60):
        async with await anyio.connect_tcp("127.0.0.1", rig.port) as stream:
            for piece in pieces:
                try:
                    await stream.send(piece)
                except anyio.BrokenResourceError:
                    break  # it has refused, and does not read on
                await anyio.wait_all_tasks_blocked()
            while True:
                try:
                    raw += await stream.receive()
                except (anyio.EndOfStream, anyio.BrokenResourceError):
                    return Answer(raw)


def head_of(rig: Rig, length: int) -> bytes:
    """Returns the head of a request with this many bytes, the empty line included."""
    fixed = f"GET / HTTP/1.1\r\nhost: 127.0.0.1:{rig.port}\r\nconnection: close\r\nx: \r\n\r\n"
    return fixed.replace("x: ", f"x: {'x' * (length - len(fixed))}").encode()


@pytest.mark.parametrize("length", [16 * 1024 + 1, 70_000, 1_000_000])
@pytest.mark.parametrize("pieces", [1, 7])
async def test_a_head_that_is_too_long_is_refused_in_one_read_and_in_pieces(
    rig: Rig, length: int, pieces: int
) -> None:
    head = head_of(rig, length)
    step = len(head) // pieces + 1
    answer = await answer_to(rig, *(head[at : at + step] for at in range(0, len(head), step)))
    assert answer.status == 431
    assert b"longer than 16,384 bytes" in answer.body


async def test_a_head_as_long_as_is_allowed_is_answered(rig: Rig) -> None:
    assert (await answer_to(rig, head_of(rig, 16 * 1024))).status == 200


async def test_a_long_body_behind_a_short_head_is_no_long_head(rig: Rig) -> None:
    head = head_of(rig, 200).replace(b"GET / ", b"POST / ")
    head = head.replace(b"connection: close", b"connection: close\r\ncontent-length: 40000")
    assert (await answer_to(rig, head + b"x" * 40_000)).status == 405


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


LAN = {"gateway": {"bind": "lan", "controlUi": {"allowedOrigins": ["https://Skerry.example"]}}}


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("127.0.0.1:{port}", "http://127.0.0.1:{port}", 200),
        ("192.0.2.7:{port}", None, 200),
        ("192.0.2.7:{port}", "http://192.0.2.7:{port}", 200),
        ("[2001:db8::1]:{port}", "http://[2001:db8::1]:{port}", 200),
        ("{name}:{port}", "http://{name}:{port}", 200),
        ("{name}.local:{port}", None, 200),
        ("skerry.example", "https://skerry.example", 200),
        ("192.0.2.7:{port}", "https://skerry.example", 200),
        ("192.0.2.7", None, 421),
        ("192.0.2.7:1", None, 421),
        ("evil.example:{port}", "http://evil.example:{port}", 421),
        ("skerry.example:{port}", None, 421),
        ("user@192.0.2.7:{port}", None, 421),
        ("[fe80::1%;script-src *]:{port}", None, 421),
        ("192.0.2.7:{port}", "http://192.0.2.8:{port}", 403),
        ("192.0.2.7:{port}", "http://skerry.example", 403),
        ("192.0.2.7:{port}", "null", 403),
    ],
)
async def test_other_machines_call_us_by_address_or_name_and_never_by_a_foreign_one(
    tmp_path: Path, host: str, origin: str | None, status: int
) -> None:
    names = {"name": socket.gethostname().lower()}
    async with running_gateway(tmp_path, config=LAN) as rig:
        line = f"Host: {host}\r\n" + (f"origin: {origin}\r\n" if origin else "")
        line = line.format(port=rig.port, **names)
        assert (await ask(rig, "/healthz", line)).status == status
        assert (await ask(rig, "/", line + UPGRADE)).status == (101 if status == 200 else 403)


async def test_a_page_of_a_site_that_is_not_named_is_refused_on_loopback_too(rig: Rig) -> None:
    assert (await ask(rig, "/healthz", "Host: skerry.example\r\n")).status == 421


AUTHS = {
    "none": "",
    "wrong": "authorization: Bearer wrong\r\n",
    "right": f"authorization: Bearer {TOKEN}\r\n",
    "query": "",
    "forwarded": "x-forwarded-for: 203.0.113.9\r\n",
}


@pytest.mark.parametrize("auth", AUTHS)
async def test_every_route_over_http_tells_nothing_that_needs_a_token(rig: Rig, auth: str) -> None:
    """The inventory: whoever adds a route decides here whether strangers may see it."""
    app = create_app(rig.context)
    paths = [route.path for route in app.routes if isinstance(route, Route | WebSocketRoute)]
    plugins = "/plugins/{plugin}/{path:path}"  # asks for the secret: test_plugin_parts.py
    hooks = "/hooks/{path:path}"  # has a token of its own: features/webhooks/test_webhooks.py
    hooks = "/hooks/{path:path}"  # has a token of its own: features/webhooks/test_webhooks.py
    posts = "/channels/{path:path}"  # adapters check signatures: features/channels/test_posts.py
    api = "/v1/{path:path}"  # asks for the token: features/openai_api/test_entrance.py
    tools = "/tools/{path:path}"  # asks for the token: features/openai_api/test_tools.py
    canvas = "/__openclaw__/canvas/{path:path}"  # asks for the token: nodes/test_canvas_http.py
    capability = "/__openclaw__/cap/{path:path}"  # has a capability: nodes/test_canvas_http.py
    served = [plugins, posts, hooks, api, tools, canvas, capability]
    assert paths == ["/healthz", "/readyz", "/", *served, "/{path:path}"]
    suffix = f"?token={TOKEN}" if auth == "query" else ""
    missing = {"/nothing", "/api/config"}
    for path in ("/healthz", "/readyz", "/", "/app.js", *sorted(missing)):
        answer = await ask(rig, path + suffix, AUTHS[auth])
        plain = await ask(rig, path)
        assert answer.status == plain.status
        assert answer.status == (404 if path in missing else 200)
        assert TOKEN.encode() not in answer.body
        assert set(answer.headers) >= {"x-content-type-options", "referrer-policy"}
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
            refused = await ask(rig, path, AUTHS[auth], method=method)
            assert refused.status in {404, 405}, (method, path)
            foreign = await ask(rig, path, "Host: evil.example\r\n" + AUTHS[auth], method=method)
            assert foreign.status == 421
