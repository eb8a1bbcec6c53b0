"""Sends messages, edits and reactions of a bot; searches for a part that may have arrived."""

import base64
import hashlib
from collections.abc import Mapping
from math import ceil
from typing import Any, Final
from urllib.parse import quote

import msgspec

from skerry.channels.discord import wire
from skerry.channels.discord.api import RestApi, kind_of
from skerry.channels.discord.channel_cache import ChannelCache
from skerry.channels.discord.config import DiscordAccount
from skerry.channels.discord.markup import DISCORD, gist
from skerry.sdk.channel_errors import PlatformError, undelivered
from skerry.sdk.channel_files import read_file
from skerry.sdk.channels import (
    Button,
    DeliveryDelayedError,
    DeliveryRefusedError,
    OutboundPart,
    Poll,
    Receipt,
    ReplyTo,
    Settlement,
)

MAX_CONTENT: Final = 2000
"""Characters of a message, its marks included."""
TYPING_SECONDS: Final = 8.0
"""Seconds until the typing indicator is sent again; Discord shows it for ten."""
_SEARCHED_MESSAGES: Final = 100
_NO_PREVIEWS: Final = 1 << 2
_SILENT: Final = 1 << 12
_MAX_ROWS: Final = 5
_MAX_LABEL: Final = 80
_MAX_COMMAND: Final = 100
_MAX_ANSWERS: Final = 10
_MAX_ANSWER: Final = 55
_MAX_HOURS: Final = 768


class Poster:
    """Sends the messages of a bot."""

    def __init__(self, settings: DiscordAccount, api: RestApi, channels: ChannelCache) -> None:
        self._settings = settings
        self._api = api
        self._channels = channels

    async def send(self, part: OutboundPart) -> Receipt:
        """Sends one part; Discord drops a repetition of it within some minutes."""
        path = f"/channels/{await self._channel(part.to)}/messages"
        self._check_rate_limit("POST", path)
        payload = self._payload(part)
        try:
            if part.additions.media is not None:
                file = await read_file(part.additions.media)
                answer = await self._api.upload(path, payload, file)
            else:
                answer = await self._api.call("POST", path, payload)
        except PlatformError as error:
            raise undelivered(error) from error
        try:
            return Receipt((wire.message.decode(answer).id,))
        except msgspec.DecodeError:
            return Receipt(())  # the message was sent; its id is used for edits only

    def _payload(self, part: OutboundPart) -> dict[str, Any]:
        payload: dict[str, Any] = {
            "nonce": nonce(part),
            "enforce_nonce": True,
            "allowed_mentions": self._allowed(),
            "flags": _NO_PREVIEWS | (_SILENT if part.additions.silent else 0),
        }
        if part.additions.poll is not None:
            payload["poll"] = _poll(part.additions.poll)
        elif part.text.strip():
            payload["content"] = _content(part.text)
        quoted = wire.plain_id(part.to.quote or "")
        if quoted:
            payload["message_reference"] = {"message_id": quoted, "fail_if_not_exists": False}
        rows = _rows(part.additions.buttons)
        if rows:
            payload["components"] = rows
        return payload

    def _allowed(self) -> dict[str, Any]:
        """Returns the people whom a message may notify: none, or those whom it mentions."""
        people = ["users"] if self._settings.mentions == "users" else []
        return {"parse": people}

    async def _channel(self, to: ReplyTo) -> str:
        try:
            return await self._channels.channel(to)
        except PlatformError as error:
            error.is_sent = False  # the lookup of the channel failed, so no message was sent
            raise undelivered(error) from error

    def _check_rate_limit(self, method: str, path: str) -> None:
        """Raises while a rate limit holds: Discord counts refused requests too."""
        seconds = self._api.limits.seconds(kind_of(method, path))
        if seconds > 0:
            raise DeliveryDelayedError("The rate limit of Discord is reached.", seconds)

    async def typing(self, to: ReplyTo) -> None:
        """Shows the typing indicator for ten seconds."""
        path = f"/channels/{await self._channel(to)}/typing"
        kind = kind_of("POST", path)
        if not self._api.limits.seconds(kind):
            self._api.limits.note(kind, TYPING_SECONDS)
            await self._api.call("POST", path)

    async def edit(self, to: ReplyTo, platform_id: str, text: str) -> None:
        """Replaces the text of a message of the bot."""
        path = f"/channels/{await self._channel(to)}/messages/{_message(platform_id)}"
        self._check_rate_limit("PATCH", path)
        changed = {"content": _content(text), "allowed_mentions": self._allowed()}
        await self._call("PATCH", path, changed)

    async def without_buttons(self, message: wire.Message) -> None:
        """Removes the buttons of a message of the bot. Raises `PlatformError`."""
        path = f"/channels/{message.channel_id}/messages/{message.id}"
        await self._api.call("PATCH", path, {"components": []})

    async def react(self, to: ReplyTo, emoji: str) -> None:
        """Adds a reaction of the bot; an empty emoji removes the bot's reactions."""
        number = wire.plain_id(to.message_id)
        if not number:
            return  # an interaction has no message to react to
        path = f"/channels/{await self._channel(to)}/messages/{number}"
        if emoji:
            await self._call("PUT", f"{path}/reactions/{quote(emoji, safe='')}/@me")
            return
        for reaction in wire.message.decode(await self._call("GET", path)).reactions:
            if reaction.me:
                emoji_of_bot = reaction.emoji
                name = (
                    f"{emoji_of_bot.name}:{emoji_of_bot.id}"
                    if emoji_of_bot.id
                    else emoji_of_bot.name or ""
                )
                await self._call("DELETE", f"{path}/reactions/{quote(name, safe='')}/@me")

    async def _call(self, method: str, path: str, payload: Any = None) -> bytes:
        self._check_rate_limit(method, path)
        try:
            return await self._api.call(method, path, payload)
        except PlatformError as error:
            raise undelivered(error) from error

    async def settle(self, part: OutboundPart, me: str) -> Settlement:
        """Searches the part among the last messages of its channel.

        Discord stores no nonce, so the part is recognized by its text, among the messages after the
        one that it answers. The result is UNKNOWN when that is ambiguous.
        """
        path = (
            f"/channels/{await self._channels.channel(part.to)}/messages?limit={_SEARCHED_MESSAGES}"
        )
        raws = wire.messages.decode(await self._api.call("GET", path))
        min_id = wire.since(part.to.message_id)
        stored = [wire.message.decode(raw) for raw in raws]
        newer = [message for message in stored if int(message.id) > min_id]
        same = [message for message in newer if message.author.id == me and _is_part(message, part)]
        if same:
            return Settlement.DELIVERED if min_id and len(same) == 1 else Settlement.UNKNOWN
        is_all = len(stored) < _SEARCHED_MESSAGES or len(newer) < len(stored)
        return Settlement.ABSENT if is_all else Settlement.UNKNOWN


