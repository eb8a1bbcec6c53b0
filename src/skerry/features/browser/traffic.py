"""Proxy of one browser: the network policy decides on each of its connections.

It listens on loopback and requires credentials that are made for this start of the browser.
"""

import secrets
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio
import anyio.abc
from msgspec import Struct

from skerry.infra.sockets import Stream
from skerry.infra.supervise import in_background
from skerry.net.connect import TargetRefusedError
from skerry.net.proxy import Connect, Proxy
from skerry.policy.network import NetworkRules, check_target
from skerry.policy.urls import Refusal, Target, parse_url

MAX_REFUSALS: Final = 50
"""Number of refusals that are kept for messages."""
MAX_CONNECTIONS: Final = 256
MAX_HOSTS: Final = 10_000
"""Number of hosts of requests of pages that are kept; above it the set is emptied."""
VENDOR: Final = (
    "google.com",
    "googleapis.com",
    "googleusercontent.com",
    "gstatic.com",
    "gvt1.com",
    "services.invalid",
)
"""Domains of services that Chromium contacts for itself, such as a test for portals of networks.
A host below them is reached only if a page has requested it."""
_NAME: Final = "browser"

Dialer = Callable[[NetworkRules], Connect]
"""Returns a function that opens connections under the rules; `net.connect.CheckedConnect` in a
gateway."""


class Refused(Struct, frozen=True):
    """A connection that the policy refused."""

    host: str
    refusal: Refusal


class Traffic:
    """Connections of one browser, with the rules of the present configuration."""

    def __init__(self, dialer: Dialer, rules: Callable[[], NetworkRules]) -> None:
        self._dialer = dialer
        self._rules = rules
        self.refused: deque[Refused] = deque(maxlen=MAX_REFUSALS)
        """The last refusals."""
        self._requested: set[str] = set()
        self.credentials = (_NAME, secrets.token_urlsafe(32))
        self.port = 0
        """Port of the proxy; 0 before it listens."""

    def refusal(self, url: str) -> Refusal | None:
        """Returns the rule that refuses a URL by its text, or None; resolves no name."""
        target = parse_url(url)
        return target if isinstance(target, Refusal) else check_target(target, self._rules())

    def request(self, url: str) -> Refusal | None:
        """Returns the rule that refuses a request of a page; else its host may be connected."""
        target = parse_url(url)
        if isinstance(target, Refusal):
            return target
        if (refusal := check_target(target, self._rules())) is None:
            if len(self._requested) >= MAX_HOSTS:
                self._requested.clear()
            self._requested.add(target.host)
        return refusal

    async def connect(self, host: str, port: int, seconds: float | None) -> Stream:
        """Opens a connection under the rules; records a refusal.

        Raises:
            TargetRefusedError: the policy refuses the host.
            httpx2.ConnectError: the host cannot be reached.
        """
        if host not in self._requested and any(_is_below(host, each) for each in VENDOR):
            # Not recorded: no page is concerned.
            raise TargetRefusedError(Refusal("browser-service", f"No page requested {host}."))
        try:
            return await self._dialer(self._rules())(host, port, seconds)
        except TargetRefusedError as error:
            self.refused.append(Refused(host, error.refusal))
            raise

    @asynccontextmanager
    async def served(self) -> AsyncGenerator[None]:
        """Serves the proxy during the block."""
        proxy = Proxy(self.connect, _admit, credentials=self.credentials)
        opened = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
        (listener,) = opened.listeners  # a set of listeners would wrap errors into groups
        self.port = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610 - anyio's
        limit = anyio.CapacityLimiter(MAX_CONNECTIONS)

        async def serve(client: anyio.abc.ByteStream) -> None:
            async with client, limit:  # closes the connection also when the wait is cancelled
                await proxy.serve(client)

        async def accept() -> None:
            async with anyio.create_task_group() as connections:
                # Cancelling an accept may lose a connection that arrives meanwhile, so the listener
                # is closed instead.
                with anyio.CancelScope(shield=True), suppress(anyio.ClosedResourceError):
                    await listener.serve(serve, connections)

        async with in_background(accept):
            try:
                yield
            finally:
                await listener.aclose()


def _is_below(host: str, domain: str) -> bool:
    """Returns whether a host is the domain, or below it."""
    return host == domain or host.endswith(f".{domain}")


async def _admit(_: Target) -> Refusal | None:
    """Admits every host: the rules decide at the connection, after the name is resolved."""
    return None
