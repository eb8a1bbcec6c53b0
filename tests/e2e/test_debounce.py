"""Messages in quick succession: those of one sender become one, over a kill too."""

from pathlib import Path
from typing import Any

import anyio

from skerry.hooks.hooks import Hooks
from skerry.testing.channel import FakePlatform
from skerry.testing.gateway import running_gateway
from tests.support.whole import whole_gateway

JOINED: dict[str, Any] = {"messages": {"inbound": {"debounceMs": 1500}}}
LONG: dict[str, Any] = {"messages": {"inbound": {"byChannel": {"memory": 60_000}}}}
IMAGE = {"kind": "image", "handle": "h"}


async def until(platform: FakePlatform, replies: int, taken: int) -> list[str]:
    with anyio.fail_after(90):
        while len(platform.received()) < replies or platform.acknowledged() < taken:  # noqa: ASYNC110 - a folder
            await anyio.sleep(0.02)
    return [message.text for message in platform.received()]


async def test_plain_messages_of_one_sender_become_one(tmp_path: Path) -> None:
    platform = FakePlatform(tmp_path / "platform")
    async with whole_gateway(tmp_path / "home", Hooks(), platform, JOINED) as _:
        platform.say("one", message_id="m1")
        platform.say("two", message_id="m2")
        platform.say("hello", peer="bob", message_id="m3")
        platform.say("three", message_id="m4")
        platform.say("three", message_id="m4")
        texts = await until(platform, 2, 5)
    assert sorted(texts) == ["echo: hello", "echo: one\ntwo\nthree"]
    last = next(message for message in platform.received() if message.peer == "alice")
    assert last.in_reply_to == "m4"


async def test_a_command_and_a_file_go_at_once_behind_what_waits(tmp_path: Path) -> None:
    platform = FakePlatform(tmp_path / "platform")
    async with whole_gateway(tmp_path / "home", Hooks(), platform, LONG) as _:
        platform.say("first", message_id="m1")
        platform.say("look", message_id="m2", attachments=[IMAGE])
        texts = await until(platform, 2, 2)
        platform.say("second", peer="bob", message_id="m3")
        platform.say("/whoami", peer="bob", message_id="m4")
        more = await until(platform, 4, 4)
    assert [text.partition("\n")[0] for text in texts] == ["echo: first", "echo: look"]
    assert any(text.startswith("echo: second") for text in more[2:])


async def test_what_waits_survives_a_kill(tmp_path: Path) -> None:
    platform = FakePlatform(tmp_path / "platform")
    arguments = ["--platform", str(platform.folder)]
    async with running_gateway(
        home=tmp_path / "state", config=LONG, arguments=arguments
    ) as gateway:
        platform.say("one", message_id="m1")
        platform.say("two", message_id="m2")
        await until(platform, 0, 2)
        await gateway.kill()
        assert not platform.received()
        await gateway.start()
        assert await until(platform, 1, 2) == ["echo: one\ntwo"]
        assert await gateway.stop() == 0
    assert len(platform.received()) == 1
