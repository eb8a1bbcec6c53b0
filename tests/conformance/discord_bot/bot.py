"""A bot of discord.py at one of our test servers; prints the received events and the answers.

Runs in an environment of its own: `python bot.py TOKEN ROOT GATEWAY ROOM`. Bodies of our adapter
arrive on stdin, a JSON line each, and are compared with those that the library makes of the same.
"""

import asyncio
import io
import json
import sys
import traceback
from datetime import timedelta
from importlib import import_module
from typing import Any

discord: Any = import_module("discord")
http: Any = import_module("discord.http")
gateway: Any = import_module("discord.gateway")
yarl: Any = import_module("yarl")


def differences(ours: Any, theirs: Any, place: str) -> list[str]:
    """Returns the paths of our values that differ from those of the library."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return [
            fault
            for key, value in ours.items()
            for fault in differences(value, theirs.get(key, "nothing"), f"{place}.{key}")
        ]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [
            fault
            for number, (one, other) in enumerate(zip(ours, theirs, strict=True))
            for fault in differences(one, other, f"{place}[{number}]")
        ]
    same = str(ours) == str(theirs) or ours == theirs
    return [] if same else [f"{place}: {ours!r}, not {theirs!r}"]


def view(rows: list[Any]) -> Any:
    """Returns the library's buttons."""
    made = discord.ui.View()
    for number, row in enumerate(rows):
        for button in row["components"]:
            style, name = discord.ButtonStyle(button["style"]), button["custom_id"]
            label = button["label"]
            made.add_item(discord.ui.Button(style=style, label=label, custom_id=name, row=number))
    return made


def poll(ours: dict[str, Any]) -> Any:
    """Returns the library's poll."""
    hours = timedelta(hours=ours["duration"])
    made = discord.Poll(ours["question"]["text"], hours, multiple=ours["allow_multiselect"])
    for answer in ours["answers"]:
        made.add_answer(text=answer["poll_media"]["text"])
    return made


def body(ours: dict[str, Any]) -> dict[str, Any]:
    """Returns the body that the library makes of what ours says."""
    payload: dict[str, Any] = {"nonce": ours.get("nonce")}
    if "content" in ours:
        payload["content"] = ours["content"]
    if "flags" in ours:
        payload["flags"] = discord.MessageFlags._from_value(ours["flags"])
    allowed = ours.get("allowed_mentions", {}).get("parse", [])
    payload["allowed_mentions"] = discord.AllowedMentions(
        everyone="everyone" in allowed, roles="roles" in allowed, users="users" in allowed
    )
    if "components" in ours:
        payload["view"] = view(ours["components"])
    if "message_reference" in ours:
        number = int(ours["message_reference"]["message_id"])
        named = {"channel_id": 1, "fail_if_not_exists": False}
        payload["message_reference"] = discord.MessageReference(
            message_id=number, **named
        ).to_message_reference_dict()
    if "poll" in ours:
        payload["poll"] = poll(ours["poll"])
    with http.handle_message_parameters(**payload) as made:
        return dict(made.payload)


def command(ours: dict[str, Any]) -> dict[str, Any]:
    """Returns the library's view of an entry of the menu."""
    stored = {**ours, "id": "1", "application_id": "2", "version": "3"}
    return dict(discord.app_commands.AppCommand(data=stored, state=None).to_dict())


def checked(line: dict[str, Any]) -> list[str]:
    """Returns the faults in a payload that our adapter sends."""
    kind, ours = line["kind"], line["body"]
    if kind == "answer":
        discord.InteractionResponseType(ours["type"])
        data = ours.get("data")
        return [] if data is None else differences(data, body(data), kind)
    if kind == "command":
        contexts = discord.app_commands.AppCommandContext(guild=True, dm_channel=True)
        theirs = {**command(ours), "contexts": contexts.to_array()}  # it reads none of its own
        return differences(ours, theirs, kind)
    return differences(ours, body(ours), kind)


class Bot(discord.Client):  # type: ignore[misc] # the library is not installed where types are checked
    """Reads, acts once in the channel, and leaves."""

    def __init__(self, room: int) -> None:
        intents = discord.Intents.none()
        intents.guilds = intents.guild_messages = intents.dm_messages = True
        intents.message_content = True
        super().__init__(intents=intents)
        self.room = room
        self.has_acted = asyncio.Event()
        self.read: list[list[Any]] = []
        self.acts: list[list[Any]] = []
        self.refused = ""
        self.history: list[str] = []

    async def on_message(self, message: Any) -> None:
        """Notes a message of a person."""
        if message.author.bot:
            return
        roles = [str(role) for role in getattr(message.author, "_roles", ())]
        files = [file.filename for file in message.attachments]
        self.read.append(
            [message.content, message.author.display_name, message.channel.type.name, roles, files]
        )
        if message.content == "in a thread":
            await self.act()
            self.has_acted.set()
        if message.content == "that is all":
            await self.has_acted.wait()
            await self.close()

    async def on_message_edit(self, before: Any, after: Any) -> None:
        """Notes an edit."""
        self.acts.append(["edit", before.content, after.content])

    async def on_interaction(self, interaction: Any) -> None:
        """Answers a button."""
        self.acts.append([interaction.type.name, interaction.user.display_name, interaction.data])
        if interaction.type is discord.InteractionType.component:
            await interaction.response.defer()

    async def on_error(self, *_: Any, **__: Any) -> None:
        """Leaves, so that the failure is seen at once."""
        self.refused = traceback.format_exc()
        await self.close()

    async def act(self) -> None:
        """Sends, changes and looks up messages."""
        room = await self.fetch_channel(self.room)
        nobody = discord.AllowedMentions.none()
        async with room.typing():
            sent = await room.send("**hi**", nonce="n1", allowed_mentions=nobody)
        again = await room.send("**hi**", nonce="n1", allowed_mentions=nobody)
        self.acts.append(["once", sent.id == again.id])
        await sent.edit(content="there", allowed_mentions=nobody)
        await sent.add_reaction("👍")
        file = discord.File(io.BytesIO(b"data"), "d.txt")
        await room.send("look", file=file, nonce="n2", allowed_mentions=nobody)
        self.history = [one.content async for one in room.history(limit=3)]
        try:
            await room.send("x" * 2001, nonce="n3", allowed_mentions=nobody)
        except discord.HTTPException as error:
            self.refused = str(error)


async def main(token: str, root: str, address: str, room: str) -> None:
    wrong = [fault for line in sys.stdin for fault in checked(json.loads(line))]
    http.Route.BASE = root
    gateway.DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(address)
    bot = Bot(int(room))
    await bot.start(token)
    answer = {"read": bot.read, "acts": bot.acts, "refused": bot.refused, "wrong": wrong}
    sys.stdout.write(json.dumps({**answer, "history": bot.history}))


asyncio.run(main(*sys.argv[1:]))
