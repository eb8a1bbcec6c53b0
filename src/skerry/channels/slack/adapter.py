"""One Slack app: receives by Socket Mode, sends by the Web API."""

import logging
from typing import Any, Final

import anyio
import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from skerry.channels.slack import file_upload, wire
from skerry.channels.slack.api import WebApi
from skerry.channels.slack.config import SlackAccount
from skerry.channels.slack.markup import MRKDWN
from skerry.config.channels import revealed
from skerry.sdk.channel_account import Account
from skerry.sdk.channel_errors import PlatformError, RateLimit
from skerry.sdk.channel_files import byte_limit, fetched_file
from skerry.sdk.channel_host import ChannelHost, Recent
from skerry.sdk.channel_socket import AccountSocket, SocketEndedError
from skerry.sdk.channels import (
    AccountState,
    Attachment,
    Capabilities,
    InboundMessage,
    Inbox,
    OutboundMedia,
    OutboundPart,
    Receipt,
    ReplyTo,
    Settlement,
    TextUnit,
)

logger = logging.getLogger(__name__)

SILENT_SECONDS: Final = 90.0
"""Seconds without a message and without a ping, after which a socket counts as broken."""
MAX_TEXT: Final = 3000
"""Characters of a message: Slack cuts long ones, and takes 3,000 in a block."""
PART: Final = "skerry_part"
"""Type of the metadata by which a part is located."""
_SEARCHED_MESSAGES: Final = 50
_MAX_PEOPLE: Final = 1000
_MAX_NAME: Final = 256
_MAX_REACTIONS: Final = 500
_EMOJI: Final = {"👀": "eyes", "👍": "thumbsup", "✅": "white_check_mark", "❌": "x", "❤️": "heart"}


class _Opened(Struct, frozen=True):
    url: str = ""


class _Sent(Struct, frozen=True):
    ts: str = ""


class _Meta(Struct, frozen=True):
    event_type: str = ""
    event_payload: dict[str, Any] = field(default_factory=dict)


class _StoredFile(Struct, frozen=True):
    name: str | None = None


class _Stored(Struct, frozen=True):
    ts: str = ""
    metadata: _Meta = _Meta()
    files: tuple[_StoredFile, ...] = ()


class _History(Struct, frozen=True):
    messages: tuple[_Stored, ...] = ()


_opened = msgspec.json.Decoder(_Opened)
_sent = msgspec.json.Decoder(_Sent)
_history = msgspec.json.Decoder(_History)


