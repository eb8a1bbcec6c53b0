"""`pip install` in the sandbox through its proxy, from an index server on loopback."""

import base64
import hashlib
import io
import os
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import anyio.abc
import pytest

from skerry.config.check import check
from skerry.model.ids import MAIN_AGENT
from skerry.ports.sandbox import SandboxSpec
from skerry.sdk.slots import SandboxHost, open_sandbox

pytestmark = [pytest.mark.anyio, pytest.mark.full("pip of this machine's Python")]
HOST = "127.0.0.2"
"""An address that the variable NO_PROXY of the sandbox does not name."""
WHEEL = "tidepool-1.0-py3-none-any.whl"
INFO = "tidepool-1.0.dist-info"


def wheel() -> bytes:
    """Returns a wheel of one module."""
    files = {
        "tidepool.py": b"DEPTH = 3\n",
        f"{INFO}/METADATA": b"Metadata-Version: 2.1\nName: tidepool\nVersion: 1.0\n",
        f"{INFO}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{len(data)}")
    files[f"{INFO}/RECORD"] = "\n".join([*rows, f"{INFO}/RECORD,,"]).encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return packed.getvalue()


class Index:
    """A package index with one package; it records its requests."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.port = 0
        self._wheel = wheel()

    async def serve(self, stream: anyio.abc.ByteStream) -> None:
        async with stream:
            head = await stream.receive()
            path = head.split(b" ")[1].decode()
            self.paths.append(path)
            digest = hashlib.sha256(self._wheel).hexdigest()
            page = f'<!DOCTYPE html><a href="/files/{WHEEL}#sha256={digest}">{WHEEL}</a>'.encode()
            pages = {"/simple/tidepool/": (b"text/html", page)}
            pages[f"/files/{WHEEL}"] = (b"application/octet-stream", self._wheel)
            kind, body = pages.get(path, (b"text/plain", b""))
            status = b"200 OK" if path in pages else b"404 Not Found"
            fields = (
                b"content-type: " + kind,
                b"connection: close",
                b"content-length: %d" % len(body),
            )
            await stream.send(b"\r\n".join((b"HTTP/1.1 " + status, *fields, b"", body)))


@pytest.fixture
async def index() -> AsyncIterator[Index]:
    serving = Index()
    listener = await anyio.create_tcp_listener(local_host=HOST, local_port=0)
    serving.port = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610 - anyio's
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, serving.serve)
        yield serving
        group.cancel_scope.cancel()


async def installed(home: Path, index: Index, hosts: list[str]) -> str:
    """Returns the output of pip and of the installed module in the sandbox."""
    workspace = home / "state" / "workspace"
    workspace.mkdir(parents=True, mode=0o700)
    sandbox = {"backend": "bubblewrap", "docker": {"network": "proxy"}, "allowedHosts": hosts}
    policy = {"allowedHostnames": [f"{HOST}:{index.port}"]}
    tree = {
        "agents": {"defaults": {"sandbox": sandbox}},
        "tools": {"web": {"fetch": {"ssrfPolicy": policy}}},
    }
    config = check(tree, state_dir=workspace.parent, path=home / "skerry.json")[0]
    command = (
        "python3 -m pip --version >/dev/null 2>&1 || { echo no pip; exit; };"
        f" python3 -m pip install --retries 0 --disable-pip-version-check --target lib"
        f" --index-url http://{HOST}:{index.port}/simple --trusted-host {HOST} tidepool 2>&1;"
        ' PYTHONPATH=lib python3 -c "import tidepool; print(tidepool.DEPTH)" 2>&1'
    )
    text = bytearray()
    opened = open_sandbox(SandboxHost(lambda: config, {"PATH": os.environ["PATH"]}))
    with anyio.fail_after(120):
        spec = SandboxSpec(["sh", "-c", command], workspace, MAIN_AGENT)
        async with opened.open(spec) as process:
            async for part in process.stdout:
                text += part
    shown = text.decode()
    if shown == "no pip\n":
        pytest.skip("The Python of this machine has no pip.")
    return shown


async def test_pip_installs_from_an_allowed_index(tmp_path: Path, index: Index) -> None:
    shown = await installed(tmp_path, index, [HOST])
    assert "Successfully installed tidepool-1.0" in shown, shown
    assert shown.endswith("\n3\n")
    assert index.paths == ["/simple/tidepool/", f"/files/{WHEEL}"]


async def test_pip_reaches_no_other_index_and_shows_why(tmp_path: Path, index: Index) -> None:
    shown = await installed(tmp_path, index, ["pypi.org"])
    assert "No matching distribution found" in shown, shown
    assert "ModuleNotFoundError" in shown
    assert index.paths == []
