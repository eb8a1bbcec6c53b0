"""Parts of a plugin are reached over a real socket, and are gone when it is disabled."""

import json
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from pydantic import BaseModel

from scripts.requirements import ROOT
from skerry.app.build import Application
from skerry.app.extensions import OwnTools, connect_features
from skerry.app.plugin_parts import PluginParts
from skerry.app.services import Services
from skerry.app.tool_host import tool_host
from skerry.client.client import GatewayClient
from skerry.client.discover import GatewayAddress
from skerry.features.doctor.examine import examine
from skerry.gateway import request_body
from skerry.hooks.events import GatewayStart
from skerry.hooks.hooks import Hooks
from skerry.infra.features import Feature
from skerry.model.ids import MAIN_AGENT, SessionKey
from skerry.policy.access import Verb
from skerry.policy.tool_names import CORE
from skerry.ports.checks import Check, Level
from skerry.ports.tool import Tool, ToolContext
from skerry.runtime.delivery import Senders
from skerry.sdk.features import FeatureApi, Features
from skerry.sdk.tool_host import ToolHost
from skerry.sdk.tools import FunctionTool
from tests.support.gateway import TOKEN
from tests.support.whole import whole_gateway
from tests.support.wire import connected

BEARER = {"authorization": f"Bearer {TOKEN}"}


def pond(home: Path) -> Path:
    """Returns a copy of the example, which only its owner can write."""
    folder = home / "pond"
    shutil.copytree(ROOT / "docs/examples/plugins/pond", folder)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return folder


def config(plugin: Path, **entry: Any) -> dict[str, Any]:
    return {
        "gateway": {"auth": {"token": TOKEN}, "reload": {"debounceMs": 0}},
        "commands": {"ownerAllowFrom": ["pond:ada"]},
        "plugins": {"load": {"paths": [str(plugin)]}, "entries": {plugin.stem: entry}},
    }


@asynccontextmanager
async def gateway(
    home: Path, given: Mapping[str, Any]
) -> AsyncIterator[tuple[Application, GatewayAddress, httpx2.AsyncClient]]:
    async with whole_gateway(home / "state", Hooks(), config=given) as (application, address):
        (report, *_) = application.context.plugins.reports if application.context.plugins else ()
        assert report.reason == ""
        base = address.url.replace("ws:", "http:")
        async with httpx2.AsyncClient(base_url=base, timeout=60) as http:
            yield application, address, http


async def reload(home: Path, application: Application, fields: Mapping[str, Any]) -> None:
    """Changes the file, and waits until the gateway has followed."""
    file = home / "state" / "skerry.json"
    before = application.context.plugins.reports if application.context.plugins else ()
    file.write_text(json.dumps(fields))
    with anyio.fail_after(60):
        while application.context.plugins and application.context.plugins.reports is before:  # noqa: ASYNC110 - another task loads them
            await anyio.sleep(0.05)  # the gateway looks at the file each second


@pytest.mark.abuse(115)
async def test_a_public_route_waits_for_no_body_without_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_body, "BODY_SECONDS", 0.05)
    async with gateway(tmp_path, config(pond(tmp_path))) as (_, address, _):
        host, port = address.url.removeprefix("ws://").rstrip("/").split(":")
        head = (
            f"POST /plugins/pond/hook HTTP/1.1\r\nhost: {host}:{port}\r\ncontent-length: 9\r\n\r\n"
        )
        async with await anyio.connect_tcp(host, int(port)) as stream:
            await stream.send(f"{head}x".encode())
            with anyio.fail_after(60):
                assert (await stream.receive()).startswith(b"HTTP/1.1 408 ")


