"""The whole gateway in a process of its own: start, answer, end, start again."""

import os
import signal
import sys
from pathlib import Path

import anyio
import msgspec
import pytest

from skerry.client.client import GatewayClient
from skerry.testing.channel import FakePlatform
from skerry.testing.gateway import GatewayProcess, running_gateway
from skerry.testing.model_server import StubModelServer


async def received(platform: FakePlatform, count: int) -> list[str]:
    """Returns the messages of the platform once there are `count` of them."""
    with anyio.fail_after(60):
        while len(messages := platform.received()) < count:  # noqa: ASYNC110 - a file of another process
            await anyio.sleep(0.01)
    return [message.text for message in messages]


async def test_a_message_goes_from_the_platform_to_the_model_and_back(tmp_path: Path) -> None:
    platform = FakePlatform(tmp_path / "platform")
    async with (
        StubModelServer() as model,
        running_gateway(
            model=model.base_url, arguments=["--platform", str(platform.folder)]
        ) as gateway,
    ):
        platform.say("hello", message_id="m1")
        assert await received(platform, 1) == ["echo: hello"]
        assert platform.received()[0].in_reply_to == "m1"
        assert await gateway.stop() == 0


async def test_sigterm_lets_the_run_end_and_exits_with_0(tmp_path: Path) -> None:
    async with (
        StubModelServer(events_per_text=20, delay=0.05) as model,
        running_gateway(home=tmp_path, model=model.base_url) as gateway,
    ):
        text = "a long question " * 10
        async with GatewayClient(gateway.address) as client:
            await client.request(
                "chat.send", {"sessionKey": "main", "message": text, "idempotencyKey": "k"}
            )
            assert await gateway.stop() == 0
        (transcript,) = (tmp_path / "agents/main/sessions").glob("*.jsonl")
        message = msgspec.json.decode(transcript.read_bytes().splitlines()[-1])["message"]
        assert (message["content"][0]["text"], message["stopReason"]) == (f"echo: {text}", "stop")
        assert (tmp_path / "agents/main/sessions/sessions.json").exists()
        assert not (tmp_path / "state.sqlite-wal").exists()


@pytest.mark.requirement("session-primary-direct")
async def test_the_transcript_survives_a_kill(tmp_path: Path) -> None:
    async with running_gateway(home=tmp_path) as gateway:
        async with GatewayClient(gateway.address) as client:
            final = await client.request(
                "agent",
                {"message": "remember", "sessionKey": "main", "idempotencyKey": "k1"},
                expect_final=True,
            )
        await gateway.kill()
        await gateway.start()
        async with GatewayClient(gateway.address) as client:
            history = await client.request("chat.history", {"sessionKey": "main"})
            again = await client.request(
                "agent",
                {"message": "remember", "sessionKey": "main", "idempotencyKey": "k1"},
                expect_final=True,
            )
        texts = [message["content"][0]["text"] for message in history["messages"]]
        assert texts == ["remember", "echo: remember"]
        assert again == final


@pytest.mark.requirement("gateway-single-process")
async def test_a_second_gateway_on_the_same_state_is_refused(tmp_path: Path) -> None:
    async with running_gateway(home=tmp_path):
        second = GatewayProcess(tmp_path)
        try:
            with pytest.raises(AssertionError, match="before it was ready"):
                await second.start()
        finally:
            await second.end()


async def test_the_lock_of_a_dead_gateway_is_taken_over(tmp_path: Path) -> None:
    async with running_gateway(home=tmp_path) as gateway:
        await gateway.kill()
        assert (tmp_path / "gateway.lock").read_text().splitlines()[0].isdigit()
        await gateway.start()
        assert await gateway.stop() == 0


async def test_a_fault_point_kills_the_process(tmp_path: Path) -> None:
    platform = FakePlatform(tmp_path / "platform")
    async with running_gateway(
        home=tmp_path / "home",
        arguments=["--platform", str(platform.folder), "--fault", "delivery.after-send:1"],
    ) as gateway:
        platform.say("hello", message_id="m1")
        assert await gateway.wait() == -signal.SIGKILL
        assert [message.text for message in platform.received()] == ["echo: hello"]


async def test_a_second_start_names_the_gateway_that_runs(tmp_path: Path) -> None:
    async with running_gateway(home=tmp_path) as gateway:
        port = gateway.url.rpartition(":")[2]
        with anyio.fail_after(60):
            second = await anyio.run_process(
                [sys.executable, "-m", "skerry", "gateway", "run", "--port", port],
                env=os.environ | {"SKERRY_STATE_DIR": str(tmp_path)},
                check=False,
            )
    assert second.returncode == 1
    assert b"`skerry gateway status` shows its page" in second.stderr
