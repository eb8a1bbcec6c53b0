"""The example that provides a search and an embedding model, in a whole gateway."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from scripts.requirements import ROOT
from skerry.client.client import GatewayClient
from skerry.hooks.hooks import Hooks
from skerry.model.message import ToolCall
from skerry.ports.model import ModelRequest
from skerry.testing.gateway import running_gateway
from skerry.testing.model import ScriptedModel, Step
from skerry.testing.model_server import StubModelServer
from tests.e2e.test_memwal import ask
from tests.e2e.test_memwal_slot import results
from tests.support.gateway import TOKEN
from tests.support.whole import whole_gateway

ATLAS = ROOT / "docs" / "examples" / "plugins" / "atlas.py"


def config(folder: Path, **entry: Any) -> dict[str, Any]:
    plugin = folder / "atlas.py"
    shutil.copy(ATLAS, plugin)
    plugin.chmod(0o600)
    return {
        "gateway": {"auth": {"token": TOKEN}},
        "plugins": {"load": {"paths": [str(plugin)]}, "entries": {"atlas": entry}},
        "tools": {"web": {"search": {"provider": "plugin"}}},
        "agents": {"defaults": {"memorySearch": {"provider": "plugin"}}},
    }


def searching() -> ScriptedModel:
    calls = [ToolCall("1", "web_search", {"query": "fjord"})]

    def reply(_: ModelRequest) -> Sequence[Step]:
        return [calls.pop()] if calls else ["Done."]

    return ScriptedModel(reply)


async def test_web_search_asks_the_plugin_and_marks_its_texts_as_foreign(tmp_path: Path) -> None:
    model = searching()
    async with (
        whole_gateway(tmp_path / "state", Hooks(), config=config(tmp_path), model=model) as (_, to),
        GatewayClient(to) as client,
    ):
        (listed,) = (await client.request("plugins.list"))["plugins"]
        assert (listed["reason"], listed["providers"]) == ("", ["search", "embedding"])
        await ask(client, "Which town is at a fjord?", "k1")
    (text,) = results(model)
    assert "untrusted" in text
    assert '"provider": "atlas"' in text
    assert "https://atlas.example/oslo" in text
    assert "lisbon" not in text


def spoil(folder: Path) -> None:
    """Lets the search and the model of the plugin fail."""
    plugin = folder / "atlas.py"
    code = plugin.read_text().replace("query.query.lower()", "(1 / 0)")
    plugin.write_text(code.replace("for word in re.findall", "for word in 1 / 0 or re.findall"))


async def found_in_memory(home: Path, fields: dict[str, Any]) -> dict[str, Any]:
    """Returns the result of a search of the memory, in a separate gateway process."""
    async with (
        StubModelServer() as model,
        running_gateway(home=home, model=model.base_url, config=fields) as gateway,
        GatewayClient(gateway.address) as client,
    ):
        (home / "workspace" / "MEMORY.md").write_text("- The boat has a red sail.\n")
        await client.request("memory.sync", {}, timeout=60)
        answer = await client.request("memory.search", {"query": "red sail"}, timeout=60)
        assert "red sail" in answer["results"][0]["text"]
        return dict(answer)


async def test_the_memory_is_found_by_the_vectors_of_the_plugin(tmp_path: Path) -> None:
    payload = await found_in_memory(tmp_path / "state", config(tmp_path))
    assert (payload["mode"], payload["provider"], payload["model"]) == (
        "hybrid",
        "atlas",
        "words-256",
    )


@pytest.mark.parametrize("what", ["without", "broken"])
async def test_without_the_model_words_are_compared(tmp_path: Path, what: str) -> None:
    configuration = config(tmp_path, enabled=what != "without")
    if what == "broken":
        spoil(tmp_path)
    assert (await found_in_memory(tmp_path / "state", configuration))["mode"] == "text"


@pytest.mark.parametrize("what", ["without", "broken"])
async def test_a_search_that_is_missing_or_fails_is_told(tmp_path: Path, what: str) -> None:
    model, fields = searching(), config(tmp_path, enabled=what != "without")
    if what == "broken":
        spoil(tmp_path)
    async with (
        whole_gateway(tmp_path / "state", Hooks(), config=fields, model=model) as (_, to),
        GatewayClient(to) as client,
    ):
        await ask(client, "Which town is at a fjord?", "k1")
    (text,) = results(model)
    told = {"without": "missing_search_plugin", "broken": "division by zero"}
    assert told[what] in text