def nonce(part: OutboundPart) -> str:
    """Returns the nonce of a part, shortened to the 25 characters that Discord accepts."""
    digest = hashlib.sha256(part.nonce.encode()).digest()[:15]
    return base64.b32encode(digest).decode()


def _is_part(stored: wire.Message, part: OutboundPart) -> bool:
    if part.additions.poll is not None:
        text, question = (
            stored.poll.question.text if stored.poll else "",
            part.additions.poll.question,
        )
        return bool(text) and gist(text) == gist(question)
    if bool(stored.attachments) is not (part.additions.media is not None) or stored.poll:
        return False
    sent = _content(part.text) if part.text.strip() else ""
    return gist(stored.content) == gist(sent) if gist(sent) else stored.content == sent.strip()


def _content(text: str) -> str:
    """Returns a text in Discord's Markdown; the source text when the result is too long."""
    rendered = DISCORD.render(text)
    if rendered.strip() and len(rendered) <= MAX_CONTENT:
        return rendered
    return text[:MAX_CONTENT]


def _rows(buttons: tuple[tuple[Button, ...], ...]) -> list[dict[str, Any]]:
    """Returns rows of buttons without those whose command is too long; the text has them too."""
    rows = [
        {
            "type": 1,
            "components": [
                {
                    "type": 2,
                    "style": 2,
                    "label": button.label[:_MAX_LABEL],
                    "custom_id": button.command,
                }
                for button in row[:_MAX_ROWS]
                if 0 < len(button.command) <= _MAX_COMMAND
            ],
        }
        for row in buttons[:_MAX_ROWS]
    ]
    return [row for row in rows if row["components"]]


def _poll(poll: Poll) -> Mapping[str, Any]:
    if len(poll.options) > _MAX_ANSWERS or any(
        len(option) > _MAX_ANSWER for option in poll.options
    ):
        message = (
            f"A poll of Discord has at most {_MAX_ANSWERS} options of {_MAX_ANSWER} characters."
        )
        raise DeliveryRefusedError(message)
    return {
        "question": {"text": poll.question[:300]},
        "answers": [{"poll_media": {"text": option}} for option in poll.options],
        "duration": min(ceil(poll.seconds / 3600), _MAX_HOURS) if poll.seconds else 24,
        "allow_multiselect": poll.most > 1,
    }


def _message(platform_id: str) -> str:
    if not wire.is_snowflake(platform_id):
        raise DeliveryRefusedError(f"{platform_id!r} is not an id of a Discord message.")
    return platform_id
