"""Telegram from the first command to the last answer, counted in the log of the Bot API."""

import json
import os
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest

from skerry.client.client import GatewayClient
from skerry.runtime.delivery import MISSING
from skerry.testing.gateway import GatewayProcess, running_gateway
from skerry.testing.model_server import StubModelServer
from skerry.testing.telegram_server import TelegramServer
from tests.support.cli import run_command

POINTS = (
    "store.before-commit:1",
    "store.after-commit:1",
    "dispatch.accepted",
    "delivery.before-send",
    "delivery.after-send",
)
FULL = bool(os.environ.get("SKERRY_FULL"))
KILLS = 40 if FULL else 12
SEEDS = range(5) if FULL else range(1)
"""With all tests 200 kills, 12 else."""


def configured(server: TelegramServer, **settings: Any) -> dict[str, Any]:
    account = {"botToken": server.token, "apiRoot": server.root, "pollSeconds": 2}
    return {"channels": {"telegram": {**account, **settings}}}


def everybody(server: TelegramServer) -> dict[str, Any]:
    return configured(server, dmPolicy="open", allowFrom=["*"])


async def skerry(gateway: GatewayProcess, *words: str, said: bytes = b"") -> tuple[int, str, str]:
    environ = {
        "HOME": str(gateway.home),
        "SKERRY_STATE_DIR": str(gateway.home),
        "SKERRY_GATEWAY_URL": gateway.address.url,
        "SKERRY_GATEWAY_TOKEN": gateway.address.token or "",
    }
    completed = await run_command(*words, environ=environ, said=said)
    return completed.returncode, completed.stdout.decode(), completed.stderr.decode()


async def answered(gateway: GatewayProcess, *words: str) -> Any:
    """Returns the JSON that a command prints."""
    code, out, err = await skerry(gateway, *words, "--json")
    assert code == 0, err
    return json.loads(out)


async def connected(gateway: GatewayProcess, state: str = "connected") -> dict[str, Any]:
    """Returns the row of the only account once it has this state."""
    with anyio.fail_after(60):
        while True:
            status = await answered(gateway, "channels", "status")
            rows: list[dict[str, Any]] = status["channelAccounts"].get("telegram", [])
            if rows and rows[0]["state"] == state:
                return rows[0]
            await anyio.sleep(0.05)


@asynccontextmanager
async def telegram(
    home: Path, *, configure: Any = everybody
) -> AsyncGenerator[tuple[TelegramServer, GatewayProcess]]:
    async with TelegramServer() as server:
        config = configure(server) if configure else None
        async with running_gateway(home=home, config=config) as gateway:
            yield server, gateway
        assert server.faults == []


@pytest.mark.requirement("gateway-owns-channel-connections")
async def test_a_bot_is_added_paired_and_talked_to_by_commands_alone(tmp_path: Path) -> None:
    async with telegram(tmp_path, configure=None) as (server, gateway):
        listed = await answered(gateway, "channels", "list")
        assert listed["accounts"] == []
        assert {"channel": "telegram", "label": "Telegram"} in listed["platforms"]
        words = ("channels", "add", "telegram", "--secret", "-", "--set", f"apiRoot={server.root}")
        code, out, _ = await skerry(gateway, *words, said=f"{server.token}\n".encode())
        assert (code, out) == (0, "Telegram: the account default is configured.\n")
        assert (await connected(gateway))["name"] == "@house_bot"
        server.say("hello")
        (asked,) = await server.wait_for(1)
        (request,) = (await answered(gateway, "pairing", "list"))["requests"]
        assert request["code"] in asked
        await answered(gateway, "pairing", "approve", "telegram", request["code"])
        server.say("and **now**?")
        assert (await server.wait_for(2))[1] == "echo: and now?"
        assert server.actions, "nobody saw that an answer was being written"
        probed = await answered(gateway, "channels", "status", "telegram", "--probe")
        assert probed["channelAccounts"]["telegram"][0]["probe"]["ok"]


