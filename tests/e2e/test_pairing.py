"""A stranger on a platform is paired: one answer with the code, whatever is killed meanwhile."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.client.client import GatewayClient
from skerry.testing.channel import DeliveredMessage, FakePlatform
from skerry.testing.gateway import GatewayProcess, running_gateway
from tests.support.cli import run_command

CONFIG: dict[str, Any] = {"channels": {"memory": {}}}
"""The defaults of a platform that the configuration names."""
POINTS = ("store.before-commit:1", "store.after-commit:1", "pairing.asked", "delivery.before-send")


async def arrived(platform: FakePlatform, count: int) -> list[DeliveredMessage]:
    """Returns the messages of the platform, once there are as many."""
    with anyio.fail_after(60):
        while len(platform.received()) < count:  # noqa: ASYNC110 - the platform is a folder
            await anyio.sleep(0.02)
    return platform.received()


async def acknowledged(platform: FakePlatform, count: int) -> None:
    """Waits until the gateway has taken as many messages."""
    with anyio.fail_after(60):
        while platform.acknowledged() < count:  # noqa: ASYNC110 - the platform is a folder
            await anyio.sleep(0.02)


async def pairing(gateway: GatewayProcess, *words: str) -> str:
    environ = {
        "HOME": str(gateway.home),
        "SKERRY_STATE_DIR": str(gateway.home),
        "SKERRY_GATEWAY_URL": gateway.address.url,
        "SKERRY_GATEWAY_TOKEN": gateway.address.token or "",
    }
    completed = await run_command("pairing", *words, environ=environ)
    assert completed.returncode == 0, completed.stderr
    return completed.stdout.decode()


@pytest.mark.abuse(46)
async def test_the_owner_approves_a_stranger_who_then_is_answered(tmp_path: Path) -> None:
    platform = FakePlatform(tmp_path / "platform")
    arguments = ["--platform", str(platform.folder)]
    home = tmp_path / "state"
    async with running_gateway(home=home, config=CONFIG, arguments=arguments) as gateway:
        assert "No sender is waiting" in await pairing(gateway, "list")
        platform.say("hello", message_id="m1")
        platform.say("are you there?", message_id="m2")
        await acknowledged(platform, 2)
        (request,) = json.loads(await pairing(gateway, "list", "--json"))["requests"]
        (told,) = await arrived(platform, 1)
        assert request["code"] in told.text
        assert (request["channel"], request["senderId"]) == ("memory", "alice")
        async with GatewayClient(gateway.address) as client:
            sessions = (await client.request("sessions.list"))["sessions"]
        assert not sessions, "a message that is refused begins no conversation"
        done = await pairing(gateway, "approve", "memory", request["code"].lower())
        assert "alice may now write to memory/default" in done
        platform.say("now?", message_id="m3")
        assert [message.text for message in await arrived(platform, 2)][1:] == ["echo: now?"]
        platform.say("in a group", message_id="m4", kind="group", peer="alice")
        await acknowledged(platform, 4)
        assert await gateway.stop() == 0
    assert len(platform.received()) == 2, "a pairing admits to no group"


async def test_one_command_lets_the_owner_in_as_the_owner(tmp_path: Path) -> None:
    platform = FakePlatform(tmp_path / "platform")
    arguments = ["--platform", str(platform.folder)]
    home = tmp_path / "state"
    config = CONFIG | {"commands": {"ownerAllowFrom": ["memory:bob"]}}
    async with running_gateway(home=home, config=config, arguments=arguments) as gateway:
        platform.say("hello", message_id="m1")
        await acknowledged(platform, 1)
        (request,) = json.loads(await pairing(gateway, "list", "--json"))["requests"]
        environ = {"HOME": str(tmp_path), "SKERRY_STATE_DIR": str(tmp_path / "other")}
        elsewhere = ("--owner", "--url", gateway.address.url, "--token", "x")
        refused = await run_command(
            "pairing", "approve", request["code"], *elsewhere, environ=environ
        )
        assert b"No sender was approved" in refused.stderr
        done = await pairing(gateway, "approve", request["code"], "--owner")
        assert "memory:alice is you" in done
        stored = json.loads((home / "skerry.json").read_text(encoding="utf-8"))
        assert stored["commands"]["ownerAllowFrom"] == ["memory:bob", "memory:alice"]
        platform.say("/whoami", message_id="m2")
        (_, answer) = await arrived(platform, 2)
        assert "owner" in answer.text.lower()
        assert await gateway.stop() == 0


@pytest.mark.parametrize("point", POINTS)
async def test_a_kill_at_any_point_leaves_one_answer(tmp_path: Path, point: str) -> None:
    platform = FakePlatform(tmp_path / "platform")
    arguments = ["--platform", str(platform.folder)]
    async with running_gateway(
        home=tmp_path / "state", config=CONFIG, arguments=arguments
    ) as gateway:
        await gateway.stop()
        platform.say("hello", message_id="m1")
        with anyio.fail_after(120):
            try:
                await gateway.start("--fault", point)
                await gateway.wait()
            except AssertionError:
                pass  # it was killed before it was ready
        await gateway.start()
        (message,) = await arrived(platform, 1)
        platform.say("again", message_id="m2")
        await acknowledged(platform, 2)
        (request,) = json.loads(await pairing(gateway, "list", "--json"))["requests"]
        assert request["code"] in message.text
        assert await gateway.stop() == 0
    assert len(platform.received()) == 1
