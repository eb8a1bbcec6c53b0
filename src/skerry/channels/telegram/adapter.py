"""One Telegram bot: receives by long requests, sends texts, files, buttons and reactions."""

import logging
import re
from typing import Any, Final

import anyio
import anyio.to_thread
import msgspec
from msgspec import Raw

from skerry.channels.telegram import menu, wire
from skerry.channels.telegram.api import ApiError, BotApi
from skerry.channels.telegram.config import TelegramAccount
from skerry.channels.telegram.markup import HTML
from skerry.config.channels import revealed
from skerry.sdk.channel_account import Account
from skerry.sdk.channel_errors import PlatformError, RateLimit
from skerry.sdk.channel_files import byte_limit, fetched_file, read_file
from skerry.sdk.channel_host import ChannelHost, Menu
from skerry.sdk.channels import (
    AccountState,
    Attachment,
    AttachmentKind,
    Capabilities,
    ConnectionState,
    DeliveryRefusedError,
    Inbox,
    MediaError,
    OutboundMedia,
    OutboundPart,
    PeerKind,
    Receipt,
    ReplyTo,
    Settlement,
    TextUnit,
)

logger = logging.getLogger(__name__)

MAX_TEXT: Final = 4000
"""Code units of a message: Telegram takes 4096 without markup, and marks of lists are added."""
MAX_CAPTION: Final = 1024
_MAX_DATA: Final = 64
_MAX_LABEL: Final = 64
_CONFLICT: Final = 409
_SENDS: Final = {
    AttachmentKind.IMAGE: ("sendPhoto", "photo"),
    AttachmentKind.AUDIO: ("sendAudio", "audio"),
    AttachmentKind.VIDEO: ("sendVideo", "video"),
    AttachmentKind.FILE: ("sendDocument", "document"),
}


