"""The MemWal server: a client for each agent, and whether the server answers."""

from typing import Final

from skerry.sdk.api import PluginApi
from skerry_memwal.client import Client, Health, MemWalError
from skerry_memwal.namespaces import namespace_of
from skerry_memwal.options import E2E, Keys, Options
from skerry_memwal.signing import Signer

MAX_FAILURES: Final = 3
"""Consecutive failures after which no prompt waits for the server until it answers again."""


class Relayer:
    """One server with the keys of all agents."""

    def __init__(self, api: PluginApi, options: Options) -> None:
        self.options = options
        self.logger: Final = api.logger
        self._clock = api.clock
        self._server = api.http.server(api.config["serverUrl"])
        self._embeddings = api.embeddings
        self._clients: dict[tuple[Keys, str], Client] = {}
        self._failures = 0
        self.error = ""
        """Reason of the last failure; empty after a success."""

    @property
    def is_resting(self) -> bool:
        """Returns whether the server failed so often that prompts no longer wait for it."""
        return self._failures >= MAX_FAILURES

    def client(self, agent: str) -> Client:
        """Returns the client with the keys of an agent."""
        keys, is_e2e = self.options.keys_of(agent), self.options.mode == E2E
        name = keys, agent if is_e2e else ""
        client = self._clients.get(name)
        if client is None:
            signer = Signer(keys.private_key, keys.account_id, self._clock.now_ms)
            client = Client(
                self._server, self.options.server_url, signer, self.options.request_seconds
            )
            if is_e2e:
                client = self._sealed(client, keys, agent)
            self._clients[name] = client
        return client

    def _sealed(self, client: Client, keys: Keys, agent: str) -> Client:
        # Imported here: few installations use this mode.
        from skerry_memwal.cipher import Cipher  # noqa: PLC0415 - as above
        from skerry_memwal.sealed import SealedClient  # noqa: PLC0415 - as above

        cipher = Cipher(keys.private_key, keys.account_id)
        return SealedClient(client, cipher, self._embeddings, agent)

    def namespace(self, agent: str) -> str:
        """Returns the namespace of an agent's memories."""
        return namespace_of(agent, self.options.default_namespace)

    def answered(self) -> None:
        """Records that the server answered."""
        self._failures, self.error = 0, ""

    def failed(self, error: MemWalError) -> None:
        """Records that a request failed; a refusal shows that the server works."""
        self.error = str(error)
        if error.retry:
            self._failures += 1

    async def probe(self) -> Health | None:
        """Requests the state of the server; returns None if it does not answer."""
        try:
            health = await self.client("main").health()
        except MemWalError as error:
            self.failed(error)
            return None
        self.answered()
        return health
