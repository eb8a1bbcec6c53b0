"""Choosing a model on the page: the written configuration, and refusals."""

import os
from pathlib import Path

import pytest
from pydantic import HttpUrl, SecretStr

from skerry.app.setup import changes, gguf
from skerry.config.models import ProviderConfig
from skerry.model.errors import ConfigError
from skerry.ports.model import ModelSetup

PRIMARY = "agents.defaults.model.primary"


def configured(address: str = "https://api.openai.com/v1") -> ProviderConfig:
    return ProviderConfig(base_url=HttpUrl(address), api_key=SecretStr("old"))


def test_a_known_provider_needs_only_its_key() -> None:
    values = changes(ModelSetup("openai", api_key="new"), None, {})
    assert values["models.providers.openai.apiKey"] == "new"
    assert values["models.providers.openai.baseUrl"] == "https://api.openai.com/v1"
    assert str(values[PRIMARY]).startswith("openai/")


def test_the_key_may_be_in_the_environment() -> None:
    values = changes(ModelSetup("openai", model="m"), None, {"OPENAI_API_KEY": "there"})
    assert values[PRIMARY] == "openai/m"
    assert "there" not in values.values()


def test_another_model_keeps_the_key() -> None:
    values = changes(ModelSetup("openai", model="other"), configured(), {})
    assert values[PRIMARY] == "openai/other"
    assert "models.providers.openai.apiKey" not in values


def test_a_kept_key_never_goes_to_a_new_address() -> None:
    setup = ModelSetup("openai", model="m", base_url="https://elsewhere.example/v1")
    assert changes(setup, configured(), {})["models.providers.openai.apiKey"] is None


def test_nothing_at_all_lets_the_order_decide_again() -> None:
    assert changes(ModelSetup(), None, {}) == {PRIMARY: None}


@pytest.mark.parametrize(
    "setup",
    [
        ModelSetup(api_key="k"),
        ModelSetup("openai"),
        ModelSetup("mine", model="m"),
        ModelSetup("mine", base_url="http://127.0.0.1:1/v1"),
        ModelSetup("a.b", model="m", base_url="http://127.0.0.1:1/v1"),
    ],
    ids=["no provider", "no key", "no address", "no model", "a name that is a path"],
)
def test_what_is_unclear_is_refused(setup: ModelSetup) -> None:
    with pytest.raises(ConfigError) as caught:
        changes(setup, None, {})
    assert caught.value.remedy == "Nothing was changed."


def test_a_pipe_is_no_model_and_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "model.gguf"
    os.mkfifo(pipe)
    with pytest.raises(ConfigError, match="is not a GGUF file"):
        gguf(str(pipe))
