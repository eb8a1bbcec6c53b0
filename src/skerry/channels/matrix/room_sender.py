"""Sends parts, edits and reactions to rooms, encrypted in encrypted rooms, and locates parts."""

import hashlib
from collections.abc import Callable
from typing import Any, Final

import anyio.to_thread
import msgspec

from skerry.channels.matrix import encrypted_files, wire
from skerry.channels.matrix.api import CLIENT, MatrixApi, path
from skerry.channels.matrix.crypto import Crypto, EncryptionError
from skerry.channels.matrix.markup import rendered
from skerry.channels.matrix.rooms import RoomReader
from skerry.infra.untrusted_json import UNREADABLE
from skerry.sdk.channel_errors import RateLimit
from skerry.sdk.channel_files import read_file
from skerry.sdk.channels import (
    DeliveryDelayedError,
    DeliveryRefusedError,
    OutboundMedia,
    OutboundPart,
    Receipt,
    ReplyTo,
)

TYPING_MS: Final = 12_000
_SEARCHED_MESSAGES: Final = 100
"""Events among which a part is searched."""
_UNENCRYPTED: Final = frozenset({"m.reaction"})
"""Kinds of events that clients read unencrypted alone."""


class RoomSender:
    """Messages of one account to rooms."""

    def __init__(
        self,
        api: MatrixApi,
        rooms: RoomReader,
        crypto: Crypto,
        is_connected: Callable[[], bool],
    ) -> None:
        self._api = api
        self._rooms = rooms
        self._crypto = crypto
        self._is_connected = is_connected
        self._limit = RateLimit("the homeserver")

    async def send(self, part: OutboundPart) -> Receipt:
        """Sends one part; the same part sent again is the same event."""
        self._limit.refuse()
        room_id = part.to.peer.id
        with self._limit.sending():
            if part.additions.media is not None:
                content = await self._file(room_id, part, part.additions.media)
            else:
                content = _worded("m.text", part.text)
            content |= {wire.PART: part.nonce} | _relation(part.to)
            return await self.put(room_id, wire.MESSAGE, transaction(part), content)

    async def put(
        self, room_id: str, kind: str, transaction_id: str, content: dict[str, Any]
    ) -> Receipt:
        """Sends one event, encrypted if the room is.

        Raises:
            PlatformError: the homeserver does not take it.
            DeliveryRefusedError: the room is encrypted, and the account cannot encrypt.
        """
        encryption = None if kind in _UNENCRYPTED else await self._rooms.encryption(room_id)
        if encryption is not None:
            if not self._is_connected():
                self._rooms.forget(room_id)  # members may have left since the last sync
            room = await self._rooms.get(room_id)
            members = room.members.joined
            try:
                content = await self._crypto.encrypt(room_id, members, encryption, kind, content)
            except EncryptionError as error:
                raise DeliveryRefusedError(f"{room_id} is encrypted. {error}") from None
            kind = wire.ENCRYPTED
        request_path = f"{CLIENT}/rooms/{path(room_id)}/send/{path(kind, transaction_id)}"
        try:
            return Receipt((wire.sent.decode(await self._api.put(request_path, content)).event_id,))
        except msgspec.DecodeError:
            return Receipt(())  # it was sent; its id is for edits alone

    async def _file(self, room_id: str, part: OutboundPart, media: OutboundMedia) -> dict[str, Any]:
        file = await read_file(media)
        data, name = file.data, file.name
        content = _worded(wire.TYPES[media.kind], part.text.strip() or name)
        info = {"mimetype": media.mime, "size": len(data)}
        content |= {"filename": name, "info": info}
        if await self._rooms.encryption(room_id) is None:
            content["url"] = await self._uploaded(data, media.mime, name)
        elif self._crypto.problem:
            problem = f"{self._crypto.problem} {self._crypto.remedy}"
            raise DeliveryRefusedError(f"{room_id} is encrypted. {problem}")
        else:
            encrypted, described = await anyio.to_thread.run_sync(encrypted_files.sealed, data)
            described["url"] = await self._uploaded(encrypted, "application/octet-stream", "")
            content["file"] = described
        if media.voice:
            content["org.matrix.msc3245.voice"] = {}
        return content

    async def _uploaded(self, data: bytes, mime: str, name: str) -> str:
        try:
            return wire.uploaded.decode(await self._api.upload(data, mime, name)).content_uri
        except msgspec.DecodeError as error:
            raise DeliveryDelayedError(f"The upload has no address: {error}") from None

    async def typing(self, to: ReplyTo, my_id: str) -> None:
        """Shows for twelve seconds that an answer is being written."""
        if self._limit.is_reached or not my_id:
            return
        request_path = f"{CLIENT}/rooms/{path(to.peer.id)}/typing/{path(my_id)}"
        await self._api.put(request_path, {"typing": True, "timeout": TYPING_MS})

    async def locate(self, part: OutboundPart, my_id: str) -> Receipt | None:
        """Returns the event of a part among the last events of its room."""
        room_id = part.to.peer.id
        request_path = f"{CLIENT}/rooms/{path(room_id)}/messages"
        answer = await self._api.get(request_path, {"dir": "b", "limit": str(_SEARCHED_MESSAGES)})
        for raw in wire.page.decode(answer).chunk:
            try:
                event = wire.read_event(raw)
            except UNREADABLE:
                continue
            if event.sender != my_id:
                continue
            if event.type == wire.ENCRYPTED:
                try:
                    event = await self._crypto.decrypt(room_id, event, note=False)
                except EncryptionError:
                    continue  # of an earlier device
            if event.content.get(wire.PART) == part.nonce:
                return Receipt((event.event_id,))
        return None

    async def edit(self, to: ReplyTo, platform_id: str, text: str) -> None:
        """Replaces the text of a message of the account."""
        self._limit.refuse()
        content = _worded("m.text", text)
        replaced = content | {
            "body": f"* {text}",
            "m.new_content": dict(content),
            "m.relates_to": {"rel_type": "m.replace", "event_id": platform_id},
        }
        await self._put_once(to.peer.id, wire.MESSAGE, replaced, platform_id, text)

    async def react(self, to: ReplyTo, emoji: str) -> None:
        """Sets a reaction of the account, which is never removed."""
        if not emoji or not to.message_id:
            return
        message_id = to.message_id.rpartition(":$")[0] or to.message_id
        relation = {"rel_type": "m.annotation", "event_id": message_id, "key": emoji}
        await self._put_once(
            to.peer.id, "m.reaction", {"m.relates_to": relation}, message_id, emoji
        )

    async def notify(self, room_id: str, text: str, about: str) -> None:
        """Sends one notice about an event to a room; programs do not answer notices."""
        await self._put_once(room_id, wire.MESSAGE, _worded("m.notice", text), about)

    async def _put_once(
        self, room_id: str, kind: str, content: dict[str, Any], *parts: str
    ) -> None:
        digest = hashlib.sha256("\0".join((kind, *parts)).encode()).hexdigest()[:32]
        with self._limit.sending():
            await self.put(room_id, kind, f"skerry-{digest}", content)


def transaction(part: OutboundPart) -> str:
    """Returns the id of the transaction that sends a part: the same part has the same."""
    named = f"{part.nonce}\0{part.text}"  # a repeated part with a mark may be cut in several
    return "skerry-" + hashlib.sha256(named.encode()).hexdigest()[:32]


def _worded(kind: str, text: str) -> dict[str, Any]:
    content: dict[str, Any] = {"msgtype": kind, "body": text, "m.mentions": {}}
    if html := rendered(text):
        content |= {"format": "org.matrix.custom.html", "formatted_body": html}
    return content


def _relation(to: ReplyTo) -> dict[str, Any]:
    """Returns the thread, and the message that is quoted."""
    quote = to.quote or ""
    answers: dict[str, Any] = {}
    if quote.startswith("$"):
        answers = {"m.in_reply_to": {"event_id": quote}}
    if to.thread_id is not None:
        root = {"rel_type": "m.thread", "event_id": to.thread_id}
        if not answers:
            answers = {"m.in_reply_to": {"event_id": to.thread_id}, "is_falling_back": True}
        return {"m.relates_to": root | answers}
    return {"m.relates_to": answers} if answers else {}
