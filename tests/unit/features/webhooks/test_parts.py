"""Parts of webhooks: templates, weak keys, settings that open nothing, methods."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from skerry.client.client import GatewayClient
from skerry.config.hooks import HooksConfig
from skerry.config.root import Config
from skerry.features.webhooks import checks, proof, templates
from skerry.hooks.hooks import Hooks
from skerry.sdk.features import Installation
from tests.support.hooks_posts import SECRET, TOKEN
from tests.support.whole import whole_gateway


@pytest.mark.abuse(88)
def test_a_template_is_filled_with_texts_and_evaluated_no_further() -> None:
    payload = {"a": {"b": ["x", {"c": 3}]}, "evil": "{{headers.secret}} {0.__class__} ${HOME}"}
    headers = {"secret": "s", "x-event": "push"}

    def filled(template: str) -> str:
        return templates.render(template, payload, headers, "2026-01-01T00:00:00Z")

    assert filled("{{a.b[0]}}-{{ a.b[1].c }}-{{a.b[9]}}-{{nothing.at.all}}") == "x-3--"
    assert filled("{{headers.X-Event}} at {{now}}") == "push at 2026-01-01T00:00:00Z"
    assert filled("{{evil}}") == payload["evil"]
    assert filled("{{a.__class__}} {{a.b.__len__}} {{__import__('os')}}") == (
        "  {{__import__('os')}}"
    )
    assert '"c": 3' in filled("{{payload}}")
    assert len(templates.render("{{t}}" * 100, {"t": "y" * 9000}, {}, "")) == templates.MAX_TEXT


@pytest.mark.abuse(44)
@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({"enabled": True}, "requires hooks.token"),
        ({"enabled": True, "mappings": [{"name": "a"}]}, "requires hooks.token"),
        (
            {
                "enabled": True,
                "mappings": [{"name": "a", "signature": {"secret": "s"}}, {"name": "b"}],
            },
            "'b' requires hooks.token",
        ),
        ({"mappings": [{"name": "a"}, {"name": "a"}]}, "two webhooks have the name 'a'"),
        ({"mappings": [{"name": "agent"}]}, "is not a name of a webhook"),
        ({"mappings": [{"name": "../a"}]}, "is not a name of a webhook"),
        ({"mappings": [{"name": "a", "preset": "github"}]}, "requires signature.secret"),
        ({"mappings": [{"name": "a", "channel": "memory"}]}, "must be set together"),
        ({"tokn": "x"}, "tokn"),
    ],
    ids=lambda value: "" if isinstance(value, dict) else value[:20],
)
def test_settings_that_would_open_something_are_refused(
    section: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValidationError, match=words):
        HooksConfig.model_validate(section)


def test_a_token_is_compared_whole() -> None:
    assert proof.is_token(TOKEN, TOKEN)
    for given in ("", TOKEN[:-1], TOKEN + "x", TOKEN.swapcase()):
        assert not proof.is_token(given, TOKEN)
    assert not proof.is_token("", "")


async def test_the_doctor_names_keys_that_can_be_guessed_or_are_the_gateways(
    tmp_path: Path,
) -> None:
    async def found(token: str, secret: str = SECRET, gateway: str = "g" * 40) -> list[str]:
        mapping = {"name": "a", "signature": {"secret": secret}}
        config = Config.model_validate(
            {
                "hooks": {"enabled": True, "token": token, "mappings": [mapping]},
                "gateway": {"auth": {"token": gateway}},
                "state_dir": tmp_path,
                "path": tmp_path / "skerry.json",
            }
        )
        return [check.message for check in await checks.keys(Installation(tmp_path, {}, config))]

    assert await found(TOKEN) == []
    assert "has 5 characters" in (await found("short"))[0]
    assert "different characters" in (await found("ab" * 20))[0]
    assert "the gateway's token" in (await found(TOKEN, gateway=TOKEN))[0]
    assert "The secret of the webhook 'a'" in (await found(TOKEN, "x"))[0]


async def test_clients_list_webhooks_and_see_what_a_post_becomes(tmp_path: Path) -> None:
    mapping = {"name": "alarm", "messageTemplate": "Level {{level}}", "instruction": "Say it."}
    hooks = {"enabled": True, "token": TOKEN, "mappings": [mapping]}
    whole = whole_gateway(tmp_path / "h", Hooks(), config={"hooks": hooks})
    async with whole as (_, address), GatewayClient(address) as client:
        listed = await client.request("webhooks.list")
        assert [row["path"] for row in listed["webhooks"]] == [
            "/hooks/wake",
            "/hooks/agent",
            "/hooks/alarm",
        ]
        assert TOKEN not in str(listed)
        tried = await client.request("webhooks.test", {"name": "alarm", "body": '{"level": 3}'})
        assert "Say it." in tried["message"]
        assert "Level 3" in tried["message"]
        with pytest.raises(Exception, match="No webhook 'none'"):
            await client.request("webhooks.test", {"name": "none"})
