"""The network `proxy` of commands in bubblewrap: allowed hosts through the gateway alone."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import anyio.abc
import pytest

from skerry.config.check import check
from skerry.config.root import Config
from skerry.model.errors import SandboxError
from skerry.model.ids import MAIN_AGENT
from skerry.ports.sandbox import SandboxSpec
from skerry.sdk.slots import SandboxHost, open_sandbox

pytestmark = pytest.mark.anyio
ASK = """
exec 3<>/dev/tcp/127.0.0.1/3128
printf 'GET %s HTTP/1.1\\r\\n\\r\\n' "$1" >&3
cat <&3
"""


class Server:
    """A server of this machine that counts its connections."""

    def __init__(self) -> None:
        self.heads: list[bytes] = []
        self.port = 0

    async def serve(self, stream: anyio.abc.ByteStream) -> None:
        async with stream:
            self.heads.append(await stream.receive())
            await stream.send(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello")


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    counting = Server()
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    counting.port = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610 - anyio's
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, counting.serve)
        yield counting
        group.cancel_scope.cancel()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "state" / "workspace"
    folder.mkdir(parents=True, mode=0o700)
    folder.parent.chmod(0o700)
    return folder


def config_of(state: Path, port: int, **sandbox: object) -> Config:
    """Returns a configuration whose owner opened one port of this machine."""
    fields = {"backend": "bubblewrap", "docker": {"network": "proxy"}} | sandbox
    policy = {"allowedHostnames": [f"127.0.0.1:{port}"]}
    tree = {
        "agents": {"defaults": {"sandbox": fields}},
        "tools": {"web": {"fetch": {"ssrfPolicy": policy}}},
    }
    return check(tree, state_dir=state, path=state / "skerry.json")[0]


async def output(
    config: Config, workspace: Path, *argv: str, host: SandboxHost | None = None
) -> str:
    text = bytearray()
    sandbox = open_sandbox(host or SandboxHost(lambda: config, {"PATH": os.environ["PATH"]}))
    with anyio.fail_after(60):
        async with sandbox.open(SandboxSpec(argv, workspace, MAIN_AGENT)) as process:
            async for part in process.stdout:
                text += part
    return text.decode()


async def test_an_allowed_host_is_reached_through_the_gateway(
    workspace: Path, server: Server
) -> None:
    config = config_of(workspace.parent, server.port, allowedHosts=["127.0.0.1"])
    url = f"http://127.0.0.1:{server.port}/page"
    shown = await output(config, workspace, "bash", "-c", ASK, "sh", url)
    assert shown.endswith("hello")
    assert [head.split(b"\r\n")[0] for head in server.heads] == [b"GET /page HTTP/1.1"]


@pytest.mark.parametrize(
    ("hosts", "rule"), [([], "host-not-allowed"), (["127.0.0.1"], "address-loopback")]
)
async def test_another_host_or_a_closed_address_is_refused(
    workspace: Path, server: Server, hosts: list[str], rule: str
) -> None:
    config = config_of(workspace.parent, 1 if hosts else server.port, allowedHosts=hosts)
    url = f"http://127.0.0.1:{8080 if hosts else server.port}/"
    shown = await output(config, workspace, "bash", "-c", ASK, "sh", url)
    assert shown.startswith("HTTP/1.1 403 ")
    assert rule in shown
    assert server.heads == []


async def test_there_is_no_other_way_out(workspace: Path, server: Server) -> None:
    config = config_of(workspace.parent, server.port, allowedHosts=["127.0.0.1"])
    direct = f"exec 3<>/dev/tcp/127.0.0.1/{server.port} || echo closed; cat /proc/net/dev"
    shown = await output(config, workspace, "bash", "-c", direct)
    assert "closed" in shown
    devices = [row.partition(":")[0].strip() for row in shown.splitlines() if ":" in row]
    assert "lo" in devices
    assert not [name for name in devices if name.startswith(("eth", "en", "wl"))]
    assert server.heads == []


async def test_programs_find_the_proxy_in_their_environment(
    workspace: Path, server: Server
) -> None:
    config = config_of(workspace.parent, server.port)
    shown = await output(config, workspace, "bash", "-c", "echo $HTTPS_PROXY $http_proxy")
    assert shown == "http://127.0.0.1:3128 http://127.0.0.1:3128\n"


async def test_without_the_grant_there_is_no_port(workspace: Path, server: Server) -> None:
    config = config_of(workspace.parent, server.port, docker={"network": "none"})
    shown = await output(
        config, workspace, "bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/3128 || echo closed$HTTP_PROXY"
    )
    assert shown.endswith("closed\n")
    spec = SandboxSpec(["true"], workspace, MAIN_AGENT, network="proxy")
    sandbox = open_sandbox(SandboxHost(lambda: config, {"PATH": os.environ["PATH"]}))
    with pytest.raises(SandboxError, match="more than sandbox"):
        async with sandbox.open(spec):
            pass
    assert server.heads == []


async def test_a_person_is_asked_about_a_host_that_is_not_listed(
    workspace: Path, server: Server
) -> None:
    config = config_of(workspace.parent, server.port)
    asked: list[tuple[str, str, str, int]] = []

    async def ask(agent: str, session: str, host: str, port: int) -> bool:
        asked.append((agent, session, host, port))
        return True

    url = f"http://127.0.0.1:{server.port}/page"
    host = SandboxHost(lambda: config, {"PATH": os.environ["PATH"]}, ask)
    shown = await output(config, workspace, "bash", "-c", ASK, "sh", url, host=host)
    assert shown.endswith("hello")
    closed = "http://127.0.0.1:8080/"
    shown = await output(config, workspace, "bash", "-c", ASK, "sh", closed, host=host)
    assert "address-loopback" in shown
    assert asked == [("main", "", "127.0.0.1", server.port)]
