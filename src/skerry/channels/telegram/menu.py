"""The menu of commands that a bot shows in its chats."""

import hashlib
import logging
from typing import Any, Final

import msgspec

from skerry.channels.telegram.api import ApiError, BotApi
from skerry.sdk.channel_host import Cursor, Menu, MenuCommand

logger = logging.getLogger(__name__)

_MAX_COMMANDS: Final = 100
_MAX_NAME: Final = 32
_MAX_TEXT: Final = 256
_MAX_OWNERS: Final = 10
_CURSOR: Final = "menu"


async def show(api: BotApi, menu: Menu, cursor: Cursor) -> None:
    """Sends the bot's commands when they differ from the stored ones; raises nothing.

    All people see the commands that every sender may give; the owner's chat has all commands.
    """
    scopes = _scopes(menu)
    digest = hashlib.sha256(msgspec.json.encode(scopes)).hexdigest()
    last, *chats = (await cursor.read(_CURSOR)).split() or [""]
    if digest == last or not (scopes or last):
        return
    present = [str(scope["chat_id"]) for scope, _ in scopes if "chat_id" in scope]
    outdated = [{"type": "chat", "chat_id": int(chat)} for chat in chats if chat not in present]
    if not scopes:
        outdated.append({"type": "default"})
    succeeded = True
    for scope in outdated:
        succeeded &= await _call(api, "deleteMyCommands", {"scope": scope})
    for scope, commands in scopes:
        succeeded &= await _call(api, "setMyCommands", {"scope": scope, "commands": commands})
    if succeeded:
        await cursor.write(_CURSOR, " ".join([digest if scopes else "", *present]).strip())


def _scopes(menu: Menu) -> list[tuple[dict[str, Any], list[dict[str, str]]]]:
    """Returns the commands of each scope; none where the configuration wants no menu."""
    if not menu.is_native:
        return []
    chats = [int(owner) for owner in menu.owners if owner.isdigit()][:_MAX_OWNERS]
    default_menu: tuple[dict[str, Any], tuple[MenuCommand, ...]] = (
        {"type": "default"},
        menu.public,
    )
    owners = [({"type": "chat", "chat_id": chat}, menu.owner) for chat in chats]
    return [(scope, _commands(commands)) for scope, commands in (default_menu, *owners) if commands]


def _commands(commands: tuple[MenuCommand, ...]) -> list[dict[str, str]]:
    """Returns commands with names that Telegram accepts: `_` in place of `-`."""
    named = [
        {"command": name, "description": command.description[:_MAX_TEXT] or name}
        for command in commands
        if (name := command.name.replace("-", "_")).replace("_", "").isalnum()
        and name.isascii()
        and len(name) <= _MAX_NAME
    ]
    return named[:_MAX_COMMANDS]


async def _call(api: BotApi, method: str, params: dict[str, Any]) -> bool:
    """Calls a method; returns False if Telegram refuses it, such as for a chat that never began."""
    try:
        await api.call(method, params)
    except ApiError as error:
        logger.info("telegram: cannot set the menu of commands: %s", error)
        return False
    return True
