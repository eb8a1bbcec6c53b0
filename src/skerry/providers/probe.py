"""Asks the known local servers which models they have."""

from collections.abc import Sequence
from typing import Final

import anyio
import httpx2
import msgspec
from msgspec import Struct

from skerry.infra.http import BODY_LIMIT
from skerry.infra.untrusted_json import UNREADABLE
from skerry.providers.builtin_providers import LocalServer

PROBE_SECONDS: Final = 0.3

_LIMIT = 1024 * 1024


class LocalModel(Struct, frozen=True):
    """A model that a local server offers."""

    server: LocalServer
    id: str


class _Entry(msgspec.Struct):
    id: str


class _Listing(msgspec.Struct):
    data: list[_Entry]


async def probe(http: httpx2.AsyncClient, servers: Sequence[LocalServer]) -> list[LocalModel]:
    """Returns the chat models of the servers that answer, in the order of `servers`.

    All are asked at once, without any credential; a server that is silent for 300 ms, or answers
    with anything but a list of models, is not one.
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
    # An embedding model is listed with the others and cannot chat.
    return [
        LocalModel(server, entry.id) for entry in listing.data if "embed" not in entry.id.lower()
    ]