async def test_a_route_wants_the_token_and_has_a_limit(tmp_path: Path) -> None:
    async with gateway(tmp_path, config(pond(tmp_path))) as (_, _, http):
        assert (await http.post("/plugins/pond/leap")).status_code == 401
        wrong = {"authorization": "Bearer wrong"}
        assert (await http.post("/plugins/pond/leap", headers=wrong)).status_code == 401
        answer = await http.post("/plugins/pond/leap", headers=BEARER)
        assert (answer.status_code, answer.text) == (200, "1")
        assert (await http.post("/plugins/pond/hook")).text == "2", "it is public"
        assert (await http.get("/plugins/pond/leap", headers=BEARER)).status_code == 405
        long = await http.post("/plugins/pond/leap", headers=BEARER, content=b"x" * 1001)
        assert long.status_code == 413
        assert (await http.get("/plugins/pond/frog", headers=BEARER)).status_code == 404
        assert (await http.get("/plugins/pond/frog")).status_code == 401, "who asks learns nothing"


async def test_an_event_reaches_who_may_read_it_with_what_the_route_got(tmp_path: Path) -> None:
    async with (
        gateway(tmp_path, config(pond(tmp_path))) as (_, address, http),
        connected(address.url, scopes=["operator.read"]) as reader,
        connected(address.url, scopes=["operator.pairing"]) as other,
    ):
        assert "pond.leapt" in reader.hello["features"]["events"]
        await http.post("/plugins/pond/leap", headers=BEARER, content=b"Bob")
        event = await reader.event("pond.leapt")
        assert event["payload"] == {"name": "Ada", "by": "Bob"}
        assert not (await other.ask("status"))["ok"]  # what was sent before has arrived
        assert not [frame for frame in other.frames if frame.get("event") == "pond.leapt"]


async def test_a_panel_is_served_to_every_holder_of_its_ticket(tmp_path: Path) -> None:
    async with gateway(tmp_path, config(pond(tmp_path))) as (_, address, http):
        async with GatewayClient(address) as client:
            (panel,) = (await client.request("plugins.panels"))["panels"]
        assert (panel["plugin"], panel["title"]) == ("pond", "The pond")
        module = await http.get(panel["url"])
        assert "export async function panel" in module.text
        assert module.headers["content-type"].startswith("text/javascript")
        assert "script-src 'self'" in module.headers["content-security-policy"]
        beside = await http.get(panel["url"].replace("panel.js", "words.js"))
        assert "leaps so far" in beside.text
        assert (await http.get("/plugins/pond/panels/guessed/panel.js")).status_code == 404


async def test_the_doctor_tells_what_the_check_of_a_plugin_finds(tmp_path: Path) -> None:
    async with gateway(tmp_path, config(pond(tmp_path))) as (_, address, http):
        environ = {
            "HOME": str(tmp_path),
            "SKERRY_STATE_DIR": str(tmp_path / "state"),
            "SKERRY_GATEWAY_URL": address.url,
        }
        assert Check("pond", Level.WARNING, "No frog leapt yet.", "Let one leap.") in await examine(
            environ
        )
        await http.post("/plugins/pond/leap", headers=BEARER)
        assert Check("pond", Level.OK, "1 leaps") in await examine(environ)


async def test_a_channel_gives_messages_and_gets_the_replies(tmp_path: Path) -> None:
    async with gateway(tmp_path, config(pond(tmp_path))):
        folder = tmp_path / "state" / "plugin-data" / "pond"
        (folder / "in.txt").write_text("tides\n")
        with anyio.fail_after(60):
            while not (folder / "out.txt").exists():  # noqa: ASYNC110 - written by the channel
                await anyio.sleep(0.05)
        assert "tides" in (folder / "out.txt").read_text()


