"""Answers the requests of a plugin's process: transcripts, embeddings, fetches and the clock."""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Meta, field

from skerry.model.errors import PluginError
from skerry.plugins.remote.declarations import RemoteObject
from skerry.sdk.api import PluginApi

if TYPE_CHECKING:
    from skerry.sdk.fetch import PluginServer
    from skerry.sdk.registrations import Event

MAX_LOG: Final = 4000
"""Limit of a line of the log, in characters."""
_LEVELS: Final = {"debug", "info", "warning", "error"}


class Fetch(RemoteObject, frozen=True):
    """Parameters of `http.fetch`; those of `PluginHttp.fetch`, and the server."""

    url: str
    server: str = ""
    """Address of a server that the configuration names; it may be local."""
    method: str = "GET"
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    max_bytes: Annotated[int, Meta(ge=1, le=16_777_216)] = 1_048_576
    seconds: Annotated[float, Meta(gt=0, le=30)] = 20.0


class Since(RemoteObject, frozen=True):
    """Parameters of `transcripts.since` and `transcripts.wait`."""

    cursor: int
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class Embed(RemoteObject, frozen=True):
    """Parameters of `embeddings.embed`."""

    texts: Annotated[list[str], Meta(max_length=256)]
    agent: str = "main"
    is_query: bool = False
    local_only: bool = False


class Serving:
    """Answers the requests of one process."""

    def __init__(self, api: PluginApi) -> None:
        self._api = api
        self._events: dict[str, Event] = {}
        self._servers: dict[str, PluginServer] = {}

    def add_event(self, name: str, text: str, scope: str) -> None:
        """Registers an event that the notification `event` sends."""
        self._events[name] = self._api.register_event(name, text, scope=scope)

    async def answer(self, method: str, params: Mapping[str, Any]) -> Any:
        """Answers a request.

        Raises:
            PluginError: the method is unknown, or the configuration does not allow it.
            ValueError: the parameters are invalid.
        """
        match method:
            case "clock.now":
                return self._api.clock.now_ms()
            case "http.fetch":
                return await self._fetched(msgspec.convert(params, Fetch))
            case "transcripts.latest":
                return await self._api.transcripts.latest()
            case "transcripts.since":
                since = msgspec.convert(params, Since)
                rows = await self._api.transcripts.since(since.cursor, since.limit)
                return [msgspec.structs.asdict(row) for row in rows]
            case "transcripts.wait":
                await self._api.transcripts.wait(msgspec.convert(params, Since).cursor)
                return None
            case "embeddings.embed":
                embed = msgspec.convert(params, Embed)
                embedded = await self._api.embeddings.embed(
                    embed.texts,
                    agent=embed.agent,
                    is_query=embed.is_query,
                    local_only=embed.local_only,
                )
                return msgspec.structs.asdict(embedded)
            case _:
                raise PluginError(f"The gateway has no method {method!r} for processes.")

    def note(self, method: str, params: Mapping[str, Any]) -> None:
        """Handles a notification: sends an event, or writes a line to the log."""
        logger: logging.Logger = self._api.logger
        if method == "log":
            level = params.get("level")
            name = level if level in _LEVELS else "info"
            text = str(params.get("text", ""))[:MAX_LOG]
            logger.log(logging.getLevelNamesMapping()[str(name).upper()], "%s", text)
            return
        event = self._events.get(str(params.get("name"))) if method == "event" else None
        payload = params.get("payload")
        if event is None or not isinstance(payload, dict):
            logger.warning("its process sent the unknown notification %.80r", method)
            return
        try:
            event(payload)
        except PluginError as error:
            logger.warning("%s", error)

    async def _fetched(self, fetch: Fetch) -> dict[str, Any]:
        values = msgspec.structs.asdict(fetch)
        name, url = values.pop("server"), values.pop("url")
        if name and name not in self._servers:
            self._servers[name] = self._api.http.server(name)
        http = self._servers[name] if name else self._api.http
        return msgspec.structs.asdict(await http.fetch(url, **values))
