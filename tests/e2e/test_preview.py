"""Answers that grow in one message: edited while the model speaks, whole in the end, over kills."""

import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.testing.gateway import GatewayProcess, running_gateway
from skerry.testing.model import ReplyGate
from skerry.testing.model_server import HttpStep, StubModelServer
from skerry.testing.slack_server import APP_TOKEN, BOT_TOKEN, SlackServer
from skerry.testing.telegram_server import TelegramServer

FIRST = "The tide is high at nine in the morning."
SECOND = " It is low at three in the afternoon, and the boats lie dry."
LAST = " Take boots."
WHOLE = FIRST + SECOND + LAST


def telegram(server: TelegramServer, mode: Any = "partial") -> dict[str, Any]:
    account = {"botToken": server.token, "apiRoot": server.root, "pollSeconds": 2}
    access = {"dmPolicy": "open", "allowFrom": ["*"]}
    return {"channels": {"telegram": {**account, **access, "streaming": mode}}}


def slack(server: SlackServer) -> dict[str, Any]:
    account = {"botToken": BOT_TOKEN, "appToken": APP_TOKEN, "apiRoot": server.root}
    access = {"dmPolicy": "open", "allowFrom": ["*"]}
    return {"channels": {"slack": {**account, **access, "streaming": {"mode": "partial"}}}}


async def noted(home: Path) -> None:
    """Waits until the gateway knows that its message arrived.

    Killed before that it cannot ask Telegram, and sends the answer as a message of its own.
    """
    with closing(sqlite3.connect(home / "state.sqlite")) as database, anyio.fail_after(60):
        while ("sent",) not in database.execute("SELECT state FROM outbox").fetchall():  # noqa: ASYNC110 - another process gives no event here
            await anyio.sleep(0.02)


async def shows(server: TelegramServer | SlackServer, *texts: str) -> None:
    """Waits until the person reads these messages and no others."""
    with anyio.fail_after(60):
        while server.texts() != list(texts):  # noqa: ASYNC110 - a plain list
            await anyio.sleep(0.02)


@asynccontextmanager
async def growing(
    home: Path, script: Any, *, config: Any = telegram
) -> AsyncGenerator[tuple[TelegramServer, GatewayProcess]]:
    async with TelegramServer() as server, StubModelServer(script) as model:
        settings = config(server)
        async with running_gateway(model=model.base_url, home=home, config=settings) as gateway:
            yield server, gateway
        assert server.faults == []


@pytest.mark.parametrize("mode", ["partial", True])
async def test_an_answer_grows_in_one_message(tmp_path: Path, mode: Any) -> None:
    first, second = ReplyGate(), ReplyGate()
    script: list[list[HttpStep]] = [[FIRST, first, SECOND, second, LAST], ["Short."]]
    async with growing(tmp_path, script, config=lambda s: telegram(s, mode)) as (server, gateway):
        server.say("when?")
        await shows(server, FIRST)
        first.open()
        await shows(server, FIRST + SECOND)
        second.open()
        await shows(server, WHOLE)
        assert {sent.method for sent in server.sent} == {"sendMessage", "editMessageText"}
        server.say("and now?")
        await shows(server, WHOLE, "Short.")
        assert server.sent[-1].method == "sendMessage"
        assert await gateway.stop() == 0


async def test_without_the_setting_an_answer_is_sent_when_it_is_whole(tmp_path: Path) -> None:
    script: list[list[HttpStep]] = [[FIRST, SECOND, LAST]]
    async with growing(tmp_path, script, config=lambda s: telegram(s, "off")) as (server, gateway):
        server.say("when?")
        await shows(server, WHOLE)
        assert [sent.method for sent in server.sent] == ["sendMessage"]
        assert await gateway.stop() == 0


