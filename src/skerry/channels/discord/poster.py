"""Messages, edits and reactions of a bot, and the search for a part that may have arrived."""

import base64
import hashlib
from collections.abc import Mapping
from math import ceil
from typing import Any, Final
from urllib.parse import quote

import msgspec

from skerry.channels.discord import wire
from skerry.channels.discord.api import RestApi, kind_of
from skerry.channels.discord.channel_cache import Places
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

MOST_CONTENT: Final = 2000
"""Characters of a message, its marks included."""
TYPING_SECONDS: Final = 8.0
"""Seconds for which nothing new is shown; Discord shows it for ten."""
_LOOKED_AT: Final = 100
_NO_PREVIEWS: Final = 1 << 2
_SILENT: Final = 1 << 12
_MOST_ROWS: Final = 5
_MOST_LABEL: Final = 80
_MOST_COMMAND: Final = 100
_MOST_ANSWERS: Final = 10
_MOST_ANSWER: Final = 55
_MOST_HOURS: Final = 768


class Poster:
    """Sends what a bot says."""

    def __init__(self, settings: DiscordAccount, api: RestApi, places: Places) -> None:
        self._settings = settings
        self._api = api
        self._places = places

    async def send(self, part: OutboundPart) -> Receipt:
        """Sends one part; within minutes the same part sent again is the same message."""
        path = f"/channels/{await self._channel(part.to)}/messages"
        self._refuse_while_quiet("POST", path)
        payload = self._payload(part)
        try:
            if part.more.media is not None:
                file = await read_file(part.more.media)
                answer = await self._api.upload(path, payload, file)
            else:
                answer = await self._api.call("POST", path, payload)
        except PlatformError as error:
            raise undelivered(error) from error
        try:
            return Receipt((wire.message.decode(answer).id,))
        except msgspec.DecodeError:
            return Receipt(())  # it was sent; its id is for edits alone

    def _payload(self, part: OutboundPart) -> dict[str, Any]:
        payload: dict[str, Any] = {
            "nonce": nonce(part),
            "enforce_nonce": True,
            "allowed_mentions": self._allowed(),
            "flags": _NO_PREVIEWS | (_SILENT if part.more.silent else 0),
        }
        if part.more.poll is not None:
            payload["poll"] = _poll(part.more.poll)
        elif part.text.strip():
            payload["content"] = _content(part.text)
        quoted = wire.plain_id(part.to.quote or "")
        if quoted:
            payload["message_reference"] = {"message_id": quoted, "fail_if_not_exists": False}
        rows = _rows(part.more.buttons)
        if rows:
            payload["components"] = rows
        return payload

    def _allowed(self) -> dict[str, Any]:
        """Returns whom a message may notify: nobody, or single people where the owner said so."""
        people = ["users"] if self._settings.mentions == "users" else []
        return {"parse": people}

    async def _channel(self, to: ReplyTo) -> str:
        try:
            return await self._places.channel(to)
        except PlatformError as error:
            error.is_sent = False  # the message, of which it was to find the channel
            raise undelivered(error) from error

    def _refuse_while_quiet(self, method: str, path: str) -> None:
        """Sends nothing while the server wants no request: refused ones are counted."""
        seconds = self._api.limits.seconds(kind_of(method, path))
        if seconds > 0:
            raise DeliveryDelayedError("The rate limit of Discord is reached.", seconds)

    async def typing(self, to: ReplyTo) -> None:
        """Shows for ten seconds that an answer is being written."""
        path = f"/channels/{await self._channel(to)}/typing"
        kind = kind_of("POST", path)
        if not self._api.limits.seconds(kind):
            self._api.limits.note(kind, TYPING_SECONDS)
            await self._api.call("POST", path)

    async def edit(self, to: ReplyTo, platform_id: str, text: str) -> None:
        """Replaces the text of a message of the bot."""
        path = f"/channels/{await self._channel(to)}/messages/{_message(platform_id)}"
        self._refuse_while_quiet("PATCH", path)
        changed = {"content": _content(text), "allowed_mentions": self._allowed()}
        await self._asked("PATCH", path, changed)

    async def without_buttons(self, message: wire.Message) -> None:
        """Takes the buttons of a message of the bot away. Raises `PlatformError`."""
        path = f"/channels/{message.channel_id}/messages/{message.id}"
        await self._api.call("PATCH", path, {"components": []})

    async def react(self, to: ReplyTo, emoji: str) -> None:
        """Adds a reaction of the bot; an empty emoji removes those that it set."""
        number = wire.plain_id(to.message_id)
        if not number:
            return  # an interaction is no message
        path = f"/channels/{await self._channel(to)}/messages/{number}"
        if emoji:
            await self._asked("PUT", f"{path}/reactions/{quote(emoji, safe='')}/@me")
            return
        for reaction in wire.message.decode(await self._asked("GET", path)).reactions:
            if reaction.me:
                one = reaction.emoji
                name = f"{one.name}:{one.id}" if one.id else one.name or ""
                await self._asked("DELETE", f"{path}/reactions/{quote(name, safe='')}/@me")

    async def _asked(self, method: str, path: str, payload: Any = None) -> bytes:
        self._refuse_while_quiet(method, path)
        try:
            return await self._api.call(method, path, payload)
        except PlatformError as error:
            raise undelivered(error) from error

    async def settle(self, part: OutboundPart, me: str) -> Settlement:
        """Looks for the part among the last messages of its channel.

        Discord keeps no nonce, so a part is known by its text behind the message that it answers.
        Where that does not decide, nobody knows.
        """
        path = f"/channels/{await self._places.channel(part.to)}/messages?limit={_LOOKED_AT}"
        raws = wire.messages.decode(await self._api.call("GET", path))
        behind = wire.since(part.to.message_id)
        stored = [wire.message.decode(raw) for raw in raws]
        newer = [one for one in stored if int(one.id) > behind]
        same = [one for one in newer if one.author.id == me and _is_part(one, part)]
        if same:
            return Settlement.DELIVERED if behind and len(same) == 1 else Settlement.UNKNOWN
        is_all = len(stored) < _LOOKED_AT or len(newer) < len(stored)
        return Settlement.ABSENT if is_all else Settlement.UNKNOWN


