"""TCP and TLS connections of plugins, for line protocols such as IRC."""

import ssl
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
from msgspec.structs import replace

from skerry.infra.sockets import Stream
from skerry.model.errors import PluginError
from skerry.net.connect import TargetRefusedError
from skerry.net.safe_fetch import SafeClient
from skerry.sdk.fetch import LiveRules, texts_of

__all__ = ("Connection", "ConnectionEndedError", "PluginSockets")
MAX_LINE: Final = 65_536
"""Limit of a line, in bytes; a longer line ends the connection."""
_READ: Final = 65_536
_WRITE_SECONDS: Final = 15.0
_SCHEMES: Final = frozenset({"tcp", "tls"})


class ConnectionEndedError(Exception):
    """The connection was not opened, broke, or was closed."""


class Connection:
    """An open connection. At most one task may read at a time; any task may write."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._received = bytearray()

    async def read_line(self, seconds: float) -> bytes | None:
        r"""Returns the next line without `\r\n` or `\n`; None when nothing arrived for `seconds`.

        Raises:
            ConnectionEndedError: the connection ended, or the line is longer than `MAX_LINE`.
        """
        while (end := self._received.find(b"\n")) < 0:
            if len(self._received) > MAX_LINE:
                raise ConnectionEndedError(f"The server sent a line of over {MAX_LINE} bytes.")
            try:
                data = await self._stream.read(_READ, seconds)
            except httpx2.ReadTimeout:
                return None
            except httpx2.HTTPError as error:
                raise ConnectionEndedError(f"The connection broke: {error}") from error
            if not data:
                raise ConnectionEndedError("The server closed the connection.")
            self._received += data
        line = bytes(self._received[:end]).removesuffix(b"\r")
        del self._received[: end + 1]
        return line

    async def write(self, data: bytes) -> None:
        """Sends bytes; returns when the operating system has accepted them, which has 15 s.

        Raises:
            ConnectionEndedError: the connection ended.
        """
        try:
            await self._stream.write(data, _WRITE_SECONDS)
        except httpx2.HTTPError as error:
            raise ConnectionEndedError(f"The connection broke: {error}") from error
        self._stream.flush()

    def close(self) -> None:
        """Closes at once."""
        self._stream.close()


class PluginSockets:
    """Opens connections to configured servers; `PluginApi.sockets` returns it."""

    def __init__(self, rules: LiveRules, config: Mapping[str, Any] | None = None) -> None:
        self._rules = rules
        self._config = config or {}

    async def open(self, address: str, seconds: float = 15.0) -> Connection:
        """Returns a connection to `tcp://host:port`, or an encrypted one to `tls://host:port`.

        The server may have a local address, since the owner configured it. `seconds` limits
        connecting, and the TLS handshake.

        Raises:
            PluginError: no text in `plugins.entries.<id>.config` is this address.
            ConnectionEndedError: the server cannot be reached, or its certificate is invalid.
        """
        host, port, is_encrypted = self._named(address)
        rules = self._rules()
        rules = replace(rules, allowed_hosts=rules.allowed_hosts | {(host, port)})
        try:
            stream = await SafeClient(rules).connect(host, port, seconds)
            if is_encrypted:
                await stream.start_tls(ssl.create_default_context(), host, seconds)
        except (TargetRefusedError, httpx2.HTTPError) as error:
            raise ConnectionEndedError(f"{host}:{port} cannot be reached: {error}") from error
        return Connection(stream)

    def _named(self, address: str) -> tuple[str, int, bool]:
        try:
            parts = urlsplit(address)
            port = parts.port
        except ValueError as error:
            raise PluginError(f"{address!r} is not an address: {error}.") from None
        if parts.scheme not in _SCHEMES or not parts.hostname or port is None:
            message = f"{address!r} is not an address of a server."
            raise PluginError(message, "Write it as tcp://host:port or tls://host:port.")
        if address not in texts_of(self._config):
            raise PluginError(
                f"{address!r} is not named in the configuration of the plugin.",
                "Name it in plugins.entries.<id>.config.",
            )
        return parts.hostname, port, parts.scheme == "tls"
