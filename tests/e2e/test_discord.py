"""Discord through a whole gateway: conversations, threads, commands, and kills."""

import os
import re
from pathlib import Path
from random import Random
from typing import Any, Final

import anyio
import pytest

from skerry.testing.discord_objects import ROOM, THREAD, TOKEN
from skerry.testing.discord_server import DiscordServer
from skerry.testing.gateway import running_gateway

KILLS: Final = 40 if os.environ.get("SKERRY_FULL") else 6
PEOPLE: Final = ("1001", "1002", "1003")


def everybody(server: DiscordServer) -> dict[str, Any]:
    access = {"dmPolicy": "open", "allowFrom": ["*"], "groups": {ROOM: {"requireMention": False}}}
    account = {"token": TOKEN, "apiRoot": server.root}
    return {
        "channels": {"discord": {**account, **access}},
        "commands": {"ownerAllowFrom": ["discord:7"]},
    }


async def connected(server: DiscordServer) -> None:
    """Waits until the bot has a session, of which the gateway has noted the first place."""
    with anyio.fail_after(60):
        while not server.gateway.sessions or server.menu is None:
            await server.gateway.changed()


async def test_a_conversation_runs_in_chats_channels_and_threads(tmp_path: Path) -> None:
    async with DiscordServer() as server:
        async with running_gateway(home=tmp_path, config=everybody(server)) as gateway:
            await connected(server)
            server.say("hello")
            assert await server.wait_for(1) == ["echo: hello"]
            server.say("in a channel", channel=ROOM, user="8")
            assert await server.wait_for(1, ROOM) == ["echo: in a channel"]
            server.say("in a thread", channel=THREAD, user="8")
            assert await server.wait_for(1, THREAD) == ["echo: in a thread"]
            act = server.choose("status")
            assert "Model" in (await server.wait_for(2))[1]
            assert act in server.answered
            assert {"status", "new", "stop"} <= {entry["name"] for entry in server.menu or ()}
            assert await gateway.stop() == 0
        key = f"agent:main:discord:channel:{ROOM}:thread:{THREAD}"
        assert key in (tmp_path / "agents/main/sessions/sessions.json").read_text()
    assert server.faults == []


@pytest.mark.parametrize(
    ("point", "session"),
    [
        ("store.after-commit:1", "resumed"),
        ("dispatch.accepted", "resumed"),
        ("delivery.before-send", "resumed"),
        ("delivery.after-send", "resumed"),
        ("delivery.after-send", "expired"),
    ],
)
async def test_a_kill_at_any_point_leaves_one_answer(
    tmp_path: Path, point: str, session: str
) -> None:
    async with (
        DiscordServer() as server,
        running_gateway(home=tmp_path, config=everybody(server)) as gateway,
    ):
        await connected(server)
        server.say("first")
        await server.wait_for(1)
        await gateway.stop()
        server.say("hello")
        if session == "expired":
            server.gateway.expire()
        with anyio.fail_after(120):
            try:
                await gateway.start("--fault", point)
                await gateway.wait()
            except AssertionError:
                pass  # it was killed before it was ready
        if session == "expired":
            server.gateway.expire()
        await gateway.start()
        await server.wait_for(2)
        server.say("again")
        await server.wait_for(3)
        await gateway.stop()
    assert server.texts() == ["echo: first", "echo: hello", "echo: again"]
    assert server.faults == []


async def test_kills_at_random_moments_lose_no_message_and_answer_none_twice(
    tmp_path: Path,
) -> None:
    random = Random(KILLS)  # noqa: S311 - moments of a test
    async with (
        DiscordServer() as server,
        running_gateway(home=tmp_path, config=everybody(server)) as gateway,
    ):
        await connected(server)
        for user in PEOPLE:
            server.say("message begins.", channel=f"{user}00", user=user)
            await server.wait_for(1, f"{user}00")
        for number in range(KILLS):
            user = PEOPLE[number % len(PEOPLE)]
            server.say(f"message {number}.", channel=f"{user}00", user=user)
            with anyio.move_on_after(random.uniform(0, 0.25)):
                await server.wait_for(KILLS + 2, f"{user}00")
            await gateway.kill()
            if random.random() < 0.2:
                server.gateway.expire()
            await gateway.start()
        for position, user in enumerate(PEOPLE):
            expected = ["begins", *(str(number) for number in range(position, KILLS, len(PEOPLE)))]
            with anyio.fail_after(120):
                while answered(server, user) != expected:
                    assert len(answered(server, user)) <= len(expected), server.texts(f"{user}00")
                    await server.gateway.changed()
        await gateway.stop()
    assert server.faults == []


def answered(server: DiscordServer, user: str) -> list[str]:
    """Returns the names of the messages that the answers to a person repeat, in order."""
    texts = " ".join(server.texts(f"{user}00"))
    return re.findall(r"message (\w+)\.", texts)
