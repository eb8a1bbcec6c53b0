"""WhatsApp through a whole gateway: conversations, late failures, and kills."""

from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from skerry.client.client import GatewayClient
from skerry.hooks.hooks import Hooks
from skerry.runtime.delivery import MISSING
from skerry.testing.gateway import GatewayProcess, running_gateway
from skerry.testing.whatsapp_server import WhatsAppServer, signed
from tests.contract.phones import whatsapp_settings
from tests.e2e.test_approvals import asking
from tests.support.asking_tool import AskingTool
from tests.support.whole import whole_gateway


def everybody(server: WhatsAppServer) -> dict[str, Any]:
    access = {"dmPolicy": "open", "allowFrom": ["*"]}
    return {"channels": {"whatsapp": {**whatsapp_settings(server), **access}}}


def connect(server: WhatsAppServer, gateway: GatewayProcess) -> None:
    server.poster.url = f"{gateway.url}/channels/whatsapp/default"


async def test_a_conversation_runs_and_a_late_failure_is_a_dead_letter(tmp_path: Path) -> None:
    async with WhatsAppServer() as server:
        async with running_gateway(home=tmp_path, config=everybody(server)) as gateway:
            connect(server, gateway)
            server.say("hello")
            assert await server.wait_for(1) == ["echo: hello"]
            assert set(server.read) <= {"wamid.IN1"}
            errors = [{"code": 131047, "title": "Re-engagement message"}]
            server.status("failed", server.sent[0].body["biz_opaque_callback_data"], errors=errors)
            async with GatewayClient(gateway.address) as operator:
                parts: list[Any] = []
                with anyio.fail_after(60):
                    while not parts:
                        parts = (await operator.request("outbox.list", {}))["parts"]
            assert (parts[0]["state"], "24 hours" in parts[0]["error"]) == ("failed", True)
            assert await gateway.stop() == 0
        assert server.faults == []


@pytest.mark.parametrize(
    "point",
    ["store.before-commit:1", "dispatch.accepted", "delivery.before-send", "delivery.after-send"],
)
async def test_a_kill_at_any_point_loses_no_message_and_repeats_no_answer(
    tmp_path: Path, point: str
) -> None:
    async with WhatsAppServer() as server:
        async with running_gateway(home=tmp_path, config=everybody(server)) as gateway:
            connect(server, gateway)
            await gateway.stop()
            server.say("hello")
            with anyio.fail_after(120):
                try:
                    await gateway.start("--fault", point)
                    await gateway.wait()
                except AssertionError:
                    pass  # it was killed before it was ready
            await gateway.start()
            server.say("again")
            # Before the send nobody can tell that nothing arrived, so the person is told.
            lost = point == "delivery.before-send"
            expected = [MISSING if lost else "echo: hello", "echo: again"]
            with anyio.fail_after(60):
                await server.wait_for(2)
                while server.poster.waiting:  # noqa: ASYNC110 - a plain list
                    await anyio.sleep(0.02)
            await gateway.stop()
        assert sorted(server.texts) == sorted(expected)
        assert server.faults == []


@pytest.mark.abuse(40)
async def test_a_forged_request_starts_nothing(tmp_path: Path) -> None:
    async with (
        WhatsAppServer() as server,
        running_gateway(home=tmp_path, config=everybody(server)) as gateway,
    ):
        connect(server, gateway)
        _, message = server.message("text", {"body": "forged"})
        forged = server.body({"messages": [message]})
        address = server.poster.url
        async with httpx2.AsyncClient(timeout=60) as client:
            headers = signed(forged, "a secret of somebody else")
            answer = await client.post(address, content=forged, headers=headers)
        assert answer.status_code == 401
        server.say("hello")
        assert await server.wait_for(1) == ["echo: hello"]


async def test_the_owner_approves_a_call_by_a_button(tmp_path: Path) -> None:
    async with WhatsAppServer() as server:
        config = everybody(server) | {"commands": {"ownerAllowFrom": ["whatsapp:+491701"]}}
        async with whole_gateway(tmp_path / "home", Hooks(), config=config) as (running, address):
            tools: Any = running.dispatch.runtime.tools
            tools.features.append(AskingTool())
            url = address.url.replace("ws://", "http://").rstrip("/")
            server.poster.url = f"{url}/channels/whatsapp/default"
            server.say(asking("a"))
            await server.wait_for(1)
            question = server.sent[0].body["interactive"]
            replies = [button["reply"] for button in question["action"]["buttons"]]
            assert "Approval required" in question["body"]["text"]
            (allow,) = [reply["id"] for reply in replies if reply["title"] == "Allow once"]
            server.press(allow)
            texts = await server.wait_for(3)
            assert any("Allowed once" in text for text in texts)
            assert any("ran a" in text for text in texts)
        assert server.faults == []
