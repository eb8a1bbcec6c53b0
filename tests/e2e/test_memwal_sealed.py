"""Mode `e2e` in whole gateways: the server receives ciphertext; prompts contain earlier texts."""

import json
import shutil
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from scripts.requirements import ROOT
from skerry.client.client import GatewayClient
from skerry.model.errors import ClientError
from skerry.testing.gateway import running_gateway
from skerry.testing.model_server import StubModelServer
from tests.e2e.test_memwal import FACT, ask, until
from tests.support.fake_relayer import FakeRelayer, configured, fake_relayer
from tests.support.gateway import TOKEN
from tests.support.relayer_process import made, served

ATLAS = ROOT / "docs" / "examples" / "plugins" / "atlas.py"
QUESTION = "Which language do I prefer for my backend services?"
BOTH = 2
"""Memories of one message: the model repeats it, and the answer is captured too."""
ALLERGY = "I am allergic to peanuts and to walnuts"


def words(folder: Path, url: str, **options: Any) -> dict[str, Any]:
    """Returns a configuration whose texts are embedded by the words in them, by a plugin."""
    plugin = folder / "atlas.py"
    shutil.copy(ATLAS, plugin)
    plugin.chmod(0o600)
    plugins = configured(url, mode="e2e", **options)
    plugins["entries"]["atlas"] = {}
    return {
        "gateway": {"auth": {"token": TOKEN}},
        "plugins": plugins | {"load": {"paths": [str(plugin)]}},
        "agents": {"defaults": {"memorySearch": {"provider": "plugin"}}},
    }


def prompt(model: StubModelServer) -> str:
    """Returns the last message that the model got from the user."""
    content = [
        message["content"]
        for message in model.requests[-1].body["messages"]
        if message["role"] == "user"
    ][-1]
    return content if isinstance(content, str) else str(content[0]["text"])


def sent(relayer: FakeRelayer) -> str:
    """Returns all requests to the server, as text."""
    return json.dumps(relayer.requests) + "".join(memory.text for memory in relayer.memories)


async def test_the_server_gets_no_plain_text_and_the_prompt_has_the_fact(tmp_path: Path) -> None:
    async with fake_relayer() as (relayer, url), StubModelServer() as model:
        fields = words(tmp_path, url)
        home = tmp_path / "state"
        async with (
            running_gateway(home=home, model=model.base_url, config=fields) as gateway,
            GatewayClient(gateway.address) as client,
        ):
            await ask(client, FACT, "monday")
            await until(lambda: len(relayer.memories) == BOTH)
            await client.request("sessions.reset", {"key": "main"})
            await ask(client, QUESTION, "tuesday")
            assert f". {FACT}\n" in prompt(model)
            assert prompt(model).endswith(f"</memwal-memories>\n\n{QUESTION}")
            payload = await client.request("memory-memwal.search", {"query": QUESTION})
            assert payload[0]["text"] == FACT
            exported = await client.request("memory-memwal.export")
            assert {row["text"] for row in exported["memories"]} == {FACT, f"echo: {FACT}"}
            done = await client.request("memory-memwal.forget", {"phrases": ["TypeScript"]})
            assert (done["forgotten"], relayer.memories) == (BOTH, [])
    for word in ("TypeScript", "backend", "language"):
        assert word not in sent(relayer)
    assert not relayer.of("/api/analyze") + relayer.of("/api/recall") + relayer.of("/config")


