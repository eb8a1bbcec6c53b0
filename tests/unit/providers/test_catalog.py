"""The choice of the model, and the error without a usable one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest
from msgspec.structs import replace

from skerry.config.root import Config
from skerry.features.embedded_model.hardware import Machine
from skerry.infra.http import HttpClient
from skerry.model.errors import ModelConnectionError, ModelUnavailableError
from skerry.model.message import user
from skerry.ports.model import History, ModelRequest, ModelState, ReplyListener
from skerry.providers.builtin_providers import LocalServer
from skerry.providers.catalog import Catalog
from skerry.providers.pins import Pins
from skerry.testing.model_server import StubModelServer
from tests.support.embedded import parts_on

BARE = Machine(
    "x86_64", frozenset({"avx2"}), has_runtime=True, packaged=None, free_bytes=lambda: 1 << 40
)


def config(tmp_path: Path, **sections: Any) -> Config:
    return Config.model_validate({"state_dir": tmp_path, "path": tmp_path / "c.json", **sections})


def primary(ref: str) -> dict[str, Any]:
    return {"defaults": {"model": {"primary": ref}}}


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(b"GGUF" + b"\0" * 100)
    return path


class Time:
    """The monotonic clock of a test."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def catalog(
    settings: Config,
    *,
    local: StubModelServer | None = None,
    is_confirmed: bool = True,
    machine: Machine = BARE,
    time: Time | None = None,
    **environ: str,
) -> AsyncIterator[Catalog]:
    servers = [LocalServer("near", "Near", local.base_url)] if local else []
    with anyio.fail_after(60):
        async with (
            HttpClient() as http,
            Catalog(
                settings,
                http,
                environ,
                parts_on(machine),
                servers=servers,
                monotonic=time or Time(),
            ) as models,
        ):
            for server in servers if is_confirmed else ():
                Pins(settings.state_dir).confirm(server)
            yield models


async def test_a_pinned_model_comes_before_everything(tmp_path: Path, gguf: Path) -> None:
    pinned = config(tmp_path, agents=primary("groq/llama"))
    machine = replace(BARE, packaged=gguf)
    async with (
        StubModelServer() as local,
        catalog(
            pinned, local=local, machine=machine, OPENAI_API_KEY="k", GROQ_API_KEY="k"
        ) as models,
    ):
        _, info = await models.choose(None)
        assert info.ref == "groq/llama"
        assert local.requests == []


async def test_then_a_key_in_the_environment(tmp_path: Path, gguf: Path) -> None:
    machine = replace(BARE, packaged=gguf)
    async with (
        StubModelServer() as local,
        catalog(config(tmp_path), local=local, machine=machine, OPENAI_API_KEY="k") as models,
    ):
        _, info = await models.choose(None)
        assert info.provider == "openai"
        assert local.requests == []


async def test_then_a_local_server_that_answers(tmp_path: Path, gguf: Path) -> None:
    machine = replace(BARE, packaged=gguf)
    async with (
        StubModelServer() as local,
        catalog(config(tmp_path), local=local, machine=machine) as models,
    ):
        provider, info = await models.choose(None)
        assert info.ref == "near/stub"
        request = ModelRequest(info, "", History([user("hi", 1)]))
        assert (await provider.complete(request, ReplyListener())).text == "echo: hi"


async def test_then_the_named_file(tmp_path: Path, gguf: Path) -> None:
    named = config(tmp_path, models={"embedded": {"file": str(gguf), "contextWindow": 2048}})
    other = tmp_path / "packaged.gguf"
    async with catalog(named, machine=replace(BARE, packaged=other)) as models:
        _, info = await models.choose(None)
    assert (info.ref, info.context_window) == ("embedded/tiny", 2048)
    assert info.prompt_limit is None


async def test_then_the_packaged_demonstration(tmp_path: Path, gguf: Path) -> None:
    async with catalog(config(tmp_path), machine=replace(BARE, packaged=gguf)) as models:
        _, info = await models.choose(None)
        status = await models.status()
    assert info.provider == "embedded"
    assert info.supports_tools is False
    assert info.prompt_limit == 600
    assert status.state is ModelState.READY
    assert "98 MB" in status.message


async def test_without_any_of_them_a_person_reads_what_to_do(tmp_path: Path) -> None:
    async with catalog(config(tmp_path)) as models:
        with pytest.raises(ModelUnavailableError, match="No model can be used") as caught:
            await models.choose(None)
        status = await models.status()
        assert await models.listing() == []
    assert "OPENAI_API_KEY" in caught.value.remedy
    assert (status.state, status.model) == (ModelState.UNAVAILABLE, None)
    assert (status.message, status.remedy) == (str(caught.value), caught.value.remedy)


async def test_a_machine_that_cannot_run_the_file_says_so(tmp_path: Path, gguf: Path) -> None:
    machine = replace(BARE, packaged=gguf, features=frozenset[str]())
    async with catalog(config(tmp_path), machine=machine) as models:
        status = await models.status()
    assert status.state is ModelState.UNAVAILABLE
    assert "AVX2" in status.message
    assert status.remedy