async def test_what_a_plugin_registered_goes_when_it_is_disabled_and_returns(
    tmp_path: Path,
) -> None:
    plugin = pond(tmp_path)
    async with (
        gateway(tmp_path, config(plugin)) as (application, address, http),
        connected(address.url) as wire,
    ):
        assert await wire.call("pond.leaps", {}) == {"leaps": 0}
        await reload(tmp_path, application, config(plugin, enabled=False))
        assert not (await wire.ask("pond.leaps", {}))["ok"]
        assert await wire.call("plugins.panels") == {"panels": []}
        assert await wire.call("plugins.check") == {"checks": []}
        assert (await http.post("/plugins/pond/leap", headers=BEARER)).status_code == 404
        async with connected(address.url) as later:
            assert "pond.leapt" not in later.hello["features"]["events"]
        await reload(tmp_path, application, config(plugin))
        await http.post("/plugins/pond/leap", headers=BEARER)
        assert (await wire.event("pond.leapt"))["payload"]["name"] == "Ada"
        assert await wire.call("pond.leaps", {}) == {"leaps": 1}


class Laps(BaseModel):
    """Parameters of a tool."""


async def test_a_feature_registers_as_a_plugin_does(tmp_path: Path) -> None:
    seen: list[object] = []
    ended = anyio.Event()

    async def notice(event: GatewayStart) -> None:
        seen.append(event.port)

    async def serve() -> None:
        send({"name": "Ada"})
        ended.set()

    features = Features()
    api = FeatureApi(Feature("pool"), features)
    send = api.register_event("filled", "The pool is full.")
    api.hooks.gateway_start(notice)
    api.register_service("fill", serve)
    api.register_tool(FunctionTool("swim", "Swim.", Laps, swim))
    async with gateway(tmp_path, config(pond(tmp_path))) as (application, address, _):
        context, tools = application.context, OwnTools(tuple)
        services = Services(context.clock)
        parts = PluginParts(
            broadcast=context.broadcast,
            services=services,
            delivery=Senders({}),
            sender=lambda _: pytest.fail("no channel"),
            inbox=application.dispatch.receive,
            models=context.models,
        )
        connect_features(application.hooks, tools, parts, features)
        assert [handler.plugin for handler in application.hooks.gateway_start.handlers] == ["pool"]
        assert tools.features[0].spec.name == "swim"
        async with connected(address.url) as wire, anyio.create_task_group() as tasks:
            tasks.start_soon(services.run)
            assert (await wire.event("pool.filled"))["payload"] == {"name": "Ada"}
            await ended.wait()
            tasks.cancel_scope.cancel()


async def test_tools_of_a_feature_are_made_at_the_first_look_at_the_tools(tmp_path: Path) -> None:
    made: list[ToolHost] = []

    def make(host: ToolHost) -> list[Tool]:
        made.append(host)
        tool: Tool = Swimming("swim", "Swim.", Laps, swim)
        return [tool]

    async with gateway(tmp_path, config(pond(tmp_path))) as (application, _, _):
        context = application.context
        host = tool_host(context, {"HOME": "/"})
        tools = OwnTools(tuple, lambda: host, Features(tools=[lambda: make]))
        assert made == []
        assert "swim" in tools
        assert set(tools) == {*OwnTools(tuple), "swim"}
        assert made == [host], "once"
        host.notify(SessionKey.main(), "The pool is full.")
        assert context.system_events.texts() == ["The pool is full."]
        assert host.workspace(MAIN_AGENT) == context.config().workspace(MAIN_AGENT)


async def test_a_plugin_at_the_start_takes_no_tool_from_the_agent(tmp_path: Path) -> None:
    """The names that a plugin may not take are known before the tools of features can be made."""
    plain = {name: value for name, value in config(pond(tmp_path)).items() if name != "plugins"}
    async with whole_gateway(tmp_path / "plain", Hooks(), config=plain) as (application, _):
        ours = set(application.dispatch.runtime.tools)
    assert {"exec", "read", "web_fetch"} <= ours <= CORE
    async with gateway(tmp_path, config(tmp_path / "pond")) as (application, _, _):
        assert set(application.dispatch.runtime.tools) == ours


class Swimming(FunctionTool[Laps]):
    """A tool of our own, which declares its effect."""

    verb = Verb.USE


async def swim(_params: Laps, _context: ToolContext) -> str:
    return "wet"
