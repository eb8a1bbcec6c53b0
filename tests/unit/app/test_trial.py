"""Trying a model: it ends, whatever the model does."""

import json
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from anyio.abc import SocketStream

from skerry.app import trial as trial_module
from skerry.app.settings import Settings
from skerry.app.setup import ModelSettings
from skerry.app.trial import Trial
from skerry.config.load import prepare
from skerry.features.models.models import trial
from skerry.infra.http import HttpClient
from skerry.model.errors import (
    ModelAuthError,
    ModelConnectionError,
    ModelError,
    ModelNotFoundError,
    ModelRateLimitError,
)
from skerry.ports.model import ModelSetup, ModelStatus
from skerry.providers.catalog import Catalog
from skerry.sdk.slots import model_parts
from skerry.testing.model_server import StatusReply, StubModelServer
from tests.support.served import serving
from tests.support.sockets import listening

BROOK = Path(__file__).parents[3] / "docs/examples/plugins/brook"


async def test_a_trial_of_a_server_that_is_silent_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial_module, "TRIAL_SECONDS", 0.1)

    async def silent(stream: SocketStream) -> None:
        async with stream:
            await anyio.sleep_forever()

    async with listening(silent) as port:
        den = {"baseUrl": f"http://127.0.0.1:{port}/v1", "models": [{"id": "m"}]}
        (tmp_path / "skerry.json").write_text(json.dumps({"models": {"providers": {"den": den}}}))
        done = await trial({"SKERRY_STATE_DIR": str(tmp_path)}, "den/m")
    assert isinstance(done, ModelConnectionError)
    assert str(done) == "den/m gave no complete answer within 0.1 s."


async def test_a_trial_loads_the_plugin_whose_wire_format_the_model_has(tmp_path: Path) -> None:
    events = [b'{"add":"It flows."}', b'{"end":"stop","read":3,"wrote":2}']
    async with serving(b"".join(b"data: %b\n\n" % event for event in events)) as served:
        river = {"baseUrl": served.url, "api": "brook.lines", "models": [{"id": "m"}]}
        plugins = {"load": {"paths": [str(BROOK)]}, "entries": {"brook": {}}}
        file = tmp_path / "skerry.json"
        file.write_text(json.dumps({"models": {"providers": {"river": river}}, "plugins": plugins}))
        done = await trial({"SKERRY_STATE_DIR": str(tmp_path)}, "river/m")
    assert isinstance(done, Trial), done
    assert (done.model.ref, done.usage.input, done.usage.output) == ("river/m", 3, 2)


async def choose(home: Path, setup: ModelSetup) -> ModelStatus:
    environ = {"HOME": str(home), "SKERRY_STATE_DIR": str(home)}
    settings = Settings(prepare(environ), environ)
    async with (
        HttpClient() as http,
        Catalog(settings.config, http, environ, model_parts()) as catalog,
    ):
        settings.on_change(catalog.reconfigure)
        try:
            return await ModelSettings(settings, catalog, environ).configure_model(setup)
        except ModelError as error:
            failed = error
    raise failed


async def test_a_key_is_tried_before_it_is_taken(tmp_path: Path) -> None:
    async with StubModelServer() as server:
        setup = ModelSetup("lab", "m", "sk-right", server.base_url)
        server.models = [{"id": "m", "max_model_len": 8192, "input_modalities": ["image"]}]
        status = await choose(tmp_path, setup)
        (request, _) = server.requests
    assert request.headers["authorization"] == "Bearer sk-right"
    assert status.latency_ms is not None
    assert "sk-right" in (tmp_path / "skerry.json").read_text()
    assert status.model is not None
    assert (status.model.context_window, "image" in status.model.input) == (8192, True)


@pytest.mark.parametrize(
    ("code", "error", "remedy"),
    [
        (401, ModelAuthError, "Enter another key"),
        (403, ModelAuthError, "Enter another key"),
        (404, ModelNotFoundError, "the model's name"),
        (429, ModelRateLimitError, "Send it again in 120 s"),
    ],
)
async def test_a_key_that_fails_its_trial_is_not_saved_unless_the_person_insists(
    tmp_path: Path, code: int, error: type[ModelError], remedy: str
) -> None:
    headers = (("retry-after", "120"),)
    async with StubModelServer(lambda _: [StatusReply(code, headers=headers)]) as server:
        setup = ModelSetup("lab", "m", "sk-wrong", server.base_url)
        with pytest.raises(error) as caught:
            await choose(tmp_path, setup)
        assert remedy in caught.value.remedy
        assert caught.value.remedy.endswith("Nothing was saved.")
        assert "sk-wrong" not in (tmp_path / "skerry.json").read_text()
        count = len(server.requests)
        await choose(tmp_path, replace(setup, untried=True))
        assert "sk-wrong" in (tmp_path / "skerry.json").read_text()
        assert len(server.requests) == count


async def test_an_address_where_nobody_listens_is_told(tmp_path: Path) -> None:
    setup = ModelSetup("lab", "m", "sk-any", "http://127.0.0.1:9/v1")
    with pytest.raises(ModelConnectionError) as caught:
        await choose(tmp_path, setup)
    assert "network" in caught.value.remedy
    assert "sk-any" not in (tmp_path / "skerry.json").read_text()
