"""One Matrix account: receives by long requests, sends texts, files, edits and reactions."""

import hashlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import msgspec

from skerry.channels.matrix import wire
from skerry.channels.matrix.api import CLIENT, ApiError, MatrixApi, path
from skerry.channels.matrix.config import MatrixAccount
from skerry.channels.matrix.markup import rendered
from skerry.channels.matrix.rooms import RoomReader
from skerry.infra.backoff import Backoff
from skerry.sdk.channel_host import ChannelHost, Outcome
from skerry.sdk.channels import (
    AccountState,
    Attachment,
    Capabilities,
    ConnectionState,
    DeliveryDelayedError,
    DeliveryRefusedError,
    Inbox,
    MediaError,
    OutboundMedia,
    OutboundPart,
    Receipt,
    ReplyTo,
    Settlement,
    TextUnit,
)

logger = logging.getLogger(__name__)

WAITS: Final = Backoff(base=1.0, cap=60.0)
"""Waits between attempts to reach the server."""
LOGIN_WAIT: Final = 300.0
"""Seconds between two attempts with a token that was refused."""
MOST_TEXT: Final = 12_000
"""Bytes of a message: an event has 65,536 at most, and the text is in it twice."""
TYPING_MS: Final = 12_000
_SINCE: Final = "since"
_TAKEN: Final = "taken"
_MOST_TAKEN: Final = 1000
_LOOKED_AT: Final = 100
"""Events among which a part is searched."""
_REFUSED_TOKEN: Final = frozenset({"M_UNKNOWN_TOKEN", "M_MISSING_TOKEN", "M_USER_DEACTIVATED"})
_FOR_GOOD: Final = frozenset({400, 403, 404, 413})
_FILTER: Final = msgspec.json.encode(
    {
        "presence": {"types": []},
        "account_data": {"types": []},
        "room": {
            "timeline": {"limit": 50, "types": ["m.room.message", "m.room.encrypted"]},
            "state": {"types": [], "lazy_load_members": True},
            "ephemeral": {"types": []},
            "account_data": {"types": []},
        },
    }
).decode()


