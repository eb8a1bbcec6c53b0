"""A model that a conversation has chosen goes away: another answers, and says so once."""

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from skerry.client.client import GatewayClient
from skerry.testing.gateway import running_gateway
from skerry.testing.model_server import StubModelServer
from tests.support.asking import ask, payload_text

CONFIGURED = ["--model", "configured"]


def config(base_url: str, *models: str, **defaults: Any) -> dict[str, Any]:
    listed = [{"id": model} for model in models]
    provider = {"baseUrl": base_url, "apiKey": "key", "models": listed}
    return {
        "models": {"mode": "replace", "providers": {"den": provider}},
        "agents": {"defaults": defaults},
    }


def rewrite(home: Path, fields: Mapping[str, Any]) -> None:
    """Writes the configuration again, with the values that the gateway had written."""
    path = home / "skerry.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def noted(home: Path) -> list[str]:
    """Returns the notices to people besides the answers, in order."""
    query = (
        "SELECT notice.value FROM run, json_each(CAST(result AS TEXT), '$.notices') AS notice"
        " ORDER BY serial"
    )
    with closing(sqlite3.connect(home / "state.sqlite")) as state:
        return [notice for (notice,) in state.execute(query)]


@pytest.mark.parametrize(
    "defaults",
    [{"model": "den/small"}, {}, {"model": "den/small", "models": {"den/small": {}}}],
    ids=["a configured model", "the first usable", "a list of allowed ones"],
)
async def test_a_removed_model_is_not_called_and_the_person_is_notified_once(
    tmp_path: Path, defaults: dict[str, Any]
) -> None:
    async with StubModelServer(lambda body: [f"by {body['model']}"]) as server:
        before = config(server.base_url, "small", "large", model="den/small")
        async with running_gateway(home=tmp_path, config=before, arguments=CONFIGURED) as gateway:
            async with GatewayClient(gateway.address) as client:
                assert "den/large" in payload_text(await ask(client, "/model den/large"))
                assert payload_text(await ask(client, "one")) == "by large"
            await gateway.stop()
            rewrite(tmp_path, config(server.base_url, "small", **defaults))
            status = ""
            for number in range(2):
                await gateway.start()
                async with GatewayClient(gateway.address) as client:
                    first, again = [await ask(client, f"{number} {one}") for one in "ab"]
                    status = payload_text(await ask(client, f"/model status {number}"[:13]))
                assert [payload_text(first), payload_text(again)] == ["by small", "by small"]
                await gateway.stop()
    assert "another model answers" in status
    (note,) = noted(tmp_path)
    assert note.startswith("den/large cannot be used: ")
    assert note.endswith("den/small answered. `/model default` ends it.")