async def test_a_long_answer_goes_on_in_further_messages(tmp_path: Path) -> None:
    gate, lines = ReplyGate(), [f"Line {number} of a very long answer." for number in range(300)]
    script: list[list[HttpStep]] = [["\n".join(lines[:10]) + "\n", gate, "\n".join(lines[10:])]]
    async with growing(tmp_path, script) as (server, gateway):
        server.say("when?")
        await shows(server, "\n".join(lines[:10]))
        gate.open()
        with anyio.fail_after(60):
            while not server.texts()[-1].endswith(lines[-1]):  # noqa: ASYNC110 - a plain list
                await anyio.sleep(0.02)
        assert "\n".join(server.texts()).split("\n") == lines
        assert await gateway.stop() == 0


async def test_a_rate_limit_stops_edits_and_loses_nothing(tmp_path: Path) -> None:
    first, second = ReplyGate(), ReplyGate()
    script: list[list[HttpStep]] = [[FIRST, first, SECOND, second, LAST]]
    async with growing(tmp_path, script) as (server, gateway):
        server.say("when?")
        await shows(server, FIRST)
        server.fail("editMessageText", 429, "Too Many Requests: retry after 2", retry_after=2)
        first.open()
        with anyio.fail_after(60):
            while server.planned:  # noqa: ASYNC110 - a plain list
                await anyio.sleep(0.02)
        second.open()
        await shows(server, WHOLE)
        assert await gateway.stop() == 0


async def test_a_message_that_a_person_deleted_is_sent_again(tmp_path: Path) -> None:
    gate = ReplyGate()
    script: list[list[HttpStep]] = [[FIRST, gate, LAST]]
    async with growing(tmp_path, script) as (server, gateway):
        server.say("when?")
        await shows(server, FIRST)
        server.sent.clear()
        gate.open()
        await shows(server, FIRST + LAST)
        assert [sent.method for sent in server.sent] == ["sendMessage"]
        assert await gateway.stop() == 0
        server.faults.clear()  # the edit of what is gone


async def test_an_answer_that_is_stopped_keeps_what_it_said(tmp_path: Path) -> None:
    gate = ReplyGate()
    script: list[list[HttpStep]] = [[FIRST, gate, LAST]]
    async with growing(tmp_path, script) as (server, gateway):
        server.say("when?")
        await shows(server, FIRST)
        server.say("/stop")
        with anyio.fail_after(60):
            while len(server.texts()) < 2:  # noqa: ASYNC110 - a plain list
                await anyio.sleep(0.02)
        assert server.texts()[0] == FIRST
        assert FIRST not in server.texts()[1]
        gate.open()
        assert await gateway.stop() == 0


async def test_a_kill_while_it_grows_leaves_one_message(tmp_path: Path) -> None:
    gate, held = ReplyGate(), ReplyGate()
    script: list[list[HttpStep]] = [[FIRST, gate, LAST], [FIRST, held, SECOND]]
    async with growing(tmp_path, script) as (server, gateway):
        server.say("when?")
        await shows(server, FIRST)
        await noted(tmp_path)
        await gateway.kill()
        gate.open()
        await gateway.start()
        held.open()
        await shows(server, FIRST + SECOND)
        assert [sent.method for sent in server.sent].count("sendMessage") == 1
        assert await gateway.stop() == 0


@pytest.mark.parametrize("point", ["delivery.before-send:1", "delivery.after-send:1"])
async def test_a_preview_whose_sending_was_cut_is_found_or_left_out(
    tmp_path: Path, point: str
) -> None:
    gate = ReplyGate()
    script: list[list[HttpStep]] = [[FIRST, gate], [FIRST + SECOND]]
    async with SlackServer() as server, StubModelServer(script) as model:
        async with running_gateway(
            model=model.base_url,
            home=tmp_path,
            config=slack(server),
            first=("--fault", point),
        ) as gateway:
            server.say("when?")
            with anyio.fail_after(60):
                await gateway.wait()
            gate.open()
            await gateway.start()
            await shows(server, FIRST + SECOND)
            server.say("and now?")
            await gateway.stop()
        assert server.faults == []
