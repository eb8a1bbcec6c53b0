"""The tool `canvas`: a node gets pages of the workspace, and nobody else does."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from skerry.model.ids import AgentId
from skerry.model.message import ImageBlock, ToolResultMessage
from tests.e2e.browser import Chromium
from tests.support.device import Device
from tests.support.node_device import (
    NodeRig,
    answer,
    next_command,
    node_gateway,
    phone,
    photo,
    using,
)

COMMANDS = tuple(f"canvas.{name}" for name in ("present", "hide", "navigate", "eval", "snapshot"))


def serving(*allowed: str, **more: Any) -> dict[str, Any]:
    return {
        "tools": {"alsoAllow": ["canvas", "nodes"]},
        "gateway": {"nodes": {"allowCommands": [*allowed]}},
        "canvasHost": {"enabled": True},
        **more,
    }


def write(rig: NodeRig, name: str, text: str, agent: str = "main") -> Path:
    """Writes a page of an agent."""
    folder = rig.application.settings.config.workspace(AgentId(agent)) / "canvas"
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


async def get(url: str, **headers: str) -> httpx2.Response:
    async with httpx2.AsyncClient(trust_env=False, timeout=60) as client:
        return await client.get(url, headers=headers)


@pytest.mark.requirement("workspace-dir-canvas")
async def test_a_node_shows_a_page_of_the_workspace(tmp_path: Path) -> None:
    device = Device()
    async with (
        node_gateway(tmp_path / "home", serving("canvas.*")) as rig,
        phone(rig, device, *COMMANDS) as node,
    ):
        write(rig, "a b.html", "<p>tide")
        await rig.begin(using("canvas", action="present", url="canvas/a b.html?x=1#top", width=300))
        request = await next_command(node)
        assert request["command"] == "canvas.present"
        assert request["params"]["placement"] == {"width": 300.0}
        url = request["params"]["url"]
        hello: Any = node.hello["pluginSurfaceUrls"]["canvas"]
        assert url == f"{hello}/__openclaw__/canvas/a%20b.html?x=1#top"
        page = await get(url)
        assert (page.status_code, page.text) == (200, "<p>tide")
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        await answer(node, request, None)
        text = await rig.final()
        assert "The node returned nothing" in text
        assert hello not in str(rig.model.requests)
    assert hello not in text


async def test_each_agent_shows_its_own_pages(tmp_path: Path) -> None:
    agents = {"list": [{"id": "main"}, {"id": "sea"}]}
    async with (
        node_gateway(tmp_path / "home", serving("canvas.*", agents=agents)) as rig,
        phone(rig, Device(), *COMMANDS) as node,
    ):
        write(rig, "index.html", "of main")
        write(rig, "index.html", "of sea", "sea")
        await rig.begin(using("canvas", action="present"), key="agent:sea:main")
        request = await next_command(node)
        assert (await get(request["params"]["url"])).text == "of sea"
        hello = f"{node.hello['pluginSurfaceUrls']['canvas']}/__openclaw__/canvas/"
        assert (await get(hello)).text == "of main"
        await answer(node, request, None)
        await rig.final()


async def test_pages_end_with_the_connection_of_the_node(tmp_path: Path) -> None:
    device = Device()
    async with node_gateway(tmp_path / "home", serving()) as rig:
        write(rig, "index.html", "page")
        async with phone(rig, device, *COMMANDS) as node:
            url = f"{node.hello['pluginSurfaceUrls']['canvas']}/__openclaw__/canvas/"
            assert (await get(url)).status_code == 200
        while rig.application.context.nodes.all():
            await rig.wire.receive()
        assert (await get(url)).status_code == 404
        async with phone(rig, device, *COMMANDS) as node:
            assert f"{node.hello['pluginSurfaceUrls']['canvas']}/__openclaw__/canvas/" != url
            assert (await get(url)).status_code == 404


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({"action": "present"}, "node-command-ask"),
        ({"action": "eval", "javaScript": "1"}, "node-command-ask"),
    ],
)
async def test_without_a_list_each_command_asks(
    tmp_path: Path, arguments: dict[str, Any], rule: str
) -> None:
    async with (
        node_gateway(tmp_path / "home", serving()) as rig,
        phone(rig, Device(), *COMMANDS) as node,
    ):
        write(rig, "index.html", "page")
        await rig.begin(using("canvas", **arguments))
        assert (await rig.approve())["request"]["rule"] == rule
        await answer(node, await next_command(node), {"result": "done"})
        await rig.final()


async def test_a_web_site_always_asks_and_other_addresses_are_refused(tmp_path: Path) -> None:
    async with (
        node_gateway(tmp_path / "home", serving("canvas.*")) as rig,
        phone(rig, Device(), *COMMANDS) as node,
    ):
        site = "https://example.org/?q=secret"
        await rig.begin(using("canvas", action="navigate", url=site))
        facts = (await rig.approve())["request"]
        assert facts["rule"] == "canvas-address"
        assert site in facts["command"]
        request = await next_command(node)
        assert request["params"] == {"url": site}
        await answer(node, request, None)
        await rig.final()
        for number, url in enumerate(
            ("javascript:alert(1)", "file:///etc/passwd", "//example.org", "\tjava\nscript:1")
        ):
            await rig.begin(using("canvas", action="navigate", url=url), f"r{number + 2}")
            assert "is not shown" in await rig.final(f"r{number + 2}")
        await rig.begin(using("canvas", action="navigate", url="http://[::"), "r8")
        assert "url is no address" in await rig.final("r8")
        await rig.begin(
            using("nodes", action="invoke", command="canvas.navigate", params={"url": site}), "r9"
        )
        assert "denied by the rule" in await rig.final("r9")


async def test_the_model_sees_a_snapshot_and_the_run_is_tainted(tmp_path: Path) -> None:
    async with (
        node_gateway(tmp_path / "home", serving("canvas.*")) as rig,
        phone(rig, Device(), *COMMANDS) as node,
    ):
        write(rig, "index.html", "page")
        await rig.begin(using("canvas", action="snapshot", maxWidth=300))
        request = await next_command(node)
        assert request["params"] == {"format": "jpeg", "maxWidth": 300}
        await answer(node, request, {"format": "jpeg", "base64": photo()})
        await rig.final()
        results = [
            block
            for one in rig.model.requests[-1].messages
            if isinstance(one, ToolResultMessage)
            for block in one.content
        ]
        assert ImageBlock(photo(), "image/jpeg") in results
        await rig.begin(using("canvas", action="hide"), "r2")
        await answer(node, await next_command(node), None)
        await rig.final("r2")
        await rig.begin(using("canvas", action="present"), "r3")
        assert (await rig.approve())["request"]["rule"] == "tainted-send"
        await answer(node, await next_command(node), None)
        await rig.final("r3")


async def test_without_the_setting_nothing_is_served_nor_named(tmp_path: Path) -> None:
    config = serving("canvas.*") | {"canvasHost": {}}
    async with (
        node_gateway(tmp_path / "home", config) as rig,
        phone(rig, Device(), *COMMANDS) as node,
    ):
        write(rig, "index.html", "page")
        assert "pluginSurfaceUrls" not in node.hello
        await rig.begin(using("canvas", action="present"))
        assert "canvasHost.enabled is false" in await rig.final()
        base = rig.address.url.replace("ws:", "http:")
        token = {"authorization": f"Bearer {rig.address.token}"}
        assert (await get(f"{base}/__openclaw__/canvas/", **token)).status_code == 404


async def test_a_node_of_version_3_gets_the_address_under_its_name_and_operators_do_not(
    tmp_path: Path,
) -> None:
    async with node_gateway(tmp_path / "home", serving()) as rig:
        assert "pluginSurfaceUrls" not in rig.wire.hello
        about: dict[str, Any] = {"role": "node", "scopes": None, "minProtocol": 3, "maxProtocol": 3}
        async with Device().connected(
            rig.address.url, auth={"token": rig.address.token}, **about
        ) as node:
            url = urlsplit(node.hello["canvasHostUrl"])
            assert f"ws://{url.netloc}" == rig.address.url
            assert "pluginSurfaceUrls" not in node.hello


PROBE = """<!doctype html><title>probe</title><script src="shown.js"></script><script>
const seen = {};
const tried = (name, act) => {
  try { act(); seen[name] = "open"; } catch { seen[name] = "closed"; }
};
tried("storage", () => localStorage.length);
tried("cookies", () => document.cookie);
tried("databases", () => indexedDB.open("skerry"));
seen.origin = self.origin;
seen.script = self.loaded === true;
const socket = new Promise((done) => {
  try {
    const ws = new WebSocket(`ws://${location.host}/`);
    ws.onopen = () => done("open");
    ws.onerror = () => done("closed");
  } catch { done("closed"); }
});
const asked = fetch("/readyz", {mode: "no-cors"}).then(() => "open", () => "closed");
const picture = new Promise((done) => {
  const image = new Image();
  image.onload = () => done("shown");
  image.onerror = () => done("closed");
  image.src = "dot.svg";
});
Promise.all([socket, asked, picture]).then(([ws, http, image]) => {
  document.title = JSON.stringify({...seen, ws, http, image});
});
</script>"""


@pytest.mark.full("Chromium")
async def test_a_page_reaches_neither_the_storage_of_the_gateways_page_nor_the_gateway(
    tmp_path: Path, browser: Chromium
) -> None:
    async with (
        node_gateway(tmp_path / "home", serving()) as rig,
        phone(rig, Device(), *COMMANDS) as node,
    ):
        write(rig, "probe.html", PROBE)
        write(rig, "shown.js", "self.loaded = true;")
        svg = '<svg xmlns="http://www.w3.org/2000/svg" width="4" height="4"></svg>'
        write(rig, "dot.svg", svg)
        base = rig.address.url.replace("ws:", "http:")
        own = await browser.open(f"{base}/")
        await own.evaluate("localStorage.setItem('kept', 'secret')")
        url = f"{node.hello['pluginSurfaceUrls']['canvas']}/__openclaw__/canvas/probe.html"
        page = await browser.open(url, beside=own)
        await page.wait_for_function("document.title.startsWith('{')")
        found = await page.evaluate("JSON.parse(document.title)")
        assert found == {
            "storage": "closed",
            "cookies": "closed",
            "databases": "closed",
            "origin": "null",
            "script": True,
            "ws": "closed",
            "http": "closed",
            "image": "shown",
        }
        browser.complaints.clear()  # each refusal is one
