"""Reads rooms: their members and names, earlier events, and messages that others answer."""

import logging
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Raw

from skerry.channels.matrix import wire
from skerry.channels.matrix.api import CLIENT, ApiError, MatrixApi, path
from skerry.sdk.channels import AccountId, Quoted

logger = logging.getLogger(__name__)

_PAGES: Final = 20
"""Pages of events that are read where the server left some out."""
_AT_ONCE: Final = 100
"""Events of a page."""
_MOST_ROOMS: Final = 1000
"""Rooms whose members are kept."""


class RoomReader:
    """Reads the rooms of one account; keeps who is in them until that may have changed."""

    def __init__(self, account: AccountId, api: MatrixApi) -> None:
        self._account = account
        self._api = api
        self._kept: dict[str, wire.Room] = {}

    def forget(self, room_id: str) -> None:
        """Reads the room anew when it is needed."""
        self._kept.pop(room_id, None)

    async def timed(
        self, room_id: str, timeline: wire.Timeline, since: str
    ) -> list[tuple[int, str, wire.Event]]:
        """Returns new events with times that never go back, by which rooms can be merged.

        Raises:
            ApiError: the server does not show the room.
        """
        rows: list[tuple[int, str, wire.Event]] = []
        for raw in await self._events(room_id, timeline, since):
            try:
                event = wire.event.decode(raw)
            except msgspec.DecodeError as error:
                # An event that somebody made of another shape must not hold back all others.
                logger.warning("matrix/%s: an event is unreadable: %s", self._account, error)
                continue
            time = max(rows[-1][0] if rows else 0, event.origin_server_ts)
            rows.append((time, room_id, event))
        return rows

    async def _events(self, room_id: str, timeline: wire.Timeline, since: str) -> Sequence[Raw]:
        """Returns the new events of a room, those that the server left out too, in order."""
        if not timeline.limited or not timeline.prev_batch:
            return timeline.events
        earlier: list[Raw] = []
        end = timeline.prev_batch
        where = f"{CLIENT}/rooms/{path(room_id)}/messages"
        for _ in range(_PAGES):
            query = {"dir": "b", "from": end, "to": since, "limit": str(_AT_ONCE)}
            answer = wire.page.decode(await self._api.get(where, query))
            earlier += answer.chunk
            if not answer.end or not answer.chunk:
                break
            end = answer.end
        return [*reversed(earlier), *timeline.events]

    async def get(self, room_id: str) -> wire.Room:
        """Returns a room with its members.

        Raises:
            ApiError: the server does not show it.
        """
        room = self._kept.get(room_id)
        if room is None:
            where = f"{CLIENT}/rooms/{path(room_id)}"
            members = wire.members.decode(await self._api.get(f"{where}/joined_members"))
            name = ""
            if len(members.joined) > 2:  # noqa: PLR2004 - a direct chat needs no name
                name = await self._room_name(where)
            if len(self._kept) >= _MOST_ROOMS:
                self._kept.pop(next(iter(self._kept)))
            room = self._kept[room_id] = wire.Room(room_id, members, name)
        return room

    async def _room_name(self, where: str) -> str:
        try:
            answer = await self._api.get(f"{where}/state/m.room.name")
        except ApiError as error:
            if error.status == 404:  # noqa: PLR2004 - HTTP's Not Found: it has none
                return ""
            raise
        name = msgspec.json.decode(answer).get("name")
        return name if isinstance(name, str) else ""

    async def quoted(self, room: wire.Room, event: wire.Event, my_id: str) -> Quoted | None:
        """Returns the message that one answers; without its text where it cannot be read."""
        quoted_id = wire.reply_id(event)
        if not quoted_id:
            return None
        try:
            where = f"{CLIENT}/rooms/{path(room.id)}/event/{path(quoted_id)}"
            return wire.quoted(wire.event.decode(await self._api.get(where)), room, my_id)
        except (ApiError, msgspec.DecodeError) as error:
            logger.info("matrix/%s: %s cannot be read: %s", self._account, quoted_id, error)
            return Quoted(quoted_id)
