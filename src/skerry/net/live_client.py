"""A client that follows the rules of the owner: it is made anew when they change."""

from collections.abc import Callable

from skerry.net.connect import Dial
from skerry.net.dns import Resolve
from skerry.net.safe_fetch import Fetched, FetchRequest, SafeClient
from skerry.policy.network import NetworkRules

MakeClient = Callable[[NetworkRules], SafeClient]
"""Returns a client under these rules."""


def make_client(
    rules: NetworkRules, *, resolve: Resolve | None = None, dial: Dial | None = None
) -> SafeClient:
    """Returns a client that keeps no connection: pages of one site are seldom fetched in a row."""
    if dial is None:
        return SafeClient(rules, resolve=resolve, idle_limit=0)
    return SafeClient(rules, resolve=resolve, dial=dial, idle_limit=0)


class LiveClient:
    """Fetches under the present rules."""

    def __init__(self, make: MakeClient = make_client) -> None:
        self._make = make
        self._rules = NetworkRules()
        self._client: SafeClient | None = None

    async def fetch(self, request: FetchRequest, rules: NetworkRules) -> Fetched:
        """Returns how the fetch ended."""
        if self._client is None or rules != self._rules:
            self._client, self._rules = self._make(rules), rules
        return await self._client.fetch(request)
