"""A client that is made again when the owner's network rules change."""

from collections.abc import Callable

from skerry.net.connect import Dial
from skerry.net.dns import Resolve
from skerry.net.safe_fetch import Fetched, FetchRequest, SafeClient
from skerry.policy.network import NetworkRules

MakeClient = Callable[[NetworkRules], SafeClient]
"""Returns a client that applies these rules."""


def make_client(
    rules: NetworkRules, *, resolve: Resolve | None = None, dial: Dial | None = None
) -> SafeClient:
    """Returns a client that keeps no idle connections: pages of one site are seldom consecutive."""
    if dial is None:
        return SafeClient(rules, resolve=resolve, idle_limit=0)
    return SafeClient(rules, resolve=resolve, dial=dial, idle_limit=0)


class LiveClient:
    """Fetches under the rules of each call."""

    def __init__(self, make: MakeClient = make_client) -> None:
        self._make = make
        self._rules = NetworkRules()
        self._client: SafeClient | None = None

    async def fetch(self, request: FetchRequest, rules: NetworkRules) -> Fetched:
        """Returns the result of the fetch under `rules`; see `SafeClient.fetch`."""
        if self._client is None or rules != self._rules:
            self._client, self._rules = self._make(rules), rules
        return await self._client.fetch(request)
