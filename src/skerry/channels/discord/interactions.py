"""Interactions with a bot: buttons, and the menu of slash commands."""

import hashlib
import logging
from typing import Any, Final

import msgspec
from msgspec import Raw

from skerry.channels.discord import wire
from skerry.channels.discord.api import RestApi
from skerry.sdk.channel_errors import PlatformError
from skerry.sdk.channel_host import MenuCommand

logger = logging.getLogger(__name__)

ANSWER_SECONDS: Final = 3.0
"""Seconds after which Discord shows an interaction as failed."""
_EPHEMERAL: Final = 1 << 6
_MAX_COMMANDS: Final = 100
_MAX_DESCRIPTION: Final = 100
_BUTTON_IS_TAKEN: Final = {"type": 6}


async def acknowledge(api: RestApi, raw: Raw) -> None:
    """Acknowledges an interaction at once; the agent's answer follows as a message."""
    try:
        interaction = wire.interaction.decode(raw)
        if not interaction.command:
            return
        answer: dict[str, Any] = _BUTTON_IS_TAKEN
        if interaction.type != wire.BUTTON:
            content = interaction.command.replace("`", "'")[:1000]
            silent = {"flags": _EPHEMERAL, "allowed_mentions": {"parse": []}}
            answer = {"type": 4, "data": {"content": f"`{content}`", **silent}}
        path = f"/interactions/{interaction.id}/{interaction.token}/callback"
        await api.call("POST", path, answer, seconds=ANSWER_SECONDS)
    except (PlatformError, msgspec.DecodeError) as error:
        logger.info("discord: cannot acknowledge an interaction: %s", error)


def menu(commands: tuple[MenuCommand, ...]) -> list[dict[str, Any]]:
    """Returns the commands as entries of Discord's menu, for servers and for direct chats."""
    return [_entry(command) for command in commands[:_MAX_COMMANDS]]


def digest(entries: list[dict[str, Any]]) -> str:
    """Returns a digest of a menu; empty for an empty one, which a new bot has."""
    return hashlib.sha256(msgspec.json.encode(entries)).hexdigest() if entries else ""


async def set_menu(api: RestApi, entries: list[dict[str, Any]]) -> None:
    """Replaces the bot's menu.

    Raises:
        PlatformError: Discord refuses the menu.
        DecodeError: Discord's answer has no application id.
    """
    application = wire.user.decode(await api.call("GET", "/applications/@me"))
    await api.call("PUT", f"/applications/{application.id}/commands", entries)


def _entry(command: MenuCommand) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": command.name,
        "description": command.description[:_MAX_DESCRIPTION] or command.name,
        "type": 1,
        "contexts": [0, 1],
    }
    if command.accepts_arguments:
        text = {"type": 3, "name": "arguments", "description": "Text after the command"}
        entry["options"] = [text]
    return entry
