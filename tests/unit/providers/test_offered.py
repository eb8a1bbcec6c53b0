"""What providers say of their models: read with tolerance, kept for minutes, within limits."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import SocketStream

from skerry.infra.http import HttpClient
from skerry.model.errors import ModelAuthError, ModelError, ModelRequestError
from skerry.model.unanswered import ModelSilentError, ModelUnreachableError
from skerry.ports.model import ModelSetup
from skerry.providers import offered as offered_module
from skerry.providers.model_apis import USUAL
from skerry.providers.model_catalog import REPORTED, Facts, address_of
from skerry.providers.offered import (
    FAILED_SECONDS,
    FRESH_SECONDS,
    LIST_BYTES,
    MAX_MODELS,
    Answers,
    Offered,
    answer,
    ask,
    parse,
)
from skerry.providers.streaming_call import Endpoint
from skerry.sdk.features import model_apis
from skerry.testing.model_server import StubModelServer
from tests.support.sockets import listening

from .test_catalog import catalog, config

KEY = "sk-canary-0123456789"
USUAL_API = model_apis().get(USUAL)


def parsed(*entries: Any, under: str | None = "data") -> list[Offered]:
    found = parse(json.dumps({under: entries} if under else entries).encode())
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("entry", "under", "window", "sees"),
    [
        ({"id": "gpt"}, "data", None, None),
        ({"id": "g", "context_window": 131_072}, "data", 131_072, None),
        ({"id": "v", "max_model_len": 4096}, "data", 4096, None),
        ({"id": "t", "type": "chat", "context_length": 8192}, None, 8192, None),
        (
            {
                "id": "maker/m",
                "context_length": 1_000_000,
                "top_provider": {"context_length": 262_144},
                "architecture": {"input_modalities": ["text", "image"]},
            },
            "data",
            262_144,
            True,
        ),
        (
            {"id": "mistral-s", "max_context_length": 131_072, "capabilities": {"vision": False}},
            "data",
            131_072,
            False,
        ),
        (
            {
                "id": "claude",
                "type": "model",
                "max_input_tokens": 200_000,
                "capabilities": {"image_input": {"supported": True}},
            },
            "data",
            200_000,
            True,
        ),
        (
            {
                "name": "models/gemini",
                "displayName": "Gemini",
                "inputTokenLimit": 1_048_576,
                "supportedGenerationMethods": ["generateContent"],
            },
            "models",
            1_048_576,
            None,
        ),
    ],
)
def test_the_lists_of_all_kinds_of_servers_are_read(
    entry: dict[str, Any], under: str | None, window: int | None, sees: object
) -> None:
    (offered,) = parsed(entry, under=under)
    assert offered.id == str(entry.get("id", entry.get("name"))).removeprefix("models/")
    assert (offered.context_window, offered.sees) == (window, sees)


def test_what_converses_with_nobody_is_left_out() -> None:
    others: list[Any] = [
        {"id": "text-embedding-3-small"},
        {"id": "whisper-1"},
        {"id": "tts-1-hd"},
        {"id": "e", "type": "embedding"},
        {"id": "o", "capabilities": {"completion_chat": False}},
        {"name": "models/aqa", "supportedGenerationMethods": ["generateAnswer"]},
    ]
    assert [offered.id for offered in parsed(*others, {"id": "gpt"})] == ["gpt"]


def test_nonsense_in_a_list_harms_nobody() -> None:
    wrong: list[Any] = [
        None,
        7,
        [],
        {},
        {"id": 5},
        {"id": ""},
        {"id": "x" * 300},
        {"id": "a\nb"},
        {"id": "fine", "context_length": -4, "capabilities": [], "architecture": 3, "name": {}},
        {"id": "fine"},
    ]
    (offered,) = parsed(*wrong)
    assert offered == Offered("fine")
    for body in (b"", b"[", b"7", b'{"data":{}}', b"[" * 5000):
        assert parse(body) is None
    assert len(parsed(*({"id": str(number)} for number in range(5000)))) == MAX_MODELS


async def test_each_format_is_asked_in_its_way() -> None:
    async with StubModelServer() as server, HttpClient() as http:
        base = server.base_url
        for api in ("openai-completions", "anthropic-messages", "google-generative-ai"):
            assert await ask(http, model_apis().get(api), Endpoint("X", base, KEY, api=api)) == [
                Offered("stub")
            ]
        first, second, third = server.requests
    assert (first.path, first.headers["authorization"]) == ("/v1/models", f"Bearer {KEY}")
    assert (second.path, second.headers["x-api-key"]) == ("/v1/models?limit=1000", KEY)
    assert (third.path, third.headers["x-goog-api-key"]) == ("/v1/models?pageSize=1000", KEY)


def served(response: bytes) -> Any:
    """Answers a request with these bytes."""

    async def serve(stream: SocketStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(response)

    return listening(serve)


@pytest.mark.parametrize(
    ("head", "body", "kind"),
    [
        (b"401 No", b'{"error":{"message":"no such key: %b"}}' % KEY.encode(), ModelAuthError),
        (b"302 There", b"", ModelError),
        (b"200 OK", b"<html>", ModelRequestError),
        (b"200 OK", b"x" * (LIST_BYTES + 1), ModelUnreachableError),
    ],
)
async def test_what_is_no_list_is_a_failure_without_the_key(
    head: bytes, body: bytes, kind: type[ModelError]
) -> None:
    answered = b"HTTP/1.1 %b\r\ncontent-length: %d\r\n\r\n%b" % (head, len(body), body)
    async with served(answered) as port, HttpClient() as http:
        caught = await answer(
            http, USUAL_API, Endpoint("X", f"http://127.0.0.1:{port}/v1", KEY), {}, int
        )
    assert isinstance(caught, kind)
    assert KEY not in str(caught)


async def test_a_server_that_is_silent_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offered_module, "ASK_SECONDS", 0.05)

    async def silent(stream: SocketStream) -> None:
        async with stream:
            await anyio.sleep_forever()

    async with listening(silent) as port, HttpClient() as http:
        with pytest.raises(ModelSilentError):
            await ask(http, USUAL_API, Endpoint("X", f"http://127.0.0.1:{port}/v1"))


async def test_an_answer_holds_for_minutes_and_a_failure_for_half_a_one() -> None:
    now, kept = [0.0], Answers()
    async with StubModelServer() as server, HttpClient() as http:
        there = Endpoint("X", server.base_url)
        for now[0] in (0.0, FRESH_SECONDS - 1, FRESH_SECONDS):
            assert await answer(http, USUAL_API, there, kept, lambda: now[0]) == [Offered("stub")]
        assert len(server.requests) == 2
        away = Endpoint("Y", "http://127.0.0.1:9/v1")
        first = await answer(http, USUAL_API, away, kept, lambda: now[0])
        assert await answer(http, USUAL_API, away, kept, lambda: now[0]) is first
        now[0] += FAILED_SECONDS
        assert await answer(http, USUAL_API, away, kept, lambda: now[0]) is not first


def test_what_a_provider_said_is_known_after_a_restart_and_below_the_lists(tmp_path: Path) -> None:
    said = [Offered("m", context_window=8192, sees=True), Offered("bare")]
    Facts(tmp_path).learn("http://me:secret@lab.example/v1/", said)
    facts = Facts(tmp_path)
    fact = facts.of("lab", "m", "http://lab.example/v1")
    assert (fact.context_window, fact.input) == (8192, ("text", "image"))
    assert facts.of("lab", "m", "http://other.example/v1").context_window is None
    assert b"secret" not in (tmp_path / REPORTED).read_bytes()
    own = {"providers": {"lab": {"models": {"m": {"contextWindow": 4096}}}}}
    (tmp_path / "models.json").write_text(json.dumps(own))
    assert Facts(tmp_path).of("lab", "m", "http://lab.example/v1").context_window == 4096
    (tmp_path / REPORTED).write_bytes(b"[" * 9000)
    assert Facts(tmp_path).of("lab", "m", "http://lab.example/v1").context_window == 4096
    assert address_of("http://h/v1/") == "http://h/v1"


async def test_a_provider_that_is_away_leaves_what_is_known(tmp_path: Path) -> None:
    away = {"openai": {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": KEY}}
    async with catalog(config(tmp_path, models={"providers": away})) as models:
        offering = await models.offered()
        one = await models.offered(ModelSetup("openai"))
    assert "openai/gpt-5.4-mini" in [info.ref for info in offering.models]
    assert [info.ref for info in one.models if info.ref == "openai/gpt-5.4-mini"]
    (problem,) = offering.problems
    assert "Cannot ask OpenAI at 127.0.0.1 for its models" in problem


async def test_a_key_that_is_kept_is_sent_to_its_own_address_only(tmp_path: Path) -> None:
    async with StubModelServer() as own, StubModelServer() as other:
        lab = {"lab": {"baseUrl": own.base_url, "apiKey": KEY}}
        async with catalog(config(tmp_path, models={"providers": lab})) as models:
            for setup in (
                ModelSetup("lab"),
                ModelSetup("lab", base_url=other.base_url),
                ModelSetup("lab", base_url=other.base_url, api_key="sk-new-01234567"),
                ModelSetup("", base_url=other.base_url + "/more"),
            ):
                offering = await models.offered(setup)
                assert [info.id for info in offering.models] == ["stub"]
        sent = [
            request.headers.get("authorization") for request in (*own.requests, *other.requests)
        ]
    assert sent == [f"Bearer {KEY}", None, "Bearer sk-new-01234567", None]


async def test_what_the_file_does_not_allow_is_not_listed(tmp_path: Path) -> None:
    async with StubModelServer() as server:
        server.models = [{"id": "one"}, {"id": "two"}]
        lab = {"lab": {"baseUrl": server.base_url, "models": [{"id": "one"}]}}
        async with catalog(config(tmp_path, models={"providers": lab})) as models:
            offering = await models.offered()
    assert [info.ref for info in offering.models] == ["lab/one"]
