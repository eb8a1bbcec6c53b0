"""Reactions that acknowledge messages: their scope, and their removal after the answer."""

from pathlib import Path
from typing import Any

import anyio

from skerry.testing.gateway import running_gateway
from skerry.testing.slack_server import APP_TOKEN, BOT_TOKEN, SlackServer
from skerry.testing.telegram_server import TelegramServer

GROUP = -100


def telegram(server: TelegramServer, **messages: Any) -> dict[str, Any]:
    account = {"botToken": server.token, "apiRoot": server.root, "pollSeconds": 2}
    access = {"dmPolicy": "open", "allowFrom": ["*"], "groups": {str(GROUP): {}}}
    return {"channels": {"telegram": {**account, **access}}, "messages": messages}


def reactions(server: TelegramServer) -> list[tuple[int, str]]:
    """Returns the reactions on messages, oldest first."""
    sent = [message for message in server.sent if message.method == "setMessageReaction"]
    return [(message.params["message_id"], message.text) for message in sent]


async def react(server: TelegramServer, *expected: tuple[int, str]) -> None:
    with anyio.fail_after(60):
        while reactions(server) != list(expected):  # noqa: ASYNC110 - a plain list
            await anyio.sleep(0.02)


async def test_a_mention_in_a_group_is_acknowledged_and_a_direct_message_is_not(
    tmp_path: Path,
) -> None:
    async with TelegramServer() as server:
        config = telegram(server, ackReaction="👀")
        async with running_gateway(home=tmp_path, config=config) as gateway:
            server.say("hello")
            await server.wait_for(1)
            server.say("to nobody", chat=GROUP)
            mention = [{"type": "mention", "offset": 0, "length": 10}]
            number = server.say("@house_bot hello", chat=GROUP, entities=mention)
            await react(server, (number, "👀"))
            assert await gateway.stop() == 0
        assert server.faults == []


async def test_a_reaction_goes_when_the_answer_was_sent(tmp_path: Path) -> None:
    async with TelegramServer() as server:
        messages = {
            "ackReaction": "👀",
            "ackReactionScope": "direct",
            "removeAckAfterReply": True,
        }
        config = telegram(server, **messages)
        async with running_gateway(home=tmp_path, config=config) as gateway:
            number = server.say("hello")
            await react(server, (number, "👀"), (number, ""))
            texts = [message.text for message in server.sent]
            assert texts.index("echo: hello") < len(texts) - 1 - texts[::-1].index("")
            server.fail("setMessageReaction", 400, "Bad Request: REACTION_INVALID")
            server.say("/status")
            server.say("again")
            with anyio.fail_after(60):
                while "echo: again" not in server.texts():  # noqa: ASYNC110 - a plain list
                    await anyio.sleep(0.02)
            assert await gateway.stop() == 0
        assert server.faults == []


async def test_slack_sets_and_removes_the_emoji_that_is_named(tmp_path: Path) -> None:
    async with SlackServer() as server:
        account = {"botToken": BOT_TOKEN, "appToken": APP_TOKEN, "apiRoot": server.root}
        access = {"dmPolicy": "open", "allowFrom": ["*"]}
        config = {
            "channels": {"slack": {**account, **access}},
            "messages": {
                "ackReaction": ":hourglass:",
                "ackReactionScope": "all",
                "removeAckAfterReply": True,
            },
        }
        async with running_gateway(home=tmp_path, config=config) as gateway:
            stamp = server.say("hello")
            with anyio.fail_after(60):
                while len(server.reactions) < 2:  # noqa: ASYNC110 - a plain list
                    await anyio.sleep(0.02)
            assert server.reactions == [(stamp, "hourglass"), (stamp, "hourglass")]
            assert server.texts() == ["echo: hello"]
            assert await gateway.stop() == 0
        assert server.faults == []