@pytest.mark.requirement("gateway-send-method")
async def test_a_message_is_sent_once_for_each_key(tmp_path: Path) -> None:
    async with telegram(tmp_path) as (server, gateway):
        words = ("message", "send", "--to", "7", "--message", "*hi*", "--key", "k1")
        first = await answered(gateway, *words)
        assert (first["status"], first["channel"]) == ("sent", "telegram")
        assert await answered(gateway, *words) == first
        assert server.texts() == ["hi"]
        options = ("--option", "now", "--option", "later")
        await answered(gateway, "message", "poll", "--to", "7", "--question", "When?", *options)
        assert server.sent[-1].params["options"] == [{"text": "now"}, {"text": "later"}]
        number = str(server.say("look"))
        await answered(gateway, "message", "react", "--to", "7", "--id", number, "--emoji", "👍")
        assert server.sent[-1].method in {"setMessageReaction", "sendMessage"}
        code, out, _ = await skerry(
            gateway,
            "message",
            "send",
            "--channel",
            "telegrm",
            "--to",
            "7",
            "--message",
            "x",
            "--json",
        )
        assert code != 0
        assert "Did you mean telegram/default?" in out


async def test_an_account_follows_the_configuration(tmp_path: Path) -> None:
    async with telegram(tmp_path) as (server, gateway):
        await connected(gateway)
        await answered(gateway, "channels", "login", "telegram", "--secret", "1:wrong")
        refused = await connected(gateway, "needs-login")
        assert "401" in refused["lastError"]
        assert "skerry channels login telegram" in refused["remedy"]
        async with GatewayClient(gateway.address) as client:
            assert (await client.request("health"))["ok"], "one dead account harms nobody else"
        await answered(gateway, "channels", "login", "telegram", "--secret", server.token)
        await connected(gateway)
        server.say("again")
        await server.wait_for(1)
        await answered(gateway, "channels", "restart", "telegram")
        await connected(gateway)
        await answered(gateway, "channels", "logout", "telegram")
        await connected(gateway, "needs-login")
        await answered(gateway, "channels", "remove", "telegram")
        with anyio.fail_after(60):
            while (await answered(gateway, "channels", "status"))["channelOrder"]:  # noqa: ASYNC110 - a command
                await anyio.sleep(0.05)


@pytest.mark.requirement("auth-multi-account")
async def test_two_bots_have_conversations_of_their_own(tmp_path: Path) -> None:
    async with TelegramServer() as telegram_server, TelegramServer(username="work_bot") as two:
        config = everybody(telegram_server)
        work = {"botToken": two.token, "apiRoot": two.root}
        config["channels"]["telegram"]["accounts"] = {"work": work}
        async with running_gateway(home=tmp_path, config=config) as gateway:
            telegram_server.say("to the first")
            two.say("to the second")
            assert await telegram_server.wait_for(1) == ["echo: to the first"]
            assert await two.wait_for(1) == ["echo: to the second"]
            telegram_server.revoked = True
            two.say("still there?")
            assert (await two.wait_for(2))[1] == "echo: still there?"
            assert await gateway.stop() == 0


async def test_files_reach_the_agent_and_none_of_a_stranger_is_fetched(tmp_path: Path) -> None:
    async with telegram(tmp_path, configure=configured) as (server, gateway):
        named = server.upload(b"the tide table")
        server.say("", user=8, document={**named, "file_name": "tides.txt"})
        await server.wait_for(1, chat=8)
        assert "getFile" not in server.calls, "nothing is fetched for who is not let in"
        (request,) = (await answered(gateway, "pairing", "list"))["requests"]
        await answered(gateway, "pairing", "approve", request["code"])
        server.say("", user=8, document={**named, "file_name": "tides.txt"}, caption="read this")
        answer = (await server.wait_for(2, chat=8))[1]
        assert answer.startswith("echo: read this")
        stored = Path(answer.rpartition("stored as ")[2].removesuffix("]"))
        assert stored.read_bytes() == b"the tide table"
        assert stored.parent == gateway.home / "media" / "inbound"
        server.say("", user=8, voice={**server.upload(b"OggS"), "mime_type": "audio/ogg"})
        assert "It is not transcribed" in (await server.wait_for(3, chat=8))[2]
        gone = {"file_id": "gone", "file_unique_id": "u", "file_name": "x.bin"}
        server.say("", user=8, document=gone, caption="and this")
        assert "not available" in (await server.wait_for(4, chat=8))[3]
        server.faults.clear()


