"""HTTP requests of plugins, under the network policy of the owner."""

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
"""Returns the present network policy."""
_DEFAULT_BYTES: Final = 2_000_000


class PluginHttp:
    """Fetches addresses under the policy of the tool `web_fetch`; `PluginApi.http` returns it."""

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
        """Returns a client of one server that the plugin's configuration names.

        The server may have a local address and any port, which `fetch` refuses. Its connections are
        reused: keep the client.

        Raises:
            PluginError: no text in `plugins.entries.<id>.config` is this address.
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
        """Returns the response, or the rule that refused or ended the fetch. Does not raise.

        `tools.web.fetch.ssrfPolicy` decides about local addresses. After a redirect to another
        origin neither headers nor body are sent.

        Args:
            url: Address, http or https.
            method: HTTP method.
            headers: Headers of the request.
            body: Body of the request.
            max_bytes: Limit of the decoded response; beyond it the body is cut and `truncated`
                is True.
            seconds: Time limit of the whole fetch, at most 30.

        """
        limit = min(max_bytes, MAX_BYTES)
        request = FetchRequest(url, method, headers or {}, body, limit, seconds)
        return await self._client.fetch(request, self._rules())


class PluginServer:
    """HTTP client of one configured server; `PluginHttp.server` returns it."""

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
        """Returns the response, or the rule that refused or ended the fetch. Does not raise.

        The arguments are those of `PluginHttp.fetch`, whose policy applies to addresses of other
        servers.
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
    """Yields all strings in a nested configuration."""
    match value:
        case str():
            yield value
        case Mapping():
            for member in value.values():
                yield from texts_of(member)
        case Sequence():
            for member in value:
                yield from texts_of(member)
