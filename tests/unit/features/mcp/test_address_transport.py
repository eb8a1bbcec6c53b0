"""MCP servers at addresses: over loopback with the SDK's server, and the guard of the network."""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from skerry.features.mcp.address_transport import ConfiguredOrigin
from skerry.infra.rooted_fs import RootedFolder
from skerry.model.message import ImageBlock
from skerry.policy.network import NetworkRules
from skerry.policy.urls import Target, parse_url
from skerry.ports.tool import ToolContext
from tests.support import mcp_server
from tests.support.gateway import serving
from tests.support.mcp import OWNER, hosted


@asynccontextmanager
async def served(transport: str) -> AsyncGenerator[str]:
    """Serves the server of the tests in this process; yields its address."""
    server = mcp_server.made()
    app = server.sse_app() if transport == "sse" else server.streamable_http_app()
    async with serving(app) as port:
        yield f"http://127.0.0.1:{port}/{'sse' if transport == 'sse' else 'mcp'}"


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_server_at_a_local_address_is_used(tmp_path: Path, transport: str) -> None:
    async with served(transport) as url:
        servers = {"sums": {"url": url, "transport": transport}}
        async with hosted(tmp_path, servers) as hosts:
            with anyio.fail_after(60):
                await hosts.source.prepare(OWNER)
                assert hosts.source.servers["sums"].reason == ""
                tools = hosts.source.tools
                context = ToolContext(RootedFolder(tmp_path), caller=OWNER)
                result = await tools["mcp_sums_add"].run({"a": 2, "b": 40}, context)
                picture = await tools["mcp_sums_draw"].run({}, context)
    assert result.text == "42"
    assert [type(block) for block in picture.blocks] == [ImageBlock]


async def reason_of(tmp_path: Path, url: str, **more: Any) -> str:
    async with hosted(tmp_path, {"sums": {"url": url, **more}}) as hosts:
        with anyio.fail_after(60):
            await hosts.source.prepare(OWNER)
        reason: str = hosts.source.servers["sums"].reason
    return reason


async def test_headers_are_sent_to_the_server_and_a_redirect_to_another_origin_is_not_followed(
    tmp_path: Path,
) -> None:
    seen: list[tuple[str, str]] = []

    async def answer(request: Request) -> Response:
        seen.append((request.url.path, request.headers.get("x-key", "")))
        body = json.loads(await request.body() or b"{}")
        if request.url.path == "/stolen" or body.get("method") != "initialize":
            return JSONResponse({}, 404)
        port = request.url.port
        return RedirectResponse(f"http://localhost:{port}/stolen", 307)

    app = Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST"])])
    async with serving(app) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        reason = await reason_of(tmp_path, url, headers={"X-Key": "secret"})
    assert f"localhost:{port}/stolen" in reason
    assert set(seen) == {("/mcp", "secret")}


async def test_a_server_that_refuses_connections_is_named(tmp_path: Path) -> None:
    reason = await reason_of(tmp_path, "http://127.0.0.1:9/mcp")
    assert "127.0.0.1" in reason


def target(url: str) -> Target:
    parsed = parse_url(url)
    assert isinstance(parsed, Target)
    return parsed


PERMITTED = NetworkRules(allowed_hosts=frozenset({("mcp.example.com", 443)}))


@pytest.mark.parametrize(
    ("url", "answers", "host", "port", "rules", "refused"),
    [
        ("https://mcp.example.com/", ["127.0.0.1"], "", 443, NetworkRules(), "not public"),
        ("https://mcp.example.com/", ["10.0.0.7"], "", 443, PERMITTED, ""),
        ("https://mcp.example.com:9443/", ["1.1.1.1"], "", 9443, NetworkRules(), ""),
        ("http://nas.lan:8080/", ["10.0.0.7"], "", 8080, NetworkRules(), ""),
        ("http://nas.lan:8080/", ["169.254.169.254"], "", 8080, NetworkRules(), "not public"),
        ("http://10.0.0.7:8080/", [], "", 8080, NetworkRules(), ""),
        ("http://10.0.0.7:8080/", [], "", 8081, NetworkRules(), "not the configured"),
        ("http://10.0.0.7:8080/", [], "10.0.0.8", 8080, NetworkRules(), "not the configured"),
        ("http://metadata.google.internal/", ["1.1.1.1"], "", 80, NetworkRules(), "credentials"),
    ],
)
async def test_only_the_configured_origin_is_connected(
    url: str, answers: list[str], host: str, port: int, rules: NetworkRules, refused: str
) -> None:
    dialled: list[str] = []

    async def resolve(_: str) -> list[str]:
        return answers

    async def dial(addresses: Sequence[str], *_: object) -> Any:
        dialled.extend(addresses)

    origin = ConfiguredOrigin(target(url), rules, resolve, dial)
    connecting = origin(host or target(url).host, port, 1)
    if refused:
        with pytest.raises(httpx2.ConnectError, match=refused):
            await connecting
    else:
        await connecting
    assert bool(dialled) is not bool(refused)
