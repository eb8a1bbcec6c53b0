"""Pages for nodes over HTTP: who gets them, which files they are, and their headers."""

from collections.abc import AsyncIterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from skerry.features.nodes import canvas_http
from skerry.features.nodes.capability import CANVAS, CAPABILITIES, agent_of, capability
from skerry.gateway.nodes import ConnectedNode
from skerry.model.ids import AgentId
from tests.support.device import Device
from tests.support.gateway import TOKEN, Rig, running_gateway

MAIN = AgentId("main")
NODE: dict[str, Any] = {
    "role": "node",
    "scopes": None,
    "client": {"id": "node-host", "version": "2", "platform": "linux", "mode": "node"},
}


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    home = tmp_path / "home"
    home.mkdir()
    async with running_gateway(home, config={"canvasHost": {"enabled": True}}) as rig:
        folder = rig.context.config().workspace(MAIN) / "canvas"
        folder.mkdir(parents=True)
        (folder / "index.html").write_text("<p>index")
        (folder / "sub").mkdir()
        (folder / "sub" / "index.html").write_text("<p>sub")
        yield rig


@pytest.fixture
def folder(rig: Rig) -> Path:
    return rig.context.config().workspace(MAIN) / "canvas"


async def ask(
    rig: Rig, path: str, method: str = "GET", **headers: str
) -> tuple[int, bytes, dict[str, str]]:
    def send() -> tuple[int, bytes, dict[str, str]]:
        connection = HTTPConnection("127.0.0.1", rig.port, timeout=60)
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        return (
            response.status,
            response.read(),
            {key.lower(): value for key, value in response.getheaders()},
        )

    return await anyio.to_thread.run_sync(send)


async def as_node(rig: Rig, path: str, method: str = "GET") -> tuple[int, bytes, dict[str, str]]:
    """Requests a path with the capability of a connected node."""
    async with Device().connected(rig.url, **NODE) as node:
        base = node.hello["pluginSurfaceUrls"]["canvas"].removeprefix(rig.http)
        return await ask(rig, f"{base}{CANVAS}/{path}", method)


@pytest.mark.parametrize(
    ("path", "content"), [("", b"<p>index"), ("index.html", b"<p>index"), ("sub/", b"<p>sub")]
)
async def test_a_node_gets_the_files_of_canvas(rig: Rig, path: str, content: bytes) -> None:
    assert (await as_node(rig, path))[:2] == (200, content)
    assert (await as_node(rig, path, "HEAD"))[:2] == (200, b"")
    assert (await as_node(rig, path, "POST"))[0] == 405


async def test_the_token_of_the_gateway_opens_the_pages_of_the_default_agent(rig: Rig) -> None:
    assert (await ask(rig, f"{CANVAS}/", authorization=f"Bearer {TOKEN}"))[:2] == (200, b"<p>index")
    for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": f"Basic {TOKEN}"}):
        assert (await ask(rig, f"{CANVAS}/", **headers))[0] == 401
    assert (await ask(rig, f"{CANVAS}/?token={TOKEN}"))[0] == 401


@pytest.mark.abuse(36)
async def test_only_the_capability_of_a_connected_node_opens_pages(rig: Rig) -> None:
    for text in ("", "main", "main.", "main.AAAA", f"main.{'A' * 43}", f"other.{'A' * 43}"):
        assert (await ask(rig, f"{CAPABILITIES}/{text}{CANVAS}/"))[0] == 404
    async with Device().connected(rig.url, **NODE) as node:
        base = node.hello["pluginSurfaceUrls"]["canvas"].removeprefix(rig.http)
        assert (await ask(rig, f"{base}{CANVAS}/"))[0] == 200
        assert (await ask(rig, f"{base}/elsewhere/"))[0] == 404
        assert (await ask(rig, f"{base[:-1]}{CANVAS}/"))[0] == 404


def test_a_capability_is_of_one_connection_and_one_agent() -> None:
    client: Any = None
    nodes = [ConnectedNode("n", client, {}, (), 0) for _ in range(2)]
    agents = (MAIN, AgentId("sea"))
    for node in nodes:
        for agent in agents:
            text = capability(node, agent)
            assert agent_of(text, nodes, agents) == agent
            assert agent_of(text, [each for each in nodes if each is not node], agents) is None
            assert agent_of(text, nodes, [each for each in agents if each != agent]) is None
    moved = capability(nodes[0], MAIN).replace("main.", "sea.")
    assert agent_of(moved, nodes, agents) is None


@pytest.mark.abuse(35)
@pytest.mark.parametrize(
    "path",
    [
        "../note.html",
        "..%2fnote.html",
        "%2e%2e/note.html",
        "sub/../../note.html",
        "/etc/hostname.html",
        "%2fetc%2fhostname.txt",
        "link.html",
        "hard.html",
        "folder/note.html",
        ".hidden.html",
        ".git/x.html",
        "index.html%00",
        "program.py",
        "no-ending",
        "missing.html",
        "sub",
        "big.txt",
        "a" * 1100 + ".html",
        "%ff.html",
    ],
)
async def test_nothing_else_is_served(
    rig: Rig, folder: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(canvas_http, "MAX_BYTES", 100)
    outside = folder.parent / "note.html"
    outside.write_text("secret")
    (folder / "link.html").symlink_to(outside)
    (folder / "hard.html").hardlink_to(outside)
    (folder / "folder").symlink_to(folder.parent)
    (folder / ".hidden.html").write_text("secret")
    (folder / ".git").mkdir()
    (folder / ".git" / "x.html").write_text("secret")
    (folder / "program.py").write_text("secret")
    (folder / "no-ending").write_text("secret")
    (folder / "big.txt").write_text("x" * 101)
    status, body, _ = await as_node(rig, path)
    assert (status, body) == (404, b"Not found.\n")


async def test_canvas_itself_may_be_no_link(rig: Rig, folder: Path, tmp_path: Path) -> None:
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    assert (await as_node(rig, "index.html"))[0] == 404


@pytest.mark.abuse(34)
@pytest.mark.parametrize("path", ["index.html", "a.svg", "missing.html"])
async def test_every_answer_has_an_origin_of_its_own_and_no_way_to_the_gateway(
    rig: Rig, folder: Path, path: str
) -> None:
    (folder / "a.svg").write_text("<svg/>")
    _, _, headers = await as_node(rig, path)
    policy = headers["content-security-policy"]
    assert policy.startswith("sandbox allow-scripts; default-src 'none';")
    assert "allow-same-origin" not in policy
    assert "'self'" not in policy
    assert "connect-src 'none'" in policy
    assert f"img-src 127.0.0.1:{rig.port}{CAPABILITIES}/main." in policy
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert headers["cross-origin-resource-policy"] == "cross-origin"


async def test_a_page_opened_with_the_token_is_sandboxed_too(rig: Rig) -> None:
    _, _, headers = await ask(rig, f"{CANVAS}/", authorization=f"Bearer {TOKEN}")
    assert headers["content-security-policy"].startswith("sandbox allow-scripts; ")
    assert headers["cross-origin-resource-policy"] == "same-origin"


async def test_requests_of_the_sandboxed_page_are_refused(rig: Rig) -> None:
    assert (await ask(rig, f"{CANVAS}/", origin="null"))[0] == 403
    assert (await ask(rig, "/healthz", origin="null"))[0] == 403