class MatrixAdapter:
    """Implements `ports.channel.ChannelAdapter` and what a channel may do besides."""

    channel = wire.CHANNEL
    text_limit = MOST_TEXT
    text_unit = TextUnit.BYTES
    capabilities = Capabilities(
        edits=True, reactions=True, threads=True, media_in=True, media_out=True, rich_text=True
    )

    def __init__(self, settings: MatrixAccount, host: ChannelHost, api: MatrixApi) -> None:
        self.account = host.account
        self.state = AccountState()
        self._settings = settings
        self._host = host
        self.api = api
        self._my_id = ""
        self._failures = 0
        self._rooms = RoomReader(host.account, api)
        self._taken: dict[str, None] = {}
        """Events that were taken since the place that is noted, oldest first."""
        self._quiet_until = 0.0
        """Time of the event loop until which the server wants no request."""

    async def run(self, inbox: Inbox) -> None:
        """Receives until cancelled; the place is noted after `inbox` has taken what is before it.

        Messages from before the first connection are not answered.
        """
        cursor = self._host.cursor
        since = await cursor.read(_SINCE)
        self._taken = dict.fromkeys((await cursor.read(_TAKEN)).split())
        try:
            while True:
                try:
                    await self._log_in()
                    synced = await self._sync(since)
                    await self._take(synced, since, inbox)
                except (ApiError, msgspec.DecodeError) as error:
                    await anyio.sleep(self._note(error))
                    continue
                self._failures = 0
                self.state = AccountState(ConnectionState.CONNECTED, name=self._my_id)
                if synced.next_batch != since:
                    since = synced.next_batch
                    await cursor.write(_SINCE, since)
                    self._taken.clear()
        finally:
            with anyio.move_on_after(2, shield=True):
                await cursor.write(_TAKEN, " ".join(list(self._taken)[-_MOST_TAKEN:]))

    async def _log_in(self) -> None:
        if not self._my_id:
            answer = await self.api.get(f"{CLIENT}/account/whoami")
            self._my_id = wire.me.decode(answer).user_id

    async def _sync(self, since: str) -> wire.Synced:
        # After a failure the first request does not wait, so that the state is soon true.
        is_back = self.state.state is not ConnectionState.CONNECTED
        wait = 0 if is_back or not since else self._settings.poll_seconds
        query = {"timeout": str(wait * 1000), "filter": _FILTER, "set_presence": "offline"}
        if since:
            query["since"] = since
        return wire.synced.decode(await self.api.get(f"{CLIENT}/sync", query, wait=wait))

    async def _take(self, synced: wire.Synced, since: str, inbox: Inbox) -> None:
        for room_id, invited in synced.rooms.invite.items():
            await self._answer_invitation(room_id, invited)
        if not since:
            return
        found: list[tuple[int, str, wire.Event]] = []
        for room_id, joined in synced.rooms.join.items():
            if joined.timeline.events:
                self._rooms.forget(room_id)  # who is in it may have changed
                with self._passing_over(room_id):
                    found += await self._rooms.timed(room_id, joined.timeline, since)
        for _, room_id, event in sorted(found, key=itemgetter(0)):
            with self._passing_over(room_id):
                await self._hand_in(room_id, event, inbox)

    @contextmanager
    def _passing_over(self, room_id: str) -> Iterator[None]:
        """Goes on where the server closes a room to us, which must not hold back all others."""
        try:
            yield
        except ApiError as error:
            if error.status not in _FOR_GOOD:
                raise
            logger.warning("matrix/%s: %s is not read: %s", self.account, room_id, error)

    async def _hand_in(self, room_id: str, event: wire.Event, inbox: Inbox) -> None:
        if event.event_id in self._taken:
            return
        if event.type == wire.ENCRYPTED:
            logger.warning("matrix/%s: %s is encrypted and not read", self.account, event.event_id)
            return
        if event.type != wire.MESSAGE or event.sender == self._my_id:
            return
        room = await self._rooms.get(room_id)
        quoted = await self._rooms.quoted(room, event, self._my_id)
        now = self._host.clock.now_ms()
        message = wire.inbound(event, room, self.account, self._my_id, now, quoted)
        if message is not None:
            await inbox(message)
        self._taken[event.event_id] = None

    async def _answer_invitation(self, room_id: str, invited: wire.InvitedRoom) -> None:
        policy = self._settings.auto_join
        if policy == "off" or (policy == "direct" and not self._is_direct(invited)):
            logger.info("matrix/%s: the invitation to %s is left", self.account, room_id)
            return
        try:
            await self.api.post(f"{CLIENT}/join/{path(room_id)}", {})
        except ApiError as error:
            if error.status not in _FOR_GOOD:
                raise
            logger.warning("matrix/%s: %s cannot be joined: %s", self.account, room_id, error)

    def _is_direct(self, invited: wire.InvitedRoom) -> bool:
        for raw in invited.invite_state.events:
            try:
                event = wire.event.decode(raw)
            except msgspec.DecodeError:
                continue
            if event.type == "m.room.member" and event.state_key == self._my_id:
                return event.content.get("is_direct") is True
        return False

    def _note(self, error: Exception) -> float:
        """Notes why the server gave nothing; returns for how many seconds to wait."""
        self._failures += 1
        name, message = self.state.name, str(error)
        if isinstance(error, ApiError) and error.code in _REFUSED_TOKEN:
            self._my_id = ""
            remedy = (
                "Log in again, set `accessToken` of the account, then run"
                f" `skerry channels restart matrix --account {self.account}`."
            )
            self.state = AccountState(ConnectionState.NEEDS_LOGIN, message, remedy, name)
            logger.error("matrix/%s: %s", self.account, message)
            return LOGIN_WAIT
        remedy = "It is tried again; `skerry channels status --probe` asks at once."
        self.state = AccountState(ConnectionState.RETRYING, message, remedy, name)
        if self._failures == 1:
            logger.warning("matrix/%s: %s", self.account, message)
        retry_after = error.retry_after if isinstance(error, ApiError) else None
        return retry_after or WAITS.delay(self._failures)

    async def send(self, part: OutboundPart) -> Receipt:
        """Sends one part; the same part sent again is the same event."""
        self._refuse_while_quiet()
        try:
            if part.more.media is not None:
                content = await self._file(part, part.more.media)
            else:
                content = _worded("m.text", part.text)
            content |= {wire.PART: part.nonce} | _relation(part.to)
            return await self._put(part.to.peer.id, wire.MESSAGE, transaction(part), content)
        except ApiError as error:
            raise self._undelivered(error) from error

    async def _put(
        self, room_id: str, kind: str, transaction_id: str, content: dict[str, Any]
    ) -> Receipt:
        where = f"{CLIENT}/rooms/{path(room_id)}/send/{path(kind, transaction_id)}"
        try:
            return Receipt((wire.sent.decode(await self.api.put(where, content)).event_id,))
        except msgspec.DecodeError:
            return Receipt(())  # it was sent; its id is for edits alone

    async def _file(self, part: OutboundPart, media: OutboundMedia) -> dict[str, Any]:
        try:
            data = await anyio.to_thread.run_sync(Path(media.path).read_bytes)
        except OSError as error:
            message = f"The file {media.path} cannot be read: {error.strerror}."
            raise DeliveryRefusedError(message) from None
        name = media.name or Path(media.path).name
        try:
            uploaded = wire.uploaded.decode(await self.api.upload(data, media.mime, name))
        except msgspec.DecodeError as error:
            raise DeliveryDelayedError(f"The upload of {name} has no address: {error}") from None
        content = _worded(wire.TYPES[media.kind], part.text.strip() or name)
        info = {"mimetype": media.mime, "size": len(data)}
        content |= {"url": uploaded.content_uri, "filename": name, "info": info}
        if media.voice:
            content["org.matrix.msc3245.voice"] = {}
        return content

    def _undelivered(self, error: ApiError) -> Exception:
        """Returns the error by which the sender of the outbox decides."""
        if error.retry_after is not None:
            self._quiet_until = anyio.current_time() + error.retry_after
            return DeliveryDelayedError(str(error), error.retry_after)
        if error.code in _REFUSED_TOKEN or not error.is_sent:
            return DeliveryDelayedError(str(error))
        if error.status in _FOR_GOOD:
            return DeliveryRefusedError(str(error))
        return error  # nobody knows whether it arrived; `settle` looks

    def _refuse_while_quiet(self) -> None:
        """Sends nothing while the server wants no request."""
        seconds = self._quiet_until - anyio.current_time()
        if seconds > 0:
            raise DeliveryDelayedError("The homeserver's rate limit is reached.", seconds)

    async def typing(self, to: ReplyTo) -> None:
        """Shows for twelve seconds that an answer is being written."""
        if self._quiet_until > anyio.current_time() or not self._my_id:
            return
        where = f"{CLIENT}/rooms/{path(to.peer.id)}/typing/{path(self._my_id)}"
        await self.api.put(where, {"typing": True, "timeout": TYPING_MS})

    async def settle(self, part: OutboundPart) -> Settlement:
        """Looks for the part among the last events of its room.

        A part that is further back than these is sent again under its transaction, of which the
        server makes no second event.
        """
        found = await self.locate(part)
        return Settlement.ABSENT if found is None else Settlement.DELIVERED

    async def locate(self, part: OutboundPart) -> Receipt | None:
        """Returns the event of a part among the last events of its room."""
        where = f"{CLIENT}/rooms/{path(part.to.peer.id)}/messages"
        answer = await self.api.get(where, {"dir": "b", "limit": str(_LOOKED_AT)})
        for raw in wire.page.decode(answer).chunk:
            try:
                event = wire.event.decode(raw)
            except msgspec.DecodeError:
                continue
            if event.content.get(wire.PART) == part.nonce and await self._is_mine(event):
                return Receipt((event.event_id,))
        return None

    async def _is_mine(self, event: wire.Event) -> bool:
        await self._log_in()
        return event.sender == self._my_id

    async def edit(self, to: ReplyTo, platform_id: str, text: str) -> None:
        """Replaces the text of a message of the account."""
        self._refuse_while_quiet()
        content = _worded("m.text", text)
        replaced = content | {
            "body": f"* {text}",
            "m.new_content": dict(content),
            "m.relates_to": {"rel_type": "m.replace", "event_id": platform_id},
        }
        await self._put_once(to.peer.id, wire.MESSAGE, replaced, platform_id, text)

    async def react(self, to: ReplyTo, emoji: str) -> None:
        """Sets a reaction of the account; one that was set stays, whatever follows."""
        if not emoji or not to.message_id:
            return
        message_id = to.message_id.rpartition(":$")[0] or to.message_id
        relation = {"rel_type": "m.annotation", "event_id": message_id, "key": emoji}
        await self._put_once(
            to.peer.id, "m.reaction", {"m.relates_to": relation}, message_id, emoji
        )

    async def _put_once(
        self, room_id: str, kind: str, content: dict[str, Any], *parts: str
    ) -> None:
        digest = hashlib.sha256("\0".join((kind, *parts)).encode()).hexdigest()[:32]
        try:
            await self._put(room_id, kind, f"skerry-{digest}", content)
        except ApiError as error:
            raise self._undelivered(error) from error

    async def fetch(self, attachment: Attachment, limit: int) -> bytes:
        """Returns the bytes of a file that a person sent."""
        most = min(limit, self._settings.media_max_mb * 1_000_000)
        if attachment.size > most:
            raise MediaError(f"{attachment.name} has {attachment.size} bytes; {most} are taken.")
        address = urlsplit(attachment.handle)
        fetched = await self.api.download(address.netloc, address.path.strip("/"), most)
        if fetched.outcome is not Outcome.ALLOW or fetched.status != 200 or fetched.truncated:  # noqa: PLR2004 - HTTP's OK
            reason = fetched.reason if fetched.outcome is not Outcome.ALLOW else fetched.status
            size = f"it has more than {most} bytes" if fetched.truncated else reason
            raise MediaError(f"{attachment.name} cannot be fetched: {size}")
        return fetched.body

    async def probe(self) -> AccountState:
        """Returns the state after asking the server who the account is."""
        try:
            answer = await self.api.get(f"{CLIENT}/account/whoami")
        except ApiError as error:
            self._note(error)
            return self.state
        return AccountState(ConnectionState.CONNECTED, name=wire.me.decode(answer).user_id)


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


def open_account(settings: MatrixAccount, host: ChannelHost) -> MatrixAdapter:
    """Returns the adapter of an account."""
    token = settings.access_token.get_secret_value() if settings.access_token else ""
    return MatrixAdapter(settings, host, MatrixApi(str(settings.homeserver), token))
