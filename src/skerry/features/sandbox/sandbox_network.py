"""Network `proxy` of a command: one port inside, whose connections the gateway serves.

The command reaches only the loopback device of its own namespace. The gateway owns a listener there
and sends allowed connections through its guarded client.
"""

import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

import anyio
import anyio.abc
from msgspec import Struct

from skerry.infra.process import ProcessError, Program, allowed, module, run
from skerry.infra.supervise import in_background
from skerry.model.errors import SandboxError
from skerry.net.proxy import Proxy
from skerry.net.safe_fetch import SafeClient
from skerry.policy.network import NetworkRules, check_target, matches_host
from skerry.policy.urls import Refusal, Target

PORT: Final = 3128
"""Port inside, for a command with its own network."""
_LOCAL: Final = "localhost,127.0.0.1,::1"
_SECONDS: Final = 20.0

Join = Callable[[int], Awaitable[Mapping[str, str]]]
"""Opens the port in the network namespace of the process with this id; returns the environment
variables that name the proxy."""


class Hosts(Struct, frozen=True):
    """Hosts that commands may reach."""

    allowed: tuple[str, ...]
    """Host names; `*.example.com` matches each subdomain."""
    rules: NetworkRules
    """Policy for the resolved addresses."""
    ask: Callable[[str, int], Awaitable[bool]] | None = None
    """Asks a person about a host that is not listed; None where no person can answer."""

    async def admit(self, target: Target) -> Refusal | None:
        """Returns the refusal of a host; None for an allowed host."""
        if any(matches_host(pattern, target.host) for pattern in self.allowed):
            return None
        # The policy refuses this host whatever a person answers, so there is no question.
        if (refusal := check_target(target, self.rules)) is not None:
            return refusal
        if self.ask is not None and await self.ask(target.host, target.port):
            return None
        return Refusal(
            "host-not-allowed",
            f"{target.host} is not in agents.defaults.sandbox.allowedHosts, and nobody allowed it.",
        )


@asynccontextmanager
async def proxied(
    hosts: Hosts, environ: Mapping[str, str], port: int = PORT
) -> AsyncGenerator[Join]:
    """Serves one command for a block; yields the function that opens its port (0: any)."""
    listeners: list[anyio.abc.SocketListener] = []
    is_open = anyio.Event()
    async with SafeClient(hosts.rules, idle_limit=0) as client:
        proxy = Proxy(client.connect, hosts.admit)

        async def serve() -> None:
            await is_open.wait()
            async with listeners[0] as listener:
                await listener.serve(proxy.serve)

        async def join(pid: int) -> Mapping[str, str]:
            listener = await _listener(pid, port, environ)
            number = listener.getsockname()[1]
            listeners.append(await anyio.abc.SocketListener.from_socket(listener))
            is_open.set()
            return variables(number)

        async with in_background(serve):
            yield join


def variables(port: int = PORT) -> Mapping[str, str]:
    """Returns the environment variables that name the proxy on a port."""
    address = f"http://127.0.0.1:{port}"
    return {
        **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), address),
        **dict.fromkeys(("NO_PROXY", "no_proxy"), _LOCAL),
    }


async def _listener(pid: int, port: int, environ: Mapping[str, str]) -> socket.socket:
    """Returns the listener that `network_child` opened in the namespace of a process.

    Raises:
        SandboxError: the listener cannot be opened.
    """
    parent_end, child_end = socket.socketpair()
    with parent_end, child_end:
        numbers = map(str, (pid, child_end.fileno(), port))
        program = Program(
            module("skerry.features.sandbox.network_child", *numbers),
            allowed(environ),
            descriptors=[child_end.fileno()],
        )
        try:
            finished = await run(program, seconds=_SECONDS)
        except ProcessError as error:
            raise SandboxError(f"The network of the sandbox cannot be opened: {error}") from error
        try:
            _, descriptors, _, _ = socket.recv_fds(parent_end, 1, 1, socket.MSG_DONTWAIT)
        except BlockingIOError:
            descriptors = []
        if finished.code or not descriptors:
            lines = finished.err.strip().splitlines() or [f"code {finished.code}"]
            message = f"The network of the sandbox cannot be opened: {lines[-1][:200]}"
            raise SandboxError(message, "Use the network `none`.")
        return socket.socket(fileno=descriptors[0])