class SlackAdapter(Account):
    """Implements `ports.channel.ChannelAdapter` and the optional ports of channels."""

    channel = wire.CHANNEL
    login_remedy = "Check the app's tokens and scopes at api.slack.com/apps"
    text_limit = MAX_TEXT
    text_unit = TextUnit.CHARACTERS
    capabilities = Capabilities(
        edits=True,
        reactions=True,
        buttons=True,
        threads=True,
        media_in=True,
        media_out=True,
        rich_text=True,
    )

    def __init__(self, settings: SlackAccount, host: ChannelHost, api: WebApi) -> None:
        super().__init__(host)
        self._settings = settings
        self._api = api
        self._me = wire.Me()
        self._people = Recent[str, wire.SlackUser](_MAX_PEOPLE)
        self._reacted = Recent[tuple[str, str], str](_MAX_REACTIONS)
        """Reactions that were set, by channel and time stamp, oldest first."""
        self._limit = RateLimit("Slack")

    async def run(self, inbox: Inbox) -> None:
        """Receives until cancelled; an envelope is acknowledged after `inbox` has returned."""
        while True:
            try:
                await self._receive(inbox)
                await anyio.sleep(self.waits.delay(1))
            except (PlatformError, SocketEndedError, msgspec.DecodeError) as error:
                await anyio.sleep(self.failed(error))

    async def _receive(self, inbox: Inbox) -> None:
        """Receives over one socket until it ends; Slack ends each after some hours."""
        await self._log_in()
        answer = await self._api.call("apps.connections.open", as_app=True)
        socket = await AccountSocket.open(self._api.http, _opened.decode(answer).url)
        try:
            while True:
                text = await socket.receive(SILENT_SECONDS)
                try:
                    envelope = wire.envelope.decode(text.encode())
                except msgspec.DecodeError as error:
                    logger.warning("slack/%s: an envelope is unreadable: %s", self.account, error)
                    continue
                self.connected(f"@{self._me.user}")
                if envelope.type == "disconnect":
                    return
                await self._take(envelope, inbox)
                if envelope.envelope_id:
                    acknowledgement = msgspec.json.encode({"envelope_id": envelope.envelope_id})
                    await socket.send(acknowledgement.decode())
        finally:
            socket.close()

    async def _log_in(self) -> None:
        if not self._me.user_id:
            self._me = wire.me.decode(await self._api.call("auth.test"))

    async def _take(self, envelope: wire.Envelope, inbox: Inbox) -> None:
        """Passes the message of an envelope to the inbox, with the names of its sender."""
        message = self._message(envelope)
        if message is not None and message.deletes:
            await inbox(message)
        elif message is not None:
            person = await self._person(message.sender_id)
            names = (person.real_name[:_MAX_NAME], person.name[:_MAX_NAME])
            await inbox(replace(message, sender_name=names[0], sender_username=names[1]))

    def _message(self, envelope: wire.Envelope) -> InboundMessage | None:
        now = self.host.clock.now_ms()
        try:
            if envelope.type == "events_api":
                outer = wire.callback.decode(envelope.payload)
                return wire.inbound(outer, self.account, self._me, now)
            if envelope.type == "interactive":
                act = wire.interaction.decode(envelope.payload)
                return wire.pressed(act, self.account, now)
            if envelope.type == "slash_commands":
                slash_command = wire.slash.decode(envelope.payload)
                return wire.commanded(slash_command, self.account, self.host.menu().names, now)
        except msgspec.DecodeError as error:
            # An event in an unknown format must not block the others.
            logger.warning("slack/%s: an event is unreadable: %s", self.account, error)
        return None

    async def _person(self, user: str) -> wire.SlackUser:
        """Returns the names of a person, as events have only the id."""
        profile = self._people.get(user)
        if profile is None:
            try:
                answer = await self._api.call("users.info", {"user": user})
                profile = wire.user_info.decode(answer).user
            except (PlatformError, msgspec.DecodeError) as error:
                logger.info("slack/%s: cannot read the name of a sender: %s", self.account, error)
                return wire.SlackUser()
            self._people[user] = profile
        return profile

    def failed(self, error: Exception) -> float:
        """Records the failure; after refused tokens the app's identity is requested again."""
        if isinstance(error, PlatformError) and error.is_login:
            self._me = wire.Me()
        return super().failed(error)

    async def send(self, part: OutboundPart) -> Receipt:
        """Sends one part, with metadata by which `settle` finds it."""
        self._limit.refuse()
        if part.additions.media is not None:
            return await self._send_file(part, part.additions.media)
        text = MRKDWN.render(part.text)
        params: dict[str, Any] = {
            "channel": part.to.peer.id,
            "text": text,
            "unfurl_links": False,
            "unfurl_media": False,
            "metadata": {"event_type": PART, "event_payload": {"nonce": part.nonce}},
        }
        if part.to.thread_id:
            params["thread_ts"] = part.to.thread_id
        if part.additions.buttons:
            params["blocks"] = _blocks(text, part)
        answer = await self._call("chat.postMessage", params)
        return Receipt((_sent.decode(answer).ts,))

    async def _send_file(self, part: OutboundPart, media: OutboundMedia) -> Receipt:
        with self._limit.sending():
            shared = await file_upload.upload(self._api, part, media)
        if part.text.strip():
            shared["initial_comment"] = MRKDWN.render(part.text)
        await self._call("files.completeUploadExternal", shared)
        return file_upload.receipt(shared)

    async def _call(self, method: str, params: dict[str, Any]) -> bytes:
        with self._limit.sending():
            return await self._api.call(method, params)

    async def typing(self, to: ReplyTo) -> None:
        """Does nothing: Slack has no typing indicator for apps."""

    async def settle(self, part: OutboundPart) -> Settlement:
        """Looks for the part among the last messages of its conversation or thread."""
        stored = await self._last_messages(part)
        if _stamp_of(stored, part) is not None:
            return Settlement.DELIVERED
        if part.additions.media is not None:
            return Settlement.UNKNOWN  # Slack shares a file some time after the request
        # In a full page the part may be older than all messages of the page.
        return Settlement.ABSENT if len(stored) < _SEARCHED_MESSAGES else Settlement.UNKNOWN

    async def locate(self, part: OutboundPart) -> Receipt | None:
        """Returns the time stamp of a part among the last messages of its conversation."""
        stamp = _stamp_of(await self._last_messages(part), part)
        return Receipt((stamp,)) if stamp is not None else None

    async def _last_messages(self, part: OutboundPart) -> tuple[_Stored, ...]:
        params: dict[str, Any] = {
            "channel": part.to.peer.id,
            "limit": _SEARCHED_MESSAGES,
            "include_all_metadata": True,
        }
        method = "conversations.history"
        if part.to.thread_id:
            method, params["ts"] = "conversations.replies", part.to.thread_id
        return _history.decode(await self._api.call(method, params)).messages

    async def edit(self, to: ReplyTo, platform_id: str, text: str) -> None:
        """Replaces the text of a message of the app."""
        self._limit.refuse()
        params = {"channel": to.peer.id, "ts": platform_id, "text": MRKDWN.render(text)}
        await self._call("chat.update", params)

    async def react(self, to: ReplyTo, emoji: str) -> None:
        """Adds a reaction of the app; an empty emoji removes those that it may have set."""
        mark = (to.peer.id, to.message_id.partition(":")[0])
        target = {"channel": mark[0], "timestamp": mark[1]}
        if emoji:
            names = [_EMOJI.get(emoji, emoji.strip(":"))]
            self._reacted[mark] = names[0]
        else:
            reaction = self._reacted.pop(mark, "")
            names = [reaction] if reaction else list(_EMOJI.values())
        for name in names:
            method = "reactions.add" if emoji else "reactions.remove"
            with self._limit.sending():
                try:
                    await self._api.call(method, {**target, "name": name})
                except PlatformError as error:
                    if error.code not in {"already_reacted", "no_reaction"}:
                        raise

    async def fetch(self, attachment: Attachment, limit: int) -> bytes:
        """Returns the bytes of an attachment."""
        max_bytes = byte_limit(attachment, limit, self._settings.media_max_mb)
        return fetched_file(attachment, await self._api.download(attachment.handle, max_bytes))

    async def probe(self) -> AccountState:
        """Returns the state after requesting the app's identity from the server."""
        try:
            bot = wire.me.decode(await self._api.call("auth.test"))
        except (PlatformError, msgspec.DecodeError) as error:
            self.failed(error)
            return self.state
        name = f"@{bot.user}"
        return self.state if self.state.name == name else AccountState(self.state.state, name=name)