@pytest.mark.parametrize("point", ["stored", "sending", "answered"])
async def test_a_kill_anywhere_stores_each_fact_once(tmp_path: Path, point: str) -> None:
    texts = [f"I prefer the editor {name} for my work" for name in ("alpha", "beta", "gamma")]
    async with fake_relayer() as (relayer, url), StubModelServer() as model:
        running = running_gateway(
            home=tmp_path / "state",
            model=model.base_url,
            config=words(tmp_path, url),
            first=("--fault", f"memwal.{point}:2"),
        )
        async with running as gateway:
            async with GatewayClient(gateway.address) as client:
                await ask(client, texts[0], "k0")
                await until(lambda: len(relayer.memories) == BOTH)
                with suppress(ClientError, TimeoutError):
                    await ask(client, texts[1], "k1")
            assert await gateway.wait() == -signal.SIGKILL
            await gateway.start()
            async with GatewayClient(gateway.address) as client:
                await ask(client, texts[2], "k2")
                await until(lambda: len(relayer.memories) >= BOTH * len(texts))
                exported = await client.request("memory-memwal.export")
    stored = sorted(row["text"] for row in exported["memories"])
    assert stored == sorted([*texts, *(f"echo: {text}" for text in texts)])


async def test_without_a_local_model_nothing_is_sent_and_the_state_tells_the_remedy(
    tmp_path: Path,
) -> None:
    async with fake_relayer() as (relayer, url), StubModelServer() as model:
        fields = words(tmp_path, url)
        fields["agents"]["defaults"]["memorySearch"] = {
            "provider": "openai",
            "remote": {"baseUrl": model.base_url, "apiKey": "sk-test"},
        }
        async with (
            running_gateway(
                home=tmp_path / "state", model=model.base_url, config=fields
            ) as gateway,
            GatewayClient(gateway.address) as client,
        ):
            await ask(client, FACT, "k1")
            state: dict[str, Any] = {}
            with anyio.fail_after(60):
                while not state.get("waiting"):
                    state = await client.request("memory-memwal.status")
    assert not state["ok"]
    assert "does not run on this machine" in state["text"]
    assert "memorySearch.provider" in state["remedy"]
    assert not relayer.memories
    assert all("embeddings" not in request.path for request in model.requests)


@pytest.mark.full("the embedding model of the relayer")
async def test_both_modes_work_with_one_account_and_the_relayer_holds_nothing_plain(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Gateway, relayer with its key server, and a model, each a process of its own."""
    relayer_home = tmp_path / "relayer-state"
    account = await made(relayer_home)
    keys = {"privateKey": account["delegateKey"], "accountId": account["accountId"]}
    async with served(relayer_home) as relayer, StubModelServer() as model:
        sealed = {
            "gateway": {"auth": {"token": TOKEN}},
            "plugins": configured(relayer.url, mode="e2e", **keys),
        }
        plain = {**sealed, "plugins": configured(relayer.url, **keys)}
        for name, given, told in (("plain", plain, FACT), ("sealed", sealed, ALLERGY)):
            home = tmp_path / name
            async with running_gateway(home=home, model=model.base_url, config=given) as gateway:
                async with GatewayClient(gateway.address) as client:
                    before = (await client.request("memory-memwal.status"))["memories"]
                    await ask(client, told, "monday")
                    count = before
                    with anyio.fail_after(60):
                        while count == before:
                            await anyio.sleep(0.1)
                            count = (await client.request("memory-memwal.status"))["memories"]
                await gateway.kill()
                await gateway.start()
                async with GatewayClient(gateway.address) as client:
                    await client.request("sessions.reset", {"key": "main"})
                    for text in (QUESTION, "Am I allergic to peanuts or to walnuts?"):
                        await ask(client, text, text)
                        assert ("</memwal-memories>" in prompt(model)) == (
                            (text == QUESTION) == (told == FACT)
                        )
                    await client.request("memory-memwal.export")
    assert holders(relayer_home, "peanuts") == []
    logged = capfd.readouterr()
    assert "peanuts" not in logged.out + logged.err


def holders(folder: Path, word: str) -> list[Path]:
    """Returns the files of a folder that have a word, be it in UTF-8 or UTF-16."""
    spelt = [word.encode(), word.encode("utf-16-le"), word.encode().hex().encode()]
    return [
        path
        for path in folder.rglob("*")
        if path.is_file() and any(form in path.read_bytes() for form in spelt)
    ]
