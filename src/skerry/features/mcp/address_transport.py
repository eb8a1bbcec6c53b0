"""Reaches an MCP server at an address, under the network policy."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from skerry.features.mcp.config import McpServerConfig
from skerry.features.mcp.program_transport import MAX_MESSAGE, EndOfServer
from skerry.infra.http import BODY_LIMIT, PooledTransport
from skerry.infra.sockets import Stream, connect_addresses
from skerry.net.connect import CheckedConnect, Dial, TargetRefusedError
from skerry.net.dns import Resolve, SystemResolver
from skerry.policy.addresses import AddressKind, kind_of, parse_address
from skerry.policy.network import NetworkRules, check_target
from skerry.policy.urls import Refusal, Target
from skerry.sdk.tool_host import ToolHost

CONNECT_SECONDS: Final = 10.0
STREAM_SECONDS: Final = 3600.0
"""Time without a byte after which a stream of events is opened again."""


class ConfiguredOrigin:
    """Opens connections to the origin of one server, and to no other.

    A host with a local name or address may be reached at its port: the owner configured it. A
    public name must have public addresses, unless `tools.web.fetch.ssrfPolicy` permits the host.
    """

    def __init__(
        self,
        target: Target,
        permitted: NetworkRules,
        resolve: Resolve | None = None,
        dial: Dial = connect_addresses,
    ) -> None:
        self._origin = target.host, target.port
        rules = NetworkRules(only_hosts=(target.host,))
        plain = Target(target.scheme, target.host, 443, "/", target.address)
        self._is_local = check_target(plain, rules) is not None
        self._is_permitted = (
            permitted.allow_private or (target.host, target.port) in permitted.allowed_hosts
        )
        self._resolve = resolve or SystemResolver()
        exact = NetworkRules(allowed_hosts=frozenset({self._origin}), only_hosts=(target.host,))
        self._connect = CheckedConnect(exact, self._addresses, dial)

    async def _addresses(self, host: str) -> list[str]:
        """Returns the addresses of the host; those of a public name must be public."""
        answers = await self._resolve(host)
        if not (self._is_local or self._is_permitted):
            for text in answers:
                address = parse_address(text)
                if address is None or kind_of(address) is not AddressKind.PUBLIC:
                    reason = (
                        f"The address {text} of {host} is not public. Permit the host in"
                        " tools.web.fetch.ssrfPolicy.allowedHostnames."
                    )
                    raise TargetRefusedError(Refusal("address-local", reason))
        return answers

    async def __call__(self, host: str, port: int, seconds: float | None) -> Stream:
        """Returns a stream to the server.

        Raises:
            httpx2.ConnectError: the host or port is another, or an address is refused.
        """
        if (host, port) != self._origin:
            raise httpx2.ConnectError(f"{host}:{port} is not the configured server.")
        try:
            return await self._connect(host, port, seconds)
        except TargetRefusedError as error:
            raise httpx2.ConnectError(error.refusal.reason) from error


class LimitedTransport(PooledTransport):
    """Limits the body of each response, except of the stream of events that stays open."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Sends the request; see `PooledTransport`."""
        if request.method != "GET":
            request.extensions[BODY_LIMIT] = MAX_MESSAGE
        return await super().handle_async_request(request)


@asynccontextmanager
async def address_streams(
    settings: McpServerConfig, host: ToolHost, end: EndOfServer
) -> AsyncGenerator[tuple[Any, Any]]:
    """Connects to the address for the block; yields the streams of messages."""
    del end
    target = settings.target
    if target is None or settings.url is None:
        raise ConnectionError("its address is not valid")
    permitted = host.config().tools.web.fetch.ssrf_policy.rules
    transport = LimitedTransport(connect=ConfiguredOrigin(target, permitted))
    headers = {name: secret.get_secret_value() for name, secret in settings.headers.items()}

    def make(*_: Any, **__: Any) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            transport=transport,
            headers=headers,
            timeout=httpx2.Timeout(
                settings.timeout_seconds, connect=CONNECT_SECONDS, read=STREAM_SECONDS
            ),
            follow_redirects=False,
            trust_env=False,
        )

    if settings.kind == "sse":
        async with sse_client(settings.url, httpx_client_factory=make) as streams:
            yield streams
        return
    async with (
        make() as client,
        streamable_http_client(settings.url, http_client=client) as streams,
    ):
        yield streams