def _stamp_of(stored: tuple[_Stored, ...], part: OutboundPart) -> str | None:
    """Returns the time stamp of the message of a part; None when it is missing."""
    media = part.additions.media
    name = file_upload.file_name(part, media) if media is not None else ""
    for message in stored:
        meta = message.metadata
        if meta.event_type == PART and meta.event_payload.get("nonce") == part.nonce:
            return message.ts
        if media is not None and any(file.name == name for file in message.files):
            return message.ts
    return None


def _blocks(text: str, part: OutboundPart) -> list[dict[str, Any]]:
    """Returns the text and its buttons as blocks."""
    blocks: list[dict[str, Any]] = [
        {"type": "section", "text": {"type": "mrkdwn", "text": text[:MAX_TEXT]}}
    ]
    for number, row in enumerate(part.additions.buttons):
        elements = [
            {
                "type": "button",
                "action_id": wire.button_id(part.to.peer.kind, number, position),
                "text": {"type": "plain_text", "text": button.label[:75]},
                "value": button.command[:2000],
            }
            for position, button in enumerate(row[:25])
        ]
        blocks.append({"type": "actions", "elements": elements})
    return blocks


def open_account(settings: SlackAccount, host: ChannelHost) -> SlackAdapter:
    """Returns the adapter of an account: over a socket, or over requests of Slack."""
    bot = revealed(settings.bot_token)
    app = revealed(settings.app_token)
    api = WebApi(str(settings.api_root), bot, app)
    if settings.mode == "http":
        # It is imported here: most apps have a socket, and it builds on this module.
        from skerry.channels.slack.http_adapter import SlackHttpAdapter  # noqa: PLC0415 - at first use

        return SlackHttpAdapter(settings, host, api)
    return SlackAdapter(settings, host, api)
