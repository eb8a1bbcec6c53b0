"""Commands over a platform and over the gateway, by which the gateway itself is changed."""

import json
from pathlib import Path

import anyio

from skerry.app.build import Application
from skerry.client.client import GatewayClient
from skerry.hooks.hooks import Hooks
from skerry.model.ids import RunId
from skerry.testing.channel import FakePlatform
from tests.support.chaos import until
from tests.support.whole import whole_gateway

SCOPES = ("operator.admin",)


class Page:
    """Somebody at the page."""

    def __init__(self, application: Application, client: GatewayClient) -> None:
        self._application, self._client, self._sent = application, client, 0

    async def say(self, text: str) -> str:
        self._sent += 1
        key = str(self._sent)
        params = {"sessionKey": "main", "message": text, "idempotencyKey": key}
        await self._client.request("chat.send", params)
        with anyio.fail_after(60):
            result = await self._application.dispatch.wait(RunId(key), None)
        assert result is not None
        return "\n".join(result.payloads)


async def test_the_configuration_is_changed_as_over_the_wire(tmp_path: Path) -> None:
    config = {"commands": {"config": True}}
    async with (
        whole_gateway(tmp_path / "home", Hooks(), config=config) as (application, address),
        GatewayClient(address, scopes=SCOPES) as client,
    ):
        page = Page(application, client)
        done = '`messages.queue.mode` is "steer". The change is in effect.'
        assert await page.say("/config set messages.queue.mode=steer") == done
        assert application.context.config().messages.queue.mode == "steer"
        assert await page.say("/config get messages.queue.mode") == '```json\n"steer"\n```'
        for text in (
            "/config set gateway.auth.mode=none",
            '/config set plugins.load.paths=["evil.py"]',
            '/config set commands.ownerAllowFrom=["telegram:1"]',
            "/config set messages.queue.cap=none",
            "/config set messages",
            "/config get nothing.there",
            "/config sing",
        ):
            assert (await page.say(text)).startswith("⚠️"), text
        token = application.context.config().gateway.auth.token
        shown = await page.say("/config show")
        assert token is None or token.get_secret_value() not in shown
        tree = json.loads(shown.removeprefix("```json\n").removesuffix("\n```"))
        assert tree["messages"] == {"queue": {"mode": "steer"}}
        assert "session" not in tree
        assert '"dmScope": null' in await page.say("/config show session")
        assert "is removed" in await page.say("/config unset messages.queue.mode")
        assert application.context.config().messages.queue.mode == "collect"
        assert (await page.say("/debug show")).startswith("/debug is disabled.")


async def test_what_debug_sets_is_written_nowhere_and_outlives_a_change(tmp_path: Path) -> None:
    home, config = tmp_path / "home", {"commands": {"debug": True}}
    async with (
        whole_gateway(home, Hooks(), config=config) as (application, address),
        GatewayClient(address, scopes=SCOPES) as client,
    ):
        page, before = Page(application, client), (home / "skerry.json").read_bytes()
        assert await page.say("/debug") == "Nothing is overridden."
        await page.say("/debug set messages.queue.cap=7")
        assert application.context.config().messages.queue.cap == 7
        await application.context.configuration.reload()
        assert application.context.config().messages.queue.cap == 7
        assert (await page.say("/debug set gateway.bind=lan")).startswith("⚠️")
        assert (await page.say("/debug set messages.queue.cap=-1")).startswith("⚠️")
        assert application.context.config().messages.queue.cap == 7
        assert "`messages.queue.cap`" in await page.say("/debug show")
        await page.say("/debug reset")
        assert application.context.config().messages.queue.cap == 20
        assert (home / "skerry.json").read_bytes() == before


async def test_restart_ends_the_gateway_so_that_it_starts_again(tmp_path: Path) -> None:
    async with (
        whole_gateway(tmp_path / "home", Hooks(), config={}) as (application, address),
        GatewayClient(address, scopes=SCOPES) as client,
    ):
        page = Page(application, client)
        assert await page.say("/restart") == "⚙️ The gateway restarts."
        assert application.restart.is_set()


async def test_a_client_is_told_what_each_command_takes(tmp_path: Path) -> None:
    async with (
        whole_gateway(tmp_path / "home", Hooks(), config={}) as (application, address),
        GatewayClient(address, scopes=SCOPES) as client,
    ):
        listed = (await client.request("commands.list"))["commands"]
        named = {row["name"]: row for row in listed}
        assert "config" not in named  # it is off
        assert named["think"]["textAliases"] == ["/think", "/thinking", "/t"]
        levels = [choice["value"] for choice in named["think"]["args"][0]["choices"]]
        assert levels == ["off", "minimal", "low", "medium", "high", "xhigh", "default"]
        short = (await client.request("commands.list", {"includeArgs": False}))["commands"]
        assert [row["name"] for row in short] == [row["name"] for row in listed]
        assert not any("args" in one for one in short)
        of_menus = await client.request("commands.list", {"scope": "native"})
        assert of_menus == {"commands": []}
        page = Page(application, client)
        shown = await page.say("/context detail")
        assert "tool schemas" in shown
        report = json.loads((await page.say("/context json")).split("```")[1].removeprefix("json"))
        assert report["entries"] > 0
        assert "system" not in report


async def test_a_platform_has_the_same_commands(tmp_path: Path) -> None:
    platform = FakePlatform(tmp_path / "platform")
    config = {"commands": {"ownerAllowFrom": ["memory:ada"]}}
    async with whole_gateway(tmp_path / "home", Hooks(), platform, config):
        platform.say("/status", peer="alice", message_id="1")
        platform.say("/think high hello /verbose full", peer="alice", message_id="2")
        platform.say("/think high hello /verbose full", peer="ada", message_id="3")
        platform.say("/id", peer="ada", message_id="4")
        await until(lambda: len(platform.received()) == 4)
        received = {(message.in_reply_to, message.text) for message in platform.received()}
    assert received == {
        ("2", "echo: /think high hello /verbose full"),
        ("3", "echo: hello"),
        ("3", "Note: test/script has no thinking level high; it used off."),
        ("4", "You are the owner, over memory, in `agent:main:main`."),
    }
