"""Each wire format at its address, with its key, over a real socket."""

import json
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from pydantic import ValidationError

from scripts.requirements import ROOT
from skerry.config.models import ProviderConfig
from skerry.config.root import Config
from skerry.infra.features import WIRE_FORMATS
from skerry.infra.http import HttpClient
from skerry.model.errors import (
    ModelError,
    ModelNotFoundError,
    ModelRateLimitError,
    ModelUnavailableError,
    PluginError,
)
from skerry.model.message import user
from skerry.model.thinking import ThinkingLevel
from skerry.ports.model import History, ModelInfo, ModelReply, ModelRequest, ReplyListener
from skerry.providers.catalog import Catalog
from skerry.providers.model_apis import ModelApi, ModelApis
from skerry.providers.streaming_call import Endpoint
from skerry.sdk.api import PluginApi
from skerry.sdk.features import model_apis
from skerry.sdk.slots import model_parts
from skerry.testing.model import ScriptedModel
from skerry.testing.plugin import loaded_plugin
from tests.support.served import Served, serving
from tests.support.streams import REPLIES, recorded

WHERE = {
    "openai-completions": (
        "/v1",
        "POST /v1/chat/completions ",
        "authorization: Bearer sk-canary",
    ),
    "openai-responses": ("/v1", "POST /v1/responses ", "authorization: Bearer sk-canary"),
    "anthropic-messages": ("/v1", "POST /v1/messages ", "x-api-key: sk-canary"),
    "google-generative-ai": (
        "",
        "POST /v1beta/models/m:streamGenerateContent?alt=sse ",
        "x-goog-api-key: sk-canary",
    ),
}


async def ask(served: Served, api: str, base: str = "") -> ModelReply:
    headers = (("x-team", "home"),)
    endpoint = Endpoint("P", served.url + base, "sk-canary", api=api, headers=headers)
    model = ModelInfo("p", "m", "M", reasoning=True, api=api)
    request = ModelRequest(model, "", History([user("hi", 1)]), thinking=ThinkingLevel.HIGH)
    with anyio.fail_after(60):
        async with HttpClient() as http:
            return await model_apis().open(http, endpoint).complete(request, ReplyListener())


@pytest.mark.parametrize("api", WIRE_FORMATS)
async def test_a_format_is_asked_at_its_address_with_its_key(api: str) -> None:
    base, line, key = WHERE[api]
    async with serving(recorded(f"{api}/text")) as served:
        reply = await ask(served, api, base)
    assert reply == REPLIES[f"{api}/text"]
    ((head, body),) = served.requests
    assert head.startswith(line)
    assert key in head
    assert "x-team: home" in head
    assert "hi" in json.dumps(json.loads(body))


@pytest.mark.parametrize("base", ["/v1beta", "/v1beta/", "/v1"])
async def test_google_s_version_is_added_only_where_it_is_missing(base: str) -> None:
    async with serving(recorded("google-generative-ai/text")) as served:
        await ask(served, "google-generative-ai", base)
    assert served.requests[0][0].startswith(f"POST {base.rstrip('/')}/models/m:")


@pytest.mark.parametrize("api", WIRE_FORMATS)
async def test_a_key_is_in_no_error(api: str) -> None:
    body = b'{"error":{"code":429,"message":"slow down, sk-canary","details":[]}}'
    async with serving(body, "429 Slow\r\nretry-after: 7") as served:
        with pytest.raises(ModelError) as caught:
            await ask(served, api, "/v1")
    assert type(caught.value) is ModelRateLimitError
    assert caught.value.retry_after == 7.0
    assert "canary" not in str(caught.value)
    assert len(served.requests) == 1


@pytest.mark.parametrize("api", WIRE_FORMATS)
@pytest.mark.parametrize("in_list", [False, True])
async def test_an_error_in_a_200_keeps_the_provider_s_words(api: str, *, in_list: bool) -> None:
    body = b'{"error":{"message":"odd error in 200"}}'
    body = b"[%b]" % body if in_list else body
    async with serving(body, "200 OK\r\ncontent-type: application/json") as served:
        with pytest.raises(ModelError, match=r"odd error in 200$"):
            await ask(served, api, "/v1")


