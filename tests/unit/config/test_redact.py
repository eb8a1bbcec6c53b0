"""Secrets do not appear in any output."""

from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import SecretStr

from skerry.config.check import check
from skerry.config.redact import REDACTED, is_secret, public, redact, redact_config
from skerry.config.root import Config

CANARY = "canary-value"


NAMES = """
    token botToken apiKey api_key OPENAI_API_KEY password clientSecret private-key Authorization
    credentials webhookSecret Cookie
"""


@pytest.mark.parametrize("key", NAMES.split())
def test_a_value_under_the_name_of_a_secret_is_replaced(key: str) -> None:
    assert redact({"a": [{key: CANARY}]}) == {"a": [{key: REDACTED}]}


@pytest.mark.parametrize("key", ["maxTokens", "contextTokens", "tokenizer", "keyboard", "path"])
def test_a_name_that_only_resembles_one_is_left(key: str) -> None:
    assert not is_secret(key)


@pytest.mark.parametrize(
    "held",
    [
        pytest.param({"token": {"source": "env", "id": CANARY}}, id="an object"),
        pytest.param({"token": [CANARY]}, id="a list"),
        pytest.param({"headers": {"X-Anything": CANARY}}, id="headers"),
        pytest.param({"env": {"ANYTHING": CANARY}}, id="the environment"),
        pytest.param({"url": f"https://user:{CANARY}@host/v1"}, id="an address"),
        pytest.param({"url": f"https://host/v1?a=1&key={CANARY}&b=2"}, id="a query"),
    ],
)
def test_secrets_in_other_shapes_are_replaced(held: dict[str, Any]) -> None:
    assert CANARY not in str(redact(held))


def test_a_number_is_replaced_and_what_says_there_is_none_is_kept() -> None:
    assert redact({"password": 1234, "token": None, "secret": ""}) == {
        "password": REDACTED,
        "token": None,
        "secret": "",
    }


def test_a_checked_configuration_shows_its_defaults_and_no_secret() -> None:
    tree = {
        "gateway": {"auth": {"token": CANARY * 3}},
        "models": {"providers": {"p": {"baseUrl": "http://h/v1", "apiKey": CANARY}}},
        "other": {"x": {"botToken": CANARY}},
    }
    config, _ = check(tree, state_dir=Path("/s"), path=Path("/s/c"))
    shown = redact_config(config)
    assert isinstance(shown, dict)
    assert (shown["gateway"]["port"], shown["gateway"]["auth"]["token"]) == (18789, REDACTED)
    assert CANARY not in str(shown)


def secrets_of(kind: Any) -> set[str]:
    """Returns the names of all fields beneath a section that hold a secret."""
    if hasattr(kind, "model_fields"):
        fields = kind.model_fields.items()
        own = {
            field.alias or name for name, field in fields if SecretStr in types(field.annotation)
        }
        return own.union(*(secrets_of(field.annotation) for _, field in fields))
    return set().union(*(secrets_of(arg) for arg in get_args(kind)))


def types(annotation: Any) -> set[Any]:
    return {annotation, *get_args(annotation)}


def test_every_secret_field_of_the_configuration_has_a_name_that_is_redacted() -> None:
    names = secrets_of(Config)
    assert {"token", "apiKey"} <= names
    assert all(redact({name: "x"}) == {name: REDACTED} for name in names)


HIDDEN = [
    pytest.param(
        {"secrets": {"providers": {"p": {"source": "exec", "args": ["--key", CANARY]}}}},
        id="what a program is called with",
    ),
    *(
        pytest.param({"plugins": {"entries": {"p": {"config": {key: CANARY}}}}}, id=f"plugin {key}")
        for key in ("webhook", "apiSecretKey", "clientSecretValue", "pat", "auth", "pass", "pwd")
    ),
    pytest.param(
        {"plugins": {"entries": {"p": {"config": {"a": [{"b": 4711}, CANARY]}}}}},
        id="plugin in a list",
    ),
    pytest.param(
        {"models": {"providers": {"p": {"baseUrl": f"https://h/v1/{CANARY}-4711/x"}}}},
        id="path of an address",
    ),
    pytest.param(
        {"models": {"providers": {"p": {"baseUrl": f"https://h/v1?code={CANARY}"}}}},
        id="query of an address",
    ),
    pytest.param({"somethingNew": {"x": CANARY}}, id="unknown section"),
    pytest.param({"agents": {"defaults": {"somethingNew": CANARY}}}, id="unknown key"),
]


@pytest.mark.parametrize("tree", HIDDEN)
def test_of_a_configuration_only_what_is_known_to_be_public_is_shown(tree: dict[str, Any]) -> None:
    shown = str(public(tree))
    assert CANARY not in shown
    assert "4711" not in shown


PUBLIC = [
    {"gateway": {"port": 18790, "bind": "loopback"}},
    {"models": {"providers": {"p": {"baseUrl": "https://openrouter.ai/api/v1"}}}},
    {"agents": {"list": [{"id": "main", "name": "Bo", "model": "openai/gpt-5.4-mini"}]}},
    {"agents": {"defaults": {"model": {"primary": "p/m", "fallbacks": ["q/m"]}}}},
    {"plugins": {"entries": {"p": {"enabled": True, "config": {"on": True, "off": None}}}}},
    {"meta": {"lastTouchedVersion": "0.1.0"}},
]


@pytest.mark.parametrize("tree", PUBLIC)
def test_what_is_declared_is_shown_as_it_is(tree: dict[str, Any]) -> None:
    assert public(tree) == tree