async def test_a_pinned_model_without_its_key_is_no_silent_change(
    tmp_path: Path, gguf: Path
) -> None:
    pinned = config(tmp_path, agents=primary("openai/x"))
    async with catalog(pinned, machine=replace(BARE, packaged=gguf), GROQ_API_KEY="k") as models:
        with pytest.raises(ModelUnavailableError, match="No key is set for OpenAI"):
            await models.choose(None)


async def test_local_servers_are_asked_once_in_30_seconds(tmp_path: Path) -> None:
    time = Time()
    async with (
        StubModelServer() as local,
        catalog(config(tmp_path), local=local, time=time) as models,
    ):
        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(models.choose, None)
        time.now = 30.0
        await models.status()
        assert len(local.requests) == 1
        time.now = 30.1
        await models.choose(None)
        assert len(local.requests) == 2


async def test_a_model_by_name_costs_no_look_at_the_network(tmp_path: Path) -> None:
    async with (
        StubModelServer() as local,
        catalog(config(tmp_path), local=local) as models,
    ):
        _, info = await models.choose("near/other")
        assert info.ref == "near/other"
        assert local.requests == []


async def test_the_same_endpoint_keeps_its_adapter(tmp_path: Path) -> None:
    async with catalog(config(tmp_path), OPENAI_API_KEY="k") as models:
        first, _ = await models.choose("openai/a")
        second, _ = await models.choose("openai/b")
    assert first is second


async def test_the_listing_has_each_usable_model_once_and_the_one_in_use_first(
    tmp_path: Path, gguf: Path
) -> None:
    mine = {"baseUrl": "http://10.0.0.1/v1", "models": [{"id": "a"}, {"id": "b"}]}
    settings = config(tmp_path, models={"providers": {"mine": mine}}, agents=primary("mine/b"))
    async with (
        StubModelServer() as local,
        catalog(
            settings, local=local, machine=replace(BARE, packaged=gguf), GROQ_API_KEY="k"
        ) as models,
    ):
        refs = [info.ref for info in await models.listing()]
    assert refs[0] == "mine/b"
    assert refs == [
        "mine/b",
        "groq/openai/gpt-oss-120b",
        "mine/a",
        "near/stub",
        "embedded/smollm2-135m",
    ]


async def test_a_new_configuration_holds_from_the_next_choice(tmp_path: Path) -> None:
    async with catalog(config(tmp_path), OPENAI_API_KEY="k", GROQ_API_KEY="g") as models:
        await models.choose(None)
        models.reconfigure(config(tmp_path, agents=primary("groq/x")))
        _, info = await models.choose(None)
    assert info.ref == "groq/x"


async def test_a_changed_key_is_used(tmp_path: Path) -> None:
    def keyed(key: str, url: str) -> Config:
        mine = {"baseUrl": url, "apiKey": key, "models": [{"id": "a"}]}
        return config(tmp_path, models={"providers": {"mine": mine}})

    async with StubModelServer() as stub:
        async with catalog(keyed("old", stub.base_url)) as models:
            for key in ("old", "new"):
                models.reconfigure(keyed(key, stub.base_url))
                provider, info = await models.choose("mine/a")
                request = ModelRequest(info, "", History([user("hi", 1)]))
                await provider.complete(request, ReplyListener())
        assert [sent.headers["authorization"] for sent in stub.requests] == [
            "Bearer old",
            "Bearer new",
        ]


async def test_a_local_server_that_went_away_is_told_and_looked_for_at_once(
    tmp_path: Path, gguf: Path
) -> None:
    machine = replace(BARE, packaged=gguf)
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        port = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610 - anyio's
    local = StubModelServer(port=port)
    local.base_url = f"http://127.0.0.1:{port}/v1"
    async with catalog(
        config(tmp_path), local=local, is_confirmed=False, machine=machine
    ) as models:
        async with local:
            await models.trust("near", is_trusted=True)
            provider, info = await models.choose(None)
        assert info.ref == "near/stub"
        request = ModelRequest(info, "", History([user("hi", 1)]))
        with pytest.raises(ModelConnectionError, match="Start Near again"):
            await provider.complete(request, ReplyListener())
        assert (await models.choose(None))[1].provider == "embedded"


async def test_the_providers_of_the_file_may_be_the_only_ones(tmp_path: Path) -> None:
    den = {"baseUrl": "http://127.0.0.1:9/v1", "models": [{"id": "m"}]}
    alone = config(tmp_path, models={"mode": "replace", "providers": {"den": den}})
    async with (
        StubModelServer() as local,
        catalog(alone, local=local, OPENAI_API_KEY="k") as models,
    ):
        assert (await models.choose(None))[1].ref == "den/m"
        assert [info.ref for info in await models.listing()] == ["den/m"]
        assert local.requests == []
        with pytest.raises(ModelUnavailableError):
            await models.choose("openai/x")


async def test_the_catalogue_is_behind_what_can_be_used(tmp_path: Path) -> None:
    async with catalog(config(tmp_path), OPENAI_API_KEY="k") as models:
        infos = await models.all_models()
    assert infos[0].ref == "openai/gpt-5.4-mini"
    assert infos[0].note == ""
    assert {info.provider for info in infos} >= {"openai", "anthropic", "google"}
    assert len({info.ref for info in infos}) == len(infos)
