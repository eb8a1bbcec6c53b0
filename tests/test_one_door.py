"""One client fetches what models and strangers choose; every other connection has its reason."""

import ast
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1] / "src"
MODEL: Final = "servers of models that the owner configured"
CLIENTS: Final = {
    "skerry/infra/http.py": "the pool and the client",
    "skerry/channels/email/line_stream.py": "mail protocols over allowed connections",
    "skerry/infra/http11.py": "a connection of the pool",
    "skerry/infra/sockets.py": "the streams of the pool",
    "skerry/net/connect.py": "connects after the policy allowed it",
    "skerry/net/proxy.py": "passes bytes between programs and what the policy allowed",
    "skerry/net/safe_fetch.py": "the client of what others chose",
    "skerry/sdk/channel_events.py": "a stream of events over connections that the policy allowed",
    "skerry/sdk/channel_socket.py": "a protocol over connections that the policy allowed",
    "skerry/app/build.py": MODEL,
    "skerry/app/trial.py": MODEL,
    "skerry/auth/credentials.py": "renews credentials at the provider's fixed address",
    "skerry/auth/refresh.py": "renews credentials at the provider's fixed address",
    "skerry/auth/signin.py": "signs in at the provider's fixed address",
    "skerry/client/client.py": "the gateway itself, whose address the owner gave",
    "skerry/features/browser/traffic.py": "the proxy of a browser, over what the policy allowed",
    "skerry/features/mcp/address_transport.py": "the MCP server that the owner named",
    "skerry/features/memory/checks.py": MODEL,
    "skerry/features/memory/embedding_models.py": MODEL,
    "skerry/features/memory/embedding_scope.py": MODEL,
    "skerry/features/models/models.py": MODEL,
    "skerry/sdk/sockets.py": "servers that the configuration of a plugin names, under the policy",
    "skerry_recall/remote.py": MODEL,
    "skerry_relayer/s3.py": "the bucket that the operator named",
    "skerry_relayer/walrus.py": "the publisher and aggregator that the operator named",
    "skerry_relayer/model.py": MODEL,
    "skerry/providers/catalog.py": MODEL,
    "skerry/providers/embedded_model.py": MODEL,
    "skerry/providers/model_apis.py": MODEL,
    "skerry/providers/offered.py": MODEL,
    "skerry/providers/offering.py": MODEL,
    "skerry/providers/probe.py": MODEL,
    "skerry/providers/streaming_call.py": MODEL,
    "skerry/sdk/model_api.py": "what such adapters are made of",
}
"""Modules that may open connections or send requests, each with whose address it is."""
LIBRARIES: Final = {
    "httpx2",
    "httpx",
    "httpcore",
    "httpcore2",
    "aiohttp",
    "requests",
    "urllib3",
} | {
    "http.client",
    "urllib.request",
    "websockets.asyncio.client",
    "websockets.client",
    "websockets.sync.client",
    "ftplib",
    "smtplib",
    "imaplib",
    "poplib",
    "telnetlib",
    "xmlrpc.client",
    "pycurl",
    "skerry.infra.http",
    "skerry.infra.sockets",
}
CALLS: Final = {"create_connection", "open_connection", "connect_tcp", "sock_connect", "urlopen"}
"""Names of functions that open a connection to a host."""


def is_client(tree: ast.AST) -> bool:
    """Returns whether a module imports a client, or calls a function that opens a connection."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names):
                if any(name.name in LIBRARIES for name in names):
                    return True
            case ast.ImportFrom(module=str(module), names=names):
                whole = {module, *(f"{module}.{name.name}" for name in names)}
                if whole & LIBRARIES or module.partition(".")[0] in LIBRARIES:
                    return True
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
                if name in CALLS:
                    return True
    return False


def test_no_other_module_opens_connections() -> None:
    paths = [path for path in ROOT.rglob("*.py") if ROOT / "skerry/testing" not in path.parents]
    opening = {
        path.relative_to(ROOT).as_posix()
        for path in paths
        if is_client(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert opening == CLIENTS.keys()


def test_a_client_is_found_however_it_is_imported() -> None:
    for text in (
        "import httpx2",
        "from urllib import request",
        "from urllib.request import urlopen",
        "def f():\n    import http.client",
        "from skerry.infra import http",
        "import asyncio\nasyncio.open_connection('a', 1)",
        "from websockets.asyncio.client import connect",
    ):
        assert is_client(ast.parse(text)), text
    assert not is_client(ast.parse("from urllib.parse import urljoin\nimport socket"))
