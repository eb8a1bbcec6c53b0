"""Options of the plugin: every wrong value is named, and variables are replaced."""

from typing import Any

import pytest

from skerry.sdk.errors import PluginError
from skerry_memwal.options import parse

GOOD = {
    "privateKey": "E21D" + "0" * 56 + "ed9b",
    "accountId": "0x1234567890",
    "serverUrl": "http://x",
}


@pytest.mark.requirement("memwal-recall-min-relevance")
@pytest.mark.requirement("memwal-capture-window")
@pytest.mark.requirement("memwal-recall-max-results")
def test_the_defaults_are_those_of_the_reference() -> None:
    options = parse(GOOD, {})
    assert (options.default_namespace, options.auto_recall, options.auto_capture) == (
        "default",
        True,
        True,
    )
    assert (options.max_recall_results, options.min_relevance) == (5, 0.3)
    assert (options.capture_max_messages, options.recall_seconds) == (10, 3.0)


@pytest.mark.requirement("memwal-key-preview-masked")
def test_of_a_key_its_ends_alone_are_shown() -> None:
    assert parse(GOOD, {}).keys.preview == "e21d...ed9b"


@pytest.mark.parametrize("config", [None, {}, []])
def test_without_options_there_is_no_plugin(config: object) -> None:
    with pytest.raises(PluginError, match="memory-memwal: config is required"):
        parse(config, {})


@pytest.mark.requirement("memwal-config-private-key")
def test_every_wrong_option_is_named_at_once() -> None:
    wrong: dict[str, Any] = {
        "privateKey": "abc",
        "accountId": "12",
        "defaultNamespace": 'a"b',
        "autoRecall": 1,
        "maxRecallResults": 21,
        "minRelevance": True,
        "mode": "e2e2",
        "agents": {"a": {"privateKey": "1", "token": "2"}},
        "colour": "red",
    }
    with pytest.raises(PluginError) as caught:
        parse(wrong, {})
    assert str(caught.value).splitlines() == [
        "memory-memwal: invalid config:",
        "  - colour: is not an option of this plugin",
        "  - privateKey: must be a 64-character hex string (delegate key)",
        "  - accountId: must be a Sui object ID (0x...)",
        "  - serverUrl: Required",
        '  - defaultNamespace: must not contain quotes (") or newline characters',
        "  - autoRecall: must be a boolean",
        "  - maxRecallResults: must be a number between 1 and 20",
        "  - minRelevance: must be a number between 0 and 1",
        "  - mode: must be one of relayer, e2e",
        "  - agents.a.privateKey: must be a 64-character hex string (delegate key)",
        "  - agents.a.token: is not an option of an agent",
    ]


@pytest.mark.requirement("memwal-config-private-key")
@pytest.mark.requirement("memwal-env-private-key")
def test_a_variable_is_replaced_and_one_that_is_empty_is_named() -> None:
    given = {**GOOD, "privateKey": "${MEMWAL_PRIVATE_KEY}", "serverUrl": "http://${HOST}:8000/"}
    options = parse(given, {"MEMWAL_PRIVATE_KEY": "ab" * 32, "HOST": "localhost"})
    assert (options.keys.private_key, options.server_url) == ("ab" * 32, "http://localhost:8000")
    with pytest.raises(PluginError, match="Environment variable MEMWAL_PRIVATE_KEY is not set"):
        parse(given, {"MEMWAL_PRIVATE_KEY": "", "HOST": "localhost"})


@pytest.mark.requirement("memwal-crypto-isolation")
def test_an_agent_may_have_a_key_of_its_own() -> None:
    options = parse({**GOOD, "agents": {"coder": {"privateKey": "cd" * 32}}}, {})
    assert options.keys_of("coder").private_key == "cd" * 32
    assert options.keys_of("coder").account_id == GOOD["accountId"]
    assert options.keys_of("main") == options.keys
