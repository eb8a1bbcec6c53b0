"""Keys, headers and passwords of an endpoint are sent as configured, and never shown."""

import json
from base64 import b64encode
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from skerry.features.openai_completions.provider import CompatProvider
from skerry.infra.http import HttpClient
from skerry.model.errors import ModelConnectionError, ModelError, ModelNotFoundError
from skerry.model.message import user
from skerry.ports.model import History, ModelInfo, ModelRequest, ReplyListener
from skerry.providers.streaming_call import Endpoint
from skerry.providers.text_filters import SecretFilter
from skerry.testing.model_server import Raw, StatusReply, StubModelServer


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    async with HttpClient() as client:
        with anyio.fail_after(60):
            yield client


def request() -> ModelRequest:
    return ModelRequest(ModelInfo("stub", "stub", "Stub"), "be brief", History([user("hi", 1)]))


async def test_the_key_is_not_printed() -> None:
    assert "secret" not in repr(Endpoint("P", "http://x", "secret"))


async def test_configured_headers_win_over_ours_however_they_are_spelt(
    http: HttpClient,
) -> None:
    async with StubModelServer() as stub:
        headers = (("Authorization", "Basic abc"), ("X-Org", "o"))
        await CompatProvider(http, Endpoint("P", stub.base_url, "key", headers=headers)).complete(
            request(), ReplyListener()
        )
        (seen,) = stub.requests
    assert (seen.headers["authorization"], seen.headers["x-org"]) == ("Basic abc", "o")


async def test_a_header_that_cannot_be_sent_is_not_told(http: HttpClient) -> None:
    async with StubModelServer() as stub:
        odd = Endpoint("P", stub.base_url, headers=(("x-api-key", " canary-secret"),))
        with pytest.raises(ModelConnectionError) as caught:
            await CompatProvider(http, odd).complete(request(), ReplyListener())
    assert "canary" not in str(caught.value)


async def test_a_password_in_the_address_is_not_told(http: HttpClient) -> None:
    async with StubModelServer([[StatusReply(200, b"{}")]]) as stub:
        url = stub.base_url.replace("://", "://me:canary-secret@")
        with pytest.raises(ModelNotFoundError, match="right address") as caught:
            await CompatProvider(http, Endpoint("P", url)).complete(request(), ReplyListener())
    assert "canary" not in str(caught.value)


async def test_a_password_in_the_address_is_sent_as_such(http: HttpClient) -> None:
    async with StubModelServer() as stub:
        url = stub.base_url.replace("://", "://me:pa%20ss@")
        await CompatProvider(http, Endpoint("P", url)).complete(request(), ReplyListener())
    expected = b64encode(b"me:pa ss").decode()
    assert stub.requests[0].headers["authorization"] == f"Basic {expected}"


async def test_no_secret_that_a_server_repeats_is_told(http: HttpClient) -> None:
    echoed = {"error": {"message": "bad key: sk-secret, team tm-secret"}}
    data = Raw(b"data: %b\n\n" % json.dumps(echoed).encode())
    said = b"data: %b\n\n" % json.dumps({"choices": [{"delta": {"content": "sk-secret"}}]}).encode()
    headers = (("Authorization", "Bearer tm-secret"), ("X-Title", "skerry"))
    texts: list[str] = []
    async with StubModelServer([[Raw(said), data]]) as stub:
        endpoint = Endpoint("Stub", stub.base_url, "sk-secret", headers=headers)
        with pytest.raises(ModelError, match=r"bad key: \*\*\*, team \*\*\*"):
            await CompatProvider(http, endpoint).complete(request(), ReplyListener(texts.append))
        assert texts == ["***"]
        sent = stub.requests[0].headers
    assert (sent["authorization"], sent["x-title"]) == ("Bearer tm-secret", "skerry")
    assert "secret" not in repr(endpoint)


@pytest.mark.parametrize("field", ["content", "reasoning_content"])
async def test_a_secret_that_comes_in_pieces_is_not_told_and_not_kept(
    http: HttpClient, field: str
) -> None:
    pieces = ["It is sk-", "sec", "ret, and no sk-", "boat or s"]
    events: list[dict[str, Any]]
    events = [{"choices": [{"delta": {field: piece}}]} for piece in pieces]
    events.append({"choices": [{"delta": {"content": "."}, "finish_reason": "stop"}]})
    steps = [Raw(b"data: %b\n\n" % json.dumps(event).encode()) for event in events]
    texts: list[str] = []
    thought: list[str] = []
    async with StubModelServer([steps]) as stub:
        endpoint = Endpoint("Stub", stub.base_url, "sk-secret")
        listener = ReplyListener(texts.append, thought.append)
        reply = await CompatProvider(http, endpoint).complete(request(), listener)
    text = "".join(texts if field == "content" else thought)
    assert text.removesuffix(".") == "It is ***, and no sk-boat or s"
    assert "sk-secret" not in repr(reply)
    assert "*** " not in text


def test_what_only_begins_like_a_secret_is_shown_when_it_is_none() -> None:
    hush = SecretFilter([b"sk-secret", b"token-of-mine"])
    shown = [hush.feed(one) for one in ("a sk-s", "ea, to", "ken-of-", "mine ", "sk-secre")]
    assert shown == ["a ", "sk-sea, ", "", "*** ", ""]
    assert hush.flush() == "sk-secre"
