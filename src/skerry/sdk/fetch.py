"""Requests of plugins, under the network policy of the owner."""

from collections.abc import Callable, Mapping
from typing import Final

from skerry.net.live_client import LiveClient
from skerry.net.safe_fetch import MAX_BYTES, SECONDS, Fetched, FetchRequest, Outcome
from skerry.policy.network import NetworkRules

__all__ = ["Fetched", "Outcome", "PluginHttp"]
LiveRules = Callable[[], NetworkRules]
"""Returns the present rules of the owner."""
_DEFAULT_BYTES: Final = 2_000_000


class PluginHttp:
    """Fetches addresses as the tool `web_fetch` does; `PluginApi.http` gives it."""

    def __init__(self, rules: LiveRules, client: LiveClient | None = None) -> None:
        self._rules = rules
        self._client = client or LiveClient()

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
