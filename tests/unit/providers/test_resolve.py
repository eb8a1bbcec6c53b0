"""From `provider/model` to an endpoint."""

from typing import Any

import pytest

from skerry.config.models import ModelsConfig
from skerry.model.errors import ModelUnavailableError
from skerry.providers.builtin_providers import HOSTED_PROVIDERS, LOCAL
from skerry.providers.model_catalog import Facts
from skerry.providers.resolve import Resolver

MINE = {
    "baseUrl": "http://192.168.1.5:8000/v1",
    "apiKey": "mine",
    "models": [{"id": "big", "name": "Big", "contextWindow": 1000, "maxTokens": 50}, {"id": "s"}],
}


def resolver(providers: dict[str, Any] | None = None, **environ: str) -> Resolver:
    config = ModelsConfig.model_validate({"providers": providers or {}})
    return Resolver(config, environ, LOCAL, Facts())


@pytest.mark.parametrize("known", HOSTED_PROVIDERS, ids=lambda known: known.id)
def test_a_known_provider_is_used_with_the_key_of_its_variable(known: Any) -> None:
    for variable in known.variables:
        target = Resolver(ModelsConfig(), {variable: " key "}, LOCAL, Facts()).named(
            f"{known.id}/some/model"
        )
        assert target.endpoint.base_url == known.base_url
        assert target.endpoint.api_key == "key"
        assert target.info.ref == f"{known.id}/some/model"


def test_a_provider_alone_is_its_usual_model() -> None:
    assert resolver(OPENAI_API_KEY="k").named("openai").info.id == HOSTED_PROVIDERS[0].model


def test_a_known_provider_without_its_key_says_which_variable() -> None:
    with pytest.raises(ModelUnavailableError, match="No key is set for Groq") as caught:
        resolver(GROQ_API_KEY="").named("groq/x")
    assert "GROQ_API_KEY" in caught.value.remedy


def test_keys_in_the_environment_count_in_the_order_of_the_table() -> None:
    iterator = resolver(XAI_API_KEY="x", ANTHROPIC_API_KEY="a", OTHER_API_KEY="o").with_key()
    assert [target.info.provider for target in iterator] == ["anthropic", "xai"]


def test_a_configured_provider_brings_address_key_and_limits() -> None:
    target = resolver({"mine": MINE}).named("mine/big")
    assert target.endpoint.base_url == "http://192.168.1.5:8000/v1"
    assert target.endpoint.api_key == "mine"
    assert target.endpoint.output_limit == "max_tokens"
    assert (target.info.name, target.info.context_window, target.info.max_tokens) == (
        "Big",
        1000,
        50,
    )


def test_a_length_that_nobody_configured_is_left_to_the_provider() -> None:
    assert resolver({"mine": MINE}).named("mine/s").endpoint.output_limit is None
    assert resolver(OPENAI_API_KEY="k").named("openai/x").endpoint.output_limit is None


def test_a_configured_provider_serves_models_that_are_not_listed() -> None:
    target = resolver({"mine": MINE}).named("mine/another")
    assert (target.info.ref, target.info.name) == ("mine/another", "another")


def test_a_configured_provider_alone_is_its_first_model() -> None:
    assert resolver({"mine": MINE}).named("mine").info.id == "big"


def test_configuring_a_known_provider_keeps_its_ways_and_its_variable() -> None:
    own = {"baseUrl": "https://proxy.example/v1", "models": [{"id": "m", "maxTokens": 9}]}
    target = resolver({"openai": own}, OPENAI_API_KEY="k").named("openai/m")
    assert target.endpoint.name == "OpenAI"
    assert target.endpoint.base_url == "https://proxy.example/v1"
    assert target.endpoint.api_key == "k"
    assert target.endpoint.output_limit == "max_completion_tokens"


@pytest.mark.parametrize(
    ("models", "model"),
    [([], HOSTED_PROVIDERS[0].model), ([{"id": "m"}, {"id": "n"}], "m")],
    ids=str,
)
def test_a_key_of_the_environment_goes_to_no_other_address_than_the_configured(
    models: list[dict[str, str]], model: str
) -> None:
    own = {"baseUrl": "https://proxy.example/v1", "models": models}
    found = resolver({"openai": own}, OPENAI_API_KEY="k")
    for target in (*found.with_key(), found.named("openai")):
        assert target.endpoint.base_url == "https://proxy.example/v1"
        assert (target.endpoint.api_key, target.info.ref) == ("k", f"openai/{model}")


def test_a_configured_known_provider_has_its_own_window_unless_another_is_given() -> None:
    own = {"baseUrl": "https://proxy.example/v1", "models": [{"id": "m", "contextWindow": 7}]}
    found = resolver({"groq": own})
    assert found.named("groq/any").info.context_window == 131_072
    assert found.named("groq/m").info.context_window == 7


def test_every_configured_model_is_listed() -> None:
    listed = [target.info.ref for target in resolver({"mine": MINE}).configured()]
    assert listed == ["mine/big", "mine/s"]


def test_a_local_server_needs_no_key() -> None:
    target = resolver().named("ollama/llama3:8b")
    assert target.endpoint.base_url == "http://127.0.0.1:11434/v1"
    assert target.endpoint.api_key is None


@pytest.mark.parametrize("ref", ["", "nobody/x", "gpt-4", "ollama", "/x"])
def test_a_name_that_nobody_has_is_refused_with_a_remedy(ref: str) -> None:
    with pytest.raises(ModelUnavailableError) as caught:
        resolver().named(ref)
    assert "openai" in caught.value.remedy


def test_a_misspelt_provider_is_guessed() -> None:
    with pytest.raises(ModelUnavailableError, match="Did you mean openrouter/"):
        resolver().named("openruter/auto")
    with pytest.raises(ModelUnavailableError) as unlike:
        resolver().named("nope/auto")
    assert "Did you mean" not in str(unlike.value)


@pytest.mark.parametrize("key", ["sk-\N{HORIZONTAL ELLIPSIS}", "sk\nx", "a\0"])
def test_a_key_that_was_copied_badly_is_told(key: str) -> None:
    with pytest.raises(ModelUnavailableError, match="characters that no key has"):
        resolver(OPENAI_API_KEY=key).named("openai")
    with pytest.raises(ModelUnavailableError, match="characters that no key has"):
        resolver({"mine": MINE | {"apiKey": key}}).named("mine/big")


@pytest.mark.parametrize(
    ("provider", "base_url", "api"),
    [
        ("anthropic", "https://api.anthropic.com/v1", "anthropic-messages"),
        ("anthropic", "https://api.anthropic.com/v1/", "anthropic-messages"),
        ("anthropic", "https://proxy.example/v1", "openai-completions"),
        ("openai", "https://api.openai.com/v1", "openai-responses"),
        (
            "google",
            "https://generativelanguage.googleapis.com/v1beta/openai",
            "openai-completions",
        ),
    ],
)
def test_a_file_from_before_the_formats_keeps_answering(
    provider: str, base_url: str, api: str
) -> None:
    """Configurations of an earlier page: an address and a key, without `api`."""
    written = {provider: {"baseUrl": base_url, "apiKey": "k"}}
    target = resolver(written).named(f"{provider}/some-model")
    assert (target.endpoint.api, target.info.api) == (api, api)
    assert (target.endpoint.base_url, target.endpoint.api_key) == (base_url, "k")
