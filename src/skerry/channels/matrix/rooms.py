"""Reads rooms: members, names, encryption, earlier events, and answered messages."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from skerry.channels.matrix import wire
from skerry.channels.matrix.api import CLIENT, MatrixApi, path
from skerry.channels.matrix.crypto import Crypto, EncryptionError
from skerry.infra.untrusted_json import UNREADABLE
from skerry.sdk.channel_errors import PlatformError
from skerry.sdk.channel_host import Recent, Vault, VaultEntry
from skerry.sdk.channels import AccountId, Quoted

logger = logging.getLogger(__name__)

_PAGES: Final = 20
"""Limit on the pages of events that a sync omitted."""
_AT_ONCE: Final = 100
"""Events of a page."""
_MAX_ROOMS: Final = 1000
"""Number of rooms with cached members."""
_ROOM: Final = "room"
"""Kind of the records with the encryption of rooms."""
_OK: Final = 200
_NOT_FOUND: Final = 404


class RoomReader:
    """Reads the rooms of one account; caches their members until a change."""

    def __init__(self, account: AccountId, api: MatrixApi, vault: Vault, crypto: Crypto) -> None:
        self._account = account
        self._api = api
        self._vault = vault
        self._crypto = crypto
        self._cache = Recent[str, wire.Room](_MAX_ROOMS)
        self._encryption = Recent[str, Mapping[str, Any] | None](_MAX_ROOMS)
        self._openness = Recent[str, bool](_MAX_ROOMS)

    def forget(self, room_id: str) -> None:
        """Removes the room from the cache, so that it is read again."""
        self._cache.pop(room_id, None)

    def forget_encryption(self, room_id: str) -> None:
        """Requests the encryption of the room again at its next use."""
        self._encryption.pop(room_id, None)

    async def encryption(self, room_id: str) -> Mapping[str, Any] | None:
        """Returns the encryption of a room; None for a room without it.

        A room that was encrypted stays so, whatever the homeserver says later.

        Raises:
            PlatformError: the server does not show the room.
        """
        if room_id not in self._encryption:
            self._encryption[room_id] = await self._read_encryption(room_id)
        return self._encryption[room_id]

    async def _read_encryption(self, room_id: str) -> Mapping[str, Any] | None:
        stored = await self._vault.read(_ROOM, room_id)
        try:
            request_path = f"{CLIENT}/rooms/{path(room_id)}/state/{wire.ENCRYPTION}"
            answer = await self._api.get(request_path)
        except PlatformError as error:
            if error.status != _NOT_FOUND:
                raise
            return msgspec.json.decode(stored, type=dict[str, Any]) if stored else None
        if answer != stored:
            await self._vault.write([VaultEntry(_ROOM, room_id, answer)])
        return msgspec.json.decode(answer, type=dict[str, Any])

    async def timed(
        self, room_id: str, timeline: wire.Timeline, since: str
    ) -> list[tuple[int, str, wire.RoomEvent]]:
        """Returns new events with times that never decrease, by which rooms can be merged.

        Raises:
            PlatformError: the server does not show the room.
        """
        rows: list[tuple[int, str, wire.RoomEvent]] = []
        for raw in await self._events(room_id, timeline, since):
            try:
                event = wire.read_event(raw)
            except UNREADABLE as error:
                # An event that somebody made of another shape must not hold back all others.
                logger.warning("matrix/%s: an event is unreadable: %s", self._account, error)
                continue
            if event.type == wire.ENCRYPTION or timeline.limited:
                self.forget_encryption(room_id)
            if event.type in wire.ACCESS or timeline.limited:
                self._openness.pop(room_id, None)
            time = max(rows[-1][0] if rows else 0, event.origin_server_ts)
            rows.append((time, room_id, event))
        return rows

    async def _events(self, room_id: str, timeline: wire.Timeline, since: str) -> Sequence[Raw]:
        """Returns the new events of a room in order, with those that the sync omitted."""
        if not timeline.limited or not timeline.prev_batch:
            return timeline.events
        earlier: list[Raw] = []
        end = timeline.prev_batch
        request_path = f"{CLIENT}/rooms/{path(room_id)}/messages"
        for _ in range(_PAGES):
            query = {"dir": "b", "from": end, "to": since, "limit": str(_AT_ONCE)}
            answer = wire.page.decode(await self._api.get(request_path, query))
            earlier += answer.chunk
            if not answer.end or not answer.chunk:
                break
            end = answer.end
        return [*reversed(earlier), *timeline.events]

    async def get(self, room_id: str) -> wire.Room:
        """Returns a room with its members.

        Raises:
            PlatformError: the server does not show it.
        """
        room = self._cache.get(room_id)
        if room is None:
            request_path = f"{CLIENT}/rooms/{path(room_id)}"
            members = wire.members.decode(await self._api.get(f"{request_path}/joined_members"))
            is_open = wire.is_pair(members) and await self._is_open(room_id)
            name = ""
            if is_open or not wire.is_pair(members):  # a direct chat needs no name
                name = await self._room_name(request_path)
            room = self._cache[room_id] = wire.Room(room_id, members, name, is_open)
        return room

    async def _is_open(self, room_id: str) -> bool:
        """Returns whether others than its members may read a room; cached until a change."""
        if room_id not in self._openness:
            self._openness[room_id] = await self._read_openness(room_id)
        return self._openness[room_id]

    async def _read_openness(self, room_id: str) -> bool:
        try:
            answer = await self._api.get(f"{CLIENT}/rooms/{path(room_id)}/state")
            return wire.is_open([wire.read_event(raw) for raw in wire.states.decode(answer)])
        except PlatformError as error:
            if error.status != _OK:
                raise
        except UNREADABLE as error:
            logger.info("matrix/%s: the state of %s: %s", self._account, room_id, error)
        return True  # a state that is too large or cannot be read: many may have access

    async def _room_name(self, request_path: str) -> str:
        try:
            answer = await self._api.get(f"{request_path}/state/m.room.name")
        except PlatformError as error:
            if error.status == _NOT_FOUND:  # it has none
                return ""
            raise
        name = msgspec.json.decode(answer).get("name")
        return name if isinstance(name, str) else ""

    async def quoted(self, room: wire.Room, event: wire.RoomEvent, my_id: str) -> Quoted | None:
        """Returns the message that another one answers; without text if it cannot be read."""
        quoted_id = wire.reply_id(event)
        if not quoted_id:
            return None
        try:
            request_path = f"{CLIENT}/rooms/{path(room.id)}/event/{path(quoted_id)}"
            quoted = wire.read_event(await self._api.get(request_path))
            if quoted.type == wire.ENCRYPTED:
                quoted = await self._crypto.decrypt(room.id, quoted, note=False)
            return wire.quoted(quoted, room, my_id)
        except (PlatformError, EncryptionError, *UNREADABLE) as error:
            logger.info("matrix/%s: %s cannot be read: %s", self._account, quoted_id, error)
            return Quoted(quoted_id)
