"""Local model servers: their models, and their confirmation by the owner."""

from collections.abc import Callable, Sequence
from typing import Final

import anyio
import httpx2
import msgspec
from msgspec import Struct

from skerry.infra.http import BODY_LIMIT
from skerry.infra.untrusted_json import UNREADABLE
from skerry.ports.model import ModelOffer
from skerry.providers.builtin_providers import LocalServer
from skerry.providers.pins import Pins, PinState

PROBE_SECONDS: Final = 0.3
_FRESH: Final = 30.0  # seconds for which answers are cached

_LIMIT = 1024 * 1024


class LocalModel(Struct, frozen=True):
    """A model that a local server offers."""

    server: LocalServer
    id: str


class _Entry(msgspec.Struct):
    id: str


class _Listing(msgspec.Struct):
    data: list[_Entry]


class LocalServers:
    """Probes `servers`, caches their answers, and checks their confirmation by the owner."""

    def __init__(
        self,
        http: httpx2.AsyncClient,
        servers: Sequence[LocalServer],
        pins: Pins,
        monotonic: Callable[[], float],
    ) -> None:
        self._http = http
        self._servers = servers
        self._pins = pins
        self._monotonic = monotonic
        self._probing = anyio.Lock()
        self._answers: tuple[float, list[LocalModel]] | None = None

    @property
    def is_asked(self) -> bool:
        """Returns True when the servers were probed since the last `forget`."""
        return self._answers is not None

    def forget(self) -> None:
        """Drops the cached answers."""
        self._answers = None

    async def confirmed(self) -> list[LocalModel]:
        """Returns the models of confirmed servers."""
        models = await self._models()
        servers = {model.server.id: model.server for model in models}
        states = {name: self._pins.verdict(server) for name, server in servers.items()}
        return [model for model in models if states[model.server.id] is PinState.CONFIRMED]

    async def offers(self) -> tuple[ModelOffer, ...]:
        """Returns the unconfirmed servers that answer, as offers to the owner."""
        servers = {model.server.id: model.server for model in await self._models()}
        return tuple(
            self._pins.offer(server)
            for server in servers.values()
            if self._pins.verdict(server) in {PinState.UNCONFIRMED, PinState.CHANGED}
        )

    async def _models(self) -> list[LocalModel]:
        if not self._servers:
            return []
        async with self._probing:
            now = self._monotonic()
            if self._answers is None or now - self._answers[0] > _FRESH:
                self._answers = now, await probe(self._http, self._servers)
            return self._answers[1]


async def probe(http: httpx2.AsyncClient, servers: Sequence[LocalServer]) -> list[LocalModel]:
    """Returns the chat models of the servers that answer, in the order of `servers`.

    All servers are asked concurrently, without credentials. A server that does not return a list of
    models within 300 ms is skipped.
    """
    models: dict[str, list[LocalModel]] = {}

    async def ask(server: LocalServer) -> None:
        with anyio.move_on_after(PROBE_SECONDS):
            models[server.id] = await _models(http, server)

    async with anyio.create_task_group() as group:
        for server in servers:
            group.start_soon(ask, server)
    return [model for server in servers for model in models.get(server.id, [])]


async def _models(http: httpx2.AsyncClient, server: LocalServer) -> list[LocalModel]:
    request = httpx2.Request("GET", f"{server.base_url}/models", extensions={BODY_LIMIT: _LIMIT})
    try:
        response = await http.send(request)
        if response.status_code != httpx2.codes.OK:
            return []
        listing = msgspec.json.decode(response.content, type=_Listing)
    except (httpx2.HTTPError, *UNREADABLE):
        return []
    # Embedding models are listed too, and cannot chat.
    return [
        LocalModel(server, entry.id) for entry in listing.data if "embed" not in entry.id.lower()
    ]
