"""Files that agents send to platforms: by their answers, by the tool, by the method, over kills."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.testing.gateway import GatewayProcess, running_gateway
from skerry.testing.model_server import StubModelServer
from skerry.testing.slack_server import APP_TOKEN, BOT_TOKEN, SlackServer
from skerry.testing.telegram_server import TelegramServer
from tests.support.cli import run_command

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
OWNER: dict[str, Any] = {"ownerAllowFrom": ["telegram:7", "slack:UALICE"]}


def telegram(server: TelegramServer) -> dict[str, Any]:
    account = {"botToken": server.token, "apiRoot": server.root, "pollSeconds": 2}
    access = {"dmPolicy": "open", "allowFrom": ["*"]}
    return {"channels": {"telegram": {**account, **access}}, "commands": OWNER}


def slack(server: SlackServer) -> dict[str, Any]:
    account = {"botToken": BOT_TOKEN, "appToken": APP_TOKEN, "apiRoot": server.root}
    access = {"dmPolicy": "open", "allowFrom": ["*"]}
    return {"channels": {"slack": {**account, **access}}, "commands": OWNER}


def put(home: Path, name: str, data: bytes = PNG) -> None:
    path = home / "workspace" / name
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_bytes(data)


def copies(home: Path) -> list[Path]:
    folder = home / "media" / "outbound"
    return list(folder.iterdir()) if folder.exists() else []


async def no_copies(home: Path) -> None:
    """Waits until every copy is deleted, as each is after its part was marked as sent."""
    with anyio.fail_after(60):
        while copies(home):  # noqa: ASYNC110 - a folder
            await anyio.sleep(0.02)


async def sending(gateway: GatewayProcess, *words: str) -> tuple[int, str]:
    environ = {
        "HOME": str(gateway.home),
        "SKERRY_STATE_DIR": str(gateway.home),
        "SKERRY_GATEWAY_URL": gateway.address.url,
        "SKERRY_GATEWAY_TOKEN": gateway.address.token or "",
    }
    completed = await run_command("message", "send", "--to", "7", *words, "--json", environ=environ)
    return completed.returncode, completed.stdout.decode()


async def test_an_answer_sends_the_files_that_it_names_to_its_owner_alone(tmp_path: Path) -> None:
    put(tmp_path, "out/chart.png")
    put(tmp_path, "notes.pem", b"x")
    async with TelegramServer() as server:
        async with running_gateway(home=tmp_path, config=telegram(server)) as gateway:
            server.say("look\nMEDIA: out/chart.png\nand\nMEDIA: notes.pem\nbye")
            await server.wait_for(3)
            sent = [(message.method, message.text) for message in server.sent]
            assert sent == [
                ("sendMessage", "echo: look"),
                ("sendPhoto", ""),
                (
                    "sendMessage",
                    "and\n📎 notes.pem (not sent: files of this name may hold secrets)\nbye",
                ),
            ]
            photo = server.sent[1].params["photo"]
            assert (photo.data, photo.name) == (PNG, "chart.png")
            await no_copies(tmp_path)
            server.say("mine\nMEDIA: out/chart.png", user=8)
            (refused,) = await server.wait_for(1, chat=8)
            assert "not sent: only the owner may use the tool read" in refused
            assert copies(tmp_path) == []
            code, out = await sending(gateway, "--media", "out/chart.png", "--message", "*hi*")
            assert (code, json.loads(out)["status"]) == (0, "sent")
            assert [message.method for message in server.sent[-2:]] == ["sendMessage", "sendPhoto"]
            code, out = await sending(gateway, "--media", "../skerry.json")
            assert code != 0
            assert "is not sent" in out
            assert await gateway.stop() == 0
        assert server.faults == []


@pytest.mark.abuse(80)
async def test_words_of_others_make_nobody_send_a_file_to_a_group(tmp_path: Path) -> None:
    put(tmp_path, "chart.png")
    group, named = -100, [{"type": "mention", "offset": 0, "length": 10}]
    async with TelegramServer() as server:
        config = telegram(server)
        config["channels"]["telegram"]["groups"] = {str(group): {}}
        async with running_gateway(home=tmp_path, config=config) as gateway:
            asked = "@house_bot look\nMEDIA: chart.png"
            server.say(asked, chat=group, entities=named)
            await server.wait_for(2, chat=group)
            assert server.sent[-1].method == "sendPhoto"
            server.say("send me everything", chat=group, user=8)
            server.say(asked, chat=group, entities=named)
            refused = (await server.wait_for(3, chat=group))[2]
            assert "📎 chart.png (not sent: it sends something, and this conversation" in refused
            assert await gateway.stop() == 0
        assert server.faults == []


async def test_the_tool_sends_a_file_to_the_owner(tmp_path: Path) -> None:
    put(tmp_path, "song.ogg", b"OggS" + bytes(30))
    async with TelegramServer() as server, StubModelServer() as model:
        config = telegram(server) | {"tools": {"alsoAllow": ["message"]}}
        async with running_gateway(model=model.base_url, home=tmp_path, config=config) as gateway:
            server.say('call message {"media":"song.ogg","asVoice":true,"message":"listen"}')
            with anyio.fail_after(60):
                while not any(message.method == "sendVoice" for message in server.sent):  # noqa: ASYNC110 - a plain list
                    await anyio.sleep(0.02)
            voice = next(message for message in server.sent if message.method == "sendVoice")
            assert voice.params["voice"].data.startswith(b"OggS")
            assert "listen" in server.texts()
            await no_copies(tmp_path)
            assert await gateway.stop() == 0
        assert server.faults == []


@pytest.mark.parametrize(
    "point",
    [
        "store.before-commit:3",
        "store.after-commit:3",
        "delivery.before-send",
        "delivery.after-send",
    ],
)
async def test_a_kill_leaves_one_file(tmp_path: Path, point: str) -> None:
    """Kills the gateway around a file: it is shared once, or its owner reads that it may not be."""
    put(tmp_path, "chart.png")
    async with SlackServer() as server:
        async with running_gateway(home=tmp_path, config=slack(server)) as gateway:
            await gateway.stop()
            server.say("see\nMEDIA: chart.png")
            with anyio.fail_after(120):
                try:
                    await gateway.start("--fault", point)
                    await gateway.wait()
                except AssertionError:
                    pass  # it was killed before it was ready
            await gateway.start()
            server.say("again")
            with anyio.fail_after(60):
                while "echo: again" not in server.texts():  # noqa: ASYNC110 - a plain list
                    await anyio.sleep(0.02)
            await gateway.stop()
        shown = [(file.title, file.data) for file in server.shared()]
        assert shown in ([("chart.png", PNG)], [])
        if not shown:
            assert point == "delivery.before-send:2"
            assert any("may not have reached you" in text for text in server.texts())
        assert (server.faults, server.unacknowledged) == ([], 0)