def nonce(part: OutboundPart) -> str:
    """Returns the name of a part within the 25 characters that Discord takes."""
    digest = hashlib.sha256(part.nonce.encode()).digest()[:15]
    return base64.b32encode(digest).decode()


def _is_part(stored: wire.Message, part: OutboundPart) -> bool:
    if part.more.poll is not None:
        text, question = stored.poll.question.text if stored.poll else "", part.more.poll.question
        return bool(text) and gist(text) == gist(question)
    if bool(stored.attachments) is not (part.more.media is not None) or stored.poll:
        return False
    sent = _content(part.text) if part.text.strip() else ""
    return gist(stored.content) == gist(sent) if gist(sent) else stored.content == sent.strip()


def _content(text: str) -> str:
    """Returns a text in Discord's Markdown; with too many marks it stays as it was written."""
    rendered = DISCORD.render(text)
    if rendered.strip() and len(rendered) <= MOST_CONTENT:
        return rendered
    return text[:MOST_CONTENT]


def _rows(buttons: tuple[tuple[Button, ...], ...]) -> list[dict[str, Any]]:
    """Returns buttons; one whose command is too long is left out, as the text has it too."""
    rows = [
        {
            "type": 1,
            "components": [
                {
                    "type": 2,
                    "style": 2,
                    "label": button.label[:_MOST_LABEL],
                    "custom_id": button.command,
                }
                for button in row[:_MOST_ROWS]
                if 0 < len(button.command) <= _MOST_COMMAND
            ],
        }
        for row in buttons[:_MOST_ROWS]
    ]
    return [row for row in rows if row["components"]]


def _poll(poll: Poll) -> Mapping[str, Any]:
    if len(poll.options) > _MOST_ANSWERS or any(len(one) > _MOST_ANSWER for one in poll.options):
        message = f"A poll of Discord has {_MOST_ANSWERS} options of {_MOST_ANSWER} characters."
        raise DeliveryRefusedError(message)
    return {
        "question": {"text": poll.question[:300]},
        "answers": [{"poll_media": {"text": option}} for option in poll.options],
        "duration": min(ceil(poll.seconds / 3600), _MOST_HOURS) if poll.seconds else 24,
        "allow_multiselect": poll.most > 1,
    }


def _message(platform_id: str) -> str:
    if not wire.is_snowflake(platform_id):
        raise DeliveryRefusedError(f"{platform_id!r} is no message of Discord.")
    return platform_id
