"""Menus of commands on Telegram, and slash commands of Slack, from the gateway's table."""

import json
from pathlib import Path
from typing import Any

import anyio

from skerry.testing.gateway import running_gateway
from skerry.testing.slack_server import APP_TOKEN, BOT_TOKEN, SlackServer
from skerry.testing.telegram_server import TelegramServer

ACCESS: dict[str, Any] = {"dmPolicy": "open", "allowFrom": ["*"]}


def telegram(server: TelegramServer, owners: list[str], **commands: Any) -> dict[str, Any]:
    account = {"botToken": server.token, "apiRoot": server.root, "pollSeconds": 2}
    return {
        "channels": {"telegram": {**account, **ACCESS}},
        "commands": {"ownerAllowFrom": owners, **commands},
    }


async def until(server: TelegramServer, chat: str, *, shown: bool) -> None:
    with anyio.fail_after(60):
        while bool(server.menus.get(chat)) is not shown:  # noqa: ASYNC110 - a plain dict
            await anyio.sleep(0.02)


async def test_a_bot_shows_each_person_the_commands_that_are_theirs(tmp_path: Path) -> None:
    async with TelegramServer() as server:
        config = telegram(server, ["telegram:7", "slack:U1"])
        async with running_gateway(home=tmp_path, config=config) as gateway:
            server.say("/whoami")
            await server.wait_for(1)
            await until(server, "7", shown=True)
            owner, everybody = set(server.menus["7"]), set(server.menus["default"])
            assert everybody < owner
            assert {"commands", "help", "whoami"} <= everybody
            assert "restart" in owner - everybody
            await gateway.stop()
            count = server.calls.count("setMyCommands")
            await gateway.start()
            server.say("hello")
            await server.wait_for(2)
            server.say("hello")
            await server.wait_for(3)
            assert server.calls.count("setMyCommands") == count, "it was set though nothing changed"
            await gateway.stop()
        assert server.faults == []


async def test_menus_go_with_the_owner_and_with_the_setting(tmp_path: Path) -> None:
    async with TelegramServer() as server:
        config = telegram(server, ["telegram:7"])
        async with running_gateway(home=tmp_path, config=config) as gateway:
            await until(server, "7", shown=True)
            await gateway.stop()
            (tmp_path / "skerry.json").write_text(_json(telegram(server, ["telegram:8"])))
            await gateway.start()
            await until(server, "7", shown=False)
            await until(server, "8", shown=True)
            await gateway.stop()
            off = telegram(server, ["telegram:8"], native=False)
            (tmp_path / "skerry.json").write_text(_json(off))
            await gateway.start()
            await until(server, "8", shown=False)
            await until(server, "default", shown=False)
            await gateway.stop()
        assert server.faults == []


def _json(config: dict[str, Any]) -> str:
    return json.dumps(config)


async def test_slash_commands_of_slack_are_commands_or_messages(tmp_path: Path) -> None:
    async with SlackServer() as server:
        account = {"botToken": BOT_TOKEN, "appToken": APP_TOKEN, "apiRoot": server.root}
        config = {
            "channels": {"slack": {**account, **ACCESS, "groups": {"C1": {}}}},
            "commands": {"ownerAllowFrom": ["slack:UALICE"]},
        }
        async with running_gateway(home=tmp_path, config=config) as gateway:
            server.slash("/whoami", "")
            (answer,) = await server.wait_for(1)
            assert answer.startswith("You are the owner, over slack")
            server.slash("/skerry", "whoami")
            assert (await server.wait_for(2))[1] == answer
            server.slash("/skerry", "what is the tide?")
            server.repeat()
            assert (await server.wait_for(3))[2] == "echo: what is the tide?"
            server.slash("/skerry", "and now?", channel="C1")
            assert await server.wait_for(1, "C1") == ["echo: and now?"]
            assert await gateway.stop() == 0
        assert (len(server.texts()), server.unacknowledged) == (3, 0)
        assert server.faults == []