async def test_a_call_that_waits_is_allowed_by_a_button(tmp_path: Path) -> None:
    async with TelegramServer() as server, StubModelServer() as model:
        config = configured(server)
        config |= {"commands": {"ownerAllowFrom": ["telegram:7"]}}
        config["tools"] = {"exec": {"host": "gateway", "ask": "always", "security": "full"}}
        async with running_gateway(model=model.base_url, home=tmp_path, config=config) as gateway:
            server.say('call exec {"command":"echo hi-there"}')
            with anyio.fail_after(60):
                while not any("reply_markup" in sent.params for sent in server.sent):  # noqa: ASYNC110 - a plain list
                    await anyio.sleep(0.02)
            message = next(sent for sent in server.sent if "reply_markup" in sent.params)
            ((once, *_, deny),) = message.params["reply_markup"]["inline_keyboard"]
            assert (once["text"], deny["text"]) == ("Allow once", "Deny")
            server.press(once["callback_data"], message.message_id, user=8)
            server.press(once["callback_data"], message.message_id)
            with anyio.fail_after(60):
                while not any("hi-there" in text for text in server.texts()[1:]):  # noqa: ASYNC110 - a plain list
                    await anyio.sleep(0.02)
            assert await gateway.stop() == 0
        assert server.faults == []


@pytest.mark.parametrize("point", POINTS)
async def test_a_kill_at_any_point_loses_nothing_and_repeats_nothing(
    tmp_path: Path, point: str
) -> None:
    async with telegram(tmp_path) as (server, gateway):
        await gateway.stop()
        server.say("hello")
        with anyio.fail_after(120):
            try:
                await gateway.start("--fault", point)
                await gateway.wait()
            except AssertionError:
                pass  # it was killed before it was ready
        await gateway.start()
        if point == "delivery.after-send":
            assert await server.wait_for(2) == ["echo: hello", MISSING]
        elif point == "delivery.before-send":
            # The row says `sending`, and no bot can look up what it has sent.
            assert await server.wait_for(1) == [MISSING]
        else:
            assert await server.wait_for(1) == ["echo: hello"]
        server.say("again")
        with anyio.fail_after(60):
            while "echo: again" not in server.texts():  # noqa: ASYNC110 - a plain list
                await anyio.sleep(0.02)
        await gateway.stop()
        assert Counter(server.texts())["echo: hello"] == (point != "delivery.before-send")
        assert server.unconfirmed == 0


@pytest.mark.parametrize("seed", SEEDS)
async def test_kills_at_random_moments_lose_no_message_and_answer_none_twice(
    tmp_path: Path, seed: int
) -> None:
    random = Random(seed)  # noqa: S311 - moments of a test
    async with telegram(tmp_path) as (server, gateway):
        for number in range(KILLS):
            server.say(f"message {number}.", user=100 + number)
            with anyio.move_on_after(random.uniform(0, 0.25)):
                await server.wait_for(1, chat=100 + number)
            await gateway.kill()
            await gateway.start()
        chats = range(100, 100 + KILLS)
        for chat in chats:
            await server.wait_for(1, chat=chat)
        await gateway.stop()
        for chat in chats:
            texts = Counter(server.texts(chat))
            echoed = f"echo: message {chat - 100}."
            assert texts[echoed] <= 1, texts
            # What no bot can look up is announced: the answer, the notice, or both.
            assert texts[echoed] or texts[MISSING], texts
            assert set(texts) <= {echoed, MISSING}, texts
        assert server.unconfirmed == 0
