"""Containers of docker: isolated as bubblewrap, kept for later commands, ended with the gateway."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from skerry.config.check import check
from skerry.features.sandbox import apparmor
from skerry.features.sandbox.containers import Containers
from skerry.features.sandbox.open_sandbox import open_sandbox
from skerry.model.ids import MAIN_AGENT
from skerry.ports.sandbox import Sandbox, SandboxSpec
from skerry.sdk.slots import SandboxHost
from tests.support.escaping import Extended, Outside
from tests.unit.features.sandbox.test_sandbox_network import ASK, Server, config_of, server

__all__ = ["server"]  # a fixture

IMAGE = "skerry-sandbox:latest"
OF_CONTAINERS = {
    "users",  # the users are those of the image
    "same-namespace-user",  # rights are missing all the same, and nothing has the user id 0
    "same-namespace-cgroup",  # the first version of control groups has no namespace
    "tells-proc-key-users",  # numbers, no key
    "setting-any",  # /proc/pressure, over which docker mounts nothing; it asks to be told of waits
}
"""Probes that find in a container what is no way out."""


def answers() -> bool:
    """Returns whether an engine has the image."""
    if shutil.which("docker") is None:
        return False
    command = ["docker", "image", "inspect", IMAGE]
    return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0


pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not answers(), reason="no docker engine with the image answers"),
]


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="skerry-docker-", ignore_cleanup_errors=True) as name:
        yield Path(name)


def sandbox_of(state: Path) -> Sandbox:
    tree = {"agents": {"defaults": {"sandbox": {"backend": "docker"}}}}
    config = check(tree, state_dir=state, path=state / "skerry.json")[0]
    return open_sandbox(SandboxHost(lambda: config, os.environ))


async def output(sandbox: Sandbox, workspace: Path, text: str) -> str:
    spec = SandboxSpec(["/bin/sh", "-c", text], workspace, MAIN_AGENT)
    data = bytearray()
    with anyio.fail_after(120):
        async with sandbox.open(spec) as process:
            async for part in process.stdout:
                data += part
            await process.wait()
    return data.decode()


async def test_no_way_leads_out_of_a_container(folder: Path) -> None:
    with Outside(folder) as placed:
        backend = Containers("docker", os.environ, placed.state)
        results = await placed.inside(Extended(backend))
        assert len(results) >= 250
        got_out = {name for name, (out, _) in results.items() if out}
        assert got_out - OF_CONTAINERS == set()
        assert placed.staying() == []


async def test_the_second_command_finds_the_container_of_the_first(folder: Path) -> None:
    workspace = folder / "workspace"
    workspace.mkdir(mode=0o700)
    sandbox = sandbox_of(folder)
    await output(sandbox, workspace, "echo kept > /tmp/of-the-first; sleep 600 & sleep 0.1")
    text = await output(sandbox, workspace, "cat /tmp/of-the-first; ps ax; echo x > made")
    assert text.startswith("kept")
    assert "sleep 600" not in text
    assert (workspace / "made").stat().st_uid == os.getuid()


async def test_the_container_ends_with_its_process(folder: Path) -> None:
    """A process that is killed leaves no container behind."""
    script = (
        "import anyio, os, sys; sys.path.insert(0, sys.argv[2]);"
        "from pathlib import Path;"
        "from tests.unit.features.sandbox.test_containers import sandbox_of, output;"
        "state = Path(sys.argv[1]);"
        "anyio.run(output, sandbox_of(state), state / 'workspace', 'touch ready; sleep 600')"
    )
    (folder / "workspace").mkdir()
    root = str(Path(__file__).parents[4])
    engine = Containers("docker", os.environ, folder.resolve())
    process = await anyio.open_process([sys.executable, "-c", script, str(folder), root])
    with anyio.fail_after(120):
        async with process:
            ready = anyio.Path(folder, "workspace", "ready")
            while not await ready.exists():  # noqa: ASYNC110 - another process makes it
                await anyio.sleep(0.2)
            assert await engine.stored_containers()
            process.kill()
        while await engine.stored_containers():  # noqa: ASYNC110 - another process ends
            await anyio.sleep(0.2)


async def test_an_allowed_host_is_reached_from_a_container_of_the_session_alone(
    folder: Path, server: Server
) -> None:
    """Each conversation has a network of its own, since each is asked about hosts for itself."""
    workspace = folder / "workspace"
    workspace.mkdir(mode=0o700)
    config = config_of(folder, server.port, backend="docker", allowedHosts=["127.0.0.1"])
    sandbox = open_sandbox(SandboxHost(lambda: config, os.environ))
    ask = ASK.replace("3128", "${HTTP_PROXY##*:}")
    hello, refused = (f"http://127.0.0.1:{port}/page" for port in (server.port, 8080))
    networks: set[str] = set()
    for session, url, expected in (
        ("agent:main:a", hello, "hello"),
        ("agent:main:b", refused, "address-loopback"),
        ("agent:main:a", hello, "hello"),
    ):
        argv = ["bash", "-c", f"readlink /proc/self/ns/net\n{ask}", "sh", url]
        spec = SandboxSpec(argv, workspace, MAIN_AGENT, session)
        data = bytearray()
        with anyio.fail_after(120):
            async with sandbox.open(spec) as process:
                async for part in process.stdout:
                    data += part
        network, _, shown = data.decode().partition("\n")
        networks.add(network)
        assert expected in shown
    assert len(networks) == 2
    assert [head.split(b"\r\n")[0] for head in server.heads] == [b"GET /page HTTP/1.1"] * 2


async def test_apparmor_confines_a_command(folder: Path) -> None:
    if not apparmor.is_on():
        pytest.skip("the kernel has no AppArmor")
    workspace = folder / "workspace"
    workspace.mkdir(mode=0o700)
    text = await output(sandbox_of(folder), workspace, "cat /proc/self/attr/current")
    assert apparmor.is_confined(text)
