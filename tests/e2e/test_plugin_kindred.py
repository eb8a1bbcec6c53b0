"""The example that uses the embedding model of an agent, here that of another plugin."""

import shutil
from pathlib import Path

from scripts.requirements import ROOT
from skerry.client.client import GatewayClient
from skerry.testing.gateway import running_gateway
from skerry.testing.model_server import StubModelServer
from tests.e2e.test_memwal import ask
from tests.support.gateway import TOKEN

PLUGINS = ROOT / "docs" / "examples" / "plugins"


async def test_texts_are_embedded_by_the_model_of_the_agent(tmp_path: Path) -> None:
    paths = []
    for name in ("atlas.py", "kindred.py"):
        shutil.copy(PLUGINS / name, tmp_path / name)
        (tmp_path / name).chmod(0o600)
        paths.append(str(tmp_path / name))
    fields = {
        "gateway": {"auth": {"token": TOKEN}},
        "plugins": {"load": {"paths": paths}},
        "agents": {"defaults": {"memorySearch": {"provider": "plugin"}}},
    }
    async with (
        StubModelServer() as model,
        running_gateway(home=tmp_path / "state", model=model.base_url, config=fields) as gateway,
        GatewayClient(gateway.address) as client,
    ):
        text = await ask(client, "/kindred many hands", "k1")
    assert text == "Many hands make light work. (63%, atlas/words-256#0)"
