"""Methods that list the models and choose one."""

import json
import logging

import pytest

from skerry.model.errors import ConfigRewriteError, ModelUnavailableError
from skerry.ports.model import ModelOffer, ModelPick
from tests.support.gateway import MODEL, Rig
from tests.support.wire import Wire, connected


async def test_models_are_listed_with_the_one_in_use_first(wire: Wire) -> None:
    first, second = (await wire.call("models.list", {"view": "configured"}))["models"]
    assert (first["id"], first["provider"], first["tags"]) == ("stub-model", "stub", ["default"])
    assert "tags" not in second


async def test_the_view_of_all_has_what_the_providers_say(wire: Wire) -> None:
    models = (await wire.call("models.list", {"view": "all"}))["models"]
    assert [model["id"] for model in models] == ["stub-model", "other", "seeing"]
    assert models[-1]["input"] == ["text", "image"]


async def test_a_provider_is_asked_for_its_models_before_it_is_taken(rig: Rig, wire: Wire) -> None:
    params = {"provider": "lab", "baseUrl": "https://x.example/v1", "apiKey": "sk-canary-1"}
    answer = await wire.call("models.offered", params)
    seeing, unknown = answer["models"]
    assert (seeing["contextWindow"], seeing["input"]) == (65_536, ["text", "image"])
    assert "contextWindow" not in unknown
    assert answer["problems"] == ["It is away."]
    (model_setup,) = rig.models.setups
    assert (model_setup.provider, model_setup.api_key) == ("lab", "sk-canary-1")
    refused = await wire.ask("models.offered", params | {"baseUrl": "file:///etc/passwd"})
    assert not refused["ok"]


async def test_the_present_model_is_told(wire: Wire) -> None:
    status = await wire.call("models.status")
    assert (status["state"], status["model"]["ref"]) == ("ready", "stub/stub-model")


async def test_a_model_is_chosen_and_its_key_goes_nowhere_else(
    rig: Rig, wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    key = "sk-canary-1234"
    setup = {
        "provider": "openai",
        "model": "gpt-5",
        "apiKey": key,
        "baseUrl": "https://x.example/v1",
    }
    status = await wire.call("models.configure", setup)
    assert status["state"] == "ready"
    (model_setup,) = rig.models.setups
    assert (model_setup.provider, model_setup.model, model_setup.api_key) == (
        "openai",
        "gpt-5",
        key,
    )
    assert model_setup.base_url == "https://x.example/v1"
    rig.models.refuse = RuntimeError("broken")
    await wire.ask("models.configure", setup)
    await wire.ask("models.configure", setup | {"apiKey": f"{key} with spaces", "foo": key})
    rest = [frame for frame in wire.frames if frame.get("method") != "models.configure"]
    assert key not in json.dumps(rest)
    assert key not in "".join(
        record.getMessage() for record in caplog.records if record.name.startswith("skerry")
    )


@pytest.mark.parametrize(
    "setup",
    [
        {"apiKey": "a b"},
        {"apiKey": "a\r\nx: y"},
        {"apiKey": "x" * 513},
        {"baseUrl": "file:///etc/passwd"},
        {"baseUrl": "https://x y"},
        {"provider": "../x"},
    ],
)
async def test_what_makes_no_sense_as_a_model_is_refused(
    rig: Rig, wire: Wire, setup: dict[str, str]
) -> None:
    error = (await wire.ask("models.configure", setup))["error"]
    assert error["code"] == "INVALID_REQUEST"
    assert "".join(setup.values()) not in error["message"]
    assert rig.models.setups == []


async def test_a_refused_model_says_what_to_do(rig: Rig, wire: Wire) -> None:
    rig.models.refuse = ConfigRewriteError("skerry.json", "Add this yourself: models: {}")
    error = (await wire.ask("models.configure", {"model": "x"}))["error"]
    assert error["code"] == "INVALID_REQUEST"
    assert error["details"] == {"code": "config.rewrite", "remedy": "Add this yourself: models: {}"}


async def test_only_admins_choose_the_model(rig: Rig) -> None:
    async with connected(rig.url, scopes=["operator.write"]) as wire:
        error = (await wire.ask("models.configure", {}))["error"]
        assert error["details"]["missingScope"] == "operator.admin"


async def test_a_model_is_chosen_among_those_that_can_be_used(rig: Rig, wire: Wire) -> None:
    for params, pick in (
        ({"ref": "sonnet"}, ModelPick("sonnet")),
        ({"file": "/models/a.gguf", "pin": True}, ModelPick(file="/models/a.gguf", pin=True)),
        ({}, ModelPick()),
    ):
        status = await wire.call("models.use", params)
        assert status["model"]["ref"] == MODEL.ref
        assert rig.models.picks[-1] == pick


@pytest.mark.parametrize("params", [{"file": "relative.gguf"}, {"ref": "a\nb"}, {"foo": "x"}])
async def test_a_choice_that_makes_no_sense_is_refused(
    rig: Rig, wire: Wire, params: dict[str, str]
) -> None:
    assert (await wire.ask("models.use", params))["error"]["code"] == "INVALID_REQUEST"
    assert rig.models.picks == []


async def test_a_model_that_cannot_be_used_is_refused_with_its_remedy(rig: Rig, wire: Wire) -> None:
    rig.models.refuse = ModelUnavailableError("No key is set.", "Set one.")
    error = (await wire.ask("models.use", {"ref": "x/y"}))["error"]
    assert error["details"] == {"code": "model.unavailable", "remedy": "Set one."}


async def test_a_local_server_is_offered_and_confirmed_by_an_administrator(
    rig: Rig, wire: Wire
) -> None:
    rig.models.offers = (ModelOffer("ollama", "Ollama", "127.0.0.1:11434", "ada"),)
    (offer,) = (await wire.call("models.status"))["offers"]
    assert offer["message"] == "Ollama answers on 127.0.0.1:11434 (run by user ada)."
    assert offer["remedy"] == "Use it? skerry models trust ollama"
    async with connected(rig.url, scopes=["operator.read", "operator.write"]) as writer:
        refused = await writer.ask("models.trust", {"server": "ollama"})
        assert "missing scope: operator.admin" in refused["error"]["message"]
    assert (await wire.call("models.trust", {"server": "ollama"}))["offers"] == []
    await wire.call("models.trust", {"server": "ollama", "trusted": False})
    assert rig.models.trusted == {"ollama": False}