class TelegramAdapter(Account):
    """Implements `ports.channel.ChannelAdapter`, `Fetches`, `Edits`, `Reacts` and `Probes`."""

    channel = wire.CHANNEL
    login_remedy = "Ask @BotFather for the bot's token"
    text_limit = MAX_TEXT
    text_unit = TextUnit.UTF16
    capabilities = Capabilities(
        edits=True,
        reactions=True,
        buttons=True,
        threads=True,
        media_in=True,
        media_out=True,
        polls=True,
        rich_text=True,
    )

    def __init__(self, settings: TelegramAccount, host: ChannelHost, api: BotApi) -> None:
        super().__init__(host)
        self._settings = settings
        self._menu: Menu | None = None
        self._api = api
        self._me = wire.User(0)
        self._offset = 0
        self._limit = RateLimit("Telegram")

    async def run(self, inbox: Inbox) -> None:
        """Receives until cancelled; an update is confirmed after `inbox` has taken it."""
        self._offset = 0  # the server stores all unconfirmed updates
        try:
            while True:
                try:
                    if not self._me.id:
                        await self._log_in()
                    events = await self._next_events()
                except (PlatformError, msgspec.DecodeError) as error:
                    await anyio.sleep(self.failed(error))
                    continue
                for event in events:
                    await self._take(event, inbox)
        finally:
            await self._confirm()

    async def _log_in(self) -> None:
        self._me = wire.user.decode(await self._api.call("getMe"))
        # A bot with a webhook gets no updates by `getUpdates`.
        await self._api.call("deleteWebhook", {"drop_pending_updates": False})

    async def _next_events(self) -> tuple[Raw, ...]:
        # After a failure the first request does not wait, so that the state is correct soon.
        is_back = self.state.state is not ConnectionState.CONNECTED
        wait = 0 if is_back else self._settings.poll_seconds
        if not is_back and self._menu != (current_menu := self.host.menu()):
            self._menu = current_menu
            await menu.show(self._api, current_menu, self.host.cursor)
        params = {"offset": self._offset, "timeout": wait, "allowed_updates": wire.UPDATES}
        answer = await self._api.call("getUpdates", params, wait=wait)
        self.connected(f"@{self._me.username}")
        return wire.updates.decode(answer)

    def failed(self, error: Exception) -> float:
        """Records the failure; after a refused token the bot's identity is requested again."""
        if isinstance(error, PlatformError) and error.is_login:
            self._me = wire.User(0)
        return super().failed(error)

    def remedy(self, error: Exception) -> str:
        """Returns the next step for a person."""
        if isinstance(error, PlatformError) and error.status == _CONFLICT:
            return "Another program uses this token. Stop it, or give this account another bot."
        return super().remedy(error)

    async def _take(self, raw: Raw, inbox: Inbox) -> None:
        number = wire.number_of.decode(raw).update_id
        try:
            event = wire.update.decode(raw)
        except msgspec.DecodeError as error:
            # An update in a newer format must not block the others.
            logger.warning("telegram/%s: update %d is unreadable: %s", self.account, number, error)
            self._offset = number + 1
            return
        message = wire.inbound(event, self.account, self._me, self.host.clock.now_ms())
        if message is not None:
            await inbox(message)
        self._offset = number + 1
        if event.callback_query is not None:
            await self._answer_press(event.callback_query)

    async def _answer_press(self, pressed: wire.Pressed) -> None:
        """Ends the progress indicator of a button; removes the buttons in a direct chat.

        In a group they stay, as anybody can press them, also people who may not answer.
        """
        try:
            await self._api.call("answerCallbackQuery", {"callback_query_id": pressed.id})
            below = pressed.message
            if below is not None and below.chat.peer.kind is PeerKind.DIRECT:
                target = {"chat_id": below.chat.id, "message_id": below.message_id}
                await self._api.call("editMessageReplyMarkup", target)
        except PlatformError as error:
            logger.info("telegram/%s: cannot acknowledge a pressed button: %s", self.account, error)

    async def _confirm(self) -> None:
        """Confirms the accepted updates, which the next start would get again without effect."""
        if self._offset and self.state.state is ConnectionState.CONNECTED:
            with anyio.move_on_after(2, shield=True):
                try:
                    params = {"offset": self._offset, "timeout": 0, "limit": 1}
                    await self._api.call("getUpdates", params)
                except PlatformError as error:
                    logger.info("telegram/%s: not confirmed: %s", self.account, error)

    async def send(self, part: OutboundPart) -> Receipt:
        """Sends one part; a text with markup that Telegram refuses goes out without it."""
        self._limit.refuse()
        if part.additions.poll is not None:
            return await self._send_poll(part)
        params = self._addressed(part)
        if part.additions.media is not None:
            return await self._send_file(part, part.additions.media, params)
        rendered = HTML.render(part.text)
        try:
            return await self._posted("sendMessage", params | {"text": rendered} | _HTML_MODE)
        except DeliveryRefusedError as error:
            if not _is_about_markup(str(error)):
                raise
            logger.warning("telegram/%s: sent without markup: %s", self.account, error)
            return await self._posted("sendMessage", params | {"text": part.text})

    async def _send_poll(self, part: OutboundPart) -> Receipt:
        poll = part.additions.poll
        if poll is None:
            raise DeliveryRefusedError("The part has no poll.")
        poll_params: dict[str, Any] = {
            "question": poll.question,
            "options": [{"text": option} for option in poll.options],
            "allows_multiple_answers": poll.most > 1,
            "is_anonymous": False,
        }
        if poll.seconds:
            poll_params["open_period"] = poll.seconds
        return await self._posted("sendPoll", self._addressed(part) | poll_params)

    async def _send_file(
        self, part: OutboundPart, media: OutboundMedia, params: dict[str, Any]
    ) -> Receipt:
        method, field = ("sendVoice", "voice") if media.voice else _SENDS[media.kind]
        if part.text.strip():
            params |= {"caption": HTML.render(part.text), "parse_mode": "HTML"}
        file = await read_file(media)
        with self._limit.sending():
            return _receipt(await self._api.upload(method, params, field, file))

    def _addressed(self, part: OutboundPart) -> dict[str, Any]:
        """Returns the parameters that every message has."""
        params: dict[str, Any] = {"chat_id": _chat(part.to)}
        if part.to.thread_id is not None:
            params["message_thread_id"] = _number(part.to.thread_id)
        if part.additions.silent:
            params["disable_notification"] = True
        quote = wire.plain_id(part.to.quote or "")
        if quote is not None:
            params["reply_parameters"] = {"message_id": quote, "allow_sending_without_reply": True}
        rows = [
            [
                {"text": button.label[:_MAX_LABEL], "callback_data": button.command}
                for button in row
                if len(button.command.encode()) <= _MAX_DATA
            ]
            for row in part.additions.buttons
        ]
        if any(rows):
            params["reply_markup"] = {"inline_keyboard": [row for row in rows if row]}
        return params

    async def _posted(self, method: str, params: dict[str, Any]) -> Receipt:
        with self._limit.sending():
            try:
                answer = await self._api.call(method, params)
            except ApiError as error:
                if error.migrated_to is None or error.migrated_to == params["chat_id"]:
                    raise
                answer = await self._api.call(method, params | {"chat_id": error.migrated_to})
        return _receipt(answer)

    async def typing(self, to: ReplyTo) -> None:
        """Shows the typing indicator for five seconds."""
        if self._limit.is_reached:
            return
        params: dict[str, Any] = {"chat_id": _chat(to), "action": "typing"}
        if to.thread_id is not None:
            params["message_thread_id"] = _number(to.thread_id)
        await self._api.call("sendChatAction", params)

    async def settle(self, part: OutboundPart) -> Settlement:
        """Returns UNKNOWN: a bot cannot read what it has sent."""
        del part
        return Settlement.UNKNOWN

    async def edit(self, to: ReplyTo, platform_id: str, text: str) -> None:
        """Replaces the text of a message of the bot."""
        self._limit.refuse()
        target = {"chat_id": _chat(to), "message_id": int(platform_id)}
        try:
            await self._posted("editMessageText", target | {"text": HTML.render(text)} | _HTML_MODE)
        except DeliveryRefusedError as error:
            if "not modified" not in str(error):
                raise

    async def react(self, to: ReplyTo, emoji: str) -> None:
        """Sets the reaction of the bot; an empty emoji removes it."""
        number = wire.plain_id(to.message_id)
        if number is None:
            return  # a pressed button is no message
        reaction = [{"type": "emoji", "emoji": emoji}] if emoji else []
        target = {"chat_id": _chat(to), "message_id": number}
        with self._limit.sending():
            await self._api.call("setMessageReaction", target | {"reaction": reaction})

    async def fetch(self, attachment: Attachment, limit: int) -> bytes:
        """Returns the bytes of an attachment."""
        max_bytes = byte_limit(attachment, limit, self._settings.media_max_mb)
        try:
            answer = await self._api.call("getFile", {"file_id": attachment.handle})
            path = wire.file_path.decode(answer).get("file_path")
        except (PlatformError, msgspec.DecodeError) as error:
            raise MediaError(f"{attachment.name} cannot be fetched: {error}") from error
        return fetched_file(attachment, await self._api.download(str(path), max_bytes))

    async def probe(self) -> AccountState:
        """Returns the state after requesting the bot's identity from the server."""
        try:
            me = wire.user.decode(await self._api.call("getMe"))
        except (PlatformError, msgspec.DecodeError) as error:
            self.failed(error)
            return self.state
        return AccountState(ConnectionState.CONNECTED, name=f"@{me.username}")


_HTML_MODE: Final = {"parse_mode": "HTML", "link_preview_options": {"is_disabled": True}}


def _chat(to: ReplyTo) -> int:
    """Returns the number of the chat. Raises as `_number`."""
    return _number(to.peer.id)


def _number(text: str) -> int:
    """Returns the number that Telegram has for a chat or a topic.

    Raises:
        DeliveryRefusedError: it is none.
    """
    if re.fullmatch(r"-?\d{1,18}", text) is None:
        raise DeliveryRefusedError(f"{text!r} is no chat or topic of Telegram: these are numbers.")
    return int(text)


def _is_about_markup(description: str) -> bool:
    return "can't parse entities" in description or "is too long" in description


def _receipt(answer: bytes) -> Receipt:
    try:
        return Receipt((str(wire.sent_message.decode(answer).message_id),))
    except msgspec.DecodeError:
        return Receipt(())  # the message was sent; its id is used for edits only


def open_account(settings: TelegramAccount, host: ChannelHost) -> TelegramAdapter:
    """Returns the adapter of an account."""
    api = BotApi(str(settings.api_root), revealed(settings.bot_token))
    return TelegramAdapter(settings, host, api)
