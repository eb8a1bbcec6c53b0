"""Requests of plugins, under the network policy of the owner."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from skerry.model.errors import PluginError
from skerry.net.live_client import LiveClient
from skerry.net.safe_fetch import (
    MAX_BYTES,
    SECONDS,
    Fetched,
    FetchRequest,
    Outcome,
    SafeClient,
)
from skerry.policy.network import NetworkRules
from skerry.policy.urls import Refusal, parse_url

__all__ = ["Fetched", "Outcome", "PluginHttp", "PluginServer"]
LiveRules = Callable[[], NetworkRules]
"""Returns the present rules of the owner."""
_DEFAULT_BYTES: Final = 2_000_000


class PluginHttp:
    """Fetches addresses as the tool `web_fetch` does; `PluginApi.http` gives it."""

    def __init__(
        self,
        rules: LiveRules,
        client: LiveClient | None = None,
        *,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self._rules = rules
        self._config = config or {}
        self._client = client or LiveClient()

    def server(self, url: str) -> "PluginServer":
        """Returns a client of one server that the owner named in the plugin's configuration.

        That server may have a local address and any port, which `fetch` refuses. Its connections
        are kept for the next request.

        Raises:
            PluginError: no text of `plugins.entries.<id>.config` is this address.
        """
        target = parse_url(url)
        if isinstance(target, Refusal):
            raise PluginError(f"{url!r} is not an address: {target.reason}")
        if url not in texts_of(self._config):
            raise PluginError(
                f"{url!r} is not named in the configuration of the plugin.",
                "Use `http.fetch` for addresses of messages and models.",
            )
        return PluginServer(target.host, target.port, self._rules)

    async def fetch(
        self,
        url: str,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        max_bytes: int = _DEFAULT_BYTES,
        seconds: float = SECONDS,
    ) -> Fetched:
        """Returns the response, or the rule that refused or ended the fetch; raises nothing.

        Local addresses are open as far as `tools.web.fetch.ssrfPolicy` says. Another origin gets
        neither the headers nor the body.

        Args:
            url: Address, http or https.
            method: HTTP method.
            headers: Headers of the request.
            body: Body of the request.
            max_bytes: Decoded bytes of the response; its beginning is kept, `truncated` is true.
            seconds: Limit of the whole fetch, at most 30.

        """
        limit = min(max_bytes, MAX_BYTES)
        request = FetchRequest(url, method, headers or {}, body, limit, seconds)
        return await self._client.fetch(request, self._rules())


class PluginServer:
    """Requests to one server of the owner's configuration; `PluginHttp.server` makes it."""

    def __init__(self, host: str, port: int, rules: LiveRules) -> None:
        self._named = frozenset({(host, port)})
        self._rules = rules
        self._used_rules = rules()
        self._client = self._make_client(self._used_rules)

    async def fetch(
        self,
        url: str,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        max_bytes: int = _DEFAULT_BYTES,
        seconds: float = SECONDS,
    ) -> Fetched:
        """Returns the response, or the rule that refused or ended the fetch; raises nothing.

        The arguments are those of `PluginHttp.fetch`. An address of another server is fetched as
        that does.
        """
        rules = self._rules()
        if rules is not self._used_rules and rules != self._used_rules:
            self._used_rules, self._client = rules, self._make_client(rules)
        limit = min(max_bytes, MAX_BYTES)
        request = FetchRequest(url, method, headers or {}, body, limit, seconds)
        return await self._client.fetch(request)

    def _make_client(self, rules: NetworkRules) -> SafeClient:
        rules = replace(rules, allowed_hosts=rules.allowed_hosts | self._named)
        return SafeClient(rules, idle_limit=2)


def texts_of(value: object) -> Iterator[str]:
    """Yields every text in a configuration."""
    match value:
        case str():
            yield value
        case Mapping():
            for member in value.values():
                yield from texts_of(member)
        case Sequence():
            for member in value:
                yield from texts_of(member)