async def test_a_200_that_is_neither_a_stream_nor_an_error_is_a_wrong_address() -> None:
    body = b'{"error":null,"choices":[]}'
    async with serving(body, "200 OK\r\ncontent-type: application/json") as served:
        with pytest.raises(ModelNotFoundError, match="did not answer with a stream"):
            await ask(served, "openai-completions", "/v1")


PROVIDER = {"baseUrl": "http://127.0.0.1:9", "api": "brook.lines", "models": [{"id": "m"}]}


async def test_a_provider_in_the_format_of_a_plugin_is_called_while_the_plugin_is_loaded(
    tmp_path: Path,
) -> None:
    events = [b'{"add":"It flows."}', b'{"end":"stop","read":3,"wrote":2}']
    body = b"".join(b"data: %b\n\n" % event for event in events)
    with anyio.fail_after(60):
        async with (
            serving(body) as served,
            loaded_plugin(ROOT / "docs/examples/plugins/brook") as plugin,
            HttpClient() as http,
        ):
            providers = {"river": {**PROVIDER, "baseUrl": served.url}}
            config = Config.model_validate(
                {
                    "state_dir": tmp_path,
                    "path": tmp_path / "c.json",
                    "models": {"providers": providers},
                }
            )
            async with Catalog(config, http, {}, model_parts()) as catalog:
                with pytest.raises(ModelUnavailableError, match=r"'brook.lines' .*not registered"):
                    await catalog.choose("river/m")
                (api,) = plugin.plugins.registered["brook"].model_apis
                catalog.add_api(api)
                provider, info = await catalog.choose("river/m")
                request = ModelRequest(info, "be brief", History([user("hi", 1)]))
                reply = await provider.complete(request, ReplyListener())
                catalog.remove_api(api)
                with pytest.raises(ModelUnavailableError, match="not registered"):
                    await catalog.choose("river/m")
    assert reply.text == "It flows."
    ((head, sent),) = served.requests
    assert head.startswith("POST /brook ")
    assert json.loads(sent)["messages"] == [{"from": "user", "text": "hi"}]


def test_a_plugin_names_its_format_by_its_id_and_no_format_of_another() -> None:
    api = PluginApi("brook")
    with pytest.raises(PluginError, match=r"does not begin with 'brook\."):
        api.register_model_api(ModelApi("openai-completions", lambda *_: ScriptedModel([])))


async def test_a_format_whose_plugin_fails_is_unavailable_and_its_text_is_not_told() -> None:
    def broken(*_: object) -> ScriptedModel:
        raise ValueError("sk-canary")

    apis = ModelApis({})
    apis.add(ModelApi("brook.lines", broken))
    async with HttpClient() as http:
        with pytest.raises(ModelUnavailableError, match="ValueError") as caught:
            apis.open(http, Endpoint("P", "http://127.0.0.1:9", api="brook.lines"))
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("name", ["openai-completion", "brook", "brook.", "Brook.lines"])
def test_a_misspelt_format_is_refused_by_the_configuration(name: str) -> None:
    with pytest.raises(ValidationError, match="of a plugin"):
        ProviderConfig.model_validate({**PROVIDER, "api": name})


def test_a_start_imports_no_wire_format() -> None:
    code = (
        "import sys, skerry.app.build\n"
        "from skerry.sdk.slots import model_parts\n"
        "model_parts()\n"
        "formats = 'openai_completions', 'openai_responses', 'anthropic_messages'\n"
        "names = (*formats, 'google_generative_ai', 'embedded_model.model')\n"
        "names = tuple(f'skerry.features.{name}' for name in names)\n"
        "print([module for module in sys.modules if module.startswith(names)])\n"
    )
    completed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert completed.stdout.strip() == "[]"
