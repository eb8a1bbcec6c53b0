"""Local model servers: found, named, confirmed by the owner, and pinned to who runs them."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from skerry.config.root import Config
from skerry.features.embedded_model.hardware import Machine
from skerry.infra.http import HttpClient
from skerry.infra.listening import listeners
from skerry.model.errors import ModelConnectionError, ModelError, ModelUnavailableError
from skerry.model.message import user
from skerry.ports.model import History, ModelProvider, ModelRequest, ModelState, ReplyListener
from skerry.ports.model_candidates import CallTarget
from skerry.providers.builtin_providers import LocalServer
from skerry.providers.catalog import Catalog
from skerry.providers.pins import FILE, Pins
from skerry.testing.model_server import StubModelServer
from tests.support.embedded import parts_on

NOBODY = 65534
BARE = Machine(
    "x86_64", frozenset({"avx2"}), has_runtime=True, packaged=None, free_bytes=lambda: 1 << 40
)
OTHER_USER = """
import encodings.idna, http.server, os, sys  # what is imported later, the user cannot read
"x".encode("idna")
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b'{"data": [{"id": "stub"}]}'
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_POST(self):
        print("received a conversation", flush=True)
        self.send_error(400)
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
print("listens", flush=True)
server.serve_forever()
"""

needs_linux = pytest.mark.skipif(listeners(1) is None, reason="only Linux names who listens")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run as another user")


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(b"GGUF" + b"\0" * 100)
    return path


@asynccontextmanager
async def catalog(
    tmp_path: Path, base_url: str, *, packaged: Path | None = None, **sections: object
) -> AsyncIterator[Catalog]:
    settings = Config.model_validate(
        {"state_dir": tmp_path, "path": tmp_path / "c.json", **sections}
    )
    machine = replace(BARE, packaged=packaged)
    near = LocalServer("near", "Near", base_url)
    with anyio.fail_after(60):
        async with (
            HttpClient() as http,
            Catalog(settings, http, {}, parts_on(machine), servers=[near]) as models,
        ):
            yield models


@contextmanager
def run_by_nobody(port: int) -> Iterator["subprocess.Popen[str]"]:
    """Runs a model server as another user; it prints a line for each conversation."""
    command = [sys.executable, "-I", "-c", OTHER_USER, str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "listens\n"
            yield process
        finally:
            process.kill()


def received(process: "subprocess.Popen[str]") -> str:
    """Returns the output of the server of the other user, and ends it."""
    process.kill()
    assert process.stdout is not None
    return process.stdout.read()


async def ask(provider: ModelProvider, models: Catalog) -> str:
    _, info = await models.choose("near/stub")
    request = ModelRequest(info, "", History([user("hi", 1)]))
    return (await provider.complete(request, ReplyListener())).text


def conversations(server: StubModelServer) -> list[str]:
    return [request.path for request in server.requests if not request.path.endswith("/models")]


async def test_a_server_that_was_found_is_named_and_gets_no_conversation(
    tmp_path: Path, gguf: Path
) -> None:
    async with (
        StubModelServer() as server,
        catalog(tmp_path, server.base_url, packaged=gguf) as models,
    ):
        _, info = await models.choose(None)
        assert info.provider == "embedded"
        status = await models.status()
        (offer,) = status.offers
        assert status.state is ModelState.READY
        assert (offer.id, offer.before) == ("near", "")
        assert offer.text.startswith("Near answers on 127.0.0.1:")
        assert offer.remedy == "Use it? skerry models trust near"
        assert [model.provider for model in await models.listing()] == ["embedded"]
        assert conversations(server) == []


async def test_an_unconfirmed_server_is_refused_by_its_name_too(tmp_path: Path) -> None:
    async with StubModelServer() as server, catalog(tmp_path, server.base_url) as models:
        with pytest.raises(ModelUnavailableError, match="Near answers on") as caught:
            await models.choose("near/stub")
        assert caught.value.remedy == "Use it? skerry models trust near"
        (entry,) = await models.entries("near/stub", CallTarget())
        with pytest.raises(ModelUnavailableError, match="Near answers on"):
            await models.open(entry, patient=True)
        assert server.requests == []


async def test_a_confirmed_server_answers_and_no_longer_when_that_is_withdrawn(
    tmp_path: Path,
) -> None:
    async with StubModelServer() as server, catalog(tmp_path, server.base_url) as models:
        status = await models.trust("near", is_trusted=True)
        assert (status.model and status.model.ref, status.offers) == ("near/stub", ())
        provider, info = await models.choose(None)
        assert await ask(provider, models) == "echo: hi"
        await models.trust("near", is_trusted=False)
        with pytest.raises(ModelUnavailableError):
            await ask(provider, models)
        request = ModelRequest(info, "", History([user("hi", 1)]))
        with pytest.raises(ModelUnavailableError):
            await provider.complete(request, ReplyListener())  # it was chosen before
        assert len(conversations(server)) == 1


@needs_linux
@needs_root
async def test_another_user_who_listens_on_the_port_of_a_confirmed_server_is_refused_and_told(
    tmp_path: Path, gguf: Path
) -> None:
    async with StubModelServer() as server:
        address = server.base_url
        async with catalog(tmp_path, address, packaged=gguf) as models:
            await models.trust("near", is_trusted=True)
            provider, info = await models.choose("near/stub")
    port = int(address.rpartition(":")[2].partition("/")[0])
    with run_by_nobody(port) as other:
        assert listeners(port) == frozenset({NOBODY})
        request = ModelRequest(info, "", History([user("a secret", 1)]))
        with pytest.raises(ModelError, match="confirmed as run by user root"):
            await provider.complete(request, ReplyListener())
        async with catalog(tmp_path, address, packaged=gguf) as models:
            _, chosen = await models.choose(None)
            assert chosen.provider == "embedded"
            (offer,) = (await models.status()).offers
            assert (offer.before, offer.owner) == ("root", "nobody")
            assert "now user nobody listens there, so it is not used" in offer.text
            with pytest.raises(ModelUnavailableError):
                await models.choose("near/stub")
        assert received(other) == ""


@needs_linux
@needs_root
async def test_the_server_of_another_user_is_used_when_the_owner_confirms_it(
    tmp_path: Path,
) -> None:
    async with StubModelServer() as server:
        address = server.base_url
    port = int(address.rpartition(":")[2].partition("/")[0])
    with run_by_nobody(port) as other:
        async with catalog(tmp_path, address) as models:
            status = await models.trust("near", is_trusted=True)
            assert status.model is not None
            provider, info = await models.choose("near/stub")
            request = ModelRequest(info, "", History([user("hi", 1)]))
            with pytest.raises(ModelError):  # it answers with an error, but it was asked
                await provider.complete(request, ReplyListener())
        assert "received a conversation" in received(other)


@needs_linux
async def test_a_confirmed_server_that_does_not_run_is_told_as_that(tmp_path: Path) -> None:
    async with StubModelServer() as server:
        address = server.base_url
        async with catalog(tmp_path, address) as models:
            await models.trust("near", is_trusted=True)
    async with catalog(tmp_path, address) as models:
        with pytest.raises(ModelConnectionError, match="does not listen") as caught:
            await models.trust("near", is_trusted=True)
        assert caught.value.remedy == "Start Near, then confirm it."
        assert (await models.status()).offers == ()


async def test_a_server_that_the_configuration_names_is_confirmed_by_that(tmp_path: Path) -> None:
    async with StubModelServer() as server:
        providers = {"near": {"baseUrl": server.base_url, "models": [{"id": "stub"}]}}
        chosen = {"defaults": {"model": {"primary": "near/stub"}}}
        async with catalog(
            tmp_path, server.base_url, models={"providers": providers}, agents=chosen
        ) as models:
            provider, _ = await models.choose(None)
            assert await ask(provider, models) == "echo: hi"


async def test_where_the_system_does_not_tell_who_listens_name_and_port_are_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skerry.infra.listening._TABLES", (tmp_path / "none",))
    async with StubModelServer() as server, catalog(tmp_path, server.base_url) as models:
        (offer,) = (await models.status()).offers
        assert "this system does not report its user" in offer.text
        status = await models.trust("near", is_trusted=True)
        assert status.model is not None
        provider, _ = await models.choose(None)
        assert await ask(provider, models) == "echo: hi"


async def test_a_file_that_cannot_be_read_confirms_nothing(tmp_path: Path) -> None:
    async with StubModelServer() as server, catalog(tmp_path, server.base_url) as models:
        await models.trust("near", is_trusted=True)
        assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
        (tmp_path / FILE).write_text('{"near": 1}')
        with pytest.raises(ModelUnavailableError):
            await models.choose("near/stub")


async def test_another_port_of_the_same_name_is_not_confirmed(tmp_path: Path) -> None:
    async with StubModelServer() as model_server, StubModelServer() as other:
        Pins(tmp_path).confirm(LocalServer("near", "Near", model_server.base_url))
        async with catalog(tmp_path, other.base_url) as models:
            with pytest.raises(ModelUnavailableError):
                await models.choose("near/stub")


async def test_a_name_that_no_server_has_is_told_with_those_that_there_are(tmp_path: Path) -> None:
    async with catalog(tmp_path, "http://127.0.0.1:1/v1") as models:
        with pytest.raises(ModelUnavailableError, match="Unknown local server 'far'") as caught:
            await models.trust("far", is_trusted=True)
    assert "near" in caught.value.remedy
